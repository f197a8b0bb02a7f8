//! Reads the tables into the model.

use std::collections::{BTreeMap, HashSet};

use postgres::Row;
use postgres::types::ToSql;
use series::{Accumulator, Flavor, SlotKey, Spec, Step, rrd};

use super::link::{OpenTransaction, TransactionFailure};
use super::packed;
use super::rows::{SLOT, slot};
use super::types::Time;
use crate::packed::StretchKey;
use crate::plan::integral_of;
use crate::stored_retention::StoredRetention;
use crate::{Identity, Selector, Series, Writer, names};

/// The columns of a series of the table `series` as `s`, in the order in which [`series`] reads them.
pub(super) const SERIES: &str = "s.id::bigint, s.measurement, s.field, s.tags::text, s.kind, s.step_us, \
                                 s.heartbeat_us, s.lateness_us, s.rmin, s.rmax, s.xff, s.rrd";

/// A series from the columns [`SERIES`].
pub(super) fn series(row: &Row) -> Result<Series, TransactionFailure> {
    let rrd: Option<String> = row.try_get(11)?;
    let spec = Spec {
        kind: serde_json::from_value(serde_json::Value::String(row.try_get(4)?))?,
        step: Step::try_from(row.try_get::<_, i64>(5)?).map_err(TransactionFailure::Value)?,
        heartbeat_us: row.try_get(6)?,
        lateness_us: row.try_get(7)?,
        min: row.try_get(8)?,
        max: row.try_get(9)?,
    };
    let identity = Identity {
        measurement: row.try_get(1)?,
        field: row.try_get(2)?,
        tags: serde_json::from_str(row.try_get(3)?)?,
    };
    let rrd = rrd.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok(Series { id: row.try_get(0)?, identity, spec, xff: row.try_get(10)?, rrd })
}

/// The selected series, ordered by identity.
pub(super) fn find(
    session: &mut OpenTransaction<'_>,
    selector: &Selector,
) -> Result<Vec<Series>, TransactionFailure> {
    let tags = serde_json::to_string(&selector.tags)?;
    let sql = format!(
        "SELECT {SERIES} FROM series s
         WHERE ($1::text IS NULL OR measurement = $1) AND ($2::text IS NULL OR field = $2)
           AND tags @> $3::text::jsonb"
    );
    let rows = session.query(&sql, &[&selector.measurement, &selector.field, &tags])?;
    let mut found = rows.iter().map(series).collect::<Result<Vec<Series>, TransactionFailure>>()?;
    found.sort_by(|a, b| a.identity.cmp(&b.identity));
    Ok(found)
}

/// A series in RRD mode with its rows.
pub(super) fn rrd(
    session: &mut OpenTransaction<'_>,
    series: i64,
) -> Result<Option<rrd::Rrd>, TransactionFailure> {
    let sql = "SELECT s.rrd, t.state FROM series s JOIN rrd_state t ON t.series = s.id
               WHERE s.id = $1::bigint AND s.rrd IS NOT NULL";
    let Some(row) = session.query(sql, &[&series])?.pop() else { return Ok(None) };
    let definition: rrd::Definition = serde_json::from_str(row.try_get(0)?)?;
    let state: rrd::State = serde_json::from_str(row.try_get(1)?)?;
    let sql =
        "SELECT archive, end_us, value FROM rrd_row WHERE series = $1 ORDER BY archive, end_us";
    let rows = session
        .query(sql, &[&series])?
        .iter()
        .map(|row| {
            let archive: i32 = row.try_get(0)?;
            let archive =
                usize::try_from(archive).map_err(|e| TransactionFailure::Value(e.to_string()))?;
            let value: Option<f64> = row.try_get(2)?;
            Ok(rrd::Row { archive, end_us: row.try_get(1)?, value: value.unwrap_or(f64::NAN) })
        })
        .collect::<Result<Vec<rrd::Row>, TransactionFailure>>()?;
    Ok(Some(rrd::Rrd::restore(definition, state, rows)))
}

/// The number of the writer's last batch; 0 without one.
pub(super) fn last_batch(
    session: &mut OpenTransaction<'_>,
    writer: Writer,
) -> Result<u64, TransactionFailure> {
    let sql = "SELECT seq FROM writer WHERE id = $1::text::uuid";
    match session.query(sql, &[&writer.to_string()])?.first() {
        Some(row) => Ok(row.try_get::<_, i64>(0)? as u64),
        None => Ok(0),
    }
}

/// The slots of some series, packed or not, ordered by key.
pub(super) fn slots(
    session: &mut OpenTransaction<'_>,
    step: Step,
    series: &[i64],
    from_us: i64,
    until_us: i64,
) -> Result<Vec<(SlotKey, Accumulator)>, TransactionFailure> {
    let flows = flows(session, series)?;
    let mut found = rows(session, step, series, from_us, until_us)?;
    let kept = super::schema::retentions(session)?.into_iter().find(|kept| kept.step() == step);
    if let Some(kept) = kept {
        for stretch in packed::of_series(session, &kept, series, from_us, until_us)? {
            let slots = stretch.iter().map(|(key, row)| (key, *row));
            found.extend(slots.filter(|(key, _)| (from_us..until_us).contains(&key.slot_us)));
        }
    }
    found.sort_by_key(|(key, _)| *key);
    // A slot is the sum of its row and its packed part.
    let mut slots: Vec<(SlotKey, Accumulator)> = Vec::with_capacity(found.len());
    for (key, row) in found {
        match slots.last_mut() {
            Some((known, sum)) if *known == key => sum.merge(&row),
            _ => slots.push((key, row)),
        }
    }
    for (key, row) in &mut slots {
        let flavor = if flows.contains(&key.series) { Flavor::Flow } else { Flavor::Level };
        row.integral = integral_of(flavor, row.integral.as_f64());
    }
    Ok(slots)
}

/// Which of some series are flows.
fn flows(
    session: &mut OpenTransaction<'_>,
    series: &[i64],
) -> Result<HashSet<i64>, TransactionFailure> {
    let rows = session.query(
        "SELECT id::bigint FROM series WHERE flow AND id = ANY ($1::bigint[])",
        &[&series],
    )?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// The rows of some series.
fn rows(
    session: &mut OpenTransaction<'_>,
    step: Step,
    series: &[i64],
    from_us: i64,
    until_us: i64,
) -> Result<Vec<(SlotKey, Accumulator)>, TransactionFailure> {
    let kept = super::schema::retentions(session)?.into_iter().find(|kept| kept.step() == step);
    let partitions = super::schema::partitions(session, step.us())?;
    let (Some(kept), Some(first), Some(last)) = (kept, partitions.first(), partitions.last())
    else {
        return Ok(Vec::new());
    };
    let from_us = from_us.max(*first);
    let until_us = until_us.min(last.saturating_add(kept.partition_us));
    if from_us >= until_us {
        return Ok(Vec::new());
    }
    let (from, until) = (Time::clamped(from_us), Time::clamped(until_us));
    let sql = format!(
        "SELECT {SLOT} FROM {} r WHERE r.series = ANY ($1::bigint[]) AND r.slot >= $2 AND r.slot < $3",
        names::slot(step.us())
    );
    let rows = session.query(&sql, &[&series, &from, &until])?;
    Ok(rows.iter().map(slot).collect::<Result<_, _>>()?)
}

/// The fine slots inside some coarse ones, of the same lane; only their bounds are meaningful.
pub(super) fn fine(
    session: &mut OpenTransaction<'_>,
    keys: &[SlotKey],
    coarse: Step,
    fine: &StoredRetention,
) -> Result<Vec<(usize, Accumulator)>, TransactionFailure> {
    let fine_us = fine.step().us();
    let (mut places, mut times, mut ids, mut lanes) = (vec![], vec![], vec![], vec![]);
    let mut stretches: BTreeMap<StretchKey, BTreeMap<i64, usize>> = BTreeMap::new();
    for (place, key) in keys.iter().enumerate() {
        for offset in 0..coarse.us() / fine_us {
            let slot_us = key.slot_us.saturating_add(offset * fine_us);
            places.push(place as i64);
            times.push(Time::clamped(slot_us));
            ids.push(key.series);
            lanes.push(key.lane);
            let stretch = StretchKey::of(fine, &SlotKey { slot_us, ..*key });
            stretches.entry(stretch).or_default().insert(slot_us, place);
        }
    }
    let sql = format!(
        "SELECT {SLOT}, t.place
         FROM unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::integer[])
              AS t (place, at, series, lane)
         JOIN {} r ON r.slot = t.at AND r.series = t.series AND r.lane = t.lane",
        names::slot(fine_us)
    );
    let params: [&(dyn ToSql + Sync); 4] = [&places, &times, &ids, &lanes];
    let rows = session.query(&sql, &params)?;
    let mut found = rows
        .iter()
        .map(|row| Ok((row.try_get::<_, i64>(11)? as usize, slot(row)?.1)))
        .collect::<Result<Vec<_>, TransactionFailure>>()?;
    for stretch in packed::find(session, fine, stretches.keys().copied(), false)? {
        let Some(places) = stretches.get(&stretch.key) else { continue };
        let slots = stretch.iter().map(|(key, row)| (places.get(&key.slot_us), *row));
        found.extend(slots.filter_map(|(place, row)| place.map(|place| (*place, row))));
    }
    Ok(found)
}
