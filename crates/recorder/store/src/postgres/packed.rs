//! Packed slots in tables.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use postgres::Row;
use postgres::types::ToSql;
use series::{Accumulator, Delta, SlotKey};

use super::link::{OpenTransaction, TransactionFailure};
use super::types::Time;
use super::{copy, partition_locks, rows};
use crate::names;
use crate::packed::{DIVIDED, FORMAT, NUMBERS, PackedSlots, Packing, Stretch, StretchKey};
use crate::plan::{self, Group, RetentionChanges};
use crate::stored_retention::StoredRetention;

/// Stretches to seal at once.
const SEALED_AT_ONCE: usize = 1_000;

/// The columns after the key, in the order of writing and reading.
///
/// Integers come before digits, to avoid alignment padding.
fn columns() -> Vec<(String, &'static str)> {
    let head = ["format", "first", "count", "shape"].map(|name| (name.to_owned(), "smallint"));
    let bases = NUMBERS.iter().map(|column| (format!("{column}_base"), "bigint"));
    let divisors = DIVIDED.iter().map(|column| (format!("{column}_div"), "double precision"));
    let digits = NUMBERS.iter().map(|column| ((*column).to_owned(), "bytea"));
    head.into_iter().chain(bases).chain(divisors).chain(digits).collect()
}

/// The statements that create the table of a step's packed slots.
pub(super) fn table(step_us: i64) -> String {
    let table = names::packed(step_us);
    let columns: Vec<String> = columns()
        .iter()
        .map(|(name, of)| {
            format!("{name} {of}{}", if *of == "smallint" { " NOT NULL" } else { "" })
        })
        .collect();
    // Digits hardly compress, so PostgreSQL need not try.
    let storage: Vec<String> =
        NUMBERS.iter().map(|column| format!("ALTER {column} SET STORAGE EXTERNAL")).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
             span timestamptz NOT NULL, series integer NOT NULL, lane integer NOT NULL,
             {},
             PRIMARY KEY (series, lane, span)
         ) PARTITION BY RANGE (span);
         ALTER TABLE {table} {};",
        columns.join(", "),
        storage.join(", ")
    )
}

/// A time as the indexes by time alone have it, which serve only conditions on this expression.
fn indexed(time: &str) -> String {
    format!("({time} AT TIME ZONE 'UTC')")
}

/// The condition that a time is at or after another one and before a third.
pub(super) fn indexed_between(time: &str, from: &str, until: &str) -> String {
    let time = indexed(time);
    format!("{time} >= {} AND {time} < {}", indexed(from), indexed(until))
}

/// A packed row of a step, of the columns [`selected`].
pub(super) fn keyed(
    row: &Row,
    step_us: i64,
) -> Result<(StretchKey, PackedSlots), TransactionFailure> {
    let span_us = row.try_get::<_, Time>(0)?.0;
    let key = StretchKey { span_us, series: row.try_get(1)?, lane: row.try_get(2)? };
    let small = |column: usize| row.try_get::<_, i16>(column).map(i64::from);
    let format = small(3)?;
    if format != FORMAT {
        return Err(TransactionFailure::Value(format!(
            "format {format} of packed slots is unknown"
        )));
    }
    let (bases, divisors) = (7, 7 + NUMBERS.len());
    let digits = divisors + DIVIDED.len();
    let packed = PackedSlots::from_stored(
        [small(4)?, small(5)?, small(6)?],
        step_us,
        |place| row.try_get(bases + place),
        |place| row.try_get(digits + place),
        |place| row.try_get(divisors + place),
    )?;
    Ok((key, packed))
}

/// The slots of a packed row of the columns [`selected`].
fn stretch(row: &Row, kept: &StoredRetention) -> Result<Stretch, TransactionFailure> {
    let (key, packed) = keyed(row, kept.step().us())?;
    let mut stretch = Stretch::new(kept, key);
    packed.unpack(&mut stretch).map_err(TransactionFailure::Value)?;
    Ok(stretch)
}

/// Span, series, lane and the other columns of a table `p` of packed rows.
pub(super) fn selected() -> String {
    let columns: Vec<String> = columns().iter().map(|(name, _)| format!("p.{name}")).collect();
    format!("p.span, p.series::bigint, p.lane, {}", columns.join(", "))
}

/// The columns of keys, as arrays to send at once.
#[derive(Default)]
struct Keys {
    span: Vec<Time>,
    until: Vec<Time>,
    series: Vec<i64>,
    lane: Vec<i32>,
}

impl Keys {
    fn new(kept: &StoredRetention, keys: impl IntoIterator<Item = StretchKey>) -> Keys {
        let mut columns = Keys::default();
        for key in keys {
            columns.span.push(Time::clamped(key.span_us));
            columns.until.push(Time::clamped(kept.span_end(key.span_us)));
            columns.series.push(key.series);
            columns.lane.push(key.lane);
        }
        columns
    }

    /// From the first start to the last end.
    fn ends(&self) -> (Time, Time) {
        let first = self.span.iter().map(|time| time.0).min().unwrap_or(0);
        let last = self.until.iter().map(|time| time.0).max().unwrap_or(0);
        (Time(first), Time(last))
    }
}

/// The packed slots of some stretches, optionally locked for changing.
pub(super) fn find(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    keys: impl IntoIterator<Item = StretchKey>,
    change: bool,
) -> Result<Vec<Stretch>, TransactionFailure> {
    let keys = Keys::new(kept, keys);
    if keys.span.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {} FROM unnest($1::timestamptz[], $2::bigint[], $3::integer[]) AS w (span, series, lane)
         JOIN {} p ON p.span = w.span AND p.series = w.series AND p.lane = w.lane
         ORDER BY p.span, p.series, p.lane {}",
        selected(),
        names::packed(kept.step().us()),
        if change { "FOR UPDATE OF p" } else { "" }
    );
    let rows = session.query(&sql, &[&keys.span, &keys.series, &keys.lane])?;
    rows.iter().map(|row| stretch(row, kept)).collect()
}

/// The packed stretches of some series in all spans that overlap a range within the partitions.
pub(super) fn of_series(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    series: &[i64],
    from_us: i64,
    until_us: i64,
) -> Result<Vec<Stretch>, TransactionFailure> {
    // A span of the range may begin before it, but not before its partition.
    let sql = format!(
        "SELECT {} FROM {} p WHERE p.series = ANY ($1::bigint[]) AND p.span >= $2 AND p.span < $3",
        selected(),
        names::packed(kept.step().us())
    );
    let (from, until) = (Time::clamped(kept.span_of(from_us)), Time::clamped(until_us));
    let rows = session.query(&sql, &[&series, &from, &until])?;
    rows.iter().map(|row| stretch(row, kept)).collect()
}

/// What exists in a span, of any series.
#[derive(Clone, Copy, Debug)]
struct SpanContents {
    packed: bool,
    rows: bool,
}

/// How to write packed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By COPY, after deleting existing rows. If another writer writes the same row at the same
    /// moment, the transaction fails ([`crate::StoreError::Busy`]).
    Copy,
    /// By arrays, which is slower, and adds to what another writer has written meanwhile.
    Arrays,
}

/// A transaction's knowledge of a step's spans, and its unsent rows.
#[derive(Debug)]
struct OfStep {
    present: HashMap<i64, SpanContents>,
    /// Up to this series there may be packed rows and rows written by this transaction.
    written_to: i64,
    rows: copy::CopyRows,
    kept: StoredRetention,
}

/// Packed rows of one transaction, on their way to their tables.
#[derive(Debug)]
pub(super) struct PackedWriter {
    packing: Packing,
    way: Way,
    steps: BTreeMap<i64, OfStep>,
    /// Number of replaced packed rows, by partition.
    replaced: BTreeMap<String, u64>,
}

impl PackedWriter {
    pub(super) fn new(packing: Packing, way: Way) -> PackedWriter {
        PackedWriter { packing, way, steps: BTreeMap::new(), replaced: BTreeMap::new() }
    }

    fn step(&mut self, kept: &StoredRetention) -> &mut OfStep {
        self.steps.entry(kept.step().us()).or_insert_with(|| OfStep {
            present: HashMap::new(),
            written_to: i64::MIN,
            rows: copy::CopyRows::default(),
            kept: *kept,
        })
    }

    /// Looks up what exists in the spans of some groups, if unknown. Until this transaction ends,
    /// no other one can pack rows of their partitions.
    fn look(
        &mut self,
        session: &mut OpenTransaction<'_>,
        kept: &StoredRetention,
        groups: &[Group<'_>],
    ) -> Result<(), TransactionFailure> {
        let of_step = self.step(kept);
        let mut spans: Vec<i64> = groups.iter().map(|group| group.key.span_us).collect();
        spans.retain(|span_us| !of_step.present.contains_key(span_us));
        spans.sort_unstable();
        spans.dedup();
        if spans.is_empty() {
            return Ok(());
        }
        let parts: BTreeSet<i64> =
            spans.iter().map(|us| partition_locks::part_of(kept, *us)).collect();
        session.query(partition_locks::SHARED, &[&Vec::from_iter(parts)])?;
        let step_us = kept.step().us();
        let starts: Vec<Time> = spans.iter().map(|us| Time::clamped(*us)).collect();
        let ends: Vec<Time> = spans.iter().map(|us| Time::clamped(kept.span_end(*us))).collect();
        let sql = format!(
            "SELECT w.span, EXISTS (SELECT FROM {} p WHERE p.span = w.span AND {}),
                    EXISTS (SELECT FROM {} r WHERE r.slot >= w.span AND r.slot < w.until AND {})
             FROM unnest($1::timestamptz[], $2::timestamptz[]) AS w (span, until)",
            names::packed(step_us),
            format_args!("{} = {}", indexed("p.span"), indexed("w.span")),
            names::slot(step_us),
            indexed_between("r.slot", "w.span", "w.until"),
        );
        for row in session.query(&sql, &[&starts, &ends])? {
            let span_us = row.try_get::<_, Time>(0)?.0;
            let present = SpanContents { packed: row.try_get(1)?, rows: row.try_get(2)? };
            of_step.present.insert(span_us, present);
        }
        Ok(())
    }

    /// Sends the unsent packed rows of a step.
    fn send_step(
        session: &mut OpenTransaction<'_>,
        of_step: &mut OfStep,
    ) -> Result<(), TransactionFailure> {
        let names: Vec<String> = columns().into_iter().map(|(name, _)| name).collect();
        let table = names::packed(of_step.kept.step().us());
        let to = format!("{table} (span, series, lane, {})", names.join(", "));
        of_step.rows.send(session, &to)
    }

    /// Sends everything unsent, so that it can be read.
    pub(super) fn send(
        &mut self,
        session: &mut OpenTransaction<'_>,
    ) -> Result<(), TransactionFailure> {
        self.steps.values_mut().try_for_each(|of_step| PackedWriter::send_step(session, of_step))
    }

    /// Sends everything unsent; returns the number of replaced packed rows, by partition.
    pub(super) fn finish(
        mut self,
        session: &mut OpenTransaction<'_>,
    ) -> Result<BTreeMap<String, u64>, TransactionFailure> {
        self.send(session)?;
        Ok(self.replaced)
    }
}

/// What remains for separate rows.
#[derive(Default)]
pub(super) struct UnpackedChanges<'p> {
    /// Changes that are not worth a packed row.
    pub(super) rows: Vec<(&'p SlotKey, &'p Delta)>,
    /// Slots that could not be packed.
    pub(super) unpacked: Vec<(SlotKey, Delta)>,
}

/// A stretch to be written as a packed row.
struct OpenStretch {
    stretch: Stretch,
    was_packed: bool,
}

/// Writes what belongs into packed rows, and returns the rest for separate rows.
///
/// The keys of slots whose counts are too large are added to `over`.
pub(super) fn add<'p>(
    session: &mut OpenTransaction<'_>,
    part: &'p RetentionChanges<'_>,
    writing: &mut PackedWriter,
    over: &mut Vec<SlotKey>,
) -> Result<UnpackedChanges<'p>, TransactionFailure> {
    let kept = &part.kept;
    let packing = writing.packing;
    let groups = part.groups();
    writing.look(session, kept, &groups)?;
    let of_step = writing.step(kept);
    let is_there = |key: &StretchKey, of: fn(&SpanContents) -> bool| {
        key.series <= of_step.written_to || of_step.present.get(&key.span_us).is_none_or(of)
    };
    let keys = || groups.iter().map(|group| group.key);
    let packed: Vec<StretchKey> = keys().filter(|key| is_there(key, |p| p.packed)).collect();
    let rows: HashSet<StretchKey> = keys().filter(|key| is_there(key, |p| p.rows)).collect();
    if packed.iter().any(|key| key.series <= of_step.written_to) {
        PackedWriter::send_step(session, of_step)?;
    }
    of_step.written_to = keys().map(|key| key.series).fold(of_step.written_to, i64::max);
    let known = writing.known(session, kept, packed)?;
    let mut known: HashMap<StretchKey, Stretch> =
        known.into_iter().map(|stretch| (stretch.key, stretch)).collect();
    let mut left = UnpackedChanges::default();
    let mut open = Vec::new();
    let mut changes = Vec::new();
    for group in groups {
        let known = known.remove(&group.key);
        let worth = packing.admits(group.rows.len());
        if known.is_none() && !worth {
            left.rows.extend(group.rows);
            continue;
        }
        let was_packed = known.is_some();
        let stretch = known.unwrap_or_else(|| Stretch::new(kept, group.key));
        open.push(OpenStretch { stretch, was_packed });
        changes.push(group.rows);
    }
    take_rows(session, kept, &mut open, |key| rows.contains(&key))?;
    for (open, rows) in open.iter_mut().zip(changes) {
        for (key, delta) in rows {
            let slot = open.stretch.slot(key.slot_us).map_err(TransactionFailure::Value)?;
            delta.apply(slot);
            if plan::overflows(delta, slot.integral.as_f64()) {
                over.push(*key);
            }
        }
    }
    left.unpacked = writing.store(session, kept, &open)?;
    Ok(left)
}

/// Moves the rows of some stretches' slots into them; returns their number.
fn take_rows(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    open: &mut [OpenStretch],
    wanted: impl Fn(StretchKey) -> bool,
) -> Result<u64, TransactionFailure> {
    let keys = open.iter().map(|open| open.stretch.key).filter(|key| wanted(*key));
    let keys = Keys::new(kept, keys);
    if keys.span.is_empty() {
        return Ok(0);
    }
    let sql = format!(
        "DELETE FROM {} r USING unnest($1::timestamptz[], $2::timestamptz[], $3::bigint[], $4::integer[])
                                AS w (span, until, series, lane)
         WHERE r.series = w.series AND r.lane = w.lane AND r.slot >= w.span AND r.slot < w.until
           AND r.slot >= $5 AND r.slot < $6
         RETURNING {}",
        names::slot(kept.step().us()),
        rows::SLOT
    );
    let (first, last) = keys.ends();
    let params: [&(dyn ToSql + Sync); 6] =
        [&keys.span, &keys.until, &keys.series, &keys.lane, &first, &last];
    let rows = session.query(&sql, &params)?;
    let mut by_key: HashMap<StretchKey, &mut Stretch> =
        open.iter_mut().map(|open| (open.stretch.key, &mut open.stretch)).collect();
    for row in &rows {
        let (key, row): (SlotKey, Accumulator) = rows::slot(row)?;
        let stretch = by_key.get_mut(&StretchKey::of(kept, &key));
        let stretch =
            stretch.ok_or_else(|| TransactionFailure::Value("a row of no stretch".to_owned()))?;
        stretch.slot(key.slot_us).map_err(TransactionFailure::Value)?.merge(&row);
    }
    Ok(rows.len() as u64)
}

impl PackedWriter {
    /// The packed rows that there are of some stretches, which are to be changed: locked, or
    /// deleted, because they will be written again.
    fn known(
        &mut self,
        session: &mut OpenTransaction<'_>,
        kept: &StoredRetention,
        keys: Vec<StretchKey>,
    ) -> Result<Vec<Stretch>, TransactionFailure> {
        let known = match self.way {
            Way::Arrays => find(session, kept, keys, true)?,
            Way::Copy => take(session, kept, keys)?,
        };
        for stretch in &known {
            let partition_us = kept.partition_of(stretch.key.span_us);
            let table = names::packed_partition(kept.step().us(), partition_us);
            *self.replaced.entry(table).or_default() += 1;
        }
        Ok(known)
    }

    /// Writes stretches as packed rows, and returns the slots that could not be packed.
    fn store(
        &mut self,
        session: &mut OpenTransaction<'_>,
        kept: &StoredRetention,
        open: &[OpenStretch],
    ) -> Result<Vec<(SlotKey, Delta)>, TransactionFailure> {
        let left = match self.way {
            Way::Arrays => store_by_arrays(session, kept, open)?,
            Way::Copy => {
                let (step_us, of_step) = (kept.step().us(), self.step(kept));
                let mut left = Vec::new();
                for OpenStretch { stretch, .. } in open {
                    match stretch.pack() {
                        Some(packed) => put_row(&mut of_step.rows, step_us, stretch.key, &packed),
                        None => left.push(stretch),
                    }
                    if of_step.rows.is_full() {
                        PackedWriter::send_step(session, of_step)?;
                    }
                }
                left
            }
        };
        let slots = left.iter().flat_map(|stretch| stretch.iter());
        Ok(slots.map(|(key, row)| (key, Delta::widen(*row))).collect())
    }
}

/// Adds a packed row to the unsent ones, its columns in the order of [`columns`].
fn put_row(rows: &mut copy::CopyRows, step_us: i64, key: StretchKey, packed: &PackedSlots) {
    rows.row(3 + 4 + 2 * NUMBERS.len() + DIVIDED.len());
    rows.put_time(Time::clamped(key.span_us).0);
    rows.put(&i32::try_from(key.series).unwrap_or(i32::MAX).to_be_bytes());
    rows.put(&key.lane.to_be_bytes());
    for number in [FORMAT, packed.first, packed.count, packed.shape] {
        rows.put(&i16::try_from(number).unwrap_or(i16::MAX).to_be_bytes());
    }
    for place in 0..NUMBERS.len() {
        rows.put_some(packed.stored_base(place, step_us).map(i64::to_be_bytes));
    }
    for divisor in packed.stored_divisors() {
        rows.put_some(divisor.map(f64::to_be_bytes));
    }
    for place in 0..NUMBERS.len() {
        match packed.stored_digits(place) {
            Some(digits) => rows.put(digits),
            None => rows.put_null(),
        }
    }
}

/// Deletes the packed rows of some stretches, and returns their content.
fn take(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    keys: Vec<StretchKey>,
) -> Result<Vec<Stretch>, TransactionFailure> {
    let keys = Keys::new(kept, keys);
    if keys.span.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "DELETE FROM {} p USING unnest($1::timestamptz[], $2::bigint[], $3::integer[]) AS w (span, series, lane)
         WHERE p.span = w.span AND p.series = w.series AND p.lane = w.lane
         RETURNING {}",
        names::packed(kept.step().us()),
        selected()
    );
    let rows = session.query(&sql, &[&keys.span, &keys.series, &keys.lane])?;
    rows.iter().map(|row| stretch(row, kept)).collect()
}

/// Writes stretches as packed rows, and returns those that could not be packed.
fn store_by_arrays<'o>(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    open: &'o [OpenStretch],
) -> Result<Vec<&'o Stretch>, TransactionFailure> {
    let (mut new, mut known, mut gone, mut left) = (vec![], vec![], vec![], vec![]);
    for OpenStretch { stretch, was_packed } in open {
        match (stretch.pack(), was_packed) {
            (Some(packed), true) => known.push((stretch.key, packed)),
            (Some(packed), false) => new.push((stretch.key, packed)),
            (None, was_packed) => {
                gone.extend(was_packed.then_some(stretch.key));
                left.push(stretch);
            }
        }
    }
    put(session, kept, &known, true)?;
    let written = put(session, kept, &new, false)?;
    if written.len() < new.len() {
        // Another writer packed the same stretch at the same moment: ours is added as rows.
        let lost = |stretch: &Stretch| !written.contains(&stretch.key);
        let packed: HashSet<StretchKey> = new.iter().map(|(key, _)| *key).collect();
        let all = open.iter().map(|open| &open.stretch);
        left.extend(all.filter(|stretch| packed.contains(&stretch.key) && lost(stretch)));
    }
    remove(session, kept, gone)?;
    Ok(left)
}

fn remove(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    gone: Vec<StretchKey>,
) -> Result<(), TransactionFailure> {
    if gone.is_empty() {
        return Ok(());
    }
    let keys = Keys::new(kept, gone);
    let sql = format!(
        "DELETE FROM {} p USING unnest($1::timestamptz[], $2::bigint[], $3::integer[]) AS w (span, series, lane)
         WHERE p.span = w.span AND p.series = w.series AND p.lane = w.lane",
        names::packed(kept.step().us())
    );
    session.execute(&sql, &[&keys.span, &keys.series, &keys.lane])?;
    Ok(())
}

/// Writes packed rows, replacing existing ones or not; returns the keys of those written.
fn put(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    rows: &[(StretchKey, PackedSlots)],
    replace: bool,
) -> Result<HashSet<StretchKey>, TransactionFailure> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let keys = Keys::new(kept, rows.iter().map(|(key, _)| *key));
    let small = |of: fn(&PackedSlots) -> i64| -> Vec<i16> {
        rows.iter().map(|(_, packed)| i16::try_from(of(packed)).unwrap_or(i16::MAX)).collect()
    };
    let head = [small(|_| FORMAT), small(|p| p.first), small(|p| p.count), small(|p| p.shape)];
    let step_us = kept.step().us();
    let bases: [Vec<Option<i64>>; 12] = std::array::from_fn(|place| {
        rows.iter().map(|(_, packed)| packed.stored_base(place, step_us)).collect()
    });
    let stored: Vec<_> = rows.iter().map(|(_, packed)| packed.stored_divisors()).collect();
    let divisors: [Vec<Option<f64>>; 8] =
        std::array::from_fn(|place| stored.iter().map(|divisors| divisors[place]).collect());
    let digits: [Vec<Option<&[u8]>>; 12] = std::array::from_fn(|place| {
        rows.iter().map(|(_, packed)| packed.stored_digits(place)).collect()
    });
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&keys.span, &keys.series, &keys.lane];
    params.extend(head.iter().map(|column| column as &(dyn ToSql + Sync)));
    params.extend(bases.iter().map(|column| column as &(dyn ToSql + Sync)));
    params.extend(divisors.iter().map(|column| column as &(dyn ToSql + Sync)));
    params.extend(digits.iter().map(|column| column as &(dyn ToSql + Sync)));
    let written = session.query(&insert(kept, replace), &params)?;
    let key = |row: &Row| {
        let span_us = row.try_get::<_, Time>(0)?.0;
        Ok(StretchKey { span_us, series: row.try_get(1)?, lane: row.try_get(2)? })
    };
    written.iter().map(key).collect()
}

fn insert(kept: &StoredRetention, replace: bool) -> String {
    let columns = columns();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let arrays: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(place, (_, of))| format!("${}::{of}[]", place + 4))
        .collect();
    let conflict = if replace {
        let sets: Vec<String> =
            names.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        format!("UPDATE SET {}", sets.join(", "))
    } else {
        "NOTHING".to_owned()
    };
    format!(
        "INSERT INTO {} (span, series, lane, {})
         SELECT * FROM unnest($1::timestamptz[], $2::bigint[], $3::integer[], {})
         ON CONFLICT (series, span, lane) DO {conflict} RETURNING span, series::bigint, lane",
        names::packed(kept.step().us()),
        names.join(", "),
        arrays.join(", ")
    )
}

/// The next span with rows at or after `from_us`, and before `until_us`.
pub(super) fn next_with_rows(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<Option<i64>, TransactionFailure> {
    let sql = format!(
        "SELECT min({}) AT TIME ZONE 'UTC' FROM {} WHERE slot >= $1 AND slot < $2 AND {}",
        indexed("slot"),
        names::slot(kept.step().us()),
        indexed_between("slot", "$1::timestamptz", "$2::timestamptz")
    );
    let rows = session.query(&sql, &[&Time::clamped(from_us), &Time::clamped(until_us)])?;
    let first = rows.first().map(|row| row.try_get::<_, Option<Time>>(0)).transpose()?;
    Ok(first.flatten().map(|slot| kept.span_of(slot.0)))
}

/// Packs the rows of a span; returns the number of packed slots, and the slots that could not be
/// packed.
pub(super) fn seal(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    span_us: i64,
    mut writing: PackedWriter,
) -> Result<(Vec<(SlotKey, Delta)>, u64), TransactionFailure> {
    let packing = writing.packing;
    let sql = format!(
        "SELECT series::bigint, lane FROM {} WHERE slot >= $1 AND slot < $2 AND {}
         GROUP BY series, lane HAVING count(*) >= $3 ORDER BY series, lane",
        names::slot(kept.step().us()),
        indexed_between("slot", "$1::timestamptz", "$2::timestamptz"),
    );
    let ends = (Time::clamped(span_us), Time::clamped(kept.span_end(span_us)));
    let mut keys = Vec::new();
    for row in session.query(&sql, &[&ends.0, &ends.1, &packing.fewest()])? {
        keys.push(StretchKey { span_us, series: row.try_get(0)?, lane: row.try_get(1)? });
    }
    let (mut left, mut sealed) = (Vec::new(), 0);
    for keys in keys.chunks(SEALED_AT_ONCE) {
        let known = writing.known(session, kept, keys.to_vec())?;
        let packed: HashSet<StretchKey> = known.iter().map(|stretch| stretch.key).collect();
        let new = keys.iter().filter(|key| !packed.contains(key));
        let new =
            new.map(|key| OpenStretch { stretch: Stretch::new(kept, *key), was_packed: false });
        let known = known.into_iter().map(|stretch| OpenStretch { stretch, was_packed: true });
        let mut open: Vec<OpenStretch> = known.chain(new).collect();
        sealed += take_rows(session, kept, &mut open, |_| true)?;
        left.extend(writing.store(session, kept, &open)?);
    }
    writing.finish(session)?;
    Ok((left, sealed))
}
