//! While the record is not available at the start, HTTP is answered with the reason.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Access;
use crate::handover_item::{HandoverItem, ItemKind};
use crate::http::with_guard;
use crate::influx::failure;
use crate::ingest::Ingest;
use crate::listener::{Listener, all};
use crate::metrics::Metrics;
use crate::phase::Phase;

/// Answers every HTTP request with 503 and the reason.
#[derive(Debug)]
pub(crate) struct UnavailableService {
    reason: Reason,
    phase: watch::Sender<Phase>,
    listeners: JoinSet<Vec<HandoverItem>>,
}

/// Why the record is not available.
#[derive(Clone, Debug)]
pub(crate) struct Reason(Arc<Mutex<String>>);

impl Reason {
    pub(crate) fn new(reason: String) -> Reason {
        Reason(Arc::new(Mutex::new(reason)))
    }

    /// Answers all requests with it, of those who may ask.
    pub(crate) fn router(&self, access: &Access, metrics: &Metrics) -> axum::Router {
        let Reason(reason) = self.clone();
        let answer = move || async move {
            let reason = reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
            failure(StatusCode::SERVICE_UNAVAILABLE, &reason)
        };
        with_guard(axum::Router::new().fallback(answer), access.clone(), metrics.clone())
    }
}

impl UnavailableService {
    /// Begins to answer.
    pub(crate) fn new(
        reason: Reason,
        listeners: Vec<Listener>,
        metrics: &Metrics,
    ) -> UnavailableService {
        let (phase, phases) = watch::channel(Phase::Run);
        let mut tasks = JoinSet::new();
        for listener in listeners {
            // HTTP reaches the way in through its router only, and this one has none.
            tasks.spawn(listener.run(Ingest::nowhere(metrics.clone()), phases.clone()));
        }
        UnavailableService { reason, phase, listeners: tasks }
    }

    /// From now on this is the reason.
    pub(crate) fn tell(&self, reason: String) {
        *self.reason.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Answers no more; returns the connections that wait for their next request.
    pub(crate) async fn end(mut self) -> Vec<HandoverItem> {
        let _ = self.phase.send(Phase::HandOver);
        let mut left = all(&mut self.listeners).await;
        // The sockets are open twice.
        left.retain(|item| !matches!(item.what, ItemKind::Socket { .. }));
        left
    }
}
