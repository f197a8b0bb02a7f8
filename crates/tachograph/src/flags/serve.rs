//! Flags of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use base::{Bytes, Nanos};
use clap::Args;
use serve::{Address, AddressError, IpNet};

use super::series::parse_length;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph serve
  tachograph serve --graphite tcp://127.0.0.1:2003 --graphite unix-dgram:/run/tachograph/graphite
  echo \"shop.orders 3 $(date +%s)\" | nc -N 127.0.0.1 2003

  tachograph serve --http 0.0.0.0:8086 --token-file tokens --graphite 0.0.0.0:2003 \\
    --allow 192.0.2.0/24

Addresses are tcp://host:port, udp://host:port, unix:/path and unix-dgram:/path. An address that
other machines can reach needs --token-file or --tls-client-ca for HTTP, and --allow for other
protocols.";

/// Flags of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeFlags {
    /// Address for HTTP, TCP or Unix socket; repeatable
    #[arg(long, default_value = "127.0.0.1:8086", value_name = "ADDRESS", value_parser = parse_stream)]
    pub(crate) http: Vec<Address>,
    /// Address for Graphite plaintext; repeatable [default: tcp://127.0.0.1:2003 and
    /// udp://127.0.0.1:2003]
    #[arg(long, value_name = "ADDRESS", value_parser = parse)]
    pub(crate) graphite: Vec<Address>,
    /// Don't listen for Graphite plaintext
    #[arg(long, conflicts_with = "graphite")]
    pub(crate) no_graphite: bool,
    /// Address for Graphite's pickle protocol, TCP or Unix socket; repeatable [default:
    /// tcp://127.0.0.1:2004]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_pickle)]
    pub(crate) pickle: Vec<Address>,
    /// Don't listen for Graphite's pickle protocol
    #[arg(long, conflicts_with = "pickle")]
    pub(crate) no_pickle: bool,
    /// Address for StatsD; repeatable [default: tcp://127.0.0.1:8125 and udp://127.0.0.1:8125]
    #[arg(long, value_name = "ADDRESS", value_parser = parse)]
    pub(crate) statsd: Vec<Address>,
    /// Don't listen for StatsD
    #[arg(long, conflicts_with = "statsd")]
    pub(crate) no_statsd: bool,
    /// Database or bucket that Influx clients may write to; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Vec<String>,
    /// Permissions of Unix sockets, in octal; 660 lets the socket's group connect
    #[arg(long, default_value = "600", value_name = "MODE", value_parser = parse_mode)]
    pub(crate) socket_mode: u32,
    /// File with a name and a token in each line; every HTTP request over TCP must have one of them
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate for HTTP over TCP, with its chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificates of the authorities, one of which must have signed the certificate of each client
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Network or address of senders that may use addresses which other machines can reach;
    /// repeatable
    #[arg(long, value_name = "NETWORK", value_parser = parse_network)]
    pub(crate) allow: Vec<IpNet>,
    /// Name by which HTTP clients may call this machine, besides localhost; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Folder of the journal [default: beside the SQLite file, as FILE.journal]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
    /// Size of the journal at which senders must wait
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) journal_max: Bytes,
    /// Memory for updates that are not yet in the record, at which senders must wait
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) head_memory: Bytes,
    /// How often received data is written to the record
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = parse_length)]
    pub(crate) write_each: Nanos,
    /// How long the Idempotency-Key of an HTTP request is remembered
    #[arg(long, default_value = "1d", value_name = "TIME", value_parser = parse_length)]
    pub(crate) remember: Nanos,
    /// Maximum number of connections per address
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) max_connections: usize,
    /// Maximum number of these from one sender [default: half of them]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_sender: Option<usize>,
    /// Maximum number of series
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) max_series: u32,
    /// Step of new series
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_length)]
    pub(crate) step: Nanos,
    /// Longest gap that a point covers [default: two steps]
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(crate) heartbeat: Option<Nanos>,
    /// Maximum delay of a late point
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = parse_length)]
    pub(crate) lateness: Nanos,
    /// Writer name, for several writers of one series
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) lane: String,
}

fn parse(text: &str) -> Result<Address, AddressError> {
    Address::parse(text)
}

fn parse_pickle(text: &str) -> Result<Address, AddressError> {
    Address::parse_pickle(text)
}

fn parse_stream(text: &str) -> Result<Address, AddressError> {
    Address::parse_stream(text)
}

/// Permissions in octal.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("'{text}' is not a mode: write 600, 660 or 666"))
}

/// A network such as `192.0.2.0/24`, or a single address.
fn parse_network(text: &str) -> Result<IpNet, String> {
    let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(single).ok_or_else(|| {
        format!("'{text}' is not a network or an address: write 192.0.2.0/24, or 2001:db8::1")
    })
}
