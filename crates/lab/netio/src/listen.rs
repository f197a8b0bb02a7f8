//! The listening side, for the built-in fixture.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, getsockname, listen, sendmsg, socket_with, socketpair, sockopt,
};

use crate::Address;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A socket that accepts connections or packets.
#[derive(Debug)]
pub struct Listener {
    /// The socket, non-blocking.
    pub socket: OwnedFd,
    /// The address it is bound to, with the port that the kernel chose for port 0.
    pub address: Address,
}

/// Binds and listens on a stream or sequenced-packet address. A stale socket file is removed first.
pub fn bind_listener(address: &Address, backlog: i32) -> io::Result<Listener> {
    let listener = bind_address(address)?;
    listen(&listener.socket, backlog)?;
    Ok(listener)
}

/// Binds a datagram address. A stale socket file is removed first.
pub fn bind_packets(address: &Address) -> io::Result<Listener> {
    bind_address(address)
}

fn bind_address(address: &Address) -> io::Result<Listener> {
    match address {
        Address::Tcp(wanted) => {
            let family = if wanted.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, wanted)?;
            let bound = getsockname(&socket)?.try_into()?;
            Ok(Listener { socket, address: Address::Tcp(bound) })
        }
        Address::Udp(wanted) => {
            let family = if wanted.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::DGRAM, FLAGS, None)?;
            bind(&socket, wanted)?;
            let bound = getsockname(&socket)?.try_into()?;
            Ok(Listener { socket, address: Address::Udp(bound) })
        }
        Address::Unix { address: name, socket_type } => {
            let socket = bind_unix(name, *socket_type)?;
            Ok(Listener { socket, address: address.clone() })
        }
        Address::Socketpair(name) => {
            let socket = bind_unix(name, SocketType::STREAM)?;
            Ok(Listener { socket, address: address.clone() })
        }
    }
}

fn bind_unix(address: &SocketAddrUnix, socket_type: SocketType) -> io::Result<OwnedFd> {
    if let Some(path) = address.path() {
        remove_socket_file(Path::new(path.to_str().map_err(io::Error::other)?))?;
    }
    let socket = socket_with(AddressFamily::UNIX, socket_type, FLAGS, None)?;
    bind(&socket, address)?;
    Ok(socket)
}

/// Removes an earlier server's socket at the path, but nothing that is not a socket.
fn remove_socket_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket already exists there",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a stream socketpair, sends one end over the connection and returns the other,
/// non-blocking.
pub fn hand_over_socketpair(connection: &OwnedFd) -> io::Result<OwnedFd> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [theirs.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a file descriptor in the message"));
    }
    sendmsg(connection, &[IoSlice::new(b"s")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(ours)
}
