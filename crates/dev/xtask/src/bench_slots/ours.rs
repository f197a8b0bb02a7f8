//! Ours, in SQLite and in PostgreSQL.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec};
use store::{
    Changes, Identity, NewSeries, Packing, Postgres, Retention, SeriesLimit, Sqlite, Store, Writer,
};
use throwaway::{NoServer, Throwaway};

use super::points::{Load, Pattern, START_S, STEP_S, Values};
use super::{Filled, Unfilled, cpu};

/// Points per batch.
const BATCH: u64 = 100_000;

/// Limit on points written slot by slot.
const LIVE_MAX: u64 = 2_000_000;

pub(super) fn sqlite(load: &Load, folder: &Path) -> Result<Filled, Unfilled> {
    in_sqlite(load, folder, "series")
}

pub(super) fn sqlite_rows(load: &Load, folder: &Path) -> Result<Filled, Unfilled> {
    in_sqlite(&load.at_most(LIVE_MAX), folder, "rows")
}

pub(super) fn sqlite_live(load: &Load, folder: &Path) -> Result<Filled, Unfilled> {
    in_sqlite(&load.at_most(LIVE_MAX), folder, "slots")
}

pub(super) fn postgres(load: &Load, _: &Path) -> Result<Filled, Unfilled> {
    in_postgres(load, "series")
}

pub(super) fn postgres_live(load: &Load, _: &Path) -> Result<Filled, Unfilled> {
    in_postgres(&load.at_most(LIVE_MAX / 2), "slots")
}

fn in_sqlite(load: &Load, folder: &Path, order: &str) -> Result<Filled, Unfilled> {
    let place = folder.join("record.sqlite").display().to_string();
    let filled = in_a_process(load, order, &place, 0)?;
    Ok(Filled { bytes: cpu::bytes(folder), ..filled })
}

fn in_postgres(load: &Load, order: &str) -> Result<Filled, Unfilled> {
    let server = start()?;
    let place = server.database("bench").map_err(|e| e.to_string())?;
    let filled = in_a_process(load, order, &place, cpu::postgres_pid(server.folder())?)?;
    let sizes = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class \
                 WHERE relkind = 'r' AND relname ~ '^(slot|packed)_[0-9]'";
    Ok(Filled { bytes: ask(&place, sizes)?, ..filled })
}

/// Fills the store at a place, series by series; `server` is the process of PostgreSQL, or 0.
pub(super) fn fill_place(load: &Load, place: &str, server: u32) -> Result<Filled, String> {
    in_a_process(load, "series", place, server)
}

/// A PostgreSQL with Debian's default settings.
pub(super) fn start() -> Result<Throwaway, Unfilled> {
    Throwaway::start(&[]).map_err(|error| match error {
        NoServer::Missing => Unfilled::Missing("apt-get install postgresql".to_owned()),
        other => Unfilled::Failed(other.to_string()),
    })
}

/// The number returned by a query.
pub(super) fn ask(place: &str, sql: &str) -> Result<u64, String> {
    let output = Command::new("psql").args(["-XAtc", sql, place]).output();
    let output = output.map_err(|e| format!("psql: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    said.parse().map_err(|_| format!("psql: {}", String::from_utf8_lossy(&output.stderr)))
}

fn in_a_process(load: &Load, order: &str, place: &str, server: u32) -> Result<Filled, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let Load { points, series, per_slot, values } = load;
    let numbers = [*points, *series, *per_slot, u64::from(server)];
    let output = Command::new(program)
        .args(["fill-series", order, place, values.name()])
        .args(numbers.map(|number| number.to_string()))
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match words[..] {
        [points, wall_s, cpu_s] => Ok(Filled { points: points as u64, wall_s, cpu_s, bytes: 0 }),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Fills a store; returns the number of points, the time and the CPU time.
///
/// The series are created in advance, like the files of the others.
pub(super) fn fill(words: &[&str]) -> Result<String, String> {
    let [order, place, values, numbers @ ..] = words else {
        return Err("fill-series needs an order, a place and what values are like".to_owned());
    };
    let values = Pattern::named(values).ok_or(format!("{values}: there are no such values"))?;
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let Ok([points, series, per_slot, server]) = numbers.as_deref() else {
        return Err("fill-series needs points, series, points per slot and a process".to_owned());
    };
    let load = Load { points: *points, series: *series, per_slot: *per_slot, values };
    let mut store = open(place, *order == "rows").map_err(|e| e.to_string())?;
    let ids = make(&mut *store, &load)?;
    let cpu_s = || cpu::own_s() + if *server == 0 { 0.0 } else { cpu::server_s(*server as u32) };
    let (began, before_s) = (Instant::now(), cpu_s());
    let written = match *order {
        "slots" => slot_by_slot(&mut *store, &load, &ids),
        _ => series_by_series(&mut *store, &load, &ids),
    };
    let written = written.map_err(|e| e.to_string())?;
    let (wall_s, used_s) = (began.elapsed().as_secs_f64(), cpu_s() - before_s);
    Ok(format!("{written} {wall_s:.6} {used_s:.2}"))
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
struct Filling<'s> {
    store: &'s mut dyn Store,
    changes: Changes,
    seq: u64,
    waiting: u64,
    written: u64,
    width_us: i64,
    spec: Spec,
}

impl<'s> Filling<'s> {
    fn new(store: &'s mut dyn Store, load: &Load) -> Result<Filling<'s>, String> {
        let step = series::Step::from_secs(STEP_S as i64).ok_or("the step cannot be")?;
        let width_us = step.us() / load.per_slot as i64;
        let changes = Changes::default();
        let spec = Spec::new(kind(load), step);
        Ok(Filling { store, changes, seq: 0, waiting: 0, written: 0, width_us, spec })
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
    let mut filling = Filling::new(store, load)?;
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
    let mut filling = Filling::new(store, load)?;
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
            let said = fill(&[order, &place, "walk", "400", "4", "2", "0"])
                .unwrap_or_else(|e| panic!("{e}"));
            assert!(said.starts_with("400 "), "{said}");
            let mut store = Sqlite::open(&place).unwrap_or_else(|e| panic!("{e}"));
            let step = series::Step::from_secs(10).unwrap_or_else(|| panic!("a step"));
            let slots = store.slots(step, &[1, 2, 3, 4], i64::MIN, i64::MAX);
            let slots = slots.unwrap_or_else(|e| panic!("{e}"));
            let n: i64 = slots.iter().map(|(_, slot)| slot.n).sum();
            assert_eq!((slots.len(), n), (200, 400), "{order}");
        }
    }
}
