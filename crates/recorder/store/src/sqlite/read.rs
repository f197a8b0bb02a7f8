//! Reads the tables into the model.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde::de::value::StrDeserializer;
use series::{Accumulator, Flavor, Kind, Lane, SlotKey, Spec, Step, rrd};

use super::error::broken;
use super::{packed, rows, schema};
use crate::plan::integral_of;
use crate::stored_retention::StoredRetention;
use crate::{Identity, Selector, Series, Writer};

/// The columns of a series, in the order in which [`series`] reads them.
pub(super) const SERIES: &str = "id, measurement, field, tags, kind, step_us, heartbeat_us, \
                                 lateness_us, rmin, rmax, xff, rrd";

/// A series from the columns [`SERIES`].
pub(super) fn series(row: &Row<'_>) -> Result<Series> {
    let kind = StrDeserializer::<serde::de::value::Error>::new(row.get_ref(4)?.as_str()?);
    let rrd: Option<String> = row.get(11)?;
    let spec = Spec {
        kind: Kind::deserialize(kind).map_err(|e| broken(4, e.to_string()))?,
        step: Step::try_from(row.get::<_, i64>(5)?).map_err(|e| broken(5, e))?,
        heartbeat_us: row.get(6)?,
        lateness_us: row.get(7)?,
        min: row.get(8)?,
        max: row.get(9)?,
    };
    let identity = Identity { measurement: row.get(1)?, field: row.get(2)?, tags: json(row, 3)? };
    let rrd = rrd.map(|text| serde_json::from_str(&text)).transpose();
    let rrd = rrd.map_err(|e| broken(11, e.to_string()))?;
    Ok(Series { id: row.get(0)?, identity, spec, xff: row.get(10)?, rrd })
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| broken(column, e.to_string()))
}

/// The selected series, ordered by identity.
pub(super) fn find(db: &Connection, selector: &Selector) -> Result<Vec<Series>> {
    let mut sql = format!("SELECT {SERIES} FROM series WHERE true");
    let mut values: Vec<&str> = Vec::new();
    for (column, value) in [("measurement", &selector.measurement), ("field", &selector.field)] {
        if let Some(value) = value {
            values.push(value);
            sql.push_str(&format!(" AND {column} = ?{}", values.len()));
        }
    }
    for (key, value) in &selector.tags {
        values.extend([key.as_str(), value.as_str()]);
        let (key, value) = (values.len() - 1, values.len());
        sql.push_str(&format!(
            " AND EXISTS (SELECT 1 FROM json_each(tags) t WHERE t.key = ?{key} AND t.value = ?{value})"
        ));
    }
    let mut statement = db.prepare(&sql)?;
    let found = statement.query_map(rusqlite::params_from_iter(values), series)?;
    let mut found = found.collect::<Result<Vec<Series>>>()?;
    found.sort_by(|a, b| a.identity.cmp(&b.identity));
    Ok(found)
}

/// The number of series. SQLite numbers them 1, 2, 3 …, and none is removed, so it is the last
/// number; to count them, all would be read.
pub(super) fn series_count(db: &Connection) -> Result<i64> {
    db.query_row("SELECT coalesce(max(id), 0) FROM series", [], |row| row.get(0))
}

/// The states of lanes; a new one for each that was never saved.
pub(super) fn lane_states(db: &Connection, lanes: &[(i64, i32)]) -> Result<Vec<Lane>> {
    let mut statement =
        db.prepare_cached("SELECT state FROM lane_state WHERE series = ?1 AND lane = ?2")?;
    let mut state = |(series, lane): &(i64, i32)| {
        let state = statement.query_row(params![series, lane], |row| {
            let bytes = row.get_ref(0)?.as_blob()?;
            Lane::from_bytes(bytes).ok_or_else(|| broken(0, "the points of a lane".to_owned()))
        });
        Ok(state.optional()?.unwrap_or_default())
    };
    lanes.iter().map(&mut state).collect()
}

/// A series in RRD mode with its rows.
pub(super) fn rrd(db: &Connection, series: i64) -> Result<Option<rrd::Rrd>> {
    let sql =
        "SELECT s.rrd, t.state FROM series s JOIN rrd_state t ON t.series = s.id WHERE s.id = ?1";
    let kept = db
        .query_row(sql, [series], |row| {
            Ok((json::<rrd::Definition>(row, 0)?, json::<rrd::State>(row, 1)?))
        })
        .optional()?;
    let Some((definition, state)) = kept else { return Ok(None) };
    let sql =
        "SELECT archive, end_us, value FROM rrd_row WHERE series = ?1 ORDER BY archive, end_us";
    let rows = db
        .prepare_cached(sql)?
        .query_map([series], |row| {
            let value: Option<f64> = row.get(2)?;
            Ok(rrd::Row {
                archive: row.get::<_, u32>(0)? as usize,
                end_us: row.get(1)?,
                value: value.unwrap_or(f64::NAN),
            })
        })?
        .collect::<Result<Vec<rrd::Row>>>()?;
    Ok(Some(rrd::Rrd::restore(definition, state, rows)))
}

/// The number of the writer's last batch; 0 without one.
pub(super) fn last_batch(db: &Connection, writer: Writer) -> Result<u64> {
    let sql = "SELECT seq FROM writer WHERE id = ?1";
    let found = db.prepare_cached(sql)?.query_row([writer.to_string()], |row| row.get(0));
    Ok(found.optional()?.map_or(0, |seq: i64| seq as u64))
}

/// The slots of some series, ordered by key.
pub(super) fn slots(
    db: &Connection,
    step: Step,
    series: &[i64],
    from_us: i64,
    until_us: i64,
) -> Result<Vec<(SlotKey, Accumulator)>> {
    let Some(kept) = schema::retentions(db)?.into_iter().find(|kept| kept.step() == step) else {
        return Ok(Vec::new());
    };
    let parts = parts(db, &kept, from_us, until_us)?;
    let mut found = Vec::new();
    for (from_us, until_us) in &parts {
        found.extend(rows::of_series(db, &kept, series, *from_us, *until_us)?);
        for id in series {
            add_packed(db, &kept, *id, *from_us, *until_us, &mut found)?;
        }
    }
    let mut flavors = HashMap::new();
    for id in series {
        if let Some(flavor) = flavor(db, *id)? {
            flavors.insert(*id, flavor);
        }
    }
    for (key, row) in &mut found {
        if let Some(flavor) = flavors.get(&key.series) {
            row.integral = integral_of(*flavor, row.integral.as_f64());
        }
    }
    found.sort_by_key(|(key, _)| *key);
    Ok(found)
}

/// The parts of a range that lie in the partitions of a retention.
fn parts(
    db: &Connection,
    kept: &StoredRetention,
    from_us: i64,
    until_us: i64,
) -> Result<Vec<(i64, i64)>> {
    let starts = schema::partitions(db, kept.step().us())?.into_iter();
    let parts = starts.map(|start_us| {
        (from_us.max(start_us), until_us.min(start_us.saturating_add(kept.partition_us)))
    });
    Ok(parts.filter(|(from_us, until_us)| from_us < until_us).collect())
}

/// Adds the packed slots of a series that start in a range within one partition.
fn add_packed(
    db: &Connection,
    kept: &StoredRetention,
    series: i64,
    from_us: i64,
    until_us: i64,
    found: &mut Vec<(SlotKey, Accumulator)>,
) -> Result<()> {
    for stretch in packed::of_series(db, kept, series, from_us, until_us)? {
        let slots = stretch.iter().map(|(key, row)| (key, *row));
        found.extend(slots.filter(|(key, _)| (from_us..until_us).contains(&key.slot_us)));
    }
    Ok(())
}

fn flavor(db: &Connection, series: i64) -> Result<Option<Flavor>> {
    let mut statement = db.prepare_cached("SELECT flow FROM series WHERE id = ?1")?;
    let flow: Option<bool> = statement.query_row([series], |row| row.get(0)).optional()?;
    Ok(flow.map(|flow| if flow { Flavor::Flow } else { Flavor::Level }))
}

/// The slots of a fine retention inside those of a coarser one, which are asked for in their order.
pub(super) struct FineSlots<'db> {
    db: &'db Connection,
    kept: StoredRetention,
    /// The start of the last coarse slot, and its parts in the partitions of the fine ones, each with
    /// whether anything is packed in it.
    last: Option<(i64, Vec<FinePart>)>,
}

/// From when until when, and whether slots of any series are packed there.
type FinePart = (i64, i64, bool);

impl<'db> FineSlots<'db> {
    pub(super) fn new(db: &'db Connection, kept: StoredRetention) -> FineSlots<'db> {
        FineSlots { db, kept, last: None }
    }

    /// The fine slots inside a coarse one, of the same lane; only their bounds are meaningful.
    pub(super) fn inside(&mut self, slot: SlotKey, coarse: Step) -> Result<Vec<Accumulator>> {
        let SlotKey { slot_us, series, lane } = slot;
        let FineSlots { db, kept, last } = self;
        let parts = match last {
            Some((known_us, parts)) if *known_us == slot_us => parts,
            _ => {
                let mut all = Vec::new();
                for (from_us, until_us) in
                    parts(db, kept, slot_us, slot_us.saturating_add(coarse.us()))?
                {
                    let is_packed = packed::has_any(db, kept, from_us, until_us)?;
                    all.push((from_us, until_us, is_packed));
                }
                &mut last.insert((slot_us, all)).1
            }
        };
        let mut found = Vec::new();
        for (from_us, until_us, is_packed) in parts.iter() {
            found.extend(rows::of_series(db, kept, &[series], *from_us, *until_us)?);
            if *is_packed {
                add_packed(db, kept, series, *from_us, *until_us, &mut found)?;
            }
        }
        Ok(found.into_iter().filter(|(key, _)| key.lane == lane).map(|(_, row)| row).collect())
    }
}
