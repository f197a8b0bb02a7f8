//! The load that every tool is asked for.

/// The load that a tool is asked for. Files are named relative to the folder in which it runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// Port of the server on 127.0.0.1.
    pub(crate) port: u16,
    /// Whether to connect through the Unix socket [`SOCKET`] instead.
    pub(crate) unix: bool,
    pub(crate) work: Work,
    /// Timeout of a request; tools accept whole seconds only.
    pub(crate) timeout_s: u32,
}

/// Connections of every load.
pub(crate) const CONNECTIONS: u32 = 10;

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
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// The longest that a tool without faults takes, in seconds.
    pub(crate) fn seconds(&self) -> u32 {
        match self.work {
            Work::Closed { seconds } | Work::Rate { seconds, .. } => seconds,
            Work::Number { or_seconds, .. } => or_seconds,
        }
    }
}
