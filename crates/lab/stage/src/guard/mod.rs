//! The guard: a small process between tachograph and one stack.
//!
//! Every process of the stack is a descendant. The guard is a subreaper, so daemons remain its
//! descendants. When its channel to tachograph closes, because tachograph was killed or crashed,
//! the guard stops the whole stack, removes its files, and exits.
//!
//! It has no parent-death signal: that signal is bound to the thread that started it, and threads
//! may end normally. The closed channel says the same reliably.

mod acting;
mod launch;
mod members;
mod stopping;
mod watch;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, WaitStatus, getpid, set_child_subreaper, setsid, wait};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::cgroup::{CGROUP_PREFIX, Cgroup};
use crate::process_exit::ProcessExit;
use crate::protocol::{Channel, GuardRequest, Launch, Reply, Setup};

pub(crate) use members::{Members, living};
pub(crate) use stopping::remove_dir;
pub(crate) use watch::Watch;

/// How often an idle guard checks the size of the logs.
const TICK: Duration = Duration::from_secs(2);

/// Runs the hidden subcommand `guard`; `args` are its arguments.
///
/// Standard input is a socket or pipe to tachograph; nobody types this command.
pub fn guard_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.first() {
        Some(word) if word == launch::SUBCOMMAND => return launch::launch(&args[1..]),
        Some(word) if word == watch::SUBCOMMAND => return watch::watch(&args[1..]),
        _ => {}
    }
    match Guard::new().and_then(|mut guard| guard.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A process of the stack that we started.
struct Child {
    launch: Launch,
    pid: i32,
    /// Our adopted children that it left behind. They cannot be recognised otherwise: some servers
    /// change their session and overwrite their environment.
    adopted: Vec<i32>,
    /// Whether it has ended; its children may live on.
    has_ended: bool,
    /// Whether it has background processes whose end has not been reported yet.
    in_background: bool,
}

impl Child {
    /// The process, or the adopted children that remain after its end.
    fn heads(&self) -> Vec<i32> {
        std::iter::once(self.pid).chain(self.adopted.iter().copied()).collect()
    }
}

struct Guard {
    me: i32,
    channel: Channel,
    /// Receives a byte with every signal that concerns us.
    wakes: UnixStream,
    /// Set when the guard itself is asked to exit.
    exit_requested: Arc<AtomicBool>,
    setup: Option<Setup>,
    cgroup: Option<Cgroup>,
    children: Vec<Child>,
    /// Pids of shell commands that have not ended yet.
    commands: Vec<i32>,
    requests: VecDeque<GuardRequest>,
    /// Whether a process has ended since the background processes were last checked.
    reaped: bool,
    /// Whether the kernel reports that we have no children. As orphans become our children, nothing
    /// of the stack is alive then, however fast it forks.
    childless: bool,
    /// Maps of generated code that processes of the stack have written: interpreters leave them in the
    /// folder for temporary files when they are asked for the names of their functions.
    code_maps: BTreeSet<PathBuf>,
}

impl Guard {
    fn new() -> io::Result<Guard> {
        // A separate session keeps the terminal's Ctrl-C away, because tachograph stops everything
        // in order. It fails only for the leader of a process group.
        let _ = setsid();
        set_child_subreaper(Some(getpid()))?;
        let (wakes, waker) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let exit_requested = Arc::new(AtomicBool::new(false));
        // Handlers instead of SIG_IGN, which children would inherit. A shell lets background
        // processes ignore SIGINT and SIGQUIT, and a program that inherits this may be unable to
        // change it, so nginx or a script could not be asked to stop. Handlers are reset to the
        // default in a new program.
        for signal in [SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        for signal in [SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, exit_requested.clone())?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
        let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        Ok(Guard {
            me: std::process::id() as i32,
            channel: Channel::new(UnixStream::from(control))?,
            wakes,
            exit_requested,
            setup: None,
            cgroup: None,
            children: Vec::new(),
            commands: Vec::new(),
            requests: VecDeque::new(),
            reaped: false,
            childless: true,
            code_maps: BTreeSet::new(),
        })
    }

    /// Serves tachograph until it asks to stop or is gone.
    fn run(&mut self) -> io::Result<()> {
        while !self.is_orphaned() {
            self.pump(TICK);
            self.report_background();
            self.bound_logs();
            while let Some(request) = self.requests.pop_front() {
                if matches!(request, GuardRequest::Stop) {
                    let reply = self.stop_in_order();
                    self.clean_up();
                    return self.channel.send(&reply);
                }
                let reply = self.serve(request);
                if let Some(reply) = reply {
                    // If this fails, the channel closes, which the loop notices.
                    let _ = self.channel.send(&reply);
                }
            }
        }
        self.stop_at_once(stopping::GRACE);
        self.clean_up();
        Ok(())
    }

    /// Whether tachograph is gone.
    fn is_orphaned(&self) -> bool {
        self.channel.is_closed() || self.exit_requested.load(Ordering::Relaxed)
    }

    fn serve(&mut self, request: GuardRequest) -> Option<Reply> {
        let result = match request {
            GuardRequest::Setup(setup) => self.set_up(setup),
            GuardRequest::Launch(launch) => self.launch(launch),
            GuardRequest::Signal { index, signal } => Ok(self.signal(index, signal)),
            GuardRequest::Command(launch) => self.command(launch),
            GuardRequest::Remember => {
                self.remember_all();
                Ok(Reply::Remembered)
            }
            GuardRequest::Stop => return None,
        };
        Some(result.unwrap_or_else(|why| Reply::Failed { why }))
    }

    fn set_up(&mut self, setup: Setup) -> Result<Reply, String> {
        if !setup.cpus.is_empty() {
            run_on(&setup.cpus)?;
        }
        let name = format!("{CGROUP_PREFIX}{}", setup.stack);
        let members = Members::of(&setup.dir);
        // Listed first: if we are killed in between, an unlisted group would remain. A full disk is
        // no reason to go without a group.
        let announce = |dir: &Path| drop(members.add_cgroup(dir));
        self.cgroup = Cgroup::create(setup.accounting, &name, &announce);
        self.setup = Some(setup);
        Ok(Reply::Ready { cgroup: self.cgroup.clone() })
    }

    fn launch(&mut self, launch: Launch) -> Result<Reply, String> {
        let stack = self.setup.as_ref().map(|setup| setup.stack.as_str()).unwrap_or_default();
        let pid = launch::spawn(&launch, self.children.len(), stack, self.cgroup.as_ref())
            .map_err(|error| format!("'{}' could not be started: {error}", launch.name))?;
        self.children.push(Child {
            launch,
            pid,
            adopted: Vec::new(),
            has_ended: false,
            in_background: false,
        });
        self.childless = false;
        if let Some(stat) = Process::find(pid) {
            self.remember(|members| members.add_process(&stat));
        }
        Ok(Reply::Launched { pid })
    }

    /// Writes to the list for a sweep after we were killed. A full disk must not stop the guard.
    fn remember(&self, write: impl FnOnce(&Members) -> io::Result<()>) {
        if let Some(setup) = &self.setup {
            let _ = write(&Members::of(&setup.dir));
        }
    }

    fn remember_all(&self) {
        for process in self.living() {
            self.remember(|members| members.add_process(&process));
        }
    }

    /// Waits for signals and requests, at most for `timeout`, and records both.
    fn pump(&mut self, timeout: Duration) {
        if self.requests.is_empty() {
            let mut fds = [
                PollFd::new(self.channel.stream(), PollFlags::IN),
                PollFd::new(&self.wakes, PollFlags::IN),
            ];
            // A closed channel is always "readable" and would keep us awake.
            let watched = if self.channel.is_closed() { &mut fds[1..] } else { &mut fds[..] };
            let timeout = Timespec::try_from(timeout).unwrap_or_default();
            // Interrupted by a signal, which is handled below.
            let _ = poll(watched, Some(&timeout));
        }
        let mut bytes = [0; 64];
        while matches!((&self.wakes).read(&mut bytes), Ok(count) if count > 0) {}
        self.reap();
        match self.channel.receive() {
            Ok(requests) => self.requests.extend(requests),
            // An invalid message cannot come from tachograph.
            Err(_) => self.exit_requested.store(true, Ordering::Relaxed),
        }
    }

    /// Reaps every process that has ended, whether started or adopted by us.
    fn reap(&mut self) {
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) => return self.childless = false,
                Err(_) => return self.childless = true,
            };
            let pid = pid.as_raw_nonzero().get();
            self.reaped = true;
            if self.has_ended(pid, status) {
                continue;
            }
            let Some(index) = self.children.iter().position(|child| child.heads().contains(&pid))
            else {
                continue;
            };
            let left_behind = self.adopt(index);
            if self.children[index].pid != pid {
                continue;
            }
            let ended = how(status);
            self.children[index].has_ended = true;
            self.children[index].in_background = left_behind;
            // A failed send is ignored: the main loop notices the closed channel.
            let _ = self.channel.send(&Reply::Ended { index, ended, left_behind });
        }
    }

    /// After one of a process's heads ends, orphans that became our children and belong to no other
    /// process are its new heads. They are listed, because they may still overwrite the environment
    /// by which they are recognised. Returns whether anything of the process is alive.
    fn adopt(&mut self, index: usize) -> bool {
        // As in `is_gone`, one listing is not enough.
        for _ in 0..3 {
            let others: Vec<i32> = (0..self.children.len())
                .filter(|other| *other != index)
                .flat_map(|other| self.members(other))
                .map(|process| process.pid)
                .collect();
            let heads = self.children[index].heads();
            let orphans = self.living().into_iter().filter(|process| {
                process.parent == self.me
                    && !others.contains(&process.pid)
                    && !self.commands.contains(&process.pid)
                    && !heads.contains(&process.pid)
            });
            let orphans: Vec<i32> = orphans.map(|process| process.pid).collect();
            if !orphans.is_empty() {
                self.children[index].adopted.extend(orphans);
                self.remember_all();
            }
            if !self.members(index).is_empty() {
                return true;
            }
        }
        false
    }

    /// Reports processes whose last background process has ended.
    fn report_background(&mut self) {
        if !std::mem::take(&mut self.reaped) {
            return;
        }
        for index in 0..self.children.len() {
            // A process between the first one and the daemon may have ended before it was seen, and
            // left the daemon to us.
            if self.children[index].in_background && self.is_gone(index) && !self.adopt(index) {
                self.children[index].in_background = false;
                let ended = ProcessExit::Vanished;
                let _ = self.channel.send(&Reply::Ended { index, ended, left_behind: false });
            }
        }
    }

    fn bound_logs(&self) {
        for child in &self.children {
            launch::bound_log(&child.launch.log);
        }
    }
}

fn how(status: WaitStatus) -> ProcessExit {
    match status.terminating_signal() {
        Some(signal) => ProcessExit::Killed(signal),
        None => ProcessExit::Exited(status.exit_status().unwrap_or_default()),
    }
}
/// Restricts the calling process to these CPUs.
fn run_on(cpus: &base::CpuSet) -> Result<(), String> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= CpuSet::MAX_CPU {
            return Err(format!("there is no CPU {cpu}"));
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|_| format!("CPU {cpus} is not available; `nproc` prints the number of CPUs"))
}
