//! From lines to the store: everything is in the journal before it is acknowledged.
//!
//! ```text
//!  listeners ─→ Message ─→ thread `journal`: append … append, one commit for all
//!                             │ committed messages
//!                             └─→ thread `apply`: the executor of the engine ─→ answers
//!                                                   │ ↑ what it wants, and what became of it
//!                                                   ↓ │
//!                                                  threads of the store
//! ```
//!
//! All queues are short. If the store is slow, the head fills up, then the queues, then senders wait,
//! or are told to come back later. If the store does not answer, messages stay in the journal, until
//! that has reached its limit.

mod executor;
mod journal;
mod keys;
mod state;
mod store_thread;
mod watchdog;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{ArrivalTimes, EngineOptions, Journal};
use store::Writer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

pub(crate) use engine::{Format, RefusedLines};
pub(crate) use state::State;

use state::Ends;

use crate::ServeError;
use crate::metrics::{Metrics, Sender};
use crate::shares::Shares;

/// Messages that wait for the journal.
const WAITING: usize = 64;

/// Groups of messages that wait to be applied.
const GROUPS: usize = 2;

/// Limit on the lines of a message, in bytes.
pub(crate) const MESSAGE_MAX: usize = 8 << 20;

/// Limit on the bytes of all messages.
const ROOM: usize = 64 << 20;

/// Limit on the bytes of the bodies that arrive from one sender.
pub(crate) const SHARE: usize = ROOM / 2;

/// Bytes that are counted together.
const ROOM_UNIT: usize = 1 << 10;

const _: () = assert!(MESSAGE_MAX + engine::record::LINES_HEAD <= engine::journal::RECORD_MAX);

/// Options of the way in.
#[derive(Clone, Debug)]
pub(crate) struct IngestOptions {
    /// The store.
    pub(crate) place: String,
    /// The folder of the journal.
    pub(crate) journal: PathBuf,
    /// How long the keys of requests are remembered.
    pub(crate) remember: Duration,
    /// Step, limits and memory.
    pub(crate) engine: EngineOptions,
}

/// Lines from a sender.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) format: Format,
    /// Whole lines, or a binary message that [can be read](formats::check_message).
    pub(crate) lines: Vec<u8>,
    /// When they arrived.
    pub(crate) arrived: ArrivalTimes,
    /// The name of the request, if its sender has given it one.
    pub(crate) key: Option<Writer>,
    pub(crate) sender: Sender,
    /// Who waits for the answer.
    pub(crate) answer: Option<oneshot::Sender<Answer>>,
    /// Its share of the memory of all messages.
    pub(crate) room: OwnedSemaphorePermit,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is in the journal, and its lines were accepted, except for those refused.
    Written(RefusedLines),
    /// It is not in the journal, for this reason.
    Failed(String),
}

/// The way in. Cloning shares it; it ends when all are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Ingest {
    messages: mpsc::Sender<Message>,
    pub(crate) state: Arc<State>,
    pub(crate) metrics: Metrics,
    journal_max: u64,
    room: Arc<Semaphore>,
    /// Who takes what of it for bodies that arrive.
    pub(crate) shares: Shares,
}

/// The threads of an [`Ingest`].
#[derive(Debug)]
pub(crate) struct Threads {
    journal: JoinHandle<()>,
    apply: JoinHandle<Result<(), ServeError>>,
}

/// Opens the store and the journal, reads what the store does not have, and starts the threads.
///
/// # Errors
/// Those of the store and of the journal.
pub(crate) fn start(
    options: IngestOptions,
    metrics: Metrics,
) -> Result<(Ingest, Threads), ServeError> {
    let state = Arc::new(State::default());
    let (groups, to_apply) = sync_channel(GROUPS);
    let (opened, journal) = std::sync::mpsc::channel();
    let journal_max = options.engine.journal_max;
    metrics.limits(journal_max, options.engine.updates.head_bytes);
    let (shared, counted) = (state.clone(), metrics.clone());
    let apply = std::thread::Builder::new().name("apply".to_owned()).spawn(move || {
        let _ends = Ends(shared.clone());
        executor::run(&options, &shared, &counted, &to_apply, &opened)
    });
    let apply = apply.map_err(ServeError::System)?;
    let Ok(journal) = journal.recv() else {
        // The thread ended before it had opened the journal.
        let ended = apply.join().unwrap_or(Err(ServeError::Panicked));
        return Err(ended.err().unwrap_or(ServeError::Panicked));
    };
    let (messages, waiting) = mpsc::channel(WAITING);
    let (shared, counted) = (state.clone(), metrics.clone());
    let writer = std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
        let _ends = Ends(shared.clone());
        journal::run(&journal, waiting, &groups, &shared, &counted);
    });
    let journal = writer.map_err(ServeError::System)?;
    let room = Arc::new(Semaphore::new(ROOM / ROOM_UNIT));
    let ingest = Ingest { messages, state, metrics, journal_max, room, shares: Shares::default() };
    Ok((ingest, Threads { journal, apply }))
}

/// A journal that two threads append to.
type SharedJournal = Arc<Mutex<Journal>>;

impl Ingest {
    /// A way in that leads nowhere: what is sent gets no answer.
    pub(crate) fn nowhere(metrics: Metrics) -> Ingest {
        let room = Arc::new(Semaphore::new(ROOM / ROOM_UNIT));
        let (messages, state, shares) = (mpsc::channel(1).0, Arc::default(), Shares::default());
        Ingest { messages, state, metrics, journal_max: u64::MAX, room, shares }
    }

    /// Whether senders must wait, because the journal or the memory is full.
    pub(crate) fn is_full(&self) -> bool {
        self.state.full.load(Ordering::Relaxed) || self.is_journal_full()
    }

    fn is_journal_full(&self) -> bool {
        self.state.journal_bytes.load(Ordering::Relaxed) >= self.journal_max
    }

    /// Why senders must wait.
    pub(crate) fn why_full(&self) -> String {
        let what = match self.is_journal_full() {
            true => "the journal",
            false => "the memory for unwritten data",
        };
        match self.state.store_error() {
            Some(_) => format!("the record cannot be written and {what} is full: try again later"),
            None => format!("{what} is full until more is written to the record: try again later"),
        }
    }

    /// Room for these bytes, if there is any now.
    pub(crate) fn try_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(ROOM_UNIT)).ok()?;
        self.room.clone().try_acquire_many_owned(units).ok()
    }

    /// What is missing in `room` for these bytes, if there is as much now. Parts that are asked for
    /// one by one would each be rounded up.
    pub(crate) fn try_more_room(
        &self,
        room: &OwnedSemaphorePermit,
        bytes: usize,
    ) -> Option<OwnedSemaphorePermit> {
        self.try_room(bytes.saturating_sub(room.num_permits() * ROOM_UNIT))
    }

    /// Room for these bytes; waits for it. `None` if there is never as much.
    pub(crate) async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(ROOM_UNIT)).ok()?;
        self.room.clone().acquire_many_owned(units).await.ok()
    }

    /// Hands over a message; waits while the queues are full.
    pub(crate) async fn send(&self, message: Message) {
        // Without receiver the daemon is ending, and the sender gets no answer.
        let _ = self.messages.send(message).await;
    }
}

impl Threads {
    /// Waits until everything is in the store, after every [`Ingest`] was dropped.
    ///
    /// # Errors
    /// Those of the store; what it does not have stays in the journal.
    pub(crate) fn join(self) -> Result<(), ServeError> {
        let journal = self.journal.join();
        let applied = self.apply.join().unwrap_or(Err(ServeError::Panicked));
        journal.map_err(|_| ServeError::Panicked)?;
        applied
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    impl Ingest {
        /// A way in, and the messages that are handed over to it.
        pub(crate) fn for_tests() -> (Ingest, mpsc::Receiver<Message>) {
            let (messages, waiting) = mpsc::channel(WAITING);
            let (state, metrics) = (Arc::default(), Metrics::new());
            let room = Arc::new(Semaphore::new(ROOM / ROOM_UNIT));
            let shares = Shares::default();
            (Ingest { messages, state, metrics, journal_max: u64::MAX, room, shares }, waiting)
        }
    }

    #[test]
    fn senders_are_told_what_is_full() {
        let (ingest, _waiting) = Ingest::for_tests();
        let ingest = Ingest { journal_max: 100, ..ingest };
        assert!(!ingest.is_full());
        ingest.state.full.store(true, Ordering::Relaxed);
        assert!(ingest.is_full());
        let why = "the memory for unwritten data is full until more is written to the record: try \
                   again later";
        assert_eq!(ingest.why_full(), why);
        ingest.state.journal_bytes.store(100, Ordering::Relaxed);
        let why = "the journal is full until more is written to the record: try again later";
        assert_eq!(ingest.why_full(), why);
        ingest.state.set_store_error(Some("no answer".to_owned()));
        let why = "the record cannot be written and the journal is full: try again later";
        assert_eq!(ingest.why_full(), why);
    }

    #[test]
    fn a_thread_that_panics_ends_the_daemon() {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let apply = std::thread::spawn(move || {
            let _ends = Ends(shared);
            panic!("as asked")
        });
        let journal = std::thread::spawn(|| ());
        let ended = Threads { journal, apply }.join();
        assert!(matches!(ended, Err(ServeError::Panicked)), "{ended:?}");
        assert_eq!(state.ended.notified().now_or_never(), Some(()), "the daemon is told");
    }
}
