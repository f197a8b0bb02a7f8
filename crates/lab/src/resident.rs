//! One variant while it is alive in a block: its stack, its connections and its counts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::{Nanos, Seed};
use drive::{DriveError, Learned, Session, Slice};
use ledger::{Counts, Ledger};
use rand::RngExt as _;
use record::{Life, Trial};
use spec::{EngineChoice, ServedBy, Target, Variant};
use stage::{LiveStack, Stage, StageError, StartOptions, served};

use crate::layout::Cpus;
use crate::tally::{Cost, Tally};

/// The offer under which probes and warm-up are written down.
pub(crate) const WARM_UP: &str = "warm-up";

/// How long the server's count may lag behind the client's after the last answer:
/// nginx writes its log, and WSGI closes the response, after the last byte has left; an idle nxweb
/// keeps the last lines of its log for a second.
const SETTLE: Duration = Duration::from_millis(2500);

/// How often a stack is started when something takes its port before it does.
const START_ATTEMPTS: u64 = 4;

/// What a stack needs to know to be started.
pub(crate) struct Surroundings<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) cpus: &'a Cpus,
    pub(crate) files: Option<PathBuf>,
    /// The folder for copies of the files of this part's stacks.
    pub(crate) keep_files: Option<PathBuf>,
    pub(crate) path_prepend: Vec<PathBuf>,
    pub(crate) extra_env: Vec<(String, String)>,
    pub(crate) stop: drive::StopFlag,
    pub(crate) step: Nanos,
}

/// Why a variant could not be brought to life.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("{0}")]
    Unfit(String),
}

/// A variant that is up.
pub(crate) struct Resident {
    pub(crate) variant: usize,
    pub(crate) learned: Option<Learned>,
    pub(crate) tallies: Vec<Tally>,
    stack: LiveStack,
    session: Session,
    counter: Option<Counter>,
    env_padding_bytes: u32,
    step: Nanos,
    /// How often the groups we run in had been throttled when the stack was ready.
    throttled_before: u64,
}

/// Where the server's own count comes from.
struct Counter {
    reader: served::Reader,
    base: u64,
    /// The WSGI counter is looked for even where nobody declared it; then zero means that nobody counts.
    declared: bool,
}

impl Resident {
    /// Starts the stack, connects, and learns the answer from three probes.
    pub(crate) fn start(
        index: usize,
        variant: &Variant,
        around: &Surroundings<'_>,
        seed: Seed,
    ) -> Result<Resident, StartError> {
        let mut rng = seed.rng("set-up");
        let env_padding_bytes: u32 = rng.random_range(0..=4096);
        let stack = with_environment(&variant.stack, &around.extra_env);
        let mut attempt = 0;
        let stack = loop {
            attempt += 1;
            let options = StartOptions {
                cpus: around.cpus.stack.clone(),
                env_padding_bytes,
                files: around.files.clone(),
                keep_files: around.keep_files.as_deref().map(|f| f.join(file_name(&variant.name))),
                path_prepend: around.path_prepend.clone(),
                stop: around.stop.clone(),
                ..StartOptions::new(&variant.name, seed.derive("places", attempt))
            };
            match around.stage.start(&stack, options) {
                Err(error) if error.is_taken() && attempt < START_ATTEMPTS => continue,
                other => break other?,
            }
        };
        let counter = Counter::of(variant, &stack)?;
        let target = Target::parse(&stack.expand(&variant.target))
            .map_err(|error| StartError::Unfit(error.to_string()))?;
        let options = drive::Options {
            cpus: around.cpus.client.clone(),
            seed: seed.derive("arrivals", 0),
            step: around.step,
            stop: around.stop.clone(),
        };
        let load = with_one_engine(&variant.load);
        let mut session = Session::open(&target, &load, &options)?;
        let mut warm = Tally::new(WARM_UP, None, around.step);
        let probing = Instant::now();
        let learned = match variant.load.exchange {
            spec::Exchange::Http(_) | spec::Exchange::Oneshot => Some(session.learn()?),
            spec::Exchange::Echo { .. } | spec::Exchange::Bulk { .. } => None,
        };
        let (counts, errors) = session.life();
        warm.add_probes(&counts, &errors, probing.elapsed().into());
        let throttled_before = stack.usage().map_or(0, |usage| usage.throttled);
        Ok(Resident {
            throttled_before,
            variant: index,
            learned,
            tallies: vec![warm],
            stack,
            session,
            counter,
            env_padding_bytes,
            step: around.step,
        })
    }

    /// Loads the variant for one slice under `offer` and adds what was seen to its trial.
    pub(crate) fn load(
        &mut self,
        offer: &'static str,
        slice: &Slice,
    ) -> Result<&Tally, StartError> {
        let rate = match slice.mode {
            spec::Mode::Closed => None,
            spec::Mode::Open { rate_per_s, .. } => Some(rate_per_s),
        };
        let at = match self.tallies.iter().position(|tally| tally.offer == offer) {
            Some(at) => at,
            None => {
                self.tallies.push(Tally::new(offer, rate, self.step));
                self.tallies.len() - 1
            }
        };
        let before = self.stack.usage();
        let machine_before = host::Snapshot::take();
        let started = base::timestamp_now();
        let seen = self.session.run(slice)?;
        let after = self.stack.usage();
        let machine = machine_before.ok().zip(host::Snapshot::take().ok());
        let cost = Cost {
            stack_cpu: before
                .as_ref()
                .ok()
                .zip(after.as_ref().ok())
                .map(|(a, b)| b.cpu.saturating_sub(a.cpu)),
            machine_busy: machine.as_ref().map(|(a, b)| b.since(a).busy),
            stolen: machine
                .map(|(a, b)| (b.steal.saturating_sub(a.steal), b.total.saturating_sub(a.total))),
            peak_memory_bytes: after.ok().map(|usage| usage.peak_memory_bytes),
        };
        self.tallies[at].add(&seen, cost, started, slice.lead_in);
        Ok(&self.tallies[at])
    }

    /// Whether the stack is still as it was when it was ready.
    pub(crate) fn check_alive(&mut self) -> Result<(), StageError> {
        self.stack.check_alive()
    }

    /// A process of the stack that may run outside the stack's CPUs, in words.
    pub(crate) fn unpinned(&self) -> Option<String> {
        self.stack.cpus_allowed_violation()
    }

    /// Times that the kernel throttled the client and the stack since the stack was ready.
    pub(crate) fn throttled(&self) -> u64 {
        let now = self.stack.usage().map_or(0, |usage| usage.throttled);
        now.saturating_sub(self.throttled_before)
    }

    /// Closes the connections, reads the server's count, stops the stack, and says how it all adds up.
    pub(crate) fn end(self) -> Ended {
        let Resident { variant, tallies, stack, session, mut counter, env_padding_bytes, .. } =
            self;
        let (counts, errors) = session.close();
        let (served, served_error) = match &mut counter {
            Some(counter) => counter.settle(counts.completed),
            None => (None, None),
        };
        let log_tail = stack.log_tail(5).join("\n");
        let stopped = stack.stop();
        let trials: Vec<Trial> =
            tallies.iter().map(|tally| tally.trial(variant, env_padding_bytes)).collect();
        let mut by_trials = Counts::default();
        tallies.iter().for_each(|tally| by_trials.merge(&tally.counts));
        Ended {
            life: Life {
                variant: variant as u32,
                ledger: Ledger { counts, served, series: None, errors },
            },
            tallies,
            trials,
            trials_add_up: (by_trials.sent, by_trials.completed, by_trials.failed)
                == (counts.sent, counts.completed, counts.failed),
            served_error,
            killed: stopped.killed,
            log_tail,
        }
    }
}

impl Counter {
    /// The counter of a stack that is ready and not yet loaded.
    ///
    /// A stream has none: what the server handed to the kernel and what had
    /// arrived when the client hung up differ by what was on the way.
    fn of(variant: &Variant, stack: &LiveStack) -> Result<Option<Counter>, StageError> {
        if matches!(variant.load.exchange, spec::Exchange::Bulk { .. }) {
            return Ok(None);
        }
        let by = variant.served_by.clone().unwrap_or(ServedBy::Wsgi);
        let mut reader = served::Reader::new(&by, stack)?;
        // The line of the last probe of readiness may reach a log after the stack is ready.
        let base = reader.read_settled(Nanos::from_millis(20), Nanos::from_secs(1))?;
        Ok(Some(Counter { reader, base, declared: variant.served_by.is_some() }))
    }

    /// Reads the count once it has caught up with `completed`, or when it has had time enough.
    fn settle(&mut self, completed: u64) -> (Option<u64>, Option<String>) {
        let began = Instant::now();
        loop {
            let served = match self.reader.read() {
                Ok(count) => count.saturating_sub(self.base),
                Err(error) if self.declared => return (None, Some(error.to_string())),
                Err(_) => return (None, None),
            };
            if served == completed {
                return (Some(served), None);
            }
            if !self.declared && served == 0 {
                return (None, None);
            }
            if began.elapsed() > SETTLE {
                return (Some(served), None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The stack with further environment for each process, and with the folder of our WSGI counter.
fn with_environment(stack: &spec::Stack, extra: &[(String, String)]) -> spec::Stack {
    let mut stack = stack.clone();
    let counters = ("TACHOGRAPH_COUNTERS".to_owned(), "$COUNTERS".to_owned());
    for process in &mut stack.processes {
        for (name, value) in extra.iter().chain([&counters]) {
            process.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    stack
}

/// A variant's name as that of a folder.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// What remains of a variant after a block.
pub(crate) struct Ended {
    pub(crate) life: Life,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) trials: Vec<Trial>,
    /// Whether the trials' counts add up to the session's own count of its life.
    pub(crate) trials_add_up: bool,
    pub(crate) served_error: Option<String>,
    /// Processes that had to be killed because they did not stop when asked.
    pub(crate) killed: Vec<String>,
    pub(crate) log_tail: String,
}

/// The load with the engine that every variant gets unless a person names another: left to itself,
/// the client could take different ones for TCP and Unix sockets, and they would be compared too.
fn with_one_engine(load: &spec::Load) -> spec::Load {
    let engine = match load.engine {
        EngineChoice::Auto => EngineChoice::Epoll,
        named => named,
    };
    spec::Load { engine, ..load.clone() }
}
