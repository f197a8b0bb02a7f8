//! A running stack.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos};
use host::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use spec::{Deed, Endpoint};

use crate::address_in_use::{address_in_use, reports_address_in_use};
use crate::allocation::Allocation;
use crate::cgroup::Cgroup;
use crate::error::{LogTail, StageError};
use crate::guard;
use crate::layout::RUN_DIR_VARIABLE;
use crate::ports;
use crate::process_exit::ProcessExit;
use crate::protocol::{Channel, GuardRequest, Launch, Reply, Setup};
use crate::ready::Check;
use crate::redact::Secrets;
use crate::start_options::StartOptions;
use crate::sweep;
use crate::usage::{Meter, Usage};
use crate::vars::Variables;

/// How often to check whether waiting for a shell command should end.
const COMMAND_LOOK: Duration = Duration::from_millis(20);

/// Timeout of the guard for operations that take milliseconds.
const GUARD_PATIENCE: Duration = Duration::from_secs(20);

/// Lines of a log in an error, and bytes of its end to read for them.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 << 10;

/// A process of a stack.
#[derive(Clone, Debug)]
pub(crate) struct StackProcess {
    name: String,
    command: String,
    log: PathBuf,
    stop_timeout: Duration,
    ended: Option<ProcessExit>,
}

impl StackProcess {
    pub(crate) fn new(name: String, command: String, log: PathBuf) -> StackProcess {
        StackProcess { name, command, log, stop_timeout: Duration::ZERO, ended: None }
    }

    fn tail(&self) -> LogTail {
        LogTail(tail(&self.log, TAIL_LINES))
    }
}

/// The connection to the guard and what it has reported.
#[derive(Debug)]
struct GuardLink {
    guard: Child,
    channel: Channel,
    cgroup: Option<Cgroup>,
    processes: Vec<StackProcess>,
    meter: Meter,
    /// Shell commands that have ended.
    commands: Vec<(i32, ProcessExit)>,
}

/// A running stack. Dropping it stops it, as [`LiveStack::stop`] does.
pub struct LiveStack {
    name: String,
    id: String,
    vars: Variables,
    /// CPUs of its processes, with the client's if one runs there; empty means all.
    cpus_allowed: CpuSet,
    guard_pid: i32,
    link: Mutex<GuardLink>,
    stopped: bool,
    allocation: Allocation,
    /// Environment and working directory of shell commands.
    surroundings: Surroundings,
}

/// Environment and working directory of a stack's processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) working_dir: Option<PathBuf>,
}

/// The outcome of one step of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The signal was sent to this process.
    Signalled {
        /// Its pid.
        pid: i32,
    },
    /// No process was left to signal.
    NoProcess,
    /// The command has ended.
    Ended(ProcessExit),
    /// The command was still running when the wait ended.
    Unfinished,
}

/// The result of stopping a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReport {
    /// Messages about processes that did not stop when asked and were killed.
    pub killed: Vec<String>,
    /// Messages about processes that survived SIGKILL.
    pub left: Vec<String>,
    /// Resource usage just before.
    pub usage: Option<Usage>,
}

impl std::fmt::Debug for LiveStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveStack").field("name", &self.name).field("id", &self.id).finish()
    }
}

impl LiveStack {
    /// Starts the guard of a stack that has no processes yet.
    pub(crate) fn guarded(
        allocation: Allocation,
        id: String,
        vars: Variables,
        surroundings: Surroundings,
        options: &StartOptions,
    ) -> Result<LiveStack, StageError> {
        let run = &allocation.run;
        let failed = |error: std::io::Error| {
            StageError::Guard(format!("cannot start {}: {error}", run.executable.display()))
        };
        let (here, there) = UnixStream::pair().map_err(failed)?;
        let log = File::create(allocation.dir.join("log/guard.log")).map_err(failed)?;
        let guard = Command::new(&run.executable)
            .arg("guard")
            .env("TACHOGRAPH_RUN", run.id.as_str())
            .env(RUN_DIR_VARIABLE, &run.dir)
            .env("TACHOGRAPH_STACK", &id)
            .stdin(Stdio::from(OwnedFd::from(there)))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let guard_pid = guard.id() as i32;
        let link = GuardLink {
            guard,
            channel: Channel::new(here).map_err(failed)?,
            cgroup: None,
            processes: Vec::new(),
            meter: Meter::default(),
            commands: Vec::new(),
        };
        let setup = Setup {
            stack: id.clone(),
            dir: allocation.dir.clone(),
            cpus: options.cpus.clone(),
            accounting: run.accounting,
        };
        let live = LiveStack {
            name: options.name.clone(),
            id,
            vars,
            cpus_allowed: options.cpus.clone(),
            guard_pid,
            link: Mutex::new(link),
            stopped: false,
            allocation,
            surroundings,
        };
        let mut link = live.link();
        if let Reply::Ready { cgroup } = link.ask(&GuardRequest::Setup(setup))? {
            link.cgroup = cgroup;
        }
        drop(link);
        Ok(live)
    }

    /// Starts a process; returns its index.
    pub(crate) fn launch(
        &mut self,
        running: StackProcess,
        launch: Launch,
    ) -> Result<usize, StageError> {
        let mut link = self.link();
        let stop_timeout = Duration::from_millis(launch.stop_timeout_ms);
        let beside_client: Vec<usize> = launch.cpus.iter().collect();
        link.processes.push(StackProcess { stop_timeout, ..running });
        link.ask(&GuardRequest::Launch(launch))?;
        let index = link.processes.len() - 1;
        drop(link);
        self.cpus_allowed.0.extend(beside_client);
        Ok(index)
    }

    /// Makes the guard list all processes, for a sweep after both of us were killed.
    pub(crate) fn remember(&self) -> Result<(), StageError> {
        self.link().ask(&GuardRequest::Remember).map(drop)
    }

    /// Does one step of an action; waits for a command's end until `enough` returns true. The
    /// command belongs to the stack: what it leaves running is stopped with it.
    ///
    /// # Errors
    /// [`StageError::Guard`] if the guard is gone, and the stack with it, or if the command could
    /// not be started.
    pub fn act(&self, deed: &Deed, enough: &dyn Fn() -> bool) -> Result<StepResult, StageError> {
        let command = match deed {
            Deed::Signal { process, .. } => {
                let signal = deed.signal_number().unwrap_or_default();
                let request = GuardRequest::Signal { index: *process, signal };
                return Ok(match self.link().ask(&request)? {
                    Reply::Signalled { pid: Some(pid) } => StepResult::Signalled { pid },
                    _ => StepResult::NoProcess,
                });
            }
            Deed::Command(command) => self.expand(command),
        };
        let launch = Launch {
            name: command.clone(),
            argv: vec!["sh".to_owned(), "-c".to_owned(), command],
            env: self.surroundings.env.clone(),
            working_dir: self.surroundings.working_dir.clone(),
            log: self.allocation.dir.join("log/actions.log"),
            stop_signal: Signal::TERM.as_raw(),
            stop_timeout_ms: 0,
            cpus: CpuSet::default(),
            signal_group: false,
        };
        self.command(launch, enough)
    }

    /// Runs a command as part of the stack; waits for its end until `enough` returns true.
    pub(crate) fn command(
        &self,
        launch: Launch,
        enough: &dyn Fn() -> bool,
    ) -> Result<StepResult, StageError> {
        let Reply::Launched { pid } = self.link().ask(&GuardRequest::Command(launch))? else {
            return Err(StageError::Guard("it did not start a command".to_owned()));
        };
        loop {
            let mut link = self.link();
            link.listen()?;
            if let Some((_, ended)) = link.commands.iter().find(|(of, _)| *of == pid) {
                return Ok(StepResult::Ended(*ended));
            }
            if enough() {
                return Ok(StepResult::Unfinished);
            }
            link.wait(COMMAND_LOOK);
        }
    }

    /// The last lines of the shell commands' output.
    pub fn commands_tail(&self, count: usize) -> Vec<String> {
        tail(&self.allocation.dir.join("log/actions.log"), count)
    }

    /// An error if a starting process has ended.
    pub(crate) fn check_starting(
        &self,
        index: usize,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), StageError> {
        let mut link = self.link();
        link.listen()?;
        let process = &link.processes[index];
        let Some(ended) = process.ended else { return Ok(()) };
        let log = process.tail();
        if reports_address_in_use(&log.0) {
            return Err(address_in_use(&process.name, endpoint));
        }
        Err(StageError::Crashed {
            process: process.name.clone(),
            command: process.command.clone(),
            ended,
            log,
        })
    }

    /// The same for all processes, once the last one is ready.
    pub(crate) fn check_started(&self) -> Result<(), StageError> {
        let count = self.link().processes.len();
        (0..count).try_for_each(|index| self.check_starting(index, None))
    }

    /// The error for a process that took too long.
    pub(crate) fn not_ready(
        &self,
        index: usize,
        after: Nanos,
        check: &Check,
        seen: String,
    ) -> StageError {
        let process = self.link().processes[index].clone();
        let log = process.tail();
        if reports_address_in_use(&log.0) {
            return address_in_use(&process.name, check.endpoint());
        }
        StageError::NotReady { process: process.name, after, check: check.to_string(), seen, log }
    }

    /// The error if the stack listens on TCP ports, but on none that it was given, and the check
    /// waits for one of these.
    pub(crate) fn on_another_port(&self, index: usize, check: &Check) -> Option<StageError> {
        let given = match check.endpoint()? {
            Endpoint::Tcp { port, .. } => *port,
            _ => return None,
        };
        let ports = &self.allocation.ports;
        let listened = ports.contains(&given).then(|| ports::listened_on(&self.pids()))?;
        let port =
            *listened.first().filter(|_| listened.is_disjoint(&ports.iter().copied().collect()))?;
        let StackProcess { name: process, command, .. } = self.link().processes[index].clone();
        Some(StageError::OtherPort { process, command, port, given })
    }

    /// The process from which all others of the stack descend.
    pub fn guard_pid(&self) -> i32 {
        self.guard_pid
    }

    /// The variant's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of `TACHOGRAPH_STACK` in the environment of its processes.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The stack's own folder, `$DIR`.
    pub fn dir(&self) -> &Path {
        &self.allocation.dir
    }

    /// Expands `$PORT`, `$SOCKET` and so on; other variables stay.
    pub fn expand(&self, text: &str) -> String {
        self.vars.expand(text)
    }

    /// The living processes of the stack, in no particular order, without the guard.
    pub fn pids(&self) -> Vec<i32> {
        self.living().iter().map(|process| process.pid).collect()
    }

    /// Resource usage so far.
    ///
    /// # Errors
    /// If the control group cannot be read, because the guard is gone.
    pub fn usage(&self) -> Result<Usage, StageError> {
        let living = self.living();
        let mut link = self.link();
        let cgroup = link.cgroup.clone();
        link.meter.read(self.guard_pid, cgroup.as_ref(), &living)
    }

    /// CPU time of all its processes so far. With a control group this reads one short file;
    /// [`LiveStack::usage`] reads every process.
    ///
    /// # Errors
    /// If the control group cannot be read, because the guard is gone.
    pub fn cpu(&self) -> Result<Nanos, StageError> {
        let group = self.link().cgroup.clone();
        match group {
            Some(group) => group.cpu().map_err(StageError::file("cannot read", &group.dir)),
            None => Ok(self.usage()?.cpu),
        }
    }

    /// Checks that every process is alive.
    ///
    /// # Errors
    /// [`StageError::Died`] names the first dead process, with the end of its log;
    /// [`StageError::Guard`] means that the guard is gone, and the stack with it.
    pub fn check_alive(&self) -> Result<(), StageError> {
        let mut link = self.link();
        link.listen()?;
        match link.processes.iter().find_map(|process| Some((process, process.ended?))) {
            None => Ok(()),
            Some((process, ended)) => {
                Err(StageError::Died { process: process.name.clone(), ended, log: process.tail() })
            }
        }
    }

    /// A message if a thread of the stack may run on a CPU outside the stack's: some servers set
    /// the affinity of their workers themselves.
    pub fn cpus_allowed_violation(&self) -> Option<String> {
        if self.cpus_allowed.is_empty() {
            return None;
        }
        self.living().iter().find_map(|process| {
            let allowed = allowed_cpus(process.pid)?;
            let outside = allowed.iter().find(|cpu| !self.cpus_allowed.0.contains(cpu))?;
            Some(format!(
                "{} (pid {}) may run on CPU {outside}, but the stack has only {}",
                process.name, process.pid, self.cpus_allowed
            ))
        })
    }

    /// The last `count` lines of each process's log, prefixed with the process's name.
    pub fn log_tail(&self, count: usize) -> Vec<String> {
        let processes = self.link().processes.clone();
        processes
            .iter()
            .flat_map(|process| {
                let lines = tail(&process.log, count);
                lines.into_iter().map(|line| format!("{}: {line}", process.name))
            })
            .collect()
    }

    /// Stops every process, last one first, kills those that do not stop in time, and removes the
    /// stack's sockets and folder.
    pub fn stop(mut self) -> StopReport {
        self.shut_down()
    }

    fn link(&self) -> MutexGuard<'_, GuardLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn living(&self) -> Vec<Process> {
        guard::living(self.guard_pid, self.link().cgroup.as_ref(), &self.allocation.dir)
    }

    fn shut_down(&mut self) -> StopReport {
        if self.stopped {
            return StopReport::default();
        }
        self.stopped = true;
        let usage = self.usage().ok();
        let answer = self.link().stop();
        let mut report = StopReport { usage, ..StopReport::default() };
        match answer {
            Some((killed, left)) => {
                report.killed = killed;
                report.left = left
                    .iter()
                    .filter_map(|pid| Process::find(*pid))
                    .map(|process| {
                        format!("{} (pid {}) cannot be killed", process.name, process.pid)
                    })
                    .collect();
            }
            None => {
                let ended = sweep::end_stack(&self.id, &self.allocation.dir);
                report.killed = ended
                    .iter()
                    .map(|process| {
                        format!(
                            "{} (pid {}) was killed, because its guard was gone",
                            process.name, process.pid
                        )
                    })
                    .collect();
            }
        }
        self.link().reap_guard();
        report
    }
}

impl Drop for LiveStack {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl GuardLink {
    /// Sends a request and waits for its reply.
    fn ask(&mut self, request: &GuardRequest) -> Result<Reply, StageError> {
        let gone =
            |error: std::io::Error| StageError::Guard(format!("it does not listen: {error}"));
        self.channel.send(request).map_err(gone)?;
        let deadline = Instant::now() + GUARD_PATIENCE;
        loop {
            let mut answer = None;
            // The report of a process's end may arrive with the reply.
            for reply in self.next(deadline)? {
                match reply {
                    Reply::Ended { .. } | Reply::CommandEnded { .. } => self.note(&reply),
                    reply => answer = Some(reply),
                }
            }
            match answer {
                Some(Reply::Failed { why }) => return Err(StageError::Guard(why)),
                Some(answer) => return Ok(answer),
                None => {}
            }
        }
    }

    /// Records what the guard has reported meanwhile; does not wait.
    fn listen(&mut self) -> Result<(), StageError> {
        let replies = self.receive()?;
        replies.iter().for_each(|reply| self.note(reply));
        match self.channel.is_closed() {
            true => Err(gone()),
            false => Ok(()),
        }
    }

    fn note(&mut self, reply: &Reply) {
        if let Reply::CommandEnded { pid, ended } = reply {
            self.commands.push((*pid, *ended));
        }
        if let Reply::Ended { index, ended, left_behind } = reply
            && let Some(process) = self.processes.get_mut(*index)
            && !left_behind
        {
            // A daemon ends when the last of its processes does.
            process.ended = process.ended.or(Some(*ended));
        }
    }

    fn receive(&mut self) -> Result<Vec<Reply>, StageError> {
        self.channel.receive().map_err(|error| StageError::Guard(error.to_string()))
    }

    /// Waits for messages from the guard, at most until the deadline.
    fn next(&mut self, deadline: Instant) -> Result<Vec<Reply>, StageError> {
        loop {
            let replies = self.receive()?;
            if !replies.is_empty() {
                return Ok(replies);
            }
            if self.channel.is_closed() {
                return Err(gone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StageError::Guard("it does not answer".to_owned()));
            }
            self.wait(left);
        }
    }

    fn wait(&self, timeout: Duration) {
        let mut fds = [PollFd::new(self.channel.stream(), PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        // Interrupted by a signal: the caller checks again anyway.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Makes the guard stop everything; `None` if it is gone or does not finish.
    fn stop(&mut self) -> Option<(Vec<String>, Vec<i32>)> {
        self.channel.send(&GuardRequest::Stop).ok()?;
        let patience: Duration = self.processes.iter().map(|process| process.stop_timeout).sum();
        // Killing takes the guard at most ten seconds per process that is stuck in the kernel.
        let spare = GUARD_PATIENCE * (1 + self.processes.len() as u32);
        let deadline = Instant::now() + patience + spare;
        while Instant::now() < deadline && !self.channel.is_closed() {
            for reply in self.receive().ok()? {
                if let Reply::Stopped { killed, left } = reply {
                    return Some((killed, left));
                }
            }
            self.wait(Duration::from_millis(100));
        }
        None
    }

    /// Waits for the guard to exit; kills it if necessary.
    fn reap_guard(&mut self) {
        for _ in 0..500 {
            match self.guard.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(4)),
                _ => return,
            }
        }
        // If either fails, there is nothing left to do.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

fn gone() -> StageError {
    StageError::Guard("it was killed".to_owned())
}

/// The CPUs that any thread of a process may use.
fn allowed_cpus(pid: i32) -> Option<CpuSet> {
    let mut cpus = CpuSet::default();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpus.0.extend(list.trim().parse::<CpuSet>().ok()?.iter());
    }
    Some(cpus)
}

/// The last lines of a log, without control characters and secrets.
///
/// Every log line in an error or in the record comes from here.
pub(crate) fn tail(path: &Path, count: usize) -> Vec<String> {
    let read = || -> std::io::Result<(Vec<u8>, bool)> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, start > 0))
    };
    let (bytes, is_cut) = read().unwrap_or_default();
    let secrets = Secrets::of_environment();
    // The beginning may be the rest of a secret that was cut.
    let rest_of_a_secret = if is_cut { secrets.longest() } else { 0 };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = secrets
        .redact(&text)
        .chars()
        .skip(rest_of_a_secret)
        .collect::<String>()
        .lines()
        .map(|line| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .map(|line| base::redact(&line).chars().take(300).collect())
        .collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}
