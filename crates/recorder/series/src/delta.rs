//! Changes of rows, gathered into batches, and rows in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::{Accumulator, Step};

/// The key of a row: a slot of a lane of a series. Ordered like the database's primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotKey {
    /// The slot's start, microseconds since the epoch.
    pub slot_us: i64,
    /// The series' number.
    pub series: i64,
    /// The lane's number.
    pub lane: i32,
}

/// How a delta changes a row's `vmin`, `vmax` and `approximate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// They widen to include the delta's.
    Widen,
    /// The delta's replace them: they were recomputed from the updates themselves.
    Replace,
}

/// A change of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta {
    /// The columns to merge.
    pub add: Accumulator,
    /// How to change the bounds.
    pub bounds: Bounds,
}

impl Delta {
    /// Merges all columns.
    pub const fn widen(add: Accumulator) -> Delta {
        Delta { add, bounds: Bounds::Widen }
    }

    /// Replaces the bounds by `vmin` and `vmax` and changes nothing else.
    pub const fn replace_bounds(vmin: f64, vmax: f64) -> Delta {
        Delta { add: Accumulator { vmin, vmax, ..Accumulator::EMPTY }, bounds: Bounds::Replace }
    }

    /// Combines this delta with a `later` one.
    pub fn then(&mut self, later: &Delta) {
        later.apply(&mut self.add);
        if later.bounds == Bounds::Replace {
            self.bounds = Bounds::Replace;
        }
    }

    /// Changes a row.
    pub fn apply(&self, row: &mut Accumulator) {
        if self.bounds == Bounds::Replace {
            row.vmin = f64::INFINITY;
            row.vmax = f64::NEG_INFINITY;
            row.approximate = false;
        }
        row.merge(&self.add);
    }

    /// The same change for the coarser slot around it.
    ///
    /// Recomputed bounds are those of one fine slot alone, so the coarse slot's become approximate
    /// until they are recomputed from its fine slots.
    #[must_use]
    pub fn coarsened(&self) -> Delta {
        let mut add = self.add;
        add.approximate |= self.bounds == Bounds::Replace;
        Delta::widen(add)
    }
}

/// A key in the order of batches: series, lane, slot. So the slots of a series are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InSeries(SlotKey);

impl Ord for InSeries {
    fn cmp(&self, other: &InSeries) -> Ordering {
        let InSeries(a) = self;
        let InSeries(b) = other;
        a.series.cmp(&b.series).then(a.lane.cmp(&b.lane)).then(a.slot_us.cmp(&b.slot_us))
    }
}

impl PartialOrd for InSeries {
    fn partial_cmp(&self, other: &InSeries) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Deltas for a store, merged per row, ordered by series, lane and slot.
///
/// History arrives in this order, so a row after the last one is appended, and only rows out of
/// order are searched for.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order, without duplicate keys.
    rows: Vec<(SlotKey, Delta)>,
    /// Rows that arrived out of order; none of them is in `rows`.
    late: BTreeMap<InSeries, Delta>,
}

impl Batch {
    /// Adds a delta for a row, after all those added before.
    pub fn add(&mut self, key: SlotKey, delta: Delta) {
        let order = match self.rows.last() {
            Some((last, _)) => InSeries(key).cmp(&InSeries(*last)),
            None => Ordering::Greater,
        };
        match order {
            Ordering::Greater => {
                debug_assert!(!self.late.contains_key(&InSeries(key)), "a row has one delta");
                // Merged field by field: a processor waits when it copies in wide pieces what it has
                // just stored in narrow ones.
                self.rows.push((key, Delta::widen(Accumulator::EMPTY)));
            }
            Ordering::Equal => {}
            Ordering::Less => return self.add_late(key, delta),
        }
        if let Some((_, known)) = self.rows.last_mut() {
            known.then(&delta);
        }
    }

    fn add_late(&mut self, key: SlotKey, delta: Delta) {
        let place = self.rows.binary_search_by(|(known, _)| InSeries(*known).cmp(&InSeries(key)));
        let known = match place {
            Ok(place) => self.rows.get_mut(place).map(|(_, known)| known),
            Err(_) => match self.late.entry(InSeries(key)) {
                Entry::Occupied(known) => Some(known.into_mut()),
                Entry::Vacant(vacant) => {
                    vacant.insert(delta);
                    return;
                }
            },
        };
        if let Some(known) = known {
            known.then(&delta);
        }
    }

    /// The same changes for the rows of a coarser step, which must be a multiple of this one.
    #[must_use]
    pub fn coarsened(&self, step: Step) -> Batch {
        let mut coarse = Batch::default();
        let mut slot_us = i64::MIN;
        for (key, delta) in self.iter() {
            // Most rows are in the slot of the one before, and a division takes long.
            let after_us = key.slot_us.wrapping_sub(slot_us);
            if !(0..step.us()).contains(&after_us) {
                slot_us = step.slot_of(key.slot_us);
            }
            coarse.add(SlotKey { slot_us, ..*key }, delta.coarsened());
        }
        coarse
    }

    /// The deltas, ordered by series, lane and slot.
    pub fn iter(&self) -> impl Iterator<Item = (&SlotKey, &Delta)> {
        let mut rows = self.rows.iter();
        let mut late = self.late.iter().map(|(InSeries(key), delta)| (key, delta));
        let mut next_late = late.next();
        std::iter::from_fn(move || {
            let is_next = |(late, _): &(&SlotKey, &Delta), rows: &[(SlotKey, Delta)]| {
                rows.first().is_none_or(|(key, _)| InSeries(**late) < InSeries(*key))
            };
            match next_late {
                Some(row) if is_next(&row, rows.as_slice()) => {
                    std::mem::replace(&mut next_late, late.next())
                }
                _ => rows.next().map(|(key, delta)| (key, delta)),
            }
        })
    }

    /// Number of rows it changes.
    pub fn len(&self) -> usize {
        self.rows.len() + self.late.len()
    }

    /// Whether it changes no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.late.is_empty()
    }
}

impl PartialEq for Batch {
    /// Equal deltas for equal rows, in whatever order they were added.
    fn eq(&self, other: &Batch) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Rows of one step, kept in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slots(BTreeMap<SlotKey, Accumulator>);

impl Slots {
    /// Applies one delta.
    pub fn apply(&mut self, key: SlotKey, delta: &Delta) {
        let row = self.0.entry(key).or_default();
        delta.apply(row);
    }

    /// Applies a batch.
    pub fn apply_batch(&mut self, batch: &Batch) {
        for (key, delta) in batch.iter() {
            self.apply(*key, delta);
        }
    }

    /// One row.
    pub fn get(&self, key: SlotKey) -> Option<&Accumulator> {
        self.0.get(&key)
    }

    /// All rows, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&SlotKey, &Accumulator)> {
        self.0.iter()
    }

    /// The rows of a coarser step, which must be a multiple of this one: sums only.
    #[must_use]
    pub fn consolidated(&self, step: Step) -> Slots {
        let mut coarse = Slots::default();
        for (key, row) in &self.0 {
            let key = SlotKey { slot_us: step.slot_of(key.slot_us), ..*key };
            coarse.0.entry(key).or_default().merge(row);
        }
        coarse
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Integral;

    fn slot(count: i64, value: f64) -> Accumulator {
        Accumulator {
            integral: Integral::Count(count),
            vmin: value,
            vmax: value,
            ..Accumulator::EMPTY
        }
    }

    #[test]
    fn deltas_merged_beforehand_do_what_they_do_one_by_one() {
        let retraction = Accumulator { approximate: true, ..slot(-3, 9.0) };
        let deltas = [
            Delta::widen(slot(3, 1.0)),
            Delta::widen(retraction),
            Delta::replace_bounds(4.0, 5.0),
            Delta::widen(slot(2, 6.0)),
        ];
        let then = |mut row: Accumulator, delta: &Delta| {
            delta.apply(&mut row);
            row
        };
        let before = slot(10, 20.0);
        for from in 0..deltas.len() {
            let one_by_one = deltas[from..].iter().fold(before, then);
            let mut merged = deltas[from];
            for delta in &deltas[from + 1..] {
                merged.then(delta);
            }
            assert_eq!(then(before, &merged), one_by_one, "from delta {from}");
        }
        let after = deltas.iter().fold(before, then);
        assert_eq!((after.vmin, after.vmax, after.approximate), (4.0, 6.0, false));
        assert_eq!(after.integral, Integral::Count(12));
    }

    #[test]
    fn a_batch_is_in_the_order_of_series_in_whatever_order_it_was_filled() {
        let key = |series, slot_us| SlotKey { slot_us, series, lane: 0 };
        let keys = [key(1, 10), key(1, 20), key(2, 0), key(2, 10), key(3, -10)];
        let fill = |order: [usize; 7]| {
            let mut batch = Batch::default();
            for place in order {
                batch.add(keys[place], Delta::widen(slot(1, 1.0)));
            }
            batch
        };
        let sorted = fill([0, 0, 1, 2, 3, 4, 4]);
        let found: Vec<SlotKey> = sorted.iter().map(|(key, _)| *key).collect();
        assert_eq!((found.as_slice(), sorted.len()), (&keys[..], 5));
        for order in [[4, 0, 3, 1, 0, 2, 4], [4, 4, 3, 2, 1, 0, 0], [2, 0, 4, 0, 3, 4, 1]] {
            assert_eq!(fill(order), sorted, "{order:?}");
        }
        assert_ne!(fill([0, 1, 1, 2, 3, 4, 4]), sorted);
    }

    #[test]
    fn recomputed_bounds_of_a_fine_slot_make_the_coarse_one_approximate() {
        let step = Step::from_micros(60).unwrap();
        let mut batch = Batch::default();
        let key = |slot_us| SlotKey { slot_us, series: 1, lane: 0 };
        batch.add(key(10), Delta::replace_bounds(1.0, 2.0));
        batch.add(key(50), Delta::widen(slot(1, 3.0)));
        batch.add(key(60), Delta::widen(slot(1, 3.0)));
        let coarse: Vec<_> = batch.coarsened(step).iter().map(|(k, d)| (k.slot_us, *d)).collect();
        assert_eq!(coarse.len(), 2);
        assert!(coarse[0].1.add.approximate);
        assert_eq!(coarse[0].1.bounds, Bounds::Widen);
        assert!(!coarse[1].1.add.approximate);
    }
}
