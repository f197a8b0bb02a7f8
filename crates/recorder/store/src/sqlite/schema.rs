//! The schema in SQLite: its steps, partitions, and the views over them.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Result, Transaction, TransactionBehavior, params};
use series::{SECOND_US, Step};

use super::error::broken;
use super::{packed_table, rows};
use crate::known_times::{self, RetentionTimes};
use crate::names;
use crate::packed::{
    SERIES_COLUMNS, no_rows, sqlite_last, sqlite_numbers, sqlite_slots, sqlite_spans,
};
use crate::plan::retained;
use crate::steps::{FIRST_SCHEMA, steps_from};
use crate::stored_retention::StoredRetention;
use crate::{KnownTimes, Retention};

/// The first makes the schema [`FIRST_SCHEMA`], and each of the others leads to the next one.
const STEPS: &[&str] = &[include_str!("schema.sql")];

/// The schema that this version writes.
pub(super) const KNOWN: i64 = FIRST_SCHEMA + STEPS.len() as i64 - 1;

/// SQLite supports views of up to 500 tables.
pub(super) const PARTITIONS_MAX: usize = 400;

/// The schema version of the file; 0 without series.
pub(super) fn version(db: &Connection) -> Result<i64> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE name = 'slots_schema'";
    if db.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    db.query_row("SELECT version FROM slots_schema", [], |row| row.get(0))
}

/// Brings the file to the current schema, all steps in one transaction. Two processes may do this at
/// once.
pub(super) fn migrate(db: &mut Connection) -> Result<()> {
    migrate_by(STEPS, db)
}

fn migrate_by(steps: &[&str], db: &mut Connection) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (version, step) in steps_from(version(&tx)?, steps) {
        tx.execute_batch(step)?;
        tx.execute("UPDATE slots_schema SET version = ?1", [version])?;
    }
    tx.commit()
}

/// The statement that indexes the packed rows of a partition by series.
fn index(step_us: i64, start_us: i64) -> String {
    let packed = names::packed_partition(step_us, start_us);
    format!("CREATE INDEX {packed}_series ON {packed} (series, span_us)")
}

/// The retentions, finest first.
pub(super) fn retentions(db: &Connection) -> Result<Vec<StoredRetention>> {
    let sql = "SELECT step_us, age_us, partition_us, horizon_us FROM retention ORDER BY step_us";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let step_us: i64 = row.get(0)?;
        let step = Step::try_from(step_us).map_err(|cause| broken(0, cause))?;
        let retention = Retention { step, age_us: row.get(1)? };
        Ok(StoredRetention { retention, partition_us: row.get(2)?, horizon_us: row.get(3)? })
    })?;
    rows.collect()
}

/// The retention of a step, if there is one.
pub(super) fn retention(db: &Connection, step: Step) -> Result<Option<StoredRetention>> {
    Ok(retentions(db)?.into_iter().find(|kept| kept.step() == step))
}

/// Adds retentions, and changes the ages of existing ones.
pub(super) fn retain(tx: &Transaction<'_>, wanted: &[Retention]) -> Result<()> {
    let known = retentions(tx)?;
    for kept in retained(&known, wanted) {
        let step_us = kept.step().us();
        tx.prepare_cached(
            "INSERT INTO retention VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (step_us) DO UPDATE SET age_us = excluded.age_us",
        )?
        .execute(params![
            step_us,
            kept.retention.age_us,
            kept.partition_us,
            kept.horizon_us
        ])?;
        if !known.iter().any(|known| known.step() == kept.step()) {
            make_views(tx, step_us)?;
        }
    }
    Ok(())
}

/// The starts of the partitions of a step.
pub(super) fn partitions(db: &Connection, step_us: i64) -> Result<BTreeSet<i64>> {
    let sql = "SELECT start_us FROM slot_partition WHERE step_us = ?1 ORDER BY start_us";
    db.prepare_cached(sql)?.query_map([step_us], |row| row.get(0))?.collect()
}

/// What the retentions know of the time.
pub(super) fn known_times(db: &Connection) -> Result<KnownTimes> {
    let mut all = Vec::new();
    for kept in retentions(db)? {
        let step_us = kept.step().us();
        all.push(RetentionTimes::new(kept, &partitions(db, step_us)?, |start_us| {
            db.query_row(&names::has_slots(step_us, start_us), [], |row| row.get(0))
        })?);
    }
    Ok(known_times::known_times(&all))
}

/// Creates missing partitions; returns their number.
pub(super) fn make_partitions(
    tx: &Transaction<'_>,
    step_us: i64,
    wanted: &BTreeSet<i64>,
) -> Result<u64> {
    let exist = partitions(tx, step_us)?;
    let missing: Vec<i64> = wanted.difference(&exist).copied().collect();
    for start_us in &missing {
        tx.execute_batch(&format!(
            "CREATE TABLE {} (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID",
            names::partition(step_us, *start_us)
        ))?;
        tx.execute_batch(&packed_table::create(step_us, *start_us))?;
        tx.execute_batch(&index(step_us, *start_us))?;
        tx.execute("INSERT INTO slot_partition VALUES (?1, ?2)", [step_us, *start_us])?;
    }
    if !missing.is_empty() {
        make_views(tx, step_us)?;
    }
    Ok(missing.len() as u64)
}

/// Moves the horizons to `now_us` and creates what is needed next; returns the number of partitions.
pub(super) fn advance(tx: &Transaction<'_>, now_us: i64) -> Result<u64> {
    let mut made = 0;
    for mut kept in retentions(tx)? {
        let step_us = kept.step().us();
        kept.horizon_us = kept.horizon_at(now_us);
        tx.execute(
            "UPDATE retention SET horizon_us = ?2 WHERE step_us = ?1",
            [step_us, kept.horizon_us],
        )?;
        made += make_partitions(tx, step_us, &kept.ahead(now_us))?;
    }
    Ok(made)
}

/// Drops the first partition that has expired; false if none has.
pub(super) fn expire(tx: &Transaction<'_>) -> Result<bool> {
    let sql = "SELECT step_us, start_us FROM slot_partition JOIN retention USING (step_us)
               WHERE start_us < horizon_us ORDER BY step_us, start_us LIMIT 1";
    let first = tx.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((step_us, start_us)) = first else { return Ok(false) };
    // The views go first, because SQLite checks them when one of their tables is dropped.
    drop_views(tx, step_us)?;
    tx.execute_batch(&format!(
        "DROP TABLE {}; DROP TABLE {}",
        names::partition(step_us, start_us),
        names::packed_partition(step_us, start_us)
    ))?;
    tx.execute(
        "DELETE FROM slot_partition WHERE step_us = ?1 AND start_us = ?2",
        [step_us, start_us],
    )?;
    make_views(tx, step_us)?;
    Ok(true)
}

fn drop_views(tx: &Transaction<'_>, step_us: i64) -> Result<()> {
    let every = names::every(step_us);
    let views = [
        format!("{every}_filled"),
        every,
        names::known(step_us),
        names::stored(step_us),
        names::numbers(step_us),
        names::spans(step_us),
        names::packed(step_us),
        names::slot(step_us),
    ];
    views.iter().try_for_each(|view| tx.execute_batch(&format!("DROP VIEW IF EXISTS {view}")))
}

/// Recreates the views of a step over the existing partitions.
fn make_views(tx: &Transaction<'_>, step_us: i64) -> Result<()> {
    drop_views(tx, step_us)?;
    let starts = partitions(tx, step_us)?;
    let all = |part: fn(i64, i64) -> String, nothing: String| -> String {
        let parts: Vec<String> = starts.iter().map(|us| part(step_us, *us)).collect();
        if parts.is_empty() { nothing } else { parts.join("\n UNION ALL ") }
    };
    let [slot, packed, spans, numbers, stored, known] =
        [names::slot, names::packed, names::spans, names::numbers, names::stored, names::known]
            .map(|name| name(step_us));
    tx.execute_batch(&format!(
        "CREATE VIEW {slot} AS {};
         CREATE VIEW {packed} AS {};
         CREATE VIEW {spans} AS {};
         CREATE VIEW {numbers} AS {};
         CREATE VIEW {stored} AS SELECT * FROM {slot} UNION ALL {};
         {}",
        all(
            |step_us, us| rows::by_times(&names::partition(step_us, us)),
            format!("SELECT {SLOT_NOTHING} WHERE 0")
        ),
        all(
            |step_us, us| format!("SELECT * FROM {}", names::packed_partition(step_us, us)),
            packed_table::nothing()
        ),
        sqlite_spans(&packed, step_us),
        sqlite_numbers(&spans, step_us),
        sqlite_slots(&numbers, "slot_us, series, lane"),
        include_str!("views.sql")
            .replace("$time", &time_sql(step_us))
            .replace("$every", &names::every(step_us))
            .replace("$unpacked", &sqlite_slots(&numbers, &format!("{SERIES_COLUMNS}, slot_us")))
            .replace("$known", &known)
            .replace("$slot", &slot)
            .replace("$packed", &packed)
            .replace("$last", &sqlite_last())
            .replace("$step_us", &step_us.to_string())
            .replace("$no_rows_13", &no_rows(13)),
    ))
}

/// The columns of an empty set of slots.
const SLOT_NOTHING: &str = "NULL AS slot_us, NULL AS series, NULL AS lane, NULL AS integral,
    NULL AS covered_us, NULL AS vmin, NULL AS vmax, NULL AS n, NULL AS last_us, NULL AS last_val,
    NULL AS approximate";

/// The SQL that formats the start of a slot for people.
fn time_sql(step_us: i64) -> String {
    if step_us % SECOND_US == 0 {
        "strftime('%Y-%m-%dT%H:%M:%SZ', slot_us / 1000000, 'unixepoch')".to_owned()
    } else {
        "strftime('%Y-%m-%dT%H:%M:%fZ', slot_us / 1e6, 'unixepoch')".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a later version could do.
    const LATER: &str = "ALTER TABLE series ADD COLUMN later TEXT";

    fn layout(db: &Connection) -> Vec<String> {
        let mut rows = db.prepare("SELECT sql FROM sqlite_schema ORDER BY name").unwrap();
        let rows = rows.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
        rows.filter_map(Result::unwrap).collect()
    }

    #[test]
    fn a_file_of_an_earlier_schema_gets_only_the_steps_that_it_lacks() {
        let both = &[STEPS[0], LATER];
        let mut new = Connection::open_in_memory().unwrap();
        migrate_by(both, &mut new).unwrap();
        let mut old = Connection::open_in_memory().unwrap();
        migrate_by(&both[..1], &mut old).unwrap();
        assert_eq!(version(&old).unwrap(), FIRST_SCHEMA);
        old.execute("INSERT INTO lane VALUES (1, 'kept')", []).unwrap();
        for _ in 0..2 {
            migrate_by(both, &mut old).unwrap();
            assert_eq!(version(&old).unwrap(), FIRST_SCHEMA + 1);
            assert_eq!(layout(&old), layout(&new));
        }
        let kept: String =
            old.query_row("SELECT name FROM lane WHERE id = 1", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, "kept");
    }
}
