//! What was counted so far.

use std::collections::BTreeMap;

use ledger::Ledger;
use record::{DifferenceExample, FailedPairs, FailureCause, Pair, Side};
use spec::LogRequest;

use crate::groups::Groups;
use crate::json::Differences;

/// The counts of a replay in progress.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) left_out: BTreeMap<String, u64>,
    pub(crate) asked: u64,
    pub(crate) same: u64,
    pub(crate) different: u64,
    pub(crate) failed: FailedPairs,
    pub(crate) in_flight: u64,
    pub(crate) ledgers: Pair<Ledger>,
    pub(crate) groups: Groups,
    failures: BTreeMap<FailureKey, FailureCause>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FailureKey {
    side: Side,
    cause: String,
}

impl Tally {
    pub(crate) fn leave_out(&mut self, why: &str) {
        *self.left_out.entry(why.to_owned()).or_default() += 1;
    }

    /// A request is sent to both.
    pub(crate) fn ask(&mut self) {
        self.asked += 1;
        self.in_flight += 1;
    }

    /// Both have answered one, with these differences.
    pub(crate) fn compared(&mut self, request: &LogRequest, differences: Differences) {
        self.in_flight -= 1;
        match differences.is_empty() {
            true => self.same += 1,
            false => {
                self.different += 1;
                self.groups.add(differences, |values| example(request, values));
            }
        }
    }

    /// One of them, or none, has answered one; the causes of those that have not.
    pub(crate) fn failed(&mut self, request: &LogRequest, causes: Pair<Option<String>>) {
        self.in_flight -= 1;
        match (&causes.old, &causes.new) {
            (Some(_), Some(_)) => self.failed.both += 1,
            (Some(_), None) => self.failed.old += 1,
            (None, _) => self.failed.new += 1,
        }
        for (side, cause) in [(Side::Old, causes.old), (Side::New, causes.new)] {
            let Some(cause) = cause else { continue };
            let (line, shown) = (request.line, shown(request));
            let key = FailureKey { side, cause: cause.clone() };
            let kept = self.failures.entry(key).or_insert_with(|| {
                let request = shown.clone();
                FailureCause { side, cause, requests: 0, line, request }
            });
            kept.requests += 1;
            if line < kept.line {
                (kept.line, kept.request) = (line, shown);
            }
        }
    }

    /// Failures, the most frequent first.
    pub(crate) fn failures(&mut self) -> Vec<FailureCause> {
        let mut all: Vec<FailureCause> = std::mem::take(&mut self.failures).into_values().collect();
        all.sort_by_key(|failure| std::cmp::Reverse(failure.requests));
        all
    }
}

fn shown(request: &LogRequest) -> String {
    format!("{} {}", request.request.request.method, base::redact(&request.request.path))
}

fn example(request: &LogRequest, values: Pair<String>) -> DifferenceExample {
    DifferenceExample {
        line: request.line,
        method: request.request.request.method.clone(),
        path: base::redact(&request.request.path),
        values,
    }
}
