//! Sockets that accept connections.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::ingest::Ingest;
use crate::local_user::LocalUsers;
use crate::metrics::{ByWay, NOT_ALLOWED, Sender, Way};
use crate::phase::Phase;
use crate::places::{GAVE_WAY, Place, Places};
use crate::plaintext::Connection;
use crate::service::Service;
use crate::sockets::{BoundSocket, Stream, name_of};
use crate::{Access, Address, ServeError, Tls, requests};

/// How long requests in progress may take when the daemon stops, or is replaced.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
pub(crate) struct Listener {
    pub(crate) service: Service,
    /// Its address in the options.
    pub(crate) wanted: Address,
    pub(crate) given: Activation,
    pub(crate) socket: BoundSocket,
    pub(crate) router: Router,
    pub(crate) access: Access,
    pub(crate) places: Places,
    /// Connections that a predecessor has accepted.
    pub(crate) adopted: Vec<HandoverItem>,
}

impl Listener {
    /// Accepts connections until the daemon stops, and waits for their ends. Returns what a
    /// successor takes over.
    pub(crate) async fn run(
        mut self,
        ingest: Ingest,
        mut phase: watch::Receiver<Phase>,
    ) -> Vec<HandoverItem> {
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
            Phase::Drain { .. } => service == Service::Http,
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
        let now = *phase.borrow();
        if now == Phase::Stop {
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
        let until = match now {
            Phase::Drain { until } => until,
            Phase::Run | Phase::HandOver | Phase::Stop => Instant::now() + LAST_REQUESTS,
        };
        let _ = timeout_at(until, answered).await;
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
                let (router, requests) = (self.router.clone(), ingest.state.requests.clone());
                // Only the router needs the way in.
                drop(ingest);
                let tls = self.access.tls.clone();
                connections.spawn(async move {
                    let stream = secured(stream, tls.as_ref(), &mut phase).await?;
                    let known = Sender { way: Way::http, name: sender.as_str().into() };
                    open.inc();
                    let left =
                        requests::answer(stream, ahead, sender, router, phase, place, requests);
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

/// Waits until a task ends that was not told to.
pub(crate) async fn ended_early(tasks: &mut JoinSet<Vec<HandoverItem>>) -> ServeError {
    match tasks.join_next().await {
        Some(Ok(_)) => ServeError::ListenerEnded,
        Some(Err(_)) => ServeError::Panicked,
        None => std::future::pending().await,
    }
}

/// What all tasks leave.
pub(crate) async fn all(tasks: &mut JoinSet<Vec<HandoverItem>>) -> Vec<HandoverItem> {
    let mut left = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        left.extend(ended.unwrap_or_default());
    }
    left
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_without_being_told_is_an_error() {
        let mut tasks = JoinSet::new();
        assert!(ended_early(&mut tasks).now_or_never().is_none(), "there is none");
        tasks.spawn(std::future::pending());
        assert!(ended_early(&mut tasks).now_or_never().is_none(), "it works");
        tasks.spawn(async { panic!("as asked") });
        assert!(matches!(ended_early(&mut tasks).await, ServeError::Panicked));
        tasks.spawn(async { Vec::new() });
        assert!(matches!(ended_early(&mut tasks).await, ServeError::ListenerEnded));
    }
}
