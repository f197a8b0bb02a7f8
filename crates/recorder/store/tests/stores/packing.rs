//! Packed slots have the same content as rows, whatever is written in whatever order.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use series::{Delta, Interval, Kind, Point, Reading, SECOND_US, SlotKey, Spec, Step};
use store::{Changes, Identity, LaneChange, NewSeries, Retention, Series, SeriesLimit, Writer};

use crate::place::{Mode, Place};

/// One update of one of three series, in one of two lanes.
#[derive(Clone, Debug)]
enum Update {
    Count { lane: i32, from_s: i64, us: i64, count: i64 },
    Level { lane: i32, from_s: i64, us: i64, value: f64, taken: bool },
    Point { lane: i32, at_s: i64, value: f64 },
}

fn level() -> impl Strategy<Value = f64> {
    prop_oneof![
        (0..1_000_i64).prop_map(|v| v as f64),
        (0..100_000_i64).prop_map(|v| v as f64 / 100.0),
        0.0..1e6_f64
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let at_s = 0..5_000_i64;
    let us = prop_oneof![Just(10 * SECOND_US), Just(60 * SECOND_US), 1..900 * SECOND_US];
    let lane = 0..2_i32;
    prop_oneof![
        (lane.clone(), at_s.clone(), us.clone(), -50..5_000_i64)
            .prop_map(|(lane, from_s, us, count)| Update::Count { lane, from_s, us, count }),
        (lane.clone(), at_s.clone(), us, level(), proptest::bool::weighted(0.2)).prop_map(
            |(lane, from_s, us, value, taken)| Update::Level { lane, from_s, us, value, taken }
        ),
        (lane, at_s, level()).prop_map(|(lane, at_s, value)| Update::Point { lane, at_s, value }),
    ]
}

/// A place with its series.
struct Run {
    place: Place,
    series: Vec<Series>,
    seq: u64,
}

impl Run {
    fn new(mut place: Place) -> Run {
        let store = place.store();
        let steps = [10, 60, 3_600].map(|step_s| Retention::from_secs(step_s, None).unwrap());
        store.retain(&steps).unwrap();
        let wanted = [("flow", Kind::Count), ("level", Kind::Level), ("gauge", Kind::Gauge)];
        let wanted = wanted.map(|(name, kind)| {
            let spec = Spec { heartbeat_us: 600 * SECOND_US, ..Spec::new(kind, steps[0].step) };
            NewSeries::new(Identity::new(name, []), spec)
        });
        let series = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
        let series = series.into_iter().map(Result::unwrap).collect();
        store.lanes(&["", "other"]).unwrap();
        Run { place, series, seq: 0 }
    }

    fn apply(&mut self, updates: &[Update]) {
        let step = self.series[0].spec.step;
        let mut changes = Changes::default();
        for update in updates {
            let (series, lane, slots): (_, _, Vec<_>) = match update {
                Update::Count { lane, from_s, us, count } => {
                    let from_us = from_s * SECOND_US;
                    let interval = Interval::count(from_us, from_us + us, *count).unwrap();
                    (&self.series[0], *lane, interval.slots(step).collect())
                }
                Update::Level { lane, from_s, us, value, taken } => {
                    let from_us = from_s * SECOND_US;
                    let interval = Interval::level(from_us, from_us + us, *value).unwrap();
                    let interval = if *taken { interval.inverse() } else { interval };
                    (&self.series[1], *lane, interval.slots(step).collect())
                }
                Update::Point { lane, at_s, value } => {
                    let series = self.series[2].clone();
                    self.point(&series, *lane, *at_s, *value, &mut changes);
                    continue;
                }
            };
            for (slot_us, part) in slots {
                let key = SlotKey { slot_us, series: series.id, lane };
                changes.add(step, key, Delta::widen(part));
            }
        }
        self.seq += 1;
        self.place.store().apply(Writer(1), self.seq, &changes).unwrap();
        self.place.seal();
    }

    fn point(&mut self, series: &Series, lane: i32, at_s: i64, value: f64, changes: &mut Changes) {
        let mut change = changes.lanes.remove(&(series.id, lane)).unwrap_or_else(|| {
            LaneChange::of(self.place.store().lane_states(&[(series.id, lane)]).unwrap().remove(0))
        });
        let point = Point { at_us: at_s * SECOND_US, reading: Reading::Level(value) };
        // A point that is refused is refused by every store.
        let _ = change.after.push(&series.spec, point, |slot_us, delta| {
            changes.add(series.spec.step, SlotKey { slot_us, series: series.id, lane }, delta);
        });
        changes.lanes.insert((series.id, lane), change);
    }
}

/// The content of memory equals that of the others, and what their views show.
fn compare(runs: &mut [Run], batches: &[Vec<Update>]) {
    for (number, batch) in batches.iter().enumerate() {
        for run in runs.iter_mut() {
            run.apply(batch);
        }
        let (memory, others) = runs.split_first_mut().unwrap();
        for (step_s, view) in [(10, "every_10s"), (60, "every_1m"), (3_600, "every_1h")] {
            let step = Step::from_secs(step_s).unwrap();
            let ids: Vec<i64> = memory.series.iter().map(|series| series.id).collect();
            let wanted = memory.place.store().slots(step, &ids, i64::MIN, i64::MAX).unwrap();
            for (place, other) in others.iter_mut().enumerate() {
                let found = other.place.store().slots(step, &ids, i64::MIN, i64::MAX).unwrap();
                assert_eq!(found, wanted, "batch {number}, {view}, place {place}");
            }
            if number + 1 < batches.len() {
                continue;
            }
            for series in &memory.series {
                let wanted = memory.place.shown(step, view, series);
                for other in others.iter_mut() {
                    let found = other.place.shown(step, view, series);
                    assert_eq!(found, wanted, "{view} of {}", series.identity);
                }
            }
        }
    }
}

fn batches() -> impl Strategy<Value = Vec<Vec<Update>>> {
    proptest::collection::vec(proptest::collection::vec(update(), 1..25), 1..5)
}

fn run(cases: u32, places: impl Fn(u32) -> Vec<Place>) {
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 30, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let ran = runner.run(&batches(), |batches| {
        number.set(number.get() + 1);
        let memory = std::iter::once(Place::memory());
        let mut runs: Vec<Run> = memory.chain(places(number.get())).map(Run::new).collect();
        compare(&mut runs, &batches);
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn packed_slots_are_what_rows_are_in_sqlite() {
    run(8, |_| Mode::ALL.map(Place::sqlite_in).into());
}

#[test]
fn packed_slots_are_what_rows_are_in_postgresql() {
    run(2, |number| {
        let name = |mode| format!("packing_{mode:?}_{number}").to_lowercase();
        Mode::ALL.map(|mode| Place::postgres_in(&name(mode), mode)).into()
    });
}

/// A span of slots with one count each, from `from_s`.
fn counts(from_s: i64, slots: i64) -> Vec<Update> {
    let count = |i| Update::Count {
        lane: 0,
        from_s: from_s + i * 10,
        us: 10 * SECOND_US,
        count: 100 + i % 7,
    };
    (0..slots).map(count).collect()
}

/// Rows and packed rows at each stage in the life of slots; `few` slots of a series are packed once
/// their span is over, or 0 of them.
fn life(place: Place, few: u64) {
    let mut run = Run::new(place);
    let kept = |run: &mut Run| run.place.kept("10s");
    run.apply(&counts(0, 3));
    assert_eq!(kept(&mut run), (3, 0), "few slots are rows");
    assert_eq!(run.place.store().seal(1_800 * SECOND_US).unwrap(), few);
    let (rows, packed) = if few > 0 { (0, 1) } else { (3, 0) };
    assert_eq!(kept(&mut run), (rows, packed), "until their span is over");
    run.apply(&counts(1_800, 180));
    assert_eq!(kept(&mut run), (rows, packed + 1), "a whole span is packed at once");
    run.apply(&counts(200, 100));
    assert_eq!(kept(&mut run), (0, 2), "rows join those that are packed with them");
    run.apply(&counts(1_800, 1));
    assert_eq!(kept(&mut run), (0, 2), "a late slot changes its packed row");
    for slot in 0..60 {
        run.apply(&counts(3_600 + slot * 10, 1));
    }
    assert_eq!(kept(&mut run), (60, 2), "what comes one by one is rows");
    assert_eq!(run.place.store().seal(5_399 * SECOND_US).unwrap(), 0, "the span is not over");
    assert_eq!(run.place.store().seal(5_400 * SECOND_US).unwrap(), 60);
    assert_eq!(kept(&mut run), (0, 3));
    let hours = if few > 0 { 2 } else { 0 };
    assert_eq!(run.place.store().seal(i64::MAX).unwrap(), hours, "minutes are packed already");
    // Values so different that no integers represent them exactly: their span becomes rows again.
    let level =
        |from_s, value| Update::Level { lane: 0, from_s, us: 10 * SECOND_US, value, taken: false };
    let near: Vec<Update> = (0..40).map(|i| level(i * 10, 1.5)).collect();
    run.apply(&near);
    assert_eq!(kept(&mut run), (0, 4));
    let far = [1e150 / 3.0, 1.0 / 3.0, 1e-150 / 3.0];
    run.apply(&[level(400, far[0]), level(410, far[1]), level(420, far[2])]);
    assert_eq!(kept(&mut run), (43, 3));
    let step = Step::from_secs(10).unwrap();
    let rows = run.place.store().slots(step, &[run.series[1].id], i64::MIN, i64::MAX).unwrap();
    let found: Vec<Option<f64>> = rows[40..].iter().map(|(_, row)| row.min()).collect();
    assert_eq!(found, far.map(Some));
}

#[test]
fn slots_are_rows_until_they_are_packed_in_sqlite() {
    life(Place::sqlite(), 3);
}

#[test]
fn slots_are_rows_until_they_are_packed_in_postgresql() {
    life(Place::postgres("life"), 0);
}

/// Upkeep in parts of one span each gets through all of them, although some may keep their rows: the
/// `lone` ones, of 10 s and of a minute, unless they are packed.
fn parts(place: Place, lone: [u64; 2]) {
    let mut run = Run::new(place);
    for span in 0..6 {
        run.apply(&counts(span * 1_800, 1));
    }
    for slot in 0..60 {
        run.apply(&counts(6 * 1_800 + slot * 10, 1));
    }
    let now_us = 24 * 3_600 * SECOND_US;
    let store = run.place.store();
    let (mut parts, mut sealed) = (0, 0);
    loop {
        let mut spans = 0;
        let done = store
            .maintain_while(now_us, &mut || {
                spans += 1;
                spans == 1
            })
            .unwrap();
        parts += 1;
        sealed += done.sealed;
        if !done.is_partial {
            break;
        }
        assert!(parts < 100, "the parts begin again and again");
    }
    assert_eq!(sealed, 60 + 10 + lone[0] + lone[1], "slots of 10 s, and of a minute");
    assert!(parts >= 7, "one span each: {parts}");
    let lone = lone[0] as i64;
    assert_eq!(run.place.kept("10s"), (6 - lone, 1 + lone));
}

#[test]
fn upkeep_in_parts_comes_to_an_end_in_sqlite() {
    parts(Place::sqlite(), [6, 6]);
}

#[test]
fn upkeep_in_parts_comes_to_an_end_in_postgresql() {
    parts(Place::postgres("parts"), [0, 6]);
}

/// Many series are sealed some at a time; one that cannot be packed exactly keeps its rows.
#[test]
fn many_series_are_sealed_in_parts_in_sqlite() {
    let mut place = Place::sqlite();
    let store = place.store();
    let retention = Retention::from_secs(10, None).unwrap();
    store.retain(&[retention]).unwrap();
    let spec = Spec::new(Kind::Level, retention.step);
    let wanted = |number| NewSeries::new(Identity::new(&format!("level.{number}"), []), spec);
    let wanted: Vec<NewSeries> = (0..2_500).map(wanted).collect();
    let series = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    let series: Vec<i64> = series.into_iter().map(|made| made.unwrap().id).collect();
    let far = [1e150 / 3.0, 1.0 / 3.0, 1e-150 / 3.0];
    for (number, value) in far.iter().enumerate() {
        let mut changes = Changes::default();
        for id in &series {
            let value = if *id == series[1_200] { *value } else { *id as f64 };
            let from_us = number as i64 * retention.step.us();
            let interval = Interval::of(&spec, from_us, from_us + retention.step.us(), value);
            for (slot_us, part) in interval.unwrap().slots(retention.step) {
                changes.add(
                    retention.step,
                    SlotKey { slot_us, series: *id, lane: 0 },
                    Delta::widen(part),
                );
            }
        }
        store.apply(Writer(1), number as u64 + 1, &changes).unwrap();
    }
    let before = store.slots(retention.step, &series, i64::MIN, i64::MAX).unwrap();
    assert_eq!(before.len(), 3 * 2_500);
    let mut sealed = Vec::new();
    while sealed.len() < 100 {
        let mut asked = 0;
        let goes_on = &mut || {
            asked += 1;
            asked == 1
        };
        let done = store.maintain_while(24 * 3_600 * SECOND_US, goes_on).unwrap();
        sealed.push(done.sealed);
        if !done.is_partial {
            break;
        }
    }
    assert_eq!(sealed, [3_000, 2_997, 1_500]);
    let after = store.slots(retention.step, &series, i64::MIN, i64::MAX).unwrap();
    assert!(after == before, "sealing changed what slots contain");
    assert_eq!(place.kept("10s"), (3, 2_499));
}

/// Slots far from each other are packed with their places, which views and filled views read.
#[test]
fn scattered_slots_are_shown_where_they_are() {
    for mut place in [Place::sqlite(), Place::postgres("scattered")] {
        let store = place.store();
        let retention = Retention::from_secs(10, None).unwrap();
        store.retain(&[retention]).unwrap();
        let spec = Spec::new(Kind::Count, retention.step);
        let wanted = NewSeries::new(Identity::new("requests", []), spec);
        let made = store.series(&[wanted], &SeriesLimit::DEFAULT).unwrap();
        let of = made[0].clone().unwrap();
        let mut changes = Changes::default();
        for slot in [2, 9, 100, 179] {
            let from_us = slot * retention.step.us();
            let interval = Interval::count(from_us, from_us + retention.step.us(), 10 * slot);
            for (slot_us, part) in interval.unwrap().slots(retention.step) {
                let key = SlotKey { slot_us, series: of.id, lane: 0 };
                changes.add(retention.step, key, Delta::widen(part));
            }
        }
        store.apply(Writer(1), 1, &changes).unwrap();
        let slots = store.slots(retention.step, &[of.id], 1_000 * SECOND_US, i64::MAX).unwrap();
        let slots = slots.iter().map(|(key, _)| key.slot_us / retention.step.us());
        assert_eq!(slots.collect::<Vec<_>>(), [100, 179]);
        assert_eq!(place.kept("10s"), (0, 1));
        // PostgreSQL's is given the time that it fills.
        let (filled, all) = match place {
            Place::Postgres { .. } => ("every_10s_filled('1970-01-01Z', '1970-01-01 01:00Z')", 360),
            _ => ("every_10s_filled", 178),
        };
        for (view, all) in [("every_10s", 4), (filled, all)] {
            let shown = place.shown(retention.step, view, &of);
            let known = shown.iter().filter(|slot| slot.known > 0.0);
            let known = known.map(|slot| (slot.slot_us / retention.step.us(), slot.total));
            let wanted = [2, 9, 100, 179].map(|slot| (slot, Some(10.0 * slot as f64)));
            assert_eq!(known.collect::<Vec<_>>(), wanted);
            assert_eq!(shown.len(), all, "{view}");
        }
    }
}
