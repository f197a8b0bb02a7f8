//! Pure statistics: blocks in, estimates with intervals and verdicts out.
//!
//! The unit of analysis is the **block**: one number per variant per block, paired as the
//! difference of logarithms, d = ln(variant) − ln(baseline). Ten thousand requests within one start
//! of a server are not ten thousand samples, because every start settles at its own level.
//!
//! Overview:
//!
//! ```text
//! trials ─ log_ratios_of_totals ─▶ d ─ planned_blocks (after the pilot) ─▶ how many blocks
//!        └ quantile ─────────────┘ └─ judge ─▶ Judgement
//! ```
//!
//! The validity checks use [`drift`] and [`warmed_up_after`].
//!
//! This crate does no I/O, reads no clock and uses only seeded randomness.

mod anytime;
mod bias;
mod changepoint;
mod crossing;
mod estimate;
mod judge;
mod median;
mod mirrored_order;
mod outstanding;
mod quantile;
mod ranks;
mod rounds;
mod search;
mod sign_flip;
mod spread;
mod stalls;
mod stein;
mod student;
mod t_test;
mod totals;
mod verdict;
mod warm_up;

pub use anytime::anytime_half_width;
pub use bias::{Bias, BiasCause, bias_bound, log_bias, lost_share};
pub use changepoint::{Drift, drift, pelt};
pub use crossing::{Crossing, Measure, RatePoint, capacity, crossing, pseudo_values};
pub use estimate::{NotPositive, level, level_of, log_ratios, mean_difference, mean_log_ratio};
pub use judge::{BetterDirection, DECIDING_BLOCKS_MIN, Evidence, Judgement, Opinion, judge};
pub use median::median;
pub use mirrored_order::mirrored_order;
pub use outstanding::outstanding_share;
pub use quantile::{Quantile, Sureness, Values, quantile, ratio_of_quantiles};
pub use ranks::quantile_ranks;
pub use rounds::kept_rounds;
pub use search::{
    Bracket, Bracketing, LEVELS, Levels, PILOT_BLOCKS, SEARCH_BLOCKS_MAX, TrialLength,
};
pub use sign_flip::{sign_flip_p, sign_flip_p_min};
pub use spread::{Spread, lag1_autocorrelation};
pub use stalls::{Margins, Stalls};
pub use stein::{Aim, planned_blocks};
pub use student::t_quantile;
pub use t_test::t_test_p;
pub use totals::{Total, log_of_totals, log_ratios_of_totals};
pub use verdict::{Estimate, Verdict};
pub use warm_up::warmed_up_after;
