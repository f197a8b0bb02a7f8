//! A run in the list of runs.

use record::{RunKind, RunLine, RunState};

use crate::first_verdict;
use crate::text::plural;

/// `unix serves 1.14× tcp (1.12–1.17); 24 blocks`, with how the run ended if it is incomplete.
pub fn outcome(run: &RunLine) -> String {
    let mut words = Vec::new();
    words.extend(match run.state {
        RunState::Running => Some("running or cut off".to_owned()),
        RunState::Interrupted => Some("stopped early".to_owned()),
        RunState::Failed => Some("failed".to_owned()),
        RunState::Done => None,
    });
    let first = run.first.as_ref().map(first_verdict);
    // A later comparison may be INVALID even if the first one is not.
    let is_mentioned =
        run.first.as_ref().is_some_and(|f| f.judgement.verdict == stats::Verdict::Invalid);
    if !run.valid && !is_mentioned && run.state == RunState::Done {
        words.push("INVALID".to_owned());
    }
    words.extend(first);
    words
        .extend(run.throughput_per_s.map(|rate| format!("{} requests/s", base::format_rate(rate))));
    if run.kind != RunKind::Load {
        words.push(plural(run.blocks, "block"));
    }
    words.join("; ")
}
