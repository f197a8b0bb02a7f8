//! What became of the conditions of `--fail-if`: facts; the sentences about them are made in `report`.

use stats::Estimate;

/// What a measurement says about a condition, or about one test of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateDecision {
    /// It holds, so the run has failed.
    Fails,
    /// It does not hold.
    Passes,
    /// The measurement leaves both possible.
    Inconclusive,
}

/// What became of one condition.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// The condition as it was written.
    pub condition: String,
    /// What the measurement says about it.
    pub decision: GateDecision,
    /// Its tests, in order.
    pub tests: Vec<GateTest>,
}

/// What became of one test of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct GateTest {
    /// What the measurement says about it.
    pub decision: GateDecision,
    /// The figures that it was decided by.
    pub figures: Vec<GateFigure>,
    /// Why it cannot be decided whatever the figures are.
    pub unknown: Option<GateUnknown>,
}

/// A figure with its interval, or the ratio of two.
#[derive(Clone, Debug, PartialEq)]
pub struct GateFigure {
    /// The part, where there are several.
    pub part: Option<String>,
    /// The variant, or the numerator's.
    pub variant: String,
    /// The denominator's variant, for a ratio.
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
    /// A check forbids the use of a figure.
    Invalid {
        /// The variant.
        variant: String,
        /// The metric's name as in conditions.
        metric: &'static str,
    },
    /// Too few blocks.
    FewBlocks {
        /// How many there are.
        blocks: u32,
        /// How many it takes.
        needed: u32,
    },
    /// A side of the test has no value, such as 0 ÷ 0.
    NoValue,
}

impl GateOutcome {
    /// Whether the run has failed for it, given whether inconclusive is as bad.
    pub fn fails(&self, inconclusive_fails: bool) -> bool {
        match self.decision {
            GateDecision::Fails => true,
            GateDecision::Passes => false,
            GateDecision::Inconclusive => inconclusive_fails,
        }
    }
}
