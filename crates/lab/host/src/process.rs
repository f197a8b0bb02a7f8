//! The processes of this machine, from /proc/PID/stat.

use std::collections::BTreeSet;

use base::Nanos;
use procfs_core::FromRead;
use procfs_core::process::Stat;

use crate::HostError;

/// Ticks of /proc per second: the kernel's `USER_HZ`, 100 on every architecture that Rust runs on.
const TICK: Nanos = Nanos(10_000_000);

/// State of a process (proc_pid_stat(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its name in the kernel, at most 15 bytes.
    pub name: String,
    /// Its parent's id.
    pub parent: i32,
    /// Its session.
    pub session: i32,
    /// User and system time of all its threads.
    pub cpu: Nanos,
    /// The same for the children that it has waited for, and their descendants.
    pub children_cpu: Nanos,
    /// When it started, in ticks since boot. Together with the pid it identifies a process.
    pub start: u64,
    /// Whether it is a zombie.
    pub is_dead: bool,
}

impl Process {
    /// A process, if it exists.
    pub fn find(pid: i32) -> Option<Process> {
        let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        Some(Process {
            pid: stat.pid,
            parent: stat.ppid,
            session: stat.session,
            cpu: TICK * (stat.utime + stat.stime),
            children_cpu: TICK * (stat.cutime + stat.cstime).max(0) as u64,
            start: stat.starttime,
            is_dead: matches!(stat.state, 'Z' | 'X' | 'x'),
            name: stat.comm,
        })
    }

    /// All processes in /proc.
    ///
    /// # Errors
    /// If /proc cannot be listed.
    pub fn all() -> Result<Vec<Process>, HostError> {
        let failed =
            |error: std::io::Error| HostError { path: "/proc".into(), why: error.to_string() };
        let entries = std::fs::read_dir("/proc").map_err(failed)?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process may have ended since the listing.
        Ok(pids.filter_map(Process::find).collect())
    }

    /// The descendants of `ancestor` among `processes`, without `ancestor`.
    pub fn descendants(processes: &[Process], ancestor: i32) -> BTreeSet<i32> {
        let mut found = BTreeSet::from([ancestor]);
        loop {
            let before = found.len();
            let children = processes.iter().filter(|process| found.contains(&process.parent));
            let children: Vec<i32> = children.map(|process| process.pid).collect();
            found.extend(children);
            if found.len() == before {
                found.remove(&ancestor);
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |(pid, parent)| Process { pid, parent, ..Process::default() };
        let all = [(40, 30), (30, 20), (20, 10), (10, 1), (50, 1)].map(process);
        assert_eq!(Process::descendants(&all, 10), BTreeSet::from([20, 30, 40]));
        assert_eq!(Process::descendants(&all, 50), BTreeSet::new());
    }

    #[test]
    fn our_own_process_is_found() {
        let me = std::process::id() as i32;
        let mine = Process::find(me).unwrap();
        assert_eq!((mine.pid, mine.is_dead), (me, false));
        let listed = Process::all().unwrap().into_iter().find(|process| process.pid == me);
        assert_eq!(listed.unwrap().start, mine.start);
    }
}
