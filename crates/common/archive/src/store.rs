//! What a run writes while it is in progress, and how it is read.

use std::path::{Path, PathBuf};

use base::RunId;
use record::{Block, Part, Run, RunLine, Trial};
use recordfile::RecordError;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::schema::{self, KNOWN, OLDEST};
use crate::{read, write};

/// The record: a SQLite file of runs.
///
/// Every call is one transaction that is on disk when it returns
/// (write-ahead log, `synchronous=FULL`). Several processes may record at the same time.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the record at `path` for writing; creates it and its parent folders if necessary.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, RecordError> {
        let path = path.as_ref().to_owned();
        let mut store = Store { db: recordfile::open(&path)?, path };
        store.check_schema()?;
        schema::migrate(&mut store.db).map_err(|e| store.explain(e))?;
        Ok(store)
    }

    /// Opens an existing record read-only; also works in a read-only folder.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, RecordError> {
        let path = path.as_ref().to_owned();
        let store = Store { db: recordfile::open_read_only(&path)?, path };
        match store.check_schema()? {
            0 => Err(RecordError::Empty(store.path)),
            _ => Ok(store),
        }
    }

    /// The schema of the runs; 0 if the file has none. Series have a schema of their own.
    fn check_schema(&self) -> Result<i64, RecordError> {
        let found = schema::version(&self.db).map_err(|e| self.explain(e))?;
        let path = || self.path.clone();
        match found {
            0 | OLDEST..=KNOWN => Ok(found),
            1..OLDEST => Err(RecordError::Older { path: path(), found, known: KNOWN }),
            _ => Err(RecordError::Newer { what: "runs", path: path(), found, known: KNOWN }),
        }
    }

    /// Where the record is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a new run, with the parts and blocks that it has so far.
    pub fn begin(&mut self, run: &Run) -> Result<(), RecordError> {
        self.write(|tx| {
            write::insert_run(tx, run)?;
            for (index, part) in run.parts.iter().enumerate() {
                write::put_part(tx, &run.id, index, part)?;
                for block in &part.blocks {
                    write::put_block(tx, &run.id, index, block)?;
                }
            }
            Ok(())
        })
    }

    /// Writes all of a part except its blocks: variants, summaries, comparisons, findings,
    /// published figures and reasons. Replaces earlier ones.
    pub fn save_part(&mut self, run: &RunId, index: usize, part: &Part) -> Result<(), RecordError> {
        self.write(|tx| write::put_part(tx, run, index, part))
    }

    /// Writes one trial when it ends; the part must already be written.
    ///
    /// Until [`Store::save_block`] writes the block it counts as rejected, so a killed run shows
    /// the trial but never analyses half a block. Replaces a trial of the same variant, offer and
    /// block.
    pub fn save_trial(
        &mut self,
        run: &RunId,
        part: usize,
        block: u32,
        trial: &Trial,
    ) -> Result<(), RecordError> {
        self.write(|tx| write::add_trial(tx, run, part, block, trial))
    }

    /// Writes a whole block; replaces what [`Store::save_trial`] wrote of it.
    pub fn save_block(
        &mut self,
        run: &RunId,
        part: usize,
        block: &Block,
    ) -> Result<(), RecordError> {
        self.write(|tx| write::put_block(tx, run, part, block))
    }

    /// Writes the end of the run and its other properties; parts and blocks stay as they are, and
    /// are not written again.
    pub fn finish(&mut self, run: &Run) -> Result<(), RecordError> {
        self.write(|tx| write::finish_run(tx, run))
    }

    /// Reads a run in full, by its name, a prefix of its id, or `last`.
    pub fn load(&self, name: &str) -> Result<Run, RecordError> {
        let id = self.resolve(name)?;
        read::run(&self.db, &id).map_err(|e| self.explain(e))
    }

    /// The newest runs, newest first, at most `limit`.
    pub fn list(&self, limit: usize) -> Result<Vec<RunLine>, RecordError> {
        read::list(&self.db, limit).map_err(|e| self.explain(e))
    }

    /// Deletes a run with all its data and returns its id; accepts the same names as
    /// [`Store::load`].
    pub fn delete(&mut self, name: &str) -> Result<RunId, RecordError> {
        let id = self.resolve(name)?;
        self.write(|tx| tx.execute("DELETE FROM run WHERE id = ?1", [id.as_str()]).map(drop))?;
        Ok(id)
    }

    fn resolve(&self, name: &str) -> Result<RunId, RecordError> {
        let mut found = read::names(&self.db, name).map_err(|e| self.explain(e))?;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 if name == "last" => Err(RecordError::Empty(self.path.clone())),
            0 => Err(RecordError::Unknown { path: self.path.clone(), name: name.to_owned() }),
            count => {
                let examples = found.iter().take(3).map(RunId::to_string).collect();
                Err(RecordError::Ambiguous { name: name.to_owned(), count, examples })
            }
        }
    }

    fn write(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), RecordError> {
        let done =
            self.db.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|tx| {
                work(&tx)?;
                tx.commit()
            });
        done.map_err(|e| self.explain(e))
    }

    fn explain(&self, error: rusqlite::Error) -> RecordError {
        RecordError::from_sqlite(&self.path, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_so_and_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path().join("record.sqlite")).unwrap();
        store.db.pragma_update(None, "max_page_count", 1).unwrap();
        let filling = store.write(|tx| {
            tx.execute_batch(
                "CREATE TABLE big (x BLOB); INSERT INTO big VALUES (zeroblob(1000000))",
            )
        });
        assert_eq!(
            filling.unwrap_err().to_string(),
            format!(
                "no space left for the record {}: free some space, or set TACHOGRAPH_RECORD to a \
                 file on another disk",
                store.path.display()
            )
        );
        assert_eq!(store.list(9).unwrap(), []);
    }

    #[test]
    fn a_value_that_was_changed_by_hand_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("record.sqlite")).unwrap();
        store
            .db
            .execute_batch(r#"INSERT INTO run (id, json) VALUES ('x', '{"id": "x", "kind": 1}')"#)
            .unwrap();
        let error = store.load("x").unwrap_err().to_string();
        assert!(error.contains("run.json: "), "{error}");
        assert!(error.ends_with("it was changed by hand or by another program"), "{error}");
    }
}
