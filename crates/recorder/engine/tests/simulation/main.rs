//! Runs of the engine in a world of which every accident comes from a seed: torn and unsynced writes
//! that vanish, full disks, errors of reads, writes and syncs, kills between any two calls, two
//! processes that write the same lane. After
//! each run the laws are checked: what was acknowledged is there once, what failed does not come
//! back, and it starts again.
//!
//! A seed that fails prints its events. `TACHOGRAPH_SEEDS=FROM..TO` runs others, as many as you like.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod batches;
mod clock;
mod deltas;
mod disk;
mod journal;
mod random;
mod writers;

use disk::Omission;

/// The seeds of a test run.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("TACHOGRAPH_SEEDS").ok();
    let range = wanted.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or(0..20_000)
}

#[test]
fn a_journal_keeps_its_laws_on_a_disk_that_fails() {
    let mut acknowledged = 0;
    let mut all = disk::Injected::default();
    for seed in seeds() {
        match journal::run(seed, None) {
            Ok(seen) => {
                acknowledged += seen.acknowledged;
                all.add(&seen.injected);
            }
            Err(script) => panic!("seed {seed}:\n{script}"),
        }
    }
    assert!(acknowledged > 0);
    // A simulator whose accidents do not happen proves nothing.
    assert!(all.each().iter().all(|(_, count)| *count > 1_000), "{all:?}");
}

#[test]
fn a_disk_that_is_full_when_a_file_begins_loses_nothing() {
    for room in 0..24 {
        journal::full_at_a_new_file(room).unwrap();
    }
}

#[test]
fn every_fault_of_the_journal_is_found() {
    for omission in Omission::ALL {
        let found = (0..20_000).find(|seed| journal::run(*seed, Some(omission)).is_err());
        assert!(found.is_some(), "{omission:?} is not found");
    }
}

#[test]
fn a_clock_that_jumps_moves_nothing_that_it_should_not() {
    for seed in seeds() {
        if let Err(script) = clock::run(seed, None) {
            panic!("seed {seed}:\n{script}");
        }
    }
}

#[test]
fn every_rule_about_clocks_is_needed() {
    for rule in clock::Disbelief::ALL {
        let found = (0..20_000).find(|seed| clock::run(*seed, Some(rule)).is_err());
        assert!(found.is_some(), "without {rule:?} nothing is found");
    }
}

#[test]
fn what_is_acknowledged_is_in_the_store_once() {
    let mut all = disk::Injected::default();
    let (mut acknowledged, mut written, mut lost, mut late, mut repeated) = (0, 0, 0, 0, 0);
    for seed in seeds() {
        match batches::run(seed, None) {
            Ok(seen) => {
                acknowledged += seen.acknowledged;
                (written, lost, late) =
                    (written + seen.batches, lost + seen.lost_answers, late + seen.late_commits);
                repeated += seen.repetitions;
                all.add(&seen.injected);
            }
            Err(script) => panic!("seed {seed}:\n{script}"),
        }
    }
    let counted = [acknowledged as u64, written, lost, late, repeated];
    assert!(counted.iter().all(|count| *count > 1_000), "{counted:?} {all:?}");
}

#[test]
fn every_rule_about_batches_is_needed() {
    for rule in batches::Leniency::ALL {
        let found = (0..20_000).find(|seed| batches::run(*seed, Some(rule)).is_err());
        assert!(found.is_some(), "without {rule:?} nothing is found");
    }
}

#[test]
fn two_processes_on_one_lane_write_the_sums_of_one() {
    let mut all = writers::Seen::default();
    for seed in seeds() {
        match writers::run(seed, None) {
            Ok(seen) => all.add(&seen),
            Err(script) => panic!("seed {seed}:\n{script}"),
        }
    }
    assert!(all.each().iter().all(|count| *count > 1_000), "{:?}", all.each());
}

#[test]
fn each_time_of_a_stream_counts_once() {
    let mut all = deltas::Seen::default();
    for seed in seeds() {
        match deltas::run(seed, true) {
            Ok(seen) => all.add(&seen),
            Err(script) => panic!("seed {seed}:\n{script}"),
        }
    }
    assert!(all.each().iter().all(|count| *count > 1_000), "{:?}", all.each());
}

#[test]
fn deltas_that_are_intervals_like_others_count_twice() {
    assert!((0..20_000).any(|seed| deltas::run(seed, false).is_err()));
}

#[test]
fn every_rule_about_lanes_is_needed() {
    for rule in writers::Leniency::ALL {
        let found = (0..20_000).find(|seed| writers::run(*seed, Some(rule)).is_err());
        assert!(found.is_some(), "without {rule:?} nothing is found");
    }
}
