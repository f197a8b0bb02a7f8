//! `bench-series`: how fast series are filled with history and how much room they take,
//! in ours and in what others use, in the same run on the same machine.

mod cpu;
mod daemons;
mod exports;
mod ours;
mod peers;
mod points;
mod queries;
mod servers;
mod table;
mod text;

use std::path::Path;

use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Serialize};

use points::{Load, Pattern};
use table::Row;

pub(crate) use ours::FillSeries;

use crate::options::one_of;
use crate::{pages, say};

/// The page with the results.
const PAGE: &str = "docs/series-performance.md";

/// File of the rows of earlier pieces, so that the page has them all.
const KEPT: &str = "target/bench-series.json";

/// The row that the others are compared with: text in, SQL out, as data arrives.
const ARRIVAL: &str = "import";

/// The contestants, in order.
const CONTESTANTS: [(&str, &str, Fill); 21] = [
    (ARRIVAL, "tachograph import, SQLite, in arrival order", text::sqlite_arrival),
    ("import-series", "tachograph import, SQLite, series after series", text::sqlite_series),
    ("import-postgres", "tachograph import, PostgreSQL, in arrival order", text::postgres_arrival),
    (
        "import-postgres-series",
        "tachograph import, PostgreSQL, series after series",
        text::postgres_series,
    ),
    ("serve", "tachograph serve, SQLite, the same lines over TCP", daemons::sqlite),
    ("serve-postgres", "tachograph serve, PostgreSQL, the same lines", daemons::postgres),
    ("carbon", "carbon-cache, the same lines over TCP", daemons::carbon),
    ("go-carbon", "go-carbon, the same lines over TCP", daemons::go_carbon),
    ("sqlite", "tachograph, SQLite, points in memory", ours::sqlite),
    ("rrdtool", "rrdtool, pipe, a series a line", peers::rrdtool),
    ("postgres", "tachograph, PostgreSQL, points in memory", ours::postgres),
    ("whisper", "whisper, update_many", peers::whisper),
    ("sqlite-live", "tachograph, SQLite, in memory, slot by slot, then sealed", ours::sqlite_live),
    (
        "postgres-live",
        "tachograph, PostgreSQL, in memory, slot by slot, then sealed",
        ours::postgres_live,
    ),
    ("sqlite-rows", "tachograph, SQLite, in memory, never packed", ours::sqlite_rows),
    ("rrdtool-hundred", "rrdtool, pipe, a hundred points a line", peers::rrdtool_hundred),
    ("rrdtool-single", "rrdtool, pipe, a point a line", peers::rrdtool_single),
    ("copy", "COPY of the raw points into PostgreSQL", servers::copy),
    ("victoria", "VictoriaMetrics, /api/v1/import", servers::victoria),
    ("victoria-lines", "VictoriaMetrics, the same lines over TCP", servers::victoria_lines),
    ("influx", "InfluxDB 1.6, /write", servers::influx),
];

/// Fills one of them.
type Fill = fn(&Load, &Path) -> Result<Filled, Unfilled>;

/// Cost of filling one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Filled {
    /// Points written.
    points: u64,
    /// Seconds.
    wall_s: f64,
    /// CPU seconds of all processes involved.
    cpu_s: f64,
    /// Bytes on disk afterwards.
    bytes: u64,
}

/// Why a contestant was not filled.
enum Unfilled {
    /// It is not installed; how to install it.
    Missing(String),
    /// It failed.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Unfilled {
    fn from(error: E) -> Unfilled {
        Unfilled::Failed(error.to_string())
    }
}

impl Unfilled {
    fn words(self) -> String {
        match self {
            Unfilled::Missing(how) => format!("not installed: {how}"),
            Unfilled::Failed(why) => format!("failed: {why}"),
        }
    }
}

/// The command line of `bench-series`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Subcommand)]
enum Other {
    /// Queries of one series over a day, again and again while lines are imported, in SQLite and in
    /// PostgreSQL; into the same page
    Queries(queries::Options),
    /// The same histories as Parquet files, from SQLite and from PostgreSQL
    Exports {
        /// Points of 10,000 series
        #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(exports::SERIES..))]
        points: u64,
    },
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Only these, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(CONTESTANTS.map(|(name, ..)| name)))]
    only: Vec<String>,
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    points: u64,
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    series: u64,
    /// Points to a slot
    #[arg(long, value_name = "N", default_values_t = [1, 10], value_parser = clap::value_parser!(u64).range(1..))]
    per_slot: Vec<u64>,
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Pattern of the values
    #[arg(long, value_name = "NAME", default_value = "walk", value_parser = one_of(Pattern::ALL, |pattern| pattern.name()))]
    values: Pattern,
}

/// Runs the bench, or one of the others; whether nothing failed.
pub(crate) fn bench(Command { other, options }: &Command) -> Result<bool, String> {
    match other {
        Some(Other::Queries(options)) => queries::bench(options).map(|()| true),
        Some(Other::Exports { points }) => exports::bench(*points).map(|()| true),
        None => run(options),
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let Options { only, points, series, per_slot, rounds, values } = options;
    if points < series {
        return Err(format!("--points {points}: each of {series} series wants at least one"));
    }
    let load = |per_slot: &u64| Load {
        points: *points,
        series: *series,
        per_slot: *per_slot,
        values: *values,
    };
    let mut table: Vec<Row> = pages::load(Path::new(KEPT))?;
    let mut well = true;
    for _ in 0..*rounds {
        for load in per_slot.iter().map(load) {
            let mut run: Vec<Row> = Vec::new();
            for (name, title, fill) in CONTESTANTS {
                if !only.is_empty() && !only.iter().any(|only| only == name) {
                    continue;
                }
                let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
                let outcome = fill(&load, folder.path());
                well &= !matches!(outcome, Err(Unfilled::Failed(_)));
                let outcome = match outcome {
                    Ok(filled) => table::Outcome::Filled(filled),
                    Err(why) => table::Outcome::Not { why: why.words() },
                };
                let row = Row { name: name.to_owned(), title: title.to_owned(), load, outcome };
                say(&row.line());
                run.push(row.clone());
                table::add(&mut table, row);
                pages::save(Path::new(KEPT), &table)?;
                table::write(&table, Path::new(PAGE))?;
            }
            table::ratios(&run).iter().for_each(|line| say(line));
        }
    }
    Ok(well)
}
