//! HTTP requests in progress.
//!
//! While a successor takes over, no connection is accepted. So those that take long are waited for
//! before, while all others are answered as ever.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long connections may wait for requests in progress.
const LONG: Duration = Duration::from_millis(50);

/// How often to look whether requests have ended.
const LOOKED_EACH: Duration = Duration::from_millis(5);

/// The requests in progress. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress(Arc<Mutex<BegunRequests>>);

/// Their numbers, in the order in which they began.
#[derive(Debug, Default)]
struct BegunRequests {
    numbers: BTreeSet<u64>,
    next: u64,
}

/// A request, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress {
    all: InProgress,
    number: u64,
}

impl InProgress {
    /// A request begins.
    pub(crate) fn begin(&self) -> RequestInProgress {
        let mut begun = self.lock();
        let number = begun.next;
        begun.next += 1;
        begun.numbers.insert(number);
        RequestInProgress { all: self.clone(), number }
    }

    /// Waits until all that have begun have ended; again, if that took so long that those which have
    /// begun meanwhile may take long too.
    pub(crate) async fn none_takes_long(&self) {
        loop {
            let (since, next) = (Instant::now(), self.lock().next);
            while self.lock().numbers.first().is_some_and(|oldest| *oldest < next) {
                tokio::time::sleep(LOOKED_EACH).await;
            }
            if since.elapsed() < LONG {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BegunRequests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.all.lock().numbers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets others do what they can by now.
    async fn after(time: Duration) {
        tokio::time::sleep(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_have_begun_are_waited_for_and_new_ones_only_if_that_takes_long() {
        let requests = InProgress::default();
        requests.none_takes_long().await;
        let wait = || {
            let requests = requests.clone();
            tokio::spawn(async move { requests.none_takes_long().await })
        };
        let (quick, waiting) = (requests.begin(), wait());
        after(LOOKED_EACH).await;
        let new = requests.begin();
        drop(quick);
        waiting.await.unwrap();
        let waiting = wait();
        after(2 * LONG).await;
        let newer = requests.begin();
        drop(new);
        after(2 * LONG).await;
        assert!(!waiting.is_finished(), "the newer one may take long");
        drop(newer);
        waiting.await.unwrap();
    }
}
