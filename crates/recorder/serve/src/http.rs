//! The HTTP paths of the daemon itself.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout, timeout_at};

use crate::access::AccessDenial;
use crate::datagrams::Drops;
use crate::influx::{Databases, failure};
use crate::ingest::Ingest;
use crate::metrics::{ByWay, Metrics, Sender, Way};
use crate::requests::{RequestSender, while_wanted};
use crate::{Access, Readers, influx, otlp, remote_write};

/// How long the body of a request may take. Those that write have a shorter limit of their own.
const BODY_MAX: Duration = Duration::from_secs(60);

/// How long the record may take to answer for `/health`.
const PROBE_MAX: Duration = Duration::from_secs(5);

const CHALLENGE: &str = "Basic realm=\"tachograph: the password is a token\"";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the daemon's own paths need.
#[derive(Clone, Debug)]
pub(crate) struct HttpState {
    pub(crate) readers: Readers,
    pub(crate) ingest: Ingest,
    pub(crate) drops: Arc<Mutex<Vec<Drops>>>,
    pub(crate) access: Access,
    pub(crate) databases: Databases,
}

/// The paths of the daemon, and those of `mounted`.
pub(crate) fn router(shared: HttpState, mounted: Router) -> Router {
    let ingest = shared.ingest.clone();
    let (metrics, access) = (ingest.metrics.clone(), shared.access.clone());
    let (readers, databases) = (shared.readers.clone(), shared.databases.clone());
    let paths = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(show_metrics))
        .with_state(shared)
        .merge(influx::router(ingest.clone(), readers, databases))
        .merge(remote_write::router(ingest.clone()))
        .merge(otlp::router(ingest))
        .merge(mounted.layer(middleware::from_fn(while_wanted)));
    with_guard(paths, access, metrics)
}

/// Paths for those who may ask, whose requests are counted.
pub(crate) fn with_guard(paths: Router, access: Access, metrics: Metrics) -> Router {
    paths
        .layer(middleware::from_fn_with_state((access, metrics.clone()), guard))
        .layer(middleware::from_fn_with_state(metrics, count))
}

async fn count(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    metrics.http_requests.inc();
    response
}

/// Answers only those who may ask, and whose body arrives in time.
async fn guard(
    State((access, metrics)): State<(Access, Metrics)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(peer) = request.extensions_mut().get_mut::<RequestSender>() else {
        return failure(StatusCode::FORBIDDEN, "the sender is not known");
    };
    let link = peer.link;
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        // A proxy before the daemon may have looked at the other one (RFC 9112, section 3.2).
        return failure(StatusCode::BAD_REQUEST, "a request must have one Host header");
    }
    // InfluxDB answers it without a token too: clients look whether they talk to InfluxDB.
    if request.uri().path() != "/ping" {
        match access.admit(link, request.uri(), request.headers()) {
            Ok(None) => {}
            Ok(Some(token)) => {
                if let Some(peer) = request.extensions_mut().get_mut::<RequestSender>() {
                    peer.name = format!("{token}@{}", peer.name).into();
                }
            }
            Err(denied) => {
                if let Some(peer) = request.extensions().get::<RequestSender>() {
                    let sender = Sender { way: Way::http, name: peer.name.clone() };
                    metrics.turn_away(&sender, denied.reason);
                }
                return refuse(&denied);
            }
        }
    }
    next.run(request.map(in_time)).await
}

fn refuse(denied: &AccessDenial) -> Response {
    let mut response = failure(denied.status, &denied.why);
    if denied.status == StatusCode::UNAUTHORIZED {
        // Browsers ask for a name and a password, which is the token.
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}

/// A body that fails if it has not arrived within a limit.
fn in_time(body: Body) -> Body {
    let deadline = Instant::now() + BODY_MAX;
    let parts = stream::unfold(body.into_data_stream(), move |mut parts| async move {
        let part = match timeout_at(deadline, parts.next()).await {
            Ok(part) => part?,
            Err(_) => Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))),
        };
        Some((part, parts))
    });
    Body::from_stream(parts)
}

/// 200 if the store can be read, and the journal and the store can be written, otherwise 503 with the reason.
async fn health(State(shared): State<HttpState>) -> Response {
    let trouble = || shared.ingest.state.trouble();
    let probe = shared.readers.probe(|store| store.retentions());
    let error = match trouble() {
        Some(error) => Some(error),
        None => match timeout(PROBE_MAX, probe).await {
            Ok(Ok(_)) => trouble(),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the record has not answered for {} s", PROBE_MAX.as_secs())),
        },
    };
    match error {
        None => "ok\n".into_response(),
        Some(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn show_metrics(State(shared): State<HttpState>) -> Response {
    let HttpState { ingest, drops, .. } = &shared;
    for drops in drops.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
        let (way, new) = drops.new_ones();
        ingest.metrics.datagrams_dropped.get_or_create(&ByWay { way }).inc_by(new);
    }
    let text = ingest.metrics.text(&ingest.state, ingest.is_full());
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
