//! Ours, in SQLite and in PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec};
use store::{
    Changes, Identity, NewSeries, Packing, Postgres, Retention, SeriesLimit, Sqlite, Store, Writer,
};
use throwaway::{NoServer, Throwaway};

use super::points::{Load, Pattern, START_S, STEP_S, Values};
use super::{FillCost, FillFailure, cpu};
use crate::options::json;
use crate::process::output;
use crate::say;

/// Points per batch.
const BATCH: u64 = 100_000;

/// Limit on points written slot by slot.
pub(super) const LIVE_MAX: u64 = 2_000_000;

/// A database to fill: a record of SQLite, or that of a PostgreSQL which ends with this value.
pub(super) struct Database {
    pub(super) place: String,
    folder: PathBuf,
    server: Option<(Throwaway, u32)>,
}

/// How a database is made; only SQLite needs the folder.
pub(super) type Make = fn(&Path) -> Result<Database, FillFailure>;

impl Database {
    /// A record in a folder of its own.
    pub(super) fn sqlite(folder: &Path) -> Result<Database, FillFailure> {
        let folder = folder.join("record");
        std::fs::create_dir(&folder)?;
        let place = folder.join("record.sqlite").display().to_string();
        Ok(Database { place, folder, server: None })
    }

    /// A PostgreSQL with Debian's default settings.
    pub(super) fn postgres(_: &Path) -> Result<Database, FillFailure> {
        let server = start()?;
        let place = server.database("bench").map_err(|e| e.to_string())?;
        let pid = cpu::postgres_pid(server.folder())?;
        let folder = server.folder().to_owned();
        Ok(Database { place, folder, server: Some((server, pid)) })
    }

    /// The server's process.
    fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(|(_, pid)| *pid)
    }

    /// CPU time of the server so far.
    pub(super) fn cpu_s(&self) -> f64 {
        self.pid().map_or(0.0, cpu::server_s)
    }

    /// Bytes of the record, or of the tables that this condition selects, with their indexes.
    pub(super) fn bytes(&self, tables: &str) -> Result<u64, String> {
        match self.server {
            None => Ok(cpu::bytes(&self.folder)),
            Some(_) => ask(
                &self.place,
                &format!(
                    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class \
                     WHERE relkind = 'r' AND {tables}"
                ),
            ),
        }
    }
}

/// The condition for all tables.
pub(super) const TABLES: &str = "relnamespace = 'public'::regnamespace";

/// A PostgreSQL with Debian's default settings.
pub(super) fn start() -> Result<Throwaway, FillFailure> {
    Throwaway::start(&[]).map_err(|error| match error {
        NoServer::Missing => FillFailure::missing("apt-get install postgresql"),
        other => other.into(),
    })
}

/// The number returned by a query.
pub(super) fn ask(place: &str, sql: &str) -> Result<u64, String> {
    let said = output(Command::new("psql").args(["-XAtc", sql, place]))?;
    said.trim().parse().map_err(|_| format!("psql: {said}"))
}

/// Fills a database by a process of its own, whose CPU time is counted alone.
pub(super) fn fill(load: &Load, order: &str, database: &Database) -> Result<FillCost, FillFailure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["fill-series", order, &database.place, &serde_json::to_string(load)?]);
    command.args(database.pid().map(|pid| pid.to_string()));
    let filled: FillCost = serde_json::from_str(&output(&mut command)?)?;
    let bytes = database.bytes("relname ~ '^(slot|packed)_[0-9]'")?;
    Ok(FillCost { bytes, ..filled })
}

/// A history to fill a store with.
#[derive(Debug, clap::Args)]
pub(crate) struct FillSeries {
    /// `series`, `slots` or `rows`.
    order: String,
    place: String,
    #[arg(value_parser = json::<Load>)]
    load: Load,
    /// The process of PostgreSQL, whose CPU time counts too.
    server: Option<u32>,
}

impl FillSeries {
    /// Prints what filling the store has cost.
    pub(crate) fn run(&self) -> Result<(), String> {
        say(&serde_json::to_string(&self.fill()?).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// The series are created in advance, like the files of the others.
    fn fill(&self) -> Result<FillCost, String> {
        let FillSeries { order, place, load, server } = self;
        let mut store = open(place, order == "rows").map_err(|e| e.to_string())?;
        let ids = make(&mut *store, load)?;
        let cpu_s = || cpu::own_s() + server.map_or(0.0, cpu::server_s);
        let (began, before_s) = (Instant::now(), cpu_s());
        let points = match order.as_str() {
            "slots" => slot_by_slot(&mut *store, load, &ids)?,
            _ => series_by_series(&mut *store, load, &ids)?,
        };
        let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s() - before_s);
        Ok(FillCost::new(points, wall_s, cpu_s, 0))
    }
}

fn open(place: &str, rows: bool) -> Result<Box<dyn Store>, store::StoreError> {
    let packing = if rows { Packing::NEVER } else { Packing::USUAL };
    Ok(if store::is_postgres(place) {
        Box::new(Postgres::open(place)?.with_packing(packing))
    } else {
        Box::new(Sqlite::open(place)?.with_packing(packing))
    })
}

fn kind(load: &Load) -> Kind {
    if load.values == Pattern::Counts { Kind::Count } else { Kind::Level }
}

fn make(store: &mut dyn Store, load: &Load) -> Result<Vec<i64>, String> {
    let step_s = STEP_S as i64;
    let retention = Retention::from_secs(step_s, None).ok_or("the step cannot be")?;
    store.retain(&[retention]).map_err(|e| e.to_string())?;
    let wanted: Vec<NewSeries> = (0..load.series)
        .map(|number| {
            let host = number.to_string();
            let identity = Identity::new("level", [("host", host.as_str())]);
            NewSeries::new(identity, Spec::new(kind(load), retention.step))
        })
        .collect();
    let made = store.series(&wanted, &SeriesLimit::DEFAULT).map_err(|e| e.to_string())?;
    let ids: Result<Vec<i64>, _> = made.into_iter().map(|made| made.map(|s| s.id)).collect();
    ids.map_err(|e| e.to_string())
}

/// A batch that is being filled.
struct PendingBatch<'s> {
    store: &'s mut dyn Store,
    changes: Changes,
    seq: u64,
    waiting: u64,
    written: u64,
    width_us: i64,
    spec: Spec,
}

impl<'s> PendingBatch<'s> {
    fn new(store: &'s mut dyn Store, load: &Load) -> Result<PendingBatch<'s>, String> {
        let step = series::Step::from_secs(STEP_S as i64).ok_or("the step cannot be")?;
        let width_us = step.us() / load.per_slot as i64;
        let changes = Changes::default();
        let spec = Spec::new(kind(load), step);
        Ok(PendingBatch { store, changes, seq: 0, waiting: 0, written: 0, width_us, spec })
    }

    fn point(&mut self, series: i64, point: u64, value: f64) -> Result<(), String> {
        let from_us = START_S as i64 * SECOND_US + point as i64 * self.width_us;
        let interval = Interval::of(&self.spec, from_us, from_us + self.width_us, value);
        let step = self.spec.step;
        for (slot_us, part) in interval.map_err(|e| e.to_string())?.slots(step) {
            let key = SlotKey { slot_us, series, lane: 0 };
            self.changes.add(step, key, Delta::widen(part));
        }
        self.waiting += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<(), String> {
        self.seq += 1;
        let changes = std::mem::take(&mut self.changes);
        self.store.apply(Writer(1), self.seq, &changes).map_err(|e| e.to_string())?;
        self.written += std::mem::take(&mut self.waiting);
        Ok(())
    }
}

/// In the order of history from files.
fn series_by_series(store: &mut dyn Store, load: &Load, ids: &[i64]) -> Result<u64, String> {
    let mut filling = PendingBatch::new(store, load)?;
    let mut values = Values::new(load.values);
    for id in ids {
        for point in 0..load.each() {
            filling.point(*id, point, values.next())?;
        }
        if filling.waiting >= BATCH {
            filling.write()?;
        }
    }
    filling.write()?;
    Ok(filling.written)
}

/// In order of arrival: every series' next slot in a batch. Ended spans are sealed at the end.
fn slot_by_slot(store: &mut dyn Store, load: &Load, ids: &[i64]) -> Result<u64, String> {
    let mut filling = PendingBatch::new(store, load)?;
    let mut values = Values::new(load.values);
    for slot in 0..load.each().div_ceil(load.per_slot) {
        for id in ids {
            for point in slot * load.per_slot..((slot + 1) * load.per_slot).min(load.each()) {
                filling.point(*id, point, values.next())?;
            }
        }
        filling.write()?;
    }
    let written = filling.written;
    store.seal(i64::MAX).map_err(|e| e.to_string())?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_write_every_point() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        for order in ["series", "slots", "rows"] {
            let place = folder.path().join(order).display().to_string();
            let load = Load { points: 400, series: 4, per_slot: 2, values: Pattern::Walk };
            let filling =
                FillSeries { order: order.to_owned(), place: place.clone(), load, server: None };
            assert_eq!(filling.fill().map(|filled| filled.points), Ok(400));
            let mut store = Sqlite::open(&place).unwrap_or_else(|e| panic!("{e}"));
            let step = series::Step::from_secs(10).unwrap_or_else(|| panic!("a step"));
            let slots = store.slots(step, &[1, 2, 3, 4], i64::MIN, i64::MAX);
            let slots = slots.unwrap_or_else(|e| panic!("{e}"));
            let n: i64 = slots.iter().map(|(_, slot)| slot.n).sum();
            assert_eq!((slots.len(), n), (200, 400), "{order}");
        }
    }
}
