//! The thread that writes to a store, and how it is asked.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use head::Frozen;
use store::{Applied, Store, StoreError};

use crate::BackfillError;

/// What became of a batch: how many of its slots no retention keeps.
type Outcome = Result<u64, StoreError>;

/// What the thread is asked to do.
enum Job<'s> {
    /// To write a batch, and to say when it is written.
    Write(Box<Frozen>),
    /// To write a batch, and to give it back if that fails.
    Try(Box<Frozen>, Sender<Result<u64, (StoreError, Box<Frozen>)>>),
    /// Anything else.
    Call(Call<'s>),
}

/// A question to the store.
type Call<'s> = Box<dyn FnOnce(&mut dyn Store) + Send + 's>;

/// Where the thread is asked. Jobs are done in the order in which they come.
pub(crate) struct Desk<'s> {
    jobs: Sender<Job<'s>>,
    outcomes: Receiver<Outcome>,
    /// Whether a batch is being written. There is one at most, so that no more than two heads are in memory.
    busy: bool,
}

/// Does `work` while a thread of its own writes to `store`; returns when both are done.
pub(crate) fn with<'s, T>(
    store: &'s mut dyn Store,
    now_us: i64,
    work: impl FnOnce(Desk<'s>) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    thread::scope(|scope| {
        let (jobs, asked) = channel();
        let (told, outcomes) = channel();
        scope.spawn(move || {
            let mut clerk = Clerk { store, now_us, maintained: false };
            // Both ends live until the work is done or has failed: then nobody listens.
            for job in asked {
                clerk.work(job, &told);
            }
        });
        work(Desk { jobs, outcomes, busy: false })
    })
}

/// The thread's end.
struct Clerk<'s> {
    store: &'s mut dyn Store,
    now_us: i64,
    maintained: bool,
}

impl Clerk<'_> {
    fn work(&mut self, job: Job<'_>, told: &Sender<Outcome>) {
        match job {
            Job::Write(mut frozen) => {
                let outcome = self.write(&mut frozen);
                drop(told.send(outcome));
            }
            Job::Try(mut frozen, told) => {
                let outcome = self.write(&mut frozen).map_err(|error| (error, frozen));
                drop(told.send(outcome));
            }
            Job::Call(call) => call(self.store),
        }
    }

    fn write(&mut self, frozen: &mut Frozen) -> Outcome {
        let claims = frozen.claims().to_vec();
        loop {
            match self.store.apply_all(&claims, frozen) {
                Ok(Applied::Now { expired }) => return Ok(expired),
                // Another import of the same data was faster.
                Ok(Applied::Before) => return Ok(0),
                // Old slots of a retention with an age are not kept, and need no partitions.
                Err(StoreError::TooManyPartitions { .. }) if !self.maintained => {
                    self.maintained = true;
                    self.store.maintain(self.now_us)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<'s> Desk<'s> {
    /// Asks the store, and waits for its answer.
    pub(crate) fn call<T: Send + 's>(
        &mut self,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 's,
    ) -> Result<T, StoreError> {
        let (told, answer) = channel();
        let job = Job::Call(Box::new(move |store| drop(told.send(ask(store)))));
        self.ask(job);
        answer.recv().unwrap_or_else(|_| gone())
    }

    /// Writes a batch, and waits for it; gives it back if it was not written.
    pub(crate) fn apply(&mut self, frozen: Frozen) -> Result<u64, (StoreError, Box<Frozen>)> {
        let (told, answer) = channel();
        self.ask(Job::Try(Box::new(frozen), told));
        answer.recv().unwrap_or_else(|_| gone())
    }

    /// Has a batch written, once the one before it is written.
    pub(crate) fn send(&mut self, frozen: Frozen) -> Outcome {
        let outcome = self.settle()?;
        self.ask(Job::Write(Box::new(frozen)));
        self.busy = true;
        Ok(outcome)
    }

    /// Waits until nothing is being written.
    pub(crate) fn settle(&mut self) -> Outcome {
        if !std::mem::take(&mut self.busy) {
            return Ok(0);
        }
        self.outcomes.recv().unwrap_or_else(|_| gone())
    }

    /// What became of the batch that was being written, if that is known.
    pub(crate) fn poll(&mut self) -> Outcome {
        match self.outcomes.try_recv() {
            Ok(outcome) => {
                self.busy = false;
                outcome
            }
            Err(TryRecvError::Empty) => Ok(0),
            Err(TryRecvError::Disconnected) => gone(),
        }
    }

    /// Whether nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy
    }

    fn ask(&self, job: Job<'s>) {
        // A thread that is gone has panicked; waiting for its answer says so.
        drop(self.jobs.send(job));
    }
}

/// The writing thread never ends before the work does, unless it panicked: then so does this one.
fn gone() -> ! {
    panic!("the thread that writes to the store has ended")
}
