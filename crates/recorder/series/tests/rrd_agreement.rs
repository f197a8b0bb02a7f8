//! `series::rrd` against the real rrdtool, in every printed digit.

mod agreement;

use agreement::{Fetch, Peer, Sequence, Update, compare};
use base::Seed;
use series::rrd::{Archive, Consolidation, Definition, Reading, Row, SourceKind, State};
use series::{SECOND_US, Step};

/// The example prints its seed; the test's is fixed, so that a failure is reproducible.
const SEED: Seed = Seed(20_261_121);

#[test]
fn random_sequences_agree_with_rrdtool_to_the_last_digit() {
    let tally = compare(SEED, 2_500).unwrap();
    println!("{tally}");
    assert_eq!(tally.differing, 0, "{tally}\n{}", tally.mismatches.join("\n\n"));
    let known_enough = tally.kinds.values().filter(|known| **known > 1_000).count();
    assert_eq!(known_enough, 6, "known values of every kind were compared: {tally}");
    assert!(tally.refused > 1_000, "updates out of order were met: {tally}");
}

#[test]
fn the_peer_is_a_version_whose_rules_these_are() {
    Peer::start().unwrap();
    let output = std::process::Command::new("rrdtool").arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let numbers: Vec<u32> = version.split('.').filter_map(|n| n.parse().ok()).collect();
    assert!(numbers >= vec![1, 7, 2], "rrdtool 1.7.2 or later is needed, this is '{version}'");
}

#[test]
fn a_missing_rrdtool_is_said_with_what_installs_it() {
    let message = Peer::start_as("rrdtool-that-is-missing").err().unwrap();
    assert_eq!(
        message,
        "rrdtool-that-is-missing cannot be run (No such file or directory (os error 2)). \
         This test compares with the real rrdtool, 1.7.2 or later: install it with \
         'apt-get install rrdtool', 'dnf install rrdtool' or 'brew install rrdtool'"
    );
}

/// Every row of a sequence, as bits; the state is stored and read again after each update if asked.
fn rows(sequence: &Sequence, stored: bool) -> Vec<(usize, i64, u64)> {
    let definition = &sequence.definition;
    let mut state = State::new(definition, sequence.start_us).expect("sequences start after 1980");
    let mut rows = Vec::new();
    for update in sequence.batches.iter().flatten() {
        let Ok(reading) = Reading::parse(definition.kind, &update.reading) else { continue };
        let sink = |row: Row| rows.push((row.archive, row.end_us, row.value.to_bits() << 1));
        // Some updates are out of order and refused.
        let _ = state.update(definition, update.at_us, reading, sink);
        if stored {
            let text = serde_json::to_string(&state).expect("a state is plain data");
            state = serde_json::from_str(&text).expect("what was stored can be read");
        }
    }
    rows
}

#[test]
fn a_stored_state_goes_on_where_it_was() {
    for index in 0..300 {
        let sequence = Sequence::random(SEED, index);
        assert_eq!(rows(&sequence, true), rows(&sequence, false), "sequence {index}");
    }
}

#[test]
fn rows_end_where_a_fetch_shows_them() {
    for index in 0..300 {
        let sequence = Sequence::random(SEED, index);
        let row_us: Vec<i64> = sequence
            .definition
            .archives
            .iter()
            .map(|a| a.steps * sequence.definition.step.us())
            .collect();
        let rows = rows(&sequence, false);
        assert!(rows.iter().all(|(archive, end_us, _)| end_us % row_us[*archive] == 0));
        for archive in 0..row_us.len() {
            let ends: Vec<i64> = rows.iter().filter(|r| r.0 == archive).map(|r| r.1).collect();
            assert!(ends.is_sorted_by(|a, b| a < b), "sequence {index} writes a row once");
        }
    }
}

/// RRDtool drops the fractional seconds of unknown time (rrdtool-1.x#766), so a slot that was known
/// for half its time shows less than was known.
#[test]
fn parts_of_unknown_seconds_are_lost_by_rrdtool_and_exact_here() {
    let update = |at_us, reading: &str| Update { at_us, reading: reading.to_owned() };
    let start_us = 1_000_000_000 * SECOND_US;
    // Unknown from 0.0 to 0.9 and from 1.0 to 1.9 s: 1.8 s, of which RRDtool sees none.
    let sequence = Sequence {
        definition: Definition {
            kind: SourceKind::Gauge,
            step: Step::from_secs(10).unwrap(),
            heartbeat_us: 20 * SECOND_US,
            min: None,
            max: None,
            archives: vec![Archive {
                consolidation: Consolidation::Average,
                xff: 0.5,
                steps: 1,
                rows: 5,
            }],
        },
        start_us,
        batches: vec![vec![
            update(start_us + 900_000, "U"),
            update(start_us + 1_000_000, "4"),
            update(start_us + 1_900_000, "U"),
            update(start_us + 10_000_000, "4"),
        ]],
        fetches: vec![Fetch {
            consolidation: Consolidation::Average,
            start_s: 1_000_000_000,
            end_s: 1_000_000_009,
            resolution_s: 10,
        }],
    };
    let ours = sequence.fetched().unwrap();
    let theirs = Peer::start().unwrap().answers(&sequence.commands("parts.rrd")).unwrap();
    let theirs = &theirs.last().unwrap().lines;
    // 4 was valid for 8.2 s, all of which are known. RRDtool divides by the 10 s of the slot, and
    // has parsed 1.9 s as 1.899999 s, which explains the last digits.
    assert_eq!(ours, [vec!["1000000010: 4.0000000000e+00"]]);
    assert_eq!(theirs, &["1000000010: 3.2800008000e+00"]);
}
