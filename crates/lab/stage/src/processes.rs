//! Processes in /proc: descendants, environment, memory.

use std::fs;
use std::os::unix::fs::MetadataExt;

use host::Process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All processes in /proc; none if it cannot be listed.
pub(crate) fn all() -> Vec<Process> {
    Process::all().unwrap_or_default()
}

/// The living descendants of a process among `processes`, without the process itself.
pub(crate) fn descendants(processes: &[Process], ancestor: i32) -> Vec<Process> {
    let found = Process::descendants(processes, ancestor);
    processes.iter().filter(|p| found.contains(&p.pid) && !p.is_dead).cloned().collect()
}

/// Whether a process was started with this environment variable.
///
/// False if we may not read it, or if the process has overwritten it.
pub(crate) fn environment_has(pid: i32, name: &str, wanted: &dyn Fn(&str) -> bool) -> bool {
    let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environ.split(|byte| *byte == 0).any(|entry| {
        let entry = String::from_utf8_lossy(entry);
        entry.split_once('=').is_some_and(|(key, value)| key == name && wanted(value))
    })
}

/// The user that owns a process.
pub(crate) fn owner(pid: i32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Resident memory of a process in bytes, as `ps` and `top` show it (RSS): its own pages, and all that
/// it shares with others or maps from files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    /// Now (proc(5), VmRSS).
    pub(crate) bytes: u64,
    /// Its maximum so far, kept by the kernel (proc(5), VmHWM).
    pub(crate) peak_bytes: u64,
}

/// The resident memory of a process; `None` if it has ended.
pub(crate) fn resident(pid: i32) -> Option<ResidentMemory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = kibibytes(&status, "VmRSS:")? * 1024;
    Some(ResidentMemory { bytes, peak_bytes: kibibytes(&status, "VmHWM:")? * 1024 })
}

fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// An id of this boot of the machine.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Signals exactly the process that was seen, not another one that has reused its pid.
pub(crate) fn signal(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if Process::find(process.pid).is_some_and(|now| now.start == process.start) {
        // If the process ends between the two calls, nothing is left to do.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_descendants_are_left_out() {
        let process =
            |(pid, parent, is_dead)| Process { pid, parent, is_dead, ..Process::default() };
        let all = [(30, 20, false), (20, 10, true), (10, 1, false)].map(process);
        let pids: Vec<i32> = descendants(&all, 10).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [30]);
    }

    #[test]
    fn our_own_process_is_seen() {
        let me = std::process::id() as i32;
        assert!(all().iter().any(|process| process.pid == me));
        assert!(resident(me).unwrap().bytes > 0);
        assert!(environment_has(me, "PATH", &|_| true));
        assert!(!environment_has(me, "PATH", &|value| value == "nothing like this"));
        assert!(!boot_id().is_empty());
    }
}
