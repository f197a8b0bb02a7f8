//! `tachograph serve` is replaced under load.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use proofs::daemon::Daemon;
use proofs::{restarts, serve_kills, statsd_kills};
use rustix::process::Signal;

use crate::support::{Place, ask, status};

#[test]
fn twenty_restarts_under_load_lose_no_request_and_no_point() {
    let place = Place::new();
    let record = place.path("record.sqlite");
    let proof = restarts::prove(record.to_str().unwrap(), place.dir.path(), 20, |options| {
        let mut command = place.command(&["serve", "--write-each", "300ms"]);
        command.args(options).env_remove("TACHOGRAPH_NO_PICKLE");
        command
    });
    let proof = proof.unwrap();
    assert!(proof.holds(), "{proof:?}");
}

#[test]
fn a_slow_request_keeps_nobody_from_connecting_while_a_successor_takes_over() {
    let place = Place::new();
    let args = ["serve", "--http", "127.0.0.1:0", "--no-graphite"];
    let mut daemon = Daemon::start(place.command(&args), 1).unwrap();
    let at = daemon.at("tcp://", 0);
    let mut slow = TcpStream::connect(&at).unwrap();
    let head = "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    slow.write_all(format!("{head}Content-Length: 9\r\n\r\na v").as_bytes()).unwrap();
    let others = std::thread::spawn(move || {
        // More than a successor needs to get ready.
        for _ in 0..400 {
            assert_eq!(status(&ask(&at, "GET /ping", "", "")), 204);
        }
        slow.write_all(b"alue=1").unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        answer
    });
    daemon.replace().unwrap();
    let answer = others.join().unwrap();
    assert_eq!(status(&answer), 204, "{answer}");
    daemon.stop().unwrap();
}

#[test]
fn a_successor_that_fails_to_start_changes_nothing() {
    let place = Place::new();
    // What is started next is another file of the same path, so that it can be exchanged.
    let program = place.copied_program();
    let mut command = std::process::Command::new(&program);
    command.args(["serve", "--http", "127.0.0.1:0", "--no-graphite"]);
    let mut daemon = Daemon::start(place.prepare(command), 1).unwrap();
    let id = daemon.id();
    let exchange = |script: &str| {
        let new = place.write("new", script);
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, &program).unwrap();
    };
    exchange("#!/bin/sh\nexit 3\n");
    daemon.signal(Signal::USR2).unwrap();
    assert_eq!(
        daemon.note().unwrap(),
        "not replaced: the new process did not get ready: it ended with exit status: 3; \
         this process goes on"
    );
    // It gets ready, but ends before it has opened the journal.
    exchange("#!/bin/sh\nprintf R >&0\nexit 4\n");
    daemon.signal(Signal::HUP).unwrap();
    let note = daemon.note().unwrap();
    assert!(note.starts_with("not replaced: the new process could not take over: "), "{note}");
    assert_eq!(status(&ask(&daemon.at("tcp://", 0), "GET /health", "", "")), 200);
    assert_eq!(daemon.id(), id);
    std::fs::remove_file(&program).unwrap();
    place.copied_program();
    daemon.replace().unwrap();
    assert_ne!(daemon.id(), id);
    daemon.stop().unwrap();
}

#[test]
fn kills_at_random_moments_lose_and_double_nothing_acknowledged() {
    let place = Place::new();
    let record = place.path("record.sqlite");
    let proof = serve_kills::prove(record.to_str().unwrap(), base::Seed(1), 10, |options| {
        let mut command = place.command(&["serve", "--write-each", "50ms"]);
        command.args(options);
        command
    });
    let proof = proof.unwrap();
    assert!(proof.holds(), "{proof:?}");
}

#[test]
fn statsd_windows_survive_kills_and_restarts() {
    let place = Place::new();
    let record = place.path("record.sqlite");
    let proof = statsd_kills::prove(record.to_str().unwrap(), base::Seed(1), 10, |options| {
        let mut command = place.command(&["serve", "--write-each", "50ms"]);
        command.args(options).env_remove("TACHOGRAPH_NO_STATSD");
        command
    });
    let proof = proof.unwrap();
    assert!(proof.holds(), "{proof:?}");
}
