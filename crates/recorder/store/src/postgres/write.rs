//! Writes the model into the tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use series::{Accumulator, Batch, Bounds, Delta, Flavor, SlotKey, rrd};

use super::lanes::{self, Lanes};
use super::link::{OpenTransaction, TransactionFailure};
use super::types::Time;
use super::{packed, read, requests, schema};
use crate::packed::Packing;
use crate::plan::{self, Plan, RetentionChanges};
use crate::stored_retention::StoredRetention;
use crate::{
    Changes, Identity, NewSeries, NotMade, RrdChange, Series, SeriesLimit, StoreError, Writer,
    names,
};

/// Finds or creates series.
pub(super) fn series(
    session: &mut OpenTransaction<'_>,
    wanted: &[NewSeries],
    limit: &SeriesLimit,
) -> Result<Vec<Result<Series, NotMade>>, TransactionFailure> {
    let before = latest(session)?;
    let mut known = known(session, wanted)?;
    let mut refused: HashMap<&Identity, NotMade> = HashMap::new();
    if wanted.iter().any(|wanted| !known.contains_key(&wanted.identity)) {
        // One at a time, so that the limit holds.
        session.transaction.batch_execute("LOCK TABLE series IN SHARE ROW EXCLUSIVE MODE")?;
        if latest(session)? != before {
            known = self::known(session, wanted)?;
        }
        let mut new: Vec<&NewSeries> = Vec::new();
        let mut seen: HashSet<&Identity> = HashSet::new();
        let kept = schema::retentions(session)?;
        let count = session.query("SELECT count(*) FROM series", &[])?;
        let mut count: i64 = count.first().map_or(Ok(0), |row| row.try_get(0))?;
        for wanted in wanted {
            let identity = &wanted.identity;
            if known.contains_key(identity) || !seen.insert(identity) {
                continue;
            }
            match limit.admit(wanted) {
                Err(reason) => drop(refused.insert(identity, reason)),
                Ok(()) if !kept.iter().any(|k| k.step() == wanted.spec.step) => {
                    refused.insert(identity, NotMade::NoRetention);
                }
                Ok(()) if count >= limit.series => drop(refused.insert(identity, NotMade::TooMany)),
                Ok(()) => {
                    count += 1;
                    new.push(wanted);
                }
            }
        }
        known.extend(make(session, &new)?);
    }
    let answer = |wanted: &NewSeries| match known.get(&wanted.identity) {
        Some(series) => Ok(series.clone()),
        None => Err(refused.get(&wanted.identity).copied().unwrap_or(NotMade::Name)),
    };
    Ok(wanted.iter().map(answer).collect())
}

/// The number of the latest series; 0 without any.
fn latest(session: &mut OpenTransaction<'_>) -> Result<i64, TransactionFailure> {
    let rows = session.query("SELECT coalesce(max(id), 0)::bigint FROM series", &[])?;
    rows.first().map_or(Ok(0), |row| Ok(row.try_get(0)?))
}

/// The existing ones of these series.
fn known(
    session: &mut OpenTransaction<'_>,
    wanted: &[NewSeries],
) -> Result<HashMap<Identity, Series>, TransactionFailure> {
    // A zero byte cannot be sent, and no series has one.
    let possible = wanted.iter().filter(|w| SeriesLimit::is_text(&w.identity));
    let possible: Vec<&Identity> = possible.map(|w| &w.identity).collect();
    let measurements: Vec<&str> = possible.iter().map(|i| i.measurement.as_str()).collect();
    let fields: Vec<&str> = possible.iter().map(|i| i.field.as_str()).collect();
    let tags = possible.iter().map(|i| serde_json::to_string(&i.tags));
    let tags: Vec<String> = tags.collect::<Result<_, _>>()?;
    let sql = format!(
        "SELECT {} FROM unnest($1::text[], $2::text[], $3::text[]) AS w (measurement, field, tags)
         JOIN series s ON s.measurement = w.measurement AND s.field = w.field AND s.tags = w.tags::jsonb",
        read::SERIES
    );
    let rows = session.query(&sql, &[&measurements, &fields, &tags])?;
    rows.iter().map(|row| read::series(row).map(|s| (s.identity.clone(), s))).collect()
}

/// Creates series.
fn make(
    session: &mut OpenTransaction<'_>,
    new: &[&NewSeries],
) -> Result<Vec<(Identity, Series)>, TransactionFailure> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let ids = session.query(
        "SELECT nextval((SELECT pg_get_serial_sequence('series', 'id')::regclass))
         FROM generate_series(1, $1)",
        &[&i32::try_from(new.len()).map_err(|e| TransactionFailure::Value(e.to_string()))?],
    )?;
    let ids = ids.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let words = |of: fn(&NewSeries) -> &str| new.iter().map(|n| of(n)).collect::<Vec<&str>>();
    let numbers = |of: fn(&NewSeries) -> i64| new.iter().map(|n| of(n)).collect::<Vec<i64>>();
    let tags = new.iter().map(|n| serde_json::to_string(&n.identity.tags));
    let tags: Vec<String> = tags.collect::<Result<_, _>>()?;
    let kinds = new.iter().map(|n| serde_json::to_string(&n.spec.kind));
    let kinds: Vec<String> = kinds.collect::<Result<_, _>>()?;
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.trim_matches('"')).collect();
    let flows: Vec<bool> = new.iter().map(|n| n.spec.kind.flavor() == Flavor::Flow).collect();
    let least: Vec<Option<f64>> = new.iter().map(|n| n.spec.min).collect();
    let greatest: Vec<Option<f64>> = new.iter().map(|n| n.spec.max).collect();
    let xffs: Vec<f64> = new.iter().map(|n| n.xff).collect();
    let rrds = new.iter().map(|n| n.rrd.as_ref().map(serde_json::to_string).transpose());
    let rrds: Vec<Option<String>> = rrds.collect::<Result<_, _>>()?;
    session.execute(
        "INSERT INTO series (id, measurement, field, tags, kind, flow, step_us, heartbeat_us,
                             lateness_us, rmin, rmax, xff, rrd)
         SELECT id, measurement, field, tags::jsonb, kind, flow, step_us, heartbeat_us,
                lateness_us, rmin, rmax, xff, rrd
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[],
                     $7::bigint[], $8::bigint[], $9::bigint[], $10::double precision[],
                     $11::double precision[], $12::double precision[], $13::text[])
              AS w (id, measurement, field, tags, kind, flow, step_us, heartbeat_us, lateness_us,
                    rmin, rmax, xff, rrd)",
        &[
            &ids,
            &words(|n| &n.identity.measurement),
            &words(|n| &n.identity.field),
            &tags,
            &kinds,
            &flows,
            &numbers(|n| n.spec.step.us()),
            &numbers(|n| n.spec.heartbeat_us),
            &numbers(|n| n.spec.lateness_us),
            &least,
            &greatest,
            &xffs,
            &rrds,
        ],
    )?;
    let made = |(new, id): (&&NewSeries, i64)| {
        let NewSeries { identity, spec, xff, rrd } = (*new).clone();
        (identity.clone(), Series { id, identity, spec, xff, rrd })
    };
    Ok(new.iter().zip(ids).map(made).collect())
}

/// Finds or creates lanes.
pub(super) fn lanes(
    session: &mut OpenTransaction<'_>,
    names: &[&str],
) -> Result<Vec<i32>, TransactionFailure> {
    let find = "SELECT id FROM lane WHERE name = $1";
    let mut lanes = Vec::with_capacity(names.len());
    for name in names {
        if session.query(find, &[name])?.is_empty() {
            session.transaction.batch_execute("LOCK TABLE lane IN SHARE ROW EXCLUSIVE MODE")?;
            session.execute(
                "INSERT INTO lane SELECT max(id) + 1, $1 FROM lane ON CONFLICT DO NOTHING",
                &[name],
            )?;
        }
        let row = session.query(find, &[name])?.pop();
        let row =
            row.ok_or_else(|| TransactionFailure::Value(format!("the lane '{name}' is gone")))?;
        lanes.push(row.try_get(0)?);
    }
    Ok(lanes)
}

/// Claims the writers' next numbers; false if all were claimed before.
pub(super) fn claim_all(
    session: &mut OpenTransaction<'_>,
    claims: &[(Writer, u64)],
) -> Result<bool, TransactionFailure> {
    // In a fixed order, so that writers cannot deadlock.
    let mut claims = claims.to_vec();
    claims.sort_unstable();
    let mut claimed = 0;
    for (writer, seq) in &claims {
        claimed += usize::from(claim(session, *writer, *seq)?);
    }
    if claimed > 0 && claimed < claims.len() {
        return Err(StoreError::Overtaken.into());
    }
    Ok(claimed > 0 || claims.is_empty())
}

/// Claims the writer's next number; false if it was claimed before.
fn claim(
    session: &mut OpenTransaction<'_>,
    writer: Writer,
    seq: u64,
) -> Result<bool, TransactionFailure> {
    let (id, number) = (writer.to_string(), seq as i64);
    let claimed = if seq == 1 {
        let sql = "INSERT INTO writer VALUES ($1::text::uuid, $2) ON CONFLICT DO NOTHING";
        session.execute(sql, &[&id, &number])?
    } else {
        let sql = "UPDATE writer SET seq = $2 WHERE id = $1::text::uuid AND seq = $2::bigint - 1";
        session.execute(sql, &[&id, &number])?
    };
    if claimed == 1 {
        return Ok(true);
    }
    let last = read::last_batch(session, writer)?;
    if seq <= last {
        return Ok(false);
    }
    Err(StoreError::Missing { writer, sent: seq, last }.into())
}

/// A transaction's data of a batch, gathered piece by piece.
#[derive(Debug)]
pub(super) struct InBatch {
    packed: packed::PackedWriter,
    lanes: Lanes,
    /// Number of series in the replaced runs.
    replaced: u64,
    /// The slots whose counts are too large, with their steps.
    over: Vec<(i64, SlotKey)>,
}

impl InBatch {
    pub(super) fn new(packing: Packing, way: packed::Way) -> InBatch {
        let packed = packed::PackedWriter::new(packing, way);
        InBatch { packed, lanes: Lanes::default(), replaced: 0, over: Vec::new() }
    }

    /// Writes everything unwritten; returns the number of replaced rows, by table. Fails if lanes
    /// have changed or slots are too large.
    pub(super) fn finish(
        mut self,
        session: &mut OpenTransaction<'_>,
    ) -> Result<BTreeMap<String, u64>, TransactionFailure> {
        let mut replaced = self.packed.finish(session)?;
        self.replaced += self.lanes.write(session)?;
        if !self.lanes.stale.is_empty() {
            return Err(StoreError::Stale { lanes: self.lanes.stale }.into());
        }
        if !self.over.is_empty() {
            return Err(StoreError::Overflow { slots: self.over }.into());
        }
        replaced.insert(lanes::TABLE.to_owned(), self.replaced);
        Ok(replaced)
    }
}

/// Writes a plan's changes, and the states that belong to them.
pub(super) fn apply(
    session: &mut OpenTransaction<'_>,
    plan: &Plan<'_>,
    changes: &Changes,
    kept: &[StoredRetention],
    batch: &mut InBatch,
) -> Result<(), TransactionFailure> {
    for part in &plan.parts {
        let step_us = part.kept.step().us();
        if let Some((key, _)) = part.rows.iter().find(|(key, _)| !Time::is_known(key.slot_us)) {
            return Err(StoreError::Time(key.slot_us).into());
        }
        let mut beyond = Vec::new();
        add_part(session, part, &mut batch.packed, &mut beyond)?;
        batch.over.extend(beyond.into_iter().map(|key| (step_us, key)));
        recompute_bounds(session, part, kept, &mut batch.packed)?;
    }
    for ((series, lane), change) in &changes.lanes {
        batch.lanes.add(*series, *lane, change);
    }
    if batch.lanes.is_full() {
        batch.replaced += batch.lanes.write(session)?;
    }
    requests::add(session, &changes.requests)?;
    changes.rrd.iter().try_for_each(|change| advance(session, change))
}

/// Applies the changes of a retention, to packed rows and to rows.
fn add_part(
    session: &mut OpenTransaction<'_>,
    part: &RetentionChanges<'_>,
    packed: &mut packed::PackedWriter,
    over: &mut Vec<SlotKey>,
) -> Result<(), TransactionFailure> {
    let step_us = part.kept.step().us();
    let packed::UnpackedChanges { rows, unpacked } = packed::add(session, part, packed, over)?;
    let (mut replace, mut widen): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(_, delta)| delta.bounds == Bounds::Replace);
    widen.extend(unpacked.iter().map(|(key, delta)| (key, delta)));
    for (rows, bounds) in [(&mut widen, Bounds::Widen), (&mut replace, Bounds::Replace)] {
        // In a fixed order, so that writers cannot deadlock.
        rows.sort_unstable_by_key(|(key, _)| **key);
        over.extend(add(session, step_us, rows, bounds)?);
    }
    Ok(())
}

/// Adds slots that could not be packed to their rows.
pub(super) fn add_unpacked(
    session: &mut OpenTransaction<'_>,
    step_us: i64,
    slots: &[(SlotKey, Delta)],
) -> Result<(), TransactionFailure> {
    let mut rows: Vec<(&SlotKey, &Delta)> = slots.iter().map(|(key, delta)| (key, delta)).collect();
    rows.sort_unstable_by_key(|(key, _)| **key);
    add(session, step_us, &rows, Bounds::Widen).map(drop)
}

/// The columns of rows, as arrays to send at once.
#[derive(Default)]
struct Columns {
    slot: Vec<Time>,
    series: Vec<i64>,
    lane: Vec<i32>,
    approximate: Vec<bool>,
    integral: Vec<f64>,
    covered_us: Vec<i64>,
    vmin: Vec<Option<f64>>,
    vmax: Vec<Option<f64>>,
    n: Vec<i64>,
    last_us: Vec<Option<i64>>,
    last_val: Vec<Option<f64>>,
}

impl Columns {
    fn push(&mut self, key: &SlotKey, row: &Accumulator) {
        self.slot.push(Time(key.slot_us));
        self.series.push(key.series);
        self.lane.push(key.lane);
        self.approximate.push(row.approximate);
        self.integral.push(row.integral.as_f64());
        self.covered_us.push(row.covered_us);
        self.vmin.push(row.min());
        self.vmax.push(row.max());
        self.n.push(row.n);
        self.last_us.push(row.last().map(|(at_us, _)| at_us));
        self.last_val.push(row.last().map(|(_, value)| value));
    }
}

/// Adds rows, which are ordered by key; returns the keys of those whose counts are too large.
fn add(
    session: &mut OpenTransaction<'_>,
    step_us: i64,
    rows: &[(&SlotKey, &Delta)],
    bounds: Bounds,
) -> Result<Vec<SlotKey>, TransactionFailure> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut columns = Columns::default();
    for (key, delta) in rows {
        columns.push(key, &delta.add);
    }
    let found = session.query(
        &upsert(step_us, bounds),
        &[
            &columns.slot,
            &columns.series,
            &columns.lane,
            &columns.approximate,
            &columns.integral,
            &columns.covered_us,
            &columns.vmin,
            &columns.vmax,
            &columns.n,
            &columns.last_us,
            &columns.last_val,
        ],
    )?;
    let inexact = rows.iter().filter(|(_, delta)| plan::overflows(delta, 0.0));
    let mut over: Vec<SlotKey> = inexact.map(|(key, _)| **key).collect();
    for row in found {
        let slot_us = row.try_get::<_, Time>(0)?.0;
        let key = SlotKey { slot_us, series: row.try_get(1)?, lane: row.try_get(2)? };
        let place = rows.binary_search_by_key(&key, |(known, _)| **known);
        let delta = place.ok().and_then(|place| rows.get(place)).map(|(_, delta)| delta);
        if delta.is_some_and(|delta| plan::overflows(delta, f64::INFINITY)) && !over.contains(&key)
        {
            over.push(key);
        }
    }
    Ok(over)
}

/// The statement that adds rows, and returns the keys of those that a double no longer holds
/// exactly.
fn upsert(step_us: i64, bounds: Bounds) -> String {
    let bounds = match bounds {
        Bounds::Widen => {
            "vmin = least(s.vmin, excluded.vmin), vmax = greatest(s.vmax, excluded.vmax),
             approximate = s.approximate OR excluded.approximate"
        }
        Bounds::Replace => {
            "vmin = excluded.vmin, vmax = excluded.vmax, approximate = excluded.approximate"
        }
    };
    format!(
        "WITH changed AS (
             INSERT INTO {} AS s
             SELECT * FROM unnest($1::timestamptz[], $2::bigint[], $3::integer[], $4::boolean[],
                 $5::double precision[], $6::bigint[], $7::double precision[],
                 $8::double precision[], $9::bigint[], $10::bigint[], $11::double precision[])
             ON CONFLICT (series, slot, lane) DO UPDATE SET
                 integral = s.integral + excluded.integral,
                 covered_us = s.covered_us + excluded.covered_us,
                 n = s.n + excluded.n,
                 last_val = CASE WHEN excluded.last_us IS NULL OR excluded.last_us < s.last_us THEN s.last_val
                                 WHEN excluded.last_us = s.last_us THEN greatest(s.last_val, excluded.last_val)
                                 ELSE excluded.last_val END,
                 last_us = greatest(s.last_us, excluded.last_us),
                 {bounds}
             RETURNING slot, series, lane, integral)
         SELECT slot, series::bigint, lane FROM changed WHERE abs(integral) >= 9007199254740992",
        names::slot(step_us)
    )
}

/// Gives coarse slots the bounds of their fine slots.
fn recompute_bounds(
    session: &mut OpenTransaction<'_>,
    part: &RetentionChanges<'_>,
    kept: &[StoredRetention],
    packed: &mut packed::PackedWriter,
) -> Result<(), TransactionFailure> {
    let mut by_step: HashMap<i64, Vec<SlotKey>> = HashMap::new();
    for slot in &part.recomputed {
        by_step.entry(slot.from_step_us).or_default().push(slot.key);
    }
    let mut found = Batch::default();
    if !by_step.is_empty() {
        packed.send(session)?;
    }
    for (fine_us, keys) in by_step {
        let Some(finer) = kept.iter().find(|kept| kept.step().us() == fine_us) else { continue };
        let mut fine: Vec<Vec<Accumulator>> = vec![Vec::new(); keys.len()];
        for (place, row) in read::fine(session, &keys, part.kept.step(), finer)? {
            fine[place].push(row);
        }
        for (key, fine) in keys.into_iter().zip(&fine) {
            found.add(key, plan::bounds_of(fine));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let bounds =
        RetentionChanges { kept: part.kept, rows: Cow::Owned(found), recomputed: BTreeSet::new() };
    add_part(session, &bounds, packed, &mut Vec::new())
}

/// Saves the change of a series in RRD mode; each archive keeps its latest rows.
fn advance(
    session: &mut OpenTransaction<'_>,
    change: &RrdChange,
) -> Result<(), TransactionFailure> {
    session.execute(
        "INSERT INTO rrd_state VALUES ($1, $2)
         ON CONFLICT (series) DO UPDATE SET state = excluded.state",
        &[&change.series, &serde_json::to_string(&change.state)?],
    )?;
    let archives: Vec<i32> = change.rows.iter().map(|row| row.archive as i32).collect();
    let ends: Vec<i64> = change.rows.iter().map(|row| row.end_us).collect();
    let known = |row: &rrd::Row| (!row.value.is_nan()).then_some(row.value);
    let values: Vec<Option<f64>> = change.rows.iter().map(known).collect();
    session.execute(
        "INSERT INTO rrd_row
         SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::double precision[])
         ON CONFLICT (series, archive, end_us) DO UPDATE SET value = excluded.value",
        &[&change.series, &archives, &ends, &values],
    )?;
    let row =
        session.query("SELECT rrd FROM series WHERE id = $1::bigint", &[&change.series])?.pop();
    let text: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    let Some(text) = text else { return Ok(()) };
    let definition: rrd::Definition = serde_json::from_str(&text)?;
    for (number, oldest_us) in plan::oldest_rows(&definition, &change.rows) {
        session.execute(
            "DELETE FROM rrd_row WHERE series = $1 AND archive = $2 AND end_us <= $3",
            &[&change.series, &(number as i32), &oldest_us],
        )?;
    }
    Ok(())
}
