//! The HTTP paths of the daemon itself.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::datagrams::Drops;
use crate::ingest::Ingest;
use crate::metrics::{ByWay, Metrics};
use crate::{Readers, influx};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the daemon's own paths need.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) readers: Readers,
    pub(crate) ingest: Ingest,
    pub(crate) drops: Arc<Mutex<Vec<Drops>>>,
}

/// The paths of the daemon, and those of `mounted`.
pub(crate) fn router(shared: Shared, mounted: Router) -> Router {
    let ingest = shared.ingest.clone();
    let metrics = ingest.metrics.clone();
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(show_metrics))
        .with_state(shared)
        .merge(influx::router(ingest))
        .merge(mounted)
        .layer(middleware::from_fn_with_state(metrics, count))
}

async fn count(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    metrics.http_requests.inc();
    response
}

/// 200 if the store can be read and written, otherwise 503 with the reason.
async fn health(State(shared): State<Shared>) -> Response {
    let error = match shared.readers.read(|store| store.retentions()).await {
        Ok(_) => shared.ingest.state.store_error(),
        Err(error) => Some(error.to_string()),
    };
    match error {
        None => "ok\n".into_response(),
        Some(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn show_metrics(State(shared): State<Shared>) -> Response {
    let Shared { ingest, drops, .. } = &shared;
    for drops in drops.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
        let (way, new) = drops.new_ones();
        ingest.metrics.datagrams_dropped.get_or_create(&ByWay { way }).inc_by(new);
    }
    let text = ingest.metrics.text(&ingest.state, ingest.is_full());
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
