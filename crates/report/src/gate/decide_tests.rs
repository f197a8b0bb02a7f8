use base::{RunId, Seed, Timestamp};
use ledger::{Counts, Ledger};
use record::{
    Block, BlockState, Capacity, Fact, Finding, Machine, RunKind, RunState, Severity, Summary,
    Variant, VariantCapacity,
};
use stats::{Judgement, Opinion};

use super::*;

fn estimate_of(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high }
}

/// p99 of 1 ms ± 10%, 1,000 requests/s ± 1%, `failed` of 1,000.
fn variant(name: &str, failed: u64) -> Variant {
    let time = estimate_of(1e6, 0.9e6, 1.1e6);
    let summary = Summary {
        offer: Offer::Closed,
        offered_per_s: None,
        throughput_per_s: estimate_of(1000.0, 990.0, 1010.0),
        bytes_per_s: 0.0,
        p50_ns: time,
        p90_ns: time,
        p99_ns: time,
        cpu_ns_per_request: None,
        machine_ns_per_request: None,
        peak_memory_bytes: Some(64 << 20),
    };
    let counts =
        Counts { offered: 1000, sent: 1000, completed: 1000 - failed, failed, ..Counts::default() };
    Variant {
        name: name.to_owned(),
        ledger: Ledger { counts, ..Ledger::default() },
        summaries: vec![summary],
        ..Variant::default()
    }
}

fn block(index: u32) -> Block {
    Block::new(index, Timestamp::UNIX_EPOCH, BlockState::Complete)
}

/// `b ÷ a` of p99, over this many blocks.
fn comparison(ratio: Estimate, blocks: u32) -> Comparison {
    Comparison {
        baseline: 0,
        variant: 1,
        metric: Metric::P99,
        offer: Offer::Closed,
        primary: true,
        judgement: Judgement {
            ratio,
            verdict: Verdict::Inconclusive,
            precision: 0.01,
            confidence: 0.95,
            adjusted_for: 1,
            margin: None,
            blocks,
            merged: 1,
            second_opinion_p: None,
            second_opinion: Opinion::Unavailable,
            anytime: false,
            more_blocks: None,
            biases: Vec::new(),
        },
        because: Vec::new(),
    }
}

fn part(name: &str, ratio: Estimate, blocks: u32) -> Part {
    Part {
        name: name.to_owned(),
        variants: vec![variant("old", 0), variant("new", 2)],
        blocks: (1..=blocks).map(block).collect(),
        comparisons: vec![comparison(ratio, blocks)],
        precision: 0.01,
        ..Part::default()
    }
}

fn run_of(parts: Vec<Part>) -> Run {
    Run {
        id: RunId::new(Timestamp::UNIX_EPOCH, 1),
        kind: RunKind::Compare,
        state: RunState::Done,
        name: "compare".to_owned(),
        title: String::new(),
        question: String::new(),
        started: Timestamp::UNIX_EPOCH,
        finished: None,
        command_line: Vec::new(),
        version: String::new(),
        seed: Seed(1),
        plan: String::new(),
        machine: Machine::default(),
        error: None,
        parts,
    }
}

fn outcome(run: &Run, text: &str) -> GateOutcome {
    let names = |part: &Part| part.variants.iter().map(|v| v.name.clone()).collect();
    let parts: Vec<(String, Vec<String>)> =
        run.parts.iter().map(|part| (part.name.clone(), names(part))).collect();
    let condition = FailIf::parse(text).unwrap().with_parts(&parts).unwrap();
    decide_conditions(run, &[condition]).remove(0)
}

fn decided(run: &Run, text: &str) -> GateDecision {
    outcome(run, text).decision
}

fn unknown(run: &Run, text: &str) -> Option<GateUnknown> {
    outcome(run, text).tests.into_iter().find_map(|test| test.unknown)
}

use GateDecision::{Fails, Inconclusive, Passes};

#[test]
fn the_same_binary_against_itself_does_not_fail_p99() {
    let run = run_of(vec![part("main", estimate_of(1.11, 0.33, 3.73), 12)]);
    for text in [
        "b.p99 > 1.05 * a.p99",
        "b.p99 / a.p99 > 1.05",
        "b.p99 - a.p99 > 5% * a.p99",
        "1.05 * a.p99 < b.p99",
    ] {
        let outcome = outcome(&run, text);
        assert_eq!(outcome.decision, Inconclusive, "{text}");
        assert!(!outcome.fails(false) && outcome.fails(true), "{text}");
    }
}

#[test]
fn the_interval_of_the_ratio_decides_and_not_those_of_its_sides() {
    let slower = run_of(vec![part("main", estimate_of(1.08, 1.06, 1.10), 12)]);
    assert_eq!(decided(&slower, "b.p99 > 1.05 * a.p99"), Fails);
    assert_eq!(decided(&slower, "b.p99 > 1.07 * a.p99"), Inconclusive);
    assert_eq!(decided(&slower, "b.p99 > 1.10 * a.p99"), Passes);
    assert_eq!(decided(&slower, "a.p99 < 0.95 * b.p99"), Fails, "the comparison turned round");
    assert_eq!(decided(&slower, "a.p99 / b.p99 < 0.9"), Passes);
    let words = crate::gate(&outcome(&slower, "b.p99 > 1.05 * a.p99"));
    assert_eq!(words, "triggered: b.p99 > 1.05 * a.p99 (p99 of new ÷ old: 1.08×, 1.06–1.10)");
}

#[test]
fn two_of_six_blocks_decide_nothing() {
    let run = run_of(vec![part("main", estimate_of(1.11, 1.10, 1.12), 2)]);
    for text in ["b.p99 > 1.05 * a.p99", "b.p99 > 0.5ms"] {
        let few = Some(GateUnknown::FewBlocks { blocks: 2, needed: 6 });
        assert_eq!((decided(&run, text), unknown(&run, text)), (Inconclusive, few), "{text}");
    }
    assert_eq!(decided(&run, "b.errors > 0"), Fails, "what is counted is exact from the start");
    let few = Some(GateUnknown::FewBlocks { blocks: 2, needed: 6 });
    for text in ["a.errors > 0", "b.errors > 5", "b.p99 > 1.05 * a.p99 or a.errors > 0"] {
        assert_eq!((decided(&run, text), unknown(&run, text)), (Inconclusive, few.clone()));
    }
}

#[test]
fn percentiles_of_a_rate_that_was_not_sustained_were_gated() {
    let mut part = part("main", estimate_of(1.0, 0.9, 1.1), 12);
    part.comparisons.clear();
    for variant in &mut part.variants {
        variant.summaries[0].offer = Offer::Open;
    }
    let fact = Fact::Unsustained { achieved: 0.8, limit: 0.99, dropped: 7, connections_cap: None };
    part.findings.push(Finding::of_variant(Severity::Warning, 1, fact));
    let run = run_of(vec![part]);
    let (variant, metric) = ("new".to_owned(), "p99");
    let found = Some(GateUnknown::Unsustained { variant, metric });
    for text in ["b.p99 > 0.1ms", "b.p99 > 1.05 * a.p99"] {
        assert_eq!((decided(&run, text), unknown(&run, text)), (Inconclusive, found.clone()));
    }
    assert_eq!(decided(&run, "a.p99 > 2ms"), Passes, "the other one sustained it");
    assert_eq!(decided(&run, "b.throughput < 10"), Passes, "throughput is what it achieved");
}

#[test]
fn an_estimate_without_an_upper_end_is_gated_from_below() {
    let mut part = part("main", estimate_of(2.0, 1.5, f64::INFINITY), 12);
    part.variants[1].summaries[0].p99_ns = estimate_of(480e6, 410e6, f64::INFINITY);
    let run = run_of(vec![part]);
    assert_eq!(decided(&run, "b.p99 > 100ms"), Fails);
    assert_eq!(decided(&run, "b.p99 > 450ms"), Inconclusive);
    assert_eq!(decided(&run, "b.p99 < 400ms"), Passes);
    assert_eq!(decided(&run, "b.p99 > 1.4 * a.p99"), Fails);
    assert_eq!(decided(&run, "a.p99 > 0.9 * b.p99"), Passes, "the comparison turned round");
}

#[test]
fn other_tests_are_decided_by_each_figures_own_interval() {
    let run = run_of(vec![part("main", estimate_of(1.0, 0.9, 1.1), 12)]);
    assert_eq!(decided(&run, "b.p99 > 0.8ms"), Fails);
    assert_eq!(decided(&run, "b.p99 > 1ms"), Inconclusive);
    assert_eq!(decided(&run, "b.p99 > 1.2ms"), Passes);
    assert_eq!(decided(&run, "b.throughput < 980"), Passes);
    // p90 is not compared, so only its two sides are available.
    assert_eq!(decided(&run, "b.p90 > 1.05 * a.p90"), Inconclusive);
    assert_eq!(decided(&run, "b.p90 > 1.5 * a.p90"), Passes);
    assert_eq!(decided(&run, "b.errors > a.errors"), Fails);
    assert_eq!(decided(&run, "a.errors > 0"), Passes);
    assert_eq!(decided(&run, "b.memory > 63MiB"), Fails);
    assert_eq!(decided(&run, "b.p99 > 1ms or b.errors > 0"), Fails);
    assert_eq!(decided(&run, "b.p99 > 1ms and a.errors > 0"), Passes);
    assert_eq!(decided(&run, "b.p99 > 1ms and b.errors > 0"), Inconclusive);
    assert_eq!(unknown(&run, "0 / 0 > 1"), Some(GateUnknown::NoValue));
    let (variant, metric) = ("new".to_owned(), "cpu");
    assert_eq!(unknown(&run, "b.cpu > 1us"), Some(GateUnknown::NotMeasured { variant, metric }));
}

#[test]
fn what_is_invalid_decides_nothing() {
    let mut run = run_of(vec![part("main", estimate_of(2.0, 1.9, 2.1), 12)]);
    let fact = Fact::Unpinned { process: "worker".to_owned() };
    run.parts[0].findings.push(Finding::of_variant(Severity::Invalid, 1, fact));
    run.parts[0].comparisons[0].judgement.verdict = Verdict::Invalid;
    run.parts[0].comparisons[0].because = vec![0];
    for text in ["b.p99 > 1.05 * a.p99", "b.p99 > 0.5ms", "b.p90 > 0.5ms"] {
        assert_eq!(decided(&run, text), Inconclusive, "{text}");
        assert!(matches!(unknown(&run, text), Some(GateUnknown::Invalid { .. })), "{text}");
    }
    assert_eq!(decided(&run, "a.p99 > 0.5ms"), Fails, "the finding does not blame the baseline");
    assert_eq!(decided(&run, "b.errors > 0"), Fails);
}

#[test]
fn a_capacity_is_gated_as_far_as_it_is_known() {
    let of = |old: CapacityOutcome, new: CapacityOutcome| {
        let found =
            |(variant, outcome)| VariantCapacity { variant, outcome, connections_busy: [0, 0] };
        let variants = [(0, old), (1, new)].map(found).to_vec();
        let mut part = part("capacity", estimate_of(1.2, 1.1, 1.3), 8);
        part.capacity = Some(Capacity { variants, ..Capacity::default() });
        part.comparisons[0].metric = Metric::Throughput;
        run_of(vec![part])
    };
    let found = |per_s| CapacityOutcome::Found { per_s, by: 0, blocks: 8, anytime: false };
    let run =
        of(found(estimate_of(1000.0, 900.0, 1100.0)), CapacityOutcome::AtLeast { per_s: 1e6 });
    assert_eq!(decided(&run, "a.capacity < 1200"), Fails);
    assert_eq!(decided(&run, "a.capacity < 950"), Inconclusive);
    assert_eq!(decided(&run, "a.capacity < 800"), Passes);
    assert_eq!(decided(&run, "b.capacity < 1000000"), Passes, "at least so many");
    assert_eq!(decided(&run, "b.capacity < 2000000"), Inconclusive);
    // The interval of the ratio, and not those of its sides.
    assert_eq!(decided(&run, "b.capacity < 1.4 * a.capacity"), Fails);
    let words = crate::gate(&outcome(&run, "a.capacity < 1200"));
    let figure = "(capacity of old: 1,000 requests/s, 900–1,100 requests/s)";
    assert_eq!(words, format!("triggered: a.capacity < 1200 {figure}"));
    let open = CapacityOutcome::Undecided { held_per_s: Some(500.0), failed_per_s: None };
    let run = of(CapacityOutcome::Nowhere { per_s: 10.0 }, open);
    assert_eq!(decided(&run, "a.capacity < 100"), Fails);
    let (variant, metric) = ("new".to_owned(), "capacity");
    let missing = Some(GateUnknown::NotMeasured { variant, metric });
    assert_eq!(unknown(&run, "b.capacity < 100"), missing);
}

#[test]
fn each_part_is_gated_by_its_own_evidence() {
    let run = run_of(vec![
        part("small", estimate_of(1.0, 0.99, 1.01), 12),
        part("large files", estimate_of(2.0, 1.9, 2.1), 12),
    ]);
    assert_eq!(decided(&run, "small/b.p99 > 1.05 * small/a.p99"), Passes);
    let text = "'large files'/b.p99 > 1.05 * 'large files'/a.p99";
    assert_eq!(decided(&run, text), Fails);
    assert_eq!(
        crate::gate(&outcome(&run, text)),
        format!("triggered: {text} (large files: p99 of new ÷ old: 2.00×, 1.90–2.10)")
    );
}
