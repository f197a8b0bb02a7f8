//! A running variant in a block: its stack, its connections and its counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use base::{Nanos, Seed, Timestamp};
use drive::{LearnedResponse, LiveCounts, Observation, Slice};
use far::Look;
use host::{Identity, Meter};
use ledger::{Counts, Ledger};
use profile::ProfileStep;
use record::{Disruption, Life, Offer, Trial};
use spec::{Action, EngineChoice, Load, Target, TlsOptions, Variant};
use stage::{Draws, Stage, StartOptions, server_count};

use crate::acting::{Actor, attribute};
use crate::error::StartError;
use crate::looks::Looks;
use crate::machine_activity::activity;
use crate::machines::{Machines, NearMachine, PreparedMachine, Site};
use crate::profilers::{Profilers, SampledStack};
use crate::reflect;
use crate::server_count::{Counter, FinalCount};
use crate::trial_sum::{Cost, TrialSum, difference};
use crate::wherever::{ClientSession, Stack};

/// How often to read the memory of a loaded stack: each reading covers every process.
const MEMORY_EVERY: Duration = Duration::from_millis(250);

/// How often to start a stack whose port is taken.
const START_ATTEMPTS: u64 = 4;

/// The environment in which the stacks of a part run.
pub(crate) struct Setting<'a> {
    pub(crate) stage: &'a Stage,
    /// The part, for the machines of its stacks and clients.
    pub(crate) part: spec::Part,
    pub(crate) near: &'a NearMachine,
    pub(crate) machines: &'a Machines,
    /// What other machines have for the stacks.
    pub(crate) prepared: &'a [PreparedMachine],
    pub(crate) files: Option<PathBuf>,
    /// Folder for copies of the files of this part's stacks.
    pub(crate) keep_files: Option<PathBuf>,
    pub(crate) path_prepend: Vec<PathBuf>,
    pub(crate) extra_env: Vec<(String, String)>,
    pub(crate) stop: drive::StopFlag,
    pub(crate) step: Nanos,
    pub(crate) meter: &'a Meter,
    /// Samples where the CPU time of the part's stacks goes.
    pub(crate) profilers: Option<&'a Profilers>,
}

/// The seeds of a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartSeeds {
    /// Determines what must differ between stacks that run side by side: ports, names of folders.
    places: Seed,
    /// Determines what may make the same program faster or slower, and the load's arrivals.
    draws: Seed,
}

impl StartSeeds {
    /// The seeds of a start with which no other is compared.
    pub(crate) fn alone(seed: Seed) -> StartSeeds {
        StartSeeds { places: seed, draws: seed }
    }

    /// The seeds of a variant in the block of this seed: the draws are common to all variants of the
    /// block, unless they are to be `independent`.
    pub(crate) fn in_block(block: Seed, variant: usize, independent: bool) -> StartSeeds {
        let own = block.derive("variant", variant as u64);
        let draws = if independent { own } else { block.derive("draws", 0) };
        StartSeeds { places: own, draws }
    }
}

/// A running variant.
pub(crate) struct RunningVariant {
    pub(crate) variant: usize,
    pub(crate) learned: Option<LearnedResponse>,
    /// The load with messages that were encoded as the server describes them, if they were.
    pub(crate) encoded: Option<Load>,
    pub(crate) trial_sums: Vec<TrialSum>,
    stack: Stack,
    site: Site,
    near: Identity,
    /// Why the stack on another machine has failed, as seen after the last slice.
    died: Option<String>,
    /// The longest time between the beginnings of several clients in a measured slice.
    apart: Option<Nanos>,
    /// Whether the server was already running: its stack has no processes, and its cost is unknown.
    is_external: bool,
    /// Whether requests have no response: then each trial is compared with the server-side count.
    is_one_way: bool,
    is_datagram: bool,
    session: ClientSession,
    actions: Vec<Action>,
    /// Counts of the session's slices, for the actions.
    live: Arc<LiveCounts>,
    stop: drive::StopFlag,
    counter: Option<Counter>,
    env_padding_bytes: u32,
    step: Nanos,
    memory_read: Instant,
    profiled: Option<SampledStack>,
}

impl RunningVariant {
    /// Starts the stack, connects, and learns the response from three probes.
    pub(crate) fn start(
        index: usize,
        variant: &Variant,
        around: &Setting<'_>,
        seeds: StartSeeds,
    ) -> Result<RunningVariant, StartError> {
        let draws = Draws::of(seeds.draws);
        let site = Site::of(variant, &around.part, around.near, around.machines)
            .map_err(StartError::Unfit)?;
        let environment = match &site.stack {
            None => &around.extra_env,
            Some(machine) => &machine.facts().env,
        };
        let mut stack = with_environment(&variant.stack, environment);
        if around.profilers.is_some() {
            name_generated_code(&mut stack);
        }
        prepare(variant, &site, around)?;
        let mut attempt = 0;
        let stack = loop {
            attempt += 1;
            let options = StartOptions {
                cpus: site.stack_cpus.clone(),
                client_cpus: site.beside_cpus.clone(),
                draws,
                host: site.host.clone(),
                files: around.files(&site),
                keep_files: around.keep_files.as_deref().map(|f| f.join(file_name(&variant.name))),
                path_prepend: around.programs(&site),
                working_dir: variant.stack.working_dir.clone(),
                stop: around.stop.clone(),
                ..StartOptions::new(&variant.name, seeds.places.derive("places", attempt))
            };
            match Stack::start(around.stage, &site, &stack, options) {
                Err(error) if error.is_address_in_use() && attempt < START_ATTEMPTS => continue,
                other => break other?,
            }
        };
        let target = Target::parse(&stack.expand(&variant.target)?)
            .map_err(|error| StartError::Unfit(error.to_string()))?;
        let options = drive::Options {
            cpus: site.client_cpus.first().cloned().unwrap_or_default(),
            seed: seeds.draws.derive("arrivals", 0),
            step: around.step,
            stop: around.stop.clone(),
            among: None,
        };
        let open = |load: &Load| {
            let load = load_here(load, &stack)?;
            let opened = ClientSession::open(&site, &target, &load, &options);
            opened.map_err(|error| stack.unreached(error))
        };
        let origin = format!("the server of {}", variant.name);
        let encoded = reflect::encoded(&variant.load, &origin, &mut |load| {
            let mut session = open(load)?;
            let learned = session.learn();
            reflect::reply(learned, &session.close(), &origin)
        })?;
        let counter = Counter::of(variant, &stack)?;
        let profiled = match around.profilers {
            Some(profilers) => profilers.watch(index, variant, &stack, target.endpoint())?,
            None => None,
        };
        let mut session = open(encoded.as_ref().unwrap_or(&variant.load))?;
        let mut warm = TrialSum::new(Offer::WarmUp, None, around.step);
        let (started, probing) = (base::timestamp_now(), Instant::now());
        let learned = match variant.load.exchange.is_learned() {
            true => Some(session.learn().map_err(|error| stack.unreached(error))?),
            false => None,
        };
        let live = Arc::new(LiveCounts::default());
        if let Some(session) = session.near().filter(|_| !variant.actions.is_empty()) {
            session.watch(Arc::clone(&live));
        }
        warm.add_life(&session.life(), started, probing.elapsed().into());
        Ok(RunningVariant {
            memory_read: Instant::now() - MEMORY_EVERY,
            variant: index,
            learned,
            encoded,
            trial_sums: vec![warm],
            stack,
            site,
            near: around.near.identity.clone(),
            died: None,
            apart: None,
            is_external: variant.stack.processes.is_empty(),
            is_one_way: variant.is_one_way(),
            is_datagram: target.endpoint().is_datagram(),
            session,
            actions: variant.actions.clone(),
            live,
            stop: around.stop.clone(),
            counter,
            env_padding_bytes: draws.env_padding_bytes,
            step: around.step,
            profiled,
        })
    }

    /// Learns from the slices that follow whether the body varies.
    pub(crate) fn keep_learning(&mut self) -> Result<(), StartError> {
        if self.learned.is_some() { self.session.keep_learning() } else { Ok(()) }
    }

    /// Ends the learning: responses to the trial under `offer` that were wrong become failures.
    /// Returns the response to expect from now on.
    pub(crate) fn settle(&mut self, offer: Offer) -> Result<Option<LearnedResponse>, StartError> {
        if self.learned.is_some() {
            let before = self.session.life();
            self.learned = Some(self.session.settle()?);
            let after = self.session.life();
            let mut sums = self.trial_sums.iter_mut();
            if let Some(trial_sum) = sums.find(|trial_sum| trial_sum.offer == offer) {
                trial_sum.retract_between(&before, &after);
            }
        }
        Ok(self.learned.clone())
    }

    /// Replaces the variables of a text by the stack's values.
    pub(crate) fn expand(&self, text: &str) -> Result<String, StartError> {
        self.stack.expand(text)
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
        // A search for a capacity has a trial for each rate.
        let is_this = |sum: &TrialSum| sum.offer == offer && sum.offered_per_s == rate;
        let at = match self.trial_sums.iter().position(is_this) {
            Some(at) => at,
            None => {
                self.trial_sums.push(TrialSum::new(offer, rate, self.step));
                self.trial_sums.len() - 1
            }
        };
        // In the second half of the warm-up, which finds all connections open.
        let is_warm = offer == Offer::WarmUp && !self.trial_sums[at].slices.is_empty();
        let profile = |step| self.profiled.iter().for_each(|profiled| profiled.step(step));
        match offer.is_measured() {
            true => profile(ProfileStep::Begin(at)),
            false if is_warm => profile(ProfileStep::BeginCounting),
            false => {}
        }
        let before = self.look(meter, false)?;
        let with_memory = !self.is_external && self.memory_read.elapsed() >= MEMORY_EVERY;
        let (started, clock) = (base::timestamp_now(), Instant::now());
        let loaded = self.run_slice(slice, offer);
        let looked = loaded.and_then(|loaded| Ok((loaded, self.look(meter, with_memory)?)));
        let (LoadedSlice { seen, disruption, arrivals }, after) = match looked {
            Ok(complete) => complete,
            Err(error) => {
                // The session has counted its requests.
                self.add_rest(at, started, clock.elapsed().into());
                return Err(error);
            }
        };
        let profile = |step| self.profiled.iter().for_each(|profiled| profiled.step(step));
        match offer.is_measured() {
            true => profile(ProfileStep::End(at)),
            false if is_warm => profile(ProfileStep::EndCounting(seen.counts.completed)),
            false => {}
        }
        if with_memory {
            self.memory_read = Instant::now();
        }
        let rise = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| b.saturating_sub(a));
        let cost = Cost {
            stack_cpu: before.stack_cpu.zip(after.stack_cpu).map(|(a, b)| b.saturating_sub(a)),
            activity: activity(&before.readings, &after.readings),
            peak_memory_bytes: after.peak_memory_bytes,
            throttled: rise(before.throttled, after.throttled),
        };
        self.trial_sums[at].add(&seen, cost, round, started, slice);
        if self.is_one_way && self.counter.is_some() {
            self.trial_sums[at].add_arrivals(arrivals);
        }
        // With actions a trial is one slice.
        self.trial_sums[at].disruption = disruption;
        Ok(&self.trial_sums[at])
    }

    /// Loads the variant for one slice, with its actions if it is measured.
    fn run_slice(&mut self, slice: &Slice, offer: Offer) -> Result<LoadedSlice, StartError> {
        let (mut seen, disruption) = match offer.is_measured() && !self.actions.is_empty() {
            true => self.run_with_actions(slice)?,
            false => {
                let (seen, apart) = self.session.run(slice)?;
                if offer.is_measured() {
                    self.apart = self.apart.max(apart);
                }
                (seen, None)
            }
        };
        let arrivals = self.arrivals(&mut seen);
        Ok(LoadedSlice { seen, disruption, arrivals })
    }

    /// Adds to a trial what the session has counted beyond all trials: of a slice that a lost
    /// connection to a machine has ended.
    fn add_rest(&mut self, at: usize, started: Timestamp, elapsed: Nanos) {
        let mut rest = self.session.life();
        for trial_sum in &self.trial_sums {
            rest.counts = rest.counts.since(&trial_sum.counts);
            rest.errors = difference(&rest.errors, &trial_sum.errors);
            for (kind, (counts, errors)) in rest.kinds.iter_mut().zip(&trial_sum.kinds) {
                kind.counts = kind.counts.since(counts);
                kind.errors = difference(&kind.errors, errors);
            }
        }
        self.trial_sums[at].add_life(&rest, started, elapsed);
    }

    /// Reads the counters of the site's machines, and the stack's usage.
    fn look(&mut self, meter: &Meter, memory: bool) -> Result<Looks, StartError> {
        let far_stack = self.stack.far_id();
        let of_stack = |machine: &Arc<far::Machine>| {
            let has_stack = self.site.stack.as_ref().is_some_and(|at| Arc::ptr_eq(at, machine));
            far_stack.filter(|_| has_stack)
        };
        let look = |machine: &Arc<far::Machine>| {
            let stack = of_stack(machine);
            Look { stack, memory: memory && stack.is_some() }
        };
        let near = |looks: &mut Looks| {
            if self.site.is_near_used() {
                looks.throttled = stage::throttled();
                looks.readings.push((self.near.clone(), meter.read()));
            }
            if let (Some(stack), false) = (self.stack.near(), self.is_external) {
                let usage = || stack.usage().ok().map(|usage| usage.peak_memory_bytes);
                looks.stack_cpu = stack.cpu().ok();
                looks.peak_memory_bytes = memory.then(usage).flatten();
            }
            if self.is_external {
                looks.stack_cpu = self.profiled.as_ref().and_then(SampledStack::cpu);
            }
        };
        let mut looks = Looks::take(&self.site.machines(), look, near)?;
        self.died = looks.died.take();
        Ok(looks)
    }

    /// What the server's side has counted of a slice whose requests have no response.
    ///
    /// Throughput is that of requests that arrived: what was discarded is taken from the window, and
    /// the window of datagrams lasts until all others have been counted. That of a stream ends with
    /// its acknowledgement.
    fn arrivals(&mut self, seen: &mut Observation) -> Option<server_count::Count> {
        if !self.is_one_way {
            return None;
        }
        let began = Instant::now();
        let arrivals = self.counter.as_mut()?.arrivals(self.session.life().counts.completed)?;
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
        let nowhere_else = || StartError::Unfit("actions work only on this machine".to_owned());
        let session = session.near().ok_or_else(nowhere_else)?;
        let stack = stack.near().ok_or_else(nowhere_else)?;
        let failed_before = live.counts().1;
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

    /// Checks that the stack is still as it was when it became ready; of one on another machine,
    /// after the last slice.
    pub(crate) fn check_alive(&mut self) -> Result<(), StartError> {
        match (self.stack.near(), &self.died, &self.site.stack) {
            (Some(stack), ..) => Ok(stack.check_alive()?),
            (None, Some(died), Some(machine)) => {
                Err(StartError::Unfit(format!("on {}: {died}", machine.name())))
            }
            _ => Ok(()),
        }
    }

    /// Describes a process of the stack that may run outside the stack's CPUs.
    pub(crate) fn unpinned(&self) -> Option<String> {
        self.stack.unpinned()
    }

    /// Closes the connections, reads the server-side count, stops the stack, and returns the
    /// totals.
    pub(crate) fn end(self) -> VariantResult {
        let RunningVariant {
            variant,
            mut trial_sums,
            stack,
            session,
            mut counter,
            env_padding_bytes,
            apart,
            profiled,
            ..
        } = self;
        // While its processes live, because what their addresses mean is in them.
        for (trial, profile) in profiled.iter().flat_map(SampledStack::take) {
            trial_sums[trial].profile = Some(profile);
        }
        let drive::Life { counts, errors, .. } = session.close();
        let settled = counter.as_mut().map(|counter| counter.settle(counts.completed));
        let FinalCount { served, discarded, error: served_error } = settled.unwrap_or_default();
        let log_tail = stack.log_tail(5).join("\n");
        let commands_said = stack.near().and_then(|stack| stack.commands_tail(1).pop());
        let stopped = stack.stop();
        drop(profiled);
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
            apart,
        }
    }
}

impl Setting<'_> {
    /// Whether slices of this length show the activity of others, on all of the part's machines.
    pub(crate) fn resolves(&self, slice: Nanos) -> bool {
        let names = self.part.machines();
        let far = self.machines.iter().filter(|machine| names.contains(&machine.name()));
        let far = far.map(|machine| machine.facts().shortest_slice);
        far.chain([self.meter.shortest_slice()])
            .all(|shortest| shortest.is_some_and(|it| it <= slice))
    }

    /// Folders to prepend to the PATH of a stack's processes at a site.
    fn programs(&self, site: &Site) -> Vec<PathBuf> {
        match &site.stack {
            None => self.path_prepend.clone(),
            Some(machine) => {
                self.prepared(machine).and_then(|it| it.programs.clone()).into_iter().collect()
            }
        }
    }

    /// The folder of `$FILES` at a site.
    fn files(&self, site: &Site) -> Option<PathBuf> {
        match &site.stack {
            None => self.files.clone(),
            Some(machine) => self.prepared(machine)?.files.clone(),
        }
    }

    fn prepared(&self, machine: &far::Machine) -> Option<&PreparedMachine> {
        self.prepared.iter().find(|prepared| prepared.name == machine.name())
    }
}

/// Runs the command that prepares a start, on the stack's machine.
fn prepare(variant: &Variant, site: &Site, around: &Setting<'_>) -> Result<(), StartError> {
    let Some(command) = &variant.stack.prepare else { return Ok(()) };
    let folder = variant.stack.working_dir.as_deref();
    match &site.stack {
        None => Ok(stage::run_hook("--prepare", command, folder, &around.stop)?),
        Some(machine) => Ok(machine.hook("--prepare", command, folder)?),
    }
}

/// What a slice has shown.
struct LoadedSlice {
    seen: Observation,
    disruption: Option<Disruption>,
    /// What the server's side has counted of it.
    arrivals: Option<server_count::Count>,
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

/// Options of every Java machine.
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// Makes CPython tell the names of its functions, from 3.12 on, and Java keep the frame pointers by which
/// its calls are followed. Node would leave a log in its working directory.
fn name_generated_code(stack: &mut spec::Stack) {
    for process in &mut stack.processes {
        process.env.entry("PYTHONPERFSUPPORT".to_owned()).or_insert_with(|| "1".to_owned());
        let inherited = || std::env::var(JAVA_OPTIONS).unwrap_or_default();
        let options = process.env.entry(JAVA_OPTIONS.to_owned()).or_insert_with(inherited);
        *options = format!("{options} -XX:+PreserveFramePointer").trim_start().to_owned();
    }
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
    /// The longest time between the beginnings of several clients in a measured slice.
    pub(crate) apart: Option<Nanos>,
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

/// The load of a running stack, whose variables its files of TLS may name.
fn load_here(load: &Load, stack: &Stack) -> Result<Load, StartError> {
    let mut load = with_one_engine(load);
    let TlsOptions { cacert, cert, key, .. } = &mut load.tls;
    for path in [cacert, cert, key].into_iter().flatten() {
        *path = stack.expand(&path.to_string_lossy())?.into();
    }
    Ok(load)
}

/// The load with one engine for all variants unless the user chooses another: `auto` could choose
/// different ones for TCP and Unix sockets, and the comparison would include that difference.
fn with_one_engine(load: &Load) -> Load {
    let engine = match load.engine {
        EngineChoice::Auto => EngineChoice::Epoll,
        named => named,
    };
    Load { engine, ..load.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn starts(block: Seed, independent: bool) -> [StartSeeds; 3] {
        [0, 1, 2].map(|variant| StartSeeds::in_block(block, variant, independent))
    }

    proptest! {
        #[test]
        fn the_variants_of_a_block_start_alike_and_each_block_anew(run in any::<u64>(), number in 1..1000_u64) {
            let block = |number| Seed(run).derive("block", number);
            let [a, b, c] = starts(block(number), false);
            prop_assert_eq!(Draws::of(a.draws), Draws::of(b.draws));
            prop_assert_eq!(Draws::of(a.draws), Draws::of(c.draws));
            prop_assert_eq!(a.draws, c.draws, "arrivals");
            prop_assert!(a.places != b.places && b.places != c.places, "ports and folders differ");
            let [next, ..] = starts(block(number + 1), false);
            prop_assert_ne!(Draws::of(a.draws), Draws::of(next.draws));
            let [a, b, c] = starts(block(number), true);
            prop_assert_ne!(Draws::of(a.draws), Draws::of(b.draws));
            prop_assert_ne!(Draws::of(b.draws), Draws::of(c.draws));
        }
    }

    #[test]
    fn draws_over_blocks_cover_their_whole_range() {
        let draws: Vec<Draws> = (0..400)
            .map(|number| {
                let block = Seed(1).derive("block", number);
                Draws::of(StartSeeds::in_block(block, 0, false).draws)
            })
            .collect();
        let letters: std::collections::BTreeSet<u32> =
            draws.iter().map(|draws| draws.folder_letters).collect();
        assert_eq!(letters, (6..=12).collect());
        let mean = |of: fn(&Draws) -> f64| draws.iter().map(of).sum::<f64>() / 400.0;
        assert!((mean(|draws| f64::from(draws.env_padding_bytes)) / 2048.0 - 1.0).abs() < 0.1);
        assert!(
            (mean(|draws| f64::from(draws.hash_seed)) / f64::from(u32::MAX) - 0.5).abs() < 0.05
        );
    }
}
