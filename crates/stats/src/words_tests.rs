//! Every sentence, pinned.

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
    }
}

fn wording(measure: Measure) -> Wording<'static> {
    Wording {
        variant: "unix",
        baseline: "tcp",
        measure,
        conditions: "64 connections, closed loop; client on CPU 1, stack on CPU 0",
        block_time: Some(Nanos::from_secs(30)),
        unadjusted: false,
        invalid_because: "",
    }
}

fn plain(measure: Measure) -> Wording<'static> {
    Wording { conditions: "", ..wording(measure) }
}

#[test]
fn a_difference() {
    let faster =
        Judgement { adjusted_for: 3, ..judgement(Verdict::Faster, 1.1432, 1.1188, 1.1681) };
    assert_eq!(
        sentence(&faster, &wording(Measure::Throughput)),
        "unix serves 1.14× tcp (95% CI 1.12–1.17; 24 blocks; adjusted for 3 comparisons; \
         64 connections, closed loop; client on CPU 1, stack on CPU 0)."
    );
}

#[test]
fn a_difference_of_each_measure() {
    for (measure, text) in [
        (Measure::Throughput, "unix serves 0.91× tcp (95% CI 0.89–0.93; 24 blocks)."),
        (Measure::Bandwidth, "unix moves 0.91× the bytes/s of tcp (95% CI 0.89–0.93; 24 blocks)."),
        (
            Measure::Latency(99.0),
            "p99 latency of unix is 0.91× tcp's (95% CI 0.89–0.93; 24 blocks).",
        ),
        (
            Measure::ServiceTime(99.9),
            "p99.9 service time of unix is 0.91× tcp's (95% CI 0.89–0.93; 24 blocks).",
        ),
        (
            Measure::CpuPerRequest,
            "unix needs 0.91× the CPU per request of tcp (95% CI 0.89–0.93; 24 blocks).",
        ),
        (
            Measure::PeakMemory,
            "unix needs 0.91× the peak memory of tcp (95% CI 0.89–0.93; 24 blocks).",
        ),
    ] {
        let judged = judgement(Verdict::Slower, 0.91, 0.89, 0.93);
        assert_eq!(sentence(&judged, &plain(measure)), text);
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
            Measure::Latency(50.0),
            "No difference detected: the data rule out the p50 latency of unix being more than 0.9% below or 0.4% above tcp's (95%; 24 blocks).",
        ),
        (
            Measure::CpuPerRequest,
            "No difference detected: the data rule out unix needing more than 0.9% less or 0.4% more CPU per request than tcp (95%; 24 blocks).",
        ),
    ] {
        assert_eq!(sentence(&judged, &plain(measure)), text);
    }
}

#[test]
fn a_bound_is_rounded_outwards() {
    let judged = judgement(Verdict::NoDifference, 1.0, 0.98999, 1.00041);
    assert_eq!(
        sentence(&judged, &plain(Measure::Throughput)),
        "No difference detected: the data rule out unix being more than 1.1% slower or 0.05% faster than tcp (95%; 24 blocks)."
    );
}

#[test]
fn equivalent_within_a_declared_margin() {
    let judged =
        Judgement { margin: Some(0.02), ..judgement(Verdict::Equivalent, 1.005, 1.0024, 1.0081) };
    assert_eq!(
        sentence(&judged, &plain(Measure::Throughput)),
        "Equivalent within ±2%: unix serves 1.005× tcp (95% CI 1.002–1.008; 24 blocks)."
    );
}

#[test]
fn inconclusive_says_what_would_settle_it() {
    let wide =
        Judgement { more_blocks: Some(38), ..judgement(Verdict::Inconclusive, 1.01, 0.96, 1.06) };
    assert_eq!(
        sentence(&wide, &wording(Measure::Throughput)),
        "Inconclusive: −4% to +6% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks; \
         64 connections, closed loop; client on CPU 1, stack on CPU 0); \
         about 38 more blocks (19 min) in a new run."
    );
    let untimed = Wording { block_time: None, ..plain(Measure::CpuPerRequest) };
    assert_eq!(
        sentence(&wide, &untimed),
        "Inconclusive: −4% to +6% with a target of ±2% (unix ÷ tcp in CPU per request; 24 blocks); \
         about 38 more blocks in a new run."
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
        sentence(&unconfirmed, &plain(Measure::Throughput)),
        "Inconclusive: +0.1% to +3.9% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         the interval shows a difference, but flipping signs at random does not confirm it; \
         about 48 more blocks (24 min) in a new run."
    );
    let unseen =
        Judgement { ratio: Estimate { value: 1.02, low: 0.999, high: 1.041 }, ..unconfirmed };
    assert_eq!(
        sentence(&unseen, &plain(Measure::Throughput)),
        "Inconclusive: −0.1% to +4.1% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         the interval holds no difference, but flipping signs at random says otherwise; \
         about 48 more blocks (24 min) in a new run."
    );
}

#[test]
fn no_remedy_takes_longer_than_a_day() {
    let noisy =
        Judgement { more_blocks: Some(2_881), ..judgement(Verdict::Inconclusive, 1.01, 0.4, 2.5) };
    assert_eq!(
        sentence(&noisy, &plain(Measure::Throughput)),
        "Inconclusive: −60% to +150% with a target of ±2% (unix ÷ tcp in requests/s; 24 blocks); \
         more than a day of blocks would be needed: the machine is too noisy, \
         or the difference too small, for this target."
    );
    let a_day = Judgement { more_blocks: Some(2_880), ..noisy };
    assert!(
        sentence(&a_day, &plain(Measure::Throughput))
            .ends_with("; about 2,880 more blocks (24 h) in a new run.")
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
        sentence(&two, &plain(Measure::Throughput)),
        "Too few blocks for a verdict (2 of 6): so far unix serves 4.29× tcp (2 blocks)."
    );
    let stopped = Judgement {
        blocks: 1,
        anytime: true,
        ..judgement(Verdict::Inconclusive, 12.01, 0.0, f64::INFINITY)
    };
    assert_eq!(
        sentence(&stopped, &plain(Measure::ServiceTime(99.0))),
        "Too few blocks for a verdict (1 of 6): so far p99 service time of unix is 12.0× tcp's \
         (1 block; stopped early, and the interval allows for that)."
    );
    let none =
        Judgement { blocks: 0, ..judgement(Verdict::Inconclusive, f64::NAN, 0.0, f64::INFINITY) };
    assert_eq!(
        sentence(&none, &plain(Measure::Throughput)),
        "Too few blocks for a verdict (0 of 6) of unix ÷ tcp (0 blocks)."
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
        sentence(&unbounded, &plain(Measure::Throughput)),
        "Inconclusive: 7 blocks give no interval (unix ÷ tcp in requests/s; \
         stopped early); a new run with more blocks is needed."
    );
}

#[test]
fn invalid_says_why() {
    let judged = judgement(Verdict::Invalid, 1.2, 1.1, 1.3);
    let reason = "the server counted 3 requests fewer than the client sent.";
    assert_eq!(
        sentence(&judged, &Wording { invalid_because: reason, ..plain(Measure::Throughput) }),
        "INVALID: the server counted 3 requests fewer than the client sent."
    );
    assert_eq!(
        sentence(&judged, &plain(Measure::Throughput)),
        "INVALID: a validity check failed; see the findings."
    );
}

#[test]
fn what_weakens_a_claim_is_said() {
    let stopped =
        Judgement { anytime: true, merged: 2, ..judgement(Verdict::Faster, 1.14, 1.02, 1.27) };
    assert_eq!(
        sentence(&stopped, &Wording { unadjusted: true, ..plain(Measure::Throughput) }),
        "unix serves 1.14× tcp (95% CI 1.02–1.27; 24 blocks, merged by 2 because neighbours resemble each other; \
         unadjusted; stopped early, and the interval allows for that)."
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
        let told = sentence(&judged, &plain(Measure::Throughput));
        assert!(told.starts_with(&format!("unix serves {text};")), "{told}");
    }
}

#[test]
fn a_variant_alone() {
    let about = |measure, value, low, high| {
        let estimate = Estimate { value, low, high };
        sentence_alone("a", measure, &estimate, 0.95, 10, "64 connections, closed loop")
    };
    let tail = "; 10 blocks; 64 connections, closed loop).";
    for (told, text) in [
        (
            about(Measure::Throughput, 12_345.4, 12_001.0, 12_690.0),
            "a serves 12,345 requests/s (95% CI 12,001–12,690",
        ),
        (
            about(Measure::Latency(99.0), 5.44e6, 5.4e6, 5.5e6),
            "p99 latency of a is 5.44 ms (95% CI 5.40 ms–5.50 ms",
        ),
        (
            about(Measure::CpuPerRequest, 81_200.0, 80_000.0, 83_000.0),
            "a needs 81.2 µs of CPU per request (95% CI 80.0 µs–83.0 µs",
        ),
        (
            about(Measure::PeakMemory, 24_221_800.0, 2.4e7, 2.5e7),
            "a needs 23.1 MiB of memory at its peak (95% CI 22.9 MiB–23.8 MiB",
        ),
        (
            about(Measure::Bandwidth, 2.5e9, 2.4e9, 2.6e9),
            "a moves 2.33 GiB/s (95% CI 2.24 GiB/s–2.42 GiB/s",
        ),
        (
            about(Measure::Throughput, 12_345.4, 0.0, f64::INFINITY),
            "a serves 12,345 requests/s (no interval yet",
        ),
    ] {
        assert_eq!(told, format!("{text}{tail}"));
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
        for measure in [Measure::Throughput, Measure::Latency(99.0), Measure::PeakMemory] {
            let told = sentence(&judgement(verdict, 1.0, 0.99, 1.01), &wording(measure));
            assert!(!told.contains("same") && !told.contains("identical") && !told.contains("p="));
        }
    }
}
