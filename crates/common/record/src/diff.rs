//! Facts about a comparison of two commits, in addition to its run. `report` makes the sentences.

use crate::{GateOutcome, Metric};

/// A commit, or the working tree on top of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The commit's full id.
    pub id: String,
    /// The shortest unambiguous form of the id.
    pub short: String,
    /// First line of the commit message.
    pub subject: String,
    /// Whether uncommitted changes are part of it.
    pub dirty: bool,
}

/// A comparison of two commits: variant 0 of the run's only part is the base, variant 1 the head.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The commit to compare with.
    pub base: Revision,
    /// The commit in question.
    pub head: Revision,
    /// The metric that decides whether the result is undecided.
    pub primary: Metric,
    /// Loss beyond which the default conditions fail; `None` if the user gave conditions instead.
    pub margin: Option<f64>,
    /// Outcomes of the conditions; the first one is the primary metric's if there is a margin.
    pub gates: Vec<GateOutcome>,
    /// The outcome.
    pub outcome: DiffOutcome,
}

/// The answer to whether the head is worse than the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffOutcome {
    /// A condition holds: the head is worse.
    Regression,
    /// Requests to the head's server failed, or its ledger does not add up.
    HeadFailed,
    /// A check other than that forbids the comparison.
    Invalid,
    /// Too little was measured for a verdict.
    NotMeasured,
    /// The intervals leave it open.
    Undecided,
    /// No condition holds.
    Passed,
}

impl DiffOutcome {
    /// The word in JSON and in variables.
    pub fn word(self) -> &'static str {
        match self {
            DiffOutcome::Regression => "regression",
            DiffOutcome::HeadFailed => "head_failed",
            DiffOutcome::Invalid => "invalid",
            DiffOutcome::NotMeasured => "not_measured",
            DiffOutcome::Undecided => "undecided",
            DiffOutcome::Passed => "no_regression",
        }
    }
}
