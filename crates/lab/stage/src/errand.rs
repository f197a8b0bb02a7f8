//! Commands that are neither measured nor servers: checkouts and builds. They run below a guard.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::Seed;
use serde::{Deserialize, Serialize};

use crate::allocation::{allocate, stack_id};
use crate::draws::Draws;
use crate::error::StageError;
use crate::process_exit::ProcessExit;
use crate::protocol::Launch;
use crate::stack::{LiveStack, StepResult, Surroundings};
use crate::stage::Stage;
use crate::start_options::StartOptions;
use crate::vars::Variables;

/// How long an errand gets to stop when asked.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Lines of the log to return.
const LOG_LINES: usize = 20;

/// A command that is neither measured nor a server, such as a checkout or a build.
#[derive(Clone, Debug)]
pub struct Errand<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its working directory.
    pub folder: &'a Path,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// When to stop it.
    pub timeout: Duration,
    /// Set to stop it earlier.
    pub stop: &'a AtomicBool,
}

/// The outcome of an errand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrandEnd {
    /// How it ended; `None` after the timeout.
    pub exit: Option<ProcessExit>,
    /// The last lines of its output.
    pub log: Vec<String>,
}

impl ErrandEnd {
    /// Whether it ended with status 0.
    pub fn is_success(&self) -> bool {
        self.exit == Some(ProcessExit::Exited(0))
    }
}

impl Stage {
    /// Runs a command under a guard, and waits for it. What it leaves running is stopped.
    ///
    /// # Errors
    /// [`StageError::Interrupted`] if stopped by request; others if it could not be started.
    pub fn run(&self, errand: Errand<'_>) -> Result<ErrandEnd, StageError> {
        let seed = Seed::from_time();
        let mut rng = seed.rng("errand");
        let allocation = allocate(&self.run, Draws::of(seed).folder_letters, &mut rng)?;
        let id = stack_id(&self.run, &mut rng);
        let launch = Launch {
            name: errand.name.to_owned(),
            argv: errand.argv,
            env: errand.env,
            working_dir: Some(errand.folder.to_owned()),
            log: allocation.dir.join("log/errand.log"),
            stop_signal: rustix::process::Signal::TERM.as_raw(),
            stop_timeout_ms: STOP_TIMEOUT.as_millis() as u64,
            cpus: base::CpuSet::default(),
            signal_group: true,
        };
        let log = launch.log.clone();
        let options = StartOptions::new(errand.name, seed);
        let (vars, around) = (Variables::default(), Surroundings::default());
        let live = LiveStack::guarded(allocation, id, vars, around, &options)?;
        let deadline = Instant::now() + errand.timeout;
        let stopped = || errand.stop.load(Ordering::Relaxed);
        let done = live.command(launch, &|| stopped() || Instant::now() > deadline)?;
        let exit = match done {
            StepResult::Ended(exit) => Some(exit),
            _ if stopped() => return Err(StageError::Interrupted),
            _ => None,
        };
        Ok(ErrandEnd { exit, log: crate::stack::tail(&log, LOG_LINES) })
    }
}
