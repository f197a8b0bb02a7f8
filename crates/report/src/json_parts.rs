//! Parts of the JSON of all runs.

use ledger::Ledger;
use record::{Distribution, Finding, Load, Part, RunState, ServedBy};
use serde_json::{Value, json};

use crate::{fact, view};

/// A run's state in JSON.
pub(crate) fn state_json(state: RunState) -> &'static str {
    match state {
        RunState::Running => "cut_off",
        RunState::Done => "done",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
    }
}

/// The load; the size of a message or chunk is null if the exchange has none.
pub(crate) fn load_json(load: &Load) -> Value {
    let exchange = json!(load.exchange);
    let connections = load.connections.div_ceil(load.streams.max(1));
    json!({
        "connections": if load.is_mixed { load.connections } else { connections },
        "http": (!load.is_mixed).then_some(if load.http2 { "2" } else { "1.1" }),
        "streams": (!load.is_mixed).then_some(load.streams.max(1)),
        "threads": load.threads,
        "new_connection": load.new_connection,
        "exchange": exchange["kind"],
        "exchange_bytes": exchange["bytes"],
        "engines": load.engines,
        "busy_poll": load.busy_poll,
        "linger_zero": load.linger_zero,
        "insecure": load.insecure,
        "tls_resumption": load.tls_resumption,
        "kinds": load.kinds,
        "events": load.events,
        "method": load.method,
    })
}

/// The source of a server-side count; the WSGI counter has no address.
pub(crate) fn served_by_json(by: &ServedBy) -> Value {
    let by = json!(by);
    json!({ "kind": by["kind"], "place": by["place"] })
}

/// A finding: its numbers and its text.
pub(crate) fn finding_json(part: &Part, finding: &Finding) -> Value {
    let mut numbers = json!(finding.fact);
    if let Some(numbers) = numbers.as_object_mut() {
        numbers.remove("check");
    }
    json!({
        "part": part.name,
        "check": finding.fact.check(),
        "severity": finding.severity,
        "block": finding.block,
        "variant": finding.variant.map(|variant| view::name(part, variant)),
        "fact": numbers,
        "sentence": fact::words(part, finding),
    })
}

/// The ledger's columns; null where there is no count.
pub(crate) fn ledger_json(ledger: &Ledger) -> Value {
    let c = &ledger.counts;
    json!({
        "offered": c.offered,
        "dropped": c.dropped,
        "sent": c.sent,
        "completed": c.completed,
        "failed": c.failed,
        "in_flight": c.in_flight,
        "reconnected": c.reconnected,
        "served": ledger.served,
        "discarded": ledger.discarded,
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

/// Nanoseconds as an integer; null if NaN.
pub(crate) fn whole(value: f64) -> Value {
    if value.is_finite() { Value::from(value.round() as i64) } else { Value::Null }
}
