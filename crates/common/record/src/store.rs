//! Opening the SQLite file, and what a run writes while it is in progress.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::RunId;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::RecordError;
use crate::owners::{Foreign, refuse_foreign, refuse_foreign_links};
use crate::schema::{self, KNOWN, Stamp};
use crate::{Block, Part, Run, RunLine, Trial, read, write};

/// How long to wait for a process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Default location of the record: `TACHOGRAPH_RECORD`, or `tachograph/record.sqlite` in the XDG
/// data folder (`~/.local/share`).
///
/// Source: XDG Base Directory Specification 0.8; a relative `XDG_DATA_HOME` counts as unset.
pub fn default_path() -> Result<PathBuf, RecordError> {
    path_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn path_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, RecordError> {
    if let Some(path) = variable("TACHOGRAPH_RECORD") {
        return Ok(path);
    }
    variable("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("tachograph/record.sqlite"))
        .ok_or(RecordError::NoPlace)
}

/// Size of a new file's pages. An entry of a table without rowids overflows into pages of its own
/// beyond about a quarter of this (<https://www.sqlite.org/fileformat2.html>, section 1.6): with
/// SQLite's usual 4,096 bytes, half of the file was empty space behind packed rows of 1,100 bytes.
const PAGE_BYTES: i64 = 8_192;

/// Permissions of a new record, and of folders created for it: only its owner's.
const OWN_FILE: u32 = 0o600;
const OWN_FOLDER: u32 = 0o700;

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
        if path.is_dir() {
            return Err(RecordError::Folder(path));
        }
        refuse_foreign_files(&path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(OWN_FOLDER).create(folder);
            made.map_err(|cause| RecordError::NoFolder { folder: folder.to_owned(), cause })?;
        }
        // SQLite would create it with the permissions that the umask leaves. It gives its other files
        // those of this one. Of an error it knows more to say.
        let _ = File::options().write(true).create_new(true).mode(OWN_FILE).open(&path);
        // Somebody may have been quicker; what is ours from now on, nobody else can replace.
        refuse_foreign_files(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).and_then(|db| {
            db.busy_timeout(BUSY_TIMEOUT)?;
            Ok(db)
        });
        let mut store = Store { db: db.map_err(|e| RecordError::from_sqlite(&path, e))?, path };
        store.check_stamp()?;
        store.prepare()?;
        refuse_foreign_files(&store.path)?;
        Ok(store)
    }

    /// Opens an existing record read-only; also works in a read-only folder.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, RecordError> {
        let path = path.as_ref().to_owned();
        if path.is_dir() {
            return Err(RecordError::Folder(path));
        }
        refuse_foreign_links(&path)?;
        if !path.exists() {
            return Err(RecordError::Empty(path));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).and_then(|db| {
            db.busy_timeout(BUSY_TIMEOUT)?;
            Ok(db)
        });
        let mut store = Store { db: db.map_err(|e| RecordError::from_sqlite(&path, e))?, path };
        if let Err(RecordError::CannotOpen { .. } | RecordError::ReadOnly(_)) = store.check_stamp()
        {
            // Without write access to the folder, SQLite cannot create the shared-memory file of a
            // write-ahead log. Nor can anybody write there, so none is needed.
            store.db = open_immutable(&store.path)
                .map_err(|e| RecordError::from_sqlite(&store.path, e))?;
        }
        let stamp = store.check_stamp()?;
        if stamp.is_blank() { Err(RecordError::Empty(store.path)) } else { Ok(store) }
    }

    fn check_stamp(&self) -> Result<Stamp, RecordError> {
        let stamp = Stamp::read(&self.db).map_err(|e| self.explain(e))?;
        if !stamp.is_blank() && !stamp.is_ours() {
            return Err(RecordError::NotARecord(self.path.clone()));
        }
        if stamp.schema > KNOWN {
            let path = self.path.clone();
            return Err(RecordError::Newer { path, found: stamp.schema, known: KNOWN });
        }
        if stamp.is_ours() && stamp.schema < KNOWN {
            let path = self.path.clone();
            return Err(RecordError::Older { path, found: stamp.schema, known: KNOWN });
        }
        Ok(stamp)
    }

    fn prepare(&mut self) -> Result<(), RecordError> {
        let prepared = self
            .db
            // Only a new file takes it.
            .pragma_update(None, "page_size", PAGE_BYTES)
            .and_then(|()| {
                let mode = "PRAGMA journal_mode = WAL";
                self.db.query_row(mode, [], |row| row.get::<_, String>(0))
            })
            .and_then(|_| self.db.pragma_update(None, "synchronous", "FULL"))
            .and_then(|()| self.db.pragma_update(None, "foreign_keys", true))
            .and_then(|()| schema::create(&mut self.db));
        prepared.map_err(|e| self.explain(e))
    }

    /// The connection, for other data in the same file.
    pub fn into_connection(self) -> Connection {
        self.db
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

    /// Writes the end of the run and its other properties; parts and blocks stay as they are.
    pub fn finish(&mut self, run: &Run) -> Result<(), RecordError> {
        self.write(|tx| write::update_run(tx, run))
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

/// Checks the file, and those that SQLite has beside it
/// (<https://www.sqlite.org/tempfiles.html>).
fn refuse_foreign_files(path: &Path) -> Result<(), Foreign> {
    refuse_foreign(path)?;
    // SQLite resolves links first.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    ["-wal", "-shm", "-journal"].iter().try_for_each(|ending| {
        let mut path = path.as_os_str().to_owned();
        path.push(ending);
        refuse_foreign(Path::new(&path))
    })
}

fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let escaped =
        path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Result<PathBuf, RecordError> {
        path_from(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn a_new_file_has_large_pages_and_an_old_one_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let size = |name: &str| -> i64 {
            let store = Store::open(folder.path().join(name)).unwrap();
            store.db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(size("new"), PAGE_BYTES);
        drop(Store::open(folder.path().join("large")).unwrap());
        let large = Connection::open(folder.path().join("large")).unwrap();
        let old = folder.path().join("old");
        let copy = format!("PRAGMA page_size = 4096; VACUUM INTO '{}'", old.display());
        large.execute_batch(&copy).unwrap();
        assert_eq!(size("old"), 4_096);
    }

    #[test]
    fn the_record_is_in_the_xdg_data_folder_by_default() {
        let home = ("HOME", "/home/ada");
        let default = PathBuf::from("/home/ada/.local/share/tachograph/record.sqlite");
        assert_eq!(place(&[home]).unwrap(), default);
        assert_eq!(place(&[home, ("XDG_DATA_HOME", "relative")]).unwrap(), default);
        assert_eq!(
            place(&[home, ("XDG_DATA_HOME", "/data")]).unwrap(),
            PathBuf::from("/data/tachograph/record.sqlite")
        );
        assert_eq!(
            place(&[home, ("TACHOGRAPH_RECORD", "here.sqlite")]).unwrap(),
            PathBuf::from("here.sqlite")
        );
        assert_eq!(
            place(&[]).unwrap_err().to_string(),
            "no location for the record: TACHOGRAPH_RECORD, XDG_DATA_HOME and HOME are not set; \
             set TACHOGRAPH_RECORD to a file"
        );
    }

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
            .execute_batch("INSERT INTO run VALUES ('x', 'run', 'done', '', '', '', 'yesterday', NULL, '[]', '', 0, '', '{}', '[]')")
            .unwrap();
        let error = store.load("x").unwrap_err().to_string();
        assert!(error.contains("column started: "), "{error}");
        assert!(error.ends_with("it was changed by hand or by another program"), "{error}");
    }
}
