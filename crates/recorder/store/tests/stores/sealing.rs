//! Rows are packed in parts, while batches go on and a reader looks in between: a seed chooses which
//! slots of which series are written, how many parts a turn has, and what is read.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{
    Changes, Identity, NewSeries, Postgres, Retention, Series, SeriesLimit, Sqlite, Store, Writer,
};

use crate::place::Place;

/// More series than are packed in one transaction.
const SERIES: usize = 1_100;

/// 2026-01-01: spans begin there.
const START_US: i64 = 1_767_225_600 * SECOND_US;

/// The slots of four spans.
const SLOTS: i64 = 4 * 180;

#[derive(Clone, Debug)]
enum Deed {
    /// A slot of some series with adjacent numbers.
    Batch { slot: i64, first: usize, series: usize, count: i64 },
    /// So many parts of what is over when so many spans are.
    Maintain { spans: i64, parts: usize, read: usize },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..SLOTS, 0..SERIES, 1..=SERIES, 1..1_000_i64)
            .prop_map(|(slot, first, series, count)| Deed::Batch { slot, first, series, count }),
        2 => (0..=4_i64, 0..6_usize, 0..SERIES)
            .prop_map(|(spans, parts, read)| Deed::Maintain { spans, parts, read }),
    ]
}

fn step() -> Step {
    Step::from_secs(10).unwrap()
}

/// Creates the series.
fn series(store: &mut dyn Store) -> Vec<Series> {
    store.retain(&[10, 60].map(|step_s| Retention::from_secs(step_s, None).unwrap())).unwrap();
    let spec = Spec::new(Kind::Count, step());
    let wanted = (0..SERIES).map(|i| NewSeries::new(Identity::new(&format!("s{i}"), []), spec));
    let wanted: Vec<NewSeries> = wanted.collect();
    let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    made.into_iter().map(Result::unwrap).collect()
}

fn reader(place: &Place) -> Box<dyn Store> {
    match place {
        Place::Memory(_) => unreachable!("it has no other readers"),
        Place::Sqlite { folder, .. } => {
            Box::new(Sqlite::open_read_only(folder.path().join("record.sqlite")).unwrap())
        }
        Place::Postgres { url, .. } => Box::new(Postgres::open_read_only(url).unwrap()),
    }
}

/// A reader sees the same as memory has.
fn compare(reader: &mut dyn Store, memory: &mut dyn Store, ids: &[i64], when: &str) {
    for step in [step(), Step::from_secs(60).unwrap()] {
        let found = reader.slots(step, ids, i64::MIN, i64::MAX).unwrap();
        assert_eq!(found, memory.slots(step, ids, i64::MIN, i64::MAX).unwrap(), "{when}");
    }
}

fn run(mut place: Place, deeds: &[Deed]) {
    let mut memory = Place::memory();
    let all = series(memory.store());
    let ids: Vec<i64> = all.iter().map(|series| series.id).collect();
    assert_eq!(series(place.store()), all);
    let mut reader = reader(&place);
    let mut seq = 0;
    for (number, deed) in deeds.iter().enumerate() {
        match deed {
            Deed::Batch { slot, first, series, count } => {
                let slot_us = START_US + slot * step().us();
                let whole = Interval::count(slot_us, slot_us + step().us(), *count).unwrap();
                let mut changes = Changes::default();
                for of in ids.iter().cycle().skip(*first).take(*series) {
                    for (slot_us, part) in whole.slots(step()) {
                        let key = SlotKey { slot_us, series: *of, lane: 0 };
                        changes.add(step(), key, Delta::widen(part));
                    }
                }
                seq += 1;
                for place in [&mut memory, &mut place] {
                    place.store().apply(Writer(1), seq, &changes).unwrap();
                }
            }
            Deed::Maintain { spans, parts, read } => {
                let now_us = START_US + spans * 180 * step().us() + 2 * 3_600 * SECOND_US;
                let mut left = *parts;
                let mut goes_on = || {
                    let when = format!("deed {number}, {left} parts before its end");
                    compare(&mut *reader, memory.store(), &ids[*read..=*read], &when);
                    left = left.saturating_sub(1);
                    left > 0
                };
                place.store().maintain_while(now_us, &mut goes_on).unwrap();
            }
        }
    }
    compare(&mut *reader, memory.store(), &ids, "at the end");
    for of in [&all[0], &all[SERIES / 2], &all[SERIES - 1]] {
        let shown = place.shown(step(), "every_10s", of);
        assert_eq!(shown, memory.shown(step(), "every_10s", of), "{}", of.identity);
    }
}

fn prove(cases: u32, place: impl Fn(u32) -> Place) {
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 30, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let deeds = proptest::collection::vec(deed(), 5..30);
    let ran = runner.run(&deeds, |deeds| {
        number.set(number.get() + 1);
        run(place(number.get()), &deeds);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn sqlite_shows_the_same_whatever_is_packed_so_far() {
    prove(12, |_| Place::sqlite());
}

#[test]
fn postgresql_shows_the_same_whatever_is_packed_so_far() {
    prove(6, |number| Place::postgres(&format!("sealing_{number}")));
}
