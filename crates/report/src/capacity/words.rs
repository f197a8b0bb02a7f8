//! A search for capacities in words.

use base::{Nanos, format_rate};
use record::{Capacity, CapacityOutcome, ClientLimit, Condition, Part, VariantCapacity};

use crate::text::{interval, plural, without_zeros};
use crate::view;

/// `p99 ≤ 50 ms`.
pub(crate) fn condition(condition: Condition) -> String {
    match condition {
        Condition::Latency { quantile, limit } => {
            format!("{} ≤ {}", quantile_name(quantile), time(limit))
        }
        Condition::Errors { share } => format!("errors ≤ {}", percent(share)),
        Condition::Cpu { share } => format!("CPU ≤ {}", percent(share)),
    }
}

/// `p99`, `p99.9`.
pub(crate) fn quantile_name(quantile: f64) -> String {
    let percent = format!("{:.4}", 100.0 * quantile);
    format!("p{}", without_zeros(&percent))
}

/// The quantile whose latency the trials show.
pub(crate) fn tail(capacity: &Capacity) -> String {
    let of = |condition: &Condition| match condition {
        Condition::Latency { quantile, .. } => Some(quantile_name(*quantile)),
        _ => None,
    };
    capacity.conditions.iter().find_map(of).unwrap_or_else(|| "p99".to_owned())
}

/// A limit as typed, without the zeros of a measured time.
fn time(limit: Nanos) -> String {
    let text = limit.to_string();
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", without_zeros(number)),
        None => text,
    }
}

/// A share as a percentage with enough digits.
pub(crate) fn percent(share: f64) -> String {
    let digits = if share >= 0.1 { 1 } else { 3 };
    let text = format!("{:.digits$}", 100.0 * share);
    format!("{}%", without_zeros(&text))
}

/// All conditions: `p99 ≤ 50 ms and errors ≤ 0.1%`.
pub(crate) fn conditions(capacity: &Capacity) -> String {
    let all: Vec<String> = capacity.conditions.iter().map(|c| condition(*c)).collect();
    all.join(" and ")
}

/// What was found for each variant, with a full stop.
pub(crate) fn sentences(part: &Part) -> Vec<String> {
    let Some(capacity) = &part.capacity else { return Vec::new() };
    capacity.variants.iter().map(|found| sentence(part, capacity, found)).collect()
}

fn sentence(part: &Part, capacity: &Capacity, found: &VariantCapacity) -> String {
    let name = view::name(part, found.variant);
    let rate = |rate: f64| format!("{} requests/s", format_rate(rate));
    let all = conditions(capacity);
    let holds = if capacity.conditions.len() > 1 { "hold" } else { "holds" };
    let held = if capacity.conditions.len() > 1 { "they" } else { "it" };
    match &found.outcome {
        CapacityOutcome::Found { per_s, by, blocks, anytime } => {
            let interval = interval(per_s, format_rate).unwrap_or_else(|| "unbounded".to_owned());
            let limiting = match capacity.conditions.get(*by as usize) {
                Some(first) if capacity.conditions.len() > 1 => {
                    format!("; {} is the first to stop holding", condition(*first))
                }
                _ => String::new(),
            };
            let stopped = if *anytime { "; stopped early, so the interval is wider" } else { "" };
            format!(
                "{name}: {all} {holds} up to {} (95% interval {interval}; {}{limiting}{stopped}).",
                rate(per_s.value),
                plural(u64::from(*blocks), "block"),
            )
        }
        CapacityOutcome::AtLeast { per_s } => format!(
            "{name}: at least {}: {all} still {holds} at the highest rate that may be offered \
             (--max-rate).",
            rate(*per_s)
        ),
        CapacityOutcome::Nowhere { per_s } => format!(
            "{name}: {all} does not hold at {}, the lowest rate that was tried.",
            rate(*per_s)
        ),
        CapacityOutcome::ClientLimited { held_per_s, per_s, limit } => {
            let held = held_per_s.map_or_else(
                || "no rate was offered as it should have been".to_owned(),
                |at| format!("the server takes at least {}, where {held} still held", rate(at)),
            );
            format!(
                "{name}: limited by the client at {} ({}); {held}.",
                rate(*per_s),
                client(limit)
            )
        }
        CapacityOutcome::Undecided { held_per_s, failed_per_s } => {
            let single = |at: &Option<f64>| at.map(rate);
            let seen = match (single(held_per_s), single(failed_per_s)) {
                (Some(held), Some(failed)) => {
                    format!("in single trials, {all} held at {held} and failed at {failed}")
                }
                (Some(held), None) => format!("in a single trial, {all} held at {held}"),
                (None, Some(failed)) => format!("in a single trial, {all} failed at {failed}"),
                (None, None) => "no trial was made".to_owned(),
            };
            format!("{name}: no interval, because too little was measured; {seen}.")
        }
    }
}

fn client(limit: &ClientLimit) -> String {
    match limit {
        ClientLimit::Busy { share } => {
            format!("a client thread was {:.0}% busy; use more --threads", 100.0 * share)
        }
        ClientLimit::Late { share } => {
            format!("{} of requests were sent too late because of the client", percent(*share))
        }
    }
}

/// What a reader should know about the connections, with a full stop.
pub(crate) fn notes(part: &Part) -> Vec<String> {
    let Some(capacity) = &part.capacity else { return Vec::new() };
    let note = |found: &VariantCapacity| {
        let [busy, near] = found.connections_busy;
        (2 * busy > near).then(|| {
            format!(
                "{}: all allowed connections were busy in {busy} of {} just below the capacity: \
                 requests waited for a connection; raise --max-connections to let the server \
                 have them.",
                view::name(part, found.variant),
                plural(u64::from(near), "trial")
            )
        })
    };
    capacity.variants.iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Estimate;

    const P99: Condition = Condition::Latency { quantile: 0.99, limit: Nanos::from_millis(50) };

    fn said(conditions: &[Condition], outcome: CapacityOutcome) -> String {
        let found = VariantCapacity { variant: 0, outcome, connections_busy: [0, 0] };
        let capacity =
            Capacity { conditions: conditions.to_vec(), variants: vec![found], trials: Vec::new() };
        let variant = record::Variant { name: "tcp".to_owned(), ..record::Variant::default() };
        let part = Part { variants: vec![variant], capacity: Some(capacity), ..Part::default() };
        sentences(&part).remove(0)
    }

    #[test]
    fn every_outcome_has_a_sentence_of_its_own() {
        let per_s = Estimate { value: 908.2, low: 880.0, high: 931.0 };
        let found = CapacityOutcome::Found { per_s, by: 0, blocks: 9, anytime: false };
        assert_eq!(
            said(&[P99], found.clone()),
            "tcp: p99 ≤ 50 ms holds up to 908 requests/s (95% interval 880–931; 9 blocks)."
        );
        assert_eq!(
            said(&[P99, Condition::Errors { share: 0.001 }], found),
            "tcp: p99 ≤ 50 ms and errors ≤ 0.1% hold up to 908 requests/s (95% interval 880–931; 9 \
             blocks; p99 ≤ 50 ms is the first to stop holding)."
        );
        assert_eq!(
            said(&[Condition::Cpu { share: 0.8 }], CapacityOutcome::AtLeast { per_s: 5000.0 }),
            "tcp: at least 5,000 requests/s: CPU ≤ 80% still holds at the highest rate that may be \
             offered (--max-rate)."
        );
        assert_eq!(
            said(&[P99], CapacityOutcome::Nowhere { per_s: 2.0 }),
            "tcp: p99 ≤ 50 ms does not hold at 2.00 requests/s, the lowest rate that was tried."
        );
        let limit = ClientLimit::Busy { share: 0.97 };
        let limited =
            CapacityOutcome::ClientLimited { held_per_s: Some(8000.0), per_s: 9500.0, limit };
        assert_eq!(
            said(&[P99], limited),
            "tcp: limited by the client at 9,500 requests/s (a client thread was 97% busy; use more \
             --threads); the server takes at least 8,000 requests/s, where it still held."
        );
        let undecided =
            CapacityOutcome::Undecided { held_per_s: Some(800.0), failed_per_s: Some(1000.0) };
        assert_eq!(
            said(&[P99], undecided),
            "tcp: no interval, because too little was measured; in single trials, p99 ≤ 50 ms held at \
             800 requests/s and failed at 1,000 requests/s."
        );
    }

    #[test]
    fn conditions_read_as_they_are_typed() {
        let p999 = Condition::Latency { quantile: 0.999, limit: Nanos::from_micros(1500) };
        assert_eq!(condition(p999), "p99.9 ≤ 1.5 ms");
        assert_eq!(condition(Condition::Errors { share: 0.0005 }), "errors ≤ 0.05%");
        assert_eq!(condition(Condition::Cpu { share: 0.8 }), "CPU ≤ 80%");
    }
}
