//! Which user of this machine has a connection's other end, over a loopback address.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;

/// `TCP_ESTABLISHED`. A socket that its process has closed belongs to no user: the kernel says 0, which
/// is root.
const ESTABLISHED: u8 = 1;

/// `IPPROTO_TCP`.
const TCP: u8 = 6;

/// A `struct nlmsghdr`.
const HEADER: usize = 16;

/// Ports and addresses in a `struct inet_diag_sockid`.
const SOCKET_ID_BYTES: usize = 36;

/// Where an answer, a `struct inet_diag_msg`, has the state, the socket and its user.
const STATE_AT: usize = HEADER + 1;
const SOCKET_ID_AT: usize = HEADER + 4;
const USER_AT: usize = HEADER + 64;

/// A socket to ask the kernel for the owners of other sockets (sock_diag(7)).
#[derive(Debug)]
pub(crate) struct LocalUsers(Option<OwnedFd>);

impl LocalUsers {
    /// Without the kernel's help no user is known.
    pub(crate) fn new() -> LocalUsers {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::SOCK_DIAG);
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        LocalUsers(rustix::net::socket_with(family, kind, flags, protocol).ok())
    }

    /// The number of the user who has the TCP socket at an address of this machine that is connected
    /// to another one.
    pub(crate) fn of(&self, at: SocketAddr, to: SocketAddr) -> Option<u32> {
        let socket = self.0.as_ref()?;
        let id = socket_id(at, to);
        rustix::net::send(socket, &request(at.ip(), id), SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        // The kernel has answered by now. An answer to an earlier request may be left.
        while let Ok((_, bytes)) = rustix::net::recv(socket, &mut answer, RecvFlags::empty()) {
            let answer = answer.get(..bytes)?;
            let kind = answer.get(4..6)?;
            if kind == BY_FAMILY.to_ne_bytes()
                && answer.get(SOCKET_ID_AT..SOCKET_ID_AT + SOCKET_ID_BYTES)? == id
            {
                let user = answer.get(USER_AT..USER_AT + 4)?.try_into().ok()?;
                let is_open = answer.get(STATE_AT) == Some(&ESTABLISHED);
                return is_open.then_some(u32::from_ne_bytes(user));
            }
        }
        None
    }
}

/// Ports and addresses in network byte order.
fn socket_id(at: SocketAddr, to: SocketAddr) -> [u8; SOCKET_ID_BYTES] {
    let mut id = [0; SOCKET_ID_BYTES];
    id[0..2].copy_from_slice(&at.port().to_be_bytes());
    id[2..4].copy_from_slice(&to.port().to_be_bytes());
    for (from, address) in [(4, at.ip()), (20, to.ip())] {
        match address.to_canonical() {
            IpAddr::V4(address) => id[from..from + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => id[from..from + 16].copy_from_slice(&address.octets()),
        }
    }
    id
}

/// A header and a `struct inet_diag_req_v2` for one socket.
fn request(at: IpAddr, id: [u8; SOCKET_ID_BYTES]) -> Vec<u8> {
    let family = match at.to_canonical() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut rest = vec![family.as_raw() as u8, TCP, 0, 0];
    // In any state.
    rest.extend(u32::MAX.to_ne_bytes());
    rest.extend(id);
    // On any interface, and without a cookie.
    rest.extend(0_u32.to_ne_bytes());
    rest.extend([0xff; 8]);
    let mut request = ((HEADER + rest.len()) as u32).to_ne_bytes().to_vec();
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence number and port id are not used.
    request.extend([0; 8]);
    request.extend(rest);
    request
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_of_a_local_connection_is_known() {
        let users = LocalUsers::new();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let to = listener.local_addr().unwrap();
            let stream = TcpStream::connect(to).unwrap();
            let at = stream.local_addr().unwrap();
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(users.of(at, to), Some(own), "{address}");
            drop(stream);
            assert_eq!(users.of(at, to), None, "{address}: it is closed");
        }
    }

    #[test]
    fn an_address_of_ipv4_in_ipv6_is_one_of_ipv4() {
        let [plain, mapped] =
            ["127.0.0.1:7", "[::ffff:127.0.0.1]:7"].map(|address| address.parse().unwrap());
        assert_eq!(socket_id(plain, plain), socket_id(mapped, mapped));
    }
}
