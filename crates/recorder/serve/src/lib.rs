//! The recorder as a daemon.
//!
//! ```text
//!  Graphite, pickle, StatsD over sockets ─→ ingest: journal ─→ head ─→ store
//!  Influx, remote write, OTLP over HTTP ───↗
//!  HTTP ─→ axum: /health, /metrics, and the routers mounted by the caller ─→ Readers ─→ store
//! ```
//!
//! # Glossary
//!
//! - **Message**: lines of one sender that are written to the journal together, or a binary message
//!   of remote write or OTLP, whose **elements** are samples, histograms or data points.
//! - **Way**: a protocol and the kind of its sockets, as `graphite_stream`.
//! - **Acknowledged**: on disk in the journal, so that it is in the store sooner or later, once,
//!   whatever dies.
//!
//! # Where further routers are mounted
//!
//! [`run`] calls `mount` once, with the [`Readers`] of the store, and serves the returned router
//! beside its own paths. Handlers read through [`Readers::read`], which runs the blocking calls of a
//! [`store::Store`] on threads of their own.
//!
//! # Not in this crate
//!
//! Flags, and the words of the command line; arithmetic, parsers, databases.

mod access;
mod activation;
mod address;
mod body;
mod daemon;
mod datagrams;
mod error;
mod handover;
mod handover_item;
mod http;
mod in_progress;
mod influx;
mod ingest;
mod listener;
mod listeners;
mod local_user;
mod metrics;
mod options;
mod otlp;
mod patience;
mod phase;
mod places;
mod plaintext;
mod readers;
mod remote_write;
mod requests;
mod secrets;
mod service;
mod shares;
mod sockets;
mod tls;
mod unavailable;

use std::path::{Path, PathBuf};

pub use access::{Access, Tokens};
pub use address::{Address, AddressError};
pub use daemon::{Event, run};
pub use error::{AccessError, ServeError};
pub use ipnet::IpNet;
pub use options::Options;
pub use readers::{ReadError, Readers};
pub use tls::Tls;

/// The usual folder of the journal of a SQLite file: beside it.
pub fn journal_of(record: &Path) -> PathBuf {
    let mut name = record.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}
