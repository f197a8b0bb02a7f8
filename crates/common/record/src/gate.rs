//! Outcomes of `--fail-if` conditions. `report` makes the sentences.

use stats::Estimate;

/// Decision on a condition or on one of its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateDecision {
    /// The condition holds, so the run fails.
    Fails,
    /// The condition does not hold.
    Passes,
    /// The intervals leave both possible.
    Inconclusive,
}

/// Outcome of one condition.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// The condition as written.
    pub condition: String,
    /// The decision.
    pub decision: GateDecision,
    /// Its tests, in order.
    pub tests: Vec<GateTest>,
}

/// Outcome of one test of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct GateTest {
    /// The decision.
    pub decision: GateDecision,
    /// The figures that decided it.
    pub figures: Vec<GateFigure>,
    /// Why it cannot be decided, whatever the figures.
    pub unknown: Option<GateUnknown>,
}

/// A figure with its interval, or the ratio of two.
#[derive(Clone, Debug, PartialEq)]
pub struct GateFigure {
    /// The part, if there are several.
    pub part: Option<String>,
    /// The variant, or that of the numerator.
    pub variant: String,
    /// The variant of the denominator, for a ratio.
    pub other: Option<String>,
    /// The metric's name as in conditions.
    pub metric: &'static str,
    /// Nanoseconds, bytes, requests (bytes) per second, a count, or a ratio.
    pub estimate: Estimate,
}

/// Why a test cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateUnknown {
    /// A metric of a variant was not measured.
    NotMeasured {
        /// The variant.
        variant: String,
        /// The metric's name as in conditions.
        metric: &'static str,
    },
    /// A check forbids the use of this figure.
    Invalid {
        /// The variant.
        variant: String,
        /// The metric's name as in conditions.
        metric: &'static str,
    },
    /// A percentile of an open loop whose rate the variant did not sustain.
    Unsustained {
        /// The variant.
        variant: String,
        /// The metric's name as in conditions.
        metric: &'static str,
    },
    /// Too few blocks.
    FewBlocks {
        /// Number of blocks.
        blocks: u32,
        /// Number needed.
        needed: u32,
    },
    /// Too few requests of a load for a percentile.
    FewRequests {
        /// Number of completed requests.
        completed: u64,
        /// Number needed.
        needed: u64,
    },
    /// One side of the test has no value, such as 0 ÷ 0.
    NoValue,
}

impl GateOutcome {
    /// Whether the run fails because of this condition; `inconclusive_fails` makes inconclusive
    /// count as failed.
    pub fn fails(&self, inconclusive_fails: bool) -> bool {
        match self.decision {
            GateDecision::Fails => true,
            GateDecision::Passes => false,
            GateDecision::Inconclusive => inconclusive_fails,
        }
    }
}
