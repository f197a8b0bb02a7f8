//! The thread that writes to the store.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use engine::Reply;
use store::Store;

use crate::ServeError;

/// How long the last job may take once nothing is wanted any more: a part of the upkeep, or a batch
/// before a successor takes over.
const LAST_JOB: Duration = Duration::from_secs(10);

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

/// Does `work` with a thread, and waits until it has closed the store; but not for a store that does
/// not answer, because the daemon could not end then. Such a batch is written, or it is not; the
/// journal has it, and the next session fences it off.
///
/// # Errors
/// Those of `work`, and of the system if there can be no thread.
pub(super) fn with(
    mut store: Box<dyn Store>,
    replies: Sender<Option<Reply>>,
    work: impl FnOnce(Sender<Job>) -> Result<(), ServeError>,
) -> Result<(), ServeError> {
    let (jobs, asked): (_, Receiver<Job>) = channel();
    let (closed, is_closed) = channel::<Infallible>();
    let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
        let _closed = closed;
        let ends = Ends(replies);
        for job in asked {
            if let Some(reply) = job(&mut *store) {
                ends.reply(reply);
            }
        }
        drop(store);
    });
    thread.map_err(ServeError::System)?;
    work(jobs)?;
    // Nothing is ever sent: it ends with the thread, or with the time.
    let _ = is_closed.recv_timeout(LAST_JOB);
    Ok(())
}

#[cfg(test)]
mod tests {
    use store::Memory;

    use super::*;

    #[test]
    fn a_store_that_does_not_answer_keeps_no_daemon_that_gives_up() {
        let (replies, _told) = channel();
        let (begun, has_begun) = channel();
        let (answer, never) = channel::<()>();
        let ended = with(Box::new(Memory::new()), replies, |jobs| {
            let hangs = move |_: &mut dyn Store| {
                begun.send(()).unwrap();
                // Until the sender is gone, which is after the end of this.
                let _ = never.recv();
                None
            };
            jobs.send(Box::new(hangs)).unwrap();
            has_begun.recv().unwrap();
            Err(ServeError::Panicked)
        });
        assert!(matches!(ended, Err(ServeError::Panicked)), "{ended:?}");
        drop(answer);
    }
}
