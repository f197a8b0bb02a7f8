//! The schema and how an older file comes to have it.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours in SQLite's header ("tach"), so that another program's database is never touched.
pub(crate) const APPLICATION_ID: i64 = 0x7461_6368;

/// Each entry takes a file from schema `index` to `index + 1`.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// The schema that this version writes.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

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

/// Brings the file to the known schema, one migration per transaction. Two processes may do this at once.
pub(crate) fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    loop {
        let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let Some(sql) = usize::try_from(version).ok().and_then(|at| MIGRATIONS.get(at)) else {
            return Ok(());
        };
        step.execute_batch(sql)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", version + 1)?;
        step.commit()?;
    }
}
