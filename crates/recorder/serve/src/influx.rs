//! Influx line protocol over HTTP: `/write`, `/api/v2/write`, `/ping`, and of `/query` what clients
//! need to start.
//!
//! As documented in "Write data with the InfluxDB API" for InfluxDB 1.x and 2.x. Databases, buckets
//! and organisations are ignored: there is one record.

use std::io::Read as _;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Extension, Query, State};
use axum::http::header::{CONTENT_ENCODING, HeaderMap, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use formats::Precision;
use futures_util::StreamExt as _;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::ingest::{Answer, Format, Ingest, MESSAGE_MAX, Message, Refused, now_us};
use crate::metrics::{Sender, Way};
use crate::requests::Peer;

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// When a client that was refused may try again, in seconds.
const RETRY_S: &str = "5";

/// The version of InfluxDB whose API this is, for clients that ask.
const VERSION: &str = "1.8.10";

/// The paths of InfluxDB's API.
pub(crate) fn router(ingest: Ingest) -> Router {
    Router::new()
        .route("/write", post(write))
        .route("/api/v2/write", post(write))
        .route("/ping", get(ping).head(ping))
        .route("/query", get(query).post(query))
        .with_state(ingest)
}

#[derive(Debug, Deserialize)]
struct WriteParameters {
    precision: Option<String>,
}

/// Why a request is refused.
struct Failed {
    status: StatusCode,
    why: String,
}

impl Failed {
    fn new(status: StatusCode, why: impl Into<String>) -> Failed {
        Failed { status, why: why.into() }
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        failure(self.status, &self.why)
    }
}

/// A refusal with its reason. `error` is what clients of InfluxDB 1.x show, `code` and `message`
/// those of 2.x.
pub(crate) fn failure(status: StatusCode, why: &str) -> Response {
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "forbidden",
        _ => "invalid",
    };
    let answer = serde_json::json!({ "code": code, "message": why, "error": why });
    let mut response = (status, axum::Json(answer)).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_S));
    }
    response
}

/// 204 once all lines are in the journal; 400 with the first refused line, when the other lines are
/// in the journal.
async fn write(
    State(ingest): State<Ingest>,
    Extension(peer): Extension<Peer>,
    Query(parameters): Query<WriteParameters>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Failed> {
    let precision = parameters.precision.as_deref().filter(|precision| !precision.is_empty());
    let precision = match precision {
        None => Precision::Nanoseconds,
        Some(text) => Precision::parse(text).ok_or_else(|| {
            let why = format!("precision '{text}' is not supported: use ns, us, ms or s");
            Failed::new(StatusCode::BAD_REQUEST, why)
        })?,
    };
    if ingest.is_full() {
        let why = "the record cannot be written and the journal is full: try again later";
        return Err(Failed::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let read = read(&ingest, body.into_data_stream());
    let read = tokio::time::timeout(BODY_TIMEOUT, read).await;
    let (mut lines, mut room) = read.map_err(|_| {
        let why = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Failed::new(StatusCode::REQUEST_TIMEOUT, why)
    })??;
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => {
            // A limit on the memory of all requests, not only on this one.
            room = ingest.try_room(MESSAGE_MAX).ok_or_else(busy)?;
            lines = unpack(&lines)?;
        }
        Some(_) => {
            let why = "this Content-Encoding is not supported: use gzip, or none";
            return Err(Failed::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
    }
    if lines.is_empty() {
        return Ok(StatusCode::NO_CONTENT);
    }
    let (answer, answered) = oneshot::channel();
    let message = Message {
        format: Format::Influx(precision),
        lines,
        arrival_us: now_us(),
        sender: Sender { way: Way::influx_http, name: peer.name },
        answer: Some(answer),
        room,
    };
    ingest.send(message).await;
    match answered.await {
        Ok(Answer::Written(Refused { first: None, .. })) => Ok(StatusCode::NO_CONTENT),
        Ok(Answer::Written(Refused { lines, first: Some((number, line, reason)) })) => {
            let why = format!(
                "partial write: line {number} ('{line}'): {reason}; refused lines: {lines}, the \
                 others were written"
            );
            Err(Failed::new(StatusCode::BAD_REQUEST, why))
        }
        Ok(Answer::Failed(why)) => Err(Failed::new(StatusCode::SERVICE_UNAVAILABLE, why)),
        Err(_) => Err(Failed::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending")),
    }
}

fn busy() -> Failed {
    let why = "too many requests at a time: try again later";
    Failed::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Reads a body, within the limits of a message and of all messages.
async fn read(
    ingest: &Ingest,
    mut body: BodyDataStream,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), Failed> {
    let mut room = ingest.try_room(0).ok_or_else(busy)?;
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| {
            Failed::new(StatusCode::BAD_REQUEST, format!("the body cannot be read ({error})"))
        })?;
        if bytes.len() + part.len() > MESSAGE_MAX {
            return Err(too_large());
        }
        room.merge(ingest.try_room(part.len()).ok_or_else(busy)?);
        bytes.extend_from_slice(&part);
    }
    Ok((bytes, room))
}

fn too_large() -> Failed {
    let why = format!("the body is longer than {MESSAGE_MAX} bytes: send fewer lines at a time");
    Failed::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, Failed> {
    let mut lines = Vec::new();
    let limit = MESSAGE_MAX as u64;
    let unpacked =
        flate2::read::MultiGzDecoder::new(packed).take(limit + 1).read_to_end(&mut lines);
    unpacked.map_err(|error| {
        Failed::new(StatusCode::BAD_REQUEST, format!("the body is not valid gzip ({error})"))
    })?;
    if lines.len() > MESSAGE_MAX { Err(too_large()) } else { Ok(lines) }
}

async fn ping() -> Response {
    let version = HeaderName::from_static("x-influxdb-version");
    (StatusCode::NO_CONTENT, [(version, VERSION)]).into_response()
}

#[derive(Debug, Deserialize)]
struct QueryParameters {
    q: Option<String>,
}

/// Clients create their database when they start; there is nothing to create.
async fn query(Query(parameters): Query<QueryParameters>, body: String) -> Response {
    let form = body.strip_prefix("q=").map(str::to_owned);
    let asked = parameters.q.or(form).unwrap_or_default().replace('+', " ");
    let asked = asked.replace("%20", " ");
    if asked.trim_start().to_ascii_uppercase().starts_with("CREATE DATABASE") {
        let done = serde_json::json!({ "results": [{ "statement_id": 0 }] });
        return axum::Json(done).into_response();
    }
    let why = "InfluxQL is not supported: read the record with SQL, `tachograph query` or Grafana";
    Failed::new(StatusCode::BAD_REQUEST, why).into_response()
}
