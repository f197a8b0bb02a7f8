//! The requests of a slice that are still to be sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use crate::pacer::Pacer;

/// Limit on due requests waiting for a free connection, per thread. Further arrivals are dropped:
/// the load is then far beyond the server's capacity.
pub(crate) const QUEUE_MAX: usize = 1 << 20;

/// A closed loop's number of requests, shared by the threads.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(requests: Option<u64>) -> Budget {
        Budget(AtomicU64::new(requests.unwrap_or(u64::MAX)))
    }

    /// Takes one request; false if none is left.
    pub(crate) fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    /// Whether all requests have been taken.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// An open loop's arrivals on one thread: future and due ones.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    pacer: Pacer,
    /// Number of future arrivals.
    left: u64,
    queue: VecDeque<Nanos>,
}

impl ArrivalQueue {
    /// Arrivals from `pacer`, at most `limit` of them.
    pub(crate) fn new(pacer: Pacer, limit: Option<u64>) -> ArrivalQueue {
        ArrivalQueue { pacer, left: limit.unwrap_or(u64::MAX), queue: VecDeque::new() }
    }

    /// Queues everything due before `until` (an offset from the start of the slice); returns how
    /// many arrived and how many of them found the queue full.
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

    /// Arrivals waiting for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Waiting arrivals that were due at `since` or later.
    pub(crate) fn waiting_since(&self, since: Nanos) -> usize {
        self.queue.len() - self.queue.partition_point(|due| *due < since)
    }

    /// The due instant of the request that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Nanos> {
        self.queue.pop_front()
    }

    /// When the next request arrives, if any.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        (self.left > 0).then(|| self.pacer.peek())
    }

    /// Whether nothing is waiting and nothing will arrive.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0 && self.queue.is_empty()
    }

    /// Nothing more arrives. What is due can still be taken.
    pub(crate) fn end(&mut self) {
        self.left = 0;
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

    fn arriving(limit: Option<u64>) -> ArrivalQueue {
        ArrivalQueue::new(Pacer::new(Arrivals::Uniform, 1000.0, 0, 1, Seed(0)), limit)
    }

    #[test]
    fn arrivals_wait_with_their_due_instant() {
        let mut arriving = arriving(Some(5));
        assert_eq!(arriving.pull(Nanos::from_micros(2_500)), (3, 0));
        assert_eq!(arriving.pop(), Some(Nanos::ZERO));
        assert_eq!(arriving.pop(), Some(Nanos::from_millis(1)));
        assert_eq!(arriving.next_due(), Some(Nanos::from_millis(3)));
        assert_eq!(arriving.pull(Nanos::from_secs(9)), (2, 0));
        assert_eq!(arriving.next_due(), None);
        assert!(!arriving.is_spent());
        arriving.end();
        assert!(!arriving.is_spent(), "three are waiting");
        assert_eq!([(); 3].map(|()| arriving.pop()).map(|due| due.is_some()), [true; 3]);
        assert!(arriving.is_spent());
    }

    #[test]
    fn beyond_the_queue_arrivals_are_dropped_and_still_counted() {
        let mut arriving = arriving(None);
        let n = QUEUE_MAX as u64 + 10;
        assert_eq!(arriving.pull(Nanos::from_millis(n)), (n, 10));
        assert_eq!(arriving.waiting(), QUEUE_MAX);
    }
}
