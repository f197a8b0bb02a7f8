//! What a file was made from, noted beside it, so that it need not be made again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::SpanDigest;

use crate::file::TABLE;

/// What a file was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// The version of the table.
    table: u32,
    /// Slots that start at this time or later were not sealed yet; microseconds since the epoch.
    pub(crate) until_us: i64,
    /// Length of the file.
    bytes: u64,
    /// Digests of the spans in the store, by their starts.
    spans: BTreeMap<i64, String>,
}

impl Notes {
    pub(crate) fn new(until_us: i64, bytes: u64, spans: &BTreeMap<i64, SpanDigest>) -> Notes {
        let spans = spans.iter().map(|(start_us, span)| (*start_us, text(span))).collect();
        Notes { table: TABLE, until_us, bytes, spans }
    }

    /// Reads notes; damaged ones count as none.
    pub(crate) fn read(path: &std::path::Path) -> Option<Notes> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Whether the file that there is would be made again as it is: from spans that are as they
    /// were. Those that have expired since then do not matter.
    pub(crate) fn hold(
        &self,
        until_us: i64,
        bytes: u64,
        spans: &BTreeMap<i64, SpanDigest>,
    ) -> bool {
        let same = |(start_us, span)| self.spans.get(start_us) == Some(&text(span));
        self.table == TABLE
            && self.until_us == until_us
            && self.bytes == bytes
            && spans.iter().all(same)
    }

    /// As it is written.
    pub(crate) fn to_text(&self) -> String {
        // A struct of numbers and texts is always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn text(span: &SpanDigest) -> String {
    span.sum.iter().map(|part| format!("{part:016x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_hold_until_anything_changes_but_not_when_spans_expire() {
        let span = |sum| SpanDigest { end_us: 9, sum: [sum, 0, 0, u64::MAX] };
        let spans = BTreeMap::from([(0, span(1)), (5, span(2))]);
        let notes = Notes::new(100, 42, &spans);
        let back: Notes = serde_json::from_str(&notes.to_text()).unwrap();
        assert_eq!(back, notes);
        assert!(notes.hold(100, 42, &spans));
        assert!(notes.hold(100, 42, &BTreeMap::from([(5, span(2))])));
        assert!(!notes.hold(100, 42, &BTreeMap::from([(5, span(3))])));
        assert!(!notes.hold(100, 42, &BTreeMap::from([(0, span(1)), (7, span(2))])));
        assert!(!notes.hold(101, 42, &spans));
        assert!(!notes.hold(100, 43, &spans));
    }
}
