//! Which requests are still to be sent in a slice, and when.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use crate::pacer::Pacer;

/// Due requests that may wait for a free connection, per thread. Beyond it an
/// arrival is dropped: by then the load is far beyond what the server carries.
pub(crate) const QUEUE_MAX: usize = 1 << 20;

/// A closed loop's requests, shared between threads.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(requests: Option<u64>) -> Budget {
        Budget(AtomicU64::new(requests.unwrap_or(u64::MAX)))
    }

    /// Takes one request; false when there is none left.
    pub(crate) fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    /// Whether every request has been taken.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// An open loop's arrivals on one thread: those to come and those that are due.
#[derive(Debug)]
pub(crate) struct Arriving {
    pacer: Pacer,
    /// Arrivals still to come.
    left: u64,
    queue: VecDeque<Nanos>,
}

impl Arriving {
    /// Arrivals from `pacer`, at most `limit` of them.
    pub(crate) fn new(pacer: Pacer, limit: Option<u64>) -> Arriving {
        Arriving { pacer, left: limit.unwrap_or(u64::MAX), queue: VecDeque::new() }
    }

    /// Queues everything that was due before `until` (offsets from the slice's
    /// beginning); returns how many arrived and how many found the queue full.
    pub(crate) fn pull(&mut self, until: Nanos) -> (u64, u64) {
        let (mut arrived, mut dropped) = (0, 0);
        while self.left > 0 && self.pacer.peek() < until {
            let due = self.pacer.peek();
            self.pacer.next();
            self.left -= 1;
            arrived += 1;
            if self.queue.len() < QUEUE_MAX {
                self.queue.push_back(due);
            } else {
                dropped += 1;
            }
        }
        (arrived, dropped)
    }

    /// Arrivals that wait for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Of the arrivals that wait, how many were due at `since` or later.
    pub(crate) fn waiting_since(&self, since: Nanos) -> usize {
        self.queue.len() - self.queue.partition_point(|due| *due < since)
    }

    /// The intended instant of the request that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Nanos> {
        self.queue.pop_front()
    }

    /// When the next request arrives, unless none is to come.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        (self.left > 0).then(|| self.pacer.peek())
    }

    /// Nothing waits and nothing will come.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0 && self.queue.is_empty()
    }

    /// Nothing more will be sent: forgets what waits, and says how many that were.
    pub(crate) fn abandon(&mut self) -> u64 {
        let waiting = self.queue.len() as u64;
        self.queue.clear();
        self.left = 0;
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;
    use spec::Arrivals;

    #[test]
    fn a_budget_is_spent_exactly() {
        let budget = Budget::new(Some(3));
        assert!(!budget.is_spent());
        assert_eq!([(); 5].map(|()| budget.take()), [true, true, true, false, false]);
        assert!(budget.is_spent());
        assert!(Budget::new(None).take());
    }

    fn arriving(limit: Option<u64>) -> Arriving {
        Arriving::new(Pacer::new(Arrivals::Uniform, 1000.0, 0, 1, Seed(0)), limit)
    }

    #[test]
    fn arrivals_wait_with_their_intended_instant() {
        let mut arriving = arriving(Some(5));
        assert_eq!(arriving.pull(Nanos::from_micros(2_500)), (3, 0));
        assert_eq!(arriving.pop(), Some(Nanos::ZERO));
        assert_eq!(arriving.pop(), Some(Nanos::from_millis(1)));
        assert_eq!(arriving.next_due(), Some(Nanos::from_millis(3)));
        assert_eq!(arriving.pull(Nanos::from_secs(9)), (2, 0));
        assert_eq!(arriving.next_due(), None);
        assert!(!arriving.is_spent());
        assert_eq!(arriving.abandon(), 3);
        assert!(arriving.is_spent());
    }

    #[test]
    fn beyond_the_queue_arrivals_are_dropped_and_still_counted() {
        let mut arriving = arriving(None);
        let n = QUEUE_MAX as u64 + 10;
        assert_eq!(arriving.pull(Nanos::from_millis(n)), (n, 10));
        assert_eq!(arriving.abandon(), QUEUE_MAX as u64);
    }
}
