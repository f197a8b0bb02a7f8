//! Writes the model into the tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension, Result, Transaction, params};
use series::{Batch, Flavor, Lane, SlotKey};

use super::read::FineSlots;
use super::{TransactionFailure, packed, read, requests, rows, schema};
use crate::packed::Packing;
use crate::plan::{self, Plan, RetentionChanges};
use crate::stored_retention::StoredRetention;
use crate::{
    BatchResult, Changes, NewSeries, NotMade, RrdChange, Series, SeriesLimit, Source, StoreError,
    Writer,
};

/// Finds or creates series.
pub(super) fn series(
    tx: &Transaction<'_>,
    wanted: &[NewSeries],
    limit: &SeriesLimit,
) -> Result<Vec<Result<Series, NotMade>>> {
    let steps: Vec<i64> = schema::retentions(tx)?.iter().map(|kept| kept.step().us()).collect();
    let mut count = read::series_count(tx)?;
    let find = format!(
        "SELECT {} FROM series WHERE measurement = ?1 AND field = ?2 AND tags = ?3",
        read::SERIES
    );
    let mut find = tx.prepare_cached(&find)?;
    let mut answers = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let identity = &wanted.identity;
        let tags = json(&identity.tags)?;
        let found = find
            .query_row([&identity.measurement, &identity.field, &tags], read::series)
            .optional()?;
        answers.push(match (found, limit.admit(wanted)) {
            (Some(found), _) => Ok(found),
            (None, Err(reason)) => Err(reason),
            (None, Ok(())) if !steps.contains(&wanted.spec.step.us()) => Err(NotMade::NoRetention),
            (None, Ok(())) if count >= limit.series => Err(NotMade::TooMany),
            (None, Ok(())) => {
                count += 1;
                Ok(make(tx, wanted, &tags)?)
            }
        });
    }
    Ok(answers)
}

fn make(tx: &Transaction<'_>, wanted: &NewSeries, tags: &str) -> Result<Series> {
    let (identity, spec) = (&wanted.identity, &wanted.spec);
    let rrd = wanted.rrd.as_ref().map(json).transpose()?;
    tx.prepare_cached(
        "INSERT INTO series (measurement, field, tags, kind, flow, step_us, heartbeat_us,
                             lateness_us, rmin, rmax, xff, rrd)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        identity.measurement,
        identity.field,
        tags,
        json(&spec.kind)?.trim_matches('"'),
        spec.kind.flavor() == Flavor::Flow,
        spec.step.us(),
        spec.heartbeat_us,
        spec.lateness_us,
        spec.min,
        spec.max,
        wanted.xff,
        rrd,
    ])?;
    Ok(Series {
        id: tx.last_insert_rowid(),
        identity: identity.clone(),
        spec: *spec,
        xff: wanted.xff,
        rrd: wanted.rrd.clone(),
    })
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// Finds or creates lanes.
pub(super) fn lanes(tx: &Transaction<'_>, names: &[&str]) -> Result<Vec<i32>> {
    let mut make =
        tx.prepare_cached("INSERT INTO lane (name) VALUES (?1) ON CONFLICT DO NOTHING")?;
    let mut find = tx.prepare_cached("SELECT id FROM lane WHERE name = ?1")?;
    let mut lanes = Vec::with_capacity(names.len());
    for name in names {
        make.execute([name])?;
        lanes.push(find.query_row([name], |row| row.get(0))?);
    }
    Ok(lanes)
}

/// Applies a batch unless it was applied before.
pub(super) fn apply(
    tx: &Transaction<'_>,
    claims: &[(Writer, u64)],
    source: &mut dyn Source,
    packing: Packing,
) -> Result<BatchResult, TransactionFailure> {
    if !claim_all(tx, claims)? {
        return Ok(BatchResult::Before);
    }
    let kept = schema::retentions(tx)?;
    let (mut expired, mut over) = (0, Vec::new());
    let mut stale = Vec::new();
    let mut writing = packed::WrittenSpans::default();
    source.restart();
    while let Some(changes) = source.next() {
        expired += apply_piece(tx, &changes, &kept, packing, &mut writing, &mut over)?;
        save_lanes(tx, &changes, &mut stale)?;
        requests::add(tx, &changes.requests)?;
    }
    if !stale.is_empty() {
        return Err(StoreError::Stale { lanes: stale }.into());
    }
    if !over.is_empty() {
        return Err(StoreError::Overflow { slots: over }.into());
    }
    Ok(BatchResult::Now { expired })
}

/// Writes one piece; returns the number of its slots that have expired.
fn apply_piece(
    tx: &Transaction<'_>,
    changes: &Changes,
    kept: &[StoredRetention],
    packing: Packing,
    writing: &mut packed::WrittenSpans,
    over: &mut Vec<(i64, SlotKey)>,
) -> Result<u64, TransactionFailure> {
    let plan = Plan::new(changes, kept)?;
    for part in &plan.parts {
        make_partitions(tx, part)?;
        let step_us = part.kept.step().us();
        let mut beyond = Vec::new();
        add(tx, part, packing, writing, &mut beyond)?;
        over.extend(beyond.into_iter().map(|key| (step_us, key)));
        recompute_bounds(tx, part, kept, packing, writing)?;
    }
    for change in &changes.rrd {
        advance(tx, change)?;
    }
    Ok(plan.expired)
}

/// Saves the lanes that are as they were when the batch was computed; the others are added to
/// `stale`.
fn save_lanes(
    tx: &Transaction<'_>,
    changes: &Changes,
    stale: &mut Vec<((i64, i32), Lane)>,
) -> Result<()> {
    let mut update = tx.prepare_cached(
        "UPDATE lane_state SET state = ?3 WHERE series = ?1 AND lane = ?2 AND state = ?4",
    )?;
    let mut save = tx.prepare_cached("INSERT OR REPLACE INTO lane_state VALUES (?1, ?2, ?3)")?;
    for ((series, lane), change) in &changes.lanes {
        let (before, after) = (change.before.to_bytes(), change.after.to_bytes());
        if update.execute(params![series, lane, after, before])? == 1 {
            continue;
        }
        // A new lane, or points that an earlier version wrote in another form.
        let now = read::lane_states(tx, &[(*series, *lane)])?.pop().unwrap_or_default();
        if now == change.before {
            save.execute(params![series, lane, after])?;
        } else {
            stale.push(((*series, *lane), now));
        }
    }
    Ok(())
}

/// Claims the writers' next numbers; false if all were claimed before.
fn claim_all(tx: &Transaction<'_>, claims: &[(Writer, u64)]) -> Result<bool, TransactionFailure> {
    let mut claimed = 0;
    for (writer, seq) in claims {
        claimed += usize::from(claim(tx, *writer, *seq)?);
    }
    if claimed > 0 && claimed < claims.len() {
        return Err(StoreError::Overtaken.into());
    }
    Ok(claimed > 0 || claims.is_empty())
}

/// Claims the writer's next number; false if it was claimed before.
fn claim(tx: &Transaction<'_>, writer: Writer, seq: u64) -> Result<bool, TransactionFailure> {
    let last = read::last_batch(tx, writer)?;
    if seq <= last {
        return Ok(false);
    }
    if seq != last + 1 {
        return Err(StoreError::Missing { writer, sent: seq, last }.into());
    }
    tx.prepare_cached("INSERT OR REPLACE INTO writer VALUES (?1, ?2)")?
        .execute(params![writer.to_string(), seq as i64])?;
    Ok(true)
}

fn make_partitions(
    tx: &Transaction<'_>,
    part: &RetentionChanges<'_>,
) -> Result<(), TransactionFailure> {
    let step_us = part.kept.step().us();
    let mut all = schema::partitions(tx, step_us)?;
    let wanted = part.partitions();
    all.extend(&wanted);
    if all.len() > schema::PARTITIONS_MAX {
        let (count, most) = (all.len(), schema::PARTITIONS_MAX);
        return Err(StoreError::TooManyPartitions { step_us, count, most }.into());
    }
    schema::make_partitions(tx, step_us, &wanted)?;
    Ok(())
}

/// Applies the changes of a retention, to packed rows and to rows.
fn add(
    tx: &Transaction<'_>,
    part: &RetentionChanges<'_>,
    packing: Packing,
    writing: &mut packed::WrittenSpans,
    over: &mut Vec<SlotKey>,
) -> Result<()> {
    let rows = packed::add(tx, part, packing, writing, over)?;
    rows::add(tx, &part.kept, &rows, over)
}

/// Gives coarse slots the bounds of their fine slots.
fn recompute_bounds(
    tx: &Transaction<'_>,
    part: &RetentionChanges<'_>,
    kept: &[StoredRetention],
    packing: Packing,
    writing: &mut packed::WrittenSpans,
) -> Result<()> {
    let step = part.kept.step();
    let mut rows = Batch::default();
    let mut finer: BTreeMap<i64, FineSlots<'_>> =
        kept.iter().map(|kept| (kept.step().us(), FineSlots::new(tx, *kept))).collect();
    for slot in &part.recomputed {
        let Some(fine) = finer.get_mut(&slot.from_step_us) else { continue };
        rows.add(slot.key, plan::bounds_of(&fine.inside(slot.key, step)?));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let bounds =
        RetentionChanges { kept: part.kept, rows: Cow::Owned(rows), recomputed: BTreeSet::new() };
    add(tx, &bounds, packing, writing, &mut Vec::new())
}

/// Saves the change of a series in RRD mode; each archive keeps its latest rows.
fn advance(tx: &Transaction<'_>, change: &RrdChange) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO rrd_state VALUES (?1, ?2)")?
        .execute(params![change.series, json(&change.state)?])?;
    let mut insert = tx.prepare_cached("INSERT OR REPLACE INTO rrd_row VALUES (?1, ?2, ?3, ?4)")?;
    for row in &change.rows {
        let value = (!row.value.is_nan()).then_some(row.value);
        insert.execute(params![change.series, row.archive as i64, row.end_us, value])?;
    }
    let definition = "SELECT rrd FROM series WHERE id = ?1";
    let text: Option<String> = tx.query_row(definition, [change.series], |row| row.get(0))?;
    let Some(definition) =
        text.and_then(|t| serde_json::from_str::<series::rrd::Definition>(&t).ok())
    else {
        return Ok(());
    };
    for (number, oldest_us) in plan::oldest_rows(&definition, &change.rows) {
        tx.prepare_cached(
            "DELETE FROM rrd_row WHERE series = ?1 AND archive = ?2 AND end_us <= ?3",
        )?
        .execute(params![change.series, number as i64, oldest_us])?;
    }
    Ok(())
}
