//! Requests that their senders have named, so that a repetition counts once.
//!
//! The key of a request is written to the store in the transaction of its updates. Until then it is
//! in memory; after that the store is asked, by a thread of its own, because the one that writes may
//! be busy.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use store::{StoreError, Writer};

use crate::ServeError;

/// The keys of requests.
#[derive(Debug)]
pub(super) struct Keys {
    /// In the head.
    unwritten: HashSet<Writer>,
    /// In the batch that is being written.
    writing: HashSet<Writer>,
    asked: Sender<Writer>,
    answers: Receiver<(Writer, Result<bool, StoreError>)>,
}

impl Keys {
    /// Those that a store has. The thread ends with this.
    ///
    /// # Errors
    /// Those of the system, if there can be no thread.
    pub(super) fn of(place: &str) -> Result<Keys, ServeError> {
        let (asked, questions) = channel();
        let (reply, answers) = channel();
        let place = place.to_owned();
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut store = None;
            for key in questions {
                let known = match &mut store {
                    Some(store) => Ok(store),
                    None => store::open_read_only(&place).map(|opened| store.insert(opened)),
                };
                // Without a receiver there are no more questions either, and the loop ends.
                let _ = reply.send((key, known.and_then(|store| store.has_request(key))));
            }
        });
        thread.map_err(ServeError::System)?;
        Ok(Keys { unwritten: HashSet::new(), writing: HashSet::new(), asked, answers })
    }

    /// Whether a request is known; `None` if the store has not answered within `limit`.
    pub(super) fn has(&self, key: Writer, limit: Duration) -> Option<Result<bool, StoreError>> {
        if self.unwritten.contains(&key) || self.writing.contains(&key) {
            return Some(Ok(true));
        }
        // A thread that is gone has panicked, which waiting for its answer reveals.
        let _ = self.asked.send(key);
        loop {
            match self.answers.recv_timeout(limit) {
                Ok((of, answer)) if of == key => return Some(answer),
                // An answer that came too late.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the thread that asks for keys has ended")
                }
            }
        }
    }

    /// Adds a request whose updates are in the head.
    pub(super) fn add(&mut self, key: Writer) {
        self.unwritten.insert(key);
    }

    /// All requests so far are in the batch that is being written.
    pub(super) fn write(&mut self) {
        self.writing = std::mem::take(&mut self.unwritten);
    }

    /// The store has the batch.
    pub(super) fn written(&mut self) {
        self.writing = HashSet::new();
    }
}
