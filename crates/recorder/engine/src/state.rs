//! What the engine is doing. Times are those since any instant.

use std::time::Duration;

use store::Writer;

use crate::behind::Behind;

/// When messages are applied.
#[derive(Debug)]
pub(crate) enum Pace<S> {
    /// When they arrive.
    AtOnce,
    /// When the head has room, which it has not had since then: until then they wait with their
    /// senders.
    Full(Duration),
    /// When those before them are, and the store answers: until then they wait in the journal. Of what
    /// the store has, the lines of open windows are read again.
    Behind(Behind<S>),
}

impl<S: PartialEq> Pace<S> {
    /// Whether messages must wait with their senders.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Pace::AtOnce => false,
            Pace::Full(_) => true,
            Pace::Behind(behind) => behind.is_full(),
        }
    }

    pub(crate) fn is_behind(&self) -> bool {
        matches!(self, Pace::Behind(_))
    }

    /// When the oldest message arrived that waits in the journal, in microseconds since the epoch.
    pub(crate) fn oldest_us(&self) -> Option<i64> {
        match self {
            Pace::Behind(behind) => behind.oldest_us,
            _ => None,
        }
    }

    /// From now on messages wait in the journal, from the last one on that was applied.
    pub(crate) fn fall_behind(&mut self, applied: u64) {
        if !self.is_behind() {
            *self = Pace::Behind(Behind::new(applied));
        }
    }
}

/// What the engine works towards.
#[derive(Debug)]
pub(crate) enum Goal {
    /// To apply what an earlier process has left in the journal.
    Follow,
    /// To go on.
    Serve,
    /// To write everything, and then to go on.
    Flush,
    /// To leave little to a successor.
    HandOver(LastBatch),
    /// To write everything.
    Stop(Stop),
    /// Nothing: everything is stored, or a successor reads the rest.
    Ended,
}

impl Goal {
    /// Everything is to be written before more is added.
    pub(crate) fn flush(&mut self) {
        if let Goal::Serve = self {
            *self = Goal::Flush;
        }
    }

    pub(crate) fn hand_over(&mut self) {
        if let Goal::Serve = self {
            *self = Goal::HandOver(LastBatch::Wanted);
        }
    }

    /// Gives up the handover.
    pub(crate) fn keep_on(&mut self) {
        if let Goal::HandOver(_) = self {
            *self = Goal::Serve;
        }
    }
}

/// The last batch before a successor takes over. It contains everything up to a new file of the
/// journal, so that the successor has little to read.
#[derive(Debug)]
pub(crate) enum LastBatch {
    /// The new file begins when no batch is on its way.
    Wanted,
    /// It contains everything up to this position.
    Upto(u64),
    /// The store has it.
    Written,
}

/// The end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// What waits is applied; by then there must have been some progress since this position.
    Draining(Duration, u64),
    /// The last batch is written, which a store that is silent has until then.
    Writing(Duration),
}

/// What the store is asked for.
#[derive(Debug)]
pub(crate) enum Asking {
    /// Nothing.
    Nothing,
    /// Something, since then. Nothing is applied until it answers.
    Asked(Duration),
    /// Something, since then: for so long that messages go on into the journal.
    Overdue(Duration),
    /// It could not be asked, and is asked again then.
    Failed(Duration),
    /// It has told whether it has the request of the message that waits.
    Told(Writer, bool),
}

impl Asking {
    /// Whether nothing can be applied until the store answers, or is asked again.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Asking::Asked(_)) || self.is_late()
    }

    /// Whether messages go on into the journal meanwhile.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Asking::Overdue(_) | Asking::Failed(_))
    }
}
