//! Parts in which a variant cannot start, or a check fails.

use ledger::Counts;

use super::*;
use crate::slice_updates;

const TEXT: &str = r#"
[experiment]
name = "x"
title = "t"
question = "q"
offers = ["closed"]
variant = [
    { name = "sound", target = "http://127.0.0.1:$PORT", process = { command = "x" } },
    { name = "short", target = "http://127.0.0.1:$PORT", process = { command = "x" } },
]
"#;

pub(crate) fn plan() -> spec::Part {
    let text = TEXT.replace("\nvariant = [", "\n[[part]]\nname = \"p\"\nvariant = [");
    spec::parse_plan(&text, "x.toml").unwrap().parts.remove(0)
}

fn trial(variant: u32, completed: u64, failed: u64) -> Trial {
    slice_updates::tests::trial(variant, Counts { completed, failed, ..Counts::default() })
}

fn invalid(block: u32, variant: u32, fact: Fact) -> Finding {
    Finding { severity: Severity::Invalid, block: Some(block), variant: Some(variant), fact }
}

fn failures(block: u32, variant: u32) -> Finding {
    let kinds = ledger::Errors::from([("status 502".to_owned(), 400)]);
    let offer = Offer::Closed;
    invalid(block, variant, Fact::Failures { offer, failed: 400, sent: 1000, kinds, log: None })
}

/// A part of eight blocks in which the second variant has 1.2 times the first one's throughput,
/// with small noise.
fn eight_blocks() -> Part {
    let mut part = blank(&plan(), record::Layout::default());
    for index in 1..=8 {
        let noise = u64::from(index) * 37 % 11;
        let started = base::Timestamp::from_second(1_795_000_000).unwrap();
        part.blocks.push(Block {
            trials: vec![trial(0, 10_000 + noise, 0), trial(1, 12_000 - noise, 0)],
            ..Block::new(index, started, BlockState::Complete)
        });
    }
    part
}

fn concluded(mut part: Part, findings: Vec<Finding>) -> Part {
    part.findings = findings;
    conclude::conclude(&plan(), &mut part, false);
    part
}

fn verdict(part: &Part, metric: record::Metric) -> stats::Verdict {
    part.comparisons.iter().find(|c| c.metric == metric).unwrap().judgement.verdict
}

#[test]
fn what_failed_forbids_the_verdict_and_leaves_the_others_figures() {
    let part = concluded(eight_blocks(), (1..=8).map(|block| failures(block, 1)).collect());
    let comparison = &part.comparisons[0];
    assert_eq!(comparison.judgement.verdict, stats::Verdict::Invalid);
    assert_eq!(comparison.because, (0..8).collect::<Vec<u32>>());
    assert_eq!(part.variants[0].summaries.len(), 1);
}

#[test]
fn a_disturbed_machine_never_forbids_a_verdict() {
    let governor = Finding {
        severity: Severity::Note,
        block: Some(3),
        variant: None,
        fact: Fact::Governor { before: vec!["a".into()], after: vec!["b".into()] },
    };
    let late = Finding::of_variant(
        Severity::Warning,
        1,
        Fact::Lateness { p99: Nanos(570_000), limit: Nanos(100_000), shared_cpus: false },
    );
    let part = concluded(eight_blocks(), vec![governor, late]);
    assert_eq!(verdict(&part, record::Metric::Throughput), stats::Verdict::Faster);
}

#[test]
fn lateness_that_goes_with_a_variant_leaves_throughput_alone() {
    let fact = Fact::Uneven {
        source: record::Disturber::Lateness,
        other: 0,
        here: 1e-3,
        there: 1e-5,
        p: 1e-6,
        log_bound: None,
    };
    let part = concluded(eight_blocks(), vec![Finding::of_variant(Severity::Invalid, 1, fact)]);
    assert_eq!(verdict(&part, record::Metric::Throughput), stats::Verdict::Faster);
}

#[test]
fn a_series_that_does_not_add_up_to_what_completed_forbids_every_verdict() {
    let gap = ledger::Discrepancy { law: ledger::Law::Series, left: 9, right: 10 };
    let part = concluded(eight_blocks(), vec![invalid(2, 0, Fact::Ledger { gap })]);
    assert!(part.comparisons.iter().all(|c| c.judgement.verdict == stats::Verdict::Invalid));
}

#[test]
fn the_first_runnable_variant_replaces_a_baseline_that_is_not() {
    let with = |baseline: usize, variants: &[usize]| -> Vec<Contrast> {
        variants.iter().map(|variant| Contrast { baseline, variant: *variant }).collect()
    };
    let star = with(2, &[0, 1, 3]);
    assert_eq!(without_baseline(&star, &[0, 1, 2]), None, "the baseline is able");
    assert_eq!(without_baseline(&star, &[1, 3]), Some((2, with(1, &[3]))));
    assert_eq!(without_baseline(&star, &[3, 1, 0]), Some((2, with(0, &[1, 3]))));
    assert_eq!(without_baseline(&star, &[3]), None, "nothing to compare it with");
    let pairs = [Contrast { baseline: 0, variant: 1 }, Contrast { baseline: 2, variant: 3 }];
    assert_eq!(
        without_baseline(&pairs, &[1, 2, 3]),
        None,
        "pairs are a choice of the experiment's"
    );
    assert_eq!(without_baseline(&[], &[0]), None);
}

#[test]
fn a_short_time_takes_blocks_from_the_pilot_before_it_shortens_windows() {
    let plan = plan();
    let within = |secs| {
        let (schedule, _) = schedule_within(&plan, 2, Nanos::from_secs(secs));
        (schedule.pilot_blocks, schedule.window.0 / 1_000_000)
    };
    // Two variants with 0.3 s of warm-up, windows of 1.5 s and 0.7 s besides: 5 s per block.
    assert_eq!(within(600), (10, 1500), "as the schedule has it");
    assert_eq!(within(52), (9, 1500), "room for ten blocks, of which one is kept in hand");
    // 7 blocks in 28 s: 2 s for each variant, less 1 s.
    assert_eq!(within(28), (6, 1000));
    assert_eq!(within(5), (6, 300), "the shortest");
}

#[test]
fn a_quick_look_keeps_its_six_blocks() {
    let mut plan = plan();
    plan.schedule = plan.schedule.quickened();
    let (schedule, _) = schedule_within(&plan, 2, Nanos::from_secs(30));
    // 7 blocks of two variants in 30 s: 2.14 s each, less 0.3 s of warm-up and 0.7 s besides.
    assert_eq!((schedule.pilot_blocks, schedule.window.0 / 1_000_000), (6, 1142));
}

#[test]
fn in_a_short_time_the_primary_metric_gets_twice_the_time_of_others() {
    let mut plan = plan();
    let arrivals = spec::Arrivals::default();
    plan.offers.push(spec::Offer::OpenShare { share: 0.5, arrivals });
    let within = |secs| {
        let (schedule, other) = schedule_within(&plan, 2, Nanos::from_secs(secs));
        (schedule.window.0 / 1_000_000, other.0 / 1_000_000)
    };
    assert_eq!(within(600), (1500, 1500), "as the schedule has it");
    // 7 blocks in 35 s: 2.5 s for each variant, less 1 s.
    assert_eq!(within(35), (1000, 500));
    assert_eq!(within(49), (1500, 833), "no longer than the schedule has it");
    assert_eq!(within(5), (300, 300), "the shortest");
}

#[test]
fn more_time_was_said_to_be_left_than_there_was() {
    let (wanted, room) = (Duration::from_secs(140), Duration::from_secs(45));
    assert_eq!(within(wanted, Some(room)), Nanos::from_secs(45));
    assert_eq!(within(room, Some(wanted)), Nanos::from_secs(45));
    assert_eq!(within(wanted, None), Nanos::from_secs(140));
}

#[test]
fn a_percentile_of_slices_shorter_than_itself_was_not_marked() {
    let latency = |ms: u64| {
        let mut histogram = crate::trial_sum::empty();
        histogram.record_n(ms * 1_000_000, 1_000).unwrap();
        Some(record::Distribution::from_histogram(&histogram))
    };
    let slice = record::Slice {
        round: 0,
        window: Nanos::from_millis(450),
        completed: 1_000,
        other_cpus: None,
        stolen: None,
        kept: true,
    };
    let mut part = eight_blocks();
    for trial in part.blocks.iter_mut().flat_map(|block| &mut block.trials) {
        let ms = if trial.variant == 0 { 440 } else { 460 };
        *trial = Trial {
            offer: Offer::Open,
            slices: vec![slice],
            latency: latency(ms),
            ..trial.clone()
        };
    }
    let part = concluded(part, Vec::new());
    let short = part.findings.iter().filter(|f| matches!(f.fact, Fact::ShortSlices { .. }));
    assert_eq!(short.map(|finding| finding.variant).collect::<Vec<_>>(), [Some(1)]);
    let highs = part.variants.iter().map(|variant| variant.summaries[0].p99_ns.high);
    assert_eq!(highs.map(f64::is_finite).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_rate_below_the_closed_loops_was_called_unsustained_where_requests_outlast_slices() {
    let mut histogram = crate::trial_sum::empty();
    histogram.record_n(1_000_000, 1_000).unwrap();
    let latency = record::Distribution::from_histogram(&histogram);
    let found = |rate: f64, outstanding: f64| {
        let mut part = eight_blocks();
        for block in &mut part.blocks {
            block.trials.truncate(1);
            let open = Trial {
                offer: Offer::Open,
                offered_per_s: Some(rate),
                latency: Some(latency.clone()),
                completed_in_window: 950,
                ..block.trials[0].clone()
            };
            block.trials.push(open);
        }
        let closed = &part.blocks[0].trials[0];
        let closed_per_s = closed.completed_in_window as f64 / closed.window.as_secs_f64();
        let loops = OpenLoops::in_blocks(1..=8, 0, outstanding);
        (loops.findings(&plan(), &part).len(), closed_per_s)
    };
    let (unsustained, closed_per_s) = found(1.0, 0.0);
    assert_eq!(unsustained, 1, "5% did not complete, and none were outstanding");
    assert_eq!(found(0.5 * closed_per_s, 0.05).0, 0, "those were outstanding");
    assert_eq!(found(0.5 * closed_per_s, 0.02).0, 1);
    assert_eq!(found(1.5 * closed_per_s, 0.05).0, 1, "the queue may be what makes them long");
}
