//! Where the load goes.

use std::fmt;
use std::path::PathBuf;

/// The kernel object that connections are made to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// TCP to a host name or address (IPv6 without brackets) and port.
    Tcp {
        /// A name, an IPv4 or an IPv6 address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A stream Unix socket with a path in the file system.
    Unix(PathBuf),
    /// A stream Unix socket in the abstract namespace; the name without the leading NUL.
    Abstract(Vec<u8>),
    /// A datagram Unix socket with a path (`unix-dgram:`), for the echo exchange only.
    UnixDatagram(PathBuf),
    /// A sequenced-packet Unix socket with a path (`unix-seqpacket:`), for the echo exchange only.
    UnixSeqpacket(PathBuf),
    /// A stream socketpair whose other end the fixture holds; each connection
    /// asks for one over the Unix socket at this path (`socketpair:`).
    Socketpair(PathBuf),
}

/// Where the load goes, as a person writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `http://host:port/path` or `http://unix:/path/to.sock:/path`.
    Http {
        /// What is connected to.
        endpoint: Endpoint,
        /// The value of the Host header: `host:port`, or `localhost` for Unix sockets.
        authority: String,
        /// Path and query, beginning with a slash.
        path: String,
    },
    /// `tcp://host:port`, `unix:/path`, `unix:@abstract`, …: bytes without HTTP.
    Raw(Endpoint),
}

/// A target that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a target: {why}")]
pub struct TargetError {
    /// What was typed.
    pub text: String,
    /// What is wrong with it and what to write instead.
    pub why: String,
}

impl Target {
    /// Reads a target as a person writes it.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let _ = text;
        Err(TargetError { text: text.to_owned(), why: "not read yet".to_owned() })
    }

    /// What is connected to.
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Target::Http { endpoint, .. } | Target::Raw(endpoint) => endpoint,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
