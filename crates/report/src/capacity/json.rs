//! A search for capacities as JSON, schema version 1: `docs/schema/capacity-1.json`.

use record::{
    CapacityOutcome, CapacityTrial, Condition, Part, Run, RunKind, Variant, VariantCapacity,
};
use serde_json::{Value, json};

use super::words;
use crate::json_parts::{finding_json, ledger_json, load_json, state_json};
use crate::validity::{self, RunVerdict};
use crate::{verdict, view};

/// The object for a run of `tachograph capacity`; `None` for any other run.
pub(crate) fn json(run: &Run) -> Option<Value> {
    let part = run.parts.first().filter(|_| run.kind == RunKind::Capacity)?;
    let mut json = of_part(part)?;
    let head = json!({
        "schema": 1,
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
        "started": run.started.to_string(),
        "finished": run.finished.map(|at| at.to_string()),
        "version": run.version,
        "seed": run.seed.0,
        "command_line": run.command_line,
        "layout": part.layout,
        "load": load_json(&part.load),
        "precision": part.precision,
        "blocks": part.complete_blocks().count(),
        "validity": part.findings.iter().map(|f| finding_json(part, f)).collect::<Vec<_>>(),
        "machine": run.machine,
    });
    if let (Value::Object(json), Value::Object(head)) = (&mut json, head) {
        json.extend(head);
    }
    Some(json)
}

/// What a search found; `None` for a part that is none.
pub(crate) fn of_part(part: &Part) -> Option<Value> {
    let capacity = part.capacity.as_ref()?;
    let variants = capacity.variants.iter().zip(words::sentences(part));
    Some(json!({
        "conditions": capacity.conditions.iter().map(|c| condition_json(*c)).collect::<Vec<_>>(),
        "variants": variants.map(|(found, sentence)| variant_json(part, found, &sentence)).collect::<Vec<_>>(),
        "ratios": part.comparisons.iter().map(|comparison| {
            let judgement = &comparison.judgement;
            json!({
                "baseline": view::name(part, comparison.baseline),
                "variant": view::name(part, comparison.variant),
                "ratio": judgement.ratio.value,
                "low": judgement.ratio.low,
                "high": finite(judgement.ratio.high),
                "confidence": judgement.confidence,
                "anytime": judgement.anytime,
                "blocks": judgement.blocks,
                "verdict": judgement.verdict,
                "sentence": verdict::sentence(part, comparison),
            })
        }).collect::<Vec<_>>(),
        "trials": capacity.trials.iter().map(|trial| trial_json(part, trial)).collect::<Vec<_>>(),
        "notes": words::notes(part),
    }))
}

/// An end without a bound is null.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

fn condition_json(condition: Condition) -> Value {
    let (kind, quantile, limit_ns) = match condition {
        Condition::Latency { quantile, limit } => ("latency", Some(quantile), Some(limit.0)),
        Condition::Errors { .. } => ("errors", None, None),
        Condition::Cpu { .. } => ("cpu", None, None),
    };
    json!({
        "kind": kind,
        "quantile": quantile,
        "limit_ns": limit_ns,
        "share": condition.limit(),
        "sentence": words::condition(condition),
    })
}

fn variant_json(part: &Part, found: &VariantCapacity, sentence: &str) -> Value {
    let unknown = Variant::default();
    let variant = part.variants.get(found.variant as usize).unwrap_or(&unknown);
    let outcome = json!(found.outcome);
    let estimate = match &found.outcome {
        CapacityOutcome::Found { per_s, .. } => {
            json!({ "value": per_s.value, "low": per_s.low, "high": finite(per_s.high) })
        }
        _ => Value::Null,
    };
    let bound = match found.outcome {
        CapacityOutcome::AtLeast { per_s }
        | CapacityOutcome::Nowhere { per_s }
        | CapacityOutcome::ClientLimited { per_s, .. } => Some(per_s),
        _ => None,
    };
    json!({
        "name": variant.name,
        "commands": variant.commands,
        "target": variant.target,
        "outcome": outcome["kind"],
        "capacity_per_s": estimate,
        "limited_by": outcome["by"],
        "anytime": outcome["anytime"],
        "rate_per_s": bound,
        "held_per_s": outcome["held_per_s"],
        "failed_per_s": outcome["failed_per_s"],
        "client_limit": outcome["limit"]["kind"],
        "client_share": outcome["limit"]["share"],
        "ledger": ledger_json(&variant.ledger),
        "errors": variant.ledger.errors,
        "sentence": sentence,
    })
}

fn trial_json(part: &Part, trial: &CapacityTrial) -> Value {
    let client = json!(trial.client);
    json!({
        "variant": view::name(part, trial.variant),
        "block": trial.block,
        "round": trial.round,
        "offered_per_s": trial.offered_per_s,
        "lead_in_ns": trial.lead_in.0,
        "window_ns": trial.window.0,
        "due": trial.due,
        "slow": trial.slow,
        "offered": trial.offered,
        "failed": trial.failed,
        "answered": trial.answered,
        "cpu": trial.cpu,
        "p50_ns": trial.p50_ns,
        "tail_ns": trial.tail_ns,
        "holds": trial.holds,
        "kept": trial.kept,
        "connections_busy": trial.connections_busy,
        "client_limit": client["kind"],
        "client_share": client["share"],
    })
}
