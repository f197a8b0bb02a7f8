//! Client threads that live as long as their session.
//!
//! An engine belongs to the thread that created it (io_uring requires this), and its connections
//! stay open between slices, so the thread stays too. It receives jobs over a channel and sleeps in
//! between.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use netio::{Engine, Failure};

use crate::deck::Deck;
use crate::lines::LineWriter;
use crate::response::ResponseEnd;
use crate::worker::{Orders, ThreadResult, Worker};

/// A job for a client thread.
enum Job {
    OpenFirst(Arc<Orders>),
    Run { orders: Arc<Orders>, active: usize, keep_max: Option<usize> },
    Close(Arc<Orders>),
}

/// The result of a job.
enum Reply {
    Started(io::Result<()>),
    Opened(io::Result<Result<(), Failure>>),
    Ran(Box<io::Result<ThreadResult>>),
    Closed(Vec<u32>),
}

/// A client thread with its connections.
pub(crate) struct ClientThread {
    jobs: Option<Sender<Job>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
    connections: usize,
}

impl ClientThread {
    /// Starts a thread with its own engine and one slot per response reader. `connections` slots
    /// are used from the start of every slice. It sends the requests of its deck or, with `lines`,
    /// their messages.
    pub(crate) fn start<E, M>(
        make: M,
        answers: Vec<ResponseEnd>,
        connections: usize,
        index: u32,
        deck: Deck,
        lines: Option<LineWriter>,
    ) -> io::Result<ClientThread>
    where
        E: Engine,
        M: FnOnce() -> io::Result<E> + Send + 'static,
    {
        let (jobs, work) = channel();
        let (results, replies) = channel();
        let thread =
            std::thread::Builder::new().name(format!("client {index}")).spawn(move || {
                match make() {
                    Ok(engine) => {
                        let worker = Worker::new(engine, answers, index);
                        let worker = worker.with_deck(deck).with_lines(lines);
                        serve(worker, work, &results);
                    }
                    // A failed send only means that the session has been dropped.
                    Err(error) => drop(results.send(Reply::Started(Err(error)))),
                }
            })?;
        let mut index =
            ClientThread { jobs: Some(jobs), replies, thread: Some(thread), connections };
        match index.reply() {
            Reply::Started(outcome) => outcome.map(|()| index),
            _ => Err(out_of_step()),
        }
    }

    /// Connections with which this thread starts a slice.
    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// Opens the first connection without sending anything.
    pub(crate) fn open_first(&mut self, orders: Arc<Orders>) -> io::Result<Result<(), Failure>> {
        self.submit(Job::OpenFirst(orders));
        match self.reply() {
            Reply::Opened(outcome) => outcome,
            _ => Err(out_of_step()),
        }
    }

    /// Starts one slice on the first `active` connections; [`ClientThread::ran`] waits for its end.
    pub(crate) fn run(&mut self, orders: Arc<Orders>, active: usize, keep_max: Option<usize>) {
        if !self.submit(Job::Run { orders: orders.clone(), active, keep_max }) {
            // This thread will never reach the gate at which the others wait.
            orders.fail();
        }
    }

    /// Waits for the end of the slice.
    pub(crate) fn ran(&mut self) -> io::Result<ThreadResult> {
        match self.reply() {
            Reply::Ran(outcome) => *outcome,
            _ => Err(out_of_step()),
        }
    }

    /// Closes every connection; returns the kinds of the last requests on those that received bytes
    /// after their last response.
    pub(crate) fn close(&mut self, orders: Arc<Orders>) -> Vec<u32> {
        self.submit(Job::Close(orders));
        match self.reply() {
            Reply::Closed(tainted) => tainted,
            _ => Vec::new(),
        }
    }

    /// Passes on a job; false if the thread has ended, which the missing reply shows too.
    fn submit(&mut self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// The thread's next reply.
    fn reply(&mut self) -> Reply {
        self.replies.recv().unwrap_or_else(|_| Reply::Started(Err(out_of_step())))
    }
}

impl Drop for ClientThread {
    /// Waits for the thread, so that its sockets are closed afterwards.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported in a reply.
            let _ = thread.join();
        }
    }
}

/// Executes jobs until there are no more, or until a panic leaves the engine unusable.
fn serve<E: Engine>(mut worker: Worker<E>, jobs: Receiver<Job>, replies: &Sender<Reply>) {
    let mut last = replies.send(Reply::Started(Ok(())));
    while last.is_ok()
        && let Ok(job) = jobs.recv()
    {
        let (reply, goes_on) = match job {
            Job::OpenFirst(orders) => {
                let (outcome, goes_on) = guarded(|| worker.open_first(&orders));
                (Reply::Opened(outcome), goes_on)
            }
            Job::Run { orders, active, keep_max } => {
                let (outcome, goes_on) = guarded(|| worker.run(&orders, active, keep_max));
                if outcome.is_err() {
                    orders.fail();
                }
                (Reply::Ran(Box::new(outcome)), goes_on)
            }
            Job::Close(orders) => (Reply::Closed(worker.close(&orders)), true),
        };
        if !goes_on {
            // Close the queue before replying. A job queued after the reply would never run, and the
            // other threads would wait for it at the gate.
            drop(jobs);
            // A failed send only means that the session has been dropped.
            let _ = replies.send(reply);
            return;
        }
        last = replies.send(reply);
    }
}

/// Does a job; a panic becomes an error. The flag is false after a panic.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> (io::Result<T>, bool) {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => (outcome, true),
        Err(panic) => (Err(io::Error::other(panic_words(&*panic))), false),
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let what = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "no message",
    };
    format!("a client thread panicked ({what}); this is a bug in tachograph, please report it")
}

fn out_of_step() -> io::Error {
    io::Error::other("a client thread ended too early")
}
