//! Reads all series of a time at once.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result, Rows, params};
use series::{Accumulator, SlotKey};

use super::error::broken;
use super::{packed, rows, schema};
use crate::scan::{Gather, row_bytes};
use crate::stored_retention::StoredRetention;
use crate::{Digests, SlotSum, Take, names};

/// Gives the slots of all series that start in a time; see [`crate::Store::scan`].
pub(super) fn scan(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
    take: &mut Take<'_>,
) -> Result<()> {
    let step_us = kept.step().us();
    let starts = partitions(db, kept, from_us, until_us)?;
    if starts.is_empty() {
        return Ok(());
    }
    let mut stretches = packed::Lookup::new(db, kept, &starts)?;
    let keys = stretches.keys(kept.span_of(from_us), until_us)?;
    let mut keys = keys.iter().copied().peekable();
    let mut statement = db.prepare(&rows_sql(step_us, &starts))?;
    let mut rows = Cursor::new(statement.query(params![from_us, until_us])?)?;
    let mut gather = Gather::default();
    loop {
        let next = [keys.peek().map(|key| key.series), rows.next.as_ref().map(|row| row.0.series)];
        let Some(series) = next.into_iter().flatten().min() else { return Ok(()) };
        while let Some(key) = keys.next_if(|key| key.series == series) {
            let packed = stretches.find(key)?;
            let done = packed.sums(key, step_us, from_us, until_us, gather.slots());
            done.map_err(|cause| broken(3, cause))?;
        }
        while let Some((key, row)) = rows.next.filter(|(key, _)| key.series == series) {
            gather.slots().push(SlotSum::new(key.slot_us, key.lane, &row));
            rows.advance()?;
        }
        if gather.give(series, kept.horizon_us, take).is_break() {
            return Ok(());
        }
    }
}

/// The digests of the spans that overlap a time; see [`crate::Store::digests`].
pub(super) fn digests(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<Digests> {
    let mut digests = Digests { horizon_us: kept.horizon_us, spans: BTreeMap::new() };
    let Some((from_us, until_us)) = kept.spans_over(from_us, until_us) else {
        return Ok(digests);
    };
    let mut bytes = Vec::new();
    for start_us in partitions(db, kept, from_us, until_us)? {
        packed::each(db, kept, start_us, from_us, until_us, |key, packed| {
            packed.row_bytes(&mut bytes, key);
            digests.row(kept, key.span_us, &bytes);
        })?;
        let mut statement = db.prepare(&rows_sql(kept.step().us(), &[start_us]))?;
        let mut rows = Cursor::new(statement.query(params![from_us, until_us])?)?;
        while let Some((key, row)) = &rows.next {
            row_bytes(&mut bytes, key, row);
            digests.row(kept, key.slot_us, &bytes);
            rows.advance()?;
        }
    }
    Ok(digests)
}

/// The starts of the partitions that overlap a time.
fn partitions(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<Vec<i64>> {
    let starts = schema::partitions(db, kept.step().us())?.into_iter();
    let overlaps = |start_us: &i64| {
        *start_us < until_us && start_us.saturating_add(kept.partition_us) > from_us
    };
    Ok(starts.filter(overlaps).collect())
}

/// The statement that reads the rows of some partitions that start in a time, by series.
fn rows_sql(step_us: i64, starts: &[i64]) -> String {
    let parts = starts.iter().map(|start_us| {
        let table = names::partition(step_us, *start_us);
        format!("SELECT {} FROM {table} WHERE slot_us >= ?1 AND slot_us < ?2", rows::SLOT)
    });
    let parts: Vec<String> = parts.collect();
    format!("{} ORDER BY series, slot_us, lane", parts.join(" UNION ALL "))
}

/// Rows, one ahead.
struct Cursor<'s> {
    rows: Rows<'s>,
    next: Option<(SlotKey, Accumulator)>,
}

impl<'s> Cursor<'s> {
    fn new(rows: Rows<'s>) -> Result<Cursor<'s>> {
        let mut cursor = Cursor { rows, next: None };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = self.rows.next()?.map(rows::slot).transpose()?;
        Ok(())
    }
}
