//! What the engine is told, and what it wants to be done.

use std::ops::RangeInclusive;
use std::time::Duration;

use formats::{Book, Reason, Series};
use series::Kind;
use store::{StoreError, Writer};

use crate::answer::{LineCounts, Message, RefusedLines};
use crate::gather::{FoundSeries, Question};
use crate::head::FrozenBatch;
use crate::placed::Piece;
use crate::session::Batches;
use crate::stored::StoredBatch;

/// The world at the time of an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// The time that has passed since any instant.
    pub passed: Duration,
    /// The time at which it is to be judged what has expired, in microseconds since the epoch;
    /// `None` while that is unknown.
    pub expiry_us: Option<i64>,
    /// The time before which requests are forgotten, in microseconds since the epoch, if any are.
    pub forget_us: Option<i64>,
    /// Size of the journal in bytes.
    pub journal_bytes: u64,
    /// Whether the journal did not accept what was last written to it.
    pub is_journal_failing: bool,
}

/// What has happened. `S` tells who has sent a message.
#[derive(Debug)]
pub enum Event<'a, S> {
    /// Some time has passed.
    Tick,
    /// A message is in the journal.
    Message(Message<'a>, &'a S),
    /// The next record of the journal was read, because the engine [wants](Wants::Record) it.
    Record {
        /// Its position.
        position: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Series of the book of a source appear for the first time, perhaps.
    Find(&'a Book, &'a [(Series, Kind)]),
    /// A piece of a source that can be read again.
    Piece(Piece<'a>),
    /// Everything is to be written before more is added.
    Flush,
    /// The store has answered.
    Store(Reply),
    /// So many bytes of the journal are [needed](Effect::Weigh).
    Weighed(u64),
    /// The positions of the records of a batch, if they [are on disk](Effect::Note).
    Noted(Option<RangeInclusive<u64>>),
    /// The positions of the records that the journal was [tried](Effect::TryJournal) with, if it has
    /// accepted them.
    Tried(Option<RangeInclusive<u64>>),
    /// A new file [has begun](Effect::StartFile), if that was possible, after the record at this
    /// position.
    FileStarted(u64),
    /// A successor is to take over.
    HandOver,
    /// No successor takes over.
    KeepOn,
    /// No more messages come.
    Stop,
}

/// Answers of the store.
#[derive(Debug)]
pub enum Reply {
    /// To [`Effect::AskSeries`].
    Found(Result<FoundSeries, StoreError>),
    /// To [`Effect::AskKey`]: whether the store has the request.
    Known(Writer, Result<bool, StoreError>),
    /// To [`Effect::Write`]; the batch comes back if it was not written.
    Written(Result<StoredBatch, (StoreError, Box<FrozenBatch>)>),
    /// To [`Effect::Maintain`]: whether there is more to do.
    Maintained(bool),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect<S> {
    /// The message, the record, or the piece of this event is to come again once the engine wants one.
    Again,
    /// Keep the refused lines of a piece, by their places, before any other event: then the piece is
    /// written.
    Refuse(Vec<(usize, Reason)>),
    /// Answer the sender of this event's message, and count it.
    Answer(RefusedLines, Option<LineCounts>),
    /// Count a message that was read from the journal.
    Count(S, LineCounts),
    /// Add to a figure.
    Add(Figure, u64),
    /// A sender [says](crate::Clock::hear) which time it is, in microseconds since the epoch.
    Hear(i64),
    /// Find or create series in the store; [`Reply::Found`] follows.
    AskSeries(Question),
    /// Ask the store for a request; [`Reply::Known`] follows.
    AskKey(Writer),
    /// Tell the size of the journal from this position on; [`Event::Weighed`] follows at once.
    Weigh(u64),
    /// Write the record of the last batch to the journal; [`Event::Noted`] follows at once.
    Note {
        /// The batches.
        batches: Batches,
        /// Whether a new file is to be started first, because only whole files are released.
        is_large: bool,
    },
    /// Try whether the journal accepts the record of the last batch again; [`Event::Tried`] follows
    /// at once.
    TryJournal(Batches),
    /// Start a new file of the journal, if possible; [`Event::FileStarted`] follows at once.
    StartFile,
    /// Write a batch to the store; [`Reply::Written`] follows.
    Write(Box<FrozenBatch>),
    /// Delete what is not needed of the journal.
    Release(Batches),
    /// Delete all that the store has from the journal.
    Shorten(Batches),
    /// Begin a part of the upkeep; [`Reply::Maintained`] follows. Times are in microseconds since the
    /// epoch.
    Maintain {
        /// The time by which slots expire.
        now_us: i64,
        /// The time before which requests are forgotten, if any are.
        forget_us: Option<i64>,
    },
    /// The store does not answer for this reason, or answers again.
    Trouble(Option<String>),
    /// A successor has little to read.
    Flushed,
}

/// Figures about the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Updates accepted.
    Updates,
    /// Batches written.
    Batches,
    /// Series omitted from batches, because a count would exceed what is exact.
    SeriesOmitted,
    /// Slots that were older than any retention keeps.
    SlotsExpired,
    /// Points that were refused after their acknowledgement, because another process wrote later
    /// ones, and deltas of which another process has counted a part.
    PointsOvertaken,
    /// Requests that were not counted again.
    RequestsRepeated,
    /// Updates of deltas that were not counted again.
    UpdatesRepeated,
    /// Results of windows outside the bounds of their series.
    WindowsRefused,
    /// Failed attempts to use the store.
    StoreErrors,
    /// Records of batches that could not be written to the journal.
    JournalErrors,
    /// Messages of an earlier process.
    JournalReplayed,
}

/// What the engine waits for, and for how long at most; time is an event too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Only the answer of the store.
    Reply(Duration),
    /// A message, or a piece.
    Message(Duration),
    /// The next record of the journal.
    Record {
        /// The position of the record before it.
        after: u64,
        /// The position of the last record that it waits for.
        upto: u64,
    },
    /// Nothing: it has ended.
    Nothing,
}

/// Why the engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal has a record that this version does not know.
    #[error("the journal has records of a newer version")]
    Record,
    /// It is to end, but the store does not have everything.
    #[error("the store does not have everything")]
    Unwritten,
}
