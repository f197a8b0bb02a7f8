//! `tachograph import`: files of other programs into the record, exactly once.

mod aside;
mod watch;

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use backfill::{Lines, Options, Summary, files};
use ingest::files::{Rrd, Whisper};
use ingest::text::{Columns, Csv, Graphite, Influx, Parser, Reader, Statsd};
use ingest::{Arrival, FileError, Precision};
use series::{Kind, Limits, Step};
use slots::{Retention, Store};

use crate::failure::{Failure, Outcome, Status};
use crate::flags::Global;
use crate::flags::import::{Format, ImportFlags};
use crate::flags::series::now_us;
use crate::{output, store};
use aside::Aside;
use watch::Watcher;

pub(crate) fn run(flags: &ImportFlags, global: &Global) -> Outcome {
    let formats = flags.files.iter().map(|file| format_of(file, flags));
    let formats = formats.collect::<Result<Vec<_>, _>>()?;
    let stop = stage::signals::install().map_err(Failure::new)?;
    let mut store = store::open(global)?;
    let options = options(flags)?;
    retain(&mut *store, flags, options.step)?;
    let mut all = Summary::default();
    for (file, format) in flags.files.iter().zip(formats) {
        let summary = one(&mut *store, file, format, flags, &options, global, &stop)
            .map_err(|failure| Failure::new(format!("{}: {failure}", file.display())))?;
        all.add(&summary);
        if summary.stopped {
            output::note("stopped; the same command goes on from here");
            break;
        }
    }
    warn_of_ages(&mut *store, &all)?;
    Ok(if all.refused.total() > 0 || all.stopped { Status::VerdictFailed } else { Status::Well })
}

/// What a file holds, by what was said or by its name.
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
        _ => Err(Failure::new(format!(
            "the name of {} does not say what is in it: give --format graphite, influx, statsd, csv, rrd or whisper",
            file.display()
        ))),
    }
}

fn options(flags: &ImportFlags) -> Result<Options, Failure> {
    let us = |nanos: base::Nanos| i64::try_from(nanos.0 / 1_000).unwrap_or(i64::MAX);
    let step = Step::from_micros(us(flags.step))
        .ok_or_else(|| Failure::new("--step must be from a microsecond to ten years"))?;
    let heartbeat_us = flags.heartbeat.map_or(2 * step.us(), us);
    let (lateness_us, lane) = (us(flags.lateness), flags.lane.clone());
    Ok(Options { heartbeat_us, lateness_us, lane, ..Options::new(step) })
}

/// Sees to it that there is a retention of the step.
fn retain(store: &mut dyn Store, flags: &ImportFlags, step: Step) -> Result<(), Failure> {
    let mut wanted = flags.retentions.clone();
    let known = store.retentions()?;
    if known.is_empty() && wanted.is_empty() {
        wanted = Retention::usual();
    }
    let has = |retention: &Retention| retention.step == step;
    if !known.iter().any(has) && !wanted.iter().any(has) {
        wanted.push(Retention { step, age_us: None });
    }
    if !wanted.is_empty() {
        store.retain(&wanted)?;
    }
    Ok(())
}

/// Says so when what was written is older than what is kept.
fn warn_of_ages(store: &mut dyn Store, summary: &Summary) -> Result<(), Failure> {
    let Some((from_us, _)) = summary.span_us else { return Ok(()) };
    let ages = store.retentions()?.into_iter().map(|retention| retention.age_us);
    let Some(longest_us) = ages.collect::<Option<Vec<_>>>().and_then(|ages| ages.into_iter().max())
    else {
        return Ok(());
    };
    if from_us < now_us().saturating_sub(longest_us) {
        output::note(&format!(
            "the data begin at {}, and nothing is kept longer than {} days: they will be dropped when old slots are; to keep them: --retention 1h:forever",
            time(from_us),
            longest_us / 86_400_000_000
        ));
    }
    Ok(())
}

/// A time as people read it.
fn time(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| format!("{us} µs"), |t| t.to_string())
}

fn one(
    store: &mut dyn Store,
    file: &Path,
    format: Format,
    flags: &ImportFlags,
    options: &Options,
    global: &Global,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    let (input, size) = open(file)?;
    let read = Arc::new(AtomicU64::new(0));
    let mut stream = ingest::open(Counted { input, read: read.clone() })?.stream;
    let mut header = Vec::new();
    if format == Format::Csv {
        (header, stream) = with_header(stream)?;
    }
    let aside = Aside::new(flags.refused.clone().unwrap_or_else(|| beside(file)), header);
    let mut watcher = Watcher::new(aside, stop.clone(), read, size, global.quiet);
    let summary = match format {
        Format::Rrd => {
            let fields = files::of_rrd(
                &Rrd::read(stream)?,
                &measurement(file, flags),
                &flags.tags,
                flags.rrd,
            );
            files::import(store, &fields?, options, now_us(), &mut watcher)?
        }
        Format::Whisper => {
            let whisper = Whisper::read(stream)?;
            let field = files::of_whisper(&whisper, &measurement(file, flags), &flags.tags)?;
            let left = whisper.expired + whisper.not_numbers;
            if left > 0 {
                output::note(&format!(
                    "{}: {} points were left behind in their ring, {} are no numbers",
                    file.display(),
                    whisper.expired,
                    whisper.not_numbers
                ));
            }
            files::import(store, &[field], options, now_us(), &mut watcher)?
        }
        _ => {
            let (parser, meaning) = parser(format, file, flags, options.step);
            let lines = Lines {
                input: stream,
                reader: Reader::new(parser, Limits::DEFAULT, flags.max_series),
                arrival: Arrival { now_us: now_us(), at_us: flags.at },
                meaning,
            };
            backfill::import(store, lines, options, &mut watcher)?
        }
    };
    watcher.finish();
    output::print(&sentence(file, &summary, &watcher));
    Ok(summary)
}

fn open(file: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let opened =
        File::open(file).map_err(|error| Failure::new(format!("it cannot be read: {error}")))?;
    let size = opened.metadata()?;
    if size.is_dir() {
        return Err(Failure::new("it is a folder; name the files in it"));
    }
    Ok((Box::new(opened), Some(size.len())))
}

/// A CSV file's header, which the lines that are kept aside need as well, and the whole stream again.
fn with_header(mut stream: Box<dyn BufRead>) -> Result<(Vec<u8>, Box<dyn BufRead>), FileError> {
    let mut start = Vec::new();
    loop {
        let from = start.len();
        stream.by_ref().take(ingest::LINE_MAX as u64).read_until(b'\n', &mut start)?;
        let line = &start[from..];
        if line.is_empty() {
            return Err(FileError::NoHeader);
        }
        if !line.trim_ascii().is_empty() && !line.starts_with(b"#") {
            let header = line.trim_ascii_end().to_vec();
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

/// A reader of lines, and the text of everything that decides what they mean.
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
    (parser, meaning + &at)
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
        Kind::Count => "count",
        Kind::Level => "level",
    }
}

/// The measurement of a file that names none: its path below the root, with dots
/// for slashes, or its name without its ending.
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

/// What an import did, in a line or a few.
fn sentence(file: &Path, summary: &Summary, watcher: &Watcher) -> String {
    let mut text = format!(
        "{}: lines {}, updates {}, series {}",
        file.display(),
        summary.lines,
        summary.updates,
        summary.series
    );
    if let Some((from_us, to_us)) = summary.span_us {
        text += &format!(", {} to {}", time(from_us), time(to_us));
    }
    if summary.known > 0 {
        text += &format!("; there already: {}", summary.known);
    }
    if summary.comments > 0 {
        text += &format!("; comments or empty lines: {}", summary.comments);
    }
    if summary.expired > 0 {
        text += &format!("; slots older than what is kept: {}", summary.expired);
    }
    text.push('\n');
    if summary.refused.total() > 0 {
        text += &format!(
            "refused in whole or in part: {} ({}), kept aside in {}\n",
            summary.refused_lines,
            summary.refused,
            watcher.aside().display()
        );
        text += watcher.shown();
    }
    text
}

/// A stream that counts its bytes.
struct Counted {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
