//! Counts that can be read during a slice.

use std::sync::atomic::{AtomicU64, Ordering};

/// A session's counts so far, including probes; for progress display, not for results.
#[derive(Debug, Default)]
pub struct Live {
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Live {
    /// Completed and failed requests.
    pub fn counts(&self) -> (u64, u64) {
        (self.completed.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Replaces one thread's counts.
    pub(crate) fn add(&self, before: (u64, u64), now: (u64, u64)) {
        self.completed.fetch_add(now.0 - before.0, Ordering::Relaxed);
        if now.1 > before.1 {
            self.failed.fetch_add(now.1 - before.1, Ordering::Relaxed);
        }
    }
}
