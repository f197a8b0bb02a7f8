//! The thread that writes to a store, and requests to it.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use engine::{Frozen, Stored};
use store::{Store, StoreError};

use crate::BackfillError;

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
            // Both ends live until the work is done or has failed; then nobody is waiting.
            for job in asked {
                work_on(store, now_us, job, &reply);
            }
        });
        work(StoreThread { jobs, outcomes, busy: false })
    })
}

/// Does a job on the thread.
fn work_on(store: &mut dyn Store, now_us: i64, job: Job<'_>, reply: &Sender<Written>) {
    let mut write = |mut frozen: Box<Frozen>| {
        let written = engine::write(store, &mut frozen, now_us, |store, claims, frozen| {
            store::apply_ahead(store, claims, frozen)
        });
        written.map_err(|error| (error, frozen))
    };
    match job {
        Job::Write(frozen) => drop(reply.send(write(frozen))),
        Job::Try(frozen, reply) => drop(reply.send(write(frozen))),
        Job::Call(call) => call(store),
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

    /// Waits until nothing is being written.
    pub(crate) fn settle(&mut self) -> Outcome {
        if !std::mem::take(&mut self.busy) {
            return Ok(Stored::default());
        }
        self.outcomes.recv().unwrap_or_else(|_| gone()).map_err(|(error, _)| error)
    }

    /// Result of the batch that was being written, if finished.
    pub(crate) fn poll(&mut self) -> Outcome {
        let written = match self.outcomes.try_recv() {
            Ok(written) => written,
            Err(TryRecvError::Empty) => return Ok(Stored::default()),
            Err(TryRecvError::Disconnected) => gone(),
        };
        self.busy = false;
        written.map_err(|(error, _)| error)
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
fn gone() -> ! {
    panic!("the thread that writes to the store has ended")
}
