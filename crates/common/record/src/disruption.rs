//! What was done to a stack during a trial, and what it cost.

use base::{Nanos, Timestamp};
use serde::{Deserialize, Serialize};

/// The actions of a trial and their consequences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disruption {
    /// The actions, in the order in which they began.
    pub actions: Vec<ActionTaken>,
    /// The longest time that any request of the trial waited for its response or its failure, from
    /// the instant at which it was due (open loop) or sent (closed loop).
    #[serde(rename = "longest_wait_ns")]
    pub longest_wait: Nanos,
    /// Requests of the trial that failed before the first action.
    pub failed_before: u64,
    /// Processes of the stack at the end of the trial that did not exist at its beginning.
    pub new_processes: u32,
}

/// One occurrence of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionTaken {
    /// The action's name.
    pub name: String,
    /// When it began.
    #[serde(serialize_with = "crate::json::nine_decimals")]
    pub started: Timestamp,
    /// The same from the beginning of the trial's measured time.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// From the beginning of its first step to the end of its last one.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
    /// Requests that failed from then until the next action began or the trial ended; after the last
    /// action also those that were never answered.
    pub failed: u64,
    /// Its steps.
    pub steps: Vec<StepTaken>,
}

/// One step of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// The signal (`SIGHUP`) or the shell command as written.
    pub what: String,
    /// When it was done, from the beginning of the trial's measured time.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Its outcome.
    pub outcome: StepOutcome,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepOutcome {
    /// The signal was sent to this process.
    Signalled {
        /// Its pid.
        pid: i32,
    },
    /// No process was left to signal.
    NoProcess,
    /// The command ended with this status.
    Exited {
        /// The status.
        status: i32,
    },
    /// The command was killed by this signal.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// The trial ended before the command did.
    Unfinished,
}

impl StepOutcome {
    /// Whether the step did what it was to do.
    pub fn is_ok(self) -> bool {
        matches!(self, StepOutcome::Signalled { .. } | StepOutcome::Exited { status: 0 })
    }
}
