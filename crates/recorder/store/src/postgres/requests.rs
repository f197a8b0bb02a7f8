//! The names of requests.

use super::link::{Failure, OpenTransaction};
use crate::store::{FORGOTTEN_MAX, day_of};
use crate::{Request, StoreError, Writer};

/// Adds requests, none of which may be known.
pub(super) fn add(session: &mut OpenTransaction<'_>, requests: &[Request]) -> Result<(), Failure> {
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
    if added < requests.len() as u64 { Err(StoreError::Overtaken.into()) } else { Ok(()) }
}

/// Whether a request is known.
pub(super) fn has(session: &mut OpenTransaction<'_>, key: Writer) -> Result<bool, Failure> {
    let sql = "SELECT FROM request_key WHERE key = $1::text::uuid";
    Ok(!session.query(sql, &[&key.to_string()])?.is_empty())
}

/// Removes some of the requests that arrived on days before that of a time; returns their number.
/// Those that another process is removing are left to it.
pub(super) fn forget(session: &mut OpenTransaction<'_>, until_us: i64) -> Result<u64, Failure> {
    let sql = "DELETE FROM request_key WHERE key IN (
                   SELECT key FROM request_key WHERE day < $1 ORDER BY day LIMIT $2
                   FOR UPDATE SKIP LOCKED)";
    Ok(session.execute(sql, &[&day_of(until_us), &(FORGOTTEN_MAX as i64)])?)
}
