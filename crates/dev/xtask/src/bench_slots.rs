//! `bench-series`: how fast series are filled with history and how much room they take,
//! in ours and in what others use, in the same run on the same machine.

mod cpu;
mod daemons;
mod exports;
mod goals;
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

use ours::{Database, LIVE_MAX};
use points::{Load, Pattern};
use table::{Outcome, Row, Table};
use text::Order;

pub(crate) use ours::FillSeries;

use crate::options::one_of;
use crate::{pages, say};

/// The page with the results.
const PAGE: &str = "docs/series-performance.md";

/// What the page shows: each load, and who gets it.
const SECTIONS: [(&[Load], &[&str]); 3] = [
    (
        &[FROM_MEMORY, Load { per_slot: 10, ..FROM_MEMORY }],
        &[
            "sqlite",
            "rrdtool",
            "postgres",
            "whisper",
            "sqlite-live",
            "postgres-live",
            "sqlite-rows",
            "rrdtool-hundred",
            "rrdtool-single",
            "copy",
            "victoria",
            "influx",
        ],
    ),
    (
        &[TEXT],
        &[
            "import",
            "import-series",
            "import-postgres",
            "import-postgres-series",
            "serve",
            "serve-postgres",
            "carbon",
            "go-carbon",
            "whisper",
            "copy",
            "victoria",
            "victoria-lines",
        ],
    ),
    (&[MANY_SERIES], &["import", "import-postgres", "serve", "serve-postgres", "victoria-lines"]),
];

const FROM_MEMORY: Load =
    Load { points: 10_000_000, series: 10_000, per_slot: 1, values: Pattern::Walk };
const TEXT: Load = Load { values: Pattern::Counts, ..FROM_MEMORY };
const MANY_SERIES: Load = Load { series: 100_000, ..TEXT };

/// The contestants, in order.
const CONTESTANTS: [(&str, &str, Fill); 21] = [
    ("import", "tachograph import, SQLite, in arrival order", |load, folder| {
        text::import(load, folder, Order::Arrival, Database::sqlite)
    }),
    ("import-series", "tachograph import, SQLite, series after series", |load, folder| {
        text::import(load, folder, Order::Series, Database::sqlite)
    }),
    ("import-postgres", "tachograph import, PostgreSQL, in arrival order", |load, folder| {
        text::import(load, folder, Order::Arrival, Database::postgres)
    }),
    (
        "import-postgres-series",
        "tachograph import, PostgreSQL, series after series",
        |load, folder| text::import(load, folder, Order::Series, Database::postgres),
    ),
    ("serve", "tachograph serve, SQLite, the same lines over TCP", |load, folder| {
        daemons::serve(load, folder, Database::sqlite)
    }),
    ("serve-postgres", "tachograph serve, PostgreSQL, the same lines", |load, folder| {
        daemons::serve(load, folder, Database::postgres)
    }),
    ("carbon", "carbon-cache, the same lines over TCP", daemons::carbon),
    ("go-carbon", "go-carbon, the same lines over TCP", daemons::go_carbon),
    ("sqlite", "tachograph, SQLite, points in memory", |load, folder| {
        ours::fill(load, "series", &Database::sqlite(folder)?)
    }),
    ("rrdtool", "rrdtool, pipe, a series a line", peers::rrdtool),
    ("postgres", "tachograph, PostgreSQL, points in memory", |load, folder| {
        ours::fill(load, "series", &Database::postgres(folder)?)
    }),
    ("whisper", "whisper, update_many", peers::whisper),
    ("sqlite-live", "tachograph, SQLite, in memory, slot by slot, then sealed", |load, folder| {
        ours::fill(&load.at_most(LIVE_MAX), "slots", &Database::sqlite(folder)?)
    }),
    (
        "postgres-live",
        "tachograph, PostgreSQL, in memory, slot by slot, then sealed",
        |load, folder| {
            ours::fill(&load.at_most(LIVE_MAX / 2), "slots", &Database::postgres(folder)?)
        },
    ),
    ("sqlite-rows", "tachograph, SQLite, in memory, never packed", |load, folder| {
        ours::fill(&load.at_most(LIVE_MAX), "rows", &Database::sqlite(folder)?)
    }),
    ("rrdtool-hundred", "rrdtool, pipe, a hundred points a line", peers::rrdtool_hundred),
    ("rrdtool-single", "rrdtool, pipe, a point a line", peers::rrdtool_single),
    ("copy", "COPY of the raw points into PostgreSQL", servers::copy),
    ("victoria", "VictoriaMetrics, /api/v1/import", servers::victoria),
    ("victoria-lines", "VictoriaMetrics, the same lines over TCP", servers::victoria_lines),
    ("influx", "InfluxDB 1.6, /write", servers::influx),
];

/// Fills one of them.
type Fill = fn(&Load, &Path) -> Result<FillCost, FillFailure>;

/// Cost of filling one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct FillCost {
    /// Points written.
    points: u64,
    /// Seconds.
    wall_s: f64,
    /// CPU seconds of all processes involved.
    cpu_s: f64,
    /// Bytes on disk afterwards.
    bytes: u64,
    /// Seconds until all points were acknowledged, if they are before they are in the database.
    #[serde(default)]
    acknowledged_s: Option<f64>,
    /// The greatest resident memory of our process, if it was followed.
    #[serde(default)]
    peak_mib: Option<u64>,
}

impl FillCost {
    fn new(points: u64, wall_s: f64, cpu_s: f64, bytes: u64) -> FillCost {
        FillCost { points, wall_s, cpu_s, bytes, acknowledged_s: None, peak_mib: None }
    }
}

/// Why a contestant was not filled.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum FillFailure {
    /// It is not installed; how to install it.
    Missing {
        how: String,
    },
    Failed {
        why: String,
    },
}

impl<E: std::fmt::Display> From<E> for FillFailure {
    fn from(error: E) -> FillFailure {
        FillFailure::Failed { why: error.to_string() }
    }
}

impl FillFailure {
    fn missing(how: impl Into<String>) -> FillFailure {
        FillFailure::Missing { how: how.into() }
    }

    fn words(&self) -> String {
        match self {
            FillFailure::Missing { how } => format!("not installed: {how}"),
            FillFailure::Failed { why } => format!("failed: {why}"),
        }
    }
}

/// The command line of `bench-series`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    part: Option<Part>,
    /// How often each contestant is filled with each load of the page
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Less than the whole page.
#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Some contestants with a load of one's own; prints what they need and writes no page
    Fill(Options),
    /// Queries of one series over a day, again and again while lines are imported, in SQLite and in
    /// PostgreSQL
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    per_slot: u64,
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Pattern of the values
    #[arg(long, value_name = "NAME", default_value = "counts", value_parser = one_of(Pattern::ALL, |pattern| pattern.name()))]
    values: Pattern,
}

/// Measures the page, or a part of it; whether nothing failed.
pub(crate) fn bench(Command { part, rounds }: &Command) -> Result<bool, String> {
    match part {
        Some(Part::Fill(options)) => fill(options),
        Some(Part::Queries(options)) => queries::bench(options).map(|()| true),
        Some(Part::Exports { points }) => exports::bench(*points).map(|()| true),
        None => {
            let well = measure(*rounds)?;
            queries::bench(&queries::Options::default())?;
            exports::bench(FROM_MEMORY.points)?;
            Ok(well)
        }
    }
}

/// Fills everything that the page shows, and writes it after each contestant.
fn measure(rounds: u32) -> Result<bool, String> {
    let mut table = Table { began: pages::now(), machine: pages::machine(), rows: Vec::new() };
    for round in 1..=rounds {
        for (loads, names) in SECTIONS {
            for load in loads {
                for contestant in CONTESTANTS.iter().filter(|(name, ..)| names.contains(name)) {
                    table.rows.push(filled(contestant, load, round)?);
                    pages::save(&Table::path(), &table)?;
                    table.write(Path::new(PAGE), &goals::text(&table))?;
                }
            }
        }
    }
    Ok(table.rows.iter().all(|row| !row.has_failed()))
}

/// Fills some contestants.
fn fill(options: &Options) -> Result<bool, String> {
    let &Options { ref only, points, series, per_slot, rounds, values } = options;
    if points < series {
        return Err(format!("--points {points}: each of {series} series wants at least one"));
    }
    let load = Load { points, series, per_slot, values };
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let mut well = true;
    for round in 1..=rounds {
        for contestant in CONTESTANTS.iter().filter(|(name, ..)| wanted(name)) {
            well &= !filled(contestant, &load, round)?.has_failed();
        }
    }
    Ok(well)
}

fn filled((name, _, fill): &(&str, &str, Fill), load: &Load, round: u32) -> Result<Row, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let outcome = fill(load, folder.path()).map_or_else(Outcome::Unfilled, Outcome::Filled);
    let row = Row { name: (*name).to_owned(), load: *load, round, outcome };
    say(&row.line());
    Ok(row)
}
