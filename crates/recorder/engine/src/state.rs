//! Where the engine is. Times are those since any instant.

use std::time::Duration;

use formats::Series;
use store::Writer;

use crate::behind::Behind;
use crate::event::Last;

/// How long to wait for the numbers of new series, until senders are answered without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same while messages wait already.
const BRIEFLY: Duration = Duration::from_millis(100);

/// What the engine is doing.
#[derive(Debug)]
pub(crate) enum State<S> {
    /// What the store has is read again, as far as it is needed.
    Opening(Opening),
    /// Messages are applied.
    Open(Pace<S>, Goal),
    /// Everything is stored, or a successor reads the rest.
    Ended,
}

/// What is read again: elements that may be repeated, and lines whose windows are open.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The first message that windows need.
    pub(crate) needed: u64,
    /// What windows owe to later ones.
    pub(crate) owed: Option<Vec<(Series, f64)>>,
}

/// When messages are applied.
#[derive(Debug)]
pub(crate) enum Pace<S> {
    /// When they arrive.
    AtOnce,
    /// When the head has room, which it has not had since then: until then they wait with their
    /// senders.
    Full(Duration),
    /// When the store answers: until then they wait in the journal.
    Behind(Behind<S>),
}

/// What the engine works towards.
#[derive(Debug)]
pub(crate) enum Goal {
    /// To apply what an earlier process has left in the journal.
    Follow,
    /// To go on.
    Serve,
    /// To leave little to a successor.
    HandOver(LastBatch),
    /// To write everything.
    Stop(Stop),
}

/// The last batch before a successor takes over. It contains everything up to a new file of the
/// journal, so that the successor has little to read.
#[derive(Debug)]
pub(crate) enum LastBatch {
    /// The new file begins when no batch is on its way.
    Wanted,
    /// What it must contain.
    Upto(Last),
    /// The store has it.
    Written,
}

/// The end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// What waits is applied; by then there must have been some progress since this position.
    Draining(Duration, u64),
    /// The last batch is written.
    Writing,
}

/// What the store is asked for.
#[derive(Debug)]
pub(crate) enum Asking {
    /// Nothing.
    Nothing,
    /// Something, since then. Nothing is applied until it answers.
    Asked(Duration),
    /// Something, for so long that messages go on into the journal.
    Overdue,
    /// It could not be asked, and is asked again then.
    Failed(Duration),
    /// It has told whether it has the request of the message that waits.
    Told(Writer, bool),
}

impl Asking {
    /// Whether nothing can be applied until the store answers, or is asked again.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Asking::Asked(_) | Asking::Overdue | Asking::Failed(_))
    }
}

impl<S> State<S> {
    /// How long to wait for the store, before messages go on.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            // Nothing works without the store.
            State::Opening(_) | State::Ended => Duration::MAX,
            State::Open(Pace::Behind(_), Goal::Serve | Goal::HandOver(_) | Goal::Stop(_)) => {
                BRIEFLY
            }
            State::Open(..) => PATIENCE,
        }
    }

    /// What waits in the journal.
    pub(crate) fn behind(&self) -> Option<&Behind<S>> {
        match self {
            State::Open(Pace::Behind(behind), _) => Some(behind),
            _ => None,
        }
    }
}
