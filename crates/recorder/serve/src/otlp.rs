//! OTLP metrics over HTTP: `/v1/metrics`.
//!
//! As in "OTLP/HTTP" of the OpenTelemetry Protocol Specification 1.x. Messages are binary protobuf;
//! JSON is not supported.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use formats::Protocol;

use crate::body::{self, RequestFailure};
use crate::ingest::{Format, Ingest, RefusedLines};
use crate::metrics::Way;
use crate::requests::RequestSender;

const PROTOBUF: &str = "application/x-protobuf";

/// The path of OTLP's metrics.
pub(crate) fn router(ingest: Ingest) -> Router {
    Router::new().route("/v1/metrics", post(export)).with_state(ingest)
}

/// 200 once all data points are in the journal, with the number of those refused.
async fn export(
    State(ingest): State<Ingest>,
    Extension(peer): Extension<RequestSender>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut refused = RefusedLines::default();
    let (status, answer) = match take(&ingest, peer, &headers, body).await {
        Ok(taken) => {
            refused = taken;
            (StatusCode::OK, partial_success(&refused))
        }
        // Clients repeat a request after 503, but not after 408.
        Err(RequestFailure { status: StatusCode::REQUEST_TIMEOUT, why }) => {
            (StatusCode::SERVICE_UNAVAILABLE, status_message(&why))
        }
        Err(RequestFailure { status, why }) => (status, status_message(&why)),
    };
    let mut response = (status, [(CONTENT_TYPE, PROTOBUF)], answer).into_response();
    body::retry_after(status, response.headers_mut());
    body::mark_repeated(&refused, response.headers_mut());
    response
}

async fn take(
    ingest: &Ingest,
    peer: RequestSender,
    headers: &HeaderMap,
    body: Body,
) -> Result<RefusedLines, RequestFailure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|found| found.to_str().ok());
    let media = content_type.and_then(|found| found.split(';').next()).unwrap_or_default();
    if !media.trim().eq_ignore_ascii_case(PROTOBUF) {
        let why = "this Content-Type is not supported: use application/x-protobuf \
                   (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf)";
        return Err(RequestFailure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let mut message = body::read(ingest, &peer, body).await?;
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => message = body::unpack_gzip(ingest, &message)?,
        Some(_) => {
            let why = "this Content-Encoding is not supported: use gzip, or none";
            return Err(RequestFailure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
    }
    formats::check_message(Protocol::Otlp, &message.bytes)
        .map_err(|error| RequestFailure::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    if message.bytes.is_empty() {
        return Ok(RefusedLines::default());
    }
    let (way, format) = (Way::otlp_http, Format::Message(Protocol::Otlp));
    body::deliver(ingest, peer, headers, way, format, message).await
}

/// `ExportMetricsServiceResponse`: empty if everything was accepted, otherwise `partial_success`
/// with `rejected_data_points` and `error_message`.
fn partial_success(refused: &RefusedLines) -> Vec<u8> {
    let Some((_, metric, reason)) = &refused.first else { return Vec::new() };
    let why = format!("the first refused data point is of '{metric}': {reason}");
    let mut partial = vec![0x08];
    varint(&mut partial, refused.lines);
    text(&mut partial, 2, &why);
    let mut answer = Vec::new();
    bytes(&mut answer, 1, &partial);
    answer
}

/// `google.rpc.Status` with a message.
fn status_message(why: &str) -> Vec<u8> {
    let mut status = Vec::new();
    text(&mut status, 2, why);
    status
}

fn text(to: &mut Vec<u8>, number: u8, text: &str) {
    bytes(to, number, text.as_bytes());
}

/// A field with a length.
fn bytes(to: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    to.push(number << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
