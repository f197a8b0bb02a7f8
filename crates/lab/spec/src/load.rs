//! What is sent, how fast and what must come back.

use base::{Bytes, Nanos};

/// What one request is and how the connections are used; the same for every slice of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Connections kept in use at once (closed loop), or opened before the first request (open loop).
    pub connections: u32,
    /// Connections that an open loop may have in all: it opens more than `connections` when a
    /// request finds every one of them busy. `None` or fewer than `connections`: no more than those.
    pub connections_max: Option<u32>,
    /// Threads of the client, each with its own event loop.
    pub threads: u32,
    /// Whether each request gets a connection of its own.
    pub new_connection: bool,
    /// What moves the client's bytes.
    pub engine: EngineChoice,
    /// Whether the client's threads spin instead of sleeping while nothing happens.
    pub busy_poll: bool,
    /// Whether the client resets TCP connections instead of closing them (SO_LINGER 0).
    pub linger_zero: bool,
    /// After this long without the whole answer a request has failed.
    pub timeout: Nanos,
    /// What is sent and what comes back.
    pub exchange: Exchange,
    /// What an answer must be.
    pub expect: Expect,
}

impl Default for Load {
    /// 10 kept connections on one thread, `GET /` over HTTP, and 10 s for every answer.
    fn default() -> Load {
        Load {
            connections: 10,
            connections_max: None,
            threads: 1,
            new_connection: false,
            engine: EngineChoice::Auto,
            busy_poll: false,
            linger_zero: false,
            timeout: Nanos::from_secs(10),
            exchange: Exchange::Http(HttpRequest::default()),
            expect: Expect::default(),
        }
    }
}

/// What moves the client's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The better one for the kernel, the transport and the number of connections.
    #[default]
    Auto,
    /// Readiness; works everywhere.
    Epoll,
    /// Completions; an error where the kernel or the container does not offer them.
    IoUring,
}

/// How one request and its answer look on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Exchange {
    /// HTTP/1.1.
    Http(HttpRequest),
    /// Connect, read to the end, compare; one connection per request.
    Oneshot,
    /// Send this many bytes and read the same bytes back, on a kept connection.
    Echo {
        /// The size of one message.
        size: Bytes,
    },
    /// The server streams to us without end; what counts is bytes. A request is one `chunk`.
    Bulk {
        /// The unit that is counted as one request.
        chunk: Bytes,
    },
}

/// An HTTP request but for its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, in capitals.
    pub method: String,
    /// Headers as given, in order; they replace our own of the same name.
    pub headers: Vec<(String, String)>,
    /// The body; with one, Content-Length is sent.
    pub body: Vec<u8>,
}

impl Default for HttpRequest {
    fn default() -> HttpRequest {
        HttpRequest { method: "GET".to_owned(), headers: Vec::new(), body: Vec::new() }
    }
}

/// What an answer must be. What is left open is learned from the first
/// answers: status and body must then repeat exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The only status that is right.
    pub status: Option<u16>,
    /// The only body that is right.
    pub body: Option<Vec<u8>>,
    /// The only length of the body that is right.
    pub length: Option<u64>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each connection waits for its answer, then sends the next request.
    Closed,
    /// Requests arrive at a rate whatever the server does.
    Open {
        /// Arrivals per second over all connections.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

/// The spacing of an open loop's arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    #[default]
    Poisson,
    /// Equal gaps.
    Uniform,
}
