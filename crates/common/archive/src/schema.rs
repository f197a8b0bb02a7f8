//! The schema of the runs, and how a file gets it.

use rusqlite::{Connection, TransactionBehavior};

/// The tables of the first run.
const TABLES: &str = include_str!("schema/2.sql");

/// Tables that were added later; files without them stay readable, also for older versions.
const ADDED: &str = include_str!("schema/2-actions.sql");

/// Columns that were added later, as (table, column, type); older versions ignore them. A ledger's
/// `discarded` counts messages that the server's kernel discarded; `changes` is a JSON array of what
/// a part changes compared with another one; `independent_starts` is 1 in records of versions that
/// drew everything about a start for each variant.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("variant", "discarded", "INTEGER"),
    ("life", "discarded", "INTEGER"),
    ("trial", "discarded", "INTEGER"),
    ("part", "changes", "TEXT"),
    ("part", "independent_starts", "INTEGER NOT NULL DEFAULT 1"),
];

/// The schema that this version writes. Schema 1 stored sentences instead of facts, so its runs
/// are refused, not migrated.
pub(crate) const KNOWN: i64 = 2;

/// The schema of the file's runs; 0 if it has none.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Creates the tables that a file lacks. Two processes may do this at once.
pub(crate) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&step)? == 0 {
        step.execute_batch(TABLES)?;
        step.pragma_update(None, "user_version", KNOWN)?;
    }
    step.execute_batch(ADDED)?;
    for (table, column, kind) in COLUMNS {
        add_column(&step, table, column, kind)?;
    }
    step.commit()
}

/// Adds a column that the table lacks.
fn add_column(db: &Connection, table: &str, column: &str, kind: &str) -> rusqlite::Result<()> {
    let known = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    let is_there: bool = db.query_row(known, [table, column], |row| row.get(0))?;
    if is_there {
        return Ok(());
    }
    db.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))
}
