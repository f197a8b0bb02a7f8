//! A whole replay: starts the servers, runs the lanes, and stops the servers.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{Nanos, RunId, Seed};
use far::{FarError, Look, Machine};
use record::{Pair, Replay, ReplayServer, RunState, Side};
use spec::{HttpRequest, Target, TlsOptions, Variant};
use stage::{LiveStack, Stage, StageOptions, StartOptions};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};

use crate::client::Server;
use crate::comparison::ComparisonRules;
use crate::error::ReplayError;
use crate::lanes::{LaneState, lane};
use crate::log::{LogOptions, LogSource, LogThread};

/// How often to start a server whose port is taken.
const START_ATTEMPTS: u64 = 4;

/// Batches of the log that are read ahead.
const BATCHES: usize = 4;

/// How often to look for a stop, and for servers that have ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long a replay that is stopped waits for outstanding answers.
const GRACE: Duration = Duration::from_secs(1);

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The log.
    pub log: LogSource,
    /// What its requests have unless it says otherwise.
    pub request: HttpRequest,
    /// Whether requests with other methods than GET and HEAD are sent.
    pub sends_unsafe: bool,
    /// The servers.
    pub servers: Pair<Variant>,
    /// Requests that are sent to each server at once, at most.
    pub connections: u32,
    /// The multiple of the log's own speed, above zero; `None` for as fast as both answer.
    pub speed: Option<f64>,
    /// Limit on the time of a request.
    pub timeout: Nanos,
    /// What is compared.
    pub comparison: ComparisonRules,
    /// What is ignored in bodies of JSON, as the user wrote it.
    pub ignored: Vec<String>,
}

/// Options of a replay, apart from its plan.
#[derive(Clone)]
pub struct Options {
    /// Our own binary, which is also the guard.
    pub executable: PathBuf,
    /// The command line.
    pub command_line: Vec<String>,
    /// The seed of ports and names of folders.
    pub seed: Seed,
    /// The machine of the servers that are not started here, connected.
    pub machine: Option<Arc<Machine>>,
    /// Set to end the replay early.
    pub stop: Arc<AtomicBool>,
}

/// Counts of a replay in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that were sent to both.
    pub asked: u64,
    /// Those whose answers differ.
    pub different: u64,
    /// Those that one server did not answer.
    pub failed: u64,
}

/// Replays a log. The result includes what was compared before an interruption, or before a server
/// ended.
///
/// # Errors
/// If a server cannot be started or reached, or if the log cannot be read from its beginning.
pub fn replay(
    plan: &ReplayPlan,
    options: &Options,
    watch: &mut dyn FnMut(Progress),
) -> Result<Replay, ReplayError> {
    let mut replay = blank(plan, options);
    let id = RunId::new(replay.started, options.seed.derive("id", u64::from(std::process::id())).0);
    if let Some(machine) = &options.machine {
        machine.begin(&id)?;
    }
    let stage = Stage::new(StageOptions::new(options.executable.clone(), id))?;
    let old = ReplayStack::start(Side::Old, plan, options, &stage)?;
    let new = ReplayStack::start(Side::New, plan, options, &stage)?;
    let stacks = Pair { old, new };
    let outcome = run(plan, options, &stacks, &mut replay, watch);
    let Pair { old, new } = stacks;
    for stack in [old, new].into_iter().filter_map(|stack| stack.stack) {
        stack.stop();
    }
    outcome.map(|()| replay)
}

/// A replay of which nothing has happened.
fn blank(plan: &ReplayPlan, options: &Options) -> Replay {
    Replay {
        log: plan.log.name(),
        servers: Pair { old: shown(&plan.servers.old), new: shown(&plan.servers.new) },
        started: base::timestamp_now(),
        elapsed: Nanos::ZERO,
        command_line: base::redact_arguments(&options.command_line),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Running,
        error: None,
        connections: plan.connections,
        speed: plan.speed,
        late: Nanos::ZERO,
        entries: 0,
        left_out: Default::default(),
        asked: 0,
        same: 0,
        different: 0,
        failed: Default::default(),
        in_flight: 0,
        headers: plan.comparison.headers().to_vec(),
        ignored: plan.ignored.clone(),
        ledgers: Pair::default(),
        groups: Vec::new(),
        ungrouped: 0,
        failures: Vec::new(),
    }
}

/// A server as the user named it, without secrets.
fn shown(variant: &Variant) -> ReplayServer {
    let command = variant.stack.processes.first().map(|process| process.command.as_str());
    let command = base::redact(command.unwrap_or(&variant.target));
    ReplayServer { command, machine: variant.on.clone() }
}

/// A server's processes, here or on another machine.
enum ServerStack {
    Near(Box<LiveStack>),
    Far(far::Stack),
}

impl ServerStack {
    fn expand(&self, text: &str) -> Result<String, FarError> {
        match self {
            ServerStack::Near(stack) => Ok(stack.expand(text)),
            ServerStack::Far(stack) => stack.expand(text),
        }
    }

    /// Whether all of them still run; if not, what has ended.
    fn check_alive(&self, side: Side) -> Result<(), ReplayError> {
        match self {
            ServerStack::Near(stack) => stack
                .check_alive()
                .map_err(|cause| ReplayError::Stage { side, cause: Box::new(cause) }),
            ServerStack::Far(stack) => {
                let look = Look { stack: Some(stack.id()), memory: false };
                let looked = stack.machine().look(look).looked();
                match looked.map_err(|cause| ReplayError::Far { side, cause })?.died {
                    Some(why) => Err(ReplayError::Ended { side, why }),
                    None => Ok(()),
                }
            }
        }
    }

    fn stop(self) {
        match self {
            ServerStack::Near(stack) => drop(stack.stop()),
            // If the connection is lost, the stack is stopped there.
            ServerStack::Far(stack) => drop(stack.stop()),
        }
    }
}

/// A server that was started, or that was already running.
struct ReplayStack {
    stack: Option<ServerStack>,
    server: Server,
    target: Target,
}

impl ReplayStack {
    fn start(
        side: Side,
        plan: &ReplayPlan,
        options: &Options,
        stage: &Stage,
    ) -> Result<ReplayStack, ReplayError> {
        let variant = plan.servers.of(side);
        let stack = started(side, variant, options, stage)?;
        let expand = |text: &str| match &stack {
            Some(stack) => stack.expand(text).map_err(|cause| ReplayError::Far { side, cause }),
            None => Ok(text.to_owned()),
        };
        let target = Target::parse(&expand(&variant.target)?)
            .map_err(|cause| ReplayError::Target { side, cause })?;
        let mut tls: TlsOptions = variant.load.tls.clone();
        for path in [&mut tls.cacert, &mut tls.cert, &mut tls.key].into_iter().flatten() {
            *path = expand(&path.to_string_lossy())?.into();
        }
        let server = Server::new(side, &target, &tls, stack.is_some())?;
        Ok(ReplayStack { stack, server, target })
    }

    /// Whether the server still runs, if it was started by the replay.
    fn check(&self, side: Side) -> Result<(), ReplayError> {
        self.stack.as_ref().map_or(Ok(()), |stack| stack.check_alive(side))
    }
}

fn started(
    side: Side,
    variant: &Variant,
    options: &Options,
    stage: &Stage,
) -> Result<Option<ServerStack>, ReplayError> {
    if variant.stack.processes.is_empty() {
        return Ok(None);
    }
    let mut attempt = 0;
    loop {
        attempt += 1;
        let seed = options.seed.derive(side.word(), attempt);
        let stop = options.stop.clone();
        let start = StartOptions { stop, ..StartOptions::new(side.word(), seed) };
        let (is_taken, error) = match options.machine.as_ref().filter(|_| variant.on.is_some()) {
            None => match stage.start(&variant.stack, start) {
                Ok(stack) => return Ok(Some(ServerStack::Near(Box::new(stack)))),
                Err(error) => {
                    (error.is_address_in_use(), ReplayError::Stage { side, cause: Box::new(error) })
                }
            },
            Some(machine) => {
                let host = machine.address(variant.address.as_deref());
                let start = StartOptions { host, ..start };
                match far::Stack::start(machine, &variant.stack, start.into()) {
                    Ok(stack) => return Ok(Some(ServerStack::Far(stack))),
                    Err(cause) => (cause.is_address_in_use(), ReplayError::Far { side, cause }),
                }
            }
        };
        if !is_taken || attempt == START_ATTEMPTS {
            return Err(error);
        }
    }
}

/// Runs the lanes, and fills in the result.
fn run(
    plan: &ReplayPlan,
    options: &Options,
    stacks: &Pair<ReplayStack>,
    replay: &mut Replay,
    watch: &mut dyn FnMut(Progress),
) -> Result<(), ReplayError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ReplayError::System)?;
    for side in Side::BOTH {
        runtime.block_on(reach(side, stacks.of(side), plan.timeout))?;
    }
    let (to, from) = mpsc::channel(BATCHES);
    let entries = Arc::new(AtomicU64::new(0));
    let log = LogOptions {
        source: plan.log.clone(),
        defaults: plan.request.clone(),
        sends_unsafe: plan.sends_unsafe,
        speed: plan.speed,
    };
    LogThread::start(log, entries.clone(), to).map_err(ReplayError::System)?;
    let servers = Pair { old: stacks.old.server.clone(), new: stacks.new.server.clone() };
    let shared = LaneState::new(servers, plan.comparison.clone(), plan.timeout.into(), from);
    let shared = Rc::new(shared);
    let local = LocalSet::new();
    let lanes = conduct(plan.connections, options, stacks, &shared, watch);
    let is_complete = runtime.block_on(local.run_until(lanes));
    // Aborted lanes keep their requests in flight.
    drop(local);
    let error = shared.error.take();
    let mut tally = shared.tally.take();
    if let Some(error) = error {
        if tally.asked == 0 {
            return Err(error);
        }
        replay.error = Some(base::redact(&error.to_string()));
    }
    replay.state = match (is_complete, &replay.error) {
        (_, Some(_)) => RunState::Failed,
        (true, None) => RunState::Done,
        (false, None) => RunState::Interrupted,
    };
    replay.elapsed = shared.elapsed();
    replay.late = if plan.speed.is_some() { shared.late.get() } else { Nanos::ZERO };
    replay.entries = entries.load(Ordering::Relaxed);
    replay.groups = tally.groups.take();
    replay.ungrouped = tally.groups.ungrouped;
    replay.failures = tally.failures();
    replay.left_out = tally.left_out;
    replay.asked = tally.asked;
    replay.same = tally.same;
    replay.different = tally.different;
    replay.failed = tally.failed;
    replay.in_flight = tally.in_flight;
    replay.ledgers = tally.ledgers;
    Ok(())
}

/// Fails if no connection can be made.
async fn reach(side: Side, stack: &ReplayStack, limit: Nanos) -> Result<(), ReplayError> {
    let connected = tokio::time::timeout(limit.into(), stack.server.connect()).await;
    let fault = match connected {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(fault)) => fault,
        Err(_) => drive::Fault::Timeout,
    };
    let target = base::redact(&stack.target.to_string());
    Err(ReplayError::Unreachable { side, target, why: fault.kind() })
}

/// Runs the lanes to the end of the log, or until the replay is stopped; whether they came to the end.
async fn conduct(
    lanes: u32,
    options: &Options,
    stacks: &Pair<ReplayStack>,
    shared: &Rc<LaneState>,
    watch: &mut dyn FnMut(Progress),
) -> bool {
    let mut running = JoinSet::new();
    for _ in 0..lanes {
        running.spawn_local(lane(shared.clone()));
    }
    let mut stopped: Option<Instant> = None;
    let mut failed = 0;
    loop {
        match tokio::time::timeout(LOOK, running.join_next()).await {
            Ok(None) => {
                check(stacks, shared);
                return stopped.is_none();
            }
            Ok(Some(Ok(()))) => continue,
            // A lane is never cancelled here.
            Ok(Some(Err(error))) => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
        let progress = {
            let tally = shared.tally.borrow();
            let failed = tally.failed.sum();
            Progress { asked: tally.asked, different: tally.different, failed }
        };
        watch(progress);
        if progress.failed > std::mem::replace(&mut failed, progress.failed) {
            check(stacks, shared);
        }
        let ends = options.stop.load(Ordering::Relaxed) || shared.error.borrow().is_some();
        if ends && stopped.is_none() {
            stopped = Some(Instant::now());
            shared.is_stopping.set(true);
        }
        let is_idle = shared.tally.borrow().in_flight == 0;
        if stopped.is_some_and(|at| is_idle || at.elapsed() > GRACE) {
            return false;
        }
    }
}

/// Notes a server that has ended: without it there is nothing more to compare.
fn check(stacks: &Pair<ReplayStack>, shared: &LaneState) {
    for side in Side::BOTH {
        if let Err(error) = stacks.of(side).check(side) {
            shared.error.borrow_mut().get_or_insert(error);
        }
    }
}
