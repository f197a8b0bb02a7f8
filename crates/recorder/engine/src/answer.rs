//! Messages, and what becomes of them.

use formats::{Arrival, Reason, RefusalCounts, Update, UpdateContent};
use store::Writer;

use crate::clock::ArrivalTimes;
use crate::record::Format;

/// A message that is in the journal.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its position in the journal.
    pub position: u64,
    /// How it is to be read.
    pub format: Format,
    /// When it arrived.
    pub arrived: ArrivalTimes,
    /// The name of its request, if its sender has given it one.
    pub key: Option<Writer>,
    /// Whole lines, or a binary message that [can be read](formats::check_message).
    pub lines: &'a [u8],
}

impl Message<'_> {
    /// Its arrival, by which its times are judged.
    pub(crate) fn arrival(&self) -> Arrival {
        let ArrivalTimes { at_us, latest_us } = self.arrived;
        Arrival { now_us: latest_us, at_us: Some(at_us) }
    }
}

/// The refused lines, or elements, of a message, and the accepted elements of a binary one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedLines {
    /// Their number.
    pub lines: u64,
    /// The number of the first in its message, the line, and why.
    pub first: Option<(u64, String, Reason)>,
    /// Samples and data points of a binary message that were accepted.
    pub samples: u64,
    /// Native histograms that were accepted.
    pub histograms: u64,
    /// Whether nothing was recorded, because the message repeats an earlier one.
    pub is_repeated: bool,
}

/// The lines, or elements, of a message.
#[derive(Clone, Debug, Default)]
pub struct LineCounts {
    /// All of them.
    pub lines: u64,
    /// Those refused.
    pub refused: RefusalCounts,
}

/// What becomes of the lines, or elements, of a message.
#[derive(Debug, Default)]
pub(crate) struct TakenLines {
    pub(crate) counted: LineCounts,
    pub(crate) refused: RefusedLines,
    /// The number of the first that was refused, and why.
    pub(crate) first: Option<(u64, Reason)>,
    /// Updates that were accepted.
    pub(crate) updates: u64,
    /// Updates of deltas that were counted before.
    pub(crate) repeated: u64,
    /// The latest time that its sender says, in microseconds since the epoch, if it says any.
    pub(crate) said_us: Option<i64>,
    /// Whether it waits for a batch.
    pub(crate) is_in_head: bool,
}

impl TakenLines {
    /// Remembers the latest time of a message that is not that of its arrival.
    pub(crate) fn hear<'a>(
        &mut self,
        message: Message<'_>,
        updates: impl Iterator<Item = &'a Update>,
    ) {
        let at_us = |update: &Update| match update.what {
            UpdateContent::Point(point) => point.at_us,
            UpdateContent::Interval(interval) => interval.cover().span.end_us(),
        };
        self.said_us = updates.map(at_us).filter(|us| *us != message.arrived.at_us).max();
    }

    /// Refuses the line, or the element, of this number, from 1.
    pub(crate) fn refuse(&mut self, number: u64, reason: Reason) {
        self.counted.refused.add(reason);
        self.refused.lines += 1;
        self.first.get_or_insert((number, reason));
    }
}
