//! Opens non-blocking sockets to one address.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recvmsg, socket_with, sockopt,
};

use crate::{Address, Connect, Failure, Setup};

/// Number of source addresses to use before ports count as exhausted: 127.0.0.1 to 127.0.0.32
/// provide about 900,000 connections a minute, and stay far below the usual connection-tracking
/// table.
const SOURCES_MAX: u8 = 32;

/// How long the fixture may take to hand over one end of a socketpair.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a socket stays non-blocking once it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockingMode {
    /// For readiness-based I/O.
    Never,
    /// For io_uring, which fails at once on a non-blocking socket, but on a blocking one waits
    /// without blocking the thread (io_uring_enter(2)).
    OnceOpen,
}

/// Opens sockets to one address.
#[derive(Debug)]
pub(crate) struct Connector {
    address: Address,
    blocking: BlockingMode,
    linger_zero: bool,
    /// Last byte of the source address in 127.0.0.0/24; 0 while the kernel chooses.
    source: u8,
    source_changes: u64,
}

impl Connector {
    pub(crate) fn new(setup: &Setup, blocking: BlockingMode) -> Connector {
        let tcp = matches!(setup.address, Address::Tcp(_));
        Connector {
            address: setup.address.clone(),
            blocking,
            linger_zero: setup.linger_zero && tcp,
            source: 0,
            source_changes: 0,
        }
    }

    /// Whether closing a socket resets its connection.
    pub(crate) fn lingers_zero(&self) -> bool {
        self.linger_zero
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// How often a source address has run out of ports.
    pub(crate) fn source_changes(&self) -> u64 {
        self.source_changes
    }

    /// Opens one socket and starts connecting it.
    pub(crate) fn open(&mut self) -> Result<(OwnedFd, Connect), Failure> {
        let (fd, connect) = match &self.address {
            Address::Tcp(address) => {
                let address = *address;
                self.open_tcp(address)
            }
            Address::Udp(address) => open_udp(*address),
            Address::Unix { address, socket_type } => open_unix(address, *socket_type),
            Address::Socketpair(address) => receive_socketpair(address),
        }?;
        if self.linger_zero {
            sockopt::set_socket_linger(&fd, Some(Duration::ZERO))?;
        }
        if self.blocking == BlockingMode::OnceOpen {
            rustix::io::ioctl_fionbio(&fd, false)?;
        }
        Ok((fd, connect))
    }

    /// Moves to the next source address of 127/8 when one runs out of ports.
    fn open_tcp(&mut self, address: SocketAddr) -> Result<(OwnedFd, Connect), Failure> {
        for _ in 0..=SOURCES_MAX {
            match open_tcp_from(address, self.source) {
                Err(Failure::NoPortsLeft) if self.address.is_loopback_v4() => {
                    self.source = (self.source + 1) % (SOURCES_MAX + 1);
                    self.source_changes += 1;
                }
                outcome => return outcome,
            }
        }
        Err(Failure::NoPortsLeft)
    }
}

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

fn open_tcp_from(address: SocketAddr, source: u8) -> Result<(OwnedFd, Connect), Failure> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if source > 0 {
        choose_port_when_connecting(&fd)?;
        bind(&fd, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, source), 0))?;
    }
    match connect(&fd, &address) {
        Ok(()) => Ok((fd, Connect::Done)),
        Err(Errno::INPROGRESS) if address.ip().is_loopback() => {
            let connect = outcome_on_loopback(&fd, &address)?;
            Ok((fd, connect))
        }
        Err(Errno::INPROGRESS) => Ok((fd, Connect::Pending)),
        // EAGAIN means a full queue only for Unix sockets; here it means no free port (connect(2)).
        Err(Errno::AGAIN) => Err(Failure::NoPortsLeft),
        Err(errno) => Err(errno.into()),
    }
}

/// On loopback the handshake is over before connect(2) returns, although it reports "in progress".
/// A second call shows that, and saves a turn of the loop for every connection.
fn outcome_on_loopback(fd: &OwnedFd, address: &SocketAddr) -> Result<Connect, Failure> {
    match connect(fd, address) {
        Ok(()) | Err(Errno::ISCONN) => Ok(Connect::Done),
        // Readiness will show what the second call does not.
        Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN) => Ok(Connect::Pending),
        Err(errno) => Err(errno.into()),
    }
}

/// Lets a bound source address share its ports between connections to different peers (ip(7)).
#[allow(unsafe_code)]
fn choose_port_when_connecting(fd: &OwnedFd) -> Result<(), Failure> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open for the duration of the call, and the
    // pointer and length describe one live c_int, which the kernel only reads.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// A connected UDP socket: the kernel then reports that nothing is listening there (udp(7)).
fn open_udp(address: SocketAddr) -> Result<(OwnedFd, Connect), Failure> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::DGRAM, FLAGS, None)?;
    connect(&fd, &address)?;
    Ok((fd, Connect::Done))
}

fn open_unix(
    address: &SocketAddrUnix,
    socket_type: SocketType,
) -> Result<(OwnedFd, Connect), Failure> {
    let fd = socket_with(AddressFamily::UNIX, socket_type, FLAGS, None)?;
    if socket_type == SocketType::DGRAM {
        // The kernel chooses an abstract name, to which responses are sent (unix(7), autobind).
        bind(&fd, &SocketAddrUnix::new_unnamed())?;
    }
    connect(&fd, address)?;
    Ok((fd, Connect::Done))
}

/// Asks the listener for one end of a socketpair and waits for it: this is setup, before any load.
fn receive_socketpair(address: &SocketAddrUnix) -> Result<(OwnedFd, Connect), Failure> {
    let control = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&control, sockopt::Timeout::Recv, Some(HANDOVER_TIMEOUT))?;
    connect(&control, address)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let message = recvmsg(
        &control,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    );
    match message {
        Err(Errno::AGAIN) => return Err(Failure::ConnectTimeout),
        other => other?,
    };
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let fd = received.ok_or(Failure::WrongSocketType)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok((fd, Connect::Done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::getsockname;
    use std::sync::Arc;

    fn connector(address: Address) -> Connector {
        Connector::new(&Setup::new(address, Arc::from(&b""[..]), 1), BlockingMode::Never)
    }

    fn connect_from(source: u8) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connector = connector(Address::Tcp(address));
        connector.source = source;
        let (fd, _) = connector.open().unwrap();
        getsockname(&fd).unwrap().try_into().unwrap()
    }

    #[test]
    fn a_source_in_127_8_is_used_with_a_port_of_the_kernels_choice() {
        assert_eq!(connect_from(0).ip(), Ipv4Addr::new(127, 0, 0, 1));
        let from = connect_from(7);
        assert_eq!(from.ip(), Ipv4Addr::new(127, 0, 0, 7));
        assert_ne!(from.port(), 0);
    }

    #[test]
    fn a_refused_address_is_not_tried_from_elsewhere() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        drop(listener);
        let mut connector = connector(address);
        // On loopback the refusal comes at once or as the outcome of the pending connection.
        if let Err(failure) = connector.open() {
            assert_eq!(failure, Failure::Refused);
        }
        assert_eq!(connector.source, 0);
    }
}
