//! Actions on a running stack: signals and shell commands.

use host::Process;
use rustix::process::{Signal, WaitStatus};

use super::{Guard, how, launch};
use crate::processes;
use crate::protocol::{Launch, Reply};

/// The number of a shell command among the processes of a stack, where it has none.
const NO_NUMBER: usize = usize::MAX;

/// The kernel's name of the shell that we start.
const SHELL: &str = "sh";

impl Guard {
    /// Sends a signal to the process that a user would signal.
    pub(super) fn signal(&mut self, index: usize, signal: i32) -> Reply {
        let target = self.addressee(index);
        if let (Some(process), Some(signal)) = (&target, Signal::from_named_raw(signal)) {
            processes::signal(process, signal);
        }
        Reply::Signalled { pid: target.map(|process| process.pid) }
    }

    /// Starts a shell command, with the pids of the processes in its environment.
    pub(super) fn command(&mut self, mut command: Launch) -> Result<Reply, String> {
        for index in 0..self.children.len() {
            let suffix = if index == 0 { String::new() } else { (index + 1).to_string() };
            if let Some(process) = self.addressee(index) {
                command.env.push((format!("PID{suffix}"), process.pid.to_string()));
            }
        }
        let stack = self.setup.as_ref().map(|setup| setup.stack.as_str()).unwrap_or_default();
        let pid = launch::spawn(&command, NO_NUMBER, stack, self.cgroup.as_ref())
            .map_err(|error| format!("'{}' could not be started: {error}", command.name))?;
        self.commands.push(pid);
        self.childless = false;
        Ok(Reply::Launched { pid })
    }

    /// Reports the end of a shell command; false if the process is none.
    pub(super) fn has_ended(&mut self, pid: i32, status: WaitStatus) -> bool {
        let Some(place) = self.commands.iter().position(|command| *command == pid) else {
            return false;
        };
        self.commands.swap_remove(place);
        // What it has started belongs to the stack, also after a kill.
        self.remember_all();
        // A failed send is ignored: the main loop notices the closed channel.
        let _ = self.channel.send(&Reply::CommandEnded { pid, ended: how(status) });
        true
    }

    /// The process of a number: the one that we started, or the child of a shell that we started
    /// for it; once it has ended, the oldest of its heirs. A server that was replaced by another,
    /// as nginx and gunicorn are in a binary upgrade, leaves the new one as an orphan, which we
    /// adopt.
    fn addressee(&self, index: usize) -> Option<Process> {
        let child = self.children.get(index)?;
        let members = self.members(index);
        let oldest = |parent: i32| {
            let of_parent = members.iter().filter(|process| process.parent == parent);
            of_parent.min_by_key(|process| (process.start, process.pid)).cloned()
        };
        let main = members.iter().find(|process| process.pid == child.pid);
        match main {
            // The command may have replaced its shell with exec.
            Some(shell) if child.launch.signal_group && shell.name == SHELL => {
                oldest(shell.pid).or_else(|| Some(shell.clone()))
            }
            Some(main) => Some(main.clone()),
            None => oldest(self.me),
        }
    }
}
