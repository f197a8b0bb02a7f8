//! Time behind a trait, so that tests can control the clock.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::Nanos;

/// A monotonic clock.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an arbitrary origin; never decreases.
    fn now(&self) -> Nanos;
}

/// The kernel's `CLOCK_MONOTONIC`, the same for every process on the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        let t = clock_gettime(ClockId::Monotonic);
        Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }
}

/// A clock that moves only when advanced.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Nanos) {
        self.0.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The wall clock, for records and file names; never for measurements.
pub fn timestamp_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_never_go_back() {
        let clock = MonotonicClock;
        let first = clock.now();
        assert!(clock.now() >= first);
        let manual = ManualClock::default();
        manual.advance(Nanos(5));
        assert_eq!(manual.now(), Nanos(5));
    }
}
