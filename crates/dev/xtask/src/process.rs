//! Child processes on one CPU, with their cost; none remains.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};

/// How often to check a child.
const LOOK: Duration = Duration::from_millis(20);

/// Cost of a process, in seconds of CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// The most memory that it had, by its last look at it before the end; 0 if there was none.
    pub(crate) peak_bytes: u64,
}

/// Open files that a child may have, if this process may allow it.
const FILES: u64 = 150_000;

/// A process that is killed on drop.
#[derive(Debug)]
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Both fail only for a process that has been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child on some CPUs. It is killed on drop, and when this process ends.
#[derive(Debug)]
pub(crate) struct PinnedProcess {
    child: KilledOnDrop,
    name: String,
    output: File,
}

impl PinnedProcess {
    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Starts `program` on one CPU in a folder, where also our record is written, and captures its
    /// output.
    pub(crate) fn start(
        cpu: usize,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        folder: &Path,
    ) -> Result<PinnedProcess, String> {
        PinnedProcess::start_on(&base::CpuSet::one(cpu), program, arguments, folder)
    }

    /// The same on several CPUs.
    pub(crate) fn start_on(
        cpus: &base::CpuSet,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        folder: &Path,
    ) -> Result<PinnedProcess, String> {
        let name =
            program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let output = tempfile::tempfile().map_err(failed)?;
        let child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["bench-pinned", &cpus.to_string()])
            .arg(program)
            .args(arguments)
            .current_dir(folder)
            .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        Ok(PinnedProcess { child: KilledOnDrop(child), name, output })
    }

    /// Waits for its end, at most `limit`; returns output and cost.
    pub(crate) fn finish(
        mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(String, Cost), String> {
        let before = children_cost()?;
        let mut peak_bytes = 0;
        let look = |child: &Child| peak_bytes = peak_memory(child.id()).unwrap_or(peak_bytes);
        let Some(status) = wait_and_look(&mut self.child.0, limit, stop, look)? else {
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
            peak_bytes,
        };
        Ok((text, cost))
    }

    /// Waits for its end; `None` if it takes longer than `limit`.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<ExitStatus>, String> {
        wait(&mut self.child.0, limit, stop)
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.0.try_wait().map_err(|error| format!("cannot wait for {}: {error}", self.name))
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

/// Waits for a child's end; `None` if it takes longer than `limit`, an error once `stop` is set.
pub(crate) fn wait(
    child: &mut Child,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Option<ExitStatus>, String> {
    wait_and_look(child, limit, stop, |_| {})
}

/// The same with a look at the child, as long as it runs.
fn wait_and_look(
    child: &mut Child,
    limit: Duration,
    stop: &AtomicBool,
    mut look: impl FnMut(&Child),
) -> Result<Option<ExitStatus>, String> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(Some(status));
        }
        look(child);
        if stop.load(Ordering::Relaxed) {
            return Err("stopped".to_owned());
        }
        if began.elapsed() > limit {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// The most memory that a process has had (`VmHWM`, proc(5)).
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Looks until something is so, with a pause after each look; false if it is not within `limit`.
pub(crate) fn comes_true(
    limit: Duration,
    pause: Duration,
    mut is_so: impl FnMut() -> bool,
) -> bool {
    let deadline = Instant::now() + limit;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
    }
    true
}

/// Whether something listens on this port of loopback within `limit`.
pub(crate) fn listens(port: u16, limit: Duration) -> bool {
    comes_true(limit, LOOK, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
}

/// Runs a command to its end; returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}").replace('"', "");
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("{shown}: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(format!("{shown}: {}: {said}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Limits this thread, and what it starts, to one CPU.
pub(crate) fn stay_on(cpu: usize) -> Result<(), String> {
    stay_on_all(&base::CpuSet::one(cpu))
}

fn stay_on_all(cpus: &base::CpuSet) -> Result<(), String> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(|error| format!("cannot run on CPU {cpus}: {error}"))
}

/// Total cost of all children that have been waited for (getrusage(2)).
pub(crate) fn children_cost() -> Result<Cost, String> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let (user_s, system_s) = (seconds(usage.user_time()), seconds(usage.system_time()));
    Ok(Cost { user_s, system_s, peak_bytes: 0 })
}

/// A port on loopback that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| format!("there is no free port: {error}"))
}

/// A program to become, on some CPUs, until the parent ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Pin {
    cpus: base::CpuSet,
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Pin {
    pub(crate) fn run(&self) -> Result<(), String> {
        let Pin { cpus, program, arguments } = self;
        stay_on_all(cpus)?;
        allow_files();
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("cannot be tied to the parent: {error}"))?;
        let error = Command::new(program).args(arguments).exec();
        Err(format!("cannot start {}: {error}", program.display()))
    }
}

/// Raises the limit on open files as far as possible: many connections are one each.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(FILES).max(FILES);
    let raised = Rlimit { current: Some(most), maximum: Some(most) };
    // Only root may raise the maximum.
    if setrlimit(Resource::Nofile, raised).is_err() {
        // A client that needs more fails with its own words.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_that_of_the_process() {
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak_memory(std::process::id()).unwrap() >= block.len() as u64);
        assert_eq!(peak_memory(u32::MAX), None);
    }

    #[test]
    fn a_command_is_waited_for_and_one_that_fails_says_why() {
        assert_eq!(output(Command::new("echo").arg("yes")), Ok("yes\n".to_owned()));
        let failed = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"]));
        assert_eq!(failed, Err("sh -c echo no >&2; exit 3: exit status: 3: no".to_owned()));
        let mut looks = 0;
        let mut at_the_third_look = || {
            looks += 1;
            looks == 3
        };
        assert!(!comes_true(Duration::ZERO, LOOK, &mut at_the_third_look));
        assert!(comes_true(Duration::from_secs(60), Duration::ZERO, at_the_third_look));
    }
}
