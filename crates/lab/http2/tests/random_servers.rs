//! The client against servers that a seed makes: right ones that end streams and connections as they
//! please, and ones whose bytes are wrong. Every request has exactly one outcome.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{HashMap, VecDeque};
use std::io;

use base::{Nanos, Rng, Seed};
use http2::frame::{self, FrameHeader, HEADER_BYTES, PREFACE, error, flag, kind, setting};
use http2::hpack::{self, Decoder, HeaderField};
use http2::{Http2, RequestSet, own_request};
use netio::{Connect, Ending, Engine, Failure, Handler, Handshake, Http2Failure, Traffic, Wire};
use rand::Rng as _;
use spec::HttpRequest;

const STREAMS: usize = 4;
const SLOTS: usize = 8;
const REQUESTS: u64 = 300;
const BODY: &[u8] = b"The body of every response, some bytes longer than a small window.";
/// What an interim response says in the header of the path.
const EARLY: &str = "/early";

/// What a seed may choose, in thousandths per request or per read.
#[derive(Clone, Copy, Debug, Default)]
struct Chances {
    reset: u64,
    go_away: u64,
    close: u64,
    flip: u64,
    /// Of [`Broken`] responses whose stream alone fails, and of those that the connection fails with.
    broken: u64,
    broken_connection: u64,
}

/// Ways to respond that HTTP/2 forbids.
#[derive(Clone, Copy, Debug)]
enum Broken {
    StatusInTrailers,
    PathInTrailers,
    UppercaseTrailer,
    UnendedTrailers,
    SecondHead,
    // The connection fails.
    TrailersAfterEnd,
    BodyAfterEnd,
    UnknownStream,
    EvenStream,
    StreamZero,
    EndedStream,
    ResetOfZero,
    LongPing,
}

const OF_STREAMS: [Broken; 5] = [
    Broken::StatusInTrailers,
    Broken::PathInTrailers,
    Broken::UppercaseTrailer,
    Broken::UnendedTrailers,
    Broken::SecondHead,
];

const OF_CONNECTIONS: [Broken; 8] = [
    Broken::TrailersAfterEnd,
    Broken::BodyAfterEnd,
    Broken::UnknownStream,
    Broken::EvenStream,
    Broken::StreamZero,
    Broken::EndedStream,
    Broken::ResetOfZero,
    Broken::LongPing,
];

/// The server's side of one connection.
#[derive(Default)]
struct ServerSide {
    is_open: bool,
    is_pending: bool,
    incoming: Vec<u8>,
    has_preface: bool,
    decoder: Decoder,
    /// Chunks that the client has not received yet.
    outgoing: VecDeque<u8>,
    ends: bool,
    /// After this stream nothing is processed.
    last: Option<u32>,
    newest: u32,
    unanswered: Vec<u32>,
    /// What was asked for, by stream.
    paths: HashMap<u32, String>,
    /// A stream whose response was sent.
    answered: Option<u32>,
    /// A message that the "kernel" has not taken.
    untaken: bool,
}

struct Below {
    connections: Vec<ServerSide>,
    rng: Rng,
    chances: Chances,
    settings: Vec<(u16, u32)>,
    /// Complete responses of all connections, and broken ones of streams and of connections.
    answered: u64,
    broken: u64,
    broken_connections: u64,
}

impl Below {
    fn draw(&mut self, limit: u64) -> u64 {
        self.rng.next_u64() % limit
    }

    fn happens(&mut self, thousandths: u64) -> bool {
        self.draw(1_000) < thousandths
    }

    /// Reads the client's frames, and answers.
    fn serve(&mut self, c: usize) {
        let mut incoming = std::mem::take(&mut self.connections[c].incoming);
        let mut out = Vec::new();
        if !self.connections[c].has_preface {
            if incoming.len() < PREFACE.len() {
                self.connections[c].incoming = incoming;
                return;
            }
            assert!(incoming.starts_with(PREFACE));
            incoming.drain(..PREFACE.len());
            self.connections[c].has_preface = true;
            frame::write_settings(&mut out, &self.settings);
        }
        while let Some(header) = FrameHeader::parse(&incoming) {
            if incoming.len() < HEADER_BYTES + header.length {
                break;
            }
            let payload = incoming[HEADER_BYTES..HEADER_BYTES + header.length].to_vec();
            incoming.drain(..HEADER_BYTES + header.length);
            if header.kind == kind::HEADERS {
                assert!(header.has(flag::END_STREAM | flag::END_HEADERS));
                let mut path = Vec::new();
                let decoder = &mut self.connections[c].decoder;
                let read = decoder.decode(&payload, &mut |name, value| {
                    if name == b":path" {
                        path = value.to_vec();
                    }
                });
                read.unwrap();
                let side = &mut self.connections[c];
                side.paths.insert(header.stream, String::from_utf8(path).unwrap());
                assert!(header.stream > side.newest, "streams count upwards");
                side.newest = header.stream;
                if side.last.is_none_or(|last| header.stream <= last) {
                    side.unanswered.push(header.stream);
                }
            }
        }
        // In any order, and some of them later.
        for stream in std::mem::take(&mut self.connections[c].unanswered) {
            match self.happens(300) {
                true => self.answer(c, stream, &mut out),
                false => self.connections[c].unanswered.push(stream),
            }
        }
        let side = &mut self.connections[c];
        side.incoming = incoming;
        side.outgoing.extend(out);
    }

    fn answer(&mut self, c: usize, stream: u32, out: &mut Vec<u8>) {
        if self.happens(self.chances.close) {
            self.connections[c].ends = true;
        }
        if self.connections[c].ends {
            return;
        }
        if self.happens(self.chances.reset) {
            return frame::write_reset(out, stream, error::CANCEL);
        }
        // Before a response that it will still send.
        self.go_away(c, out);
        if self.happens(300) {
            frame::write(out, kind::PING, 0, 0, &[7; 8]);
        }
        if self.happens(self.chances.broken) {
            let way = OF_STREAMS[self.draw(OF_STREAMS.len() as u64) as usize];
            self.broken += 1;
            return answer_wrongly(way, stream, out);
        }
        if self.happens(self.chances.broken_connection)
            && let Some(ended) = self.connections[c].answered
        {
            let way = OF_CONNECTIONS[self.draw(OF_CONNECTIONS.len() as u64) as usize];
            let wrong = match way {
                Broken::UnknownStream => self.connections[c].newest + 200,
                Broken::EvenStream => 2,
                Broken::StreamZero | Broken::ResetOfZero | Broken::LongPing => 0,
                Broken::EndedStream => ended,
                _ => stream,
            };
            self.broken_connections += 1;
            return answer_wrongly(way, wrong, out);
        }
        let status = field(":status", if self.happens(500) { "200" } else { "404" });
        let length = field("content-length", &BODY.len().to_string());
        let path = field("x-path", &self.connections[c].paths[&stream]);
        let block = hpack::literal(&[status, path, length]);
        if self.happens(200) {
            let early = hpack::literal(&[field(":status", "103"), field("x-path", EARLY)]);
            frame::write_headers(out, stream, &early, false);
        }
        // The block in one frame or in two.
        let at = 1 + self.draw(block.len() as u64 - 1) as usize;
        if self.happens(200) {
            frame::write(out, kind::HEADERS, 0, stream, &block[..at]);
            frame::write(out, kind::CONTINUATION, flag::END_HEADERS, stream, &block[at..]);
        } else {
            frame::write_headers(out, stream, &block, false);
        }
        let at = self.draw(BODY.len() as u64) as usize;
        frame::write(out, kind::DATA, 0, stream, &BODY[..at]);
        let padded = [&[3][..], &BODY[at..], &[0; 3]].concat();
        frame::write(out, kind::DATA, flag::PADDED | flag::END_STREAM, stream, &padded);
        self.answered += 1;
        self.connections[c].answered = Some(stream);
        if self.happens(500) {
            self.go_away(c, out);
        }
    }

    /// Announces the end of the connection, if chance wants it.
    fn go_away(&mut self, c: usize, out: &mut Vec<u8>) {
        if self.connections[c].last.is_none() && self.happens(self.chances.go_away) {
            let last = self.connections[c].newest;
            frame::write_goaway(out, last, error::NO_ERROR);
            self.connections[c].last = Some(last);
        }
    }
}

fn field(name: &str, value: &str) -> HeaderField {
    (name.to_owned(), value.to_owned())
}

fn answer_wrongly(way: Broken, stream: u32, out: &mut Vec<u8>) {
    match way {
        Broken::ResetOfZero => return frame::write_reset(out, 0, error::CANCEL),
        Broken::LongPing => return frame::write(out, kind::PING, 0, 0, &[0; 9]),
        _ => {}
    }
    let head = hpack::literal(&[field(":status", "200")]);
    frame::write_headers(out, stream, &head, false);
    let trailer = |name: &str, value: &str| hpack::literal(&[field(name, value)]);
    let (trailers, ends_before, ends) = match way {
        Broken::StatusInTrailers => (trailer(":status", "200"), false, true),
        Broken::PathInTrailers => (trailer(":path", "/a"), false, true),
        Broken::UppercaseTrailer => (trailer("X-a", "b"), false, true),
        Broken::UnendedTrailers => (trailer("x-a", "b"), false, false),
        Broken::SecondHead => (head, false, false),
        Broken::TrailersAfterEnd => (trailer("x-a", "b"), true, true),
        _ => (Vec::new(), true, true),
    };
    let flags = if ends_before { flag::END_STREAM } else { 0 };
    frame::write(out, kind::DATA, flags, stream, BODY);
    match trailers.is_empty() {
        false => frame::write_headers(out, stream, &trailers, ends),
        true => frame::write(out, kind::DATA, flag::END_STREAM, stream, BODY),
    }
}

impl Wire for Below {
    fn connect(&mut self, c: usize) -> Result<Connect, Failure> {
        assert!(!self.connections[c].is_open, "a place holds one connection at a time");
        let is_pending = self.happens(500);
        self.connections[c] = ServerSide { is_open: true, is_pending, ..ServerSide::default() };
        Ok(if is_pending { Connect::Pending } else { Connect::Done })
    }

    fn send(&mut self, _: usize, _: usize) -> Result<(), Failure> {
        panic!("nothing is always the same");
    }

    fn send_own(&mut self, c: usize, message: &[u8]) -> Result<bool, Failure> {
        let untaken = self.happens(200);
        let side = &mut self.connections[c];
        if !side.is_open {
            return Ok(true);
        }
        assert!(!side.is_pending && !side.untaken, "one message at a time, on an open connection");
        side.incoming.extend_from_slice(message);
        side.untaken = untaken;
        Ok(!untaken)
    }

    fn shut_down(&mut self, _: usize) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn close(&mut self, c: usize) {
        self.connections[c] = ServerSide::default();
    }

    fn retire(&mut self, c: usize) {
        self.close(c);
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
        for c in 0..self.connections.len() {
            if std::mem::take(&mut self.connections[c].is_pending) {
                handler.connected(self, c, None);
                continue;
            }
            if std::mem::take(&mut self.connections[c].untaken) {
                handler.taken(self, c);
            }
            if !self.connections[c].is_open {
                continue;
            }
            self.serve(c);
            let most = 1 + self.draw(400) as usize;
            let side = &mut self.connections[c];
            let n = most.min(side.outgoing.len());
            let mut bytes: Vec<u8> = side.outgoing.drain(..n).collect();
            let ends = side.ends && side.outgoing.is_empty();
            if !bytes.is_empty() {
                if self.happens(self.chances.flip) {
                    let at = self.draw(n as u64) as usize;
                    bytes[at] ^= 1 << self.draw(8);
                }
                handler.received(self, c, &bytes, false);
            } else if ends {
                self.connections[c] = ServerSide::default();
                handler.ended(self, c, Ending::Closed);
            }
        }
        Ok(())
    }
}

/// What the client's user sees of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Closed,
    Connecting,
    Idle,
    Asked,
}

struct Client {
    seen: [Seen; SLOTS],
    /// The path of a request that is not in the set, by slot.
    own: [Option<String>; SLOTS],
    /// The path that the response names, if that was reported.
    named: [Option<String>; SLOTS],
    /// Whether every response has all its headers.
    is_sound: bool,
    body: [Vec<u8>; SLOTS],
    sent: u64,
    completed: u64,
    failed: u64,
    /// Requests that were not sent because their connection had ended, and were begun again.
    again: u64,
    kinds: Vec<Failure>,
}

impl Client {
    fn proceed(&mut self, wire: &mut dyn Wire, slot: usize) {
        if self.sent == REQUESTS {
            return;
        }
        match self.seen[slot] {
            Seen::Closed => match wire.connect(slot).unwrap() {
                Connect::Done => self.ask(wire, slot),
                Connect::Pending => self.seen[slot] = Seen::Connecting,
            },
            Seen::Idle => self.ask(wire, slot),
            Seen::Connecting | Seen::Asked => panic!("slot {slot} is {:?}", self.seen[slot]),
        }
    }

    fn ask(&mut self, wire: &mut dyn Wire, slot: usize) {
        self.seen[slot] = Seen::Idle;
        if self.sent < REQUESTS {
            self.sent += 1;
            self.seen[slot] = Seen::Asked;
            self.body[slot].clear();
            self.named[slot] = None;
            self.own[slot] =
                self.sent.is_multiple_of(3).then(|| format!("/own/{}/{slot}", self.sent));
            let request = HttpRequest::default();
            match &self.own[slot] {
                None => wire.send(slot, 0).unwrap(),
                Some(path) => {
                    let own = own_request(&request, path, "http", "localhost", true);
                    assert_eq!(wire.send_own(slot, &own), Ok(true));
                }
            }
        }
    }
}

impl Handler for Client {
    fn connected(&mut self, wire: &mut dyn Wire, slot: usize, _: Option<Handshake>) {
        assert_eq!(self.seen[slot], Seen::Connecting, "slot {slot}");
        self.ask(wire, slot);
    }

    fn taken(&mut self, _: &mut dyn Wire, _: usize) {
        panic!("nothing of its own was sent");
    }

    fn received(&mut self, _: &mut dyn Wire, slot: usize, bytes: &[u8], _: bool) {
        assert_eq!(self.seen[slot], Seen::Asked, "slot {slot}");
        self.body[slot].extend_from_slice(bytes);
    }

    fn responded(&mut self, _: &mut dyn Wire, slot: usize, _: u16) {
        assert_eq!(self.seen[slot], Seen::Asked, "slot {slot}");
        assert!(self.body[slot].is_empty(), "the head comes first");
        assert!(!self.is_sound || self.named[slot] == self.own[slot], "slot {slot}");
    }

    fn header(&mut self, slot: usize, name: &[u8], value: &[u8]) {
        if name == b"x-path" {
            let is_early = value == EARLY.as_bytes();
            assert!(!self.is_sound || !is_early, "an interim response is not the response");
            self.named[slot] = Some(String::from_utf8_lossy(value).into_owned());
        }
    }

    fn completed(&mut self, wire: &mut dyn Wire, slot: usize, keeps: bool) {
        assert_eq!(self.seen[slot], Seen::Asked, "slot {slot}");
        self.completed += 1;
        self.seen[slot] = Seen::Idle;
        if !keeps {
            wire.retire(slot);
            self.seen[slot] = Seen::Closed;
        }
        self.proceed(wire, slot);
    }

    fn ended(&mut self, wire: &mut dyn Wire, slot: usize, ending: Ending) {
        let seen = std::mem::replace(&mut self.seen[slot], Seen::Closed);
        assert_ne!(seen, Seen::Closed, "slot {slot}");
        if seen == Seen::Asked {
            match ending {
                Ending::Failed(Failure::ClosedByPeer) => {
                    self.sent -= 1;
                    self.again += 1;
                }
                Ending::Failed(failure) => {
                    self.failed += 1;
                    self.kinds.push(failure);
                }
                Ending::Closed => self.failed += 1,
            }
        }
        self.proceed(wire, slot);
    }
}

/// A client that has done its requests, and its server; `None` if it waits for ever.
fn run(seed: u64, chances: Chances) -> Option<(Client, Below)> {
    let mut rng = Seed(seed).rng("server");
    let mut settings = Vec::new();
    if rng.next_u64().is_multiple_of(2) {
        settings.push((setting::MAX_CONCURRENT_STREAMS, 1 + (rng.next_u64() % 4) as u32));
    }
    if rng.next_u64().is_multiple_of(2) {
        settings.push((setting::HEADER_TABLE_SIZE, (rng.next_u64() % 200) as u32));
    }
    let slots_below = Http2::<Below>::slots_below(SLOTS, STREAMS);
    let connections = (0..slots_below).map(|_| ServerSide::default()).collect();
    let below = Below {
        connections,
        rng,
        chances,
        settings,
        answered: 0,
        broken: 0,
        broken_connections: 0,
    };
    let request = HttpRequest::default();
    let requests = RequestSet::new(&[(&request, "/a")], "http", "localhost");
    let mut engine = Http2::new(below, requests, SLOTS, STREAMS, false);
    let mut client = Client {
        seen: [Seen::Closed; SLOTS],
        own: Default::default(),
        named: Default::default(),
        is_sound: chances.flip + chances.broken + chances.broken_connection == 0,
        body: std::array::from_fn(|_| Vec::new()),
        sent: 0,
        completed: 0,
        failed: 0,
        again: 0,
        kinds: Vec::new(),
    };
    (0..SLOTS).for_each(|slot| client.proceed(engine.wire(), slot));
    for _ in 0..10_000 {
        // A slot that is forgotten would not stop the others.
        let is_settled = client.seen.iter().all(|seen| *seen != Seen::Connecting);
        if client.completed + client.failed == REQUESTS && is_settled {
            return Some((client, engine.into_below()));
        }
        engine.turn(Nanos::ZERO, &mut client).unwrap();
    }
    None
}

#[test]
fn servers_that_keep_to_the_protocol_are_counted_exactly() {
    for seed in 0..300 {
        let (client, server) = run(seed, Chances::default()).unwrap();
        assert_eq!((client.completed, client.failed), (REQUESTS, 0), "seed {seed}");
        assert_eq!(server.answered, REQUESTS, "seed {seed}");
    }
}

#[test]
fn streams_and_connections_may_end_at_any_time() {
    for seed in 0..600 {
        let chances = Chances { reset: 30, go_away: 60, close: 10, ..Chances::default() };
        let (client, server) = run(seed, chances).unwrap();
        assert_eq!(client.completed + client.failed, REQUESTS);
        // Of a connection that closes, some answers may not be read.
        assert!(client.completed <= server.answered, "seed {seed}");
        let known = |failure: &Failure| {
            matches!(
                failure,
                Failure::Http2(Http2Failure::Reset(error::CANCEL) | Http2Failure::GoneAway)
            )
        };
        assert!(client.kinds.iter().all(known), "seed {seed}: {:?}", client.kinds);
    }
}

#[test]
fn wrong_bytes_end_in_an_error_and_never_in_a_panic_or_a_request_too_many() {
    for seed in 0..600 {
        let chances = Chances { reset: 10, go_away: 10, close: 10, flip: 50, ..Chances::default() };
        // A flipped bit may make both wait for ever, as a length that is too long does: that is the
        // timeout of the engine's user.
        if let Some((client, _)) = run(seed, chances) {
            assert_eq!(client.completed + client.failed, REQUESTS);
        }
    }
}

#[test]
fn a_response_that_http2_forbids_is_one_failure_and_its_connection_goes_on() {
    for seed in 0..300 {
        let chances = Chances { broken: 50, ..Chances::default() };
        let (client, server) = run(seed, chances).unwrap();
        assert_eq!((client.completed, client.failed), (server.answered, server.broken));
        assert_eq!(client.completed + client.failed, REQUESTS, "seed {seed}");
        let is_known = |kind: &Failure| *kind == Failure::Http2(Http2Failure::Broken);
        assert!(client.kinds.iter().all(is_known), "seed {seed}: {:?}", client.kinds);
    }
}

#[test]
fn what_answers_no_request_ends_its_connection_and_is_counted_nowhere() {
    for seed in 0..600 {
        let chances = Chances { broken_connection: 20, go_away: 20, ..Chances::default() };
        let (client, server) = run(seed, chances).unwrap();
        assert_eq!(client.completed + client.failed, REQUESTS, "seed {seed}");
        // Trailers and bodies after the end follow a response that is right.
        assert!(client.completed <= server.answered + server.broken_connections, "seed {seed}");
        let most = server.broken_connections * STREAMS as u64;
        let broken = Failure::Http2(Http2Failure::Broken);
        let seen = client.kinds.iter().filter(|kind| **kind == broken).count() as u64;
        assert!(seen <= most, "seed {seed}: {seen} of {most}");
        let is_known =
            |kind: &Failure| *kind == broken || *kind == Failure::Http2(Http2Failure::GoneAway);
        assert!(client.kinds.iter().all(is_known), "seed {seed}: {:?}", client.kinds);
    }
}
