//! Flags of `series` and `query`.

use std::time::SystemTime;

use base::Nanos;
use clap::{Args, ValueEnum};
use formats::{Precision, parse_time};
use store::Selector;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph query requests
  tachograph query 'requests:count{host=a}' --from -1h --format plot
  tachograph query sold --from 2015-05-04T01:00:00Z --until 2015-05-04T02:00:00Z --step 1m --format csv

A series is named measurement:field{tag=value,tag=value}; omitted parts match anything.
'tachograph series' lists all series.";

/// Flags of `series`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SeriesFlags {
    /// Series to list, as measurement:field{tag=value}; omitted parts match anything
    #[arg(value_name = "SERIES", default_value = "", value_parser = parse_selector)]
    pub(crate) selector: Selector,
    /// List measurements and their number of series
    #[arg(long, conflicts_with = "tags")]
    pub(crate) measurements: bool,
    /// List tags and their values
    #[arg(long)]
    pub(crate) tags: bool,
    /// Maximum number of lines
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) limit: usize,
}

/// Flags of `query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueryFlags {
    /// Series to show, as measurement:field{tag=value}; omitted parts match anything
    #[arg(value_name = "SERIES", required = true, value_parser = parse_selector)]
    pub(crate) selectors: Vec<Selector>,
    /// Start of the range: a time, or an age such as -1h [default: earliest data]
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    pub(crate) from: Option<i64>,
    /// End of the range [default: latest data]
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    pub(crate) until: Option<i64>,
    /// Length of a slot [default: chosen for about --points slots]
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(crate) step: Option<Nanos>,
    /// Approximate number of slots
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub(crate) points: u32,
    /// Maximum unknown part of a slot with a rate [default: that of the series]
    #[arg(long, value_name = "0..1")]
    pub(crate) xff: Option<f64>,
    /// Output format
    #[arg(long, short, default_value = "table", value_name = "FORMAT")]
    pub(crate) format: OutputFormat,
    /// Print what rrdtool fetch would, for series imported with --rrd
    #[arg(long)]
    pub(crate) rrd: bool,
    /// Consolidation function for --rrd: AVERAGE, MIN, MAX or LAST
    #[arg(long, default_value = "AVERAGE", value_name = "CF", value_parser = parse_consolidation)]
    pub(crate) cf: series::rrd::Consolidation,
    /// Read a published table instead of the record, as hive://user@host:port/database
    #[arg(long, value_name = "URL", conflicts_with = "rrd", help_heading = "Hive")]
    pub(crate) hive: Option<hive::Address>,
    #[command(flatten)]
    pub(crate) door: super::hive::DoorFlags,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns
    Table,
    /// Chart in the terminal
    Plot,
    /// CSV with a header; unknown values are empty
    Csv,
    /// JSON; unknown values are null
    Json,
}

/// Parses `key=value`.
pub(crate) fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("write a tag as key=value".to_owned()),
    }
}

/// Parses a duration: as everywhere, or in days and weeks, as `1d` and `2w`.
pub(crate) fn parse_length(text: &str) -> Result<Nanos, String> {
    let unit_s = match text.chars().last() {
        Some('d') => 86_400,
        Some('w') => 7 * 86_400,
        _ => return Nanos::parse(text).map_err(|error| error.to_string()),
    };
    let wrong = || format!("'{text}' is not a time such as 10s, 5m, 1h or 7d");
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count.checked_mul(unit_s * 1_000_000_000).map(Nanos).ok_or_else(wrong)
}

/// Parses a time: seconds since 1970, RFC 3339, or an age such as `-1h`; microseconds since the
/// epoch.
pub(crate) fn parse_when(text: &str) -> Result<i64, String> {
    let wrong = || {
        "use a time such as 2015-05-04T01:01:22Z or 1430701282, or an age such as -15m, -2h or -7d"
            .to_owned()
    };
    let ago = text.strip_prefix('-').filter(|ago| ago.ends_with(|c: char| c.is_alphabetic()));
    match ago {
        Some(ago) => {
            let ago = parse_length(ago).map_err(|_| wrong())?;
            Ok(now_us().saturating_sub((ago.0 / 1_000) as i64))
        }
        None => parse_time(text, Precision::Seconds).ok_or_else(wrong),
    }
}

/// The wall clock, in microseconds since the epoch.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Parses `measurement:field{key=value,key=value}`, all parts of which are optional.
pub(crate) fn parse_selector(text: &str) -> Result<Selector, String> {
    let wrong = || "write series as measurement:field{tag=value,tag=value}".to_owned();
    let (name, tags) = match text.split_once('{') {
        Some((name, tags)) => (name, tags.strip_suffix('}').ok_or_else(wrong)?),
        None => (text, ""),
    };
    let (measurement, field) = match name.rsplit_once(':') {
        Some((measurement, field)) => (measurement, field),
        None => (name, ""),
    };
    let some = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
    let tags = tags.split(',').filter(|tag| !tag.is_empty()).map(parse_tag);
    let tags = tags.collect::<Result<_, _>>().map_err(|_| wrong())?;
    Ok(Selector { measurement: some(measurement), field: some(field), tags })
}

fn parse_consolidation(text: &str) -> Result<series::rrd::Consolidation, String> {
    let mut all = series::rrd::Consolidation::ALL.into_iter();
    all.find(|known| known.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| "use AVERAGE, MIN, MAX or LAST".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_named_as_they_are_shown() {
        let selector = parse_selector("requests:count{host=a,zone=b}").unwrap();
        assert_eq!(selector.measurement.as_deref(), Some("requests"));
        assert_eq!(selector.field.as_deref(), Some("count"));
        assert_eq!(selector.tags.len(), 2);
        assert_eq!(parse_selector(""), Ok(Selector::default()));
        assert_eq!(parse_selector("{host=a}").unwrap().measurement, None);
        assert_eq!(parse_selector(":p99").unwrap().field.as_deref(), Some("p99"));
        for text in ["a{b", "a{b}", "a{=c}"] {
            let error = parse_selector(text).unwrap_err();
            assert_eq!(error, "write series as measurement:field{tag=value,tag=value}");
        }
    }

    #[test]
    fn times_are_absolute_or_so_long_ago() {
        assert_eq!(parse_when("1430701282.5"), Ok(1_430_701_282_500_000));
        assert_eq!(parse_when("2015-05-04T01:01:22Z"), Ok(1_430_701_282_000_000));
        let hour_ago = now_us() - 3_600_000_000;
        assert!((parse_when("-1h").unwrap() - hour_ago).abs() < 60_000_000);
        assert_eq!(parse_length("7d"), parse_length("1w"));
        assert_eq!(parse_length("90s"), Ok(Nanos::from_secs(90)));
        for text in ["d", "-1d", "99999999999999d"] {
            assert!(parse_length(text).unwrap_err().contains("is not a time such as"), "{text}");
        }
        assert!(parse_when("yesterday").unwrap_err().starts_with("use a time such as 2015"));
    }
}
