//! What a head hands to a store.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use series::{Batch, Delta, Lane, Mark, SlotKey, Spec};
use store::{Changes, LaneChange, Source, Writer};

use super::recent::{Belief, Context, Place, RecentUpdates, STREAM_LANE};
use crate::unstored::UnstoredUpdates;

/// A piece ends with the series in which it reaches this many updates.
const PIECE: usize = 30_000;

/// A piece ends within a series after this many updates.
const PIECE_MAX: usize = 40_000;

/// Updates taken out of a head, as the pieces of one batch.
#[derive(Debug, Default)]
pub struct FrozenBatch {
    pub(super) lane: i32,
    pub(super) believed: Belief,
    pub(super) specs: Vec<Spec>,
    /// Ordered by the series' numbers.
    pub(super) written: Vec<WrittenSeries>,
    /// What belongs to no log.
    pub(crate) rest: Changes,
    pub(super) claims: Vec<(Writer, u64)>,
    /// Series whose lanes another writer had changed.
    pub(super) rebased: BTreeSet<i64>,
    /// What was not taken because of that.
    pub(super) unstored: UnstoredUpdates,
    pub(super) at: At,
    pub(super) piece: Changes,
}

/// A series with its updates to write.
#[derive(Debug)]
pub(crate) struct WrittenSeries {
    pub(crate) place: Place,
    pub(crate) id: i64,
    pub(crate) spec: u32,
    pub(crate) recent: RecentUpdates,
}

/// Position of the next piece.
#[derive(Clone, Debug, Default)]
pub(super) struct At {
    /// The current series.
    series: usize,
    /// Whether its log is that of its deltas, which come after the others.
    is_in_deltas: bool,
    /// The position in its log.
    mark: Mark,
    /// Number of updates of the log read so far.
    read: usize,
    lane: Lane,
    ended: bool,
}

impl FrozenBatch {
    /// The batches that it represents.
    pub fn claims(&self) -> &[(Writer, u64)] {
        &self.claims
    }

    /// Omits everything of these series, by their numbers in the store.
    pub fn omit(&mut self, series: &HashSet<i64>) {
        self.written.retain(|written| !series.contains(&written.id));
        self.rest.rrd.retain(|change| !series.contains(&change.series));
        for batch in self.rest.slots.values_mut() {
            let kept = batch.iter().filter(|(key, _)| !series.contains(&key.series));
            let mut others = Batch::default();
            kept.for_each(|(key, delta)| others.add(*key, *delta));
            *batch = others;
        }
    }

    /// Computes the batch again from these lanes, by series and lane, which another writer has
    /// changed; false if that is impossible, because one of the series is in RRD mode.
    #[must_use]
    pub fn rebase(&mut self, lanes: &[((i64, i32), Lane)]) -> bool {
        for ((series, number), lane) in lanes {
            if self.rest.rrd.iter().any(|change| change.series == *series) {
                return false;
            }
            let place = self.written.binary_search_by_key(series, |written| written.id);
            let Some(written) = place.ok().and_then(|place| self.written.get_mut(place)) else {
                continue;
            };
            let Some(spec) = self.specs.get(written.spec as usize) else { continue };
            let believed = self.believed;
            let context = Context { spec, series: *series, lane: *number, believed };
            self.unstored += written.recent.rebase(context, lane);
            self.rebased.insert(*series);
        }
        true
    }

    /// The series whose lanes another writer had changed, by their numbers in the store, with their
    /// lanes after the batch.
    pub fn rebased(&self) -> Vec<(i64, Lane)> {
        let rebased = self.written.iter().filter(|written| self.rebased.contains(&written.id));
        let after = rebased.filter_map(|written| {
            let spec = self.specs.get(written.spec as usize)?;
            Some((written.id, written.recent.after(spec)))
        });
        after.collect()
    }

    /// What was not taken, because another writer had changed the lanes.
    pub fn unstored(&self) -> UnstoredUpdates {
        self.unstored
    }

    /// Number of series with updates.
    pub fn series(&self) -> usize {
        self.written.len()
    }

    /// Adds the next updates of the current series; returns their number.
    fn add_series(&mut self, room: usize) -> usize {
        let Some(WrittenSeries { id, spec, recent, .. }) = self.written.get(self.at.series) else {
            return 0;
        };
        let (series, lane) = (*id, self.lane);
        let Some(spec) = self.specs.get(*spec as usize) else { return 0 };
        let batch = self.piece.slots.entry(spec.step.us()).or_default();
        let mut sink = |slot_us, delta| batch.add(SlotKey { slot_us, series, lane }, delta);
        let at = &mut self.at;
        let mut added = 0;
        let is_over = match recent {
            RecentUpdates::Intervals { log, stream } => {
                let deltas = stream.as_ref().map(|stream| &stream.deltas);
                let log = deltas.filter(|_| at.is_in_deltas).unwrap_or(log);
                let mut intervals = log.intervals_from(at.mark);
                for interval in intervals.by_ref().take(room) {
                    for (slot_us, part) in interval.slots(spec.step) {
                        sink(slot_us, Delta::widen(part));
                    }
                    added += 1;
                }
                at.mark = intervals.mark();
                at.read += added;
                let is_over = at.read >= log.len();
                match deltas {
                    Some(_) if is_over && !at.is_in_deltas => {
                        (at.is_in_deltas, at.mark, at.read) = (true, Mark::default(), 0);
                        false
                    }
                    Some(deltas) if is_over && !deltas.is_empty() => {
                        let change =
                            LaneChange { before: recent.before(), after: recent.after(spec) };
                        self.piece.lanes.insert((series, STREAM_LANE), change);
                        true
                    }
                    _ => is_over,
                }
            }
            RecentUpdates::Points { late: Some(late), .. } => {
                for (key, delta) in late.slots.iter() {
                    sink(key.slot_us, *delta);
                    added += 1;
                }
                let change = LaneChange { before: recent.before(), after: late.lane.clone() };
                self.piece.lanes.insert((series, lane), change);
                true
            }
            RecentUpdates::Points { log, known, forgotten, late: None } => {
                let mut points = log.points_from(at.mark);
                if at.read == 0 {
                    at.lane = Lane::remembering(points.by_ref().take(*known), *forgotten);
                    at.read = *known;
                }
                let mut before = at.lane.newest().copied();
                let follow = points.by_ref().take(room).inspect(|point| {
                    let _ = Lane::follow(spec, before.as_ref(), point, &mut sink);
                    before = Some(*point);
                    added += 1;
                });
                at.lane = Lane::followed(std::mem::take(&mut at.lane), spec, follow);
                at.mark = points.mark();
                at.read += added;
                let is_over = at.read >= log.len();
                if is_over {
                    let after = std::mem::take(&mut at.lane);
                    let change = LaneChange { before: recent.before(), after };
                    self.piece.lanes.insert((series, lane), change);
                }
                is_over
            }
        };
        if is_over {
            self.at = At { series: self.at.series + 1, ..At::default() };
        }
        added
    }

    /// Adds what belongs to no log.
    fn add_rest(&mut self) {
        for (step_us, rest) in &self.rest.slots {
            let batch = self.piece.slots.entry(*step_us).or_default();
            rest.iter().for_each(|(key, delta)| batch.add(*key, *delta));
        }
        self.piece.rrd.clone_from(&self.rest.rrd);
        self.piece.requests.clone_from(&self.rest.requests);
    }
}

impl Source for FrozenBatch {
    fn restart(&mut self) {
        self.at = At::default();
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        if self.at.ended {
            return None;
        }
        self.piece = Changes::default();
        let mut added = 0;
        while added < PIECE && self.at.series < self.written.len() {
            added += self.add_series(PIECE_MAX - added);
        }
        if self.at.series >= self.written.len() {
            self.add_rest();
            self.at.ended = true;
        }
        Some(Cow::Owned(std::mem::take(&mut self.piece)))
    }
}
