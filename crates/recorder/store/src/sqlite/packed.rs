//! Packed slots in tables.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, Row, Transaction, params, params_from_iter};
use series::{Accumulator, Delta, SlotKey};

use super::{read, schema, write};
use crate::kept::{Kept, SPAN_SLOTS};
use crate::names;
use crate::packed::{Column, DIVIDED, FORMAT, NUMBERS, Packed, Packing, Stretch, StretchKey};
use crate::plan::{self, Group, RetentionChanges};

/// The columns after the key, in the order of writing and reading.
fn columns() -> String {
    let numbers = NUMBERS.iter().map(|column| format!("{column}_base, {column}"));
    let divisors = DIVIDED.iter().map(|column| format!("{column}_div"));
    let all: Vec<String> = numbers.chain(divisors).collect();
    format!("format, first, count, shape, {}", all.join(", "))
}

/// The statement that creates the table of a partition's packed slots.
pub(super) fn table(step_us: i64, start_us: i64) -> String {
    let numbers = NUMBERS.iter().map(|column| format!("{column}_base INTEGER, {column} BLOB"));
    let divisors = DIVIDED.iter().map(|column| format!("{column}_div REAL"));
    let all: Vec<String> = numbers.chain(divisors).collect();
    format!(
        "CREATE TABLE {} (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            {},
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID",
        names::packed_partition(step_us, start_us),
        all.join(", ")
    )
}

fn table_of(kept: &Kept, span_us: i64) -> String {
    names::packed_partition(kept.step().us(), kept.partition_of(span_us))
}

/// Writes a packed row; replaces an existing one.
pub(super) fn put(
    tx: &Transaction<'_>,
    kept: &Kept,
    key: StretchKey,
    packed: &Packed,
) -> Result<()> {
    let places = vec!["?"; 7 + 2 * NUMBERS.len() + DIVIDED.len()].join(", ");
    let sql = format!("INSERT OR REPLACE INTO {} VALUES ({places})", table_of(kept, key.span_us));
    let head = [key.span_us, key.series, key.lane.into(), FORMAT, packed.first, packed.count];
    let head = head.into_iter().chain([packed.shape]).map(Value::from);
    let numbers = packed.numbers.iter().flat_map(|column| {
        let base = if column.base == 0 { Value::Null } else { Value::from(column.base) };
        let digits = match column.digits.is_empty() {
            true => Value::Null,
            false => Value::from(column.digits.clone()),
        };
        [base, digits]
    });
    let divisors = packed.divisors.iter().map(|divisor| Value::from(*divisor));
    tx.prepare_cached(&sql)?.execute(params_from_iter(head.chain(numbers).chain(divisors)))?;
    Ok(())
}

/// Deletes a packed row.
fn remove(tx: &Transaction<'_>, kept: &Kept, key: StretchKey) -> Result<()> {
    let table = table_of(kept, key.span_us);
    let sql = format!("DELETE FROM {table} WHERE span_us = ?1 AND series = ?2 AND lane = ?3");
    tx.prepare_cached(&sql)?.execute(params![key.span_us, key.series, key.lane])?;
    Ok(())
}

fn packed(row: &Row<'_>) -> Result<Packed> {
    let format: i64 = row.get("format")?;
    if !(1..=FORMAT).contains(&format) {
        return Err(schema::broken(3, format!("format {format} of packed slots is unknown")));
    }
    let mut packed = Packed {
        first: row.get("first")?,
        count: row.get("count")?,
        shape: row.get("shape")?,
        numbers: std::array::from_fn(|_| Column::default()),
        divisors: [None; 8],
    };
    let from = 4;
    for (place, column) in packed.numbers.iter_mut().enumerate() {
        column.base = row.get::<_, Option<i64>>(from + 2 * place)?.unwrap_or(0);
        column.digits = row.get::<_, Option<Vec<u8>>>(from + 2 * place + 1)?.unwrap_or_default();
    }
    for (place, divisor) in packed.divisors.iter_mut().enumerate() {
        *divisor = row.get(from + 2 * NUMBERS.len() + place)?;
    }
    Ok(packed)
}

fn unpacked(row: &Row<'_>, kept: &Kept, key: StretchKey) -> Result<Stretch> {
    let mut stretch = Stretch::new(kept, key);
    let packed = packed(row)?;
    packed.unpack(&mut stretch).map_err(|cause| schema::broken(3, cause))?;
    Ok(stretch)
}

/// The packed slots of one series and lane in a span.
fn find(db: &Connection, kept: &Kept, key: StretchKey) -> Result<Option<Stretch>> {
    let sql = format!(
        "SELECT {} FROM {} WHERE span_us = ?1 AND series = ?2 AND lane = ?3",
        columns(),
        table_of(kept, key.span_us)
    );
    let mut statement = db.prepare_cached(&sql)?;
    let found = statement
        .query_row(params![key.span_us, key.series, key.lane], |row| unpacked(row, kept, key));
    found.optional()
}

/// The packed stretches of a series in those spans of a partition that overlap a range.
pub(super) fn of_series(
    db: &Connection,
    kept: &Kept,
    series: i64,
    from_us: i64,
    until_us: i64,
) -> Result<Vec<Stretch>> {
    let sql = format!(
        "WITH RECURSIVE span (at) AS (
             SELECT ?2 UNION ALL SELECT at + {span_us} FROM span WHERE at + {span_us} < ?3)
         SELECT {}, span_us, lane FROM span CROSS JOIN {} ON span_us = at AND series = ?1",
        columns(),
        table_of(kept, from_us),
        span_us = kept.step().us().saturating_mul(SPAN_SLOTS),
    );
    let mut statement = db.prepare_cached(&sql)?;
    let first_us = kept.span_of(from_us);
    let found = statement.query_map([series, first_us, until_us], |row| {
        let key = StretchKey { span_us: row.get("span_us")?, series, lane: row.get("lane")? };
        unpacked(row, kept, key)
    })?;
    found.collect()
}

/// What exists in a span, of any series.
#[derive(Clone, Copy)]
struct Present {
    packed: bool,
    rows: bool,
}

fn present(db: &Connection, kept: &Kept, span_us: i64) -> Result<Present> {
    let slots = names::partition(kept.step().us(), kept.partition_of(span_us));
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} WHERE span_us = ?1),
                EXISTS (SELECT 1 FROM {slots} WHERE slot_us >= ?1 AND slot_us < ?2)",
        table_of(kept, span_us)
    );
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_row([span_us, kept.span_end(span_us)], |row| {
        Ok(Present { packed: row.get(0)?, rows: row.get(1)? })
    })
}

/// Writes what belongs into packed rows, and returns the remaining changes for separate rows.
///
/// The keys of slots whose counts are too large are added to `over`.
pub(super) fn add<'p>(
    tx: &Transaction<'_>,
    part: &'p RetentionChanges<'_>,
    packing: Packing,
    over: &mut Vec<SlotKey>,
) -> Result<Vec<(&'p SlotKey, &'p Delta)>> {
    let kept = &part.kept;
    let mut spans: HashMap<i64, Present> = HashMap::new();
    let mut rows = Vec::new();
    for group in part.groups() {
        let key = group.key;
        let there = match spans.get(&key.span_us) {
            Some(there) => *there,
            None => present(tx, kept, key.span_us)?,
        };
        spans.insert(key.span_us, there);
        let known = if there.packed { find(tx, kept, key)? } else { None };
        let worth = packing.admits(group.rows.len(), group.places(kept.step()));
        let (was_packed, mut stretch) = match known {
            Some(stretch) => (true, stretch),
            None if !worth => {
                rows.extend(group.rows);
                continue;
            }
            None => (false, Stretch::new(kept, key)),
        };
        if there.rows && !was_packed {
            take_rows(tx, kept, &mut stretch)?;
        }
        change(&mut stretch, &group, over)?;
        store(tx, kept, &stretch, was_packed)?;
    }
    Ok(rows)
}

/// The content of a slot. One outside the stretch would be lost, so that is an error.
fn slot<'s>(stretch: &'s mut Stretch, key: &SlotKey) -> Result<&'s mut Accumulator> {
    stretch.slot(key.slot_us).map_err(|cause| schema::broken(0, cause))
}

fn change(stretch: &mut Stretch, group: &Group<'_>, over: &mut Vec<SlotKey>) -> Result<()> {
    for (key, delta) in &group.rows {
        let slot = slot(stretch, key)?;
        *slot = delta.apply_to(slot);
        if plan::overflows(delta, slot.integral.as_f64()) {
            over.push(**key);
        }
    }
    Ok(())
}

/// Writes a stretch as one packed row; as rows if it cannot be packed.
fn store(tx: &Transaction<'_>, kept: &Kept, stretch: &Stretch, was_packed: bool) -> Result<bool> {
    if let Some(packed) = stretch.pack() {
        put(tx, kept, stretch.key, &packed)?;
        return Ok(true);
    }
    if was_packed {
        remove(tx, kept, stretch.key)?;
    }
    let deltas: Vec<(SlotKey, Delta)> =
        stretch.iter().map(|(key, row)| (key, Delta::widen(*row))).collect();
    let rows: Vec<(&SlotKey, &Delta)> = deltas.iter().map(|(key, delta)| (key, delta)).collect();
    write::add_rows(tx, kept, &rows, &mut Vec::new())?;
    Ok(false)
}

/// Moves the rows of a stretch's slots into it; returns their number.
fn take_rows(tx: &Transaction<'_>, kept: &Kept, stretch: &mut Stretch) -> Result<u64> {
    let key = stretch.key;
    let found = read::rows(tx, kept, key.series, key.span_us, kept.span_end(key.span_us))?;
    let table = names::partition(kept.step().us(), kept.partition_of(key.span_us));
    let sql = format!("DELETE FROM {table} WHERE slot_us = ?1 AND series = ?2 AND lane = ?3");
    let mut delete = tx.prepare_cached(&sql)?;
    let mut taken = 0;
    for (key, row) in found.iter().filter(|(found, _)| found.lane == key.lane) {
        delete.execute(params![key.slot_us, key.series, key.lane])?;
        slot(stretch, key)?.merge(row);
        taken += 1;
    }
    Ok(taken)
}

/// The next span with rows at or after `from_us` in a partition.
pub(super) fn next_with_rows(db: &Connection, kept: &Kept, from_us: i64) -> Result<Option<i64>> {
    let table = names::partition(kept.step().us(), kept.partition_of(from_us));
    let sql = format!("SELECT min(slot_us) FROM {table} WHERE slot_us >= ?1");
    let found: Option<i64> = db.prepare_cached(&sql)?.query_row([from_us], |row| row.get(0))?;
    Ok(found.map(|slot_us| kept.span_of(slot_us)))
}

/// Packs the rows of a span; returns the number of packed slots.
pub(super) fn seal(
    tx: &Transaction<'_>,
    kept: &Kept,
    span_us: i64,
    packing: Packing,
) -> Result<u64> {
    let partition_us = kept.partition_of(span_us);
    if !schema::partitions(tx, kept.step().us())?.contains(&partition_us) {
        return Ok(0);
    }
    let table = names::partition(kept.step().us(), partition_us);
    let sql = format!(
        "SELECT series, lane, count(*), (max(slot_us) - min(slot_us)) / {step_us} + 1
         FROM {table} WHERE slot_us >= ?1 AND slot_us < ?2
         GROUP BY series, lane HAVING count(*) >= ?3",
        step_us = kept.step().us()
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let ends = params![span_us, kept.span_end(span_us), packing.fewest()];
    let found = statement.query_map(ends, |row| {
        let key = StretchKey { span_us, series: row.get(0)?, lane: row.get(1)? };
        Ok((key, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
    })?;
    let mut sealed = 0;
    for found in found.collect::<Result<Vec<_>>>()? {
        let (key, slots, places) = found;
        if packing.admits(slots as usize, places as usize) {
            let mut stretch = Stretch::new(kept, key);
            let taken = take_rows(tx, kept, &mut stretch)?;
            sealed += if store(tx, kept, &stretch, false)? { taken } else { 0 };
        }
    }
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retention;

    #[test]
    fn a_packed_change_that_finds_no_slot_is_an_error() {
        let kept = Kept::new(Retention::from_secs(10, None).unwrap());
        let key = StretchKey { span_us: 0, series: 7, lane: 0 };
        let mut stretch = Stretch::new(&kept, key);
        let last = SlotKey { slot_us: 179 * 10_000_000, series: 7, lane: 0 };
        let beyond = SlotKey { slot_us: 180 * 10_000_000, ..last };
        let before = SlotKey { slot_us: -10_000_000, ..last };
        let delta = Delta::widen(Accumulator { n: 1, ..Accumulator::EMPTY });
        let mut try_one = |slot: &SlotKey| {
            let group = Group { key, rows: vec![(slot, &delta)] };
            change(&mut stretch, &group, &mut Vec::new())
        };
        assert!(try_one(&last).is_ok());
        assert!(try_one(&before).is_err());
        let error = try_one(&beyond).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "the slot at 1800000000 µs of series 7 lies outside its span, which starts at 0 µs"
            ),
            "{error}"
        );
    }
}
