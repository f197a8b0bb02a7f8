//! The results, from which the page is made.

use std::collections::{BTreeMap, BTreeSet};

use base::Nanos;
use fixture::Tally;
use serde::{Deserialize, Serialize};

use crate::tools::installed::MissingTool;
use crate::tools::report::{Latency, Report};
use crate::zoo::{CompareResult, Interval};

/// All results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// Versions by tool.
    pub(super) versions: BTreeMap<String, String>,
    /// Tools that could not be had.
    pub(super) missing: Vec<MissingTool>,
    /// By the scenario's name.
    pub(super) scenarios: BTreeMap<String, ScenarioResults>,
    /// By the comparison's name.
    #[serde(default)]
    pub(super) comparisons: BTreeMap<String, ComparisonResult>,
}

/// The result of a comparison, beside what is true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ComparisonResult {
    /// When it began, RFC 3339.
    pub(super) date: String,
    pub(super) machine: String,
    #[serde(default)]
    pub(super) note: Option<String>,
    pub(super) version: String,
    pub(super) seed: u64,
    pub(super) compared: CompareResult,
    /// Requests per second of both servers.
    pub(super) true_throughput_per_s: [f64; 2],
    /// 99th percentile of the latency of both at the rate of the open loop, if there was one.
    pub(super) true_p99_s: [Option<Interval>; 2],
}

/// The runs of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ScenarioResults {
    /// When they began, RFC 3339.
    pub(super) date: String,
    pub(super) machine: String,
    /// The caller's remark on the circumstances.
    #[serde(default)]
    pub(super) note: Option<String>,
    /// When and where single tools were measured, if not with the others.
    #[serde(default)]
    pub(super) later: BTreeMap<String, String>,
    pub(super) rounds: u32,
    pub(super) seed: u64,
    pub(super) runs: Vec<Run>,
}

/// One run of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) tool: String,
    /// Its command line.
    pub(super) command: String,
    /// The file that the command line names as `script`.
    pub(super) script: Option<String>,
    /// `exit 0`, `signal 9` or `did not end`.
    pub(super) end: String,
    /// What it reported, if anything.
    pub(super) report: Option<Report>,
    /// The end of what it printed, without a report.
    pub(super) said: Option<String>,
    pub(super) truth: Truth,
}

/// What the server counted and measured during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Truth {
    pub(super) connections: u64,
    pub(super) received: u64,
    /// Responses by kind; `late` ones are counted once more as what they are.
    pub(super) sound: u64,
    pub(super) errors: u64,
    pub(super) corrupt: u64,
    pub(super) truncated: u64,
    pub(super) cut: u64,
    pub(super) dropped: u64,
    pub(super) late: u64,
    /// Of HTTP/2.
    #[serde(default)]
    pub(super) broken: u64,
    /// From reading a request to sending its response.
    pub(super) held: Latency,
}

impl Truth {
    pub(super) fn of(tally: Tally) -> Truth {
        Truth {
            connections: tally.connections,
            received: tally.received,
            sound: tally.sound,
            errors: tally.errors,
            corrupt: tally.corrupt,
            truncated: tally.truncated,
            cut: tally.cut,
            dropped: tally.dropped,
            late: tally.late,
            broken: tally.broken,
            held: Latency::of(tally.held.into_iter().map(millis).collect()),
        }
    }

    /// Requests that the server did not answer correctly, or too late.
    pub(super) fn faults(&self) -> u64 {
        let of_connections = self.cut + self.dropped + self.broken;
        self.errors + self.corrupt + self.truncated + of_connections + self.late
    }
}

/// A time in milliseconds.
pub(super) fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

impl ScenarioResults {
    /// These runs beside the earlier ones of other tools.
    pub(super) fn beside(self, mut earlier: ScenarioResults) -> ScenarioResults {
        let now: BTreeSet<&str> = self.runs.iter().map(|run| run.tool.as_str()).collect();
        earlier.runs.retain(|run| !now.contains(run.tool.as_str()));
        if earlier.runs.is_empty() {
            return self;
        }
        let day = self.date.split('T').next().unwrap_or(&self.date);
        let note = self.note.iter().map(|note| format!(", {note}"));
        let when = format!("{day}, {}{}", self.machine, note.collect::<String>());
        earlier.later.extend(now.iter().map(|tool| ((*tool).to_owned(), when.clone())));
        earlier.runs.extend(self.runs);
        earlier
    }

    /// The runs of a tool, by round.
    pub(super) fn of(&self, tool: &str) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.runs.iter().filter(|run| run.tool == tool).collect();
        runs.sort_by_key(|run| run.round);
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_other_tools_are_kept() {
        let results = |date: &str, tools: &[&str]| ScenarioResults {
            date: date.to_owned(),
            machine: "a machine".to_owned(),
            note: Some("alone".to_owned()),
            runs: tools
                .iter()
                .map(|tool| Run {
                    round: 1,
                    tool: (*tool).to_owned(),
                    command: date.to_owned(),
                    script: None,
                    end: "exit 0".to_owned(),
                    report: None,
                    said: None,
                    truth: Truth::default(),
                })
                .collect(),
            ..ScenarioResults::default()
        };
        let both = results("2026-01-02T00:00:00Z", &["wrk"])
            .beside(results("2026-01-01T00:00:00Z", &["wrk", "ab"]));
        assert_eq!(both.date, "2026-01-01T00:00:00Z");
        assert_eq!(both.of("wrk")[0].command, "2026-01-02T00:00:00Z");
        assert_eq!(both.of("ab").len(), 1);
        assert_eq!(both.later["wrk"], "2026-01-02, a machine, alone");
        assert_eq!(both.later.len(), 1);
        let whole = results("2026-01-03T00:00:00Z", &["wrk", "ab"]).beside(both);
        assert_eq!((whole.date.as_str(), whole.later.len()), ("2026-01-03T00:00:00Z", 0));
    }
}
