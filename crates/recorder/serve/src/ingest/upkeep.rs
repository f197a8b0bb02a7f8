//! When expiry and packing are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for a part of the upkeep: batches wait for no longer than this and one span.
pub(super) const PART: Duration = Duration::from_millis(250);

/// Time between two rounds, and between two parts of one.
const ROUND_EACH: Duration = Duration::from_secs(60);
const PART_EACH: Duration = Duration::from_secs(1);

/// Times are those since the start of the daemon.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// When the last part began.
    begun: Option<Duration>,
    last: Arc<Last>,
}

/// What is known of the last part.
#[derive(Debug, Default)]
struct Last {
    is_running: AtomicBool,
    is_partial: AtomicBool,
}

/// The end of a part.
#[derive(Debug)]
pub(super) struct Ended(Arc<Last>);

impl Ended {
    /// Notes that it has ended, and whether there is more to do.
    pub(super) fn set(&self, is_partial: bool) {
        self.0.is_partial.store(is_partial, Ordering::Relaxed);
        self.0.is_running.store(false, Ordering::Release);
    }
}

impl Upkeep {
    /// Whether a part of the upkeep is to begin now.
    pub(super) fn is_due(&mut self, passed: Duration) -> bool {
        if self.last.is_running.load(Ordering::Acquire) {
            return false;
        }
        let each = match self.last.is_partial.load(Ordering::Relaxed) {
            true => PART_EACH,
            false => ROUND_EACH,
        };
        if self.begun.is_some_and(|begun| passed < begun + each) {
            return false;
        }
        self.begun = Some(passed);
        true
    }

    /// Begins a part; the result is to be told when it has ended.
    pub(super) fn begin(&self) -> Ended {
        self.last.is_running.store(true, Ordering::Relaxed);
        Ended(self.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_due_each_minute_and_the_parts_of_one_each_second() {
        let mut upkeep = Upkeep::default();
        let due = |upkeep: &mut Upkeep, seconds| upkeep.is_due(Duration::from_secs(seconds));
        assert!(due(&mut upkeep, 0));
        let part = upkeep.begin();
        assert!(!due(&mut upkeep, 100), "one runs");
        part.set(true);
        assert!(due(&mut upkeep, 101), "the next part");
        let part = upkeep.begin();
        part.set(true);
        assert!(due(&mut upkeep, 102));
        upkeep.begin().set(false);
        assert!(!due(&mut upkeep, 161));
        assert!(due(&mut upkeep, 162), "the next round");
    }
}
