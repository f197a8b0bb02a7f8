//! The tasks of all addresses, which begin and end together.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::datagrams::{Datagrams, Drops};
use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::ingest::Ingest;
use crate::listener::{LAST_REQUESTS, Listener, all, ended_early};
use crate::phase::Phase;
use crate::places::Places;
use crate::service::Service;
use crate::sockets::BoundSocket;
use crate::{Address, Options, ServeError};

/// How long those may take at least that have begun while others were waited for.
const NEW_REQUESTS: Duration = Duration::from_secs(1);

/// A bound socket with its address in the options, and the one that it has.
pub(crate) struct ListeningSocket {
    pub(crate) service: Service,
    pub(crate) wanted: Address,
    pub(crate) address: Address,
    pub(crate) socket: BoundSocket,
    pub(crate) given: Activation,
}

/// The tasks.
pub(crate) struct Listeners {
    http: JoinSet<Vec<HandoverItem>>,
    lines: JoinSet<Vec<HandoverItem>>,
    phase: watch::Sender<Phase>,
    pub(crate) addresses: Vec<Address>,
    /// Those whose files are ours to remove.
    own: Vec<Address>,
}

impl Listeners {
    /// Listens on these sockets, and continues these connections. `drops` gets what the kernel drops
    /// of datagrams.
    pub(crate) fn start(
        options: &Options,
        sockets: Vec<ListeningSocket>,
        mut connections: Vec<HandoverItem>,
        ingest: &Ingest,
        router: &Router,
        drops: &Mutex<Vec<Drops>>,
    ) -> Listeners {
        let (phase, phases) = watch::channel(Phase::Run);
        let (mut http, mut lines) = (JoinSet::new(), JoinSet::new());
        let (mut addresses, mut own) = (Vec::new(), Vec::new());
        for ListeningSocket { service, wanted, address, socket, given } in sockets {
            if given == Activation::No {
                own.push(address.clone());
            }
            addresses.push(address);
            let (ingest, phases) = (ingest.clone(), phases.clone());
            match (service.lines(), socket) {
                (
                    Some((format, _, way)),
                    socket @ (BoundSocket::Udp(_) | BoundSocket::UnixDatagram(_)),
                ) => {
                    let wanted = wanted.to_string();
                    let access = options.access.clone();
                    let datagrams =
                        Datagrams { socket, service, wanted, given, format, way, access };
                    let mut drops = drops.lock().unwrap_or_else(PoisonError::into_inner);
                    drops.extend(Drops::of(&datagrams));
                    lines.spawn(async move {
                        datagrams.run(ingest, phases).await.into_iter().collect()
                    });
                }
                (known, socket) => {
                    // The first listener of a service continues the connections of all.
                    let mine = |left: &mut HandoverItem| match &left.what {
                        ItemKind::Socket { .. } => false,
                        ItemKind::Lines { service: theirs, .. } => *theirs == service,
                        ItemKind::Http { .. } => service == Service::Http,
                    };
                    let adopted = connections.extract_if(.., mine).collect();
                    let router = router.clone();
                    let listener =
                        listener(options, service, wanted, given, socket, router, adopted);
                    let tasks = if known.is_some() { &mut lines } else { &mut http };
                    tasks.spawn(listener.run(ingest, phases));
                }
            }
        }
        Listeners { http, lines, phase, addresses, own }
    }

    /// Waits until one ends that was not told to: without it, the daemon would not hear some senders.
    pub(crate) async fn ended_early(&mut self) -> ServeError {
        tokio::select! {
            error = ended_early(&mut self.http) => error,
            error = ended_early(&mut self.lines) => error,
        }
    }

    /// Stops listening, once everything that has arrived is handed on.
    pub(crate) async fn stop(mut self) {
        // The receivers are gone only if all tasks have ended.
        let _ = self.phase.send(Phase::Stop);
        all(&mut self.http).await;
        all(&mut self.lines).await;
        for address in &self.own {
            if let Address::Unix(path) | Address::UnixDatagram(path) = address {
                // Another process may have removed it.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Ends the tasks for a successor, which was wanted at `since`, and returns what they leave to
    /// it.
    pub(crate) async fn leave(mut self, since: Instant) -> Vec<HandoverItem> {
        let until = (since + LAST_REQUESTS).max(Instant::now() + NEW_REQUESTS);
        let _ = self.phase.send(Phase::Drain { until });
        let mut left = all(&mut self.http).await;
        let _ = self.phase.send(Phase::HandOver);
        left.extend(all(&mut self.lines).await);
        left
    }
}

/// The listener of a socket for connections, which continues those that were adopted.
pub(crate) fn listener(
    options: &Options,
    service: Service,
    wanted: Address,
    given: Activation,
    socket: BoundSocket,
    router: Router,
    adopted: Vec<HandoverItem>,
) -> Listener {
    let Options { connections_max, connections_of_sender_max, .. } = *options;
    let places = Places::new(connections_max, connections_of_sender_max);
    let access = options.access.clone();
    Listener { service, wanted, given, socket, router, access, places, adopted }
}
