//! Pure statistics: blocks in, estimates with intervals and verdicts out.
//!
//! The unit of analysis is the block: one number per variant per block, paired
//! as the difference of logarithms.

mod verdict;

pub use verdict::{Estimate, Verdict};
