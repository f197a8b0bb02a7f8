//! Counts over intervals, of known sums by day.

use std::collections::BTreeMap;

use base::Seed;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;

/// The days of the history.
pub(super) const DAYS: [(&str, i64); 3] =
    [("2026-03-01", 1_772_323_200), ("2026-03-02", 1_772_409_600), ("2026-03-03", 1_772_496_000)];
const DAY_S: i64 = 86_400;
/// The longest interval.
const INTERVAL_S_MAX: i64 = 900;
const SHOPS: i64 = 7;
/// The steps that a record keeps.
const STEPS: [&str; 3] = ["10s", "1m", "1h"];

/// What was recorded so far.
pub(super) struct History {
    rng: base::Rng,
    intervals: u32,
    /// Sums by shop and day.
    sums: BTreeMap<(String, &'static str), i64>,
}

impl History {
    pub(super) fn new(seed: Seed, intervals: u32) -> History {
        History { rng: seed.rng("history"), intervals, sums: BTreeMap::new() }
    }

    /// Influx lines of intervals in random order. None crosses midnight, so that the sum of a day is
    /// that of its intervals.
    pub(super) fn lines(&mut self) -> String {
        let mut lines = Vec::new();
        for _ in 0..self.intervals {
            let (name, start_s) = DAYS[self.rng.random_range(0..DAYS.len())];
            let from_s = self.rng.random_range(0..DAY_S - 1);
            let long_s = self.rng.random_range(1..=INTERVAL_S_MAX.min(DAY_S - from_s));
            let shop = format!("s{}", self.rng.random_range(0..SHOPS));
            let count = self.rng.random_range(0..1_000_i64);
            let (from_s, until_s) = (start_s + from_s, start_s + from_s + long_s);
            lines.push(format!("orders,shop={shop} n={count}i,_start={from_s}i,_end={until_s}i\n"));
            *self.sums.entry((shop, name)).or_default() += count;
        }
        lines.shuffle(&mut self.rng);
        lines.concat()
    }

    /// The sums by shop, step and day.
    pub(super) fn sums(&self) -> super::Sums {
        let mut sums = super::Sums::new();
        for ((shop, day), sum) in &self.sums {
            for step in STEPS {
                let key = [shop.clone(), step.to_owned(), (*day).to_owned()];
                sums.insert(key, *sum as f64);
            }
        }
        sums
    }
}
