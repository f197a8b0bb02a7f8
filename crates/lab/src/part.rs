//! One part of a plan: calibration, pilot, the blocks that the pilot calls for, analysis.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{Nanos, Seed};
use record::{Block, Finding, Part, Run, Severity, Trial};
use spec::{Contrast, Mode, Offer};

use crate::analyse;
use crate::block::{BlockOutcome, BlockPlan, LEAD_IN_SHARE, SettledOffer, run_block};
use crate::calibrate::{Calibrated, Calibration, calibrate};
use crate::edges::Edges;
use crate::layout::Cpus;
use crate::resident::{Ended, Surroundings};
use crate::run::LabError;
use crate::validity::{Inspector, canaries_off, canary_finding};
use crate::watch::{Event, Recorder, Watcher};

/// The largest share of blocks that may be rejected before nothing is believed any more.
const REJECTED_SHARE_MAX: f64 = 0.2;
/// Below this p, rejections fall on some variants more than on others.
const REJECTED_UNEVENLY_P: f64 = 0.01;
/// A variant that the null server beats by less than this is limited by the client.
const NULL_FACTOR_MIN: f64 = 3.0;
/// How many mean service times of the slowest variant a lead-in lasts.
const LEAD_IN_SERVICE_TIMES: f64 = 2.0;

/// How many mean service times of the slowest variant a window lasts at least: two slices with
/// their lead-ins.
const WINDOW_SERVICE_TIMES: f64 = 2.0 * LEAD_IN_SERVICE_TIMES / LEAD_IN_SHARE;

/// The longest that a window is made for the sake of slow requests, and the same in a quick look.
const WINDOW_MAX: Nanos = Nanos::from_secs(30);
const QUICK_WINDOW_MAX: Nanos = Nanos::from_secs(10);

/// A part on its way.
pub(crate) struct PartRunner<'a> {
    pub(crate) plan: spec::Part,
    pub(crate) index: usize,
    pub(crate) around: Surroundings<'a>,
    pub(crate) cpus: Cpus,
    pub(crate) seed: Seed,
    pub(crate) canary: &'a host::Canary,
    pub(crate) recorder: &'a mut dyn Recorder,
    pub(crate) watcher: &'a mut dyn Watcher,
    /// No block begins that would not end within this time after the part began.
    pub(crate) max_time: Option<Nanos>,
    pub(crate) began: Instant,
}

impl PartRunner<'_> {
    /// Runs the part. On return the part is complete, interrupted or given up; `run.parts[index]` holds it.
    pub(crate) fn go(&mut self, run: &mut Run) -> Result<(), LabError> {
        run.parts.push(blank(&self.plan, &self.cpus));
        let record = |sentence| LabError::Record(sentence);
        self.recorder.part(run, self.index, &run.parts[self.index]).map_err(record)?;

        let (started, clock) = (base::timestamp_now(), Instant::now());
        let calibration = calibrate(&self.plan, &self.around, self.seed, self.watcher);
        self.record_calibration(run, &calibration, (started, clock.elapsed().into()))?;
        let able: Vec<usize> = calibration.variants.iter().map(|c| c.variant).collect();
        self.stand_in_for_baseline(run, &able);
        if !self.stopped() && !able.is_empty() {
            self.blocks(run, &calibration, &able)?;
        }
        let part = &mut run.parts[self.index];
        analyse::conclude(&self.plan, part, self.stopped());
        self.recorder.part_done(run, self.index, &run.parts[self.index]).map_err(record)
    }

    fn stopped(&self) -> bool {
        self.around.stop.load(Ordering::Relaxed)
    }

    /// Compares with the first variant that can run where the baseline of all contrasts cannot.
    fn stand_in_for_baseline(&mut self, run: &mut Run, able: &[usize]) {
        let Some((missing, contrasts)) = without_baseline(&self.plan.contrasts, able) else {
            return;
        };
        let part = &mut run.parts[self.index];
        let sentence = format!(
            "the baseline {} could not start, so the others are compared with {}",
            part.variants[missing].name, part.variants[contrasts[0].baseline].name
        );
        self.watcher.event(&Event::Note(sentence.clone()));
        part.findings.push(Finding {
            check: "baseline".to_owned(),
            severity: Severity::Warning,
            block: None,
            variant: Some(missing as u32),
            value: 0.0,
            limit: 0.0,
            sentence,
        });
        self.plan.contrasts = contrasts;
    }

    fn record_calibration(
        &mut self,
        run: &mut Run,
        calibration: &Calibration,
        (started, elapsed): (base::Timestamp, Nanos),
    ) -> Result<(), LabError> {
        let part = &mut run.parts[self.index];
        for (v, reason) in &calibration.skipped {
            part.variants[*v].skipped = Some(reason.clone());
            let note = format!("{} is left out: {reason}", part.variants[*v].name);
            self.watcher.event(&Event::Note(note));
        }
        let ended = calibration.variants.iter().map(|c| &c.ended);
        let mut block = Block {
            index: 0,
            started,
            elapsed,
            order: calibration.variants.iter().map(|c| c.variant as u32).collect(),
            rejected: vec!["calibration, never analysed".to_owned()],
            canary: [Nanos::ZERO; 2],
            steal: 0.0,
            trials: Vec::new(),
            lives: ended.clone().map(|e| e.life.clone()).collect(),
        };
        let settled = self.warmup(calibration);
        if settled.is_none() && !self.plan.schedule.quick {
            part.findings.push(Finding {
                check: "warm_up".to_owned(),
                severity: Severity::Warning,
                block: Some(0),
                variant: None,
                value: 0.0,
                limit: 0.0,
                sentence: "no steady state was reached within the calibration's four seconds; the warm-up may be too short".to_owned(),
            });
        }
        for c in &calibration.variants {
            if let Some(null) = c.null_capacity_per_s
                && null < NULL_FACTOR_MIN * c.capacity_per_s
            {
                part.findings.push(Finding {
                    check: "client_limited".to_owned(),
                    severity: Severity::Warning,
                    block: Some(0),
                    variant: Some(c.variant as u32),
                    value: null / c.capacity_per_s,
                    limit: NULL_FACTOR_MIN,
                    sentence: format!(
                        "{} is client-limited: a server that does nothing is only {:.1} times as fast here, so the client's own cost is part of the figure",
                        part.variants[c.variant].name,
                        null / c.capacity_per_s
                    ),
                });
            }
        }
        analyse::note_differing_answers(calibration, part);
        for (life, ended) in block.lives.iter_mut().zip(ended) {
            life.ledger.series = self.write_trials(run, 0, ended, &mut block.trials)?;
        }
        self.recorder.block(run, self.index, &block).map_err(LabError::Record)?;
        run.parts[self.index].blocks.push(block);
        Ok(())
    }

    /// 1.5 times the slowest variant's last change of level, but no less than the schedule's; `None` if a variant never settled.
    fn warmup(&self, calibration: &Calibration) -> Option<Nanos> {
        let settled: Option<Vec<Nanos>> =
            calibration.variants.iter().map(|c| c.settled_after).collect();
        let slowest = settled?.into_iter().max().unwrap_or(Nanos::ZERO);
        Some(Nanos(slowest.0 * 3 / 2).max(self.plan.schedule.warmup))
    }

    fn settle_offers(&self, calibration: &Calibration) -> Vec<SettledOffer> {
        let slowest =
            calibration.variants.iter().map(|c| c.capacity_per_s).fold(f64::INFINITY, f64::min);
        self.plan
            .offers
            .iter()
            .filter_map(|offer| {
                let (name, mode) = match *offer {
                    Offer::Closed => ("closed", Mode::Closed),
                    Offer::OpenRate { rate_per_s, arrivals } => {
                        ("open", Mode::Open { rate_per_s, arrivals })
                    }
                    Offer::OpenShare { share, arrivals } => {
                        let rate_per_s = share * slowest;
                        ("open", Mode::Open { rate_per_s, arrivals })
                    }
                };
                let sound = match mode {
                    Mode::Open { rate_per_s, .. } => rate_per_s.is_finite() && rate_per_s >= 1.0,
                    Mode::Closed => true,
                };
                sound.then_some(SettledOffer { name, mode })
            })
            .collect()
    }

    fn blocks(
        &mut self,
        run: &mut Run,
        calibration: &Calibration,
        able: &[usize],
    ) -> Result<(), LabError> {
        let plan = with_learned(&self.plan, calibration);
        let settling = calibration.variants.iter().map(|c| c.long_service_time).max();
        let settling = settling.unwrap_or(Nanos::ZERO).min(Nanos(plan.schedule.slice.0 / 2));
        let schedule = &plan.schedule;
        let offers = self.settle_offers(calibration);
        let warmup = self.warmup(calibration).unwrap_or(schedule.warmup).min(schedule.warmup * 3);
        let began = Instant::now();
        let mut wanted = schedule.pilot_blocks;
        let mut planned_after_pilot = false;
        let mut accepted = 0u32;
        let mut number = 0u32;
        let mut canaries: Vec<[Nanos; 2]> = Vec::new();
        let mut edges = Edges::default();
        let mut last_canary = self.canary.run();
        while accepted < wanted && !self.stopped() {
            number += 1;
            let remaining = remaining(&began, number - 1, wanted.saturating_sub(accepted));
            self.watcher.event(&Event::Block { number: accepted + 1, of: wanted, remaining });
            cool_down(&self.around.stop);
            let block_plan = BlockPlan {
                part: &plan,
                variants: able.to_vec(),
                offers: offers.clone(),
                warmup,
                settling,
                seed: self.seed.derive("block", u64::from(number)),
            };
            let started = base::timestamp_now();
            let clock = Instant::now();
            let before = host::Snapshot::take().ok();
            let outcome = run_block(&block_plan, &self.around, self.watcher);
            let change = before.zip(host::Snapshot::take().ok()).map(|(a, b)| b.since(&a));
            let canary = [last_canary, self.canary.run()];
            last_canary = canary[1];
            canaries.push(canary);

            let mut inspector = Inspector {
                part: &plan,
                block: number,
                client_shares: self.cpus.are_shared(),
                findings: Vec::new(),
            };
            inspector.inspect(&outcome, &offers, change.as_ref());
            let mut findings = inspector.findings;
            edges.note(number, &plan, &outcome);
            let block = self.write_down(
                run,
                number,
                (started, clock.elapsed().into()),
                canary,
                change.map_or(0.0, |c| c.steal),
                outcome,
                &mut findings,
            )?;
            run.parts[self.index].findings.append(&mut findings);
            run.parts[self.index].blocks.push(block);
            self.look_at_canaries(run, &canaries)?;

            let part = &run.parts[self.index];
            let block = &part.blocks[part.blocks.len() - 1];
            if !block.accepted() {
                let reasons = block.rejected.clone();
                self.watcher.event(&Event::Rejected { number, reasons });
            }
            accepted = part.blocks.iter().filter(|b| b.accepted()).count() as u32;
            let rejected = number - accepted;
            if self.nothing_left_to_compare(part, able) && number >= 2 {
                break;
            }
            // A machine that spoils block after block will not become quiet by waiting.
            if rejected > 3 && f64::from(rejected) > f64::from(wanted) {
                break;
            }
            if !planned_after_pilot && accepted >= wanted {
                planned_after_pilot = true;
                wanted = analyse::blocks_wanted(&plan, part).max(accepted);
            }
            // Two blocks are the least that has a spread; a noisy machine gets half the time again to find them.
            if self.time_is_up(&began, number, 1.0) && accepted >= 2
                || self.time_is_up(&began, number, 1.5)
            {
                break;
            }
        }
        self.judge_rejections(run, number);
        let part = &mut run.parts[self.index];
        let names: Vec<&str> = self.plan.variants.iter().map(|v| v.name.as_str()).collect();
        part.findings.extend(edges.findings(&part.blocks, &names));
        Ok(())
    }

    /// Whether another block would end after the time that the part has, stretched by `factor`.
    fn time_is_up(&self, blocks_began: &Instant, blocks: u32, factor: f64) -> bool {
        let Some(max_time) = self.max_time.or(self.plan.schedule.max_time) else { return false };
        let mean = blocks_began.elapsed().as_secs_f64() / f64::from(blocks.max(1));
        self.began.elapsed().as_secs_f64() + mean > factor * max_time.as_secs_f64()
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of a block, handed on once")]
    fn write_down(
        &mut self,
        run: &Run,
        number: u32,
        (started, elapsed): (base::Timestamp, Nanos),
        canary: [Nanos; 2],
        steal: f64,
        outcome: BlockOutcome,
        findings: &mut Vec<Finding>,
    ) -> Result<Block, LabError> {
        let mut rejected: Vec<String> = findings
            .iter()
            .filter(|f| f.severity == Severity::Rejected)
            .map(|f| f.sentence.clone())
            .collect();
        if outcome.interrupted {
            rejected.push("stopped in the middle".to_owned());
        }
        let mut trials = Vec::new();
        let mut lives = Vec::new();
        for mut ended in outcome.ended {
            ended.life.ledger.series = self.write_trials(run, number, &ended, &mut trials)?;
            let tolerance = ledger::Tolerance { failed_share: 1.0 };
            for gap in ended.life.ledger.audit(tolerance).iter().filter(|g| g.check == "series") {
                findings.push(Finding {
                    check: "ledger".to_owned(),
                    severity: Severity::Invalid,
                    block: Some(number),
                    variant: Some(ended.life.variant),
                    value: gap.difference as f64,
                    limit: 0.0,
                    sentence: gap.sentence.clone(),
                });
            }
            lives.push(ended.life);
        }
        let block = Block {
            index: number,
            started,
            elapsed,
            order: outcome.order,
            rejected,
            canary,
            steal,
            trials,
            lives,
        };
        self.recorder.block(run, self.index, &block).map_err(LabError::Record)?;
        Ok(block)
    }

    /// Writes down the trials of a variant's life in a block, and reads back what their series add up to.
    fn write_trials(
        &mut self,
        run: &Run,
        number: u32,
        ended: &Ended,
        trials: &mut Vec<Trial>,
    ) -> Result<Option<u64>, LabError> {
        let mut series = Some(0);
        for (trial, tally) in ended.trials.iter().zip(&ended.tallies) {
            let mut trial = trial.clone();
            trial.ledger.series = self
                .recorder
                .trial(run, self.index, number, &trial, &tally.seen)
                .map_err(LabError::Record)?;
            series = series.zip(trial.ledger.series).map(|(sum, part)| sum + part);
            trials.push(trial);
        }
        Ok(series)
    }

    /// Looks at all canaries again, because what is usual is known better with every block.
    fn look_at_canaries(&mut self, run: &mut Run, canaries: &[[Nanos; 2]]) -> Result<(), LabError> {
        for (i, off) in canaries_off(canaries) {
            let number = i as u32 + 1;
            let part = &mut run.parts[self.index];
            let known =
                part.findings.iter().any(|f| f.check == "canary" && f.block == Some(number));
            if known {
                continue;
            }
            let finding = canary_finding(number, off);
            if let Some(block) = part.blocks.iter_mut().find(|b| b.index == number) {
                block.rejected.push(finding.sentence.clone());
            }
            part.findings.push(finding);
            if let Some(block) = run.parts[self.index].blocks.iter().find(|b| b.index == number) {
                self.recorder.block(run, self.index, block).map_err(LabError::Record)?;
            }
        }
        Ok(())
    }

    /// Whether every contrast has lost a side to an invalid ledger.
    fn nothing_left_to_compare(&self, part: &Part, able: &[usize]) -> bool {
        let broken: BTreeSet<u32> = part
            .findings
            .iter()
            .filter(|f| f.severity == Severity::Invalid)
            .filter_map(|f| f.variant)
            .collect();
        let sound = |v: usize| able.contains(&v) && !broken.contains(&(v as u32));
        if self.plan.contrasts.is_empty() {
            return !able.iter().any(|v| sound(*v));
        }
        !self.plan.contrasts.iter().any(|c| sound(c.baseline) && sound(c.variant))
    }

    fn judge_rejections(&mut self, run: &mut Run, blocks: u32) {
        let part = &mut run.parts[self.index];
        part.reasons.extend(too_many_rejected(part));
        let by_variant = |v: u32| {
            let blocks: BTreeSet<u32> = part
                .findings
                .iter()
                .filter(|f| f.severity == Severity::Rejected && f.variant == Some(v))
                .filter_map(|f| f.block)
                .collect();
            blocks.len() as u64
        };
        let n = u64::from(blocks);
        for contrast in analyse::sound_contrasts(&self.plan, part) {
            let a = by_variant(contrast.baseline as u32);
            let b = by_variant(contrast.variant as u32);
            if a + b > 0 && stats::fisher_exact(a, n - a, b, n - b) < REJECTED_UNEVENLY_P {
                let name = |v: usize| &self.plan.variants[v].name;
                part.reasons.push(format!(
                    "{} caused {a} rejections and {} caused {b}: rejecting blocks would favour one of them",
                    name(contrast.baseline),
                    name(contrast.variant)
                ));
                break;
            }
        }
    }
}

/// Contrasts with the first able variant, where all of them have a baseline that is not able:
/// that baseline, and the contrasts.
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

/// Why nothing of the part is believed, if the machine spoilt too many of its blocks. Blocks in
/// which a variant broke its own ledger are not the machine's: what broke is a reason by itself.
fn too_many_rejected(part: &Part) -> Option<String> {
    let stopped = |b: &Block| b.rejected == ["stopped in the middle"];
    let broken = |b: &Block| analyse::broken_in(part, b.index).next().is_some();
    let done: Vec<&Block> = part.blocks.iter().filter(|b| b.index > 0 && !stopped(b)).collect();
    let rejected = done.iter().filter(|b| !b.accepted() && !broken(b)).count();
    // One rejected block of a few is bad luck; it takes two to make a pattern.
    (rejected >= 2 && rejected as f64 > REJECTED_SHARE_MAX * done.len() as f64).then(|| {
        format!(
            "{rejected} of {} blocks were rejected; the machine was not quiet enough to believe the others",
            done.len()
        )
    })
}

/// The part as it stands before anything has run.
fn blank(plan: &spec::Part, cpus: &Cpus) -> Part {
    let load = &plan.variants[0].load;
    Part {
        name: plan.name.clone(),
        question: plan.question.clone(),
        layout: cpus.words(),
        load: analyse::load_words(load),
        variants: plan.variants.iter().map(analyse::blank_variant).collect(),
        blocks: Vec::new(),
        comparisons: Vec::new(),
        findings: Vec::new(),
        published: plan
            .published
            .iter()
            .map(|p| record::Published {
                variant: p.variant.clone(),
                figure: p.figure.clone(),
                throughput_per_s: p.throughput_per_s,
                source: p.source.clone(),
            })
            .collect(),
        reasons: Vec::new(),
        precision: plan.schedule.precision,
        quick: plan.schedule.quick,
        bulk: matches!(load.exchange, spec::Exchange::Bulk { .. }),
    }
}

/// The plan with each variant bound to the answer that calibration saw, so that a
/// stack which later starts with another answer is caught.
fn with_learned(plan: &spec::Part, calibration: &Calibration) -> spec::Part {
    let mut plan = plan.clone();
    plan.schedule.window = settled_window(&plan, calibration);
    plan.schedule.slice = settled_slice(&plan, calibration);
    for calibrated in &calibration.variants {
        let Some(learned) = &calibrated.learned else { continue };
        let expect = &mut plan.variants[calibrated.variant].load.expect;
        expect.status = expect.status.or(learned.status);
        expect.length = expect.length.or(learned.length);
        if expect.body.is_none() {
            expect.body.clone_from(&learned.body);
        }
    }
    plan
}

/// The mean service time of a calibrated variant in seconds, by Little's law.
fn mean_service_time_s(plan: &spec::Part, calibrated: &Calibrated) -> f64 {
    let connections = f64::from(plan.variants[calibrated.variant].load.connections);
    connections / calibrated.capacity_per_s.max(1e-9)
}

/// The schedule's window, or longer where requests take so long that it would hold a handful.
fn settled_window(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    let means = calibration.variants.iter().map(|c| mean_service_time_s(plan, c));
    let needed_s = WINDOW_SERVICE_TIMES * means.fold(0.0, f64::max);
    let longest = if plan.schedule.quick { QUICK_WINDOW_MAX } else { WINDOW_MAX };
    plan.schedule.window.max(Nanos::from_secs_f64(needed_s).min(longest))
}

/// The schedule's slice, or longer where requests are slow: the lead-in of a slice has to
/// outlast the requests with which it begins, or the slice would count the slow start
/// of a loop that is not closed yet. Long ones count too, where they take a good part of the
/// connections' time: a loop that is younger than they are holds too few of them.
/// No longer than half a window, so that each variant has two.
fn settled_slice(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    let lead_in_s = |c: &Calibrated| {
        let mean_s = mean_service_time_s(plan, c);
        (LEAD_IN_SERVICE_TIMES * mean_s).max(c.long_service_time.as_secs_f64())
    };
    let longest_s = calibration.variants.iter().map(lead_in_s).fold(0.0, f64::max);
    let needed = Nanos::from_secs_f64((longest_s / LEAD_IN_SHARE).min(3600.0));
    let schedule = &plan.schedule;
    schedule.slice.max(needed.min(Nanos(schedule.window.0 / 2)))
}

fn remaining(began: &Instant, done: u32, left: u32) -> Option<Nanos> {
    (done > 0).then(|| {
        Nanos::from_secs_f64(began.elapsed().as_secs_f64() / f64::from(done) * f64::from(left))
    })
}

/// Waits until the connection-tracking table has room again, for a minute at the most.
///
/// Sockets in TIME_WAIT are not waited for. Every block has fresh ports, so
/// they are in nobody's way, and a server that closes 8,000 connections a
/// second would be waited for most of the time.
fn cool_down(stop: &drive::StopFlag) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(61) && !stop.load(Ordering::Relaxed) {
        match host::Snapshot::take() {
            Ok(now) if now.is_crowded() => std::thread::sleep(Duration::from_millis(100)),
            _ => return,
        }
    }
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
