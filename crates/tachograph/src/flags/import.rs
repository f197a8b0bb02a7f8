//! Flags of `import`.

use std::path::PathBuf;

use base::{Bytes, Nanos};
use clap::{Args, ValueEnum};
use formats::Precision;
use series::Kind;
use series::rrd::{Archive, Consolidation};
use store::Retention;

use super::series::{parse_length, parse_tag, parse_when};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph import metrics.txt.gz --format graphite
  tachograph import sold.csv --measurement sold --values count,price
  rrdtool dump router.rrd | tachograph import - --format rrd --measurement router
  tachograph import sold.txt --format graphite --rrd --rra AVERAGE:0.5:1:8640
  tachograph import whisper/servers/web1/cpu.wsp --root whisper

Importing a file again changes nothing; a file that has grown adds only its new lines. A last
line without a line end is left for the next import. Refused lines are kept in FILE.refused,
each under a comment with the reason; correct them and import that file.

The arrival time of a StatsD line is its suffix '|T1656581400', a prefix of seconds as
written by 'ts %.s', or --at.";

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportFlags {
    /// Files, plain or gzip-compressed; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File format [default: from the file name: .csv, .wsp, .xml]
    #[arg(long, short, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Measurement of files without one [default: from the file name]
    #[arg(long, value_name = "NAME")]
    pub(crate) measurement: Option<String>,
    /// Root folder: the path of a whisper file below it is the measurement
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// Tag of all series of an RRD or whisper file; repeatable
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(crate) tags: Vec<(String, String)>,
    /// Also keep RRDtool's state for new series, for `query --rrd`
    #[arg(long)]
    pub(crate) rrd: bool,
    /// With --rrd, an archive as for rrdtool create; repeatable [default: AVERAGE:0.5:1:8640, and
    /// AVERAGE, MIN, MAX of 6 and of 360 steps]
    #[arg(long = "rra", value_name = "CF:XFF:STEPS:ROWS", value_parser = parse_archive, requires = "rrd")]
    pub(crate) archives: Vec<Archive>,
    /// With --rrd, start time as for rrdtool create --start [default: 10 s before the first point]
    #[arg(long, value_name = "TIME", value_parser = parse_when, requires = "rrd")]
    pub(crate) rrd_start: Option<i64>,
    /// Kind of values: gauge, counter, derive, absolute, total, count or level [default: gauge, or
    /// count for CSV files with start and end]
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) kind: Option<Kind>,
    /// Unit of integer timestamps: ns, us, ms or s [default: ns for influx, s for csv]
    #[arg(long, value_name = "UNIT", value_parser = parse_precision)]
    pub(crate) precision: Option<Precision>,
    /// Arrival time of lines without one: seconds since 1970, or e.g. 2015-05-04T01:01:22Z
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) at: Option<i64>,
    /// File for refused lines [default: FILE.refused, or stdin.refused]
    #[arg(long, value_name = "FILE")]
    pub(crate) refused: Option<PathBuf>,
    /// Stop when the file of refused lines reaches this size
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_refused: Bytes,
    /// Maximum unpacked size of a compressed file
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_unpacked: Bytes,
    /// Import the last line even without a line end
    #[arg(long)]
    pub(crate) complete: bool,
    /// Step of new series, and StatsD window
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_length)]
    pub(crate) step: Nanos,
    /// Longest gap that a point covers [default: two steps]
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(crate) heartbeat: Option<Nanos>,
    /// Maximum delay of a late point
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = parse_length)]
    pub(crate) lateness: Nanos,
    /// Writer name, for several writers of one series
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) lane: String,
    /// Retention of a step, e.g. 10s:1d or 1h:forever; repeatable [default for a new record: --step,
    /// 1m and 1h, all forever]
    #[arg(long = "retention", value_name = "STEP:AGE", value_parser = parse_retention)]
    pub(crate) retentions: Vec<Retention>,
    /// Maximum number of series per file
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) max_series: usize,
    /// Memory for updates that are not yet written; 0 writes every piece of a file at once
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = parse_memory)]
    pub(crate) head_memory: usize,
    #[command(flatten)]
    pub(crate) csv: CsvFlags,
}

/// Columns of a CSV file.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Columns of CSV files")]
pub(crate) struct CsvFlags {
    /// Start of an interval
    #[arg(long, default_value = "start", value_name = "COLUMN")]
    pub(crate) start_column: String,
    /// End of an interval
    #[arg(long, default_value = "end", value_name = "COLUMN")]
    pub(crate) end_column: String,
    /// Time of a point, in files without start and end
    #[arg(long, default_value = "time", value_name = "COLUMN")]
    pub(crate) time_column: String,
    /// Values; all other columns are tags
    #[arg(long, default_value = "value", value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    pub(crate) values: Vec<String>,
    /// Field separator
    #[arg(long, default_value = ",", value_name = "CHARACTER")]
    pub(crate) separator: char,
}

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Graphite plaintext: path value timestamp
    Graphite,
    /// Influx line protocol
    Influx,
    /// StatsD lines: key:value|type
    Statsd,
    /// CSV with a header
    Csv,
    /// Output of rrdtool dump
    Rrd,
    /// Whisper file
    Whisper,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    match text {
        "gauge" => Ok(Kind::Gauge),
        "counter" => Ok(Kind::Counter),
        "derive" => Ok(Kind::Derive),
        "absolute" => Ok(Kind::Absolute),
        "total" => Ok(Kind::Total),
        "count" => Ok(Kind::Count),
        "level" => Ok(Kind::Level),
        _ => Err("use gauge, counter, derive, absolute, total, count or level".to_owned()),
    }
}

fn parse_memory(text: &str) -> Result<usize, String> {
    if text == "0" {
        return Ok(0);
    }
    let bytes = base::Bytes::parse(text).map_err(|error| error.to_string())?;
    usize::try_from(bytes.0).map_err(|error| error.to_string())
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    Precision::parse(text).ok_or_else(|| "use ns, us, ms or s".to_owned())
}

/// Parses `AVERAGE:0.5:1:8640`, with or without RRDtool's `RRA:` prefix.
fn parse_archive(text: &str) -> Result<Archive, String> {
    let read = || {
        let mut parts = text.strip_prefix("RRA:").unwrap_or(text).split(':');
        let name = parts.next()?;
        let archive = Archive {
            consolidation: Consolidation::ALL.into_iter().find(|cf| cf.name() == name)?,
            xff: parts.next()?.parse().ok()?,
            steps: parts.next()?.parse().ok()?,
            rows: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(archive)
    };
    read().ok_or_else(|| {
        "use CF:XFF:STEPS:ROWS with AVERAGE, MIN, MAX or LAST, e.g. AVERAGE:0.5:1:8640".to_owned()
    })
}

/// The default archives of a series in RRDtool's mode.
pub(crate) fn usual_archives() -> Vec<Archive> {
    let archive = |consolidation, steps, rows| Archive { consolidation, xff: 0.5, steps, rows };
    let mut archives = vec![archive(Consolidation::Average, 1, 8_640)];
    for (steps, rows) in [(6, 10_080), (360, 26_280)] {
        let all = [Consolidation::Average, Consolidation::Min, Consolidation::Max];
        archives.extend(all.map(|consolidation| archive(consolidation, steps, rows)));
    }
    archives
}

/// Parses `10s:1d`: a step, and an age in s, m, h, d, w or y, or `forever`.
fn parse_retention(text: &str) -> Result<Retention, String> {
    let wrong = || "use STEP:AGE, e.g. 10s:1d, 1m:7d or 1h:forever".to_owned();
    let (step, age) = text.split_once(':').ok_or_else(wrong)?;
    let step_s = seconds(step).ok_or_else(wrong)?;
    let age_s = match age {
        "forever" => None,
        age => Some(seconds(age).ok_or_else(wrong)?),
    };
    Retention::from_secs(step_s, age_s).ok_or_else(wrong)
}

fn seconds(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_read_as_rrdtool_takes_them() {
        let archive = usual_archives()[0];
        assert_eq!(parse_archive("AVERAGE:0.5:1:8640"), Ok(archive));
        assert_eq!(parse_archive("RRA:AVERAGE:0.5:1:8640"), Ok(archive));
        for text in ["AVERAGE", "MEAN:0.5:1:10", "AVERAGE:0.5:1:10:2", "LAST:x:1:1"] {
            assert!(parse_archive(text).unwrap_err().starts_with("use CF:XFF"), "{text}");
        }
    }

    #[test]
    fn memory_is_a_size_or_nothing() {
        assert_eq!(parse_memory("0"), Ok(0));
        assert_eq!(parse_memory("64MiB"), Ok(64 << 20));
        assert!(parse_memory("much").is_err());
    }

    #[test]
    fn retentions_are_read_as_they_are_written() {
        assert_eq!(parse_retention("10s:1d"), Ok(Retention::from_secs(10, Some(86_400)).unwrap()));
        assert_eq!(parse_retention("1h:forever"), Ok(Retention::from_secs(3600, None).unwrap()));
        for text in ["10s", "10:1d", "0s:1d", "10s:0d", "10s:", "x:1d"] {
            let error = parse_retention(text).unwrap_err();
            assert_eq!(error, "use STEP:AGE, e.g. 10s:1d, 1m:7d or 1h:forever", "{text}");
        }
    }
}
