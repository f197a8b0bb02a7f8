//! Influx line protocol over HTTP: `/write`, `/api/v2/write`, `/ping`, and of `/query` what clients
//! need to start.
//!
//! As documented in "Write data with the InfluxDB API" for InfluxDB 1.x and 2.x. Databases, buckets
//! and organisations are ignored: there is one record.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use formats::Precision;
use serde::Deserialize;

use crate::body::{self, Failed};
use crate::ingest::{Format, Ingest};
use crate::metrics::Way;
use crate::requests::Peer;

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

/// An answer as clients of InfluxDB expect it.
struct Shown(Failed);

impl From<Failed> for Shown {
    fn from(failed: Failed) -> Shown {
        Shown(failed)
    }
}

impl IntoResponse for Shown {
    fn into_response(self) -> Response {
        let Shown(failed) = self;
        failure(failed.status, &failed.why)
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
    body::retry_after(status, response.headers_mut());
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
) -> Result<StatusCode, Shown> {
    let precision = parameters.precision.as_deref().filter(|precision| !precision.is_empty());
    let precision = match precision {
        None => Precision::Nanoseconds,
        Some(text) => Precision::parse(text).ok_or_else(|| {
            let why = format!("precision '{text}' is not supported: use ns, us, ms or s");
            Failed::new(StatusCode::BAD_REQUEST, why)
        })?,
    };
    let mut lines = body::read(&ingest, body).await?;
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => lines = body::unpack_gzip(&ingest, &lines)?,
        Some(_) => {
            let why = "this Content-Encoding is not supported: use gzip, or none";
            return Err(Failed::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into());
        }
    }
    if lines.bytes.is_empty() {
        return Ok(StatusCode::NO_CONTENT);
    }
    let way = (Way::influx_http, Format::Influx(precision));
    let refused = body::deliver(&ingest, peer, way, lines).await?;
    let Some((number, line, reason)) = refused.first else { return Ok(StatusCode::NO_CONTENT) };
    let why = format!(
        "partial write: line {number} ('{line}'): {reason}; refused lines: {}, the others were \
         written",
        refused.lines
    );
    Err(Failed::new(StatusCode::BAD_REQUEST, why).into())
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
    Shown(Failed::new(StatusCode::BAD_REQUEST, why)).into_response()
}
