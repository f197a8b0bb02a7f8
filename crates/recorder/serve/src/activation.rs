//! Sockets that systemd has opened (sd_listen_fds(3)).

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

use listenfd::ListenFd;

use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::service::Service;
use crate::{Address, Options, ServeError};

/// Names of the sockets, separated by colons.
const NAMES: &str = "LISTEN_FDNAMES";

/// The sockets that systemd has opened for this process. Its variables are removed from the
/// environment.
///
/// # Errors
/// [`ServeError::Activation`] for a socket that cannot be used.
pub(crate) fn take(options: &Options) -> Result<Vec<HandoverItem>, ServeError> {
    let names = std::env::var(NAMES).unwrap_or_default();
    let mut sockets = ListenFd::from_env();
    let mut names = names.split(':');
    let mut left = Vec::new();
    for place in 0..sockets.len() {
        let name = names.next().unwrap_or_default();
        let failed = |why: String| ServeError::Activation { name: name.to_owned(), why };
        let Some((address, fd)) = socket(&mut sockets, place) else {
            return Err(failed("it is no listening socket or datagram socket".to_owned()));
        };
        let wanted = options.wanted();
        let by_address = || wanted.iter().find(|(_, wanted)| *wanted == &address);
        let (service, given) = match (Service::named(name), by_address()) {
            (Some(service), _) => (service, Activation::ByName),
            (None, Some((service, _))) => (*service, Activation::ByAddress),
            (None, None) => {
                return Err(failed(format!(
                    "{address} is not in the options: set FileDescriptorName= to the name of an \
                     option, as {}, or add the address",
                    Service::NAMES
                )));
            }
        };
        let is_datagram = matches!(address, Address::Udp(_) | Address::UnixDatagram(_));
        if is_datagram && let Some(protocol) = service.needs_stream() {
            return Err(failed(format!("{address} cannot be used for {protocol}")));
        }
        left.push(HandoverItem {
            fd,
            what: ItemKind::Socket { service, wanted: address.to_string(), given },
        });
    }
    Ok(left)
}

/// A socket and its address.
fn socket(sockets: &mut ListenFd, place: usize) -> Option<(Address, OwnedFd)> {
    if let Ok(Some(socket)) = sockets.take_tcp_listener(place) {
        return tcp(socket);
    }
    if let Ok(Some(socket)) = sockets.take_udp_socket(place) {
        return udp(socket);
    }
    if let Ok(Some(socket)) = sockets.take_unix_listener(place) {
        return unix(socket);
    }
    unix_datagram(sockets.take_unix_datagram(place).ok()??)
}

fn tcp(socket: TcpListener) -> Option<(Address, OwnedFd)> {
    socket.set_nonblocking(true).ok()?;
    Some((Address::Tcp(socket.local_addr().ok()?), socket.into()))
}

fn udp(socket: UdpSocket) -> Option<(Address, OwnedFd)> {
    socket.set_nonblocking(true).ok()?;
    Some((Address::Udp(socket.local_addr().ok()?), socket.into()))
}

fn unix(socket: UnixListener) -> Option<(Address, OwnedFd)> {
    socket.set_nonblocking(true).ok()?;
    Some((Address::Unix(path(&socket.local_addr().ok()?)), socket.into()))
}

fn unix_datagram(socket: UnixDatagram) -> Option<(Address, OwnedFd)> {
    socket.set_nonblocking(true).ok()?;
    Some((Address::UnixDatagram(path(&socket.local_addr().ok()?)), socket.into()))
}

/// The path of a socket; `@` for one without.
fn path(address: &SocketAddr) -> PathBuf {
    address.as_pathname().map_or_else(|| PathBuf::from("@"), |path| path.to_owned())
}
