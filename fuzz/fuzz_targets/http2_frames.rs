//! Whatever a server sends, our client gives every request one outcome, and it is the one that the
//! client of the crate h2 gives it.
//!
//! Both clients ask on the streams 1, 3, …, and then get the same bytes, in the same pieces, before
//! the connection ends. Where the two may differ, [`is_stricter`] and [`is_laxer`] say why.

#![no_main]

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use base::Nanos;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http2::frame::{self, FrameHeader, HEADER_BYTES, flag, kind, setting};
use http2::hpack::{self, CommonFields, Decoder, HeaderField};
use http2::{Http2, RequestSet};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use netio::{Connect, Ending, Engine, Failure, Handler, Handshake, Http2Failure, Traffic, Wire};
use spec::HttpRequest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a server sends.
#[derive(Arbitrary, Debug)]
struct Case {
    is_head: bool,
    requests: u8,
    /// Begins without parameters, which is an error.
    is_rude: bool,
    piece: u8,
    frames: Vec<Sent>,
}

#[derive(Arbitrary, Debug)]
enum Sent {
    Headers { stream: u8, ends: bool, status: u8, length: Option<u8>, extra: u8, cut: Option<u8> },
    Data { stream: u8, ends: bool, bytes: u8, padding: Option<u8> },
    Settings { name: u8, value: u32 },
    Reset { stream: u8, code: u8 },
    GoAway { last: u8, code: u8 },
    WindowUpdate { stream: u8, more: u32 },
    Frame { kind: u8, flags: u8, stream: u8, payload: Vec<u8> },
    Block { stream: u8, flags: u8, block: Vec<u8> },
    Bytes(Vec<u8>),
}

const STATUSES: [&str; 12] =
    ["200", "204", "304", "404", "500", "100", "103", "101", "99", "20x", "", "+200"];

/// Headers that may be wrong, in their order; the first ones are right.
const EXTRAS: [(&str, &str); 16] = [
    ("server", "x"),
    ("x-a", ""),
    ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("content-length", "3"),
    ("content-length", "+3"),
    (":status", "200"),
    (":path", "/"),
    (":unknown", "x"),
    ("Server", "x"),
    ("connection", "close"),
    ("transfer-encoding", "chunked"),
    ("te", "trailers"),
    ("x-a", "b\r\nc"),
    ("x-a", " b"),
    ("", "x"),
    ("x a", "b"),
];

impl Case {
    fn requests(&self) -> usize {
        1 + usize::from(self.requests % 4)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.is_rude {
            frame::write_settings(&mut out, &[]);
        }
        self.frames.iter().for_each(|sent| sent.write(&mut out));
        out
    }
}

/// Mostly a stream of a request.
fn stream(choice: u8) -> u32 {
    match choice {
        0..200 => u32::from(choice % 4) * 2 + 1,
        choice => u32::from(choice % 12),
    }
}

impl Sent {
    fn write(&self, out: &mut Vec<u8>) {
        let field = |name: &str, value: &str| -> HeaderField { (name.into(), value.into()) };
        match self {
            Sent::Headers { stream: at, ends, status, length, extra, cut } => {
                let mut fields = Vec::new();
                // Trailers have none.
                if let Some(status) = STATUSES.get(usize::from(*status) % (STATUSES.len() + 1)) {
                    fields.push(field(":status", status));
                }
                if let Some(length) = length {
                    fields.push(field("content-length", &length.to_string()));
                }
                if let Some((name, value)) = EXTRAS.get(usize::from(*extra) % 32) {
                    fields.push(field(name, value));
                }
                let block = match extra % 3 {
                    0 => hpack::literal(&fields),
                    _ => CommonFields::of(std::slice::from_ref(&fields)).with_entries(&fields),
                };
                let end = if *ends { flag::END_STREAM } else { 0 };
                let Some(cut) = cut else {
                    return frame::write(
                        out,
                        kind::HEADERS,
                        end | flag::END_HEADERS,
                        stream(*at),
                        &block,
                    );
                };
                let (first, second) = block.split_at(usize::from(*cut) % (block.len() + 1));
                frame::write(out, kind::HEADERS, end, stream(*at), first);
                frame::write(out, kind::CONTINUATION, flag::END_HEADERS, stream(*at), second);
            }
            Sent::Data { stream: at, ends, bytes, padding } => {
                let body = vec![b'x'; usize::from(*bytes)];
                let end = if *ends { flag::END_STREAM } else { 0 };
                match padding {
                    None => frame::write(out, kind::DATA, end, stream(*at), &body),
                    Some(n) => {
                        let padded = [&[*n][..], &body, &vec![0; usize::from(*n)]].concat();
                        frame::write(out, kind::DATA, end | flag::PADDED, stream(*at), &padded);
                    }
                }
            }
            Sent::Settings { name, value } => {
                frame::write_settings(out, &[(u16::from(name % 10), *value)]);
            }
            Sent::Reset { stream: at, code } => {
                frame::write_reset(out, stream(*at), u32::from(*code));
            }
            Sent::GoAway { last, code } => {
                frame::write_goaway(out, u32::from(last % 16), u32::from(*code));
            }
            Sent::WindowUpdate { stream: at, more } => {
                frame::write_window_update(out, stream(*at), *more);
            }
            Sent::Frame { kind, flags, stream: at, payload } => {
                frame::write(out, kind % 12, *flags, stream(*at), payload);
            }
            Sent::Block { stream: at, flags, block } => {
                frame::write(out, kind::HEADERS, flags | flag::END_HEADERS, stream(*at), block);
            }
            Sent::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

fuzz_target!(|case: Case| {
    let bytes = case.bytes();
    let piece = 1 + usize::from(case.piece) * 8;
    let pieces: VecDeque<Vec<u8>> = bytes.chunks(piece).map(<[u8]>::to_vec).collect();
    let ours = ask_ours(&case, pieces.clone());
    let theirs = ask_h2(&case, pieces);
    let reasons = Reasons::of(&bytes, case.requests());
    for (n, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let stream = 2 * n as u32 + 1;
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "stream {stream}"),
            (Ok(ours), Err(error)) => {
                assert!(
                    is_laxer(stream, ours, error, &reasons),
                    "stream {stream}: we take {ours:?}, h2: {error:?}"
                );
            }
            (Err(failure), Ok(theirs)) => {
                assert!(
                    is_stricter(stream, *failure, theirs, &reasons),
                    "stream {stream}: h2 takes {theirs:?}, we: {failure:?}"
                );
            }
            (Err(_), Err(_)) => {}
        }
    }
});

/// Status and length of the body.
type Answer = (u16, usize);

/// What a server sent that the two clients may judge differently.
#[derive(Debug, Default)]
struct Reasons {
    /// Streams with headers that RFC 9113 forbids and h2 accepts: values that begin or end with a blank
    /// (8.2.1), pseudo-headers of requests (8.3), a status among the trailers (8.1), a length there,
    /// which may be wrong, and, in headers that are continued, an empty name.
    odd_headers: HashSet<u32>,
    /// Whether the server says that it accepts pushes (RFC 9113, 6.5.2), or pushes (8.4): h2 allows the
    /// one, and of the other only resets the stream if it is malformed.
    pushes: bool,
    /// Whether a stream goes on after its end, for which one may end the connection (RFC 9113, 5.1).
    /// What h2 does depends on whether its user has read the stream. Also whether headers that are
    /// malformed come on a stream that was never begun (5.1.1), or are not continued (6.10): h2 resets
    /// the stream when it has read the part that is malformed.
    answers_nothing: bool,
    /// Whether a window of a stream may be too large, which h2 does not look at once the request is sent
    /// (RFC 9113, 6.9.1 and 6.9.2).
    overflows: bool,
    /// Whether the server does not begin with its parameters (RFC 9113, 3.4), which h2 does not require.
    has_no_greeting: bool,
    /// Whether h2 ends the connection over something that is at most an error of a stream.
    overdone: bool,
    /// Streams that h2 resets because they depend on themselves, which means nothing any more
    /// (RFC 9113, 5.3.2), or because it takes a length in an interim response for that of the response
    /// (RFC 9110, 8.6).
    reset: HashSet<u32>,
}

/// Headers that belong to a connection, by h2.
const OF_CONNECTIONS: [&[u8]; 6] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te"];

const ENABLE_CONNECT_PROTOCOL: u16 = 8;

impl Reasons {
    fn of(bytes: &[u8], requests: usize) -> Reasons {
        let mut reasons = Reasons::default();
        let mut rest = bytes;
        let first = FrameHeader::parse(bytes);
        reasons.has_no_greeting =
            first.is_none_or(|first| first.kind != kind::SETTINGS || first.has(flag::ACK));
        let mut headers = Headers { requests, ..Headers::default() };
        let mut last_processed = u32::MAX;
        let mut ended = HashSet::new();
        let (mut window, mut room) = (frame::WINDOW, HashMap::new());
        while let Some(header) = FrameHeader::parse(rest)
            && let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + header.length)
        {
            rest = &rest[HEADER_BYTES + header.length..];
            reasons.answers_nothing |= headers.is_continued && header.kind != kind::CONTINUATION;
            if matches!(header.kind, kind::DATA | kind::HEADERS) {
                let is_over = header.stream > last_processed;
                reasons.answers_nothing |= is_over || ended.contains(&header.stream);
                if header.has(flag::END_STREAM) {
                    ended.insert(header.stream);
                }
            }
            let number = frame::number(payload).map(|number| number & 0x7fff_ffff);
            match header.kind {
                kind::SETTINGS => {
                    for (name, value) in frame::settings(payload).into_iter().flatten() {
                        reasons.pushes |= (name, value) == (setting::ENABLE_PUSH, 1);
                        if name == setting::INITIAL_WINDOW_SIZE {
                            window = window.max(i64::from(value));
                        }
                        // It has only two values, but we know nothing of it (RFC 8441, 3).
                        reasons.overdone |= name == ENABLE_CONNECT_PROTOCOL && value > 1;
                    }
                }
                kind::PRIORITY => {
                    // RFC 9113, 6.3.
                    reasons.overdone |= payload.len() != 5;
                    reasons.dependency(header, payload, requests);
                }
                kind::WINDOW_UPDATE => {
                    // RFC 9113, 6.9.
                    reasons.overdone |= number == Some(0) && header.stream > 0;
                    *room.entry(header.stream).or_default() += i64::from(number.unwrap_or(0));
                }
                kind::GOAWAY => {
                    // A server must not do that, but it is no error of ours (RFC 9113, 6.8).
                    let last = number.unwrap_or(0);
                    reasons.overdone |= last > last_processed;
                    last_processed = last;
                }
                kind::PUSH_PROMISE => reasons.pushes = true,
                kind::RST_STREAM => {
                    ended.insert(header.stream);
                }
                kind::HEADERS => {
                    reasons.dependency(header, payload, requests);
                    headers.add(header, payload, &mut reasons);
                }
                kind::CONTINUATION => headers.add(header, payload, &mut reasons),
                _ => {}
            }
        }
        reasons.overflows = room.values().any(|more: &i64| window + more > frame::WINDOW_MAX);
        reasons
    }

    fn dependency(&mut self, header: FrameHeader, payload: &[u8], requests: usize) {
        let has_padding = header.kind == kind::HEADERS && header.has(flag::PADDED);
        let on = payload.get(usize::from(has_padding)..).and_then(frame::number);
        if on.map(|on| on & 0x7fff_ffff) == Some(header.stream) {
            self.reset.insert(header.stream);
            // It does not read the headers, on which those of other streams may depend.
            self.overdone |= header.kind == kind::HEADERS;
            self.answers_nothing |= !was_begun(header.stream, requests);
        }
    }
}

fn was_begun(stream: u32, requests: usize) -> bool {
    stream % 2 == 1 && stream < 2 * requests as u32
}

/// The headers of a connection.
#[derive(Default)]
struct Headers {
    decoder: Decoder,
    block: Vec<u8>,
    /// Whether the next frame has to be the rest of the block.
    is_continued: bool,
    responded: HashSet<u32>,
    requests: usize,
}

impl Headers {
    fn add(&mut self, header: FrameHeader, payload: &[u8], reasons: &mut Reasons) {
        self.block.extend_from_slice(header.content(payload).unwrap_or_default());
        self.is_continued = !header.has(flag::END_HEADERS);
        if self.is_continued {
            return;
        }
        let (mut is_response, mut is_malformed) = (false, false);
        let (mut is_interim, mut has_length) = (false, false);
        let mut before: HashSet<Vec<u8>> = HashSet::new();
        let is_second = self.responded.contains(&header.stream);
        let is_blank = |c: Option<&u8>| matches!(c, Some(b' ' | b'\t'));
        // What cannot be read ends the connection, for both.
        let _ = self.decoder.decode(&self.block, &mut |name, value| {
            // What h2 cannot read is malformed (RFC 9113, 8.1.1).
            reasons.overdone |= !is_readable(name, value);
            let is_status = name == b":status";
            is_response |= is_status && !value.starts_with(b"1");
            is_interim |= is_status && value.starts_with(b"1");
            has_length |= name == b"content-length";
            let is_pseudo = name.starts_with(b":");
            is_malformed |= OF_CONNECTIONS.contains(&name)
                || is_pseudo
                    && before.iter().any(|one| one.as_slice() == name || !one.starts_with(b":"));
            before.insert(name.to_vec());
            let is_misplaced =
                is_pseudo && (!is_status || is_second) || name == b"content-length" && is_second;
            let is_misplaced = is_misplaced || name.is_empty();
            if is_misplaced || is_blank(value.first()) || is_blank(value.last()) {
                reasons.odd_headers.insert(header.stream);
            }
        });
        if is_interim && has_length {
            reasons.reset.insert(header.stream);
        }
        // It ends the stream at once, and does not expect the rest of its headers.
        reasons.overdone |= is_malformed && header.kind == kind::CONTINUATION;
        reasons.answers_nothing |= is_malformed && !was_begun(header.stream, self.requests);
        if is_response {
            self.responded.insert(header.stream);
        }
        self.block.clear();
    }
}

fn is_readable(name: &[u8], value: &[u8]) -> bool {
    match name {
        b":status" => http::StatusCode::from_bytes(value).is_ok(),
        b":method" => http::Method::from_bytes(value).is_ok(),
        b":authority" | b":scheme" | b":path" | b":protocol" => str::from_utf8(value).is_ok(),
        _ => {
            let value = http::HeaderValue::from_bytes(value);
            http::HeaderName::from_lowercase(name).is_ok() && value.is_ok()
        }
    }
}

/// Whether h2 may refuse an answer for this that we accept.
fn is_laxer(stream: u32, ours: &Answer, error: &h2::Error, reasons: &Reasons) -> bool {
    let of_connection = error.is_go_away() && error.is_library();
    // These have no content whatever its length is said to be (RFC 9113, 8.1.1), which h2 believes only
    // of headers that end the stream.
    let is_empty = matches!(ours, (204 | 304, 0));
    // It does not know that we have ended a stream whose window overflowed.
    of_connection && (reasons.overdone || reasons.overflows)
        || error.is_reset() && is_empty
        || error.is_reset() && reasons.reset.contains(&stream)
}

/// Whether we may refuse an answer for this that h2 accepts.
fn is_stricter(stream: u32, failure: Failure, theirs: &Answer, reasons: &Reasons) -> bool {
    match failure {
        Failure::Http2(Http2Failure::NotHttp2) => reasons.has_no_greeting,
        // These have no content (RFC 9110, 15.3.5 and 15.4.5).
        Failure::Http2(Http2Failure::WrongLength) => matches!(theirs, (204 | 304, 1..)),
        Failure::Http2(Http2Failure::Broken) => {
            let of_connection = reasons.pushes || reasons.answers_nothing || reasons.overflows;
            of_connection || reasons.odd_headers.contains(&stream)
        }
        _ => false,
    }
}

/// What our client makes of the bytes.
fn ask_ours(case: &Case, pieces: VecDeque<Vec<u8>>) -> Vec<Result<Answer, Failure>> {
    let method = if case.is_head { "HEAD" } else { "GET" };
    let request = HttpRequest { method: method.into(), ..HttpRequest::default() };
    let requests = RequestSet::new(&[(&request, "/a")], "http", "localhost");
    let below = Below { is_open: false, pieces, is_over: false };
    let slots = case.requests();
    let mut engine = Http2::new(below, requests, slots, slots, false);
    let mut user = User { seen: vec![Seen::Closed; slots] };
    for slot in 0..slots {
        assert_eq!(engine.wire().connect(slot), Ok(Connect::Done));
        user.seen[slot] = Seen::Asked { status: None, body: 0 };
        engine.wire().send(slot, 0).unwrap();
    }
    while !engine_is_over(&mut engine, &mut user) {}
    user.seen
        .into_iter()
        .map(|seen| match seen {
            Seen::Done(outcome) => outcome,
            seen => panic!("a request is still {seen:?}"),
        })
        .collect()
}

/// A turn; true if nothing comes any more.
fn engine_is_over(engine: &mut Http2<Below>, user: &mut User) -> bool {
    engine.turn(Nanos::ZERO, user).unwrap();
    user.seen.iter().all(|seen| matches!(seen, Seen::Done(_)))
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    Closed,
    Asked { status: Option<u16>, body: usize },
    Done(Result<Answer, Failure>),
}

struct User {
    seen: Vec<Seen>,
}

impl Handler for User {
    fn connected(&mut self, _: &mut dyn Wire, _: usize, _: Option<Handshake>) {
        panic!("all were connected at once");
    }

    fn taken(&mut self, _: &mut dyn Wire, _: usize) {
        panic!("nothing of its own was sent");
    }

    fn received(&mut self, _: &mut dyn Wire, slot: usize, bytes: &[u8], _: bool) {
        match &mut self.seen[slot] {
            Seen::Asked { status: Some(_), body } => *body += bytes.len(),
            seen => panic!("a body, but {seen:?}"),
        }
    }

    fn responded(&mut self, _: &mut dyn Wire, slot: usize, new: u16) {
        match &mut self.seen[slot] {
            Seen::Asked { status: status @ None, .. } => *status = Some(new),
            seen => panic!("a head, but {seen:?}"),
        }
    }

    fn completed(&mut self, wire: &mut dyn Wire, slot: usize, keeps: bool) {
        match self.seen[slot] {
            Seen::Asked { status: Some(status), body } => {
                self.seen[slot] = Seen::Done(Ok((status, body)));
            }
            seen => panic!("an end, but {seen:?}"),
        }
        if !keeps {
            wire.retire(slot);
        }
    }

    fn ended(&mut self, _: &mut dyn Wire, slot: usize, ending: Ending) {
        let failure = match ending {
            Ending::Closed => Failure::Reset,
            Ending::Failed(failure) => failure,
        };
        assert_ne!(failure, Failure::ClosedByPeer, "the request was sent");
        match self.seen[slot] {
            Seen::Asked { .. } => self.seen[slot] = Seen::Done(Err(failure)),
            // The connection of a request that has its answer.
            Seen::Done(Ok(_)) => {}
            seen => panic!("an end, but {seen:?}"),
        }
    }
}

/// The engine below ours: one connection, and the server's pieces.
struct Below {
    is_open: bool,
    pieces: VecDeque<Vec<u8>>,
    is_over: bool,
}

impl Wire for Below {
    fn connect(&mut self, _: usize) -> Result<Connect, Failure> {
        assert!(!self.is_open);
        self.is_open = true;
        Ok(Connect::Done)
    }

    fn send(&mut self, _: usize, _: usize) -> Result<(), Failure> {
        panic!("nothing is always the same");
    }

    fn send_own(&mut self, _: usize, _: &[u8]) -> Result<bool, Failure> {
        assert!(self.is_open);
        Ok(true)
    }

    fn shut_down(&mut self, _: usize) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn close(&mut self, _: usize) {
        self.is_open = false;
    }

    fn retire(&mut self, _: usize) {
        self.is_open = false;
    }

    fn retired(&mut self) -> usize {
        0
    }

    fn close_retired(&mut self) {}

    fn hold(&mut self, _: usize) {}

    fn release(&mut self, _: usize) {}

    fn traffic(&mut self) -> Traffic {
        Traffic::default()
    }
}

impl Engine for Below {
    fn wire(&mut self) -> &mut dyn Wire {
        self
    }

    fn turn(&mut self, _: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        assert!(!self.is_over || !self.is_open, "a request is forgotten");
        if !self.is_open {
            self.is_over = true;
            return Ok(());
        }
        match self.pieces.pop_front() {
            Some(piece) => handler.received(self, 0, &piece, false),
            None => {
                self.is_open = false;
                handler.ended(self, 0, Ending::Closed);
            }
        }
        Ok(())
    }
}

/// What the client of h2 makes of the bytes.
fn ask_h2(case: &Case, pieces: VecDeque<Vec<u8>>) -> Vec<Result<Answer, h2::Error>> {
    let mut context = Context::from_waker(Waker::noop());
    let speaks = Rc::new(Cell::new(false));
    let wire = PiecewiseWire { speaks: Rc::clone(&speaks), pieces };
    let window = (1 << 31) - 1;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(window).enable_push(false);
    let handshake = Box::pin(builder.handshake::<_, &[u8]>(wire)).as_mut().poll(&mut context);
    let Poll::Ready(Ok((mut sender, connection))) = handshake else {
        panic!("h2 waits for nothing to begin")
    };
    let mut connection = Box::pin(connection);
    let method = if case.is_head { http::Method::HEAD } else { http::Method::GET };
    let mut requests: Vec<Reading> = (0..case.requests())
        .map(|_| {
            let request = http::Request::builder().method(method.clone());
            let request = request.uri("http://localhost/a").body(()).unwrap();
            let Ok((answer, _)) = sender.send_request(request, true) else {
                panic!("h2 does not take a request")
            };
            Reading::Head(answer)
        })
        .collect();
    // It sends the requests before it reads.
    let mut is_over = connection.as_mut().poll(&mut context).is_ready();
    speaks.set(true);
    for _ in 0..1_000_000 {
        is_over = is_over || connection.as_mut().poll(&mut context).is_ready();
        requests.iter_mut().for_each(|request| request.poll(&mut context));
        if is_over && requests.iter().all(|request| matches!(request, Reading::Done(_))) {
            break;
        }
    }
    let outcome = |reading| match reading {
        Reading::Done(outcome) => outcome,
        _ => panic!("h2 neither reads nor ends"),
    };
    requests.into_iter().map(outcome).collect()
}

enum Reading {
    Head(ResponseFuture),
    Body(u16, usize, RecvStream),
    Done(Result<Answer, h2::Error>),
}

impl Reading {
    fn poll(&mut self, context: &mut Context<'_>) {
        loop {
            let next = match self {
                Reading::Done(_) => return,
                Reading::Head(answer) => match Pin::new(answer).poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Err(error)) => Reading::Done(Err(error)),
                    Poll::Ready(Ok(answer)) => {
                        Reading::Body(answer.status().as_u16(), 0, answer.into_body())
                    }
                },
                Reading::Body(status, length, body) => match body.poll_data(context) {
                    Poll::Pending => return,
                    Poll::Ready(Some(Err(error))) => Reading::Done(Err(error)),
                    Poll::Ready(Some(Ok(bytes))) => {
                        *length += bytes.len();
                        continue;
                    }
                    Poll::Ready(None) => match body.poll_trailers(context) {
                        Poll::Pending => return,
                        Poll::Ready(Err(error)) => Reading::Done(Err(error)),
                        Poll::Ready(Ok(_)) => Reading::Done(Ok((*status, *length))),
                    },
                },
            };
            *self = next;
        }
    }
}

/// A connection whose server says its pieces once it may, and closes.
struct PiecewiseWire {
    speaks: Rc<Cell<bool>>,
    pieces: VecDeque<Vec<u8>>,
}

impl AsyncRead for PiecewiseWire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.speaks.get() {
            return Poll::Pending;
        }
        while self.pieces.front().is_some_and(Vec::is_empty) {
            self.pieces.pop_front();
        }
        if let Some(piece) = self.pieces.front_mut() {
            let n = piece.len().min(into.remaining());
            into.put_slice(&piece[..n]);
            piece.drain(..n);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PiecewiseWire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
