//! The result of an import, and its observer.

use std::io;

use formats::{Line, Reason, RefusalCounts};

use crate::UnstoredUpdates;

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Lines, or rows of whole files.
    pub lines: u64,
    /// Of these, comments and empty lines.
    pub comments: u64,
    /// Of these, lines that the store had already.
    pub known: u64,
    /// Updates written.
    pub updates: u64,
    /// Series seen.
    pub series: usize,
    /// Lines refused.
    pub refused_lines: u64,
    /// Reasons.
    pub refused: RefusalCounts,
    /// Texts beside numbers in accepted lines; they were skipped.
    pub texts: u64,
    /// The number of an incomplete last line that was left for the next import.
    pub torn: Option<u64>,
    /// What of accepted updates was not stored.
    pub unstored: UnstoredUpdates,
    /// Earliest start and latest end of what was written, in microseconds since the epoch.
    pub span_us: Option<(i64, i64)>,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl Summary {
    /// Extends the time range.
    pub(crate) fn widen(&mut self, from_us: i64, to_us: i64) {
        let (start, end) = self.span_us.unwrap_or((from_us, to_us));
        self.span_us = Some((start.min(from_us), end.max(to_us)));
    }

    /// Adds the result of another file. Series are added, although files may share some.
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
        self.unstored += other.unstored;
        self.stopped |= other.stopped;
        if let Some((from_us, to_us)) = other.span_us {
            self.widen(from_us, to_us);
        }
    }
}

/// A refused line, or a piece of one that is too long.
#[derive(Clone, Copy, Debug)]
pub struct RefusedLine<'a> {
    /// The line.
    pub line: Line<'a>,
    /// Reasons; empty for all pieces of a line but one.
    pub reasons: &'a [Reason],
}

/// The observer of an import.
pub trait Watch {
    /// Stores a refused line. It is on disk before its piece of the stream counts as written; an
    /// import that is interrupted between the two stores the line twice rather than not at all.
    ///
    /// # Errors
    /// I/O errors, which end the import.
    fn refused(&mut self, refused: RefusedLine<'_>) -> io::Result<()>;

    /// Ensures that all refused lines so far are on disk.
    ///
    /// # Errors
    /// I/O errors, which end the import.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The progress so far.
    fn progress(&mut self, summary: &Summary) {
        let _ = summary;
    }

    /// Everything has been read; writes what is still in memory.
    fn writing(&mut self) {}

    /// Whether to stop.
    fn stop(&mut self) -> bool {
        false
    }
}
