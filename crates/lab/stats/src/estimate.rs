//! From trials to ratios and levels with intervals.

use crate::Estimate;
use crate::anytime::anytime_half_width;
use crate::quantile::Sureness;
use crate::spread::Spread;
use crate::stein::half_width;

/// A trial whose metric is zero, negative or not finite, and therefore has no logarithm.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("block {block} measured {value}, which has no ratio; check that block's errors")]
pub struct NotPositive {
    /// The position of the block in the input, from 1.
    pub block: usize,
    /// The value.
    pub value: f64,
}

/// The block-wise log ratios d = ln(variant) − ln(baseline) of `(baseline, variant)` pairs.
///
/// # Errors
/// [`NotPositive`] for the first metric without a logarithm.
pub fn log_ratios(pairs: &[(f64, f64)]) -> Result<Vec<f64>, NotPositive> {
    pairs
        .iter()
        .enumerate()
        .map(|(i, &(baseline, variant))| {
            Ok(logarithm(i + 1, variant)? - logarithm(i + 1, baseline)?)
        })
        .collect()
}

fn logarithm(block: usize, value: f64) -> Result<f64, NotPositive> {
    if value > 0.0 && value.is_finite() {
        Ok(value.ln())
    } else {
        Err(NotPositive { block, value })
    }
}

/// The ratio variant ÷ baseline of `(baseline, variant)` pairs, one pair per block, with Student's
/// interval: exp(mean d ± t·s/√n).
///
/// The plain interval for a sample size that was fixed in advance. If the number of blocks depended
/// on a pilot, use [`judge`](crate::judge()).
///
/// # Errors
/// [`NotPositive`] for the first metric without a logarithm.
pub fn mean_log_ratio(pairs: &[(f64, f64)], confidence: f64) -> Result<Estimate, NotPositive> {
    Ok(exponentiated(&log_ratios(pairs)?, confidence))
}

/// The level of one variant: the geometric mean of one number per block, with Student's interval on
/// the logarithms. In the unit of `values`.
///
/// # Errors
/// [`NotPositive`] for the first value without a logarithm.
pub fn level(values: &[f64], confidence: f64) -> Result<Estimate, NotPositive> {
    let logs: Result<Vec<f64>, NotPositive> =
        values.iter().enumerate().map(|(i, &value)| logarithm(i + 1, value)).collect();
    Ok(exponentiated(&logs?, confidence))
}

/// The estimate behind one value per block on a logarithmic scale, with the interval that fits how
/// the number of blocks came about: by a pilot of `pilot_blocks`, or by a person who stopped the run
/// after seeing its data.
pub fn level_of(
    logs: &[f64],
    pilot_blocks: usize,
    Sureness { alpha, interrupted }: Sureness,
) -> Estimate {
    let half = match Spread::of(logs) {
        Some(spread) if interrupted => Some(anytime_half_width(&spread, alpha)),
        _ => half_width(logs, pilot_blocks, alpha),
    };
    Estimate::from_log(crate::spread::mean(logs), half.unwrap_or(f64::INFINITY))
}

/// The mean of one difference per block, in the unit of `differences`, with Student's interval, or with
/// that of a person who stopped the run after seeing its data. Infinite without a spread.
pub fn mean_difference(differences: &[f64], Sureness { alpha, interrupted }: Sureness) -> Estimate {
    let value = crate::spread::mean(differences);
    let half = Spread::of(differences).map_or(f64::INFINITY, |spread| match interrupted {
        true => anytime_half_width(&spread, alpha),
        false => spread.t_half_width(alpha),
    });
    Estimate { value, low: value - half, high: value + half }
}

fn exponentiated(logs: &[f64], confidence: f64) -> Estimate {
    match Spread::of(logs) {
        Some(spread) => Estimate::from_log(spread.mean, spread.t_half_width(1.0 - confidence)),
        None => Estimate::from_log(crate::spread::mean(logs), f64::INFINITY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ratio_by_hand() {
        // d = ln 1.1, ln 1.2, ln 1.3: mean 0.180002, s 0.083549, t(0.05, 2) 4.302653.
        let ratio = mean_log_ratio(&[(100.0, 110.0), (50.0, 60.0), (10.0, 13.0)], 0.95).unwrap();
        assert!((ratio.value - 1.197_216).abs() < 1e-6, "{ratio:?}");
        assert!((ratio.low - 0.972_81).abs() < 1e-4, "{ratio:?}");
        assert!((ratio.high - 1.473_39).abs() < 1e-4, "{ratio:?}");
    }

    #[test]
    fn a_difference_by_hand() {
        // Mean 2, s 1, n 3, t(0.05, 2) 4.302653.
        let sureness = Sureness { alpha: 0.05, interrupted: false };
        let estimate = mean_difference(&[1.0, 2.0, 3.0], sureness);
        assert!((estimate.value - 2.0).abs() < 1e-12);
        assert!((estimate.high - 2.0 - 4.302_653 / 3_f64.sqrt()).abs() < 1e-6, "{estimate:?}");
        assert!((estimate.low + estimate.high - 4.0).abs() < 1e-12);
        assert_eq!(mean_difference(&[1.0], sureness).high, f64::INFINITY);
        let stopped = mean_difference(&[1.0, 2.0, 3.0], Sureness { interrupted: true, ..sureness });
        assert!(stopped.high > estimate.high);
    }

    #[test]
    fn one_block_bounds_nothing() {
        let one = level(&[12.0], 0.95).unwrap();
        assert!((one.value - 12.0).abs() < 1e-12);
        assert_eq!((one.low, one.high), (0.0, f64::INFINITY));
    }

    #[test]
    fn a_trial_without_a_logarithm_is_named() {
        let error = log_ratios(&[(1.0, 1.0), (1.0, 0.0)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "block 2 measured 0, which has no ratio; check that block's errors"
        );
        assert!(level(&[1.0, f64::NAN], 0.95).is_err());
    }

    fn pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((1.0..1e6_f64, 1.0..1e6_f64), 2..40)
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    proptest! {
        #[test]
        fn swapping_the_variants_inverts_ratio_and_interval(pairs in pairs()) {
            let there = mean_log_ratio(&pairs, 0.95).unwrap();
            let swapped: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let back = mean_log_ratio(&swapped, 0.95).unwrap();
            prop_assert!(close(there.value, 1.0 / back.value));
            prop_assert!(close(there.low, 1.0 / back.high));
            prop_assert!(close(there.high, 1.0 / back.low));
        }

        #[test]
        fn the_unit_does_not_matter(pairs in pairs(), scale in 1e-3..1e3_f64) {
            let scaled: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (a * scale, b * scale)).collect();
            let (one, other) = (mean_log_ratio(&pairs, 0.95).unwrap(), mean_log_ratio(&scaled, 0.95).unwrap());
            prop_assert!(close(one.value, other.value) && close(one.low, other.low) && close(one.high, other.high));
        }

        #[test]
        fn a_faster_machine_for_a_whole_block_changes_nothing(pairs in pairs(), speed in 0.1..10.0_f64) {
            let mut faster = pairs.clone();
            faster[0] = (faster[0].0 * speed, faster[0].1 * speed);
            let (one, other) = (mean_log_ratio(&pairs, 0.95).unwrap(), mean_log_ratio(&faster, 0.95).unwrap());
            prop_assert!(close(one.value, other.value) && close(one.low, other.low) && close(one.high, other.high));
        }
    }
}
