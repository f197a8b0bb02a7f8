//! The search for the highest rate at which conditions hold.
//!
//! Each variant is started alone, warmed up and tried at single rates until a rate at which the
//! conditions hold and one at which they do not are close together: that is block 0, which is never
//! analysed. In each of the blocks that follow, every variant is started fresh and loaded at three
//! rates around the estimate so far, in random order. The number of blocks follows from the spread of
//! the first eight, or from the time. `stats` decides which rates are tried and what the blocks say
//! together; [docs/capacity.md] has the method and its proof.
//!
//! [docs/capacity.md]: https://github.com/tachograph/tachograph/blob/main/docs/capacity.md

mod conclude;
mod trial;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{Nanos, Seed};
use drive::{LearnedResponse, LoopStart, Slice};
use rand::RngExt as _;
use record::{
    Block, BlockState, Capacity, CapacityOutcome, CapacityTrial, ClientLimit, Condition, Fact,
    Finding, Link, Offer, Part, Run, Severity,
};
use spec::{Arrivals, CapacityAim, Mode, Variant};
use stats::{
    Aim, Bracket, Bracketing, Levels, PILOT_BLOCKS, SEARCH_BLOCKS_MAX, TrialLength, planned_blocks,
};

use crate::block::{BlockFailure, BlockOutcome, end_all, shuffled};
use crate::error::{ConductError, StartError};
use crate::layout::{layout, note_clocks, note_segments};
use crate::machines::Snapshots;
use crate::network;
use crate::part::{RunContext, blank, cool_down, write_life};
use crate::running_variant::{RunningVariant, Setting, StartSeeds, VariantResult};
use crate::schedule::expect_learned;
use crate::validity::Inspector;
use crate::watch::{Event, StackActivity};

/// How long a search takes if the user does not say.
const TIME: Nanos = Nanos::from_secs(180);
/// The share of the time that the brackets may take.
const BRACKET_SHARE: f64 = 0.4;
/// How long a fresh stack is loaded before its first trial, in a closed loop, and in how many slices in
/// a bracket.
const WARM_UP: Nanos = Nanos::from_millis(400);
const WARM_UP_SLICES: u32 = 4;
/// The first rate of a bracket, as a share of what the warm-up served.
const FIRST_RATE: f64 = 1.0 / 3.0;
/// The lowest rate, in the same unit, and in requests per second: so far below, no request waits for
/// another one.
const LOWEST_RATE: f64 = 1.0 / 50.0;
const LOWEST_PER_S: f64 = 1.0;
/// A trial in which the client was the limit is repeated this often before that ends the bracket.
const CLIENT_RETRIES: u32 = 2;

/// A search in progress.
pub(crate) struct CapacitySearch<'a> {
    plan: spec::Part,
    aim: CapacityAim,
    conditions: Vec<Condition>,
    index: usize,
    setting: Setting<'a>,
    seed: Seed,
    time: Duration,
    began: Instant,
}

/// What a bracket found for one variant.
enum BracketResult {
    /// The first levels, and the length of trials.
    Levels(Levels, TrialLength),
    /// No capacity within the rates that can be offered.
    End(Bracketing),
    /// The client could not offer this rate.
    Client { per_s: f64, limit: ClientLimit },
    /// The time was over.
    Open,
}

/// The state of a variant between blocks.
struct VariantSearch {
    variant: usize,
    found: BracketResult,
    bracket: Bracket,
    /// The length of an answer's body; 0 if it varies.
    body_bytes: u64,
}

impl<'a> CapacitySearch<'a> {
    pub(crate) fn new(
        plan: spec::Part,
        aim: CapacityAim,
        index: usize,
        setting: Setting<'a>,
        seed: Seed,
        time: Option<Nanos>,
    ) -> CapacitySearch<'a> {
        let latency = aim
            .latency
            .map(|latency| Condition::Latency { quantile: latency.quantile, limit: latency.limit });
        let errors = aim.errors.map(|share| Condition::Errors { share });
        let cpu = aim.cpu.map(|share| Condition::Cpu { share });
        CapacitySearch {
            conditions: [latency, errors, cpu].into_iter().flatten().collect(),
            time: time.unwrap_or(TIME).into(),
            began: Instant::now(),
            plan,
            aim,
            index,
            setting,
            seed,
        }
    }

    /// Searches, and records everything. A search that is stopped keeps what it found.
    pub(crate) fn run(
        mut self,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        let mut layout = layout(&self.plan, self.setting.near, self.setting.machines);
        layout.links = self.links();
        let mut part = blank(&self.plan, layout);
        // An open loop opens connections as it needs them.
        part.load.connections = connections_max(&self.plan.variants[0]);
        part.capacity =
            Some(Capacity { conditions: self.conditions.clone(), ..Capacity::default() });
        run.parts.push(part);
        context
            .recorder
            .part(run, self.index, &run.parts[self.index])
            .map_err(ConductError::Record)?;
        let mut searches = self.brackets(run, context)?;
        let able = run.parts[self.index].variants.iter().all(|v| v.skipped.is_none());
        if able {
            self.blocks(&mut searches, run, context)?;
        }
        let outcomes = searches.iter().map(|search| (search.variant, search.outcome()));
        let interrupted = self.is_stopped();
        let pilot = PILOT_BLOCKS as usize;
        let part = &mut run.parts[self.index];
        conclude::conclude(&self.plan, part, outcomes.collect(), pilot, interrupted);
        let limited = searches.iter().filter_map(|search| self.network_limited(part, search));
        let limited: Vec<Finding> = limited.collect();
        part.findings.extend(limited);
        context
            .recorder
            .part_done(run, self.index, &run.parts[self.index])
            .map_err(ConductError::Record)
    }

    /// The networks between clients and stacks; one that could not be measured is not known.
    fn links(&self) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for variant in &self.plan.variants {
            if !self.is_stopped() && links.iter().all(|link| link.server != variant.on) {
                let measured =
                    network::measure(variant, &self.setting, self.seed.derive("network", 0));
                links.extend(measured.unwrap_or_default());
            }
        }
        links
    }

    /// Whether the capacity is about what the network carries.
    fn network_limited(&self, part: &Part, search: &VariantSearch) -> Option<Finding> {
        let found = part.capacity.as_ref()?.variants.iter();
        let mut found = found.filter(|found| found.variant as usize == search.variant);
        let per_s = match &found.next()?.outcome {
            CapacityOutcome::Found { per_s, .. } => per_s.value,
            CapacityOutcome::AtLeast { per_s } => *per_s,
            _ => return None,
        };
        let mut variant = self.plan.variants[search.variant].clone();
        variant.load.connections = connections_max(&variant);
        let by = network::limit(&part.layout.links, &variant, per_s, search.body_bytes)?;
        let fact = Fact::NetworkLimited { by };
        Some(Finding::of_variant(Severity::Warning, search.variant, fact))
    }

    fn is_stopped(&self) -> bool {
        self.setting.stop.load(Ordering::Relaxed)
    }

    fn left(&self) -> Duration {
        self.time.saturating_sub(self.began.elapsed())
    }

    fn limits(&self) -> Vec<f64> {
        self.conditions.iter().map(|condition| condition.limit()).collect()
    }

    /// The length of a block's trials at about this rate.
    fn length(&self, rate_per_s: f64) -> TrialLength {
        let limit_s = self.aim.latency.map(|latency| latency.limit.as_secs_f64());
        let share = self.aim.latency.map(|latency| 1.0 - latency.quantile).or(self.aim.errors);
        let (time_s, variants) = (self.time.as_secs_f64(), self.plan.variants.len());
        TrialLength::of(rate_per_s, limit_s, share, time_s, variants)
    }

    /// Finds the range of each variant, one after the other, and records that as block 0.
    fn brackets(
        &mut self,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<Vec<VariantSearch>, ConductError> {
        context.watcher.event(&Event::Calibrating);
        let clock = Instant::now();
        let mut block = Block::new(0, base::timestamp_now(), BlockState::Calibration);
        let mut searches = Vec::new();
        for v in 0..self.plan.variants.len() {
            if self.is_stopped() {
                break;
            }
            let share = BRACKET_SHARE * (v + 1) as f64 / self.plan.variants.len() as f64;
            let until = self.began + self.time.mul_f64(share);
            match self.bracket(v, until, run, context) {
                Ok((search, learned, ended)) => {
                    block.order.push(v as u32);
                    let trials = ended.trials(&|_, _| true);
                    write_life(run, self.index, &mut block, &ended, trials, context)?;
                    self.expect(v, learned);
                    searches.push(search);
                }
                Err(_) if self.is_stopped() => break,
                Err(error) => {
                    let error = base::redact(&error.to_string());
                    let variant = self.plan.variants[v].name.clone();
                    context.watcher.event(&Event::Skipped { variant, error: error.clone() });
                    run.parts[self.index].variants[v].skipped = Some(error);
                    break;
                }
            }
        }
        block.elapsed = clock.elapsed().into();
        context.recorder.block(run, self.index, &block).map_err(ConductError::Record)?;
        run.parts[self.index].blocks.push(block);
        Ok(searches)
    }

    /// Every later start of a variant has to answer as this one did.
    fn expect(&mut self, v: usize, learned: Option<LearnedResponse>) {
        let load = &mut self.plan.variants[v].load;
        learned.iter().for_each(|learned| expect_learned(load, learned));
    }

    fn bracket(
        &self,
        v: usize,
        until: Instant,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(VariantSearch, Option<LearnedResponse>, VariantResult), StartError> {
        let doing = |context: &mut RunContext<'_>, what| {
            let variant = self.plan.variants[v].name.clone();
            context.watcher.event(&Event::Doing { what, variant, share_done: 0.0 });
        };
        doing(context, StackActivity::Starting);
        let seed = self.seed.derive("bracket", v as u64);
        let mut running = self.start(v, StartSeeds::alone(seed))?;
        running.keep_learning()?;
        doing(context, StackActivity::Trying);
        let served_per_s = self.warm(&mut running, WARM_UP_SLICES)?;
        let learned = running.settle(Offer::WarmUp)?;
        let highest = self.aim.rate_max_per_s;
        let lowest = (served_per_s * LOWEST_RATE).max(LOWEST_PER_S).min(highest);
        let mut bracket = Bracket::new(served_per_s * FIRST_RATE, lowest, highest);
        let (mut client, mut doubted) = (0, false);
        let found = loop {
            if self.is_stopped() {
                break BracketResult::Open;
            }
            if Instant::now() > until {
                // The levels of the blocks narrow it further.
                break match bracket.held().zip(bracket.failed()) {
                    Some((held, failed)) => {
                        BracketResult::Levels(Levels::between(held, failed), self.length(held))
                    }
                    None => BracketResult::Open,
                };
            }
            let rate = match bracket.next() {
                Bracketing::Try(rate) => rate,
                Bracketing::Between(held, failed) => {
                    break BracketResult::Levels(Levels::between(held, failed), self.length(held));
                }
                end => break BracketResult::End(end),
            };
            // A rate that is tried again is a trial of its own.
            let again = f64::from(client) + f64::from(u8::from(doubted));
            let rate = rate * (1.0 + 1e-6 * again);
            let length = self.length(rate).of_bracket();
            let trial = self.trial(&mut running, 0, 0, rate, length, run)?;
            running.check_alive()?;
            if self.is_stopped() {
                break BracketResult::Open;
            }
            match trial.client.filter(|_| !trial.holds) {
                Some(limit) if client >= CLIENT_RETRIES => {
                    break BracketResult::Client { per_s: rate, limit };
                }
                Some(_) => client += 1,
                // A pause of the machine looks like a failure, but seldom twice.
                None if !trial.holds && !doubted => (client, doubted) = (0, true),
                None => {
                    (client, doubted) = (0, false);
                    bracket.tell(rate, trial.holds);
                }
            }
        };
        let body_bytes = learned.as_ref().and_then(|learned| learned.length).unwrap_or(0);
        let search = VariantSearch { variant: v, found, bracket, body_bytes };
        Ok((search, learned, running.end()))
    }

    fn start(&self, v: usize, seeds: StartSeeds) -> Result<RunningVariant, StartError> {
        RunningVariant::start(v, &self.plan.variants[v], &self.setting, seeds)
    }

    /// Loads a fresh stack in a closed loop, in so many slices; returns the requests per second of the
    /// fastest one.
    fn warm(&self, running: &mut RunningVariant, slices: u32) -> Result<f64, StartError> {
        let variant = &self.plan.variants[running.variant];
        let slice = Slice {
            mode: Mode::Closed,
            start: LoopStart::Fresh,
            lead_in: Nanos::ZERO,
            window: WARM_UP,
            requests: None,
            drain: variant.load.timeout,
            stalled_after: None,
        };
        let (mut before, mut served) = (0, 0);
        for _ in 0..slices {
            let sum = running.load(Offer::WarmUp, 0, &slice, self.setting.meter)?;
            served = served.max(sum.window.completed - before);
            before = sum.window.completed;
        }
        Ok((served as f64 / WARM_UP.as_secs_f64()).max(LOWEST_PER_S))
    }

    /// Makes one trial, and keeps it.
    fn trial(
        &self,
        running: &mut RunningVariant,
        block: u32,
        round: u32,
        rate_per_s: f64,
        length: TrialLength,
        run: &mut Run,
    ) -> Result<CapacityTrial, StartError> {
        let v = running.variant;
        let lead_in = Nanos::from_secs_f64(length.lead_in_s);
        let slice = Slice {
            mode: Mode::Open { rate_per_s, arrivals: Arrivals::Poisson },
            start: LoopStart::Fresh,
            lead_in,
            window: Nanos::from_secs_f64(length.window_s),
            requests: None,
            drain: self.plan.variants[v].load.timeout,
            stalled_after: None,
        };
        let part = &mut run.parts[self.index];
        let name = &self.plan.variants[v].name;
        let mut far = part.layout.machines.iter().filter(|place| place.stacks.contains(name));
        let cpus = match part.layout.stack.0.len() {
            0 => far.next().map_or(run.machine.cpus, |place| place.machine.cpus),
            several => several as u32,
        };
        let offer = if block == 0 { Offer::Calibration } else { Offer::Open };
        let sum = running.load(offer, round, &slice, self.setting.meter)?;
        let recorded = sum.trial(v, 0, &|_| true);
        let trial = trial::trial_of(&self.conditions, sum, &recorded, block, round, lead_in, cpus);
        // Stopped in the middle, it is in the ledger, but says nothing.
        if !self.is_stopped()
            && let Some(capacity) = &mut part.capacity
        {
            capacity.trials.push(trial.clone());
        }
        Ok(trial)
    }

    /// Runs blocks until there are enough, or the time is over.
    fn blocks(
        &self,
        searches: &mut [VariantSearch],
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        let (mut wanted, mut number) = (PILOT_BLOCKS, 0);
        let mut longest = Duration::ZERO;
        let searching = |search: &VariantSearch| matches!(search.found, BracketResult::Levels(..));
        while number < wanted
            && searches.iter().any(searching)
            && !self.is_stopped()
            && self.left() > longest
        {
            number += 1;
            let began = Instant::now();
            let remaining = (number > 1).then(|| {
                Nanos::from(longest * (wanted - number + 1)).min(Nanos::from(self.left()))
            });
            context.watcher.event(&Event::Block { number, of: wanted, remaining });
            let state = self.block(number, searches, run, context)?;
            longest = longest.max(began.elapsed());
            if state == BlockState::Failed {
                break;
            }
            let limits = self.limits();
            for search in &mut *searches {
                let points = self.points(&run.parts[self.index], search.variant);
                if let BracketResult::Levels(levels, _) = &mut search.found {
                    levels.learn(&points, &limits);
                }
            }
            if number == PILOT_BLOCKS {
                wanted = self.wanted(&run.parts[self.index], searches);
            }
        }
        Ok(())
    }

    fn points(&self, part: &Part, variant: usize) -> Vec<stats::RatePoint> {
        conclude::points(part, variant)
    }

    /// The number of blocks that the pilot's spread calls for.
    fn wanted(&self, part: &Part, searches: &[VariantSearch]) -> u32 {
        let values: Vec<Vec<f64>> = searches
            .iter()
            .filter_map(|search| {
                let points = self.points(part, search.variant);
                Some(stats::pseudo_values(&points, &self.limits())?.into_values().collect())
            })
            .collect();
        let pilots: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        let schedule = &self.plan.schedule;
        let (precision, confidence) = (schedule.precision, schedule.confidence);
        planned_blocks(&pilots, &Aim { precision, confidence, adjusted_for: 1 }, SEARCH_BLOCKS_MAX)
    }

    /// Runs, checks and records one block.
    fn block(
        &self,
        number: u32,
        searches: &mut [VariantSearch],
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<BlockState, ConductError> {
        let machines = self.setting.machines;
        cool_down(machines, &self.setting.stop);
        machines.sync();
        let (started, clock) = (base::timestamp_now(), Instant::now());
        let before = Snapshots::take(machines);
        let mut outcome = BlockOutcome {
            order: Vec::new(),
            ended: Vec::new(),
            failure: None,
            interrupted: false,
            unpinned: Vec::new(),
            governors: None,
        };
        let mut all_running = Vec::new();
        let trials =
            self.trials(number, searches, &mut all_running, &mut outcome.order, run, context);
        let unpinned = |running: &RunningVariant| Some((running.variant, running.unpinned()?));
        outcome.unpinned.extend(all_running.iter().filter_map(unpinned));
        outcome.interrupted = self.is_stopped();
        if let Err((variant, error)) = trials
            && !outcome.interrupted
        {
            outcome.failure = Some(BlockFailure::new(variant, &error));
        }
        outcome.ended.extend(end_all(all_running));
        outcome.ended.sort_by_key(|ended| ended.life.variant);
        let after = Snapshots::take(machines);
        let change = after.since(&before);
        let mut inspector = Inspector {
            block: number,
            client_shares: run.parts[self.index].layout.is_shared(),
            findings: Vec::new(),
        };
        inspector.inspect(&outcome, &[], change.as_ref(), false);
        // Failures, lateness and changes of level are what a trial above the capacity is made for.
        inspector.findings.retain(|finding| {
            !matches!(
                finding.fact,
                Fact::Failures { .. } | Fact::Lateness { .. } | Fact::Drift { .. }
            )
        });
        let kept = outcome.kept(Offer::Open, true);
        let trials = run.parts[self.index].capacity.iter_mut().flat_map(|all| &mut all.trials);
        for trial in trials.filter(|trial| trial.block == number) {
            trial.kept = kept.get(trial.round as usize).copied().unwrap_or(true);
        }
        let state = outcome.state();
        let mut block = Block {
            elapsed: clock.elapsed().into(),
            order: outcome.order.clone(),
            steal: change.map(|change| change.steal),
            ..Block::new(number, started, state)
        };
        for (ended, trials) in outcome.ended.iter().zip(outcome.trials(false)) {
            write_life(run, self.index, &mut block, ended, trials, context)?;
        }
        for life in &block.lives {
            let gaps = life.ledger.audit().into_iter();
            for gap in gaps.filter(|gap| gap.law == ledger::Law::Series) {
                let variant = Some(life.variant as usize);
                inspector.find(Severity::Invalid, variant, Fact::Ledger { gap });
            }
        }
        context.recorder.block(run, self.index, &block).map_err(ConductError::Record)?;
        let part = &mut run.parts[self.index];
        part.blocks.push(block);
        part.findings.extend(inspector.findings);
        let apart = outcome.ended.iter().filter_map(|ended| ended.apart).max();
        note_clocks(&mut part.layout, machines, apart);
        note_segments(&mut part.layout, machines, &after.segments_since(&before));
        Ok(state)
    }

    /// Starts every variant that is still searched, and tries its rates in random order.
    fn trials(
        &self,
        number: u32,
        searches: &[VariantSearch],
        all_running: &mut Vec<RunningVariant>,
        order: &mut Vec<u32>,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(), (usize, StartError)> {
        let seed = self.seed.derive("block", u64::from(number));
        let mut rng = seed.rng("order");
        let mut rates: Vec<(usize, f64, TrialLength)> = Vec::new();
        for search in searches {
            let BracketResult::Levels(levels, length) = &search.found else { continue };
            let shift = rng.random_range(-1.0..1.0);
            let each = levels.rates(shift).map(|rate| (search.variant, rate, *length));
            rates.extend(each);
        }
        let variants: Vec<usize> = {
            let mut all: Vec<usize> = rates.iter().map(|(v, ..)| *v).collect();
            all.dedup();
            all
        };
        let doing = |context: &mut RunContext<'_>, what, v: usize, share_done| {
            let variant = self.plan.variants[v].name.clone();
            context.watcher.event(&Event::Doing { what, variant, share_done });
        };
        for v in shuffled(&variants, &mut rng) {
            doing(context, StackActivity::Starting, v, 0.0);
            let seeds = StartSeeds::in_block(seed, v, self.plan.schedule.independent_starts);
            let mut running = self.start(v, seeds).map_err(|error| (v, error))?;
            let warmed = self.warm(&mut running, 1);
            all_running.push(running);
            warmed.map_err(|error| (v, error))?;
            if self.is_stopped() {
                return Ok(());
            }
        }
        let all: Vec<usize> = (0..rates.len()).collect();
        let shuffled = shuffled(&all, &mut rng);
        for (round, at) in shuffled.into_iter().enumerate() {
            let (v, rate, length) = rates[at];
            doing(context, StackActivity::Loading, v, round as f64 / rates.len() as f64);
            order.push(v as u32);
            let running = all_running.iter_mut().find(|running| running.variant == v);
            let running = running.expect("every variant with rates was started");
            self.trial(running, number, round as u32, rate, length, run)
                .and_then(|_| running.check_alive())
                .map_err(|error| (v, error))?;
            if self.is_stopped() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The connections that a search may open to a variant.
fn connections_max(variant: &Variant) -> u32 {
    variant.load.connections_max.unwrap_or(variant.load.connections)
}

impl VariantSearch {
    /// What is known without any block.
    fn outcome(&self) -> CapacityOutcome {
        let (held_per_s, failed_per_s) = (self.bracket.held(), self.bracket.failed());
        match self.found {
            BracketResult::End(Bracketing::HoldsAt(per_s)) => CapacityOutcome::AtLeast { per_s },
            BracketResult::End(Bracketing::FailsAt(per_s)) => CapacityOutcome::Nowhere { per_s },
            BracketResult::Client { per_s, limit } => {
                CapacityOutcome::ClientLimited { held_per_s, per_s, limit }
            }
            _ => CapacityOutcome::Undecided { held_per_s, failed_per_s },
        }
    }
}
