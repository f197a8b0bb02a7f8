//! Several kinds of request in one load.

use ledger::{Counts, Errors};
use serde::{Deserialize, Serialize};
use stats::Estimate;

use crate::{Distribution, Offer};

/// A kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadKind {
    /// Its name.
    pub name: String,
    /// Its share of all requests is its weight divided by the sum of weights.
    pub weight: u32,
    /// The number of its different requests, which take turns.
    pub requests: u64,
    /// The status that its responses must have, if it was given.
    pub status: Option<u16>,
}

/// The requests of one kind in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindTrial {
    /// All of them; what was offered and not sent had no kind yet. Sums over the kinds are the trial's.
    pub counts: Counts,
    /// Failures by kind of failure.
    pub errors: Errors,
    /// Latency (open loop) or service time (closed loop) in the slices kept.
    pub times: Distribution,
}

/// The mean latency (open loop) or service time (closed loop) of one kind of request, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindComparison {
    /// Index of the baseline.
    pub baseline: u32,
    /// Index of the variant.
    pub variant: u32,
    /// The offer whose trials are compared.
    pub offer: Offer,
    /// Index of the kind.
    pub kind: u32,
    /// Variant ÷ baseline. The intervals of all kinds hold together with the confidence of one.
    pub ratio: Estimate,
}
