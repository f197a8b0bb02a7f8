//! A session: connections to one target that stay open between slices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use base::{CpuSet, Nanos, Seed};
use http2::Http2;
use ledger::{Counts, Errors, add_errors};
use netio::{Address, Engine, Epoll, Failure, RETIRED_MAX, Setup, Uring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use spec::{Check, Exchange, Expect, HttpVersion, Load, Mode, Target};
use tls::Tls;

use crate::Fault;
use crate::choice::{self, EngineKind};
use crate::client_thread::ClientThread;
use crate::deck::Deck;
use crate::error::{self, DriveError};
use crate::histogram::SparseHistogram;
use crate::kinds::{KindCounts, merge_kinds};
use crate::lines::LineWriter;
use crate::live::LiveCounts;
use crate::observe::{LearnedResponse, LimitedBy, Observation};
use crate::outbox::Outbox;
use crate::response::{ExpectedResponse, ResponseEnd};
use crate::schedule::Budget;
use crate::slice::{LoopStart, Slice, StopFlag, ThreadShare};
use crate::values::SessionValues;
use crate::worker::{Gate, Orders, ThreadResult};

/// Options of a session, apart from its load.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPUs for the client threads, round robin; empty for no pinning.
    pub cpus: CpuSet,
    /// Seed of the arrivals.
    pub seed: Seed,
    /// The step of `completed_by_step`.
    pub step: Nanos,
    /// Ends slices early.
    pub stop: StopFlag,
    /// The threads among those of all clients, if others load the same target.
    pub among: Option<ThreadShare>,
}

#[cfg(test)]
impl Options {
    /// Options of tests: no pinning, steps of 10 ms.
    pub(crate) fn of_tests() -> Options {
        Options {
            cpus: CpuSet::default(),
            seed: Seed(1),
            step: Nanos::from_millis(10),
            stop: StopFlag::default(),
            among: None,
        }
    }
}

/// Longer timeouts are as good as none, and would overflow when added to an instant.
const TIMEOUT_MAX: Nanos = Nanos::from_secs(86_400 * 365);

/// Limit on a body that a probe learns byte by byte.
const LEARN_MAX_BYTES: usize = 512 << 20;

/// Requests of each kind from which the response is learned.
const PROBES: usize = 3;

/// A body that differs in more than this share of the responses varies; one that differs less often
/// is wrong when it does.
pub const DEVIATING_SHARE: f64 = 0.01;

/// A body that varies has a constant length only if at least so many responses agree in it: a counter
/// in it has the same number of digits for a while.
const SAME_LENGTH_MIN: u64 = 100;

/// Counts over the life of a session, including probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// All requests.
    pub counts: Counts,
    /// Failures by kind.
    pub errors: Errors,
    /// The same for each kind of request, if there are several.
    pub kinds: Vec<KindCounts>,
}

impl Life {
    /// Adds those of another session.
    pub fn merge(&mut self, other: &Life) {
        self.counts.merge(&other.counts);
        add_errors(&mut self.errors, &other.errors);
        merge_kinds(&mut self.kinds, &other.kinds);
    }
}

/// Connections to one target, with the counts of the session's whole life.
pub struct Session {
    target: Target,
    load: Load,
    options: Options,
    engine: EngineKind,
    client_threads: Vec<ClientThread>,
    /// What limits the number of connections.
    limited_by: LimitedBy,
    /// By kind of request.
    expected: Vec<ExpectedResponse>,
    /// What the probes of each kind of request showed, and what was learned since then; empty before
    /// the probes.
    learned: Vec<LearnedResponse>,
    /// Requests of each kind that completed before deviations were learned from.
    completed_before: Vec<u64>,
    /// Whether the server keeps connections open after a response, as far as the probes show.
    keeps_open: bool,
    /// Values of responses that later requests use, if there are any.
    values: Option<SessionValues>,
    life: Life,
    /// Where the counts can be read during a slice.
    live: Option<Arc<LiveCounts>>,
    /// Number of slices so far, so that each has different random arrivals.
    slices: u64,
    /// When the last slice began.
    begun: Option<Nanos>,
}

impl Session {
    /// Resolves the target and opens the first connection; the first slice opens the others.
    ///
    /// Tries each address of a name once, in the resolver's order. If the load needs more open
    /// files than the soft limit allows, raises it up to the hard one.
    pub fn open(target: &Target, load: &Load, options: &Options) -> Result<Session, DriveError> {
        error::check_fit(target, load)?;
        let (connections_max, limited_by) = allow_files(load)?;
        let addresses = Address::resolve(target.endpoint()).map_err(|error| {
            DriveError::Unreachable(format!("cannot connect to {target}: {error}"))
        })?;
        let outbox = Outbox::new(target, load);
        let tls = target
            .server_name()
            .map(|name| tls::Client::new(&load.tls, name, protocol(load.http)))
            .transpose()
            .map_err(|error| DriveError::Unfit(error.to_string()))?;
        let mut session = Session {
            target: target.clone(),
            load: Load { timeout: load.timeout.min(TIMEOUT_MAX), ..load.clone() },
            options: options.clone(),
            engine: EngineKind::Epoll,
            client_threads: Vec::new(),
            limited_by,
            expected: ExpectedResponse::of_load(load, &outbox.messages),
            learned: Vec::new(),
            completed_before: Vec::new(),
            keeps_open: true,
            values: outbox.values.clone().map(SessionValues::new),
            life: Life::default(),
            live: None,
            slices: 0,
            begun: None,
        };
        let mut failure = Failure::Unreachable;
        for address in addresses {
            session.engine = choice::choose(load, &address, target.server_name().is_some())
                .map_err(|error| DriveError::Unfit(error.to_string()))?;
            session.client_threads = client_threads(
                session.engine,
                &address,
                load,
                connections_max,
                &outbox,
                &tls,
                options,
            )
            .map_err(|error| error::own(&error))?;
            match session.open_first()? {
                Ok(()) => return Ok(session),
                Err(_) if session.is_stopped() => return Err(DriveError::Stopped),
                Err(why) => failure = why,
            }
        }
        Err(error::unreachable(target, failure, session.load.timeout))
    }

    /// Sends three probes of each kind of request, one after another. What they agree on is the
    /// expected response from then on, except where the load's `Expect` specifies it. The probes are in the ledger. Can be
    /// called once; without it only `Expect` is checked.
    ///
    /// If the server closed its connection after each of the three, later slices open connections
    /// only together with a request. A server that serves one connection after another, as
    /// gunicorn's sync worker does, would otherwise wait for a request on a connection that was
    /// opened ahead, and leave the requests on the others unanswered.
    ///
    /// A probe without a complete response is an error; one with a status or body that violates
    /// `Expect` is counted as failed.
    pub fn learn(&mut self) -> Result<LearnedResponse, DriveError> {
        for kind in 0..self.expected.len() {
            let learned = self.learn_kind(kind)?;
            self.learned.push(learned);
        }
        self.learned().ok_or_else(|| DriveError::Unfit("a probe was not answered".to_owned()))
    }

    fn learn_kind(&mut self, kind: usize) -> Result<LearnedResponse, DriveError> {
        let (mut learned, mut same_length) = (LearnedResponse::default(), true);
        let mut first: Option<Probe> = None;
        for turn in 0..PROBES {
            // Keep no more than the first body can be compared with.
            let first_body = first.as_ref().map(|first| first.body.as_ref().map_or(0, Vec::len));
            let next = self.probe(kind, first_body.unwrap_or(LEARN_MAX_BYTES))?;
            self.keeps_open = next.keeps_open || kind + turn > 0 && self.keeps_open;
            learned.status = learned.status.or(next.status);
            // From the second probe on, another status is a failure.
            self.expected[kind].learn(&learned);
            match &first {
                _ if next.is_failed_call => {}
                None => first = Some(next),
                Some(first) => {
                    same_length &= next.length == first.length;
                    learned.varies |= next.length != first.length
                        || first.body.is_some() && next.body != first.body;
                }
            }
        }
        // The first body is what later ones are compared with if the load demands that.
        let check = self.expect(kind).check;
        let compares = |level, agreed| check.map_or(agreed, |check| check >= level);
        let Some(first) = first else {
            return match check {
                Some(Check::Length | Check::Body) => Err(error::no_success(&self.target)),
                _ => Ok(learned),
            };
        };
        learned.length = Some(first.length).filter(|_| compares(Check::Length, same_length));
        learned.body = first.body.filter(|_| compares(Check::Body, !learned.varies));
        self.expected[kind].learn(&learned);
        Ok(learned)
    }

    /// What the load says about the responses to a kind of request.
    fn expect(&self, kind: usize) -> &Expect {
        self.load.kinds.get(kind).map_or(&self.load.expect, |kind| &kind.expect)
    }

    /// What was learned of all kinds; `None` before the probes.
    fn learned(&self) -> Option<LearnedResponse> {
        let (first, others) = self.learned.split_first()?;
        if others.is_empty() {
            return Some(first.clone());
        }
        Some(LearnedResponse {
            status: first.status.filter(|_| others.iter().all(|kind| kind.status == first.status)),
            varies: self.learned.iter().any(|kind| kind.varies),
            kinds: self.learned.clone(),
            ..LearnedResponse::default()
        })
    }

    /// Completed requests of a kind.
    fn completed(&self, kind: usize) -> u64 {
        self.life.kinds.get(kind).map_or(self.life.counts, |kind| kind.counts).completed
    }

    /// Learns from the following slices too, until [`Session::settle`]: a response with the right
    /// status and framing whose body differs from the probes' completes. Has no effect if the load
    /// specifies what to compare, or nothing of the body is compared.
    pub fn keep_learning(&mut self) {
        for kind in 0..self.expected.len() {
            if self.expected[kind].is_learned(self.expect(kind)) {
                self.expected[kind].tolerate();
            }
        }
        self.completed_before = (0..self.expected.len()).map(|kind| self.completed(kind)).collect();
    }

    /// Whether deviations are learned from.
    pub fn is_learning(&self) -> bool {
        self.expected.iter().any(ExpectedResponse::tolerates)
    }

    /// Ends what [`Session::keep_learning`] began, and returns the response as learned so far;
    /// `None` without probes.
    ///
    /// If more than [`DEVIATING_SHARE`] of the responses deviated, the body varies and is no longer
    /// compared, nor is its length if that ever differed, or if there were fewer than 100 responses.
    /// If fewer deviated, they were wrong: they move from completed to failed.
    pub fn settle(&mut self) -> Option<LearnedResponse> {
        (0..self.learned.len()).for_each(|kind| self.settle_kind(kind));
        self.learned()
    }

    fn settle_kind(&mut self, kind: usize) {
        let Some(deviations) = self.expected[kind].end_tolerance() else { return };
        let (body, length) = deviations.counts();
        let before = self.completed_before.get(kind).copied().unwrap_or_default();
        let answers = self.completed(kind).saturating_sub(before);
        let learned = &mut self.learned[kind];
        learned.varies |= (body + length) as f64 > DEVIATING_SHARE * answers as f64;
        if learned.varies {
            learned.body = None;
            let is_same_length = length == 0 && answers >= SAME_LENGTH_MIN;
            learned.length = learned.length.filter(|_| is_same_length);
            self.expected[kind].narrow(learned.check());
        } else {
            self.retract(kind, Fault::BodyDiffers, body);
            self.retract(kind, Fault::LengthDiffers, length);
        }
    }

    /// Moves requests of a kind from completed to failed.
    fn retract(&mut self, kind: usize, fault: Fault, requests: u64) {
        let retracted = requests.min(self.completed(kind));
        if retracted == 0 {
            return;
        }
        let Life { counts, errors, kinds } = &mut self.life;
        let of_kind = kinds.get_mut(kind).map(|kind| (&mut kind.counts, &mut kind.errors));
        for (counts, errors) in [(counts, errors)].into_iter().chain(of_kind) {
            counts.completed -= retracted;
            counts.failed += retracted;
            *errors.entry(fault.kind()).or_default() += retracted;
        }
    }

    /// Loads the target for one slice, then drains.
    ///
    /// In an open loop, an arrival that finds no free connection gets a new one, up to the load's
    /// `connections_max`; these are closed at the end of the slice. Beyond that limit, arrivals
    /// wait in a queue of at most 1,048,576 per thread; an arrival is dropped if the queue is full,
    /// or if the window ends before it could be sent.
    ///
    /// With `requests` set, the slice lasts until each has completed or failed. After a failed
    /// connection attempt a connection pauses for 1 ms.
    pub fn run(&mut self, slice: &Slice) -> Result<Observation, DriveError> {
        self.run_at(slice, None)
    }

    /// The same, but begins at the given instant of [`base::monotonic_now`], or at once if the
    /// connections are open only later.
    pub fn run_at(
        &mut self,
        slice: &Slice,
        begin: Option<Nanos>,
    ) -> Result<Observation, DriveError> {
        let mut results = self.slice(slice, usize::MAX, begin, None, None)?.into_iter();
        let Some(ThreadResult { mut observation, .. }) = results.next() else {
            return Err(DriveError::Unfit("a session has at least one thread".to_owned()));
        };
        results.for_each(|result| observation.merge(result.observation));
        self.count(&observation);
        Ok(observation)
    }

    /// Also adds all further counts to `live` as they change.
    pub fn watch(&mut self, live: Arc<LiveCounts>) {
        self.live = Some(live);
    }

    /// When the last slice began, by [`base::monotonic_now`]; `None` before the first one.
    pub fn begun(&self) -> Option<Nanos> {
        self.begun
    }

    /// The I/O backend.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// Counts over the session's life so far, including probes.
    pub fn life(&self) -> Life {
        self.life.clone()
    }

    /// Closes every connection in an orderly way and returns the counts of the session's life.
    ///
    /// A response followed by unexpected bytes is wrong: if that is detected only now, it moves
    /// from completed to failed.
    pub fn close(mut self) -> Life {
        let orders = self.idle_orders();
        let tainted: Vec<u32> = self
            .client_threads
            .iter_mut()
            .flat_map(|client_thread| client_thread.close(orders.clone()))
            .collect();
        tainted.iter().for_each(|kind| self.retract(*kind as usize, Fault::SurplusBytes, 1));
        self.life
    }

    fn open_first(&mut self) -> Result<Result<(), Failure>, DriveError> {
        let orders = self.idle_orders();
        self.client_threads[0].open_first(orders).map_err(|error| error::own(&error))
    }

    /// Orders for work without requests.
    fn idle_orders(&self) -> Arc<Orders> {
        Arc::new(self.orders(&Slice { requests: Some(0), ..one_request() }, 1, 0, None, None))
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    /// One request of a kind on the first connection: the response, with its body if that has at most
    /// `keep_max` bytes.
    fn probe(&mut self, kind: usize, keep_max: usize) -> Result<Probe, DriveError> {
        let results = self.slice(&one_request(), 1, None, Some(kind), Some(keep_max))?;
        let mut probed = Err(DriveError::Unfit("a probe was not answered".to_owned()));
        for result in results {
            self.count(&result.observation);
            if let Some(values) = &mut self.values {
                values.begin_with(result.values);
            }
            probed = match result.fault {
                Some(Fault::NoValue) => {
                    let kind = &self.load.kinds[kind];
                    Err(error::no_value(&self.target, kind, result.seen.status))
                }
                Some(fault) if !is_verdict(fault) => {
                    Err(error::no_answer(&self.target, fault, self.load.timeout))
                }
                None if result.observation.counts.completed == 0 => Err(DriveError::Stopped),
                _ => {
                    let status = (result.seen.status > 0).then_some(result.seen.status);
                    Ok(Probe {
                        status,
                        body: result.kept,
                        length: result.seen.bytes,
                        keeps_open: result.stays_open,
                        is_failed_call: matches!(result.fault, Some(Fault::Grpc(_))),
                    })
                }
            };
        }
        probed
    }

    /// Runs a slice on every thread, with at most `active` connections in all, from the instant
    /// `begin` on, with requests of all kinds or of a single one.
    fn slice(
        &mut self,
        slice: &Slice,
        active: usize,
        begin: Option<Nanos>,
        only_kind: Option<usize>,
        keep_max: Option<usize>,
    ) -> Result<Vec<ThreadResult>, DriveError> {
        if let Mode::Open { rate_per_s, .. } = slice.mode
            && !(rate_per_s.is_finite() && rate_per_s > 0.0)
        {
            return Err(DriveError::Unfit(format!(
                "the rate of an open loop must be above zero, not {rate_per_s}"
            )));
        }
        self.slices += 1;
        let used = self.client_threads.len().min(active);
        let orders = Arc::new(self.orders(slice, used, self.slices, begin, only_kind));
        let client_threads = &mut self.client_threads[..used];
        for client_thread in &mut *client_threads {
            client_thread.run(orders.clone(), client_thread.connections().min(active), keep_max);
        }
        let results: Vec<_> = client_threads.iter_mut().map(ClientThread::ran).collect();
        self.begun = orders.start.get().copied();
        results.into_iter().map(|result| result.map_err(|error| error::own(&error))).collect()
    }

    /// The orders of the session's `serial`-th slice for its first `client_threads` threads.
    fn orders(
        &self,
        slice: &Slice,
        client_threads: usize,
        serial: u64,
        begin: Option<Nanos>,
        only_kind: Option<usize>,
    ) -> Orders {
        let Session { load, options, .. } = self;
        let one_request = load.new_connection || load.exchange == Exchange::Oneshot;
        Orders {
            slice: *slice,
            only_kind,
            expected: self.expected.clone(),
            events: load.events,
            values: self.values.clone(),
            budget: Budget::new(slice.requests),
            timeout: load.timeout,
            one_request,
            opens_ahead: !one_request && self.keeps_open,
            acknowledged_at_end: !self.target.endpoint().is_datagram(),
            step: options.step,
            stop: options.stop.clone(),
            live: self.live.clone(),
            seed: options.seed.derive("slice", serial),
            cpus: options.cpus.clone(),
            threads: client_threads as u32,
            among: options.among,
            begin,
            limited_by: self.limited_by,
            ready: Gate::new(client_threads),
            failed: AtomicBool::new(false),
            start: OnceLock::new(),
        }
    }

    fn count(&mut self, observation: &Observation) {
        self.life.counts.merge(&observation.counts);
        add_errors(&mut self.life.errors, &observation.errors);
        merge_kinds(&mut self.life.kinds, &observation.kinds);
        // Their times are those of slices, and would be added up here without need.
        self.life.kinds.iter_mut().for_each(|kind| kind.times = SparseHistogram::default());
    }
}

/// Files besides the connections: epolls, standard streams, the record.
const FILES_BESIDE: u64 = 64;

/// Raises the soft limit on open files if the load's connections need it. Returns the limit on
/// connections and its cause.
fn allow_files(load: &Load) -> Result<(u32, LimitedBy), DriveError> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let (connections_max, limited_by) = connections_within(load, most)?;
    // A connection of HTTP/2 that the server is ending has a successor already.
    let each = if load.http == HttpVersion::Http2 { 2 } else { 1 };
    let connections = u64::from(connections_max).div_ceil(u64::from(load.streams.max(1)));
    let needed = each * connections + lingering_sockets(load) + FILES_BESIDE;
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit { current: Some(needed.min(most)), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|errno| error::own(&errno.into()))?;
    }
    Ok((connections_max, limited_by))
}

/// Sockets besides the connections that wait for their peer to close.
fn lingering_sockets(load: &Load) -> u64 {
    u64::from(load.threads) * if load.new_connection { RETIRED_MAX as u64 } else { 0 }
}

/// The limit on requests in progress if `most` files may be open; streams share one.
fn connections_within(load: &Load, most: u64) -> Result<(u32, LimitedBy), DriveError> {
    let streams = u64::from(load.streams.max(1));
    let connections = u64::from(load.connections) / streams;
    if connections + FILES_BESIDE > most {
        return Err(error::too_many_files(connections, most));
    }
    let wanted = load.connections_max.unwrap_or(0).max(load.connections);
    let room = most.saturating_sub(FILES_BESIDE + lingering_sockets(load)).max(connections);
    match u32::try_from(room.saturating_mul(streams)) {
        Ok(room) if room < wanted => Ok((room, LimitedBy::OpenFiles)),
        _ => Ok((wanted, LimitedBy::Load)),
    }
}

/// The response to one probe.
struct Probe {
    /// The status, for HTTP.
    status: Option<u16>,
    /// The body, unless it was too long to keep.
    body: Option<Vec<u8>>,
    /// The length of the body.
    length: u64,
    /// Whether the server kept the connection open.
    keeps_open: bool,
    /// Whether it answered a call by a failure, which shows nothing about other answers.
    is_failed_call: bool,
}

/// Whether a fault is about a complete response.
fn is_verdict(fault: Fault) -> bool {
    use Fault::{BodyDiffers, Grpc, LengthDiffers, Status};
    matches!(fault, Status(_) | BodyDiffers | LengthDiffers | Grpc(_))
}

fn one_request() -> Slice {
    Slice {
        mode: Mode::Closed,
        start: LoopStart::Fresh,
        lead_in: Nanos::ZERO,
        window: Nanos::ZERO,
        requests: Some(1),
        drain: Nanos::ZERO,
        stalled_after: None,
    }
}

/// The protocols to choose from (ALPN).
fn protocol(version: HttpVersion) -> &'static [&'static str] {
    match version {
        HttpVersion::Http1 => &["http/1.1"],
        HttpVersion::Http2 => &["h2"],
    }
}

/// Creates the client threads and spreads the connections over them without losing the remainder.
fn client_threads(
    engine: EngineKind,
    address: &Address,
    load: &Load,
    connections_max: u32,
    outbox: &Outbox,
    tls: &Option<tls::Client>,
    options: &Options,
) -> std::io::Result<Vec<ClientThread>> {
    let streams = load.streams.max(1);
    let threads = load.threads.min(load.connections / streams).max(1);
    let answer = ResponseEnd::new(load, address, outbox.choices.kinds());
    let now_s = base::timestamp_now().as_second().unsigned_abs();
    (0..threads)
        .map(|client_thread| {
            // Slots that share a connection stay together.
            let share = |all: u32| {
                let all = all / streams;
                ((all / threads + u32::from(client_thread < all % threads)) * streams) as usize
            };
            let (connections, slots) = (share(load.connections), share(connections_max));
            let setup = Setup {
                busy_poll: load.busy_poll,
                linger_zero: load.linger_zero,
                ..Setup::of_messages(address.clone(), outbox.messages.clone(), slots)
            };
            let first = options.among.map_or(0, |share| share.first);
            let deck = Deck::new(outbox.choices.clone(), options.seed, first + client_thread);
            let answers = (0..slots).map(|_| answer.another()).collect();
            let lines = match &load.exchange {
                Exchange::Lines(lines) => {
                    Some(LineWriter::new(lines, client_thread, threads, now_s))
                }
                _ => None,
            };
            let (tls, http2) = (tls.clone(), outbox.http2.clone());
            let (streams, one_request) = (streams as usize, load.new_connection);
            let make = move || -> std::io::Result<Box<dyn Engine>> {
                let mut setup = setup;
                if http2.is_some() {
                    setup.slots = Http2::<Epoll>::slots_below(slots, streams);
                }
                let mut engine: Box<dyn Engine> = match engine {
                    EngineKind::Epoll => Box::new(Epoll::new(&setup)?),
                    EngineKind::IoUring => {
                        Box::new(Uring::new(&setup).map_err(choice::unavailable)?)
                    }
                };
                if let Some(client) = tls {
                    engine = Box::new(Tls::new(engine, client, &setup));
                }
                if let Some(requests) = http2 {
                    engine = Box::new(Http2::new(engine, requests, slots, streams, one_request));
                }
                Ok(engine)
            };
            ClientThread::start(make, answers, connections, client_thread, deck, lines)
        })
        .collect()
}

#[cfg(test)]
mod tests;
