//! The load that every tool is asked for.

/// The load that a tool is asked for. Files are named relative to the folder in which it runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// Port of the server on 127.0.0.1.
    pub(crate) port: u16,
    /// Whether to connect through the Unix socket [`SOCKET`] instead.
    pub(crate) unix: bool,
    pub(crate) protocol: Protocol,
    pub(crate) connections: u32,
    /// Threads of the tool. This and the next are for the tools of published figures: ab (which has
    /// one thread), httperf (likewise), httpress, weighttp, wrk and ours.
    pub(crate) threads: u32,
    /// Whether each request has a connection of its own.
    pub(crate) new_connection: bool,
    pub(crate) work: Work,
    /// Timeout of a request; tools accept whole seconds only.
    pub(crate) timeout_s: u32,
}

/// Connections of every load of HTTP/1.1 in docs/truth.md.
pub(crate) const CONNECTIONS: u32 = 10;

/// Connections of a load of HTTP/2, and the streams on each: as many requests at once.
pub(crate) const SHARED: (u32, u32) = (2, 5);

/// Requests per second of a load by time, for a tool that knows no durations: as many as a closed
/// loop sends to the server that takes 5 ms, with some time to spare.
pub(crate) const REQUESTS_PER_S: u32 = 1_500;

/// What a tool speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    #[default]
    Http,
    Https,
    /// HTTP/2 without TLS, known in advance.
    H2c,
    /// HTTP/2 with TLS.
    H2,
}

impl Protocol {
    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Protocol::Https | Protocol::H2)
    }

    pub(crate) fn is_http2(self) -> bool {
        matches!(self, Protocol::H2c | Protocol::H2)
    }

    /// These options of a tool, if it needs them for TLS.
    pub(crate) fn with_tls(self, options: &'static str) -> &'static str {
        if self.is_tls() { options } else { "" }
    }
}

/// The server's Unix socket.
pub(crate) const SOCKET: &str = "server.sock";

/// The file for a tool's JSON.
pub(crate) const OUT: &str = "out.json";

/// The file with a tool's input.
pub(crate) const SCRIPT: &str = "script";

/// How much to load, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// Every connection sends its next request when it has the response.
    Closed {
        /// How long.
        seconds: u32,
    },
    /// This many requests; a tool that only knows durations loads for `or_seconds`.
    Number {
        /// How many.
        requests: u32,
        /// See above.
        or_seconds: u32,
    },
    /// Requests at a constant rate, for tools that have one.
    Rate {
        /// Requests per second in total.
        per_s: u32,
        /// How long.
        seconds: u32,
    },
}

impl Load {
    pub(crate) fn url(&self) -> String {
        let scheme = if self.protocol.is_tls() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/", self.port)
    }

    /// A load of docs/truth.md.
    pub(crate) fn of(port: u16, work: Work) -> Load {
        Load {
            port,
            unix: false,
            protocol: Protocol::Http,
            connections: CONNECTIONS,
            threads: 1,
            new_connection: false,
            work,
            timeout_s: 1,
        }
    }

    /// How many requests, for a tool that knows no durations.
    pub(crate) fn requests(&self) -> u32 {
        match self.work {
            Work::Closed { seconds } | Work::Rate { seconds, .. } => seconds * REQUESTS_PER_S,
            Work::Number { requests, .. } => requests,
        }
    }

    /// The longest that a tool without faults takes, in seconds.
    pub(crate) fn seconds(&self) -> u32 {
        match self.work {
            Work::Closed { seconds } | Work::Rate { seconds, .. } => seconds,
            Work::Number { or_seconds, .. } => or_seconds,
        }
    }
}
