//! Counts that can be read during a slice.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::Counts;

/// A session's counts so far, including probes; for progress display, not for results.
#[derive(Debug, Default)]
pub struct LiveCounts {
    completed: AtomicU64,
    failed: AtomicU64,
}

impl LiveCounts {
    /// Completed and failed requests.
    pub fn counts(&self) -> (u64, u64) {
        (self.completed.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Replaces one thread's counts.
    pub(crate) fn add(&self, before: &Counts, now: &Counts) {
        self.completed.fetch_add(now.completed - before.completed, Ordering::Relaxed);
        if now.failed > before.failed {
            self.failed.fetch_add(now.failed - before.failed, Ordering::Relaxed);
        }
    }
}
