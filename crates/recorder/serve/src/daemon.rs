//! Start, restart, and stop by a signal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use engine::JournalError;
use recordfile::{create_folder, refuse_foreign};
use rustix::fs::Mode;
use rustix::process::{Pid, kill_process};
use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::datagrams::Drops;
use crate::handover::{Ending, NoSuccessor, Predecessor, Successor};
use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::http::HttpState;
use crate::ingest::{Ingest, Threads};
use crate::listener::LAST_REQUESTS;
use crate::listeners::{Listeners, ListeningSocket, listener};
use crate::metrics::Metrics;
use crate::service::Service;
use crate::sockets::BoundSocket;
use crate::unavailable::{Reason, UnavailableService};
use crate::{Address, Options, Readers, ServeError, activation, http, ingest};

/// Time between two attempts to open a record that is not available.
const RETRY: Duration = Duration::from_secs(1);

/// How long a start may take until HTTP is answered without the record.
const START_MAX: Duration = Duration::from_secs(10);

/// How long systemd is asked to wait for the next word of a start that takes long, in microseconds.
const WAIT_FOR_START_US: u32 = 60_000_000;

/// How long the last batch before a successor takes over may take.
const LAST_BATCH: Duration = Duration::from_secs(10);

/// How long tasks that do not end by themselves may take at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// How often to look whether it is written.
const BATCH_TICK: Duration = Duration::from_millis(2);

/// What a person should know of a running daemon.
#[derive(Debug)]
pub enum Event<'a> {
    /// It listens on these addresses.
    Listening(&'a [Address]),
    /// Messages are missing in the journal: those from the first to the second position.
    Missing(u64, u64),
    /// It does not listen yet, because the record is not available for this reason.
    Unavailable(&'a str),
    /// Another process has taken over.
    Replaced {
        /// Its process id.
        by: u32,
    },
    /// No other process took over, for this reason; this one goes on.
    NotReplaced(String),
}

/// Why a round of serving ended.
enum RoundEnd {
    /// It was told to, or had to.
    Stopped(Result<(), ServeError>),
    HandsOver(Successor, Vec<HandoverItem>),
}

/// Runs the daemon until SIGTERM or SIGINT. Then what has arrived is written, and requests in
/// progress are answered.
///
/// SIGUSR2, and SIGHUP if so wanted, start the program again, which takes over sockets, connections
/// and journal; then this process returns.
///
/// `mount` returns the paths that are served beside those of the daemon.
///
/// # Errors
/// [`ServeError`].
pub fn run(
    options: &Options,
    mount: impl FnOnce(&Readers) -> Router,
    tell: impl Fn(Event<'_>),
) -> Result<(), ServeError> {
    // Everything that is created from here on is for this user only.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let predecessor = Predecessor::find().map_err(ServeError::System)?;
    if predecessor.is_some() {
        // Finds out that the record cannot be used while the predecessor still serves it.
        drop(store::open(&options.place)?);
    }
    // Dropped after the runtime: connections to PostgreSQL must not be closed on its threads.
    let readers = Readers::new(&options.place);
    let mounted = mount(&readers);
    let metrics = Metrics::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(ServeError::System)?;
    let ended = run_on(&runtime, options, predecessor, &readers, mounted, metrics, &tell);
    // Ends the last tasks, and with them the way in. A read that gets no answer of the record would
    // keep the process for ever.
    runtime.shutdown_timeout(LAST_TASKS);
    match ended? {
        Some(StoppedDaemon { threads, result }) => threads.join().and(result),
        None => Ok(()),
    }
}

/// A daemon that no longer listens, without a successor.
struct StoppedDaemon {
    /// They write what has arrived, and end.
    threads: Threads,
    /// Whether it was told to stop, or had to.
    result: Result<(), ServeError>,
}

/// Runs the daemon on a runtime until it listens no more.
fn run_on(
    runtime: &Runtime,
    options: &Options,
    mut predecessor: Option<Predecessor>,
    readers: &Readers,
    mounted: Router,
    metrics: Metrics,
    tell: &impl Fn(Event<'_>),
) -> Result<Option<StoppedDaemon>, ServeError> {
    let entered = runtime.enter();
    let mut signals = Signals::new(options).map_err(ServeError::System)?;
    drop(entered);
    let mut stops = false;
    let mut left = match &mut predecessor {
        Some(predecessor) => predecessor.take().map_err(ServeError::System)?,
        None => activation::take(options)?,
    };
    loop {
        let mut adopted = runtime.block_on(adopt(options, left))?;
        prepare(&options.journal)?;
        let start = match predecessor {
            Some(_) => Start::OfSuccessor,
            None if stops => Start::ToStop,
            None => Start::Alone,
        };
        let begun = begin(options, &metrics, &mut adopted, start, &mut signals, tell);
        let Some((ingest, threads)) = runtime.block_on(begun)? else { return Ok(None) };
        if let Some(mut predecessor) = predecessor.take() {
            predecessor.confirm();
            adopted.predecessor = Some(predecessor);
        }
        let router = |ingest: &Ingest, drops: &Arc<Mutex<Vec<Drops>>>| {
            let (readers, ingest, drops) = (readers.clone(), ingest.clone(), drops.clone());
            let (access, databases) = (options.access.clone(), options.databases.clone().into());
            let shared = HttpState { readers, ingest, drops, access, databases };
            http::router(shared, mounted.clone())
        };
        let served = serve(options, adopted, ingest, router, tell, &mut signals, stops);
        match runtime.block_on(served)? {
            RoundEnd::Stopped(result) => return Ok(Some(StoppedDaemon { threads, result })),
            RoundEnd::HandsOver(successor, handed) => {
                let by = successor.id();
                let handing = hand_over(threads, successor, handed, &mut signals);
                let done;
                (done, left, stops) = runtime.block_on(handing)?;
                match done {
                    HandoverOutcome::Done => {
                        if stops {
                            stop(by);
                        }
                        tell(Event::Replaced { by });
                        return Ok(None);
                    }
                    HandoverOutcome::SuccessorDied(ending) => {
                        return Err(ServeError::Successor { id: by, how: ending.to_string() });
                    }
                    // What is left is taken back, and stops in order.
                    HandoverOutcome::TakenBack(_) if stops => {}
                    HandoverOutcome::TakenBack(error) => tell(Event::NotReplaced(error)),
                }
            }
        }
    }
}

/// When the way in is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// No other process serves, so it waits for a record that is not available.
    Alone,
    /// A predecessor goes on if it fails.
    OfSuccessor,
    /// Only what is left is to be written.
    ToStop,
}

/// Starts the way in. While the record is not available, this is tried again, and HTTP is answered
/// with the reason. `None` if the daemon is told to stop before it has begun.
///
/// # Errors
/// Those of the way in, except for a record that may be available later; and of a stop meanwhile.
async fn begin(
    options: &Options,
    metrics: &Metrics,
    adopted: &mut AdoptedSockets,
    start: Start,
    signals: &mut Signals,
    tell: &impl Fn(Event<'_>),
) -> Result<Option<(Ingest, Threads)>, ServeError> {
    let mut answering: Option<UnavailableService> = None;
    let mut why = None;
    loop {
        let (way_in, counted) = (options.ingest(), metrics.clone());
        let mut starting = tokio::task::spawn_blocking(|| ingest::start(way_in, counted));
        let started = loop {
            tokio::select! {
                started = &mut starting => break started.unwrap_or(Err(ServeError::Panicked)),
                () = signals.stopped() => return why.map_or(Ok(None), |why| Err(unwritten(options, why))),
                () = tokio::time::sleep(START_MAX) => {
                    let slow = "the record does not answer, or the journal is long".to_owned();
                    match start {
                        Start::Alone => {}
                        Start::OfSuccessor => continue,
                        Start::ToStop => return Err(unwritten(options, slow)),
                    }
                    let text = why.clone().unwrap_or(slow);
                    answer_without(&mut answering, text, options, metrics, adopted);
                }
            }
        };
        let error = match started {
            Ok(started) => {
                if let Some(answering) = answering {
                    adopted.connections.extend(answering.end().await);
                }
                return Ok(Some(started));
            }
            Err(ServeError::Store(error)) if start == Start::Alone && error.is_passing() => error,
            Err(error) => return Err(error),
        };
        let text = error.to_string();
        // The reason may change while the record is being started; that is told over HTTP.
        if why.is_none() {
            tell(Event::Unavailable(&text));
        }
        answer_without(&mut answering, text.clone(), options, metrics, adopted);
        why = Some(text);
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = signals.stopped() => return Err(unwritten(options, why.unwrap_or_default())),
        }
    }
}

/// Answers HTTP with the reason why there is no record, and tells it systemd, which would end a start
/// that takes long.
fn answer_without(
    answering: &mut Option<UnavailableService>,
    why: String,
    options: &Options,
    metrics: &Metrics,
    adopted: &mut AdoptedSockets,
) {
    let wait = NotifyState::ExtendTimeoutUsec(WAIT_FOR_START_US);
    // A daemon whose successor has failed is watched already.
    let _ = sd_notify::notify(&[NotifyState::Status(&why), wait, NotifyState::Watchdog]);
    if let Some(answering) = answering {
        return answering.tell(why);
    }
    let reason = Reason::new(why);
    let router = reason.router(&options.access, metrics);
    let sockets = adopted.sockets.iter().filter(|known| known.service == Service::Http);
    let mut connections =
        adopted.connections.extract_if(.., |left| matches!(left.what, ItemKind::Http { .. }));
    let listeners = sockets.filter_map(|known| {
        let ListeningSocket { service, wanted, given, .. } = known;
        // Without another descriptor, clients wait.
        let socket = known.socket.again(wanted).ok()?;
        let adopted = connections.by_ref().collect();
        Some(listener(options, *service, wanted.clone(), *given, socket, router.clone(), adopted))
    });
    let listeners = listeners.collect();
    *answering = Some(UnavailableService::new(reason, listeners, metrics));
}

fn unwritten(options: &Options, error: String) -> ServeError {
    ServeError::Unwritten { journal: options.journal.clone(), error }
}

/// What became of a handover.
enum HandoverOutcome {
    /// The successor serves.
    Done,
    /// The successor ended after it had taken everything.
    SuccessorDied(Ending),
    /// There is no successor, for this reason, and this process goes on.
    TakenBack(String),
}

/// Hands everything over to a successor; gives up if this process is told to stop meanwhile. Returns
/// what became of it, what is left, and whether to stop.
async fn hand_over(
    threads: Threads,
    successor: Successor,
    left: Vec<HandoverItem>,
    signals: &mut Signals,
) -> Result<(HandoverOutcome, Vec<HandoverItem>, bool), ServeError> {
    let give_up = Arc::new(AtomicBool::new(false));
    let asked = give_up.clone();
    let mut handing = tokio::task::spawn_blocking(move || {
        let joined = threads.join().map_err(|error| error.to_string());
        let hand_over = || successor.hand_over(&left, &asked).map_err(|error| error.to_string());
        match joined.and_then(|()| hand_over()) {
            Ok(successor) => {
                // A connection ends only when no process has it.
                drop(left);
                (
                    successor
                        .serves(&asked)
                        .map_or_else(HandoverOutcome::SuccessorDied, |()| HandoverOutcome::Done),
                    Vec::new(),
                )
            }
            Err(error) => (HandoverOutcome::TakenBack(error), left),
        }
    });
    let ended = tokio::select! {
        ended = &mut handing => ended,
        () = signals.stopped() => {
            give_up.store(true, Ordering::Relaxed);
            handing.await
        }
    };
    let (done, left) = ended.map_err(|_| ServeError::Panicked)?;
    Ok((done, left, give_up.load(Ordering::Relaxed)))
}

/// Passes on to a successor that this process was told to stop.
fn stop(successor: u32) {
    if let Some(id) = i32::try_from(successor).ok().and_then(Pid::from_raw) {
        // It may have ended already.
        let _ = kill_process(id, rustix::process::Signal::TERM);
    }
}

/// Creates the folder of the journal, to which no other user may have access by way of a shared
/// folder.
fn prepare(journal: &Path) -> Result<(), ServeError> {
    refuse_foreign(journal)?;
    let failed = |cause| JournalError::Open { path: journal.to_owned(), cause };
    create_folder(journal).map_err(failed)?;
    // Another user may have been quicker. What belongs to us now, others cannot replace.
    refuse_foreign(journal)?;
    let found = fs::metadata(journal).map_err(failed)?;
    match Mode::from_raw_mode(found.mode()).intersects(Mode::WGRP | Mode::WOTH) {
        true => Err(ServeError::OpenFolder(journal.to_owned())),
        false => Ok(()),
    }
}

/// Where the daemon listens, and the connections that it continues.
struct AdoptedSockets {
    sockets: Vec<ListeningSocket>,
    connections: Vec<HandoverItem>,
    /// Who is told that they are served.
    predecessor: Option<Predecessor>,
}

/// Binds all sockets, except for those that were handed over, so that a second daemon ends before
/// it opens the journal. Returns connections that were handed over too.
async fn adopt(options: &Options, left: Vec<HandoverItem>) -> Result<AdoptedSockets, ServeError> {
    let (mut sockets, mut connections) = (Vec::new(), Vec::new());
    for left in left {
        match left.what {
            ItemKind::Socket { service, wanted, given } => {
                sockets.push((service, wanted, given, left.fd));
            }
            _ => connections.push(left),
        }
    }
    let mut listening = Vec::new();
    let stays = |service: Service, address: &Address| {
        let mut of_systemd = sockets.iter().filter(|known| known.0 == service);
        let text = address.to_string();
        let is_replaced = of_systemd.clone().any(|known| known.2 == Activation::ByName);
        !is_replaced || of_systemd.any(|known| known.2 == Activation::ByAddress && known.1 == text)
    };
    let mut wanted: Vec<(Service, Address)> = options
        .wanted()
        .into_iter()
        .filter(|(service, address)| stays(*service, address))
        .map(|(service, address)| (service, address.clone()))
        .collect();
    for (service, address, ..) in sockets.iter().filter(|known| known.2 == Activation::ByName) {
        // Written by this program.
        wanted.extend(Address::parse(address).ok().map(|address| (*service, address)));
    }
    for (service, wanted) in wanted {
        options.access.check(&wanted, service == Service::Http)?;
        let failed = |cause| ServeError::Listen { address: wanted.clone(), cause };
        let text = wanted.to_string();
        let known = sockets.iter().position(|known| known.0 == service && known.1 == text);
        let (socket, given) = match known.map(|at| sockets.swap_remove(at)) {
            Some((.., given, fd)) => (BoundSocket::adopted(fd, &wanted).map_err(failed)?, given),
            None => {
                if let Address::Unix(path) | Address::UnixDatagram(path) = &wanted {
                    refuse_foreign(path)?;
                }
                let socket = BoundSocket::new(&wanted, options.socket_mode).await;
                (socket.map_err(failed)?, Activation::No)
            }
        };
        let address = socket.address(&wanted).map_err(failed)?;
        listening.push(ListeningSocket { service, wanted, address, socket, given });
    }
    Ok(AdoptedSockets { sockets: listening, connections, predecessor: None })
}

/// The signals to which the daemon listens.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    replace: Signal,
    replace_on_hangup: bool,
}

impl Signals {
    fn new(options: &Options) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            replace: signal(SignalKind::user_defined2())?,
            replace_on_hangup: options.replace_on_hangup,
        })
    }

    /// Whether the next signal is to stop the daemon; otherwise a successor is wanted.
    async fn stops(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hangup.recv() => !self.replace_on_hangup,
            _ = self.replace.recv() => false,
        }
    }

    /// Waits until the daemon is to stop. A successor that is wanted meanwhile is started later.
    async fn stopped(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv(), if !self.replace_on_hangup => {}
        }
    }
}

/// Serves until a signal comes, or at once stops if one has come already.
async fn serve(
    options: &Options,
    adopted: AdoptedSockets,
    ingest: Ingest,
    router: impl FnOnce(&Ingest, &Arc<Mutex<Vec<Drops>>>) -> Router,
    tell: &impl Fn(Event<'_>),
    signals: &mut Signals,
    mut stops: bool,
) -> Result<RoundEnd, ServeError> {
    let drops = Arc::new(Mutex::new(Vec::new()));
    let router = router(&ingest, &drops);
    let AdoptedSockets { sockets, connections, predecessor } = adopted;
    let mut listeners = Listeners::start(options, sockets, connections, &ingest, &router, &drops);
    for missing in ingest.state.take_missing() {
        tell(Event::Missing(*missing.start(), *missing.end()));
    }
    tell(Event::Listening(&listeners.addresses));
    // Does nothing without systemd. After a restart the main process has a new id.
    let main = NotifyState::MainPid(std::process::id());
    let _ = sd_notify::notify(&[NotifyState::Ready, main, NotifyState::Status("serving")]);
    if let Some(predecessor) = predecessor {
        predecessor.serves();
    }
    let state = ingest.state.clone();
    loop {
        let ended = match stops {
            true => Some(Ok(())),
            false => tokio::select! {
                stops = signals.stops() => stops.then_some(Ok(())),
                // Without one of its threads, the daemon would refuse everything for ever.
                () = state.ended.notified() => Some(Ok(())),
                error = listeners.ended_early() => Some(Err(error)),
            },
        };
        if let Some(result) = ended {
            drop(ingest);
            listeners.stop().await;
            return Ok(RoundEnd::Stopped(result));
        }
        match successor(options, &ingest, signals).await {
            Some(Ok((successor, since))) => {
                return Ok(RoundEnd::HandsOver(successor, listeners.leave(since).await));
            }
            Some(Err(error)) => tell(Event::NotReplaced(error)),
            None => stops = true,
        }
    }
}

/// A successor, which may take over, and since when it was ready; everything that arrived before has
/// been written. `None` if the daemon is told to stop meanwhile.
async fn successor(
    options: &Options,
    ingest: &Ingest,
    signals: &mut Signals,
) -> Option<Result<(Successor, Instant), String>> {
    let started = tokio::select! {
        started = start(&options.program) => started,
        () = signals.stopped() => return None,
    };
    let since = Instant::now();
    let successor = match started {
        Ok(successor) => successor,
        Err(error) => return Some(Err(error)),
    };
    // Connections are accepted until then.
    let rest = ingest.state.requests.none_takes_long();
    tokio::select! {
        _ = tokio::time::timeout(LAST_REQUESTS, rest) => {}
        () = signals.stopped() => return None,
    }
    Some(write_last(ingest).await.map(|()| (successor, since)))
}

/// Starts a successor. One that gets ready after this was dropped is ended.
async fn start(program: &Path) -> Result<Successor, String> {
    let program = program.to_owned();
    match tokio::task::spawn_blocking(move || Successor::start(&program)).await {
        Ok(started) => started.map_err(|error: NoSuccessor| error.to_string()),
        Err(_) => Err(ServeError::Panicked.to_string()),
    }
}

/// Writes what has arrived, so that a successor has little to read.
async fn write_last(ingest: &Ingest) -> Result<(), String> {
    // An earlier attempt may have come to its last batch too late.
    ingest.state.is_flushed.store(false, Ordering::Relaxed);
    ingest.state.last_batch.store(true, Ordering::Relaxed);
    let flushed = async {
        while !ingest.state.is_flushed.load(Ordering::Relaxed) {
            tokio::time::sleep(BATCH_TICK).await;
        }
    };
    if tokio::time::timeout(LAST_BATCH, flushed).await.is_err() {
        ingest.state.last_batch.store(false, Ordering::Relaxed);
        let error = ingest.state.store_error().unwrap_or_else(|| "it is slow".to_owned());
        return Err(format!("the record could not be written ({error})"));
    }
    Ok(())
}
