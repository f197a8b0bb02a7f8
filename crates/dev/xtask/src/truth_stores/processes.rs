//! All processes that this one has started, and those that they have.

use std::time::Duration;

use base::Nanos;
use host::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::process::comes_true;

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

/// Suspends all, also those that are started meanwhile.
pub(super) fn suspend() -> Result<Vec<Pid>, String> {
    let mut suspended = Vec::new();
    loop {
        let living = living()?;
        let living: Vec<Pid> =
            living.iter().filter_map(|living| Pid::from_raw(living.pid)).collect();
        if living.iter().all(|process| suspended.contains(process)) {
            return Ok(living);
        }
        living.iter().for_each(|process| send(*process, Signal::STOP));
        suspended = living;
    }
}

/// Kills these, and waits until they are gone; those that are to be waited for by this process, until
/// they have ended.
pub(super) fn kill(all: &[Pid]) -> Result<(), String> {
    all.iter().for_each(|process| send(*process, Signal::KILL));
    let own = std::process::id().cast_signed();
    let is_there = |process: &Pid| {
        let pid = process.as_raw_nonzero().get();
        // The first thread may have ended before the others.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let has_ended = |process: Process| process.is_dead && process.parent == own && threads <= 1;
        Process::find(pid).is_some_and(|process| !has_ended(process))
    };
    match comes_true(PATIENCE, LOOK, || !all.iter().any(is_there)) {
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
    let found = Process::descendants(&all, std::process::id().cast_signed());
    all.retain(|process| found.contains(&process.pid) && !process.is_dead);
    Ok(all)
}
