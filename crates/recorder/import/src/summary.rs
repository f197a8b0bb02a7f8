//! What an import did, and who watches it.

use std::io;

use formats::{Line, Reason, Tally};

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Lines, or rows of whole files.
    pub lines: u64,
    /// Of these, comments and empty ones.
    pub comments: u64,
    /// Of these, what the store had already.
    pub known: u64,
    /// Updates that were written.
    pub updates: u64,
    /// Series that were seen.
    pub series: usize,
    /// Lines that were refused.
    pub refused_lines: u64,
    /// Why.
    pub refused: Tally,
    /// Texts beside numbers in lines that were taken; they were left out.
    pub texts: u64,
    /// The number of a last line that lacks its end and was left for the next import.
    pub torn: Option<u64>,
    /// Slots that are older than what any retention keeps.
    pub expired: u64,
    /// The earliest start and the latest end of what was written, microseconds since the epoch.
    pub span_us: Option<(i64, i64)>,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl Summary {
    /// Widens the time that was written.
    pub(crate) fn widen(&mut self, from_us: i64, to_us: i64) {
        let (start, end) = self.span_us.unwrap_or((from_us, to_us));
        self.span_us = Some((start.min(from_us), end.max(to_us)));
    }

    /// Adds what the import of another file did. Series are added, although files may share some.
    pub fn add(&mut self, other: &Summary) {
        self.lines += other.lines;
        self.comments += other.comments;
        self.known += other.known;
        self.updates += other.updates;
        self.series += other.series;
        self.refused_lines += other.refused_lines;
        self.refused.merge(&other.refused);
        self.texts += other.texts;
        self.torn = self.torn.or(other.torn);
        self.expired += other.expired;
        self.stopped |= other.stopped;
        if let Some((from_us, to_us)) = other.span_us {
            self.widen(from_us, to_us);
        }
    }
}

/// A line that was refused, or a part of one that is too long.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The line.
    pub line: Line<'a>,
    /// Why; empty for all parts of a line but one.
    pub reasons: &'a [Reason],
}

/// Who watches an import.
pub trait Watch {
    /// Keeps a refused line aside. It is on disk before the piece of the stream that
    /// it is from counts as written; an import that is cut off between the two
    /// keeps it aside twice rather than not at all.
    ///
    /// # Errors
    /// Those of writing, which end the import.
    fn refused(&mut self, refused: Refused<'_>) -> io::Result<()>;

    /// Everything that was refused so far must be on disk.
    ///
    /// # Errors
    /// Those of writing, which end the import.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// How far it has come.
    fn progress(&mut self, summary: &Summary) {
        let _ = summary;
    }

    /// Whether to stop.
    fn stop(&mut self) -> bool {
        false
    }
}
