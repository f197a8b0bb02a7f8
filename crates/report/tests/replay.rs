//! Reports of replays.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

use base::Nanos;
use insta::assert_snapshot;
use ledger::{Counts, Ledger};
use record::{
    DifferenceExample, DifferenceGroup, DifferenceKind, FailedPairs, FailureCause, Pair, Replay,
    ReplayServer, RunState, Side,
};
use report::{Style, replay_json, replay_markdown, replay_terminal};

fn group(kind: DifferenceKind, requests: u64, old: &str, new: &str) -> DifferenceGroup {
    let values = Pair { old: old.to_owned(), new: new.to_owned() };
    let (line, method, path) = (17, "GET".to_owned(), "/items/3?a=<b>".to_owned());
    DifferenceGroup { kind, requests, example: DifferenceExample { line, method, path, values } }
}

fn ledger(completed: u64, cause: &str, failed: u64) -> Ledger {
    let sent = completed + failed;
    let counts = Counts { offered: sent, sent, completed, failed, ..Counts::default() };
    let errors = [(cause.to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0).collect();
    Ledger { counts, errors, ..Ledger::default() }
}

fn server(command: &str, machine: Option<&str>) -> ReplayServer {
    ReplayServer { command: command.to_owned(), machine: machine.map(str::to_owned) }
}

/// A replay with every kind of difference.
fn different() -> Replay {
    let pointer = |text: &str| text.to_owned();
    Replay {
        log: "access.log".to_owned(),
        servers: Pair {
            old: server("./old --port $PORT", None),
            new: server("./new --port $PORT", Some("user@server")),
        },
        started: "2026-11-29T10:00:00Z".parse().unwrap(),
        elapsed: Nanos::from_millis(1234),
        command_line: vec!["tachograph".to_owned(), "replay".to_owned()],
        version: "0.1.0".to_owned(),
        state: RunState::Done,
        error: None,
        connections: 10,
        speed: None,
        late: Nanos::ZERO,
        entries: 12_468,
        left_out: [("requests whose body is not in the log".to_owned(), 123)].into(),
        asked: 12_345,
        same: 12_190,
        different: 150,
        failed: FailedPairs { old: 1, new: 3, both: 1 },
        in_flight: 0,
        headers: vec!["content-type".to_owned()],
        ignored: vec!["/updated_at".to_owned()],
        ledgers: Pair { old: ledger(12_343, "timeout", 2), new: ledger(12_341, "reset", 4) },
        groups: vec![
            group(DifferenceKind::Status { old: 200, new: 500 }, 138, "200", "500"),
            group(
                DifferenceKind::Header { name: "content-type".to_owned() },
                9,
                "text/html",
                "nothing",
            ),
            group(DifferenceKind::JsonValue { pointer: pointer("/items/*/n") }, 8, "1", "\"1\""),
            group(DifferenceKind::JsonValue { pointer: pointer("") }, 7, "{}", "[]"),
            group(
                DifferenceKind::JsonLength { pointer: pointer("/items") },
                6,
                "1 element",
                "2 elements",
            ),
            group(
                DifferenceKind::JsonMember { pointer: pointer("/more"), side: Side::New },
                5,
                "nothing",
                &format!("\"{}…", "long ".repeat(19)),
            ),
            group(DifferenceKind::Body, 1, "5 bytes: a|b*c", "0 bytes: "),
        ],
        ungrouped: 0,
        failures: vec![
            FailureCause {
                side: Side::New,
                cause: "reset".to_owned(),
                requests: 4,
                line: 88,
                request: "GET /x".to_owned(),
            },
            FailureCause {
                side: Side::Old,
                cause: "timeout".to_owned(),
                requests: 2,
                line: 90,
                request: "HEAD /y".to_owned(),
            },
        ],
    }
}

/// A replay without a difference.
fn same() -> Replay {
    Replay {
        same: 12_345,
        different: 0,
        failed: FailedPairs::default(),
        ledgers: Pair { old: ledger(12_345, "", 0), new: ledger(12_345, "", 0) },
        groups: Vec::new(),
        failures: Vec::new(),
        speed: Some(2.0),
        late: Nanos::from_millis(3),
        ..different()
    }
}

/// One that was stopped, with more kinds of difference than are shown.
fn stopped() -> Replay {
    let header = |at: u64| DifferenceKind::Header { name: format!("x-{at}") };
    Replay {
        state: RunState::Interrupted,
        same: 12_180,
        in_flight: 10,
        ledgers: {
            let mut ledgers = different().ledgers;
            for ledger in [&mut ledgers.old, &mut ledgers.new] {
                ledger.counts.completed -= 10;
                ledger.counts.in_flight += 10;
            }
            ledgers
        },
        groups: (0..23).map(|at| group(header(at), 50 - at, "a", "b")).collect(),
        ungrouped: 1,
        ..different()
    }
}

fn plain(replay: &Replay) -> String {
    replay_terminal(replay, &Style::default())
}

/// The words of the report, whose lines may break anywhere.
fn unbroken(replay: &Replay) -> String {
    plain(replay).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_replay_on_one_screen() {
    assert!(different().adds_up() && same().adds_up() && stopped().adds_up());
    assert_snapshot!("replay_different", plain(&different()));
    assert_snapshot!("replay_same", plain(&same()));
    assert_snapshot!("replay_markdown", replay_markdown(&different()));
    let narrow = replay_terminal(&different(), &Style { colour: false, width: 40 });
    for line in narrow.lines().chain(plain(&stopped()).lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn what_was_stopped_or_is_not_shown_is_told() {
    let text = unbroken(&stopped());
    for words in [
        "stopped before the end of the log",
        "and 3 more kinds, 1 request with differences of further kinds",
        "asked 12,345 = 12,180 same + 150 different + 5 failed + 10 in flight",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let died = Replay { error: Some("new: server died".to_owned()), ..stopped() };
    assert!(plain(&died).contains("ended early: new: server died"));
}

#[test]
fn counts_that_do_not_add_up_are_shown_with_their_sign() {
    let lost = Replay { same: 12_189, ..different() };
    assert!(!lost.adds_up());
    let text = unbroken(&lost);
    for words in [
        "asked 12,345 ≠ 12,189 same + 150 different + 5 failed",
        "sent 12,345 = 12,343 completed + 2 failed; completed 12,343 ≠ 12,342 compared, or",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let entries = Replay { entries: 12_469, ..different() };
    assert!(plain(&entries).contains("entries 12,469 ≠ 12,345 asked + 123 left out"));
    let failed = Replay { failed: FailedPairs { old: 2, new: 2, both: 1 }, ..different() };
    assert!(!failed.adds_up(), "each side has its own count");
}

#[test]
fn the_json_of_every_replay_fits_its_schema() {
    let schema = include_str!("../../../docs/schema/replay-1.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for replay in [different(), same(), stopped()] {
        let json = replay_json(&replay);
        let wrong: Vec<String> = validator.iter_errors(&json).map(|e| e.to_string()).collect();
        assert_eq!(wrong, [""; 0], "{json:#}");
    }
}
