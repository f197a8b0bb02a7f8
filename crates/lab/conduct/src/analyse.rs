//! From blocks to summaries and verdicts.

use std::collections::BTreeSet;

use base::Nanos;
use ledger::Ledger;
use record::{
    Block, BlockState, Comparison, Distribution, Disturbance, Fact, Finding, Metric, Offer, Part,
    Severity, Summary, Trial,
};
use stats::{
    Aim, BetterDirection, Estimate, Evidence, Margins, Quantile, Spread, Sureness, Total, Values,
};

use crate::calibrate::Calibration;
use crate::validity::{biases, forbidding};

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
    let protocol = |load: &spec::Load| (load.http, load.streams);
    let is_mixed = plan.variants.iter().any(|v| protocol(&v.load) != protocol(load));
    record::Load { engines: engines.into_iter().collect(), is_mixed, ..shared_load(load) }
}

/// A load as recorded, without the I/O backend.
pub(crate) fn shared_load(load: &spec::Load) -> record::Load {
    record::Load {
        connections: load.connections,
        threads: load.threads,
        new_connection: load.new_connection,
        exchange: match &load.exchange {
            spec::Exchange::Http(_) if load.grpc.is_some() => record::Exchange::Grpc,
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
        http2: load.http == spec::HttpVersion::Http2,
        streams: load.streams,
        is_mixed: false,
        insecure: load.tls.insecure,
        tls_resumption: load.tls.resumption,
        status: load.expect.status,
        kinds: load.kinds.iter().map(recorded_kind).collect(),
        events: load.events,
        method: load.grpc.as_ref().and_then(|calls| calls.method.clone()),
    }
}

fn recorded_kind(kind: &spec::RequestKind) -> record::LoadKind {
    let different: BTreeSet<_> = kind.requests.iter().collect();
    record::LoadKind {
        name: kind.name.clone(),
        weight: kind.weight,
        requests: different.len() as u64,
        status: kind.expect.status,
    }
}

/// A variant before anything has run, without the secrets in its commands and addresses.
pub(crate) fn blank_variant(variant: &spec::Variant) -> record::Variant {
    record::Variant {
        name: variant.name.clone(),
        commands: variant.stack.processes.iter().map(|p| base::redact(&p.command)).collect(),
        target: base::redact(&variant.target),
        served_by: variant.served_by.as_ref().map(served_by),
        ceiling: variant.ceiling,
        ..record::Variant::default()
    }
}

/// The source of a server-side count, as recorded.
pub(crate) fn served_by(by: &spec::ServedBy) -> record::ServedBy {
    use spec::ServedBy;
    match by {
        ServedBy::Wsgi => record::ServedBy::Wsgi,
        ServedBy::StubStatus(target) => record::ServedBy::StubStatus(base::redact(target)),
        ServedBy::Http { target, pattern, .. } => {
            record::ServedBy::Page(base::redact(&format!("{target} {pattern}")))
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
    let redirect = |c: &crate::calibrate::VariantCalibration| {
        let status = c.learned.as_ref()?.status.filter(|status| (300..400).contains(status))?;
        let declared = plan.variants[c.variant].load.expect.status.is_some();
        let fact = Fact::ErrorPage { status };
        (!declared).then(|| Finding::of_variant(Severity::Warning, c.variant, fact))
    };
    calibration.variants.iter().filter_map(redirect).collect()
}

/// Variants whose body varies, unless the plan says what to check.
pub(crate) fn varying(calibration: &Calibration, plan: &spec::Part) -> Vec<Finding> {
    let varies = |c: &crate::calibrate::VariantCalibration| {
        let learned = c.learned.as_ref().filter(|learned| learned.varies)?;
        let is_given = plan.variants[c.variant].load.expect.says_what_to_compare();
        let fact = Fact::BodyVaries { length: learned.length.is_none() };
        (!is_given).then(|| Finding::of_variant(Severity::Note, c.variant, fact))
    };
    calibration.variants.iter().filter_map(varies).collect()
}

/// Blocks of a part whose functions are sampled, if there is time. Hundreds of intervals share one error
/// probability, so with the six blocks of a pilot they are four times as wide as with these.
const WHY_BLOCKS: u32 = 16;

/// The number of blocks that the pilot calls for, by the spread of the ratios or by the `stalls` of
/// each variant that it contains.
pub(crate) fn blocks_wanted(plan: &spec::Part, part: &Part, stalls: &[stats::Stalls]) -> u32 {
    let metric = metric_of(plan.primary);
    let offer = offer_of(plan, metric);
    let aim = aim(plan, true);
    let cap = plan.schedule.max_blocks.max(plan.schedule.pilot_blocks);
    let contrasts = sound_contrasts(plan, part);
    let all: Vec<Vec<f64>> = contrasts
        .iter()
        .map(|c| log_ratios(part, c, metric, offer, sureness(&aim, false)).d)
        .filter(|d| d.len() >= 2)
        .collect();
    if all.is_empty() {
        return plan.schedule.pilot_blocks;
    }
    let pilots: Vec<&[f64]> = all.iter().map(Vec::as_slice).collect();
    let by_spread = stats::planned_blocks(&pilots, &aim, cap);
    let by_stalls = contrasts.iter().map(|contrast| {
        let of = |v: usize| match metric {
            Metric::Throughput => stalls[v].margins(aim.alpha()),
            _ => Margins::default(),
        };
        let margins = of(contrast.variant).over(of(contrast.baseline));
        aim.blocks_for_margins(&margins, pilots[0].len())
    });
    let by_stalls = u32::try_from(by_stalls.max().unwrap_or(0)).unwrap_or(u32::MAX);
    let for_reasons = if plan.schedule.why { WHY_BLOCKS.min(cap) } else { 0 };
    by_spread.max(by_stalls.min(cap)).max(for_reasons)
}

/// What a variant's slices may not have shown of its stalls, as found after the last block.
#[derive(Clone, Copy, Debug, Default)]
struct RareStalls {
    lost: stats::Stalls,
    delayed: stats::Stalls,
    longest: Nanos,
    /// Mean length of the open loop's windows, if that is shorter than p99.
    short_window: Option<Nanos>,
}

fn rare_of(part: &Part, v: usize) -> RareStalls {
    let mut rare = RareStalls::default();
    for finding in part.findings.iter().filter(|finding| finding.variant == Some(v as u32)) {
        match finding.fact {
            Fact::RareStalls { lost, delayed, longest, .. } => {
                rare = RareStalls { lost, delayed, longest, ..rare };
            }
            Fact::ShortSlices { window, .. } => rare.short_window = Some(window),
            _ => {}
        }
    }
    rare
}

impl RareStalls {
    /// How far a percentile of the open loop's latency, in nanoseconds, may lie above `value`.
    fn margins_of_quantile(&self, value: f64, q: f64, alpha: f64) -> Margins {
        if self.short_window.is_some_and(|window| value > window.0 as f64) {
            return Margins { below: 0.0, above: f64::INFINITY };
        }
        let at_most = self.delayed.quantile_at_most(q, self.longest.0 as f64, alpha);
        let above = if value > 0.0 { (at_most / value).ln().max(0.0) } else { 0.0 };
        Margins { below: 0.0, above }
    }
}

/// By how much rare stalls may bias a ratio: of throughputs, or of percentiles of an open loop whose
/// values are `quantiles`.
fn margins(
    part: &Part,
    contrast: &spec::Contrast,
    metric: Metric,
    offer: Offer,
    quantiles: Option<[f64; 2]>,
    alpha: f64,
) -> Margins {
    let [baseline, variant] = [contrast.baseline, contrast.variant].map(|v| rare_of(part, v));
    match (metric, offer, quantile_of(metric).zip(quantiles)) {
        (Metric::Throughput, Offer::Closed, _) => {
            variant.lost.margins(alpha).over(baseline.lost.margins(alpha))
        }
        (_, Offer::Open, Some((q, [a, b]))) => {
            let of = |rare: &RareStalls, value| rare.margins_of_quantile(value, q, alpha);
            of(&variant, b).over(of(&baseline, a))
        }
        _ => Margins::default(),
    }
}

fn sureness(aim: &Aim, interrupted: bool) -> Sureness {
    Sureness { alpha: aim.alpha(), interrupted }
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
fn better(metric: Metric) -> BetterDirection {
    match metric {
        Metric::Throughput => BetterDirection::Higher,
        Metric::P50 | Metric::P99 | Metric::Cpu | Metric::Memory => BetterDirection::Lower,
    }
}

pub(crate) fn trial_of(block: &Block, variant: usize, offer: Offer) -> Option<&Trial> {
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

/// What a trial contributes to a ratio of totals: throughput and CPU time per request.
fn total(trial: &Trial, metric: Metric) -> Option<Total> {
    match metric {
        Metric::Throughput => Some(Total {
            amount: trial.completed_in_window as f64,
            per: trial.window.as_secs_f64(),
        }),
        Metric::Cpu => per_request(trial.stack_cpu, trial),
        Metric::P50 | Metric::P99 | Metric::Memory => None,
    }
}

pub(crate) fn per_request(cost: Option<Nanos>, trial: &Trial) -> Option<Total> {
    let requests = trial.ledger.served.unwrap_or(trial.ledger.counts.completed);
    Some(Total { amount: cost?.0 as f64, per: requests as f64 })
}

/// The quantile that a metric is, if it is one.
fn quantile_of(metric: Metric) -> Option<f64> {
    match metric {
        Metric::P50 => Some(0.5),
        Metric::P99 => Some(0.99),
        Metric::Throughput | Metric::Cpu | Metric::Memory => None,
    }
}

/// All times of a trial, latencies or service times; `None` if only percentiles are known.
fn times_of(trial: &Trial) -> Option<Values> {
    let times = trial.latency.as_ref().unwrap_or(&trial.service_time);
    let histogram = times.histogram().ok()??;
    let steps = histogram.iter_recorded();
    Some(steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
}

/// A quantile of the times of all trials together.
pub(crate) fn quantile(trials: &[&Trial], q: f64, sureness: Sureness) -> Option<Quantile> {
    let values: Option<Vec<Values>> = trials.iter().map(|trial| times_of(trial)).collect();
    stats::quantile(&values?, q, sureness)
}

/// The trials of both sides in every complete block that has both.
fn pairs<'p>(part: &'p Part, contrast: &spec::Contrast, offer: Offer) -> [Vec<&'p Trial>; 2] {
    let both = part.complete_blocks().filter_map(|block| {
        let trial = |v: usize| trial_of(block, v, offer);
        Some((trial(contrast.baseline)?, trial(contrast.variant)?))
    });
    let (baseline, variant) = both.unzip();
    [baseline, variant]
}

/// The blocks of one comparison.
#[derive(Debug, Default)]
struct ComparedBlocks {
    /// One value per block whose mean is the logarithm of the ratio; empty if it is unknown.
    d: Vec<f64>,
    /// For quantiles: their ratio with its interval, and those of baseline and variant.
    quantiles: Option<(Estimate, [f64; 2])>,
}

fn log_ratios(
    part: &Part,
    contrast: &spec::Contrast,
    metric: Metric,
    offer: Offer,
    sureness: Sureness,
) -> ComparedBlocks {
    let [baseline, variant] = pairs(part, contrast, offer);
    if let Some(q) = quantile_of(metric) {
        let (a, b) = (quantile(&baseline, q, sureness), quantile(&variant, q, sureness));
        let (Some(a), Some(b)) = (a, b) else { return ComparedBlocks::default() };
        let values = [a.estimate.value, b.estimate.value];
        return ComparedBlocks {
            d: a.values.iter().zip(&b.values).map(|(a, b)| b - a).collect(),
            quantiles: Some((stats::ratio_of_quantiles(&a, &b), values)),
        };
    }
    let pairs = baseline.iter().zip(&variant);
    let d = if metric == Metric::Memory {
        let bytes = |trial: &Trial| trial.peak_memory_bytes.map(|bytes| bytes as f64);
        let pairs: Option<Vec<(f64, f64)>> =
            pairs.map(|(a, b)| Some((bytes(a)?, bytes(b)?))).collect();
        pairs.and_then(|pairs| stats::log_ratios(&pairs).ok())
    } else {
        let pairs: Option<Vec<(Total, Total)>> =
            pairs.map(|(a, b)| Some((total(a, metric)?, total(b, metric)?))).collect();
        pairs.and_then(|pairs| stats::log_ratios_of_totals(&pairs).ok())
    };
    ComparedBlocks { d: d.unwrap_or_default(), quantiles: None }
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

pub(crate) fn summarise(plan: &spec::Part, part: &mut Part, sureness: Sureness) {
    let pilot_blocks = plan.schedule.pilot_blocks as usize;
    for v in 0..part.variants.len() {
        let rare = rare_of(part, v);
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
                let mut summary = summary(offer, &trials, pilot_blocks, sureness);
                allow_for(&mut summary, &rare, sureness.alpha);
                summaries.push(summary);
            }
        }
        part.variants[v].summaries = summaries;
    }
}

/// Widens a summary's intervals by what rare stalls may have cost.
fn allow_for(summary: &mut Summary, rare: &RareStalls, alpha: f64) {
    match summary.offer {
        Offer::Closed => {
            let margins = rare.lost.margins(alpha);
            summary.throughput_per_s = summary.throughput_per_s.at_least(margins);
        }
        Offer::Open => {
            for (q, of) in [
                (0.5, &mut summary.p50_ns),
                (0.9, &mut summary.p90_ns),
                (0.99, &mut summary.p99_ns),
            ] {
                *of = of.at_least(rare.margins_of_quantile(of.value, q, alpha));
            }
        }
        Offer::WarmUp | Offer::Calibration => {}
    }
}

fn summary(offer: Offer, trials: &[&Trial], pilot_blocks: usize, sureness: Sureness) -> Summary {
    let unknown = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    let level = |of: &dyn Fn(&Trial) -> Option<Total>| -> Option<Estimate> {
        let totals: Option<Vec<Total>> = trials.iter().map(|trial| of(trial)).collect();
        let logs = stats::log_of_totals(&totals?).ok()?;
        Some(stats::level_of(&logs, pilot_blocks.min(logs.len()), sureness))
    };
    let time = |q: f64, of: fn(&Distribution) -> u64| -> Estimate {
        let alone = trials.first().filter(|_| trials.len() == 1).map(|trial| {
            let times = trial.latency.as_ref().unwrap_or(&trial.service_time);
            let value = if times.count > 0 { of(times) as f64 } else { f64::NAN };
            Estimate { value, low: 0.0, high: f64::INFINITY }
        });
        alone.or(quantile(trials, q, sureness).map(|q| q.estimate)).unwrap_or(unknown)
    };
    let seconds: f64 = trials.iter().map(|t| t.window.as_secs_f64()).sum();
    let bytes: u64 = trials.iter().map(|t| t.payload_bytes).sum();
    Summary {
        offer,
        offered_per_s: trials[0].offered_per_s,
        throughput_per_s: level(&|t| total(t, Metric::Throughput)).unwrap_or(unknown),
        bytes_per_s: bytes as f64 / seconds.max(1e-9),
        p50_ns: time(0.5, |times| times.p50_ns),
        p90_ns: time(0.9, |times| times.p90_ns),
        p99_ns: time(0.99, |times| times.p99_ns),
        cpu_ns_per_request: level(&|t| per_request(t.stack_cpu, t)),
        machine_ns_per_request: level(&|t| per_request(t.machine_busy, t)),
        peak_memory_bytes: trials.iter().filter_map(|t| t.peak_memory_bytes).max(),
    }
}

pub(crate) fn is_latency(metric: Metric, offer: Offer) -> bool {
    offer == Offer::Open && matches!(metric, Metric::P50 | Metric::P99)
}

/// How busy the machine was with other work, and what that cost.
pub(crate) fn disturbance(plan: &spec::Part, part: &Part) -> Option<Disturbance> {
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
    let aim = aim(plan, true);
    let offer = offer_of(plan, metric);
    let ComparedBlocks { d, .. } =
        log_ratios(&only_quiet, contrast, metric, offer, sureness(&aim, false));
    let all = part.complete_blocks().count();
    let spread = Spread::of(&d).filter(|_| d.len() >= QUIET_BLOCKS_MIN && d.len() < all)?;
    let t = stats::t_quantile(aim.alpha(), all - 1);
    Some(t * spread.sd() / (all as f64).sqrt())
}

pub(crate) fn compare(plan: &spec::Part, part: &Part, interrupted: bool) -> Vec<Comparison> {
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
    let biases = biases(part, sides, metric, offer);
    let unsustained = part.findings.iter().any(|f| {
        matches!(f.fact, Fact::Unsustained { .. }) && f.variant.is_some_and(|v| sides.contains(&v))
    });
    if unsustained && !primary && is_latency(metric, offer) {
        return None;
    }
    let aim = aim(plan, primary);
    let ComparedBlocks { d, quantiles } =
        log_ratios(part, contrast, metric, offer, sureness(&aim, interrupted));
    if d.len() < 2 && !primary {
        return None;
    }
    let evidence = Evidence {
        d: &d,
        interval: quantiles.map(|(interval, _)| interval),
        pilot_blocks: (plan.schedule.pilot_blocks as usize).min(d.len()),
        aim,
        margin: plan.schedule.margin.filter(|_| primary).map(|m| m.0),
        better: better(metric),
        interrupted,
        invalid: !because.is_empty(),
        biases: &biases,
        margins: margins(
            part,
            contrast,
            metric,
            offer,
            quantiles.map(|(_, values)| values),
            aim.alpha(),
        ),
    };
    let judgement = stats::judge(&evidence);
    let (baseline, variant) = (contrast.baseline as u32, contrast.variant as u32);
    Some(Comparison { baseline, variant, metric, offer, primary, judgement, because })
}
