//! Recording a run: the data that exporters read, and its series, in one file.
//!
//! A trial and its series are written in one transaction, so a killed run has both or neither. Each
//! trial is one batch of the run's own writer, so none of its counts is stored twice.
//!
//! A series is a measure of one variant under one offer
//! (`requests:completed{run=…,variant=…,offer=…}`). Its lane is the number of the block, which
//! separates the trials at every resolution.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use base::RunId;
use record::{Block, Offer, Part, Run, Trial};
use series::{Accumulator, Delta, Integral, Kind, SlotKey, Spec, Step};
use store::{
    BatchResult, Changes, Fingerprint, Identity, NewSeries, Retention, SeriesLimit, Sqlite,
    Store as _, StoreError, Writer,
};

use crate::slice_updates::{Measure, SliceSeen};
use crate::watch::RunRecorder;

/// The step of recorded series. Slices are shorter, but a file holds years of runs at this step
/// before it has more partitions than SQLite's views accept.
const STEP_S: i64 = 1;

/// A run is not refused because other programs have reached the limit on series.
const NO_LIMIT: SeriesLimit = SeriesLimit { series: i64::MAX, tags: usize::MAX, bytes: usize::MAX };

/// A recording in progress.
#[derive(Debug)]
pub struct Recording {
    runs: archive::Store,
    series: Sqlite,
    known: HashMap<Identity, i64>,
    /// What is in lanes so far, by series and lane: a variant that was calibrated twice has two trials
    /// in one.
    lanes: HashMap<(i64, i32), InLane>,
    /// Trials written so far.
    trials: u64,
}

/// What the trials so far have added to a lane.
#[derive(Clone, Copy, Debug)]
struct InLane {
    from_us: i64,
    completed: u64,
    total: u64,
}

/// The retention of runs' series, which are kept as long as the runs.
pub(crate) fn retention() -> Option<Retention> {
    Retention::from_secs(STEP_S, None)
}

/// The identity of a trial's series.
pub(crate) fn identity(
    measure: Measure,
    run: &Run,
    part: &Part,
    variant: usize,
    offer: Offer,
) -> Identity {
    let variant = part.variants.get(variant).map_or("", |variant| &variant.name);
    let tags = [
        ("experiment", run.name.as_str()),
        ("run", run.id.as_str()),
        ("part", &part.name),
        ("variant", variant),
        ("offer", offer.word()),
    ];
    let tags = tags.into_iter().filter(|(_, value)| !value.is_empty());
    let mut identity = Identity::new(measure.measurement, tags);
    identity.field = measure.field.to_owned();
    identity
}

/// Sum of rows; a count that was changed to a fraction by hand is rounded away from `completed`.
pub(crate) fn total<'a>(rows: impl IntoIterator<Item = &'a Accumulator>, completed: u64) -> u64 {
    let mut sum = Integral::ZERO;
    for row in rows {
        sum = sum + row.integral;
    }
    match sum {
        Integral::Count(count) => u64::try_from(count).unwrap_or(0),
        Integral::Area(area) if area < completed as f64 => area.floor() as u64,
        Integral::Area(area) => area.ceil() as u64,
    }
}

impl Recording {
    /// Opens the record at `path`; creates it if it does not exist.
    ///
    /// # Errors
    /// Those of [`Sqlite::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Recording, StoreError> {
        let path = path.as_ref();
        let runs = archive::Store::open(path)?;
        let mut series = Sqlite::open(path)?;
        series.retain(&retention().into_iter().collect::<Vec<_>>())?;
        Ok(Recording { runs, series, known: HashMap::new(), lanes: HashMap::new(), trials: 0 })
    }

    fn write(
        &mut self,
        run: &Run,
        part: usize,
        block: u32,
        trial: &Trial,
        slices: &[SliceSeen],
    ) -> Result<Option<u64>, String> {
        let step = retention().map(|retention| retention.step).ok_or("there is no such step")?;
        let lane = i32::try_from(block).map_err(|error| error.to_string())?;
        let updates = updates(slices)?;
        let of =
            |measure| identity(measure, run, &run.parts[part], trial.variant as usize, trial.offer);
        self.make(updates.iter().map(|(measure, _)| (of(*measure), measure.kind)), step)
            .map_err(text)?;
        let mut changes = Changes::default();
        for (measure, interval) in &updates {
            let Some(series) = self.known.get(&of(*measure)).copied() else { continue };
            for (slot_us, part) in interval.slots(step) {
                changes.add(step, SlotKey { slot_us, series, lane }, Delta::widen(part));
            }
        }
        self.apply(&run.id, part, block, trial, &changes).map_err(text)?;
        let Some(id) = self.known.get(&of(Measure::COMPLETED)).copied() else {
            return Ok(Some(0));
        };
        let starts = slices.iter().map(|slice| slice.span_us().0);
        let ends = slices.iter().map(|slice| slice.span_us().1);
        let (from_us, until_us) = (starts.min().unwrap_or(0), ends.max().unwrap_or(0));
        let earlier = self.lanes.get(&(id, lane)).copied();
        let earlier = earlier.unwrap_or(InLane { from_us, completed: 0, total: 0 });
        let from_us = from_us.min(earlier.from_us);
        let completed = earlier.completed + trial.ledger.counts.completed;
        let rows = self.series.slots(step, &[id], step.slot_of(from_us), until_us).map_err(text)?;
        let mine = rows.iter().filter(|(key, _)| key.lane == lane).map(|(_, row)| row);
        let total = total(mine, completed);
        self.lanes.insert((id, lane), InLane { from_us, completed, total });
        Ok(Some(total.saturating_sub(earlier.total)))
    }

    /// Creates all missing series at once.
    fn make(
        &mut self,
        wanted: impl Iterator<Item = (Identity, Kind)>,
        step: Step,
    ) -> Result<(), StoreError> {
        let new: BTreeMap<Identity, Kind> =
            wanted.filter(|(identity, _)| !self.known.contains_key(identity)).collect();
        if new.is_empty() {
            return Ok(());
        }
        // A slice is shorter than a slot, and its rate refers to the time that it covers.
        let wanted: Vec<NewSeries> = new
            .into_iter()
            .map(|(identity, kind)| NewSeries {
                xff: 1.0,
                ..NewSeries::new(identity, Spec::new(kind, step))
            })
            .collect();
        for made in self.series.series(&wanted, &NO_LIMIT)? {
            let made = made.map_err(|reason| StoreError::Value {
                place: self.series.place(),
                cause: reason.to_string(),
            })?;
            self.known.insert(made.identity, made.id);
        }
        Ok(())
    }

    /// Writes both a trial and its series, or neither.
    fn apply(
        &mut self,
        run: &RunId,
        part: usize,
        block: u32,
        trial: &Trial,
        changes: &Changes,
    ) -> Result<BatchResult, StoreError> {
        let writer = writer(run);
        let seq = self.trials + 1;
        let apply = |series: &mut Sqlite| {
            series.apply_with(writer, seq, changes, |db| {
                archive::add_trial(db, run, part, block, trial)
            })
        };
        let applied = match apply(&mut self.series) {
            // Finer retentions of other writers may have expired partitions that were never
            // dropped.
            Err(StoreError::TooManyPartitions { .. }) => {
                let clock_us = base::timestamp_now().as_microsecond();
                let now_us = store::believed_us(&mut self.series, clock_us)?;
                self.series.maintain(now_us)?;
                apply(&mut self.series)?
            }
            applied => applied?,
        };
        self.trials = seq;
        Ok(applied)
    }
}

/// The writer of a run's trials.
fn writer(run: &RunId) -> Writer {
    Fingerprint::new("run").writer(run.as_str())
}

fn updates(slices: &[SliceSeen]) -> Result<Vec<(Measure, series::Interval)>, String> {
    let mut all = Vec::new();
    for slice in slices {
        all.extend(slice.updates().map_err(|refusal| refusal.to_string())?);
    }
    Ok(all)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl RunRecorder for Recording {
    fn begin(&mut self, run: &Run) -> Result<(), String> {
        self.runs.begin(run).map_err(text)
    }
    fn part(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String> {
        self.runs.save_part(&run.id, index, part).map_err(text)
    }
    fn trial(
        &mut self,
        run: &Run,
        part: usize,
        block: u32,
        trial: &Trial,
        slices: &[SliceSeen],
    ) -> Result<Option<u64>, String> {
        self.write(run, part, block, trial, slices)
    }
    fn block(&mut self, run: &Run, part: usize, block: &Block) -> Result<(), String> {
        self.runs.save_block(&run.id, part, block).map_err(text)
    }
    fn part_done(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String> {
        self.part(run, index, part)
    }
    fn finish(&mut self, run: &Run) -> Result<(), String> {
        self.runs.finish(run).map_err(text)
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
