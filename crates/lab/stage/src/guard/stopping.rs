//! Stopping a stack: in order while tachograph is there, at once when it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::Process;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Guard;
use crate::processes;
use crate::protocol::Reply;

/// Time to end after SIGTERM when tachograph is gone.
pub(super) const GRACE: Duration = Duration::from_millis(700);

/// How long to keep killing; only a process stuck in the kernel survives the first round.
const KILLING: Duration = Duration::from_secs(10);

/// How often to check for the end of processes that are not our children.
const LOOK: Duration = Duration::from_millis(10);

impl Guard {
    /// Asks each process to stop, last one first, and kills those that do not.
    pub(super) fn stop_in_order(&mut self) -> Reply {
        self.note_code_maps();
        let mut killed = Vec::new();
        for index in (0..self.children.len()).rev() {
            if let Some(sentence) = self.stop_one(index) {
                killed.push(sentence);
            }
        }
        // The rest belongs to no particular process.
        let left = self.stop_at_once(GRACE);
        Reply::Stopped { killed, left }
    }

    /// Stops everything, with a short time for SIGTERM. Returns the pids that cannot be killed.
    pub(super) fn stop_at_once(&mut self, grace: Duration) -> Vec<i32> {
        self.pump(Duration::ZERO);
        self.note_code_maps();
        for process in self.living() {
            processes::signal(&process, Signal::TERM);
        }
        self.wait_until(grace, |guard| guard.childless);
        self.kill(Guard::living, |guard| guard.childless);
        if self.childless {
            return Vec::new();
        }
        self.living().iter().map(|process| process.pid).collect()
    }

    /// Stops one process and all its descendants; returns a message if it had to be killed.
    fn stop_one(&mut self, index: usize) -> Option<String> {
        let launch = self.children[index].launch.clone();
        let signal = Signal::from_named_raw(launch.stop_signal).unwrap_or(Signal::TERM);
        let patience = Duration::from_millis(launch.stop_timeout_ms);
        self.ask(index, signal);
        let was_in_background = self.children[index].has_ended;
        self.wait_until(patience, |guard| {
            let main_ended = guard.children[index].has_ended && !was_in_background;
            main_ended || guard.members(index).is_empty()
        });
        let ended_itself = self.children[index].has_ended;
        if ended_itself {
            // Processes left behind have not been asked to stop yet.
            self.wait_until(GRACE.min(patience), |guard| guard.is_gone(index));
            self.members(index).iter().for_each(|process| processes::signal(process, Signal::TERM));
            self.wait_until(GRACE.min(patience), |guard| guard.is_gone(index));
        }
        if self.is_gone(index) {
            return None;
        }
        self.kill(|guard| guard.members(index), |guard| guard.is_gone(index));
        let name = signal_hook::low_level::signal_name(signal.as_raw()).unwrap_or("the signal");
        let who = match ended_itself {
            false => format!("'{}'", launch.name),
            true => format!("what '{}' had started", launch.name),
        };
        Some(match ended_itself {
            true => format!("{who} did not stop with it and was killed"),
            false => {
                let patience = base::Nanos::from(patience);
                format!("{who} did not stop within {patience} of {name} and was killed")
            }
        })
    }

    /// Sends the signal to the process that a user would signal.
    fn ask(&self, index: usize, signal: Signal) {
        let child = &self.children[index];
        let members = self.members(index);
        match members.iter().find(|process| process.pid == child.pid) {
            // The pid cannot have been reused: only we could have reaped it.
            Some(_) if child.launch.signal_group => {
                if let Some(group) = Pid::from_raw(child.pid) {
                    let _ = kill_process_group(group, signal);
                }
            }
            Some(process) => processes::signal(process, signal),
            // It is a daemon: its heads are the processes that we adopted.
            None => members
                .iter()
                .filter(|process| process.parent == self.me)
                .for_each(|process| processes::signal(process, signal)),
        }
    }

    /// Kills until done or timed out; in a loop, because processes may fork meanwhile.
    fn kill(&mut self, victims: impl Fn(&Guard) -> Vec<Process>, done: impl Fn(&Guard) -> bool) {
        let deadline = Instant::now() + KILLING;
        while !done(self) && Instant::now() < deadline {
            for process in victims(self) {
                processes::signal(&process, Signal::KILL);
            }
            self.pump(LOOK);
        }
    }

    /// Waits for a condition, but only briefly if tachograph is gone.
    fn wait_until(&mut self, patience: Duration, holds: impl Fn(&Guard) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            let patience = if self.is_orphaned() { patience.min(GRACE) } else { patience };
            if start.elapsed() >= patience {
                return;
            }
            self.pump(LOOK);
        }
    }

    /// Every living process of the stack; none before setup.
    pub(super) fn living(&self) -> Vec<Process> {
        let Some(setup) = &self.setup else { return Vec::new() };
        super::living(self.me, self.cgroup.as_ref(), &setup.dir)
    }

    /// Whether no process of this one is alive. One listing may miss a process that was born after
    /// /proc was listed, of a parent that died before it was looked at. The two forks of a daemon
    /// can do that twice.
    pub(super) fn is_gone(&self, index: usize) -> bool {
        (0..3).all(|_| self.members(index).is_empty())
    }

    /// The living descendants of a process that we started, as far as they can be recognised: by
    /// parent, session, or environment.
    pub(super) fn members(&self, index: usize) -> Vec<Process> {
        let child = &self.children[index];
        let number = index.to_string();
        let living = self.living();
        let mut known: BTreeSet<i32> = child.heads().into_iter().collect();
        for head in child.heads() {
            known.extend(processes::descendants(&living, head).iter().map(|process| process.pid));
        }
        living
            .into_iter()
            .filter(|process| {
                known.contains(&process.pid)
                    || process.session == child.pid
                    || processes::environment_has(process.pid, "TACHOGRAPH_PROCESS", &|value| {
                        value == number
                    })
            })
            .collect()
    }

    /// Notes the maps that the living processes have written: afterwards their numbers are forgotten.
    fn note_code_maps(&mut self) {
        let maps = self.living().into_iter().map(|process| code_map(process.pid));
        self.code_maps.extend(maps.filter(|map| map.exists()));
    }

    /// Removes the stack's files.
    pub(super) fn clean_up(&self) {
        let Some(setup) = &self.setup else { return };
        for map in &self.code_maps {
            // It may have been removed by its process.
            let _ = fs::remove_file(map);
        }
        if let Some(group) = &self.cgroup {
            group.kill();
            group.remove();
        }
        remove_dir(&setup.dir);
    }
}

/// Where an interpreter writes the names of the code that it generates (Linux,
/// tools/perf/Documentation/jit-interface.txt).
fn code_map(pid: i32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// Removes a folder; retries, because a process that is just ending may still write to it.
pub(crate) fn remove_dir(dir: &std::path::Path) {
    for _ in 0..20 {
        match fs::remove_dir_all(dir) {
            Ok(()) => return,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}
