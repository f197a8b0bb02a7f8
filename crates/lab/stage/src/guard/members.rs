//! A list of a stack's processes and groups, in its folder, so that a later run can clean up even
//! after tachograph and the guard were both killed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use host::Process;

use crate::cgroup::{CGROUP_PREFIX, Cgroup};
use crate::processes;

/// The list's file.
#[derive(Clone, Debug)]
pub(crate) struct Members(PathBuf);

/// The listed processes and groups that still exist.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveMembers {
    pub(crate) processes: Vec<Process>,
    pub(crate) cgroups: Vec<PathBuf>,
}

impl Members {
    /// The list of the stack in `dir`.
    pub(crate) fn of(dir: &Path) -> Members {
        Members(dir.join(".members"))
    }

    /// Adds a process, with its start time to recognise it if its pid is reused.
    pub(crate) fn add_process(&self, process: &Process) -> io::Result<()> {
        self.add(&format!("process {} {} {}\n", process.pid, process.start, processes::boot_id()))
    }

    /// Adds a control group.
    pub(crate) fn add_cgroup(&self, dir: &Path) -> io::Result<()> {
        self.add(&format!("cgroup {}\n", dir.display()))
    }

    fn add(&self, line: &str) -> io::Result<()> {
        OpenOptions::new().create(true).append(true).open(&self.0)?.write_all(line.as_bytes())
    }

    /// What still exists, given all `processes`: the listed processes, and members of a session
    /// that a listed process led and that outlived it.
    pub(crate) fn find(&self, processes: &[Process]) -> LiveMembers {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        find(&text, processes, &processes::boot_id())
    }
}

/// Every living process of the stack in `dir`: the guard's descendants, the members of its group,
/// and the listed processes with their descendants. Processes that an engine starts for a container
/// are not descendants of the guard; without a group, only the list contains them.
pub(crate) fn living(guard: i32, group: Option<&Cgroup>, dir: &Path) -> Vec<Process> {
    let processes = processes::all();
    let mut living = processes::descendants(&processes, guard);
    let mut others: BTreeSet<i32> = group.into_iter().flat_map(Cgroup::pids).collect();
    for listed in Members::of(dir).find(&processes).processes {
        others.extend(processes::descendants(&processes, listed.pid).iter().map(|one| one.pid));
        others.insert(listed.pid);
    }
    for process in processes {
        let known = living.iter().any(|other| other.pid == process.pid);
        if others.contains(&process.pid) && process.pid != guard && !known && !process.is_dead {
            living.push(process);
        }
    }
    living
}

fn find(text: &str, processes: &[Process], boot: &str) -> LiveMembers {
    let mut found = LiveMembers::default();
    for line in text.lines() {
        if let Some(dir) = line.strip_prefix("cgroup ").map(PathBuf::from) {
            // A damaged list must not make us kill the members of another group.
            if dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CGROUP_PREFIX))
            {
                found.cgroups.push(dir);
            }
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let ["process", pid, start, written_in] = words[..] else { continue };
        let (Ok(pid), Ok(start)) = (pid.parse::<i32>(), start.parse::<u64>()) else { continue };
        if written_in != boot {
            continue;
        }
        // The kernel does not reuse a session's id while the session has members, so without its
        // leader it can only be the session that was listed.
        let leader_is_gone = !processes.iter().any(|process| process.pid == pid);
        found.processes.extend(
            processes
                .iter()
                .filter(|process| {
                    (process.pid == pid && process.start == start)
                        || (leader_is_gone && process.session == pid && process.start >= start)
                })
                .cloned(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, session: i32, start: u64) -> Process {
        Process { pid, session, start, parent: 1, ..Process::default() }
    }

    #[test]
    fn only_the_very_processes_are_found_and_sessions_that_outlived_their_leader() {
        let text = "cgroup /sys/fs/cgroup/tachograph-x\ncgroup /sys/fs/cgroup\nprocess 10 100 b\nprocess 20 100 b\nprocess 30 100 b\nprocess 40 100 other\nnonsense\n";
        let processes = [
            process(10, 10, 100),
            process(11, 10, 101),
            process(20, 20, 999),
            process(31, 30, 150),
            process(32, 30, 50),
            process(40, 40, 100),
        ];
        let found = find(text, &processes, "b");
        let pids: Vec<i32> = found.processes.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [10, 31], "a pid given to another process must be left alone");
        assert_eq!(found.cgroups, [Path::new("/sys/fs/cgroup/tachograph-x")]);
    }
}
