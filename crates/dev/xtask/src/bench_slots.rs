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
use std::process::ExitCode;

use points::{Load, Pattern};
use table::Row;

use crate::{say, usage_error};

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
#[derive(Clone, Copy, Debug, PartialEq)]
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

struct Options {
    only: Vec<String>,
    loads: Vec<Load>,
    rounds: u32,
}

/// Runs the bench, or the requested pieces of it.
pub(crate) fn bench(words: &[&str]) -> ExitCode {
    if let ["queries", words @ ..] = words {
        return queries::bench(words);
    }
    if let ["exports", words @ ..] = words {
        return exports::bench(words);
    }
    let options = match parse(words) {
        Ok(options) => options,
        Err(what) => return usage_error(&what),
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            say(&format!("bench-series: {what}"));
            ExitCode::FAILURE
        }
    }
}

/// The program that fills ours, in a separate process so that its CPU time is counted alone.
pub(crate) fn fill(words: &[&str]) -> ExitCode {
    match ours::fill(words) {
        Ok(line) => {
            say(&line);
            ExitCode::SUCCESS
        }
        Err(what) => usage_error(&what),
    }
}

fn parse(mut words: &[&str]) -> Result<Options, String> {
    let (mut only, mut per_slot, mut rounds) = (Vec::new(), vec![1, 10], 1);
    let (mut points, mut series, mut values) = (10_000_000_u64, 10_000_u64, Pattern::Walk);
    while let [name, rest @ ..] = words {
        let [value, rest @ ..] = rest else { return Err(format!("{name} lacks its value")) };
        let number = || {
            let number = value.parse().ok().filter(|number| *number > 0);
            number.ok_or(format!("{name} {value}: a whole number above 0 is wanted"))
        };
        match *name {
            "--only" => only = value.split(',').map(str::to_owned).collect(),
            "--points" => points = number()?,
            "--series" => series = number()?,
            "--per-slot" => per_slot = vec![number()?],
            "--rounds" => rounds = number()? as u32,
            "--values" => {
                values = Pattern::named(value)
                    .ok_or(format!("--values {value}: walk, counts or noise is wanted"))?;
            }
            _ => return Err(format!("{name} is no option of this task")),
        }
        words = rest;
    }
    let known = |name: &String| CONTESTANTS.iter().any(|(known, ..)| known == name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = CONTESTANTS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("--only {unknown}: there are {}", names.join(", ")));
    }
    if points < series {
        return Err(format!("--points {points}: each of {series} series wants at least one"));
    }
    let load = |per_slot| Load { points, series, per_slot, values };
    Ok(Options { only, loads: per_slot.into_iter().map(load).collect(), rounds })
}

fn run(options: &Options) -> Result<bool, String> {
    let mut table = table::read(Path::new(KEPT))?;
    let mut well = true;
    for _ in 0..options.rounds {
        for load in &options.loads {
            let mut run: Vec<Row> = Vec::new();
            for (name, title, fill) in CONTESTANTS {
                if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
                    continue;
                }
                let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
                let outcome = match fill(load, folder.path()) {
                    Ok(filled) => Ok(filled),
                    Err(Unfilled::Missing(how)) => Err(format!("not installed: {how}")),
                    Err(Unfilled::Failed(why)) => {
                        well = false;
                        Err(format!("failed: {why}"))
                    }
                };
                let row =
                    Row { name: name.to_owned(), title: title.to_owned(), load: *load, outcome };
                say(&row.line());
                run.push(row.clone());
                table::add(&mut table, row);
                table::write(&table, Path::new(KEPT), Path::new(PAGE))?;
            }
            table::ratios(&run).iter().for_each(|line| say(line));
        }
    }
    Ok(well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        let options = parse(&["--only", "sqlite,copy", "--per-slot", "10"]).ok();
        let options = options.map(|o| (o.only, o.loads.len(), o.loads[0].per_slot, o.rounds));
        assert_eq!(options, Some((vec!["sqlite".to_owned(), "copy".to_owned()], 1, 10, 1)));
        for (words, sentence) in [
            (&["--points"][..], "--points lacks its value"),
            (&["--points", "0"], "--points 0: a whole number above 0 is wanted"),
            (&["--points", "5"], "--points 5: each of 10000 series wants at least one"),
            (&["--values", "x"], "--values x: walk, counts or noise is wanted"),
            (&["--what", "1"], "--what is no option of this task"),
            (
                &["--only", "mysql"],
                "--only mysql: there are import, import-series, import-postgres, import-postgres-series, serve, serve-postgres, carbon, go-carbon, sqlite, rrdtool, postgres, whisper, sqlite-live, postgres-live, sqlite-rows, rrdtool-hundred, rrdtool-single, copy, victoria, victoria-lines, influx",
            ),
        ] {
            assert_eq!(parse(words).err(), Some(sentence.to_owned()));
        }
    }
}
