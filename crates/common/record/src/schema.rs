//! The schema and how an older file comes to have it.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours in SQLite's header ("tach"), so that another program's database is never touched.
pub(crate) const APPLICATION_ID: i64 = 0x7461_6368;

/// The tables of a new record.
const TABLES: &str = include_str!("schema/2.sql");

/// The schema that this version writes. Schema 1 kept sentences where facts are kept now, so a
/// record of that schema is refused rather than migrated.
pub(crate) const KNOWN: i64 = 2;

/// What a file says of itself.
pub(crate) struct Stamp {
    /// Whose it is; 0 if nobody said.
    pub(crate) application: i64,
    /// Its schema; 0 if it has none.
    pub(crate) schema: i64,
    /// How many tables and views it has.
    pub(crate) objects: i64,
}

impl Stamp {
    /// Reads the stamp; the first real access to the file, so a file that is no database fails here.
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

/// Makes the tables in a file that has none. Two processes may do this at once.
pub(crate) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        step.execute_batch(TABLES)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", KNOWN)?;
    }
    step.commit()
}
