//! `tachograph serve` is replaced under load.

use std::os::unix::fs::PermissionsExt as _;

use proofs::daemon::Daemon;
use proofs::{restarts, serve_kills, statsd_kills};
use rustix::process::Signal;

use crate::support::{Place, TACHOGRAPH, ask, status};

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
fn a_successor_that_fails_to_start_changes_nothing() {
    let place = Place::new();
    // The program is a link, so that what is started next can be exchanged.
    let program = place.path("tachograph");
    std::fs::copy(TACHOGRAPH, &program).unwrap();
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
    std::fs::copy(TACHOGRAPH, &program).unwrap();
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
