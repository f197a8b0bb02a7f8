//! Exported Parquet files as DuckDB and pyarrow read them, compared with the stores.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use base::{Rng, Seed};
use export::{ExportRequest, export};
use rand::RngExt as _;
use serde_json::Value;
use series::{Accumulator, Delta, Flavor, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{
    Changes, Identity, NewSeries, Postgres, Retention, Selector, SeriesLimit, Sqlite, Store, Writer,
};
use throwaway::Throwaway;

/// The readers, with their versions.
const REQUIREMENTS: [&str; 2] = ["duckdb==2.0.0", "pyarrow==26.0.1"];

const SCRIPT: &str = include_str!("parquet.py");

/// 2026-11-20, the start of the histories.
const START_US: i64 = 1_795_132_800 * SECOND_US;

const HOUR_US: i64 = 3_600 * SECOND_US;

/// Result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Recorders that exported to one folder.
    pub recorders: usize,
    /// Rows read by each reader.
    pub slots: u64,
    /// Totals by step, day and series that were compared with each reader's.
    pub totals: usize,
    /// What differs.
    pub different: Vec<String>,
}

/// The sums of a step, a day and a series.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    flow: bool,
    rows: u64,
    total: f64,
    covered_us: i64,
    n: i64,
    min: Option<f64>,
    max: Option<f64>,
}

type Totals = BTreeMap<String, Sums>;

/// Fills two SQLite stores and a PostgreSQL store with random histories of some days, exports them
/// again and again to one folder while they grow and are corrected, and compares.
///
/// # Errors
/// The readers cannot be installed, or a store or an export fails.
pub fn compare(seed: Seed, days: u32, log: &mut dyn FnMut(&str)) -> Result<Agreement, String> {
    let requirements = REQUIREMENTS.map(str::to_owned);
    let python = stage::python::ensure_env(&requirements, None, log).map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    compare_in(&python.join("python"), folder.path(), seed, days)
}

fn compare_in(python: &Path, folder: &Path, seed: Seed, days: u32) -> Result<Agreement, String> {
    let server = Throwaway::start(&["fsync=off"]).map_err(|e| e.to_string())?;
    let url = server.database("parquet").map_err(|e| e.to_string())?;
    let sqlite = |name: &str| Sqlite::open(folder.join(name)).map_err(|e| e.to_string());
    let stores: [Box<dyn Store>; 3] = [
        Box::new(sqlite("a.sqlite")?),
        Box::new(sqlite("b.sqlite")?),
        Box::new(Postgres::open(&url).map_err(|e| e.to_string())?),
    ];
    let slots = folder.join("slots");
    let mut truth = Totals::new();
    let mut agreement = Agreement { recorders: stores.len(), ..Agreement::default() };
    for (number, mut store) in stores.into_iter().enumerate() {
        let mut rng = seed.rng(&format!("parquet {number}"));
        let mut history = History::new(&mut *store, number)?;
        for hour in 0..i64::from(days) * 24 {
            history.hour(&mut rng, hour)?;
            if rng.random_range(0..8) == 0 {
                let sealed_us = START_US + (hour - rng.random_range(0..6)) * HOUR_US;
                run(history.store, &slots, sealed_us)?;
            }
        }
        run(&mut *store, &slots, i64::MAX)?;
        truth.append(&mut stored(&mut *store)?);
    }
    let read = read(python, &slots)?;
    let counts = |step: &str| -> f64 {
        let of_step = truth.iter().filter(|(key, sums)| sums.flow && key.starts_with(step));
        of_step.map(|(_, sums)| sums.total).sum()
    };
    for step in ["10s", "1m", "1h"] {
        let found = read["counts"][step].as_f64();
        if found != Some(counts(&format!("{step} "))) {
            agreement.different.push(format!("all counts of {step}: {found:?}"));
        }
    }
    agreement.totals = truth.len();
    agreement.slots = truth.values().map(|sums| sums.rows).sum();
    for reader in ["duckdb", "pyarrow"] {
        let found = totals(&read[reader]).ok_or(format!("{reader} answered {}", read[reader]))?;
        let keys = truth.keys().chain(found.keys()).collect::<std::collections::BTreeSet<_>>();
        for key in keys {
            let (stored, found) = (truth.get(key), found.get(key));
            if !stored.zip(found).is_some_and(|(stored, found)| is_same(stored, found)) {
                agreement.different.push(format!("{key}: {stored:?}, {reader} has {found:?}"));
            }
        }
    }
    Ok(agreement)
}

fn run(store: &mut dyn Store, folder: &Path, sealed_us: i64) -> Result<(), String> {
    let request = ExportRequest { sealed_us, ..ExportRequest::default() };
    export(store, folder, &request, &mut |_| {}).map(|_| ()).map_err(|e| e.to_string())
}

/// Equal to the bit, but for the total of a level: readers add doubles in any order.
fn is_same(a: &Sums, b: &Sums) -> bool {
    let near = (a.total - b.total).abs() <= 1e-12 * a.total.abs();
    let total = if !a.flow && near { a.total } else { b.total };
    *a == Sums { total, ..b.clone() }
}

/// Writes a random history.
struct History<'s> {
    store: &'s mut dyn Store,
    series: Vec<(i64, Kind)>,
    seq: u64,
}

impl<'s> History<'s> {
    fn new(store: &'s mut dyn Store, number: usize) -> Result<History<'s>, String> {
        let retention = |step_s| Retention::from_secs(step_s, None).ok_or("not a step");
        store
            .retain(&[retention(10)?, retention(60)?, retention(3_600)?])
            .map_err(|e| e.to_string())?;
        let recorder = number.to_string();
        let step = retention(10)?.step;
        let wanted = (0..6).map(|host| {
            let (host, kind) = (host.to_string(), if host < 4 { Kind::Count } else { Kind::Level });
            let tags = [("host", host.as_str()), ("recorder", recorder.as_str())];
            NewSeries::new(Identity::new("m", tags), Spec::new(kind, step))
        });
        let wanted: Vec<NewSeries> = wanted.collect();
        let made = store.series(&wanted, &SeriesLimit::DEFAULT).map_err(|e| e.to_string())?;
        let mut series = Vec::new();
        for (made, wanted) in made.into_iter().zip(&wanted) {
            series.push((made.map_err(|e| e.to_string())?.id, wanted.spec.kind));
        }
        Ok(History { store, series, seq: 0 })
    }

    /// Intervals of about an hour, one of them late, in two lanes.
    fn hour(&mut self, rng: &mut Rng, hour: i64) -> Result<(), String> {
        let step = Step::from_secs(10).ok_or("not a step")?;
        let mut changes = Changes::default();
        for (series, kind) in &self.series {
            let late = if rng.random_range(0..20) == 0 { rng.random_range(0..=hour) } else { 0 };
            let from_us = START_US + (hour - late) * HOUR_US + rng.random_range(0..HOUR_US);
            let until_us = from_us + rng.random_range(1..HOUR_US);
            let spec = Spec::new(*kind, step);
            let value = match kind {
                Kind::Count => f64::from(rng.random_range(0..100_000_000)),
                _ => f64::from(rng.random_range(0..10_000)) / 100.0,
            };
            let interval = Interval::of(&spec, from_us, until_us, value);
            let lane = rng.random_range(0..2);
            for (slot_us, part) in interval.map_err(|e| e.to_string())?.slots(step) {
                let key = SlotKey { slot_us, series: *series, lane };
                changes.add(step, key, Delta::widen(part));
            }
        }
        self.seq += 1;
        self.store.apply(Writer(1), self.seq, &changes).map_err(|e| e.to_string())?;
        Ok(())
    }
}

/// What a store has.
fn stored(store: &mut dyn Store) -> Result<Totals, String> {
    let mut totals = Totals::new();
    for retention in store.retentions().map_err(|e| e.to_string())? {
        let step = retention.step;
        for series in store.find(&Selector::default()).map_err(|e| e.to_string())? {
            let rows = store.slots(step, &[series.id], i64::MIN, i64::MAX);
            let rows = rows.map_err(|e| e.to_string())?;
            for lanes in rows.chunk_by(|(a, _), (b, _)| a.slot_us == b.slot_us) {
                let mut slot = Accumulator::EMPTY;
                lanes.iter().for_each(|(_, row)| slot.merge(row));
                let day = (lanes[0].0.slot_us - START_US) / (24 * HOUR_US) + 20;
                let tags = series.identity.tags.iter().map(|(k, v)| format!("{k}={v}"));
                let tags = tags.collect::<Vec<_>>().join(",");
                let day = if day <= 30 { format!("2026-11-{day}") } else { format!("after {day}") };
                let key = format!("{} {day} m value {tags}", store::step_name(step));
                let sums = totals.entry(key).or_default();
                sums.flow = series.spec.kind.flavor() == Flavor::Flow;
                sums.rows += 1;
                sums.total += slot.integral.as_f64();
                sums.covered_us += slot.covered_us;
                sums.n += slot.n;
                sums.min = sums.min.into_iter().chain(slot.min()).reduce(f64::min);
                sums.max = sums.max.into_iter().chain(slot.max()).reduce(f64::max);
            }
        }
    }
    Ok(totals)
}

/// What the readers find.
fn read(python: &Path, folder: &Path) -> Result<Value, String> {
    let output = Command::new(python).args(["-c", SCRIPT]).arg(folder).output();
    let output = output.map_err(|e| format!("{} cannot be run: {e}", python.display()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("the readers failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The totals of a reader.
fn totals(rows: &Value) -> Option<Totals> {
    let mut totals = Totals::new();
    for row in rows.as_array()? {
        let texts: Option<Vec<&str>> = (0..5).map(|at| row[at].as_str()).collect();
        let sums = Sums {
            flow: row[5].as_bool()?,
            rows: row[6].as_u64()?,
            total: row[7].as_f64()?,
            covered_us: row[8].as_i64()?,
            n: row[9].as_i64()?,
            min: row[10].as_f64(),
            max: row[11].as_f64(),
        };
        totals.insert(texts?.join(" "), sums);
    }
    Some(totals)
}
