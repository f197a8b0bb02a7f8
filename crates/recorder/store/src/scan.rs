//! Reads all series of a time at once: their slots with the lanes added, and digests that tell
//! whether anything of a time has changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use series::Accumulator;
use sha2::{Digest as _, Sha256};

use crate::stored_retention::StoredRetention;

/// A slot of a series, all its lanes added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotSum {
    /// The slot's start, microseconds since the epoch.
    pub slot_us: i64,
    /// Σ count, exact below 2^53, or Σ level × seconds.
    pub integral: f64,
    /// Microseconds for which something is known, added over the lanes.
    pub covered_us: i64,
    /// Number of updates.
    pub n: i64,
    /// The minimum value or rate; `+∞` without one.
    pub vmin: f64,
    /// The maximum value or rate; `−∞` without one.
    pub vmax: f64,
    /// The bounds may be those of what was retracted.
    pub approximate: bool,
    /// The lane, while lanes are not added yet.
    pub(crate) lane: i32,
}

impl SlotSum {
    /// The sums of a slot of one lane.
    pub fn new(slot_us: i64, lane: i32, row: &Accumulator) -> SlotSum {
        SlotSum {
            slot_us,
            integral: row.integral.as_f64(),
            covered_us: row.covered_us,
            n: row.n,
            vmin: row.vmin,
            vmax: row.vmax,
            approximate: row.approximate,
            lane,
        }
    }

    /// Whether nothing is known: no coverage, no integral, no update.
    pub fn is_void(&self) -> bool {
        self.covered_us == 0 && self.n == 0 && self.integral == 0.0
    }

    /// Adds the sums of the same slot.
    fn add(&mut self, other: &SlotSum) {
        self.integral += other.integral;
        self.covered_us = self.covered_us.wrapping_add(other.covered_us);
        self.n = self.n.wrapping_add(other.n);
        self.vmin = self.vmin.min(other.vmin);
        self.vmax = self.vmax.max(other.vmax);
        self.approximate |= other.approximate;
    }
}

/// The slots of one series, as a scan gives them.
#[derive(Clone, Copy, Debug)]
pub struct OfSeries<'a> {
    /// The series' number.
    pub series: i64,
    /// Its slots in order of time, each once; never empty.
    pub slots: &'a [SlotSum],
    /// Earlier slots of the step have expired; microseconds since the epoch.
    pub horizon_us: i64,
}

/// Takes the series of a scan, in the order of their numbers; may end it.
pub type Take<'a> = dyn FnMut(OfSeries<'_>) -> ControlFlow<()> + 'a;

/// What is stored of a step in some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Earlier slots of the step have expired; microseconds since the epoch.
    pub horizon_us: i64,
    /// The spans in which something is stored, by their starts. Spans do not overlap.
    pub spans: BTreeMap<i64, SpanDigest>,
}

impl Digests {
    /// Adds a stored row of the span that contains `at_us`.
    pub(crate) fn row(&mut self, kept: &StoredRetention, at_us: i64, row: &[u8]) {
        let start_us = kept.span_of(at_us);
        let span = self.spans.entry(start_us);
        let new = || SpanDigest { end_us: kept.span_end(start_us), ..SpanDigest::default() };
        span.or_insert_with(new).add(row);
    }
}

/// A digest of what is stored of all series in a span.
///
/// While it is the same, the slots are the same. It may change without them: slots are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanDigest {
    /// The end of the span, microseconds since the epoch.
    pub end_us: i64,
    /// The digest.
    pub sum: [u64; 4],
}

impl SpanDigest {
    /// Adds a stored row, in any order: the digest is the sum of the SHA-256 of all rows.
    pub(crate) fn add(&mut self, row: &[u8]) {
        let hash = Sha256::digest(row);
        for (sum, part) in self.sum.iter_mut().zip(hash.chunks_exact(8)) {
            let part = part.try_into().map_or(0, u64::from_le_bytes);
            *sum = sum.wrapping_add(part);
        }
    }
}

/// The bytes of a slot's row for its digest.
pub(crate) fn row_bytes(bytes: &mut Vec<u8>, key: &series::SlotKey, row: &Accumulator) {
    bytes.clear();
    bytes.push(b'r');
    let integral = row.integral.as_f64().to_bits();
    let numbers = [
        key.slot_us as u64,
        key.series as u64,
        u64::from(key.lane.cast_unsigned()),
        integral,
        row.covered_us as u64,
        row.vmin.to_bits(),
        row.vmax.to_bits(),
        row.n as u64,
        u64::from(row.approximate),
    ];
    bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
}

/// Gathers the slots of a series from its lanes, packed or not, and adds the lanes.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    slots: Vec<SlotSum>,
}

impl Gather {
    /// Where slots are added, in any order.
    pub(crate) fn slots(&mut self) -> &mut Vec<SlotSum> {
        &mut self.slots
    }

    /// Hands on what was gathered of a series, and begins the next one.
    pub(crate) fn give(
        &mut self,
        series: i64,
        horizon_us: i64,
        take: &mut Take<'_>,
    ) -> ControlFlow<()> {
        if !self.slots.is_sorted_by(|a, b| a.slot_us < b.slot_us) {
            self.add_lanes();
        }
        let slots = self.slots.as_slice();
        let done = match slots {
            [] => ControlFlow::Continue(()),
            slots => take(OfSeries { series, slots, horizon_us }),
        };
        self.slots.clear();
        done
    }

    /// Adds the parts of each lane first and then the lanes in the order of their numbers, so that
    /// the sum of doubles does not depend on what is packed.
    fn add_lanes(&mut self) {
        self.slots.sort_by_key(|slot| (slot.slot_us, slot.lane));
        let same_lane = |next: &mut SlotSum, sum: &mut SlotSum| {
            let same = next.slot_us == sum.slot_us && next.lane == sum.lane;
            if same {
                sum.add(next);
            }
            same
        };
        self.slots.dedup_by(same_lane);
        self.slots.dedup_by(|next, sum| {
            let same = next.slot_us == sum.slot_us;
            if same {
                sum.add(next);
            }
            same
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(slot_us: i64, lane: i32, integral: f64) -> SlotSum {
        let row = Accumulator { covered_us: 1, n: 1, ..Accumulator::EMPTY };
        SlotSum { integral, ..SlotSum::new(slot_us, lane, &row) }
    }

    #[test]
    fn lanes_are_added_alike_in_any_order() {
        let parts = [slot(10, 2, 0.3), slot(0, 0, 1.0), slot(10, 0, 0.1), slot(10, 1, 0.2)];
        let gathered = |order: &[usize]| {
            let mut gather = Gather::default();
            gather.slots().extend(order.iter().map(|at| parts[*at]));
            let mut given = Vec::new();
            let _ = gather.give(7, 0, &mut |of| {
                given.extend(of.slots.iter().map(|s| (s.slot_us, s.integral, s.covered_us, s.n)));
                ControlFlow::Continue(())
            });
            given
        };
        let sum = 0.1 + 0.2 + 0.3;
        let expected = vec![(0, 1.0, 1, 1), (10, sum, 3, 3)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 2, 3, 0]] {
            assert_eq!(gathered(&order), expected, "{order:?}");
        }
    }

    #[test]
    fn a_digest_depends_on_the_rows_and_not_on_their_order() {
        let of = |rows: &[&[u8]]| {
            let mut digest = SpanDigest::default();
            rows.iter().for_each(|row| digest.add(row));
            digest
        };
        assert_eq!(of(&[b"a", b"b"]), of(&[b"b", b"a"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"a"]));
        assert_ne!(of(&[b"a", b"a"]), of(&[]));
    }
}
