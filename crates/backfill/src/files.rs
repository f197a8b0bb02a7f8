//! Whole files, with their archives.
//!
//! Each field of a file becomes a series of intervals. A row that only a coarse
//! archive has is written at the coarsest step that holds it whole, so that years
//! of hours do not become slots of seconds.
//!
//! A ring forgets its oldest rows as it takes new ones, and a later copy of a file
//! says most of what an earlier copy said. So a series goes on from the end of
//! what its lane has already: the same file again changes nothing, a later copy
//! adds what is newer, and an import that was cut off goes on.

use ingest::files::{Aggregation, Resumed, Rrd, Stretch, Whisper};
use ingest::{Book, FileError, Line, Malformed, Reason, SeriesName, Update};
use series::{Kind, SECOND_US, Spec, Step};
use slots::{NewSeries, Store};

use crate::recorder::{Placed, Recorder};
use crate::{BackfillError, Fingerprint, Options, Refused, Summary, Watch};

/// How many rows are written at once.
const PIECE: usize = 10_000;

/// A series of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: SeriesName,
    /// How it is made on first sight; the step is that of the file.
    pub spec: Spec,
    /// What is known, in order of time.
    pub stretches: Vec<Stretch>,
    /// The same in RRDtool's own terms, for a series that must show what RRDtool would.
    pub rrd: Option<Resumed>,
}

/// The series of an RRD: rates and levels per second, as RRDtool keeps them. With
/// `resume`, those of the sources themselves also go on in RRDtool's own arithmetic.
///
/// # Errors
/// [`FileError::Name`] for a measurement or tags that cannot be names,
/// [`FileError::NotADump`] for a source that cannot be resumed.
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

/// The series of a whisper file: levels, or counts where it sums whole numbers.
/// Sums that are not whole become rates per second.
///
/// # Errors
/// [`Malformed`] for a measurement or tags that cannot be names.
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
/// `options` decides the lane, the horizons and the limits; the steps are those of
/// the store's retentions that suit the file best, or else that of `options`.
///
/// # Errors
/// [`BackfillError`]. What was written stays, and the same import goes on from there.
pub fn import(
    store: &mut dyn Store,
    fields: &[Field],
    options: &Options,
    now_us: i64,
    watch: &mut dyn Watch,
) -> Result<Summary, BackfillError> {
    let steps = store.retentions()?.into_iter().map(|retention| retention.step).collect();
    let mut import = Import {
        recorder: Recorder::new(store, options.clone(), now_us)?,
        book: Book::new(fields.len()),
        options,
        steps,
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
    Ok(import.summary)
}

struct Import<'s, 'w> {
    recorder: Recorder<'s>,
    book: Book,
    options: &'w Options,
    /// The steps of the store's retentions, in order.
    steps: Vec<Step>,
    now_us: i64,
    watch: &'w mut dyn Watch,
    summary: Summary,
}

impl Import<'_, '_> {
    fn field(&mut self, field: &Field) -> Result<(), BackfillError> {
        let Ok(number) = self.book.number(field.name.clone()) else { return Ok(()) };
        let wanted = self.wanted(field);
        let made = self.recorder.make(number, wanted)?;
        let (step, newest_us) = match &made {
            Ok(series) => (series.spec.step, self.recorder.newest_us(series.id)?),
            Err(_) => (self.options.step, None),
        };
        let newest_us = newest_us.unwrap_or(i64::MIN);
        let known = field.stretches.partition_point(|stretch| stretch.end_us <= newest_us);
        self.summary.lines += known as u64;
        self.summary.known += known as u64;
        for (i, piece) in field.stretches[known..].chunks(PIECE).enumerate() {
            if self.watch.stop() {
                self.summary.stopped = true;
                return Ok(());
            }
            self.piece(field, number, step, known + i * PIECE, piece, newest_us)?;
        }
        match (&field.rrd, made) {
            (Some(resumed), Ok(series)) if series.rrd.is_some() => {
                let mut at = Fingerprint::new(&format!("rrd\nlane {}", self.options.lane));
                at.add(field.name.to_string().as_bytes());
                at.add(&resumed.state.last_us().to_be_bytes());
                Ok(self.recorder.resume(at.writer("state"), series.id, resumed)?)
            }
            _ => Ok(()),
        }
    }

    /// How a series is made: with the coarsest step that divides the file's.
    fn wanted(&self, field: &Field) -> NewSeries {
        let divides = |step: &&Step| step.divides(field.spec.step);
        let step = self.steps.iter().rfind(divides).copied().unwrap_or(self.options.step);
        let wanted = self.options.wanted(&field.name, field.spec.kind);
        let rrd = field.rrd.as_ref().map(|resumed| resumed.definition.clone());
        NewSeries { spec: Spec { step, ..field.spec }, rrd, ..wanted }
    }

    fn piece(
        &mut self,
        field: &Field,
        number: ingest::Series,
        step: Step,
        first: usize,
        piece: &[Stretch],
        newest_us: i64,
    ) -> Result<(), BackfillError> {
        let mut at = Fingerprint::new(&format!("file\nlane {}", self.options.lane));
        at.add(field.name.to_string().as_bytes());
        let (mut updates, mut refused) = (Vec::new(), Vec::new());
        for (place, stretch) in piece.iter().enumerate() {
            let start_us = stretch.start_us.max(newest_us);
            for part in [start_us as u64, stretch.end_us as u64, stretch.value.to_bits()] {
                at.add(&part.to_be_bytes());
            }
            match self.update(field.spec.kind, start_us, stretch) {
                Ok(update) => {
                    let step = Some(self.widest(step, start_us, stretch.end_us));
                    updates.push(Placed { place, series: number, update, step });
                }
                Err(reason) => refused.push((place, reason)),
            }
        }
        self.summary.lines += piece.len() as u64;
        let (watch, summary) = (&mut *self.watch, &mut self.summary);
        let mut parsed = Some(refused);
        let refuse = |more: &[(usize, Reason)]| -> Result<(), BackfillError> {
            for (place, reason) in parsed.take().unwrap_or_default().iter().chain(more) {
                summary.refused.add(*reason);
                summary.refused_lines += 1;
                let text = shown(field, &piece[*place]);
                let line = Line {
                    number: (first + place + 1) as u64,
                    bytes: text.as_bytes(),
                    too_long: false,
                    first: true,
                    last: true,
                };
                watch
                    .refused(Refused { line, reasons: &[*reason] })
                    .map_err(BackfillError::Aside)?;
            }
            watch.settle().map_err(BackfillError::Aside)
        };
        let writer = at.writer("rows");
        let written = self.recorder.write(writer, &self.book, &updates, refuse)?;
        self.summary.updates += written.updates;
        self.summary.expired += written.expired;
        if let Some((from_us, to_us)) = written.span_us {
            self.summary.widen(from_us, to_us);
        }
        Ok(())
    }

    /// What a stretch says from `start_us` on.
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

    /// The coarsest step of which a stretch is whole slots.
    fn widest(&self, step: Step, start_us: i64, end_us: i64) -> Step {
        let holds = |wider: &&Step| {
            let aligned = |us: i64| wider.slot_of(us) == us;
            step.divides(**wider) && aligned(start_us) && aligned(end_us)
        };
        self.steps.iter().rfind(holds).copied().unwrap_or(step)
    }
}

/// A stretch as it is kept aside when it is refused: CSV with start and end.
fn shown(field: &Field, stretch: &Stretch) -> String {
    let seconds = |us: i64| format!("{}.{:06}", us.div_euclid(SECOND_US), us.rem_euclid(SECOND_US));
    let (start, end) = (seconds(stretch.start_us), seconds(stretch.end_us));
    format!("{},{start},{end},{}", field.name, stretch.value)
}
