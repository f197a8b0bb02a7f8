//! `tachograph serve`: HTTP requests with an `Idempotency-Key`, and deltas of OTLP, count once, over restarts,
//! kills, outages and two daemons on one database.

use proofs::daemon::Daemon;
use prost::Message as _;
use throwaway::Throwaway;

use crate::messages::{Data, Export, Metric, NumberDataPoint, NumberValue, Sum};
use crate::support::daemon::serve;
use crate::support::{Place, ask, eventually, slots, status};

/// A daemon with a journal of its own.
fn start(place: &Place, record: &str, args: &[&str]) -> Daemon {
    let journal = place.path("journal").display().to_string();
    let usual = ["--no-graphite", "--journal", &journal, "--record", record];
    serve(place, &[&usual[..], args].concat(), 1)
}

/// Sends a count of an interval; returns the status, and whether the answer says that the request was
/// a repetition.
fn send(daemon: &Daemon, key: &str, count: i64) -> (u32, bool) {
    let line = format!("sold n={count}i,_start=1700000000i,_end=1700000010i\n");
    let headers =
        if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    let answer = ask(&daemon.at("tcp://", 0), "POST /write?precision=s", &headers, &line);
    (status(&answer), answer.contains("\r\nidempotent-replayed: true\r\n"))
}

/// Sends a delta of a stream, from and to a second; returns what the answer says of refused ones.
fn export(daemon: &Daemon, (start, end): (u64, u64), count: i64) -> String {
    let nanos = |second: u64| (1_700_000_000 + second) * 1_000_000_000;
    let point = NumberDataPoint {
        start: nanos(start),
        time: nanos(end),
        value: Some(NumberValue::Int(count)),
        ..NumberDataPoint::default()
    };
    let sum = Sum { points: vec![point], temporality: 1, is_monotonic: true };
    let message = Export::of(&[], "lib", vec![Metric::of("sold", Data::Sum(sum))]);
    let headers = "Content-Type: application/x-protobuf\r\n";
    let at = daemon.at("tcp://", 0);
    let answer = ask(&at, "POST /v1/metrics", headers, message.encode_to_vec());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    body.to_owned()
}

/// What was counted.
fn total(record: &str) -> f64 {
    slots(record, "sold").iter().map(|slot| slot.integral.as_f64()).sum()
}

const NEW: (u32, bool) = (204, false);
const REPEATED: (u32, bool) = (204, true);

#[test]
fn a_request_with_a_key_counts_once_over_stops_replacements_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let sqlite = folder.path().join("record.sqlite").display().to_string();
    for record in [sqlite, server.database("repeats").unwrap()] {
        let place = Place::new();
        let mut daemon = start(&place, &record, &["--write-each", "1h"]);
        // Without a key, with one, with another one, and with the same one for something else.
        assert_eq!([send(&daemon, "", 1), send(&daemon, "", 1)], [NEW, NEW]);
        assert_eq!([send(&daemon, "a", 10), send(&daemon, "a", 10)], [NEW, REPEATED]);
        assert_eq!([send(&daemon, "b", 10), send(&daemon, "a", 100)], [NEW, NEW]);
        let figures = ask(&daemon.at("tcp://", 0), "GET /metrics", "", "");
        assert!(figures.contains("\ntachograph_requests_repeated_total 1\n"), "{figures}");
        daemon.replace().unwrap();
        assert_eq!([send(&daemon, "a", 10), send(&daemon, "c", 1_000)], [REPEATED, NEW]);
        // By SIGKILL: the last one is in the journal only.
        drop(daemon);
        let daemon = start(&place, &record, &[]);
        assert_eq!([send(&daemon, "c", 1_000), send(&daemon, "b", 10)], [REPEATED, REPEATED]);
        daemon.stop().unwrap();
        // After an orderly stop the journal no longer has it.
        let daemon = start(&place, &record, &[]);
        assert_eq!([send(&daemon, "c", 1_000), send(&daemon, "a", 10)], [REPEATED, REPEATED]);
        daemon.stop().unwrap();
        assert_eq!(total(&record), 1_122.0, "{record}");
    }
}

#[test]
fn a_delta_counts_once_over_stops_replacements_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let sqlite = folder.path().join("record.sqlite").display().to_string();
    for record in [sqlite, server.database("deltas").unwrap()] {
        let place = Place::new();
        let export_all = |daemon: &Daemon| {
            [(0, 7), (14, 21), (7, 14), (30, 40)].map(|time| export(daemon, time, 10))
        };
        let mut daemon = start(&place, &record, &["--write-each", "1h"]);
        assert_eq!([export_all(&daemon), export_all(&daemon)].concat(), [""; 8]);
        daemon.replace().unwrap();
        assert_eq!(export_all(&daemon), [""; 4]);
        assert_eq!(export(&daemon, (40, 45), 100), "");
        // By SIGKILL: the last one is in the journal only.
        drop(daemon);
        let daemon = start(&place, &record, &[]);
        assert_eq!(export_all(&daemon), [""; 4]);
        assert_eq!(export(&daemon, (40, 45), 100), "");
        daemon.stop().unwrap();
        // After an orderly stop the journal no longer has them.
        let daemon = start(&place, &record, &[]);
        assert_eq!(export_all(&daemon), [""; 4]);
        assert_eq!(export(&daemon, (40, 45), 100), "");
        let figures = ask(&daemon.at("tcp://", 0), "GET /metrics", "", "");
        assert!(figures.contains("\ntachograph_updates_repeated_total 5\n"), "{figures}");
        let answer = export(&daemon, (18, 24), 1_000);
        assert!(answer.contains("'sold': a part of the time was counted already"), "{answer}");
        assert_eq!(export(&daemon, (21, 30), 10_000), "");
        let figures = ask(&daemon.at("tcp://", 0), "GET /metrics", "", "");
        assert!(figures.contains("reason=\"overlaps\"} 1\n"), "{figures}");
        daemon.stop().unwrap();
        assert_eq!(total(&record), 10_140.0, "{record}");
    }
}

#[test]
fn a_delta_that_is_repeated_to_another_daemon_counts_once() {
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let record = server.database("deltas").unwrap();
    let (first, second) = (Place::new(), Place::new());
    let daemon = start(&first, &record, &["--write-each", "1h"]);
    let other = start(&second, &record, &["--write-each", "1ms", "--lane", "other"]);
    assert_eq!([export(&daemon, (0, 10), 1), export(&daemon, (10, 20), 10)], [""; 2]);
    assert_eq!([export(&other, (0, 10), 1), export(&other, (20, 25), 100)], [""; 2]);
    eventually("it is in the record", || total(&record) == 101.0);
    // It knows only by the record that a part of this time was counted.
    assert_eq!(export(&daemon, (20, 30), 1_000), "");
    daemon.stop().unwrap();
    other.stop().unwrap();
    assert_eq!(total(&record), 111.0);
}

#[test]
fn a_repetition_is_answered_as_the_first_request_was() {
    let place = Place::new();
    let daemon = start(&place, place.path("record.sqlite").to_str().unwrap(), &[]);
    let body = "sold n=5i,_start=1700000000i,_end=1700000010i\nsold n=\n";
    let ask =
        |headers: &str| ask(&daemon.at("tcp://", 0), "POST /write?precision=s", headers, body);
    let key = "Idempotency-Key: \"8e03978e-40d5-43dd-bc93-6894a57f9324\"\r\n";
    let (first, second) = (ask(key), ask(key));
    assert!(first.starts_with("HTTP/1.1 400 "), "{first}");
    assert!(second.contains("\r\nidempotent-replayed: true\r\n"), "{second}");
    let said = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(said(&first), said(&second));
    let long = format!("Idempotency-Key: {}\r\n", "k".repeat(256));
    for wrong in [&long, "Idempotency-Key: \r\n", "Idempotency-Key: é\r\n"] {
        let answer = ask(wrong);
        assert!(answer.contains("an Idempotency-Key has 1 to 255 characters of ASCII"), "{answer}");
    }
    daemon.stop().unwrap();
    assert_eq!(total(place.path("record.sqlite").to_str().unwrap()), 5.0);
}

#[test]
fn a_request_that_is_repeated_to_another_daemon_counts_once() {
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let record = server.database("repeats").unwrap();
    let (first, second) = (Place::new(), Place::new());
    let daemon = start(&first, &record, &["--write-each", "1h"]);
    let other = start(&second, &record, &["--write-each", "1ms"]);
    // The first daemon acknowledges a request that the record does not have, and is killed.
    assert_eq!(send(&daemon, "a", 10), NEW);
    drop(daemon);
    assert_eq!(send(&other, "a", 10), NEW);
    eventually("it is in the record", || total(&record) == 10.0);
    let daemon = start(&first, &record, &["--write-each", "1h"]);
    assert_eq!(send(&daemon, "a", 10), REPEATED);
    // Both have a request that the record does not have.
    assert_eq!([send(&daemon, "b", 100), send(&daemon, "c", 1_000)], [NEW, NEW]);
    assert_eq!(send(&other, "b", 100), NEW);
    eventually("it is in the record", || total(&record) == 110.0);
    // The one that writes later leaves it out.
    daemon.stop().unwrap();
    other.stop().unwrap();
    assert_eq!(total(&record), 1_110.0);
}

#[test]
fn a_daemon_that_another_one_has_overtaken_goes_on_and_counts_once() {
    let (first, second) = (Place::new(), Place::new());
    let record = first.path("record.sqlite").display().to_string();
    let daemon = start(&first, &record, &["--write-each", "1h", "--journal-max", "200KiB"]);
    let other = start(&second, &record, &["--write-each", "1ms"]);
    assert_eq!([send(&daemon, "a", 1), send(&daemon, "b", 10)], [NEW; 2]);
    assert_eq!(send(&other, "a", 1), NEW);
    eventually("it is in the record", || total(&record) == 1.0);
    other.stop().unwrap();
    // A journal that is half full is written before its time.
    let comments = "# nothing\n".repeat(15_000);
    let answer = ask(&daemon.at("tcp://", 0), "POST /write", "", &comments);
    assert_eq!(status(&answer), 204, "{answer}");
    eventually("the other request is in the record", || total(&record) == 11.0);
    assert_eq!([send(&daemon, "a", 1), send(&daemon, "c", 100)], [REPEATED, NEW]);
    daemon.stop().unwrap();
    assert_eq!(total(&record), 111.0);
}

#[test]
fn a_daemon_whose_thread_ends_ends_with_its_reason() {
    let mut server = Throwaway::start(&["fsync=off"]).unwrap();
    let record = server.database("repeats").unwrap();
    let place = Place::new();
    let daemon = start(&place, &record, &[]);
    server.crash();
    // They wait in the journal, which is empty when the database is back. One may have been read.
    for key in ["a", "b", "c", "d"] {
        assert_eq!(send(&daemon, key, 1), NEW);
    }
    for file in std::fs::read_dir(place.path("journal")).unwrap() {
        std::fs::File::create(file.unwrap().path()).unwrap();
    }
    server.resume().unwrap();
    let (status, said) = daemon.ended().unwrap();
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("is damaged after record"), "{said}");
}

#[test]
fn repetitions_that_are_acknowledged_without_the_database_count_once() {
    let mut server = Throwaway::start(&[]).unwrap();
    let record = server.database("repeats").unwrap();
    let place = Place::new();
    let daemon = start(&place, &record, &["--write-each", "1ms"]);
    assert_eq!(send(&daemon, "a", 1), NEW);
    // Until the daemon has heard of the commit, it knows the request by itself.
    eventually("the daemon knows that it is in the record", || {
        let figures = ask(&daemon.at("tcp://", 0), "GET /metrics", "", "");
        figures.contains("\ntachograph_batches_total 1\n")
    });
    assert_eq!(total(&record), 1.0);
    server.crash();
    // Whether they are repetitions is not known yet.
    assert_eq!([send(&daemon, "a", 1), send(&daemon, "b", 10), send(&daemon, "b", 10)], [NEW; 3]);
    server.resume().unwrap();
    eventually("all is in the record", || total(&record) == 11.0);
    assert_eq!([send(&daemon, "a", 1), send(&daemon, "b", 10)], [REPEATED; 2]);
    daemon.stop().unwrap();
    assert_eq!(total(&record), 11.0);
}
