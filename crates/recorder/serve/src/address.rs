//! Addresses to listen on.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// The longest path of a Unix socket: the kernel keeps 108 bytes, the last of which is NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// UDP.
    Udp(SocketAddr),
    /// A stream Unix socket.
    Unix(PathBuf),
    /// A datagram Unix socket.
    UnixDatagram(PathBuf),
}

/// An address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It cannot be parsed or resolved.
    #[error(
        "'{0}' is not an address to listen on: write tcp://127.0.0.1:2003, udp://127.0.0.1:2003, \
         unix:/path or unix-dgram:/path"
    )]
    Invalid(String),
    /// Graphite's pickle protocol needs a stream.
    #[error(
        "'{0}' is not an address for Graphite's pickle protocol: write tcp://127.0.0.1:2004 or \
         unix:/path"
    )]
    NotAStreamForPickle(String),
    /// HTTP needs a stream.
    #[error("'{0}' is not an address for HTTP: write tcp://127.0.0.1:8086 or unix:/path")]
    NotAStream(String),
    /// The path does not fit into a socket's address.
    #[error("the socket path {} is longer than {SOCKET_PATH_BYTES_MAX} bytes: use a shorter one", .0.display())]
    PathTooLong(PathBuf),
}

impl Address {
    /// Parses `tcp://host:port`, `host:port`, `udp://host:port`, `unix:/path` or
    /// `unix-dgram:/path`.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(socket_path(text, path)?));
        }
        if let Some(path) = text.strip_prefix("unix-dgram:") {
            return Ok(Address::UnixDatagram(socket_path(text, path)?));
        }
        match text.strip_prefix("udp://") {
            Some(host) => Ok(Address::Udp(resolve(text, host)?)),
            None => {
                let host = text.strip_prefix("tcp://").unwrap_or(text);
                Ok(Address::Tcp(resolve(text, host)?))
            }
        }
    }

    /// Parses the address of a stream, as HTTP needs it.
    ///
    /// # Errors
    /// Those of [`Address::parse`], and [`AddressError::NotAStream`].
    pub fn parse_stream(text: &str) -> Result<Address, AddressError> {
        match Address::parse(text)? {
            address @ (Address::Tcp(_) | Address::Unix(_)) => Ok(address),
            _ => Err(AddressError::NotAStream(text.to_owned())),
        }
    }

    /// Parses the address of a stream for Graphite's pickle protocol.
    ///
    /// # Errors
    /// Those of [`Address::parse`], and [`AddressError::NotAStreamForPickle`].
    pub fn parse_pickle(text: &str) -> Result<Address, AddressError> {
        Address::parse_stream(text).map_err(|error| match error {
            AddressError::NotAStream(text) => AddressError::NotAStreamForPickle(text),
            error => error,
        })
    }

    /// Whether other machines can reach it.
    pub fn is_open(&self) -> bool {
        match self {
            Address::Tcp(address) | Address::Udp(address) => {
                !address.ip().to_canonical().is_loopback()
            }
            Address::Unix(_) | Address::UnixDatagram(_) => false,
        }
    }
}

fn socket_path(text: &str, path: &str) -> Result<PathBuf, AddressError> {
    if !path.starts_with('/') {
        return Err(AddressError::Invalid(text.to_owned()));
    }
    match path.len() {
        0..=SOCKET_PATH_BYTES_MAX => Ok(path.into()),
        _ => Err(AddressError::PathTooLong(path.into())),
    }
}

fn resolve(text: &str, host: &str) -> Result<SocketAddr, AddressError> {
    let address = host.to_socket_addrs().ok().and_then(|mut found| found.next());
    address.ok_or_else(|| AddressError::Invalid(text.to_owned()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp://{address}"),
            Address::Udp(address) => write!(f, "udp://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::UnixDatagram(path) => write!(f, "unix-dgram:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, shown) in [
            ("tcp://127.0.0.1:8086", "tcp://127.0.0.1:8086"),
            ("127.0.0.1:0", "tcp://127.0.0.1:0"),
            ("udp://[::1]:80", "udp://[::1]:80"),
            ("unix:/run/t.sock", "unix:/run/t.sock"),
            ("unix-dgram:/run/t.sock", "unix-dgram:/run/t.sock"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", "127.0.0.1", "unix:", "unix:t.sock", "udp://127.0.0.1:99999"] {
            assert_eq!(Address::parse(text), Err(AddressError::Invalid(text.to_owned())));
        }
        let long = format!("unix:/{}", "x".repeat(107));
        assert!(matches!(Address::parse(&long), Err(AddressError::PathTooLong(_))));
        assert!(Address::parse_stream("unix:/run/t.sock").is_ok());
        assert_eq!(
            Address::parse_stream("udp://127.0.0.1:1").unwrap_err().to_string(),
            "'udp://127.0.0.1:1' is not an address for HTTP: write tcp://127.0.0.1:8086 or \
             unix:/path"
        );
    }

    #[test]
    fn addresses_that_other_machines_can_reach_are_open() {
        for text in ["0.0.0.0:8086", "[::]:8086", "udp://192.0.2.1:8086", "[::ffff:192.0.2.1]:1"] {
            assert!(Address::parse(text).unwrap().is_open(), "{text}");
        }
        for text in ["127.0.0.1:1", "udp://127.9.9.9:1", "[::1]:1", "unix:/a", "unix-dgram:/a"] {
            assert!(!Address::parse(text).unwrap().is_open(), "{text}");
        }
    }
}
