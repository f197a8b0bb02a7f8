//! The numbers of docs/instruments.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tools::installed::MissingTool;
use crate::tools::report::Report;

/// All numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct InstrumentResults {
    /// Versions by tool.
    pub(super) versions: BTreeMap<String, String>,
    /// Tools that could not be had.
    pub(super) missing: Vec<MissingTool>,
    /// By table and stack.
    pub(super) tables: BTreeMap<String, BTreeMap<String, StackResults>>,
}

/// The runs of all tools on a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StackResults {
    /// When they began, RFC 3339.
    pub(super) date: String,
    pub(super) machine: String,
    /// The caller's remark on the circumstances.
    #[serde(default)]
    pub(super) note: Option<String>,
    pub(super) rounds: u32,
    pub(super) seed: u64,
    pub(super) runs: Vec<InstrumentRun>,
}

/// One run of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InstrumentRun {
    pub(super) round: u32,
    pub(super) tool: String,
    /// Its command line.
    pub(super) command: String,
    /// What it reported, if anything, and the end of what it printed.
    pub(super) report: Option<Report>,
    pub(super) said: String,
    /// Requests per second, as reported.
    pub(super) per_s: Option<f64>,
    /// Requests that the stack counted.
    pub(super) served: u64,
    /// Responses by status, from nginx's log, where there is one.
    pub(super) statuses: BTreeMap<String, u64>,
}

impl InstrumentRun {
    /// Requests that the tool reports as successful, its own warm-up included.
    pub(super) fn succeeded(&self) -> Option<u64> {
        let report = self.report.as_ref()?;
        let warmup = report.warmup.saturating_sub(report.warmup_failed);
        Some(report.total.saturating_sub(report.failed) + warmup)
    }
}

impl StackResults {
    /// The runs of a tool, by round.
    pub(super) fn of(&self, tool: &str) -> Vec<&InstrumentRun> {
        let mut runs: Vec<_> = self.runs.iter().filter(|run| run.tool == tool).collect();
        runs.sort_by_key(|run| run.round);
        runs
    }
}
