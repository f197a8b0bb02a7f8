use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use base::Nanos;
use fixture::{Config, Service};
use netio::{Engine, Handler, Wire};
use spec::{Endpoint, EngineChoice};

use super::*;

/// An engine that panics in one of its turns.
struct Faulty {
    inner: Epoll,
    turns_left: u32,
}

impl Engine for Faulty {
    fn wire(&mut self) -> &mut dyn Wire {
        self.inner.wire()
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> std::io::Result<()> {
        assert!(self.turns_left > 0, "out of turns");
        self.turns_left -= 1;
        self.inner.turn(timeout, handler)
    }
}

#[test]
fn a_panic_in_one_client_thread_left_the_others_waiting_for_ever() {
    // Repeatedly, because once in some thousand times a thread that had reported its end still
    // accepted a job.
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let rounds = std::thread::spawn(move || {
        for _ in 0..50 {
            // Before the threads meet, and in the middle of the load.
            [0, 20].into_iter().for_each(panic_in_one_client_thread);
        }
        drop(ended);
    });
    let waited = end.recv_timeout(Duration::from_secs(120));
    assert_ne!(waited, Err(RecvTimeoutError::Timeout), "a client thread waits for ever");
    rounds.join().unwrap();
}

fn panic_in_one_client_thread(turns_left: u32) {
    let listen = Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 };
    let server = fixture::spawn(Config::new(listen, Service::hello())).unwrap();
    let endpoint = server.endpoint().clone();
    let target =
        Target::Http { endpoint, tls: false, authority: "localhost".into(), path: "/".into() };
    let load = Load { threads: 3, engine: EngineChoice::Epoll, ..Load::default() };
    let options = Options::of_tests();
    let mut session = Session::open(&target, &load, &options).unwrap();
    session.learn().unwrap();
    let address = Address::resolve(target.endpoint()).unwrap().remove(0);
    let setup = Setup::new(address.clone(), Outbox::new(&target, &load).messages[0].clone(), 3);
    let make = move || Ok(Faulty { inner: Epoll::new(&setup)?, turns_left });
    let deck = Deck::new(Outbox::new(&target, &load).choices, Seed(1), 1);
    let answer = ResponseEnd::new(&load, &address, 1);
    let answers = (0..3).map(|_| answer.another()).collect();
    session.client_threads[1] = ClientThread::start(make, answers, 3, 1, deck, None).unwrap();
    let slice = Slice { window: Nanos::from_secs(600), requests: None, ..one_request() };
    let error = session.run(&slice).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the load engine failed: a client thread panicked (out of turns); this is a bug in \
         tachograph, please report it"
    );
    // Further calls return an error, and closing does not hang.
    let error = session.run(&slice).unwrap_err();
    assert_eq!(error.to_string(), "the load engine failed: a client thread ended too early");
    session.close();
}

#[test]
fn nothing_could_be_read_while_a_slice_ran() {
    let listen = Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 };
    let server = fixture::spawn(Config::new(listen, Service::hello())).unwrap();
    let endpoint = server.endpoint().clone();
    let target =
        Target::Http { endpoint, tls: false, authority: "localhost".into(), path: "/".into() };
    let options = Options::of_tests();
    let load = Load { threads: 2, ..Load::default() };
    let mut session = Session::open(&target, &load, &options).unwrap();
    session.learn().unwrap();
    let live = Arc::new(LiveCounts::default());
    session.watch(Arc::clone(&live));
    let slice = Slice { requests: Some(500), drain: Nanos::from_secs(10), ..one_request() };
    let seen = session.run(&slice).unwrap();
    assert_eq!(live.counts(), (seen.counts.completed, seen.counts.failed));
    assert_eq!(live.counts(), (500, 0));
    session.close();
}

#[test]
fn the_number_of_connections_is_limited_by_the_load_or_by_open_files() {
    let load = |connections, connections_max, new_connection| Load {
        connections,
        connections_max,
        new_connection,
        ..Load::default()
    };
    let within = |load: Load, most| connections_within(&load, most).map_err(|e| e.to_string());
    assert_eq!(within(load(10, None, false), 1024), Ok((10, LimitedBy::Load)));
    assert_eq!(within(load(10, Some(5), false), 1024), Ok((10, LimitedBy::Load)));
    assert_eq!(within(load(10, Some(1000), false), 4096), Ok((1000, LimitedBy::Load)));
    assert_eq!(within(load(10, Some(1000), false), 1024), Ok((960, LimitedBy::OpenFiles)));
    assert_eq!(within(load(10, Some(1000), true), 1024), Ok((704, LimitedBy::OpenFiles)));
    assert_eq!(within(load(900, Some(1000), true), 1024), Ok((900, LimitedBy::OpenFiles)));
    assert_eq!(within(load(10, Some(1000), false), u64::MAX), Ok((1000, LimitedBy::Load)));
    assert_eq!(
        within(load(1000, None, false), 1024),
        Err("1000 connections need as many open files, but the limit is 1024; raise it with \
            'ulimit -n'"
            .to_owned())
    );
}

/// A server that serves one connection after another and closes each after its response, as
/// gunicorn's sync worker does. One that lingers closes its side first, and then waits until the client
/// has closed too. It ends with its listener's last connection, which the test leaves open.
fn one_connection_after_another(lingers: bool) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut piece = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => request.extend_from_slice(&piece[..n]),
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
            let _ = stream.write_all(answer);
            if lingers {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                while matches!(stream.read(&mut piece), Ok(1..)) {}
            }
        }
    });
    Endpoint::Tcp { host: "127.0.0.1".into(), port }
}

#[test]
fn a_connection_opened_ahead_kept_a_server_of_one_worker_from_the_requests_on_the_others() {
    let endpoint = one_connection_after_another(false);
    let target =
        Target::Http { endpoint, tls: false, authority: "localhost".into(), path: "/".into() };
    let load = Load { connections: 10, timeout: Nanos::from_secs(5), ..Load::default() };
    let options = Options::of_tests();
    let mut session = Session::open(&target, &load, &options).unwrap();
    session.learn().unwrap();
    let open = Mode::Open { rate_per_s: 1000.0, arrivals: spec::Arrivals::Uniform };
    // Fewer requests than connections: some of those opened ahead stayed without one, and in the
    // next slice the server waited for a request on them.
    for mode in [open, Mode::Closed, open, Mode::Closed] {
        let slice = Slice { mode, requests: Some(3), drain: Nanos::from_secs(10), ..one_request() };
        let counts = session.run(&slice).unwrap().counts;
        assert_eq!((counts.completed, counts.failed), (3, 0), "{mode:?}");
    }
    session.close();
}

#[test]
fn a_client_thread_that_had_finished_made_a_lingering_server_wait_and_the_other_threads_too() {
    let endpoint = one_connection_after_another(true);
    let target =
        Target::Http { endpoint, tls: false, authority: "localhost".into(), path: "/".into() };
    let timeout = Nanos::from_secs(5);
    let load = Load { connections: 4, threads: 2, timeout, ..Load::default() };
    let options = Options::of_tests();
    let mut session = Session::open(&target, &load, &options).unwrap();
    session.learn().unwrap();
    for _ in 0..20 {
        let drain = Nanos::from_secs(10);
        let slice = Slice { mode: Mode::Closed, requests: Some(30), drain, ..one_request() };
        let counts = session.run(&slice).unwrap().counts;
        assert_eq!((counts.completed, counts.failed), (30, 0));
    }
    session.close();
}
