//! A small, seeded version of the proof; `make prove` plays 2,000 runs of each.

use super::*;

const RUNS: u32 = 300;

fn play(name: &str) -> ScenarioResult {
    let scenarios = scenarios();
    let scenario = scenarios.iter().find(|scenario| scenario.name == name);
    scenario.expect("a scenario of that name").run(RUNS, Seed(1))
}

/// 300 runs determine a coverage of 95% to ±3.5% (99% of the time), so the bounds are wider than
/// those of the full proof.
#[track_caller]
fn holds_its_promise(name: &str) {
    let result = play(name);
    let (low, _) = result.goal.expect("a goal");
    assert!(result.coverage() > low - 0.035, "{result:?}");
    assert!(f64::from(result.false_alarms) < 0.09 * f64::from(RUNS), "{result:?}");
    assert_eq!(result.wrong_sign, 0, "{result:?}");
    assert!(f64::from(result.found) > 0.85 * f64::from(RUNS), "{result:?}");
}

#[test]
fn normal_noise() {
    holds_its_promise("normal");
    // Much above 95% would mean intervals that are wider than necessary.
    assert!(play("normal").coverage() < 0.985);
}

#[test]
fn a_quick_run() {
    holds_its_promise("quick");
}

#[test]
fn drift() {
    holds_its_promise("drift");
}

#[test]
fn a_wandering_machine() {
    holds_its_promise("AR(1)");
}

#[test]
fn heavy_tails() {
    holds_its_promise("t3 tails");
}

#[test]
fn bursts() {
    holds_its_promise("bursts");
}

#[test]
fn bimodal_restarts() {
    holds_its_promise("bimodal restarts");
}

#[test]
fn ctrl_c_at_the_worst_moment() {
    holds_its_promise("Ctrl-C at the worst moment");
}

#[test]
fn five_variants() {
    holds_its_promise("5 variants");
}

#[test]
fn rounds_that_are_left_out_keep_the_promise_and_narrow_the_interval() {
    let (quiet, all) = (play("a neighbour, rounds left out"), play("a neighbour"));
    assert!(quiet.coverage() > 0.93 - 0.035 && quiet.wrong_sign == 0, "{quiet:?}");
    assert!(f64::from(quiet.false_alarms) < 0.09 * f64::from(RUNS), "{quiet:?}");
    // By narrower intervals, or by fewer blocks for the same width.
    let cost = |result: &ScenarioResult| result.half_width * result.blocks.sqrt();
    assert!(cost(&quiet) < cost(&all), "{quiet:?} {all:?}");
}

#[test]
fn levels() {
    let result = play("level");
    assert!(result.coverage() > 0.93 - 0.035 && result.wrong_sign == 0, "{result:?}");
    assert!(f64::from(result.false_alarms) < 0.09 * f64::from(RUNS), "{result:?}");
}

#[test]
fn equivalence() {
    holds_its_promise("equivalence");
    holds_its_promise("equivalence, Ctrl-C");
}

#[test]
fn one_after_the_other_misleads_on_the_data_that_interleaving_reads_right() {
    let drift = play("drift, one after the other");
    assert!(drift.coverage() < 0.1 && drift.false_alarms > RUNS * 9 / 10, "{drift:?}");
    let wandering = play("AR(1), one after the other");
    assert!(wandering.coverage() < 0.8 && wandering.false_alarms > RUNS / 5, "{wandering:?}");
}

#[test]
fn a_bounded_bias_is_in_the_interval_only_if_it_is_widened() {
    let result = play("uneven steal");
    assert!(result.coverage() > 0.93 && result.wrong_sign == 0, "{result:?}");
    assert!(result.false_alarms < RUNS / 20, "{result:?}");
    let narrow = play("uneven steal, not widened");
    assert!(narrow.coverage() < 0.1 && narrow.false_alarms > RUNS * 9 / 10, "{narrow:?}");
}

#[test]
fn looking_at_students_interval_misleads() {
    let result = play("Ctrl-C, Student's interval");
    assert!(result.coverage() < 0.8 && result.false_alarms > RUNS / 5, "{result:?}");
}

#[test]
fn a_seed_replays_a_scenario() {
    let scenario = &scenarios()[0];
    assert_eq!(scenario.run(5, Seed(3)), scenario.run(5, Seed(3)));
    assert_ne!(scenario.run(5, Seed(3)), scenario.run(5, Seed(4)));
}

#[test]
fn the_contrasts_are_played_on_the_noise_of_the_scenario_they_contrast_with() {
    let scenarios = scenarios();
    let of = |name: &str| scenarios.iter().find(|scenario| scenario.name == name).unwrap();
    for (with, without) in [
        ("a neighbour", "a neighbour, rounds left out"),
        ("drift", "drift, one after the other"),
        ("AR(1)", "AR(1), one after the other"),
        ("Ctrl-C at the worst moment", "Ctrl-C, Student's interval"),
        ("uneven steal", "uneven steal, not widened"),
        ("rare stops", "rare stops, by their spread"),
    ] {
        assert_eq!((of(with).noise, of(with).world), (of(without).noise, of(without).world));
    }
    // All others use different noise, so that one bad draw does not show twice.
    let mut noises: Vec<&str> = scenarios.iter().map(|scenario| scenario.noise).collect();
    noises.sort_unstable();
    noises.dedup();
    assert_eq!(noises.len(), scenarios.len() - 6);
}
