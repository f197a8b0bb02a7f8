//! Runs in one line each.

use std::time::Duration;

use base::{RunId, Timestamp};
use serde::{Deserialize, Serialize};
use stats::Verdict;

use crate::{CapacityOutcome, Metric, Part, Run, RunKind, RunState};

/// A run in one line, for `tachograph list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Throughput of a run of `load`, in verified responses per second, or the capacity of a single
    /// server.
    pub throughput_per_s: Option<f64>,
    /// Whether the run succeeded, no primary verdict is INVALID, and no check failed in a part
    /// without verdicts.
    pub valid: bool,
    /// The first primary comparison, if there is one.
    pub first: Option<FirstComparison>,
}

impl RunLine {
    /// The line of a run. Only the throughput of a `load` needs trials: it is that of the first measured
    /// one.
    pub fn of(run: &Run) -> RunLine {
        let blocks = || run.parts.iter().flat_map(|part| &part.blocks);
        let last = blocks().max_by_key(|block| block.started);
        // A time that no calendar has is no time of a run.
        let last_block = last.and_then(|block| {
            block.started.checked_add(Duration::from_nanos(block.elapsed.0)).ok()
        });
        let measured = blocks().flat_map(|block| block.measured_trials()).next();
        let measured = measured.filter(|trial| run.kind == RunKind::Load && trial.window.0 > 0);
        RunLine {
            id: run.id.clone(),
            kind: run.kind,
            state: run.state,
            name: run.name.clone(),
            title: run.title.clone(),
            question: run.question.clone(),
            started: run.started,
            finished: run.finished,
            last_block,
            blocks: blocks().filter(|block| block.is_complete()).count() as u64,
            throughput_per_s: measured
                .map(|trial| trial.throughput_per_s())
                .or(run.parts.iter().find_map(capacity)),
            valid: run.error.is_none() && run.parts.iter().all(is_valid),
            first: run.parts.iter().find_map(first_comparison),
        }
    }
}

/// The capacity of a single variant.
fn capacity(part: &Part) -> Option<f64> {
    match part.capacity.as_ref()?.variants.as_slice() {
        [one] => match &one.outcome {
            CapacityOutcome::Found { per_s, .. } => Some(per_s.value),
            _ => None,
        },
        _ => None,
    }
}

/// Whether no primary verdict is INVALID; in a part without primary verdicts, whether no check failed.
fn is_valid(part: &Part) -> bool {
    let primary = || part.comparisons.iter().filter(|c| c.primary);
    match primary().next() {
        Some(_) => primary().all(|c| c.judgement.verdict != Verdict::Invalid),
        None => part.invalid().next().is_none(),
    }
}

fn first_comparison(part: &Part) -> Option<FirstComparison> {
    let first = part.comparisons.iter().find(|c| c.primary)?;
    let name = |variant: u32| Some(part.variants.get(variant as usize)?.name.clone());
    Some(FirstComparison {
        variant: name(first.variant)?,
        baseline: name(first.baseline)?,
        metric: first.metric,
        judgement: first.judgement.clone(),
    })
}

/// A run's first primary comparison, with names instead of indices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
