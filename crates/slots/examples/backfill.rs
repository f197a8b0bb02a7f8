//! How fast a store takes points: `cargo run --release -p tachograph-slots --example backfill -- PLACE SERIES POINTS PER_SLOT`.
//!
//! PLACE is `memory`, `throwaway` (a PostgreSQL of its own), the path of a
//! SQLite file or the URL of a PostgreSQL database. Points come as from files of
//! history: series by series, as intervals of one step ÷ PER_SLOT, 100,000 to a batch.

#![allow(clippy::print_stdout, reason = "the result is what it prints")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails is none")]

use std::time::Instant;

use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec};
use tachograph_slots::throwaway::Throwaway;
use tachograph_slots::{
    Changes, Identity, Memory, NewSeries, Retention, SeriesLimit, Store, Writer, open,
};

const START_US: i64 = 1_767_225_600 * SECOND_US;

fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<i64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
    let [series, points, per_slot] = numbers[..] else { panic!("SERIES POINTS PER_SLOT") };
    let server = (words[0] == "throwaway").then(|| Throwaway::start(&[]).unwrap());
    let mut store: Box<dyn Store> = match (&server, words[0].as_str()) {
        (Some(server), _) => open(&server.database("backfill").unwrap()).unwrap(),
        (None, "memory") => Box::new(Memory::new()),
        (None, place) => open(place).unwrap(),
    };
    let retention = Retention::from_secs(10, None).unwrap();
    store.retain(&[retention]).unwrap();
    let wanted: Vec<NewSeries> = (0..series)
        .map(|number| {
            let number = number.to_string();
            let identity = Identity::new("requests", [("host", number.as_str())]);
            NewSeries::new(identity, Spec::new(Kind::Level, retention.step))
        })
        .collect();
    let started = Instant::now();
    let ids: Vec<i64> = store
        .series(&wanted, &SeriesLimit::DEFAULT)
        .unwrap()
        .into_iter()
        .map(|made| made.unwrap().id)
        .collect();
    println!("series made in {:.2} s", started.elapsed().as_secs_f64());

    let (started, cpu_before) = (Instant::now(), cpu_s());
    let (mut seq, mut in_batch, mut merging_s) = (0, 0, 0.0);
    let mut changes = Changes::default();
    let each = points / series;
    let width_us = retention.step.us() / per_slot;
    let mut value = 1u64;
    let mut begun = Instant::now();
    for id in ids {
        for point in 0..each {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let from_us = START_US + point * width_us;
            let level = (value >> 40) as f64 / 100.0;
            let interval = Interval::level(from_us, from_us + width_us, level).unwrap();
            for (slot_us, part) in interval.slots(retention.step) {
                changes.add(
                    retention.step,
                    SlotKey { slot_us, series: id, lane: 0 },
                    Delta::widen(part),
                );
            }
            in_batch += 1;
        }
        if in_batch >= 100_000 {
            merging_s += begun.elapsed().as_secs_f64();
            seq += 1;
            store.apply(Writer(1), seq, &changes).unwrap();
            (changes, in_batch, begun) = (Changes::default(), 0, Instant::now());
        }
    }
    merging_s += begun.elapsed().as_secs_f64();
    store.apply(Writer(1), seq + 1, &changes).unwrap();
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), cpu_s() - cpu_before);
    let rate = |s: f64| (each * series) as f64 / s / 1e6;
    println!(
        "{:.2} M points/s, {:.2} M per CPU second of this process, {merging_s:.2} of {wall_s:.2} s merging",
        rate(wall_s),
        rate(cpu_s)
    );
}
