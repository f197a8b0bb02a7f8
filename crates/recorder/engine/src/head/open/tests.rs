use proptest::prelude::*;
use series::SECOND_US;
use store::{
    BatchResult, Changes, Identity, LaneChange, Memory, NewSeries, Retention, SeriesLimit, Source,
    Store,
};

use super::*;

const STEP_S: i64 = 10;

fn step() -> Step {
    Step::from_secs(STEP_S).unwrap()
}

fn store(kinds: &[Kind]) -> (Memory, Vec<(i64, Spec)>) {
    let mut store = Memory::new();
    let steps = [10, 60, 3_600].into_iter().filter_map(|s| Retention::from_secs(s, None));
    store.retain(&steps.collect::<Vec<_>>()).unwrap();
    let wanted: Vec<NewSeries> = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let spec = Spec { lateness_us: 60 * SECOND_US, ..Spec::new(*kind, step()) };
            NewSeries::new(Identity::new(&format!("s{i}"), []), spec)
        })
        .collect();
    let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    let made = made.into_iter().map(|series| series.unwrap());
    let ids = made.map(|series| (series.id, series.spec)).collect();
    (store, ids)
}

/// An update of one of four series.
#[derive(Clone, Copy, Debug)]
enum Update {
    Point(usize, Point),
    Interval(usize, Interval),
}

const KINDS: [Kind; 4] = [Kind::Gauge, Kind::Counter, Kind::Count, Kind::Level];

fn update() -> impl Strategy<Value = Update> {
    let at_us = (0_i64..600).prop_map(|s| s * SECOND_US / 2);
    let point = (0_usize..2, at_us, 0_u64..1_000).prop_map(|(series, at_us, value)| {
        let reading =
            if series == 0 { Reading::Level(value as f64) } else { Reading::Unsigned(value) };
        Update::Point(series, Point { at_us, reading })
    });
    let spans = (2_usize..4, 0_i64..600, 1_i64..100, 0_i64..50);
    let interval = spans.prop_map(|(series, start_s, length_s, value)| {
        let (start_us, end_us) = (start_s * SECOND_US, (start_s + length_s) * SECOND_US);
        let interval = if series == 2 {
            Interval::count(start_us, end_us, value - 5)
        } else {
            Interval::level(start_us, end_us, value as f64)
        };
        Update::Interval(series, interval.unwrap())
    });
    prop_oneof![point, interval]
}

/// Applies an update as a batch of its own.
fn directly(store: &mut Memory, ids: &[(i64, Spec)], seq: u64, update: Update) -> bool {
    let mut changes = Changes::default();
    let key = |series, slot_us| SlotKey { slot_us, series, lane: 0 };
    let taken = match update {
        Update::Point(series, point) => {
            let (id, spec) = &ids[series];
            let mut change = LaneChange::of(store.lane_states(&[(*id, 0)]).unwrap().remove(0));
            let sink = |slot_us, delta| changes.add(spec.step, key(*id, slot_us), delta);
            let taken = change.after.push(spec, point, sink).is_ok();
            changes.lanes.insert((*id, 0), change);
            taken
        }
        Update::Interval(series, interval) => {
            let (id, spec) = &ids[series];
            for (slot_us, part) in interval.slots(spec.step) {
                changes.add(spec.step, key(*id, slot_us), Delta::widen(part));
            }
            true
        }
    };
    store.apply(Writer(1), seq, &changes).unwrap();
    taken
}

fn contents(store: &mut Memory, ids: &[(i64, Spec)]) -> Vec<Vec<(SlotKey, series::Accumulator)>> {
    let ids: Vec<i64> = ids.iter().map(|(id, _)| *id).collect();
    let steps = [10, 60, 3_600].map(|s| Step::from_secs(s).unwrap());
    steps.map(|step| store.slots(step, &ids, i64::MIN, i64::MAX).unwrap()).to_vec()
}

fn lanes(store: &mut Memory, ids: &[(i64, Spec)]) -> Vec<Lane> {
    let wanted: Vec<(i64, i32)> = ids.iter().map(|(id, _)| (*id, 0)).collect();
    store.lane_states(&wanted).unwrap()
}

fn push(head: &mut Head, place: &[Place], update: Update) -> bool {
    match update {
        Update::Point(series, point) => head.point(place[series], point).is_ok(),
        Update::Interval(series, interval) => head.interval(place[series], interval).is_ok(),
    }
}

fn is_empty(frozen: &FrozenBatch) -> bool {
    frozen.written.is_empty() && frozen.rest.is_empty() && frozen.claims().is_empty()
}

fn open(head: &mut Head, ids: &[(i64, Spec)]) -> Vec<Place> {
    ids.iter().map(|(id, spec)| head.open(*id, spec, &Lane::default())).collect()
}

proptest! {
    #[test]
    fn a_store_holds_the_same_whenever_the_head_is_written(
        updates in prop::collection::vec(update(), 1..80),
        cuts in prop::collection::btree_set(0_usize..80, 0..4),
        undone in any::<bool>(),
    ) {
        let (mut direct, ids) = store(&KINDS);
        let (mut headed, _) = store(&KINDS);
        let mut head = Head::new(0);
        let places = open(&mut head, &ids);
        let mut seq = 0;
        for (i, update) in updates.iter().enumerate() {
            let wanted = directly(&mut direct, &ids, i as u64 + 1, *update);
            prop_assert_eq!(push(&mut head, &places, *update), wanted, "update {}", i);
            if cuts.contains(&i) {
                seq += 1;
                head.claim(Writer(1), seq);
                let mut frozen = head.freeze();
                headed.apply_all(&[(Writer(1), seq)], &mut frozen).unwrap();
                prop_assert_eq!(head.is_empty(), true);
                if undone {
                    // An unwritten batch leaves no trace.
                    prop_assert!(lanes(&mut headed, &ids) == lanes(&mut direct, &ids));
                    let extra = Point { at_us: i64::MAX / 4, reading: Reading::Level(1.0) };
                    head.point(places[0], extra).unwrap();
                    head.point(places[0], Point { at_us: extra.at_us - 1, ..extra }).unwrap();
                    let frozen = head.freeze();
                    head.undo(frozen);
                }
            }
        }
        let mut frozen = head.freeze();
        headed.apply_all(&[(Writer(1), seq + 1)], &mut frozen).unwrap();
        prop_assert_eq!(contents(&mut headed, &ids), contents(&mut direct, &ids));
        let mut points = lanes(&mut direct, &ids);
        let mut found = lanes(&mut headed, &ids);
        points.truncate(2);
        found.truncate(2);
        prop_assert_eq!(found, points);
    }
}

#[test]
fn a_long_log_comes_in_pieces_and_is_the_same_again() {
    let (mut direct, ids) = store(&[Kind::Gauge, Kind::Count]);
    let (mut headed, _) = store(&[Kind::Gauge, Kind::Count]);
    let mut head = Head::new(0);
    let places = open(&mut head, &ids);
    let count = 100_000_i64;
    let mut changes = Changes::default();
    let mut lane = Lane::default();
    for i in 0..count {
        let point = Point { at_us: i * 7 * SECOND_US, reading: Reading::Level((i % 13) as f64) };
        head.point(places[0], point).unwrap();
        let key = |series, slot_us| SlotKey { slot_us, series, lane: 0 };
        let sink = |slot_us, delta| changes.add(step(), key(ids[0].0, slot_us), delta);
        lane.push(&ids[0].1, point, sink).unwrap();
        let interval = Interval::count(point.at_us, point.at_us + 7 * SECOND_US, i % 5).unwrap();
        head.interval(places[1], interval).unwrap();
        for (slot_us, part) in interval.slots(step()) {
            changes.add(step(), key(ids[1].0, slot_us), Delta::widen(part));
        }
    }
    direct.apply(Writer(1), 1, &changes).unwrap();
    assert!(head.bytes() < 8 * count as usize, "{} bytes", head.bytes());
    let mut frozen = head.freeze();
    let mut pieces = 0;
    let mut first = Changes::default();
    while let Some(piece) = frozen.next() {
        first = if pieces == 0 { piece.into_owned() } else { first };
        pieces += 1;
    }
    assert_eq!(pieces, 5, "40,000 updates each, the third of both series");
    frozen.restart();
    assert_eq!(frozen.next().as_deref(), Some(&first));
    let applied = headed.apply_all(&[(Writer(1), 1)], &mut frozen).unwrap();
    assert_eq!(applied, BatchResult::Now { expired: 0 });
    assert_eq!(contents(&mut headed, &ids), contents(&mut direct, &ids));
    assert_eq!(headed.lane_states(&[(ids[0].0, 0)]).unwrap(), [lane]);
}

#[test]
fn a_series_that_is_opened_again_is_the_same_one() {
    let (_, ids) = store(&KINDS);
    let mut head = Head::new(0);
    let first = open(&mut head, &ids);
    assert_eq!(open(&mut head, &ids), first);
    assert_eq!((head.id(first[1]), head.spec(first[1]).kind), (ids[1].0, Kind::Counter));
    assert!(head.is_empty() && is_empty(&head.freeze()));
    let hour = Step::from_secs(3_600).unwrap();
    let interval = Interval::level(0, 7_200 * SECOND_US, 2.0).unwrap();
    head.interval_at(first[3], interval, hour);
    assert!(head.is_touched(ids[3].0) && !head.is_touched(ids[2].0));
    let mut frozen = head.freeze();
    let piece = frozen.next().unwrap();
    assert_eq!(piece.slots[&hour.us()].len(), 2);
    assert!(!head.is_touched(ids[3].0) && head.bytes() == 0);
}

#[test]
fn updates_of_another_kind_are_refused_and_large_counts_are_known() {
    let (_, ids) = store(&KINDS);
    let mut head = Head::new(0);
    let places = open(&mut head, &ids);
    let interval = Interval::count(0, 1, 1 << 40).unwrap();
    assert_eq!(head.interval(places[0], interval), Err(Refusal::WrongKind));
    let point = |at_us, value| Point { at_us, reading: Reading::Unsigned(value) };
    assert_eq!(head.point(places[2], point(0, 1)), Err(Refusal::WrongKind));
    assert!(Head::is_large_interval(&interval));
    assert!(!Head::is_large_interval(&Interval::count(0, 1, (1 << 40) - 1).unwrap()));
    assert!(!head.is_large(places[1], &point(1, 1 << 60)), "nothing is known before it");
    head.point(places[1], point(1, 1 << 60)).unwrap();
    assert!(!head.is_large(places[1], &point(2, (1 << 60) + 5)));
    assert!(head.is_large(places[1], &point(2, 1 << 61)));
    assert!(!head.is_empty() && !is_empty(&head.freeze()));
}

#[test]
fn a_batch_of_a_series_in_rrd_mode_is_not_computed_again() {
    use series::rrd::{Archive, Consolidation, Definition, SourceKind, State};
    let archive = Archive { consolidation: Consolidation::Average, xff: 0.5, steps: 1, rows: 10 };
    let definition = Definition {
        kind: SourceKind::Gauge,
        step: step(),
        heartbeat_us: 20 * SECOND_US,
        min: None,
        max: None,
        archives: vec![archive],
    };
    let (_, ids) = store(&KINDS);
    let mut head = Head::new(0);
    let places = open(&mut head, &ids);
    let point = |at_s| Point { at_us: at_s * SECOND_US, reading: Reading::Level(1.0) };
    head.point(places[0], point(10)).unwrap();
    let other = Lane::remembering([point(5)], false);
    let now = [((ids[0].0, 0), other.clone())];
    let mut frozen = head.freeze();
    assert!(frozen.rebase(&now));
    let after = Lane::remembering([point(5), point(10)], false);
    assert_eq!((frozen.rebased(), frozen.unstored().overtaken), (vec![(ids[0].0, after)], 0));
    let state = State::new(&definition, 1_700_000_000 * SECOND_US).unwrap();
    let change = store::RrdChange { series: ids[0].0, state, rows: Vec::new() };
    frozen.rest.rrd = vec![change];
    assert!(!frozen.rebase(&now));
    // What follows in the head continues from there; a point that is too late is counted.
    head.point(places[0], point(20)).unwrap();
    head.point(places[0], point(90)).unwrap();
    let later = Lane::remembering([point(100)], true);
    assert_eq!(
        (head.rebase(ids[0].0, &later).overtaken, head.newest_us(places[0])),
        (2, Some(100 * SECOND_US))
    );
}

#[test]
fn points_of_a_clock_that_was_ahead_make_no_later_one_late_and_each_time_is_covered_once() {
    for ahead_s in [120, 1_200, 365 * 86_400] {
        let (mut store, ids) = store(&KINDS);
        let spec = Spec { lateness_us: 600 * SECOND_US, ..ids[0].1 };
        let mut head = Head::new(0);
        let place = head.open(ids[0].0, &spec, &Lane::default());
        let point = |at_s| Point { at_us: at_s * SECOND_US, reading: Reading::Level(2.0) };
        let end_s = 1_500;
        for (number, right_s) in (0..=end_s).step_by(10).enumerate() {
            let is_wrong = (50..120).contains(&right_s);
            let now_s = if is_wrong { right_s + ahead_s } else { right_s };
            if right_s == 120 && ahead_s > 600 {
                assert_eq!(head.admits(place, point(now_s)), Err(Refusal::Late), "by the newest");
            }
            head.believe(now_s * SECOND_US, (now_s + 600) * SECOND_US);
            assert_eq!(head.admits(place, point(now_s)), Ok(()), "{ahead_s}: {now_s}");
            head.point(place, point(now_s)).unwrap();
            let newest_us = head.newest_us(place).unwrap();
            assert!(newest_us <= (now_s + 600) * SECOND_US, "{newest_us}");
            let mut frozen = head.freeze();
            store.apply_all(&[(Writer(1), number as u64 + 1)], &mut frozen).unwrap();
        }
        let slots = store.slots(step(), &[ids[0].0], i64::MIN, i64::MAX).unwrap();
        assert!(slots.iter().all(|(_, slot)| slot.covered_us <= STEP_S * SECOND_US));
        let covered_us: i64 = slots.iter().map(|(_, slot)| slot.covered_us).sum();
        let in_future_s = if ahead_s > end_s { 60 } else { 0 };
        assert_eq!(covered_us, (40 + end_s - 120 + in_future_s) * SECOND_US, "{ahead_s}");
    }
}
