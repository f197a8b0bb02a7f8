//! Where the engine is. Times are those since any instant.

use std::time::Duration;

use store::Writer;

use crate::behind::Behind;

/// How long to wait for the numbers of new series, until senders are answered without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same while messages wait already.
const BRIEFLY: Duration = Duration::from_millis(100);

/// How long the head may be full, until messages wait in the journal instead of with their senders.
const FULL_MAX: Duration = Duration::from_secs(10);

/// What the engine is doing.
#[derive(Debug)]
pub(crate) enum State<S> {
    /// Messages are applied.
    Open(Pace<S>, Goal),
    /// Everything is stored, or a successor reads the rest.
    Ended,
}

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

/// What decides whether messages wait, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The position of the last record that was applied.
    pub(crate) applied: u64,
    /// Whether the head is full while a batch is on its way.
    pub(crate) is_head_full: bool,
    /// Whether the store does not accept that batch.
    pub(crate) is_store_failing: bool,
    /// Whether nothing can be applied until the store answers.
    pub(crate) is_asking: bool,
    /// Whether messages can wait in a journal.
    pub(crate) has_journal: bool,
}

impl<S: PartialEq> State<S> {
    /// How long to wait for the store, before messages go on.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            State::Open(Pace::Behind(_), Goal::Serve | Goal::HandOver(_) | Goal::Stop(_)) => {
                BRIEFLY
            }
            State::Open(..) | State::Ended => PATIENCE,
        }
    }

    /// What waits in the journal.
    pub(crate) fn behind(&self) -> Option<&Behind<S>> {
        match self {
            State::Open(Pace::Behind(behind), _) => Some(behind),
            _ => None,
        }
    }

    /// Whether messages wait from now on, and where.
    pub(crate) fn keep_pace(&mut self, passed: Duration, load: Load) {
        let State::Open(pace, _) = self else { return };
        match pace {
            Pace::Behind(behind) if behind.upto <= load.applied && !load.is_asking => {
                *pace = Pace::AtOnce;
            }
            Pace::Behind(behind) => behind.looked(),
            _ => {}
        }
        match pace {
            Pace::AtOnce | Pace::Full(_) if !load.is_head_full => *pace = Pace::AtOnce,
            Pace::AtOnce if !load.is_store_failing => *pace = Pace::Full(passed),
            Pace::Full(_) if !load.has_journal => {}
            Pace::Full(since)
                if !load.is_store_failing && passed.saturating_sub(*since) < FULL_MAX => {}
            _ => self.fall_behind(load.applied),
        }
    }

    /// From now on messages wait in the journal, from this position on.
    pub(crate) fn fall_behind(&mut self, applied: u64) {
        if let State::Open(pace @ (Pace::AtOnce | Pace::Full(_)), _) = self {
            *pace = Pace::Behind(Behind::new(applied));
        }
    }

    /// Everything is to be written.
    pub(crate) fn flush(&mut self) {
        if let State::Open(_, goal @ Goal::Serve) = self {
            *goal = Goal::Flush;
        }
    }

    /// A successor is to take over.
    pub(crate) fn hand_over(&mut self) {
        if let State::Open(_, goal @ Goal::Serve) = self {
            *goal = Goal::HandOver(LastBatch::Wanted);
        }
    }

    /// No successor takes over.
    pub(crate) fn keep_on(&mut self) {
        if let State::Open(_, goal @ Goal::HandOver(_)) = self {
            *goal = Goal::Serve;
        }
    }

    /// What was to be the last batch must be made again, from what waits after a position.
    pub(crate) fn drain_again(&mut self, until: Duration, applied: u64) {
        if let State::Open(_, Goal::Stop(stop)) = self {
            *stop = Stop::Draining(until, applied);
        }
    }

    /// Nothing comes any more; what waits after a position is applied until then.
    pub(crate) fn stop(&mut self, until: Duration, applied: u64) {
        match self {
            // The successor reads the rest from the journal.
            State::Open(_, Goal::HandOver(_)) => *self = State::Ended,
            State::Open(_, goal) => *goal = Goal::Stop(Stop::Draining(until, applied)),
            State::Ended => {}
        }
    }
}
