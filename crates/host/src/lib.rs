//! What this machine is and how busy it is, read from /proc and /sys.
//!
//! Nothing is written. Files are read in one place and understood by pure
//! functions, so that tests can hand them the text of any machine. What a
//! machine does not tell is `None` or zero, never a guess.

mod canary;
mod machine;
mod ports;
mod snapshot;

use std::path::{Path, PathBuf};

use base::CpuSet;

pub use canary::Canary;
pub use machine::{MachineFacts, governors, machine};
pub use ports::ephemeral_ports;
pub use snapshot::{Change, Snapshot};

/// A file of /proc or /sys that could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {why}")]
pub struct HostError {
    path: PathBuf,
    why: String,
}

/// The CPUs that this process may run on (`sched_getaffinity(2)`).
///
/// # Errors
/// If the kernel does not say.
pub fn online_cpus() -> Result<CpuSet, HostError> {
    let set = rustix::thread::sched_getaffinity(None).map_err(|error| HostError {
        path: PathBuf::from("/proc/self/status"),
        why: error.to_string(),
    })?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

fn read(path: impl AsRef<Path>) -> Result<String, HostError> {
    let path = path.as_ref();
    std::fs::read_to_string(path)
        .map_err(|error| HostError { path: path.to_owned(), why: error.to_string() })
}

/// The text of a file, trimmed; `None` where there is none.
fn read_if_any(path: impl AsRef<Path>) -> Option<String> {
    Some(read(path).ok()?.trim().to_owned())
}
