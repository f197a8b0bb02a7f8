//! What can go wrong with a stack, told to people.

use std::io;
use std::path::PathBuf;

use base::Nanos;

use crate::protocol::Ended;

/// Why a stack, or what belongs to it, could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A folder or file of ours could not be made or read.
    #[error("{what} {}: {}", path.display(), in_words(source))]
    File {
        /// What was tried: `cannot create`.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A folder's name leaves no room for sockets below it.
    #[error(
        "the temporary folder {} is too long: a Unix socket below it would have {bytes} bytes, and the kernel takes at most 107. Set TMPDIR to a shorter folder, such as /tmp",
        path.display()
    )]
    TempTooLong {
        /// The folder.
        path: PathBuf,
        /// How long a socket's path below it would be.
        bytes: usize,
    },
    /// A socket's path is too long for the kernel.
    #[error(
        "'{process}': the socket path {path} has {bytes} bytes, and the kernel takes at most 107. Use $SOCKET or a shorter path"
    )]
    SocketTooLong {
        /// The process that would listen there.
        process: String,
        /// The path.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// A command is malformed.
    #[error("'{process}': the command `{command}` cannot be run: {why}")]
    BadCommand {
        /// The process.
        process: String,
        /// Its command.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// A program is not on PATH, or a file is not where it must be.
    #[error("'{process}': there is no {}{}", sought(program), remedy(install.as_deref()))]
    NotFound {
        /// The process that needs it.
        process: String,
        /// The program, or the path of the file.
        program: String,
        /// How to get it, where we know.
        install: Option<String>,
    },
    /// A file that the stack wants written lies elsewhere.
    #[error(
        "the stack's file '{0}' must lie in the stack's own folder: give a relative path without '..'"
    )]
    BadFile(String),
    /// A readiness check is malformed.
    #[error("'{process}': its readiness check cannot be used: {why}")]
    BadCheck {
        /// The process.
        process: String,
        /// What is wrong.
        why: String,
    },
    /// What a process wants to listen on is in use; another port may work.
    #[error("'{process}': {place} is already in use{}. Stop whoever uses it, or let the command take $PORT or $SOCKET", by(holder.as_deref()))]
    Taken {
        /// The process.
        process: String,
        /// `port 8000 of 127.0.0.1`.
        place: String,
        /// Who has it, if that is to be seen.
        holder: Option<String>,
    },
    /// No port is free.
    #[error("no free TCP port was found on 127.0.0.1; `ss -ltn` shows who listens")]
    NoPort,
    /// A process ended before it was ready.
    #[error("'{process}' {ended} before it was ready (`{command}`){}{log}", background(*ended))]
    Crashed {
        /// The process.
        process: String,
        /// Its command.
        command: String,
        /// How it ended.
        ended: Ended,
        /// Its last words.
        log: LogTail,
    },
    /// A process did not become ready in time.
    #[error("'{process}' was not ready after {after}: waiting for {check}, but {seen}{log}")]
    NotReady {
        /// The process.
        process: String,
        /// How long we waited.
        after: Nanos,
        /// What for.
        check: String,
        /// What was there instead.
        seen: String,
        /// Its last words.
        log: LogTail,
    },
    /// A process ended while it was needed.
    #[error("'{process}' {ended} while it was being measured{log}")]
    Died {
        /// The process.
        process: String,
        /// How it ended.
        ended: Ended,
        /// Its last words.
        log: LogTail,
    },
    /// The guard could not be started or has gone.
    #[error("the process that guards the stack failed: {0}")]
    Guard(String),
    /// Somebody asked to stop.
    #[error("stopped on request before everything was ready")]
    Interrupted,
    /// Another experiment runs on this machine.
    #[error("another tachograph is measuring on this machine{}; two at once would disturb each other. Wait for it to end, or stop it", whom(*pid, since.as_deref()))]
    Busy {
        /// Its process id, if known.
        pid: Option<u32>,
        /// Since when, if known.
        since: Option<String>,
    },
    /// The server's own count could not be read.
    #[error("the server's own count cannot be read from {place}: {why}")]
    Served {
        /// Where it was looked for.
        place: String,
        /// Why that failed.
        why: String,
    },
    /// The Python environment could not be made.
    #[error("{0}")]
    Python(String),
}

impl StageError {
    /// Whether something that the stack wanted to listen on was taken, so that
    /// another start, with other ports, may go well.
    pub fn is_taken(&self) -> bool {
        matches!(self, StageError::Taken { .. })
    }

    /// Whether it only says that somebody asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(self, StageError::Interrupted)
    }

    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> StageError {
        let path = path.into();
        move |source| StageError::File { what, path, source }
    }
}

/// The end of a process's log, indented for an error; nothing if it wrote nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail(pub Vec<String>);

impl std::fmt::Display for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("; it wrote nothing");
        }
        f.write_str(". The end of what it wrote:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "there is no space left on the device".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        _ => error.to_string(),
    }
}

fn sought(program: &str) -> String {
    match program.contains('/') {
        true => format!("file {program}"),
        false => format!("program '{program}' on PATH"),
    }
}

fn remedy(install: Option<&str>) -> String {
    install.map(|how| format!("; to install it: {how}")).unwrap_or_default()
}

fn by(holder: Option<&str>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

fn background(ended: Ended) -> &'static str {
    match ended {
        Ended::Exited(0) => "; a server must go on running until it is told to stop",
        Ended::Exited(127) => "; the status means that a command was not found",
        _ => "",
    }
}

fn whom(pid: Option<u32>, since: Option<&str>) -> String {
    match (pid, since) {
        (Some(pid), Some(since)) => format!(" (pid {pid}, since {since})"),
        (Some(pid), None) => format!(" (pid {pid})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_happened_and_what_to_do() {
        let log = LogTail(vec!["Traceback".to_owned(), "ImportError: app".to_owned()]);
        let name = || "app".to_owned();
        for (error, text) in [
            (
                StageError::File {
                    what: "cannot create",
                    path: "/x".into(),
                    source: io::ErrorKind::StorageFull.into(),
                },
                "cannot create /x: there is no space left on the device",
            ),
            (
                StageError::NotFound {
                    process: name(),
                    program: "nginx".to_owned(),
                    install: Some("apt install nginx".to_owned()),
                },
                "'app': there is no program 'nginx' on PATH; to install it: apt install nginx",
            ),
            (
                StageError::Crashed {
                    process: name(),
                    command: "gunicorn app".to_owned(),
                    ended: Ended::Exited(3),
                    log,
                },
                "'app' exited with status 3 before it was ready (`gunicorn app`). The end of what it wrote:\n  | Traceback\n  | ImportError: app",
            ),
            (
                StageError::Crashed {
                    process: name(),
                    command: "true".to_owned(),
                    ended: Ended::Exited(0),
                    log: LogTail::default(),
                },
                "'app' exited with status 0 before it was ready (`true`); a server must go on running until it is told to stop; it wrote nothing",
            ),
            (
                StageError::Taken {
                    process: name(),
                    place: "port 80 of 127.0.0.1".to_owned(),
                    holder: Some("nginx (pid 7)".to_owned()),
                },
                "'app': port 80 of 127.0.0.1 is already in use by nginx (pid 7). Stop whoever uses it, or let the command take $PORT or $SOCKET",
            ),
            (
                StageError::Busy { pid: Some(4), since: Some("07:15".to_owned()) },
                "another tachograph is measuring on this machine (pid 4, since 07:15); two at once would disturb each other. Wait for it to end, or stop it",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
