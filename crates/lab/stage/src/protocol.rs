//! The messages between tachograph and a stack's guard: JSON, one per line.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use base::CpuSet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::accounting::Accounting;
use crate::cgroup::Cgroup;
use crate::process_exit::ProcessExit;

/// Limit on a message; a longer one is a mistake.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Requests to the guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum GuardRequest {
    /// The first message: the guard's responsibilities.
    Setup(Setup),
    /// Start a process.
    Launch(Launch),
    /// Send a signal to a process, or to its oldest heir.
    Signal { index: usize, signal: i32 },
    /// Run a shell command as part of the stack; its end is reported.
    Command(Launch),
    /// Add every process of the stack to its list, for a later sweep.
    Remember,
    /// Stop everything in reverse order, remove the stack's files, and exit.
    Stop,
}

/// The guard's responsibilities.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The value of `TACHOGRAPH_STACK` in every process.
    pub(crate) stack: String,
    /// The stack's folder, removed at the end.
    pub(crate) dir: PathBuf,
    /// The CPUs that the stack may use; none means all.
    pub(crate) cpus: CpuSet,
    /// How to count CPU time.
    pub(crate) accounting: Accounting,
}

/// A process to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    /// Variables to add to the guard's own environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) working_dir: Option<PathBuf>,
    /// The file for standard output and standard error.
    pub(crate) log: PathBuf,
    pub(crate) stop_signal: i32,
    pub(crate) stop_timeout_ms: u64,
    /// The CPUs that it may use; empty for those of the stack.
    pub(crate) cpus: CpuSet,
    /// Whether to signal the whole process group, because a shell leads it.
    pub(crate) signal_group: bool,
}

/// The guard's replies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The guard is set up; how it counts CPU time.
    Ready { cgroup: Option<Cgroup> },
    /// The last request failed.
    Failed { why: String },
    /// A process was started.
    Launched { pid: i32 },
    /// The signal was sent to this process; `None` if none was left.
    Signalled { pid: Option<i32> },
    /// A shell command has ended.
    CommandEnded { pid: i32, ended: ProcessExit },
    /// Every process is listed.
    Remembered,
    /// A process has ended; `index` is its position in starting order.
    Ended {
        index: usize,
        ended: ProcessExit,
        /// Whether its children live on.
        left_behind: bool,
    },
    /// Everything has stopped.
    Stopped {
        /// Messages about processes that had to be killed.
        killed: Vec<String>,
        /// Processes that survived SIGKILL.
        left: Vec<i32>,
    },
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    buffer: Vec<u8>,
    closed: bool,
}

impl Channel {
    /// Takes over one end of a socket pair.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel { stream, buffer: Vec::new(), closed: false })
    }

    /// The socket, to poll.
    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether the other end is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends a message. Messages are few and small, so a full socket means that the peer is stuck;
    /// after five seconds it counts as gone.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(std::time::Duration::from_secs(5)))?;
        let sent = self.stream.write_all(&line);
        self.stream.set_nonblocking(true)?;
        sent.inspect_err(|_| self.closed = true)
    }

    /// All messages since the last call; does not wait.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Vec<T>> {
        let mut chunk = [0; 16 << 10];
        while !self.closed {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.closed = true,
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
            if self.buffer.len() > MESSAGE_BYTES_MAX {
                self.closed = true;
                return Err(io::Error::other("a message of the guard's channel is too long"));
            }
        }
        let mut messages = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            messages.push(serde_json::from_slice(&line)?);
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_the_end_is_noticed() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut here = Channel::new(here).unwrap();
        let mut there = Channel::new(there).unwrap();
        assert!(there.receive::<GuardRequest>().unwrap().is_empty());
        here.send(&GuardRequest::Stop).unwrap();
        here.send(&GuardRequest::Remember).unwrap();
        let received: Vec<GuardRequest> = there.receive().unwrap();
        assert!(matches!(received[..], [GuardRequest::Stop, GuardRequest::Remember]));
        assert!(!there.is_closed());
        drop(here);
        assert!(there.receive::<GuardRequest>().unwrap().is_empty());
        assert!(there.is_closed());
    }

    #[test]
    fn half_a_message_waits_for_its_other_half() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut there = Channel::new(there).unwrap();
        here.write_all(b"\"St").unwrap();
        assert!(there.receive::<GuardRequest>().unwrap().is_empty());
        here.write_all(b"op\"\n").unwrap();
        assert_eq!(there.receive::<GuardRequest>().unwrap().len(), 1);
    }
}
