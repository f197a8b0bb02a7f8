//! JSON, schema version 2: described in `docs/json.md`, machine-readable in `docs/schema/`.

use record::{
    ActionTaken, Block, Comparison, Disruption, Distribution, Disturbance, Offer, Part, Run, Slice,
    StepTaken, Summary, Trial, Variant,
};
use serde_json::{Value, json};
use stats::Estimate;

use crate::changes::{self, Effect};
use crate::json_parts::{
    distribution_json, finding_json, ledger_json, load_json, served_by_json, state_json, whole,
};
use crate::load::LoadReport;
use crate::validity::RunVerdict;
use crate::{capacity, caveat, handshakes, kinds, setting, streams, validity, verdict, view};

/// The run as one JSON object: `docs/schema/load-2.json` for a run of `load`,
/// `docs/schema/capacity-1.json` for one of `capacity`, `docs/schema/compare-2.json` for the others.
///
/// Durations are integer nanoseconds, times RFC 3339 in UTC; unknown values are null.
pub fn json(run: &Run) -> Value {
    if let Some(report) = LoadReport::from_run(run) {
        return report.json();
    }
    if let Some(json) = capacity::json::json(run) {
        return json;
    }
    let each = |of: &dyn Fn(usize, &Part) -> Vec<Value>| -> Vec<Value> {
        run.parts.iter().enumerate().flat_map(|(index, part)| of(index, part)).collect()
    };
    // Where the findings of each part begin in the list of all findings.
    let first_finding =
        |index: usize| -> usize { run.parts[..index].iter().map(|p| p.findings.len()).sum() };
    json!({
        "schema": 2,
        "run": run.id.as_str(),
        "kind": run.kind,
        "state": state_json(run.state),
        "verdict": RunVerdict::of(run).word(),
        "reasons": match RunVerdict::of(run) {
            RunVerdict::Incomplete => validity::shortfalls(run),
            _ => validity::reasons(run),
        },
        "name": run.name,
        "title": run.title,
        "question": run.question,
        // Filled in by `tachograph diff`.
        "diff": null,
        "started": run.started.to_string(),
        "finished": run.finished.map(|at| at.to_string()),
        "version": run.version,
        "seed": run.seed.0,
        "command_line": run.command_line,
        "parts": run.parts.iter().map(|part| part_json(run, part)).collect::<Vec<_>>(),
        "variants": each(&|_, part| {
            part.variants.iter().enumerate().map(|(i, v)| variant_json(part, i, v)).collect()
        }),
        "comparisons": each(&|index, part| {
            let first = first_finding(index);
            part.comparisons.iter().map(|c| comparison_json(part, first, c)).collect()
        }),
        "effects": changes::effects(run).iter().map(Effect::json).collect::<Vec<_>>(),
        "validity": each(&|_, part| {
            part.findings.iter().map(|finding| finding_json(part, finding)).collect()
        }),
        "machine": run.machine,
    })
}

fn part_json(run: &Run, part: &Part) -> Value {
    json!({
        "name": part.name,
        "question": part.question,
        "layout": part.layout,
        "load": load_json(&part.load),
        "precision": part.precision,
        "quick": part.quick,
        "independent_starts": part.independent_starts,
        "bulk": part.is_bulk(),
        "blocks": part.complete_blocks().count(),
        "blocks_left_out": part.measured_blocks().filter(|b| !b.is_complete()).count(),
        "reasons": match validity::is_part_invalid(part) {
            true => validity::of_part(part),
            false => Vec::new(),
        },
        "disturbance": part.disturbance.map(|d| disturbance_json(run, part, &d)),
        "published": part.published,
        "why": part.why,
        "capacity": capacity::json::of_part(part),
        "kinds": kinds::comparisons(part),
        "streams": streams::comparisons(part),
    })
}

fn disturbance_json(run: &Run, part: &Part, d: &Disturbance) -> Value {
    json!({
        "other_cpus": d.other_cpus,
        "stolen": d.stolen,
        "rounds": d.rounds,
        "rounds_left_out": d.rounds_left_out,
        "half_width": d.half_width,
        "half_width_if_quiet": d.half_width_if_quiet,
        "sentence": setting::disturbance(part, &run.machine),
    })
}

fn variant_json(part: &Part, index: usize, variant: &Variant) -> Value {
    let summaries = view::summaries(part, index);
    let capacity = view::capacity(part, index);
    let times = view::latency_summary(part, index);
    let offer = view::times_offer(part);
    let trials: Vec<Value> = part
        .measured_blocks()
        .flat_map(|block| block.measured_trials().map(move |trial| (block, trial)))
        .filter(|(_, trial)| trial.variant as usize == index)
        .map(|(block, trial)| trial_json(part, block, trial))
        .collect();
    json!({
        "part": part.name,
        "name": variant.name,
        "command": variant.commands.join(" & "),
        "commands": variant.commands,
        "target": variant.target,
        "served_by": variant.served_by.as_ref().map(served_by_json),
        "ceiling": variant.ceiling,
        "skipped": variant.skipped,
        "provisional": !summaries.is_empty() && view::is_provisional(part),
        "sustained": times
            .as_ref()
            .filter(|summary| summary.offer == Offer::Open)
            .map(|_| !caveat::is_unsustained(part, index)),
        "throughput_per_s": capacity.as_ref().map(|s| estimate_json(&s.throughput_per_s)),
        "bytes_per_s": capacity.as_ref().map(|s| s.bytes_per_s),
        "latency_ns": times.as_ref().map(typical_json),
        "service_time_ns": service_time_json(part, index, offer),
        "cpu_ns_per_request":
            capacity.as_ref().and_then(|s| s.cpu_ns_per_request).map(|e| whole(e.value)),
        "peak_memory_bytes": summaries.iter().filter_map(|s| s.peak_memory_bytes).max(),
        "ledger": ledger_json(&variant.ledger),
        "errors": variant.ledger.errors,
        "offers": summaries.iter().map(summary_json).collect::<Vec<_>>(),
        "trials": trials,
    })
}

/// The percentiles of all blocks together, as tables show them; of a run that ended before its
/// analysis, geometric means over trials.
fn typical_json(summary: &Summary) -> Value {
    json!({
        "p50": whole(summary.p50_ns.value),
        "p90": whole(summary.p90_ns.value),
        "p99": whole(summary.p99_ns.value),
    })
}

/// Geometric means over trials of the percentiles of service times, under the offer that latency is
/// taken from; null without trials.
fn service_time_json(part: &Part, variant: usize, offer: Offer) -> Value {
    let of = |figure: fn(&Distribution) -> u64| {
        let trials = view::trials(part, variant, offer);
        whole(view::geometric_mean(trials.map(|(_, t)| figure(&t.service_time) as f64)))
    };
    if view::trials(part, variant, offer).next().is_none() {
        return Value::Null;
    }
    json!({ "p50": of(|d| d.p50_ns), "p90": of(|d| d.p90_ns), "p99": of(|d| d.p99_ns) })
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

fn trial_json(part: &Part, block: &Block, trial: &Trial) -> Value {
    json!({
        "block": block.index,
        "block_state": block.state,
        "offer": trial.offer,
        "offered_per_s": trial.offered_per_s,
        "started": trial.started.to_string(),
        "slices": trial.slices.iter().map(slice_json).collect::<Vec<_>>(),
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
        "client": {
            "cpu_ns": (!trial.client.is_empty()).then(|| trial.client_cpu().0),
            "busy": (!trial.client.is_empty()).then(|| trial.client_busy()),
        },
        "peak_memory_bytes": trial.peak_memory_bytes,
        "series": { "step_ns": trial.step.0, "completed": trial.completed_by_step },
        "handshakes": handshakes::of_trial(trial.handshakes.as_ref()),
        "disruption": trial.disruption.as_ref().map(disruption_json),
        "kinds": kinds::of_trial(part, trial),
        "stream": streams::of_trial(trial.stream.as_ref()),
    })
}

/// What was done to the stack during a trial, and what it cost.
fn disruption_json(disruption: &Disruption) -> Value {
    let action = |action: &ActionTaken| {
        json!({
            "name": action.name,
            "started": action.started.to_string(),
            "at_ns": action.at.0,
            "took_ns": action.took.0,
            "lost": action.failed,
            "steps": action.steps.iter().map(step_json).collect::<Vec<_>>(),
        })
    };
    json!({
        "longest_wait_ns": disruption.longest_wait.0,
        "lost_before": disruption.failed_before,
        "new_processes": disruption.new_processes,
        "actions": disruption.actions.iter().map(action).collect::<Vec<_>>(),
    })
}

fn step_json(step: &StepTaken) -> Value {
    let outcome = json!(step.outcome);
    json!({
        "what": step.what,
        "at_ns": step.at.0,
        "outcome": outcome["kind"],
        "pid": outcome["pid"],
        "status": outcome["status"],
        "signal": outcome["signal"],
    })
}

fn slice_json(slice: &Slice) -> Value {
    json!({
        "round": slice.round,
        "window_ns": slice.window.0,
        "completed": slice.completed,
        "other_cpus": slice.other_cpus,
        "stolen": slice.stolen,
        "kept": slice.kept,
    })
}

/// A comparison; findings are numbered as in the run's `validity`, where the part's begin at
/// `first`.
fn comparison_json(part: &Part, first: usize, comparison: &Comparison) -> Value {
    let judgement = &comparison.judgement;
    json!({
        "part": part.name,
        "baseline": view::name(part, comparison.baseline),
        "variant": view::name(part, comparison.variant),
        "metric": comparison.metric,
        "offer": comparison.offer,
        "primary": comparison.primary,
        "ratio": judgement.ratio.value,
        "low": judgement.ratio.low,
        "high": judgement.ratio.high,
        "confidence": judgement.confidence,
        "precision": judgement.precision,
        "margin": judgement.margin,
        "adjusted_for": judgement.adjusted_for,
        "anytime": judgement.anytime,
        "blocks": judgement.blocks,
        "merged": judgement.merged,
        "second_opinion": judgement.second_opinion,
        "second_opinion_p": judgement.second_opinion_p,
        "blocks_of_new_run": judgement.more_blocks,
        "biases": biases_json(judgement),
        "verdict": judgement.verdict,
        "because": comparison.because.iter().map(|i| first + *i as usize).collect::<Vec<_>>(),
        "weakened_by": caveat::weakening(part, comparison)
            .into_iter()
            .map(|i| first + i as usize)
            .collect::<Vec<_>>(),
        "sentence": verdict::sentence(part, comparison),
    })
}

/// The bounded biases of a judgement, with the factors by which the ratio may be off.
fn biases_json(judgement: &stats::Judgement) -> Value {
    let bias = |bias: &stats::Bias| json!({ "cause": bias.cause, "factor": bias.factor() });
    judgement.biases.iter().map(bias).collect()
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({ "geometric_mean": estimate.value, "low": estimate.low, "high": estimate.high })
}

fn whole_estimate(estimate: &Estimate) -> Value {
    json!({
        "geometric_mean": whole(estimate.value),
        "low": whole(estimate.low),
        "high": whole(estimate.high),
    })
}
