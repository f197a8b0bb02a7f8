//! Start, restart, and stop by a signal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use engine::JournalError;
use recordfile::{create_folder, refuse_foreign};
use rustix::fs::Mode;
use rustix::process::{Pid, kill_process};
use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::datagrams::{Datagrams, Drops};
use crate::handover::{NoSuccessor, Predecessor, Successor};
use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::http::Shared;
use crate::ingest::{Ingest, Threads};
use crate::local_user::LocalUsers;
use crate::metrics::{ByWay, Metrics, NOT_ALLOWED, Sender, Way};
use crate::phase::Phase;
use crate::places::{GAVE_WAY, Place, Places};
use crate::plaintext::Connection;
use crate::service::Service;
use crate::sockets::{Bound, Stream, name_of};
use crate::{
    Access, Address, Options, Readers, ServeError, Tls, activation, http, ingest, requests,
};

/// How long requests in progress may take when the daemon stops, or is replaced.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// How long the last batch before a successor takes over may take.
const LAST_BATCH: Duration = Duration::from_secs(10);

/// How long tasks that do not end by themselves may take at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// How often to look whether it is written.
const BATCH_TICK: Duration = Duration::from_millis(2);

/// Pause after a connection could not be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a person should know of a running daemon.
#[derive(Debug)]
pub enum Event<'a> {
    /// It listens on these addresses.
    Listening(&'a [Address]),
    /// Another process has taken over.
    Replaced {
        /// Its process id.
        by: u32,
    },
    /// No other process took over, for this reason; this one goes on.
    NotReplaced(String),
}

/// A bound socket with its address in the options, and the one that it has.
struct Listening {
    service: Service,
    wanted: Address,
    address: Address,
    socket: Bound,
    given: Activation,
}

/// Why a round of serving ended.
enum Ended {
    Stopped,
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
        Some(threads) => threads.join(),
        None => Ok(()),
    }
}

/// Runs the daemon on a runtime; returns the threads that are to write the rest.
fn run_on(
    runtime: &Runtime,
    options: &Options,
    mut predecessor: Option<Predecessor>,
    readers: &Readers,
    mounted: Router,
    metrics: Metrics,
    tell: &impl Fn(Event<'_>),
) -> Result<Option<Threads>, ServeError> {
    let entered = runtime.enter();
    let mut signals = Signals::new(options).map_err(ServeError::System)?;
    drop(entered);
    let mut stops = false;
    let mut left = match &mut predecessor {
        Some(predecessor) => predecessor.take().map_err(ServeError::System)?,
        None => activation::take(options)?,
    };
    loop {
        let adopted = runtime.block_on(adopt(options, left))?;
        prepare(&options.journal)?;
        let (ingest, threads) = ingest::start(options.ingest(), metrics.clone())?;
        if let Some(predecessor) = predecessor.take() {
            predecessor.confirm();
        }
        let router = |ingest: &Ingest, drops: &Arc<Mutex<Vec<Drops>>>| {
            let (readers, ingest, drops) = (readers.clone(), ingest.clone(), drops.clone());
            let (access, databases) = (options.access.clone(), options.databases.clone().into());
            let shared = Shared { readers, ingest, drops, access, databases };
            http::router(shared, mounted.clone())
        };
        let served = serve(options, adopted, ingest, router, tell, &mut signals, stops);
        match runtime.block_on(served)? {
            Ended::Stopped => return Ok(Some(threads)),
            Ended::HandsOver(successor, handed) => {
                let by = successor.id();
                let handing = hand_over(threads, successor, handed, &mut signals);
                let done;
                (done, left, stops) = runtime.block_on(handing)?;
                match done {
                    Ok(()) => {
                        if stops {
                            stop(by);
                        }
                        tell(Event::Replaced { by });
                        return Ok(None);
                    }
                    // What is left is taken back, and stops in order.
                    Err(_) if stops => {}
                    Err(error) => tell(Event::NotReplaced(error)),
                }
            }
        }
    }
}

/// Hands everything over to a successor; gives up if this process is told to stop meanwhile. Returns
/// why there is no successor, what was to be handed over, and whether to stop.
async fn hand_over(
    threads: Threads,
    successor: Successor,
    left: Vec<HandoverItem>,
    signals: &mut Signals,
) -> Result<(Result<(), String>, Vec<HandoverItem>, bool), ServeError> {
    let give_up = Arc::new(AtomicBool::new(false));
    let asked = give_up.clone();
    let mut handing = tokio::task::spawn_blocking(move || {
        let joined = threads.join().map_err(|error| error.to_string());
        let hand_over = || successor.hand_over(&left, &asked).map_err(|error| error.to_string());
        (joined.and_then(|()| hand_over()), left)
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
    match Mode::from_raw_mode(found.mode()).contains(Mode::WOTH) {
        true => Err(ServeError::OpenFolder(journal.to_owned())),
        false => Ok(()),
    }
}

/// Where the daemon listens, and the connections that it continues.
struct Adopted {
    sockets: Vec<Listening>,
    connections: Vec<HandoverItem>,
}

/// Binds all sockets, except for those that were handed over, so that a second daemon ends before
/// it opens the journal. Returns connections that were handed over too.
async fn adopt(options: &Options, left: Vec<HandoverItem>) -> Result<Adopted, ServeError> {
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
            Some((.., given, fd)) => (Bound::adopted(fd, &wanted).map_err(failed)?, given),
            None => {
                if let Address::Unix(path) | Address::UnixDatagram(path) = &wanted {
                    refuse_foreign(path)?;
                }
                let socket = Bound::new(&wanted, options.socket_mode).await;
                (socket.map_err(failed)?, Activation::No)
            }
        };
        let address = socket.address(&wanted).map_err(failed)?;
        listening.push(Listening { service, wanted, address, socket, given });
    }
    Ok(Adopted { sockets: listening, connections })
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

    /// Waits until the daemon is to stop, whatever other signals come before.
    async fn stopped(&mut self) {
        while !self.stops().await {}
    }
}

/// Serves until a signal comes, or at once stops if one has come already.
async fn serve(
    options: &Options,
    adopted: Adopted,
    ingest: Ingest,
    router: impl FnOnce(&Ingest, &Arc<Mutex<Vec<Drops>>>) -> Router,
    tell: &impl Fn(Event<'_>),
    signals: &mut Signals,
    mut stops: bool,
) -> Result<Ended, ServeError> {
    let drops = Arc::new(Mutex::new(Vec::new()));
    let router = router(&ingest, &drops);
    let (phase, phases) = watch::channel(Phase::Run);
    let (mut http, mut lines) = (JoinSet::new(), JoinSet::new());
    let (mut addresses, mut own) = (Vec::new(), Vec::new());
    let Adopted { sockets, connections: mut adopted } = adopted;
    for Listening { service, wanted, address, socket, given } in sockets {
        if given == Activation::No {
            own.push(address.clone());
        }
        addresses.push(address);
        let (ingest, phases) = (ingest.clone(), phases.clone());
        match (service.lines(), socket) {
            (Some((format, _, way)), socket @ (Bound::Udp(_) | Bound::UnixDatagram(_))) => {
                let wanted = wanted.to_string();
                let access = options.access.clone();
                let datagrams = Datagrams { socket, service, wanted, given, format, way, access };
                let mut drops = drops.lock().unwrap_or_else(PoisonError::into_inner);
                drops.extend(Drops::of(&datagrams));
                lines.spawn(
                    async move { datagrams.run(ingest, phases).await.into_iter().collect() },
                );
            }
            (known, socket) => {
                let Options { connections_max, connections_of_sender_max, .. } = *options;
                let places = Places::new(connections_max, connections_of_sender_max);
                let (router, access) = (router.clone(), options.access.clone());
                // The first listener of a service continues the connections of all.
                let mine = |left: &mut HandoverItem| match &left.what {
                    ItemKind::Socket { .. } => false,
                    ItemKind::Lines { service: theirs, .. } => *theirs == service,
                    ItemKind::Http { .. } => service == Service::Http,
                };
                let adopted = adopted.extract_if(.., mine).collect();
                let listener =
                    Listener { service, wanted, given, socket, router, access, places, adopted };
                let tasks = if known.is_some() { &mut lines } else { &mut http };
                tasks.spawn(listener.run(ingest, phases));
            }
        }
    }
    tell(Event::Listening(&addresses));
    // Does nothing without systemd. After a restart the main process has a new id.
    let main = NotifyState::MainPid(std::process::id());
    let _ = sd_notify::notify(&[NotifyState::Ready, main]);
    let state = ingest.state.clone();
    loop {
        // Without one of its threads, the daemon would refuse everything for ever.
        stops = stops
            || tokio::select! {
                stops = signals.stops() => stops,
                () = state.ended.notified() => true,
            };
        if stops {
            // The receivers are gone only if all tasks have ended.
            let _ = phase.send(Phase::Stop);
            drop(ingest);
            all(&mut http).await;
            all(&mut lines).await;
            remove_sockets(&own);
            return Ok(Ended::Stopped);
        }
        let started = tokio::select! {
            started = start(&options.program) => started,
            () = signals.stopped() => {
                stops = true;
                continue;
            }
        };
        let ready = match started {
            Ok(successor) => write_last(&ingest).await.map(|()| successor),
            Err(error) => Err(error),
        };
        let successor = match ready {
            Ok(successor) => successor,
            Err(error) => {
                tell(Event::NotReplaced(error));
                continue;
            }
        };
        let _ = phase.send(Phase::Drain);
        let mut left = all(&mut http).await;
        let _ = phase.send(Phase::HandOver);
        left.extend(all(&mut lines).await);
        return Ok(Ended::HandsOver(successor, left));
    }
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

/// The connection with TLS, if it needs it. A client that does not agree in time, or before the
/// daemon ends, has sent no request.
async fn secured(
    stream: Stream,
    tls: Option<&Tls>,
    phase: &mut watch::Receiver<Phase>,
) -> Option<Stream> {
    match (stream, tls) {
        (Stream::Tcp(stream), Some(tls)) => tokio::select! {
            accepted = tls.accept(stream) => Some(Stream::Tls(Box::new(accepted.ok()?))),
            _ = phase.wait_for(|phase| *phase != Phase::Run) => None,
        },
        (stream, _) => Some(stream),
    }
}

/// What all tasks leave.
async fn all(tasks: &mut JoinSet<Vec<HandoverItem>>) -> Vec<HandoverItem> {
    let mut left = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        left.extend(ended.unwrap_or_default());
    }
    left
}

fn remove_sockets(addresses: &[Address]) {
    for address in addresses {
        if let Address::Unix(path) | Address::UnixDatagram(path) = address {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// A socket that accepts connections.
struct Listener {
    service: Service,
    wanted: Address,
    given: Activation,
    socket: Bound,
    router: Router,
    access: Access,
    places: Places,
    /// Connections that a predecessor has accepted.
    adopted: Vec<HandoverItem>,
}

impl Listener {
    /// Accepts connections until the daemon stops, and waits for their ends. Returns what a
    /// successor takes over.
    async fn run(mut self, ingest: Ingest, mut phase: watch::Receiver<Phase>) -> Vec<HandoverItem> {
        let mut connections = JoinSet::new();
        let mut left = Vec::new();
        let users = LocalUsers::new();
        for adopted in std::mem::take(&mut self.adopted) {
            let HandoverItem { fd, what } = adopted;
            // A connection that is closed by now cannot be used.
            let Ok(stream) = Stream::adopted(fd) else { continue };
            let place = self.places.keep(stream.holder(what.sender(), &users));
            self.spawn(&mut connections, stream, what, place, &ingest, &phase);
        }
        let is_over = |service: Service, phase: Phase| match phase {
            Phase::Run => false,
            Phase::Drain => service == Service::Http,
            Phase::HandOver | Phase::Stop => true,
        };
        loop {
            let service = self.service;
            let accepted = tokio::select! {
                _ = phase.wait_for(|phase| is_over(service, *phase)) => break,
                accepted = self.socket.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    // Connections end for a successor only with the listener.
                    left.extend(ended.ok().flatten());
                    continue;
                }
            };
            let Ok((stream, sender)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let place = match sender {
                Some(sender) if !self.access.allows(sender) => Err(NOT_ALLOWED),
                sender => self.places.take(stream.holder(sender, &users)),
            };
            let sender = name_of(sender);
            let place = match place {
                Ok(place) => place,
                Err(reason) => {
                    let way = service.lines().map_or(Way::http, |(_, way, _)| way);
                    ingest.metrics.turn_away(&Sender { way, name: sender.into() }, reason);
                    stream.abort();
                    continue;
                }
            };
            let what = match service {
                Service::Http => ItemKind::Http { sender, ahead: Vec::new() },
                _ => ItemKind::Lines { service, sender, half: Vec::new(), skipping: false },
            };
            self.spawn(&mut connections, stream, what, place, &ingest, &phase);
        }
        if *phase.borrow() == Phase::Stop {
            // New connections are refused from now on.
            drop(self.socket);
        } else if let Ok(fd) = self.socket.into_fd() {
            let (service, wanted, given) = (self.service, self.wanted.to_string(), self.given);
            let what = ItemKind::Socket { service, wanted, given };
            left.push(HandoverItem { fd, what });
        }
        let answered = async {
            while let Some(ended) = connections.join_next().await {
                left.extend(ended.ok().flatten());
            }
        };
        // Requests that are still in progress then are given up with their tasks.
        let _ = tokio::time::timeout(LAST_REQUESTS, answered).await;
        left
    }

    fn spawn(
        &self,
        connections: &mut JoinSet<Option<HandoverItem>>,
        stream: Stream,
        what: ItemKind,
        place: Place,
        ingest: &Ingest,
        phase: &watch::Receiver<Phase>,
    ) {
        let (ingest, mut phase) = (ingest.clone(), phase.clone());
        let (place, metrics) = (Arc::new(place), ingest.metrics.clone());
        let held = place.clone();
        match what {
            ItemKind::Lines { service, sender, half, skipping } => {
                let Some((format, way, _)) = service.lines() else { return };
                let sender = Sender { way, name: sender.into() };
                let known = sender.clone();
                let connection =
                    Connection { stream, sender, service, format, half, skipping, place };
                connections.spawn(async move {
                    let left = connection.run(ingest, phase).await;
                    if held.is_lost() {
                        metrics.turn_away(&known, GAVE_WAY);
                    }
                    left
                });
            }
            ItemKind::Http { sender, ahead } => {
                let labels = ByWay { way: Way::http };
                let open = ingest.metrics.connections.get_or_create(&labels).clone();
                let router = self.router.clone();
                // Only the router needs the way in.
                drop(ingest);
                let tls = self.access.tls.clone();
                connections.spawn(async move {
                    let stream = secured(stream, tls.as_ref(), &mut phase).await?;
                    let known = Sender { way: Way::http, name: sender.as_str().into() };
                    open.inc();
                    let left = requests::answer(stream, ahead, sender, router, phase, place);
                    let left = left.await;
                    open.dec();
                    if held.is_lost() {
                        metrics.turn_away(&known, GAVE_WAY);
                    }
                    left
                });
            }
            ItemKind::Socket { .. } => {}
        }
    }
}
