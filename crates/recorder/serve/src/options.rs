//! Options of the daemon.

use std::path::PathBuf;
use std::time::Duration;

use engine::EngineOptions;

use crate::ingest::IngestOptions;
use crate::service::Service;
use crate::{Access, Address};

/// Options of the daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store, as [`store::open`] takes it.
    pub place: String,
    /// Where to listen for HTTP.
    pub http: Vec<Address>,
    /// Where to listen for Graphite plaintext.
    pub graphite: Vec<Address>,
    /// Where to listen for StatsD.
    pub statsd: Vec<Address>,
    /// Where to listen for Graphite's pickle protocol.
    pub pickle: Vec<Address>,
    /// The folder of the journal.
    pub journal: PathBuf,
    /// Databases or buckets that clients of Influx may write; empty for all.
    pub databases: Vec<String>,
    /// Permissions of Unix sockets.
    pub socket_mode: u32,
    /// Size of the journal in bytes beyond which senders must wait.
    pub journal_max: u64,
    /// Time between two batches.
    pub write_each: Duration,
    /// How long an HTTP request with an `Idempotency-Key` is remembered, so that a repetition does
    /// not count.
    pub remember: Duration,
    /// Maximum number of connections of each address.
    pub connections_max: usize,
    /// Maximum number of these from one sender, or from one user of this machine.
    pub connections_of_sender_max: usize,
    /// Who may talk to the daemon.
    pub access: Access,
    /// Whether SIGHUP starts a successor; otherwise it stops the daemon, as when a terminal closes.
    pub replace_on_hangup: bool,
    /// The program of a successor.
    pub program: PathBuf,
    /// Step of new series, limits and memory, as for an import.
    pub import: engine::Options,
}

impl Options {
    /// All addresses to listen on.
    pub(crate) fn wanted(&self) -> Vec<(Service, &Address)> {
        let services = [
            (Service::Http, &self.http),
            (Service::Graphite, &self.graphite),
            (Service::Statsd, &self.statsd),
            (Service::Pickle, &self.pickle),
        ];
        services
            .into_iter()
            .flat_map(|(service, addresses)| addresses.iter().map(move |at| (service, at)))
            .collect()
    }

    /// Options of the way in.
    pub(crate) fn ingest(&self) -> IngestOptions {
        IngestOptions {
            place: self.place.clone(),
            journal: self.journal.clone(),
            remember: self.remember,
            engine: EngineOptions {
                journal_max: self.journal_max,
                write_each: self.write_each,
                updates: self.import.clone(),
            },
        }
    }
}
