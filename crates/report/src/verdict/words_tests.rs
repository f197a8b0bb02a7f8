//! The text of every verdict.

use super::*;

fn judgement(verdict: Verdict, value: f64, low: f64, high: f64) -> Judgement {
    Judgement {
        ratio: Estimate { value, low, high },
        verdict,
        precision: 0.02,
        confidence: 0.95,
        adjusted_for: 1,
        margin: None,
        blocks: 24,
        merged: 1,
        second_opinion_p: Some(0.001),
        second_opinion: Opinion::Agrees,
        anytime: false,
        more_blocks: None,
        biases: Vec::new(),
    }
}

const CONDITIONS: &str = "64 connections, closed loop; client on CPU 1, stack on CPU 0";

/// The sentence of a primary comparison with all its circumstances.
fn whole(judgement: &Judgement, measure: Measure, conditions: &str) -> String {
    let circumstances = circumstances(judgement, true, conditions);
    sentence(judgement, &Wording { circumstances: &circumstances, ..bare(measure) })
}

/// The same without conditions.
fn plain(judgement: &Judgement, measure: Measure) -> String {
    whole(judgement, measure, "")
}

fn bare(measure: Measure) -> Wording<'static> {
    Wording {
        variant: "unix",
        baseline: "tcp",
        measure,
        circumstances: "",
        block_time: Some(Nanos::from_secs(30)),
        because: "",
    }
}

#[test]
fn a_difference() {
    let faster =
        Judgement { adjusted_for: 3, ..judgement(Verdict::Faster, 1.1432, 1.1188, 1.1681) };
    assert_eq!(
        whole(&faster, Measure::Throughput, CONDITIONS),
        "unix serves 1.14× tcp (95% CI 1.12–1.17; 24 blocks; adjusted for 3 comparisons; \
         64 connections, closed loop; client on CPU 1, stack on CPU 0)."
    );
}

#[test]
fn a_difference_of_each_measure() {
    for (measure, claim) in [
        (Measure::Throughput, "unix serves 0.91× tcp"),
        (Measure::Bandwidth, "unix moves 0.91× the bytes/s of tcp"),
        (Measure::Latency("p99"), "p99 latency of unix is 0.91× tcp's"),
        (Measure::ServiceTime("p99"), "p99 service time of unix is 0.91× tcp's"),
        (Measure::CpuPerRequest, "unix needs 0.91× the CPU per request of tcp"),
        (Measure::PeakMemory, "unix needs 0.91× the peak memory of tcp"),
    ] {
        let judged = judgement(Verdict::Slower, 0.91, 0.89, 0.93);
        let text = format!("{claim} (95% CI 0.89–0.93; 24 blocks).");
        assert_eq!(plain(&judged, measure), text);
    }
}

#[test]
fn no_difference() {
    let judged = judgement(Verdict::NoDifference, 0.9975, 0.99101, 1.004);
    for (measure, text) in [
        (
            Measure::Throughput,
            "No difference detected: the data rule out unix being more than 0.9% slower or 0.4% faster than tcp (95%; 24 blocks).",
        ),
        (
            Measure::Latency("p50"),
            "No difference detected: the data rule out the p50 latency of unix being more than 0.9% below or 0.4% above tcp's (95%; 24 blocks).",
        ),
        (
            Measure::CpuPerRequest,
            "No difference detected: the data rule out unix needing more than 0.9% less or 0.4% more CPU per request than tcp (95%; 24 blocks).",
        ),
    ] {
        assert_eq!(plain(&judged, measure), text);
    }
}

#[test]
fn a_bound_is_rounded_outwards() {
    let judged = judgement(Verdict::NoDifference, 1.0, 0.98999, 1.00041);
    assert_eq!(
        plain(&judged, Measure::Throughput),
        "No difference detected: the data rule out unix being more than 1.1% slower or 0.05% faster than tcp (95%; 24 blocks)."
    );
}

#[test]
fn equivalent_within_a_declared_margin() {
    let judged =
        Judgement { margin: Some(0.02), ..judgement(Verdict::Equivalent, 1.005, 1.0024, 1.0081) };
    assert_eq!(
        plain(&judged, Measure::Throughput),
        "Equivalent within ±2%: unix serves 1.005× tcp (95% CI 1.002–1.008; 24 blocks)."
    );
}

#[test]
fn inconclusive_says_what_would_settle_it() {
    let wide =
        Judgement { more_blocks: Some(38), ..judgement(Verdict::Inconclusive, 1.01, 0.96, 1.06) };
    assert_eq!(
        whole(&wide, Measure::Throughput, CONDITIONS),
        "Inconclusive: −4% to +6% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks; \
         64 connections, closed loop; client on CPU 1, stack on CPU 0); \
         a new run would need about 38 blocks (19 min)."
    );
    let untimed = Wording { block_time: None, ..bare(Measure::CpuPerRequest) };
    assert_eq!(
        sentence(&wide, &untimed),
        "Inconclusive: −4% to +6% with a target of ±2% (unix ÷ tcp in CPU per request); \
         a new run would need about 38 blocks."
    );
}

#[test]
fn inconclusive_because_the_second_opinion_differs() {
    let unconfirmed = Judgement {
        second_opinion: Opinion::Disagrees,
        more_blocks: Some(48),
        ..judgement(Verdict::Inconclusive, 1.02, 1.001, 1.039)
    };
    assert_eq!(
        plain(&unconfirmed, Measure::Throughput),
        "Inconclusive: +0.1% to +3.9% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         the interval shows a difference, but a sign-flip test does not confirm it; \
         a new run would need about 48 blocks (24 min)."
    );
    let unseen =
        Judgement { ratio: Estimate { value: 1.02, low: 0.999, high: 1.041 }, ..unconfirmed };
    assert_eq!(
        plain(&unseen, Measure::Throughput),
        "Inconclusive: −0.1% to +4.1% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         the interval contains 1, but a sign-flip test finds a difference; \
         a new run would need about 48 blocks (24 min)."
    );
}

#[test]
fn no_remedy_takes_longer_than_a_day() {
    let noisy =
        Judgement { more_blocks: Some(2_881), ..judgement(Verdict::Inconclusive, 1.01, 0.4, 2.5) };
    assert_eq!(
        plain(&noisy, Measure::Throughput),
        "Inconclusive: −60% to +150% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         a new run would need more than a day: the measurements vary too much, \
         or the difference too small, for this target."
    );
    let a_day = Judgement { more_blocks: Some(2_880), ..noisy };
    assert!(
        plain(&a_day, Measure::Throughput)
            .ends_with("; a new run would need about 2,880 blocks (24 h).")
    );
}

#[test]
fn too_few_blocks_are_named_before_any_figure() {
    let two = Judgement {
        blocks: 2,
        more_blocks: Some(123_135),
        ..judgement(Verdict::Inconclusive, 4.2932, 0.005, 85.4)
    };
    assert_eq!(
        plain(&two, Measure::Throughput),
        "Too few blocks for a verdict (2 of 6): so far unix serves 4.29× tcp (2 blocks)."
    );
    let stopped = Judgement {
        blocks: 1,
        anytime: true,
        ..judgement(Verdict::Inconclusive, 12.01, 0.0, f64::INFINITY)
    };
    assert_eq!(
        plain(&stopped, Measure::ServiceTime("p99")),
        "Too few blocks for a verdict (1 of 6): so far p99 service time of unix is 12.0× tcp's \
         (1 block; stopped early, interval widened accordingly)."
    );
    let none =
        Judgement { blocks: 0, ..judgement(Verdict::Inconclusive, f64::NAN, 0.0, f64::INFINITY) };
    assert_eq!(
        plain(&none, Measure::Throughput),
        "Too few blocks for a verdict (0 of 6) on unix ÷ tcp (0 blocks)."
    );
}

#[test]
fn inconclusive_without_an_interval() {
    let unbounded = Judgement {
        blocks: 7,
        anytime: true,
        ..judgement(Verdict::Inconclusive, 1.01, 0.0, f64::INFINITY)
    };
    assert_eq!(
        plain(&unbounded, Measure::Throughput),
        "Inconclusive: 7 blocks give no interval (unix ÷ tcp in requests/s; 7 blocks; stopped \
         early, interval widened accordingly); a new run with more blocks is needed."
    );
}

#[test]
fn invalid_says_why() {
    let judged = judgement(Verdict::Invalid, 1.2, 1.1, 1.3);
    let because = "unix: the server counted 3 requests fewer than the client completed";
    assert_eq!(
        sentence(&judged, &Wording { because, ..bare(Measure::Throughput) }),
        "INVALID: unix: the server counted 3 requests fewer than the client completed."
    );
    assert_eq!(
        sentence(&judged, &bare(Measure::Throughput)),
        "INVALID: unix ÷ tcp failed a validity check."
    );
}

#[test]
fn what_verdicts_share_may_be_left_out() {
    let faster = judgement(Verdict::Faster, 1.1432, 1.1188, 1.1681);
    assert_eq!(
        sentence(&faster, &bare(Measure::Throughput)),
        "unix serves 1.14× tcp (95% CI 1.12–1.17)."
    );
    let none = judgement(Verdict::NoDifference, 0.9975, 0.99101, 1.004);
    assert_eq!(
        sentence(&none, &bare(Measure::Throughput)),
        "No difference detected: the data rule out unix being more than 0.9% slower or 0.4% \
         faster than tcp (95%)."
    );
    let few = Judgement { blocks: 2, ..judgement(Verdict::Inconclusive, 4.2932, 0.005, 85.4) };
    assert_eq!(
        sentence(&few, &bare(Measure::Throughput)),
        "Too few blocks for a verdict (2 of 6): so far unix serves 4.29× tcp."
    );
}

#[test]
fn a_weakened_claim_says_why() {
    let stopped =
        Judgement { anytime: true, merged: 2, ..judgement(Verdict::Faster, 1.14, 1.02, 1.27) };
    let circumstances = circumstances(&stopped, false, "");
    let wording = Wording { circumstances: &circumstances, ..bare(Measure::Throughput) };
    assert_eq!(
        sentence(&stopped, &wording),
        "unix serves 1.14× tcp (95% CI 1.02–1.27; 24 blocks, merged by 2 because neighbouring \
         blocks are correlated; \
         unadjusted; stopped early, interval widened accordingly)."
    );
}

#[test]
fn digits_follow_the_width_and_never_hide_a_difference() {
    for (value, low, high, text) in [
        (1.14, 1.12, 1.17, "1.14× tcp (95% CI 1.12–1.17"),
        (1.0042, 1.0021, 1.0063, "1.004× tcp (95% CI 1.002–1.006"),
        (1.02, 1.0004, 1.04, "1.0200× tcp (95% CI 1.0004–1.0400"),
        (22.31, 21.9, 22.8, "22.3× tcp (95% CI 21.9–22.8"),
        (3.0, 3.0, 3.0, "3.00× tcp (95% CI 3.00–3.00"),
    ] {
        let judged = judgement(Verdict::Faster, value, low, high);
        let sentence = plain(&judged, Measure::Throughput);
        assert!(sentence.starts_with(&format!("unix serves {text};")), "{sentence}");
    }
}

#[test]
fn percentages_and_durations() {
    for (fraction, nearest, up) in [
        (0.02, "2%", "2%"),
        (0.009, "0.9%", "0.9%"),
        (0.00021, "0.02%", "0.03%"),
        (0.0431, "4.3%", "4.4%"),
        (0.123, "12.3%", "13%"),
        (0.999, "99.9%", "100%"),
        (0.95, "95%", "95%"),
        (0.0, "0%", "0%"),
        (1.5, "150%", "150%"),
    ] {
        assert_eq!(percent(fraction, Rounding::Nearest), nearest, "{fraction}");
        assert_eq!(percent(fraction, Rounding::Up), up, "{fraction}");
    }
    assert_eq!(signed_percent(-0.04), "−4%");
    for (secs, text) in [(44.2, "45 s"), (1140.0, "19 min"), (9000.0, "2.5 h")] {
        assert_eq!(duration(secs), text);
    }
}

#[test]
fn no_sentence_says_same_or_identical() {
    for verdict in [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::NoDifference,
        Verdict::Equivalent,
        Verdict::Inconclusive,
        Verdict::Invalid,
    ] {
        for measure in [Measure::Throughput, Measure::Latency("p99"), Measure::PeakMemory] {
            let sentence = whole(&judgement(verdict, 1.0, 0.99, 1.01), measure, CONDITIONS);
            assert!(
                !sentence.contains("same")
                    && !sentence.contains("identical")
                    && !sentence.contains("p=")
            );
        }
    }
}

#[test]
fn an_interval_that_is_unbounded_on_one_side() {
    const UNBOUNDED: f64 = f64::INFINITY;
    for (judged, text) in [
        (
            judgement(Verdict::Slower, 4.5, 2.25, UNBOUNDED),
            "p99 latency of unix is 4.50× tcp's (95% CI ≥ 2.25; 24 blocks).",
        ),
        (
            judgement(Verdict::Faster, 0.5, 0.0, 0.75),
            "p99 latency of unix is 0.50× tcp's (95% CI ≤ 0.75; 24 blocks).",
        ),
        (
            judgement(Verdict::Inconclusive, 1.2, 0.96, UNBOUNDED),
            "Inconclusive: −4% or more with a target of ±2% (unix ÷ tcp in p99 latency; 24 blocks).",
        ),
        (
            judgement(Verdict::Inconclusive, 0.9, 0.0, 1.06),
            "Inconclusive: +6% or less with a target of ±2% (unix ÷ tcp in p99 latency; 24 blocks).",
        ),
    ] {
        assert_eq!(plain(&judged, Measure::Latency("p99")), text);
    }
}
