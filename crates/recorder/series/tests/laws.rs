//! The laws of the arithmetic, tested with random updates.
//!
//! Counts, coverage, numbers of updates, bounds and last updates are compared exactly; areas to one
//! part in 10^12 of the Σ |value| × seconds that went in.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use series::{
    Accumulator, Batch, Delta, Flavor, Integral, Interval, Kind, Lane, Point, Reading, Refusal,
    SECOND_US, SlotKey, Slots, Spec, Step, combine,
};

/// The tolerance of SERIES for levels.
const TOLERANCE: f64 = 1e-12;

/// Time range of the updates: on both sides of the epoch, to include slots of negative time.
const FROM_US: i64 = -400 * SECOND_US;
const UNTIL_US: i64 = 4_000 * SECOND_US;

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::from_secs(10).unwrap()),
        Just(Step::from_secs(1).unwrap()),
        (1_000_000_i64..50_000_000).prop_map(|us| Step::from_micros(us).unwrap()),
    ]
}

/// Instants that are often on a boundary, and lengths that are often short.
fn spans() -> impl Strategy<Value = (i64, i64)> {
    let start = prop_oneof![
        FROM_US..UNTIL_US,
        (FROM_US / SECOND_US / 10..UNTIL_US / SECOND_US / 10).prop_map(|s| s * 10 * SECOND_US),
    ];
    let length = prop_oneof![1..3_i64, 1..20_000_000_i64, 1..600_000_000_i64, Just(10_000_000)];
    (start, length).prop_map(|(start, length)| (start, start + length))
}

fn counts() -> impl Strategy<Value = i64> {
    prop_oneof![0..5_i64, 0..100_000_i64, 0..1_i64 << 53, Just(1_i64 << 53)]
}

fn count_intervals() -> impl Strategy<Value = Interval> {
    (spans(), counts()).prop_map(|((start, end), n)| Interval::count(start, end, n).unwrap())
}

fn level_intervals() -> impl Strategy<Value = Interval> {
    let value = prop_oneof![-1e3..1e3_f64, -1e-9..1e-9_f64, -1e15..1e15_f64, Just(0.1)];
    (spans(), value).prop_map(|((start, end), v)| Interval::level(start, end, v).unwrap())
}

/// An interval and the lane that sends it.
type Sent = (Interval, i32);

fn sent(intervals: impl Strategy<Value = Interval>) -> impl Strategy<Value = Vec<Sent>> {
    prop::collection::vec((intervals, 0..3_i32), 1..25)
}

fn key(slot_us: i64, lane: i32) -> SlotKey {
    SlotKey { slot_us, series: 1, lane }
}

fn apply_all<'a>(step: Step, sent: impl IntoIterator<Item = &'a Sent>) -> Slots {
    let mut slots = Slots::default();
    for (interval, lane) in sent {
        for (slot_us, part) in interval.slots(step) {
            slots.apply(key(slot_us, *lane), &Delta::widen(part));
        }
    }
    slots
}

fn total(slots: &Slots) -> Accumulator {
    let mut total = Accumulator::EMPTY;
    for (_, row) in slots.iter() {
        total.merge(row);
    }
    total
}

/// Σ |value| × seconds, to which the tolerance is relative.
fn weight(sent: &[Sent]) -> f64 {
    sent.iter().map(|(i, _)| i.cover().amount.as_f64().abs() * i.cover().span.seconds()).sum()
}

/// Compares rows: everything exactly except areas, which may differ by `allowed`.
fn same(ours: &Slots, theirs: &Slots, allowed: f64) -> Result<(), TestCaseError> {
    let keys = |slots: &Slots| slots.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    prop_assert_eq!(keys(ours), keys(theirs));
    for ((key, a), (_, b)) in ours.iter().zip(theirs.iter()) {
        let off = (a.integral.as_f64() - b.integral.as_f64()).abs();
        prop_assert!(off <= allowed, "{key:?}: {a:?} and {b:?}, of {allowed}");
        let exact = Accumulator { integral: b.integral, ..*a };
        if let (Integral::Count(_), Integral::Count(_)) = (a.integral, b.integral) {
            prop_assert_eq!(a, b, "{:?}", key);
        } else {
            prop_assert_eq!(&exact, b, "{:?}", key);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Totals equal the input at every resolution, count by count.
    #[test]
    fn counts_add_up_to_what_was_put_in(sent in sent(count_intervals()), step in steps(), by in 2..50_i64) {
        let in_all: i64 = sent.iter().map(|(i, _)| i.cover().amount.as_f64() as i64).sum();
        let covered_us: i64 = sent.iter().map(|(i, _)| i.cover().span.us()).sum();
        let coarse = Step::from_micros(step.us() * by).unwrap();
        let fine = apply_all(step, &sent);
        for slots in [&fine, &apply_all(coarse, &sent), &fine.consolidated(coarse)] {
            let total = total(slots);
            prop_assert_eq!(total.integral, Integral::Count(in_all));
            prop_assert_eq!(total.covered_us, covered_us);
            prop_assert_eq!(total.n, sent.len() as i64);
        }
    }

    /// Areas add up to Σ value × seconds within the tolerance.
    #[test]
    fn levels_add_up_to_what_was_put_in(sent in sent(level_intervals()), step in steps()) {
        let in_all: f64 = sent.iter().map(|(i, _)| i.cover().amount.as_f64() * i.cover().span.seconds()).sum();
        let got = total(&apply_all(step, &sent)).integral.as_f64();
        prop_assert!((got - in_all).abs() <= TOLERANCE * weight(&sent), "{got} of {in_all}");
    }

    /// Any order gives identical slots.
    #[test]
    fn any_permutation_of_counts_gives_identical_slots(
        (sent, shuffled) in sent(count_intervals()).prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
        step in steps(),
    ) {
        prop_assert_eq!(apply_all(step, &sent), apply_all(step, &shuffled));
    }

    /// Any order gives identical slots, levels within the tolerance.
    #[test]
    fn any_permutation_of_levels_gives_the_same_slots(
        (sent, shuffled) in sent(level_intervals()).prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
        step in steps(),
    ) {
        same(&apply_all(step, &sent), &apply_all(step, &shuffled), TOLERANCE * weight(&sent))?;
    }

    /// Any batching, merged beforehand and coarsened in the same transaction, gives identical slots.
    #[test]
    fn any_batching_gives_identical_slots(
        sent in prop_oneof![sent(count_intervals()), sent(level_intervals())],
        ends in prop::collection::vec(1..8_usize, 25),
        step in steps(),
        by in 2..50_i64,
    ) {
        let coarse_step = Step::from_micros(step.us() * by).unwrap();
        let (mut fine, mut coarse) = (Slots::default(), Slots::default());
        let mut rest = sent.as_slice();
        for size in ends {
            let (now, later) = rest.split_at(size.min(rest.len()));
            let mut batch = Batch::default();
            for (interval, lane) in now {
                for (slot_us, part) in interval.slots(step) {
                    batch.add(key(slot_us, *lane), Delta::widen(part));
                }
            }
            fine.apply_batch(&batch);
            coarse.apply_batch(&batch.coarsened(coarse_step));
            rest = later;
        }
        let allowed = TOLERANCE * weight(&sent);
        same(&fine, &apply_all(step, &sent), allowed)?;
        same(&coarse, &fine.consolidated(coarse_step), allowed)?;
    }

    /// Whichever writer sends an interval, in whatever order, the combined lanes are the same.
    #[test]
    fn any_split_over_writers_gives_identical_slots(
        (sent, shuffled) in sent(count_intervals()).prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
        lanes in prop::collection::vec(0..5_i32, 25),
        step in steps(),
    ) {
        let split: Vec<Sent> = shuffled.iter().zip(&lanes).map(|((i, _), lane)| (*i, *lane)).collect();
        let together = |slots: &Slots| {
            let mut by_slot: BTreeMap<i64, Vec<Accumulator>> = BTreeMap::new();
            for (key, row) in slots.iter() {
                by_slot.entry(key.slot_us).or_default().push(*row);
            }
            by_slot.into_iter().map(|(slot_us, rows)| (slot_us, combine(Flavor::Flow, step, 0.5, &rows))).collect::<Vec<_>>()
        };
        prop_assert_eq!(together(&apply_all(step, &sent)), together(&apply_all(step, &split)));
    }

    /// Sums of fine slots equal the slots computed directly from the updates.
    #[test]
    fn consolidation_equals_direct_computation(
        sent in prop_oneof![sent(count_intervals()), sent(level_intervals())],
        step in steps(),
        by in 2..50_i64,
    ) {
        let coarse = Step::from_micros(step.us() * by).unwrap();
        same(&apply_all(step, &sent).consolidated(coarse), &apply_all(coarse, &sent), TOLERANCE * weight(&sent))?;
    }

    /// A negative count retracts the positive one, whichever comes first; what remains are bounds
    /// that may be too wide, and are marked as such.
    #[test]
    fn a_correction_restores_the_earlier_state(
        before in sent(count_intervals()),
        ((start, end), n) in (spans(), 1..1_i64 << 53),
        step in steps(),
        correction_first in any::<bool>(),
    ) {
        let wrong = (Interval::count(start, end, n).unwrap(), 0);
        let correction = (Interval::count(start, end, -n).unwrap(), 0);
        prop_assert_eq!(wrong.0.inverse(), correction.0);
        let mut sent = before.clone();
        sent.extend(if correction_first { [correction, wrong] } else { [wrong, correction] });
        let earlier = apply_all(step, &before);
        for (key, row) in apply_all(step, &sent).iter() {
            let was = earlier.get(*key).copied().unwrap_or_default();
            prop_assert_eq!((row.integral, row.covered_us, row.n), (was.integral, was.covered_us, was.n));
            prop_assert!(row.vmin <= was.vmin && row.vmax >= was.vmax);
            let touched = key.lane == 0 && key.slot_us < end && key.slot_us + step.us() > start;
            prop_assert_eq!(row.approximate, touched);
            if !touched {
                prop_assert_eq!(row, &was);
            }
        }
    }

    /// The same for levels, whose areas return within the tolerance.
    #[test]
    fn a_level_taken_back_restores_the_earlier_state(
        before in sent(level_intervals()),
        wrong in level_intervals(),
        step in steps(),
    ) {
        let mut sent = before.clone();
        sent.extend([(wrong, 0), (wrong.inverse(), 0)]);
        let earlier = apply_all(step, &before);
        for (key, row) in apply_all(step, &sent).iter() {
            let was = earlier.get(*key).copied().unwrap_or_default();
            prop_assert_eq!((row.covered_us, row.n), (was.covered_us, was.n));
            let off = (row.integral.as_f64() - was.integral.as_f64()).abs();
            prop_assert!(off <= TOLERANCE * weight(&sent), "{row:?} was {was:?}");
        }
    }

    /// Merging is commutative and associative, and merging nothing changes nothing.
    #[test]
    fn merging_obeys_its_laws(rows in prop::collection::vec(rows(), 3)) {
        let merged = |of: &[&Accumulator]| {
            let mut sum = Accumulator::EMPTY;
            for row in of {
                sum.merge(row);
            }
            sum
        };
        let [a, b, c] = [&rows[0], &rows[1], &rows[2]];
        prop_assert_eq!(merged(&[a, b]), merged(&[b, a]));
        prop_assert_eq!(merged(&[&merged(&[a, b]), c]), merged(&[a, &merged(&[b, c])]));
        prop_assert_eq!(&merged(&[a]), a);
        prop_assert_eq!(&merged(&[a, &Accumulator::EMPTY]), a);
    }

    /// A slot keeps its rate × covered = integral, whatever was put in.
    #[test]
    fn rate_times_time_is_the_count(sent in sent(count_intervals()), step in steps()) {
        for (_, row) in apply_all(step, &sent).iter() {
            let rate = row.rate(step, 1.0).unwrap();
            let back = rate * (row.covered_us as f64 / SECOND_US as f64);
            let count = row.integral.as_f64();
            prop_assert!((back - count).abs() <= 1e-15 * count.abs() * 4.0, "{back} for {count}");
        }
    }
}

fn rows() -> impl Strategy<Value = Accumulator> {
    let integral = any::<i64>().prop_map(Integral::Count);
    // Few distinct times and values, so that ties of the last update occur.
    (integral, any::<i64>(), -3..3_i32, 0..3_i32, 0..5_i64, 0..3_i64, any::<bool>()).prop_map(
        |(integral, covered_us, low, more, n, last_us, approximate)| Accumulator {
            integral,
            covered_us,
            vmin: f64::from(low),
            vmax: f64::from(low + more),
            n,
            last_us,
            last_val: f64::from(low),
            approximate,
        },
    )
}

/// A series of points and points of its kind, at distinct times.
fn lanes_of_points() -> impl Strategy<Value = (Spec, Vec<Point>)> {
    let kinds = prop_oneof![
        Just(Kind::Gauge),
        Just(Kind::Counter),
        Just(Kind::Derive),
        Just(Kind::Absolute),
        Just(Kind::Total),
    ];
    let bounds = prop_oneof![
        3 => Just((None, None)),
        1 => Just((Some(-20.0), Some(500.0))),
    ];
    let times = prop_oneof![
        prop::collection::btree_set(0..600_000_000_i64, 1..40),
        prop::collection::btree_set((0..120_i64).prop_map(|s| s * 5 * SECOND_US), 1..40),
    ];
    (kinds, steps(), 1..60_i64, bounds, times).prop_flat_map(
        |(kind, step, heartbeat_s, (min, max), times)| {
            let spec = Spec {
                min,
                max,
                heartbeat_us: heartbeat_s * SECOND_US,
                lateness_us: i64::MAX,
                ..Spec::new(kind, step)
            };
            let points =
                prop::collection::vec(readings(kind), times.len()).prop_map(move |readings| {
                    let times = times.iter().copied();
                    times.zip(readings).map(|(at_us, reading)| Point { at_us, reading }).collect()
                });
            (Just(spec), points)
        },
    )
}

fn readings(kind: Kind) -> impl Strategy<Value = Reading> {
    prop_oneof![9 => values(kind), 1 => Just(Reading::Unknown)]
}

fn values(kind: Kind) -> BoxedStrategy<Reading> {
    match kind {
        Kind::Total => prop_oneof![(0..1_000_u32).prop_map(f64::from), 0.0..1e3_f64]
            .prop_map(Reading::Level)
            .boxed(),
        Kind::Gauge => (-1e3..1e3_f64).prop_map(Reading::Level).boxed(),
        Kind::Derive => (-1_000_i64..1_000).prop_map(Reading::Signed).boxed(),
        Kind::Absolute => (0..1_000_u64).prop_map(Reading::Unsigned).boxed(),
        _ => prop_oneof![
            0..1_000_u64,
            u64::from(u32::MAX) - 1_000..u64::from(u32::MAX),
            u64::MAX - 1_000..u64::MAX,
        ]
        .prop_map(Reading::Unsigned)
        .boxed(),
    }
}

/// The rows of one lane after `points` in this order.
fn replayed(spec: &Spec, points: &[Point]) -> Slots {
    let (mut slots, mut lane) = (Slots::default(), Lane::default());
    for point in points {
        lane.push(spec, *point, |slot_us, delta| slots.apply(key(slot_us, 0), &delta)).unwrap();
    }
    slots
}

/// An upper bound of Σ |value| × seconds over everything added and retracted.
fn points_weight(spec: &Spec, points: &[Point]) -> f64 {
    let heartbeat_s = spec.heartbeat_us as f64 / SECOND_US as f64;
    let values = points.iter().map(|p| p.reading.as_f64().abs()).filter(|value| !value.is_nan());
    3.0 * values.map(|value| value * heartbeat_s).sum::<f64>()
}

/// The rows without empty ones.
fn without_voids(slots: &Slots) -> Slots {
    let mut kept = Slots::default();
    for (key, row) in slots.iter().filter(|(_, row)| row.covered_us != 0 || row.n != 0) {
        kept.apply(*key, &Delta::widen(*row));
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Points in any order, including late ones, have the same result as a replay in order of time;
    /// including bounds, because the lane recomputes them.
    #[test]
    fn points_in_any_order_equal_their_time_ordered_replay(
        ((spec, points), shuffled) in lanes_of_points().prop_flat_map(|(spec, points)| {
            (Just((spec, points.clone())), Just(points).prop_shuffle())
        }),
    ) {
        let (ordered, late) = (replayed(&spec, &points), replayed(&spec, &shuffled));
        same(&without_voids(&late), &without_voids(&ordered), TOLERANCE * points_weight(&spec, &points))?;
    }

    /// The same within a window: slightly late points are accepted, and the result is the same;
    /// points dropped by then are not needed.
    #[test]
    fn points_late_within_the_window_equal_their_time_ordered_replay(
        (spec, points) in lanes_of_points(),
        delays in prop::collection::vec(0..50_000_000_i64, 40),
    ) {
        let window_us = 50_000_000;
        let spec = Spec { lateness_us: window_us, ..spec };
        let mut arrivals: Vec<(i64, Point)> =
            points.iter().zip(&delays).map(|(p, delay)| (p.at_us + delay, *p)).collect();
        arrivals.sort_by_key(|(arrives_us, _)| *arrives_us);
        let late: Vec<Point> = arrivals.into_iter().map(|(_, p)| p).collect();
        same(
            &without_voids(&replayed(&spec, &late)),
            &without_voids(&replayed(&spec, &points)),
            TOLERANCE * points_weight(&spec, &points),
        )?;
    }

    /// A restart in the middle of late data changes nothing: the lane's state is stored and read
    /// again.
    #[test]
    fn a_lane_survives_being_stored(
        ((spec, points), shuffled) in lanes_of_points().prop_flat_map(|(spec, points)| {
            (Just((spec, points.clone())), Just(points).prop_shuffle())
        }),
    ) {
        let (mut slots, mut lane) = (Slots::default(), Lane::default());
        for point in &shuffled {
            lane.push(&spec, *point, |slot_us, delta| slots.apply(key(slot_us, 0), &delta)).unwrap();
            let text = serde_json::to_string(&lane).unwrap();
            lane = serde_json::from_str(&text).unwrap();
        }
        prop_assert_eq!(slots, replayed(&spec, &shuffled));
        prop_assert_eq!(lane.remembered(), points.len());
    }

    /// Counts of points add up at every resolution, exactly.
    #[test]
    fn counters_add_up_to_what_they_counted(
        strides in prop::collection::vec((1..9_000_000_i64, 0..1_000_000_u64), 2..40),
        from in any::<u32>(),
        step in steps(),
        by in 2..50_i64,
    ) {
        let spec = Spec { heartbeat_us: 9_000_000, ..Spec::new(Kind::Counter, step) };
        let (mut at_us, mut reading) = (0, u64::from(from));
        let mut points = vec![Point { at_us, reading: Reading::Unsigned(reading) }];
        for (us, count) in &strides {
            (at_us, reading) = (at_us + us, (reading + count) % (1 << 32));
            points.push(Point { at_us, reading: Reading::Unsigned(reading) });
        }
        let counted: u64 = strides.iter().map(|(_, count)| count).sum();
        let slots = replayed(&spec, &points);
        let coarse = slots.consolidated(Step::from_micros(step.us() * by).unwrap());
        for slots in [slots, coarse] {
            prop_assert_eq!(total(&slots).integral, Integral::Count(counted as i64));
            prop_assert_eq!(total(&slots).covered_us, at_us);
        }
    }
}

/// Rows without the value of their last update: of two at the same instant the greater is kept.
fn without_last_values(slots: &Slots) -> Slots {
    let mut kept = Slots::default();
    for (key, row) in slots.iter() {
        kept.apply(*key, &Delta::widen(Accumulator { last_val: 0.0, ..*row }));
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Of several points at the same instant the last to arrive wins, in whatever order the
    /// instants come; the same point again changes nothing.
    #[test]
    fn of_points_at_the_same_instant_the_later_one_wins(
        (spec, points, others) in lanes_of_points().prop_flat_map(|(spec, points)| {
            let others = prop::collection::vec((0..points.len(), 0..points.len()), 0..20);
            (Just(spec), Just(points), others)
        }),
        window in prop_oneof![Just(i64::MAX), Just(0)],
    ) {
        // Each of `others` arrives just before the point at its instant, with another point's
        // reading.
        let spec = Spec { lateness_us: window, ..spec };
        let mut arrivals = Vec::new();
        for (place, point) in points.iter().enumerate() {
            // A slot's last update remains where a point without a value replaces it.
            let is_unknown = |place: usize| points[place].reading == Reading::Unknown;
            let of_this = others.iter().filter(|(at, other)| {
                *at == place && (!is_unknown(place) || is_unknown(*other))
            });
            arrivals.extend(of_this.map(|(_, other)| Point { at_us: point.at_us, ..points[*other] }));
            arrivals.extend([*point, *point]);
        }
        let (twice, once) = (replayed(&spec, &arrivals), replayed(&spec, &points));
        let known = |slots: &Slots| {
            let mut rows = without_last_values(&without_voids(slots));
            if window == 0 {
                // Without a window the lane no longer has the points needed to compute bounds.
                let all: Vec<_> = rows.iter().map(|(key, row)| (*key, *row)).collect();
                rows = Slots::default();
                for (key, row) in all {
                    let (vmin, vmax, approximate) = (f64::INFINITY, f64::NEG_INFINITY, false);
                    let row = Accumulator { vmin, vmax, approximate, ..row };
                    rows.apply(key, &Delta::widen(row));
                }
            }
            rows
        };
        let allowed = 20.0 * TOLERANCE * points_weight(&spec, &points);
        same(&known(&twice), &known(&once), allowed)?;
    }
}

#[test]
fn a_late_point_takes_its_part_of_the_time_that_had_covered_it() {
    let step = Step::from_secs(10).unwrap();
    let spec = Spec { heartbeat_us: 60 * SECOND_US, ..Spec::new(Kind::Gauge, step) };
    let at = |s: i64, value: f64| Point { at_us: s * SECOND_US, reading: Reading::Level(value) };
    let late = replayed(&spec, &[at(0, 1.0), at(20, 8.0), at(15, 2.0)]);
    let row = |slot_s: i64| *late.get(key(slot_s * SECOND_US, 0)).unwrap();
    assert_eq!(row(0).integral, Integral::Area(20.0), "2 held from 0 to 15");
    assert_eq!((row(0).min(), row(0).max()), (Some(2.0), Some(2.0)), "8 never held in this slot");
    assert_eq!(row(10).integral, Integral::Area(50.0), "2 held for 5 s, then 8 for 5 s");
    assert_eq!((row(10).min(), row(10).max()), (Some(2.0), Some(8.0)));
    assert_eq!(row(10).last(), Some((20 * SECOND_US, 8.0)));
    assert!(!row(0).approximate && !row(10).approximate);
}

#[test]
fn a_point_beyond_the_window_is_refused_and_the_same_point_again_changes_nothing() {
    let step = Step::from_secs(10).unwrap();
    let spec = Spec { lateness_us: 30 * SECOND_US, ..Spec::new(Kind::Gauge, step) };
    let mut lane = Lane::default();
    let mut seen = std::collections::BTreeSet::new();
    let mut push = |s: i64| {
        let point = Point { at_us: s * SECOND_US, reading: Reading::Level(1.0) };
        let mut deltas = 0;
        let result = lane.push(&spec, point, |_, _| deltas += 1);
        if result.is_ok() && !seen.insert(s) {
            assert_eq!(deltas, 0, "{s} s is known");
        }
        result.map(|outcome| outcome.late).map_err(|refusal| (refusal, deltas))
    };
    assert_eq!(push(0), Ok(false));
    assert_eq!(push(40), Ok(false));
    assert_eq!(push(40), Ok(false));
    assert_eq!(push(10), Ok(true), "exactly as old as the window is long");
    assert_eq!(push(10), Ok(true));
    assert_eq!(push(9), Err((Refusal::Late, 0)));
    assert_eq!(push(0), Err((Refusal::Late, 0)));
}

#[test]
fn a_lane_remembers_no_more_than_its_window_needs() {
    let step = Step::from_secs(10).unwrap();
    for (lateness_s, at_most) in [(0, 2), (60, 100)] {
        let spec = Spec { lateness_us: lateness_s * SECOND_US, ..Spec::new(Kind::Gauge, step) };
        let mut lane = Lane::default();
        for s in 0..10_000 {
            let point = Point { at_us: s * SECOND_US, reading: Reading::Level(1.0) };
            lane.push(&spec, point, |_, _| ()).unwrap();
        }
        assert!(lane.remembered() <= at_most, "{} for {lateness_s} s", lane.remembered());
    }
}
