//! The channel to our program at the far end, and the ssh process that carries it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::reach::greeting::Facts;
use crate::reach::{Cause, Host, ReachError, refusal};

/// How long ssh may take to end by itself after its input has ended.
const GRACE: Duration = Duration::from_secs(2);

/// How much of ssh's messages is kept.
const SAID_BYTES_MAX: usize = 1 << 16;

/// ssh's status when ssh itself failed (ssh(1), EXIT STATUS).
const SSH_FAILED: i32 = 255;

/// Our program at the far end.
///
/// To end it, drop the writer: the program there sees the end of its input.
#[derive(Debug)]
pub struct Channel {
    /// What the program there writes to its standard output.
    pub reader: FarOutput,
    /// Its standard input.
    pub writer: ChildStdin,
    /// What was learned on the way.
    pub facts: Facts,
    /// The ssh process.
    pub ssh: Ssh,
}

/// The output of the program at the far end.
#[derive(Debug)]
pub struct FarOutput {
    kept: Vec<u8>,
    used: usize,
    out: ChildStdout,
}

impl FarOutput {
    pub(crate) fn new(kept: Vec<u8>, out: ChildStdout) -> FarOutput {
        FarOutput { kept, used: 0, out }
    }
}

impl Read for FarOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.kept.len() {
            return self.out.read(buffer);
        }
        let count = (&self.kept[self.used..]).read(buffer)?;
        self.used += count;
        Ok(count)
    }
}

impl AsFd for FarOutput {
    /// The pipe. Bytes that came together with the far end's greeting are not in it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }
}

/// The ssh process of a channel. When it is dropped, ssh has two seconds to end by itself, and is
/// then killed.
#[derive(Debug)]
pub struct Ssh {
    host: Host,
    /// [`ReachError::ssh`].
    command: Arc<Vec<String>>,
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    said_all: Option<Receiver<()>>,
}

impl Ssh {
    pub(crate) fn new(host: Host, command: Arc<Vec<String>>, child: Child) -> Ssh {
        Ssh { host, command, child, said: Arc::default(), said_all: None }
    }

    /// Collects what ssh and the far end print to standard error.
    pub(crate) fn listen(&mut self, mut errors: ChildStderr) -> io::Result<()> {
        let (sender, receiver) = channel();
        self.said_all = Some(receiver);
        let said = Arc::clone(&self.said);
        // It ends with the last process that has the pipe, which may be a shared connection of the
        // user's, so nothing waits for it.
        thread::Builder::new().name("ssh-messages".to_owned()).spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = match errors.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.extend_from_slice(&buffer[..count]);
                let excess = said.len().saturating_sub(SAID_BYTES_MAX);
                said.drain(..excess);
            }
            // The receiver is gone once the channel is closed.
            let _ = sender.send(());
        })?;
        Ok(())
    }

    /// The host that it reaches.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What ssh, and the program at the far end, have printed to standard error: the last 64 KiB.
    pub fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }

    /// [`Ssh::said`] once it has ended. A process may end before its last message has been read, so
    /// this waits for the end of the messages, up to two seconds.
    pub fn last_words(&self) -> String {
        if let Some(said_all) = &self.said_all {
            // The pipe may be kept open by a shared connection of the user's.
            let _ = said_all.recv_timeout(GRACE);
        }
        self.said()
    }

    /// Waits for its end; its status is that of the program at the far end, or 255 if ssh itself
    /// failed. `None` if it has not ended within the limit.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                _ => return None,
            }
        }
    }

    /// Why the channel ended although it should not have. Waits up to two seconds for ssh's last
    /// words.
    pub fn why_ended(&mut self) -> ReachError {
        let cause = match self.cause_of_end() {
            Cause::NoShell { said } => Cause::DoesNotRun { status: self.status(), said },
            cause => cause,
        };
        ReachError { host: self.host.clone(), ssh: self.command.clone(), cause }
    }

    /// The cause of the end; [`Cause::NoShell`] with the last message if ssh did not fail.
    pub(crate) fn cause_of_end(&mut self) -> Cause {
        let status = self.wait(GRACE);
        let said = self.last_words();
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let last = last.unwrap_or_default().to_owned();
        match status.map(|status| status.code()) {
            Some(Some(code)) if code != SSH_FAILED => Cause::NoShell { said: last },
            _ => refusal::cause(&said).unwrap_or_else(|| Cause::Closed {
                said: if last.is_empty() { format!("ssh: {}", self.status()) } else { last },
            }),
        }
    }

    fn status(&mut self) -> String {
        match self.child.try_wait() {
            Ok(Some(status)) => match status.code() {
                Some(code) => code.to_string(),
                None => status.to_string(),
            },
            _ => "still running".to_owned(),
        }
    }

    /// Ends ssh and its children, such as the ssh of a jump host: it leads a process group.
    pub(crate) fn kill(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if self.wait(GRACE).is_none() {
            self.kill();
        }
    }
}
