//! Crossings of known curves.

use super::*;
use proptest::prelude::*;

fn share(block: u32, rate: f64, bad: f64, all: f64) -> RatePoint {
    let measures = vec![Measure::Share { bad, all }];
    RatePoint { block, rate_per_s: rate, answered: 1.0, measures }
}

/// `1000` requests at each rate, of which 1% are bad at the capacity.
fn curve(block: u32, rates: &[f64], capacity: f64, slope: f64) -> Vec<RatePoint> {
    let point = |rate: &f64| {
        let odds = 0.01 / 0.99 * (rate / capacity).powf(slope);
        share(block, *rate, 1000.0 * odds / (1.0 + odds), 1000.0)
    };
    rates.iter().map(point).collect()
}

fn found(points: &[RatePoint], limits: &[f64]) -> Option<Crossing> {
    crossing(&points.iter().collect::<Vec<_>>(), limits)
}

proptest! {
    #[test]
    fn a_curve_of_the_model_is_found(capacity in 950.0..1060.0_f64, slope in 2.0..200.0_f64) {
        let points = curve(1, &[950.0, 980.0, 1000.0, 1030.0, 1060.0], capacity, slope);
        let found = found(&points, &[0.01]).unwrap();
        prop_assert!((found.log_rate.exp() / capacity - 1.0).abs() < 1e-5, "{found:?}");
        prop_assert!((found.slope / slope - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn the_mean_of_pseudo_values_is_close_to_the_estimate(noise in prop::collection::vec(0.5..2.0_f64, 24)) {
        let mut points = Vec::new();
        for block in 0..8 {
            points.extend(curve(block, &[960.0, 1000.0, 1040.0], 1000.0, 40.0));
        }
        for (point, noise) in points.iter_mut().zip(&noise) {
            if let Measure::Share { bad, .. } = &mut point.measures[0] {
                *bad *= noise;
            }
        }
        let (estimate, crossing) = capacity(&points, &[0.01], 2.0).unwrap();
        prop_assert!(estimate.low < estimate.value && estimate.value < estimate.high);
        let values = pseudo_values(&points, &[0.01]).unwrap();
        prop_assert_eq!(values.len(), 8);
        let mean = values.values().sum::<f64>() / 8.0;
        prop_assert!((mean - crossing.log_rate).abs() < 0.01, "{} {}", mean, crossing.log_rate);
    }
}

#[test]
fn a_step_is_found_between_the_rates_around_it() {
    // As a token bucket whose queue has no limit: nothing is slow below, and much above.
    let points: Vec<RatePoint> = [(970.0, 0.0), (990.0, 0.0), (1010.0, 400.0), (1030.0, 700.0)]
        .iter()
        .map(|(rate, bad)| share(1, *rate, *bad, 1000.0))
        .collect();
    let rate = found(&points, &[0.01]).unwrap().log_rate.exp();
    assert!((985.0..1012.0).contains(&rate), "{rate}");
}

#[test]
fn without_a_bad_request_or_a_good_one_nothing_crosses() {
    let all = |bad| [900.0, 1000.0].map(|rate| share(1, rate, bad, 1000.0));
    assert_eq!(found(&all(0.0), &[0.01]), None);
    assert_eq!(found(&all(1000.0), &[0.01]), None);
    assert_eq!(found(&[], &[0.01]), None);
    // It would be far beyond the trials.
    let far = [(900.0, 1.0), (1000.0, 2.0)].map(|(rate, bad)| share(1, rate, bad, 100_000.0));
    assert_eq!(found(&far, &[0.01]), None);
}

#[test]
fn the_first_condition_to_stop_holding_decides() {
    let mut points = curve(1, &[900.0, 1000.0, 1100.0], 1000.0, 40.0);
    for point in &mut points {
        // 80% at 950.
        point.measures.push(Measure::Level(0.8 * point.rate_per_s / 950.0));
    }
    let found_both = found(&points, &[0.01, 0.8]).unwrap();
    assert_eq!(found_both.condition, 1);
    assert!((found_both.log_rate.exp() - 950.0).abs() < 1e-6);
    let other = found(&points, &[0.01, 0.9]).unwrap();
    assert_eq!(other.condition, 0);
    points.iter_mut().for_each(|point| point.measures[1] = Measure::Unknown);
    assert_eq!(found(&points, &[0.01, 0.8]).unwrap().condition, 0);
}

#[test]
fn a_growing_queue_counts_as_what_was_answered() {
    // The limit is crossed at 1000, but only 97% of that are answered in the window.
    let mut points = Vec::new();
    for block in 0..6 {
        points.extend(curve(block, &[980.0, 1000.0, 1020.0], 1000.0, 60.0));
    }
    for point in &mut points {
        point.answered = 970.0 / point.rate_per_s;
    }
    let (estimate, _) = capacity(&points, &[0.01], 2.0).unwrap();
    assert!((estimate.value / 970.0 - 1.0).abs() < 1e-6, "{estimate:?}");
}

#[test]
fn a_measure_holds_up_to_its_limit() {
    for (measure, holds) in [
        (Measure::Share { bad: 1.0, all: 100.0 }, true),
        (Measure::Share { bad: 2.0, all: 100.0 }, false),
        (Measure::Level(0.01), true),
        (Measure::Level(0.02), false),
        (Measure::Unknown, true),
    ] {
        assert_eq!(measure.holds(0.01), holds, "{measure:?}");
    }
}

#[test]
fn too_few_requests_decide_nothing() {
    let points = |blocks| -> Vec<RatePoint> {
        (0..blocks).flat_map(|block| curve(block, &[980.0, 1000.0, 1020.0], 1000.0, 40.0)).collect()
    };
    // 30 at the limit in a block.
    assert_eq!(capacity(&points(1), &[0.01], 2.0), None);
    assert!(capacity(&points(2), &[0.01], 2.0).is_some());
}

#[test]
fn few_bursts_reach_further_down_than_up_and_more_critical_is_wider() {
    let mut points = Vec::new();
    for block in 0..8 {
        points.extend(curve(block, &[960.0, 1000.0, 1040.0], 1000.0, 40.0));
    }
    // One burst in four trials, four times as large.
    for (at, point) in points.iter_mut().enumerate() {
        if let Measure::Share { bad, .. } = &mut point.measures[0] {
            *bad *= if at % 4 == 0 { 4.0 } else { 0.0 };
        }
    }
    let [narrow, wide] = [2.0, 3.0].map(|t| capacity(&points, &[0.01], t).unwrap().0);
    let down = |e: &Estimate| (e.value / e.low).ln();
    let up = |e: &Estimate| (e.high / e.value).ln();
    assert!(down(&narrow) > 1.5 * up(&narrow), "{narrow:?}");
    assert!(down(&wide) > down(&narrow) && up(&wide) > up(&narrow));
}
