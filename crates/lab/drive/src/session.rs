//! Connections to one target, kept between slices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use base::{CpuSet, Nanos, Seed};
use ledger::{Counts, Errors};
use netio::{Address, Epoll, Failure, RETIRED_MAX, Setup, Uring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spec::{Exchange, Load, Mode, Target};

use crate::Fault;
use crate::answer::{Answer, Expected};
use crate::choice::{self, EngineKind};
use crate::client_thread::ClientThread;
use crate::error;
use crate::http::request_bytes;
use crate::live::Live;
use crate::observe::{Learned, LimitedBy, Observation};
use crate::schedule::Budget;
use crate::slice::{Slice, StopFlag};
use crate::slice_counts::{add_errors, merge};
use crate::worker::{Gate, Orders, Share};

/// How a session runs, apart from what it sends.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs that client threads are pinned to, round robin; empty for no pinning.
    pub cpus: CpuSet,
    /// Seed of the arrivals.
    pub seed: Seed,
    /// The step of `completed_by_step`.
    pub step: Nanos,
    /// Ends slices early.
    pub stop: StopFlag,
}

/// The client could not do its work at all; answers that are wrong are counted instead.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Nothing could be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The load does not fit the target.
    #[error("{0}")]
    Unfit(String),
    /// The run was stopped before the target had answered.
    #[error("stopped before the first responses")]
    Stopped,
}

/// Longer timeouts are as good as none, and would overflow when added to an instant.
const TIMEOUT_MAX: Nanos = Nanos::from_secs(86_400 * 365);

/// The largest body that a probe learns byte by byte.
const LEARN_MAX_BYTES: usize = 512 << 20;

/// Connections to one target and the counts of their whole life.
pub struct Session {
    target: Target,
    load: Load,
    options: Options,
    engine: EngineKind,
    client_threads: Vec<ClientThread>,
    /// What limits the number of connections.
    limited_by: LimitedBy,
    expected: Expected,
    /// Whether the server keeps a connection after its answer, as far as probes have shown.
    keeps_open: bool,
    counts: Counts,
    errors: Errors,
    /// Where the counts can be read while a slice runs, if they are wanted.
    live: Option<Arc<Live>>,
    /// Slices so far, so that each draws arrivals of its own.
    slices: u64,
}

impl Session {
    /// Resolves the target and opens the first connection; the others are opened by the first slice.
    ///
    /// A name with several addresses is tried in the resolver's order, once. Where more open files
    /// are needed than the soft limit allows, it is raised towards the hard one.
    pub fn open(target: &Target, load: &Load, options: &Options) -> Result<Session, DriveError> {
        error::check_fit(target, load)?;
        let (connections_max, limited_by) = allow_files(load)?;
        let addresses = Address::resolve(target.endpoint()).map_err(|error| {
            DriveError::Unreachable(format!("cannot connect to {target}: {error}"))
        })?;
        let message = message(target, load);
        let mut session = Session {
            target: target.clone(),
            load: Load { timeout: load.timeout.min(TIMEOUT_MAX), ..load.clone() },
            options: options.clone(),
            engine: EngineKind::Epoll,
            client_threads: Vec::new(),
            limited_by,
            expected: Expected::from_load(&load.exchange, &load.expect, &message),
            keeps_open: true,
            counts: Counts::default(),
            errors: Errors::new(),
            live: None,
            slices: 0,
        };
        let mut failure = Failure::Unreachable;
        for address in addresses {
            session.engine = choice::choose(load, &address)
                .map_err(|error| DriveError::Unfit(error.to_string()))?;
            session.client_threads =
                client_threads(session.engine, &address, load, connections_max, &message)
                    .map_err(|error| error::own(&error))?;
            match session.open_first()? {
                Ok(()) => return Ok(session),
                Err(_) if session.is_stopped() => return Err(DriveError::Stopped),
                Err(why) => failure = why,
            }
        }
        Err(error::unreachable(target, failure, session.load.timeout))
    }

    /// Sends three probes, one after another, and keeps what they agree on as
    /// the answer that every later one must repeat, within what the load's `Expect` leaves open.
    /// The probes are in the ledger. Callable once; without it only `Expect` is checked.
    ///
    /// Where the server closed its connection after each of the three, later slices open
    /// connections only with the requests that go over them: a server that serves one connection
    /// after another, as gunicorn's sync worker does, would wait for a request on one that was
    /// opened ahead, and leave those on the others unanswered.
    ///
    /// A probe that gets no complete answer is an error; one whose status or
    /// body is not what `Expect` demands is counted as failed.
    pub fn learn(&mut self) -> Result<Learned, DriveError> {
        let (first, length) = self.probe(LEARN_MAX_BYTES)?;
        let mut learned = Learned { status: first.status, body: None, length: None, varies: false };
        let mut same_length = true;
        self.keeps_open = first.keeps_open;
        for _ in 0..2 {
            // From the first probe on, another status is a failure.
            self.expected.learn(&learned);
            // No more is kept than what the first body can be compared with.
            let keep_max = first.body.as_ref().map_or(0, Vec::len);
            let (next, next_length) = self.probe(keep_max)?;
            learned.status = learned.status.or(next.status);
            same_length &= next_length == length;
            self.keeps_open |= next.keeps_open;
            learned.varies |=
                next_length != length || first.body.is_some() && next.body != first.body;
        }
        learned.length = same_length.then_some(length);
        learned.body = first.body.filter(|_| !learned.varies);
        self.expected.learn(&learned);
        Ok(learned)
    }

    /// Loads the target for one slice, then drains.
    ///
    /// In an open loop an arrival that finds no free connection gets a new one, up to the load's
    /// `connections_max`; these are closed at the end of the slice. Beyond it the arrival waits in a
    /// queue of at most 1,048,576 per thread; it is dropped if the queue is
    /// full, or if the window ends before it could be sent.
    ///
    /// With `requests` set the slice lasts until each has been answered or has failed.
    /// A connection that cannot be made rests for 1 ms before its next attempt.
    pub fn run(&mut self, slice: &Slice) -> Result<Observation, DriveError> {
        let mut shares = self.slice(slice, usize::MAX, None)?.into_iter();
        let Some(Share { mut observation, .. }) = shares.next() else {
            return Err(DriveError::Unfit("a session has at least one thread".to_owned()));
        };
        shares.for_each(|share| merge(&mut observation, share.observation));
        self.count(&observation);
        Ok(observation)
    }

    /// Adds what is counted from now on to `live` as it happens.
    pub fn watch(&mut self, live: Arc<Live>) {
        self.live = Some(live);
    }

    /// What moves the bytes.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// Counts over the session's life so far, probes included.
    pub fn life(&self) -> (Counts, Errors) {
        (self.counts, self.errors.clone())
    }

    /// Closes every connection in an orderly way and returns the counts of the session's life.
    ///
    /// An answer after which more bytes have come unasked was no right answer:
    /// where that is seen only now, it moves from completed to failed.
    pub fn close(mut self) -> (Counts, Errors) {
        let orders = self.idle_orders();
        let tainted: u64 = self
            .client_threads
            .iter_mut()
            .map(|client_thread| client_thread.close(orders.clone()))
            .sum();
        if tainted > 0 {
            let retracted = tainted.min(self.counts.completed);
            self.counts.completed -= retracted;
            self.counts.failed += retracted;
            *self.errors.entry(Fault::Unasked.kind()).or_default() += retracted;
        }
        self.life()
    }

    fn open_first(&mut self) -> Result<Result<(), Failure>, DriveError> {
        let orders = self.idle_orders();
        self.client_threads[0].open_first(orders).map_err(|error| error::own(&error))
    }

    /// Orders for what sends no request.
    fn idle_orders(&self) -> Arc<Orders> {
        Arc::new(self.orders(&Slice { requests: Some(0), ..one_request() }, 1, 0))
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    /// One request on the first connection: what came back, with its body if that has no more than
    /// `keep_max` bytes, and the length of the body.
    fn probe(&mut self, keep_max: usize) -> Result<(Probe, u64), DriveError> {
        let shares = self.slice(&one_request(), 1, Some(keep_max))?;
        let mut result = Err(DriveError::Unfit("a probe was not answered".to_owned()));
        for share in shares {
            self.count(&share.observation);
            result = match share.fault {
                Some(fault) if !is_verdict(fault) => {
                    Err(error::no_answer(&self.target, fault, self.load.timeout))
                }
                None if share.observation.counts.completed == 0 => Err(DriveError::Stopped),
                _ => {
                    let status = (share.seen.status > 0).then_some(share.seen.status);
                    let probe = Probe { status, body: share.kept, keeps_open: share.stays_open };
                    Ok((probe, share.seen.bytes))
                }
            };
        }
        result
    }

    /// Runs a slice on every thread, with at most `active` connections in all.
    fn slice(
        &mut self,
        slice: &Slice,
        active: usize,
        keep_max: Option<usize>,
    ) -> Result<Vec<Share>, DriveError> {
        if let Mode::Open { rate_per_s, .. } = slice.mode
            && !(rate_per_s.is_finite() && rate_per_s > 0.0)
        {
            return Err(DriveError::Unfit(format!(
                "the rate of an open loop must be above zero, not {rate_per_s}"
            )));
        }
        self.slices += 1;
        let used = self.client_threads.len().min(active);
        let orders = Arc::new(self.orders(slice, used, self.slices));
        let client_threads = &mut self.client_threads[..used];
        for client_thread in &mut *client_threads {
            client_thread.run(orders.clone(), client_thread.connections().min(active), keep_max);
        }
        let shares: Vec<_> = client_threads.iter_mut().map(ClientThread::ran).collect();
        shares.into_iter().map(|share| share.map_err(|error| error::own(&error))).collect()
    }

    /// What the first `client_threads` threads are told for a slice, the `serial`-th of the session.
    fn orders(&self, slice: &Slice, client_threads: usize, serial: u64) -> Orders {
        let Session { load, options, .. } = self;
        let one_request = load.new_connection || load.exchange == Exchange::Oneshot;
        Orders {
            slice: *slice,
            expected: self.expected.clone(),
            budget: Budget::new(slice.requests),
            timeout: load.timeout,
            one_request,
            opens_ahead: !one_request && self.keeps_open,
            step: options.step,
            stop: options.stop.clone(),
            live: self.live.clone(),
            seed: options.seed.derive("slice", serial),
            cpus: options.cpus.clone(),
            threads: client_threads as u32,
            limited_by: self.limited_by,
            ready: Gate::new(client_threads),
            failed: AtomicBool::new(false),
            start: OnceLock::new(),
        }
    }

    fn count(&mut self, observation: &Observation) {
        self.counts.merge(&observation.counts);
        add_errors(&mut self.errors, &observation.errors);
    }
}

/// Files beside the connections: epolls, standard streams, the record.
const FILES_BESIDE: u64 = 64;

/// Raises the soft limit of open files where the load's connections need it. How many connections
/// there may be in all, and what set that limit.
fn allow_files(load: &Load) -> Result<(u32, LimitedBy), DriveError> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let (connections_max, limited_by) = connections_within(load, most)?;
    let needed = u64::from(connections_max) + aside(load) + FILES_BESIDE;
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit { current: Some(needed.min(most)), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|errno| error::own(&errno.into()))?;
    }
    Ok((connections_max, limited_by))
}

/// Sockets that wait for their peer to close beside the connections.
fn aside(load: &Load) -> u64 {
    u64::from(load.threads) * if load.new_connection { RETIRED_MAX as u64 } else { 0 }
}

/// How many connections the load may have where `most` files may be open.
fn connections_within(load: &Load, most: u64) -> Result<(u32, LimitedBy), DriveError> {
    let connections = u64::from(load.connections);
    if connections + FILES_BESIDE > most {
        return Err(error::too_many_files(connections, most));
    }
    let wanted = load.connections_max.unwrap_or(0).max(load.connections);
    let room = most.saturating_sub(FILES_BESIDE + aside(load)).max(connections);
    match u32::try_from(room) {
        Ok(room) if room < wanted => Ok((room, LimitedBy::OpenFiles)),
        _ => Ok((wanted, LimitedBy::Load)),
    }
}

/// What came back for one probe.
struct Probe {
    /// The status, for HTTP.
    status: Option<u16>,
    /// The body, unless it was too long to be kept.
    body: Option<Vec<u8>>,
    /// Whether the server left the connection open.
    keeps_open: bool,
}

/// A fault of an answer that was complete.
fn is_verdict(fault: Fault) -> bool {
    matches!(fault, Fault::Status(_) | Fault::BodyDiffers | Fault::LengthDiffers)
}

fn one_request() -> Slice {
    Slice {
        mode: Mode::Closed,
        lead_in: Nanos::ZERO,
        window: Nanos::ZERO,
        requests: Some(1),
        drain: Nanos::ZERO,
    }
}

/// What every request sends.
pub(crate) fn message(target: &Target, load: &Load) -> Arc<[u8]> {
    // A client that resets its connections leaves no port in TIME_WAIT, whoever closes first.
    let asks_to_close = load.new_connection && !load.linger_zero;
    match (&load.exchange, target) {
        (Exchange::Http(request), Target::Http { authority, path, .. }) => {
            Arc::from(request_bytes(request, authority, path, asks_to_close))
        }
        // Bytes that differ from their neighbours, so that a shifted echo is seen.
        (Exchange::Echo { size }, _) => (0..size.0).map(|i| (i % 251) as u8).collect(),
        _ => Arc::from(&b""[..]),
    }
}

/// One thread for each client_thread, the connections spread so that the remainder is not lost.
fn client_threads(
    engine: EngineKind,
    address: &Address,
    load: &Load,
    connections_max: u32,
    message: &Arc<[u8]>,
) -> std::io::Result<Vec<ClientThread>> {
    let threads = load.threads.min(load.connections);
    let answer = Answer::new(&load.exchange, address);
    (0..threads)
        .map(|client_thread| {
            let share =
                |all: u32| (all / threads + u32::from(client_thread < all % threads)) as usize;
            let (connections, slots) = (share(load.connections), share(connections_max));
            let setup = Setup {
                busy_poll: load.busy_poll,
                linger_zero: load.linger_zero,
                ..Setup::new(address.clone(), message.clone(), slots)
            };
            let answers = (0..slots).map(|_| answer.another()).collect();
            match engine {
                EngineKind::Epoll => ClientThread::start(
                    move || Epoll::new(&setup),
                    answers,
                    connections,
                    client_thread,
                ),
                EngineKind::IoUring => ClientThread::start(
                    move || Uring::new(&setup).map_err(choice::unavailable),
                    answers,
                    connections,
                    client_thread,
                ),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
