use proptest::prelude::*;
use series::Step;

use super::*;
use crate::Retention;
use crate::stored_retention::StoredRetention;

const STEP_US: i64 = 10 * SECOND_US;

fn kept() -> StoredRetention {
    StoredRetention::new(Retention { step: Step::from_micros(STEP_US).unwrap(), age_us: None })
}

fn stretch(rows: &[(usize, Accumulator)]) -> Stretch {
    let key = StretchKey { span_us: 0, series: 1, lane: 0 };
    let mut stretch = Stretch::new(&kept(), key);
    for (place, row) in rows {
        *stretch.slot(*place as i64 * STEP_US).unwrap() = *row;
    }
    stretch
}

/// What a table has of packed slots, unpacked.
fn back(packed: &PackedSlots) -> Stretch {
    let divisors = packed.stored_divisors();
    let stored = PackedSlots::from_stored(
        [packed.first, packed.count, packed.shape],
        STEP_US,
        |place| Ok::<_, String>(packed.stored_base(place, STEP_US)),
        |place| Ok(packed.stored_digits(place).map(<[u8]>::to_vec)),
        |place| Ok(divisors[place]),
    );
    let mut found = stretch(&[]);
    stored.unwrap().unpack(&mut found).unwrap();
    found
}

/// A slot with whole coverage and one update at its end.
fn held(place: usize, value: f64) -> (usize, Accumulator) {
    let row = Accumulator {
        integral: Integral::Area(area(value, STEP_US)),
        covered_us: STEP_US,
        vmin: value,
        vmax: value,
        n: 1,
        last_us: (place as i64 + 1) * STEP_US,
        last_val: value,
        approximate: false,
    };
    (place, row)
}

fn counted(place: usize, count: i64) -> (usize, Accumulator) {
    let (place, row) = held(place, count as f64);
    let rate = rate(count as f64, STEP_US);
    (place, Accumulator { integral: Integral::Area(count as f64), vmin: rate, vmax: rate, ..row })
}

#[test]
fn what_is_usual_is_not_stored() {
    let rows: Vec<_> = (0..60).map(|place| held(place, 50.0 + place as f64)).collect();
    let packed = stretch(&rows).pack().unwrap();
    assert_eq!(back(&packed), stretch(&rows));
    let bases: Vec<_> = (0..12).filter_map(|place| packed.stored_base(place, STEP_US)).collect();
    assert_eq!((bases, packed.stored_divisors()), (vec![], [None; 8]));
}

#[test]
fn a_slot_with_one_update_takes_the_digits_of_its_value_alone() {
    let levels: Vec<_> = (0..180).map(|i| held(i, (i * 91 % 16_129) as f64 / 100.0)).collect();
    let packed = stretch(&levels).pack().unwrap();
    assert_eq!((packed.bytes(), packed.shape), (360, 21), "{packed:?}");
    assert_eq!(back(&packed), stretch(&levels));
    let counts: Vec<_> = (0..180).map(|i| counted(i, 1_000 + (i as i64 * 37) % 127)).collect();
    let packed = stretch(&counts).pack().unwrap();
    assert_eq!((packed.bytes(), packed.shape), (180, 38), "{packed:?}");
    assert_eq!(back(&packed), stretch(&counts));
}

#[test]
fn a_first_slot_of_which_nothing_is_known_costs_one_byte() {
    let mark = Accumulator {
        integral: Integral::Area(0.0),
        covered_us: 0,
        vmin: f64::INFINITY,
        vmax: f64::NEG_INFINITY,
        ..held(0, 700.0).1
    };
    let mut levels: Vec<_> = (0..180).map(|i| held(i, (i * 91 % 1_000) as f64)).collect();
    levels[0] = (0, mark);
    let packed = stretch(&levels).pack().unwrap();
    assert_eq!(packed.bytes(), 361, "{packed:?}");
    assert_eq!(back(&packed), stretch(&levels));
}

#[test]
fn whole_seconds_that_differ_cost_their_seconds() {
    let mut levels: Vec<_> = (0..180).map(|i| held(i, 5.0)).collect();
    levels[179].1.covered_us = 3 * SECOND_US;
    levels[179].1.integral = Integral::Area(15.0);
    levels[179].1.last_us -= 7 * SECOND_US;
    let packed = stretch(&levels).pack().unwrap();
    assert_eq!(packed.bytes(), 360, "{packed:?}");
    assert_eq!(back(&packed), stretch(&levels));
}

#[test]
fn gaps_and_what_is_unknown_stay_so() {
    let empty = Accumulator { integral: Integral::Area(0.0), ..Accumulator::EMPTY };
    let mark = Accumulator { n: 1, last_us: 35 * SECOND_US, last_val: 7.5, ..empty };
    let passed = Accumulator { n: 0, last_us: i64::MIN, last_val: 0.0, ..held(9, 3.0).1 };
    let taken = Accumulator { approximate: true, n: -1, covered_us: -5, ..empty };
    let rows = [(3, mark), held(4, 2.5), (9, passed), (170, taken), (171, empty)];
    let packed = stretch(&rows).pack().unwrap();
    assert_eq!((packed.first, packed.count, packed.shape & SCATTERED), (3, 5, SCATTERED));
    assert_eq!(back(&packed), stretch(&rows));
    let rows: Vec<_> = (0..50).map(|i| held(3 * i, 2.5)).chain([rows[0], rows[2]]).collect();
    let packed = stretch(&rows).pack().unwrap();
    assert_eq!((packed.first, packed.count, packed.shape & SCATTERED), (0, 148, 0));
    assert_eq!(back(&packed), stretch(&rows));
}

#[test]
fn scattered_slots_take_two_digits_for_their_places() {
    let levels: Vec<_> = (0..4).map(|i| held(60 * i - i / 3, 7.0 * i as f64)).collect();
    let packed = stretch(&levels).pack().unwrap();
    assert_eq!((packed.count, packed.bytes()), (4, 4 * 2 + 4), "{packed:?}");
    assert_eq!(back(&packed), stretch(&levels));
    let mut sums = Vec::new();
    packed.sums(stretch(&levels).key, STEP_US, 1, 121 * STEP_US, &mut sums).unwrap();
    let found: Vec<_> = sums.iter().map(|sum| (sum.slot_us / STEP_US, sum.vmin)).collect();
    assert_eq!(found, [(60, 7.0), (120, 14.0)]);
}

#[test]
fn what_cannot_be_packed_exactly_is_not_packed() {
    assert_eq!(stretch(&[]).pack(), None);
    let scales = [held(0, 1e190 / 3.0), held(1, 1.0 / 3.0), held(2, 1e-190 / 3.0)];
    assert_eq!(stretch(&scales).pack(), None);
    let far = Accumulator { last_us: i64::MIN + 1, ..held(1, 1.0).1 };
    assert_eq!(stretch(&[held(0, 1.0), (1, far)]).pack(), None);
}

#[test]
fn columns_that_are_not_ours_are_refused() {
    let mut packed = stretch(&[held(0, 1.0), held(1, 2.0)]).pack().unwrap();
    packed.count = 3;
    let error = packed.unpack(&mut stretch(&[])).unwrap_err();
    assert_eq!(error, "the column vmin of packed slots is too short");
    let mut packed = stretch(&[held(0, 1.0), held(1, 2.0)]).pack().unwrap();
    packed.first = SPAN_SLOTS - 1;
    let error = packed.unpack(&mut stretch(&[])).unwrap_err();
    assert_eq!(error, "packed slots lie outside their span");
    packed.numbers[FLAGS].digits = vec![1; 9];
    let error = packed.unpack(&mut stretch(&[])).unwrap_err();
    assert_eq!(error, "the flags of packed slots are too many");
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-1_000_i64..1_000).prop_map(|v| v as f64),
        (0_i64..100_000).prop_map(|v| v as f64 / 100.0),
        (0_i64..100_000).prop_map(|v| v as f64 / 3.0),
        -1e6..1e6_f64,
        -1e-6..1e12_f64,
    ]
}

fn accumulator() -> impl Strategy<Value = Accumulator> {
    let last = proptest::option::of((0..=STEP_US, value()));
    let bounds = proptest::option::of((value(), 0.0..5.0_f64));
    let sums = (value(), -5_000_000..=STEP_US, -2..30_i64);
    (sums, bounds, last, any::<bool>()).prop_map(
        |((integral, covered_us, n), bounds, last, approximate)| Accumulator {
            integral: Integral::Area(integral),
            covered_us,
            vmin: bounds.map_or(f64::INFINITY, |(vmin, _)| vmin),
            vmax: bounds.map_or(f64::NEG_INFINITY, |(vmin, more)| vmin + more),
            n,
            last_us: last.map_or(i64::MIN, |(us, _)| us),
            last_val: last.map_or(0.0, |(_, value)| value),
            approximate,
        },
    )
}

proptest! {
    #[test]
    fn packing_loses_nothing(
        rows in proptest::collection::btree_map(0..180_usize, accumulator(), 1..100)
    ) {
        let rows: Vec<(usize, Accumulator)> = rows.into_iter().collect();
        let wanted = stretch(&rows);
        let packed = wanted.pack().expect("values of such sizes can be packed");
        prop_assert_eq!(back(&packed), wanted);
    }
}
