//! The mean of a series of blocks, and its standard error.

use crate::student::t_quantile;

/// Merging stops before there would be fewer groups: with fewer, the loss of degrees of freedom
/// outweighs the correction.
const GROUPS_MIN: usize = 5;

/// The mean of one number per block, with its standard error.
///
/// If neighbouring blocks are autocorrelated (lag 1 above 2/√n), adjacent blocks are merged into
/// groups until they no longer are, and the error is estimated between groups. Merging never
/// changes the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Mean over all blocks.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of adjacent blocks per group; 1 if nothing was merged.
    pub group_size: usize,
    /// Group means, in order; the blocks themselves if nothing was merged.
    pub groups: Vec<f64>,
}

impl Spread {
    /// Mean and standard error of `values`; `None` for fewer than two values or a non-finite one.
    pub fn of(values: &[f64]) -> Option<Spread> {
        if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut group_size = 1;
        loop {
            let groups = group_means(values, group_size);
            let threshold = 2.0 / (groups.len() as f64).sqrt();
            if groups.len() / 2 >= GROUPS_MIN && lag1_autocorrelation(&groups) > threshold {
                group_size *= 2;
            } else {
                return Some(Spread::of_groups(values, groups, group_size));
            }
        }
    }

    /// Weighted least squares: a group of k blocks has a k-th of a block's variance, so Σ k·(group
    /// − mean)² ÷ (groups − 1) estimates that of a block.
    fn of_groups(values: &[f64], groups: Vec<f64>, group_size: usize) -> Spread {
        let blocks = values.len();
        let mean = mean(values);
        debug_assert!(groups.len() >= 2, "a spread is between groups");
        debug_assert_eq!(groups.len(), blocks / group_size, "a remainder joins the last group");
        let last = groups.len() - 1;
        let squares: f64 = groups
            .iter()
            .enumerate()
            .map(|(i, group)| {
                let size = if i == last { blocks - last * group_size } else { group_size };
                size as f64 * (group - mean).powi(2)
            })
            .sum();
        let standard_error = (squares / last as f64 / blocks as f64).sqrt();
        Spread { mean, standard_error, blocks, group_size, groups }
    }

    /// Standard deviation of one block (larger if merging showed autocorrelation).
    pub fn sd(&self) -> f64 {
        self.standard_error * (self.blocks as f64).sqrt()
    }

    /// Degrees of freedom of the standard error.
    pub fn df(&self) -> usize {
        self.groups.len() - 1
    }

    /// Half-width of Student's interval at error probability `alpha`.
    pub fn t_half_width(&self, alpha: f64) -> f64 {
        product_or_zero(t_quantile(alpha, self.df()), self.standard_error)
    }
}

/// A product in which an error of zero times an infinite quantile is zero.
pub(crate) fn product_or_zero(quantile: f64, error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { quantile * error }
}

/// The arithmetic mean; NaN without values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Means of `size` adjacent values each; a remainder joins the last group.
fn group_means(values: &[f64], size: usize) -> Vec<f64> {
    let groups = values.len() / size;
    (0..groups)
        .map(|i| {
            let end = if i + 1 == groups { values.len() } else { (i + 1) * size };
            mean(&values[i * size..end])
        })
        .collect()
}

/// Autocorrelation at lag 1, between −1 and 1; 0 without variance.
pub fn lag1_autocorrelation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if squares > 0.0 {
        values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum::<f64>() / squares
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn independent_blocks_are_not_merged() {
        let spread = Spread::of(&[1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((spread.mean, spread.group_size, spread.blocks), (2.5, 1, 4));
        assert!((spread.sd() - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn blocks_that_resemble_their_neighbours_are_merged_and_the_error_grows() {
        let slow: Vec<f64> = (0..24).map(|i| if i / 4 % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let spread = Spread::of(&slow).unwrap();
        assert!(spread.group_size > 1);
        assert_eq!(spread.mean, 0.0);
        let naive = Spread::of_groups(&slow, slow.clone(), 1);
        assert!(spread.standard_error > 1.4 * naive.standard_error);
    }

    #[test]
    fn what_is_left_over_joins_the_last_group() {
        assert_eq!(group_means(&[1.0, 2.0, 3.0, 4.0, 8.0], 2), [1.5, 5.0]);
    }

    #[test]
    fn too_little_or_broken_data_has_no_spread() {
        assert_eq!(Spread::of(&[1.0]), None);
        assert_eq!(Spread::of(&[1.0, f64::NEG_INFINITY]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN, 2.0]), None);
    }

    proptest! {
        #[test]
        fn merging_keeps_the_mean(values in prop::collection::vec(-1.0..1.0_f64, 2..64), size in 1..8_usize) {
            prop_assume!(values.len() / size >= 2);
            let groups = group_means(&values, size);
            let spread = Spread::of_groups(&values, groups.clone(), size);
            let last = groups.len() - 1;
            let weighted: f64 = groups.iter().enumerate().map(|(i, group)| {
                group * if i == last { values.len() - last * size } else { size } as f64
            }).sum::<f64>() / values.len() as f64;
            prop_assert!((weighted - spread.mean).abs() < 1e-12);
        }

        #[test]
        fn more_confidence_is_wider(values in prop::collection::vec(-1.0..1.0_f64, 3..40)) {
            let spread = Spread::of(&values).unwrap();
            prop_assume!(spread.standard_error > 1e-9);
            prop_assert!(spread.t_half_width(0.01) > spread.t_half_width(0.05));
            prop_assert!(spread.t_half_width(0.05) > spread.t_half_width(0.10));
        }

        #[test]
        fn autocorrelation_stays_between_its_bounds(values in prop::collection::vec(-1.0..1.0_f64, 2..40)) {
            prop_assert!(lag1_autocorrelation(&values).abs() <= 1.0);
        }
    }
}
