//! The thread that writes to the store.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use engine::Reply;
use store::Store;

/// What the thread is to do, and what it replies.
pub(super) type Job = Box<dyn FnOnce(&mut dyn Store) -> Option<Reply> + Send>;

/// Where a thread that uses the store replies to. `None` says that it has panicked.
pub(super) struct Ends(pub(super) Sender<Option<Reply>>);

impl Ends {
    pub(super) fn reply(&self, reply: Reply) {
        // Without a receiver there are no more questions either.
        let _ = self.0.send(Some(reply));
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(None);
        }
    }
}

/// Starts the thread, which ends when the returned sender is dropped.
pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut store: Box<dyn Store>,
    replies: Sender<Option<Reply>>,
) -> Sender<Job> {
    let (jobs, asked): (_, Receiver<Job>) = channel();
    scope.spawn(move || {
        let ends = Ends(replies);
        for job in asked {
            if let Some(reply) = job(&mut *store) {
                ends.reply(reply);
            }
        }
    });
    jobs
}
