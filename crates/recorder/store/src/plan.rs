//! The rows of each retention that a batch changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use series::{Accumulator, Batch, Bounds, COUNT_MAX, Delta, Flavor, Integral, SlotKey, rrd};

use crate::packed::StretchKey;
use crate::stored_retention::StoredRetention;
use crate::{Changes, Retention, StoreError};

/// Retentions sorted by step, after adding or changing `wanted`.
pub(crate) fn retained(kept: &[StoredRetention], wanted: &[Retention]) -> Vec<StoredRetention> {
    let mut by_step: BTreeMap<i64, StoredRetention> =
        kept.iter().map(|k| (k.step().us(), *k)).collect();
    for retention in wanted {
        by_step
            .entry(retention.step.us())
            .and_modify(|kept| kept.retention = *retention)
            .or_insert_with(|| StoredRetention::new(*retention));
    }
    by_step.into_values().collect()
}

/// A coarse slot whose bounds are recomputed from the slots of a finer step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecomputedSlot {
    /// The coarse slot.
    pub(crate) key: SlotKey,
    /// The finer step, in microseconds.
    pub(crate) from_step_us: i64,
}

/// The changes of a batch to one retention.
#[derive(Clone, Debug)]
pub(crate) struct RetentionChanges<'a> {
    /// The retention.
    pub(crate) kept: StoredRetention,
    /// The changes of rows.
    pub(crate) rows: Cow<'a, Batch>,
    /// The slots whose bounds are recomputed after that.
    pub(crate) recomputed: BTreeSet<RecomputedSlot>,
}

/// The changes of a batch to the slots of one series and lane in one span.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// Which.
    pub(crate) key: StretchKey,
    /// The changes of slots, in order of time; never empty.
    pub(crate) rows: Vec<(&'a SlotKey, &'a Delta)>,
}

impl RetentionChanges<'_> {
    /// The partitions that the rows are in.
    pub(crate) fn partitions(&self) -> BTreeSet<i64> {
        let mut partitions = BTreeSet::new();
        let mut latest_us = None;
        for (key, _) in self.rows.iter() {
            let start_us = self.kept.partition_of(key.slot_us);
            if latest_us.replace(start_us) != Some(start_us) {
                partitions.insert(start_us);
            }
        }
        partitions
    }

    /// The rows, grouped by series, lane and span.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut end_us = i64::MIN;
        for (key, delta) in self.rows.iter() {
            if let Some(open) = groups.last_mut() {
                let of_it = open.key.series == key.series && open.key.lane == key.lane;
                if of_it && key.slot_us >= open.key.span_us && key.slot_us < end_us {
                    open.rows.push((key, delta));
                    continue;
                }
            }
            let stretch = StretchKey::of(&self.kept, key);
            end_us = self.kept.span_end(stretch.span_us);
            // The next group is likely as long as this one.
            let mut rows = Vec::with_capacity(groups.last().map_or(1, |group| group.rows.len()));
            rows.push((key, delta));
            groups.push(Group { key: stretch, rows });
        }
        groups
    }
}

/// The changes of a batch, finest retention first.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
    /// By retention, without unchanged ones.
    pub(crate) parts: Vec<RetentionChanges<'a>>,
    /// Number of slots older than any retention keeps.
    pub(crate) expired: u64,
}

impl<'a> Plan<'a> {
    /// Plans a batch for these retentions, which are sorted by step.
    pub(crate) fn new(
        changes: &'a Changes,
        kept: &[StoredRetention],
    ) -> Result<Plan<'a>, StoreError> {
        let none = || Cow::Owned(Batch::default());
        let mut parts: Vec<RetentionChanges<'a>> = kept
            .iter()
            .map(|kept| RetentionChanges { kept: *kept, rows: none(), recomputed: BTreeSet::new() })
            .collect();
        let mut expired = 0;
        for (step_us, batch) in &changes.slots {
            let Some(own) = kept.iter().find(|k| k.step().us() == *step_us) else {
                return Err(StoreError::NoRetention(*step_us));
            };
            let follows = |part: &RetentionChanges<'_>| own.step().divides(part.kept.step());
            let taken = |slot_us: i64, part: &RetentionChanges<'_>| {
                part.kept.step().slot_of(slot_us) >= part.kept.horizon_us
            };
            let all =
                |part: &RetentionChanges<'_>| follows(part) && part.kept.horizon_us == i64::MIN;
            if !parts.iter().any(all) {
                for (key, _) in batch.iter() {
                    let kept = parts.iter().any(|part| follows(part) && taken(key.slot_us, part));
                    expired += u64::from(!kept);
                }
            }
            let mut whole = None;
            for place in 0..parts.len() {
                let (finer, coarser) = parts.split_at_mut(place);
                let Some(part) = coarser.first_mut().filter(|part| follows(part)) else { continue };
                // The slots of a finer retention have the same sums, and are fewer.
                let summed = whole.and_then(|place: usize| finer.get(place));
                let summed = summed.filter(|f| f.kept.step().divides(part.kept.step()));
                let from = summed.map_or(batch, |finer| &finer.rows);
                if part.take(batch, from, own, kept) && changes.slots.len() == 1 {
                    whole = Some(place);
                }
            }
        }
        parts.retain(|part| !part.rows.is_empty());
        Ok(Plan { parts, expired })
    }
}

impl<'a> RetentionChanges<'a> {
    /// Adds the changes from a batch of the step of `own` to this retention, summed up from a batch
    /// with the same changes, perhaps of a coarser step; whether these are all its changes.
    fn take(
        &mut self,
        batch: &'a Batch,
        from: &Batch,
        own: &StoredRetention,
        kept: &[StoredRetention],
    ) -> bool {
        let step = self.kept.step();
        if step == own.step() {
            return self.take_rows(Cow::Borrowed(batch));
        }
        debug_assert!(own.step().divides(step), "a slot lies in one slot of a coarser step");
        let is_whole = self.take_rows(Cow::Owned(from.coarsened(step)));
        for (key, _) in batch.iter().filter(|(_, delta)| delta.bounds == Bounds::Replace) {
            let key = SlotKey { slot_us: step.slot_of(key.slot_us), ..*key };
            // The nearest finer step, whose own bounds were recomputed before.
            let from = kept.iter().rev().find(|finer| {
                let between = own.step().divides(finer.step()) && finer.step().divides(step);
                between && finer.step() != step && key.slot_us >= finer.horizon_us
            });
            if let Some(from) = from.filter(|_| key.slot_us >= self.kept.horizon_us) {
                self.recomputed.insert(RecomputedSlot { key, from_step_us: from.step().us() });
            }
        }
        is_whole
    }

    /// Adds the rows that have not expired; whether they are all of the batch, and all there are.
    fn take_rows(&mut self, batch: Cow<'a, Batch>) -> bool {
        let horizon_us = self.kept.horizon_us;
        if self.rows.is_empty() && batch.iter().all(|(key, _)| key.slot_us >= horizon_us) {
            self.rows = batch;
            return true;
        }
        let rows = self.rows.to_mut();
        for (key, delta) in batch.iter().filter(|(key, _)| key.slot_us >= horizon_us) {
            rows.add(*key, *delta);
        }
        false
    }
}

/// Whether a count exceeds what a double holds exactly, in the row after the delta or in the delta
/// itself.
///
/// 2^53 itself is excluded, because 2^53 + 1 is rounded to it.
pub(crate) fn overflows(delta: &Delta, after: f64) -> bool {
    let beyond = |count: f64| count.abs() >= COUNT_MAX as f64;
    match delta.add.integral {
        Integral::Count(count) => beyond(after) || beyond(count as f64),
        Integral::Area(_) => false,
    }
}

/// The delta that gives a coarse slot the bounds of its fine slots.
pub(crate) fn bounds_of<'a>(fine: impl IntoIterator<Item = &'a Accumulator>) -> Delta {
    let mut all = Accumulator::EMPTY;
    for row in fine {
        all.merge(row);
    }
    let mut delta = Delta::replace_bounds(all.vmin, all.vmax);
    delta.add.approximate = all.approximate;
    delta
}

/// A flow has a count; a level has an area.
pub(crate) fn integral_of(flavor: Flavor, integral: f64) -> Integral {
    match flavor {
        Flavor::Flow if integral.fract() == 0.0 => Integral::Count(integral as i64),
        _ => Integral::Area(integral),
    }
}

/// The end of the latest row that each archive no longer keeps once `rows` are written.
pub(crate) fn oldest_rows(definition: &rrd::Definition, rows: &[rrd::Row]) -> Vec<(usize, i64)> {
    let archives = definition.archives.iter().enumerate();
    let oldest = archives.filter_map(|(number, archive)| {
        let latest = rows.iter().rfind(|row| row.archive == number)?;
        let row_us = definition.step.us().saturating_mul(archive.steps);
        Some((number, latest.end_us.saturating_sub(row_us.saturating_mul(archive.rows))))
    });
    oldest.collect()
}
