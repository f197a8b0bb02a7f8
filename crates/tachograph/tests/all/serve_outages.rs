//! `tachograph serve` while its database is gone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use proofs::daemon::{Daemon, now_us, over_tcp};
use proofs::{database_kills, restarts};
use rustix::process::{Pid, Signal, kill_process};
use throwaway::Throwaway;

use crate::support::daemon::{figure, get, serve};
use crate::support::{Place, eventually};

/// A daemon with a database.
fn daemon(place: &Place, url: &str, args: &[&str]) -> Daemon {
    let usual = ["--write-each", "50ms", "--graphite", "tcp://127.0.0.1:0", "--record", url];
    serve(place, &[&usual[..], args].concat(), 2)
}

/// Sends a point of a series over HTTP: whether it was acknowledged.
fn write(daemon: &Daemon, name: &str, number: i64) -> bool {
    let mut stream = TcpStream::connect(daemon.at("tcp://", 0)).unwrap();
    let line = format!("{name} value={number} {}\n", now_us() / 1_000 - 1_000_000 + number);
    restarts::request(&mut stream, &line).unwrap().0
}

/// The same over Graphite's protocol.
fn send(daemon: &Daemon, name: &str, number: i64) -> bool {
    let line = format!("{name} {number} {}\n", now_us() / 1_000_000 - 1_000 + number);
    matches!(over_tcp(&daemon.at("tcp://", 1), line.as_bytes()), Ok(true))
}

#[test]
fn new_series_are_acknowledged_without_the_database() {
    let place = Place::new();
    let mut server = Throwaway::start(&[]).unwrap();
    let url = server.database("serve").unwrap();
    let running = daemon(&place, &url, &[]);
    assert!(write(&running, "known", 0));
    server.kill();
    // A line that can never be recorded is refused nevertheless.
    let mut stream = TcpStream::connect(running.at("tcp://", 0)).unwrap();
    assert!(!restarts::request(&mut stream, "new value=1 1\nnew value\n").unwrap().0);
    for number in 1..10 {
        assert!(write(&running, &format!("new{number}"), 1), "over HTTP");
        assert!(send(&running, &format!("sent{number}"), 1), "over TCP");
        assert!(write(&running, "known", number), "a known one after new ones");
    }
    eventually("the trouble is reported", || get(&running, "/health").contains(" 503 "));
    // What is only in the journal survives the daemon too.
    running.signal(Signal::KILL).unwrap();
    drop(running);
    server.resume().unwrap();
    let running = daemon(&place, &url, &[]);
    assert!(write(&running, "known", 10));
    let names: Vec<String> =
        (1..10).flat_map(|n| [format!("new{n}"), format!("sent{n}")]).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("known");
    let expected = [&[1; 18][..], &[11]].concat();
    eventually("all points are stored", || {
        proofs::daemon::points(&url, &names).is_ok_and(|points| points == expected)
    });
    running.stop().unwrap();
}

#[test]
fn queries_that_nobody_waits_for_stop_and_give_their_places_to_others() {
    let place = Place::new();
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("serve").unwrap();
    let running = daemon(&place, &url, &[]);
    assert!(write(&running, "slow", 1));
    let is_stored = || proofs::daemon::points(&url, &["slow"]).is_ok_and(|points| points == [1]);
    eventually("it is stored", is_stored);
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let mut locking = client.transaction().unwrap();
    locking.batch_execute("LOCK TABLE slot_10s IN ACCESS EXCLUSIVE MODE").unwrap();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessShareLock'";
    let wait_for = |count| {
        let what = format!("{count} queries wait");
        eventually(&what, || server.number("serve", waiting).is_ok_and(|found| found == count));
    };
    let query = |_| {
        let mut stream = TcpStream::connect(running.at("tcp://", 0)).unwrap();
        let request = b"GET /render?target=slow&from=-1h HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).unwrap();
        stream
    };
    let dashboards: Vec<TcpStream> = (0..4).map(query).collect();
    wait_for(4.0);
    assert!(get(&running, "/health").contains(" 200 "), "it waits for no query");
    drop(dashboards);
    wait_for(0.0);
    assert!(get(&running, "/metrics/find?query=*").contains("slow"));
    drop(locking);
    running.stop().unwrap();
}

#[test]
fn a_database_that_neither_answers_nor_fails_is_reported_and_ends_no_acknowledgements() {
    let place = Place::new();
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("serve").unwrap();
    let running = daemon(&place, &url, &[]);
    assert!(write(&running, "known", 0));
    let is_stored = |count| {
        let points = proofs::daemon::points(&url, &["known"]);
        points.is_ok_and(|points| points == [count])
    };
    eventually("it is stored", || is_stored(1));
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let mut locking = client.transaction().unwrap();
    // What a writer needs that is suspended in its transaction. Readers do not wait for it.
    locking.batch_execute("LOCK TABLE lane_run IN EXCLUSIVE MODE").unwrap();
    assert!(write(&running, "known", 1));
    eventually("the trouble is reported", || get(&running, "/health").contains(" 503 "));
    assert!(write(&running, "known", 2), "it is acknowledged nevertheless");
    drop(locking);
    eventually("all is stored", || is_stored(3));
    eventually("the trouble is over", || get(&running, "/health").contains(" 200 "));
    running.stop().unwrap();
}

/// Starts a daemon that listens on a Unix socket for HTTP, and not for Graphite.
fn spawn(place: &Place, url: &str) -> Child {
    let http = format!("unix:{}", place.path("http").display());
    let mut command = place.command(&["serve", "--no-graphite", "--http", &http, "--record", url]);
    command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The answer of such a daemon to a request for its health; empty while it does not listen.
fn health(place: &Place) -> String {
    let mut answer = String::new();
    let asked = UnixStream::connect(place.path("http")).and_then(|mut stream| {
        stream.write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    // What has arrived of an answer is shown by the test that waits for more.
    drop(asked);
    answer
}

fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

#[test]
fn a_daemon_waits_for_a_database_that_is_started_after_it() {
    let place = Place::new();
    let mut server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("serve").unwrap();
    server.kill();
    let mut running = spawn(&place, &url);
    eventually("it tells what it waits for", || {
        let answer = health(&place);
        answer.contains(" 503 ") && answer.contains("does not answer")
    });
    assert_eq!(running.try_wait().unwrap(), None);
    server.resume().unwrap();
    eventually("it serves", || health(&place).contains(" 200 "));
    terminate(&running);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    let begins = "not listening yet, retrying every second: PostgreSQL at ";
    assert!(said.starts_with(begins) && said.lines().count() == 1, "{said}");
}

#[test]
fn a_daemon_that_waits_for_its_database_ends_when_it_is_told_to() {
    let place = Place::new();
    let mut server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("serve").unwrap();
    server.kill();
    let running = spawn(&place, &url);
    eventually("it waits", || health(&place).contains(" 503 "));
    terminate(&running);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("error: the record could not be written (PostgreSQL at "), "{said}");
}

#[test]
fn a_database_that_will_never_be_there_is_refused_at_once() {
    let place = Place::new();
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let none = server.url("none");
    for (url, said) in [
        (none.as_str(), "no database at "),
        ("postgres://ada@host:port/x", "is not the URL of a PostgreSQL database"),
    ] {
        let ended =
            place.run(&["serve", "--http", "127.0.0.1:0", "--no-graphite", "--record", url]);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.starts_with("error: ") && ended.err.contains(said), "{}", ended.err);
    }
}

#[test]
fn a_daemon_whose_successor_fails_while_the_database_is_away_goes_on() {
    let place = Place::new();
    let mut server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("serve").unwrap();
    let program = place.copied_program();
    let mut command = Command::new(&program);
    command.args(["serve", "--http", "127.0.0.1:0", "--graphite", "tcp://127.0.0.1:0"]);
    command.args(["--record", &url]);
    let running = Daemon::start(place.prepare(command), 2).unwrap();
    assert!(write(&running, "known", 0));
    // It gets ready, and fails once it is told to, while everything is being handed to it.
    let fails = "#!/bin/sh\nprintf R >&0\nhead -c 1 >first\n\
                 while [ ! -e fail ]; do sleep 0.01; done\nexit 1\n";
    let new = place.write("new", fails);
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(new, &program).unwrap();
    running.signal(Signal::USR2).unwrap();
    let is_handing = || std::fs::metadata(place.path("first")).is_ok_and(|file| file.len() > 0);
    eventually("the successor gets something", is_handing);
    server.kill();
    place.write("fail", "");
    let note = running.note().unwrap();
    assert!(note.starts_with("not replaced: the new process could not take over: "), "{note}");
    let note = running.note().unwrap();
    assert!(note.starts_with("not listening yet, retrying every second: PostgreSQL"), "{note}");
    eventually("it tells what it waits for", || {
        get(&running, "/health").contains(" does not answer ")
    });
    server.resume().unwrap();
    eventually("it goes on", || get(&running, "/health").contains(" 200 "));
    assert!(write(&running, "known", 1));
    running.stop().unwrap();
}

#[test]
fn the_journal_fills_up_without_the_database_and_senders_go_on_when_it_is_back() {
    let place = Place::new();
    let mut server = Throwaway::start(&[]).unwrap();
    let url = server.database("serve").unwrap();
    let limits = ["--journal-max", "15KiB", "--head-memory", "4KiB"];
    let running = daemon(&place, &url, &limits);
    assert!(write(&running, "known", 0));
    server.kill();
    let mut acknowledged = 1;
    while write(&running, &format!("new{}", acknowledged % 7), acknowledged) {
        acknowledged += 1;
        assert!(acknowledged < 10_000, "the limit is not kept");
    }
    assert!(acknowledged > 100, "{acknowledged}: it was not the journal that was full");
    server.resume().unwrap();
    eventually("senders go on", || write(&running, "after", 1));
    let names = ["known", "new0", "new1", "new2", "new3", "new4", "new5", "new6"];
    eventually("all points are stored", || {
        let points = proofs::daemon::points(&url, &names);
        points.is_ok_and(|points| points.iter().sum::<i64>() == acknowledged)
    });
    let lines = figure(&running, "tachograph_lines_total{way=\"influx_http\"}");
    assert_eq!(lines, Some(acknowledged as f64 + 1.0), "each is counted once");
    running.stop().unwrap();
}

#[test]
fn a_series_of_import_rrd_is_refused_and_stops_nobody() {
    let place = Place::new();
    place.write("a.txt", &format!("archived 1 {}\n", now_us() / 1_000_000 - 100));
    let record = place.path("record.sqlite").display().to_string();
    place.run(&["import", "--rrd", "--format", "graphite", "a.txt"]).status(0);
    let running = daemon(&place, &record, &[]);
    assert!(send(&running, "archived", 1));
    assert!(write(&running, "other", 1));
    let refused = "tachograph_refused_lines_total{way=\"graphite_stream\",sender=\"127.0.0.1\",\
                   reason=\"other_mode\"}";
    assert_eq!(figure(&running, refused), Some(1.0));
    running.stop().unwrap();
}

#[test]
fn kills_of_the_database_lose_and_double_nothing_acknowledged() {
    let place = Place::new();
    let proof = database_kills::prove(place.dir.path(), base::Seed(1), 3, |url, options| {
        let mut command = place.command(&["serve", "--write-each", "50ms"]);
        command.args(["--head-memory", "100KiB"]).args(options).env("TACHOGRAPH_RECORD", url);
        command
    });
    let proof = proof.unwrap();
    assert!(proof.holds(), "{proof:?}");
}

#[test]
fn postgresql_that_is_gone_for_a_while_loses_nothing() {
    let place = Place::new();
    let mut server = throwaway::Throwaway::start(&[]).unwrap();
    let url = server.database("serve").unwrap();
    let args = ["--write-each", "50ms", "--no-graphite", "--record", &url];
    let daemon = serve(&place, &args, 1);
    let at = daemon.at("tcp://", 0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let write = |second: u64| {
        let mut stream = std::net::TcpStream::connect(&at).unwrap();
        let line = format!("pg value=1 {}\n", (now.as_secs() - 1_000 + second) * 1_000);
        restarts::request(&mut stream, &line).unwrap().0
    };
    assert!(write(0));
    let points = || proofs::daemon::points(&url, &["pg"]);
    eventually("the first point is stored", || points().is_ok_and(|points| points == [1]));
    server.crash();
    // The series is known, so its points are acknowledged without the database.
    assert!((1..20).all(write));
    server.resume().unwrap();
    eventually("all points are stored", || points().is_ok_and(|points| points == [20]));
    daemon.stop().unwrap();
}
