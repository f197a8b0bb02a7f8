//! `--fail-if`: decides conditions on a run.
//!
//! A test of a ratio is decided by the interval of that ratio, which comes from paired slices and
//! is much narrower than those of its two sides. Every other test is decided by interval arithmetic
//! on its figures.

use record::{
    CapacityOutcome, Comparison, DiffOutcome, Distribution, Fact, GateDecision, GateFigure,
    GateOutcome, GateTest, GateUnknown, Metric, Offer, Part, Run,
};
use spec::{FailIf, Interval, Test, Truth, VariantMetric};
use stats::{DECIDING_BLOCKS_MIN, Estimate, Verdict};

use crate::caveat::is_unsustained;
use crate::load::LoadReport;
use crate::validity::{METRICS, RunVerdict, is_invalid, is_void};

/// Of the interval of a percentile of one load.
const CONFIDENCE: f64 = 0.95;

/// The outcome of a comparison of two commits, whose second variant is the head. With conditions
/// `by_default`, the first of them, the primary metric's, determines whether it is undecided.
///
/// A comparison that is INVALID is the head's fault if requests to its server failed or its ledger
/// does not add up.
pub fn outcome_of_diff(run: &Run, gates: &[GateOutcome], by_default: bool) -> DiffOutcome {
    let is_fault = |fact: &Fact| {
        matches!(fact, Fact::Failures { .. } | Fact::Ledger { .. } | Fact::StackFailed { .. })
    };
    let findings = || run.parts.iter().flat_map(Part::invalid);
    if findings().any(|finding| finding.variant == Some(1) && is_fault(&finding.fact)) {
        return DiffOutcome::HeadFailed;
    }
    if is_invalid(run) {
        return DiffOutcome::Invalid;
    }
    let any = |gates: &[GateOutcome], decision| gates.iter().any(|gate| gate.decision == decision);
    if any(gates, GateDecision::Fails) {
        return DiffOutcome::Regression;
    }
    if RunVerdict::of(run) == RunVerdict::Incomplete {
        return DiffOutcome::NotMeasured;
    }
    let deciding = if by_default { gates.get(..1).unwrap_or_default() } else { gates };
    match any(deciding, GateDecision::Inconclusive) {
        true => DiffOutcome::Undecided,
        false => DiffOutcome::Passed,
    }
}

/// Decides the conditions on a run.
pub fn decide_conditions(run: &Run, conditions: &[FailIf]) -> Vec<GateOutcome> {
    conditions
        .iter()
        .map(|condition| {
            let mut tests = Vec::new();
            let truth = condition.decide(&mut |test| {
                let (truth, seen) = decide(run, test);
                tests.push(seen);
                truth
            });
            GateOutcome { condition: condition.to_string(), decision: decision(truth), tests }
        })
        .collect()
}

fn decision(truth: Truth) -> GateDecision {
    match truth {
        Truth::Holds => GateDecision::Fails,
        Truth::DoesNotHold => GateDecision::Passes,
        Truth::Undecided => GateDecision::Inconclusive,
    }
}

fn decide(run: &Run, test: &Test) -> (Truth, GateTest) {
    let found = by_ratio(run, test).unwrap_or_else(|| by_figures(run, test));
    // What was counted can hold from the first block; that it will not hold takes all of them.
    let found = match (found, few_blocks_of(run, test)) {
        (Ok((Truth::DoesNotHold, _)), Some(few)) => Err(few),
        (found, _) => found,
    };
    let (truth, figures, unknown) = match found {
        Ok((truth, figures)) => (truth, figures, None),
        Err(unknown) => (Truth::Undecided, Vec::new(), Some(unknown)),
    };
    (truth, GateTest { decision: decision(truth), figures, unknown })
}

/// The decision on a test, with its figures.
type GateTruth = Result<(Truth, Vec<GateFigure>), GateUnknown>;

/// Decides a test of a ratio that was compared; `None` for any other test.
fn by_ratio(run: &Run, test: &Test) -> Option<GateTruth> {
    let ratio = test.as_ratio()?;
    let part = part_of(run, ratio.of)?;
    let metric = compared(ratio.of.metric)?;
    let index = |of: &VariantMetric| part.variants.iter().position(|v| v.name == of.variant);
    let sides = (index(ratio.of)? as u32, index(ratio.to)? as u32);
    let of_sides = |c: &&Comparison| {
        let these = (c.variant, c.baseline);
        c.metric == metric && (these == sides || these == (sides.1, sides.0))
    };
    let comparison = part.comparisons.iter().find(of_sides)?;
    let judgement = &comparison.judgement;
    if judgement.verdict == Verdict::Invalid {
        return Some(Err(invalid(ratio.of)));
    }
    if let Some(unknown) = few_blocks(judgement.blocks) {
        return Some(Err(unknown));
    }
    let estimate = if comparison.variant == sides.0 {
        judgement.ratio
    } else {
        let Estimate { value, low, high } = judgement.ratio;
        Estimate { value: 1.0 / value, low: 1.0 / high, high: 1.0 / low }
    };
    let truth = ratio.comparison.decide(interval(&estimate), Interval::exactly(ratio.bound));
    let figure =
        GateFigure { other: Some(ratio.to.variant.clone()), ..figure(run, ratio.of, estimate) };
    Some(Ok((truth, vec![figure])))
}

/// Decides a test by the interval of each figure.
fn by_figures(run: &Run, test: &Test) -> GateTruth {
    let mut known: Vec<(&VariantMetric, Estimate)> = Vec::new();
    for measured in test.measured() {
        known.push((measured, estimate(run, measured)?));
    }
    let nothing = Interval::exactly(f64::NAN);
    let truth = test.over(&|of| {
        let found = known.iter().find(|(measured, _)| *measured == of);
        found.map_or(nothing, |(_, estimate)| interval(estimate))
    });
    let figures: Vec<GateFigure> =
        known.iter().map(|(of, estimate)| figure(run, of, *estimate)).collect();
    match (truth, figures.is_empty()) {
        (Truth::Undecided, true) => Err(GateUnknown::NoValue),
        (Truth::Undecided, false) => few_requests(run, &figures).map_or(Ok((truth, figures)), Err),
        _ => Ok((truth, figures)),
    }
}

/// A percentile of a load of which there are too few requests for an upper end.
fn few_requests(run: &Run, figures: &[GateFigure]) -> Option<GateUnknown> {
    let report = LoadReport::from_run(run)?;
    let unbounded = figures.iter().find(|figure| figure.estimate.high == f64::INFINITY)?;
    let q = quantile_of(unbounded.metric)?;
    // All of them are below the quantile with the probability qⁿ.
    let needed = (((1.0 - CONFIDENCE) / 2.0).ln() / q.ln()).ceil() as u64;
    Some(GateUnknown::FewRequests { completed: report.times().count, needed })
}

fn quantile_of(metric: &str) -> Option<f64> {
    match metric {
        "p50" => Some(0.5),
        "p90" => Some(0.9),
        "p99" => Some(0.99),
        _ => None,
    }
}

fn part_of<'r>(run: &'r Run, measured: &VariantMetric) -> Option<&'r Part> {
    run.parts.iter().find(|part| measured.part.as_ref().is_none_or(|name| *name == part.name))
}

/// The metric, if variants are compared by it; the ratio of two capacities is one of throughputs.
fn compared(name: &str) -> Option<Metric> {
    let name = if name == "capacity" { Metric::Throughput.word() } else { name };
    METRICS.into_iter().find(|metric| metric.word() == name)
}

/// A figure with its interval. Errors are counted, so they are exact and always valid.
fn estimate(run: &Run, measured: &VariantMetric) -> Result<Estimate, GateUnknown> {
    let missing = || not_measured(measured);
    let part = part_of(run, measured).ok_or_else(missing)?;
    let of_name = |v: &record::Variant| v.name == measured.variant;
    let index = part.variants.iter().position(of_name).ok_or_else(missing)?;
    let variant = &part.variants[index];
    if let Some(report) = LoadReport::from_run(run) {
        return of_load(&report, part, measured);
    }
    if matches!(measured.metric, "errors" | "failed") {
        let ran = variant.skipped.is_none() && variant.ledger.counts.offered > 0;
        return ran.then(|| exactly(variant.ledger.counts.failed as f64)).ok_or_else(missing);
    }
    if measured.metric == "capacity" {
        return match is_void(part, index, Metric::Throughput) {
            true => Err(invalid(measured)),
            false => capacity(part, index).ok_or_else(missing),
        };
    }
    let under = |offer: Offer| variant.summaries.iter().find(|s| s.offer == offer);
    let closed = under(Offer::Closed).or_else(|| under(Offer::Open)).ok_or_else(missing)?;
    let timed = under(Offer::Open).unwrap_or(closed);
    let estimate = match measured.metric {
        "throughput" => Some(closed.throughput_per_s),
        "p50" => Some(timed.p50_ns),
        "p90" => Some(timed.p90_ns),
        "p99" => Some(timed.p99_ns),
        "cpu" => closed.cpu_ns_per_request,
        "memory" => closed.peak_memory_bytes.map(|bytes| exactly(bytes as f64)),
        _ => None,
    };
    let estimate = estimate.ok_or_else(missing)?;
    // What forbids one percentile forbids all of them.
    if is_void(part, index, compared(measured.metric).unwrap_or(Metric::P99)) {
        return Err(invalid(measured));
    }
    let is_percentile = matches!(measured.metric, "p50" | "p90" | "p99");
    if is_percentile && is_unsustained(part, index) {
        let variant = measured.variant.clone();
        return Err(GateUnknown::Unsustained { variant, metric: measured.metric });
    }
    match few_blocks(part.complete_blocks().count() as u32) {
        Some(unknown) => Err(unknown),
        None => Ok(estimate),
    }
}

/// The capacity of a variant, which may have only one end; `None` if its search was not decided.
fn capacity(part: &Part, variant: usize) -> Option<Estimate> {
    let mut all = part.capacity.as_ref()?.variants.iter();
    match &all.find(|found| found.variant as usize == variant)?.outcome {
        CapacityOutcome::Found { per_s, .. } => Some(*per_s),
        CapacityOutcome::AtLeast { per_s } => {
            Some(Estimate { high: f64::INFINITY, ..exactly(*per_s) })
        }
        CapacityOutcome::Nowhere { per_s } => Some(Estimate { low: 0.0, ..exactly(*per_s) }),
        CapacityOutcome::ClientLimited { .. } | CapacityOutcome::Undecided { .. } => None,
    }
}

/// A figure of a load. One trial has no interval of its throughput, so the measured figure is used;
/// that of a percentile follows from the number of requests.
fn of_load(
    report: &LoadReport<'_>,
    part: &Part,
    measured: &VariantMetric,
) -> Result<Estimate, GateUnknown> {
    let times = report.times();
    let estimate = match (measured.metric, quantile_of(measured.metric)) {
        ("throughput", _) => exactly(report.throughput_per_s()),
        ("errors" | "failed", _) => return Ok(exactly(report.ledger().counts.failed as f64)),
        (_, Some(q)) => percentile(times, q).ok_or(GateUnknown::NoValue)?,
        (_, None) => return Err(not_measured(measured)),
    };
    if is_void(part, 0, compared(measured.metric).unwrap_or(Metric::P99)) {
        return Err(invalid(measured));
    }
    match times.count {
        0 => Err(GateUnknown::FewRequests { completed: 0, needed: 1 }),
        _ => Ok(estimate),
    }
}

/// A percentile with the 95% interval for this number of independent requests; `None` if it was
/// recorded without its histogram. Requests that stall together are not independent, so the true
/// interval is at least this wide.
fn percentile(times: &Distribution, q: f64) -> Option<Estimate> {
    let histogram = times.histogram().ok().flatten()?;
    let count = histogram.len();
    // Half a rank less, so that rounding cannot reach the next one.
    let at = |rank: u64| histogram.value_at_quantile((rank as f64 - 0.5) / count as f64) as f64;
    let (low, high) = stats::quantile_ranks(count, q, 1.0 - CONFIDENCE);
    Some(Estimate {
        value: histogram.value_at_quantile(q) as f64,
        low: low.map_or(0.0, at),
        high: high.map_or(f64::INFINITY, at),
    })
}

fn exactly(value: f64) -> Estimate {
    Estimate { value, low: value, high: value }
}

fn not_measured(measured: &VariantMetric) -> GateUnknown {
    GateUnknown::NotMeasured { variant: measured.variant.clone(), metric: measured.metric }
}

fn invalid(measured: &VariantMetric) -> GateUnknown {
    GateUnknown::Invalid { variant: measured.variant.clone(), metric: measured.metric }
}

/// The part of a test that is compared over too few blocks.
fn few_blocks_of(run: &Run, test: &Test) -> Option<GateUnknown> {
    let parts = test.measured().into_iter().filter_map(|of| part_of(run, of));
    let compared = parts.filter(|part| !part.comparisons.is_empty());
    few_blocks(compared.map(|part| part.complete_blocks().count() as u32).min()?)
}

fn few_blocks(blocks: u32) -> Option<GateUnknown> {
    let needed = DECIDING_BLOCKS_MIN as u32;
    (blocks < needed).then_some(GateUnknown::FewBlocks { blocks, needed })
}

fn interval(estimate: &Estimate) -> Interval {
    Interval { low: estimate.low, high: estimate.high }
}

fn figure(run: &Run, measured: &VariantMetric, estimate: Estimate) -> GateFigure {
    GateFigure {
        part: measured.part.clone().filter(|_| run.parts.len() > 1),
        variant: measured.variant.clone(),
        other: None,
        metric: measured.metric,
        estimate,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
