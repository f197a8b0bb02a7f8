//! Packed slots in tables.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Result, Row, Statement, Transaction, params,
};
use series::{Accumulator, Delta, SlotKey};

use super::error::broken;
use super::packed_table::columns;
use super::{rows, schema};
use crate::names;
use crate::packed::{DIVIDED, FORMAT, NUMBERS, PackedSlots, Packing, Stretch, StretchKey};
use crate::plan::{self, Group, RetentionChanges};
use crate::stored_retention::StoredRetention;

/// The statement that writes a packed row into a table; it replaces an existing one.
fn upsert(table: &str) -> String {
    let columns = columns();
    let places = vec!["?"; 7 + 2 * NUMBERS.len() + DIVIDED.len()].join(", ");
    let sets: Vec<String> =
        columns.split(", ").map(|name| format!("{name} = excluded.{name}")).collect();
    // Unlike REPLACE, an update leaves the index by series alone.
    format!(
        "INSERT INTO {table} (span_us, series, lane, {columns}) VALUES ({places})
         ON CONFLICT (span_us, series, lane) DO UPDATE SET {}",
        sets.join(", ")
    )
}

/// The statements that find and write packed rows of a step, each by the start of its partition:
/// composing and looking up their texts costs more than a row.
#[derive(Default)]
struct Statements<'tx> {
    find: BTreeMap<i64, CachedStatement<'tx>>,
    put: BTreeMap<i64, CachedStatement<'tx>>,
}

impl<'tx> Statements<'tx> {
    /// The packed slots of one series and lane in a span.
    fn find(
        &mut self,
        tx: &'tx Transaction<'_>,
        kept: &StoredRetention,
        key: StretchKey,
    ) -> Result<Option<Stretch>> {
        let statement = match self.find.entry(kept.partition_of(key.span_us)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (columns, table) = (columns(), table_of(kept, key.span_us));
                new.insert(tx.prepare_cached(&format!(
                    "SELECT {columns} FROM {table} WHERE span_us = ?1 AND series = ?2 AND lane = ?3"
                ))?)
            }
        };
        let key_of_row = params![key.span_us, key.series, key.lane];
        statement.query_row(key_of_row, |row| unpacked(row, kept, key)).optional()
    }

    /// Writes a packed row; replaces an existing one.
    fn put(
        &mut self,
        tx: &'tx Transaction<'_>,
        kept: &StoredRetention,
        key: StretchKey,
        packed: &PackedSlots,
    ) -> Result<()> {
        let statement = match self.put.entry(kept.partition_of(key.span_us)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(tx.prepare_cached(&upsert(&table_of(kept, key.span_us)))?)
            }
        };
        let head = [key.span_us, key.series, key.lane.into(), FORMAT, packed.first, packed.count];
        let mut place = 0;
        let mut next = || {
            place += 1;
            place
        };
        for number in head.into_iter().chain([packed.shape]) {
            statement.raw_bind_parameter(next(), number)?;
        }
        for place in 0..NUMBERS.len() {
            let base = packed.stored_base(place, kept.step().us());
            statement.raw_bind_parameter(next(), base)?;
            statement.raw_bind_parameter(next(), packed.stored_digits(place))?;
        }
        for divisor in packed.stored_divisors() {
            statement.raw_bind_parameter(next(), divisor)?;
        }
        statement.raw_execute()?;
        Ok(())
    }
}

fn table_of(kept: &StoredRetention, span_us: i64) -> String {
    names::packed_partition(kept.step().us(), kept.partition_of(span_us))
}

/// Deletes a packed row.
fn remove(tx: &Transaction<'_>, kept: &StoredRetention, key: StretchKey) -> Result<()> {
    let table = table_of(kept, key.span_us);
    let sql = format!("DELETE FROM {table} WHERE span_us = ?1 AND series = ?2 AND lane = ?3");
    tx.prepare_cached(&sql)?.execute(params![key.span_us, key.series, key.lane])?;
    Ok(())
}

/// A packed row of a step from the columns [`columns`], which come first.
fn packed(row: &Row<'_>, step_us: i64) -> Result<PackedSlots> {
    let format: i64 = row.get(0)?;
    if format != FORMAT {
        return Err(broken(3, format!("format {format} of packed slots is unknown")));
    }
    let (numbers, divisors) = (4, 4 + 2 * NUMBERS.len());
    PackedSlots::from_stored(
        [row.get(1)?, row.get(2)?, row.get(3)?],
        step_us,
        |place| row.get(numbers + 2 * place),
        |place| row.get(numbers + 2 * place + 1),
        |place| row.get(divisors + place),
    )
}

fn unpacked(row: &Row<'_>, kept: &StoredRetention, key: StretchKey) -> Result<Stretch> {
    let mut stretch = Stretch::new(kept, key);
    let packed = packed(row, kept.step().us())?;
    packed.unpack(&mut stretch).map_err(|cause| broken(3, cause))?;
    Ok(stretch)
}

/// The packed stretches of a series in those spans of a partition that overlap a range.
pub(super) fn of_series(
    db: &Connection,
    kept: &StoredRetention,
    series: i64,
    from_us: i64,
    until_us: i64,
) -> Result<Vec<Stretch>> {
    let sql = format!(
        "SELECT {}, span_us, lane FROM {}
         WHERE series = ?1 AND span_us >= ?2 AND span_us < ?3",
        columns(),
        table_of(kept, from_us)
    );
    let mut statement = db.prepare_cached(&sql)?;
    let first_us = kept.span_of(from_us);
    let found = statement.query_map([series, first_us, until_us], |row| {
        let key = StretchKey { span_us: row.get("span_us")?, series, lane: row.get("lane")? };
        unpacked(row, kept, key)
    })?;
    found.collect()
}

/// Whether slots of any series may be packed in a range within one partition.
pub(super) fn has_any(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<bool> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} WHERE span_us >= ?1 AND span_us < ?2)",
        table_of(kept, from_us)
    );
    db.prepare_cached(&sql)?.query_row([kept.span_of(from_us), until_us], |row| row.get(0))
}

/// Looks up packed rows of a step, one after the other.
pub(super) struct Lookup<'db> {
    db: &'db Connection,
    kept: StoredRetention,
    /// By the start of the partition.
    find: BTreeMap<i64, Statement<'db>>,
}

impl<'db> Lookup<'db> {
    /// For the rows of some partitions.
    pub(super) fn new(
        db: &'db Connection,
        kept: &StoredRetention,
        starts: &[i64],
    ) -> Result<Lookup<'db>> {
        let mut find = BTreeMap::new();
        for start_us in starts {
            let sql = format!(
                "SELECT {} FROM {} WHERE span_us = ?1 AND series = ?2 AND lane = ?3",
                columns(),
                table_of(kept, *start_us)
            );
            find.insert(*start_us, db.prepare(&sql)?);
        }
        Ok(Lookup { db, kept: *kept, find })
    }

    /// The keys of the rows whose spans start in a time, ordered by series, span and lane. The
    /// database would sort whole rows.
    pub(super) fn keys(&self, from_us: i64, until_us: i64) -> Result<Vec<StretchKey>> {
        let mut keys = Vec::new();
        for start_us in self.find.keys() {
            let sql = format!(
                "SELECT span_us, series, lane FROM {} WHERE span_us >= ?1 AND span_us < ?2",
                table_of(&self.kept, *start_us)
            );
            let mut statement = self.db.prepare(&sql)?;
            let found = statement.query_map([from_us, until_us], |row| {
                Ok(StretchKey { span_us: row.get(0)?, series: row.get(1)?, lane: row.get(2)? })
            })?;
            for key in found {
                keys.push(key?);
            }
        }
        keys.sort_unstable_by_key(|key| (key.series, key.span_us, key.lane));
        Ok(keys)
    }

    /// The row of a key.
    pub(super) fn find(&mut self, key: StretchKey) -> Result<PackedSlots> {
        let start_us = self.kept.partition_of(key.span_us);
        let Some(statement) = self.find.get_mut(&start_us) else {
            return Err(broken(0, format!("no packed slots at {start_us} µs")));
        };
        let step_us = self.kept.step().us();
        let of_key = params![key.span_us, key.series, key.lane];
        statement.query_row(of_key, |row| packed(row, step_us))
    }
}

/// Calls `take` with every packed row of a partition whose span starts in a time.
pub(super) fn each(
    db: &Connection,
    kept: &StoredRetention,
    start_us: i64,
    from_us: i64,
    until_us: i64,
    mut take: impl FnMut(StretchKey, &PackedSlots),
) -> Result<()> {
    let sql = format!(
        "SELECT {}, span_us, series, lane FROM {} WHERE span_us >= ?1 AND span_us < ?2",
        columns(),
        table_of(kept, start_us)
    );
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([from_us, until_us])?;
    let after = 4 + 2 * NUMBERS.len() + DIVIDED.len();
    while let Some(row) = rows.next()? {
        let key = StretchKey {
            span_us: row.get(after)?,
            series: row.get(after + 1)?,
            lane: row.get(after + 2)?,
        };
        take(key, &packed(row, kept.step().us())?);
    }
    Ok(())
}

/// What exists in a span, of any series.
#[derive(Clone, Copy)]
struct SpanContents {
    packed: bool,
    rows: bool,
}

fn present(db: &Connection, kept: &StoredRetention, span_us: i64) -> Result<SpanContents> {
    let slots = names::partition(kept.step().us(), kept.partition_of(span_us));
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} WHERE span_us = ?1),
                EXISTS (SELECT 1 FROM {slots} WHERE slot_us >= ?1 AND slot_us < ?2)",
        table_of(kept, span_us)
    );
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_row([span_us, kept.span_end(span_us)], |row| {
        Ok(SpanContents { packed: row.get(0)?, rows: row.get(1)? })
    })
}

/// What a transaction knows of the spans that it writes to.
#[derive(Default)]
pub(super) struct WrittenSpans {
    /// What existed in a span, of any series, when the transaction first wrote to it; by step and
    /// span.
    present: HashMap<(i64, i64), SpanContents>,
    /// By step: up to this series the transaction itself may have written packed rows and rows.
    /// Pieces come in the order of the series, so later ones need not be looked up.
    written_to: HashMap<i64, i64>,
}

impl WrittenSpans {
    /// What there may be of a series in a span.
    fn there(
        &mut self,
        db: &Connection,
        kept: &StoredRetention,
        key: StretchKey,
    ) -> Result<SpanContents> {
        let step_us = kept.step().us();
        if self.written_to.get(&step_us).is_some_and(|series| key.series <= *series) {
            return Ok(SpanContents { packed: true, rows: true });
        }
        match self.present.get(&(step_us, key.span_us)) {
            Some(there) => Ok(*there),
            None => {
                let there = present(db, kept, key.span_us)?;
                self.present.insert((step_us, key.span_us), there);
                Ok(there)
            }
        }
    }
}

/// Writes what belongs into packed rows, and returns the remaining changes for separate rows.
///
/// The keys of slots whose counts are too large are added to `over`.
pub(super) fn add<'p>(
    tx: &Transaction<'_>,
    part: &'p RetentionChanges<'_>,
    packing: Packing,
    writing: &mut WrittenSpans,
    over: &mut Vec<SlotKey>,
) -> Result<Vec<(&'p SlotKey, &'p Delta)>> {
    let kept = &part.kept;
    let mut rows = Vec::new();
    let mut statements = Statements::default();
    let mut laned = tx.prepare_cached("UPDATE series SET laned = 1 WHERE id = ?1 AND NOT laned")?;
    let mut written_to = i64::MIN;
    for group in part.groups() {
        let key = group.key;
        written_to = written_to.max(key.series);
        if key.lane != 0 {
            laned.execute([key.series])?;
        }
        let there = writing.there(tx, kept, key)?;
        let known = if there.packed { statements.find(tx, kept, key)? } else { None };
        let worth = packing.admits(group.rows.len());
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
        store(tx, kept, &stretch, was_packed, &mut statements)?;
    }
    let series = writing.written_to.entry(kept.step().us()).or_insert(i64::MIN);
    *series = written_to.max(*series);
    Ok(rows)
}

/// The content of a slot. One outside the stretch would be lost, so that is an error.
fn slot<'s>(stretch: &'s mut Stretch, key: &SlotKey) -> Result<&'s mut Accumulator> {
    stretch.slot(key.slot_us).map_err(|cause| broken(0, cause))
}

fn change(stretch: &mut Stretch, group: &Group<'_>, over: &mut Vec<SlotKey>) -> Result<()> {
    for (key, delta) in &group.rows {
        let slot = slot(stretch, key)?;
        delta.apply(slot);
        if plan::overflows(delta, slot.integral.as_f64()) {
            over.push(**key);
        }
    }
    Ok(())
}

/// Writes a stretch as one packed row; as rows if it cannot be packed.
fn store<'tx>(
    tx: &'tx Transaction<'_>,
    kept: &StoredRetention,
    stretch: &Stretch,
    was_packed: bool,
    statements: &mut Statements<'tx>,
) -> Result<()> {
    if let Some(packed) = stretch.pack() {
        return statements.put(tx, kept, stretch.key, &packed);
    }
    if was_packed {
        remove(tx, kept, stretch.key)?;
    }
    let deltas: Vec<(SlotKey, Delta)> =
        stretch.iter().map(|(key, row)| (key, Delta::widen(*row))).collect();
    let rows: Vec<(&SlotKey, &Delta)> = deltas.iter().map(|(key, delta)| (key, delta)).collect();
    rows::add(tx, kept, &rows, &mut Vec::new())
}

/// Moves the rows of a stretch's slots into it.
fn take_rows(tx: &Transaction<'_>, kept: &StoredRetention, stretch: &mut Stretch) -> Result<()> {
    let key = stretch.key;
    let found = rows::of_series(tx, kept, &[key.series], key.span_us, kept.span_end(key.span_us))?;
    let table = names::partition(kept.step().us(), kept.partition_of(key.span_us));
    let sql = format!("DELETE FROM {table} WHERE slot_us = ?1 AND series = ?2 AND lane = ?3");
    let mut delete = tx.prepare_cached(&sql)?;
    for (key, row) in found.iter().filter(|(found, _)| found.lane == key.lane) {
        delete.execute(params![key.slot_us, key.series, key.lane])?;
        slot(stretch, key)?.merge(row);
    }
    Ok(())
}

/// The next span with rows at or after `from_us` in a partition.
pub(super) fn next_with_rows(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
) -> Result<Option<i64>> {
    let table = names::partition(kept.step().us(), kept.partition_of(from_us));
    let sql = format!("SELECT min(slot_us) FROM {table} WHERE slot_us >= ?1");
    let found: Option<i64> = db.prepare_cached(&sql)?.query_row([from_us], |row| row.get(0))?;
    Ok(found.map(|slot_us| kept.span_of(slot_us)))
}

/// How far the sealing of a span has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SealProgress {
    /// Number of packed slots.
    pub(super) slots: u64,
    /// The last series that was read, if there are more.
    pub(super) until_series: Option<i64>,
}

/// About so many series are sealed in one transaction, for which batches have to wait.
const SEALED_AT_ONCE: i64 = 1_000;

/// Packs the rows of a span: of the first series after `after_series`. A series that cannot be
/// packed exactly keeps its rows.
///
/// Rows lie in the order of time, so they are read and deleted time by time: a few pages of each.
pub(super) fn seal(
    tx: &Transaction<'_>,
    kept: &StoredRetention,
    span_us: i64,
    after_series: i64,
    packing: Packing,
) -> Result<SealProgress> {
    let partition_us = kept.partition_of(span_us);
    let exists = schema::partitions(tx, kept.step().us())?.contains(&partition_us);
    if packing == Packing::NEVER || !exists {
        return Ok(SealProgress::default());
    }
    let table = names::partition(kept.step().us(), partition_us);
    let times = rows::times(tx, kept, span_us, kept.span_end(span_us))?;
    let until_series = last_series(tx, &table, &times, after_series)?;
    let last = until_series.unwrap_or(i64::MAX);
    let mut stretches: BTreeMap<(i64, i32), Stretch> = BTreeMap::new();
    let sql = format!(
        "SELECT {} FROM {table} WHERE slot_us = ?1 AND series > ?2 AND series <= ?3",
        rows::SLOT
    );
    let mut read = tx.prepare_cached(&sql)?;
    for slot_us in &times {
        let mut found = read.query(params![slot_us, after_series, last])?;
        while let Some(row) = found.next()? {
            let (key, row) = rows::slot(row)?;
            let of = StretchKey { span_us, series: key.series, lane: key.lane };
            let stretch = stretches.entry((key.series, key.lane));
            slot(stretch.or_insert_with(|| Stretch::new(kept, of)), &key)?.merge(&row);
        }
    }
    let packed: Vec<_> = stretches.values().map(|stretch| (stretch, stretch.pack())).collect();
    let unpacked = packed.iter().filter(|(_, packed)| packed.is_none());
    let left: BTreeSet<i64> = unpacked.map(|(stretch, _)| stretch.key.series).collect();
    let (mut slots, mut statements) = (0, Statements::default());
    for (stretch, packed) in &packed {
        if let Some(packed) = packed.as_ref().filter(|_| !left.contains(&stretch.key.series)) {
            statements.put(tx, kept, stretch.key, packed)?;
            slots += stretch.iter().count() as u64;
        }
    }
    let sql = format!("DELETE FROM {table} WHERE slot_us = ?1 AND series > ?2 AND series < ?3");
    let mut delete = tx.prepare_cached(&sql)?;
    let ends: Vec<i64> = left.into_iter().chain([last.saturating_add(1)]).collect();
    for slot_us in &times {
        let mut from = after_series;
        for end in &ends {
            delete.execute(params![slot_us, from, end])?;
            from = *end;
        }
    }
    Ok(SealProgress { slots, until_series })
}

/// The series up to which no time has more than [`SEALED_AT_ONCE`] rows of the series after another;
/// `None` if there are no more.
fn last_series(
    tx: &Transaction<'_>,
    table: &str,
    times: &[i64],
    after_series: i64,
) -> Result<Option<i64>> {
    let sql = format!(
        "SELECT series FROM {table} WHERE slot_us = ?1 AND series > ?2
         ORDER BY series LIMIT 1 OFFSET ?3"
    );
    let mut find = tx.prepare_cached(&sql)?;
    let mut last: Option<i64> = None;
    for slot_us in times {
        let found = find.query_row([*slot_us, after_series, SEALED_AT_ONCE - 1], |row| row.get(0));
        let found: Option<i64> = found.optional()?;
        last = [last, found].into_iter().flatten().min();
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retention;

    #[test]
    fn a_packed_change_that_finds_no_slot_is_an_error() {
        let kept = StoredRetention::new(Retention::from_secs(10, None).unwrap());
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
