//! A successor takes over the sockets, the connections, and the journal.
//!
//! ```text
//!  running daemon                                   successor
//!  SIGHUP: starts the program at its own path ────→ reads its options, opens the record
//!                                            ←───── READY     … or it ends: nothing changes
//!  answers requests in progress, writes a batch
//!  stops reading; the journal is closed
//!  sockets, connections, half-read lines ─────────→ opens the journal
//!                                            ←───── OPEN      … or it is killed, and the running
//!  YOURS ─────────────────────────────────────────→ reads         daemon goes on
//!                                                   tells systemd that it is the daemon
//!  ends                                      ←───── SERVING   … or it ends: this one fails too
//! ```
//!
//! Each step has a time limit, and the running daemon gives up as well if it is told to stop. It ends
//! last, because systemd ends all processes of a service with the one that it takes for the daemon.
//!
//! They talk over a pair of Unix sockets; the successor's end is its standard input. Before YOURS
//! it reads nothing from the connections, so the running daemon can go on with them as they are.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::handover_item::{HandoverItem, ItemKind};

/// The environment variable that tells a successor that its standard input is a socket.
const VARIABLE: &str = "TACHOGRAPH_SUCCESSOR";

/// How long a successor may take to start.
const START: Duration = Duration::from_secs(30);

/// How long it may take to receive everything.
const RECEIVE: Duration = Duration::from_secs(10);

/// How long it may take to open the journal.
const OPEN: Duration = Duration::from_secs(30);

/// How long it may take to serve. An earlier version never says that it does.
const SERVE: Duration = Duration::from_secs(5);

/// How often to look whether a step takes too long.
const TICK: Duration = Duration::from_millis(20);

/// Descriptors that are sent together; the kernel allows 253.
const TOGETHER: usize = 64;

/// Limit on the description of what is sent together.
const DESCRIPTION_MAX: usize = 64 << 20;

/// Limit on what was read ahead of one connection.
const AHEAD_MAX: usize = 64 << 20;

const READY: u8 = b'R';
const OPENED: u8 = b'O';
const YOURS: u8 = b'Y';
const SERVING: u8 = b'S';

/// Why there is no successor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSuccessor {
    #[error("{} cannot be started ({cause})", .program.display())]
    Start { program: PathBuf, cause: io::Error },
    #[error("the new process did not get ready: {0}")]
    NotReady(Ending),
    #[error("the new process could not take over: {0}")]
    NotOpen(Ending),
}

/// How a successor failed.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It ended.
    Ended(std::process::ExitStatus),
    /// It did not answer in time.
    Late(Duration),
    /// It cannot be talked to.
    Broken(io::Error),
    /// The running daemon is to stop, and needs none.
    Unwanted,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Ended(status) => write!(f, "it ended with {status}"),
            Ending::Late(limit) => write!(f, "it did not answer within {} s", limit.as_secs()),
            Ending::Broken(cause) => write!(f, "the connection to it failed ({cause})"),
            Ending::Unwanted => f.write_str("this process was told to stop"),
        }
    }
}

impl From<io::Error> for Ending {
    fn from(cause: io::Error) -> Ending {
        Ending::Broken(cause)
    }
}

/// The time that a step may take, and whether to give up before.
struct Limit<'a> {
    time: Duration,
    until: Instant,
    give_up: &'a AtomicBool,
}

impl<'a> Limit<'a> {
    fn new(time: Duration, give_up: &'a AtomicBool) -> Limit<'a> {
        Limit { time, until: Instant::now() + time, give_up }
    }

    /// The result of a read or write of a socket that waits for a [`TICK`] at most; it is repeated
    /// while the other side is not ready.
    fn wait<T>(&self, mut work: impl FnMut() -> io::Result<T>) -> Result<T, Ending> {
        loop {
            if self.give_up.load(Ordering::Relaxed) {
                return Err(Ending::Unwanted);
            }
            if Instant::now() >= self.until {
                return Err(Ending::Late(self.time));
            }
            match work() {
                Ok(done) => return Ok(done),
                Err(error) if is_not_ready(&error) => {}
                Err(error) => return Err(Ending::Broken(error)),
            }
        }
    }
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A successor that is ready. It is killed when this is dropped before it has taken over.
#[derive(Debug)]
pub(crate) struct Successor {
    child: Option<Child>,
    socket: UnixStream,
}

impl Successor {
    /// Starts the program with the arguments of this process, and waits until it is ready.
    pub(crate) fn start(program: &Path) -> Result<Successor, NoSuccessor> {
        let failed = |cause| NoSuccessor::Start { program: program.to_owned(), cause };
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        socket.set_read_timeout(Some(TICK)).map_err(failed)?;
        socket.set_write_timeout(Some(TICK)).map_err(failed)?;
        let child = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, "1")
            // It names this process. The successor is watched like it.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(failed)?;
        let mut successor = Successor { child: Some(child), socket };
        let never = AtomicBool::new(false);
        successor.expect(READY, &Limit::new(START, &never)).map_err(NoSuccessor::NotReady)?;
        Ok(successor)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map(Child::id).unwrap_or_default()
    }

    /// Hands everything over, unless it is told to give up. From then on this process must not touch
    /// it.
    pub(crate) fn hand_over(
        mut self,
        left: &[HandoverItem],
        give_up: &AtomicBool,
    ) -> Result<SuccessorInCharge, NoSuccessor> {
        send(&self.socket, left, &Limit::new(RECEIVE, give_up)).map_err(NoSuccessor::NotOpen)?;
        self.expect(OPENED, &Limit::new(OPEN, give_up)).map_err(NoSuccessor::NotOpen)?;
        // This fails only if the new process has died meanwhile. Nothing is lost then: what was read
        // is in the journal.
        let _ = self.socket.write_all(&[YOURS]);
        Ok(SuccessorInCharge(self))
    }

    fn expect(&mut self, wanted: u8, limit: &Limit<'_>) -> Result<(), Ending> {
        let mut byte = [0];
        match limit.wait(|| self.socket.read(&mut byte))? {
            1 if byte == [wanted] => Ok(()),
            0 => Err(self.ended()),
            _ => Err(Ending::Broken(io::ErrorKind::InvalidData.into())),
        }
    }

    /// The status of a process that has closed its end.
    fn ended(&mut self) -> Ending {
        match self.child.as_mut().map(|child| (child.kill(), child.wait())) {
            Some((_, Ok(status))) => Ending::Ended(status),
            Some((_, Err(error))) => Ending::Broken(error),
            None => Ending::Broken(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// A successor to which everything belongs.
#[derive(Debug)]
pub(crate) struct SuccessorInCharge(Successor);

impl SuccessorInCharge {
    /// Waits until it serves, or this process is told to stop.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) fn serves(mut self, give_up: &AtomicBool) -> Result<(), Ending> {
        match self.0.expect(SERVING, &Limit::new(SERVE, give_up)) {
            Err(ending @ (Ending::Ended(_) | Ending::Broken(_))) => Err(ending),
            Ok(()) | Err(Ending::Late(_) | Ending::Unwanted) => {
                self.0.child = None;
                Ok(())
            }
        }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The side of a successor.
#[derive(Debug)]
pub(crate) struct Predecessor {
    socket: UnixStream,
}

impl Predecessor {
    /// The process that started this one as its successor, if so.
    pub(crate) fn find() -> io::Result<Option<Predecessor>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Some(Predecessor { socket }))
    }

    /// Tells that this process is ready, and receives what is handed over.
    pub(crate) fn take(&mut self) -> io::Result<Vec<HandoverItem>> {
        self.socket.write_all(&[READY])?;
        receive(&self.socket)
    }

    /// Tells that the journal is open, and waits until the sockets may be used.
    ///
    /// If the predecessor has died, they may be used too.
    pub(crate) fn confirm(&mut self) {
        let _ = self.socket.write_all(&[OPENED]);
        let _ = self.socket.read(&mut [0]);
    }

    /// Tells that this process serves, and that systemd knows it. Then the predecessor ends.
    pub(crate) fn serves(mut self) {
        // An earlier version has ended.
        let _ = self.socket.write_all(&[SERVING]);
    }
}

/// Sends everything in parts: the length of a description with the descriptors, the description,
/// what was read ahead of each connection.
fn send(socket: &UnixStream, left: &[HandoverItem], limit: &Limit<'_>) -> Result<(), Ending> {
    for part in left.chunks(TOGETHER).chain([&[][..]]) {
        let what: Vec<(&ItemKind, usize)> =
            part.iter().map(|left| (&left.what, left.what.ahead().len())).collect();
        let description = serde_json::to_vec(&what).map_err(io::Error::from)?;
        let length = u32::try_from(description.len()).map_err(io::Error::other)?.to_le_bytes();
        let fds: Vec<BorrowedFd<'_>> = part.iter().map(|left| left.fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TOGETHER))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory).into());
        }
        let length = [IoSlice::new(&length)];
        limit.wait(|| Ok(sendmsg(socket, &length, &mut ancillary, SendFlags::NOSIGNAL)?))?;
        write_all(socket, &description, limit)?;
        part.iter().try_for_each(|left| write_all(socket, left.what.ahead(), limit))?;
    }
    Ok(())
}

fn write_all(mut socket: &UnixStream, mut bytes: &[u8], limit: &Limit<'_>) -> Result<(), Ending> {
    while !bytes.is_empty() {
        let count = limit.wait(|| socket.write(bytes))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn receive(mut socket: &UnixStream) -> io::Result<Vec<HandoverItem>> {
    let mut left = Vec::new();
    loop {
        let mut length = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TOGETHER))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let got = recvmsg(socket, &mut [IoSliceMut::new(&mut length)], &mut ancillary, flags)?;
        if got.bytes != length.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > DESCRIPTION_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut description = vec![0; length];
        socket.read_exact(&mut description)?;
        let what: Vec<(ItemKind, usize)> = serde_json::from_slice(&description)?;
        if what.is_empty() {
            return Ok(left);
        }
        if what.len() != fds.len() || what.iter().any(|(_, length)| *length > AHEAD_MAX) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for (fd, (mut what, length)) in fds.into_iter().zip(what) {
            let mut ahead = vec![0; length];
            socket.read_exact(&mut ahead)?;
            what.set_ahead(ahead);
            left.push(HandoverItem { fd, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_stalled_successor_is_given_up_in_time_or_at_once() {
        let left = [HandoverItem {
            fd: std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
            what: ItemKind::Http { sender: String::new(), ahead: vec![1; 8 << 20] },
        }];
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_write_timeout(Some(TICK)).unwrap();
        let short = Duration::from_millis(100);
        let late = send(&ours, &left, &Limit::new(short, &NEVER)).unwrap_err();
        assert!(matches!(late, Ending::Late(limit) if limit == short), "{late}");
        let give_up = AtomicBool::new(true);
        let unwanted = send(&ours, &left, &Limit::new(RECEIVE, &give_up)).unwrap_err();
        assert!(matches!(unwanted, Ending::Unwanted), "{unwanted}");
    }

    #[test]
    fn more_than_the_kernel_sends_at_a_time_arrives_in_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let left: Vec<HandoverItem> = (0..150)
            .map(|i| HandoverItem {
                fd: std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
                what: ItemKind::Http { sender: i.to_string(), ahead: vec![i as u8; 1_000] },
            })
            .collect();
        let received = std::thread::scope(|scope| {
            let received = scope.spawn(|| receive(&theirs).unwrap());
            send(&ours, &left, &Limit::new(RECEIVE, &NEVER)).unwrap();
            received.join().unwrap()
        });
        let whats =
            |left: &[HandoverItem]| left.iter().map(|left| left.what.clone()).collect::<Vec<_>>();
        assert_eq!(whats(&received), whats(&left));
        let inode = |left: &HandoverItem| rustix::fs::fstat(&left.fd).unwrap().st_ino;
        assert!(received.iter().zip(&left).all(|(new, old)| inode(new) == inode(old)));
    }

    #[test]
    fn hundreds_of_half_read_frames_are_handed_over() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let left: Vec<HandoverItem> = (0..130)
            .map(|_| HandoverItem {
                fd: std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
                what: ItemKind::Lines {
                    service: Service::Pickle,
                    sender: String::new(),
                    half: vec![255; formats::pickle::FRAME_MAX],
                    skipping: false,
                },
            })
            .collect();
        std::thread::scope(|scope| {
            let received = scope.spawn(|| receive(&theirs).unwrap());
            send(&ours, &left, &Limit::new(RECEIVE, &NEVER)).unwrap();
            let received = received.join().unwrap();
            assert!(received.iter().map(|left| &left.what).eq(left.iter().map(|left| &left.what)));
        });
    }

    #[test]
    fn a_predecessor_that_dies_hands_over_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
