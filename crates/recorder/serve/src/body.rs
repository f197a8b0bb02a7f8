//! Bodies of HTTP requests, and their way to the journal.

use std::io::Read as _;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use futures_util::StreamExt as _;
use store::{Fingerprint, Writer};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::ingest::{Answer, Format, Ingest, MESSAGE_MAX, Message, RefusedLines, SHARE};
use crate::metrics::{Sender, Way};
use crate::requests::RequestSender;

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// When a client that was refused may try again, in seconds.
const RETRY_S: &str = "5";

/// By which a client names its request, so that a repetition counts once (the draft
/// draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Limit on its length.
const KEY_MAX: usize = 255;

/// Tells that a request is a repetition, as other APIs do.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct RequestFailure {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl RequestFailure {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> RequestFailure {
        RequestFailure { status, why: why.into() }
    }
}

/// Tells clients that were refused for now when to try again.
pub(crate) fn retry_after(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_S));
    }
}

/// A body with its share of the memory of all messages.
#[derive(Debug)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: OwnedSemaphorePermit,
}

/// Reads a body, within the limits of a message and of all messages.
pub(crate) async fn read(
    ingest: &Ingest,
    peer: &RequestSender,
    body: Body,
) -> Result<ReadBody, RequestFailure> {
    if ingest.is_full() {
        return Err(RequestFailure::new(StatusCode::SERVICE_UNAVAILABLE, ingest.why_full()));
    }
    let read = read_all(ingest, peer, body.into_data_stream());
    let read = tokio::time::timeout(BODY_TIMEOUT, read).await;
    read.map_err(|_| {
        let why = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        RequestFailure::new(StatusCode::REQUEST_TIMEOUT, why)
    })?
}

async fn read_all(
    ingest: &Ingest,
    peer: &RequestSender,
    mut body: BodyDataStream,
) -> Result<ReadBody, RequestFailure> {
    let mut room = ingest.try_room(0).ok_or_else(busy)?;
    // What has arrived may wait for the journal in all of the room.
    let mut share = ingest.shares.of(peer.holder);
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| {
            RequestFailure::new(
                StatusCode::BAD_REQUEST,
                format!("the body cannot be read ({error})"),
            )
        })?;
        if bytes.len() + part.len() > MESSAGE_MAX {
            return Err(too_large());
        }
        if !share.take(part.len(), SHARE) {
            return Err(busy());
        }
        room.merge(ingest.try_more_room(&room, bytes.len() + part.len()).ok_or_else(busy)?);
        bytes.extend_from_slice(&part);
    }
    Ok(ReadBody { bytes, room })
}

/// A body that is rewritten, for example longer than it was sent.
pub(crate) fn rewrite(
    ingest: &Ingest,
    body: ReadBody,
    work: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<ReadBody, RequestFailure> {
    let ReadBody { bytes, mut room } = body;
    // As long as both are in memory.
    let _both = ingest.try_room(MESSAGE_MAX).ok_or_else(busy)?;
    let bytes = work(&bytes).ok_or_else(|| {
        let why = format!(
            "with its database the body is longer than {MESSAGE_MAX} bytes, or a line than \
             {}: send less at a time",
            formats::LINE_MAX
        );
        RequestFailure::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    })?;
    room.merge(ingest.try_more_room(&room, bytes.len()).ok_or_else(busy)?);
    Ok(ReadBody { bytes, room })
}

/// A body after gzip.
pub(crate) fn unpack_gzip(ingest: &Ingest, packed: &ReadBody) -> Result<ReadBody, RequestFailure> {
    // A limit on the memory of all requests, not only on this one.
    let room = ingest.try_room(MESSAGE_MAX).ok_or_else(busy)?;
    let mut bytes = Vec::new();
    let limit = MESSAGE_MAX as u64;
    let packed = packed.bytes.as_slice();
    let unpacked =
        flate2::read::MultiGzDecoder::new(packed).take(limit + 1).read_to_end(&mut bytes);
    unpacked.map_err(|error| {
        RequestFailure::new(
            StatusCode::BAD_REQUEST,
            format!("the body is not valid gzip ({error})"),
        )
    })?;
    if bytes.len() > MESSAGE_MAX { Err(too_large()) } else { Ok(ReadBody { bytes, room }) }
}

/// A body after snappy's block format. Its first bytes tell its length, so one that is too long is
/// refused before anything is unpacked.
pub(crate) fn unpack_snappy(
    ingest: &Ingest,
    packed: &ReadBody,
) -> Result<ReadBody, RequestFailure> {
    let not_snappy = |error: snap::Error| {
        let why = format!("the body is not snappy's block format ({error})");
        RequestFailure::new(StatusCode::BAD_REQUEST, why)
    };
    let length = snap::raw::decompress_len(&packed.bytes).map_err(not_snappy)?;
    if length > MESSAGE_MAX {
        return Err(too_large());
    }
    let room = ingest.try_room(length).ok_or_else(busy)?;
    let bytes = snap::raw::Decoder::new().decompress_vec(&packed.bytes).map_err(not_snappy)?;
    Ok(ReadBody { bytes, room })
}

/// The name of a request by its `Idempotency-Key`, if it has one. Its content belongs to it, so that
/// two senders that use the same keys do not lose anything.
fn key(
    headers: &HeaderMap,
    format: Format,
    bytes: &[u8],
) -> Result<Option<Writer>, RequestFailure> {
    let Some(key) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
    let key = key.ok_or_else(|| {
        let why = format!("an Idempotency-Key has 1 to {KEY_MAX} characters of ASCII");
        RequestFailure::new(StatusCode::BAD_REQUEST, why)
    })?;
    let mut fingerprint = Fingerprint::new(key);
    fingerprint.add(&[format.code() as u8]);
    fingerprint.add(bytes);
    Ok(Some(fingerprint.writer("request")))
}

/// Tells a client that its request repeats an earlier one.
pub(crate) fn mark_repeated(refused: &RefusedLines, headers: &mut HeaderMap) {
    if refused.is_repeated {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}

/// Hands over a message, and waits until it is in the journal; returns what was refused.
pub(crate) async fn deliver(
    ingest: &Ingest,
    peer: RequestSender,
    headers: &HeaderMap,
    way: Way,
    format: Format,
    ReadBody { bytes, room }: ReadBody,
) -> Result<RefusedLines, RequestFailure> {
    let key = key(headers, format, &bytes)?;
    let (answer, answered) = oneshot::channel();
    let message = Message {
        format,
        lines: bytes,
        arrived: ingest.state.arrived(),
        key,
        sender: Sender { way, name: peer.name },
        answer: Some(answer),
        room,
    };
    ingest.send(message).await;
    match answered.await {
        Ok(Answer::Written(refused)) => Ok(refused),
        Ok(Answer::Failed(why)) => Err(RequestFailure::new(StatusCode::SERVICE_UNAVAILABLE, why)),
        Err(_) => Err(RequestFailure::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending")),
    }
}

fn busy() -> RequestFailure {
    let why = "too many requests at a time: try again later";
    RequestFailure::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

fn too_large() -> RequestFailure {
    let why = format!("the body is longer than {MESSAGE_MAX} bytes: send less at a time");
    RequestFailure::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}
