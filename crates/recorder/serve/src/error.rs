//! Why the daemon could not run, and why it refuses an address or a file.

use std::io;
use std::path::PathBuf;

use engine::JournalError;
use store::StoreError;

use crate::Address;

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
    Activation {
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
    Foreign(#[from] recordfile::ForeignPath),
    /// Other users can create or remove files in the folder of the journal.
    #[error(
        "other users can change the folder {folder} of the journal: chmod go-w {folder}, or choose \
         another --journal",
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
    /// The task of a listening socket has ended.
    #[error(
        "a listener ended unexpectedly, so the daemon wrote what had arrived and stopped: start it \
         again, and please report this as a bug"
    )]
    ListenerEnded,
    /// The process that has taken over is dead.
    #[error(
        "process {id} took over, but {how} before it served; what was acknowledged is in the \
         journal: start the daemon again"
    )]
    Successor {
        /// Its id.
        id: u32,
        /// What became of it.
        how: String,
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

/// Why an address is refused, or a file of tokens.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// HTTP on an open address without authentication.
    #[error(
        "{0} can be reached from other machines: add --token-file or --tls-client-ca, so that only \
         clients with a token or a certificate can read and write, or listen on 127.0.0.1, [::1] \
         or a Unix socket"
    )]
    OpenHttp(Address),
    /// Lines on an open address from anyone.
    #[error(
        "{0} can be reached from other machines, and the protocol has no authentication: add \
         --allow with the addresses of the senders, for example --allow 192.0.2.0/24, or listen on \
         127.0.0.1, [::1] or a Unix socket"
    )]
    OpenLines(Address),
    /// A file that cannot be read.
    #[error("cannot read {} ({cause}): check the path and its permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file of tokens, or a key, that other users can read or change.
    #[error(
        "other users can read or change {}, which is secret: chmod 600 {}",
        .0.display(),
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// A file of certificates or a key that cannot be used.
    #[error(
        "cannot use {} for TLS ({why}): it must be a PEM file, and the key must be that of the \
         certificate",
        .path.display()
    )]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of tokens with an invalid line, or without any.
    #[error("{}: {why}", .path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Where, and what to do.
        why: String,
    },
}
