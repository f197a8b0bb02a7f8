//! A real server that follows a script, on its own thread.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::script::{Act, Script};

/// Limit on one read: longer requests find the socket full.
const PIECE: usize = 8191;

/// How long nothing must happen before postponed acts are done.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Its listening socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(super) fn unix(path: &Path) -> Listener {
        Listener::Unix(UnixListener::bind(path).unwrap())
    }

    pub(super) fn tcp() -> (Listener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (Listener::Tcp(listener), port)
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        let socket: OwnedFd = match self {
            Listener::Tcp(listener) => listener.accept()?.0.into(),
            Listener::Unix(listener) => listener.accept()?.0.into(),
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }
}

/// A server that runs until it is dropped.
pub(super) struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Follows `script`; each request has `request_bytes`.
    pub(super) fn start(listener: Listener, script: Script, request_bytes: usize) -> Server {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let mut event_loop = ServerLoop {
            listener,
            script,
            request_bytes,
            taken: 0,
            peers: Vec::new(),
            postponed: Vec::new(),
        };
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                event_loop.turn();
            }
        });
        Server { stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the scripted server failed");
        }
    }
}

struct Peer {
    socket: OwnedFd,
    /// Bytes of the current request.
    received: usize,
}

/// The rest of a response, to be sent later.
struct PostponedResponse {
    peer: usize,
    bytes: Vec<u8>,
    act: Act,
}

struct ServerLoop {
    listener: Listener,
    script: Script,
    request_bytes: usize,
    /// Requests taken so far.
    taken: usize,
    peers: Vec<Option<Peer>>,
    postponed: Vec<PostponedResponse>,
}

impl ServerLoop {
    fn turn(&mut self) {
        let open: Vec<usize> =
            (0..self.peers.len()).filter(|peer| self.peers[*peer].is_some()).collect();
        let mut fds = vec![PollFd::from_borrowed_fd(self.listener.fd(), PollFlags::IN)];
        let sockets = open.iter().filter_map(|peer| self.peers[*peer].as_ref());
        fds.extend(sockets.map(|peer| PollFd::new(&peer.socket, PollFlags::IN)));
        if poll(&mut fds, Some(&IDLE)).unwrap_or(0) == 0 {
            return self.do_postponed();
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for (peer, _) in open.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.read(*peer);
        }
        if ready[0]
            && let Ok(socket) = self.listener.accept()
        {
            self.peers.push(Some(Peer { socket, received: 0 }));
        }
    }

    fn do_postponed(&mut self) {
        while let Some(PostponedResponse { peer, bytes, act }) = self.postponed.pop() {
            self.send(peer, &bytes, act);
        }
    }

    fn read(&mut self, index: usize) {
        let Some(peer) = &mut self.peers[index] else { return };
        let mut buffer = [0u8; PIECE];
        match recv(&peer.socket, &mut buffer, RecvFlags::empty()) {
            Ok((0, _)) => self.peers[index] = None,
            Ok((n, _)) => peer.received += n,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.peers[index] = None,
        }
        let Some(peer) = &mut self.peers[index] else { return };
        assert!(peer.received <= self.request_bytes, "one request at a time on a connection");
        if peer.received == self.request_bytes {
            peer.received = 0;
            let act = self.script.act(self.taken);
            self.taken += 1;
            self.perform(index, act);
        }
    }

    fn perform(&mut self, index: usize, act: Act) {
        let (bytes, first) = act.bytes();
        match act {
            Act::Stall => {}
            Act::Late => self.postponed.push(PostponedResponse { peer: index, bytes, act }),
            Act::Cut(_) => {
                let rest = bytes[first..].to_vec();
                self.send(index, &bytes[..first], Act::Answer);
                self.postponed.push(PostponedResponse {
                    peer: index,
                    bytes: rest,
                    act: Act::Answer,
                });
            }
            _ => self.send(index, &bytes, act),
        }
    }

    fn send(&mut self, index: usize, bytes: &[u8], act: Act) {
        let Some(peer) = &self.peers[index] else { return };
        // Responses are short and only one is outstanding at a time, so there is always room. A
        // client that has gone records the fault itself.
        let _ = send(&peer.socket, bytes, SendFlags::NOSIGNAL);
        if matches!(act, Act::Reset(_)) {
            let _ = sockopt::set_socket_linger(&peer.socket, Some(Duration::ZERO));
        }
        if act.closes() {
            self.peers[index] = None;
        }
    }
}
