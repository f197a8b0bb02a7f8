//! Messages that are acknowledged, but not applied yet: they are read from the journal again.
//!
//! A new series needs a number of the store, and a full head an accepted batch. While the store does
//! not answer, messages stay in the journal from the first one that needs it, so that all are applied
//! in the order in which they arrived. Senders are answered when their message is in the journal;
//! what only the store or the head would refuse is counted later.

use std::collections::VecDeque;
use std::path::Path;

use engine::Folder;
use engine::journal::Follower;
use formats::{Arrival, ElementKind, Protocol};

use super::apply::{Apply, At, each_line};
use super::{Answer, Message, Refused};
use crate::ServeError;
use crate::metrics::Sender;
use engine::{Format, Record};

/// Bytes that are applied before messages are looked at again: twice as many as those have at most,
/// so that the daemon catches up.
const AT_A_TIME: usize = 32 << 20;

/// Limit on the runs of messages of different senders.
const RUNS_MAX: usize = 1 << 20;

/// What waits in the journal.
#[derive(Debug)]
pub(super) struct Behind {
    follower: Follower<Folder>,
    /// The position of the last message.
    upto: u64,
    /// When the oldest message arrived, in microseconds since the epoch.
    oldest_us: Option<i64>,
    /// The position of the last message of each run, and who has sent it.
    runs: VecDeque<(u64, Sender)>,
}

impl Behind {
    /// Nothing after a position yet.
    pub(super) fn new(journal: &Path, after: u64) -> Behind {
        let follower = Follower::new(Folder::new(journal), after);
        Behind { follower, upto: after, oldest_us: None, runs: VecDeque::new() }
    }

    /// What a journal had at the start after a position, if anything. Its senders are not known any
    /// more.
    pub(super) fn since_start(journal: &Path, after: u64, last: u64) -> Option<Behind> {
        (last > after).then(|| Behind { upto: last, ..Behind::new(journal, after) })
    }

    /// Whether it takes no more, because its own memory is limited.
    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= RUNS_MAX
    }

    /// When the oldest message arrived, in microseconds since the epoch.
    pub(super) fn oldest_us(&self) -> Option<i64> {
        self.oldest_us
    }

    fn add(&mut self, position: u64, arrival_us: i64, sender: Sender) {
        self.upto = position;
        self.oldest_us.get_or_insert(arrival_us);
        match self.runs.back_mut() {
            Some((last, known)) if known.way == sender.way && known.name == sender.name => {
                *last = position;
            }
            _ => self.runs.push_back((position, sender)),
        }
    }
}

/// Who sent the message at a position; `None` for one of an earlier process.
fn sender(runs: &mut VecDeque<(u64, Sender)>, position: u64, replayed: u64) -> Option<&Sender> {
    while runs.front().is_some_and(|(last, _)| *last < position) {
        runs.pop_front();
    }
    runs.front().map(|(_, sender)| sender).filter(|_| position > replayed)
}

impl Apply<'_, '_, '_> {
    /// Whether something could be applied now.
    pub(super) fn can_catch_up(&self) -> bool {
        self.behind.is_some() && !self.is_asking() && !self.is_head_full()
    }

    /// Applies what waits in the journal, as far as the store answers and the head has room.
    pub(super) fn catch_up(&mut self) -> Result<(), ServeError> {
        if !self.can_catch_up() {
            return Ok(());
        }
        let Some(mut behind) = self.behind.take() else { return Ok(()) };
        let mut bytes = 0;
        while bytes < AT_A_TIME && !self.is_head_full() {
            let Behind { follower, upto, oldest_us, runs } = &mut behind;
            let Some((position, record)) = follower.next(*upto)? else {
                self.has_caught_up(*upto);
                return Ok(());
            };
            bytes += record.len();
            let read = Record::read(record);
            let read = read.ok_or_else(|| ServeError::Record(self.options.journal.clone()))?;
            if let Record::Lines { format, arrival_us, key, lines } = read {
                *oldest_us = Some(arrival_us);
                let at = At { position, arrival_us, key, is_known: false };
                let sender = sender(runs, position, self.replayed);
                if self.message(format, at, lines, sender)?.is_none() {
                    follower.again();
                    break;
                }
                let is_replayed = position <= self.replayed;
                self.metrics.journal_replayed.inc_by(u64::from(is_replayed));
            }
            self.applied = position;
        }
        self.behind = Some(behind);
        Ok(())
    }

    /// Answers a message that is in the journal, and leaves it there.
    pub(super) fn defer(&mut self, message: Message, position: u64) {
        let Message { format, lines, arrival_us, sender, answer, room, .. } = message;
        if let Some(to) = answer {
            // A sender that is gone does not wait for its answer.
            let _ = to.send(Answer::Written(self.judge(format, arrival_us, &lines)));
        }
        drop(room);
        if let Some(behind) = &mut self.behind {
            behind.add(position, arrival_us, sender);
        }
    }

    /// What of a message cannot be read; what the store would refuse is not known.
    pub(super) fn judge(&mut self, format: Format, arrival_us: i64, lines: &[u8]) -> Refused {
        match format {
            Format::Influx(_) => self.judge_lines(format, arrival_us, lines),
            Format::Message(protocol) => self.judge_elements(protocol, arrival_us, lines),
            // Stream senders get no answer, so refused lines are only counted.
            Format::Graphite | Format::Statsd => Refused::default(),
        }
    }

    fn judge_lines(&mut self, format: Format, arrival_us: i64, lines: &[u8]) -> Refused {
        let (mut refused, mut first) = (Refused::default(), None);
        each_line(lines, &mut self.readers[format.code()], |reader, line| {
            let Ok(parsed) = reader.line(line, Arrival::live(arrival_us)) else { return };
            if let Some(reason) = parsed.reasons.first() {
                refused.lines += 1;
                first.get_or_insert((line.number, *reason));
            }
        });
        refused.first =
            first.map(|(number, reason)| (number, super::apply::shown_line(lines, number), reason));
        refused
    }

    fn judge_elements(&mut self, protocol: Protocol, arrival_us: i64, message: &[u8]) -> Refused {
        let mut refused = Refused::default();
        let arrival = Arrival::live(arrival_us);
        // It was checked before it was written to the journal.
        if self.messages.read(protocol, message, arrival, &mut self.taken).is_err() {
            return refused;
        }
        let mut first = None;
        for (number, element) in (1..).zip(&self.taken.elements) {
            match (element.refused, element.kind) {
                (Some(reason), _) => {
                    refused.lines += 1;
                    first.get_or_insert((number, reason));
                }
                (None, ElementKind::Sample) => refused.samples += 1,
                (None, ElementKind::Histogram) => refused.histograms += 1,
            }
        }
        refused.first = first.map(|(number, reason)| (number, self.shown_element(number), reason));
        self.shrink_taken();
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Way;

    #[test]
    fn the_sender_of_each_message_is_known() {
        let from = |name: &str| Sender { way: Way::graphite_stream, name: name.into() };
        let mut behind = Behind::new(Path::new("journal"), 6);
        // Position 9 is that of a batch.
        for (position, name) in [(7, "a"), (8, "a"), (10, "a"), (11, "b"), (12, "a")] {
            behind.add(position, position as i64 * 1_000, from(name));
        }
        assert_eq!((behind.upto, behind.oldest_us(), behind.runs.len()), (12, Some(7_000), 3));
        let name = |position: u64, runs: &mut VecDeque<_>| {
            sender(runs, position, 7).map(|sender| sender.name.to_string())
        };
        let runs = &mut behind.runs;
        assert_eq!(name(7, runs), None, "it is one of an earlier process");
        let names: Vec<_> = [8, 10, 11, 12].map(|at| name(at, runs).unwrap()).into();
        assert_eq!(names, ["a", "a", "b", "a"]);
        assert_eq!(name(13, runs), None);
    }
}
