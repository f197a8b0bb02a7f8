//! The ways between which a message's cost is compared.

/// Bytes of a message: a small request or response, and a page.
pub(super) const SIZES: [usize; 2] = [100, 16 * 1024];

/// A way from the client to the server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A Unix stream socket.
    Unix,
    /// TCP over the loopback device.
    Tcp,
    /// The same, with connection tracking.
    TcpTracked,
    /// TCP between two namespaces, over a pair of virtual devices that leave checksums out.
    TcpVeth,
    /// The same, with checksums.
    TcpVethSummed,
    /// A Unix datagram socket.
    UnixDatagram,
    /// UDP over the loopback device.
    Udp,
    /// The same, with connection tracking.
    UdpTracked,
    /// A Unix stream socket, a new connection for each message.
    UnixNew,
    /// TCP over the loopback device, a new connection for each message.
    TcpNew,
    /// The same, with connection tracking.
    TcpNewTracked,
}

impl Way {
    pub(super) const ALL: [Way; 11] = [
        Way::Unix,
        Way::Tcp,
        Way::TcpTracked,
        Way::TcpVeth,
        Way::TcpVethSummed,
        Way::UnixDatagram,
        Way::Udp,
        Way::UdpTracked,
        Way::UnixNew,
        Way::TcpNew,
        Way::TcpNewTracked,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Unix => "Unix stream",
            Way::Tcp => "TCP",
            Way::TcpTracked => "TCP, connection tracking",
            Way::TcpVeth => "TCP over veth, no checksums",
            Way::TcpVethSummed => "TCP over veth, checksums",
            Way::UnixDatagram => "Unix datagram",
            Way::Udp => "UDP",
            Way::UdpTracked => "UDP, connection tracking",
            Way::UnixNew => "Unix stream, new connections",
            Way::TcpNew => "TCP, new connections",
            Way::TcpNewTracked => "TCP, new connections, connection tracking",
        }
    }

    /// The way from which this one differs in one thing.
    pub(super) fn reference(self) -> Option<Way> {
        match self {
            Way::Unix | Way::UnixDatagram | Way::UnixNew => None,
            Way::Tcp => Some(Way::Unix),
            Way::TcpTracked | Way::TcpVeth => Some(Way::Tcp),
            Way::TcpVethSummed => Some(Way::TcpVeth),
            Way::Udp => Some(Way::UnixDatagram),
            Way::UdpTracked => Some(Way::Udp),
            Way::TcpNew => Some(Way::UnixNew),
            Way::TcpNewTracked => Some(Way::TcpNew),
        }
    }

    /// New connections are measured with small messages only: their size changes nothing about
    /// connecting.
    pub(super) fn carries(self, size: usize) -> bool {
        !matches!(self, Way::UnixNew | Way::TcpNew | Way::TcpNewTracked) || size == SIZES[0]
    }

    pub(super) fn is_tracked(self) -> bool {
        matches!(self, Way::TcpTracked | Way::UdpTracked | Way::TcpNewTracked)
    }

    pub(super) fn is_over_veth(self) -> bool {
        matches!(self, Way::TcpVeth | Way::TcpVethSummed)
    }

    /// As the client's process is told.
    pub(super) fn word(self) -> &'static str {
        match self {
            Way::Unix => "unix",
            Way::UnixNew => "unix-new",
            Way::UnixDatagram => "unix-dgram",
            Way::Tcp | Way::TcpTracked | Way::TcpVeth | Way::TcpVethSummed => "tcp",
            Way::TcpNew | Way::TcpNewTracked => "tcp-new",
            Way::Udp | Way::UdpTracked => "udp",
        }
    }
}
