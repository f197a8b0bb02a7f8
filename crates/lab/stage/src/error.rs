//! Errors of a stack, with messages for people.

use std::io;
use std::path::PathBuf;

use base::Nanos;

use crate::holder::Holder;
use crate::process_exit::ProcessExit;

/// Why an operation on a stack failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// One of our folders or files could not be created or read.
    #[error("{what} {}: {}", path.display(), in_words(source))]
    File {
        /// The operation: `cannot create`.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A folder's path leaves no room for sockets in it.
    #[error(
        "the temporary folder {} is too long: a Unix socket in it would have {bytes} bytes, and \
         the kernel's limit is 107. Set TMPDIR to a shorter folder, such as /tmp",
        path.display()
    )]
    TempTooLong {
        /// The folder.
        path: PathBuf,
        /// Length of a socket's path in it.
        bytes: usize,
    },
    /// A socket's path is too long for the kernel.
    #[error(
        "'{process}': the socket path {path} has {bytes} bytes, and the kernel's limit is 107. \
         Use $SOCKET or a shorter path"
    )]
    SocketTooLong {
        /// The process that would listen there.
        process: String,
        /// The path.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// A command around the measurement failed.
    #[error("the {option} command `{}` failed: {why}", base::redact(command))]
    Hook {
        /// The option that gave it.
        option: String,
        /// The command.
        command: String,
        /// The cause.
        why: String,
    },
    /// A command is malformed.
    #[error("'{process}': the command `{}` cannot be run: {why}", base::redact(command))]
    BadCommand {
        /// The process.
        process: String,
        /// Its command.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// A program is not on PATH, or a file does not exist.
    #[error("'{process}': there is no {}{}", sought(program), remedy(install.as_deref()))]
    NotFound {
        /// The process that needs it.
        process: String,
        /// The program, or the path of the file.
        program: String,
        /// How to install it, if known.
        install: Option<String>,
    },
    /// A file that the stack wants written is outside its folder.
    #[error(
        "the stack's file '{0}' must be in the stack's own folder: use a relative path without '..'"
    )]
    BadFile(String),
    /// The folder of `$FILES` cannot be copied to another machine.
    #[error(
        "what is in {}, the folder of $FILES, is too much to copy to another machine: at most 1,000 \
         files with 8 MiB; move the experiment into a folder of its own",
        folder.display()
    )]
    TooMuchToCopy {
        /// The folder.
        folder: PathBuf,
    },
    /// A readiness check is malformed.
    #[error("'{process}': its readiness check cannot be used: {why}")]
    BadCheck {
        /// The process.
        process: String,
        /// What is wrong.
        why: String,
    },
    /// An address that a process wants to listen on is in use; another port may work.
    #[error("'{process}': {place} is already in use{}. Stop that process, or use $PORT or $SOCKET \
        in the command", by(holder.as_deref()))]
    Taken {
        /// The process.
        process: String,
        /// `port 8000 of 127.0.0.1`.
        place: String,
        /// The process that holds it, if known.
        holder: Option<String>,
    },
    /// No port is free.
    #[error("no free TCP port on 127.0.0.1; `ss -ltn` shows the ports in use")]
    NoPort,
    /// A process ended before it was ready.
    #[error("'{process}' {ended} before it was ready (`{}`){}{log}", base::redact(command),
        background(*ended))]
    Crashed {
        /// The process.
        process: String,
        /// Its command.
        command: String,
        /// How it ended.
        ended: ProcessExit,
        /// The end of its log.
        log: LogTail,
    },
    /// A process did not become ready in time.
    #[error(
        "'{process}' was not ready after {after}: waiting for {check}, but {seen}; --ready-timeout, or ready_timeout in an experiment, allows more time{log}"
    )]
    NotReady {
        /// The process.
        process: String,
        /// How long we waited.
        after: Nanos,
        /// The check.
        check: String,
        /// What was found instead.
        seen: String,
        /// The end of its log.
        log: LogTail,
    },
    /// A process listens on another port than the one that it was given in its environment.
    #[error(
        "'{process}' listens on port {port}, not on the port it was given (PORT={given}): write $PORT in the command, in single quotes (`{command}`)"
    )]
    OtherPort {
        /// The process.
        process: String,
        /// Its command.
        command: String,
        /// The port on which it listens.
        port: u16,
        /// The port that it was given.
        given: u16,
    },
    /// A process ended while it was needed.
    #[error("'{process}' {ended} while it was being measured{log}")]
    Died {
        /// The process.
        process: String,
        /// How it ended.
        ended: ProcessExit,
        /// The end of its log.
        log: LogTail,
    },
    /// The guard could not start, or has ended.
    #[error("the process that guards the stack failed: {0}")]
    Guard(String),
    /// The user asked to stop.
    #[error("stopped before everything was ready")]
    Interrupted,
    /// Another measurement is running on this machine.
    #[error(
        "another tachograph is measuring on this machine ({holder}); two at once would disturb \
         each other. Omit --no-wait to wait for it, or give each its own CPUs with --cpus"
    )]
    Busy {
        /// What is known about it.
        holder: Holder,
    },
    /// The user asked to stop while waiting for another measurement.
    #[error("stopped while waiting for another measurement")]
    StoppedWaiting,
    /// There is no safe folder for the locks.
    #[error("the folder {} cannot be used for CPU locks: {why}. Remove it, or set \
        TACHOGRAPH_LOCK_DIR to a folder of your own", path.display())]
    LockFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server-side count could not be read.
    #[error("the server's own count cannot be read from {place}: {why}")]
    Served {
        /// The source.
        place: String,
        /// The cause.
        why: String,
    },
    /// The Python environment could not be created.
    #[error("{0}")]
    Python(String),
}

impl StageError {
    /// Whether an address was in use, so that another start with other ports may succeed.
    pub fn is_address_in_use(&self) -> bool {
        matches!(self, StageError::Taken { .. })
    }

    /// Whether this is only a request to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(self, StageError::Interrupted | StageError::StoppedWaiting)
    }

    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> StageError {
        let path = path.into();
        move |source| StageError::File { what, path, source }
    }
}

/// The end of a process's log, indented for an error; empty if there is no output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail(pub Vec<String>);

impl std::fmt::Display for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("; it printed nothing");
        }
        f.write_str(". End of its output:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the device".to_owned(),
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

fn background(ended: ProcessExit) -> &'static str {
    match ended {
        ProcessExit::Exited(0) => "; a server must run in the foreground until it is stopped",
        ProcessExit::Exited(127) => "; this status means \"command not found\"",
        _ => "",
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
                "cannot create /x: no space left on the device",
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
                    ended: ProcessExit::Exited(3),
                    log,
                },
                "'app' exited with status 3 before it was ready (`gunicorn app`). End of its \
                 output:\n  | Traceback\n  | ImportError: app",
            ),
            (
                StageError::Crashed {
                    process: name(),
                    command: "true".to_owned(),
                    ended: ProcessExit::Exited(0),
                    log: LogTail::default(),
                },
                "'app' exited with status 0 before it was ready (`true`); a server must run in \
                 the foreground until it is stopped; it printed nothing",
            ),
            (
                StageError::OtherPort {
                    process: name(),
                    command: "./srv 8080".to_owned(),
                    port: 8080,
                    given: 12_345,
                },
                "'app' listens on port 8080, not on the port it was given (PORT=12345): write \
                 $PORT in the command, in single quotes (`./srv 8080`)",
            ),
            (
                StageError::Taken {
                    process: name(),
                    place: "port 80 of 127.0.0.1".to_owned(),
                    holder: Some("nginx (pid 7)".to_owned()),
                },
                "'app': port 80 of 127.0.0.1 is already in use by nginx (pid 7). Stop that \
                 process, or use $PORT or $SOCKET in the command",
            ),
            (
                StageError::Busy {
                    holder: Holder {
                        pid: Some(4),
                        since: Some("07:15".to_owned()),
                        command: Some("tachograph run docker".to_owned()),
                    },
                },
                "another tachograph is measuring on this machine (pid 4, since 07:15: tachograph \
                 run docker); two at once would disturb each other. Omit --no-wait to wait for \
                 it, or give each its own CPUs with --cpus",
            ),
            (
                StageError::Busy { holder: Holder::default() },
                "another tachograph is measuring on this machine (pid unknown); two at once would \
                 disturb each other. Omit --no-wait to wait for it, or give each its own CPUs \
                 with --cpus",
            ),
            (StageError::StoppedWaiting, "stopped while waiting for another measurement"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
