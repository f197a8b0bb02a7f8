//! What a comparison comes to.

use serde::{Deserialize, Serialize};

/// An estimate with its confidence interval, in the unit of what was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The words of a verdict on `variant ÷ baseline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the better side of 1.
    Faster,
    /// The interval lies on the worse side of 1.
    Slower,
    /// The interval holds 1 and is as narrow as was wanted.
    NoDifference,
    /// Within a margin that was declared beforehand (two one-sided tests).
    Equivalent,
    /// The interval is wider than was wanted, or the second opinion disagrees.
    Inconclusive,
    /// The data are not to be trusted.
    Invalid,
}
