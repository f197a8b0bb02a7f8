//! Writes runs into their rows. Every function runs inside the caller's transaction.

use base::RunId;
use record::{Block, BlockState, Distribution, Part, Run, Slice, Trial};
use rusqlite::{Connection, Error, Params, Result, params};
use serde::Serialize;

use crate::read;

/// Writes a new run, without its parts.
pub(crate) fn insert_run(db: &Connection, run: &Run) -> Result<()> {
    let sql = "INSERT INTO run (id, json) VALUES (?1, ?2)";
    execute(db, sql, params![run.id.as_str(), json(run)?])
}

/// Overwrites what is known of the run itself, and adds its line for the list: so a list need not
/// read the parts and blocks of a run that has ended.
pub(crate) fn finish_run(db: &Connection, run: &Run) -> Result<()> {
    let sql = "INSERT INTO run (id, json) VALUES (?1, ?2)
        ON CONFLICT (id) DO UPDATE SET json = excluded.json";
    execute(db, sql, params![run.id.as_str(), json(run)?])?;
    let line = read::line(db, &run.id)?;
    let sql = "UPDATE run SET json = json_set(json, '$.line', json(?2)) WHERE id = ?1";
    execute(db, sql, params![run.id.as_str(), json(&line)?])
}

/// Writes a part without its blocks, replacing an earlier version of it.
pub(crate) fn put_part(db: &Connection, run: &RunId, index: usize, part: &Part) -> Result<()> {
    let sql = "INSERT INTO part (run, part, json) VALUES (?1, ?2, ?3)
        ON CONFLICT (run, part) DO UPDATE SET json = excluded.json";
    execute(db, sql, params![run.as_str(), index as i64, json(part)?])
}

/// Writes a whole block, replacing an earlier version of it.
pub(crate) fn put_block(db: &Connection, run: &RunId, part: usize, block: &Block) -> Result<()> {
    let sql = "INSERT INTO block (run, part, block, json) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (run, part, block) DO UPDATE SET json = excluded.json";
    execute(db, sql, params![run.as_str(), part as i64, block.index, json(block)?])?;
    let sql = "DELETE FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3";
    execute(db, sql, params![run.as_str(), part as i64, block.index])?;
    block.trials.iter().try_for_each(|trial| insert_trial(db, run, part, block.index, trial))
}

/// Adds one trial to a block that may not have been written yet, inside the caller's transaction on
/// a record's connection. [`crate::Store::save_trial`] does the same in its own transaction.
///
/// # Errors
/// Those of SQLite, after which the transaction must not be committed.
pub fn add_trial(
    db: &Connection,
    run: &RunId,
    part: usize,
    block: u32,
    trial: &Trial,
) -> Result<()> {
    let unfinished = Block::new(block, trial.started, BlockState::Unfinished);
    let sql = "INSERT INTO block (run, part, block, json) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO NOTHING";
    execute(db, sql, params![run.as_str(), part as i64, block, json(&unfinished)?])?;
    // Rate and start from both sides' JSON, so that what is equal is written alike: SQLite reads
    // decimals in its own way, and a start that ends with a zero has one digit less elsewhere. A
    // variant that is calibrated twice has a trial of each start.
    let sql = "DELETE FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3 AND variant = ?4
        AND offer = ?5 AND json ->> 'offered_per_s' IS ?6 ->> 'offered_per_s'
        AND json ->> 'started' = ?6 ->> 'started'";
    let (offer, text) = (trial.offer.word(), json(trial)?);
    let at = params![run.as_str(), part as i64, block, trial.variant, offer, text];
    execute(db, sql, at)?;
    insert_trial(db, run, part, block, trial)
}

fn insert_trial(
    db: &Connection,
    run: &RunId,
    part: usize,
    block: u32,
    trial: &Trial,
) -> Result<()> {
    let sql = "INSERT INTO trial (run, part, block, variant, offer, json)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (offer, text) = (trial.offer.word(), json(trial)?);
    execute(db, sql, params![run.as_str(), part as i64, block, trial.variant, offer, text])?;
    let id = db.last_insert_rowid();
    let hdr = |distribution: &Distribution| distribution.hdr_v2.clone();
    let (latency, lateness) = (trial.latency.as_ref().map(hdr), trial.lateness.as_ref().map(hdr));
    let sql = "INSERT INTO histogram (trial, latency, service_time, lateness)
        VALUES (?1, ?2, ?3, ?4)";
    execute(db, sql, params![id, latency, trial.service_time.hdr_v2, lateness])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO slice (trial, ordinal, round, window_ns, completed, other_cpus, stolen, kept)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (ordinal, slice) in (0_i64..).zip(&trial.slices) {
        // Unsigned numbers are stored bit for bit.
        let (window_ns, completed) = (slice.window.0 as i64, slice.completed as i64);
        let Slice { round, other_cpus, stolen, kept, .. } = slice;
        insert
            .execute(params![id, ordinal, round, window_ns, completed, other_cpus, stolen, kept])?;
    }
    Ok(())
}

fn execute(db: &Connection, sql: &str, values: impl Params) -> Result<()> {
    db.prepare_cached(sql)?.execute(values).map(drop)
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::ToSqlConversionFailure(Box::new(e)))
}
