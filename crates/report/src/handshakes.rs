//! What TLS cost on new connections, apart from the requests on them.

use base::{Nanos, format_count};
use record::{Handshakes, Part};
use serde_json::{Value, json};

use crate::text::plural;
use crate::view;

/// The handshakes of all measured blocks of a variant, with those before the measurement; `None`
/// without TLS.
struct Sum<'a> {
    /// Of the first trial, for what all have in common.
    first: &'a Handshakes,
    count: u64,
    resumed: u64,
    mean: Nanos,
}

fn sum(part: &Part, variant: usize) -> Option<Sum<'_>> {
    let trials = part.measured_blocks().flat_map(|block| &block.trials);
    let all: Vec<&Handshakes> = trials
        .filter(|trial| trial.variant as usize == variant)
        .filter_map(|trial| trial.handshakes.as_ref())
        .collect();
    let first = *all.first()?;
    let count = all.iter().map(|of| of.took.count).sum::<u64>();
    let nanos = all.iter().map(|of| of.took.mean_ns * of.took.count as f64).sum::<f64>();
    let mean = Nanos((nanos / count.max(1) as f64).round() as u64);
    Some(Sum { first, count, resumed: all.iter().map(|of| of.resumed).sum(), mean })
}

/// `TLS 1.3 (TLS13_AES_256_GCM_SHA384), 1,234 handshakes of 1.20 ms on average, none resumed`, for each
/// variant that speaks TLS; with the variant's name if there are several.
pub(crate) fn in_words(part: &Part) -> Vec<String> {
    let of = |variant: usize| {
        let Sum { first, count, resumed, mean } = sum(part, variant)?;
        let resumed = match resumed {
            0 => "none resumed".to_owned(),
            all if all == count => "all resumed".to_owned(),
            some => format!("{} resumed", format_count(some)),
        };
        let name = match part.variants.len() {
            1 => String::new(),
            _ => format!("{}: ", view::name(part, variant as u32)),
        };
        Some(format!(
            "{name}{} ({}), {} of {mean} on average, {resumed}",
            first.version,
            first.cipher,
            plural(count, "handshake"),
        ))
    };
    (0..part.variants.len()).filter_map(of).collect()
}

/// The handshakes of a trial; null without TLS or without new connections.
pub(crate) fn of_trial(handshakes: Option<&Handshakes>) -> Value {
    handshakes.map_or(Value::Null, |of| {
        json!({
            "count": of.took.count,
            "resumed": of.resumed,
            "version": of.version,
            "cipher": of.cipher,
            "mean_ns": of.took.mean_ns.round() as u64,
            "p50_ns": of.took.p50_ns,
            "p99_ns": of.took.p99_ns,
            "max_ns": of.took.max_ns,
        })
    })
}
