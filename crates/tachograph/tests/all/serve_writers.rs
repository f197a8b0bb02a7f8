//! `tachograph serve`: several processes that write one record.

use std::time::{SystemTime, UNIX_EPOCH};

use proofs::daemon::{Daemon, points};

use crate::support::daemon::serve;
use crate::support::{Place, an_hour_ago, ask, lines, slots, status};

/// The status of the answer to these lines.
fn write(daemon: &Daemon, lines: &str) -> u32 {
    status(&ask(&daemon.at("tcp://", 0), "POST /write?precision=s", "", lines))
}

/// Requests of each of two daemons, and points of each request.
const ROUNDS: u64 = 24;

#[test]
fn two_daemons_that_are_killed_again_and_again_share_one_postgresql_database() {
    let server = throwaway::Throwaway::start(&["fsync=off"]).unwrap();
    let places = [Place::new(), Place::new()];
    let url = server.database("shared").unwrap();
    let start = |place: &Place, lane: &str| {
        let args = ["--no-graphite", "--write-each", "20ms", "--lane", lane, "--record", &url];
        serve(place, &args, 1)
    };
    std::thread::scope(|scope| {
        for (place, lane) in places.iter().zip(["a", "b"]) {
            scope.spawn(move || {
                let mut daemon = start(place, lane);
                for round in 0..ROUNDS {
                    // Both create the same series at the same time, and others are written again.
                    let name = format!("r{}", round / 3);
                    assert_eq!(write(&daemon, &lines(&name, round)), 204);
                    assert_eq!(write(&daemon, &lines("all", round)), 204);
                    if round % 3 == 2 {
                        // By SIGKILL.
                        drop(daemon);
                        daemon = start(place, lane);
                    }
                }
                daemon.stop().unwrap();
            });
        }
    });
    let names: Vec<String> = (0..ROUNDS / 3).map(|round| format!("r{round}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["all"]).collect();
    let mut wanted = vec![2 * 3 * 50; names.len() - 1];
    wanted.push(2 * 50 * ROUNDS as i64);
    assert_eq!(points(&url, &names).unwrap(), wanted);
    let mut maintain = places[0].command(&["maintain"]);
    maintain.env("TACHOGRAPH_RECORD", &url);
    let ended = places[0].finish(maintain);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.out.contains(": dropped 0 expired partitions, packed "), "{}", ended.out);
    assert_eq!(points(&url, &names).unwrap(), wanted);
}

#[test]
fn two_daemons_that_are_killed_again_and_again_share_one_lane() {
    let folder = tempfile::tempdir().unwrap();
    let server = throwaway::Throwaway::start(&["fsync=off"]).unwrap();
    let sqlite = folder.path().join("record.sqlite").display().to_string();
    for record in [sqlite, server.database("lane").unwrap()] {
        let from = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 3_600;
        std::thread::scope(|scope| {
            for offset in 0..2 {
                let record = &record;
                scope.spawn(move || {
                    let place = Place::new();
                    let start = || {
                        let args = ["--no-graphite", "--write-each", "20ms", "--record", record];
                        let journal = place.path("journal");
                        let journal = ["--journal", journal.to_str().unwrap()];
                        serve(&place, &[&args[..], &journal].concat(), 1)
                    };
                    let mut daemon = start();
                    for round in 0..ROUNDS {
                        let line = format!("level value=1 {}\n", from + 2 * round + offset);
                        assert_eq!(write(&daemon, &line), 204);
                        if round % 3 == 2 {
                            // By SIGKILL.
                            drop(daemon);
                            daemon = start();
                        }
                    }
                    daemon.stop().unwrap();
                });
            }
        });
        let slots = slots(&record, "level");
        let known: i64 = slots.iter().map(|slot| slot.covered_us).sum();
        let area: f64 = slots.iter().map(|slot| slot.integral.as_f64()).sum();
        let points: i64 = slots.iter().map(|slot| slot.n).sum();
        let seconds = 2 * ROUNDS as i64 - 1;
        let found = (known, area, points);
        assert_eq!(found, (seconds * 1_000_000, seconds as f64, seconds + 1), "{record}");
    }
}

#[test]
fn a_daemon_and_an_import_on_one_series_cover_every_second_once() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite", "--no-statsd"], 1);
    let from = an_hour_ago();
    let line = |second: u64| format!("level value=1 {}\n", from + second);
    // The daemon has the first point and the last ones; its batch is written when it stops.
    assert_eq!(write(&daemon, &line(0)), 204);
    let read = (line(4) + &line(8)).replace('\n', "000000000\n");
    place.write("level.txt", &read);
    place.run(&["import", "-f", "influx", "level.txt"]).status(0);
    assert_eq!(write(&daemon, &(line(6) + &line(10))), 204);
    daemon.stop().unwrap();
    let ended = place.run(&["query", "level", "--step", "10s", "--format", "json"]);
    let level = &ended.status(0).json()["series"][0];
    let slots = level["slots"].as_array().unwrap();
    let known: i64 = slots.iter().filter_map(|slot| slot["covered_us"].as_i64()).sum();
    assert_eq!((&level["total"], known), (&10.0.into(), 10_000_000), "{level:#}");
}
