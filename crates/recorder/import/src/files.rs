//! Import of whole files with archives.
//!
//! Each field of a file becomes a series of intervals. A row from a coarse archive is written at
//! the coarsest step that contains it as whole slots, so that years of hours do not become slots of
//! seconds.
//!
//! A ring drops its oldest rows, and a later copy of a file repeats most of an earlier one. So a
//! series continues from the end of its lane: the same file again changes nothing, a later copy
//! adds newer rows, and an interrupted import continues.
//!
//! Of earlier time, a row is written if nothing is known of it (a filled gap), or if it replaces a
//! completely known row, stored as a single uncorrected interval, with another value (a rewritten
//! row). Every other row is known already; a coarse one says less than the fine ones that were
//! there before it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::PlacedUpdate;
use formats::files::{Aggregation, ResumedSource, Rrd, Stretch, Whisper};
use formats::{Book, FileError, Line, Malformed, Reason, SeriesName, Update};
use series::{Accumulator, Integral, Interval, Kind, SECOND_US, Spec, Step};
use store::{Fingerprint, NewSeries, Store};

use crate::recorder::Recorder;
use crate::{BackfillError, Options, RefusedLine, Summary, Watch};

/// Rows per batch.
const PIECE: usize = 10_000;

/// A series of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: SeriesName,
    /// Its spec on creation; the step is that of the file.
    pub spec: Spec,
    /// The known values, in order of time.
    pub stretches: Vec<Stretch>,
    /// The same in RRDtool's own terms, for a series in RRD mode.
    pub rrd: Option<ResumedSource>,
}

/// The series of an RRD: rates and levels per second, as RRDtool stores them. With `resume`, the
/// series of the sources themselves also continue in RRDtool's own arithmetic.
///
/// # Errors
/// [`FileError::Name`] for an invalid measurement or tags, [`FileError::NotADump`] for a source
/// that cannot be resumed.
pub fn of_rrd(
    rrd: &Rrd,
    measurement: &str,
    tags: &[(String, String)],
    resume: bool,
) -> Result<Vec<Field>, FileError> {
    let fields = rrd.extract().into_iter().map(|extracted| {
        let source = &rrd.sources[extracted.source];
        let resumed = if resume && extracted.field == source.name {
            rrd.resume(extracted.source)?
        } else {
            None
        };
        let name = SeriesName::new(measurement, tags.iter().cloned(), extracted.field)?;
        let spec = rrd.spec(source, Kind::Level);
        Ok(Field { name, spec, stretches: extracted.stretches, rrd: resumed })
    });
    fields.collect()
}

/// The series of a whisper file: levels, or counts if it sums whole numbers. Sums that are not
/// whole become rates per second.
///
/// # Errors
/// [`Malformed`] for an invalid measurement or tags.
pub fn of_whisper(
    whisper: &Whisper,
    measurement: &str,
    tags: &[(String, String)],
) -> Result<Field, Malformed> {
    let name = SeriesName::new(measurement, tags.iter().cloned(), "value")?;
    let kind = if whisper.holds_counts() { Kind::Count } else { Kind::Level };
    let mut stretches = whisper.extract();
    if whisper.aggregation == Aggregation::Sum && kind == Kind::Level {
        for stretch in &mut stretches {
            let us = stretch.end_us - stretch.start_us;
            stretch.value *= SECOND_US as f64 / us as f64;
        }
    }
    let finest_s = whisper.archives.iter().map(|archive| i64::from(archive.step_s)).min();
    let step = finest_s.and_then(Step::from_secs).ok_or(Malformed::BadTime)?;
    Ok(Field { name, spec: Spec::new(kind, step), stretches, rrd: None })
}

/// Imports the series of a file.
///
/// `options` determines the lane, the horizons and the limits; the steps are those retentions of
/// the store that suit the file best, or else that of `options`.
///
/// # Errors
/// [`BackfillError`]. What was written stays, and the same import continues from there.
pub fn import(
    store: &mut dyn Store,
    fields: &[Field],
    options: &Options,
    now_us: i64,
    watch: &mut dyn Watch,
) -> Result<Summary, BackfillError> {
    let retentions = store.retentions()?;
    let horizons_us = retentions
        .iter()
        .filter_map(|retention| Some((retention.step, now_us.saturating_sub(retention.age_us?))));
    let horizons_us = horizons_us.collect();
    let steps = retentions.into_iter().map(|retention| retention.step).collect();
    Recorder::run(store, options.clone(), now_us, |recorder| {
        let mut import = Import {
            recorder,
            book: Book::new(fields.len()),
            options,
            steps,
            horizons_us,
            now_us,
            watch,
            summary: Summary::default(),
        };
        for field in fields {
            import.field(field)?;
            import.summary.series = import.book.len();
            import.watch.progress(&import.summary);
            if import.summary.stopped {
                break;
            }
        }
        import.watch.writing();
        import.summary.unstored += import.recorder.finish()?;
        Ok(import.summary)
    })
}

/// A row that the store does not have.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Its index in the field.
    place: usize,
    start_us: i64,
    end_us: i64,
    /// The interval in the store that it replaces.
    instead: Option<Interval>,
}

impl Row {
    /// The row, unless these ordered slots contain it.
    fn unless_known(
        self,
        stretch: &Stretch,
        kind: Kind,
        slots: &[(i64, Accumulator)],
    ) -> Option<Row> {
        let first = slots.partition_point(|(slot_us, _)| *slot_us < self.start_us);
        let behind = slots.partition_point(|(slot_us, _)| *slot_us < self.end_us);
        let mut known = Accumulator::EMPTY;
        slots[first..behind].iter().for_each(|(_, slot)| known.merge(slot));
        if known.is_void() {
            return Some(self);
        }
        let us = self.end_us - self.start_us;
        // The rest of a coarse row before a finer archive may be as short as a finer row.
        if us != stretch.row_us {
            return None;
        }
        if known.n != 1 || known.covered_us != us || known.approximate {
            return None;
        }
        let had = match kind {
            Kind::Count => known.integral.as_f64(),
            _ => known.integral.as_f64() / (us as f64 / SECOND_US as f64),
        };
        let value = if kind == Kind::Count { stretch.value.round() } else { stretch.value };
        // A level was multiplied by its time and is divided by it again.
        if (had - value).abs() <= 1e-12 * had.abs().max(value.abs()) {
            return None;
        }
        let instead = match (kind, known.integral) {
            (Kind::Count, Integral::Count(count)) => {
                Interval::count(self.start_us, self.end_us, count)
            }
            _ => Interval::level(self.start_us, self.end_us, had),
        };
        Some(Row { instead: Some(instead.ok()?), ..self })
    }

    fn new((place, stretch): (usize, &Stretch)) -> Row {
        let Stretch { start_us, end_us, .. } = *stretch;
        Row { place, start_us, end_us, instead: None }
    }
}

struct Import<'r, 's, 'w> {
    recorder: &'r mut Recorder<'s>,
    book: Book,
    options: &'w Options,
    /// The steps of the store's retentions, in order.
    steps: Vec<Step>,
    /// Start of what each retention with an age keeps, in microseconds since the epoch.
    horizons_us: BTreeMap<Step, i64>,
    now_us: i64,
    watch: &'w mut dyn Watch,
    summary: Summary,
}

impl Import<'_, '_, '_> {
    fn field(&mut self, field: &Field) -> Result<(), BackfillError> {
        let Ok(number) = self.book.number(field.name.clone()) else { return Ok(()) };
        let wanted = self.wanted(field);
        let made = self.recorder.make(number, wanted)?;
        let (step, newest_us) = match &made {
            Ok(series) => (series.spec.step, self.recorder.newest_us(series.id)?),
            Err(_) => (self.options.step, None),
        };
        let newest_us = newest_us.unwrap_or(i64::MIN);
        let rows = match &made {
            Ok(series) => self.unknown_rows(field, series.id, step, newest_us)?,
            Err(_) => field.stretches.iter().enumerate().map(Row::new).collect(),
        };
        let known = (field.stretches.len() - rows.len()) as u64;
        self.summary.lines += known;
        self.summary.known += known;
        for piece in rows.chunks(PIECE) {
            if self.watch.stop() {
                self.summary.stopped = true;
                return Ok(());
            }
            self.piece(field, number, step, piece)?;
        }
        match (&field.rrd, made) {
            (Some(resumed), Ok(series)) if series.rrd.is_some() => {
                let mut at = Fingerprint::new(&format!("rrd\nlane {}", self.options.lane));
                at.add(field.name.to_string().as_bytes());
                at.add(&resumed.state.last_us().to_be_bytes());
                self.recorder.resume(at.writer("state"), series.id, resumed)
            }
            _ => Ok(()),
        }
    }

    /// How to create a series: with the coarsest step that divides the file's.
    fn wanted(&self, field: &Field) -> NewSeries {
        let divides = |step: &&Step| step.divides(field.spec.step);
        let step = self.steps.iter().rfind(divides).copied().unwrap_or(self.options.step);
        let wanted = self.options.wanted(&field.name, field.spec.kind);
        let rrd = field.rrd.as_ref().map(|resumed| resumed.definition.clone());
        NewSeries { spec: Spec { step, ..field.spec }, rrd, ..wanted }
    }

    /// The rows of a file that the lane of a series does not have.
    fn unknown_rows(
        &mut self,
        field: &Field,
        id: i64,
        step: Step,
        newest_us: i64,
    ) -> Result<Vec<Row>, BackfillError> {
        let mut rows = Vec::new();
        let mut known: BTreeMap<Step, Vec<(i64, Accumulator)>> = BTreeMap::new();
        let from_us = field.stretches.first().map_or(0, |first| first.start_us);
        for row in field.stretches.iter().enumerate().map(Row::new) {
            let Row { start_us, end_us, .. } = row;
            if end_us > newest_us {
                rows.push(Row { start_us: start_us.max(newest_us), ..row });
                continue;
            }
            let step = self.widest(step, start_us, end_us);
            let whole = step.slot_of(start_us) == start_us && step.slot_of(end_us) == end_us;
            if !whole || self.horizons_us.get(&step).is_some_and(|kept_us| start_us < *kept_us) {
                continue;
            }
            let slots = match known.entry(step) {
                Entry::Occupied(slots) => slots.into_mut(),
                Entry::Vacant(none) => {
                    none.insert(self.recorder.slots(step, id, from_us, newest_us)?)
                }
            };
            rows.extend(row.unless_known(&field.stretches[row.place], field.spec.kind, slots));
        }
        Ok(rows)
    }

    fn piece(
        &mut self,
        field: &Field,
        number: formats::Series,
        step: Step,
        piece: &[Row],
    ) -> Result<(), BackfillError> {
        let mut at = Fingerprint::new(&format!("file\nlane {}", self.options.lane));
        at.add(field.name.to_string().as_bytes());
        let (mut updates, mut refused) = (Vec::new(), Vec::new());
        for (place, row) in piece.iter().enumerate() {
            let stretch = &field.stretches[row.place];
            for part in [row.start_us as u64, row.end_us as u64, stretch.value.to_bits()] {
                at.add(&part.to_be_bytes());
            }
            if row.instead.is_some() {
                // A row may change back and forth, and each time counts as a new batch.
                at.add(&self.now_us.to_be_bytes());
            }
            match self.update(field.spec.kind, row.start_us, stretch) {
                Ok(update) => {
                    let step = Some(self.widest(step, row.start_us, row.end_us));
                    let instead = row.instead;
                    updates.push(PlacedUpdate { place, series: number, update, instead, step });
                }
                Err(reason) => refused.push((place, reason)),
            }
        }
        self.summary.lines += piece.len() as u64;
        let (watch, summary) = (&mut *self.watch, &mut self.summary);
        let mut parsed = Some(refused);
        let mut refuse = |more: &[(usize, Reason)]| -> Result<(), BackfillError> {
            for (place, reason) in parsed.take().unwrap_or_default().iter().chain(more) {
                summary.refused.add(*reason);
                summary.refused_lines += 1;
                let row = &piece[*place];
                let text = shown(field, &field.stretches[row.place]);
                let line = Line {
                    number: row.place as u64 + 1,
                    bytes: text.as_bytes(),
                    too_long: false,
                    first: true,
                    last: true,
                    torn: false,
                };
                watch
                    .refused(RefusedLine { line, reasons: &[*reason] })
                    .map_err(BackfillError::KeepRefused)?;
            }
            watch.settle().map_err(BackfillError::KeepRefused)
        };
        let writer = at.writer("rows");
        if self.recorder.knows(writer)? {
            // Rows that are refused each time, or that have expired since.
            let refused = self.recorder.judge(&self.book, &updates)?;
            return refuse(&refused);
        }
        let written = self.recorder.write(&[writer], &self.book, &updates, refuse)?;
        self.summary.add(&written);
        Ok(())
    }

    /// The update for a stretch from `start_us` on.
    fn update(&self, kind: Kind, start_us: i64, stretch: &Stretch) -> Result<Update, Reason> {
        let update = match kind {
            Kind::Count => {
                let us = stretch.end_us - stretch.start_us;
                let left = (stretch.end_us - start_us) as f64 / us as f64;
                Update::count(start_us, stretch.end_us, (stretch.value * left).round() as i64)?
            }
            _ => Update::level(start_us, stretch.end_us, stretch.value)?,
        };
        Ok(update.within(&self.options.limits, self.now_us)?)
    }

    /// The coarsest step in which a stretch consists of whole slots.
    fn widest(&self, step: Step, start_us: i64, end_us: i64) -> Step {
        let holds = |wider: &&Step| {
            let aligned = |us: i64| wider.slot_of(us) == us;
            step.divides(**wider) && aligned(start_us) && aligned(end_us)
        };
        self.steps.iter().rfind(holds).copied().unwrap_or(step)
    }
}

/// A refused stretch as CSV with start and end.
fn shown(field: &Field, stretch: &Stretch) -> String {
    let seconds = |us: i64| format!("{}.{:06}", us.div_euclid(SECOND_US), us.rem_euclid(SECOND_US));
    let (start, end) = (seconds(stretch.start_us), seconds(stretch.end_us));
    format!("{},{start},{end},{}", field.name, stretch.value)
}
