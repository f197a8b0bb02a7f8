//! Sockets of every kind, bound and connected.

use std::fs::{self, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{AddressFamily, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};

use tokio_rustls::server::TlsStream;

use crate::Address;
use crate::access::Link;
use crate::local_user::LocalUsers;
use crate::places::Holder;

/// Wanted size of the kernel's buffer for datagrams; the kernel may give less.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Silence of a connection after which the kernel asks whether the other machine is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// A bound socket.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener),
    Udp(UdpSocket),
    Unix(UnixListener),
    UnixDatagram(UnixDatagram),
}

impl BoundSocket {
    /// Binds a socket; one that a killed process left behind is replaced.
    ///
    /// Unix sockets get the permissions `mode`. The umask of the daemon keeps others out until then.
    pub(crate) async fn new(address: &Address, mode: u32) -> io::Result<BoundSocket> {
        Ok(match address {
            Address::Tcp(at) => BoundSocket::Tcp(TcpListener::bind(at).await?),
            Address::Udp(at) => {
                let socket = UdpSocket::bind(at).await?;
                sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
                BoundSocket::Udp(socket)
            }
            Address::Unix(path) => {
                remove_unused(path, || std::os::unix::net::UnixStream::connect(path).is_ok())?;
                let socket = UnixListener::bind(path)?;
                fs::set_permissions(path, Permissions::from_mode(mode))?;
                BoundSocket::Unix(socket)
            }
            Address::UnixDatagram(path) => {
                let is_used = || {
                    let socket = std::os::unix::net::UnixDatagram::unbound();
                    socket.and_then(|socket| socket.connect(path)).is_ok()
                };
                remove_unused(path, is_used)?;
                let socket = UnixDatagram::bind(path)?;
                fs::set_permissions(path, Permissions::from_mode(mode))?;
                BoundSocket::UnixDatagram(socket)
            }
        })
    }

    /// The address, with the port that the kernel chose.
    pub(crate) fn address(&self, wanted: &Address) -> io::Result<Address> {
        Ok(match self {
            BoundSocket::Tcp(socket) => Address::Tcp(socket.local_addr()?),
            BoundSocket::Udp(socket) => Address::Udp(socket.local_addr()?),
            BoundSocket::Unix(_) | BoundSocket::UnixDatagram(_) => wanted.clone(),
        })
    }

    /// A socket that was handed over, of the kind of an address.
    pub(crate) fn adopted(fd: OwnedFd, address: &Address) -> io::Result<BoundSocket> {
        Ok(match address {
            Address::Tcp(_) => BoundSocket::Tcp(TcpListener::from_std(fd.into())?),
            Address::Udp(_) => BoundSocket::Udp(UdpSocket::from_std(fd.into())?),
            Address::Unix(_) => BoundSocket::Unix(UnixListener::from_std(fd.into())?),
            Address::UnixDatagram(_) => {
                BoundSocket::UnixDatagram(UnixDatagram::from_std(fd.into())?)
            }
        })
    }

    /// The same socket with another descriptor; its address in the options tells its kind.
    pub(crate) fn again(&self, address: &Address) -> io::Result<BoundSocket> {
        let fd = match self {
            BoundSocket::Tcp(socket) => socket.as_fd(),
            BoundSocket::Udp(socket) => socket.as_fd(),
            BoundSocket::Unix(socket) => socket.as_fd(),
            BoundSocket::UnixDatagram(socket) => socket.as_fd(),
        };
        BoundSocket::adopted(fd.try_clone_to_owned()?, address)
    }

    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(match self {
            BoundSocket::Tcp(socket) => socket.into_std()?.into(),
            BoundSocket::Udp(socket) => socket.into_std()?.into(),
            BoundSocket::Unix(socket) => socket.into_std()?.into(),
            BoundSocket::UnixDatagram(socket) => socket.into_std()?.into(),
        })
    }

    /// The next connection, and the address of its sender; Unix sockets have none.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            BoundSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are short, and senders wait for them.
                stream.set_nodelay(true)?;
                // A machine that is gone sends nothing any more, not even an end.
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE)?;
                Ok((Stream::Tcp(stream), Some(peer.ip().to_canonical())))
            }
            BoundSocket::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
            BoundSocket::Udp(_) | BoundSocket::UnixDatagram(_) => {
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }
}

/// The name of senders that use Unix sockets.
const UNIX: &str = "unix";

/// The name of a sender.
pub(crate) fn name_of(sender: Option<IpAddr>) -> String {
    sender.map_or_else(|| UNIX.to_owned(), |address| address.to_string())
}

/// Removes a socket that no process uses.
fn remove_unused(path: &Path, is_used: impl FnOnce() -> bool) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && !is_used() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.readable().await,
            Stream::Unix(stream) => stream.readable().await,
            Stream::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }

    /// Who holds its place: the network of the sender, or the user of this machine over a Unix socket
    /// or a loopback address.
    pub(crate) fn holder(&self, sender: Option<IpAddr>, users: &LocalUsers) -> Option<Holder> {
        let local =
            |stream: &TcpStream| users.of(stream.peer_addr().ok()?, stream.local_addr().ok()?);
        match (sender, self) {
            (Some(sender), Stream::Tcp(stream)) if sender.to_canonical().is_loopback() => {
                Some(local(stream).map_or_else(|| Holder::network(sender), Holder::User))
            }
            (Some(sender), _) => Some(Holder::network(sender)),
            (None, Stream::Unix(stream)) => {
                stream.peer_cred().ok().map(|peer| Holder::User(peer.uid()))
            }
            (None, _) => None,
        }
    }

    pub(crate) fn link(&self) -> Link {
        match self {
            Stream::Tcp(_) => Link::Tcp,
            Stream::Unix(_) => Link::Unix,
            Stream::Tls(_) => Link::Tls,
        }
    }

    /// A connection that was handed over.
    pub(crate) fn adopted(fd: OwnedFd) -> io::Result<Stream> {
        Ok(match sockopt::socket_domain(&fd)? {
            AddressFamily::UNIX => Stream::Unix(UnixStream::from_std(fd.into())?),
            _ => Stream::Tcp(TcpStream::from_std(fd.into())?),
        })
    }

    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Stream::Tcp(stream) => stream.into_std()?.into(),
            Stream::Unix(stream) => stream.into_std()?.into(),
            // Its keys are in this process.
            Stream::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// The socket, once more, for looking at.
    pub(crate) fn socket(&self) -> io::Result<OwnedFd> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.get_ref().0.as_fd(),
        }
        .try_clone_to_owned()
    }

    /// Reads what is there.
    pub(crate) fn try_read_buf(&self, to: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_read_buf(to),
            Stream::Unix(stream) => stream.try_read_buf(to),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Makes the end of a TCP connection a reset unless `close` is called, so that the sender gets an
    /// error even if this process is killed. Unix sockets cannot be reset.
    pub(crate) fn abort_on_close(&self) {
        self.linger(Some(Duration::ZERO));
    }

    /// Closes it in order, which the sender takes as an acknowledgement.
    pub(crate) fn close(self) {
        self.linger(None);
    }

    /// Closes it so that the sender gets an error, where the protocol has one.
    pub(crate) fn abort(self) {
        self.abort_on_close();
    }

    fn linger(&self, linger: Option<Duration>) {
        if let Stream::Tcp(stream) = self {
            // The option fails only for a socket that is broken already.
            let _ = sockopt::set_socket_linger(stream, linger);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, to),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, to),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, to),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
