//! One thread's share of a session: its engine and its connections.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use base::{CpuSet, Nanos, Seed, monotonic_now};
use ledger::Counts;
use netio::{Engine, Failure};
use rustix::thread::{sched_setaffinity, sched_yield, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use spec::Mode;

use crate::alarm::Alarm;
use crate::conn::{Conn, Link};
use crate::deck::{Choices, Deck};
use crate::lines::LineWriter;
use crate::live::LiveCounts;
use crate::observe::{ConnectionsLimit, LimitedBy};
use crate::pacer::Pacer;
use crate::response::{ExpectedResponse, ProbeBody, ReceivedResponse, ResponseEnd};
use crate::schedule::{ArrivalQueue, Budget};
use crate::slice::{LoopStart, Slice, StopFlag, ThreadShare};
use crate::slice_counts::{SliceCounts, SliceTimes};
use crate::slice_run::{OneWay, RequestSource, SliceRun, SliceSetup, TURN_MAX};
use crate::stall_count::StallCount;
use crate::values::{SessionValues, ValueList};
use crate::{Fault, Observation};

/// How long a slice waits for its connections before it starts without the missing ones.
const PREPARE_MAX: Nanos = Nanos::from_secs(1);

/// How long to wait after a slice for a server to close the connections that it said it would close.
const CLOSING_MAX: Nanos = Nanos::from_millis(5);

/// Pause before the next attempt when the accept queue is full.
const RETRY: Nanos = Nanos::from_micros(500);

/// How long a slice that is stopped by the user waits for outstanding requests.
const STOP_DRAIN: Nanos = Nanos::from_secs(1);

/// Where the threads of a slice wait for each other. A thread that fails opens it for good.
#[derive(Debug)]
pub(crate) struct Gate {
    missing: Mutex<usize>,
    change: Condvar,
}

impl Gate {
    /// Opens when `threads` threads have arrived.
    pub(crate) fn new(threads: usize) -> Gate {
        Gate { missing: Mutex::new(threads), change: Condvar::new() }
    }

    fn missing(&self) -> MutexGuard<'_, usize> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all have arrived.
    fn wait(&self) {
        let mut missing = self.missing();
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.change.notify_all();
        }
        while *missing > 0 {
            missing = self.change.wait(missing).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens for all threads: one will not arrive.
    fn open(&self) {
        *self.missing() = 0;
        self.change.notify_all();
    }
}

/// The orders of a slice, for all its threads.
pub(crate) struct Orders {
    pub(crate) slice: Slice,
    /// The only kind of request to send, if it is given.
    pub(crate) only_kind: Option<usize>,
    /// By kind of request.
    pub(crate) expected: Vec<ExpectedResponse>,
    /// Whether events in responses are counted.
    pub(crate) events: bool,
    /// Values of responses that later requests use, if there are any.
    pub(crate) values: Option<SessionValues>,
    pub(crate) budget: Budget,
    pub(crate) timeout: Nanos,
    /// Whether each request uses a new connection.
    pub(crate) one_request: bool,
    /// Whether connections are opened before the slice, not with their first request.
    pub(crate) opens_ahead: bool,
    /// Whether only the end of a stream is acknowledged, and not each request.
    pub(crate) acknowledged_at_end: bool,
    pub(crate) step: Nanos,
    pub(crate) stop: StopFlag,
    /// Where the counts can be read meanwhile.
    pub(crate) live: Option<Arc<LiveCounts>>,
    pub(crate) seed: Seed,
    pub(crate) cpus: CpuSet,
    /// Threads of this slice.
    pub(crate) threads: u32,
    /// These threads among those of all clients, if there are others.
    pub(crate) among: Option<ThreadShare>,
    /// The instant at which the slice is to begin, if one was agreed.
    pub(crate) begin: Option<Nanos>,
    /// What limits the number of connections.
    pub(crate) limited_by: LimitedBy,
    /// Where all threads meet when their connections are open.
    pub(crate) ready: Gate,
    /// Set when a thread has failed, so that the others do not finish a slice that is lost.
    pub(crate) failed: AtomicBool,
    /// The instant at which the slice began, set by the first thread to pass the gate.
    pub(crate) start: OnceLock<Nanos>,
}

impl Orders {
    /// A thread has failed: the others must neither wait for it nor continue.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.ready.open();
    }

    /// The source of one thread's requests.
    fn source(&self, index: u32) -> RequestSource<'_> {
        let Mode::Open { rate_per_s, arrivals } = self.slice.mode else {
            return RequestSource::Closed(&self.budget);
        };
        let share = self.slice.requests.map(|requests| {
            let threads = u64::from(self.threads);
            requests / threads + u64::from(u64::from(index) < requests % threads)
        });
        let ThreadShare { first, all } =
            self.among.unwrap_or(ThreadShare { first: 0, all: self.threads });
        RequestSource::Open(ArrivalQueue::new(
            Pacer::new(arrivals, rate_per_s, first + index, all, self.seed),
            share,
        ))
    }

    /// The instants of a slice. Where nothing answers, the whole slice is the window, from its start
    /// until everything has arrived: when a single message arrived is unknown.
    fn times(&self, start: Nanos, one_way: bool) -> SliceTimes {
        let lead_end = start + self.slice.lead_in;
        let window_end = match self.slice.requests {
            Some(_) => Nanos(u64::MAX),
            None => lead_end + self.slice.window,
        };
        let lead_end = if one_way { start } else { lead_end };
        SliceTimes { start, lead_end, window_end, step: self.step, until_last: one_way }
    }
}

#[cfg(test)]
impl Orders {
    /// Orders of a slice for a single thread, whose connections are kept.
    fn of_one_thread(slice: Slice, expected: ExpectedResponse) -> Orders {
        Orders {
            slice,
            only_kind: None,
            expected: vec![expected],
            events: false,
            values: None,
            budget: Budget::new(slice.requests),
            timeout: Nanos::from_secs(60),
            one_request: false,
            opens_ahead: true,
            acknowledged_at_end: false,
            step: Nanos::from_millis(1),
            stop: StopFlag::default(),
            live: None,
            seed: Seed(1),
            cpus: CpuSet::default(),
            threads: 1,
            among: None,
            begin: None,
            limited_by: LimitedBy::default(),
            ready: Gate::new(1),
            failed: AtomicBool::new(false),
            start: OnceLock::new(),
        }
    }
}

/// The result of one thread.
pub(crate) struct ThreadResult {
    pub(crate) observation: Observation,
    /// The fault of a failed request, if there was one.
    pub(crate) fault: Option<Fault>,
    /// What was received of the last response on the first connection.
    pub(crate) seen: ReceivedResponse,
    /// The body of the response, if requested and not too long.
    pub(crate) kept: Option<Vec<u8>>,
    /// Whether the first connection can carry another request.
    pub(crate) stays_open: bool,
    /// The values of its responses.
    pub(crate) values: ValueList,
}

/// One thread's engine and connections, kept between slices.
pub(crate) struct Worker<E> {
    engine: E,
    conns: Vec<Conn>,
    index: u32,
    /// What is sent.
    deck: Deck,
    /// Writes the messages, if they are lines.
    lines: Option<LineWriter>,
}

impl<E: Engine> Worker<E> {
    /// A worker with one connection per response reader.
    pub(crate) fn new(engine: E, answers: Vec<ResponseEnd>, index: u32) -> Worker<E> {
        let conns = answers.into_iter().map(Conn::new).collect();
        let deck = Deck::new(Arc::new(Choices::single(false)), Seed(0), 0);
        Worker { engine, conns, index, deck, lines: None }
    }

    /// Sends the requests of a deck, instead of a single message.
    pub(crate) fn with_deck(self, deck: Deck) -> Worker<E> {
        Worker { deck, ..self }
    }

    /// Sends messages of lines.
    pub(crate) fn with_lines(self, lines: Option<LineWriter>) -> Worker<E> {
        Worker { lines, ..self }
    }

    /// The engine and a run of the first `active` connections.
    fn new_run<'a>(
        &'a mut self,
        orders: &'a Orders,
        active: usize,
        kept: Option<&'a mut ProbeBody>,
    ) -> (&'a mut E, SliceRun<'a>) {
        let open_loop = matches!(orders.slice.mode, Mode::Open { .. });
        let acknowledged = orders.acknowledged_at_end;
        let one_way = self.lines.as_mut().map(|writer| OneWay { writer, acknowledged });
        let times = orders.times(Nanos::ZERO, one_way.is_some());
        let setup = SliceSetup {
            source: orders.source(self.index),
            deck: &mut self.deck,
            only_kind: orders.only_kind,
            expected: &orders.expected,
            events: orders.events,
            timeout: orders.timeout,
            one_request: orders.one_request,
            values: orders.values.as_ref(),
            kept,
            active,
            one_way,
            start: orders.slice.start,
            rng: orders.seed.derive("loop", u64::from(self.index)).rng("phases"),
        };
        let continued = orders.slice.start != LoopStart::Fresh && !open_loop;
        let stalls = StallCount::new(orders.slice.stalled_after);
        let kinds = orders.expected.len();
        let counts = SliceCounts::new(open_loop, if continued { active } else { 0 }, stalls, kinds);
        let run = SliceRun::new(&mut self.conns, counts, times, setup);
        (&mut self.engine, run)
    }

    /// Opens the first connection without sending anything.
    pub(crate) fn open_first(&mut self, orders: &Orders) -> io::Result<Result<(), Failure>> {
        let (engine, mut run) = self.new_run(orders, 1, None);
        prepare(engine, &mut run, orders, orders.timeout)?;
        let refusal = run.refusal;
        Ok(match self.conns[0].link {
            Link::Closed => Err(refusal.unwrap_or(Failure::Reset)),
            Link::Connecting => {
                self.engine.wire().close(0);
                self.conns[0].link = Link::Closed;
                Err(Failure::ConnectTimeout)
            }
            _ => Ok(()),
        })
    }

    /// Runs one slice on this thread, on the first `active` connections; an open loop may use all
    /// others too. With `keep_max`, the result has a body of up to that many bytes.
    pub(crate) fn run(
        &mut self,
        orders: &Orders,
        active: usize,
        keep_max: Option<usize>,
    ) -> io::Result<ThreadResult> {
        let mut body = keep_max.map(ProbeBody::new);
        let placed = place(&orders.cpus, self.index);
        let cpu_before = thread_cpu();
        let before = self.engine.wire().traffic();
        let one_way = self.lines.is_some();
        let (engine, mut run) = self.new_run(orders, active, body.as_mut());
        let prepared = if orders.opens_ahead {
            prepare(engine, &mut run, orders, orders.timeout.min(PREPARE_MAX))
        } else {
            Ok(())
        };
        // Every thread comes here, even after an error, because the others wait.
        orders.ready.wait();
        placed.and(prepared)?;
        orders.begin.into_iter().for_each(wait_until);
        run.times = orders.times(*orders.start.get_or_init(monotonic_now), one_way);
        load(engine, &mut run, orders)?;
        run.settle();
        let end = monotonic_now();
        close_retired(engine, &mut run)?;
        run.shrink(engine.wire());
        let (used, most) = (run.used as u32, run.used_max as u32);
        let (times, slice_counts) = (run.times, run.slice_counts);
        let fault = slice_counts.errors.keys().next().copied();
        let after = self.engine.wire().traffic();
        let cpu = thread_cpu().saturating_sub(cpu_before);
        let mut observation = slice_counts.finish(&times, end, before, after, cpu);
        observation.connections_max_used = used;
        observation.connections_limit =
            ConnectionsLimit { connections: most, by: orders.limited_by };
        let kept = body.and_then(ProbeBody::into_body);
        let first = &self.conns[0];
        Ok(ThreadResult {
            observation,
            fault,
            seen: first.seen,
            kept,
            stays_open: first.stays_open(),
            values: first.values.list().clone(),
        })
    }

    /// Closes every connection; returns the kinds of the last requests on those that received bytes
    /// after their last response.
    pub(crate) fn close(&mut self, orders: &Orders) -> Vec<u32> {
        let active = self.conns.len();
        let (engine, mut run) = self.new_run(orders, active, None);
        // If the kernel reports an error now, the connections are closed below anyway.
        let _ = engine.turn(Nanos::ZERO, &mut run);
        let mut tainted = Vec::new();
        for (slot, conn) in self.conns.iter_mut().enumerate() {
            tainted.extend((conn.link == Link::Tainted).then_some(conn.card.kind));
            conn.link = Link::Closed;
            self.engine.wire().close(slot);
        }
        tainted
    }
}

/// Processes what happened to idle connections, then opens the missing ones.
///
/// Each is tried once. Only a full accept queue is waited for: many connections at once overflow a
/// short backlog, and none of them has a request yet.
fn prepare<E: Engine>(
    engine: &mut E,
    run: &mut SliceRun<'_>,
    orders: &Orders,
    limit: Nanos,
) -> io::Result<()> {
    let until = monotonic_now() + limit;
    engine.turn(Nanos::ZERO, run)?;
    let mut next = 0;
    loop {
        run.refusal = run.refusal.filter(|failure| *failure != Failure::AcceptQueueFull);
        while next < run.setup.active && run.refusal != Some(Failure::AcceptQueueFull) {
            if run.conns[next].link == Link::Closed {
                run.connect(engine.wire(), next);
            }
            next += usize::from(run.refusal != Some(Failure::AcceptQueueFull));
        }
        let all_tried = next == run.setup.active;
        let left = until.saturating_sub(monotonic_now());
        let active = &run.conns[..run.setup.active];
        let pending = active.iter().any(|conn| conn.link == Link::Connecting);
        let is_over = orders.stop.load(Ordering::Relaxed) || orders.failed.load(Ordering::Relaxed);
        if left == Nanos::ZERO || is_over || all_tried && !pending {
            return Ok(());
        }
        engine.turn(left.min(if all_tried { TURN_MAX } else { RETRY }), run)?;
    }
}

/// Loads until the slice is over, and drains.
fn load<E: Engine>(engine: &mut E, run: &mut SliceRun<'_>, orders: &Orders) -> io::Result<()> {
    let (mut drain_end, mut alarm) = (None, Alarm::new());
    let mut stopped_at: Option<Nanos> = None;
    let mut reported = Counts::default();
    run.begin(engine.wire());
    while !run.is_over() && !orders.failed.load(Ordering::Relaxed) {
        if orders.stop.load(Ordering::Relaxed) {
            let now = monotonic_now();
            run.stop(now);
            stopped_at.get_or_insert(now);
        }
        run.tick(engine.wire());
        let mut wait = run.idle_for(alarm.margin());
        if run.stopping {
            let now = monotonic_now();
            let planned = *drain_end.get_or_insert_with(|| now + orders.slice.drain);
            let end = stopped_at.map_or(planned, |at| planned.min(at + STOP_DRAIN));
            if now >= end {
                break;
            }
            wait = wait.min(end.saturating_sub(now));
        }
        if run.is_over() {
            break;
        }
        turn(engine, run, wait, &mut alarm)?;
        if let Some(live) = &orders.live {
            live.add(&reported, &run.slice_counts.counts);
            reported = run.slice_counts.counts;
        }
    }
    run.abandon(engine.wire());
    Ok(())
}

/// Waits briefly until the server has closed the connections that it said it would close, and closes
/// the rest.
///
/// A server that closes its side first waits for ours before it serves the next connection: gunicorn's
/// sync worker for up to two seconds. A thread that stopped before it saw that would delay the requests
/// of the other threads, and of the next slice.
fn close_retired<E: Engine>(engine: &mut E, run: &mut SliceRun<'_>) -> io::Result<()> {
    let until = monotonic_now() + CLOSING_MAX;
    while engine.wire().retired() > 0 {
        let left = until.saturating_sub(monotonic_now());
        if left == Nanos::ZERO {
            engine.wire().close_retired();
        }
        engine.turn(left, run)?;
    }
    Ok(())
}

/// One turn. The alarm learns from an idle turn of an open loop how late the kernel wakes it. In
/// the last microseconds before an arrival the thread yields the CPU while there is nothing to do.
fn turn<E: Engine>(
    engine: &mut E,
    run: &mut SliceRun<'_>,
    wait: Nanos,
    alarm: &mut Alarm,
) -> io::Result<()> {
    if !run.awaits_arrivals() {
        return engine.turn(wait, run);
    }
    let wait = alarm.nap(wait);
    let (began, before) = (monotonic_now(), engine.wire().traffic());
    engine.turn(wait, run)?;
    if engine.wire().traffic() == before {
        if wait == Nanos::ZERO {
            sched_yield();
        } else {
            alarm.slept(wait, monotonic_now().saturating_sub(began));
        }
    }
    Ok(())
}

/// Pins the calling thread to its CPU and makes its timers as exact as possible.
fn place(cpus: &CpuSet, index: u32) -> io::Result<()> {
    // One nanosecond instead of the usual 50 µs, which would make every open loop late (prctl(2),
    // PR_SET_TIMERSLACK). If that is forbidden, the recorded lateness shows it.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    let count = cpus.iter().count();
    if count == 0 {
        return Ok(());
    }
    if let Some(cpu) = cpus.iter().nth(index as usize % count) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|errno| {
            io::Error::other(format!("a client thread cannot run on CPU {cpu}: {errno}"))
        })?;
    }
    Ok(())
}

/// The end of a wait that is spent awake: the kernel may wake a thread this late.
const AWAKE: Nanos = Nanos::from_micros(100);

/// Waits until an instant of the monotonic clock.
fn wait_until(instant: Nanos) {
    let nap = instant.saturating_sub(monotonic_now() + AWAKE);
    if nap > Nanos::ZERO {
        std::thread::sleep(nap.into());
    }
    while monotonic_now() < instant {
        sched_yield();
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod suite;
