//! Biases of a ratio whose size is bounded.
//!
//! If a disturbance affects one variant more than the other, the ratio is biased. What would it be
//! if both had been equally disturbed? Let s be the largest share of its time that a variant can
//! have lost (below). A variant that depends on CPU time with a sensitivity k, between 0 (not at
//! all) and 1 (entirely), serves X·(1 − k·s). Had variant b been disturbed as a was, it would have
//! served the (1 − k·s_a) ÷ (1 − k·s_b)-fold. For k from 0 to 1 this factor lies between 1 and
//! (1 − s_a) ÷ (1 − s_b), whatever k is. So the ratio is off by at most this factor, and the interval
//! is widened by its logarithm on both sides.
//!
//! **The share.** Of every request, the stack and the client need u of CPU time together, and δ is
//! taken from them meanwhile. Without the disturbance, the time per request is at least u/2, even if
//! stack and client always work at the same time. With it, the time is at most δ longer, even if
//! each of them always waits while the other is stopped. So X ÷ X₀ ≥ (u/2) ÷ (u/2 + δ), and s =
//! δ ÷ (δ + u/2). With several CPUs, the same holds for each as long as what is taken from one delays
//! only the requests on it.

use serde::{Deserialize, Serialize};

use crate::spread::Spread;

/// A bound above this factor says too little: the verdict is refused instead.
const FACTOR_MAX: f64 = 1.5;

/// Error probability of the limit on the difference between two variants.
const ALPHA: f64 = 0.05;

/// The cause of a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiasCause {
    /// The hypervisor took CPU time from one variant more than from the other.
    Steal,
    /// Other processes were busy beside one variant more often than beside the other.
    OtherProcesses,
    /// The client was later with one variant's requests than with the other's.
    Lateness,
}

/// A bias with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// Its cause.
    pub cause: BiasCause,
    /// The ratio is off by at most exp(±this).
    pub log_bound: f64,
}

impl Bias {
    /// The factor by which the ratio may be off: 1.09 for ±9%.
    pub fn factor(&self) -> f64 {
        self.log_bound.exp()
    }
}

/// The largest share of its time that a variant can have lost when `taken` of CPU time was taken
/// while stack and client `used` so much; 1 if that is unknown because they used nothing.
pub fn lost_share(taken: f64, used: f64) -> f64 {
    if taken <= 0.0 { 0.0 } else { taken / (taken + used.max(0.0) / 2.0) }
}

/// The logarithm of the factor by which a block's ratio is off at most, if baseline and variant have
/// lost these shares.
pub fn log_bias(baseline_lost: f64, variant_lost: f64) -> f64 {
    (-baseline_lost).ln_1p() - (-variant_lost).ln_1p()
}

/// The bound on the bias of the mean over blocks, given each block's: the upper confidence limit of
/// its size. `None` if there is none, or if it is above a factor of 1.5.
pub fn bias_bound(of_blocks: &[f64]) -> Option<f64> {
    let spread = Spread::of(of_blocks)?;
    let bound = spread.mean.abs() + spread.t_half_width(ALPHA);
    (bound <= FACTOR_MAX.ln()).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_by_hand() {
        // Of two CPUs, 0.2 were taken and 1.6 used: at worst the loop stood still for 0.2 s of each
        // second and used both CPUs in the rest.
        assert!((lost_share(0.2, 1.6) - 0.2).abs() < 1e-12);
        assert_eq!(lost_share(0.0, 0.0), 0.0);
        assert_eq!(lost_share(0.1, 0.0), 1.0);
    }

    #[test]
    fn equal_disturbances_bias_nothing_and_unbounded_ones_have_no_bound() {
        assert_eq!(bias_bound(&[log_bias(0.3, 0.3); 5]), Some(0.0));
        let even = bias_bound(&[0.01, -0.01, 0.01, -0.01, 0.01, -0.01]).unwrap();
        assert!(even > 0.0 && even < 0.02, "the limit of a difference around zero: {even}");
        assert_eq!(bias_bound(&[log_bias(0.0, 0.5); 5]), None, "a factor of 2");
        assert_eq!(bias_bound(&[log_bias(0.0, 1.0); 5]), None);
        assert_eq!(bias_bound(&[0.1]), None, "one block says nothing about others");
    }

    proptest! {
        #[test]
        fn no_sensitivity_gives_more_bias_than_the_bound(
            a in 0.0..0.95_f64, b in 0.0..0.95_f64, k in 0.0..=1.0_f64,
        ) {
            let bias = ((1.0 - k * b) / (1.0 - k * a)).ln();
            prop_assert!(bias.abs() <= log_bias(a, b).abs() + 1e-12);
        }

        /// A request uses the client's CPU for `client` and the stack's for `stack`, overlapping by
        /// `overlap` of the shorter one, and each is stopped for `taken` while the other waits or not.
        #[test]
        fn no_closed_loop_loses_more_than_the_share(
            client in 0.01..1.0_f64, stack in 0.01..1.0_f64, overlap in 0.0..=1.0_f64,
            taken in 0.0..2.0_f64, hidden in 0.0..=1.0_f64, idle in 0.0..1.0_f64,
        ) {
            let quiet = client + stack - overlap * client.min(stack) + idle;
            let disturbed = quiet + taken * (1.0 - hidden);
            let lost = lost_share(taken, client + stack);
            prop_assert!(quiet / disturbed >= 1.0 - lost - 1e-12);
        }
    }
}
