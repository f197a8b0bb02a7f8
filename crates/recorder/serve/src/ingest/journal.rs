//! The thread that writes the journal.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

use tokio::sync::mpsc::Receiver;

use super::{Answer, Message, SharedJournal, State};
use crate::metrics::Metrics;
use engine::Record;
use std::sync::atomic::Ordering;

/// A commit waits for no further messages once it has this many bytes.
const GROUP_BYTES: usize = 8 << 20;

/// Name of the reason for refusing lines that could not be written to the journal.
const JOURNAL: &str = "journal";

/// Messages on disk.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) messages: VecDeque<Message>,
    /// The position of the last one.
    pub(super) last: u64,
}

/// Writes messages until the last sender is gone.
pub(super) fn run(
    journal: &SharedJournal,
    mut messages: Receiver<Message>,
    groups: &SyncSender<Group>,
    state: &State,
    metrics: &Metrics,
) {
    let mut bytes = Vec::new();
    while let Some(first) = messages.blocking_recv() {
        let mut length = first.lines.len();
        let mut group = vec![first];
        // What arrived during the last commit is committed together.
        while length < GROUP_BYTES
            && let Ok(message) = messages.try_recv()
        {
            length += message.lines.len();
            group.push(message);
        }
        let mut journal = state.hold(journal);
        let written = group.iter().try_for_each(|message| {
            let Message { format, lines, arrived, key, .. } = message;
            let (format, arrived, key) = (*format, *arrived, *key);
            Record::Lines { format, arrived, key, lines }.write(&mut bytes);
            journal.append(&bytes).map(|_| ())
        });
        // The records of a group are in the journal, or none of them.
        let committed = written.and_then(|()| journal.commit());
        state.set_journal_error(committed.as_ref().err().map(ToString::to_string));
        state.journal_bytes.store(journal.size(), Ordering::Relaxed);
        match committed {
            Ok(last) => {
                drop(journal);
                metrics.journal_commits.inc();
                if groups.send(Group { messages: group.into(), last }).is_err() {
                    return;
                }
            }
            Err(error) => {
                metrics.journal_errors.inc();
                drop(journal);
                let why = error.to_string();
                for Message { answer, sender, lines, .. } in group {
                    match answer {
                        // A sender that is gone does not wait for its answer.
                        Some(to) => _ = to.send(Answer::Failed(why.clone())),
                        // The sender of a datagram is told nothing.
                        None => {
                            let lines = memchr::memchr_iter(b'\n', &lines).count() as u64;
                            metrics.refuse_at_once(&sender, JOURNAL, lines);
                        }
                    }
                }
            }
        }
    }
}
