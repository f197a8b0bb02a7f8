//! Fills stores, and says what is in them.

use std::path::PathBuf;
use std::sync::OnceLock;

use series::{Delta, Flavor, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{Changes, Identity, NewSeries, Retention, Selector, SeriesLimit, Store, Writer};

use crate::reading::{Row, Totals};

pub(crate) const HOUR_US: i64 = 3_600 * SECOND_US;
pub(crate) const DAY_US: i64 = 24 * HOUR_US;

/// The start of a day.
pub(crate) fn at(day: &str) -> i64 {
    let date: jiff::civil::Date = day.parse().unwrap();
    date.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_microsecond()
}

/// A new folder that is removed when all tests have ended.
pub(crate) fn temporary() -> PathBuf {
    static ALL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let all = ALL.get_or_init(|| tempfile::tempdir().unwrap());
    tempfile::tempdir_in(all).unwrap().keep()
}

fn counted(from_us: i64, us: i64, count: i64) -> Interval {
    Interval::count(from_us, from_us + us, count).unwrap()
}

fn levelled(from_us: i64, us: i64, hundredths: i64) -> Interval {
    Interval::level(from_us, from_us + us, hundredths as f64 / 100.0).unwrap()
}

type Tags<'t> = &'t [(&'t str, &'t str)];

/// Writes to a store.
pub(crate) struct Recorder<'s> {
    store: &'s mut dyn Store,
    seq: u64,
    changes: Changes,
}

impl<'s> Recorder<'s> {
    /// Slots of ten seconds, a minute and an hour, for ever.
    pub(crate) fn new(store: &'s mut dyn Store) -> Recorder<'s> {
        Recorder::with_age(store, None)
    }

    /// The same, with an age for slots of ten seconds.
    pub(crate) fn with_age(store: &'s mut dyn Store, age_us: Option<i64>) -> Recorder<'s> {
        let ages = [(10, age_us), (60, None), (3_600, None)];
        let retentions = ages
            .map(|(step_s, age_us)| Retention { step: Step::from_secs(step_s).unwrap(), age_us });
        store.retain(&retentions).unwrap();
        Recorder::again(store)
    }

    /// Continues with a store that has its retentions.
    pub(crate) fn again(store: &'s mut dyn Store) -> Recorder<'s> {
        let seq = store.last_batch(Writer(1)).unwrap();
        Recorder { store, seq, changes: Changes::default() }
    }

    /// A few series from 2026-11-20 on, in batches of a day, with gaps, lanes and retractions.
    pub(crate) fn history(&mut self, length_us: i64, seed: u64) {
        let mut state = seed;
        let mut next = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as i64
        };
        let start_us = at("2026-11-20");
        for hour in 0..length_us / HOUR_US {
            let from_us = start_us + hour * HOUR_US;
            let a: Tags<'_> = &[("host", "a"), ("zone", "z")];
            let b: Tags<'_> = &[("host", "b"), ("zone", "z")];
            self.put(
                "requests",
                a,
                0,
                Kind::Count,
                &counted(from_us, HOUR_US, 10_000 + next(90_000)),
            );
            let late_us = from_us + next(1_800) * SECOND_US;
            self.put("requests", b, 0, Kind::Count, &counted(late_us, HOUR_US / 2, next(1_000)));
            let memory = levelled(from_us, HOUR_US, next(10_000));
            self.put("memory", &[("host", "a")], 0, Kind::Level, &memory);
            self.put("sold", &[], 1, Kind::Count, &counted(from_us, 40 * SECOND_US, next(9)));
            self.put("sold", &[], 2, Kind::Count, &counted(from_us, 70 * SECOND_US, next(9)));
            if next(3) == 0 {
                let from_us = from_us + 100 * SECOND_US;
                self.put("requests", a, 0, Kind::Count, &counted(from_us, 25 * SECOND_US, 40));
                self.write();
                self.retract("requests", "a", from_us, 25 * SECOND_US, 40);
            }
            if (hour + 1) % 24 == 0 {
                self.write();
            }
        }
        self.write();
    }

    /// Counts at a host.
    pub(crate) fn count(&mut self, name: &str, host: &str, from_us: i64, us: i64, count: i64) {
        let tags = [("host", host), ("zone", "z")];
        let tags = if name == "requests" { &tags[..] } else { &tags[..1] };
        self.put(name, tags, 0, Kind::Count, &counted(from_us, us, count));
        self.write();
    }

    /// Takes back a count.
    pub(crate) fn retract(&mut self, name: &str, host: &str, from_us: i64, us: i64, count: i64) {
        let tags = [("host", host), ("zone", "z")];
        let interval = counted(from_us, us, count).inverse();
        self.put(name, &tags, 0, Kind::Count, &interval);
        self.write();
    }

    /// A level in hundredths.
    pub(crate) fn level(&mut self, name: &str, host: &str, from_us: i64, us: i64, level: i64) {
        self.put(name, &[("host", host)], 0, Kind::Level, &levelled(from_us, us, level));
        self.write();
    }

    fn put(&mut self, name: &str, tags: Tags<'_>, lane: i32, kind: Kind, what: &Interval) {
        let step = Step::from_secs(10).unwrap();
        let identity = Identity::new(name, tags.iter().copied());
        let wanted = NewSeries::new(identity, Spec::new(kind, step));
        let made = self.store.series(&[wanted], &SeriesLimit::DEFAULT).unwrap();
        let series = made[0].as_ref().unwrap().id;
        for (slot_us, part) in what.slots(step) {
            self.changes.add(step, SlotKey { slot_us, series, lane }, Delta::widen(part));
        }
    }

    /// Writes what was added as one batch.
    fn write(&mut self) {
        self.seq += 1;
        let changes = std::mem::take(&mut self.changes);
        self.store.apply(Writer(1), self.seq, &changes).unwrap();
    }

    /// What the store has of slots that end up to a time, by step, day and series, added in order of
    /// time.
    pub(crate) fn truth(&mut self, until_us: i64) -> Totals {
        let mut totals = Totals::new();
        for retention in self.store.retentions().unwrap() {
            let step = retention.step;
            for series in self.store.find(&Selector::default()).unwrap() {
                let rows = self.store.slots(step, &[series.id], i64::MIN, i64::MAX).unwrap();
                for lanes in rows.chunk_by(|(a, _), (b, _)| a.slot_us == b.slot_us) {
                    let slot_us = lanes[0].0.slot_us;
                    let each = lanes.iter().map(|(_, row)| row);
                    let mut sum = series::Accumulator::EMPTY;
                    each.for_each(|row| sum.merge(row));
                    if sum.is_void() || slot_us + step.us() > until_us {
                        continue;
                    }
                    let time = jiff::Timestamp::from_microsecond(slot_us).unwrap();
                    let row = Row {
                        file: String::new(),
                        step: store::step_name(step),
                        day: time.to_string()[..10].to_owned(),
                        series: series.identity.to_string(),
                        flow: series.spec.kind.flavor() == Flavor::Flow,
                        total: sum.integral.as_f64(),
                        covered_us: sum.covered_us,
                        n: sum.n,
                        min: sum.min(),
                        max: sum.max(),
                    };
                    totals.entry(row.key()).or_default().add(&row);
                }
            }
        }
        totals
    }
}
