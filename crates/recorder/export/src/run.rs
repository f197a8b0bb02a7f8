//! One export: which partitions have changed, and their new content.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use series::{Flavor, Step};
use store::{Digests, OfSeries, Selector, Series, SlotSum, SpanDigest, Store, step_name};

use crate::day::Day;
use crate::delta::{self, CURRENT};
use crate::earlier::{EarlierSlots, Numbers};
use crate::file::{FileMetadata, TableFile, io_error};
use crate::notes::Notes;
use crate::place::{ExportFolder, FileChange, Files, ReadyChange, put};
use crate::table::{DELTA_LOG, partition_path, partitions};
use crate::{ExportError, Partition};

/// What to export.
#[derive(Clone, Debug, Default)]
pub struct ExportRequest {
    /// The steps; all that the store keeps if empty.
    pub steps: Vec<Step>,
    /// The first day.
    pub since: Option<Day>,
    /// The last day.
    pub until: Option<Day>,
    /// Slots that had ended at this time are exported; microseconds since the epoch. The store
    /// takes later data until [`store::SEALED_AFTER_US`] have passed, or longer.
    pub sealed_us: i64,
    /// Write nothing.
    pub dry_run: bool,
}

/// A partition whose file has changed, or would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionChange {
    /// The partition.
    pub partition: Partition,
    /// Its rows; `None` if it was not written, because nothing is to be written.
    pub slots: Option<u64>,
}

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files written.
    pub written: u64,
    /// Files removed, because all their slots were retracted.
    pub removed: u64,
    /// Files that are as they were.
    pub unchanged: u64,
    /// Rows of the files written.
    pub slots: u64,
    /// Bytes of the files written.
    pub bytes: u64,
    /// Files of days of which a part had expired before it was ever exported.
    pub partial: u64,
}

/// Exports the sealed slots of a store to a folder, and calls `each` for every change.
///
/// Only the files of days that have changed are written: each under another name first, and all are
/// put in their places when the last one is complete and on disk. Slots that have expired in the store
/// stay in their file.
///
/// # Errors
/// [`ExportError`]. All files are complete, and as they were if it came before they were put in place.
pub fn export(
    store: &mut dyn Store,
    folder: &Path,
    request: &ExportRequest,
    each: &mut dyn FnMut(&PartitionChange),
) -> Result<Summary, ExportError> {
    if folder.join(DELTA_LOG).exists() {
        return Err(ExportError::IsDelta(folder.to_owned()));
    }
    let steps = checked_steps(store, folder, request)?;
    let recorder = store.recorder()?;
    let place = ExportFolder::new(folder, &recorder);
    let _lock = lock(&place, request)?;
    let mut run = ExportRun::new(store, place, &recorder, request, each)?;
    run.steps(store, &steps)
}

/// Exports the sealed slots of a store to a table of Delta Lake, in one commit, and calls `each` for
/// every change. Also the version of the table; `None` if there is no table, because there are no
/// slots, or nothing is to be written.
///
/// # Errors
/// [`ExportError`]. The table is then as it was, unless only files that were replaced long ago could
/// not be removed.
pub fn export_delta(
    store: &mut dyn Store,
    folder: &Path,
    request: &ExportRequest,
    each: &mut dyn FnMut(&PartitionChange),
) -> Result<(Summary, Option<u64>), ExportError> {
    let steps = checked_steps(store, folder, request)?;
    if !folder.join(DELTA_LOG).exists() && partitions(folder).is_ok_and(|found| !found.is_empty()) {
        return Err(ExportError::IsPlain(folder.to_owned()));
    }
    let recorder = store.recorder()?;
    let current = folder.join(CURRENT);
    let place = ExportFolder::new(&current, &recorder);
    let _lock = lock(&place, request)?;
    let mut each_in_table = |change: &PartitionChange| {
        let mut change = change.clone();
        change.partition.path =
            partition_path(folder, &change.partition.step, &change.partition.day);
        each(&change);
    };
    let mut run = ExportRun::new(store, place, &recorder, request, &mut each_in_table)?;
    let summary = run.steps(store, &steps)?;
    let version = if request.dry_run { None } else { delta::commit(folder, &recorder)? };
    Ok((summary, version))
}

fn lock(place: &ExportFolder<'_>, request: &ExportRequest) -> Result<Option<File>, ExportError> {
    if request.dry_run { Ok(None) } else { place.take().map(Some) }
}

/// The steps to export; refuses what is wrong before anything is written.
fn checked_steps(
    store: &mut dyn Store,
    folder: &Path,
    request: &ExportRequest,
) -> Result<Vec<Step>, ExportError> {
    let known: Vec<Step> = store.retentions()?.into_iter().map(|kept| kept.step).collect();
    if let Some(step) = request.steps.iter().find(|step| !known.contains(step)) {
        let known: Vec<String> = known.into_iter().map(step_name).collect();
        let (place, step) = (store.place(), step_name(*step));
        return Err(ExportError::NoStep { place, step, known: known.join(", ") });
    }
    if store.series_count()? == 0 {
        return Err(ExportError::NoSeries(store.place()));
    }
    if folder.exists() && !folder.is_dir() {
        return Err(ExportError::NotAFolder(folder.to_owned()));
    }
    let is_wanted = |step: &Step| request.steps.is_empty() || request.steps.contains(step);
    Ok(known.into_iter().filter(is_wanted).collect())
}

/// The series of the store.
#[derive(Default)]
struct StoreSeries {
    by_number: HashMap<i64, Series>,
    numbers: Numbers,
}

impl StoreSeries {
    fn load(&mut self, store: &mut dyn Store) -> Result<(), ExportError> {
        let all = store.find(&Selector::default())?;
        self.numbers = all.iter().map(|series| (series.identity.clone(), series.id)).collect();
        self.by_number = all.into_iter().map(|series| (series.id, series)).collect();
        Ok(())
    }
}

/// The spans of each day on which a slot starts.
fn days(
    digests: &Digests,
    step: Step,
    request: &ExportRequest,
) -> BTreeMap<Day, BTreeMap<i64, SpanDigest>> {
    let mut days: BTreeMap<Day, BTreeMap<i64, SpanDigest>> = BTreeMap::new();
    let first = request.since.unwrap_or(Day::FIRST);
    let last = request.until.unwrap_or(Day::LAST).min(Day::of(sealed_until(request, step) - 1));
    for (start_us, span) in &digests.spans {
        let mut at_us = (*start_us).max(first.start_us());
        while at_us < span.end_us {
            let day = Day::of(at_us);
            if day > last {
                break;
            }
            days.entry(day).or_default().insert(*start_us, *span);
            let Some(next) = day.next() else { break };
            // The next start of a slot that is not on this day.
            at_us = step.slot_of(next.start_us() + step.us() - 1);
        }
    }
    days
}

/// The start of the first slot that is not sealed.
fn sealed_until(request: &ExportRequest, step: Step) -> i64 {
    step.slot_of(request.sealed_us)
}

struct ExportRun<'r> {
    known: StoreSeries,
    place: ExportFolder<'r>,
    recorder: &'r str,
    request: &'r ExportRequest,
    /// What is written, but not in its place yet.
    ready: Vec<ReadyChange>,
    each: &'r mut dyn FnMut(&PartitionChange),
}

/// A partition to be written.
struct PartitionJob<'j> {
    step: Step,
    day: Day,
    about: FileMetadata<'j>,
    files: &'j Files,
    /// Slots from here on are not sealed.
    until_us: i64,
}

impl<'r> ExportRun<'r> {
    fn new(
        store: &mut dyn Store,
        place: ExportFolder<'r>,
        recorder: &'r str,
        request: &'r ExportRequest,
        each: &'r mut dyn FnMut(&PartitionChange),
    ) -> Result<ExportRun<'r>, ExportError> {
        let mut known = StoreSeries::default();
        known.load(store)?;
        Ok(ExportRun { known, place, recorder, request, ready: Vec::new(), each })
    }

    fn steps(&mut self, store: &mut dyn Store, steps: &[Step]) -> Result<Summary, ExportError> {
        let mut summary = Summary::default();
        for step in steps {
            self.step(store, *step, &mut summary)?;
        }
        put(&mut self.ready)?;
        Ok(summary)
    }

    fn step(
        &mut self,
        store: &mut dyn Store,
        step: Step,
        summary: &mut Summary,
    ) -> Result<(), ExportError> {
        let sealed_us = sealed_until(self.request, step);
        let from_us = self.request.since.map_or(i64::MIN, Day::start_us);
        let until_us = self.request.until.map_or(sealed_us, |day| day.end_us().min(sealed_us));
        let digests = store.digests(step, from_us, until_us)?;
        let name = step_name(step);
        for (day, spans) in days(&digests, step, self.request) {
            let day_name = day.to_string();
            let files = self.place.partition(&name, &day_name);
            let notes = Notes::read(&files.notes);
            // A clock that was set back takes nothing away.
            let noted_us = notes.as_ref().map_or(i64::MIN, |notes| notes.until_us);
            let until_us = sealed_us.max(noted_us).min(day.end_us());
            let bytes = files.bytes();
            if notes.zip(bytes).is_some_and(|(notes, bytes)| notes.hold(until_us, bytes, &spans)) {
                summary.unchanged += 1;
                continue;
            }
            let about = FileMetadata { recorder: self.recorder, step: &name, day: &day_name };
            let job = PartitionJob { step, day, about, files: &files, until_us };
            let path = files.folder().to_owned();
            let slots = match self.request.dry_run {
                true if bytes.is_none() && !has_slots(store, &job)? => continue,
                true => None,
                false => match self.write(store, &job, &spans, summary)? {
                    Some(written) => {
                        let change = written.change;
                        self.ready.push(files.ready(change, written.notes));
                        if change == FileChange::Keep {
                            continue;
                        }
                        Some(written.slots)
                    }
                    None => continue,
                },
            };
            let partition = Partition { step: name.clone(), day: day_name, path };
            (self.each)(&PartitionChange { partition, slots });
        }
        Ok(())
    }

    /// Writes a partition beside the exported file; `None` if there is nothing to be put in place.
    fn write(
        &mut self,
        store: &mut dyn Store,
        job: &PartitionJob<'_>,
        spans: &BTreeMap<i64, SpanDigest>,
        summary: &mut Summary,
    ) -> Result<Option<WrittenPartition>, ExportError> {
        let had_file = job.files.bytes().is_some();
        let (mut file, part) = job.files.begin()?;
        let (slots, horizon_us) = loop {
            match self.fill(store, job, &file)? {
                FillOutcome::Whole { slots, horizon_us } => break (slots, horizon_us),
                // A series that was created in the meantime.
                FillOutcome::Unknown => {
                    self.known.load(store)?;
                    file = job.files.again()?;
                }
            }
        };
        if slots == 0 {
            drop(part);
            summary.removed += u64::from(had_file);
            let change = FileChange::Remove;
            return Ok(had_file.then(|| WrittenPartition { change, slots, notes: String::new() }));
        }
        let bytes = file.metadata().map_err(ExportError::file("read", &job.files.file))?.len();
        let change = part.complete(file)?;
        let notes = Notes::new(job.until_us, bytes, spans).to_text();
        if change == FileChange::Keep {
            summary.unchanged += 1;
        } else {
            summary.written += 1;
            summary.slots += slots;
            summary.bytes += bytes;
            summary.partial += u64::from(!had_file && horizon_us > job.day.start_us());
        }
        Ok(Some(WrittenPartition { change, slots, notes }))
    }

    /// Writes the slots of a day into a file.
    fn fill(
        &mut self,
        store: &mut dyn Store,
        job: &PartitionJob<'_>,
        file: &File,
    ) -> Result<FillOutcome, ExportError> {
        let table = TableFile::new(file, &job.about);
        let table = table.map_err(|e| job.failed(e))?;
        let mut merge = Merge { known: &self.known, job, table, earlier: None, is_open: false };
        let mut failed = None;
        let mut take = |of: OfSeries<'_>| match merge.take(&of) {
            Ok(()) => ControlFlow::Continue(()),
            Err(stop) => {
                failed = Some(stop);
                ControlFlow::Break(())
            }
        };
        let horizon_us = store.scan(job.step, job.day.start_us(), job.until_us, &mut take)?;
        let done = match failed {
            Some(stop) => Err(stop),
            None => merge.finish(horizon_us),
        };
        match done {
            Ok(slots) => Ok(FillOutcome::Whole { slots, horizon_us }),
            Err(Stop::Unknown) => Ok(FillOutcome::Unknown),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// Whether the store has slots of a day; its spans may begin before it and end after it.
fn has_slots(store: &mut dyn Store, job: &PartitionJob<'_>) -> Result<bool, ExportError> {
    let mut found = false;
    let mut take = |of: OfSeries<'_>| {
        found = !of.slots.is_empty();
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(job.step, job.day.start_us(), job.until_us, &mut take)?;
    Ok(found)
}

/// A partition that was written, but not put in place.
struct WrittenPartition {
    change: FileChange,
    slots: u64,
    /// What it was made from.
    notes: String,
}

enum FillOutcome {
    /// Everything is in the file.
    Whole { slots: u64, horizon_us: i64 },
    /// A series is not known yet.
    Unknown,
}

/// Why a scan was ended.
enum Stop {
    Unknown,
    Failed(ExportError),
}

impl From<ExportError> for Stop {
    fn from(error: ExportError) -> Stop {
        Stop::Failed(error)
    }
}

/// The new content of a file: slots of the store, and before them those of the present file that
/// have expired in the store.
struct Merge<'m> {
    known: &'m StoreSeries,
    job: &'m PartitionJob<'m>,
    table: TableFile<&'m File>,
    earlier: Option<EarlierSlots>,
    /// Whether the present file was looked for.
    is_open: bool,
}

impl Merge<'_> {
    fn take(&mut self, of: &OfSeries<'_>) -> Result<(), Stop> {
        self.put_earlier(of.horizon_us, of.series)?;
        self.push(of.series, of.slots)
    }

    /// Writes what has expired of the series up to this one.
    fn put_earlier(&mut self, horizon_us: i64, up_to: i64) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.is_open, true) && horizon_us > self.job.day.start_us() {
            self.earlier = EarlierSlots::open(&self.job.files.file, horizon_us)?;
        }
        while let Some(earlier) = &mut self.earlier
            && let Some(number) = earlier.next_number(&self.known.numbers)?
            && number <= up_to
            && let Some((_, slots)) = earlier.pop()
        {
            self.push(number, &slots)?;
        }
        Ok(())
    }

    fn push(&mut self, number: i64, slots: &[SlotSum]) -> Result<(), Stop> {
        let Some(series) = self.known.by_number.get(&number) else { return Err(Stop::Unknown) };
        let flow = series.spec.kind.flavor() == Flavor::Flow;
        let pushed = self.table.push(&series.identity, flow, slots);
        Ok(pushed.map_err(|e| self.job.failed(e))?)
    }

    fn finish(mut self, horizon_us: i64) -> Result<u64, Stop> {
        self.put_earlier(horizon_us, i64::MAX)?;
        let slots = self.table.len();
        self.table.finish().map_err(|e| self.job.failed(e))?;
        Ok(slots)
    }
}

impl PartitionJob<'_> {
    fn failed(&self, error: parquet::errors::ParquetError) -> ExportError {
        ExportError::file("write", &self.files.file)(io_error(error))
    }
}
