//! Messages that are acknowledged, but not applied yet: they are read from the journal again.
//!
//! A new series needs a number of the store, and a full head an accepted batch. While the store does
//! not answer, messages stay in the journal from the first one that needs it, so that all are applied
//! in the order in which they arrived. Senders are answered when their message is in the journal;
//! what only the store or the head would refuse is counted later.

use std::collections::VecDeque;

/// Bytes that are applied before messages are looked at again: twice as many as those have at most,
/// so that the daemon catches up.
const AT_A_TIME: usize = 32 << 20;

/// Limit on the runs of messages of different senders.
pub(crate) const RUNS_MAX: usize = 1 << 20;

/// What waits in the journal.
#[derive(Debug)]
pub(crate) struct Behind<S> {
    /// The position of the last message.
    pub(crate) upto: u64,
    /// When the oldest message arrived, in microseconds since the epoch.
    pub(crate) oldest_us: Option<i64>,
    /// The position of the last message of each run, and who has sent it.
    runs: VecDeque<(u64, S)>,
    /// Bytes that were applied since messages were looked at.
    pub(crate) bytes: usize,
}

impl<S: PartialEq> Behind<S> {
    /// What is in the journal up to a position. Its senders are not known any more.
    pub(crate) fn new(upto: u64) -> Behind<S> {
        Behind { upto, oldest_us: None, runs: VecDeque::new(), bytes: 0 }
    }

    /// Whether senders must wait, because its own memory is limited. Messages that are already on their
    /// way are still accepted, so the end of the channel is noticed.
    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() >= RUNS_MAX
    }

    /// Whether messages are to be looked at before more is applied.
    pub(crate) fn is_ahead(&self) -> bool {
        self.bytes >= AT_A_TIME
    }

    /// Adds a message.
    pub(crate) fn add(&mut self, position: u64, arrival_us: i64, sender: S) {
        self.upto = position;
        self.oldest_us.get_or_insert(arrival_us);
        match self.runs.back_mut() {
            Some((last, known)) if *known == sender => *last = position,
            _ => self.runs.push_back((position, sender)),
        }
    }

    /// Who sent the message at a position.
    pub(crate) fn sender(&mut self, position: u64) -> Option<&S> {
        while self.runs.front().is_some_and(|(last, _)| *last < position) {
            self.runs.pop_front();
        }
        self.runs.front().map(|(_, sender)| sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_of_each_message_is_known() {
        let mut behind = Behind::new(6);
        // Position 9 is that of a batch.
        for (position, name) in [(7, "a"), (8, "a"), (10, "a"), (11, "b"), (12, "a")] {
            behind.add(position, position as i64 * 1_000, name);
        }
        assert_eq!((behind.upto, behind.oldest_us, behind.runs.len()), (12, Some(7_000), 3));
        let names: Vec<_> = [7, 8, 10, 11, 12].map(|at| *behind.sender(at).unwrap()).into();
        assert_eq!(names, ["a", "a", "a", "b", "a"]);
        assert_eq!(behind.sender(13), None);
    }
}
