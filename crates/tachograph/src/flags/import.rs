//! Flags of `import`.

use std::path::PathBuf;

use base::Nanos;
use clap::{Args, ValueEnum};
use ingest::{Precision, parse_time};
use series::Kind;
use series::rrd::{Archive, Consolidation};
use slots::Retention;

use super::series::{parse_length, parse_tag, parse_when};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph import metrics.txt.gz --format graphite
  tachograph import sold.csv --measurement sold --values count,price
  rrdtool dump router.rrd | tachograph import - --format rrd --measurement router
  tachograph import sold.txt --format graphite --rrd --rra AVERAGE:0.5:1:8640
  tachograph import whisper/servers/web1/cpu.wsp --root whisper

The same file twice changes nothing, and one that has grown adds what is new. Lines that
are refused are kept aside in FILE.refused, each under a comment that says why; put them
right and import that file.

A StatsD line arrives when it says so: '|T1656581400' at its end, or seconds before it as
'ts %.s' writes them; or else at --at.";

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportFlags {
    /// Files, plain or compressed by gzip; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What is in them; by default what their names say: .csv, .wsp, .xml
    #[arg(long, short, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// The measurement of files that name none [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) measurement: Option<String>,
    /// The folder below which a whisper file's path is its measurement
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// A tag of every series of an RRD or whisper file
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(crate) tags: Vec<(String, String)>,
    /// Keep new series as rrdtool would as well, so that query --rrd shows what rrdtool fetch
    /// would: of points in text, and of an RRD with the state and rows that it has
    #[arg(long)]
    pub(crate) rrd: bool,
    /// With --rrd, an archive as rrdtool create takes it; may be given several times
    /// [default: AVERAGE:0.5:1:8640, and AVERAGE, MIN, MAX of 6 and of 360 steps]
    #[arg(long = "rra", value_name = "CF:XFF:STEPS:ROWS", value_parser = parse_archive, requires = "rrd")]
    pub(crate) archives: Vec<Archive>,
    /// With --rrd, what rrdtool create --start is told [default: 10 s before the first point]
    #[arg(long, value_name = "TIME", value_parser = parse_when, requires = "rrd")]
    pub(crate) rrd_start: Option<i64>,
    /// What values are [default: gauge; of a CSV file with start and end: count]
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) kind: Option<Kind>,
    /// The unit of integer times: ns, us, ms, s [default: ns for influx, s for csv]
    #[arg(long, value_name = "UNIT", value_parser = parse_precision)]
    pub(crate) precision: Option<Precision>,
    /// When lines without a time arrived: seconds since 1970, or as 2015-05-04T01:01:22Z
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) at: Option<i64>,
    /// Where refused lines are kept [default: FILE.refused, or stdin.refused]
    #[arg(long, value_name = "FILE")]
    pub(crate) refused: Option<PathBuf>,
    /// The step of new series, and StatsD's window
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_length)]
    pub(crate) step: Nanos,
    /// The longest silence that a point may speak for [default: two steps]
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(crate) heartbeat: Option<Nanos>,
    /// How late a point may come
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = parse_length)]
    pub(crate) lateness: Nanos,
    /// The lane that is written: a name for whoever measured
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) lane: String,
    /// A step and how long it is kept, as 10s:1d or 1h:forever [default, for a new record: 10s:1d, 1m:7d, 1h:3y]
    #[arg(long = "retention", value_name = "STEP:AGE", value_parser = parse_retention)]
    pub(crate) retentions: Vec<Retention>,
    /// The most series that a file may have
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) max_series: usize,
    #[command(flatten)]
    pub(crate) csv: CsvFlags,
}

/// Which column of a CSV file is what.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Columns of CSV files")]
pub(crate) struct CsvFlags {
    /// The start of an interval
    #[arg(long, default_value = "start", value_name = "COLUMN")]
    pub(crate) start_column: String,
    /// Its end
    #[arg(long, default_value = "end", value_name = "COLUMN")]
    pub(crate) end_column: String,
    /// The time of a point, in files without start and end
    #[arg(long, default_value = "time", value_name = "COLUMN")]
    pub(crate) time_column: String,
    /// The values; every other column is a tag
    #[arg(long, default_value = "value", value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    pub(crate) values: Vec<String>,
    /// What stands between columns
    #[arg(long, default_value = ",", value_name = "CHARACTER")]
    pub(crate) separator: char,
}

/// What a file holds.
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
    /// The output of rrdtool dump
    Rrd,
    /// A whisper file
    Whisper,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    match text {
        "gauge" => Ok(Kind::Gauge),
        "counter" => Ok(Kind::Counter),
        "derive" => Ok(Kind::Derive),
        "absolute" => Ok(Kind::Absolute),
        "count" => Ok(Kind::Count),
        "level" => Ok(Kind::Level),
        _ => Err("give gauge, counter, derive, absolute, count or level".to_owned()),
    }
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    Precision::parse(text).ok_or_else(|| "give ns, us, ms or s".to_owned())
}

/// Reads `AVERAGE:0.5:1:8640`, with or without RRDtool's `RRA:` before it.
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
        "give AVERAGE, MIN, MAX or LAST, the xff, steps and rows, as AVERAGE:0.5:1:8640".to_owned()
    })
}

/// The archives of a new series that is kept as rrdtool would, unless others are asked for.
pub(crate) fn usual_archives() -> Vec<Archive> {
    let archive = |consolidation, steps, rows| Archive { consolidation, xff: 0.5, steps, rows };
    let mut archives = vec![archive(Consolidation::Average, 1, 8_640)];
    for (steps, rows) in [(6, 10_080), (360, 26_280)] {
        let all = [Consolidation::Average, Consolidation::Min, Consolidation::Max];
        archives.extend(all.map(|consolidation| archive(consolidation, steps, rows)));
    }
    archives
}

/// Reads `10s:1d`: a step, and an age in s, m, h, d, w or y, or `forever`.
fn parse_retention(text: &str) -> Result<Retention, String> {
    let wrong = || "give a step and an age, as 10s:1d, 1m:7d or 1h:forever".to_owned();
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

/// Reads an absolute time.
pub(crate) fn parse_absolute(text: &str) -> Option<i64> {
    parse_time(text, Precision::Seconds)
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
            assert!(parse_archive(text).unwrap_err().starts_with("give AVERAGE, MIN"), "{text}");
        }
    }

    #[test]
    fn retentions_are_read_as_they_are_written() {
        assert_eq!(parse_retention("10s:1d"), Ok(Retention::from_secs(10, Some(86_400)).unwrap()));
        assert_eq!(parse_retention("1h:forever"), Ok(Retention::from_secs(3600, None).unwrap()));
        for text in ["10s", "10:1d", "0s:1d", "10s:0d", "10s:", "x:1d"] {
            let error = parse_retention(text).unwrap_err();
            assert_eq!(error, "give a step and an age, as 10s:1d, 1m:7d or 1h:forever", "{text}");
        }
    }
}
