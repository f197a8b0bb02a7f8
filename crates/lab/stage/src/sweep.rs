//! Cleanup after dead runs: tachograph and the guard were both killed, or the machine lost power.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use host::Process;
use rustix::process::{Signal, getuid};

use crate::cgroup::{Cgroup, Version};
use crate::guard::{Members, remove_dir};
use crate::layout::{LOCK, NEW_PREFIX, RUN_DIR_VARIABLE, RUN_PREFIX};
use crate::{processes, worktrees};

/// A younger folder without a held lock may still be being set up.
const SETTLED: Duration = Duration::from_secs(60);

/// How many rounds of killing before giving up.
const ROUNDS: usize = 200;

/// What a sweep removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Folders of dead runs that were removed.
    pub folders: Vec<PathBuf>,
    /// Processes that were killed: name and pid.
    pub processes: Vec<String>,
    /// Containers and networks that were removed.
    pub containers: Vec<String>,
}

/// Stops what remains of this user's dead runs in `temp_root`, and removes their folders.
///
/// A run is dead when its lock is not held. Living runs are not touched.
pub(crate) fn sweep(temp_root: &Path) -> SweepResult {
    let dead = dead_runs(temp_root);
    let used_engine = dead.iter().any(|dir| crate::container::was_used(dir));
    let containers = crate::container::sweep(used_engine, &|dir| !dir.exists() || is_dead(dir));
    let mut swept = SweepResult { containers, ..SweepResult::default() };
    for dir in dead {
        let ended = clear(&dir);
        swept.processes.extend(ended.iter().map(|p| format!("{} (pid {})", p.name, p.pid)));
        swept.folders.push(dir);
    }
    swept
}

/// Stops what remains of one dead run and removes its folder.
pub(crate) fn clear(run_dir: &Path) -> Vec<Process> {
    let stacks = stacks_of(run_dir);
    let ended = end(&|processes| remains(processes, run_dir, &stacks));
    for stack in &stacks {
        remove_cgroups(stack);
    }
    worktrees::forget(run_dir);
    remove_dir(run_dir);
    ended
}

/// Stops what remains of one stack whose guard is gone or stuck.
pub(crate) fn end_stack(id: &str, stack_dir: &Path) -> Vec<Process> {
    let stacks = [stack_dir.to_owned()];
    let ended = end(&|processes| {
        let mut found = listed(processes, &stacks);
        found.extend(with_variable(processes, "TACHOGRAPH_STACK", id));
        found
    });
    remove_cgroups(stack_dir);
    remove_dir(stack_dir);
    ended
}

fn dead_runs(temp_root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(temp_root) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(RUN_PREFIX) || name.starts_with(NEW_PREFIX)
        })
        .map(|entry| entry.path())
        .filter(|dir| is_dead(dir))
        .collect()
}

fn is_dead(dir: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(dir) else { return false };
    if !meta.is_dir() || meta.uid() != getuid().as_raw() {
        return false;
    }
    let is_new = dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NEW_PREFIX));
    let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    let settled = age.is_some_and(|age| age > SETTLED);
    match File::open(dir.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => settled || !is_new,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        },
        // A folder that merely has such a name is not ours.
        Err(_) => is_new && settled,
    }
}

/// The folders of a run's stacks.
pub(crate) fn stacks_of(run_dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(run_dir) else { return Vec::new() };
    let is_stack = |path: &PathBuf| path.is_dir() && !path.ends_with(worktrees::FOLDER);
    entries.flatten().map(|entry| entry.path()).filter(is_stack).collect()
}

/// The processes of a run: by environment, by the stacks' lists, by control group.
fn remains(processes: &[Process], run_dir: &Path, stacks: &[PathBuf]) -> Vec<Process> {
    let mut found = listed(processes, stacks);
    found.extend(with_variable(processes, RUN_DIR_VARIABLE, &run_dir.to_string_lossy()));
    found
}

fn with_variable(processes: &[Process], name: &str, value: &str) -> Vec<Process> {
    processes
        .iter()
        .filter(|process| processes::environment_has(process.pid, name, &|found| found == value))
        .cloned()
        .collect()
}

fn listed(processes: &[Process], stacks: &[PathBuf]) -> Vec<Process> {
    let mut found = Vec::new();
    for stack in stacks {
        let members = Members::of(stack).find(processes);
        found.extend(members.processes);
        let grouped: BTreeSet<i32> =
            members.cgroups.iter().flat_map(|dir| group(dir).pids()).collect();
        found.extend(processes.iter().filter(|process| grouped.contains(&process.pid)).cloned());
    }
    found
}

/// Kills what `remains` finds, with all descendants, until it finds nothing. Kills only processes
/// of this user, and never this process or its ancestors.
fn end(remains: &dyn Fn(&[Process]) -> Vec<Process>) -> Vec<Process> {
    let me = std::process::id() as i32;
    let user = getuid().as_raw();
    let mut ended: Vec<Process> = Vec::new();
    // A process may be born during the listing, so one empty listing is not enough.
    let mut empty_looks = 0;
    for _ in 0..ROUNDS {
        let processes = processes::all();
        let spared = ancestors(&processes, me);
        let mut victims: Vec<Process> = Vec::new();
        for process in remains(&processes) {
            victims.extend(processes::descendants(&processes, process.pid));
            victims.push(process);
        }
        victims.retain(|process| {
            !process.is_dead
                && !spared.contains(&process.pid)
                && (user == 0 || processes::owner(process.pid) == Some(user))
        });
        empty_looks = if victims.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 3 {
            break;
        }
        for process in victims {
            processes::signal(&process, Signal::KILL);
            if !ended.iter().any(|known| known.pid == process.pid && known.start == process.start) {
                ended.push(process);
            }
        }
        if empty_looks == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }
    ended
}

fn ancestors(processes: &[Process], pid: i32) -> BTreeSet<i32> {
    let mut chain = BTreeSet::new();
    let mut current = pid;
    while chain.insert(current) {
        match processes.iter().find(|process| process.pid == current) {
            Some(process) => current = process.parent,
            None => break,
        }
    }
    chain
}

fn remove_cgroups(stack_dir: &Path) {
    for dir in Members::of(stack_dir).find(&[]).cgroups {
        group(&dir).remove();
    }
}

/// A group of which only the folder is known; listing and removing are the same in both versions.
fn group(dir: &Path) -> Cgroup {
    Cgroup { version: Version::V2, dir: dir.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_runs_and_strangers_are_not_dead() {
        let root = tempfile::tempdir().unwrap();
        let run = |name: &str| {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            dir
        };
        let stranger = run("tg-notes");
        let fresh = run("tgn-fresh");
        let dead = run("tg-dead");
        fs::write(dead.join(LOCK), "").unwrap();
        let alive = run("tg-alive");
        let lock = File::create(alive.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let swept = sweep(root.path());
        assert_eq!(swept.folders, std::slice::from_ref(&dead));
        assert!(stranger.exists() && fresh.exists() && alive.exists() && !dead.exists());
    }
}
