//! Prometheus remote write 1.0 and 2.0: `/api/v1/write`.
//!
//! As in "Prometheus Remote-Write" 1.0 and 2.0 of Prometheus's documentation. Exemplars are not
//! recorded, which `X-Prometheus-Remote-Write-Exemplars-Written` tells.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use formats::Protocol;

use crate::body::{self, RequestFailure};
use crate::ingest::{Format, Ingest, RefusedLines};
use crate::metrics::Way;
use crate::requests::RequestSender;

/// The path of Prometheus's own receiver.
pub(crate) fn router(ingest: Ingest) -> Router {
    Router::new().route("/api/v1/write", post(write)).with_state(ingest)
}

/// 204 once all samples are in the journal; 400 with the first refused one, when the others are in
/// the journal. Senders repeat a request after 503 only, so whatever may work later is 503.
async fn write(
    State(ingest): State<Ingest>,
    Extension(peer): Extension<RequestSender>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let (status, why, refused) = match take(&ingest, peer, &headers, body).await {
        Ok(refused) => match &refused.first {
            None => (StatusCode::NO_CONTENT, None, refused),
            Some((_, metric, reason)) => {
                let why = format!(
                    "partial write: refused samples and histograms: {}, the first of them of \
                     '{metric}': {reason}; the others were written\n",
                    refused.lines
                );
                (StatusCode::BAD_REQUEST, Some(why), refused)
            }
        },
        Err(RequestFailure { status, why }) => {
            let status = match status {
                StatusCode::REQUEST_TIMEOUT => StatusCode::SERVICE_UNAVAILABLE,
                status => status,
            };
            (status, Some(format!("{why}\n")), RefusedLines::default())
        }
    };
    let mut response = match why {
        Some(why) => (status, why.clone()).into_response(),
        None => status.into_response(),
    };
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // Nothing was negotiated.
        return response;
    }
    let to = response.headers_mut();
    body::retry_after(status, to);
    body::mark_repeated(&refused, to);
    for (name, written) in [
        ("x-prometheus-remote-write-samples-written", refused.samples),
        ("x-prometheus-remote-write-histograms-written", refused.histograms),
        ("x-prometheus-remote-write-exemplars-written", 0),
    ] {
        to.insert(HeaderName::from_static(name), HeaderValue::from(written));
    }
    response
}

async fn take(
    ingest: &Ingest,
    peer: RequestSender,
    headers: &HeaderMap,
    body: Body,
) -> Result<RefusedLines, RequestFailure> {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let protocol = protocol(content_type).ok_or_else(|| {
        let why = "this Content-Type is not supported: use application/x-protobuf, with \
                   proto=prometheus.WriteRequest or proto=io.prometheus.write.v2.Request";
        RequestFailure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
    })?;
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).unwrap_or_default();
    // As Prometheus's receiver: old senders do not name the only encoding.
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"snappy") {
        let why = "this Content-Encoding is not supported: use snappy";
        return Err(RequestFailure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let packed = body::read(ingest, &peer, body).await?;
    let message = body::unpack_snappy(ingest, &packed)?;
    drop(packed);
    formats::check_message(protocol, &message.bytes)
        .map_err(|error| RequestFailure::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    if message.bytes.is_empty() {
        return Ok(RefusedLines::default());
    }
    let (way, format) = (Way::remote_write_http, Format::Message(protocol));
    body::deliver(ingest, peer, headers, way, format, message).await
}

/// The message of a content type. Without one it is 1.0's, as for Prometheus's receiver.
fn protocol(content_type: &[u8]) -> Option<Protocol> {
    let content_type = std::str::from_utf8(content_type).ok()?;
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    if media.is_empty() {
        return Some(Protocol::RemoteWrite1);
    }
    if !media.eq_ignore_ascii_case("application/x-protobuf") {
        return None;
    }
    let mut proto = None;
    for part in parts {
        let (key, value) = part.split_once('=')?;
        if key.trim().eq_ignore_ascii_case("proto") {
            proto = Some(value.trim().trim_matches('"'));
        }
    }
    match proto {
        None | Some("prometheus.WriteRequest") => Some(Protocol::RemoteWrite1),
        Some("io.prometheus.write.v2.Request") => Some(Protocol::RemoteWrite2),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_those_of_the_specification() {
        for (content_type, found) in [
            ("", Some(Protocol::RemoteWrite1)),
            ("application/x-protobuf", Some(Protocol::RemoteWrite1)),
            ("application/x-protobuf;proto=prometheus.WriteRequest", Some(Protocol::RemoteWrite1)),
            (
                "Application/X-Protobuf; proto=\"io.prometheus.write.v2.Request\"",
                Some(Protocol::RemoteWrite2),
            ),
            ("application/x-protobuf;proto=io.prometheus.write.v3.Request", None),
            ("application/x-protobuf;proto", None),
            ("application/json", None),
            ("image/png", None),
        ] {
            assert_eq!(protocol(content_type.as_bytes()), found, "{content_type}");
        }
    }
}
