//! `bench-series queries`: how long a query of one series over a day takes while lines are
//! imported.
//!
//! Three quarters of a day are imported first, and the last quarter while another connection
//! queries one series after another, each over the whole day. So a query reads packed slots and slots
//! that are being written, and competes with the writer's transactions.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use series::{SECOND_US, Step};
use store::Selector;

use super::FillFailure;
use super::ours::{Database, Make};
use super::points::{Load, Pattern, START_S, STEP_S};
use super::text::{self, Order};
use crate::{pages, say};

/// The slots of a day.
const DAY: u64 = 86_400 / STEP_S;

/// Number of them imported in advance.
const BEFORE: u64 = DAY / 4 * 3;

/// The lines of the page that enclose the table.
const MARKS: [&str; 2] = ["<!-- bench-queries: begin -->", "<!-- bench-queries: end -->"];

const HEAD: &str = "\
| | series | imported alone, M points/s | during queries, M points/s | queries | p50, ms | p99, ms | max, ms |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// Queries a day of the series with this number; returns the number of slots.
type Ask = Box<dyn FnMut(u64) -> Result<u64, String>>;

/// Opens a database for queries.
type OpenDatabase = fn(&str) -> Result<Ask, String>;

/// A client and its database.
const ASKERS: [(&str, &str, Make, OpenDatabase); 4] = [
    ("sqlite", "SQLite, as `query` reads", Database::sqlite, by_store),
    ("postgres", "PostgreSQL, as `query` reads", Database::postgres, by_store),
    ("sqlite-view", "SQLite, the view `every_10s`", Database::sqlite, by_sqlite_view),
    ("postgres-view", "PostgreSQL, the view `every_10s`", Database::postgres, by_postgres_view),
];

/// Numbers of series.
const SERIES: [u64; 2] = [1_000, 10_000];

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Only these, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ASKERS.map(|(name, ..)| name)))]
    only: Vec<String>,
    /// Numbers of series, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = SERIES, value_parser = clap::value_parser!(u64).range(1..))]
    series: Vec<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { only: Vec::new(), series: SERIES.to_vec() }
    }
}

/// Results measured during the import.
struct QueryTimes {
    /// Points per second of the import without queries, and during them.
    rates: [f64; 2],
    /// Duration of each query, shortest first.
    took: Vec<Duration>,
}

impl QueryTimes {
    /// The time within which this share of the queries completed.
    fn within_ms(&self, part: f64) -> f64 {
        let place = (self.took.len() as f64 * part).ceil() as usize;
        let took = self.took.get(place.saturating_sub(1).min(self.took.len().saturating_sub(1)));
        took.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
    }

    fn row(&self, title: &str, series: u64) -> String {
        let [alone, beside] = self.rates.map(|rate| rate / 1e6);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| self.within_ms(part));
        let queries = self.took.len();
        format!(
            "| {title} | {series} | {alone:.2} | {beside:.2} | {queries} | {p50:.1} | {p99:.1} | {max:.1} |"
        )
    }
}

/// Runs the bench and writes its rows into the page.
pub(super) fn bench(options: &Options) -> Result<(), String> {
    for series in &options.series {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let points = series * DAY;
        say(&format!("{series} series: writing {:.1} M lines", points as f64 / 1e6));
        let lines = Lines::write(*series, folder.path()).map_err(|e| e.to_string())?;
        for (name, title, make, asker) in ASKERS {
            if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
                continue;
            }
            say(&format!("{series} series: {title}"));
            let own = tempfile::tempdir().map_err(|e| e.to_string())?;
            let measured =
                make(own.path()).and_then(|database| measure(&lines, &database.place, asker));
            let row = match measured {
                Ok(seen) => seen.row(title, *series),
                Err(FillFailure::Missing { how }) => {
                    say(&format!("{title}: not installed: {how}"));
                    continue;
                }
                Err(why) => return Err(format!("{title}: {}", why.words())),
            };
            say(&row);
            pages::write_between(Path::new(super::PAGE), MARKS, |known| with_row(known, &row))?;
        }
    }
    Ok(())
}

/// The files of a day.
struct Lines {
    series: u64,
    before: PathBuf,
    meanwhile: PathBuf,
}

impl Lines {
    fn write(series: u64, folder: &Path) -> std::io::Result<Lines> {
        let load = Load { points: series * DAY, series, per_slot: 1, values: Pattern::Walk };
        let [before, meanwhile] = ["before.txt", "meanwhile.txt"].map(|name| folder.join(name));
        text::write(&load, &before, Order::Arrival, 0..BEFORE)?;
        text::write(&load, &meanwhile, Order::Arrival, BEFORE..DAY)?;
        Ok(Lines { series, before, meanwhile })
    }
}

/// The table with a row replaced, identified by title and number of series.
fn with_row(known: &str, row: &str) -> String {
    let key = |row: &str| row.splitn(4, '|').take(3).collect::<String>();
    let mut rows: Vec<&str> = known.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    match rows.iter_mut().find(|known| key(known) == key(row)) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
    format!("{HEAD}{}", rows.join("\n"))
}

fn measure(lines: &Lines, place: &str, asker: OpenDatabase) -> Result<QueryTimes, FillFailure> {
    let series = lines.series;
    let began = Instant::now();
    text::ended(text::command(&lines.before, place)?.spawn()?)?;
    let alone = (series * BEFORE) as f64 / began.elapsed().as_secs_f64();
    let mut ask = asker(place)?;
    let mut random = StdRng::seed_from_u64(1);
    let began = Instant::now();
    let mut import = text::command(&lines.meanwhile, place)?.spawn()?;
    let mut took = Vec::new();
    let asked = loop {
        if import.try_wait()?.is_some() {
            break Ok(());
        }
        let before = Instant::now();
        match ask(random.random_range(0..series)) {
            Ok(slots) if slots >= BEFORE => took.push(before.elapsed()),
            Ok(slots) => break Err(format!("{slots} slots, although {BEFORE} had been imported")),
            Err(why) => break Err(why),
        }
    };
    let beside = (series * (DAY - BEFORE)) as f64 / began.elapsed().as_secs_f64();
    text::ended(import)?;
    asked?;
    match ask(0)? {
        DAY => {}
        slots => return Err(format!("{slots} of {DAY} slots are there").into()),
    }
    took.sort_unstable();
    Ok(QueryTimes { rates: [alone, beside], took })
}

/// The day, in microseconds.
fn day_us() -> (i64, i64) {
    let start_us = START_S as i64 * SECOND_US;
    // A point at a slot's start covers time in the previous slot, and counts as an update of its
    // own slot.
    (start_us, start_us + (86_400 + STEP_S as i64) * SECOND_US)
}

fn by_store(place: &str) -> Result<Ask, String> {
    let mut store = store::open_read_only(place).map_err(|e| e.to_string())?;
    let step = Step::from_secs(STEP_S as i64).ok_or("ten seconds are no step")?;
    let (from_us, until_us) = day_us();
    Ok(Box::new(move |of| {
        let selector = Selector { measurement: Some(text::name(of)), ..Selector::default() };
        let found = store.find(&selector).map_err(|e| e.to_string())?;
        let ids: Vec<i64> = found.iter().map(|series| series.id).collect();
        let slots = store.slots(step, &ids, from_us, until_us).map_err(|e| e.to_string())?;
        Ok(slots.iter().map(|(_, slot)| slot.n as u64).sum())
    }))
}

fn by_sqlite_view(place: &str) -> Result<Ask, String> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = rusqlite::Connection::open_with_flags(place, flags).map_err(|e| e.to_string())?;
    let sql = "SELECT slot, rate, total, min, max, n FROM every_10s
               WHERE measurement = ?1 AND slot_us >= ?2 AND slot_us < ?3";
    let (from_us, until_us) = day_us();
    Ok(Box::new(move |of| {
        let ask = || {
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query(rusqlite::params![text::name(of), from_us, until_us])?;
            let mut n = 0;
            while let Some(row) = rows.next()? {
                n += row.get::<_, i64>(5)? as u64;
            }
            Ok(n)
        };
        ask().map_err(|e: rusqlite::Error| e.to_string())
    }))
}

fn by_postgres_view(place: &str) -> Result<Ask, String> {
    let mut db = postgres::Client::connect(place, postgres::NoTls).map_err(|e| e.to_string())?;
    // As docs/sql.md advises: compiling the query takes two seconds.
    db.batch_execute("SET jit = off").map_err(|e| e.to_string())?;
    let (from_us, until_us) = day_us();
    let [from_s, until_s] = [from_us, until_us].map(|us| us / SECOND_US);
    let sql = format!(
        "SELECT slot::text, rate, total, min, max, n::bigint FROM every_10s
         WHERE measurement = $1 AND slot >= to_timestamp({from_s}) AND slot < to_timestamp({until_s})"
    );
    Ok(Box::new(move |of| {
        let rows = db.query(&sql, &[&text::name(of)]).map_err(|e| e.to_string())?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(5) as u64).sum())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_share_of_queries_and_replaces_its_predecessor() {
        let took = (1..=200).map(Duration::from_millis).collect();
        let seen = QueryTimes { rates: [2e6, 1e6], took };
        let row = seen.row("a", 10);
        assert_eq!(row, "| a | 10 | 2.00 | 1.00 | 200 | 100.0 | 198.0 | 200.0 |");
        let other = row.replace("| a |", "| b |");
        let both = with_row(&with_row(&with_row("", &row), &other), &row);
        assert_eq!(both, format!("{HEAD}{row}\n{other}"));
        let none = QueryTimes { rates: [0.0; 2], took: Vec::new() };
        assert!(none.within_ms(0.99).is_nan());
    }
}
