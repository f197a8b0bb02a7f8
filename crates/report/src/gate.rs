//! Outcomes of `--fail-if` conditions in words.

mod decide;

use base::{Nanos, format_count, format_rate};
use record::{GateDecision, GateFigure, GateOutcome, GateTest, GateUnknown};
use stats::Estimate;

pub use self::decide::{decide_conditions, outcome_of_diff};
use crate::text::{interval, plural, ratio, size, value};

/// One line: `inconclusive: b.p99 > 1.05 * a.p99 (p99 of b ÷ a: 1.11×, 0.33–3.73)`.
pub fn gate(outcome: &GateOutcome) -> String {
    let word = match outcome.decision {
        GateDecision::Fails => "triggered",
        GateDecision::Passes => "not triggered",
        GateDecision::Inconclusive => "inconclusive",
    };
    // Tests decided the other way do not affect the outcome.
    let counts = |test: &&GateTest| {
        test.decision == outcome.decision || outcome.decision == GateDecision::Passes
    };
    let mut reasons: Vec<String> = Vec::new();
    for reason in outcome.tests.iter().filter(counts).flat_map(reasons_of) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    match reasons.as_slice() {
        [] => format!("{word}: {}", outcome.condition),
        reasons => format!("{word}: {} ({})", outcome.condition, reasons.join("; ")),
    }
}

fn reasons_of(test: &GateTest) -> Vec<String> {
    match &test.unknown {
        Some(unknown) => vec![unknown_in_words(unknown)],
        None => test.figures.iter().map(figure).collect(),
    }
}

fn unknown_in_words(unknown: &GateUnknown) -> String {
    match unknown {
        GateUnknown::NotMeasured { variant, metric } => {
            format!("{metric} of {variant} was not measured")
        }
        GateUnknown::Invalid { variant, metric } => format!("{metric} of {variant} is INVALID"),
        GateUnknown::Unsustained { variant, metric } => {
            format!(
                "{metric} of {variant} is not gated: {variant} did not sustain the offered rate"
            )
        }
        GateUnknown::FewBlocks { blocks, needed } => {
            format!("only {}, {needed} needed", plural(u64::from(*blocks), "block"))
        }
        GateUnknown::FewRequests { completed, needed } => {
            format!("only {} completed, {needed} needed", plural(*completed, "request"))
        }
        GateUnknown::NoValue => "one side has no value, such as 0 ÷ 0".to_owned(),
    }
}

fn figure(figure: &GateFigure) -> String {
    let GateFigure { part, variant, other, metric, estimate } = figure;
    let part = part.as_ref().map(|part| format!("{part}: ")).unwrap_or_default();
    match other {
        Some(other) => {
            let (value, interval) = ratio(estimate);
            format!("{part}{metric} of {variant} ÷ {other}: {value}, {interval}")
        }
        None => format!("{part}{metric} of {variant}: {}", range(metric, estimate)),
    }
}

/// A figure with its interval, or alone if it is exact.
fn range(metric: &str, estimate: &Estimate) -> String {
    let words = |value: f64| match metric {
        "throughput" | "capacity" => format!("{} requests/s", format_rate(value)),
        "memory" => size(value),
        "errors" | "failed" => format_count(value as u64),
        _ => Nanos(value as u64).to_string(),
    };
    if estimate.low == estimate.high {
        return words(estimate.value);
    }
    let interval = interval(estimate, words).unwrap_or_else(|| "unbounded".to_owned());
    format!("{}, {interval}", value(estimate, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio_test(value: f64, low: f64, high: f64, decision: GateDecision) -> GateTest {
        GateTest {
            decision,
            figures: vec![GateFigure {
                part: None,
                variant: "b".to_owned(),
                other: Some("a".to_owned()),
                metric: "p99",
                estimate: Estimate { value, low, high },
            }],
            unknown: None,
        }
    }

    fn outcome(condition: &str, decision: GateDecision, tests: Vec<GateTest>) -> GateOutcome {
        GateOutcome { condition: condition.to_owned(), decision, tests }
    }

    #[test]
    fn an_outcome_names_what_it_rests_on() {
        let open = GateDecision::Inconclusive;
        let ratio = || ratio_test(1.11, 0.33, 3.73, open);
        assert_eq!(
            gate(&outcome("b.p99 > 1.05 * a.p99", open, vec![ratio()])),
            "inconclusive: b.p99 > 1.05 * a.p99 (p99 of b ÷ a: 1.11×, 0.33–3.73)"
        );
        let mut errors = ratio_test(1234.0, 1234.0, 1234.0, GateDecision::Fails);
        let figure = &mut errors.figures[0];
        (figure.part, figure.other, figure.metric) = (Some("large".to_owned()), None, "errors");
        let condition = "b.errors > 0 or b.p99 > 1.05 * a.p99";
        assert_eq!(
            gate(&outcome(condition, GateDecision::Fails, vec![errors, ratio()])),
            "triggered: b.errors > 0 or b.p99 > 1.05 * a.p99 (large: errors of b: 1,234)"
        );
    }

    #[test]
    fn a_figure_of_a_gate_says_on_which_side_it_is_unbounded() {
        for (value, low, high, text) in [
            (480e6, 410e6, 560e6, "480 ms, 410–560 ms"),
            (480e6, 410e6, f64::INFINITY, "480 ms, ≥ 410 ms"),
            (480e6, 0.0, f64::INFINITY, "480 ms, unbounded"),
            (480e6, 480e6, 480e6, "480 ms"),
        ] {
            assert_eq!(range("p99", &Estimate { value, low, high }), text);
        }
    }

    #[test]
    fn what_cannot_be_decided_says_why() {
        let decision = GateDecision::Inconclusive;
        let of = |unknown| {
            let test = GateTest { decision, figures: Vec::new(), unknown: Some(unknown) };
            gate(&outcome("b.p99 > a.p99", decision, vec![test]))
        };
        assert_eq!(
            of(GateUnknown::FewBlocks { blocks: 1, needed: 6 }),
            "inconclusive: b.p99 > a.p99 (only 1 block, 6 needed)"
        );
        assert_eq!(
            of(GateUnknown::FewRequests { completed: 1, needed: 100 }),
            "inconclusive: b.p99 > a.p99 (only 1 request completed, 100 needed)"
        );
        let (variant, metric) = ("b".to_owned(), "p99");
        assert_eq!(
            of(GateUnknown::Invalid { variant: variant.clone(), metric }),
            "inconclusive: b.p99 > a.p99 (p99 of b is INVALID)"
        );
        assert_eq!(
            of(GateUnknown::Unsustained { variant, metric }),
            "inconclusive: b.p99 > a.p99 (p99 of b is not gated: b did not sustain the offered rate)"
        );
    }
}
