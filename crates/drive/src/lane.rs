//! Client threads that live as long as their session.
//!
//! An engine belongs to the thread that made it (io_uring insists on it), and
//! its connections stay open between slices, so the thread stays as well. It
//! is told what to do over a channel, and sleeps meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use netio::{Engine, Failure};

use crate::answer::Answer;
use crate::worker::{Orders, Share, Worker};

/// What a thread can be asked to do.
enum Job {
    OpenFirst(Arc<Orders>),
    Run { orders: Arc<Orders>, active: usize, keep: bool },
    Close(Arc<Orders>),
}

/// What it answers.
enum Reply {
    Made(io::Result<()>),
    Opened(io::Result<Result<(), Failure>>),
    Ran(Box<io::Result<Share>>),
    Closed(u64),
}

/// One client thread and its connections.
pub(crate) struct Lane {
    jobs: Option<Sender<Job>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
    connections: usize,
}

impl Lane {
    /// Starts a thread with an engine of its own, and one connection for each answer reader.
    pub(crate) fn start<E, M>(make: M, answers: Vec<Answer>, lane: u32) -> io::Result<Lane>
    where
        E: Engine,
        M: FnOnce() -> io::Result<E> + Send + 'static,
    {
        let connections = answers.len();
        let (jobs, work) = channel();
        let (results, replies) = channel();
        let thread =
            std::thread::Builder::new().name(format!("client {lane}")).spawn(move || {
                match make() {
                    Ok(engine) => {
                        let worker = Worker::new(engine, answers, lane);
                        serve(worker, &work, &results);
                    }
                    // Nobody is left to be told if this cannot be sent.
                    Err(error) => drop(results.send(Reply::Made(Err(error)))),
                }
            })?;
        let mut lane = Lane { jobs: Some(jobs), replies, thread: Some(thread), connections };
        match lane.reply() {
            Reply::Made(outcome) => outcome.map(|()| lane),
            _ => Err(out_of_step()),
        }
    }

    /// Connections that this thread has.
    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// Opens the first connection, without sending anything.
    pub(crate) fn open_first(&mut self, orders: Arc<Orders>) -> io::Result<Result<(), Failure>> {
        self.tell(Job::OpenFirst(orders));
        match self.reply() {
            Reply::Opened(outcome) => outcome,
            _ => Err(out_of_step()),
        }
    }

    /// Begins one slice on the first `active` connections; [`Lane::ran`] waits for its end.
    pub(crate) fn run(&mut self, orders: Arc<Orders>, active: usize, keep: bool) {
        self.tell(Job::Run { orders, active, keep });
    }

    /// Waits for the slice that was begun.
    pub(crate) fn ran(&mut self) -> io::Result<Share> {
        match self.reply() {
            Reply::Ran(outcome) => *outcome,
            _ => Err(out_of_step()),
        }
    }

    /// Closes every connection; the number of those on which bytes had come after their last answer.
    pub(crate) fn close(&mut self, orders: Arc<Orders>) -> u64 {
        self.tell(Job::Close(orders));
        match self.reply() {
            Reply::Closed(tainted) => tainted,
            _ => 0,
        }
    }

    fn tell(&mut self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended is noticed when its reply is waited for.
            let _ = jobs.send(job);
        }
    }

    /// The thread's next reply. A thread that panicked takes its session with it.
    fn reply(&mut self) -> Reply {
        match self.replies.recv() {
            Ok(reply) => reply,
            Err(_) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => Reply::Made(Err(out_of_step())),
            },
        }
    }
}

impl Drop for Lane {
    /// Waits for the thread, so that its sockets are closed afterwards.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic was passed on with the reply that it left out.
            let _ = thread.join();
        }
    }
}

/// Does one job after another until nobody can give any.
fn serve<E: Engine>(mut worker: Worker<E>, jobs: &Receiver<Job>, replies: &Sender<Reply>) {
    let mut last = replies.send(Reply::Made(Ok(())));
    while last.is_ok()
        && let Ok(job) = jobs.recv()
    {
        last = replies.send(match job {
            Job::OpenFirst(orders) => Reply::Opened(worker.open_first(&orders)),
            Job::Run { orders, active, keep } => {
                Reply::Ran(Box::new(worker.run(&orders, active, keep)))
            }
            Job::Close(orders) => Reply::Closed(worker.close(&orders)),
        });
    }
}

fn out_of_step() -> io::Error {
    io::Error::other("a client thread ended before its work did")
}
