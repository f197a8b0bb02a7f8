//! A running variant in a block: its stack, its connections and its counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use base::{Nanos, Seed};
use drive::{DriveError, Learned, Live, Observation, Session, Slice};
use ledger::{Counts, Ledger};
use rand::RngExt as _;
use record::{Disruption, Life, Offer, Trial};
use spec::{Action, EngineChoice, ServedBy, Target, Variant};
use stage::{LiveStack, Stage, StageError, StartOptions, served};

use crate::acting::{Actor, attribute};
use crate::disturbance::Meter;
use crate::layout::Cpus;
use crate::trial_sum::{Cost, TrialSum};

/// How often to read the memory of a loaded stack: each reading covers every process.
const MEMORY_EVERY: Duration = Duration::from_millis(250);

/// How long the server-side count may lag behind the client's after the last response: nginx writes
/// its log, and WSGI closes the response, after the last byte is sent; an idle nxweb keeps the last
/// lines of its log for a second.
const SETTLE: Nanos = Nanos::from_millis(2500);

/// How long the server-side count must be unchanged: a double count may come late.
const QUIET: Nanos = Nanos::from_millis(200);

/// How often to start a stack whose port is taken activity.
const START_ATTEMPTS: u64 = 4;

/// The environment in which the stacks of a part run.
pub(crate) struct Setting<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) cpus: Cpus,
    pub(crate) files: Option<PathBuf>,
    /// Folder for copies of the files of this part's stacks.
    pub(crate) keep_files: Option<PathBuf>,
    pub(crate) path_prepend: Vec<PathBuf>,
    pub(crate) extra_env: Vec<(String, String)>,
    pub(crate) stop: drive::StopFlag,
    pub(crate) step: Nanos,
    pub(crate) meter: &'a Meter,
}

/// Why a variant could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("{0}")]
    Unfit(String),
}

/// A running variant.
pub(crate) struct RunningVariant {
    pub(crate) variant: usize,
    pub(crate) learned: Option<Learned>,
    pub(crate) trial_sums: Vec<TrialSum>,
    stack: LiveStack,
    /// Whether the server was already running: its stack has no processes, and its cost is unknown.
    is_external: bool,
    /// Whether requests have no response: then each trial is compared with the server-side count.
    is_one_way: bool,
    is_datagram: bool,
    session: Session,
    actions: Vec<Action>,
    /// Counts of the session's slices, for the actions.
    live: Arc<Live>,
    stop: drive::StopFlag,
    counter: Option<Counter>,
    env_padding_bytes: u32,
    step: Nanos,
    memory_read: Instant,
}

/// A source of the server-side count.
pub(crate) struct Counter {
    reader: served::Reader,
    base: served::Count,
    /// How long the count may lag behind the client's.
    patience: Nanos,
    /// What [`Counter::arrivals`] has returned so far; `None` once a count did not add up.
    arrived: Option<served::Count>,
    /// The WSGI counter is also looked for if it is not declared; then zero means that there is no
    /// count.
    declared: bool,
}

impl RunningVariant {
    /// Starts the stack, connects, and learns the response from three probes.
    pub(crate) fn start(
        index: usize,
        variant: &Variant,
        around: &Setting<'_>,
        seed: Seed,
    ) -> Result<RunningVariant, StartError> {
        let mut rng = seed.rng("set-up");
        let env_padding_bytes: u32 = rng.random_range(0..=4096);
        let stack = with_environment(&variant.stack, &around.extra_env);
        if let Some(command) = &variant.stack.prepare {
            let folder = variant.stack.working_dir.as_deref();
            stage::run_hook("--prepare", command, folder, &around.stop)?;
        }
        let mut attempt = 0;
        let stack = loop {
            attempt += 1;
            let options = StartOptions {
                cpus: around.cpus.stack.clone(),
                client_cpus: around.cpus.client.clone(),
                env_padding_bytes,
                files: around.files.clone(),
                keep_files: around.keep_files.as_deref().map(|f| f.join(file_name(&variant.name))),
                path_prepend: around.path_prepend.clone(),
                working_dir: variant.stack.working_dir.clone(),
                stop: around.stop.clone(),
                ..StartOptions::new(&variant.name, seed.derive("places", attempt))
            };
            match around.stage.start(&stack, options) {
                Err(error) if error.is_address_in_use() && attempt < START_ATTEMPTS => continue,
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
        let mut warm = TrialSum::new(Offer::WarmUp, None, around.step);
        let probing = Instant::now();
        let learned = match variant.load.exchange {
            spec::Exchange::Http(_) | spec::Exchange::Oneshot => Some(session.learn()?),
            spec::Exchange::Echo { .. }
            | spec::Exchange::Bulk { .. }
            | spec::Exchange::Lines(_) => None,
        };
        let live = Arc::new(Live::default());
        if !variant.actions.is_empty() {
            session.watch(Arc::clone(&live));
        }
        let (counts, errors) = session.life();
        warm.add_probes(&counts, &errors, probing.elapsed().into());
        Ok(RunningVariant {
            memory_read: Instant::now() - MEMORY_EVERY,
            variant: index,
            learned,
            trial_sums: vec![warm],
            stack,
            is_external: variant.stack.processes.is_empty(),
            is_one_way: variant.is_one_way(),
            is_datagram: target.endpoint().is_datagram(),
            session,
            actions: variant.actions.clone(),
            live,
            stop: around.stop.clone(),
            counter,
            env_padding_bytes,
            step: around.step,
        })
    }

    /// Loads the variant for one slice of `round` under `offer` and adds the observation to its
    /// trial.
    pub(crate) fn load(
        &mut self,
        offer: Offer,
        round: u32,
        slice: &Slice,
        meter: &Meter,
    ) -> Result<&TrialSum, StartError> {
        let rate = match slice.mode {
            spec::Mode::Closed => None,
            spec::Mode::Open { rate_per_s, .. } => Some(rate_per_s),
        };
        let at = match self.trial_sums.iter().position(|trial_sum| trial_sum.offer == offer) {
            Some(at) => at,
            None => {
                self.trial_sums.push(TrialSum::new(offer, rate, self.step));
                self.trial_sums.len() - 1
            }
        };
        let throttled = stage::throttled();
        let (before, cpu) = (meter.read(), self.stack_cpu());
        let started = base::timestamp_now();
        let (mut seen, disruption) = match offer.is_measured() && !self.actions.is_empty() {
            true => self.run_with_actions(slice)?,
            false => (self.session.run(slice)?, None),
        };
        let arrivals = self.arrivals(&mut seen);
        let (cpu_after, after) = (self.stack_cpu(), meter.read());
        let mut cost = Cost {
            stack_cpu: cpu.zip(cpu_after).map(|(a, b)| b.saturating_sub(a)),
            activity: after.since(&before),
            peak_memory_bytes: None,
            throttled: throttled.zip(stage::throttled()).map(|(a, b)| b.saturating_sub(a)),
        };
        if !self.is_external && self.memory_read.elapsed() >= MEMORY_EVERY {
            cost.peak_memory_bytes = self.stack.usage().ok().map(|usage| usage.peak_memory_bytes);
            self.memory_read = Instant::now();
        }
        self.trial_sums[at].add(&seen, cost, round, started, slice.lead_in);
        if self.is_one_way && self.counter.is_some() {
            self.trial_sums[at].add_arrivals(arrivals);
        }
        // With actions a trial is one slice.
        self.trial_sums[at].disruption = disruption;
        Ok(&self.trial_sums[at])
    }

    /// What the server's side has counted of a slice whose requests have no response.
    ///
    /// Throughput is that of requests that arrived: what was discarded is taken from the window, and
    /// the window of datagrams lasts until all others have been counted. That of a stream ends with
    /// its acknowledgement.
    fn arrivals(&mut self, seen: &mut Observation) -> Option<served::Count> {
        if !self.is_one_way {
            return None;
        }
        let began = Instant::now();
        let arrivals = self.counter.as_mut()?.arrivals(self.session.life().0.completed)?;
        seen.window.completed = seen.window.completed.saturating_sub(arrivals.discarded);
        if self.is_datagram {
            seen.window.length += began.elapsed().into();
        }
        Some(arrivals)
    }

    /// Loads the variant for one slice, and does meanwhile what its actions say.
    fn run_with_actions(
        &mut self,
        slice: &Slice,
    ) -> Result<(Observation, Option<Disruption>), StartError> {
        let RunningVariant { session, stack, actions, live, stop, .. } = self;
        let (stack, failed_before) = (&*stack, live.counts().1);
        let pids = stack.pids();
        let (ending, over) = std::sync::mpsc::channel();
        let began = Instant::now();
        let actor = Actor { actions, stack, live, began, over, stop };
        let (seen, taken) = std::thread::scope(|scope| {
            let actor = scope.spawn(move || actor.act());
            let seen = session.run(slice);
            drop(ending);
            match actor.join() {
                Ok(taken) => (seen, taken),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        let (seen, mut actions) = (seen?, taken?);
        let lost = seen.counts.failed + seen.counts.in_flight;
        let failed_before = attribute(&mut actions, failed_before, lost);
        let new = stack.pids().into_iter().filter(|pid| !pids.contains(pid)).count() as u32;
        let disruption = Disruption {
            actions,
            longest_wait: seen.longest_wait,
            failed_before,
            new_processes: new,
        };
        Ok((seen, Some(disruption)))
    }

    /// CPU time of the stack so far, if known.
    fn stack_cpu(&self) -> Option<Nanos> {
        if self.is_external { None } else { self.stack.cpu().ok() }
    }

    /// Checks that the stack is still as it was when it became ready.
    pub(crate) fn check_alive(&mut self) -> Result<(), StageError> {
        self.stack.check_alive()
    }

    /// Describes a process of the stack that may run outside the stack's CPUs.
    pub(crate) fn unpinned(&self) -> Option<String> {
        self.stack.cpus_allowed_violation()
    }

    /// Closes the connections, reads the server-side count, stops the stack, and returns the
    /// totals.
    pub(crate) fn end(self) -> VariantResult {
        let RunningVariant {
            variant,
            trial_sums,
            stack,
            session,
            mut counter,
            env_padding_bytes,
            ..
        } = self;
        let (counts, errors) = session.close();
        let settled = counter.as_mut().map(|counter| counter.settle(counts.completed));
        let Settled { served, discarded, error: served_error } = settled.unwrap_or_default();
        let log_tail = stack.log_tail(5).join("\n");
        let commands_said = stack.commands_tail(1).pop();
        let stopped = stack.stop();
        let mut by_trials = Counts::default();
        trial_sums.iter().for_each(|trial_sum| by_trials.merge(&trial_sum.counts));
        VariantResult {
            life: Life {
                variant: variant as u32,
                ledger: Ledger { counts, served, discarded, series: None, errors },
            },
            trial_sums,
            env_padding_bytes,
            by_trials,
            served_error,
            killed: stopped.killed,
            log_tail,
            commands_said,
        }
    }
}

impl Counter {
    /// The counter of a stack that is ready and not yet loaded.
    ///
    /// A stream has none: what the server handed to the kernel and what the client received differ
    /// by what was in transit.
    fn of(variant: &Variant, stack: &LiveStack) -> Result<Option<Counter>, StageError> {
        if matches!(variant.load.exchange, spec::Exchange::Bulk { .. }) {
            return Ok(None);
        }
        if variant.stack.processes.is_empty() {
            let counter = variant.served_by.as_ref().map(Counter::external).transpose()?;
            return Ok(counter.map(|counter| counter.patient_with(variant)));
        }
        let by = variant.served_by.clone().unwrap_or(ServedBy::Wsgi);
        let reader = served::Reader::new(&by, stack)?;
        let counter = Counter::from_now(reader, variant.served_by.is_some())?;
        Ok(Some(counter.patient_with(variant)))
    }

    /// If nothing is answered, the server may be as late as its answers otherwise might be.
    fn patient_with(mut self, variant: &Variant) -> Counter {
        if variant.is_one_way() {
            self.patience = self.patience.max(variant.load.timeout);
        }
        self
    }

    /// The counter of a server that was already running.
    pub(crate) fn external(by: &ServedBy) -> Result<Counter, StageError> {
        Counter::from_now(served::Reader::external(by)?, true)
    }

    fn from_now(mut reader: served::Reader, declared: bool) -> Result<Counter, StageError> {
        // A log line may be written after its response is sent.
        let base = reader.read_settled(Nanos::from_millis(20), Nanos::from_secs(1))?;
        let arrived = Some(served::Count::default());
        Ok(Counter { reader, base, patience: SETTLE, arrived, declared })
    }

    /// Reads the count once it has reached `completed` and is unchanged, or when time is up.
    pub(crate) fn settle(&mut self, completed: u64) -> Settled {
        let is_silent = matches!(self.reader.read(), Ok(count) if count.served <= self.base.served);
        if !self.declared && is_silent {
            return Settled::default();
        }
        match self.reader.read_settled_from(self.base, completed, QUIET, self.patience) {
            Ok(count) => Settled {
                served: Some(self.in_requests(count, completed)),
                discarded: self.reader.counts_discarded().then_some(count.discarded),
                error: None,
            },
            Err(error) if self.declared => {
                Settled { error: Some(error.to_string()), ..Settled::default() }
            }
            Err(_) => Settled::default(),
        }
    }

    /// What has been served and discarded since the last call, in requests, once that accounts for
    /// all `completed` requests of the session. `None` from the first time on at which it does not:
    /// the count of the whole session will say so too.
    fn arrivals(&mut self, completed: u64) -> Option<served::Count> {
        let before = self.arrived.take()?;
        let patience = self.patience;
        let settled = self.reader.read_settled_from(self.base, completed, Nanos::ZERO, patience);
        let count = settled.ok()?;
        let now = served::Count { served: self.in_requests(count, completed), ..count };
        if now.served + now.discarded != completed {
            return None;
        }
        self.arrived = Some(now);
        Some(now.since(before))
    }

    /// The requests in a count of which each adds a fixed number. A remainder is rounded away from
    /// the expected number, so that only the exact count equals it.
    fn in_requests(&self, count: served::Count, completed: u64) -> u64 {
        in_requests(
            count.served,
            self.reader.per_request(),
            completed.saturating_sub(count.discarded),
        )
    }
}

fn in_requests(counted: u64, per_request: u64, expected: u64) -> u64 {
    let whole = counted / per_request.max(1);
    if whole < expected { whole } else { counted.div_ceil(per_request.max(1)) }
}

/// A server-side count at the end.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Requests served, if they are counted.
    pub(crate) served: Option<u64>,
    /// Requests that the server's kernel discarded, if they are counted.
    pub(crate) discarded: Option<u64>,
    /// Why a declared count could not be read.
    pub(crate) error: Option<String>,
}

/// The stack with additional environment variables, and with the folder of our WSGI counter.
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

/// A variant's name as a folder name.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// Results of a variant in a block.
pub(crate) struct VariantResult {
    pub(crate) life: Life,
    pub(crate) trial_sums: Vec<TrialSum>,
    env_padding_bytes: u32,
    /// Sum of the trials' counts; the session's own total is in `life`.
    pub(crate) by_trials: Counts,
    pub(crate) served_error: Option<String>,
    /// Processes that did not stop when asked and were killed.
    pub(crate) killed: Vec<String>,
    pub(crate) log_tail: String,
    /// The last line that the commands of actions printed.
    pub(crate) commands_said: Option<String>,
}

impl VariantResult {
    /// The trials to record; `kept` says for an offer and a round whether its figures count.
    pub(crate) fn trials(&self, kept: &dyn Fn(Offer, u32) -> bool) -> Vec<Trial> {
        let variant = self.life.variant as usize;
        let trial = |trial_sum: &TrialSum| {
            trial_sum.trial(variant, self.env_padding_bytes, &|round| kept(trial_sum.offer, round))
        };
        self.trial_sums.iter().map(trial).collect()
    }

    /// Whether a server-side count differs from the completed requests by no more than those that
    /// failed or were left in flight while actions happened: whether such a request had reached the
    /// server cannot be known from outside.
    pub(crate) fn is_within_losses(&self, served: u64) -> bool {
        let disrupted = self.trial_sums.iter().filter(|sum| sum.disruption.is_some());
        let lost: u64 = disrupted.map(|sum| sum.counts.failed + sum.counts.in_flight).sum();
        let completed = self.life.ledger.counts.completed;
        (completed..=completed + lost).contains(&served)
    }

    /// The last line of the stack's log.
    pub(crate) fn last_log_line(&self) -> Option<String> {
        let line = self.log_tail.trim().lines().last()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }
}

/// The load with one engine for all variants unless the user chooses another: `auto` could choose
/// different ones for TCP and Unix sockets, and the comparison would include that difference.
fn with_one_engine(load: &spec::Load) -> spec::Load {
    let engine = match load.engine {
        EngineChoice::Auto => EngineChoice::Epoll,
        named => named,
    };
    spec::Load { engine, ..load.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_number_of_lines_makes_the_expected_number_of_messages() {
        let messages = |lines| in_requests(lines, 20, 5);
        assert_eq!(messages(100), 5);
        assert_eq!([messages(99), messages(81), messages(80), messages(0)], [4, 4, 4, 0]);
        assert_eq!([messages(101), messages(119), messages(120)], [6, 6, 6]);
        assert_eq!([in_requests(7, 1, 7), in_requests(8, 1, 7)], [7, 8]);
    }
}
