//! The schema in PostgreSQL: its steps, partitions and views.

use std::collections::BTreeSet;

use series::{SECOND_US, Step};

use super::link::{OpenTransaction, TransactionFailure};
use super::packed;
use super::types::Time;
use crate::known_times::{self, RetentionTimes};
use crate::packed::postgres_slots;
use crate::plan::retained;
use crate::steps::{FIRST_SCHEMA, steps_from};
use crate::stored_retention::{SPAN_SLOTS, StoredRetention};
use crate::{KnownTimes, Retention, StoreError, names};

/// The first makes the schema [`FIRST_SCHEMA`], and each of the others leads to the next one.
const STEPS: &[&str] = &[include_str!("schema.sql")];

/// The schema that this version writes.
pub(super) const KNOWN: i64 = FIRST_SCHEMA + STEPS.len() as i64 - 1;

/// More partitions make planning slow.
pub(super) const PARTITIONS_MAX: usize = 1_000;

/// Writers of slots share this lock; whoever creates or drops tables holds it exclusively.
///
/// The number spells "tach" and is our own; the second is that of the schema, so that two stores in
/// one database do not block each other.
pub(super) const WRITING: &str =
    "SELECT pg_advisory_xact_lock_shared(1952539496, current_schema()::regnamespace::oid::int)";
const ALONE: &str =
    "SELECT pg_advisory_xact_lock(1952539496, current_schema()::regnamespace::oid::int)";

/// The lock of the database for whoever creates tables that every store has.
const MIGRATING: &str = "SELECT pg_advisory_xact_lock(1952539496, 0)";

/// The lock of the process that does the upkeep; false if another process has it. The number spells
/// "upke".
pub(super) const UPKEEP: &str =
    "SELECT pg_try_advisory_xact_lock(1970301797, current_schema()::regnamespace::oid::int)";

/// A row of this step or a longer one is changed by several batches, each within seconds, and so are
/// its neighbours. With room for as many new versions beside the old ones, the indexes need not change.
const CHANGED_OFTEN_US: i64 = 60 * SECOND_US;

/// The schema version of the database; 0 without series.
pub(super) fn version(session: &mut OpenTransaction<'_>) -> Result<i64, TransactionFailure> {
    let exists = "SELECT to_regclass('slots_schema') IS NOT NULL";
    if !session.transaction.query_one(exists, &[])?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = session.transaction.query_one("SELECT version FROM slots_schema", &[])?;
    Ok(row.try_get(0)?)
}

/// Brings the database to the current schema, unless its own cannot be; returns its version then. Two
/// processes may do this at once, if neither has asked for the [version] before: PostgreSQL would
/// remember that there was no table, and a lock does not make it look again.
pub(super) fn migrate(session: &mut OpenTransaction<'_>) -> Result<i64, TransactionFailure> {
    migrate_by(STEPS, session)
}

fn migrate_by(
    steps: &[&str],
    session: &mut OpenTransaction<'_>,
) -> Result<i64, TransactionFailure> {
    // There may be no schema yet whose lock could be taken.
    session.transaction.query_one(MIGRATING, &[])?;
    let mut found = version(session)?;
    for (version, step) in steps_from(found, steps) {
        session.transaction.batch_execute(step)?;
        session.transaction.execute("UPDATE slots_schema SET version = $1", &[&version])?;
        found = version;
    }
    Ok(found)
}

/// The retentions, finest first.
pub(super) fn retentions(
    session: &mut OpenTransaction<'_>,
) -> Result<Vec<StoredRetention>, TransactionFailure> {
    let sql = "SELECT step_us, age_us, partition_us, horizon_us FROM retention ORDER BY step_us";
    let rows = session.query(sql, &[])?;
    rows.iter()
        .map(|row| {
            let step =
                Step::try_from(row.try_get::<_, i64>(0)?).map_err(TransactionFailure::Value)?;
            let retention = Retention { step, age_us: row.try_get(1)? };
            Ok(StoredRetention {
                retention,
                partition_us: row.try_get(2)?,
                horizon_us: row.try_get(3)?,
            })
        })
        .collect()
}

/// Adds retentions, and changes the ages of existing ones.
pub(super) fn retain(
    session: &mut OpenTransaction<'_>,
    wanted: &[Retention],
) -> Result<(), TransactionFailure> {
    session.transaction.query_one(ALONE, &[])?;
    let known = retentions(session)?;
    for kept in retained(&known, wanted) {
        let step_us = kept.step().us();
        session.execute(
            "INSERT INTO retention VALUES ($1, $2, $3, $4)
             ON CONFLICT (step_us) DO UPDATE SET age_us = excluded.age_us",
            &[&step_us, &kept.retention.age_us, &kept.partition_us, &kept.horizon_us],
        )?;
        if !known.iter().any(|known| known.step() == kept.step()) {
            session.transaction.batch_execute(&tables_and_views(step_us))?;
        }
    }
    Ok(())
}

/// The columns of the views for people after the slot, from a series `s` and its slots.
const SHOWN: &str = "s.id AS series, s.measurement, s.field, s.tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * $step_us
            THEN integral / ((CASE WHEN flow THEN least(covered_us, $step_us) ELSE covered_us END) / 1e6::double precision)
       END AS rate,
       CASE WHEN NOT void THEN integral END AS total,
       CASE WHEN NOT void THEN vmin END AS min,
       CASE WHEN NOT void THEN vmax END AS max,
       n";

/// The columns of a slot, from all rows and packed rows of its lanes.
const ADDED: &str = "slot, sum(integral) AS integral, sum(covered_us)::bigint AS covered_us,
             min(vmin) AS vmin, max(vmax) AS vmax, sum(n)::bigint AS n,
             bool_or(approximate) AS approximate,
             sum(covered_us) = 0 AND sum(n) = 0 AND sum(integral) = 0 AS void";

/// The statements that create what a step needs, if missing.
fn tables_and_views(step_us: i64) -> String {
    include_str!("slots.sql")
        .replace("$packed_table", &packed::table(step_us))
        .replace("$unpacked", &postgres_slots(&names::packed(step_us), step_us))
        .replace("$shown", SHOWN)
        .replace("$added", ADDED)
        .replace("$span", &interval(step_us.saturating_mul(SPAN_SLOTS)))
        .replace("$packed", &names::packed(step_us))
        .replace("$every", &names::every(step_us))
        .replace("$stored", &names::stored(step_us))
        .replace("$slot", &names::slot(step_us))
        .replace("$step_us", &format!("{step_us}::bigint"))
        .replace("$step", &interval(step_us))
}

/// A step as an SQL interval.
fn interval(step_us: i64) -> String {
    format!("interval '{}.{:06} seconds'", step_us / 1_000_000, step_us % 1_000_000)
}

/// The starts of the partitions of a step.
pub(super) fn partitions(
    session: &mut OpenTransaction<'_>,
    step_us: i64,
) -> Result<BTreeSet<i64>, TransactionFailure> {
    let sql = "SELECT start_us FROM slot_partition WHERE step_us = $1";
    let rows = session.query(sql, &[&step_us])?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// What the retentions know of the time.
pub(super) fn known_times(
    session: &mut OpenTransaction<'_>,
) -> Result<KnownTimes, TransactionFailure> {
    let mut all = Vec::new();
    for kept in retentions(session)? {
        let step_us = kept.step().us();
        let partitions = partitions(session, step_us)?;
        all.push(RetentionTimes::new(kept, &partitions, |start_us| {
            session.query_one_bool(&names::has_slots(step_us, start_us))
        })?);
    }
    Ok(known_times::known_times(&all))
}

/// Creates missing partitions, in a separate transaction.
pub(super) fn make_partitions(
    session: &mut OpenTransaction<'_>,
    wanted: &[(StoredRetention, BTreeSet<i64>)],
) -> Result<u64, TransactionFailure> {
    wait_briefly(session)?;
    let mut made = 0;
    for (kept, starts) in wanted {
        let exist = partitions(session, kept.step().us())?;
        let missing: BTreeSet<i64> = starts.difference(&exist).copied().collect();
        let count = exist.len() + missing.len();
        if count > PARTITIONS_MAX && !missing.is_empty() {
            let step_us = kept.step().us();
            return Err(
                StoreError::TooManyPartitions { step_us, count, most: PARTITIONS_MAX }.into()
            );
        }
        for start_us in missing {
            make_partition(session, kept, start_us)?;
            made += 1;
        }
    }
    Ok(made)
}

/// Creates the tables of a partition.
fn make_partition(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    start_us: i64,
) -> Result<(), TransactionFailure> {
    let step_us = kept.step().us();
    let (slots, packed) = (names::slot(step_us), names::packed(step_us));
    let (rows, packed_rows) =
        (names::partition(step_us, start_us), names::packed_partition(step_us, start_us));
    attach(session, kept, start_us, &slots, &rows)?;
    attach(session, kept, start_us, &packed, &packed_rows)?;
    // Packed rows of up to half a page stay whole: beyond 2 KB, PostgreSQL would move columns elsewhere.
    session
        .transaction
        .batch_execute(&format!("ALTER TABLE {packed_rows} SET (toast_tuple_target = 4080)"))?;
    if step_us >= CHANGED_OFTEN_US {
        let room = format!("ALTER TABLE {rows} SET (fillfactor = 50)");
        session.transaction.batch_execute(&room)?;
    }
    session.execute("INSERT INTO slot_partition VALUES ($1, $2)", &[&step_us, &start_us])?;
    Ok(())
}

/// Creates a table and attaches it, which does not block readers.
fn attach(
    session: &mut OpenTransaction<'_>,
    kept: &StoredRetention,
    start_us: i64,
    parent: &str,
    table: &str,
) -> Result<(), TransactionFailure> {
    let end_us = start_us.saturating_add(kept.partition_us);
    let bounds = "SELECT $1::timestamptz::text, $2::timestamptz::text";
    let row = session
        .query(bounds, &[&Time::clamped(start_us), &Time::clamped(end_us)])?
        .pop()
        .ok_or_else(|| TransactionFailure::Value("no bounds".to_owned()))?;
    let (from, until): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    session.transaction.batch_execute(&format!(
        "CREATE TABLE {table} (LIKE {parent} INCLUDING ALL);
         ALTER TABLE {parent} ATTACH PARTITION {table} FOR VALUES FROM ('{from}') TO ('{until}');"
    ))?;
    Ok(())
}

/// Waits until nobody writes, but not for readers that hold a table for long: other transactions
/// that wait behind us would wait for them too.
fn wait_briefly(session: &mut OpenTransaction<'_>) -> Result<(), TransactionFailure> {
    session.transaction.query_one(ALONE, &[])?;
    session.transaction.batch_execute("SET LOCAL lock_timeout = '5s'")?;
    Ok(())
}

/// Moves the horizons to `now_us` and creates what is needed next; returns the number of partitions.
pub(super) fn advance(
    session: &mut OpenTransaction<'_>,
    now_us: i64,
) -> Result<u64, TransactionFailure> {
    wait_briefly(session)?;
    let mut ahead = Vec::new();
    for mut kept in retentions(session)? {
        kept.horizon_us = kept.horizon_at(now_us);
        session.execute(
            "UPDATE retention SET horizon_us = $2 WHERE step_us = $1",
            &[&kept.step().us(), &kept.horizon_us],
        )?;
        ahead.push((kept, kept.ahead(now_us)));
    }
    make_partitions(session, &ahead)
}

/// Drops the first partition that has expired; false if none has.
pub(super) fn expire(session: &mut OpenTransaction<'_>) -> Result<bool, TransactionFailure> {
    let sql = "SELECT step_us, start_us FROM slot_partition JOIN retention USING (step_us)
               WHERE start_us < horizon_us ORDER BY step_us, start_us LIMIT 1";
    let Some(first) = session.query(sql, &[])?.pop() else { return Ok(false) };
    wait_briefly(session)?;
    let (step_us, start_us): (i64, i64) = (first.try_get(0)?, first.try_get(1)?);
    let slots = names::partition(step_us, start_us);
    let packed = names::packed_partition(step_us, start_us);
    session.transaction.batch_execute(&format!("DROP TABLE {slots}, {packed}"))?;
    session.execute(
        "DELETE FROM slot_partition WHERE step_us = $1 AND start_us = $2",
        &[&step_us, &start_us],
    )?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use throwaway::Throwaway;

    use super::super::link::PostgresConnection;
    use super::*;

    #[test]
    fn a_database_of_an_earlier_schema_gets_only_the_steps_that_it_lacks() {
        let server = Throwaway::start(&["fsync=off"]).unwrap();
        let mut link = PostgresConnection::new(&server.database("steps").unwrap()).unwrap();
        let both = &[STEPS[0], "ALTER TABLE series ADD COLUMN later text"];
        for (steps, known) in [(&both[..1], FIRST_SCHEMA), (both, FIRST_SCHEMA + 1)] {
            for _ in 0..2 {
                let found = link.transaction(|session| migrate_by(steps, session)).unwrap();
                assert_eq!((found, link.transaction(version).unwrap()), (known, known));
            }
        }
        let empty = "SELECT NOT EXISTS (SELECT later FROM series)";
        assert!(link.transaction(|session| Ok(session.query_one_bool(empty)?)).unwrap());
    }
}
