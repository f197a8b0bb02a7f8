//! Errors of the record; each says what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::ForeignPath;

/// The record could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No folder was found for the record.
    #[error(
        "no location for the record: neither XDG_DATA_HOME nor HOME is set; set TACHOGRAPH_RECORD to a \
         file"
    )]
    NoPlace,
    /// The path is a folder.
    #[error("the record {} is a folder: set TACHOGRAPH_RECORD to a file, such as {}", .0.display(), .0.join("record.sqlite").display())]
    Folder(PathBuf),
    /// The parent folder could not be created.
    #[error("the folder {} for the record cannot be created ({cause}): set TACHOGRAPH_RECORD to a \
        file elsewhere", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// A part of the path belongs to another user.
    #[error(transparent)]
    Foreign(#[from] ForeignPath),
    /// The file or its folder is read-only.
    #[error("the record {} cannot be written: make the file and its folder writable, or set TACHOGRAPH_RECORD to a file elsewhere", .0.display())]
    ReadOnly(PathBuf),
    /// The file cannot be opened.
    #[error("the record {} cannot be opened ({cause}): check the permissions of the file and its folder, or set TACHOGRAPH_RECORD to a file elsewhere", .path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        cause: String,
    },
    /// The disk or a quota is full.
    #[error("no space left for the record {}: free some space, or set TACHOGRAPH_RECORD to a file \
        on another disk", .0.display())]
    Full(PathBuf),
    /// The file is not a record.
    #[error("{} is not a tachograph record: move it away, or set TACHOGRAPH_RECORD to another \
        file", .0.display())]
    NotARecord(PathBuf),
    /// The file is damaged.
    #[error("the record {0} is damaged ({cause}): save what can be read with `sqlite3 {0} .recover`, move the file away, and run again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        cause: String,
    },
    /// Another process holds the file.
    #[error("the record {} is locked by another process: wait for it to end, or set TACHOGRAPH_RECORD to another file", .0.display())]
    Locked(PathBuf),
    /// A later version wrote the runs, or the series.
    #[error("the {what} in {} were written by a newer tachograph (schema {found}; this version \
        reads {known}): update tachograph, or set TACHOGRAPH_RECORD to another file", .path.display())]
    Newer {
        /// `runs` or `series`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Their schema.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// An earlier version wrote the runs, with a schema that is no longer read.
    #[error("the runs in {} were written by an older tachograph (schema {found}; this version \
        reads {known}): set TACHOGRAPH_RECORD to another file for runs; series can still be \
        written and read here", .path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// The schema of the runs.
        found: i64,
        /// The schema that this version reads.
        known: i64,
    },
    /// No run is recorded.
    #[error("no runs recorded in {} yet: start one with `tachograph compare` or `tachograph \
        run`", .0.display())]
    Empty(PathBuf),
    /// No run has this name.
    #[error("no run named '{name}' in {}: `tachograph list` shows all runs", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
    },
    /// Several runs match.
    #[error("'{name}' matches {count} runs ({}): use more of the name", .examples.join(", "))]
    Ambiguous {
        /// The name that was asked for.
        name: String,
        /// How many runs match.
        count: usize,
        /// The newest matching runs, at most three.
        examples: Vec<String>,
    },
    /// A value in the file is not one that tachograph writes.
    #[error("invalid value in the record {} ({cause}): it was changed by hand or by another \
        program", .path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Any other SQLite error.
    #[error("the record {} failed ({cause}): if it happens again, set TACHOGRAPH_RECORD to another file", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        cause: rusqlite::Error,
    },
}

impl RecordError {
    /// Translates an SQLite error about the record at `path`.
    pub fn from_sqlite(path: &Path, error: rusqlite::Error) -> RecordError {
        let path = path.to_owned();
        if let rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) = error
        {
            return RecordError::Value { path, cause: error.to_string() };
        }
        let code = error.sqlite_error().map_or(0, |e| e.extended_code);
        let cause = rusqlite::ffi::code_to_str(code).to_ascii_lowercase();
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => RecordError::ReadOnly(path),
            Some(ErrorCode::CannotOpen) => RecordError::CannotOpen { path, cause },
            Some(ErrorCode::DiskFull) => RecordError::Full(path),
            Some(ErrorCode::NotADatabase) => RecordError::NotARecord(path),
            Some(ErrorCode::DatabaseCorrupt) => RecordError::Damaged { path, cause },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RecordError::Locked(path),
            _ => RecordError::Other { path, cause: error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn text(code: i32) -> String {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        RecordError::from_sqlite(Path::new("/data/record.sqlite"), error).to_string()
    }

    #[test]
    fn every_failure_of_sqlite_says_what_to_do() {
        for (code, wanted) in [
            (
                ffi::SQLITE_READONLY,
                "the record /data/record.sqlite cannot be written: make the file and its folder writable, or set TACHOGRAPH_RECORD to a file elsewhere",
            ),
            (
                ffi::SQLITE_FULL,
                "no space left for the record /data/record.sqlite: free some space, or set \
                 TACHOGRAPH_RECORD to a file on another disk",
            ),
            (
                ffi::SQLITE_NOTADB,
                "/data/record.sqlite is not a tachograph record: move it away, or set \
                 TACHOGRAPH_RECORD to another file",
            ),
            (
                ffi::SQLITE_BUSY,
                "the record /data/record.sqlite is locked by another process: wait for it to end, or set TACHOGRAPH_RECORD to another file",
            ),
            (
                ffi::SQLITE_CORRUPT,
                "the record /data/record.sqlite is damaged (database disk image is malformed): save what can be read with `sqlite3 /data/record.sqlite .recover`, move the file away, and run again",
            ),
            (
                ffi::SQLITE_CANTOPEN,
                "the record /data/record.sqlite cannot be opened (unable to open database file): check the permissions of the file and its folder, or set TACHOGRAPH_RECORD to a file elsewhere",
            ),
        ] {
            assert_eq!(text(code), wanted);
        }
    }
}
