//! Judgements of known evidence.

use super::*;
use crate::bias::BiasCause;
use proptest::prelude::*;

const AIM: Aim = Aim { precision: 0.01, confidence: 0.95, adjusted_for: 1 };

fn evidence(d: &[f64]) -> Evidence<'_> {
    Evidence {
        d,
        interval: None,
        pilot_blocks: 10,
        aim: AIM,
        margin: None,
        better: BetterDirection::Higher,
        interrupted: false,
        invalid: false,
        biases: &[],
        margins: Margins::default(),
    }
}

/// `n` blocks around `mean`, alternating by ±`spread` in an order without positive autocorrelation.
fn blocks(n: usize, mean: f64, spread: f64) -> Vec<f64> {
    (0..n).map(|i| if i % 2 == 0 { mean + spread } else { mean - spread }).collect()
}

#[test]
fn a_clear_difference_has_the_direction_of_its_metric() {
    let d = blocks(12, 0.1, 0.01);
    let faster = judge(&evidence(&d));
    assert_eq!(faster.verdict, Verdict::Faster);
    assert!((faster.ratio.value - 0.1_f64.exp()).abs() < 1e-12);
    assert!(!faster.ratio.holds(1.0));
    assert_eq!(faster.second_opinion, Opinion::Agrees);
    assert_eq!(faster.more_blocks, None);
    let latency = Evidence { better: BetterDirection::Lower, ..evidence(&d) };
    assert_eq!(judge(&latency).verdict, Verdict::Slower);
    let less = blocks(12, -0.1, 0.01);
    assert_eq!(judge(&evidence(&less)).verdict, Verdict::Slower);
    assert_eq!(
        judge(&Evidence { better: BetterDirection::Lower, ..evidence(&less) }).verdict,
        Verdict::Faster
    );
}

#[test]
fn a_narrow_interval_around_one_detects_no_difference() {
    let judged = judge(&evidence(&blocks(12, 0.0005, 0.01)));
    assert_eq!(judged.verdict, Verdict::NoDifference);
    assert!(judged.ratio.holds(1.0));
}

#[test]
fn a_wide_interval_around_one_is_inconclusive_and_says_how_many_blocks_a_new_run_needs() {
    let judged = judge(&evidence(&blocks(12, 0.002, 0.05)));
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    // (2.200985 × 0.05·√(12/11) ÷ ln 1.01)² = 133.5.
    assert_eq!(judged.more_blocks, Some(134));
}

#[test]
fn equivalence_is_only_for_a_margin_declared_beforehand() {
    let d = blocks(12, 0.005, 0.002);
    assert_eq!(judge(&evidence(&d)).verdict, Verdict::Faster);
    let declared = |margin| judge(&Evidence { margin: Some(margin), ..evidence(&d) }).verdict;
    assert_eq!(declared(0.02), Verdict::Equivalent);
    assert_eq!(declared(0.005), Verdict::Faster);
    // The interval at twice the error probability decides: here ±1.8% fits, and Student's ±2.2%
    // does not.
    let borderline = blocks(10, 0.0, 0.0297);
    let judged = judge(&Evidence { margin: Some(0.02), ..evidence(&borderline) });
    assert!(judged.ratio.high > 1.02);
    assert_eq!(judged.verdict, Verdict::Equivalent);
}

#[test]
fn equivalence_after_looking_takes_the_whole_anytime_interval() {
    let d = blocks(10, 0.0, 0.01);
    let spread = Spread::of(&d).unwrap();
    // A margin between the half-width at α and the smaller one at 2α.
    let halves = [0.05, 0.1].map(|alpha| anytime_half_width(&spread, alpha));
    let margin = (halves[0] + halves[1]) / 2.0;
    let stopped = |margin: f64| {
        let margin = Some(margin.exp_m1());
        judge(&Evidence { margin, interrupted: true, ..evidence(&d) }).verdict
    };
    assert_ne!(stopped(margin), Verdict::Equivalent);
    assert_eq!(stopped(1.001 * halves[0]), Verdict::Equivalent);
}

#[test]
fn invalid_data_get_no_other_verdict() {
    let d = blocks(12, 0.1, 0.01);
    let judged = judge(&Evidence { invalid: true, margin: Some(0.5), ..evidence(&d) });
    assert_eq!(judged.verdict, Verdict::Invalid);
    assert_eq!(judged.more_blocks, None);
}

#[test]
fn stopping_early_gives_a_wider_interval() {
    let d = blocks(8, 0.1, 0.01);
    let (done, stopped) =
        (judge(&evidence(&d)), judge(&Evidence { interrupted: true, ..evidence(&d) }));
    assert!(stopped.ratio.low < done.ratio.low && stopped.ratio.high > done.ratio.high);
    assert_eq!((stopped.anytime, stopped.verdict), (true, Verdict::Faster));
}

#[test]
fn after_looking_the_second_opinion_may_doubt_but_not_convince() {
    let d = blocks(8, 0.012, 0.011);
    let stopped = judge(&Evidence { interrupted: true, ..evidence(&d) });
    assert!(stopped.second_opinion_p.unwrap() < 0.05 && stopped.ratio.holds(1.0));
    assert_eq!((stopped.second_opinion, stopped.verdict), (Opinion::Agrees, Verdict::Inconclusive));
}

#[test]
fn the_second_opinion_needs_enough_blocks() {
    for (n, adjusted_for, opinion) in [
        (5, 1, Opinion::Unavailable),
        (6, 1, Opinion::Agrees),
        (6, 2, Opinion::Unavailable),
        (7, 2, Opinion::Agrees),
        (7, 4, Opinion::Unavailable),
        (8, 4, Opinion::Agrees),
    ] {
        let d = blocks(n, 0.1, 0.01);
        let aim = Aim { adjusted_for, ..AIM };
        let judged = judge(&Evidence { aim, pilot_blocks: 6, ..evidence(&d) });
        assert_eq!(judged.second_opinion, opinion, "{n} blocks, {adjusted_for} comparisons");
        let verdict = if n < 6 { Verdict::Inconclusive } else { Verdict::Faster };
        assert_eq!(judged.verdict, verdict, "{n} blocks, {adjusted_for} comparisons");
    }
}

#[test]
fn fewer_than_six_blocks_decide_nothing() {
    // Two equal servers gave these two blocks when a time limit ended the run.
    let cut = [-0.0450, -0.0432];
    let judged = judge(&Evidence { margin: Some(0.5), pilot_blocks: 2, ..evidence(&cut) });
    assert!(!judged.ratio.holds(1.0));
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(judged.more_blocks.unwrap() >= 6);
}

#[test]
fn a_difference_that_one_block_makes_is_inconclusive() {
    // Five of six blocks show a difference, one weakly the opposite: Student's interval excludes 1,
    // the signs do not.
    let d = [0.02, 0.03, 0.025, 0.028, 0.022, -0.001];
    let judged = judge(&Evidence { pilot_blocks: 6, ..evidence(&d) });
    assert!(!judged.ratio.holds(1.0));
    assert_eq!(judged.second_opinion_p, Some(0.0625));
    assert_eq!(judged.second_opinion, Opinion::Disagrees);
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(judged.more_blocks.unwrap() >= 12);
}

#[test]
fn too_little_data_bound_nothing() {
    for d in [&[][..], &[0.1][..]] {
        let judged = judge(&evidence(d));
        assert_eq!(judged.verdict, Verdict::Inconclusive);
        assert_eq!((judged.ratio.low, judged.ratio.high), (0.0, f64::INFINITY));
        assert_eq!((judged.second_opinion, judged.more_blocks), (Opinion::Unavailable, None));
    }
    assert_eq!(judge(&Evidence { invalid: true, ..evidence(&[]) }).verdict, Verdict::Invalid);
}

#[test]
fn blocks_that_all_agree_leave_no_doubt() {
    let judged = judge(&evidence(&[0.1; 10]));
    assert_eq!(judged.verdict, Verdict::Faster);
    assert!((judged.ratio.high - judged.ratio.low).abs() < 1e-9);
    assert_eq!(judge(&evidence(&[0.0; 10])).verdict, Verdict::NoDifference);
}

fn some_blocks() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-0.05..0.1_f64, 2..20)
}

fn mirrored(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Faster => Verdict::Slower,
        Verdict::Slower => Verdict::Faster,
        other => other,
    }
}

proptest! {
    #[test]
    fn swapping_the_variants_mirrors_the_judgement(d in some_blocks(), interrupted: bool, margin in prop::option::of(0.001..0.2_f64)) {
        let negated: Vec<f64> = d.iter().map(|d| -d).collect();
        let one = judge(&Evidence { interrupted, margin, ..evidence(&d) });
        let other = judge(&Evidence { interrupted, margin, ..evidence(&negated) });
        prop_assert_eq!(one.verdict, mirrored(other.verdict));
        prop_assert!((one.ratio.value * other.ratio.value - 1.0).abs() < 1e-9);
        prop_assert_eq!(one.second_opinion_p, other.second_opinion_p);
        prop_assert_eq!(one.more_blocks, other.more_blocks);
    }

    #[test]
    fn more_confidence_or_more_comparisons_are_never_narrower(d in some_blocks(), interrupted: bool) {
        let width = |aim: Aim| {
            let ratio = judge(&Evidence { aim, interrupted, ..evidence(&d) }).ratio;
            ratio.high - ratio.low
        };
        let (surer, shared) = (Aim { confidence: 0.99, ..AIM }, Aim { adjusted_for: 4, ..AIM });
        prop_assert!(width(AIM) <= width(surer));
        prop_assert!(width(AIM) <= width(shared));
    }

    #[test]
    fn the_interval_holds_its_estimate_and_a_difference_excludes_one(d in some_blocks()) {
        let judged = judge(&evidence(&d));
        prop_assert!(judged.ratio.holds(judged.ratio.value));
        if matches!(judged.verdict, Verdict::Faster | Verdict::Slower) {
            prop_assert!(!judged.ratio.holds(1.0));
        }
        if judged.verdict == Verdict::NoDifference {
            prop_assert!(judged.ratio.holds(1.0));
        }
        prop_assert_eq!(judged.more_blocks.is_some(), judged.verdict == Verdict::Inconclusive);
    }
}

const STEAL: Bias = Bias { cause: BiasCause::Steal, log_bound: 0.05 };

#[test]
fn biases_widen_the_interval_on_both_sides_and_add_up() {
    let d = blocks(12, 0.1, 0.005);
    let (plain, biases) = (judge(&evidence(&d)), [STEAL, Bias { log_bound: 0.02, ..STEAL }]);
    let widened = judge(&Evidence { biases: &biases, ..evidence(&d) });
    assert_eq!(widened.ratio.value, plain.ratio.value);
    assert!((plain.ratio.low.ln() - widened.ratio.low.ln() - 0.07).abs() < 1e-12);
    assert!((widened.ratio.high.ln() - plain.ratio.high.ln() - 0.07).abs() < 1e-12);
    assert_eq!((widened.verdict, widened.second_opinion), (Verdict::Faster, Opinion::Agrees));
    assert_eq!(widened.biases, biases);
}

#[test]
fn a_difference_that_a_bias_could_explain_is_none() {
    let d = blocks(12, 0.04, 0.005);
    let biased = |better, d: &[f64]| judge(&Evidence { biases: &[STEAL], better, ..evidence(d) });
    let judged = biased(BetterDirection::Higher, &d);
    assert_eq!((judged.verdict, judged.second_opinion), (Verdict::Inconclusive, Opinion::Agrees));
    assert_eq!(judged.more_blocks, None, "no number of blocks removes a bias");
    let other_way: Vec<f64> = d.iter().map(|d| -d).collect();
    assert_eq!(biased(BetterDirection::Lower, &other_way).verdict, Verdict::Inconclusive);
    // A bias below the target leaves room for the spread.
    let small = [Bias { log_bound: 0.005, ..STEAL }];
    let noisy = blocks(12, 0.0, 0.04);
    let more = |biases| judge(&Evidence { biases, ..evidence(&noisy) }).more_blocks.unwrap();
    assert!(more(&small) > 3 * more(&[]), "half the width takes four times the blocks");
}

#[test]
fn equivalence_holds_only_if_the_bias_fits_into_the_margin() {
    let d = blocks(12, 0.001, 0.004);
    let within = |margin, log_bound| {
        let biases = [Bias { log_bound, ..STEAL }];
        judge(&Evidence { margin: Some(margin), biases: &biases, ..evidence(&d) }).verdict
    };
    assert_eq!(within(0.02, 0.01), Verdict::Equivalent);
    assert_ne!(within(0.02, 0.02), Verdict::Equivalent);
}

#[test]
fn rare_stalls_leave_no_difference_and_no_equivalence_that_they_could_undo() {
    let d = blocks(12, 0.001, 0.004);
    let judged =
        |margins, margin, interval| judge(&Evidence { margins, margin, interval, ..evidence(&d) });
    let rare = Margins { below: 0.1, above: 0.0 };
    let plain = judged(Margins::default(), None, None);
    let widened = judged(rare, None, None);
    assert_eq!((plain.verdict, widened.verdict), (Verdict::NoDifference, Verdict::Inconclusive));
    assert!((widened.ratio.low.ln() - (0.001 - 0.1)).abs() < 1e-9, "{:?}", widened.ratio);
    assert_eq!(widened.ratio.high, plain.ratio.high);
    assert!(widened.more_blocks > Some(100), "{:?}", widened.more_blocks);
    let interval = Some(plain.ratio);
    for interval in [None, interval] {
        let equivalent = |margins| judged(margins, Some(0.02), interval).verdict;
        assert_eq!(equivalent(Margins::default()), Verdict::Equivalent);
        assert_ne!(equivalent(rare), Verdict::Equivalent);
    }
    // A difference that a stall could explain is none.
    let faster = blocks(12, 0.05, 0.004);
    let judged = |margins| judge(&Evidence { margins, ..evidence(&faster) });
    assert_eq!(judged(Margins::default()).verdict, Verdict::Faster);
    let explained = judged(rare);
    assert_eq!(
        (explained.verdict, explained.second_opinion),
        (Verdict::Inconclusive, Opinion::Agrees)
    );
}

#[test]
fn a_judgement_of_before_biases_reads_as_one_without() {
    let mut json = serde_json::to_value(judge(&evidence(&blocks(12, 0.1, 0.01)))).unwrap();
    assert!(json.as_object_mut().unwrap().remove("biases").is_none(), "none is not written");
    assert_eq!(serde_json::from_value::<Judgement>(json).unwrap().biases, []);
}

#[test]
fn biases_of_two_ratios_add_up_in_their_ratio() {
    let d = blocks(12, 0.1, 0.01);
    let plain = judge(&evidence(&d));
    let biased = judge(&Evidence { biases: &[STEAL], ..evidence(&d) });
    let (plain, both) = (plain.relative_to(&plain), biased.relative_to(&biased));
    assert!((both.high.ln() - plain.high.ln() - 0.1).abs() < 1e-12, "{both:?} {plain:?}");
    assert!((plain.low.ln() - both.low.ln() - 0.1).abs() < 1e-12, "{both:?} {plain:?}");
}
