//! Errors of an export; each says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why an export ended. What was written before is complete; the next export does the rest.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The store has no series.
    #[error("no series recorded in {0} yet: import some, or start a run")]
    NoSeries(String),
    /// The store does not keep slots of a step.
    #[error("{place} keeps no slots of {step}: use --step with one of {known}")]
    NoStep {
        /// Where the store is.
        place: String,
        /// The step.
        step: String,
        /// The steps that it keeps.
        known: String,
    },
    /// The folder is a file.
    #[error("{0} is not a folder: name a folder for the export, which need not exist")]
    NotAFolder(PathBuf),
    /// A file or folder cannot be read or written.
    #[error("cannot {what} {path} ({source}): {remedy}", path = .path.display(), remedy = remedy(.source))]
    File {
        /// What was tried: `write`, `read`.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An exported file is damaged, or another program wrote it.
    #[error("{path} is not a file of tachograph export, or it is damaged ({cause}): move it elsewhere", path = .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file has slots of series that the store does not have.
    #[error(
        "{path} has slots of the series {series}, which the record does not have: the record was replaced by an older copy; export to another folder", path = .path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// A series that the store lacks.
        series: String,
    },
    /// A plain export to a table of Delta Lake.
    #[error("{folder} is a table of Delta Lake, whose files are not to be read without its log: use --delta, or name another folder", folder = .0.display())]
    IsDelta(PathBuf),
    /// An export to a table of Delta Lake in a folder with a plain export.
    #[error("{folder} has files of export --parquet, which other readers would take for files of the table: name another folder", folder = .0.display())]
    IsPlain(PathBuf),
    /// A table that another program has changed so that it cannot be continued.
    #[error("cannot continue the table of Delta Lake in {folder} at version {version} ({cause}): export to another folder", folder = .folder.display())]
    NotContinued {
        /// The folder of the table.
        folder: PathBuf,
        /// The version that would have been read or written next.
        version: u64,
        /// What was changed.
        cause: String,
    },
    /// Another export of the same record writes to the same folder.
    #[error("another export of this record to {0} is running: wait until it has ended")]
    Running(PathBuf),
}

impl ExportError {
    /// A failed operation on a file or folder.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExportError {
        let path = path.to_owned();
        move |source| ExportError::File { what, path, source }
    }
}

/// What to do about an error of the system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, and run the export again"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "allow this user to write there, or name another folder"
        }
        _ => "mend that, and run the export again",
    }
}
