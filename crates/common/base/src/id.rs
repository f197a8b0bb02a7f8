//! Run ids.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A run id: sortable by time, short enough to type, unique on one machine.
///
/// `20261121-071530-k3f9`: the UTC second of the start, then four characters that distinguish runs
/// of the same second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl RunId {
    /// The id of a run that starts at `at`; `salt` distinguishes runs of the same second.
    pub fn new(at: Timestamp, salt: u64) -> RunId {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let suffix: String =
            (0..4).map(|i| LETTERS[(salt >> (5 * i)) as usize % 32] as char).collect();
        RunId(format!("{}-{suffix}", at.strftime("%Y%m%d-%H%M%S")))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_second_and_its_salt() {
        let at: Timestamp = "2026-11-21T07:15:30Z".parse().unwrap();
        assert_eq!(RunId::new(at, 0).as_str(), "20261121-071530-0000");
        assert_ne!(RunId::new(at, 1), RunId::new(at, 2));
    }
}
