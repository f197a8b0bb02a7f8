//! What is kept of a comparison.

use serde::{Deserialize, Serialize};

use zoo::Kind;

use super::tally::JudgedComparison;

/// Under which conditions a comparison was made. Only comparisons of one method and length belong
/// together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) seconds: u32,
    /// The servers about which the method was wrong, instead of drawn ones.
    pub(super) found: bool,
    /// Beside neighbours on both CPUs.
    pub(super) neighbours: bool,
    /// Comparisons at the same time.
    pub(super) together: u32,
    /// The measured build.
    pub(super) version: String,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) conditions: Conditions,
    pub(super) judged: JudgedComparison,
}

impl Entry {
    /// Whether it is this comparison; each `--kind` numbers its runs from 1.
    pub(super) fn is(&self, conditions: &Conditions, run: u32, kind: Kind, against: &str) -> bool {
        let Entry { conditions: made, judged } = self;
        made == conditions && (judged.run, judged.kind) == (run, kind) && judged.against == against
    }
}
