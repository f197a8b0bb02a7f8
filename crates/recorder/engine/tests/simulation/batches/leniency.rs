//! The rules that are left out on purpose, each of which a seed must find.

/// A rule of batches that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// The store gets a batch before its record is in the journal.
    RecordAfterBatch,
    /// The journal is released before the store has the batch.
    ReleaseBeforeBatch,
    /// A batch is claimed in another transaction than that of its slots.
    ClaimOutside,
    /// A batch whose answer was lost is written again under the next number.
    NumberAgain,
    /// A batch claims a message that it does not contain.
    UptoTooFar,
    /// All that is in the journal up to the record of a batch is taken for records of batches.
    LinesTakenForBatches,
    /// A new process reads the whole journal again.
    FromTheStart,
    /// A new process begins after the last batch record, whether or not the store has that batch.
    BelievesTheJournal,
    /// Messages are acknowledged before the journal has them.
    AnswersEarly,
    /// A new process does not claim the next number of its predecessor.
    NoFence,
    /// The names of requests are written after the transaction of their updates.
    KeysAfter,
    /// Neither a new process asks the store for the names of requests, nor the transaction.
    KeysInMemory,
    /// The transaction of a batch does not compare the names of its requests.
    KeysUncompared,
    /// The names of requests are forgotten by a clock that was just set ahead.
    KeysForgottenEarly,
    /// The names of requests are never forgotten.
    KeysForEver,
    /// What is refused is not counted.
    RefusedUncounted,
    /// A new process does not continue the windows of its predecessor.
    WindowsForgotten,
    /// Changes of gauges are not read again.
    ChangesForgotten,
    /// Messages that are read again arrive again.
    ArrivalsAnew,
    /// Expiry believes what the clock shows.
    ExpiryAsShown,
    /// A process that begins believes a clock that has recorded slots.
    ExpiryAsRecorded,
    /// A slot that arrives after its span was packed is not written.
    PackedForGood,
    /// Senders are not told to wait.
    NobodyWaits,
}

impl Leniency {
    pub(crate) const ALL: [Leniency; 23] = [
        Leniency::RecordAfterBatch,
        Leniency::ReleaseBeforeBatch,
        Leniency::ClaimOutside,
        Leniency::NumberAgain,
        Leniency::UptoTooFar,
        Leniency::LinesTakenForBatches,
        Leniency::FromTheStart,
        Leniency::BelievesTheJournal,
        Leniency::AnswersEarly,
        Leniency::NoFence,
        Leniency::KeysAfter,
        Leniency::KeysInMemory,
        Leniency::KeysUncompared,
        Leniency::KeysForgottenEarly,
        Leniency::KeysForEver,
        Leniency::RefusedUncounted,
        Leniency::WindowsForgotten,
        Leniency::ChangesForgotten,
        Leniency::ArrivalsAnew,
        Leniency::ExpiryAsShown,
        Leniency::ExpiryAsRecorded,
        Leniency::PackedForGood,
        Leniency::NobodyWaits,
    ];
}
