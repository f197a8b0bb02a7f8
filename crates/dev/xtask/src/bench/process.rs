//! Child processes on one CPU, with their cost; none remains.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::usage_error;

/// How often to check a child.
const LOOK: Duration = Duration::from_millis(5);

/// Cost of a process, in seconds of CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

/// A child on one CPU. It is killed on drop, and when this process ends.
#[derive(Debug)]
pub(crate) struct Pinned {
    child: Child,
    name: String,
    output: File,
}

impl Pinned {
    /// Starts `program` on `cpu` and captures its output.
    pub(crate) fn start(
        own: &Path,
        cpu: usize,
        program: &Path,
        arguments: &[String],
        record: &Path,
    ) -> Result<Pinned, String> {
        Pinned::spawn(own, cpu, program, |command| {
            command.args(arguments).env("TACHOGRAPH_RECORD", record);
        })
    }

    /// The same in a folder, where also our record is written.
    pub(crate) fn start_in(
        own: &Path,
        cpu: usize,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Pinned, String> {
        Pinned::spawn(own, cpu, program, |command| {
            command
                .args(arguments)
                .current_dir(folder)
                .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"));
        })
    }

    fn spawn(
        own: &Path,
        cpu: usize,
        program: &Path,
        complete: impl FnOnce(&mut Command),
    ) -> Result<Pinned, String> {
        let name =
            program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let output = tempfile::tempfile().map_err(failed)?;
        let mut command = Command::new(own);
        command.args(["bench-pinned", &cpu.to_string()]).arg(program);
        complete(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        Ok(Pinned { child, name, output })
    }

    /// Waits for its end, at most `limit`; returns output and cost.
    pub(super) fn finish(
        mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(String, Cost), String> {
        let before = children_cost()?;
        let Some(status) = self.wait(limit, stop)? else {
            return Err(format!("{} did not end within {limit:?}; it was stopped", self.name));
        };
        let after = children_cost()?;
        let text = self.printed();
        if !status.success() {
            return Err(format!("{} ended with {status}: {}", self.name, text.trim()));
        }
        let cost = Cost {
            user_s: after.user_s - before.user_s,
            system_s: after.system_s - before.system_s,
        };
        Ok((text, cost))
    }

    /// Waits for its end; `None` if it takes longer than `limit`.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<ExitStatus>, String> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if stop.load(Ordering::Relaxed) {
                return Err("stopped".to_owned());
            }
            if began.elapsed() > limit {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("cannot wait for {}: {error}", self.name))
    }

    /// Its output so far.
    pub(crate) fn printed(&mut self) -> String {
        let mut bytes = Vec::new();
        // The output is for people; the failure is reported in any case.
        let _ = self.output.seek(SeekFrom::Start(0));
        let _ = self.output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Both fail only for a child that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Total cost of all children that have been waited for (getrusage(2)).
fn children_cost() -> Result<Cost, String> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(Cost { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) })
}

/// `bench-pinned CPU PROGRAM ARGUMENTS`: becomes the program on that CPU, until its parent ends.
pub(crate) fn become_pinned(words: &[&str]) -> ExitCode {
    let [cpu, program, arguments @ ..] = words else {
        return usage_error("bench-pinned needs a CPU and a program");
    };
    let Ok(cpu) = cpu.parse::<usize>() else {
        return usage_error("bench-pinned needs a CPU's number");
    };
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        return usage_error(&format!("cannot run on CPU {cpu}: {error}"));
    }
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return usage_error(&format!("cannot be tied to the parent: {error}"));
    }
    let error = Command::new(program).args(arguments).exec();
    usage_error(&format!("cannot start {program}: {error}"))
}
