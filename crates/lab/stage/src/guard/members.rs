//! A list of what belongs to a stack, kept in its folder, so that a later
//! start can clear up even after tachograph and the guard were both killed.

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

/// What the list names that still exists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) processes: Vec<Process>,
    pub(crate) cgroups: Vec<PathBuf>,
}

impl Members {
    /// The list of the stack in `dir`.
    pub(crate) fn of(dir: &Path) -> Members {
        Members(dir.join(".members"))
    }

    /// Adds a process; it stays recognisable by its start time after its pid is given to another one.
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

    /// What of the list is still there, among `processes`: those listed, and
    /// those of a session that a listed one led and that outlived it.
    pub(crate) fn find(&self, processes: &[Process]) -> Found {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        find(&text, processes, &processes::boot_id())
    }
}

/// Every living process of the stack in `dir`: what descends from its guard, what is in its group, and
/// what is listed with its descendants. An engine's processes for a container are no descendants of the
/// guard's, and where there is no group only the list tells of them.
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

fn find(text: &str, processes: &[Process], boot: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        if let Some(dir) = line.strip_prefix("cgroup ").map(PathBuf::from) {
            // A damaged list must not make us kill what is in somebody else's group.
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
        // A session's number is not given out again while it has members, so
        // without its leader it can only be the one that was written down.
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
