//! The thread that writes to a store, and requests to it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use engine::Frozen;
use series::Lane;
use store::{Applied, Store, StoreError};

use crate::BackfillError;

/// Attempts to write a batch to lanes that another writer keeps changing.
const ATTEMPTS: usize = 20;

/// Result of a batch.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Number of its slots that no retention keeps.
    pub(crate) expired: u64,
    /// Number of its points that were refused, because another writer had changed their lanes.
    pub(crate) refused: u64,
    /// The lanes of these series after the batch, by their numbers in the store.
    pub(crate) rebased: Vec<(i64, Lane)>,
}

type Outcome = Result<Stored, StoreError>;

/// The same, with the batch if it was not written.
pub(crate) type Written = Result<Stored, (StoreError, Box<Frozen>)>;

/// A job for the thread.
enum Job<'s> {
    /// Write a batch, and report when it is written.
    Write(Box<Frozen>),
    /// Write a batch, and return it on failure.
    Try(Box<Frozen>, Sender<Written>),
    /// Anything else.
    Call(Call<'s>),
}

/// A call to the store.
type Call<'s> = Box<dyn FnOnce(&mut dyn Store) + Send + 's>;

/// Sends jobs to the thread, which executes them in order.
pub(crate) struct StoreThread<'s> {
    jobs: Sender<Job<'s>>,
    outcomes: Receiver<Written>,
    /// Whether a batch is being written. At most one is, so that at most two heads are in memory.
    busy: bool,
}

/// Runs `work` while a separate thread writes to `store`; returns when both are done.
pub(crate) fn with<'s, T>(
    store: &'s mut dyn Store,
    now_us: i64,
    work: impl FnOnce(StoreThread<'s>) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    thread::scope(|scope| {
        let (jobs, asked) = channel();
        let (reply, outcomes) = channel();
        scope.spawn(move || {
            let mut worker = StoreWorker { store, now_us, maintained: false };
            // Both ends live until the work is done or has failed; then nobody is waiting.
            for job in asked {
                worker.work(job, &reply);
            }
        });
        work(StoreThread { jobs, outcomes, busy: false })
    })
}

/// The thread's side.
struct StoreWorker<'s> {
    store: &'s mut dyn Store,
    now_us: i64,
    maintained: bool,
}

impl StoreWorker<'_> {
    fn work(&mut self, job: Job<'_>, reply: &Sender<Written>) {
        match job {
            Job::Write(mut frozen) => {
                let outcome = self.write(&mut frozen).map_err(|error| (error, frozen));
                drop(reply.send(outcome));
            }
            Job::Try(mut frozen, reply) => {
                let outcome = self.write(&mut frozen).map_err(|error| (error, frozen));
                drop(reply.send(outcome));
            }
            Job::Call(call) => call(self.store),
        }
    }

    fn write(&mut self, frozen: &mut Frozen) -> Outcome {
        let claims = frozen.claims().to_vec();
        let mut attempts = 1;
        loop {
            match store::apply_ahead(self.store, &claims, frozen) {
                Ok(applied) => {
                    let expired = match applied {
                        Applied::Now { expired } => expired,
                        // Its answer was lost, or another import of the same data was faster.
                        Applied::Before => 0,
                    };
                    let (refused, rebased) = (frozen.refused(), frozen.rebased());
                    return Ok(Stored { expired, refused, rebased });
                }
                Err(StoreError::Stale { lanes })
                    if frozen.rebase(&lanes) && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                }
                // Expired slots are not kept, and need no partitions.
                Err(StoreError::TooManyPartitions { .. }) if !self.maintained => {
                    self.maintained = true;
                    let now_us = store::believed_us(self.store, self.now_us)?;
                    self.store.maintain(now_us)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<'s> StoreThread<'s> {
    /// Calls the store, and waits for the result.
    pub(crate) fn call<T: Send + 's>(
        &mut self,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 's,
    ) -> Result<T, StoreError> {
        let (reply, answer) = channel();
        let job = Job::Call(Box::new(move |store| drop(reply.send(ask(store)))));
        self.submit(job);
        answer.recv().unwrap_or_else(|_| gone())
    }

    /// Writes a batch, and waits; returns it if it was not written.
    pub(crate) fn apply(&mut self, frozen: Frozen) -> Written {
        let (reply, answer) = channel();
        self.submit(Job::Try(Box::new(frozen), reply));
        answer.recv().unwrap_or_else(|_| gone())
    }

    /// Starts writing a batch while none is being written.
    pub(crate) fn begin(&mut self, frozen: Box<Frozen>) {
        debug_assert!(!self.busy, "one batch at a time");
        self.submit(Job::Write(frozen));
        self.busy = true;
    }

    /// Starts a call to the store, and does not wait.
    pub(crate) fn start(&self, call: impl FnOnce(&mut dyn Store) + Send + 's) {
        self.submit(Job::Call(Box::new(call)));
    }

    /// Waits until nothing is being written.
    pub(crate) fn settle(&mut self) -> Outcome {
        if !std::mem::take(&mut self.busy) {
            return Ok(Stored::default());
        }
        self.outcomes.recv().unwrap_or_else(|_| gone()).map_err(|(error, _)| error)
    }

    /// Result of the batch that was being written, if finished.
    pub(crate) fn poll(&mut self) -> Outcome {
        self.ended().unwrap_or_else(|| Ok(Stored::default())).map_err(|(error, _)| error)
    }

    /// Result of the batch that was being written, if it has ended since the last call.
    pub(crate) fn ended(&mut self) -> Option<Written> {
        match self.outcomes.try_recv() {
            Ok(outcome) => {
                self.busy = false;
                Some(outcome)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => gone(),
        }
    }

    /// Waits for the batch that is being written, for at most this long.
    pub(crate) fn ended_within(&mut self, limit: Duration) -> Option<Written> {
        match self.outcomes.recv_timeout(limit) {
            Ok(outcome) => {
                self.busy = false;
                Some(outcome)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => gone(),
        }
    }

    /// Whether nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy
    }

    fn submit(&self, job: Job<'s>) {
        // A thread that is gone has panicked, which waiting for its reply reveals.
        drop(self.jobs.send(job));
    }
}

/// The writing thread ends before the work only if it panicked; then this one panics too.
pub(crate) fn gone() -> ! {
    panic!("the thread that writes to the store has ended")
}
