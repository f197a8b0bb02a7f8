//! One ssh process, from its start until our program runs at the far end.
//!
//! Not the crate `openssh` or an SSH library: a library reads neither `~/.ssh/config` with its jump
//! hosts and `Match exec` nor every kind of key, and the crate's multiplexing leaves a master process
//! that outlives a kill −9. One channel is all that is needed: a script of POSIX sh answers in lines
//! after a marker, takes the binary from the channel if it lacks it, and becomes it, so a start costs
//! one handshake. ssh runs in a session of its own, because the ssh of a jump host does not inherit
//! `BatchMode` and would ask on the terminal.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::reach::channel::{Channel, FarOutput, Ssh};
use crate::reach::greeting::{Facts, ScriptAnswer};
use crate::reach::{Cause, Host, Options, Program, ReachError, script};

/// ssh's options, before those of the user's configuration (ssh_config(5): the first value counts).
///
/// Nothing is asked and no host is accepted; nothing is forwarded, and no shared connection is left
/// behind, though one that the user has already opened is used. A dead connection is noticed after
/// four seconds.
const SSH_OPTIONS: [&str; 15] = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ControlMaster=no",
    "LogLevel=INFO",
    "TCPKeepAlive=yes",
    "ServerAliveInterval=2",
    "ServerAliveCountMax=2",
];

/// What login shells may print before our script runs.
const NOISE_BYTES_MAX: usize = 1 << 20;

/// How often a wait looks whether the user wants to stop.
const TURN: Duration = Duration::from_millis(100);

/// A pipe that can be written takes at least this much at once (`PIPE_BUF`, pipe(7)).
const PIPE_BYTES: usize = 4096;

/// Runs our program on a far machine.
///
/// # Errors
/// [`ReachError`] with the reason, when nothing is left running here. At the far end nothing is left
/// running after ten seconds.
pub fn connect(host: &Host, options: &Options) -> Result<Channel, ReachError> {
    let words = Arc::new(options.ssh.clone());
    let of_host = |cause| ReachError { host: host.clone(), ssh: words.clone(), cause };
    let began = Instant::now();
    let mut child = command(host, options).map_err(of_host)?.spawn().map_err(|error| {
        of_host(match error.kind() {
            ErrorKind::NotFound => Cause::NoSsh { program: options.ssh.join(" ") },
            _ => Cause::NotStarted { why: error.to_string() },
        })
    })?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut ssh = Ssh::new(host.clone(), words.clone(), child);
    let (Some(writer), Some(reader), Some(errors)) = pipes else {
        return Err(of_host(Cause::NotStarted { why: "it has no pipes".to_owned() }));
    };
    ssh.listen(errors).map_err(|why| of_host(Cause::NotStarted { why: why.to_string() }))?;
    let mut talk = Talk {
        options,
        ssh,
        writer,
        reader,
        kept: Vec::new(),
        noise: String::new(),
        silent_since: Instant::now(),
    };
    match talk.until_started() {
        Ok(facts) => Ok(Channel {
            reader: FarOutput::new(talk.kept, talk.reader),
            writer: talk.writer,
            facts: Facts { took: began.elapsed(), ..facts },
            ssh: talk.ssh,
        }),
        Err(cause) => {
            // The far end is told by the end of its input; there is nothing to wait for.
            drop(talk.writer);
            talk.ssh.kill();
            Err(of_host(cause))
        }
    }
}

/// ssh with all its arguments, in a session of its own: without a terminal, neither ssh nor that of a
/// jump host, which knows nothing of our options, can ask for a password.
fn command(host: &Host, options: &Options) -> Result<Command, Cause> {
    let name = options.ssh.first().map_or("ssh", String::as_str);
    let ssh = find(name).ok_or_else(|| Cause::NoSsh { program: name.to_owned() })?;
    let mut command = match find("setsid") {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(ssh);
            command
        }
        None => {
            let mut command = Command::new(ssh);
            command.process_group(0);
            command
        }
    };
    command.args(options.ssh.iter().skip(1)).arg("-T");
    for option in SSH_OPTIONS {
        command.args(["-o", option]);
    }
    let seconds = options.connect_timeout.as_secs().max(1);
    command.args(["-o", &format!("ConnectTimeout={seconds}")]);
    command.args(host.arguments()).arg(script::command(options));
    // Nor may a window ask; "never" is known since OpenSSH 8.4.
    command.env("SSH_ASKPASS_REQUIRE", "never").env("SSH_ASKPASS", "false");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// A program on PATH, or at a path.
fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The conversation with the far end's script.
struct Talk<'a> {
    options: &'a Options,
    ssh: Ssh,
    writer: ChildStdin,
    reader: ChildStdout,
    /// Bytes read and not yet used.
    kept: Vec<u8>,
    /// The last line that was no answer.
    noise: String,
    silent_since: Instant,
}

impl Talk<'_> {
    /// Answers the script until it starts our program.
    fn until_started(&mut self) -> Result<Facts, Cause> {
        let (mut system_here, mut here) = (String::new(), Facts::default());
        let mut folder = String::new();
        let mut noise_bytes = 0;
        let mut size = 0;
        loop {
            let Some(line) = self.line()? else { return Err(self.ended(size)) };
            match ScriptAnswer::of(&line) {
                None => {
                    noise_bytes += line.len();
                    if noise_bytes > NOISE_BYTES_MAX {
                        return Err(Cause::NoShell { said: "it printed more than 1 MiB".into() });
                    }
                    if !line.trim().is_empty() {
                        self.noise = line.trim().to_owned();
                    }
                }
                Some(ScriptAnswer::Here { system, facts }) => (system_here, here) = (system, facts),
                Some(ScriptAnswer::Folder(path)) => folder = path,
                Some(ScriptAnswer::Need(sha256)) => {
                    let Some(program) = self.options.program(&sha256).cloned() else {
                        return Err(Cause::NotOurs { said: line.trim().to_owned() });
                    };
                    size = program.bytes;
                    self.send(&program)?;
                }
                Some(ScriptAnswer::Start(program)) => {
                    return Ok(Facts { program, copied_bytes: size, ..here });
                }
                Some(ScriptAnswer::No(refusal)) => {
                    let sizes = self.options.programs.iter().map(|program| program.bytes);
                    let size = if size == 0 { sizes.max().unwrap_or(0) } else { size };
                    return Err(refusal.cause(&system_here, &here.machine, &folder, size));
                }
            }
        }
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Result<Option<String>, Cause> {
        loop {
            if let Some(end) = self.kept.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.kept.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            if self.kept.len() > NOISE_BYTES_MAX {
                self.kept.clear();
            }
            self.wait(false)?;
            let mut buffer = [0; 4096];
            match self.reader.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    self.silent_since = Instant::now();
                    self.kept.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Waits until something can be read, or also written; returns whether it can be read.
    fn wait(&mut self, to_write: bool) -> Result<bool, Cause> {
        let limit = self.options.connect_timeout + self.options.patience;
        loop {
            if self.options.is_stopped() {
                return Err(Cause::Stopped);
            }
            if self.silent_since.elapsed() > limit {
                return Err(Cause::Silent { seconds: limit.as_secs() });
            }
            let mut fds = vec![PollFd::from_borrowed_fd(self.reader.as_fd(), PollFlags::IN)];
            if to_write {
                fds.push(PollFd::from_borrowed_fd(self.writer.as_fd(), PollFlags::OUT));
            }
            let turn = Timespec { tv_sec: 0, tv_nsec: TURN.as_nanos() as _ };
            match poll(&mut fds, Some(&turn)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(!fds[0].revents().is_empty()),
                Err(error) => return Err(Cause::NotStarted { why: error.to_string() }),
            }
        }
    }

    /// Sends the program, until it is there or the far end answers.
    fn send(&mut self, program: &Program) -> Result<(), Cause> {
        let unreadable = |why: std::io::Error| Cause::Unreadable { why: why.to_string() };
        let mut file = File::open(&program.path).map_err(unreadable)?;
        let mut left = program.bytes;
        let mut buffer = [0; PIPE_BYTES];
        while left > 0 {
            let most = PIPE_BYTES.min(usize::try_from(left).unwrap_or(PIPE_BYTES));
            let count = file.read(&mut buffer[..most]).map_err(unreadable)?;
            if count == 0 {
                return Err(Cause::Unreadable { why: "it has become shorter".to_owned() });
            }
            // The script answers early only to refuse.
            if self.wait(true)? {
                return Ok(());
            }
            if self.writer.write_all(&buffer[..count]).is_err() {
                return Ok(()); // ssh has ended; its output says why
            }
            self.silent_since = Instant::now();
            left -= count as u64;
        }
        Ok(())
    }

    /// Why the channel ended before our program started; `sent` is the size of a program on its way.
    fn ended(&mut self, sent: u64) -> Cause {
        let cause = self.ssh.cause_of_end();
        match cause {
            Cause::NoShell { .. } if sent > 0 => Cause::CopyInterrupted,
            Cause::NoShell { said } if said.is_empty() => {
                Cause::NoShell { said: self.noise.clone() }
            }
            cause => cause,
        }
    }
}
