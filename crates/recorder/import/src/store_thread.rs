//! The thread that writes to a store, and requests to it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use engine::Reply;
use store::{Store, StoreError};

use crate::BackfillError;

/// What the thread is to do, and what it replies.
type Job<'s> = Box<dyn FnOnce(&mut dyn Store) -> Option<Reply> + Send + 's>;

/// Sends jobs to the thread, which executes them in order.
pub(crate) struct StoreThread<'s> {
    jobs: Sender<Job<'s>>,
    pub(crate) replies: Receiver<Reply>,
}

/// Runs `work` while a separate thread writes to `store`; returns when both are done.
pub(crate) fn with<'s, T>(
    store: &'s mut dyn Store,
    work: impl FnOnce(StoreThread<'s>) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    thread::scope(|scope| {
        let (jobs, asked) = channel::<Job<'s>>();
        let (reply, replies) = channel();
        scope.spawn(move || {
            // Both ends live until the work is done or has failed; then nobody is waiting.
            asked.into_iter().filter_map(|job| job(store)).for_each(|done| drop(reply.send(done)));
        });
        work(StoreThread { jobs, replies })
    })
}

impl<'s> StoreThread<'s> {
    /// Gives the thread something to do.
    pub(crate) fn submit(&self, job: impl FnOnce(&mut dyn Store) -> Option<Reply> + Send + 's) {
        // A thread that is gone has panicked, which waiting for its reply reveals.
        drop(self.jobs.send(Box::new(job)));
    }

    /// Calls the store, and waits for the result.
    pub(crate) fn call<T: Send + 's>(
        &self,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 's,
    ) -> Result<T, StoreError> {
        let (reply, answer) = channel();
        self.submit(move |store| {
            drop(reply.send(ask(store)));
            None
        });
        answer.recv().unwrap_or_else(|_| gone())
    }

    /// The next reply; waits for it.
    pub(crate) fn wait(&self) -> Reply {
        self.replies.recv().unwrap_or_else(|_| gone())
    }
}

/// The writing thread ends before the work only if it panicked; then this one panics too.
fn gone() -> ! {
    panic!("the thread that writes to the store has ended")
}
