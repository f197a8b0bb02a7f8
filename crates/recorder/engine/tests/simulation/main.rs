//! Runs of the engine in a world of which every accident comes from a seed: torn and unsynced writes
//! that vanish, full disks, errors of reads, writes and syncs, kills between any two calls, two
//! processes that write the same lane. After
//! each run the laws are checked: what was acknowledged is there once, what failed does not come
//! back, and it starts again.
//!
//! A seed that fails prints its events; one of the batches prints the fewest events that fail, as a
//! script that [`batches::script::read`] reads. `TACHOGRAPH_SEEDS=FROM..TO` runs others, as many as you
//! like (`cargo run --release -p xtask -- prove crashes` does so for hours).

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod batches;
mod clock;
mod deltas;
mod disk;
mod journal;
mod random;
mod writers;

use batches::script::{self, Event};
use disk::Omission;

/// The seeds of a test run.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("TACHOGRAPH_SEEDS").ok();
    let range = wanted.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or(0..20_000)
}

/// Prints how often each accident happened; a simulator whose accidents do not happen proves nothing.
#[allow(clippy::print_stdout, reason = "the proof reads it")]
fn tell(name: &str, each: &[(&'static str, u64)]) {
    let seeds = seeds().count() as u64;
    println!("simulated: {name}: seeds: {seeds}");
    for (what, count) in each {
        println!("simulated: {name}: {what}: {count}");
    }
    let rare = each.iter().find(|(_, count)| *count < seeds / 100);
    assert!(rare.is_none(), "{name}: {rare:?} of {seeds} seeds");
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
    let acknowledged = [("acknowledged", acknowledged as u64)];
    tell("journal", &[&acknowledged[..], &all.each()].concat());
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
    let mut all = batches::Seen::default();
    for seed in seeds() {
        match batches::run(seed, None) {
            Ok(seen) => all.add(&seen),
            Err(_) => panic!("seed {seed}:\n{}", batches::shortest(seed)),
        }
    }
    tell("batches", &[&all.each()[..], &all.injected.each()].concat());
}

#[test]
fn a_seed_that_fails_becomes_a_short_script() {
    let without = Some(batches::Leniency::KeysInMemory);
    let fails = |events: &[Event]| batches::play(events, without).is_err();
    let found = (0..20_000).map(script::events).find(|events| fails(events)).unwrap();
    let short = script::shrink(found.clone(), fails);
    let text: String = short.iter().map(|event| format!("{event}\n")).collect();
    assert!(short.len() <= 10, "of {} events:\n{text}", found.len());
    assert_eq!(script::read(&text).as_ref(), Ok(&short));
    assert!(fails(&short), "{text}");
    assert_eq!(batches::play(&short, None).err(), None);
    assert_eq!(script::read("1 pass 5\n\n# what came of it\n2 fly").unwrap_err(), "2 fly");
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
    tell("writers", &all.each());
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
