//! The names of requests.
//!
//! Their table is no migration: earlier versions need not know it, and can still open the store.

use series::SECOND_US;

use super::link::{Failure, OpenTransaction};
use super::schema::MIGRATING;
use crate::{Request, StoreError, Writer};

fn exists(session: &mut OpenTransaction<'_>) -> Result<bool, Failure> {
    Ok(session.query_one_bool("SELECT to_regclass('request_key') IS NOT NULL")?)
}

/// Adds requests, none of which may be known.
pub(super) fn add(session: &mut OpenTransaction<'_>, requests: &[Request]) -> Result<(), Failure> {
    if requests.is_empty() {
        return Ok(());
    }
    if !exists(session)? {
        session.transaction.query_one(MIGRATING, &[])?;
        session.transaction.batch_execute(
            "CREATE TABLE IF NOT EXISTS request_key (
                 key  uuid PRIMARY KEY,
                 at_s bigint NOT NULL               -- since 1970
             )",
        )?;
    }
    // In a fixed order, so that writers cannot deadlock.
    let mut requests = requests.to_vec();
    requests.sort_unstable();
    let keys: Vec<String> = requests.iter().map(|request| request.key.to_string()).collect();
    let at_s = requests.iter().map(|request| request.at_us.div_euclid(SECOND_US));
    let at_s: Vec<i64> = at_s.collect();
    let added = session.execute(
        "INSERT INTO request_key
         SELECT key::uuid, at_s FROM unnest($1::text[], $2::bigint[]) AS w (key, at_s)
         ON CONFLICT DO NOTHING",
        &[&keys, &at_s],
    )?;
    if added < requests.len() as u64 { Err(StoreError::Overtaken.into()) } else { Ok(()) }
}

/// Whether a request is known.
pub(super) fn has(session: &mut OpenTransaction<'_>, key: Writer) -> Result<bool, Failure> {
    if !exists(session)? {
        return Ok(false);
    }
    let sql = "SELECT FROM request_key WHERE key = $1::text::uuid";
    Ok(!session.query(sql, &[&key.to_string()])?.is_empty())
}

/// Removes the requests that arrived before a time; returns their number.
pub(super) fn forget(session: &mut OpenTransaction<'_>, until_us: i64) -> Result<u64, Failure> {
    if !exists(session)? {
        return Ok(0);
    }
    let sql = "DELETE FROM request_key WHERE at_s < $1";
    Ok(session.execute(sql, &[&until_us.div_euclid(SECOND_US)])?)
}
