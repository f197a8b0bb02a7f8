//! Reads runs from their rows.

use std::fmt::Display;

use base::{Nanos, RunId};
use record::{Part, Run, RunKind, RunLine, Slice, Trial};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Params, Result, Row, params};
use serde::de::DeserializeOwned;

fn rows<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// The runs that a name can mean: `last`, an id, a prefix of ids (newest first), or the newest run
/// with this name.
pub(crate) fn names(db: &Connection, name: &str) -> Result<Vec<RunId>> {
    let id = |row: &Row<'_>| row.get(0).map(RunId);
    if name == "last" {
        return rows(db, "SELECT id FROM run ORDER BY started DESC, id DESC LIMIT 1", [], id);
    }
    let exact = rows(db, "SELECT id FROM run WHERE id = ?1", [name], id)?;
    if !exact.is_empty() || name.is_empty() {
        return Ok(exact);
    }
    let prefixed =
        "SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1 ORDER BY started DESC, id DESC";
    let prefixed = rows(db, prefixed, [name], id)?;
    if !prefixed.is_empty() {
        return Ok(prefixed);
    }
    // Runs of the same name differ in their start; take the newest.
    let named = "SELECT id FROM run WHERE name = ?1 ORDER BY started DESC, id DESC LIMIT 1";
    rows(db, named, [name], id)
}

/// The newest runs, newest first.
pub(crate) fn list(db: &Connection, limit: usize) -> Result<Vec<RunLine>> {
    let _one_moment = db.unchecked_transaction()?;
    let newest =
        "SELECT id, json -> 'line' AS json FROM run ORDER BY started DESC, id DESC LIMIT ?1";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // A run that has not ended, or was written by another version, has no line that can be read.
    rows(db, newest, [limit], |row| {
        json("run", row).or_else(|_| line(db, &row.get("id").map(RunId)?))
    })
}

/// A run in one line, from its parts and blocks.
pub(crate) fn line(db: &Connection, id: &RunId) -> Result<RunLine> {
    run_with(db, id, |run| run.kind == RunKind::Load).map(|run| RunLine::of(&run))
}

/// A whole run.
pub(crate) fn run(db: &Connection, id: &RunId) -> Result<Run> {
    // One transaction, so that a run that is being written is read consistently.
    let _one_moment = db.unchecked_transaction()?;
    run_with(db, id, |_| true)
}

/// A run, with its trials if they are wanted.
fn run_with(db: &Connection, id: &RunId, wants_trials: impl Fn(&Run) -> bool) -> Result<Run> {
    let mut run: Run = db
        .prepare_cached("SELECT json FROM run WHERE id = ?1")?
        .query_row([id.as_str()], |row| json("run", row))?;
    let wants_trials = wants_trials(&run);
    let sql = "SELECT part, json FROM part WHERE run = ?1 ORDER BY part";
    let parts = rows(db, sql, [id.as_str()], |row| {
        Ok((row.get::<_, i64>("part")?, json::<Part>("part", row)?))
    })?;
    for (number, mut part) in parts {
        let sql = "SELECT json FROM block WHERE run = ?1 AND part = ?2 ORDER BY block";
        part.blocks = rows(db, sql, params![id.as_str(), number], |row| json("block", row))?;
        for block in part.blocks.iter_mut().filter(|_| wants_trials) {
            let sql = "SELECT id, json, latency, service_time, lateness
                FROM trial JOIN histogram ON trial = id
                WHERE run = ?1 AND part = ?2 AND block = ?3 ORDER BY id";
            let key = params![id.as_str(), number, block.index];
            block.trials = rows(db, sql, key, |row| trial(db, row))?;
        }
        check_variants(&part)?;
        run.parts.push(part);
    }
    Ok(run)
}

/// Refuses a part that mentions a variant that it does not have.
fn check_variants(part: &Part) -> Result<()> {
    let trials = part.blocks.iter().flat_map(|block| &block.trials);
    let lives = part.blocks.iter().flat_map(|block| &block.lives);
    let compared = part.comparisons.iter().flat_map(|both| [both.baseline, both.variant]);
    let mut variants = trials
        .map(|trial| ("trial", trial.variant))
        .chain(lives.map(|life| ("block", life.variant)))
        .chain(compared.map(|variant| ("part", variant)));
    let count = part.variants.len();
    match variants.find(|(_, variant)| *variant as usize >= count) {
        None => Ok(()),
        Some((table, variant)) => {
            let cause = format!("variant {variant} is unknown, the part has {count} (from 0)");
            Err(unreadable(table, cause))
        }
    }
}

fn trial(db: &Connection, row: &Row<'_>) -> Result<Trial> {
    let mut trial: Trial = json("trial", row)?;
    let histogram = |kind: &str| -> Result<Vec<u8>> {
        Ok(row.get::<_, Option<Vec<u8>>>(kind)?.unwrap_or_default())
    };
    trial.service_time.hdr_v2 = histogram("service_time")?;
    for (kind, distribution) in [("latency", &mut trial.latency), ("lateness", &mut trial.lateness)]
    {
        if let Some(distribution) = distribution {
            distribution.hdr_v2 = histogram(kind)?;
        }
    }
    let sql = "SELECT * FROM slice WHERE trial = ?1 ORDER BY ordinal";
    trial.slices = rows(db, sql, [row.get::<_, i64>("id")?], |row| {
        Ok(Slice {
            round: row.get("round")?,
            window: Nanos(row.get::<_, i64>("window_ns")? as u64),
            completed: row.get::<_, i64>("completed")? as u64,
            other_cpus: row.get("other_cpus")?,
            stolen: row.get("stolen")?,
            kept: row.get("kept")?,
        })
    })?;
    Ok(trial)
}

fn json<T: DeserializeOwned>(table: &str, row: &Row<'_>) -> Result<T> {
    serde_json::from_str(row.get_ref("json")?.as_str()?).map_err(|error| unreadable(table, error))
}

fn unreadable(table: &str, cause: impl Display) -> Error {
    let cause = format!("{table}.json: {cause}");
    Error::FromSqlConversionFailure(0, Type::Text, cause.into())
}
