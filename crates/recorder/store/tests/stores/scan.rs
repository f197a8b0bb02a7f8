//! Reading all series of a time at once gives the slots that reading one by one gives.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{
    Changes, Digests, Identity, NewSeries, Retention, Selector, SeriesLimit, SlotSum, Store, Writer,
};

use crate::place::{Mode, Place};

/// By series and slot: the integral, the covered time, the number of updates, the bounds.
type Sums = BTreeMap<(i64, i64), (f64, i64, i64, f64, f64, bool)>;

/// What a scan of a step gives, which must be in order.
fn scanned(store: &mut dyn Store, step: Step, from_us: i64, until_us: i64) -> Sums {
    let (mut sums, mut last) = (Sums::new(), i64::MIN);
    store
        .scan(step, from_us, until_us, &mut |of| {
            assert!(of.series > last, "series {} after {last}", of.series);
            assert!(of.slots.is_sorted_by(|a, b| a.slot_us < b.slot_us) && !of.slots.is_empty());
            last = of.series;
            let row = |s: &SlotSum| (s.integral, s.covered_us, s.n, s.vmin, s.vmax, s.approximate);
            sums.extend(of.slots.iter().map(|slot| ((of.series, slot.slot_us), row(slot))));
            ControlFlow::Continue(())
        })
        .unwrap();
    sums
}

/// Compares a scan of a step with the slots of each series, lane by lane.
pub(crate) fn check(store: &mut dyn Store, step: Step) {
    let all = store.find(&Selector::default()).unwrap();
    let ids: Vec<i64> = all.iter().map(|series| series.id).collect();
    let slots = store.slots(step, &ids, i64::MIN, i64::MAX).unwrap();
    let ends = (slots.first().map_or(0, |s| s.0.slot_us), slots.last().map_or(0, |s| s.0.slot_us));
    let middle_us = step.slot_of(ends.0 / 2 + ends.1 / 2);
    for (from_us, until_us) in
        [(i64::MIN, i64::MAX), (ends.0, middle_us), (middle_us, ends.1), (middle_us, middle_us + 1)]
    {
        let mut expected: BTreeMap<(i64, i64), SlotSum> = BTreeMap::new();
        for (key, row) in &slots {
            if (from_us..until_us).contains(&key.slot_us) {
                let sum = SlotSum::new(key.slot_us, 0, row);
                expected
                    .entry((key.series, key.slot_us))
                    .and_modify(|known| {
                        known.integral += sum.integral;
                        known.covered_us += sum.covered_us;
                        known.n += sum.n;
                        known.vmin = known.vmin.min(sum.vmin);
                        known.vmax = known.vmax.max(sum.vmax);
                        known.approximate |= sum.approximate;
                    })
                    .or_insert(sum);
            }
        }
        let row = |s: SlotSum| (s.integral, s.covered_us, s.n, s.vmin, s.vmax, s.approximate);
        let expected: Sums = expected.into_iter().map(|(key, sum)| (key, row(sum))).collect();
        assert_eq!(scanned(store, step, from_us, until_us), expected, "{from_us} to {until_us}");
    }
    let digests = store.digests(step, i64::MIN, i64::MAX).unwrap();
    assert_eq!(store.digests(step, i64::MIN, i64::MAX).unwrap(), digests);
    for (key, _) in &slots {
        let span = digests.spans.range(..=key.slot_us).next_back();
        assert!(span.is_some_and(|(_, span)| key.slot_us < span.end_us), "{key:?} is in no span");
    }
}

fn places(name: &str) -> Vec<Place> {
    let mut places = vec![Place::memory()];
    places.extend(Mode::ALL.map(Place::sqlite_in));
    places.extend(Mode::ALL.map(|mode| {
        let name = format!("{name}_{}", format!("{mode:?}").to_lowercase());
        Place::postgres_in(&name, mode)
    }));
    places
}

fn count(store: &mut dyn Store, seq: u64, series: i64, from_s: i64, until_s: i64) {
    let step = Step::from_secs(10).unwrap();
    let interval = Interval::count(from_s * SECOND_US, until_s * SECOND_US, 1_000).unwrap();
    let mut changes = Changes::default();
    for (slot_us, part) in interval.slots(step) {
        changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
    }
    store.apply(Writer(1), seq, &changes).unwrap();
}

#[test]
fn a_digest_changes_with_its_span_and_with_no_other() {
    let step = Step::from_secs(10).unwrap();
    for mut place in places("digest") {
        let store = place.store();
        store.retain(&[Retention { step, age_us: None }]).unwrap();
        let wanted = ["a", "b"]
            .map(|name| NewSeries::new(Identity::new(name, []), Spec::new(Kind::Count, step)));
        let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
        let ids: Vec<i64> = made.into_iter().map(|made| made.unwrap().id).collect();
        count(store, 1, ids[0], 0, 7_200);
        place.seal();
        let digests = |place: &mut Place, from_us, until_us| -> Digests {
            place.store().digests(step, from_us, until_us).unwrap()
        };
        let before = digests(&mut place, i64::MIN, i64::MAX);
        let starts: Vec<i64> = before.spans.keys().map(|us| us / SECOND_US).collect();
        assert_eq!(starts, [0, 1_800, 3_600, 5_400]);
        count(place.store(), 2, ids[1], 2_000, 2_050);
        place.seal();
        let after = digests(&mut place, i64::MIN, i64::MAX);
        for (start_us, span) in &before.spans {
            let same = after.spans.get(start_us) == Some(span);
            assert_eq!(same, *start_us != 1_800 * SECOND_US, "{start_us}");
        }
        // The spans that overlap a time, whole.
        let some = digests(&mut place, 2_010 * SECOND_US, 3_610 * SECOND_US);
        let overlapping: BTreeMap<_, _> = after.spans.into_iter().skip(1).take(2).collect();
        assert_eq!(some.spans, overlapping);
        assert_eq!(digests(&mut place, 0, 0).spans, BTreeMap::new());
    }
}

#[test]
fn a_scan_ends_early_and_a_step_that_is_not_kept_has_nothing() {
    let step = Step::from_secs(10).unwrap();
    for mut place in places("early") {
        let store = place.store();
        store.retain(&[Retention { step, age_us: None }]).unwrap();
        let wanted = ["a", "b", "c"]
            .map(|name| NewSeries::new(Identity::new(name, []), Spec::new(Kind::Count, step)));
        let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
        for (seq, made) in (1..).zip(made) {
            count(store, seq, made.unwrap().id, 0, 100);
        }
        let mut taken = 0;
        let mut take = |_: store::OfSeries<'_>| {
            taken += 1;
            if taken == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        store.scan(step, i64::MIN, i64::MAX, &mut take).unwrap();
        assert_eq!(taken, 2);
        let other = Step::from_secs(7).unwrap();
        assert_eq!(scanned(store, other, i64::MIN, i64::MAX), Sums::new());
        assert_eq!(store.digests(other, i64::MIN, i64::MAX).unwrap().spans, BTreeMap::new());
    }
}

#[test]
fn a_store_keeps_its_own_id() {
    let mut known = Vec::new();
    for mut place in places("recorder") {
        let id = place.store().recorder().unwrap();
        assert_eq!(id.len(), 36, "{id}");
        place.reopen();
        assert_eq!(place.store().recorder().unwrap(), id);
        assert!(!known.contains(&id), "{id}");
        known.push(id);
    }
}
