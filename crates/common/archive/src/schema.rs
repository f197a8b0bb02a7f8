//! The schema of the runs, and how a file gets it.

use rusqlite::{Connection, Result, TransactionBehavior};

/// The oldest schema that is read. Schema 1 had sentences instead of facts and schema 2 a column for
/// each fact; no released version wrote them, so their runs are refused, not migrated.
pub(crate) const OLDEST: i64 = 3;

/// The first makes the oldest schema, and each of the others leads to the next one.
const STEPS: &[&str] = &[include_str!("schema/3.sql")];

/// The schema that this version writes.
pub(crate) const KNOWN: i64 = OLDEST + STEPS.len() as i64 - 1;

/// The schema of the file's runs; 0 if it has none.
pub(crate) fn version(db: &Connection) -> Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the file's runs to the schema that this version writes. Two processes may do this at once.
pub(crate) fn migrate(db: &mut Connection) -> Result<()> {
    migrate_by(STEPS, db)
}

fn migrate_by(steps: &[&str], db: &mut Connection) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = match version(&tx)? {
        0 => 0,
        found => found - OLDEST + 1,
    };
    for (version, step) in (OLDEST..).zip(steps).skip(done as usize) {
        tx.execute_batch(step)?;
        tx.pragma_update(None, "user_version", version)?;
    }
    tx.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a later version could do.
    const LATER: &str = "ALTER TABLE run ADD COLUMN later TEXT";

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
        assert_eq!(version(&old).unwrap(), OLDEST);
        old.execute_batch(r#"INSERT INTO run (id, json) VALUES ('x', '{"name": "kept"}')"#)
            .unwrap();
        for _ in 0..2 {
            migrate_by(both, &mut old).unwrap();
            assert_eq!(version(&old).unwrap(), OLDEST + 1);
            assert_eq!(layout(&old), layout(&new));
        }
        let kept: String = old.query_row("SELECT name FROM run", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, "kept");
    }
}
