//! The requests, their rate and the expected responses.

use std::path::PathBuf;

use base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::calls::Calls;
use crate::requests::{Expect, HttpRequest, RequestKind};

/// What one request is and how connections are used; the same for every slice of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections in use at once (closed loop), or opened before the first request (open loop).
    pub connections: u32,
    /// Limit on the connections of an open loop, which opens another when a request finds all of
    /// them busy. `None`, or fewer than `connections`: no additional ones.
    pub connections_max: Option<u32>,
    /// Client threads, each with its own event loop.
    pub threads: u32,
    /// The version of HTTP.
    pub http: HttpVersion,
    /// Requests that share a connection; more than one only for HTTP/2. `connections` is a multiple
    /// of it: it counts requests in progress, not sockets.
    pub streams: u32,
    /// Whether each request uses a new connection.
    pub new_connection: bool,
    /// I/O backend of the client.
    pub engine: EngineChoice,
    /// Whether idle client threads spin instead of sleeping.
    pub busy_poll: bool,
    /// Whether the client resets TCP connections instead of closing them (SO_LINGER 0).
    pub linger_zero: bool,
    /// A request without a complete response after this time has failed.
    pub timeout: Nanos,
    /// The kind of exchange.
    pub exchange: Exchange,
    /// The expected response.
    pub expect: Expect,
    /// The kinds of request over HTTP, if there are several: instead of the path of the target, the
    /// request of the exchange and its expected response.
    pub kinds: Vec<RequestKind>,
    /// What is called, if the requests are calls by gRPC.
    pub grpc: Option<Calls>,
    /// Whether responses are streams of server-sent events, which are counted and timed.
    pub events: bool,
    /// How an `https://` target is reached.
    pub tls: TlsOptions,
}

/// How the client speaks TLS to an `https://` target. Files are read on the machine of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// The certificates to trust instead of those of the system's authorities (PEM).
    pub cacert: Option<PathBuf>,
    /// The client's own certificate, followed by those that lead to its authority (PEM).
    pub cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    pub key: Option<PathBuf>,
    /// Whether a new connection continues the TLS session of an earlier one, if the server allows it.
    pub resumption: bool,
}

/// How many connections an open loop may open if nothing else is said: far more than most servers serve
/// at once, and within the usual limit on open files.
pub const OPEN_CONNECTIONS_MAX: u32 = 1000;

impl Default for Load {
    /// 10 persistent connections on one thread, `GET /` over HTTP, and a timeout of 10 s.
    fn default() -> Load {
        Load {
            connections: 10,
            connections_max: None,
            threads: 1,
            http: HttpVersion::Http1,
            streams: 1,
            new_connection: false,
            engine: EngineChoice::Auto,
            busy_poll: false,
            linger_zero: false,
            timeout: Nanos::from_secs(10),
            exchange: Exchange::Http(HttpRequest::default()),
            expect: Expect::default(),
            kinds: Vec::new(),
            grpc: None,
            events: false,
            tls: TlsOptions::default(),
        }
    }
}

/// The version of HTTP that the client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without (RFC 9113, 3.2 and 3.3).
    Http2,
}

/// I/O backend of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineChoice {
    /// The fastest one for the kernel, the transport and the number of connections.
    #[default]
    Auto,
    /// Readiness-based; works everywhere.
    Epoll,
    /// Completion-based; an error if the kernel or the container does not offer it.
    IoUring,
}

/// The form of a request and its response on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Exchange {
    /// HTTP/1.1.
    Http(HttpRequest),
    /// Connect, read to the end, compare; one connection per request.
    Oneshot,
    /// Send this many bytes and read them back, on a persistent connection.
    Echo {
        /// Message size.
        size: Bytes,
    },
    /// The server streams endlessly and bytes are counted. One request is one `chunk`.
    Bulk {
        /// The unit that is counted as one request.
        chunk: Bytes,
    },
    /// The client sends messages of Graphite lines, and nothing is answered. One request is one
    /// message.
    Lines(Lines),
}

impl Exchange {
    /// Whether the first responses show what the others must be.
    pub fn is_learned(&self) -> bool {
        matches!(self, Exchange::Http(_) | Exchange::Oneshot)
    }
}

/// Messages of Graphite lines: `PREFIX.NUMBER VALUE TIME`, all of the same length.
///
/// They go through all series at one time, then through all of them one interval later. The times
/// begin [`Lines::SPAN`] before the session; once they have reached its beginning, they start again
/// with new series, because a recorder may refuse points that are much older than the newest one of
/// their series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Lines in a message.
    pub per_message: u32,
    /// Number of series.
    pub series: u32,
    /// First part of the series' names; letters, digits, `.`, `-` and `_`.
    pub prefix: String,
    /// From one point of a series to the next; whole seconds.
    pub interval: Nanos,
}

impl Lines {
    /// The limit on a message, so that every transport can carry it: the payload of an IPv4 datagram
    /// of 65,535 bytes, without the headers of IP (20 bytes, RFC 791) and UDP (8 bytes, RFC 768).
    pub const MESSAGE_BYTES_MAX: usize = 65_507;

    /// How old the oldest point is. A recorder that keeps its finest slots for a day, as most do,
    /// still has a slot for it.
    pub const SPAN: Nanos = Nanos::from_secs(20 * 3_600);

    /// Digits of a series' number: at least six, so that there is room for further series.
    pub fn number_digits(&self) -> usize {
        self.series.saturating_sub(1).to_string().len().max(6)
    }

    /// The length of a line: a dot, two spaces, a line feed, a value of four characters and a time
    /// of ten digits, which is enough until the year 2286.
    pub fn line_bytes(&self) -> usize {
        self.prefix.len() + self.number_digits() + 18
    }

    /// The length of a message.
    pub fn message_bytes(&self) -> usize {
        self.line_bytes().saturating_mul(self.per_message as usize)
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Mode {
    /// Each connection waits for its response, then sends the next request.
    Closed,
    /// Requests arrive at a given rate, whatever the server does.
    Open {
        /// Arrivals per second over all connections.
        rate_per_s: f64,
        /// The spacing of arrivals.
        arrivals: Arrivals,
    },
}

/// The spacing of an open loop's arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    #[default]
    Poisson,
    /// Equal gaps.
    Uniform,
}
