//! Unary calls by gRPC: a seed chooses what the server does with each, and what the client counts is
//! exactly that.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ::http2::frame::{self, FrameHeader, HEADER_BYTES, PREFACE, error, flag, kind};
use ::http2::hpack::{self, HeaderField};
use base::{Rng, Seed};
use drive::{Observation, Options, Session};
use rand::RngExt as _;
use spec::{CallBodies, Calls, Exchange, Expect, HttpRequest, HttpVersion, Load, Target};

use crate::ENGINE;
use crate::helper::*;

const MESSAGE: &[u8] = b"the message that answers every call";

/// What the server does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Answer,
    /// A status after the head, and after a message.
    Status(u32),
    StatusAfterMessage(u32),
    /// Headers alone ("Trailers-Only").
    HeadersAlone(u32),
    HeadersAloneWithoutStatus,
    NoTrailers,
    TrailersWithoutStatus,
    /// A status of 0 where it has no meaning.
    StatusInHead,
    NoMessage,
    TwoMessages,
    Shorter,
    Longer,
    HalfPrefix,
    Compressed,
    OtherContent,
    OtherHttpStatus,
    OtherMessage,
    OtherLength,
    Reset,
}

const ACTS: [Act; 23] = [
    Act::Answer,
    Act::Status(14),
    Act::Status(3),
    Act::Status(99),
    Act::StatusAfterMessage(13),
    Act::HeadersAlone(14),
    Act::HeadersAlone(12),
    Act::HeadersAlone(0),
    Act::HeadersAloneWithoutStatus,
    Act::NoTrailers,
    Act::TrailersWithoutStatus,
    Act::StatusInHead,
    Act::NoMessage,
    Act::TwoMessages,
    Act::Shorter,
    Act::Longer,
    Act::HalfPrefix,
    Act::Compressed,
    Act::OtherContent,
    Act::OtherHttpStatus,
    Act::OtherMessage,
    Act::OtherLength,
    Act::Reset,
];

impl Act {
    /// What the client calls it.
    fn error(self) -> Option<&'static str> {
        Some(match self {
            Act::Answer => return None,
            Act::Status(3) => "INVALID_ARGUMENT (3)",
            Act::Status(14) | Act::HeadersAlone(14) => "UNAVAILABLE (14)",
            Act::HeadersAlone(12) => "UNIMPLEMENTED (12)",
            Act::StatusAfterMessage(13) => "INTERNAL (13)",
            Act::Status(_) | Act::StatusAfterMessage(_) => "grpc-status 99",
            Act::HeadersAlone(_) | Act::NoMessage => "no message",
            Act::HeadersAloneWithoutStatus | Act::NoTrailers => "no grpc-status",
            Act::TrailersWithoutStatus | Act::StatusInHead => "no grpc-status",
            Act::TwoMessages => "more than one message",
            Act::Shorter | Act::Longer | Act::HalfPrefix => "incomplete message",
            Act::Compressed => "compressed message",
            Act::OtherContent => "not gRPC",
            Act::OtherHttpStatus => "status 503",
            Act::OtherMessage => "body differs",
            Act::OtherLength => "length differs",
            Act::Reset => "stream reset (CANCEL)",
        })
    }

    /// The body of the response.
    fn body(self) -> Vec<u8> {
        let mut answer = spec::framed(MESSAGE);
        match self {
            Act::Status(_) | Act::HeadersAlone(_) | Act::HeadersAloneWithoutStatus => return vec![],
            Act::NoMessage => return vec![],
            Act::TwoMessages => answer.extend(spec::framed(b"and another one")),
            Act::Shorter => answer.truncate(answer.len() - 1),
            Act::Longer => answer.push(0),
            Act::HalfPrefix => answer.truncate(3),
            Act::Compressed => answer[0] = 1,
            Act::OtherMessage => answer[5] ^= 1,
            Act::OtherLength => return spec::framed(b"short"),
            _ => {}
        }
        answer
    }

    fn head(self) -> Vec<HeaderField> {
        let http_status = if self == Act::OtherHttpStatus { "503" } else { "200" };
        let content = if self == Act::OtherContent { "text/html" } else { "application/grpc" };
        let mut fields = vec![field(":status", http_status), field("content-type", content)];
        match self {
            Act::HeadersAlone(status) => fields.push(field("grpc-status", &status.to_string())),
            Act::StatusInHead => fields.push(field("grpc-status", "0")),
            _ => {}
        }
        fields
    }

    /// The trailers; `None` if the stream ends without.
    fn trailers(self) -> Option<Vec<HeaderField>> {
        let status = match self {
            Act::NoTrailers => return None,
            Act::HeadersAlone(_) | Act::HeadersAloneWithoutStatus => return None,
            Act::TrailersWithoutStatus | Act::StatusInHead => {
                return Some(vec![field("grpc-message", "nothing")]);
            }
            Act::Status(status) | Act::StatusAfterMessage(status) => status,
            _ => 0,
        };
        Some(vec![field("grpc-status", &status.to_string()), field("grpc-message", "")])
    }
}

fn field(name: &str, value: &str) -> HeaderField {
    (name.to_owned(), value.to_owned())
}

/// Encodes headers, with or without adding them to the client's table.
fn block(fields: &[HeaderField], rng: &mut Rng) -> Vec<u8> {
    if rng.random_bool(0.7) {
        return hpack::literal(fields);
    }
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0x40);
        for text in [name, value] {
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Adds the response to a call, its body in pieces.
fn respond(act: Act, stream: u32, rng: &mut Rng, out: &mut Vec<u8>) {
    let alone = matches!(act, Act::HeadersAlone(_) | Act::HeadersAloneWithoutStatus);
    frame::write_headers(out, stream, &block(&act.head(), rng), alone);
    if alone {
        return;
    }
    let (body, trailers) = (act.body(), act.trailers());
    let mut rest = body.as_slice();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rng.random_range(0..=rest.len()));
        let ends = after.is_empty() && trailers.is_none();
        frame::write(out, kind::DATA, if ends { flag::END_STREAM } else { 0 }, stream, piece);
        rest = after;
    }
    match trailers {
        _ if act == Act::Reset => frame::write_reset(out, stream, error::CANCEL),
        Some(trailers) => frame::write_headers(out, stream, &block(&trailers, rng), true),
        None => {}
    }
}

/// Calls by what was done with them.
type ActTally = Arc<Mutex<BTreeMap<Act, u64>>>;

/// Answers calls until the client closes, several at once and not in their order.
fn serve(mut socket: TcpStream, share: f64, tally: &ActTally, seed: Seed) {
    let mut rng = seed.rng("acts");
    let mut incoming = Vec::new();
    let mut out = Vec::new();
    frame::write_settings(&mut out, &[]);
    let mut has_preface = false;
    loop {
        let _ = socket.write_all(&out);
        out.clear();
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer) {
            Ok(n @ 1..) => incoming.extend_from_slice(&buffer[..n]),
            _ => return,
        }
        if !has_preface && incoming.len() >= PREFACE.len() {
            assert!(incoming.starts_with(PREFACE));
            incoming.drain(..PREFACE.len());
            has_preface = true;
        }
        let mut complete = Vec::new();
        while has_preface && let Some(header) = FrameHeader::parse(&incoming) {
            let end = HEADER_BYTES + header.length;
            let Some(payload) = incoming.get(HEADER_BYTES..end) else { break };
            match header.kind {
                kind::SETTINGS if !header.has(flag::ACK) => {
                    frame::write(&mut out, kind::SETTINGS, flag::ACK, 0, &[]);
                }
                kind::DATA => {
                    assert_eq!(payload, spec::framed(b"question"));
                    assert!(header.has(flag::END_STREAM));
                    complete.push(header.stream);
                }
                _ => {}
            }
            incoming.drain(..end);
        }
        while !complete.is_empty() {
            let stream = complete.swap_remove(rng.random_range(0..complete.len()));
            let act = match rng.random_bool(share) {
                true => ACTS[rng.random_range(1..ACTS.len())],
                false => Act::Answer,
            };
            *tally.lock().unwrap().entry(act).or_default() += 1;
            respond(act, stream, &mut rng, &mut out);
        }
    }
}

/// A server that does something else with a share of the calls.
fn server(share: f64, tally: &ActTally, seed: u64) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let tally = tally.clone();
    std::thread::spawn(move || {
        for (n, socket) in listener.incoming().enumerate() {
            let (tally, seed) = (tally.clone(), Seed(seed).derive("connection", n as u64));
            std::thread::spawn(move || serve(socket.unwrap(), share, &tally, seed));
        }
    });
    target
}

fn calls(expect: Expect) -> Load {
    let body = spec::framed(b"question");
    let timeout = Load::default().timeout;
    Load {
        connections: 12,
        streams: 4,
        engine: ENGINE,
        http: HttpVersion::Http2,
        exchange: Exchange::Http(HttpRequest::call(Vec::new(), body, timeout)),
        grpc: Some(Calls { method: Some("a.B/C".to_owned()), bodies: CallBodies::Encoded }),
        expect: Expect { status: Some(200), ..expect },
        ..Load::default()
    }
}

/// Compares what the client has counted with what the server has done.
fn assert_equal(seen: &Observation, tally: &ActTally, seed: u64) {
    assert_laws(seen);
    let mut errors = BTreeMap::new();
    let tally = tally.lock().unwrap();
    for (act, count) in tally.iter() {
        if let Some(error) = act.error() {
            *errors.entry(error.to_owned()).or_default() += count;
        }
    }
    assert_eq!(seen.errors, errors, "seed {seed}");
    assert_eq!(seen.counts.completed, tally.get(&Act::Answer).copied().unwrap_or(0), "seed {seed}");
}

#[test]
fn each_failure_of_a_call_is_counted_as_what_it_is() {
    for (seed, share) in [(1, 0.0), (2, 0.05), (3, 0.5), (4, 1.0), (5, 0.9), (6, 0.3)] {
        let tally = ActTally::default();
        let target = server(share, &tally, seed);
        let load = calls(Expect { body: Some(MESSAGE.to_vec()), ..Expect::default() });
        let options = Options { seed: Seed(seed), ..options() };
        let mut session = Session::open(&target, &load, &options).unwrap();
        let seen = session.run(&requests(3_000)).unwrap();
        // The first of three connections was opened before.
        assert_eq!(seen.connects, 2, "a failed call leaves its connection as it is");
        assert_eq!(seen.window.payload_bytes % MESSAGE.len() as u64, 0);
        drop(session);
        assert_equal(&seen, &tally, seed);
    }
}

#[test]
fn a_failed_call_teaches_nothing_about_the_message() {
    for seed in 0..12 {
        let tally = ActTally::default();
        let target = server(0.5, &tally, seed);
        let options = Options { seed: Seed(seed), ..options() };
        let mut session = Session::open(&target, &calls(Expect::default()), &options).unwrap();
        // A probe whose stream is reset ends the session.
        let Ok(learned) = session.learn() else { continue };
        let acts = tally.lock().unwrap().clone();
        let answered = acts.get(&Act::Answer).copied().unwrap_or(0);
        // These are answers whose message may be the first one that is seen.
        let others = [Act::OtherMessage, Act::OtherLength].iter().filter_map(|act| acts.get(act));
        if answered > 0 && others.count() == 0 && !acts.contains_key(&Act::OtherHttpStatus) {
            assert_eq!(learned.body.as_deref(), Some(MESSAGE), "seed {seed}: {acts:?}");
            tally.lock().unwrap().clear();
            let seen = session.run(&requests(500)).unwrap();
            assert_equal(&seen, &tally, seed);
        }
    }
}
