//! Ratios of totals: all requests ÷ all the time, over blocks of unequal size.
//!
//! The mean of the blocks' logarithms is not the logarithm of their total where a server is uneven:
//! a block that happens to have few slow requests weighs as much as one that has many.

use crate::estimate::NotPositive;

/// What a block contributes to a ratio: `amount` ÷ `per`, such as requests ÷ seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// The numerator.
    pub amount: f64,
    /// The denominator.
    pub per: f64,
}

/// One value per block, whose mean is the logarithm of Σ amount ÷ Σ per exactly, and whose spread
/// gives that logarithm's standard error.
///
/// To the logarithm r of the ratio, each block adds its linearised deviation (amount − eʳ per) ÷ (eʳ
/// mean per): the usual estimator of a ratio's variance (W. G. Cochran, Sampling Techniques, 3rd
/// edition, 1977, § 2.11).
///
/// # Errors
///
/// If the total amount or the total denominator is not positive and finite.
pub fn log_of_totals(blocks: &[Total]) -> Result<Vec<f64>, NotPositive> {
    let amount: f64 = blocks.iter().map(|block| block.amount).sum();
    let per: f64 = blocks.iter().map(|block| block.per).sum();
    let (ratio, block) = (amount / per, blocks.len());
    if !(amount > 0.0 && per > 0.0 && ratio.is_finite() && ratio > 0.0) {
        return Err(NotPositive { block, value: ratio });
    }
    let mean = per / blocks.len() as f64;
    let value = |b: &Total| ratio.ln() + (b.amount - ratio * b.per) / (ratio * mean);
    Ok(blocks.iter().map(value).collect())
}

/// The same for the ratio of two such ratios, variant ÷ baseline, of the same blocks.
///
/// # Errors
///
/// As [`log_of_totals`].
pub fn log_ratios_of_totals(pairs: &[(Total, Total)]) -> Result<Vec<f64>, NotPositive> {
    let side = |of: fn(&(Total, Total)) -> Total| -> Result<Vec<f64>, NotPositive> {
        log_of_totals(&pairs.iter().map(of).collect::<Vec<Total>>())
    };
    let (baseline, variant) = (side(|pair| pair.0)?, side(|pair| pair.1)?);
    Ok(variant.into_iter().zip(baseline).map(|(variant, baseline)| variant - baseline).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(amount: f64, per: f64) -> Total {
        Total { amount, per }
    }

    #[test]
    fn a_ratio_of_totals_by_hand() {
        // 30 ÷ 3 = 10; mean denominator 1.5: deviations (10 − 10) ÷ 15 and (20 − 20) ÷ 15.
        let even = log_of_totals(&[total(10.0, 1.0), total(20.0, 2.0)]).unwrap();
        assert_eq!(even, [10f64.ln(); 2]);
        // 20 ÷ 2 = 10: deviations ±5 ÷ 10.
        let uneven = log_of_totals(&[total(5.0, 1.0), total(15.0, 1.0)]).unwrap();
        assert_eq!(uneven, [10f64.ln() - 0.5, 10f64.ln() + 0.5]);
    }

    #[test]
    fn a_block_without_any_answer_counts_and_none_at_all_is_an_error() {
        let values = log_of_totals(&[total(0.0, 1.0), total(20.0, 1.0)]).unwrap();
        assert_eq!(values, [10f64.ln() - 1.0, 10f64.ln() + 1.0]);
        assert!(log_of_totals(&[total(0.0, 1.0), total(0.0, 1.0)]).is_err());
        assert!(log_of_totals(&[]).is_err());
    }

    proptest! {
        #[test]
        fn the_mean_is_that_of_the_totals(
            blocks in prop::collection::vec((0.5..1e3_f64, 0.1..10.0_f64), 2..30),
        ) {
            let (amount, per) = blocks.iter().fold((0.0, 0.0), |(a, p), b| (a + b.0, p + b.1));
            let blocks: Vec<Total> = blocks.into_iter().map(|(amount, per)| total(amount, per)).collect();
            let values = log_of_totals(&blocks).unwrap();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            prop_assert!((mean - (amount / per).ln()).abs() < 1e-9);
        }
    }
}
