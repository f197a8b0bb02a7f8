//! Runs in one line each.

use base::{RunId, Timestamp};

use crate::{Metric, RunKind, RunState};

/// A run in one line, for `tachograph list`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine {
    /// Its name.
    pub id: RunId,
    /// Which command made it.
    pub kind: RunKind,
    /// How it ended.
    pub state: RunState,
    /// The experiment's name, or `compare`.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while it runs.
    pub finished: Option<Timestamp>,
    /// When the last of its blocks so far ended, complete or not; `None` before the first one.
    pub last_block: Option<Timestamp>,
    /// Complete blocks of all parts.
    pub blocks: u64,
    /// Throughput of a run of `load`, in verified responses per second.
    pub throughput_per_s: Option<f64>,
    /// Whether the run succeeded, no primary verdict is INVALID, and no check failed in a part
    /// without verdicts.
    pub valid: bool,
    /// The first primary comparison, if there is one.
    pub first: Option<FirstComparison>,
}

/// A run's first primary comparison, with names instead of indices.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstComparison {
    /// Name of the variant.
    pub variant: String,
    /// Name of the baseline.
    pub baseline: String,
    /// What is compared.
    pub metric: Metric,
    /// Ratio, interval and verdict.
    pub judgement: stats::Judgement,
}
