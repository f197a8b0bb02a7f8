//! Tachograph's own binary at the far end of an ssh channel.
//!
//! [`connect`] runs the system's `ssh`, so that ~/.ssh/config, known_hosts, jump hosts, certificates
//! and keys in ssh-agent work as they do by hand, but never asks for anything and never accepts an
//! unknown host. A short POSIX shell script at the far end (`far.sh`) looks for the binary by its
//! SHA-256, takes it from the channel if it is missing, and becomes it. There is one ssh process per
//! host, one handshake, and nothing that listens.
//!
//! What the two binaries then say to each other is not known in this module.

mod channel;
mod connect;
mod error;
mod greeting;
mod host;
mod options;
mod program;
mod refusal;
mod script;

pub use channel::{Channel, FarOutput, Ssh};
pub use connect::connect;
pub use error::{Cause, ReachError};
pub use greeting::Facts;
pub use host::{Host, HostError};
pub use options::{FOLDER_VARIABLE, Options, OptionsError, PROGRAMS_VARIABLE, SSH_VARIABLE};
pub use program::{Program, ProgramError};
