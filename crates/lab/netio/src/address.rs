//! From a user's endpoint to a kernel address.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::{SocketAddrUnix, SocketType};
use spec::Endpoint;

/// Limit on the path of a Unix socket: `sun_path` has 108 bytes, one of them for the final NUL
/// (unix(7)).
pub const MAX_PATH_BYTES: usize = 107;

/// One address, resolved in advance so that no name server is asked during the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// UDP over IPv4 or IPv6.
    Udp(SocketAddr),
    /// A Unix socket with a path or an abstract name.
    Unix {
        /// The address to connect to.
        address: SocketAddrUnix,
        /// Stream, datagram or sequenced packets.
        socket_type: SocketType,
    },
    /// One end of a socketpair, received over the Unix stream socket at this address.
    Socketpair(SocketAddrUnix),
}

/// An endpoint without a valid address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The name has no address.
    #[error("no address found for '{host}': check its spelling, /etc/hosts and the name server")]
    NameNotFound {
        /// The name as given.
        host: String,
    },
    /// The path of a Unix socket is too long for the kernel.
    #[error(
        "the socket path {} has {} bytes, but a Unix socket's path can have at most \
         {MAX_PATH_BYTES}: use a shorter one, e.g. in /tmp",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        /// The path as given.
        path: PathBuf,
    },
    /// The path of a Unix socket is empty or contains a NUL byte.
    #[error("'{}' is not a valid path of a Unix socket: it is empty or contains a NUL \
        byte", path.display())]
    BadPath {
        /// The path as given.
        path: PathBuf,
    },
    /// The abstract name is empty or too long.
    #[error("an abstract socket's name must have 1 to {MAX_PATH_BYTES} bytes, not {bytes}")]
    BadAbstractName {
        /// The length of the name without the leading NUL.
        bytes: usize,
    },
}

impl Address {
    /// Every address of an endpoint, in the order in which to try them; never empty.
    pub fn resolve(endpoint: &Endpoint) -> Result<Vec<Address>, AddressError> {
        let unix = |path: &Path, socket_type| {
            Ok(vec![Address::Unix { address: path_address(path)?, socket_type }])
        };
        match endpoint {
            Endpoint::Tcp { host, port } => resolve_name(host, *port, Address::Tcp),
            Endpoint::Udp { host, port } => resolve_name(host, *port, Address::Udp),
            Endpoint::Unix(path) => unix(path, SocketType::STREAM),
            Endpoint::UnixDatagram(path) => unix(path, SocketType::DGRAM),
            Endpoint::UnixSeqpacket(path) => unix(path, SocketType::SEQPACKET),
            Endpoint::Socketpair(path) => Ok(vec![Address::Socketpair(path_address(path)?)]),
            Endpoint::Abstract(name) => {
                let error = AddressError::BadAbstractName { bytes: name.len() };
                if name.is_empty() {
                    return Err(error);
                }
                let address = SocketAddrUnix::new_abstract_name(name).map_err(|_| error)?;
                Ok(vec![Address::Unix { address, socket_type: SocketType::STREAM }])
            }
        }
    }

    /// Whether the transport preserves message boundaries.
    pub fn keeps_messages(&self) -> bool {
        match self {
            Address::Udp(_) => true,
            Address::Unix { socket_type, .. } => *socket_type != SocketType::STREAM,
            Address::Tcp(_) | Address::Socketpair(_) => false,
        }
    }

    /// Whether the transport is connectionless, so that no close is ever seen.
    pub fn is_datagram(&self) -> bool {
        match self {
            Address::Udp(_) => true,
            Address::Unix { socket_type, .. } => *socket_type == SocketType::DGRAM,
            Address::Tcp(_) | Address::Socketpair(_) => false,
        }
    }

    /// Whether this is an IPv4 address in 127/8, all of which belong to this machine.
    pub fn is_loopback_v4(&self) -> bool {
        matches!(self, Address::Tcp(SocketAddr::V4(address)) if address.ip().is_loopback())
    }
}

/// The kernel's form of a socket path. The length is checked here because the kernel's own limit is
/// one byte larger.
pub(crate) fn path_address(path: &Path) -> Result<SocketAddrUnix, AddressError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(AddressError::BadPath { path: path.to_owned() });
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(AddressError::PathTooLong { path: path.to_owned() });
    }
    SocketAddrUnix::new(path).map_err(|_| AddressError::BadPath { path: path.to_owned() })
}

fn resolve_name(
    host: &str,
    port: u16,
    transport: fn(SocketAddr) -> Address,
) -> Result<Vec<Address>, AddressError> {
    let mut addresses: Vec<Address> = Vec::new();
    for address in (host, port).to_socket_addrs().into_iter().flatten() {
        let address = transport(address);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(AddressError::NameNotFound { host: host.to_owned() });
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(endpoint: Endpoint) -> String {
        Address::resolve(&endpoint).unwrap_err().to_string()
    }

    #[test]
    fn numbers_resolve_to_themselves() {
        let tcp = |host: &str| {
            Address::resolve(&Endpoint::Tcp { host: host.to_owned(), port: 80 }).unwrap()
        };
        assert_eq!(tcp("127.0.0.1"), [Address::Tcp("127.0.0.1:80".parse().unwrap())]);
        assert_eq!(tcp("::1"), [Address::Tcp("[::1]:80".parse().unwrap())]);
        assert!(tcp("127.1.2.3")[0].is_loopback_v4());
        assert!(!tcp("::1")[0].is_loopback_v4());
    }

    #[test]
    fn a_path_of_107_bytes_fits_and_one_of_108_is_refused() {
        let path = |bytes: usize| PathBuf::from(format!("/{}", "x".repeat(bytes - 1)));
        assert!(Address::resolve(&Endpoint::Unix(path(107))).is_ok());
        assert_eq!(
            error(Endpoint::Unix(path(108))),
            format!(
                "the socket path {} has 108 bytes, but a Unix socket's path can have at most 107: \
                 use a shorter one, e.g. in /tmp",
                path(108).display()
            )
        );
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert_eq!(
            error(Endpoint::Tcp { host: "no.such.host.invalid".into(), port: 1 }),
            "no address found for 'no.such.host.invalid': check its spelling, /etc/hosts and the \
             name server"
        );
        assert_eq!(
            error(Endpoint::Unix(PathBuf::new())),
            "'' is not a valid path of a Unix socket: it is empty or contains a NUL byte"
        );
        assert_eq!(
            error(Endpoint::Abstract(vec![b'x'; 108])),
            "an abstract socket's name must have 1 to 107 bytes, not 108"
        );
    }

    #[test]
    fn only_datagrams_and_packets_keep_messages() {
        let path = PathBuf::from("/tmp/x");
        let of = |endpoint: Endpoint| Address::resolve(&endpoint).unwrap().remove(0);
        assert!(of(Endpoint::UnixDatagram(path.clone())).keeps_messages());
        assert!(of(Endpoint::UnixDatagram(path.clone())).is_datagram());
        assert!(of(Endpoint::UnixSeqpacket(path.clone())).keeps_messages());
        assert!(!of(Endpoint::UnixSeqpacket(path.clone())).is_datagram());
        assert!(!of(Endpoint::Unix(path)).keeps_messages());
        let udp = of(Endpoint::Udp { host: "::1".to_owned(), port: 80 });
        assert_eq!(udp, Address::Udp("[::1]:80".parse().unwrap()));
        assert!(udp.keeps_messages() && udp.is_datagram());
    }
}
