//! The results, from which the page is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// By the store's name.
    pub(super) stores: BTreeMap<String, StoreResult>,
}

/// What became of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StoreResult {
    pub(super) version: String,
    /// Why it could not be had.
    pub(super) missing: Option<String>,
    /// By the trial's name.
    pub(super) trials: BTreeMap<String, TrialResult>,
}

/// A trial of a store, in several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TrialResult {
    /// When it began, RFC 3339.
    pub(super) date: String,
    pub(super) machine: String,
    /// The caller's remark on the circumstances.
    pub(super) note: Option<String>,
    pub(super) seed: u64,
    pub(super) rounds: Vec<Cell>,
}

/// A round of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// Messages to be sent, repetitions included.
    pub(super) messages: u64,
    /// Of these acknowledged; `None` if the protocol has no acknowledgement.
    pub(super) acknowledged: Option<u64>,
    /// Of these refused by an error, and the first of them.
    pub(super) refused: u64,
    pub(super) refusal: Option<String>,
    /// Why the protocol cannot say one of them.
    pub(super) unsayable: Option<String>,
    /// Why the trial does not concern the store.
    pub(super) unconcerned: Option<String>,
    pub(super) kills: u64,
    /// The true total, and that of the messages that were acknowledged; of all that were sent if the
    /// protocol has no acknowledgement.
    pub(super) truth: f64,
    pub(super) taken: f64,
    /// The sum of the store's slots or points.
    pub(super) stored: f64,
    /// What the recommended query says.
    pub(super) reported: f64,
    /// Totals of hours asked for, and of these wrong: not those of the messages that were acknowledged.
    pub(super) totals: u64,
    pub(super) wrong_totals: u64,
    /// Slots compared, and of these wrong in the same sense.
    pub(super) slots: u64,
    pub(super) wrong_slots: u64,
    /// Why there are no figures: the store failed.
    pub(super) failure: Option<String>,
    /// Of [`PRICED`](super::trials::PRICED).
    #[serde(default)]
    pub(super) price: Option<Price>,
}

/// What it costs to keep something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Price {
    /// CPU time of the store, in seconds.
    pub(super) cpu_s: f64,
    /// What its files take of the disk.
    pub(super) bytes: i64,
}

impl Cell {
    /// Whether the totals are those of what was acknowledged.
    pub(super) fn is_right(&self) -> bool {
        self.failure.is_none() && self.unsayable.is_none() && self.wrong_totals == 0
    }

    /// Whether they are those of everything that happened.
    pub(super) fn is_complete(&self) -> bool {
        self.is_right() && self.taken == self.truth
    }
}

/// The round that is furthest from the truth: among those that are not right, else among those in
/// which something was refused; the first one if all are complete.
pub(super) fn worst(rounds: &[Cell]) -> Option<&Cell> {
    let off = |cell: &Cell| match cell.failure {
        Some(_) => f64::INFINITY,
        None => (cell.reported / cell.taken - 1.0).abs(),
    };
    let wrong = rounds.iter().filter(|cell| !cell.is_right());
    let furthest = wrong.max_by(|a, b| off(a).total_cmp(&off(b)));
    furthest.or_else(|| rounds.iter().find(|cell| !cell.is_complete())).or(rounds.first())
}
