//! The names of requests.
//!
//! Their table is ordered by the day on which a request arrived, so that those to be forgotten are adjacent and
//! need no index, which would take as much space as the table. To find a request, each day is searched:
//! a few microseconds per day that is remembered. Of a name, 12 of the 16 bytes are kept: that two of a
//! billion requests are the same then by accident has a probability of 10^-11. So a key takes 20 bytes
//! in its page.

use rusqlite::{Connection, Result, Transaction, params};

use super::TransactionFailure;
use crate::store::{FORGOTTEN_MAX, day_of};
use crate::{Request, StoreError, Writer};

/// The days are found one after the other, so that not every key is read.
const FIND: &str = "
    WITH RECURSIVE known (day) AS (
        SELECT min(day) FROM request_key
        UNION ALL
        SELECT (SELECT min(r.day) FROM request_key r WHERE r.day > known.day)
        FROM known WHERE known.day IS NOT NULL)
    SELECT 1 FROM known CROSS JOIN request_key r ON r.day = known.day AND r.key = ?1";

/// The part of a name that is kept.
fn kept(key: Writer) -> [u8; 12] {
    let bytes = key.0.to_be_bytes();
    std::array::from_fn(|at| bytes[at + 4])
}

/// Adds requests, none of which may be known.
pub(super) fn add(tx: &Transaction<'_>, requests: &[Request]) -> Result<(), TransactionFailure> {
    let mut find = tx.prepare_cached(FIND)?;
    let mut insert = tx.prepare_cached("INSERT INTO request_key VALUES (?1, ?2)")?;
    for Request { key, at_us } in requests {
        if find.exists([kept(*key)])? {
            return Err(StoreError::Overtaken.into());
        }
        insert.execute(params![day_of(*at_us), kept(*key)])?;
    }
    Ok(())
}

/// Whether a request is known.
pub(super) fn has(db: &Connection, key: Writer) -> Result<bool> {
    db.prepare_cached(FIND)?.exists([kept(key)])
}

/// Removes some of the requests that arrived on days before that of a time; returns their number.
pub(super) fn forget(tx: &Transaction<'_>, until_us: i64) -> Result<u64> {
    let sql = "DELETE FROM request_key WHERE (day, key) IN (
                   SELECT day, key FROM request_key WHERE day < ?1 ORDER BY day, key LIMIT ?2)";
    Ok(tx.execute(sql, params![day_of(until_us), FORGOTTEN_MAX as i64])? as u64)
}
