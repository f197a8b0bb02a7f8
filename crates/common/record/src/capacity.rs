//! The search for a capacity: its conditions, its trials and what it found.

use base::Nanos;
use serde::{Deserialize, Serialize};
use stats::Estimate;

/// A search for the highest rate at which conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The conditions; the capacity is where the first of them stops holding.
    pub conditions: Vec<Condition>,
    /// What was found for each variant that could start.
    pub variants: Vec<VariantCapacity>,
    /// The trials in the order in which they ran.
    pub trials: Vec<CapacityTrial>,
}

/// A condition on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// A quantile of latency is at most a limit. Requests without a right answer are slower.
    Latency {
        /// 0.99 for p99.
        quantile: f64,
        /// The limit.
        #[serde(rename = "limit_ns")]
        limit: Nanos,
    },
    /// The share of requests without a right answer is at most this.
    Errors {
        /// 0.001 for 0.1%.
        share: f64,
    },
    /// The stack uses at most this share of the CPU time of its CPUs.
    Cpu {
        /// 0.8 for 80%.
        share: f64,
    },
}

impl Condition {
    /// The limit: of the share of slow or failed requests, or of CPU time.
    pub fn limit(self) -> f64 {
        match self {
            Condition::Latency { quantile, .. } => 1.0 - quantile,
            Condition::Errors { share } | Condition::Cpu { share } => share,
        }
    }
}

/// What was found for a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantCapacity {
    /// Index of the variant.
    pub variant: u32,
    /// The capacity, or why there is none.
    pub outcome: CapacityOutcome,
    /// Trials near the capacity in which all allowed connections were busy, and all of these trials.
    pub connections_busy: [u32; 2],
}

/// A capacity, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CapacityOutcome {
    /// The conditions stop holding here.
    Found {
        /// Requests per second.
        per_s: Estimate,
        /// The first condition that stops holding, by its index.
        by: u32,
        /// How many blocks that is from.
        blocks: u32,
        /// Whether the interval is that of a person who stopped the run.
        anytime: bool,
    },
    /// They hold at the highest rate that may be offered.
    AtLeast {
        /// That rate.
        per_s: f64,
    },
    /// They do not hold at the lowest rate that is tried.
    Nowhere {
        /// That rate.
        per_s: f64,
    },
    /// The client could not offer a rate as it was to.
    ClientLimited {
        /// The highest rate at which the conditions held.
        held_per_s: Option<f64>,
        /// The rate that the client could not offer.
        per_s: f64,
        /// What limited the client.
        limit: ClientLimit,
    },
    /// There are too few trials for an interval.
    Undecided {
        /// The highest rate at which the conditions held in a single trial.
        held_per_s: Option<f64>,
        /// The lowest rate at which they did not.
        failed_per_s: Option<f64>,
    },
}

/// What limited the client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClientLimit {
    /// A client thread was busy all the time.
    Busy {
        /// The share of its time.
        share: f64,
    },
    /// It sent requests so late that their lateness decided.
    Late {
        /// The share of requests that were late.
        share: f64,
    },
}

/// A trial at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityTrial {
    /// Index of the variant.
    pub variant: u32,
    /// The block; 0 for those that only look for the right range.
    pub block: u32,
    /// Its place among the trials of the block, from 0.
    pub round: u32,
    /// Offered requests per second.
    pub offered_per_s: f64,
    /// Time that was loaded before the window.
    #[serde(rename = "lead_in_ns")]
    pub lead_in: Nanos,
    /// The measured time.
    #[serde(rename = "window_ns")]
    pub window: Nanos,
    /// Requests that were due in it.
    pub due: u64,
    /// Those of them that were slower than the limit, or had no right answer; `None` without a
    /// condition on latency.
    pub slow: Option<u64>,
    /// All requests of the trial.
    pub offered: u64,
    /// Those of them without a right answer.
    pub failed: u64,
    /// Requests that were answered within the window.
    pub answered: u64,
    /// The share of CPU time that the stack used; `None` if unknown.
    pub cpu: Option<f64>,
    /// The median latency.
    pub p50_ns: u64,
    /// The latency at the quantile of the condition, or the 99th percentile.
    pub tail_ns: u64,
    /// Whether all conditions held.
    pub holds: bool,
    /// Whether it is analysed, which depends on how busy others kept the machine, and never on what it
    /// measured.
    pub kept: bool,
    /// Whether requests waited because all allowed connections were busy.
    pub connections_busy: bool,
    /// What limited the client, if anything did.
    pub client: Option<ClientLimit>,
}
