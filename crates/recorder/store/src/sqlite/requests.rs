//! The names of requests.
//!
//! Their table is no migration: earlier versions need not know it, and can still open the file.

use rusqlite::{Connection, OptionalExtension, Result, Transaction, params};
use series::SECOND_US;

use super::Failure;
use crate::{Request, StoreError, Writer};

fn exists(db: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'request_key'";
    Ok(db.query_row(sql, [], |_| Ok(())).optional()?.is_some())
}

/// Adds requests, none of which may be known.
pub(super) fn add(tx: &Transaction<'_>, requests: &[Request]) -> Result<(), Failure> {
    if requests.is_empty() {
        return Ok(());
    }
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS request_key (
             key  BLOB PRIMARY KEY,
             at_s INTEGER NOT NULL              -- since 1970
         ) STRICT, WITHOUT ROWID",
    )?;
    let mut insert =
        tx.prepare_cached("INSERT INTO request_key VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    for Request { key, at_us } in requests {
        if insert.execute(params![key.0.to_be_bytes(), at_us.div_euclid(SECOND_US)])? == 0 {
            return Err(StoreError::Overtaken.into());
        }
    }
    Ok(())
}

/// Whether a request is known.
pub(super) fn has(db: &Connection, key: Writer) -> Result<bool> {
    if !exists(db)? {
        return Ok(false);
    }
    let mut find = db.prepare_cached("SELECT 1 FROM request_key WHERE key = ?1")?;
    find.exists([key.0.to_be_bytes()])
}

/// Removes the requests that arrived before a time; returns their number.
pub(super) fn forget(tx: &Transaction<'_>, until_us: i64) -> Result<u64> {
    if !exists(tx)? {
        return Ok(0);
    }
    let sql = "DELETE FROM request_key WHERE at_s < ?1";
    Ok(tx.execute(sql, [until_us.div_euclid(SECOND_US)])? as u64)
}
