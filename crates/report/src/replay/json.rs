//! A replay as JSON, schema version 1: `docs/schema/replay-1.json`.

use record::{DifferenceGroup, DifferenceKind, FailureCause, Pair, Replay, Side};
use serde_json::{Value, json};

use super::words;
use crate::json_parts::state_json;

/// The object that is described in `docs/schema/replay-1.json`.
pub fn replay_json(replay: &Replay) -> Value {
    let server = |side: Side| {
        let ledger = replay.ledgers.of(side);
        json!({
            "command": replay.servers.of(side).command,
            "machine": replay.servers.of(side).machine,
            "sent": ledger.counts.sent,
            "completed": ledger.counts.completed,
            "failed": ledger.counts.failed,
            "in_flight": ledger.counts.in_flight,
            "errors": ledger.errors,
        })
    };
    json!({
        "schema": 1,
        "kind": "replay",
        "state": state_json(replay.state),
        "sentence": words::headline(replay),
        "error": replay.error,
        "adds_up": replay.adds_up(),
        "log": replay.log,
        "started": replay.started.to_string(),
        "elapsed_ns": replay.elapsed.0,
        "version": replay.version,
        "command_line": replay.command_line,
        "connections": replay.connections,
        "speed": replay.speed,
        "late_ns": replay.speed.map(|_| replay.late.0),
        "compared": { "headers": replay.headers, "ignored": replay.ignored },
        "entries": replay.entries,
        "left_out": replay.left_out,
        "asked": replay.asked,
        "same": replay.same,
        "different": replay.different,
        "failed": {
            "old": replay.failed.old,
            "new": replay.failed.new,
            "both": replay.failed.both,
        },
        "in_flight": replay.in_flight,
        "old": server(Side::Old),
        "new": server(Side::New),
        "differences": replay.groups.iter().map(group_json).collect::<Vec<_>>(),
        "ungrouped": replay.ungrouped,
        "failures": replay.failures.iter().map(failure_json).collect::<Vec<_>>(),
    })
}

/// What kind of difference it is, and its place: a header, a pointer, or whose answer has a member.
fn group_json(group: &DifferenceGroup) -> Value {
    let (kind, place, side) = match &group.kind {
        DifferenceKind::Status { .. } => ("status", None, None),
        DifferenceKind::Header { name } => ("header", Some(name), None),
        DifferenceKind::JsonValue { pointer } => ("json_value", Some(pointer), None),
        DifferenceKind::JsonLength { pointer } => ("json_length", Some(pointer), None),
        DifferenceKind::JsonMember { pointer, side } => ("json_member", Some(pointer), Some(side)),
        DifferenceKind::Body => ("body", None, None),
    };
    let example = &group.example;
    let Pair { old, new } = &example.values;
    json!({
        "kind": kind,
        "place": place,
        "only_in": side.map(|side| side.word()),
        "sentence": words::difference(&group.kind),
        "requests": group.requests,
        "example": {
            "line": example.line,
            "method": example.method,
            "path": example.path,
            "old": old,
            "new": new,
        },
    })
}

fn failure_json(failure: &FailureCause) -> Value {
    json!({
        "side": failure.side.word(),
        "cause": failure.cause,
        "requests": failure.requests,
        "line": failure.line,
        "request": failure.request,
    })
}
