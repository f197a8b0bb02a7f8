//! JSON, schema version 1: `docs/json.md` in words, `docs/schema/` for machines.

use ledger::Ledger;
use record::{Comparison, Distribution, Part, Run, RunKind, RunState, Summary, Trial, Variant};
use serde_json::{Map, Value, json};
use stats::Estimate;

use crate::load::LoadReport;
use crate::view;

/// The run as one JSON object: `docs/schema/load-1.json` for a run of `load`,
/// `docs/schema/compare-1.json` for the others.
///
/// Times are integer nanoseconds, times of day RFC 3339 in UTC; what is unknown is null.
pub fn json(run: &Run) -> Value {
    if let Some(report) = LoadReport::from_run(run) {
        return report.to_json();
    }
    let mut reasons = view::reasons(run);
    let state = match run.state {
        RunState::Running => "cut_off",
        RunState::Done => "done",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
    };
    if matches!(run.state, RunState::Running | RunState::Failed) && reasons.is_empty() {
        reasons.extend(view::state_in_words(run).map(str::to_owned));
    }
    let each =
        |of: fn(&Part) -> Vec<Value>| -> Vec<Value> { run.parts.iter().flat_map(of).collect() };
    json!({
        "schema": 1,
        "run": run.id.as_str(),
        "kind": match run.kind {
            RunKind::Load => "load",
            RunKind::Compare => "compare",
            RunKind::Run => "run",
        },
        "state": state,
        "verdict": if reasons.is_empty() { "ok" } else { "invalid" },
        "reasons": reasons,
        "name": run.name,
        "title": run.title,
        "question": run.question,
        "started": run.started.to_string(),
        "finished": run.finished.map(|at| at.to_string()),
        "version": run.version,
        "seed": run.seed.0,
        "command_line": run.command_line,
        "parts": run.parts.iter().map(part_json).collect::<Vec<_>>(),
        "variants": each(|part| {
            part.variants.iter().enumerate().map(|(i, v)| variant_json(part, i, v)).collect()
        }),
        "comparisons": each(|part| {
            part.comparisons.iter().map(|c| comparison_json(part, c)).collect()
        }),
        "validity": each(validity_json),
        "machine": run.machine,
    })
}

fn part_json(part: &Part) -> Value {
    let (accepted, rejected) = view::block_counts(part);
    json!({
        "name": part.name,
        "question": part.question,
        "layout": part.layout,
        "load": part.load,
        "precision": part.precision,
        "quick": part.quick,
        "bulk": part.bulk,
        "blocks": accepted,
        "rejected_blocks": rejected,
        "reasons": part.reasons,
        "published": part.published,
    })
}

fn variant_json(part: &Part, index: usize, variant: &Variant) -> Value {
    let capacity = view::capacity(variant);
    let times: Vec<&Trial> =
        view::trials(part, index, view::times_offer(part)).map(|(_, trial)| trial).collect();
    let trials: Vec<Value> = part
        .measured_blocks()
        .flat_map(|block| block.measured_trials().map(move |trial| (block, trial)))
        .filter(|(_, trial)| trial.variant as usize == index)
        .map(|(block, trial)| trial_json(block.index, block.accepted(), trial))
        .collect();
    json!({
        "part": part.name,
        "name": variant.name,
        "command": variant.commands.join(" & "),
        "commands": variant.commands,
        "target": variant.target,
        "served_by": variant.served_by,
        "skipped": variant.skipped,
        "throughput_per_s": capacity.map(|s| estimate_json(&s.throughput_per_s)),
        "bytes_per_s": capacity.map(|s| s.bytes_per_s),
        "latency_ns": typical(&times.iter().map(|t| view::times(t)).collect::<Vec<_>>()),
        "service_time_ns": typical(&times.iter().map(|t| &t.service_time).collect::<Vec<_>>()),
        "cpu_ns_per_request": capacity.and_then(|s| s.cpu_ns_per_request).map(|e| whole(e.value)),
        "peak_memory_bytes": variant.summaries.iter().filter_map(|s| s.peak_memory_bytes).max(),
        "ledger": ledger_json(&variant.ledger),
        "errors": variant.ledger.errors,
        "offers": variant.summaries.iter().map(summary_json).collect::<Vec<_>>(),
        "trials": trials,
    })
}

fn summary_json(summary: &Summary) -> Value {
    json!({
        "offer": summary.offer,
        "offered_per_s": summary.offered_per_s,
        "throughput_per_s": estimate_json(&summary.throughput_per_s),
        "bytes_per_s": summary.bytes_per_s,
        "p50_ns": whole_estimate(&summary.p50_ns),
        "p90_ns": whole_estimate(&summary.p90_ns),
        "p99_ns": whole_estimate(&summary.p99_ns),
        "cpu_ns_per_request": summary.cpu_ns_per_request.as_ref().map(whole_estimate),
        "machine_ns_per_request": summary.machine_ns_per_request.as_ref().map(whole_estimate),
        "peak_memory_bytes": summary.peak_memory_bytes,
    })
}

fn trial_json(block: u32, accepted: bool, trial: &Trial) -> Value {
    json!({
        "block": block,
        "accepted": accepted,
        "offer": trial.offer,
        "offered_per_s": trial.offered_per_s,
        "started": trial.started.to_string(),
        "slices": trial.slices,
        "window_ns": trial.window.0,
        "throughput_per_s": trial.throughput_per_s(),
        "payload_bytes": trial.payload_bytes,
        "latency_ns": distribution_json(view::times(trial)),
        "service_time_ns": distribution_json(&trial.service_time),
        "lateness_ns": trial.lateness.as_ref().map(distribution_json),
        "ledger": ledger_json(&trial.ledger),
        "errors": trial.ledger.errors,
        "stack_cpu_ns": trial.stack_cpu.map(|cpu| cpu.0),
        "machine_busy_ns": trial.machine_busy.map(|busy| busy.0),
        "client": { "cpu_ns": trial.client_cpu.0, "busy": trial.client_busy },
        "peak_memory_bytes": trial.peak_memory_bytes,
        "series": { "step_ns": trial.step.0, "completed": trial.completed_by_step },
    })
}

fn comparison_json(part: &Part, comparison: &Comparison) -> Value {
    json!({
        "part": part.name,
        "baseline": view::name(part, comparison.baseline),
        "variant": view::name(part, comparison.variant),
        "metric": comparison.metric,
        "offer": comparison.offer,
        "primary": comparison.primary,
        "ratio": comparison.ratio.value,
        "low": comparison.ratio.low,
        "high": comparison.ratio.high,
        "confidence": comparison.confidence,
        "adjusted_for": comparison.adjusted_for,
        "anytime": comparison.anytime,
        "verdict": comparison.verdict,
        "sentence": view::plain(&comparison.sentence),
        "blocks": comparison.blocks,
    })
}

fn validity_json(part: &Part) -> Vec<Value> {
    let finding = |finding: &record::Finding| {
        json!({
            "part": part.name,
            "check": finding.check,
            "severity": finding.severity,
            "block": finding.block,
            "variant": finding.variant.map(|variant| view::name(part, variant)),
            "value": finding.value,
            "limit": finding.limit,
            "sentence": view::plain(&finding.sentence),
        })
    };
    part.findings.iter().map(finding).collect()
}

/// The ledger's columns; null where nobody counted.
pub(crate) fn ledger_json(ledger: &Ledger) -> Value {
    let c = &ledger.counts;
    json!({
        "offered": c.offered,
        "dropped": c.dropped,
        "sent": c.sent,
        "completed": c.completed,
        "failed": c.failed,
        "in_flight": c.in_flight,
        "served": ledger.served,
        "series": ledger.series,
    })
}

/// Percentiles in integer nanoseconds.
pub(crate) fn distribution_json(d: &Distribution) -> Value {
    json!({
        "min": d.min_ns,
        "p50": d.p50_ns,
        "p90": d.p90_ns,
        "p99": d.p99_ns,
        "p99_9": d.p99_9_ns,
        "p99_99": d.p99_99_ns,
        "max": d.max_ns,
        "mean": whole(d.mean_ns),
    })
}

/// Several trials' percentiles as one: their medians, the smallest minimum and the largest maximum.
/// Null if there is no trial.
fn typical(distributions: &[&Distribution]) -> Value {
    let middle = |of: fn(&Distribution) -> f64| {
        view::median(distributions.iter().map(|d| of(d)).collect()).map_or(Value::Null, whole)
    };
    if distributions.is_empty() {
        return Value::Null;
    }
    let mut object = Map::new();
    object.insert("min".to_owned(), distributions.iter().map(|d| d.min_ns).min().into());
    object.insert("p50".to_owned(), middle(|d| d.p50_ns as f64));
    object.insert("p90".to_owned(), middle(|d| d.p90_ns as f64));
    object.insert("p99".to_owned(), middle(|d| d.p99_ns as f64));
    object.insert("p99_9".to_owned(), middle(|d| d.p99_9_ns as f64));
    object.insert("p99_99".to_owned(), middle(|d| d.p99_99_ns as f64));
    object.insert("max".to_owned(), distributions.iter().map(|d| d.max_ns).max().into());
    object.insert("mean".to_owned(), middle(|d| d.mean_ns));
    Value::Object(object)
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({ "mean": estimate.value, "low": estimate.low, "high": estimate.high })
}

fn whole_estimate(estimate: &Estimate) -> Value {
    json!({
        "mean": whole(estimate.value),
        "low": whole(estimate.low),
        "high": whole(estimate.high),
    })
}

/// A number of nanoseconds as an integer; null if it is not a number.
fn whole(value: f64) -> Value {
    if value.is_finite() { Value::from(value.round() as i64) } else { Value::Null }
}
