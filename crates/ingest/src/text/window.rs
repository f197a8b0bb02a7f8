//! What is counted over windows of time.

use std::collections::{BTreeMap, HashMap, HashSet};

use series::Step;

use super::Out;
use crate::{Series, Update};

/// The fields of what is timed, in the order of [`Windows::time`].
pub(super) const TIMED: [&str; 7] = ["n", "mean", "min", "max", "p50", "p90", "p99"];

/// A window closes when a line arrives this many windows after it.
const OPEN_WINDOWS: i64 = 2;

/// The most windows that are open: lines may come from any time before now.
const OPEN_MAX: usize = 1_000;

/// The most values of which a window remembers each; one with more has no percentiles.
const TIMES_MAX: usize = 1 << 16;

/// The most different values of a set in a window; one with more says this many.
const DISTINCT_MAX: usize = 1 << 20;

/// What is added to a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// An integer.
    Whole(i64),
    /// What a sample rate makes of one.
    Part(f64),
}

impl Amount {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Amount::Whole(count) => count as f64,
            Amount::Part(part) => part,
        }
    }
}

/// The windows that are open.
#[derive(Debug)]
pub(super) struct Windows {
    length: Step,
    open: BTreeMap<i64, Window>,
    newest_us: i64,
    /// The fraction that each series' count is still owed: counts are whole.
    owed: HashMap<Series, f64>,
}

#[derive(Debug, Default)]
struct Window {
    counts: HashMap<Series, (i64, f64)>,
    /// By the series of the first field.
    times: HashMap<Series, Times>,
    sets: HashMap<Series, HashSet<Box<str>>>,
}

#[derive(Debug)]
struct Times {
    fields: [Series; TIMED.len()],
    /// How many, and what sample rates add to that.
    n: (i64, f64),
    sum: f64,
    weight: f64,
    min: f64,
    max: f64,
    /// Each value with its weight, while they are few enough.
    values: Vec<(f64, f64)>,
    seen: usize,
}

impl Windows {
    pub(super) fn new(length: Step) -> Windows {
        let (open, owed) = (BTreeMap::new(), HashMap::new());
        Windows { length, open, newest_us: i64::MIN, owed }
    }

    /// Adds to a series' count.
    pub(super) fn count(&mut self, series: Series, at_us: i64, amount: Amount, out: &mut Out<'_>) {
        let count = self.window(at_us, out).counts.entry(series).or_default();
        add(count, amount);
    }

    /// Adds a time that was measured.
    pub(super) fn time(
        &mut self,
        fields: [Series; TIMED.len()],
        at_us: i64,
        value: f64,
        rate: f64,
        out: &mut Out<'_>,
    ) {
        let window = self.window(at_us, out);
        let times = window.times.entry(fields[0]).or_insert_with(|| Times::new(fields));
        times.add(value, rate);
    }

    /// Adds a value of a set.
    pub(super) fn distinct(&mut self, series: Series, at_us: i64, value: &str, out: &mut Out<'_>) {
        let set = self.window(at_us, out).sets.entry(series).or_default();
        if set.len() < DISTINCT_MAX {
            set.insert(value.into());
        }
    }

    /// The window of an instant; those long before it are closed.
    fn window(&mut self, at_us: i64, out: &mut Out<'_>) -> &mut Window {
        let start_us = self.length.slot_of(at_us);
        if start_us > self.newest_us {
            self.newest_us = start_us;
            let open_us = OPEN_WINDOWS.saturating_mul(self.length.us());
            self.close_before(start_us.saturating_sub(open_us), out);
        }
        if self.open.len() >= OPEN_MAX
            && !self.open.contains_key(&start_us)
            && let Some((oldest_us, window)) = self.open.pop_first()
        {
            self.close(oldest_us, window, out);
        }
        self.open.entry(start_us).or_default()
    }

    fn close_before(&mut self, limit_us: i64, out: &mut Out<'_>) {
        while let Some(entry) = self.open.first_entry().filter(|entry| *entry.key() < limit_us) {
            let (start_us, window) = entry.remove_entry();
            self.close(start_us, window, out);
        }
    }

    /// Gives out everything.
    pub(super) fn close_all(&mut self, out: &mut Out<'_>) {
        for (start_us, window) in std::mem::take(&mut self.open) {
            self.close(start_us, window, out);
        }
    }

    fn close(&mut self, start_us: i64, window: Window, out: &mut Out<'_>) {
        let end_us = start_us.saturating_add(self.length.us());
        let mut counts: Vec<_> = window.counts.into_iter().collect();
        let mut times: Vec<_> = window.times.into_values().collect();
        let mut sets: Vec<_> = window.sets.into_iter().collect();
        counts.extend(times.iter().map(|times| (times.fields[0], times.n)));
        counts.sort_unstable_by_key(|(series, _)| *series);
        times.sort_unstable_by_key(|times| times.fields[0]);
        sets.sort_unstable_by_key(|(series, _)| *series);
        for (series, count) in counts {
            let whole = self.whole(series, count);
            out.put(series, Update::count(start_us, end_us, whole));
        }
        for times in &mut times {
            for (series, level) in times.levels() {
                out.put(series, Update::level(start_us, end_us, level));
            }
        }
        for (series, set) in sets {
            out.put(series, Update::level(start_us, end_us, set.len() as f64));
        }
    }

    /// The whole part of a count; the rest is owed to the series' next window.
    fn whole(&mut self, series: Series, (count, part): (i64, f64)) -> i64 {
        let owed = self.owed.entry(series).or_default();
        let part = part + *owed;
        // Rounded, so that 10 × 0.1 is 1 although it is a little less in doubles; and
        // halves upwards, so that what is owed never makes a count negative.
        let whole = (part + 0.5).floor();
        *owed = part - whole;
        count.saturating_add(whole as i64)
    }
}

fn add(count: &mut (i64, f64), amount: Amount) {
    match amount {
        Amount::Whole(more) => count.0 = count.0.saturating_add(more),
        Amount::Part(more) => count.1 += more,
    }
}

impl Times {
    fn new(fields: [Series; TIMED.len()]) -> Times {
        Times {
            fields,
            n: (0, 0.0),
            sum: 0.0,
            weight: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            values: Vec::new(),
            seen: 0,
        }
    }

    fn add(&mut self, value: f64, rate: f64) {
        let weight = 1.0 / rate;
        add(&mut self.n, if rate == 1.0 { Amount::Whole(1) } else { Amount::Part(weight) });
        self.sum += value * weight;
        self.weight += weight;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.seen += 1;
        if self.seen <= TIMES_MAX {
            self.values.push((value, weight));
        } else {
            self.values = Vec::new();
        }
    }

    /// The levels of the window, in the order of [`TIMED`] after `n`.
    fn levels(&mut self) -> Vec<(Series, f64)> {
        let [_, mean, min, max, percentiles @ ..] = self.fields;
        let mut levels = vec![(mean, self.sum / self.weight), (min, self.min), (max, self.max)];
        self.values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (series, q) in percentiles.into_iter().zip([0.5, 0.9, 0.99]) {
            levels.extend(self.percentile(q).map(|value| (series, value)));
        }
        levels
    }

    /// The nearest rank: the least value at or below which lies a share `q` of the weight.
    fn percentile(&self, q: f64) -> Option<f64> {
        let mut below = 0.0;
        let reached = self.values.iter().find(|(_, weight)| {
            below += weight;
            // A hair of tolerance for weights that are not exact in doubles.
            below >= q * self.weight * (1.0 - 1e-12)
        });
        reached.map(|(value, _)| *value)
    }
}
