//! The comparison of two commits in words.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use insta::assert_snapshot;
use record::{
    Diff, DiffOutcome, GateDecision, GateFigure, GateOutcome, GateTest, GateUnknown, Metric,
    Revision, Run,
};
use report::{diff_json, diff_markdown, diff_sentence, metric_format};

/// The sample as a comparison of two commits.
fn commits(mut run: Run) -> Run {
    for (variant, name) in run.parts[0].variants.iter_mut().zip(["base", "head"]) {
        variant.name = name.to_owned();
    }
    run
}

fn diff(run: &Run) -> Diff {
    let revision = |short: &str, subject: &str| Revision {
        id: short.repeat(5),
        short: short.to_owned(),
        subject: subject.to_owned(),
        dirty: false,
    };
    let estimate = run.parts[0].comparisons[0].judgement.ratio;
    let test = |metric: &'static str, decision, unknown| {
        let figure = GateFigure {
            part: None,
            variant: "head".to_owned(),
            other: Some("base".to_owned()),
            metric,
            estimate,
        };
        let figures = if unknown { Vec::new() } else { vec![figure] };
        let variant = "base".to_owned();
        let unknown = unknown.then_some(GateUnknown::Unsustained { variant, metric });
        GateTest { decision, figures, unknown }
    };
    let gate = |metric: &'static str, condition: &str, decision, unknown| GateOutcome {
        condition: condition.to_owned(),
        decision,
        tests: vec![test(metric, decision, unknown)],
    };
    Diff {
        base: revision("1a2b3c4d", "Answer"),
        head: revision("5e6f7a8b", "Answer faster"),
        primary: Metric::Throughput,
        margin: Some(0.02),
        gates: vec![
            gate(
                "throughput",
                "head.throughput < 0.98 * base.throughput",
                GateDecision::Passes,
                false,
            ),
            gate("p99", "head.p99 > 1.02 * base.p99", GateDecision::Inconclusive, true),
        ],
        outcome: DiffOutcome::Passed,
    }
}

/// The summary above the folded report.
fn summary(run: &Run) -> String {
    let text = diff_markdown(run, &diff(run));
    text.split_once("<details>").unwrap().0.to_owned()
}

#[test]
fn percentiles_that_were_not_compared_are_not_gated_either() {
    let run = commits(sample::overloaded());
    let told = "p50 and p99 were neither compared nor gated: base did not sustain 918 requests/s.";
    let sentence = diff_sentence(&run, &diff(&run));
    assert!(sentence.ends_with(told), "{sentence}");
    assert!(sentence.starts_with("Faster: "), "{sentence}");
    assert_snapshot!("overloaded", summary(&run));
    let conditions = &diff_json(&run, &diff(&run))["conditions"];
    assert_eq!(
        conditions[1]["sentence"],
        "inconclusive: head.p99 > 1.02 * base.p99 (p99 of base is not gated: base did not sustain \
         the offered rate)"
    );
}

#[test]
fn a_percentile_that_may_have_become_worse_was_not_mentioned() {
    let run = commits(sample::tcp_unix());
    let mut passed = diff(&run);
    let sentence = diff_sentence(&run, &passed);
    assert!(sentence.ends_with(" Undecided at 2%: p99."), "{sentence}");
    passed.gates[1].decision = GateDecision::Passes;
    assert!(!diff_sentence(&run, &passed).contains("ndecided"));
}

#[test]
fn a_rate_that_the_head_did_not_sustain_is_not_tracked() {
    let mut run = commits(sample::overloaded());
    let tracked = |run: &Run| metric_format(run, &diff(run)).to_string().contains("latency");
    assert!(tracked(&run));
    run.parts[0].findings[0].variant = Some(1);
    assert!(!tracked(&run));
}

#[test]
fn a_warning_is_beside_the_answer() {
    let run = commits(sample::tcp_unix());
    assert!(diff_sentence(&run, &diff(&run)).starts_with("⚠ Faster: "));
    assert_snapshot!("weakened", summary(&run));
}

#[test]
fn a_bound_without_its_opposite_is_tracked() {
    let run = commits(sample::unbounded());
    let all = metric_format(&run, &diff(&run));
    let p99 = &all.as_object().unwrap().values().next().unwrap()["latency-p99"];
    assert_eq!(p99, &serde_json::json!({ "value": 480e6, "lower_value": 410e6 }));
}
