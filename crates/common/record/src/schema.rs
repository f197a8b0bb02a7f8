//! The schema, and how a new file gets it.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours in SQLite's header ("tach"), so that no other program's database is
/// modified.
pub(crate) const APPLICATION_ID: i64 = 0x7461_6368;

/// The tables of a new record.
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

/// The schema that this version writes. Schema 1 stored sentences instead of facts, so its records
/// are refused, not migrated.
pub(crate) const KNOWN: i64 = 2;

/// Identification of a file.
pub(crate) struct Stamp {
    /// Application id; 0 if none is set.
    pub(crate) application: i64,
    /// Schema version; 0 if none is set.
    pub(crate) schema: i64,
    /// Number of tables and views.
    pub(crate) objects: i64,
}

impl Stamp {
    /// Reads the identification. This is the first real access, so a file that is no database fails
    /// here.
    pub(crate) fn read(db: &Connection) -> rusqlite::Result<Stamp> {
        Ok(Stamp {
            application: db.query_row("PRAGMA application_id", [], |row| row.get(0))?,
            schema: db.query_row("PRAGMA user_version", [], |row| row.get(0))?,
            objects: db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        })
    }

    /// Whether this is an empty file that may become a record.
    pub(crate) fn is_blank(&self) -> bool {
        self.application == 0 && self.schema == 0 && self.objects == 0
    }

    /// Whether this is one of our files.
    pub(crate) fn is_ours(&self) -> bool {
        self.application == APPLICATION_ID
    }
}

/// Creates the tables that a file lacks. Two processes may do this at once.
pub(crate) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        step.execute_batch(TABLES)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
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
