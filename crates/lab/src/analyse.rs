//! From blocks to summaries and verdicts.

use std::collections::BTreeSet;

use base::Nanos;
use ledger::Ledger;
use record::{Block, Comparison, Finding, Part, Severity, Summary, Trial};
use spec::{EngineChoice, Exchange, Load, Metric, Offer};
use stats::{Aim, Estimate, Evidence, Measure, Wording};

use crate::calibrate::Calibration;
use crate::resident::WARM_UP;
use crate::validity::{ACHIEVED_MIN, CLIENT_BUSY_MAX};

/// Requests that a trial needs for its 99th percentile to be worth reading: 100 ÷ (1 − 0.99).
const P99_REQUESTS_MIN: u64 = 10_000;

/// A variant whose level changes within more than this share of blocks is not steady.
const NOT_STEADY_SHARE: f64 = 0.25;

/// The load in words, as far as all offers of a part share it: `64 connections, kept alive`.
pub(crate) fn load_words(load: &Load) -> String {
    let plural = |n: u32, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let mut words = plural(load.connections, "connection");
    match &load.exchange {
        Exchange::Http(_) if load.new_connection => words += ", a new one for each request",
        Exchange::Http(_) => words += ", kept alive",
        Exchange::Oneshot => words += ", a new one for each message",
        Exchange::Echo { size } => words += &format!(", ping-pong of {size}"),
        Exchange::Bulk { chunk } => words += &format!(", streaming, counted in units of {chunk}"),
    }
    if load.threads > 1 {
        words += &format!(", {}", plural(load.threads, "client thread"));
    }
    if load.engine == EngineChoice::IoUring {
        words += ", io_uring";
    }
    if load.busy_poll {
        words += ", busy polling";
    }
    if load.linger_zero {
        words += ", closed by reset";
    }
    words
}

/// A variant before anything has run.
pub(crate) fn blank_variant(variant: &spec::Variant) -> record::Variant {
    record::Variant {
        name: variant.name.clone(),
        commands: variant.stack.processes.iter().map(|p| p.command.clone()).collect(),
        target: variant.target.clone(),
        served_by: variant.served_by.as_ref().map(served_words),
        skipped: None,
        ledger: Ledger::default(),
        summaries: Vec::new(),
    }
}

fn served_words(by: &spec::ServedBy) -> String {
    use spec::ServedBy;
    match by {
        ServedBy::Wsgi => "the WSGI counter in the app".to_owned(),
        ServedBy::StubStatus(target) => format!("nginx's stub_status at {target}"),
        ServedBy::Http { target, pattern, .. } => format!("{target}, matched by {pattern}"),
        ServedBy::LogLines { path, .. } => format!("the lines of {path}"),
        ServedBy::FileSize(path) => format!("the size of {path}"),
        ServedBy::CounterFile(path) => format!("the count in {path}"),
    }
}

/// Notes it when variants answer with different bodies: then they do not do the same work.
pub(crate) fn note_differing_answers(calibration: &Calibration, part: &mut Part) {
    let lengths: Vec<(usize, u64)> = calibration
        .variants
        .iter()
        .filter_map(|c| Some((c.variant, c.learned.as_ref()?.length?)))
        .collect();
    let Some(&(first, length)) = lengths.first() else { return };
    for &(other, other_length) in lengths.iter().filter(|(_, l)| *l != length) {
        part.findings.push(Finding {
            check: "answers".to_owned(),
            severity: Severity::Note,
            block: None,
            variant: Some(other as u32),
            value: other_length as f64,
            limit: length as f64,
            sentence: format!(
                "{} answers with {other_length} bytes and {} with {length}: they do not do the same work",
                part.variants[other].name, part.variants[first].name
            ),
        });
    }
}

/// How many blocks the pilot calls for.
pub(crate) fn blocks_wanted(plan: &spec::Part, part: &Part) -> u32 {
    let offer = primary_offer(plan);
    let aim = aim(plan, true);
    let cap = plan.schedule.max_blocks.max(plan.schedule.pilot_blocks);
    let all: Vec<Vec<f64>> = sound_contrasts(plan, part)
        .iter()
        .filter_map(|c| log_ratios(part, c, plan.primary, offer).ok())
        .filter(|d| d.len() >= 2)
        .collect();
    if all.is_empty() {
        return plan.schedule.pilot_blocks;
    }
    let pilots: Vec<&[f64]> = all.iter().map(Vec::as_slice).collect();
    stats::Stein::plan_all(&pilots, &aim, cap).blocks
}

fn aim(plan: &spec::Part, primary: bool) -> Aim {
    Aim {
        precision: plan.schedule.precision,
        confidence: plan.schedule.confidence,
        adjusted_for: if primary { plan.contrasts.len().max(1) as u32 } else { 1 },
    }
}

/// Contrasts both of whose sides ran with a sound ledger.
pub(crate) fn sound_contrasts<'p>(plan: &'p spec::Part, part: &Part) -> Vec<&'p spec::Contrast> {
    let broken = broken_variants(part);
    let sound = |v: usize| part.variants[v].skipped.is_none() && !broken.contains(&(v as u32));
    plan.contrasts.iter().filter(|c| sound(c.baseline) && sound(c.variant)).collect()
}

fn broken_variants(part: &Part) -> BTreeSet<u32> {
    part.findings
        .iter()
        .filter(|f| f.severity == Severity::Invalid)
        .filter_map(|f| f.variant)
        .collect()
}

/// The variants that broke their ledgers in a block.
pub(crate) fn broken_in(part: &Part, block: u32) -> impl Iterator<Item = u32> {
    let invalid = part.findings.iter().filter(|f| f.severity == Severity::Invalid);
    invalid.filter(move |f| f.block == Some(block)).filter_map(|f| f.variant)
}

fn accepted(part: &Part) -> impl Iterator<Item = &Block> {
    part.blocks.iter().filter(|block| block.index > 0 && block.accepted())
}

fn trial_of<'b>(block: &'b Block, variant: usize, offer: &str) -> Option<&'b Trial> {
    block.trials.iter().find(|t| t.variant as usize == variant && t.offer == offer)
}

/// The offer that a metric is taken from: latency from the open loop where there is one, all else from the closed one.
fn offer_of(plan: &spec::Part, metric: Metric) -> &'static str {
    let has_open = plan.offers.iter().any(|o| *o != Offer::Closed);
    let has_closed = plan.offers.contains(&Offer::Closed);
    match metric {
        Metric::P50 | Metric::P99 if has_open => "open",
        _ if has_closed => "closed",
        _ => "open",
    }
}

fn primary_offer(plan: &spec::Part) -> &'static str {
    offer_of(plan, plan.primary)
}

/// One number per trial, in the unit of the metric.
fn value(trial: &Trial, metric: Metric) -> Option<f64> {
    let times = trial.latency.as_ref().unwrap_or(&trial.service_time);
    match metric {
        Metric::Throughput => Some(trial.throughput_per_s()),
        Metric::P50 => Some(times.p50_ns as f64),
        Metric::P99 => Some(times.p99_ns as f64),
        Metric::Cpu => per_request(trial.stack_cpu, trial),
        Metric::Memory => trial.peak_memory_bytes.map(|bytes| bytes as f64),
    }
}

fn per_request(cost: Option<Nanos>, trial: &Trial) -> Option<f64> {
    let requests = trial.ledger.served.unwrap_or(trial.ledger.counts.completed);
    (requests > 0).then_some(cost?.0 as f64 / requests as f64)
}

fn log_ratios(
    part: &Part,
    contrast: &spec::Contrast,
    metric: Metric,
    offer: &str,
) -> Result<Vec<f64>, String> {
    let pairs: Vec<(f64, f64)> = accepted(part)
        .filter_map(|block| {
            let a = value(trial_of(block, contrast.baseline, offer)?, metric)?;
            let b = value(trial_of(block, contrast.variant, offer)?, metric)?;
            Some((a, b))
        })
        .collect();
    stats::log_ratios(&pairs).map_err(|error| error.to_string())
}

/// Completes a part after its last block: ledgers, summaries, comparisons, findings about the whole.
pub(crate) fn conclude(plan: &spec::Part, part: &mut Part, interrupted: bool) {
    add_up_ledgers(part);
    summarise(plan, part);
    findings_of_the_whole(plan, part);
    let mut said: BTreeSet<(Option<u32>, String)> = BTreeSet::new();
    if part.variants.iter().any(|v| v.skipped.is_none()) && accepted(part).next().is_none() {
        let broken = part.findings.iter().find(|f| f.severity == Severity::Invalid);
        let why = part.blocks.iter().rev().find_map(|b| b.rejected.first().cloned());
        let reason = match broken {
            Some(finding) => format!("no block could be used: {}", finding.sentence),
            None => {
                format!("no block could be used; the last reason was: {}", why.unwrap_or_default())
            }
        };
        if !interrupted {
            said.extend(broken.map(|f| (f.variant, f.check.clone())));
            // What broke comes before what else there was.
            let place = if broken.is_some() { 0 } else { part.reasons.len() };
            part.reasons.insert(place, reason);
        }
    }
    let all_broken = broken_variants(part);
    for finding in part.findings.iter().filter(|f| f.severity == Severity::Invalid) {
        // The first sentence of each check for each variant says enough; the findings hold the rest.
        if said.insert((finding.variant, finding.check.clone()))
            && !part.reasons.contains(&finding.sentence)
        {
            part.reasons.push(finding.sentence.clone());
        }
    }
    part.comparisons = compare(plan, part, interrupted, &all_broken);
}

fn add_up_ledgers(part: &mut Part) {
    for v in 0..part.variants.len() {
        let mut sum: Option<Ledger> = None;
        // Broken blocks belong to the ledger of the run; only what was stopped in the middle does not.
        for block in part.blocks.iter().filter(|b| b.index > 0) {
            for life in block.lives.iter().filter(|life| life.variant as usize == v) {
                match &mut sum {
                    None => sum = Some(life.ledger.clone()),
                    Some(sum) => sum.extend(&life.ledger),
                }
            }
        }
        part.variants[v].ledger = sum.unwrap_or_default();
        if part.variants[v].served_by.is_none() && part.variants[v].ledger.served.is_some() {
            part.variants[v].served_by = Some("the WSGI counter in the app".to_owned());
        }
    }
}

fn summarise(plan: &spec::Part, part: &mut Part) {
    let confidence = plan.schedule.confidence;
    for v in 0..part.variants.len() {
        let mut summaries = Vec::new();
        for offer in ["closed", "open"] {
            let of_blocks = |usable: &dyn Fn(&&Block) -> bool| -> Vec<&Trial> {
                let blocks = part.blocks.iter().filter(|block| block.index > 0);
                blocks.filter(usable).filter_map(|block| trial_of(block, v, offer)).collect()
            };
            let mut trials = of_blocks(&|block| block.accepted());
            if trials.is_empty() {
                trials = of_blocks(&|block| spoilt_by_others(part, block, v as u32));
            }
            if trials.is_empty() {
                continue;
            }
            summaries.push(summary(offer, &trials, confidence));
        }
        part.variants[v].summaries = summaries;
    }
}

/// Whether a block was rejected for what another variant broke, and for nothing that touches this
/// one: its own trials are as good as those of any block.
fn spoilt_by_others(part: &Part, block: &Block, v: u32) -> bool {
    let broken: Vec<u32> = broken_in(part, block.index).collect();
    let of_block = part.findings.iter().filter(|f| f.block == Some(block.index));
    let mut rejections = of_block.filter(|f| f.severity == Severity::Rejected);
    // The kernel's counters are the whole machine's, and connections that fail move them.
    !broken.is_empty()
        && !broken.contains(&v)
        && rejections.all(|f| f.check == "tcp" || f.variant.is_some_and(|w| broken.contains(&w)))
        && !block.rejected.iter().any(|reason| reason == "stopped in the middle")
}

fn summary(offer: &str, trials: &[&Trial], confidence: f64) -> Summary {
    let level = |of: &dyn Fn(&Trial) -> Option<f64>| -> Option<Estimate> {
        let values: Option<Vec<f64>> = trials.iter().map(|trial| of(trial)).collect();
        stats::level(&values?, confidence).ok()
    };
    let unknown = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    let times = |t: &Trial| t.latency.clone().unwrap_or_else(|| t.service_time.clone());
    let seconds: f64 = trials.iter().map(|t| t.window.as_secs_f64()).sum();
    let bytes: u64 = trials.iter().map(|t| t.payload_bytes).sum();
    Summary {
        offer: offer.to_owned(),
        offered_per_s: trials[0].offered_per_s,
        throughput_per_s: level(&|t| Some(t.throughput_per_s())).unwrap_or(unknown),
        bytes_per_s: bytes as f64 / seconds.max(1e-9),
        p50_ns: level(&|t| Some(times(t).p50_ns as f64)).unwrap_or(unknown),
        p90_ns: level(&|t| Some(times(t).p90_ns as f64)).unwrap_or(unknown),
        p99_ns: level(&|t| Some(times(t).p99_ns as f64)).unwrap_or(unknown),
        cpu_ns_per_request: level(&|t| per_request(t.stack_cpu, t)),
        machine_ns_per_request: level(&|t| per_request(t.machine_busy, t)),
        peak_memory_bytes: trials.iter().filter_map(|t| t.peak_memory_bytes).max(),
    }
}

/// What can only be told from all blocks together.
fn findings_of_the_whole(plan: &spec::Part, part: &mut Part) {
    let mut found = Vec::new();
    for (v, variant) in part.variants.iter().enumerate() {
        let closed: Vec<&Trial> =
            accepted(part).filter_map(|block| trial_of(block, v, "closed")).collect();
        let busy = closed.iter().map(|t| t.client_busy).fold(0.0, f64::max);
        let known = part
            .findings
            .iter()
            .any(|f| f.check == "client_limited" && f.variant == Some(v as u32));
        // A client that spins is busy all the time, whatever it waits for.
        if busy > CLIENT_BUSY_MAX && !known && !plan.variants[v].load.busy_poll {
            let sentence = format!(
                "{} is client-limited: a client thread was busy {:.0}% of the time; try --threads {}",
                variant.name,
                100.0 * busy,
                plan.variants[v].load.threads + 1
            );
            found.push(warning("client_limited", v, (busy, CLIENT_BUSY_MAX), sentence));
        }
        let open: Vec<&Trial> =
            accepted(part).filter_map(|block| trial_of(block, v, "open")).collect();
        if let Some(achieved) = achieved(&open)
            && achieved < ACHIEVED_MIN
        {
            let sentence = format!(
                "{} did not sustain the open loop: only {:.1}% of the offered requests completed in time, so its latency is not compared",
                variant.name,
                100.0 * achieved
            );
            found.push(warning("unsustained", v, (achieved, ACHIEVED_MIN), sentence));
        }
        let drifting = part
            .findings
            .iter()
            .filter(|f| f.check == "drift" && f.variant == Some(v as u32))
            .count();
        let blocks = part.blocks.iter().filter(|b| b.index > 0).count();
        if drifting >= 2 && drifting as f64 > NOT_STEADY_SHARE * blocks as f64 {
            let sentence = format!(
                "{} is not steady: its throughput changed by more than 5% within {drifting} of {blocks} blocks",
                variant.name
            );
            let share = drifting as f64 / blocks as f64;
            found.push(warning("not_steady", v, (share, NOT_STEADY_SHARE), sentence));
        }
        if variant.skipped.is_none() && variant.ledger.served.is_none() && !closed.is_empty() {
            found.push(Finding {
                severity: Severity::Note,
                ..warning(
                    "served",
                    v,
                    (0.0, 0.0),
                    format!(
                        "nobody counts at the server of {}; --served-by or our WSGI counter would close the ledger",
                        variant.name
                    ),
                )
            });
        }
    }
    found.extend(few_requests(part));
    part.findings.extend(found);
}

/// A note about trials too short for the 99th percentile that the report shows of them.
fn few_requests(part: &Part) -> Option<Finding> {
    let least = |v: usize| {
        let trials = accepted(part).flat_map(|block| &block.trials);
        let of_variant = trials.filter(|t| t.variant as usize == v && t.offer != WARM_UP);
        of_variant.map(|t| t.completed_in_window).min()
    };
    let (fewest, v) = (0..part.variants.len()).filter_map(|v| Some((least(v)?, v))).min()?;
    let sentence = format!(
        "a trial of {} has as few as {fewest} requests, so its p99 rests on few; 10,000 a trial make it dependable",
        part.variants[v].name
    );
    let numbers = (fewest as f64, P99_REQUESTS_MIN as f64);
    let finding = warning("few_requests", v, numbers, sentence);
    (fewest < P99_REQUESTS_MIN).then_some(Finding { severity: Severity::Note, ..finding })
}

fn warning(check: &str, v: usize, (value, limit): (f64, f64), sentence: String) -> Finding {
    Finding {
        check: check.to_owned(),
        severity: Severity::Warning,
        block: None,
        variant: Some(v as u32),
        value,
        limit,
        sentence,
    }
}

/// The share of an open loop's offered requests that completed.
fn achieved(open: &[&Trial]) -> Option<f64> {
    let offered: u64 = open.iter().map(|t| t.ledger.counts.offered).sum();
    let completed: u64 = open.iter().map(|t| t.ledger.counts.completed).sum();
    (offered > 0).then(|| completed as f64 / offered as f64)
}

fn compare(
    plan: &spec::Part,
    part: &Part,
    interrupted: bool,
    broken: &BTreeSet<u32>,
) -> Vec<Comparison> {
    let secondary = [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu, Metric::Memory];
    let metrics = std::iter::once(plan.primary)
        .chain(secondary.into_iter().filter(|metric| *metric != plan.primary));
    let mut comparisons = Vec::new();
    for metric in metrics {
        for contrast in &plan.contrasts {
            let comparison = compare_one(plan, part, contrast, metric, interrupted, broken);
            comparisons.extend(comparison);
        }
    }
    comparisons
}

fn compare_one(
    plan: &spec::Part,
    part: &Part,
    contrast: &spec::Contrast,
    metric: Metric,
    interrupted: bool,
    broken: &BTreeSet<u32>,
) -> Option<Comparison> {
    let skipped = |v: usize| part.variants[v].skipped.is_some();
    if skipped(contrast.baseline) || skipped(contrast.variant) {
        return None;
    }
    let primary = metric == plan.primary;
    let offer = offer_of(plan, metric);
    let sides = [contrast.baseline as u32, contrast.variant as u32];
    let is_broken = sides.iter().any(|v| broken.contains(v));
    let unsustained = part.findings.iter().any(|f| {
        f.check == "unsustained" && offer == "open" && f.variant.is_some_and(|v| sides.contains(&v))
    });
    if unsustained && !primary {
        return None;
    }
    // Reasons that name no variant spoil every comparison of the part.
    let part_broken = part
        .reasons
        .iter()
        .any(|reason| !part.findings.iter().any(|f| f.variant.is_some() && &f.sentence == reason));
    let invalid = is_broken || part_broken;
    let d = match log_ratios(part, contrast, metric, offer) {
        Ok(d) if d.len() >= 2 || primary => d,
        _ if primary => Vec::new(),
        _ => return None,
    };
    if invalid && !primary {
        return None;
    }
    let measure = measure(plan, metric, offer);
    let aim = aim(plan, primary);
    let evidence = Evidence {
        d: &d,
        pilot_blocks: (plan.schedule.pilot_blocks as usize).min(d.len()),
        aim,
        margin: plan.schedule.margin.filter(|_| primary).map(|m| m.0),
        better: measure.better(),
        interrupted,
        invalid,
    };
    let judgement = stats::judge(&evidence);
    let invalid_because = part
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Invalid)
        .find(|f| f.variant.is_some_and(|v| sides.contains(&v)))
        .map(|f| f.sentence.clone())
        .or_else(|| part.reasons.first().cloned())
        .unwrap_or_default();
    let wording = Wording {
        variant: &part.variants[contrast.variant].name,
        baseline: &part.variants[contrast.baseline].name,
        measure,
        conditions: &conditions(part, offer),
        block_time: mean_block_time(part),
        unadjusted: !primary,
        invalid_because: &invalid_because,
    };
    let mut sentence = stats::sentence(&judgement, &wording);
    if plan.schedule.quick && primary {
        sentence += " Quick look: shorter than a full run.";
    }
    Some(Comparison {
        baseline: contrast.baseline as u32,
        variant: contrast.variant as u32,
        metric: metric_name(metric).to_owned(),
        offer: offer.to_owned(),
        primary,
        ratio: judgement.ratio,
        confidence: judgement.confidence,
        adjusted_for: judgement.adjusted_for,
        blocks: judgement.blocks,
        verdict: judgement.verdict,
        sentence,
        anytime: judgement.anytime,
    })
}

fn measure(plan: &spec::Part, metric: Metric, offer: &str) -> Measure {
    let bulk = plan.variants.iter().any(|v| matches!(v.load.exchange, Exchange::Bulk { .. }));
    let percentile =
        |q| if offer == "open" { Measure::Latency(q) } else { Measure::ServiceTime(q) };
    match metric {
        Metric::Throughput if bulk => Measure::Bandwidth,
        Metric::Throughput => Measure::Throughput,
        Metric::P50 => percentile(50.0),
        Metric::P99 => percentile(99.0),
        Metric::Cpu => Measure::CpuPerRequest,
        Metric::Memory => Measure::PeakMemory,
    }
}

fn conditions(part: &Part, offer: &str) -> String {
    let rate = part
        .blocks
        .iter()
        .flat_map(|b| &b.trials)
        .find(|t| t.offer == offer)
        .and_then(|t| t.offered_per_s);
    let loop_words = match rate {
        Some(rate) => format!("open loop at {}/s", base::format_rate(rate)),
        None => "closed loop".to_owned(),
    };
    format!("{}, {loop_words}; {}", part.load, part.layout)
}

fn mean_block_time(part: &Part) -> Option<Nanos> {
    let blocks: Vec<&Block> = part.blocks.iter().filter(|b| b.index > 0).collect();
    let sum: u64 = blocks.iter().map(|b| b.elapsed.0).sum();
    (!blocks.is_empty()).then(|| Nanos(sum / blocks.len() as u64))
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::Cpu => "cpu",
        Metric::Memory => "memory",
    }
}
