//! Reads all series of a time at once.

use std::collections::{BTreeMap, VecDeque};

use postgres::types::ToSql;
use postgres::{Portal, Row};
use series::{Accumulator, SlotKey, Step};

use super::link::{OpenTransaction, TransactionFailure};
use super::types::Time;
use super::{packed, rows, schema};
use crate::scan::{Gather, row_bytes};
use crate::stored_retention::StoredRetention;
use crate::{Digests, SlotSum, Take, names};

/// Rows to fetch at once.
const FETCHED: i32 = 500;

/// Gives the slots of all series that start in a time; see [`crate::Store::scan`].
pub(super) fn scan(
    session: &mut OpenTransaction<'_>,
    step: Step,
    from_us: i64,
    until_us: i64,
    take: &mut Take<'_>,
) -> Result<i64, TransactionFailure> {
    let Some(kept) = hold(session, step)? else { return Ok(i64::MIN) };
    let until = Time::clamped(until_us);
    let first = Time::clamped(kept.span_of(from_us));
    let packed_sql = format!("{} ORDER BY p.series, p.span, p.lane", packed_sql(step));
    let keyed = |row: &Row| packed::keyed(row, step.us());
    let mut packed = Cursor::new(session, &packed_sql, &[&first, &until], keyed)?;
    let rows_sql = format!("{} ORDER BY r.series, r.slot, r.lane", rows_sql(step));
    let from = Time::clamped(from_us);
    let mut rows = Cursor::new(session, &rows_sql, &[&from, &until], slot)?;
    let mut gather = Gather::default();
    loop {
        let next = [packed.peek().map(|row| row.0.series), rows.peek().map(|row| row.0.series)];
        let Some(series) = next.into_iter().flatten().min() else { return Ok(kept.horizon_us) };
        while let Some((key, found)) = packed.next_if(session, |row| row.0.series == series)? {
            let done = found.sums(key, step.us(), from_us, until_us, gather.slots());
            done.map_err(TransactionFailure::Value)?;
        }
        while let Some((key, row)) = rows.next_if(session, |row| row.0.series == series)? {
            gather.slots().push(SlotSum::new(key.slot_us, key.lane, &row));
        }
        if gather.give(series, kept.horizon_us, take).is_break() {
            return Ok(kept.horizon_us);
        }
    }
}

/// The digests of the spans that overlap a time; see [`crate::Store::digests`].
pub(super) fn digests(
    session: &mut OpenTransaction<'_>,
    step: Step,
    from_us: i64,
    until_us: i64,
) -> Result<Digests, TransactionFailure> {
    let Some(kept) = hold(session, step)? else { return Ok(Digests::default()) };
    let mut digests = Digests { horizon_us: kept.horizon_us, spans: BTreeMap::new() };
    let Some((from_us, until_us)) = kept.spans_over(from_us, until_us) else {
        return Ok(digests);
    };
    let (from, until) = (Time::clamped(from_us), Time::clamped(until_us));
    let mut bytes = Vec::new();
    let keyed = |row: &Row| packed::keyed(row, step.us());
    let mut packed = Cursor::new(session, &packed_sql(step), &[&from, &until], keyed)?;
    while let Some((key, found)) = packed.next_if(session, |_| true)? {
        found.row_bytes(&mut bytes, key);
        digests.row(&kept, key.span_us, &bytes);
    }
    let mut rows = Cursor::new(session, &rows_sql(step), &[&from, &until], slot)?;
    while let Some((key, row)) = rows.next_if(session, |_| true)? {
        row_bytes(&mut bytes, &key, &row);
        digests.row(&kept, key.slot_us, &bytes);
    }
    Ok(digests)
}

/// The retention of a step, as it stays until the end of the transaction.
///
/// All statements see one moment, in which slots are either packed or not. The lock comes before
/// that moment, so that no partition is dropped that the retention still has.
fn hold(
    session: &mut OpenTransaction<'_>,
    step: Step,
) -> Result<Option<StoredRetention>, TransactionFailure> {
    let (slots, packed) = (names::slot(step.us()), names::packed(step.us()));
    session.transaction.batch_execute(&format!(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
         LOCK TABLE {slots}, {packed} IN ACCESS SHARE MODE"
    ))?;
    let kept = schema::retentions(session)?;
    Ok(kept.into_iter().find(|kept| kept.step() == step))
}

/// The statement that reads the packed rows whose spans start in a time.
fn packed_sql(step: Step) -> String {
    let (columns, table) = (packed::selected(), names::packed(step.us()));
    let indexed = packed::indexed_between("p.span", "$1::timestamptz", "$2::timestamptz");
    format!("SELECT {columns} FROM {table} p WHERE p.span >= $1 AND p.span < $2 AND {indexed}")
}

/// The statement that reads the rows that start in a time.
fn rows_sql(step: Step) -> String {
    let (columns, table) = (rows::SLOT, names::slot(step.us()));
    let indexed = packed::indexed_between("r.slot", "$1::timestamptz", "$2::timestamptz");
    format!("SELECT {columns} FROM {table} r WHERE r.slot >= $1 AND r.slot < $2 AND {indexed}")
}

/// Rows of a query, some ahead; several can be open at once.
struct Cursor<T, R> {
    portal: Portal,
    read: R,
    ahead: VecDeque<T>,
}

impl<T, R: Fn(&Row) -> Result<T, TransactionFailure>> Cursor<T, R> {
    fn new(
        session: &mut OpenTransaction<'_>,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
        read: R,
    ) -> Result<Cursor<T, R>, TransactionFailure> {
        let statement = session.prepared(sql)?;
        let portal = session.transaction.bind(&statement, params)?;
        let mut cursor = Cursor { portal, read, ahead: VecDeque::new() };
        cursor.fetch(session)?;
        Ok(cursor)
    }

    fn peek(&self) -> Option<&T> {
        self.ahead.front()
    }

    /// The next row, if there is one and it is wanted.
    fn next_if(
        &mut self,
        session: &mut OpenTransaction<'_>,
        wanted: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, TransactionFailure> {
        if !self.peek().is_some_and(wanted) {
            return Ok(None);
        }
        let row = self.ahead.pop_front();
        if self.ahead.is_empty() {
            self.fetch(session)?;
        }
        Ok(row)
    }

    /// A portal that has ended gives no rows.
    fn fetch(&mut self, session: &mut OpenTransaction<'_>) -> Result<(), TransactionFailure> {
        for row in session.transaction.query_portal(&self.portal, FETCHED)? {
            self.ahead.push_back((self.read)(&row)?);
        }
        Ok(())
    }
}

fn slot(row: &Row) -> Result<(SlotKey, Accumulator), TransactionFailure> {
    Ok(rows::slot(row)?)
}
