//! `tachograph import`: files of other programs into the record, exactly once.

mod refused_file;
mod result;
mod watch;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use formats::files::{Rrd, Whisper};
use formats::text::{Columns, Csv, Graphite, Influx, Parser, Reader, Statsd};
use formats::{Arrival, FileError, Precision};
use import::{BackfillError, LineStream, Options, RrdMode, Summary, files};
use series::{Kind, Limits, Step};
use store::{Retention, SeriesLimit, Store, StoreError};

use super::maintain::FAR_US;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::import::{Format, ImportFlags, usual_archives};
use crate::flags::series::now_us;
use crate::{output, stores};
use refused_file::RefusedFile;
use result::{ImportResult, name, time};
use watch::Watcher;

/// How often to read a file.
const TRIES_MAX: u32 = 10;

const DAY_US: i64 = 86_400_000_000;

/// 0001-01-01T00:00:00Z in microseconds since 1970.
const YEAR_1_US: i64 = -62_135_596_800_000_000;

pub(crate) fn run(flags: &ImportFlags, global: &GlobalFlags) -> Outcome {
    let formats = flags.files.iter().map(|file| format_of(file, flags));
    let formats = formats.collect::<Result<Vec<_>, _>>()?;
    check_rrd(flags, &formats)?;
    let stop = stage::signals::install().map_err(Failure::new)?;
    let mut store = stores::open(global)?;
    retain(&mut *store, flags, step(flags)?)?;
    let (newest_us, begun_us) = (store.known_times()?.newest_us, now_us());
    let mut all = Summary::default();
    for (file, format) in flags.files.iter().zip(formats) {
        let mut options = options(flags, format)?;
        // A pipe may go on for long; what was imported so far is printed.
        if std::fs::metadata(file).is_ok_and(|found| found.is_file()) {
            options.written_each = None;
        }
        let summary = import_with_retries(&mut *store, file, format, flags, options, global, &stop)
            .map_err(|failure| Failure::new(format!("{}: {failure}", name(file))))?;
        all.add(&summary);
        if summary.stopped {
            output::note("stopped; run the same command to resume");
            break;
        }
    }
    warn_of_ages(&mut *store, &all)?;
    warn_of_clock(flags, newest_us, begun_us, &all);
    let left = all.refused.total() > 0 || all.torn.is_some();
    Ok(if left || all.stopped { Status::VerdictFailed } else { Status::Well })
}

/// The format of a file, from the flag or its name.
fn format_of(file: &Path, flags: &ImportFlags) -> Result<Format, Failure> {
    if let Some(format) = flags.format {
        return Ok(format);
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("csv") => Ok(Format::Csv),
        Some("wsp") => Ok(Format::Whisper),
        Some("xml") => Ok(Format::Rrd),
        _ => match std::fs::metadata(file) {
            Err(error) if file != Path::new("-") => {
                Err(Failure::new(format!("{}: {}", file.display(), unreadable(&error))))
            }
            _ => Err(Failure::new(format!(
                "the format of {} is unknown: add --format graphite, influx, statsd, csv, rrd or \
                 whisper",
                file.display()
            ))),
        },
    }
}

fn unreadable(error: &std::io::Error) -> String {
    format!("cannot be read: {error}")
}

/// Checks whether --rrd is possible for these files.
fn check_rrd(flags: &ImportFlags, formats: &[Format]) -> Result<(), Failure> {
    let made = !flags.archives.is_empty() || flags.rrd_start.is_some();
    let unfit = |format: &Format| match format {
        Format::Statsd | Format::Whisper => flags.rrd,
        Format::Rrd => made,
        Format::Graphite | Format::Influx | Format::Csv => false,
    };
    match formats.iter().find(|format| unfit(format)) {
        None => Ok(()),
        Some(Format::Rrd) => {
            Err(Failure::new("an RRD has its own archives and start: omit --rra and --rrd-start"))
        }
        Some(Format::Statsd) => Err(Failure::new(
            "StatsD counts become intervals, which rrdtool does not support: omit --rrd",
        )),
        Some(_) => Err(Failure::new("a whisper file has no updates for rrdtool: omit --rrd")),
    }
}

fn options(flags: &ImportFlags, format: Format) -> Result<Options, Failure> {
    let us = |nanos: base::Nanos| i64::try_from(nanos.0 / 1_000).unwrap_or(i64::MAX);
    let step = step(flags)?;
    let heartbeat_us = flags.heartbeat.map_or(2 * step.us(), us);
    let (lateness_us, lane) = (us(flags.lateness), flags.lane.clone());
    let archives = || match flags.archives.as_slice() {
        [] => usual_archives(),
        archives => archives.to_vec(),
    };
    // An RRDtool file specifies its own archives.
    let rrd = (flags.rrd && format != Format::Rrd)
        .then(|| RrdMode { archives: archives(), start_us: flags.rrd_start });
    let most = i64::try_from(flags.max_series).unwrap_or(i64::MAX);
    let series =
        SeriesLimit { series: most.max(SeriesLimit::DEFAULT.series), ..SeriesLimit::DEFAULT };
    // Every database supports these times.
    let limits = Limits { earliest_us: YEAR_1_US, ..Limits::DEFAULT };
    let (whole, head_bytes) = (flags.complete, flags.head_memory);
    Ok(Options {
        heartbeat_us,
        lateness_us,
        lane,
        limits,
        series,
        rrd,
        whole,
        head_bytes,
        ..Options::new(step)
    })
}

fn step(flags: &ImportFlags) -> Result<Step, Failure> {
    let us = i64::try_from(flags.step.0 / 1_000).unwrap_or(i64::MAX);
    Step::from_micros(us)
        .ok_or_else(|| Failure::new("--step must be from a microsecond to ten years"))
}

/// Ensures that the step has a retention.
///
/// Imported data is kept for ever by default: a user who imports years of history does not expect
/// it to expire.
fn retain(store: &mut dyn Store, flags: &ImportFlags, step: Step) -> Result<(), Failure> {
    let mut wanted = flags.retentions.clone();
    let known = store.retentions()?;
    let has = |retention: &Retention| retention.step == step;
    if !known.iter().chain(&wanted).any(has) {
        wanted.push(Retention { step, age_us: None });
        let usual = Retention::usual().into_iter().map(|usual| usual.step);
        let coarser = usual.filter(|coarser| step.divides(*coarser) && *coarser != step);
        if known.is_empty() && flags.retentions.is_empty() {
            wanted.extend(coarser.map(|step| Retention { step, age_us: None }));
        }
    }
    if !wanted.is_empty() {
        store.retain(&wanted)?;
    }
    Ok(())
}

/// Warns if some of the data is older than its retention.
fn warn_of_ages(store: &mut dyn Store, summary: &Summary) -> Result<(), Failure> {
    let Some((from_us, _)) = summary.span_us else { return Ok(()) };
    let ages = store.retentions()?.into_iter().map(|retention| retention.age_us);
    let Some(longest_us) = ages.collect::<Option<Vec<_>>>().and_then(|ages| ages.into_iter().max())
    else {
        return Ok(());
    };
    if from_us < now_us().saturating_sub(longest_us) {
        output::note(&format!(
            "the data begin at {}, but the longest retention is {} days, so they will be dropped; \
             to keep them: --retention 1h:forever",
            time(from_us),
            longest_us / DAY_US
        ));
    }
    Ok(())
}

/// Warns if lines without a time may have got that of a wrong clock: one that is far ahead of what was
/// recorded before.
fn warn_of_clock(flags: &ImportFlags, newest_us: Option<i64>, begun_us: i64, summary: &Summary) {
    let (Some(newest_us), Some((_, to_us)), None) = (newest_us, summary.span_us, flags.at) else {
        return;
    };
    let ahead_us = begun_us.saturating_sub(newest_us);
    if to_us >= begun_us && ahead_us > FAR_US {
        output::note(&format!(
            "the data end now, at {}, but the record ended {} days earlier: lines without a time got \
             this machine's time; if its clock is wrong, set it, or use --at",
            time(to_us),
            ahead_us / DAY_US
        ));
    }
}

/// Imports a file, and again if that can help: what was written stays, and the file is read from
/// the start.
fn import_with_retries(
    store: &mut dyn Store,
    file: &Path,
    format: Format,
    flags: &ImportFlags,
    mut options: Options,
    global: &GlobalFlags,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    let mut tries = 0;
    loop {
        let is_again = file != Path::new("-") && tries < TRIES_MAX;
        match one(store, file, format, flags, &options, global, stop)? {
            // In a batch of many pieces it is unknown which lines to refuse.
            Err(BackfillError::Store(StoreError::Overflow { .. }))
                if is_again && options.head_bytes > 0 =>
            {
                options.head_bytes = 0;
            }
            // Another import of the same file was faster.
            Err(BackfillError::Store(StoreError::Overtaken)) if is_again => {}
            done => return done.map_err(broken_off),
        }
        tries += 1;
    }
}

/// Imports a file; the inner error is that of the import itself.
fn one(
    store: &mut dyn Store,
    file: &Path,
    format: Format,
    flags: &ImportFlags,
    options: &Options,
    global: &GlobalFlags,
    stop: &Arc<AtomicBool>,
) -> Result<Result<Summary, BackfillError>, Failure> {
    let (input, size) = open(file, flags.max_unpacked.0)?;
    let read = Arc::new(AtomicU64::new(0));
    let mut stream =
        formats::open(CountingReader { input, read: read.clone() }, flags.max_unpacked.0)?.stream;
    let mut header = Vec::new();
    if format == Format::Csv {
        (header, stream) = with_header(stream)?;
    }
    let refused_file = flags.refused.clone().unwrap_or_else(|| beside(file));
    let refused_file = RefusedFile::new(refused_file, header, flags.max_refused.0);
    let mut watcher = Watcher::new(refused_file, stop.clone(), read, size, global.quiet);
    let imported = match format {
        Format::Rrd => {
            let rrd = Rrd::read(stream)?;
            if !rrd.left_out.is_empty() {
                output::note(&format!(
                    "{}: omitted {}: predictions are not measurements",
                    name(file),
                    counted(&rrd.left_out)
                ));
            }
            let fields = files::of_rrd(&rrd, &measurement(file, flags), &flags.tags, flags.rrd);
            drop(rrd);
            files::import(store, &fields?, options, now_us(), &mut watcher)
        }
        Format::Whisper => {
            let whisper = Whisper::read(stream)?;
            let field = files::of_whisper(&whisper, &measurement(file, flags), &flags.tags)?;
            let left = whisper.expired + whisper.not_numbers;
            if left > 0 {
                output::note(&format!(
                    "{}: {} points had expired from their archive; {} are NaN",
                    file.display(),
                    whisper.expired,
                    whisper.not_numbers
                ));
            }
            files::import(store, &[field], options, now_us(), &mut watcher)
        }
        _ => {
            let (parser, meaning) = parser(format, file, flags, options.step);
            let lines = LineStream {
                input: stream,
                reader: Reader::new(parser, options.limits, flags.max_series),
                arrival: Arrival { now_us: now_us(), at_us: flags.at },
                meaning,
            };
            import::import(store, lines, options, &mut watcher)
        }
    };
    let summary = match imported {
        Ok(summary) => summary,
        Err(error) => return Ok(Err(error)),
    };
    // Packs pieces that were too small to be packed at once; old slots rarely change again.
    store
        .seal(now_us().saturating_sub(store::SEALED_AFTER_US))
        .map_err(|error| broken_off(error.into()))?;
    watcher.finish();
    let width = output::style(global.color).width;
    output::print(&ImportResult { file, summary: &summary, watcher: &watcher, width }.text())?;
    Ok(Ok(summary))
}

/// Archives by their consolidation: `2 archives of HWPREDICT, 1 of FAILURES`.
fn counted(names: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let mut parts = counts.into_iter().map(|(name, count)| {
        let archives = if count == 1 { "archive" } else { "archives" };
        format!("{count} {archives} of {name}")
    });
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |all, part| format!("{all}, {part}"))
}

/// An import that ended before its file did.
fn broken_off(error: BackfillError) -> Failure {
    match error {
        BackfillError::Store(_) | BackfillError::KeepRefused(_) => Failure::new(format!(
            "{error}; the imported part is kept; run the same command to resume"
        )),
        error => error.into(),
    }
}

/// Opens a file; a compressed one is checked completely before anything is imported.
fn open(file: &Path, unpacked_max: u64) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let mut opened = File::open(file).map_err(|error| Failure::new(unreadable(&error)))?;
    let size = opened.metadata()?;
    if size.is_dir() {
        return Err(Failure::new("it is a folder; name its files"));
    }
    if size.is_file() {
        formats::check(opened.try_clone()?, unpacked_max)?;
        opened.rewind()?;
    }
    Ok((Box::new(opened), Some(size.len())))
}

/// A CSV file's header, which the refused lines need too, and the whole stream.
fn with_header(mut stream: Box<dyn BufRead>) -> Result<(Vec<u8>, Box<dyn BufRead>), FileError> {
    let mut start = Vec::new();
    loop {
        let from = start.len();
        stream.by_ref().take(formats::LINE_MAX as u64).read_until(b'\n', &mut start)?;
        let line = &start[from..];
        if line.is_empty() {
            return Err(FileError::NoHeader);
        }
        if !line.trim_ascii().is_empty() && !line.trim_ascii_start().starts_with(b"#") {
            // A quoted name may contain line ends; quotes inside it come in pairs.
            while start[from..].iter().filter(|byte| **byte == b'"').count() % 2 == 1
                && stream.by_ref().take(formats::LINE_MAX as u64).read_until(b'\n', &mut start)? > 0
                && start.len() - from < formats::LINE_MAX
            {}
            let header = start[from..].trim_ascii_end().to_vec();
            return Ok((header, Box::new(io::Cursor::new(start).chain(stream))));
        }
    }
}

fn beside(file: &Path) -> std::path::PathBuf {
    if file == Path::new("-") {
        return "stdin.refused".into();
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".refused");
    name.into()
}

/// A parser, and a text that identifies all options that affect its result.
fn parser(
    format: Format,
    file: &Path,
    flags: &ImportFlags,
    step: Step,
) -> (Box<dyn Parser>, String) {
    let kind = flags.kind.unwrap_or(Kind::Gauge);
    let (parser, meaning): (Box<dyn Parser>, String) = match format {
        Format::Influx => {
            let precision = flags.precision.unwrap_or(Precision::Nanoseconds);
            let meaning = format!("influx {} {}", kind_name(kind), precision.name());
            (Box::new(Influx::new(kind, precision)), meaning)
        }
        Format::Statsd => (Box::new(Statsd::new(step)), format!("statsd {}", step.us())),
        Format::Csv => csv(file, flags),
        _ => (Box::new(Graphite::new(kind)), format!("graphite {}", kind_name(kind))),
    };
    let at = flags.at.map_or_else(String::new, |us| format!("\nat {us}"));
    let rrd = if flags.rrd { "\nrrd" } else { "" };
    (parser, meaning + &at + rrd)
}

fn csv(file: &Path, flags: &ImportFlags) -> (Box<dyn Parser>, String) {
    let columns = Columns {
        start: flags.csv.start_column.clone(),
        end: flags.csv.end_column.clone(),
        time: flags.csv.time_column.clone(),
        values: flags.csv.values.clone(),
        separator: flags.csv.separator,
        ..Columns::default()
    };
    let precision = flags.precision.unwrap_or(Precision::Seconds);
    let measurement = measurement(file, flags);
    let kind = flags.kind.map_or("default", kind_name);
    let Columns { start, end, time, values, separator, .. } = &columns;
    let values = values.join("\n");
    let meaning = format!(
        "csv {kind} {}\n{measurement}\n{start}\n{end}\n{time}\n{separator}\n{values}",
        precision.name()
    );
    (Box::new(Csv::new(columns, measurement, flags.kind, precision)), meaning)
}

/// The name of a kind, as --kind reads it.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Derive => "derive",
        Kind::Absolute => "absolute",
        Kind::Total => "total",
        Kind::Count => "count",
        Kind::Level => "level",
    }
}

/// The measurement of a file without one: its path below the root, with dots for slashes, or its
/// name without extension.
fn measurement(file: &Path, flags: &ImportFlags) -> String {
    if let Some(measurement) = &flags.measurement {
        return measurement.clone();
    }
    let below = flags.root.as_ref().and_then(|root| file.strip_prefix(root).ok());
    let path = below.unwrap_or_else(|| Path::new(file.file_name().unwrap_or_default()));
    let text = path.to_string_lossy();
    let text = text.strip_suffix(".gz").unwrap_or(&text);
    let text = [".wsp", ".csv", ".xml", ".rrd"]
        .iter()
        .find_map(|end| text.strip_suffix(end))
        .unwrap_or(text);
    if text == "-" { "stdin".to_owned() } else { text.trim_matches('/').replace('/', ".") }
}

/// A stream that counts its bytes.
struct CountingReader {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
