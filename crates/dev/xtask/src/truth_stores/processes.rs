//! All processes that this thread has started, and those that they have: those of one trial.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Nanos;
use host::Process;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;

use crate::process::{KilledOnDrop, comes_true};

/// Timeout of the end of killed processes, and how often to look.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);

/// Their CPU time, also of those that have ended and were waited for.
pub(super) fn cpu() -> Result<Nanos, String> {
    let own = std::process::id().cast_signed();
    let ended = Process::find(own).map(|own| own.children_cpu).unwrap_or_default();
    let living = living()?;
    Ok(living.iter().fold(ended, |sum, process| sum + process.cpu + process.children_cpu))
}

/// Suspended processes, which go on when this is dropped.
pub(super) struct SuspendedProcesses {
    pub(super) all: Vec<Pid>,
    guard: KilledOnDrop,
}

/// Reads which processes are suspended, and kills them when its input ends: they would not notice
/// that this process was killed.
const GUARD: &str =
    "trap '' HUP INT; while read -r pid; do all=\"$all $pid\"; done; kill -KILL $all";

/// Suspends all, also those that are started meanwhile.
pub(super) fn suspend() -> Result<SuspendedProcesses, String> {
    let mut guard = Command::new("sh");
    let guard = guard.args(["-c", GUARD]).stdin(Stdio::piped()).spawn();
    let guard = KilledOnDrop(guard.map_err(|error| format!("sh: {error}"))?);
    let mut suspended = SuspendedProcesses { all: Vec::new(), guard };
    while suspended.add_new()? {}
    // Some may have ended before.
    suspended.all.retain(|process| Process::find(process.as_raw_nonzero().get()).is_some());
    Ok(suspended)
}

impl SuspendedProcesses {
    /// Suspends those that it does not have yet; returns whether there are any.
    fn add_new(&mut self) -> Result<bool, String> {
        let guard = Pid::from_child(&self.guard.0);
        let mut found: Vec<Pid> =
            living()?.iter().filter_map(|living| Pid::from_raw(living.pid)).collect();
        found.retain(|process| *process != guard && !self.all.contains(process));
        let mut input = self.guard.0.stdin.as_ref().ok_or("the guard has no input")?;
        for process in &found {
            writeln!(input, "{process}").map_err(|error| format!("the guard: {error}"))?;
            self.all.push(*process);
            send(*process, Signal::STOP);
        }
        Ok(!found.is_empty())
    }
}

impl Drop for SuspendedProcesses {
    fn drop(&mut self) {
        self.all.iter().for_each(|process| send(*process, Signal::CONT));
    }
}

/// Kills a process and those that its first thread has started, and waits until they have ended; it is
/// suspended first, so that it starts no others. They may have ended by themselves.
pub(super) fn kill_with_children(process: Pid) -> Result<(), String> {
    send(process, Signal::STOP);
    let id = process.as_raw_nonzero().get().unsigned_abs();
    let all: Vec<Pid> = children(id, process).filter_map(Pid::from_raw).chain([process]).collect();
    kill(&all)
}

/// Kills these, and waits until they have ended; and until those are gone whose parent is killed too,
/// since PostgreSQL does not start beside a process of its number that nobody has waited for.
pub(super) fn kill(all: &[Pid]) -> Result<(), String> {
    let pids: BTreeSet<i32> = all.iter().map(|process| process.as_raw_nonzero().get()).collect();
    let is_orphan = |pid: &i32| Process::find(*pid).is_some_and(|it| pids.contains(&it.parent));
    let orphans: BTreeSet<i32> = pids.iter().copied().filter(is_orphan).collect();
    all.iter().for_each(|process| send(*process, Signal::KILL));
    let is_left = |pid: &i32| {
        // The first thread may have ended before the others.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let is_left =
            |process: Process| !process.is_dead || threads > 1 || orphans.contains(&process.pid);
        Process::find(*pid).is_some_and(is_left)
    };
    match comes_true(PATIENCE, LOOK, || !pids.iter().any(is_left)) {
        true => Ok(()),
        false => Err("a killed process does not end".to_owned()),
    }
}

fn send(process: Pid, signal: Signal) {
    // It may have ended by itself.
    let _ = kill_process(process, signal);
}

fn living() -> Result<Vec<Process>, String> {
    let mut all = Process::all().map_err(|error| error.to_string())?;
    let mut found: BTreeSet<i32> = children(std::process::id(), gettid()).collect();
    for child in found.clone() {
        found.append(&mut Process::descendants(&all, child));
    }
    all.retain(|process| found.contains(&process.pid) && !process.is_dead);
    Ok(all)
}

/// The processes that a thread of a process has started; none if it has ended.
fn children(process: u32, thread: Pid) -> impl Iterator<Item = i32> {
    let path = format!("/proc/{process}/task/{}/children", thread.as_raw_nonzero());
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children: Vec<i32> =
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    children.into_iter()
}
