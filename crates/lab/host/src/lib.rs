//! Facts about this machine and its activity, from /proc and /sys.
//!
//! Nothing is written. Reading and parsing are separate, so that tests can parse the files of any
//! machine. What a machine does not report is `None`, never a guess.

mod canary;
mod cpu_times;
mod identity;
mod interrupts;
mod listeners;
mod machine;
mod meter;
mod neighbours;
mod network;
mod ports;
mod process;
mod snapshot;
mod wake;

use std::path::{Path, PathBuf};

use base::CpuSet;

pub use canary::Canary;
pub use cpu_times::{CpuMeter, CpuSource, CpuTime, CpuTimes, CpuUse};
pub use identity::Identity;
pub use listeners::{ListenAddress, Listeners};
pub use machine::{governors, machine};
pub use meter::{Meter, Reading};
pub use neighbours::{Neighbour, Neighbours};
pub use network::{Segments, Way};
pub use ports::ephemeral_ports;
pub use process::Process;
pub use snapshot::{Snapshot, SnapshotChange};
pub use wake::wake_cost;

/// A file of /proc or /sys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {why}")]
pub struct HostError {
    path: PathBuf,
    why: String,
}

/// The CPUs on which this process may run (`sched_getaffinity(2)`).
///
/// # Errors
/// If the system call fails.
pub fn online_cpus() -> Result<CpuSet, HostError> {
    let set = rustix::thread::sched_getaffinity(None).map_err(|error| HostError {
        path: PathBuf::from("/proc/self/status"),
        why: error.to_string(),
    })?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// All CPUs of the machine that are switched on, also those on which this process may not run.
///
/// # Errors
/// If /sys does not say.
pub fn all_cpus() -> Result<CpuSet, HostError> {
    let path = "/sys/devices/system/cpu/online";
    read(path)?.trim().parse().map_err(|error: base::CpuSetError| HostError {
        path: PathBuf::from(path),
        why: error.to_string(),
    })
}

/// CPU time of all threads of this process, user and system (CLOCK_PROCESS_CPUTIME_ID).
pub fn own_cpu() -> base::Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    base::Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn read(path: impl AsRef<Path>) -> Result<String, HostError> {
    let path = path.as_ref();
    std::fs::read_to_string(path)
        .map_err(|error| HostError { path: path.to_owned(), why: error.to_string() })
}

/// The text of a file, trimmed; `None` if it cannot be read.
fn read_if_any(path: impl AsRef<Path>) -> Option<String> {
    Some(read(path).ok()?.trim().to_owned())
}
