//! One part of a plan: calibration, pilot, the blocks that the pilot calls for, analysis.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{Nanos, Seed};
use record::{Block, BlockState, Fact, Finding, Offer, Part, Run, RunKind, Severity, Trial};
use spec::Contrast;

use crate::analyse;
use crate::block::{BlockOutcome, BlockPlan, SettledOffer, run_block};
use crate::calibrate::{Calibration, Effort, calibrate};
use crate::conclude;
use crate::edges::Edges;
use crate::error::ConductError;
use crate::layout::{layout, note_clocks, note_segments};
use crate::machines::{Canaries, Machines, Snapshots};
use crate::network;
use crate::pace::Pace;
use crate::running_variant::{Setting, VariantResult};
use crate::schedule::{
    extended, schedule_within, settle_offers, settled_after, warmup, with_learned,
};
use crate::stalls::{KeptRounds, Stalls};
use crate::sustained::OpenLoops;
use crate::uneven_disturbance::Unevenness;
use crate::validity::{Inspector, VariantTotals, over_all_blocks};
use crate::watch::{Event, RunRecorder, Watcher};

/// Below this ratio of the null server's throughput to a variant's, the client limits the variant.
const NULL_FACTOR_MIN: f64 = 3.0;
/// A part in progress.
pub(crate) struct PartRunner<'a> {
    pub(crate) plan: spec::Part,
    pub(crate) index: usize,
    pub(crate) setting: Setting<'a>,
    pub(crate) seed: Seed,
    pub(crate) canaries: &'a Canaries,
    progress: Option<PartProgress>,
}

/// State of a part between its blocks.
struct PartProgress {
    /// The plan, completed by the calibration.
    plan: spec::Part,
    /// Variants that could start and have not failed since.
    able: Vec<usize>,
    offers: Vec<SettledOffer>,
    warmup: Nanos,
    pace: Pace,
    /// Blocks wanted so far: the pilot, and then what its variance calls for.
    wanted: u32,
    planned_after_pilot: bool,
    /// Blocks started so far.
    number: u32,
    /// Time spent in blocks.
    spent: Duration,
    edges: Edges,
    unevenness: Unevenness,
    stalls: Stalls,
    open_loops: OpenLoops,
    all_totals: Vec<VariantTotals>,
    last_canary: Nanos,
}

/// The recorder, the watcher and the rest that a part works with.
pub(crate) struct RunContext<'a> {
    pub(crate) recorder: &'a mut dyn RunRecorder,
    pub(crate) watcher: &'a mut dyn Watcher,
}

impl<'a> PartRunner<'a> {
    pub(crate) fn new(
        plan: spec::Part,
        index: usize,
        setting: Setting<'a>,
        seed: Seed,
        canaries: &'a Canaries,
    ) -> PartRunner<'a> {
        PartRunner { plan, index, setting, seed, canaries, progress: None }
    }

    /// Calibrates every variant and records that. Blocks can follow if any variant is able to run.
    ///
    /// If the part has to end by `deadline`, shortens pilot and windows to fit.
    pub(crate) fn calibrate(
        &mut self,
        run: &mut Run,
        deadline: Option<Deadline>,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        run.parts.push(blank(&self.plan, self.layout()));
        context
            .recorder
            .part(run, self.index, &run.parts[self.index])
            .map_err(ConductError::Record)?;
        let (started, clock) = (base::timestamp_now(), Instant::now());
        let all = run.kind == RunKind::Compare;
        let left = deadline.map(|deadline| deadline.aim.saturating_duration_since(Instant::now()));
        let effort = Effort::of(&self.plan, left.map(Nanos::from));
        let calibration =
            calibrate(&self.plan, all, effort, &self.setting, self.seed, context.watcher);
        let elapsed = clock.elapsed().into();
        self.record_calibration(run, &calibration, effort.length, started, elapsed, context)?;
        let able: Vec<usize> = calibration.variants.iter().map(|c| c.variant).collect();
        self.stand_in_for_baseline(run, &able, context);
        let hopeless = all && !calibration.skipped.is_empty();
        if !self.stopped() && !able.is_empty() && !hopeless {
            self.progress = Some(self.progress(&calibration, able, deadline));
        }
        Ok(())
    }

    /// Notes a fact about the whole part.
    pub(crate) fn note(&self, run: &mut Run, fact: Fact, context: &mut RunContext<'_>) {
        let finding = Finding { severity: Severity::Warning, block: None, variant: None, fact };
        run.parts[self.index].findings.push(finding.clone());
        let part = Box::new(run.parts[self.index].clone());
        context.watcher.event(&Event::Found { part, finding });
    }

    /// Records the part of a run that was stopped before it began.
    pub(crate) fn leave_out(
        &self,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        run.parts.push(blank(&self.plan, self.layout()));
        let part = &run.parts[self.index];
        context.recorder.part(run, self.index, part).map_err(ConductError::Record)
    }

    /// Runs blocks until there are enough, or until another would exceed `deadline`. May be called
    /// again with a later deadline.
    pub(crate) fn blocks(
        &mut self,
        run: &mut Run,
        deadline: Option<Deadline>,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        let Some(mut progress) = self.progress.take() else { return Ok(()) };
        let result = self.blocks_of(&mut progress, run, deadline, context);
        self.progress = Some(progress);
        result
    }

    /// Whether blocks that the pilot called for are still missing.
    pub(crate) fn wants_more(&self, run: &Run) -> bool {
        let complete = run.parts[self.index].complete_blocks().count() as u32;
        self.progress.as_ref().is_some_and(|progress| {
            complete < progress.wanted && !self.nothing_left(&run.parts[self.index], progress)
        })
    }

    /// Analyses the part and records it.
    pub(crate) fn conclude(
        &mut self,
        run: &mut Run,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        let part = &mut run.parts[self.index];
        if let Some(progress) = &self.progress {
            // The interval must use the same pilot as the number of blocks.
            self.plan.schedule.pilot_blocks = progress.plan.schedule.pilot_blocks;
            let complete: Vec<u32> = part.complete_blocks().map(|block| block.index).collect();
            let mut found = over_all_blocks(&self.plan, &progress.all_totals);
            let median = median_latency(part);
            let primary = analyse::metric_of(self.plan.primary);
            let deciding = (primary, analyse::offer_of(&self.plan, primary));
            let alpha = 1.0 - self.plan.schedule.confidence;
            let (contrasts, uneven) = (&self.plan.contrasts, &progress.unevenness);
            found.extend(uneven.findings(contrasts, &complete, alpha, median, deciding));
            found.extend(progress.edges.findings(&part.blocks, self.plan.variants.len()));
            found.extend(progress.stalls.findings());
            found.extend(progress.open_loops.findings(&self.plan, part));
            part.findings.extend(found);
        }
        conclude::conclude(&self.plan, part, self.stopped());
        context
            .recorder
            .part_done(run, self.index, &run.parts[self.index])
            .map_err(ConductError::Record)
    }

    /// Where the part's stacks and clients run.
    fn layout(&self) -> record::Layout {
        layout(&self.plan, self.setting.near, self.setting.machines)
    }

    fn stopped(&self) -> bool {
        self.setting.stop.load(Ordering::Relaxed)
    }

    fn progress(
        &self,
        calibration: &Calibration,
        able: Vec<usize>,
        deadline: Option<Deadline>,
    ) -> PartProgress {
        let mut plan = with_learned(&self.plan, calibration);
        plan.schedule.warmup = warmup(&self.plan, calibration);
        let mut other_window = plan.schedule.window;
        if let Some(deadline) = deadline {
            let left = deadline.aim.saturating_duration_since(Instant::now());
            (plan.schedule, other_window) = schedule_within(&plan, able.len(), left.into());
        }
        PartProgress {
            offers: settle_offers(&plan, calibration, other_window),
            warmup: plan.schedule.warmup,
            pace: Pace::of(&plan, calibration),
            wanted: plan.schedule.pilot_blocks,
            planned_after_pilot: false,
            number: 0,
            spent: Duration::ZERO,
            edges: Edges::default(),
            unevenness: Unevenness::default(),
            stalls: Stalls::of(&plan, calibration),
            open_loops: OpenLoops::of(calibration),
            all_totals: vec![VariantTotals::default(); plan.variants.len()],
            last_canary: self.canaries.run(),
            plan,
            able,
        }
    }

    /// If the baseline of all contrasts cannot run, compares with the first variant that can.
    fn stand_in_for_baseline(
        &mut self,
        run: &mut Run,
        able: &[usize],
        context: &mut RunContext<'_>,
    ) {
        let Some((missing, contrasts)) = without_baseline(&self.plan.contrasts, able) else {
            return;
        };
        let fact = Fact::Baseline { stand_in: contrasts[0].baseline as u32 };
        let finding = Finding::of_variant(Severity::Warning, missing, fact);
        run.parts[self.index].findings.push(finding.clone());
        let part = Box::new(run.parts[self.index].clone());
        context.watcher.event(&Event::Found { part, finding });
        self.plan.contrasts = contrasts;
    }

    fn record_calibration(
        &mut self,
        run: &mut Run,
        calibration: &Calibration,
        length: Nanos,
        started: base::Timestamp,
        elapsed: Nanos,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        let part = &mut run.parts[self.index];
        for (v, error) in &calibration.skipped {
            part.variants[*v].skipped = Some(error.clone());
            let variant = part.variants[*v].name.clone();
            context.watcher.event(&Event::Skipped { variant, error: error.clone() });
        }
        if settled_after(calibration).is_none() && !self.plan.schedule.quick {
            let fact = Fact::WarmUp { watched: length };
            let (severity, block) = (Severity::Warning, Some(0));
            part.findings.push(Finding { severity, block, variant: None, fact });
        }
        part.layout.links.clone_from(&calibration.links);
        for c in &calibration.variants {
            let body_bytes = c.learned.as_ref().and_then(|learned| learned.length).unwrap_or(0);
            let variant = &self.plan.variants[c.variant];
            let links = &calibration.links;
            if let Some(by) = network::limit(links, variant, c.capacity_per_s, body_bytes) {
                let fact = Fact::NetworkLimited { by };
                part.findings.push(Finding::of_variant(Severity::Warning, c.variant, fact));
            } else if let Some(null) = c.null_capacity_per_s
                && null < NULL_FACTOR_MIN * c.capacity_per_s
            {
                let factor = null / c.capacity_per_s;
                let fact = Fact::NullServer { factor, limit: NULL_FACTOR_MIN };
                part.findings.push(Finding::of_variant(Severity::Warning, c.variant, fact));
            }
        }
        analyse::note_differing_answers(calibration, part);
        let mut found = analyse::redirects(calibration, &self.plan);
        found.extend(analyse::varying(calibration, &self.plan));
        if self.plan.variants.iter().all(|variant| variant.stack.processes.is_empty()) {
            let (severity, fact) = (Severity::Note, Fact::Standing);
            found.push(Finding { severity, block: None, variant: None, fact });
        }
        for finding in found {
            part.findings.push(finding.clone());
            let part = Box::new(part.clone());
            context.watcher.event(&Event::Found { part, finding });
        }
        let mut block = Block {
            elapsed,
            order: calibration.variants.iter().map(|c| c.variant as u32).collect(),
            ..Block::new(0, started, BlockState::Calibration)
        };
        for ended in calibration.variants.iter().flat_map(|c| &c.ended) {
            let trials = ended.trials(&|_, _| true);
            write_life(run, self.index, &mut block, ended, trials, context)?;
        }
        context.recorder.block(run, self.index, &block).map_err(ConductError::Record)?;
        run.parts[self.index].blocks.push(block);
        Ok(())
    }

    fn blocks_of(
        &mut self,
        progress: &mut PartProgress,
        run: &mut Run,
        deadline: Option<Deadline>,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        loop {
            let complete = run.parts[self.index].complete_blocks().count() as u32;
            if complete >= progress.wanted && !progress.planned_after_pilot {
                progress.planned_after_pilot = true;
                let part = &run.parts[self.index];
                let stalls = progress.stalls.so_far();
                progress.wanted =
                    analyse::blocks_wanted(&progress.plan, part, &stalls).max(complete);
            }
            let done = complete >= progress.wanted
                || self.stopped()
                || self.nothing_left(&run.parts[self.index], progress)
                || time_is_up(progress, deadline);
            if done {
                return Ok(());
            }
            let left = progress.wanted - complete;
            let remaining = remaining(progress, left, deadline);
            let number = complete + 1;
            context.watcher.event(&Event::Block { number, of: progress.wanted, remaining });
            let began = Instant::now();
            self.block(progress, run, deadline, context)?;
            progress.spent += began.elapsed();
        }
    }

    /// Runs, checks and records one block.
    fn block(
        &mut self,
        progress: &mut PartProgress,
        run: &mut Run,
        deadline: Option<Deadline>,
        context: &mut RunContext<'_>,
    ) -> Result<(), ConductError> {
        progress.number += 1;
        let number = progress.number;
        let machines = self.setting.machines;
        cool_down(machines, &self.setting.stop);
        machines.sync();
        let plan = BlockPlan {
            stalled_after: progress.stalls.after(),
            part: &progress.plan,
            variants: progress.able.clone(),
            offers: self.windows(progress, deadline),
            warmup: progress.warmup,
            pace: progress.pace,
            seed: self.seed.derive("block", u64::from(number)),
        };
        let (started, clock) = (base::timestamp_now(), Instant::now());
        let before = Snapshots::take(machines);
        let outcome = run_block(&plan, &self.setting, context.watcher);
        let after = Snapshots::take(machines);
        let change = after.since(&before);
        let canary = [progress.last_canary, self.canaries.run()];
        progress.last_canary = canary[1];

        let resolved = self.setting.resolves(progress.pace.closed);
        for ended in &outcome.ended {
            let variant = &progress.plan.variants[ended.life.variant as usize];
            progress.pace.learn(&ended.trial_sums, variant.load.connections);
        }
        let mut inspector = Inspector {
            block: number,
            client_shares: run.parts[self.index].layout.is_shared(),
            findings: Vec::new(),
        };
        let compared = !progress.plan.contrasts.is_empty();
        inspector.inspect(&outcome, &progress.offers, change.as_ref(), compared);
        let mut findings = inspector.findings;
        progress.edges.note(number, &progress.plan, &outcome);
        let kept = |offer| outcome.kept(offer, resolved);
        let kept = KeptRounds { closed: kept(Offer::Closed), open: kept(Offer::Open) };
        progress.stalls.note(&outcome, &kept);
        progress.open_loops.note(number, &outcome);
        for ended in &outcome.ended {
            let v = ended.life.variant as usize;
            progress.all_totals[v].note(ended, &progress.plan.variants[v]);
            progress.unevenness.note(number, ended, resolved);
        }
        if let Some(failure) = &outcome.failure
            && outcome.state() == BlockState::Failed
        {
            progress.able.retain(|v| *v != failure.variant);
        }
        let block = Block {
            elapsed: clock.elapsed().into(),
            order: outcome.order.clone(),
            canary,
            steal: change.map(|change| change.steal),
            ..Block::new(number, started, outcome.state())
        };
        let block = self.write_down(run, block, &outcome, resolved, &mut findings, context)?;
        let part = &mut run.parts[self.index];
        part.blocks.push(block);
        let apart = outcome.ended.iter().filter_map(|ended| ended.apart).max();
        note_clocks(&mut part.layout, machines, apart);
        note_segments(&mut part.layout, machines, &after.segments_since(&before));
        for finding in findings {
            let worth_telling = finding.is_invalid();
            part.findings.push(finding.clone());
            if worth_telling {
                let part = Box::new(Part { blocks: Vec::new(), ..part.clone() });
                context.watcher.event(&Event::Found { part, finding });
            }
        }
        Ok(())
    }

    /// The offers of the next block, with windows for at least two slices each as far as the time
    /// allows that is left for the blocks still wanted.
    fn windows(&self, progress: &PartProgress, deadline: Option<Deadline>) -> Vec<SettledOffer> {
        if progress.plan.schedule.one_slice {
            return progress.offers.clone();
        }
        let blocks = progress.wanted.saturating_sub(progress.number - 1).max(1);
        let left = deadline.map(|d| d.aim.saturating_duration_since(Instant::now()));
        let per_variant =
            left.map(|left| Nanos::from(left / blocks / progress.able.len().max(1) as u32));
        extended(&progress.offers, &progress.pace, progress.warmup, per_variant)
    }

    fn write_down(
        &self,
        run: &Run,
        mut block: Block,
        outcome: &BlockOutcome,
        resolved: bool,
        findings: &mut Vec<Finding>,
        context: &mut RunContext<'_>,
    ) -> Result<Block, ConductError> {
        for (ended, trials) in outcome.ended.iter().zip(outcome.trials(resolved)) {
            write_life(run, self.index, &mut block, ended, trials, context)?;
        }
        for life in &block.lives {
            let gaps = life.ledger.audit();
            findings.extend(gaps.into_iter().filter(|gap| gap.law == ledger::Law::Series).map(
                |gap| Finding {
                    severity: Severity::Invalid,
                    block: Some(block.index),
                    variant: Some(life.variant),
                    fact: Fact::Ledger { gap },
                },
            ));
        }
        context.recorder.block(run, self.index, &block).map_err(ConductError::Record)?;
        Ok(block)
    }

    /// Whether every contrast has lost a side.
    fn nothing_left(&self, part: &Part, progress: &PartProgress) -> bool {
        if self.plan.contrasts.is_empty() {
            let broken: BTreeSet<u32> = part.invalid().filter_map(|f| f.variant).collect();
            return progress.able.iter().all(|v| broken.contains(&(*v as u32)));
        }
        !analyse::sound_contrasts(&self.plan, part).iter().any(|contrast| {
            progress.able.contains(&contrast.baseline) && progress.able.contains(&contrast.variant)
        })
    }
}

/// Records the trials of a variant in a block, and reads back the totals of their series.
pub(crate) fn write_life(
    run: &Run,
    part: usize,
    block: &mut Block,
    ended: &VariantResult,
    trials: Vec<Trial>,
    context: &mut RunContext<'_>,
) -> Result<(), ConductError> {
    let mut life = ended.life.clone();
    let mut series = Some(0);
    for (mut trial, trial_sum) in trials.into_iter().zip(&ended.trial_sums) {
        trial.ledger.series = context
            .recorder
            .trial(run, part, block.index, &trial, &trial_sum.seen)
            .map_err(ConductError::Record)?;
        series = series.zip(trial.ledger.series).map(|(sum, part)| sum + part);
        block.trials.push(trial);
    }
    life.ledger.series = series;
    block.lives.push(life);
    Ok(())
}

/// The deadline for a part's blocks.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// No block starts that would end later than this.
    pub(crate) aim: Instant,
    /// The same for the first six blocks: fewer decide nothing, so a slow machine gets more time.
    pub(crate) latest: Instant,
}

impl Deadline {
    /// How much more time a part may take for its first six blocks, as a share.
    const LONGER: f64 = 0.5;

    /// One of `parts` equal shares of what is left of `time`, which began `elapsed` ago.
    pub(crate) fn share_of(time: Nanos, elapsed: Duration, parts: usize) -> Deadline {
        let (now, time) = (Instant::now(), Duration::from(time));
        let share = |time: Duration| now + time.saturating_sub(elapsed) / parts.max(1) as u32;
        Deadline { aim: share(time), latest: share(time.mul_f64(1.0 + Deadline::LONGER)) }
    }
}

/// Whether another block would end after the deadline.
fn time_is_up(progress: &PartProgress, deadline: Option<Deadline>) -> bool {
    let Some(deadline) = deadline else { return false };
    let until = until(progress, deadline);
    mean_block(progress).is_some_and(|next| Instant::now() + next > until)
}

/// When the next block has to end.
fn until(progress: &PartProgress, deadline: Deadline) -> Instant {
    match (progress.number as usize) < stats::DECIDING_BLOCKS_MIN {
        true => deadline.latest,
        false => deadline.aim,
    }
}

/// How long `left` more blocks take, but no longer than the deadline allows.
fn remaining(progress: &PartProgress, left: u32, deadline: Option<Deadline>) -> Option<Nanos> {
    let until = deadline.map(|deadline| until(progress, deadline));
    let room = until.map(|until| until.saturating_duration_since(Instant::now()));
    Some(within(mean_block(progress)? * left, room))
}

fn within(wanted: Duration, room: Option<Duration>) -> Nanos {
    room.map_or(wanted, |room| wanted.min(room)).into()
}

/// Mean duration of a block; `None` before the first one.
fn mean_block(progress: &PartProgress) -> Option<Duration> {
    (progress.number > 0).then(|| progress.spent / progress.number)
}

/// The median latency of a part's open loops; zero without one.
fn median_latency(part: &Part) -> Nanos {
    let trials = part.complete_blocks().flat_map(|block| &block.trials);
    let open = trials.filter(|trial| trial.offer == Offer::Open);
    let medians: Vec<f64> =
        open.filter_map(|trial| Some(trial.latency.as_ref()?.p50_ns as f64)).collect();
    Nanos(stats::median(&medians).unwrap_or(0.0) as u64)
}

/// If all contrasts have a baseline that cannot run: that baseline, and the contrasts with the
/// first able variant instead.
fn without_baseline(contrasts: &[Contrast], able: &[usize]) -> Option<(usize, Vec<Contrast>)> {
    let missing = contrasts.first()?.baseline;
    if able.contains(&missing) || contrasts.iter().any(|c| c.baseline != missing) {
        return None;
    }
    let mut left: Vec<usize> = contrasts.iter().map(|c| c.variant).collect();
    left.retain(|variant| able.contains(variant));
    let baseline = left.iter().copied().min()?;
    left.retain(|variant| *variant != baseline);
    let contrasts: Vec<Contrast> =
        left.into_iter().map(|variant| Contrast { baseline, variant }).collect();
    (!contrasts.is_empty()).then_some((missing, contrasts))
}

/// The part before anything has run.
pub(crate) fn blank(plan: &spec::Part, layout: record::Layout) -> Part {
    Part {
        name: plan.name.clone(),
        question: plan.question.clone(),
        layout,
        load: analyse::load_of(plan),
        variants: plan.variants.iter().map(analyse::blank_variant).collect(),
        published: plan
            .published
            .iter()
            .map(|p| record::PublishedFigure {
                variant: p.variant.clone(),
                figure: p.figure.clone(),
                throughput_per_s: p.throughput_per_s,
                source: p.source.clone(),
            })
            .collect(),
        changes: plan
            .changes
            .iter()
            .map(|c| record::Change { from: c.from.clone(), what: c.what.clone() })
            .collect(),
        precision: plan.schedule.precision,
        quick: plan.schedule.quick,
        independent_starts: plan.schedule.independent_starts,
        profiled: plan.schedule.why,
        ..Part::default()
    }
}

/// Waits up to a minute until the connection-tracking table has room again.
///
/// Sockets in TIME_WAIT are not waited for. Every block has fresh ports, so they do not interfere,
/// and a server that closes 8,000 connections a second would be waited for most of the time.
pub(crate) fn cool_down(machines: &Machines, stop: &drive::StopFlag) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(61) && !stop.load(Ordering::Relaxed) {
        if !Snapshots::take(machines).is_crowded() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
#[path = "part_tests.rs"]
pub(crate) mod tests;
