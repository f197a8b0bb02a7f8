//! Why the daemon could not run.

use std::io;
use std::path::PathBuf;

use engine::JournalError;
use store::StoreError;

use crate::{AccessError, Address};

/// An error that ends the daemon, or prevents its start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address} ({cause}): stop the other program, or choose another address"
    )]
    Listen {
        /// The address.
        address: Address,
        /// The system's error.
        cause: io::Error,
    },
    /// A socket of systemd cannot be used.
    #[error("cannot use the socket '{name}' that systemd has opened: {why}")]
    Given {
        /// Its name.
        name: String,
        /// Why, and what to do.
        why: String,
    },
    /// An address is open to others without protection.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal, or a socket, would be at a path that another user controls.
    #[error(transparent)]
    Foreign(#[from] recordfile::Foreign),
    /// Every user can create files in the folder of the journal.
    #[error(
        "everyone can create files in the folder {folder} of the journal: chmod o-w {folder}, or \
         choose another --journal",
        folder = .0.display()
    )]
    OpenFolder(PathBuf),
    /// The store cannot be opened or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal cannot be opened or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal belongs to another record.
    #[error(
        "the journal {journal} continues data that {record} does not have: choose the record that \
         it belongs to, or another --journal; if that record was deleted on purpose, delete the \
         folder {journal} as well",
        journal = .journal.display()
    )]
    OtherRecord {
        /// The journal's folder.
        journal: PathBuf,
        /// The store.
        record: String,
    },
    /// The journal has a record that this version does not know.
    #[error("the journal {} has records of a newer tachograph: update tachograph", .0.display())]
    Record(PathBuf),
    /// The daemon ended before the store had everything.
    #[error(
        "the record could not be written ({error}); what was acknowledged is in the journal {} and \
         will be written after the next start",
        .journal.display()
    )]
    Unwritten {
        /// The journal's folder.
        journal: PathBuf,
        /// The error of the store.
        error: String,
    },
    /// A thread has panicked.
    #[error(
        "a thread of the daemon panicked: please report this as a bug; what was acknowledged \
        is in the journal"
    )]
    Panicked,
    /// The system refuses threads, random numbers or signal handlers.
    #[error(
        "the system refuses threads, random numbers or signal handlers ({0}): check the limits of this user"
    )]
    System(io::Error),
}
