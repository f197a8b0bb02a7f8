//! What StatsD's windows emit, held against a model: drawn lines of all kinds, late ones too, windows
//! that are flushed at drawn moments, and results that a store refuses.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::collections::{BTreeMap, BTreeSet};

use formats::text::{Reader, Statsd, WindowResult};
use formats::{Arrival, Lines, Series, Update, UpdateContent};
use proptest::prelude::*;
use series::{Limits, Step};

const NOW_US: i64 = 1_767_225_600_000_000;
/// A window is open for at least ten minutes, so that a shorter one would hardly ever close.
const WINDOW_S: i64 = 600;

#[derive(Clone, Debug)]
struct Drawn {
    /// Time since the line before, and how much earlier this one claims to be.
    seconds: i64,
    late_s: i64,
    kind: &'static str,
    key: u8,
    value: u32,
    /// The inverse of the sample rate, in quarters, so that sums are exact.
    weight: u32,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Nothing,
    Flush,
    /// A flush of which the store refuses the results of a series.
    Refuse(u32),
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let kind = prop::sample::select(vec!["c", "ms", "s"]);
    let then = prop_oneof![
        3 => Just(Then::Nothing),
        1 => Just(Then::Flush),
        1 => (0_u32..20).prop_map(Then::Refuse)
    ];
    let seconds = prop_oneof![3 => Just(0_i64), 1 => 0_i64..WINDOW_S];
    let weight = prop::sample::select(vec![4, 5, 8, 10]);
    (seconds, 0_i64..WINDOW_S, kind, 0_u8..2, 0_u32..50, weight, then).prop_map(
        |(seconds, late_s, kind, key, value, weight, then)| {
            let weight = if kind == "s" { 4 } else { weight };
            Drawn { seconds, late_s, kind, key, value, weight, then }
        },
    )
}

/// The results in a store, by the window's start and series.
#[derive(Default)]
struct Stored(BTreeMap<(i64, Series), Update>);

impl Stored {
    /// Applies results; each must know what it replaces.
    fn apply(&mut self, results: &[WindowResult]) {
        for result in results {
            let time = result.update.or(result.instead).unwrap().times_us().0;
            let before = match result.update {
                Some(update) => self.0.insert((time, result.series), update),
                None => self.0.remove(&(time, result.series)),
            };
            assert_eq!(before, result.instead, "{result:?}");
        }
    }
}

/// The fields of a key in a window, from its values and their weights. A count is whole: the fraction
/// `owed` by earlier windows is added, and the rest is owed to later ones.
fn fields(kind: &str, values: &[(u32, u32)], owed: &mut f64) -> BTreeMap<String, f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let weight: u32 = values.iter().map(|(_, weight)| weight).sum();
    let sum: u32 = values.iter().map(|(value, weight)| value * weight).sum();
    let percentile = |q: f64| {
        let mut below = 0;
        let reached = |(_, more): &&(u32, u32)| {
            below += more;
            f64::from(below) >= q * f64::from(weight)
        };
        f64::from(sorted.iter().find(reached).unwrap().0)
    };
    let mut whole = |quarters: u32| {
        let count = f64::from(quarters) / 4.0 + *owed;
        let whole = (count + 0.5).floor();
        *owed = count - whole;
        whole
    };
    let distinct: BTreeSet<u32> = values.iter().map(|(value, _)| *value).collect();
    let fields = match kind {
        "c" => vec![("count", whole(sum))],
        "s" => vec![("distinct", distinct.len() as f64)],
        _ => vec![
            ("n", whole(weight)),
            ("mean", f64::from(sum) / f64::from(weight)),
            ("min", f64::from(sorted[0].0)),
            ("max", f64::from(sorted[sorted.len() - 1].0)),
            ("p50", percentile(0.5)),
            ("p90", percentile(0.9)),
            ("p99", percentile(0.99)),
        ],
    };
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_end_at_the_values_of_their_lines(lines in prop::collection::vec(drawn(), 1..150)) {
        let statsd = Statsd::new(Step::from_secs(WINDOW_S).unwrap());
        let mut reader = Reader::new(Box::new(statsd), Limits::DEFAULT, 100);
        let mut values: BTreeMap<(i64, String), Vec<(u32, u32)>> = BTreeMap::new();
        let mut stored = Stored::default();
        let mut newest_s = WINDOW_S;
        for Drawn { seconds, late_s, kind, key, value, weight, then } in lines {
            newest_s += seconds;
            let at_s = newest_s - late_s;
            let text = format!("{at_s} {kind}.{key}:{value}|{kind}|@{}", 4.0 / f64::from(weight));
            let mut lines = Lines::new(text.as_bytes());
            let line = lines.next().unwrap().unwrap();
            let parsed = reader.line(line, Arrival::live(NOW_US)).unwrap();
            prop_assert_eq!(&parsed.reasons, &[], "{}", text);
            stored.apply(&parsed.windows);
            let window_us = at_s / WINDOW_S * WINDOW_S * 1_000_000;
            values.entry((window_us, format!("{kind}.{key}"))).or_default().push((value, weight));
            if then == Then::Nothing {
                continue;
            }
            reader.flush();
            let results = reader.take_windows();
            stored.apply(&results);
            for result in &results {
                if then == Then::Refuse(result.series.0) {
                    stored.0.remove(&(result.update.unwrap().times_us().0, result.series));
                    reader.windows().unwrap().0.not_given(result);
                }
            }
        }
        stored.apply(&reader.flush().windows);

        let mut seen: BTreeMap<(i64, String), BTreeMap<String, f64>> = BTreeMap::new();
        for ((start_us, series), update) in stored.0 {
            let UpdateContent::Interval(interval) = update.what else { panic!("a window is an interval") };
            let name = reader.book().name(series);
            let key = (start_us, name.measurement().to_owned());
            let amount = interval.cover().amount.as_f64();
            seen.entry(key).or_default().insert(name.field().to_owned(), amount);
        }
        let mut owed: BTreeMap<String, f64> = BTreeMap::new();
        let expected = values.into_iter().map(|(key, values)| {
            let kind = key.1.split('.').next().unwrap();
            let fields = fields(kind, &values, owed.entry(key.1.clone()).or_default());
            (key, fields)
        });
        prop_assert_eq!(seen, expected.collect());
    }
}
