//! The names of requests.
//!
//! New ones are rows, which take a hundred bytes each with their indexes. The upkeep packs them: a run
//! is thousands of names in order, and a row of it, a block, has as many of them as PostgreSQL fits
//! into a page four times. Of a name, 12 of the 16 bytes are kept then, as in SQLite, so that a key
//! takes 14 bytes. To find a name, each run is searched, before its request is accepted and again in its
//! transaction.
//!
//! A name that is packed at the same moment is still found: `add` inserts its row before it searches the
//! blocks, and `has` looks for the row first.

use super::link::{OpenTransaction, TransactionFailure};
use crate::store::{FORGOTTEN_MAX, day_of};
use crate::{Request, StoreError, Writer};

/// Names of a block, and of a run at most.
const BLOCK: i64 = 150;
const RUN: i64 = 20_000;

/// Rows are packed once there are enough for a run, or once the last run is so old, in microseconds.
const RUN_EACH_US: i64 = 3_600 * series::SECOND_US;

/// The blocks that may have names, in all runs: when one was made is told by a clock that upkeep
/// believes, not by the one of arrivals. A name is as random as a hash, so it is found only where it is.
const IN_BLOCKS: &str = "
    SELECT FROM unnest($1::text[]) w (key)
    CROSS JOIN LATERAL (SELECT substring(uuid_send(w.key::uuid) FROM 5) AS key) k
    CROSS JOIN request_run r
    CROSS JOIN LATERAL (
        SELECT b.keys FROM request_block b WHERE b.run = r.run AND b.first <= k.key
        ORDER BY b.first DESC LIMIT 1) b
    WHERE position(k.key IN b.keys) > 0
    LIMIT 1";

/// Adds requests, none of which may be known.
pub(super) fn add(
    session: &mut OpenTransaction<'_>,
    requests: &[Request],
) -> Result<(), TransactionFailure> {
    if requests.is_empty() {
        return Ok(());
    }
    // In a fixed order, so that writers cannot deadlock.
    let mut requests = requests.to_vec();
    requests.sort_unstable();
    let keys: Vec<String> = requests.iter().map(|request| request.key.to_string()).collect();
    let days: Vec<i32> = requests.iter().map(|request| day_of(request.at_us)).collect();
    let added = session.execute(
        "INSERT INTO request_key
         SELECT key::uuid, day FROM unnest($1::text[], $2::integer[]) AS w (key, day)
         ON CONFLICT DO NOTHING",
        &[&keys, &days],
    )?;
    let is_packed = !session.query(IN_BLOCKS, &[&keys])?.is_empty();
    if added < requests.len() as u64 || is_packed {
        return Err(StoreError::Overtaken.into());
    }
    Ok(())
}

/// Whether a request is known.
pub(super) fn has(
    session: &mut OpenTransaction<'_>,
    key: Writer,
) -> Result<bool, TransactionFailure> {
    let (sql, key) = ("SELECT FROM request_key WHERE key = $1::text::uuid", key.to_string());
    Ok(!session.query(sql, &[&key])?.is_empty()
        || !session.query(IN_BLOCKS, &[&vec![key]])?.is_empty())
}

/// Packs rows into a run, if it is time; returns whether there may be enough for another one. One
/// process at a time may do so.
pub(super) fn pack(
    session: &mut OpenTransaction<'_>,
    now_us: i64,
) -> Result<bool, TransactionFailure> {
    let counted = "SELECT count(*) FROM (SELECT FROM request_key LIMIT $1) k";
    let latest = "SELECT max(made_us) FROM request_run";
    let rows: i64 = session.query(counted, &[&RUN])?.first().map_or(Ok(0), |row| row.try_get(0))?;
    let made_us = session.query(latest, &[])?.first().map_or(Ok(None), |row| row.try_get(0))?;
    let is_time = made_us.is_none_or(|made_us: i64| now_us >= made_us.saturating_add(RUN_EACH_US));
    if rows == 0 || rows < RUN && !is_time {
        return Ok(false);
    }
    session.execute(
        "WITH gone AS (
             DELETE FROM request_key WHERE key IN (SELECT key FROM request_key ORDER BY day LIMIT $1)
             RETURNING day, substring(uuid_send(key) FROM 5) AS key),
         made AS (
             INSERT INTO request_run
             SELECT (SELECT coalesce(max(run), 0) + 1 FROM request_run), max(day), $2 FROM gone
             RETURNING run),
         numbered AS (SELECT key, (row_number() OVER (ORDER BY key) - 1) / $3 AS block FROM gone)
         INSERT INTO request_block
         SELECT (SELECT run FROM made), (array_agg(key ORDER BY key))[1],
                string_agg(key, ''::bytea ORDER BY key)
         FROM numbered GROUP BY block",
        &[&RUN, &now_us, &BLOCK],
    )?;
    Ok(rows == RUN)
}

/// Removes a run, or some rows, of requests that arrived on days before that of a time; returns their
/// number. Those that another process is removing are left to it.
pub(super) fn forget(
    session: &mut OpenTransaction<'_>,
    until_us: i64,
) -> Result<u64, TransactionFailure> {
    let day = day_of(until_us);
    let packed = "WITH gone AS (
                      DELETE FROM request_run WHERE run IN (
                          SELECT run FROM request_run WHERE day < $1 ORDER BY run LIMIT 1
                          FOR UPDATE SKIP LOCKED)
                      RETURNING run),
                  emptied AS (
                      DELETE FROM request_block WHERE run IN (SELECT run FROM gone)
                      RETURNING length(keys) / 12 AS keys)
                  SELECT coalesce(sum(keys), 0)::bigint FROM emptied";
    if let Some(row) = session.query(packed, &[&day])?.first()
        && let packed @ 1.. = row.try_get::<_, i64>(0)?
    {
        return Ok(packed as u64);
    }
    let sql = "DELETE FROM request_key WHERE key IN (
                   SELECT key FROM request_key WHERE day < $1 ORDER BY day LIMIT $2
                   FOR UPDATE SKIP LOCKED)";
    Ok(session.execute(sql, &[&day, &(FORGOTTEN_MAX as i64)])?)
}
