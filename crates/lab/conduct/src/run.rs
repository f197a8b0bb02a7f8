//! A whole run: from a plan to its recorded form.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos, RunId, Seed};
use record::{Fact, Machine, Run, RunKind, RunState};
use spec::Plan;
use stage::{Stage, StageOptions};

use crate::capacity::CapacitySearch;
use crate::error::ConductError;
use crate::machines::{Canaries, Machines, NearMachine, prepare};
use crate::part::{Deadline, PartRunner, RunContext};
use crate::profilers::Profilers;
use crate::running_variant::Setting;
use crate::watch::{Event, RunRecorder, Watcher};

/// Options of a run, apart from its plan.
#[derive(Clone)]
pub struct Options {
    /// The run's name, if it has one.
    pub name: Option<String>,
    /// The command that started it.
    pub kind: RunKind,
    /// The seed of every random choice.
    pub seed: Seed,
    /// Our own binary, which is also the guard and the null server.
    pub executable: PathBuf,
    /// The command that repeats the run.
    pub command_line: Vec<String>,
    /// Facts about this machine.
    pub machine: Machine,
    /// CPUs to use; all online ones if empty.
    pub cpus: CpuSet,
    /// Folder for copies of the stacks' files, by part and variant.
    pub keep_files: Option<PathBuf>,
    /// Folders to prepend to the PATH of every process.
    pub path_prepend: Vec<PathBuf>,
    /// Additional environment variables of every process.
    pub extra_env: Vec<(String, String)>,
    /// Limit on the time of all parts together; if `None`, the plan's limit applies.
    pub max_time: Option<Nanos>,
    /// The other machines of the plan, connected.
    pub machines: Machines,
    /// Set to end the run early.
    pub stop: drive::StopFlag,
}

/// Resolution of a trial's recorded series.
const STEP: Nanos = Nanos::from_millis(50);

/// Runs a plan. The result includes what was measured before an interruption.
pub fn run(
    plan: &Plan,
    options: &Options,
    recorder: &mut dyn RunRecorder,
    watcher: &mut dyn Watcher,
) -> Result<Run, ConductError> {
    let started = base::timestamp_now();
    let online = if options.cpus.is_empty() {
        host::online_cpus().map_err(|error| ConductError::Host(error.to_string()))?
    } else {
        options.cpus.clone()
    };
    let mut run = Run {
        id: RunId::new(started, options.seed.derive("id", u64::from(std::process::id())).0),
        kind: options.kind,
        state: RunState::Running,
        name: options.name.clone().unwrap_or_else(|| plan.name.clone()),
        title: base::redact(&plan.title),
        question: base::redact(&plan.question),
        started,
        finished: None,
        command_line: base::redact_arguments(&options.command_line),
        version: record::version_with_method(env!("CARGO_PKG_VERSION")),
        seed: options.seed,
        plan: plan.source_without_secrets(),
        machine: Machine { wake: wake_cost(plan, &online), ..options.machine.clone() },
        error: None,
        parts: Vec::new(),
    };
    recorder.begin(&run).map_err(ConductError::Record)?;
    let result = parts(plan, options, &online, &mut run, recorder, watcher);
    run.finished = Some(base::timestamp_now());
    run.state = match &result {
        Err(_) => RunState::Failed,
        Ok(()) if options.stop.load(Ordering::Relaxed) => RunState::Interrupted,
        Ok(()) => RunState::Done,
    };
    if let Err(error) = &result {
        run.error = Some(base::redact(&error.to_string()));
    }
    let finished = recorder.finish(&run).map_err(ConductError::Record);
    result?;
    finished?;
    Ok(run)
}

/// What it costs to wake another CPU, if a part has its client and its stacks on separate ones.
fn wake_cost(plan: &Plan, online: &CpuSet) -> Option<base::WakeCost> {
    let is_split = |part: &spec::Part| part.layout == spec::Layout::Split;
    let is_near = |part: &spec::Part| part.machines().is_empty();
    plan.parts
        .iter()
        .any(|part| is_split(part) && is_near(part))
        .then(|| host::wake_cost(online))
        .flatten()
}

fn parts(
    plan: &Plan,
    options: &Options,
    online: &CpuSet,
    run: &mut Run,
    recorder: &mut dyn RunRecorder,
    watcher: &mut dyn Watcher,
) -> Result<(), ConductError> {
    let stage = Stage::new(StageOptions::new(options.executable.clone(), run.id.clone()))?;
    let began = Instant::now();
    let near = NearMachine {
        identity: host::Identity::own(),
        machine: run.machine.clone(),
        cpus: online.clone(),
    };
    let machines = &options.machines;
    let prepared = prepare(machines, &run.id, plan)?;
    let canaries = Canaries::calibrate(&near, machines);
    let meter = host::Meter::open();
    let profilers = Profilers::start(plan, &near, machines);
    let mut context = RunContext { recorder, watcher };
    let mut runners: Vec<PartRunner<'_>> = Vec::new();
    let stopped = || options.stop.load(Ordering::Relaxed);
    let count = plan.parts.len();
    let deadline = |part: &spec::Part, parts_left: usize| match options.max_time {
        // What a part does not use of its share goes to the following ones.
        Some(all) => Some(Deadline::share_of(all, began.elapsed(), parts_left)),
        None => part.schedule.max_time.map(|time| Deadline::share_of(time, Duration::ZERO, 1)),
    };
    for (index, part) in plan.parts.iter().enumerate() {
        let setting = Setting {
            stage: &stage,
            part: part.clone(),
            near: &near,
            machines,
            prepared: &prepared,
            files: plan.files.clone(),
            keep_files: options.keep_files.as_deref().map(|folder| folder.join(&part.name)),
            path_prepend: options.path_prepend.clone(),
            extra_env: options.extra_env.clone(),
            stop: options.stop.clone(),
            step: STEP,
            meter: &meter,
            profilers: profilers
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .filter(|_| part.schedule.why),
        };
        let seed = options.seed.derive("part", index as u64);
        let (name, left) = (part.name.clone(), count - index);
        if let Some(aim) = &part.capacity {
            context.watcher.event(&Event::Part { name, number: index + 1, of: count });
            // As of other parts, of which each has its share of what is left.
            let share = |all: Nanos| {
                Nanos::from(Duration::from(all).saturating_sub(began.elapsed()) / left as u32)
            };
            let time = options.max_time.map(share).or(part.schedule.max_time);
            let search = CapacitySearch::new(part.clone(), *aim, index, setting, seed, time);
            search.run(run, &mut context)?;
            continue;
        }
        let mut runner = PartRunner::new(part.clone(), index, setting, seed, &canaries);
        if stopped() {
            runner.leave_out(run, &mut context)?;
            runners.push(runner);
            continue;
        }
        context.watcher.event(&Event::Part { name, number: index + 1, of: count });
        let until = deadline(part, left);
        runner.calibrate(run, until, &mut context)?;
        if let (Err(error), true) = (&profilers, part.schedule.why) {
            runner.note(run, Fact::NotProfiled { why: error.clone() }, &mut context);
        }
        runner.blocks(run, until, &mut context)?;
        runners.push(runner);
    }
    spend_what_is_left(run, options, &mut runners, began, &mut context)?;
    for runner in &mut runners {
        runner.conclude(run, &mut context)?;
    }
    Ok(())
}

/// Gives the time left over by decided parts to those that could not run all their blocks.
///
/// The number of blocks that a part wants depends on its pilot's variance, and the number that it
/// gets on the clock; neither depends on its result.
fn spend_what_is_left(
    run: &mut Run,
    options: &Options,
    runners: &mut [PartRunner<'_>],
    began: Instant,
    context: &mut RunContext<'_>,
) -> Result<(), ConductError> {
    let Some(all) = options.max_time else { return Ok(()) };
    let unfinished: Vec<usize> = runners
        .iter()
        .enumerate()
        .filter(|(_, runner)| runner.wants_more(run))
        .map(|(index, _)| index)
        .collect();
    let count = unfinished.len();
    for (i, index) in unfinished.into_iter().enumerate() {
        let until = Deadline::share_of(all, began.elapsed(), count - i);
        runners[index].blocks(run, Some(until), context)?;
    }
    Ok(())
}
