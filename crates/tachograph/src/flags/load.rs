//! Flags of `load`, most of which `compare` shares.

use std::path::{Path, PathBuf};

use base::{Bytes, Nanos};
use clap::Args;
use grpc::Schema;
use spec::{
    Arrivals, CallBodies, Calls, Check, EngineChoice, Exchange, Expect, HttpRequest, HttpVersion,
    Load, Mode, RequestDefaults, RequestFile, ServedBy, Target, TlsOptions,
};

use super::shared::{HookFlags, MachineFlags, OfferFlags, ResultFlags};
use crate::failure::Failure;
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Targets:
  http://host:port/path          HTTP/1.1 over TCP; [::1] for IPv6
  http://unix:/path.sock:/path   HTTP/1.1 over a Unix socket; unix:@name: for an abstract one
  https://host:port/path         the same with TLS, also https://unix:/path.sock:/path
  tcp://host:port, unix:/path    raw bytes, with --exchange
Examples:
  tachograph load http://127.0.0.1:8000/
  tachograph load -c 64 -d 10s --unix-socket /run/app.sock http://localhost/users
  tachograph load -r 2000 http://127.0.0.1:8000/      # open loop at 2,000 requests/s
  tachograph load -n 1000000 --export-json out.json http://127.0.0.1:8000/
  tachograph load --exchange echo --size 64 unix:/run/echo.sock";

/// The request, and how connections are used.
#[derive(Clone, Debug, Args)]
pub(crate) struct RequestFlags {
    /// Number of concurrent connections [default: 10; `load --rate` opens more as needed]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Option<u32>,
    /// Maximum connections of an open loop [default: --connections, or 1000 for `load --rate`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_connections: Option<u32>,
    /// Number of client threads, each with its own event loop and CPU
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Open a new connection for every request
    #[arg(long)]
    pub(crate) new_connection: bool,
    /// I/O backend
    #[arg(long, default_value = "auto", value_name = "ENGINE")]
    pub(crate) engine: EngineFlag,
    /// Spin instead of sleeping; needs one CPU per thread
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Reset TCP connections instead of closing them (SO_LINGER 0), to avoid TIME_WAIT
    #[arg(long)]
    pub(crate) linger_zero: bool,
    /// HTTP method
    #[arg(short, long, default_value = "GET", value_name = "METHOD")]
    pub(crate) method: String,
    /// HTTP header, e.g. 'Accept: text/html', or @FILE with one header a line; repeatable
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Request body, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Send the requests in this file instead of one: JSON lines, a HAR or an access log (see
    /// docs/requests.md); --method, --header, --body and what is expected hold where it says nothing
    #[arg(long, value_name = "FILE")]
    pub(crate) request_file: Option<PathBuf>,
    /// Responses are streams of server-sent events: count these, and time the first byte, the first
    /// event and the gaps between events
    #[arg(long)]
    pub(crate) events: bool,
    /// Timeout of a request
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) timeout: Nanos,
    /// Expected status code [default: that of the first responses]
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(100..=999))]
    pub(crate) expect_status: Option<u16>,
    /// Expected body, or @FILE to read it from a file [default: that of the first responses]
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect_body: Option<String>,
    /// Expected length of the body
    #[arg(long, value_name = "BYTES", value_parser = parse_length)]
    pub(crate) expect_length: Option<u64>,
    /// What to compare with the first responses, besides status and framing [default: what did not
    /// vary in the warm-up]
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["expect_body", "expect_length"])]
    pub(crate) check: Option<CheckKind>,
    /// Kind of exchange with a raw target
    #[arg(long, value_name = "KIND")]
    pub(crate) exchange: Option<ExchangeKind>,
    /// Message size (echo), or bytes that count as one request (bulk)
    #[arg(long, default_value = "64", value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) size: Bytes,
    /// Speak HTTP/2: chosen by ALPN with https://, known in advance with http://
    #[arg(long, visible_alias = "http2-prior-knowledge", help_heading = "HTTP/2")]
    pub(crate) http2: bool,
    /// Requests in progress at once on each connection
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = "HTTP/2")]
    pub(crate) streams: u32,
    /// Call this method over HTTP/2, as package.Service/Method; --body is the message as JSON (see
    /// docs/grpc.md)
    #[arg(long, value_name = "METHOD", conflicts_with_all = ["request_file", "method", "exchange", "events", "expect_status"], help_heading = "gRPC")]
    pub(crate) grpc: Option<String>,
    /// Descriptors of the services, from protoc --include_imports --descriptor_set_out or buf build
    /// [default: ask the server's reflection]
    #[arg(long, value_name = "FILE", help_heading = "gRPC")]
    pub(crate) protoset: Option<PathBuf>,
    /// The body is an encoded message, not JSON
    #[arg(long, requires = "grpc", conflicts_with = "protoset", help_heading = "gRPC")]
    pub(crate) binary: bool,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
}

/// How `https://` is spoken.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsFlags {
    /// Accept any certificate of the server
    #[arg(short = 'k', long, help_heading = "HTTPS")]
    pub(crate) insecure: bool,
    /// Trust the certificates in this file (PEM) instead of the system's authorities
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "HTTPS")]
    pub(crate) cacert: Option<PathBuf>,
    /// Show this certificate (PEM) to a server that asks for one
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "HTTPS")]
    pub(crate) cert: Option<PathBuf>,
    /// Key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "HTTPS")]
    pub(crate) key: Option<PathBuf>,
    /// Let new connections continue the TLS session of earlier ones [default: new keys for each]
    #[arg(long, help_heading = "HTTPS")]
    pub(crate) tls_resumption: bool,
}

impl From<&TlsFlags> for TlsOptions {
    fn from(flags: &TlsFlags) -> TlsOptions {
        TlsOptions {
            insecure: flags.insecure,
            cacert: flags.cacert.clone(),
            cert: flags.cert.clone(),
            key: flags.key.clone(),
            resumption: flags.tls_resumption,
        }
    }
}

/// What of a response is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheckKind {
    /// Nothing else
    Status,
    /// Length of the body
    Length,
    /// Every byte of the body
    Body,
}

impl From<CheckKind> for Check {
    fn from(kind: CheckKind) -> Check {
        match kind {
            CheckKind::Status => Check::Status,
            CheckKind::Length => Check::Length,
            CheckKind::Body => Check::Body,
        }
    }
}

/// I/O backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineFlag {
    /// The faster one for the load; always epoll in `compare` and `run`
    Auto,
    /// Readiness-based, available everywhere
    Epoll,
    /// Completion-based, needs Linux 6.1; often forbidden in containers
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

/// Kinds of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExchangeKind {
    /// HTTP/1.1
    Http,
    /// Connect, read to the end, compare
    Oneshot,
    /// Send a message and read it back, on a persistent connection
    Echo,
    /// Read an endless stream, counting bytes per second
    Bulk,
}

/// Flags of `load`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadFlags {
    /// URL or raw address, see below
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Connect through this Unix socket instead of TCP
    #[arg(long, value_name = "PATH")]
    pub(crate) unix_socket: Option<String>,
    /// Duration of the measurement
    #[arg(short, long, default_value = "5s", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Nanos,
    /// Stop after this many requests
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Send this many requests per second in total, whatever the server does (open loop)
    #[arg(short, long, value_name = "RATE", value_parser = base::parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Spacing of requests in an open loop
    #[arg(long, default_value = "poisson", value_name = "KIND", requires = "rate")]
    pub(crate) arrivals: ArrivalsKind,
    /// Load the target from another machine, over ssh; repeatable, all at once (see docs/far.md)
    #[arg(long, value_name = "HOST", conflicts_with_all = ["cpus", "why"])]
    pub(crate) from: Vec<String>,
    /// Warm-up before the measurement
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) warmup: Nanos,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
    /// Source of the server-side count (see `tachograph compare --help`)
    #[arg(long, value_name = "WHERE")]
    pub(crate) served_by: Option<String>,
    /// Also sample the server's functions, and report what it needs its CPU time for
    #[arg(long)]
    pub(crate) why: bool,
    /// Write latencies to an HdrHistogram interval log
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) offer: OfferFlags,
    #[command(flatten)]
    pub(crate) hooks: HookFlags,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
}

/// Spacing of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ArrivalsKind {
    /// Random, with exponential gaps
    Poisson,
    /// Equal gaps
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

impl LoadFlags {
    /// The target in these flags.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        Ok(match &self.unix_socket {
            Some(socket) => Target::parse_with_unix_socket(&self.target, socket)?,
            None => Target::parse(&self.target)?,
        })
    }

    /// The plan of the load. An open loop opens connections as needed, unless their number is
    /// given.
    pub(crate) fn plan(&self) -> Result<conduct::LoadPlan, Failure> {
        let target = self.target()?;
        if self.offer.closed_only && self.rate.is_some() {
            return Err(Failure::new("--rate makes an open loop, and --closed-only skips it"));
        }
        let mut load = self.request.load(matches!(target, Target::Raw(_)))?;
        if target.server_name().is_none() && load.tls != TlsOptions::default() {
            return Err(Failure::new(
                "the options of HTTPS have no meaning here; write https:// in the target",
            ));
        }
        if load.grpc.is_some() && !matches!(&target, Target::Http { path, .. } if path == "/") {
            return Err(Failure::new("a call by gRPC has no path; leave out that of the target"));
        }
        if !load.kinds.is_empty() && !matches!(&target, Target::Http { path, .. } if path == "/") {
            return Err(Failure::new(
                "the requests in a file have paths of their own; leave out that of the target",
            ));
        }
        let mode = match self.rate {
            None => Mode::Closed,
            Some(rate_per_s) => Mode::Open { rate_per_s, arrivals: self.arrivals.into() },
        };
        load.connections_max = self.request.connections_max(self.rate.is_some());
        spec::check_clients(&self.from, &load)?;
        Ok(conduct::LoadPlan {
            target,
            load,
            mode,
            duration: self.duration,
            requests: self.requests,
            warmup: self.warmup,
            served_by: self.served_by.as_deref().map(ServedBy::parse).transpose()?,
            why: self.why,
            from: self.from.clone(),
        })
    }
}

/// A duration long enough to measure.
fn parse_duration(text: &str) -> Result<Nanos, String> {
    let duration = Nanos::parse(text).map_err(|error| error.to_string())?;
    match duration >= Nanos::from_millis(1) {
        true => Ok(duration),
        false => Err("the minimum is 1ms".to_owned()),
    }
}

fn parse_length(text: &str) -> Result<u64, base::UnitError> {
    Bytes::parse(text).map(|bytes| bytes.0)
}

/// Default number of connections.
const CONNECTIONS: u32 = 10;

impl RequestFlags {
    /// Connections in use at once, or to begin with.
    pub(crate) fn connections(&self) -> u32 {
        let most = self.max_connections.unwrap_or(u32::MAX);
        self.connections.unwrap_or(CONNECTIONS.min(most))
    }

    /// Limit on connections: an open loop without connection options opens as many as it needs, if
    /// `grows`.
    pub(crate) fn connections_max(&self, grows: bool) -> Option<u32> {
        let needed = grows && self.connections.is_none();
        let most = self.max_connections.or(needed.then_some(spec::OPEN_CONNECTIONS_MAX));
        most.map(|connections| connections * self.streams)
    }

    /// The load in these flags. `raw` means that the target is not HTTP.
    pub(crate) fn load(&self, raw: bool) -> Result<Load, Failure> {
        if self.http2 && (raw || self.exchange.is_some_and(|kind| kind != ExchangeKind::Http)) {
            return Err(Failure::new("--http2 needs a target of HTTP, not raw bytes"));
        }
        if self.grpc.is_some() && raw {
            return Err(Failure::new("--grpc needs a target of HTTP, not raw bytes"));
        }
        if self.events && (raw || self.exchange.is_some_and(|kind| kind != ExchangeKind::Http)) {
            return Err(Failure::new("--events needs a target of HTTP, not raw bytes"));
        }
        if self.new_connection && self.streams > 1 {
            return Err(Failure::new(
                "--new-connection has one request on each connection, and --streams several",
            ));
        }
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
            status: self.grpc.as_ref().map(|_| 200).or(self.expect_status),
            body: self.expect_body.as_deref().map(text_or_file).transpose()?,
            length: self.expect_length,
            check: self.check.map(Check::from),
        };
        let file = self.request_file(&exchange, &expect)?;
        let grpc = self.calls(&file)?;
        if self.streams > 1 && !self.http2 && grpc.is_none() {
            return Err(Failure::new("--streams needs --http2"));
        }
        let is_http2 = self.http2 || grpc.is_some();
        let load = Load {
            connections: self.connections() * self.streams,
            connections_max: self.connections_max(false),
            threads: self.threads.min(self.connections()),
            http: if is_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 },
            streams: self.streams,
            new_connection: self.new_connection || exchange == Exchange::Oneshot,
            engine: self.engine.into(),
            busy_poll: self.busy_poll,
            linger_zero: self.linger_zero,
            timeout: self.timeout,
            kinds: file.kinds,
            grpc,
            events: self.events,
            exchange,
            expect,
            tls: TlsOptions::from(&self.tls),
        };
        match &self.protoset {
            None => Ok(load),
            Some(path) => Ok(grpc::encode(&load, &schema(path)?)?),
        }
    }

    /// What is called by gRPC, if the requests are calls.
    fn calls(&self, file: &RequestFile) -> Result<Option<Calls>, Failure> {
        let bodies = if self.binary { CallBodies::Encoded } else { CallBodies::Json };
        match &self.grpc {
            Some(method) => {
                let method = Some(spec::method_name(method)?);
                Ok(Some(Calls { method, bodies }))
            }
            None if file.is_grpc => Ok(Some(Calls { method: None, bodies })),
            None if self.protoset.is_some() => Err(Failure::new(
                "--protoset describes calls by gRPC; add --grpc, or lines with \"grpc\" to \
                 --request-file",
            )),
            None => Ok(None),
        }
    }

    /// The requests in the file, if there is one.
    fn request_file(&self, exchange: &Exchange, expect: &Expect) -> Result<RequestFile, Failure> {
        let Some(path) = &self.request_file else { return Ok(RequestFile::default()) };
        let Exchange::Http(request) = exchange else {
            return Err(Failure::new("--request-file needs a target of HTTP, not raw bytes"));
        };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let (request, expect, timeout) = (request.clone(), expect.clone(), self.timeout);
        let defaults = RequestDefaults { request, expect, timeout };
        let read = |named: &Path| std::fs::read_to_string(folder.join(named));
        let file = spec::parse_requests(&shown, &text, &defaults, &read)?;
        for (what, count) in &file.left_out {
            output::note(&format!("note: left out of {shown}: {what} ({count})"));
        }
        Ok(file)
    }

    fn http(&self) -> Result<HttpRequest, Failure> {
        let headers = headers(&self.header)?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if self.method.is_empty() || !self.method.chars().all(token) {
            return Err(Failure::new(format!("'{}' is not an HTTP method", self.method)));
        }
        let body = self.body.as_deref().map(text_or_file).transpose()?.unwrap_or_default();
        Ok(match self.grpc {
            Some(_) if self.binary => HttpRequest::call(headers, spec::framed(&body), self.timeout),
            Some(_) => HttpRequest::call(headers, body, self.timeout),
            None => HttpRequest { method: self.method.to_ascii_uppercase(), headers, body },
        })
    }
}

/// The values of `--header`.
pub(super) fn headers(texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = Vec::new();
    for text in texts {
        match text.strip_prefix('@') {
            Some(path) => headers.extend(headers_of_file(path)?),
            None => headers.push(parse_header(text).ok_or_else(|| {
                let shown = text.split_once(':').map_or("***", |(name, _)| name);
                Failure::new(format!("'{shown}' is not a header; write 'Name: value' or @FILE"))
            })?),
        }
    }
    Ok(headers)
}

/// The services that a file of descriptors describes.
fn schema(path: &Path) -> Result<Schema, Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    Ok(Schema::of_set(&bytes, &shown)?)
}

/// The headers in the lines of a file; empty lines are skipped.
fn headers_of_file(path: &str) -> Result<Vec<(String, String)>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read the headers from {path}: {error}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = |(at, line): (usize, &str)| {
        parse_header(line).ok_or_else(|| {
            let at = at + 1;
            Failure::new(format!("line {at} of {path} is not a header; write 'Name: value'"))
        })
    };
    lines.map(header).collect()
}

/// Name and value of a header.
fn parse_header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    let sound = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_graphic())
        && !value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0);
    sound.then(|| (name.to_owned(), value.to_owned()))
}

fn text_or_file(text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        None => Ok(text.as_bytes().to_vec()),
        Some(path) => std::fs::read(path)
            .map_err(|error| Failure::new(format!("cannot read the body from {path}: {error}"))),
    }
}
