//! Why a far machine cannot be used.

use std::fmt;
use std::sync::Arc;

use crate::reach::Host;

/// A far machine that cannot be used, in a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ReachError {
    /// The machine.
    pub host: Host,
    /// ssh and its first arguments, for hints.
    pub ssh: Arc<Vec<String>>,
    /// The reason.
    pub cause: Cause,
}

/// Why a far machine cannot be used. `said` is what ssh or a program there printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// ssh is not installed here.
    NoSsh {
        /// The program that was looked for.
        program: String,
    },
    /// ssh could not be started.
    NotStarted {
        /// The system's message.
        why: String,
    },
    /// ssh does not accept its configuration.
    Config {
        /// ssh's message.
        said: String,
    },
    /// The host's key is not in known_hosts.
    HostKeyUnknown {
        /// ssh's message.
        said: String,
    },
    /// The host has another key than the one in known_hosts, or a revoked one.
    HostKeyChanged {
        /// The file and line of the recorded key.
        recorded: String,
    },
    /// The host accepts none of the keys.
    KeyRefused {
        /// ssh's message.
        said: String,
    },
    /// The host name cannot be resolved.
    NameUnknown {
        /// ssh's message.
        said: String,
    },
    /// Nothing listens on the port.
    Refused {
        /// ssh's message.
        said: String,
    },
    /// There is no route to the host.
    NoRoute {
        /// ssh's message.
        said: String,
    },
    /// The host does not answer.
    TimedOut {
        /// ssh's message.
        said: String,
    },
    /// The connection was closed.
    Closed {
        /// ssh's message.
        said: String,
    },
    /// No POSIX shell ran our script.
    NoShell {
        /// What was printed instead.
        said: String,
    },
    /// The script answered with something unknown.
    NotOurs {
        /// The answer.
        said: String,
    },
    /// The far end is silent.
    Silent {
        /// For how long, in seconds.
        seconds: u64,
    },
    /// The far machine does not run Linux.
    OtherSystem {
        /// Its system (`uname -s`).
        system: String,
    },
    /// There is no binary for the far machine.
    OtherMachine {
        /// Its machine (`uname -m`).
        machine: String,
    },
    /// There is no place for the binary there.
    Folder {
        /// The folder there.
        folder: String,
        /// The message of the program that tried.
        why: String,
    },
    /// The disk there is full.
    Full {
        /// The folder there.
        folder: String,
        /// Free bytes there.
        free_bytes: u64,
        /// Size of the program.
        bytes: u64,
    },
    /// The binary could not be written there although there is room.
    Write {
        /// The folder there.
        folder: String,
    },
    /// Programs in the folder there may not be executed.
    Noexec {
        /// The folder there.
        folder: String,
    },
    /// The binary needs another C library than the far machine has.
    OtherLibraries {
        /// The far system's message.
        said: String,
    },
    /// The binary does not run there.
    DoesNotRun {
        /// Its exit status.
        status: String,
        /// What it printed.
        said: String,
    },
    /// The copy ended before the binary was complete.
    CopyInterrupted,
    /// The copied binary has another hash.
    OtherHash,
    /// The local binary could not be read.
    Unreadable {
        /// The system's message.
        why: String,
    },
    /// The user stopped it.
    Stopped,
}

/// What people do who have another place for binaries.
const OTHER_FOLDER: &str = "TACHOGRAPH_FAR_FOLDER names another folder";

impl fmt::Display for ReachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, hand) = (&self.host, self.host.by_hand(&self.ssh));
        match &self.cause {
            Cause::NoSsh { program } => write!(
                f,
                "cannot find {program}: install OpenSSH's client (sudo apt install openssh-client)"
            ),
            Cause::Stopped => write!(f, "stopped before {host} was reached"),
            cause => {
                write!(f, "cannot use {host}: ")?;
                cause.sentence(f, host, &hand)
            }
        }
    }
}

impl Cause {
    fn sentence(&self, f: &mut fmt::Formatter<'_>, host: &Host, hand: &str) -> fmt::Result {
        match self {
            Cause::NoSsh { .. } | Cause::Stopped => Ok(()),
            Cause::NotStarted { why } => write!(f, "ssh cannot be started: {why}"),
            Cause::Config { said } => {
                write!(f, "ssh does not accept its configuration ({said}); correct it")
            }
            Cause::HostKeyUnknown { said } => write!(
                f,
                "its host key is not in known_hosts ({}). Log in once by hand and compare the \
                 fingerprint: {hand}",
                bare(said)
            ),
            Cause::HostKeyChanged { recorded } => write!(
                f,
                "its host key is not the one in {recorded}. If the machine was reinstalled, remove \
                 that line and log in once by hand to compare the new fingerprint ({hand}); \
                 otherwise someone may be intercepting the connection"
            ),
            Cause::KeyRefused { said } => write!(
                f,
                "it accepts none of your keys ({}). Add your public key there (ssh-copy-id), or \
                 unlock it for ssh-agent (ssh-add); tachograph never asks for a password. Test with: \
                 {} -o BatchMode=yes true",
                bare(said),
                hand
            ),
            Cause::NameUnknown { said } => write!(
                f,
                "there is no host of that name ({}). Check the spelling, ~/.ssh/config and DNS",
                bare(said)
            ),
            Cause::Refused { said } => write!(
                f,
                "connection refused ({}). Start sshd there, or check the port",
                bare(said)
            ),
            Cause::NoRoute { said } => write!(
                f,
                "there is no route to it ({}). Check that it is up, and the network",
                bare(said)
            ),
            Cause::TimedOut { said } => write!(
                f,
                "it does not answer ({}). Check that it is up, and firewalls on the way",
                bare(said)
            ),
            Cause::Closed { said } => write!(
                f,
                "the connection was closed ({}). Its log says why: sudo journalctl -u ssh",
                bare(said)
            ),
            other => other.of_machine(f, host, hand),
        }
    }

    /// Causes that the script at the far end found.
    fn of_machine(&self, f: &mut fmt::Formatter<'_>, host: &Host, hand: &str) -> fmt::Result {
        match self {
            Cause::NoShell { said } => write!(
                f,
                "no POSIX shell (sh) ran there ({}). Test with: {hand} uname",
                if said.is_empty() { "it printed nothing" } else { bare(said) }
            ),
            Cause::NotOurs { said } => write!(f, "it answered \"{said}\"; is it the same version?"),
            Cause::Silent { seconds } => {
                write!(f, "it has printed nothing for {seconds} s. Test with: {hand} uname")
            }
            Cause::OtherSystem { system } => {
                write!(f, "it runs {system}, and tachograph needs Linux")
            }
            Cause::OtherMachine { machine } => write!(
                f,
                "it is a {machine} machine, and there is no program for it here. Set \
                 TACHOGRAPH_FAR_BINARY to a static build for {machine} (docs/install.md)"
            ),
            Cause::Folder { folder, why } => write!(
                f,
                "there is no place for the program in {folder} ({why}). Correct that, or \
                 {OTHER_FOLDER}"
            ),
            Cause::Full { folder, free_bytes, bytes } => write!(
                f,
                "the disk of {folder} is full: {} free, {} needed. Free some space there, or \
                 {OTHER_FOLDER}",
                base::Bytes(*free_bytes),
                base::Bytes(*bytes)
            ),
            Cause::Write { folder } => write!(
                f,
                "the program cannot be written to {folder}, although there is space. Check quotas \
                 there, or {OTHER_FOLDER}"
            ),
            Cause::Noexec { folder } => write!(
                f,
                "programs in {folder} may not be executed (mounted noexec). {OTHER_FOLDER}"
            ),
            Cause::OtherLibraries { said } => write!(
                f,
                "this build of tachograph does not run with its C library ({}). Set \
                 TACHOGRAPH_FAR_BINARY to the static build (docs/install.md)",
                bare(said)
            ),
            Cause::DoesNotRun { status, said } => write!(
                f,
                "tachograph does not run there: status {status} ({})",
                if said.is_empty() { "it printed nothing" } else { bare(said) }
            ),
            Cause::CopyInterrupted => {
                write!(f, "the copy of the program was interrupted. Try again")
            }
            Cause::OtherHash => write!(
                f,
                "the program arrived with another SHA-256. If it was being rebuilt, try again; \
                 otherwise check {}'s disk and memory",
                host.name()
            ),
            Cause::Unreadable { why } => write!(f, "the program for it cannot be read: {why}"),
            _ => Ok(()),
        }
    }
}

/// A message without the full stop at its end.
fn bare(said: &str) -> &str {
    said.strip_suffix('.').unwrap_or(said)
}
