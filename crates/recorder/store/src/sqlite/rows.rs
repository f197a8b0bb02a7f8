//! Slots in rows of their own.

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Result, Row, Statement, Transaction, params};
use series::{Accumulator, Bounds, COUNT_MAX, Delta, Integral, SlotKey};

use crate::stored_retention::StoredRetention;
use crate::{names, plan};

/// The columns of a slot, in the order in which [`slot`] reads them.
pub(super) const SLOT: &str =
    "slot_us, series, lane, integral, covered_us, vmin, vmax, n, last_us, last_val, approximate";

/// A slot from the columns [`SLOT`]; its integral is a double.
pub(super) fn slot(row: &Row<'_>) -> Result<(SlotKey, Accumulator)> {
    let real = |column: usize, otherwise: f64| -> Result<f64> {
        match row.get_ref(column)? {
            ValueRef::Null => Ok(otherwise),
            value => Ok(value.as_f64()?),
        }
    };
    let accumulator = Accumulator {
        integral: Integral::Area(real(3, 0.0)?),
        covered_us: row.get(4)?,
        vmin: real(5, f64::INFINITY)?,
        vmax: real(6, f64::NEG_INFINITY)?,
        n: row.get(7)?,
        last_us: row.get::<_, Option<i64>>(8)?.unwrap_or(i64::MIN),
        last_val: real(9, 0.0)?,
        approximate: row.get(10)?,
    };
    Ok((SlotKey { slot_us: row.get(0)?, series: row.get(1)?, lane: row.get(2)? }, accumulator))
}

/// The times of a table's rows, each found from the one before: their number is small, because rows
/// are packed once their span is over.
///
/// With them the rows of a series are found by the key. An index by series would be changed by a
/// batch of one slot of each series in as many pages as there are series.
fn times_sql(table: &str, from: &str) -> String {
    format!(
        "WITH RECURSIVE time (us) AS (
             SELECT min(slot_us) FROM {table} {from}
             UNION ALL
             SELECT (SELECT min(slot_us) FROM {table} WHERE slot_us > us) FROM time
             WHERE us IS NOT NULL)
         SELECT us FROM time"
    )
}

/// All rows of a table as a view reads them: those of some series by the times of the table.
///
/// With DISTINCT, SQLite applies a condition on times to their list, not to each series and time.
pub(super) fn by_times(table: &str) -> String {
    let columns = SLOT.replacen("slot_us", "us AS slot_us", 1);
    let times = times_sql(table, "");
    format!(
        "SELECT {columns} FROM (SELECT DISTINCT us FROM ({times})) CROSS JOIN {table} ON slot_us = us"
    )
}

/// The times of rows in a range within one partition.
pub(super) fn times(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<Vec<i64>> {
    let table = names::partition(kept.step().us(), kept.partition_of(from_us));
    let sql = format!("{} WHERE us < ?2", times_sql(&table, "WHERE slot_us >= ?1"));
    db.prepare_cached(&sql)?.query_map([from_us, until_us], |row| row.get(0))?.collect()
}

/// The rows of some series in a range within one partition, in order of time.
pub(super) fn of_series(
    db: &Connection,
    kept: &StoredRetention,
    series: &[i64],
    from_us: i64,
    until_us: i64,
) -> Result<Vec<(SlotKey, Accumulator)>> {
    let table = names::partition(kept.step().us(), kept.partition_of(from_us));
    let sql = format!(
        "SELECT {SLOT} FROM ({} WHERE us < ?3) CROSS JOIN {table} ON slot_us = us
         WHERE series IN (SELECT value FROM json_each(?1))",
        times_sql(&table, "WHERE slot_us >= ?2")
    );
    let mut statement = db.prepare_cached(&sql)?;
    let series = series.iter().map(i64::to_string).collect::<Vec<String>>().join(",");
    statement.query_map(params![format!("[{series}]"), from_us, until_us], slot)?.collect()
}

/// Adds to rows, ordered by key. The keys of those whose counts are too large are added to `over`.
pub(super) fn add(
    tx: &Transaction<'_>,
    kept: &StoredRetention,
    rows: &[(&SlotKey, &Delta)],
    over: &mut Vec<SlotKey>,
) -> Result<()> {
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(|(key, _)| **key);
    let mut open: Option<(i64, CachedStatement<'_>)> = None;
    for (key, delta) in rows {
        let start_us = kept.partition_of(key.slot_us);
        let statement = match &mut open {
            Some((known_us, statement)) if *known_us == start_us => statement,
            _ => {
                let table = names::partition(kept.step().us(), start_us);
                &mut open.insert((start_us, tx.prepare_cached(&upsert(&table))?)).1
            }
        };
        if plan::overflows(delta, 0.0) || !add_row(statement, key, delta)? {
            over.push(*key);
        }
    }
    Ok(())
}

/// The statement that adds a delta to a row, unless that makes its count too large.
///
/// With RETURNING, SQLite would copy every page that it changes to a temporary file first, which
/// takes as long as all the rest.
fn upsert(table: &str) -> String {
    format!(
        "INSERT INTO {table} AS s VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (slot_us, series, lane) DO UPDATE SET
             integral = s.integral + excluded.integral,
             covered_us = s.covered_us + excluded.covered_us,
             vmin = CASE WHEN ?12 THEN excluded.vmin
                         ELSE min(coalesce(s.vmin, excluded.vmin), coalesce(excluded.vmin, s.vmin)) END,
             vmax = CASE WHEN ?12 THEN excluded.vmax
                         ELSE max(coalesce(s.vmax, excluded.vmax), coalesce(excluded.vmax, s.vmax)) END,
             n = s.n + excluded.n,
             last_val = CASE WHEN excluded.last_us IS NULL OR excluded.last_us < s.last_us THEN s.last_val
                             WHEN excluded.last_us = s.last_us THEN max(s.last_val, excluded.last_val)
                             ELSE excluded.last_val END,
             last_us = max(coalesce(s.last_us, excluded.last_us), coalesce(excluded.last_us, s.last_us)),
             approximate = CASE WHEN ?12 THEN excluded.approximate
                                ELSE s.approximate OR excluded.approximate END
         WHERE ?13 IS NULL OR abs(s.integral + excluded.integral) < ?13"
    )
}

/// Adds to a row; false if its count would be too large.
fn add_row(statement: &mut Statement<'_>, key: &SlotKey, delta: &Delta) -> Result<bool> {
    let Accumulator { integral, covered_us, n, approximate, .. } = delta.add;
    let changed = statement.execute(params![
        key.slot_us,
        key.series,
        key.lane,
        integral.as_f64(),
        covered_us,
        delta.add.min(),
        delta.add.max(),
        n,
        delta.add.last().map(|(at_us, _)| at_us),
        delta.add.last().map(|(_, value)| value),
        approximate,
        delta.bounds == Bounds::Replace,
        matches!(integral, Integral::Count(_)).then_some(COUNT_MAX as f64),
    ])?;
    Ok(changed == 1)
}
