//! The number of blocks: Stein's two-stage procedure.
//!
//! C. Stein, A two-sample test for a linear hypothesis whose power is independent of the variance,
//! Annals of Mathematical Statistics 16 (1945). The number of blocks depends only on the pilot's
//! spread. For normal data the spread is independent of the mean, so the interval keeps its
//! coverage whatever the number and its cap.

use crate::spread::{Spread, product_or_zero};
use crate::stalls::Margins;
use crate::student::t_quantile;

/// Target precision and confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    /// Target half-width, as a fraction of the ratio: 0.01 is ±1%.
    pub precision: f64,
    /// Confidence of all primary comparisons together, such as 0.95.
    pub confidence: f64,
    /// Number of comparisons that share that confidence (Bonferroni); at least 1.
    pub adjusted_for: u32,
}

impl Aim {
    /// The error probability of one comparison: (1 − confidence) ÷ comparisons.
    pub fn alpha(&self) -> f64 {
        assert!(self.confidence > 0.0 && self.confidence < 1.0, "confidence {}", self.confidence);
        (1.0 - self.confidence) / f64::from(self.adjusted_for.max(1))
    }

    /// The target half-width on the log scale, ln(1 + precision).
    pub fn half_width_log(&self) -> f64 {
        assert!(self.precision > 0.0, "precision {}", self.precision);
        self.precision.ln_1p()
    }

    /// Number of blocks after which an interval with this spread has the target width, at least 2.
    pub(crate) fn blocks_for(&self, spread: &Spread) -> u64 {
        let reach = product_or_zero(t_quantile(self.alpha(), spread.df()), spread.sd());
        let blocks = (reach / self.half_width_log()).powi(2).ceil();
        // The cast saturates; the caller caps an infinite number.
        (blocks as u64).max(2)
    }

    /// Number of blocks after which the margins of rare stalls, in so many blocks, shrink to the target
    /// width: in proportion to the root of the number of stalls.
    pub fn blocks_for_margins(&self, margins: &Margins, blocks: usize) -> u64 {
        let shrink = (margins.largest() / self.half_width_log()).powi(2);
        // The cast saturates.
        (blocks as f64 * shrink).ceil() as u64
    }
}

/// The number of blocks to run in all, including the pilots of some contrasts that share them: the
/// longest of their plans.
///
/// The plan of one is N = clamp(⌈(t·s₀/h)²⌉, n₀, cap), where n₀ is the length of its pilot, s₀ its
/// standard deviation, t Student's critical value with n₀ − 1 degrees of freedom and h the target
/// half-width on the log scale.
///
/// A pilot without a spread (fewer than two blocks, or a non-finite value) gives the cap, and so do
/// no pilots.
pub fn planned_blocks(pilots: &[&[f64]], aim: &Aim, cap: u32) -> u32 {
    let plan = |pilot: &&[f64]| {
        let wanted = Spread::of(pilot).map_or(u64::MAX, |spread| aim.blocks_for(&spread));
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        wanted.min(cap).max(u32::try_from(pilot.len()).unwrap_or(u32::MAX))
    };
    pilots.iter().map(plan).max().unwrap_or(cap)
}

/// Half-width of the interval after all blocks: t·s₀/√N with the pilot's s₀, or Student's interval
/// on all data if wider.
pub(crate) fn half_width(d: &[f64], pilot_blocks: usize, alpha: f64) -> Option<f64> {
    let all = Spread::of(d)?;
    let pilot = Spread::of(&d[..pilot_blocks.clamp(2, d.len())])?;
    let shrink = (pilot.blocks as f64 / all.blocks as f64).sqrt();
    Some(all.t_half_width(alpha).max(pilot.t_half_width(alpha) * shrink))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AIM: Aim = Aim { precision: 0.01, confidence: 0.95, adjusted_for: 1 };

    fn plan(pilot: &[f64], aim: &Aim, cap: u32) -> u32 {
        planned_blocks(&[pilot], aim, cap)
    }

    /// Ten blocks whose standard deviation is 0.014 and whose mean is 0.05.
    fn pilot() -> Vec<f64> {
        let signs = [1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0, 1.0];
        let sd = (10.0_f64 / 9.0).sqrt();
        signs.iter().map(|sign| 0.05 + sign * 0.014 / sd).collect()
    }

    #[test]
    fn the_number_of_blocks_by_hand() {
        // (2.262157 × 0.014 ÷ ln 1.01)² = 10.13, so 11 blocks.
        assert_eq!(plan(&pilot(), &AIM, 60), 11);
        // Half the half-width takes four times the blocks.
        let halved = Aim { precision: 0.005, ..AIM };
        assert_eq!(plan(&pilot(), &halved, 60), 41);
        assert_eq!(plan(&pilot(), &halved, 24), 24);
    }

    #[test]
    fn a_quiet_pilot_is_enough_and_a_broken_one_asks_for_all() {
        assert_eq!(plan(&[0.1; 10], &AIM, 60), 10);
        assert_eq!(plan(&[0.1], &AIM, 60), 60);
        assert_eq!(plan(&[0.1, f64::NAN, 0.1], &AIM, 60), 60);
        assert_eq!(plan(&pilot(), &AIM, 3), 10, "the pilot is never cut");
    }

    #[test]
    fn several_contrasts_take_the_longest_plan() {
        let (quiet, noisy) = ([0.1; 10], pilot());
        let both = planned_blocks(&[&quiet, &noisy], &AIM, 60);
        assert_eq!(both, plan(&noisy, &AIM, 60));
    }

    #[test]
    fn quieter_later_blocks_do_not_narrow_the_pilots_interval() {
        let mut d = pilot();
        d.extend([0.05; 10]);
        let half = half_width(&d, 10, 0.05).unwrap();
        assert!((half - 2.262_157 * 0.014 / 20.0_f64.sqrt()).abs() < 1e-6);
        let noisier: Vec<f64> = d.iter().rev().copied().collect();
        let all = Spread::of(&noisier).unwrap().t_half_width(0.05);
        assert_eq!(half_width(&noisier, 10, 0.05), Some(all));
    }

    proptest! {
        #[test]
        fn more_precision_or_confidence_never_takes_fewer_blocks(
            pilot in prop::collection::vec(-0.1..0.1_f64, 2..20),
            precision in 0.001..0.1_f64,
            factor in 1.0..5.0_f64,
        ) {
            let aim = Aim { precision, ..AIM };
            let looser = Aim { precision: precision * factor, ..AIM };
            let surer = Aim { confidence: 0.99, ..aim };
            let shared = Aim { adjusted_for: 4, ..aim };
            let blocks = |aim: &Aim| plan(&pilot, aim, 10_000);
            prop_assert!(blocks(&looser) <= blocks(&aim));
            prop_assert!(blocks(&aim) <= blocks(&surer));
            prop_assert!(blocks(&aim) <= blocks(&shared));
        }

        #[test]
        fn the_plan_does_not_look_at_the_mean(
            pilot in prop::collection::vec(-0.1..0.1_f64, 2..20),
            shift in -1.0..1.0_f64,
        ) {
            let shifted: Vec<f64> = pilot.iter().map(|d| d + shift).collect();
            let (one, other) = (plan(&pilot, &AIM, 10_000), plan(&shifted, &AIM, 10_000));
            // Rounding may move a value on the boundary between two numbers of blocks.
            prop_assert!(one.abs_diff(other) <= 1);
        }

        #[test]
        fn an_uncapped_plan_reaches_the_precision(pilot in prop::collection::vec(-0.1..0.1_f64, 2..20)) {
            let blocks = plan(&pilot, &AIM, u32::MAX);
            let spread = Spread::of(&pilot).unwrap();
            let half = spread.t_half_width(0.05) * (pilot.len() as f64 / f64::from(blocks)).sqrt();
            prop_assert!(half <= AIM.half_width_log() * (1.0 + 1e-9));
        }
    }
}
