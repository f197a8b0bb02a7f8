//! Connections to one target, kept between slices.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock};

use base::{CpuSet, Nanos, Seed};
use ledger::{Counts, Errors};
use netio::{Address, Epoll, Failure, RETIRED_MAX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spec::{Exchange, Load, Mode, Target};

use crate::Fault;
use crate::answer::{Answer, Expected};
use crate::error;
use crate::http::request_bytes;
use crate::observe::{Learned, Observation};
use crate::schedule::Budget;
use crate::tally::{add_errors, merge};
use crate::worker::{Orders, Share, Worker};

/// Set from a signal handler to end a slice early; what is in flight is still drained.
pub type StopFlag = Arc<AtomicBool>;

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

/// One stretch of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Closed or open loop.
    pub mode: Mode,
    /// Loaded and counted in the ledger, but outside the measured window.
    pub lead_in: Nanos,
    /// The measured stretch; ignored if `requests` is set.
    pub window: Nanos,
    /// Send exactly this many requests, and measure until the last one is answered.
    pub requests: Option<u64>,
    /// How long to wait, after the window, for answers in flight. What is left then counts as `in_flight`.
    pub drain: Nanos,
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
}

/// Longer timeouts are as good as none, and would overflow when added to an instant.
const TIMEOUT_MAX: Nanos = Nanos::from_secs(86_400 * 365);

/// The receive buffer of one thread; a datagram longer than the rest of the load's messages is cut by it.
const BUFFER_BYTES: usize = 256 * 1024;

/// The largest body that a probe learns byte by byte.
const LEARN_MAX_BYTES: usize = 512 << 20;

/// Connections to one target and the counts of their whole life.
pub struct Session {
    target: Target,
    load: Load,
    options: Options,
    workers: Vec<Worker<Epoll>>,
    expected: Expected,
    counts: Counts,
    errors: Errors,
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
        allow_files(load)?;
        let addresses = Address::resolve(target.endpoint()).map_err(|error| {
            DriveError::Unreachable(format!("cannot connect to {target}: {error}"))
        })?;
        let message = message(target, load);
        let mut session = Session {
            target: target.clone(),
            load: Load { timeout: load.timeout.min(TIMEOUT_MAX), ..load.clone() },
            options: options.clone(),
            workers: Vec::new(),
            expected: Expected::from_load(&load.exchange, &load.expect, &message),
            counts: Counts::default(),
            errors: Errors::new(),
            slices: 0,
        };
        let mut failure = Failure::Unreachable;
        for address in addresses {
            session.workers =
                workers(&address, load, &message).map_err(|error| error::own(&error))?;
            match session.open_first()? {
                Ok(()) => return Ok(session),
                Err(why) => failure = why,
            }
        }
        Err(error::unreachable(target, failure, session.load.timeout))
    }

    /// Sends three probes, one after another, and keeps what they agree on as
    /// the answer that every later one must repeat, within what the load's `Expect` leaves open.
    /// The probes are in the ledger. Callable once; without it only `Expect` is checked.
    ///
    /// A probe that gets no complete answer is an error; one whose status or
    /// body is not what `Expect` demands is counted as failed.
    pub fn learn(&mut self) -> Result<Learned, DriveError> {
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        let mut lengths = Vec::new();
        let mut status = None;
        for _ in 0..3 {
            let mut body = Vec::new();
            let (seen, length) = self.probe(&mut body)?;
            status = status.or(seen);
            // From the first probe on, another status is a failure.
            self.expected.learn(&Learned { status, body: None, length: None, varies: false });
            lengths.push(length);
            bodies.push(body);
        }
        let length = lengths.windows(2).all(|pair| pair[0] == pair[1]).then(|| lengths[0]);
        let varies = bodies.windows(2).any(|pair| pair[0] != pair[1]);
        let is_kept = lengths[0] == bodies[0].len() as u64;
        let body = (!varies && is_kept).then(|| bodies.swap_remove(0));
        let learned = Learned { status, body, length, varies };
        self.expected.learn(&learned);
        Ok(learned)
    }

    /// Loads the target for one slice, then drains.
    ///
    /// In an open loop an arrival that finds no free connection waits in a
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

    /// Counts over the session's life so far, probes included.
    pub fn life(&self) -> (Counts, Errors) {
        (self.counts, self.errors.clone())
    }

    /// Closes every connection in an orderly way and returns the counts of the session's life.
    ///
    /// An answer after which more bytes have come unasked was no right answer:
    /// where that is seen only now, it moves from completed to failed.
    pub fn close(mut self) -> (Counts, Errors) {
        let tainted: u64 =
            self.idle(|workers, orders| workers.iter_mut().map(|w| w.close(orders)).sum());
        if tainted > 0 {
            let retracted = tainted.min(self.counts.completed);
            self.counts.completed -= retracted;
            self.counts.failed += retracted;
            *self.errors.entry(Fault::Unasked.kind()).or_default() += retracted;
        }
        self.life()
    }

    fn open_first(&mut self) -> Result<Result<(), Failure>, DriveError> {
        self.idle(|workers, orders| workers[0].open_first(orders))
            .map_err(|error| error::own(&error))
    }

    /// Does something with the workers that sends no request.
    fn idle<R>(&mut self, act: impl FnOnce(&mut [Worker<Epoll>], &Orders<'_>) -> R) -> R {
        let slice = one_request();
        let budget = Budget::new(Some(0));
        let (ready, start) = (Barrier::new(1), OnceLock::new());
        let Session { workers, load, options, expected, .. } = self;
        let orders = orders(load, options, expected, &slice, &budget, &ready, &start, 1, 0);
        act(workers, &orders)
    }

    /// One request on the first connection; its status and the length of its body.
    fn probe(&mut self, body: &mut Vec<u8>) -> Result<(Option<u16>, u64), DriveError> {
        let shares = self.slice(&one_request(), 1, Some(body))?;
        let mut result = Err(DriveError::Unfit("a probe was not answered".to_owned()));
        for share in shares {
            self.count(&share.observation);
            result = match share.fault {
                Some(fault) if !is_verdict(fault) => {
                    Err(error::no_answer(&self.target, fault, self.load.timeout))
                }
                _ => Ok(((share.seen.status > 0).then_some(share.seen.status), share.seen.bytes)),
            };
        }
        if body.len() > LEARN_MAX_BYTES {
            body.clear();
            body.shrink_to_fit();
        }
        result
    }

    /// Runs a slice on every thread, with at most `active` connections in all.
    fn slice(
        &mut self,
        slice: &Slice,
        active: usize,
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<Vec<Share>, DriveError> {
        if let Mode::Open { rate_per_s, .. } = slice.mode
            && !(rate_per_s.is_finite() && rate_per_s > 0.0)
        {
            return Err(DriveError::Unfit(format!(
                "an open loop needs a rate above zero, and {rate_per_s} is none"
            )));
        }
        self.slices += 1;
        let Session { workers, load, options, expected, .. } = self;
        let used = workers.len().min(active);
        let budget = Budget::new(slice.requests);
        let (ready, start) = (Barrier::new(used), OnceLock::new());
        let orders = orders(
            load,
            options,
            expected,
            slice,
            &budget,
            &ready,
            &start,
            used as u32,
            self.slices,
        );
        let orders = &orders;
        let shares: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = workers[..used]
                .iter_mut()
                .map(|worker| {
                    let active = worker.connections().min(active);
                    let kept = kept.take();
                    scope.spawn(move || worker.run(orders, active, kept))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        shares
            .into_iter()
            .map(|share| match share {
                Ok(share) => share.map_err(|error| error::own(&error)),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    }

    fn count(&mut self, observation: &Observation) {
        self.counts.merge(&observation.counts);
        add_errors(&mut self.errors, &observation.errors);
    }
}

/// Files beside the connections: epolls, standard streams, the record.
const FILES_BESIDE: u64 = 64;

/// Raises the soft limit of open files where that many connections need it.
fn allow_files(load: &Load) -> Result<(), DriveError> {
    let connections = u64::from(load.connections);
    let aside = u64::from(load.threads) * if load.new_connection { RETIRED_MAX as u64 } else { 0 };
    let needed = connections + aside + FILES_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if connections + FILES_BESIDE > most {
        return Err(error::too_many_files(connections, most));
    }
    let raised = Rlimit { current: Some(needed.min(most)), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|errno| error::own(&errno.into()))
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

#[allow(clippy::too_many_arguments)]
fn orders<'a>(
    load: &Load,
    options: &'a Options,
    expected: &'a Expected,
    slice: &'a Slice,
    budget: &'a Budget,
    ready: &'a Barrier,
    start: &'a OnceLock<Nanos>,
    lanes: u32,
    slices: u64,
) -> Orders<'a> {
    Orders {
        slice,
        expected,
        budget,
        timeout: load.timeout,
        one_request: load.new_connection || load.exchange == Exchange::Oneshot,
        step: options.step,
        stop: &options.stop,
        seed: options.seed.derive("slice", slices),
        cpus: &options.cpus,
        lanes,
        ready,
        start,
    }
}

/// What every request sends.
fn message(target: &Target, load: &Load) -> Arc<[u8]> {
    match (&load.exchange, target) {
        (Exchange::Http(request), Target::Http { authority, path, .. }) => {
            Arc::from(request_bytes(request, authority, path, load.new_connection))
        }
        // Bytes that differ from their neighbours, so that a shifted echo is seen.
        (Exchange::Echo { size }, _) => (0..size.0).map(|i| (i % 251) as u8).collect(),
        _ => Arc::from(&b""[..]),
    }
}

/// One worker per thread, the connections spread so that the remainder is not lost.
fn workers(
    address: &Address,
    load: &Load,
    message: &Arc<[u8]>,
) -> std::io::Result<Vec<Worker<Epoll>>> {
    let threads = load.threads.min(load.connections);
    // One byte more than any right message, so that a longer one is seen to be longer.
    let buffer_bytes = BUFFER_BYTES.max(message.len() + 1);
    let answer = Answer::new(&load.exchange, address);
    (0..threads)
        .map(|lane| {
            let remainder = u32::from(lane < load.connections % threads);
            let connections = (load.connections / threads + remainder) as usize;
            let engine = Epoll::new(address.clone(), message.clone(), connections, buffer_bytes)?;
            let answers = (0..connections).map(|_| answer.another()).collect();
            Ok(Worker::new(engine, answers, lane))
        })
        .collect()
}
