//! The result for programs: JSON, variables, and the files that benchmark trackers read.

use record::{Diff, Metric, Revision, Run};
use serde_json::{Map, Value, json};
use stats::Estimate;

use super::{HEAD, comparison, diff_sentence};
use crate::text::{bounds, ratio};
use crate::{caveat, gate, validity, view};

/// The comparison of commits as the JSON object `diff`, part of `docs/schema/compare-2.json`.
pub fn diff_json(run: &Run, diff: &Diff) -> Value {
    let revision = |revision: &Revision| {
        json!({
            "commit": revision.id,
            "subject": revision.subject,
            "dirty": revision.dirty,
        })
    };
    let conditions = diff.gates.iter().map(|outcome| {
        json!({
            "condition": outcome.condition,
            "decision": match outcome.decision {
                record::GateDecision::Fails => "failed",
                record::GateDecision::Passes => "passed",
                record::GateDecision::Inconclusive => "inconclusive",
            },
            "sentence": gate::gate(outcome),
        })
    });
    json!({
        "verdict": diff.outcome.word(),
        "sentence": diff_sentence(run, diff),
        "base": revision(&diff.base),
        "head": revision(&diff.head),
        "metric": diff.primary.word(),
        "margin": diff.margin,
        "conditions": conditions.collect::<Vec<_>>(),
    })
}

/// The result as `NAME=VALUE` lines, for GitHub's step outputs and GitLab's dotenv reports:
/// verdict, metric, ratio, low and high.
///
/// A ratio without an interval is left empty.
pub fn diff_variables(run: &Run, diff: &Diff) -> String {
    let estimate = comparison(run, diff.primary).map(|comparison| comparison.judgement.ratio);
    let number = |of: fn(&Estimate) -> f64| {
        let value = estimate.as_ref().map(of).filter(|value| value.is_finite());
        value.map(|value| format!("{value:.6}")).unwrap_or_default()
    };
    format!(
        "verdict={}\nmetric={}\nratio={}\nlow={}\nhigh={}\n",
        diff.outcome.word(),
        diff.primary.word(),
        number(|e| e.value),
        number(|e| e.low),
        number(|e| e.high)
    )
}

/// Which values github-action-benchmark takes for better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `customSmallerIsBetter`: latency and CPU.
    Smaller,
    /// `customBiggerIsBetter`: throughput.
    Bigger,
}

/// A figure of the head to be tracked over commits.
struct TrackedFigure {
    metric: Metric,
    name: &'static str,
    unit: &'static str,
    estimate: Estimate,
}

fn figures(run: &Run) -> Vec<TrackedFigure> {
    let Some(part) = run.parts.first() else { return Vec::new() };
    let (closed, times) = (view::capacity(part, HEAD), view::latency_summary(part, HEAD));
    let (closed, times) = (closed.as_ref(), times.as_ref());
    let all = [
        (Metric::Throughput, "throughput", "requests/s", closed.map(|s| s.throughput_per_s)),
        (Metric::P50, "p50", "ns", times.map(|s| s.p50_ns)),
        (Metric::P99, "p99", "ns", times.map(|s| s.p99_ns)),
        (Metric::Cpu, "CPU per request", "ns", closed.and_then(|s| s.cpu_ns_per_request)),
    ];
    let is_usable = |metric: Metric, estimate: &Estimate| {
        let is_percentile = matches!(metric, Metric::P50 | Metric::P99);
        estimate.value.is_finite()
            && !(is_percentile && caveat::is_unsustained(part, HEAD))
            && !validity::is_void(part, HEAD, metric)
    };
    let usable = all.into_iter().filter_map(|(metric, name, unit, estimate)| {
        let estimate = estimate.filter(|estimate| is_usable(metric, estimate))?;
        Some(TrackedFigure { metric, name, unit, estimate })
    });
    usable.collect()
}

/// Figures of the head and their ratios to the base, as the JSON that github-action-benchmark reads
/// (<https://github.com/benchmark-action/github-action-benchmark>): an array of objects with name,
/// unit, value, range and extra.
pub fn tracked(run: &Run, diff: &Diff, direction: Direction) -> Value {
    let is_bigger = |tracked: &TrackedFigure| tracked.metric == Metric::Throughput;
    let wanted =
        figures(run).into_iter().filter(|t| is_bigger(t) == (direction == Direction::Bigger));
    let mut entries = Vec::new();
    for TrackedFigure { metric, name, unit, estimate } in wanted {
        let extra = format!("base {}, head {}", diff.base.short, diff.head.short);
        entries.push(entry(name, unit, &estimate, &extra));
        let ratios = comparison(run, metric).map(|comparison| comparison.judgement.ratio);
        if let Some(estimate) = ratios.filter(Estimate::is_bounded) {
            let (value, interval) = ratio(&estimate);
            let extra = format!("{extra}: {value} ({interval})");
            entries.push(entry(&format!("{name}, head ÷ base"), "ratio", &estimate, &extra));
        }
    }
    Value::Array(entries)
}

fn entry(name: &str, unit: &str, estimate: &Estimate, extra: &str) -> Value {
    let half = (estimate.high - estimate.low) / 2.0 / estimate.value * 100.0;
    let mut entry = json!({ "name": name, "unit": unit, "value": estimate.value, "extra": extra });
    if half.is_finite() {
        entry["range"] = json!(format!("± {half:.1}%"));
    }
    entry
}

/// Figures of the head as Bencher Metric Format
/// (<https://bencher.dev/docs/reference/bencher-metric-format>): one benchmark, named like the
/// server's command, with a measure per metric.
pub fn metric_format(run: &Run, diff: &Diff) -> Value {
    let mut measures = Map::new();
    let measure = |estimate: &Estimate| {
        let mut measure = json!({ "value": estimate.value });
        for (name, bound) in ["lower_value", "upper_value"].into_iter().zip(bounds(estimate)) {
            if let Some(bound) = bound {
                measure[name] = json!(bound);
            }
        }
        measure
    };
    for tracked in figures(run) {
        let slug = match tracked.metric {
            Metric::Throughput => "throughput",
            Metric::P50 => "latency",
            Metric::P99 => "latency-p99",
            Metric::Cpu => "cpu-per-request",
            Metric::Memory => "memory",
        };
        measures.insert(slug.to_owned(), measure(&tracked.estimate));
    }
    let primary = comparison(run, diff.primary).map(|comparison| comparison.judgement.ratio);
    if let Some(estimate) = primary.filter(Estimate::is_bounded) {
        measures.insert(format!("{}-ratio", diff.primary.word()), measure(&estimate));
    }
    let variant = run.parts.first().and_then(|part| part.variants.get(HEAD));
    let name = variant.map_or_else(String::new, |variant| variant.commands.join(" & "));
    json!({ name: measures })
}
