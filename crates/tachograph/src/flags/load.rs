//! Flags of `load`, most of which `compare` shares.

use std::path::PathBuf;

use base::{Bytes, Nanos};
use clap::Args;
use spec::{Arrivals, EngineChoice, Exchange, Expect, HttpRequest, Load};

use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "\
Targets:
  http://host:port/path          HTTP/1.1 over TCP; [::1] for IPv6
  http://unix:/path.sock:/path   HTTP/1.1 over a Unix socket; unix:@name: is abstract
  tcp://host:port, unix:/path    raw bytes, with --exchange
Examples:
  tachograph load http://127.0.0.1:8000/
  tachograph load -c 64 -d 10s --unix-socket /run/app.sock http://localhost/users
  tachograph load -r 2000 http://127.0.0.1:8000/      # open loop, honest latencies
  tachograph load -n 1000000 --json out.json http://127.0.0.1:8000/
  tachograph load --exchange echo --size 64 unix:/run/echo.sock";

/// What is sent and how the connections are used.
#[derive(Clone, Debug, Args)]
pub(crate) struct RequestFlags {
    /// Connections in use at once
    #[arg(short, long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: u32,
    /// Client threads, each with its own event loop and CPU
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Make a new connection for every request
    #[arg(long)]
    pub(crate) new_connection: bool,
    /// What moves the client's bytes
    #[arg(long, default_value = "auto", value_name = "ENGINE")]
    pub(crate) engine: EngineFlag,
    /// Spin instead of sleeping while no answer comes: needs a CPU of its own for every thread
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Reset TCP connections instead of closing them (SO_LINGER 0), so that no port waits in TIME_WAIT
    #[arg(long)]
    pub(crate) linger_zero: bool,
    /// HTTP method
    #[arg(short, long, default_value = "GET", value_name = "METHOD")]
    pub(crate) method: String,
    /// HTTP header, `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Request body; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// A request without its whole answer after this long has failed
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) timeout: Nanos,
    /// The only status that is right [default: that of the first answers]
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(100..=999))]
    pub(crate) expect_status: Option<u16>,
    /// The only body that is right; @FILE reads it from a file [default: that of the first answers]
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect_body: Option<String>,
    /// The only length of the body that is right
    #[arg(long, value_name = "BYTES", value_parser = parse_length)]
    pub(crate) expect_length: Option<u64>,
    /// What a raw target is asked for
    #[arg(long, value_name = "KIND")]
    pub(crate) exchange: Option<ExchangeKind>,
    /// Size of a message (echo) or of the unit that is counted (bulk)
    #[arg(long, default_value = "64", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) size: Bytes,
}

/// What moves the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineFlag {
    /// The better one for the load where it can be had; `compare` and `run`: epoll.
    Auto,
    /// Readiness: works everywhere.
    Epoll,
    /// Completions: Linux 6.1, and not where a container forbids it.
    IoUring,
}

impl From<EngineFlag> for EngineChoice {
    fn from(flag: EngineFlag) -> EngineChoice {
        match flag {
            EngineFlag::Auto => EngineChoice::Auto,
            EngineFlag::Epoll => EngineChoice::Epoll,
            EngineFlag::IoUring => EngineChoice::IoUring,
        }
    }
}

/// Kinds of exchange that a raw target can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExchangeKind {
    /// HTTP/1.1.
    Http,
    /// Connect, read to the end, compare.
    Oneshot,
    /// Send a message and read it back, on a kept connection.
    Echo,
    /// Read an endless stream; what counts is bytes per second.
    Bulk,
}

/// Flags of `load`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadFlags {
    /// Where the load goes
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Connect through this Unix socket instead of the target's host, as curl does
    #[arg(long, value_name = "PATH")]
    pub(crate) unix_socket: Option<String>,
    /// How long to measure
    #[arg(short, long, default_value = "5s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) duration: Nanos,
    /// Send exactly this many requests instead
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Requests per second in all, whatever the server does: an open loop
    #[arg(short, long, value_name = "RATE", value_parser = base::parse_rate)]
    pub(crate) rate: Option<f64>,
    /// How an open loop spaces its requests
    #[arg(long, default_value = "poisson", value_name = "KIND", requires = "rate")]
    pub(crate) arrivals: ArrivalsKind,
    /// Load for this long before measuring
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) warmup: Nanos,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
    /// Where the server's own count is read (see `tachograph compare --help`)
    #[arg(long, value_name = "WHERE")]
    pub(crate) served_by: Option<String>,
    /// Print JSON, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = false)]
    pub(crate) json: Option<PathBuf>,
    /// Write latencies as an HdrHistogram interval log
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Pin the client's threads to these CPUs, e.g. 1 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<base::CpuSet>,
    /// Seed of the random arrivals, to repeat them
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<base::Seed>,
}

/// Spacing of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ArrivalsKind {
    /// Exponential gaps: independent users.
    Poisson,
    /// Equal gaps.
    Uniform,
}

impl From<ArrivalsKind> for Arrivals {
    fn from(kind: ArrivalsKind) -> Arrivals {
        match kind {
            ArrivalsKind::Poisson => Arrivals::Poisson,
            ArrivalsKind::Uniform => Arrivals::Uniform,
        }
    }
}

fn parse_length(text: &str) -> Result<u64, base::UnitError> {
    Bytes::parse(text).map(|bytes| bytes.0)
}

impl RequestFlags {
    /// The load that these flags describe. `raw` says that the target is not HTTP.
    pub(crate) fn load(&self, raw: bool) -> Result<Load, Failure> {
        let exchange = match (self.exchange, raw) {
            (None | Some(ExchangeKind::Http), false) => Exchange::Http(self.http()?),
            (Some(ExchangeKind::Oneshot), true) => Exchange::Oneshot,
            (Some(ExchangeKind::Echo), true) => Exchange::Echo { size: self.size },
            (Some(ExchangeKind::Bulk), true) => Exchange::Bulk { chunk: self.size },
            (None | Some(ExchangeKind::Http), true) => {
                return Err(Failure::new(
                    "a raw target needs --exchange oneshot, echo or bulk; for HTTP write http://host:port/ or http://unix:/path.sock:/",
                ));
            }
            (Some(_), false) => {
                return Err(Failure::new(
                    "--exchange oneshot, echo and bulk need a raw target: tcp://host:port or unix:/path.sock",
                ));
            }
        };
        let expect = Expect {
            status: self.expect_status,
            body: self.expect_body.as_deref().map(text_or_file).transpose()?,
            length: self.expect_length,
        };
        Ok(Load {
            connections: self.connections,
            threads: self.threads.min(self.connections),
            new_connection: self.new_connection || exchange == Exchange::Oneshot,
            engine: self.engine.into(),
            busy_poll: self.busy_poll,
            linger_zero: self.linger_zero,
            timeout: self.timeout,
            exchange,
            expect,
        })
    }

    fn http(&self) -> Result<HttpRequest, Failure> {
        let headers =
            self.header.iter().map(|text| parse_header(text)).collect::<Result<Vec<_>, _>>()?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if self.method.is_empty() || !self.method.chars().all(token) {
            return Err(Failure::new(format!("'{}' is not an HTTP method", self.method)));
        }
        Ok(HttpRequest {
            method: self.method.to_ascii_uppercase(),
            headers,
            body: self.body.as_deref().map(text_or_file).transpose()?.unwrap_or_default(),
        })
    }
}

fn parse_header(text: &str) -> Result<(String, String), Failure> {
    let wanted = || Failure::new(format!("'{text}' is not a header; write 'Name: value'"));
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let (name, value) = (name.trim(), value.trim());
    let sound = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_graphic())
        && !value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0);
    if sound { Ok((name.to_owned(), value.to_owned())) } else { Err(wanted()) }
}

fn text_or_file(text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        None => Ok(text.as_bytes().to_vec()),
        Some(path) => std::fs::read(path)
            .map_err(|error| Failure::new(format!("cannot read the body from {path}: {error}"))),
    }
}
