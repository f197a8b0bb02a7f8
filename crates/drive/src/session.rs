//! Connections to one target, kept between slices.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock};

use base::{CpuSet, Nanos, Seed};
use ledger::{Counts, Errors};
use netio::{Address, Epoll, Failure, RETIRED_MAX, Setup, Uring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spec::{Exchange, Load, Mode, Target};

use crate::Fault;
use crate::answer::{Answer, Expected};
use crate::choice::{self, EngineKind};
use crate::error;
use crate::http::request_bytes;
use crate::lane::Lane;
use crate::observe::{Learned, Observation};
use crate::schedule::Budget;
use crate::tally::{add_errors, merge};
use crate::worker::{Orders, Share};

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

/// The largest body that a probe learns byte by byte.
const LEARN_MAX_BYTES: usize = 512 << 20;

/// Connections to one target and the counts of their whole life.
pub struct Session {
    target: Target,
    load: Load,
    options: Options,
    engine: EngineKind,
    lanes: Vec<Lane>,
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
            engine: EngineKind::Epoll,
            lanes: Vec::new(),
            expected: Expected::from_load(&load.exchange, &load.expect, &message),
            counts: Counts::default(),
            errors: Errors::new(),
            slices: 0,
        };
        let mut failure = Failure::Unreachable;
        for address in addresses {
            session.engine = choice::choose(load, &address)
                .map_err(|error| DriveError::Unfit(error.to_string()))?;
            session.lanes = lanes(session.engine, &address, load, &message)
                .map_err(|error| error::own(&error))?;
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
        let mut shares = self.slice(slice, usize::MAX, false)?.into_iter();
        let Some(Share { mut observation, .. }) = shares.next() else {
            return Err(DriveError::Unfit("a session has at least one thread".to_owned()));
        };
        shares.for_each(|share| merge(&mut observation, share.observation));
        self.count(&observation);
        Ok(observation)
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
        let tainted: u64 = self.lanes.iter_mut().map(|lane| lane.close(orders.clone())).sum();
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
        self.lanes[0].open_first(orders).map_err(|error| error::own(&error))
    }

    /// Orders for what sends no request.
    fn idle_orders(&self) -> Arc<Orders> {
        Arc::new(self.orders(&Slice { requests: Some(0), ..one_request() }, 1, 0))
    }

    /// One request on the first connection; its status and the length of its body.
    fn probe(&mut self, body: &mut Vec<u8>) -> Result<(Option<u16>, u64), DriveError> {
        let shares = self.slice(&one_request(), 1, true)?;
        let mut result = Err(DriveError::Unfit("a probe was not answered".to_owned()));
        for share in shares {
            self.count(&share.observation);
            *body = share.kept;
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
        keep: bool,
    ) -> Result<Vec<Share>, DriveError> {
        if let Mode::Open { rate_per_s, .. } = slice.mode
            && !(rate_per_s.is_finite() && rate_per_s > 0.0)
        {
            return Err(DriveError::Unfit(format!(
                "an open loop needs a rate above zero, and {rate_per_s} is none"
            )));
        }
        self.slices += 1;
        let used = self.lanes.len().min(active);
        let orders = Arc::new(self.orders(slice, used, self.slices));
        let lanes = &mut self.lanes[..used];
        for lane in &mut *lanes {
            lane.run(orders.clone(), lane.connections().min(active), keep);
        }
        let shares: Vec<_> = lanes.iter_mut().map(Lane::ran).collect();
        shares.into_iter().map(|share| share.map_err(|error| error::own(&error))).collect()
    }

    /// What the first `lanes` threads are told for a slice, the `serial`-th of the session.
    fn orders(&self, slice: &Slice, lanes: usize, serial: u64) -> Orders {
        let Session { load, options, .. } = self;
        Orders {
            slice: *slice,
            expected: self.expected.clone(),
            budget: Budget::new(slice.requests),
            timeout: load.timeout,
            one_request: load.new_connection || load.exchange == Exchange::Oneshot,
            step: options.step,
            stop: options.stop.clone(),
            seed: options.seed.derive("slice", serial),
            cpus: options.cpus.clone(),
            lanes: lanes as u32,
            ready: Barrier::new(lanes),
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

/// One thread for each lane, the connections spread so that the remainder is not lost.
fn lanes(
    engine: EngineKind,
    address: &Address,
    load: &Load,
    message: &Arc<[u8]>,
) -> std::io::Result<Vec<Lane>> {
    let threads = load.threads.min(load.connections);
    let answer = Answer::new(&load.exchange, address);
    (0..threads)
        .map(|lane| {
            let remainder = u32::from(lane < load.connections % threads);
            let connections = (load.connections / threads + remainder) as usize;
            let setup = Setup {
                busy_poll: load.busy_poll,
                linger_zero: load.linger_zero,
                ..Setup::new(address.clone(), message.clone(), connections)
            };
            let answers = (0..connections).map(|_| answer.another()).collect();
            match engine {
                EngineKind::Epoll => Lane::start(move || Epoll::new(&setup), answers, lane),
                EngineKind::IoUring => Lane::start(
                    move || Uring::new(&setup).map_err(choice::unavailable),
                    answers,
                    lane,
                ),
            }
        })
        .collect()
}
