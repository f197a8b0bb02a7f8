//! Values of responses in later requests of the same connection: a server that gives out cookies and
//! tokens, and knows which ones each of its connections must use.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base::{Nanos, Seed};
use drive::{Options, Session};
use rand::RngExt as _;
use spec::{Load, RequestDefaults, RequestKind, Target, parse_requests};

use crate::ENGINE;
use crate::helper::*;

const KINDS: &str = r#"{"name": "login", "method": "POST", "path": "/login", "keep": {"sid": {"cookie": "sid"}, "token": {"json": "/user/token"}}, "check": "status"}
{"name": "use", "path": "/use/{{ token }}", "headers": {"Cookie": "a=b; sid={{ sid }}"}, "weight": 5}
{"name": "post", "method": "POST", "path": "/post", "headers": {"Cookie": "sid={{sid}}"}, "body": {"token": "{{ token }}"}, "weight": 4}
"#;

fn kinds() -> Vec<RequestKind> {
    let read = |_: &std::path::Path| Ok(String::new());
    parse_requests("kinds", KINDS, &RequestDefaults::default(), &read).unwrap().kinds
}

/// What the server did, by kind of request and error; and what it has given out.
#[derive(Default)]
struct Server {
    done: BTreeMap<(String, Option<&'static str>), u64>,
    given: Vec<(String, String)>,
}

/// Answers until the client closes, and closes by itself after some responses.
fn serve(mut stream: TcpStream, server: &Mutex<Server>, seed: Seed) {
    let mut rng = seed.rng("server");
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    // What this connection must use, once it is known.
    let mut own: Option<(String, String)> = None;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let before = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            let line = &head[before..];
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let mut server = server.lock().unwrap();
        let closes = rng.random_ratio(1, 40);
        let close = if closes { "Connection: close\r\n" } else { "" };
        let kind = head.split(['/', ' ']).nth(2).unwrap().to_owned();
        let mut error = None;
        let answer = if kind == "login" {
            let number = server.given.len();
            let token = "t".repeat(rng.random_range(1..40));
            let new = (format!("s{number}"), format!("{token}.{number}"));
            // The probes must succeed.
            let cookie = match number > 3 && rng.random_ratio(1, 8) {
                true => "other=1".to_owned(),
                false => format!("sid={}; HttpOnly", new.0),
            };
            let json = format!("{{\"user\": {{\"token\": \"{}\"}}}}", new.1);
            if cookie.starts_with("sid") {
                server.given.push(new.clone());
                own = Some(new);
            } else {
                error = Some("no value to keep");
            }
            let length = json.len();
            format!(
                "200 OK\r\n{close}Set-Cookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{json}"
            )
        } else {
            let sid = head.split("sid=").nth(1).unwrap().split("\r\n").next().unwrap();
            let token = match kind.as_str() {
                "use" => head.split(['/', ' ']).nth(3).unwrap(),
                _ => body.split('"').nth(3).unwrap(),
            };
            let shown = (sid.to_owned(), token.to_owned());
            let is_right = match &own {
                Some(own) => *own == shown,
                None => server.given.contains(&shown),
            };
            own.get_or_insert(shown);
            let status = if is_right { "200 OK" } else { "403 Forbidden" };
            error = (!is_right).then_some("status 403");
            format!("{status}\r\n{close}Content-Length: 2\r\n\r\nok")
        };
        *server.done.entry((kind, error)).or_default() += 1;
        drop(server);
        stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        if closes {
            return;
        }
    }
}

#[test]
fn each_connection_uses_the_values_of_its_own_responses() {
    for seed in 0..6 {
        let mut rng = Seed(seed).rng("load");
        let server = Arc::new(Mutex::new(Server::default()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let by = server.clone();
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let (by, seed) = (by.clone(), Seed(seed).derive("connection", n as u64));
                std::thread::spawn(move || serve(stream.unwrap(), &by, seed));
            }
        });
        let load = Load {
            connections: rng.random_range(1..=9),
            threads: rng.random_range(1..=2),
            engine: ENGINE,
            kinds: kinds(),
            timeout: Nanos::from_secs(20),
            ..Load::default()
        };
        let options = Options { seed: Seed(seed), ..options() };
        let mut session = Session::open(&target, &load, &options).unwrap();
        session.learn().unwrap();
        for _ in 0..3 {
            assert_laws(&session.run(&requests(400)).unwrap());
        }
        let life = session.close();
        let server = server.lock().unwrap();
        let mut failed = 0;
        for (kind, counts) in load.kinds.iter().zip(&life.kinds) {
            let done = |error| {
                let key = (kind.name.clone(), error);
                server.done.get(&key).copied().unwrap_or_default()
            };
            assert_eq!(done(Some("status 403")), 0, "seed {seed}, {}", kind.name);
            assert_eq!(counts.counts.completed, done(None), "seed {seed}, {}", kind.name);
            let missing = done(Some("no value to keep"));
            assert_eq!(counts.counts.failed, missing, "seed {seed}, {}", kind.name);
            assert_eq!(counts.errors.values().sum::<u64>(), missing);
            failed += missing;
        }
        assert!(failed > 0, "seed {seed}: no login was without its cookie");
    }
}

#[test]
fn a_probe_without_the_value_says_where_it_was_looked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 0 {
            if std::mem::take(&mut line) == "\r\n" {
                let _ = stream.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}");
            }
        }
    });
    let load = Load { engine: ENGINE, kinds: kinds(), ..http_load(1) };
    let mut session = Session::open(&target, &load, &options()).unwrap();
    let error = session.learn().unwrap_err().to_string();
    let words = "to 'login', with status 401, lacks what is to be kept of it: cookie sid, \
                 JSON value /user/token; check the request";
    assert!(error.contains(words), "{error}");
}
