//! A whole run: from a plan to everything that is known of it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use base::{CpuSet, Nanos, RunId, Seed};
use record::{Machine, Run, RunKind, RunState};
use spec::Plan;
use stage::{Stage, StageError, StageOptions};

use crate::layout::Cpus;
use crate::part::PartRunner;
use crate::resident::Surroundings;
use crate::watch::{Event, Recorder, Watcher};

/// How a run is carried out, apart from its plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which command asked for it.
    pub kind: RunKind,
    /// The seed of every random choice.
    pub seed: Seed,
    /// Our own binary, which serves as guard and as null server.
    pub executable: PathBuf,
    /// The command that repeats the run.
    pub command_line: Vec<String>,
    /// What this machine is.
    pub machine: Machine,
    /// The CPUs that may be used; all that are online if empty.
    pub cpus: CpuSet,
    /// Where copies of the stacks' files are left, by part and variant; nowhere if `None`.
    pub keep_files: Option<PathBuf>,
    /// Folders that come first on the PATH of every process.
    pub path_prepend: Vec<PathBuf>,
    /// Further environment of every process.
    pub extra_env: Vec<(String, String)>,
    /// At most this long for all parts together; `None` leaves it to the plan.
    pub max_time: Option<Nanos>,
    /// Set to end the run early.
    pub stop: drive::StopFlag,
}

/// Why a run could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Processes could not be managed.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The record could not be written.
    #[error("{0}")]
    Record(String),
    /// What the machine offers could not be read.
    #[error("{0}")]
    Host(String),
}

/// The resolution of a trial's recorded series.
const STEP: Nanos = Nanos::from_millis(50);

/// Carries out a plan. What was measured before an interruption is in the returned run.
pub fn run(
    plan: &Plan,
    options: &Options,
    recorder: &mut dyn Recorder,
    watcher: &mut dyn Watcher,
) -> Result<Run, LabError> {
    let started = base::timestamp_now();
    let mut run = Run {
        id: RunId::new(started, options.seed.derive("id", u64::from(std::process::id())).0),
        kind: options.kind,
        state: RunState::Running,
        name: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        started,
        finished: None,
        command_line: options.command_line.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: options.seed,
        plan: plan.source.clone(),
        machine: options.machine.clone(),
        reasons: Vec::new(),
        parts: Vec::new(),
    };
    recorder.begin(&run).map_err(LabError::Record)?;
    let result = parts(plan, options, &mut run, recorder, watcher);
    run.finished = Some(base::timestamp_now());
    run.state = match &result {
        Err(_) => RunState::Failed,
        Ok(()) if options.stop.load(Ordering::Relaxed) => RunState::Interrupted,
        Ok(()) => RunState::Done,
    };
    if let Err(error) = &result {
        run.reasons.push(error.to_string());
    }
    let finished = recorder.finish(&run).map_err(LabError::Record);
    result?;
    finished?;
    Ok(run)
}

fn parts(
    plan: &Plan,
    options: &Options,
    run: &mut Run,
    recorder: &mut dyn Recorder,
    watcher: &mut dyn Watcher,
) -> Result<(), LabError> {
    let online = if options.cpus.is_empty() {
        host::online_cpus().map_err(|error| LabError::Host(error.to_string()))?
    } else {
        options.cpus.clone()
    };
    let stage = Stage::new(StageOptions::new(options.executable.clone(), run.id.clone()))?;
    let began = Instant::now();
    let canary = host::Canary::calibrate(&online);
    for (index, part) in plan.parts.iter().enumerate() {
        if options.stop.load(Ordering::Relaxed) {
            break;
        }
        watcher.event(&Event::Part {
            name: part.name.clone(),
            number: index + 1,
            of: plan.parts.len(),
        });
        let threads = part.variants.iter().map(|v| v.load.threads).max().unwrap_or(1);
        let cpus = Cpus::divide(part.layout, &online, threads);
        let around = Surroundings {
            stage: &stage,
            cpus: &cpus,
            files: plan.files.clone(),
            keep_files: options.keep_files.as_deref().map(|folder| folder.join(&part.name)),
            path_prepend: options.path_prepend.clone(),
            extra_env: options.extra_env.clone(),
            stop: options.stop.clone(),
            step: STEP,
        };
        PartRunner {
            plan: part.clone(),
            index,
            around,
            cpus: cpus.clone(),
            seed: options.seed.derive("part", index as u64),
            canary: &canary,
            recorder,
            watcher,
            max_time: options.max_time.map(|all| {
                let left = all.saturating_sub(began.elapsed().into());
                Nanos(left.0 / (plan.parts.len() - index) as u64)
            }),
            began: Instant::now(),
        }
        .go(run)?;
    }
    Ok(())
}
