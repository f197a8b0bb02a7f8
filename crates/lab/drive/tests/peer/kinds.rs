//! Several kinds of request: a seed chooses the kinds, their weights, and what the server does with
//! each; the client's counts of each kind are the server's.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base::Seed;
use drive::{Options, Session};
use rand::RngExt as _;
use spec::{Expect, HttpRequest, Load, PathRequest, RequestKind, Target};

use crate::ENGINE;
use crate::helper::*;

/// What the server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Answer,
    Status,
    Body,
    Length,
    CloseBefore,
    CloseWithin,
}

const DEEDS: [Deed; 6] =
    [Deed::Answer, Deed::Status, Deed::Body, Deed::Length, Deed::CloseBefore, Deed::CloseWithin];

impl Deed {
    /// What the client calls it.
    fn error(self) -> Option<&'static str> {
        match self {
            Deed::Answer => None,
            Deed::Status => Some("status 503"),
            Deed::Body => Some("body differs"),
            Deed::Length => Some("length differs"),
            Deed::CloseBefore => Some("closed before a response"),
            Deed::CloseWithin => Some("closed within a response"),
        }
    }
}

/// Requests by kind and deed.
type Tally = Arc<Mutex<BTreeMap<(usize, Deed), u64>>>;

/// How often of a thousand requests each deed but the first is done, by kind.
type Chances = Arc<Vec<[u64; 5]>>;

fn body(kind: usize) -> String {
    format!("the answer to kind {kind}")
}

/// Answers requests for `/KIND/…` until the client closes.
fn serve(mut stream: TcpStream, chances: &Chances, tally: &Tally, seed: Seed) {
    let mut rng = seed.rng("deeds");
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let before = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            let line = head[before..].trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let kind: usize = head.split('/').nth(1).unwrap().parse().unwrap();
        let drawn = rng.random_range(0..1_000);
        let mut below = 0;
        let unlucky = chances[kind].iter().position(|chance| {
            below += chance;
            drawn < below
        });
        let deed = DEEDS[unlucky.map_or(0, |at| at + 1)];
        *tally.lock().unwrap().entry((kind, deed)).or_default() += 1;
        let (sound, mut sent) = (body(kind), body(kind));
        let mut status = "200 OK";
        match deed {
            Deed::Answer | Deed::CloseWithin => {}
            Deed::Status => status = "503 No",
            Deed::Body => sent = sound.to_uppercase(),
            Deed::Length => sent.push('!'),
            Deed::CloseBefore => return,
        }
        let mut answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{sent}", sent.len());
        if deed == Deed::CloseWithin {
            answer.truncate(answer.len() - 3);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        if deed == Deed::CloseWithin {
            return;
        }
    }
}

fn kinds(rng: &mut base::Rng) -> Vec<RequestKind> {
    let count = rng.random_range(2..=12_usize);
    (0..count)
        .map(|kind| RequestKind {
            name: format!("kind {kind}"),
            weight: rng.random_range(1..=9),
            requests: (0..rng.random_range(1..=3))
                .map(|n| PathRequest {
                    path: format!("/{kind}/{n}"),
                    request: HttpRequest {
                        method: if n == 1 { "POST" } else { "GET" }.to_owned(),
                        body: "x".repeat(n * kind).into_bytes(),
                        ..HttpRequest::default()
                    },
                })
                .collect(),
            expect: Expect {
                status: Some(200),
                body: Some(body(kind).into_bytes()),
                ..Expect::default()
            },
            keep: Vec::new(),
        })
        .collect()
}

#[test]
fn each_kind_has_the_servers_counts() {
    for seed in 0..12 {
        let mut rng = Seed(seed).rng("kinds");
        let kinds = kinds(&mut rng);
        let chance =
            |rng: &mut base::Rng| if rng.random_bool(0.5) { 0 } else { rng.random_range(0..60) };
        let chances: Chances =
            Arc::new(kinds.iter().map(|_| [(); 5].map(|()| chance(&mut rng))).collect());
        let tally = Tally::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let (with, by) = (chances.clone(), tally.clone());
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let (with, by) = (with.clone(), by.clone());
                let seed = Seed(seed).derive("connection", n as u64);
                std::thread::spawn(move || serve(stream.unwrap(), &with, &by, seed));
            }
        });
        let deck: u64 = kinds.iter().map(|kind| u64::from(kind.weight)).sum();
        let load = Load {
            connections: rng.random_range(1..=9),
            engine: ENGINE,
            kinds: kinds.clone(),
            ..Load::default()
        };
        let options = Options { seed: Seed(seed), ..options() };
        let mut session = Session::open(&target, &load, &options).unwrap();
        let seen = session.run(&requests(deck * 40)).unwrap();
        assert_laws(&seen);
        let life = session.close();
        assert_eq!(life.kinds.len(), kinds.len());
        let tally = tally.lock().unwrap();
        for (kind, (of, counts)) in kinds.iter().zip(&life.kinds).enumerate() {
            let done = |deed| tally.get(&(kind, deed)).copied().unwrap_or_default();
            assert_eq!(counts.counts.sent, u64::from(of.weight) * 40, "exactly its share");
            assert_eq!(counts.counts.completed, done(Deed::Answer), "seed {seed}, kind {kind}");
            for deed in DEEDS {
                let Some(error) = deed.error() else { continue };
                let found = counts.errors.get(error).copied().unwrap_or_default();
                assert_eq!(found, done(deed), "seed {seed}, kind {kind}: {error}");
            }
            let seen = &seen.kinds[kind].times;
            let timed: u64 = seen.counts().iter().map(|(_, count)| count).sum();
            assert_eq!(timed, counts.counts.completed);
        }
    }
}
