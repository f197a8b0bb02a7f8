//! The end of a stack: in order while tachograph is there, at once when it is not.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use host::Process;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Guard;
use crate::processes;
use crate::protocol::Reply;

/// How long processes have to end after SIGTERM when tachograph is gone.
pub(super) const GRACE: Duration = Duration::from_millis(700);

/// How long we go on killing; only a process stuck in the kernel survives its first round.
const KILLING: Duration = Duration::from_secs(10);

/// How often we look whether processes are gone that are not our own children.
const LOOK: Duration = Duration::from_millis(10);

impl Guard {
    /// Asks each process to stop, the last one first, and kills what does not.
    pub(super) fn stop_in_order(&mut self) -> Reply {
        let mut killed = Vec::new();
        for index in (0..self.children.len()).rev() {
            if let Some(sentence) = self.stop_one(index) {
                killed.push(sentence);
            }
        }
        // What is left belongs to no process in particular.
        let left = self.stop_at_once(GRACE);
        Reply::Stopped { killed, left }
    }

    /// Ends everything, with a short time for SIGTERM. Returns what cannot be killed.
    pub(super) fn stop_at_once(&mut self, grace: Duration) -> Vec<i32> {
        self.pump(Duration::ZERO);
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

    /// Stops one process and all that it started; a sentence if that took force.
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
            // What a process leaves behind was never told to stop.
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

    /// Sends the signal to whom a person would send it.
    fn ask(&self, index: usize, signal: Signal) {
        let child = &self.children[index];
        let members = self.members(index);
        match members.iter().find(|process| process.pid == child.pid) {
            // The pid cannot have been given away: only we could have taken its status.
            Some(_) if child.launch.signal_group => {
                if let Some(group) = Pid::from_raw(child.pid) {
                    let _ = kill_process_group(group, signal);
                }
            }
            Some(process) => processes::signal(process, signal),
            // It went into the background: its heads are the processes that we adopted.
            None => members
                .iter()
                .filter(|process| process.parent == self.me)
                .for_each(|process| processes::signal(process, signal)),
        }
    }

    /// Kills until it is done or time is up. Processes may fork meanwhile, hence the loop.
    fn kill(&mut self, victims: impl Fn(&Guard) -> Vec<Process>, done: impl Fn(&Guard) -> bool) {
        let deadline = Instant::now() + KILLING;
        while !done(self) && Instant::now() < deadline {
            for process in victims(self) {
                processes::signal(&process, Signal::KILL);
            }
            self.pump(LOOK);
        }
    }

    /// Waits for a condition; without tachograph only for moments.
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

    /// Every living process of the stack; none before it has been set up.
    pub(super) fn living(&self) -> Vec<Process> {
        let Some(setup) = &self.setup else { return Vec::new() };
        super::living(self.me, self.cgroup.as_ref(), &setup.dir)
    }

    /// Whether nothing of a process is alive. One look may miss a process that
    /// was born after /proc was listed, from a parent that died before it was
    /// looked at; a daemon's two forks can play that trick twice.
    pub(super) fn is_gone(&self, index: usize) -> bool {
        (0..3).all(|_| self.members(index).is_empty())
    }

    /// The living processes that descend from one that we started, as far as that can be told:
    /// by parentage, by session, or by the environment that they were given.
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

    /// Removes what the stack has in the file system.
    pub(super) fn clean_up(&self) {
        let Some(setup) = &self.setup else { return };
        if let Some(group) = &self.cgroup {
            group.kill();
            group.remove();
        }
        remove_dir(&setup.dir);
    }
}

/// Removes a folder; a process that is just ending may still write into it, hence several tries.
pub(crate) fn remove_dir(dir: &std::path::Path) {
    for _ in 0..20 {
        match fs::remove_dir_all(dir) {
            Ok(()) => return,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}
