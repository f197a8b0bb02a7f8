//! One thread's share of a session: its engine and its connections.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Barrier, OnceLock};

use base::{Clock, CpuSet, MonotonicClock, Nanos, Seed};
use netio::{Engine, Failure, Wire};
use rustix::thread::{sched_setaffinity, sched_yield, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use spec::Mode;

use crate::alarm::Alarm;
use crate::answer::{Answer, Expected, Seen};
use crate::pacer::Pacer;
use crate::run::{Conn, Link, Run, Source, TURN_MAX, Work};
use crate::schedule::{Arriving, Budget};
use crate::session::{Slice, StopFlag};
use crate::tally::{Tally, Times};
use crate::{Fault, Observation};

/// How long a slice waits for its connections before it begins without those that are missing.
const PREPARE_MAX: Nanos = Nanos::from_secs(1);

/// How long a full accept queue is given before the next try.
const RETRY: Nanos = Nanos::from_micros(500);

/// What every thread of a slice is told.
pub(crate) struct Orders {
    pub(crate) slice: Slice,
    pub(crate) expected: Expected,
    pub(crate) budget: Budget,
    pub(crate) timeout: Nanos,
    /// Whether each request gets a connection of its own.
    pub(crate) one_request: bool,
    pub(crate) step: Nanos,
    pub(crate) stop: StopFlag,
    pub(crate) seed: Seed,
    pub(crate) cpus: CpuSet,
    /// Threads of this slice.
    pub(crate) lanes: u32,
    /// Where all threads meet when their connections are open.
    pub(crate) ready: Barrier,
    /// The instant at which the slice began, set by the first to leave the barrier.
    pub(crate) start: OnceLock<Nanos>,
}

impl Orders {
    /// Where the requests of one thread come from.
    fn source(&self, lane: u32) -> Source<'_> {
        let Mode::Open { rate_per_s, arrivals } = self.slice.mode else {
            return Source::Closed(&self.budget);
        };
        let share = self.slice.requests.map(|requests| {
            let lanes = u64::from(self.lanes);
            requests / lanes + u64::from(u64::from(lane) < requests % lanes)
        });
        Source::Open(Arriving::new(
            Pacer::new(arrivals, rate_per_s, lane, self.lanes, self.seed),
            share,
        ))
    }

    fn times(&self, start: Nanos) -> Times {
        let lead_end = start + self.slice.lead_in;
        let window_end = match self.slice.requests {
            Some(_) => Nanos(u64::MAX),
            None => lead_end + self.slice.window,
        };
        Times { start, lead_end, window_end, step: self.step }
    }
}

/// What one thread brings back.
pub(crate) struct Share {
    pub(crate) observation: Observation,
    /// The fault of a request that failed, if any did.
    pub(crate) fault: Option<Fault>,
    /// What was seen of the last answer on the first connection.
    pub(crate) seen: Seen,
    /// The bodies of the answers, where they were to be kept.
    pub(crate) kept: Vec<u8>,
}

/// One thread's engine and connections, kept between slices.
pub(crate) struct Worker<E> {
    engine: E,
    conns: Vec<Conn>,
    lane: u32,
}

impl<E: Engine> Worker<E> {
    /// A worker with one connection for each answer reader.
    pub(crate) fn new(engine: E, answers: Vec<Answer>, lane: u32) -> Worker<E> {
        Worker { engine, conns: answers.into_iter().map(Conn::new).collect(), lane }
    }

    /// Opens the first connection, without sending anything.
    pub(crate) fn open_first(&mut self, orders: &Orders) -> io::Result<Result<(), Failure>> {
        let mut run = new_run(&mut self.conns[..1], orders, self.lane, None);
        prepare(&mut self.engine, &mut run, orders.timeout)?;
        let refusal = run.refusal;
        Ok(match self.conns[0].link {
            Link::Open => Ok(()),
            Link::Closed => Err(refusal.unwrap_or(Failure::Reset)),
            Link::Connecting => {
                self.engine.wire().close(0);
                self.conns[0].link = Link::Closed;
                Err(Failure::ConnectTimeout)
            }
        })
    }

    /// Runs one slice on this thread, on the first `active` connections. With `keep` the bodies of
    /// the answers are brought back.
    pub(crate) fn run(&mut self, orders: &Orders, active: usize, keep: bool) -> io::Result<Share> {
        let mut bodies = Vec::new();
        let kept = keep.then_some(&mut bodies);
        let placed = place(&orders.cpus, self.lane);
        let cpu_before = thread_cpu();
        let before = self.engine.wire().traffic();
        let mut run = new_run(&mut self.conns[..active], orders, self.lane, kept);
        let prepared = if orders.one_request {
            Ok(())
        } else {
            prepare(&mut self.engine, &mut run, orders.timeout.min(PREPARE_MAX))
        };
        // Every thread comes here, whatever went wrong: the others wait.
        orders.ready.wait();
        placed.and(prepared)?;
        run.times = orders.times(*orders.start.get_or_init(|| MonotonicClock.now()));
        load(&mut self.engine, &mut run, orders)?;
        let end = MonotonicClock.now();
        let (times, tally) = (run.times, run.tally);
        let fault = tally.errors.keys().next().copied();
        let after = self.engine.wire().traffic();
        let cpu = thread_cpu().saturating_sub(cpu_before);
        let observation = tally.finish(&times, end, before, after, cpu);
        Ok(Share { observation, fault, seen: self.conns[0].seen, kept: bodies })
    }

    /// Closes every connection; the number of those on which bytes had come after their last answer.
    pub(crate) fn close(&mut self, orders: &Orders) -> u64 {
        let mut run = new_run(&mut self.conns, orders, self.lane, None);
        // Whatever the kernel refuses now, the connections are closed below.
        let _ = self.engine.turn(Nanos::ZERO, &mut run);
        let mut tainted = 0;
        for (slot, conn) in self.conns.iter_mut().enumerate() {
            tainted += u64::from(conn.link == Link::Open && conn.tainted);
            conn.link = Link::Closed;
            self.engine.wire().close(slot);
        }
        tainted
    }
}

fn new_run<'a>(
    conns: &'a mut [Conn],
    orders: &'a Orders,
    lane: u32,
    kept: Option<&'a mut Vec<u8>>,
) -> Run<'a> {
    let open_loop = matches!(orders.slice.mode, Mode::Open { .. });
    let work = Work {
        source: orders.source(lane),
        expected: &orders.expected,
        timeout: orders.timeout,
        one_request: orders.one_request,
        kept,
    };
    Run::new(conns, Tally::new(open_loop), orders.times(Nanos::ZERO), work)
}

/// Takes note of what happened to idle connections, then opens those that are missing.
///
/// Each is tried once. Only a full accept queue is waited for: many connections
/// at once overrun a short backlog, and no request is on them yet.
fn prepare<E: Engine>(engine: &mut E, run: &mut Run<'_>, limit: Nanos) -> io::Result<()> {
    let until = MonotonicClock.now() + limit;
    engine.turn(Nanos::ZERO, run)?;
    let mut next = 0;
    loop {
        run.refusal = run.refusal.filter(|failure| *failure != Failure::AcceptQueueFull);
        while next < run.conns.len() && run.refusal != Some(Failure::AcceptQueueFull) {
            if run.conns[next].link == Link::Closed {
                run.connect(engine.wire(), next);
            }
            next += usize::from(run.refusal != Some(Failure::AcceptQueueFull));
        }
        let all_tried = next == run.conns.len();
        let left = until.saturating_sub(MonotonicClock.now());
        let pending = run.conns.iter().any(|conn| conn.link == Link::Connecting);
        if left == Nanos::ZERO || all_tried && !pending {
            return Ok(());
        }
        engine.turn(left.min(if all_tried { TURN_MAX } else { RETRY }), run)?;
    }
}

/// Loads until the slice is over, and drains.
fn load<E: Engine>(engine: &mut E, run: &mut Run<'_>, orders: &Orders) -> io::Result<()> {
    let (mut drain_end, mut alarm) = (None, Alarm::new());
    run.begin(engine.wire());
    while !run.is_over() {
        if orders.stop.load(Ordering::Relaxed) {
            run.stop(MonotonicClock.now());
        }
        run.tick(engine.wire());
        let mut wait = run.idle_for(alarm.margin());
        if run.stopping {
            let now = MonotonicClock.now();
            let end = *drain_end.get_or_insert_with(|| now + orders.slice.drain);
            if now >= end {
                break;
            }
            wait = wait.min(end.saturating_sub(now));
        }
        if run.is_over() {
            break;
        }
        turn(engine, run, wait, &mut alarm)?;
    }
    run.abandon(engine.wire());
    Ok(())
}

/// One turn. Of an idle one of an open loop the alarm learns how late the kernel wakes; while there
/// is nothing to do in the last microseconds before an arrival, whoever else wants the CPU gets it.
fn turn<E: Engine>(
    engine: &mut E,
    run: &mut Run<'_>,
    wait: Nanos,
    alarm: &mut Alarm,
) -> io::Result<()> {
    if !run.awaits_arrivals() {
        return engine.turn(wait, run);
    }
    let wait = alarm.nap(wait);
    let (began, before) = (MonotonicClock.now(), engine.wire().traffic());
    engine.turn(wait, run)?;
    if engine.wire().traffic() == before {
        if wait == Nanos::ZERO {
            sched_yield();
        } else {
            alarm.slept(wait, MonotonicClock.now().saturating_sub(began));
        }
    }
    Ok(())
}

/// Pins the calling thread to its CPU and lets its timers be as exact as the kernel can.
fn place(cpus: &CpuSet, lane: u32) -> io::Result<()> {
    // One nanosecond instead of the usual 50 µs, which would make every open loop late (prctl(2),
    // PR_SET_TIMERSLACK). Where it is forbidden, the lateness that is recorded shows it.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    let count = cpus.iter().count();
    if count == 0 {
        return Ok(());
    }
    if let Some(cpu) = cpus.iter().nth(lane as usize % count) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|errno| {
            io::Error::other(format!("a client thread cannot run on CPU {cpu}: {errno}"))
        })?;
    }
    Ok(())
}

/// CPU time that the calling thread has used.
fn thread_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod suite;
