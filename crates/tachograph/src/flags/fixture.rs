//! Flags of `serve-fixture`.

use std::path::PathBuf;

use base::{Bytes, Nanos};
use clap::Args;

/// Flags of `serve-fixture`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FixtureFlags {
    /// Address to listen on: tcp://host:port, unix:/path, unix:@name, unix-dgram:/path, unix-seqpacket:/path, socketpair:/path
    #[arg(long, value_name = "TARGET")]
    pub(crate) listen: String,
    /// Protocol
    #[arg(long, default_value = "http", value_name = "MODE")]
    pub(crate) mode: FixtureMode,
    /// Speak TLS, with a built-in certificate for localhost unless --cert is given
    #[arg(long)]
    pub(crate) tls: bool,
    /// Speak HTTP/2
    #[arg(long)]
    pub(crate) http2: bool,
    /// Certificate (PEM) instead of the built-in one
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub(crate) cert: Option<PathBuf>,
    /// Key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Response body
    #[arg(long, value_name = "TEXT", conflicts_with = "body_size")]
    pub(crate) body: Option<String>,
    /// Size of the response body
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) body_size: Option<Bytes>,
    /// Backlog of the listening socket
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub(crate) backlog: u16,
    /// Keep the count of served requests in this file (8 bytes, little-endian)
    #[arg(long, value_name = "FILE")]
    pub(crate) served_file: Option<PathBuf>,
    /// Append the number of responses on each connection to this file when the connection ends (4 bytes, little-endian)
    #[arg(long, value_name = "FILE")]
    pub(crate) answers_file: Option<PathBuf>,
    /// Drop one response in N
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) drop_every: Option<u64>,
    /// Corrupt one byte of one response in N
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) corrupt_every: Option<u64>,
    /// Truncate the body of one response in N
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) truncate_every: Option<u64>,
    /// Count one request in N twice
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) count_twice_every: Option<u64>,
    /// Delay of the second count
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Faults", requires = "count_twice_every")]
    pub(crate) count_late: Option<Nanos>,
    /// Don't count one request in N
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) count_never_every: Option<u64>,
    /// Respond with 503 after N requests
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) fail_after: Option<u64>,
    /// Stop responding after N requests
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) stall_after: Option<u64>,
    /// Delay one request in K by --delay
    #[arg(long, value_name = "K", help_heading = "Faults", requires = "delay")]
    pub(crate) delay_every: Option<u64>,
    /// Delay of a delayed request
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Faults")]
    pub(crate) delay: Option<Nanos>,
    /// Burn this much CPU time per request
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Faults")]
    pub(crate) burn: Option<Nanos>,
    /// Serve at most this many requests per second (token bucket)
    #[arg(long, value_name = "RATE", value_parser = base::parse_rate, help_heading = "Faults")]
    pub(crate) limit: Option<f64>,
    /// Serve requests one after another, each for this time, without using CPU time
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Queue")]
    pub(crate) service: Option<Nanos>,
    /// Serve this many requests at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "service", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Queue")]
    pub(crate) workers: u32,
    /// Draw service times from an exponential distribution with the mean --service
    #[arg(long, requires = "service", help_heading = "Queue")]
    pub(crate) exponential: bool,
    /// Delay every response by --slow-by after N requests
    #[arg(long, value_name = "N", help_heading = "Faults", requires = "slow_by")]
    pub(crate) slow_after: Option<u64>,
    /// Delay of responses after --slow-after
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Faults")]
    pub(crate) slow_by: Option<Nanos>,
}

/// Protocol of the fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FixtureMode {
    /// HTTP/1.1 with a fixed response
    Http,
    /// Send the response and close
    Oneshot,
    /// Send every message back
    Echo,
    /// Send an endless stream
    Bulk,
}
