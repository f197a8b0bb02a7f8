//! From blocks to summaries and verdicts.

use std::collections::BTreeSet;

use base::Nanos;
use ledger::Ledger;
use record::{
    Block, BlockState, Comparison, Disturbance, Fact, Finding, Metric, Offer, Part, Severity,
    Summary, Trial,
};
use stats::{Aim, Better, Estimate, Evidence, Spread};

use crate::calibrate::Calibration;
use crate::validity::{ACHIEVED_MIN, CLIENT_BUSY_MAX, forbidding};

/// Requests that a trial needs for a dependable 99th percentile: 100 ÷ (1 − 0.99).
const P99_REQUESTS_MIN: u64 = 10_000;

/// A variant whose level changes within more than this share of its trials is not steady.
const NOT_STEADY_SHARE: f64 = 0.25;

/// Blocks in which others used fewer CPUs than this, and in which at most this share of CPU time
/// was stolen, count as quiet.
const QUIET_CPUS: f64 = 0.1;
const QUIET_STOLEN: f64 = 0.01;
/// Quiet blocks needed to estimate the half-width on a quiet machine.
const QUIET_BLOCKS_MIN: usize = 4;

/// The load that the variants of a part share, as recorded.
pub(crate) fn load_of(plan: &spec::Part) -> record::Load {
    let load = &plan.variants[0].load;
    let engine = |load: &spec::Load| match load.engine {
        spec::EngineChoice::Auto | spec::EngineChoice::Epoll => record::Engine::Epoll,
        spec::EngineChoice::IoUring => record::Engine::IoUring,
    };
    let engines: BTreeSet<record::Engine> = plan.variants.iter().map(|v| engine(&v.load)).collect();
    record::Load { engines: engines.into_iter().collect(), ..shared_load(load) }
}

/// A load as recorded, without the I/O backend.
pub(crate) fn shared_load(load: &spec::Load) -> record::Load {
    record::Load {
        connections: load.connections,
        threads: load.threads,
        new_connection: load.new_connection,
        exchange: match &load.exchange {
            spec::Exchange::Http(_) => record::Exchange::Http,
            spec::Exchange::Oneshot => record::Exchange::Oneshot,
            spec::Exchange::Echo { size } => record::Exchange::Echo { bytes: size.0 },
            spec::Exchange::Bulk { chunk } => record::Exchange::Bulk { bytes: chunk.0 },
            spec::Exchange::Lines(lines) => record::Exchange::Lines {
                lines: lines.per_message,
                bytes: lines.message_bytes() as u64,
            },
        },
        engines: Vec::new(),
        busy_poll: load.busy_poll,
        linger_zero: load.linger_zero,
        status: load.expect.status,
    }
}

/// A variant before anything has run.
pub(crate) fn blank_variant(variant: &spec::Variant) -> record::Variant {
    record::Variant {
        name: variant.name.clone(),
        commands: variant.stack.processes.iter().map(|p| p.command.clone()).collect(),
        target: variant.target.clone(),
        served_by: variant.served_by.as_ref().map(served_by),
        skipped: None,
        ceiling: variant.ceiling,
        ledger: Ledger::default(),
        summaries: Vec::new(),
    }
}

/// The source of a server-side count, as recorded.
pub(crate) fn served_by(by: &spec::ServedBy) -> record::ServedBy {
    use spec::ServedBy;
    match by {
        ServedBy::Wsgi => record::ServedBy::Wsgi,
        ServedBy::StubStatus(target) => record::ServedBy::StubStatus(target.to_string()),
        ServedBy::Http { target, pattern, .. } => {
            record::ServedBy::Page(format!("{target} {pattern}"))
        }
        ServedBy::LogLines { path, .. } => record::ServedBy::LogLines(path.to_string()),
        ServedBy::FileSize(path) => record::ServedBy::FileSize(path.to_string()),
        ServedBy::CounterFile { path, .. } => record::ServedBy::CounterFile(path.to_string()),
    }
}

/// Notes when variants respond with different bodies, because then their work differs.
pub(crate) fn note_differing_answers(calibration: &Calibration, part: &mut Part) {
    let lengths: Vec<(usize, u64)> = calibration
        .variants
        .iter()
        .filter_map(|c| Some((c.variant, c.learned.as_ref()?.length?)))
        .collect();
    let Some(&(first, length)) = lengths.first() else { return };
    for &(other, other_length) in lengths.iter().filter(|(_, l)| *l != length) {
        let fact =
            Fact::Answers { length: other_length, other: first as u32, other_length: length };
        part.findings.push(Finding::of_variant(Severity::Note, other, fact));
    }
}

/// Variants whose first response was an undeclared redirect.
pub(crate) fn redirects(calibration: &Calibration, plan: &spec::Part) -> Vec<Finding> {
    let redirect = |c: &crate::calibrate::Calibrated| {
        let status = c.learned.as_ref()?.status.filter(|status| (300..400).contains(status))?;
        let declared = plan.variants[c.variant].load.expect.status.is_some();
        let fact = Fact::ErrorPage { status };
        (!declared).then(|| Finding::of_variant(Severity::Warning, c.variant, fact))
    };
    calibration.variants.iter().filter_map(redirect).collect()
}

/// The number of blocks that the pilot calls for.
pub(crate) fn blocks_wanted(plan: &spec::Part, part: &Part) -> u32 {
    let metric = metric_of(plan.primary);
    let offer = offer_of(plan, metric);
    let aim = aim(plan, true);
    let cap = plan.schedule.max_blocks.max(plan.schedule.pilot_blocks);
    let all: Vec<Vec<f64>> = sound_contrasts(plan, part)
        .iter()
        .filter_map(|c| log_ratios(part, c, metric, offer).ok())
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
        adjusted_for: match primary {
            true => plan.contrasts.len().max(1) as u32,
            false => plan.deciding_secondaries.max(1),
        },
    }
}

/// Contrasts whose primary metric no finding forbids so far.
pub(crate) fn sound_contrasts<'p>(plan: &'p spec::Part, part: &Part) -> Vec<&'p spec::Contrast> {
    let metric = metric_of(plan.primary);
    let offer = offer_of(plan, metric);
    let ran = |v: usize| part.variants[v].skipped.is_none();
    let sound = |contrast: &&spec::Contrast| {
        let sides = [contrast.baseline as u32, contrast.variant as u32];
        ran(contrast.baseline)
            && ran(contrast.variant)
            && forbidding(part, sides, metric, offer).is_empty()
    };
    plan.contrasts.iter().filter(sound).collect()
}

/// A metric of the plan, as recorded.
pub(crate) fn metric_of(metric: spec::Metric) -> Metric {
    match metric {
        spec::Metric::Throughput => Metric::Throughput,
        spec::Metric::P50 => Metric::P50,
        spec::Metric::P99 => Metric::P99,
        spec::Metric::Cpu => Metric::Cpu,
        spec::Metric::Memory => Metric::Memory,
    }
}

/// Which direction of a metric is better.
fn better(metric: Metric) -> Better {
    match metric {
        Metric::Throughput => Better::Higher,
        Metric::P50 | Metric::P99 | Metric::Cpu | Metric::Memory => Better::Lower,
    }
}

fn trial_of(block: &Block, variant: usize, offer: Offer) -> Option<&Trial> {
    block.trials.iter().find(|t| t.variant as usize == variant && t.offer == offer)
}

/// The offer that a metric is taken from: for latency the open loop if there is one, otherwise the
/// closed one.
pub(crate) fn offer_of(plan: &spec::Part, metric: Metric) -> Offer {
    let has_open = plan.offers.iter().any(|o| *o != spec::Offer::Closed);
    let has_closed = plan.offers.contains(&spec::Offer::Closed);
    match metric {
        Metric::P50 | Metric::P99 if has_open => Offer::Open,
        _ if has_closed => Offer::Closed,
        _ => Offer::Open,
    }
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
    offer: Offer,
) -> Result<Vec<f64>, String> {
    let pairs: Vec<(f64, f64)> = part
        .complete_blocks()
        .filter_map(|block| {
            let a = value(trial_of(block, contrast.baseline, offer)?, metric)?;
            let b = value(trial_of(block, contrast.variant, offer)?, metric)?;
            Some((a, b))
        })
        .collect();
    stats::log_ratios(&pairs).map_err(|error| error.to_string())
}

/// Completes a part after its last block: ledgers, summaries, comparisons, findings about the whole
/// part.
pub(crate) fn conclude(plan: &spec::Part, part: &mut Part, interrupted: bool) {
    add_up_ledgers(part);
    summarise(plan, part);
    findings_of_the_whole(plan, part);
    part.comparisons = compare(plan, part, interrupted);
    part.disturbance = disturbance(plan, part);
}

pub(crate) fn add_up_ledgers(part: &mut Part) {
    for v in 0..part.variants.len() {
        let mut sum: Option<Ledger> = None;
        // Failed blocks belong to the ledger of the run; interrupted ones do not.
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
            part.variants[v].served_by = Some(record::ServedBy::Wsgi);
        }
    }
}

fn summarise(plan: &spec::Part, part: &mut Part) {
    let confidence = plan.schedule.confidence;
    for v in 0..part.variants.len() {
        let mut summaries = Vec::new();
        for offer in [Offer::Closed, Offer::Open] {
            let mut trials: Vec<&Trial> =
                part.complete_blocks().filter_map(|block| trial_of(block, v, offer)).collect();
            if trials.is_empty() {
                // Another variant failed in every block; shows what this one did until then.
                let failed = part.measured_blocks().filter(|b| b.state == BlockState::Failed);
                trials = failed.filter_map(|block| trial_of(block, v, offer)).collect();
            }
            trials.retain(|trial| trial.window > Nanos::ZERO);
            if !trials.is_empty() {
                summaries.push(summary(offer, &trials, confidence));
            }
        }
        part.variants[v].summaries = summaries;
    }
}

fn summary(offer: Offer, trials: &[&Trial], confidence: f64) -> Summary {
    let level = |of: &dyn Fn(&Trial) -> Option<f64>| -> Option<Estimate> {
        let values: Option<Vec<f64>> = trials.iter().map(|trial| of(trial)).collect();
        stats::level(&values?, confidence).ok()
    };
    let unknown = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    let times = |t: &Trial| t.latency.clone().unwrap_or_else(|| t.service_time.clone());
    let seconds: f64 = trials.iter().map(|t| t.window.as_secs_f64()).sum();
    let bytes: u64 = trials.iter().map(|t| t.payload_bytes).sum();
    Summary {
        offer,
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

/// Findings that need the trials of all blocks.
fn findings_of_the_whole(plan: &spec::Part, part: &mut Part) {
    let mut found = Vec::new();
    for v in 0..part.variants.len() {
        let trials = |offer: Offer| -> Vec<&Trial> {
            part.complete_blocks().filter_map(|block| trial_of(block, v, offer)).collect()
        };
        let (closed, open) = (trials(Offer::Closed), trials(Offer::Open));
        found.extend(client_busy(plan, v, &closed));
        found.extend(unsustained(plan, v, &open));
        found.extend([&closed, &open].into_iter().filter_map(|trials| discarded(v, trials)));
        let served = part.variants[v].ledger.served.is_some();
        if part.variants[v].skipped.is_none() && !served && !closed.is_empty() {
            found.push(Finding::of_variant(Severity::Note, v, Fact::NotServed));
        }
    }
    found.extend(not_steady(part));
    found.extend(few_requests(part));
    part.findings.extend(found);
}

/// What the server's kernel discarded in these trials of a variant.
fn discarded(v: usize, trials: &[&Trial]) -> Option<Finding> {
    let offer = trials.first()?.offer;
    let discarded = trials.iter().filter_map(|trial| trial.ledger.discarded).sum();
    let completed = trials.iter().map(|trial| trial.ledger.counts.completed).sum();
    let fact = Fact::Discarded { offer, discarded, completed };
    (discarded > 0).then(|| Finding::of_variant(Severity::Note, v, fact))
}

fn client_busy(plan: &spec::Part, v: usize, closed: &[&Trial]) -> Option<Finding> {
    let share = closed.iter().map(|trial| trial.client_busy()).fold(0.0, f64::max);
    let load = &plan.variants[v].load;
    // A client that spins is always busy.
    (share > CLIENT_BUSY_MAX && !load.busy_poll).then(|| {
        let fact = Fact::ClientBusy { share, threads: load.threads };
        Finding::of_variant(Severity::Warning, v, fact)
    })
}

/// The finding about an open loop whose rate was not achieved. Its latency is not compared, and if
/// latency is the primary metric, there is no verdict.
fn unsustained(plan: &spec::Part, v: usize, open: &[&Trial]) -> Option<Finding> {
    let achieved = achieved(open).filter(|achieved| *achieved < ACHIEVED_MIN)?;
    let dropped = open.iter().map(|trial| trial.ledger.counts.dropped).sum();
    let fact = Fact::Unsustained { achieved, limit: ACHIEVED_MIN, dropped, connections_cap: None };
    let decides = is_latency(metric_of(plan.primary), offer_of(plan, metric_of(plan.primary)));
    let severity = match (decides, plan.variants[v].actions.is_empty()) {
        (true, _) => Severity::Invalid,
        (false, true) => Severity::Warning,
        // A consequence of the actions, which have their own table.
        (false, false) => Severity::Note,
    };
    Some(Finding::of_variant(severity, v, fact))
}

fn is_latency(metric: Metric, offer: Offer) -> bool {
    offer == Offer::Open && matches!(metric, Metric::P50 | Metric::P99)
}

/// Finds variants whose level changes within many of their trials, unless all other variants'
/// levels change in the same blocks: then the machine is the cause.
fn not_steady(part: &Part) -> Vec<Finding> {
    let drifting = |v: usize| -> BTreeSet<u32> {
        let drifts = part.findings.iter().filter(|f| matches!(f.fact, Fact::Drift { .. }));
        drifts.filter(|f| f.variant == Some(v as u32)).filter_map(|f| f.block).collect()
    };
    let all: Vec<BTreeSet<u32>> = (0..part.variants.len()).map(drifting).collect();
    let blocks = part.measured_blocks().count();
    let of_variant = |(v, mine): (usize, &BTreeSet<u32>)| {
        let others = all.iter().enumerate().filter(|(w, _)| *w != v);
        let by_itself = |block: &&u32| others.clone().all(|(_, theirs)| !theirs.contains(block));
        let trials = mine.iter().filter(by_itself).count();
        (trials >= 2 && trials as f64 > NOT_STEADY_SHARE * blocks as f64).then(|| {
            let fact = Fact::NotSteady { trials: trials as u32, of: blocks as u32 };
            Finding::of_variant(Severity::Warning, v, fact)
        })
    };
    all.iter().enumerate().filter_map(of_variant).collect()
}

/// Notes trials that are too short for the 99th percentile in the report.
fn few_requests(part: &Part) -> Option<Finding> {
    let least = |v: usize| {
        let trials = part.complete_blocks().flat_map(|block| block.measured_trials());
        trials.filter(|t| t.variant as usize == v).map(|t| t.completed_in_window).min()
    };
    let (fewest, v) = (0..part.variants.len()).filter_map(|v| Some((least(v)?, v))).min()?;
    let fact = Fact::FewRequests { fewest, wanted: P99_REQUESTS_MIN };
    (fewest < P99_REQUESTS_MIN).then(|| Finding::of_variant(Severity::Note, v, fact))
}

/// How busy the machine was with other work, and what that cost.
fn disturbance(plan: &spec::Part, part: &Part) -> Option<Disturbance> {
    let trials = || part.complete_blocks().flat_map(|block| block.measured_trials());
    let slices: Vec<&record::Slice> = trials().flat_map(|trial| &trial.slices).collect();
    if slices.is_empty() {
        return None;
    }
    let mean = |of: fn(&record::Slice) -> Option<f64>| {
        let known: Vec<f64> = slices.iter().filter_map(|slice| of(slice)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let mut rounds: BTreeSet<(u32, Offer, u32, bool)> = BTreeSet::new();
    for block in part.complete_blocks() {
        for trial in block.measured_trials() {
            rounds.extend(trial.slices.iter().map(|s| (block.index, trial.offer, s.round, s.kept)));
        }
    }
    let primary = part.comparisons.iter().find(|c| c.primary && c.because.is_empty());
    let half_width = primary.map(|c| &c.judgement.ratio).filter(|ratio| ratio.is_bounded());
    Some(Disturbance {
        other_cpus: mean(|slice| slice.other_cpus),
        stolen: mean(|slice| slice.stolen),
        rounds: rounds.len() as u32,
        rounds_left_out: rounds.iter().filter(|(.., kept)| !kept).count() as u32,
        half_width: half_width.map(|ratio| (ratio.high / ratio.low).ln() / 2.0),
        half_width_if_quiet: half_width_if_quiet(plan, part),
    })
}

/// The half-width that all blocks would have given with the spread of the quiet ones.
fn half_width_if_quiet(plan: &spec::Part, part: &Part) -> Option<f64> {
    let quiet = |block: &&Block| {
        let slices: Vec<&record::Slice> =
            block.measured_trials().flat_map(|trial| &trial.slices).collect();
        let mean = |of: fn(&record::Slice) -> f64| {
            slices.iter().map(|slice| of(slice)).sum::<f64>() / slices.len().max(1) as f64
        };
        mean(|slice| slice.other_cpus.unwrap_or(0.0)) < QUIET_CPUS
            && mean(|slice| slice.stolen.unwrap_or(0.0)) < QUIET_STOLEN
    };
    let only_quiet =
        Part { blocks: part.complete_blocks().filter(quiet).cloned().collect(), ..part.clone() };
    let metric = metric_of(plan.primary);
    let contrast = plan.contrasts.first()?;
    let d = log_ratios(&only_quiet, contrast, metric, offer_of(plan, metric)).ok()?;
    let all = part.complete_blocks().count();
    let spread = Spread::of(&d).filter(|_| d.len() >= QUIET_BLOCKS_MIN && d.len() < all)?;
    let t = stats::t_quantile(aim(plan, true).alpha(), all - 1);
    Some(t * spread.sd() / (all as f64).sqrt())
}

/// The share of an open loop's offered requests that completed.
fn achieved(open: &[&Trial]) -> Option<f64> {
    let offered: u64 = open.iter().map(|t| t.ledger.counts.offered).sum();
    let completed: u64 = open.iter().map(|t| t.ledger.counts.completed).sum();
    (offered > 0).then(|| completed as f64 / offered as f64)
}

fn compare(plan: &spec::Part, part: &Part, interrupted: bool) -> Vec<Comparison> {
    let primary = metric_of(plan.primary);
    let all = [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu, Metric::Memory];
    let metrics = std::iter::once(primary).chain(all.into_iter().filter(|m| *m != primary));
    metrics
        .flat_map(|metric| plan.contrasts.iter().map(move |contrast| (metric, contrast)))
        .filter_map(|(metric, contrast)| compare_one(plan, part, contrast, metric, interrupted))
        .collect()
}

fn compare_one(
    plan: &spec::Part,
    part: &Part,
    contrast: &spec::Contrast,
    metric: Metric,
    interrupted: bool,
) -> Option<Comparison> {
    let skipped = |v: usize| part.variants[v].skipped.is_some();
    if skipped(contrast.baseline) || skipped(contrast.variant) {
        return None;
    }
    let primary = metric == metric_of(plan.primary);
    let offer = offer_of(plan, metric);
    let sides = [contrast.baseline as u32, contrast.variant as u32];
    let because = forbidding(part, sides, metric, offer);
    let unsustained = part.findings.iter().any(|f| {
        matches!(f.fact, Fact::Unsustained { .. }) && f.variant.is_some_and(|v| sides.contains(&v))
    });
    if unsustained && !primary && is_latency(metric, offer) {
        return None;
    }
    let d = match log_ratios(part, contrast, metric, offer) {
        Ok(d) if d.len() >= 2 || primary => d,
        _ if primary => Vec::new(),
        _ => return None,
    };
    let evidence = Evidence {
        d: &d,
        pilot_blocks: (plan.schedule.pilot_blocks as usize).min(d.len()),
        aim: aim(plan, primary),
        margin: plan.schedule.margin.filter(|_| primary).map(|m| m.0),
        better: better(metric),
        interrupted,
        invalid: !because.is_empty(),
    };
    let judgement = stats::judge(&evidence);
    let (baseline, variant) = (contrast.baseline as u32, contrast.variant as u32);
    Some(Comparison { baseline, variant, metric, offer, primary, judgement, because })
}
