//! Opens the file, if it is a record or can become one.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::RecordError;
use crate::folder::create_folder;
use crate::owners::{ForeignPath, refuse_foreign, refuse_foreign_links};

/// Marks the file as ours in SQLite's header ("tach"), so that no other program's database is
/// modified.
const APPLICATION_ID: i64 = 0x7461_6368;

/// How long to wait for a process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause where SQLite does not wait itself.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Size of a new file's pages. An entry of a table without rowids overflows into pages of its own
/// beyond about a quarter of this (<https://www.sqlite.org/fileformat2.html>, section 1.6). Packed
/// rows of three hours of a gauge's minutes have up to 4,000 bytes: with pages of 8,192 bytes, more
/// than half of a file was empty space behind them.
const PAGE_BYTES: i64 = 16_384;

/// Permissions of a new record: only its owner's.
const OWN_FILE: u32 = 0o600;

/// Identification of a file.
struct Stamp {
    /// Application id; 0 if none is set.
    application: i64,
    /// Schema version of the runs; 0 if none is set.
    schema: i64,
    /// Number of tables and views.
    objects: i64,
}

impl Stamp {
    /// Reads the identification. This is the first real access, so a file that is no database fails
    /// here.
    fn read(db: &Connection) -> rusqlite::Result<Stamp> {
        Ok(Stamp {
            application: db.query_row("PRAGMA application_id", [], |row| row.get(0))?,
            schema: db.query_row("PRAGMA user_version", [], |row| row.get(0))?,
            objects: db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        })
    }

    /// Whether this is an empty file that may become a record.
    fn is_blank(&self) -> bool {
        self.application == 0 && self.schema == 0 && self.objects == 0
    }
}

/// Opens the file for writing, with a write-ahead log and `synchronous=FULL`; creates it and its
/// parent folders if necessary.
///
/// # Errors
/// [`RecordError`]; another program's file is left alone.
pub fn open(path: &Path) -> Result<Connection, RecordError> {
    if path.is_dir() {
        return Err(RecordError::Folder(path.to_owned()));
    }
    refuse_foreign_files(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_folder(folder)
            .map_err(|cause| RecordError::NoFolder { folder: folder.to_owned(), cause })?;
    }
    // SQLite would create it with the permissions that the umask leaves. It gives its other files
    // those of this one. Of an error it knows more to say.
    let _ = File::options().write(true).create_new(true).mode(OWN_FILE).open(path);
    // Another user may have been quicker. What belongs to us now, others cannot replace.
    refuse_foreign_files(path)?;
    let explain = |error| RecordError::from_sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(explain)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
    check(&db, path)?;
    prepare(&mut db).map_err(explain)?;
    refuse_foreign_files(path)?;
    Ok(db)
}

/// Opens an existing file read-only; also works in a read-only folder.
///
/// # Errors
/// [`RecordError`]; [`RecordError::Empty`] for a missing or empty file.
pub fn open_read_only(path: &Path) -> Result<Connection, RecordError> {
    if path.is_dir() {
        return Err(RecordError::Folder(path.to_owned()));
    }
    refuse_foreign_links(path)?;
    if !path.exists() {
        return Err(RecordError::Empty(path.to_owned()));
    }
    let explain = |error| RecordError::from_sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(explain)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
    if let Err(RecordError::CannotOpen { .. } | RecordError::ReadOnly(_)) = check(&db, path) {
        // Without write access to the folder, SQLite cannot create the shared-memory file of a
        // write-ahead log. Nor can anybody write there, so none is needed.
        db = open_immutable(path).map_err(explain)?;
    }
    let stamp = check(&db, path)?;
    if stamp.is_blank() { Err(RecordError::Empty(path.to_owned())) } else { Ok(db) }
}

/// Refuses the file of another program.
fn check(db: &Connection, path: &Path) -> Result<Stamp, RecordError> {
    let stamp = Stamp::read(db).map_err(|e| RecordError::from_sqlite(path, e))?;
    if !stamp.is_blank() && stamp.application != APPLICATION_ID {
        return Err(RecordError::NotARecord(path.to_owned()));
    }
    Ok(stamp)
}

fn prepare(db: &mut Connection) -> rusqlite::Result<()> {
    // Only a new file takes it.
    db.pragma_update(None, "page_size", PAGE_BYTES)?;
    log_ahead(db)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // Two processes may do this at once.
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if Stamp::read(&step)?.is_blank() {
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    step.commit()
}

/// Turns the write-ahead log on. That of a new file needs an exclusive lock, for which SQLite does not
/// wait if another process wants it too.
fn log_ahead(db: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mode = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        let is_busy =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
        if !mode.as_ref().is_err_and(is_busy) || Instant::now() > deadline {
            return mode.map(drop);
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}

/// Checks the file, and those that SQLite has beside it
/// (<https://www.sqlite.org/tempfiles.html>).
fn refuse_foreign_files(path: &Path) -> Result<(), ForeignPath> {
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

    #[test]
    fn a_new_file_has_large_pages_and_an_old_one_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let size = |name: &str| -> i64 {
            let db = open(&folder.path().join(name)).unwrap();
            db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(size("new"), PAGE_BYTES);
        drop(open(&folder.path().join("large")).unwrap());
        let large = Connection::open(folder.path().join("large")).unwrap();
        let old = folder.path().join("old");
        let copy = format!("PRAGMA page_size = 4096; VACUUM INTO '{}'", old.display());
        large.execute_batch(&copy).unwrap();
        assert_eq!(size("old"), 4_096);
    }

    #[test]
    fn two_daemons_that_began_a_record_at_once_found_it_locked() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}"));
            let together = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let opens = || {
                    together.wait();
                    open(&path).map(drop)
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(opens)).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
            });
        }
    }
}
