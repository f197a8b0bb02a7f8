//! When expiry and packing are due.
//!
//! Expiry destroys data, and believes the clock. A clock that jumps ahead, for example because a
//! virtual machine was restored, would expire everything; so after a jump nothing expires for an
//! hour, in which it can be set right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for a part of the upkeep: batches wait for no longer than this and one span.
pub(super) const PART: Duration = Duration::from_millis(250);

/// Time between two rounds, and between two parts of one.
const ROUND_EACH: Duration = Duration::from_secs(60);
const PART_EACH: Duration = Duration::from_secs(1);

/// How far the clock may get ahead of the time that has passed.
const JUMP_US: i64 = 3_600 * series::SECOND_US;

/// How long a clock that jumped ahead is not believed.
const DISTRUST: Duration = Duration::from_secs(3_600);

/// Times are those since the start of the daemon, and of the clock in microseconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// When the clock was last looked at, and what it showed.
    seen: Option<(Duration, i64)>,
    distrusted_until: Duration,
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
    /// The time for which a part of the upkeep is to begin now, if it is due.
    pub(super) fn due(&mut self, passed: Duration, clock_us: i64) -> Option<i64> {
        if self.last.is_running.load(Ordering::Acquire) {
            return None;
        }
        let each = match self.last.is_partial.load(Ordering::Relaxed) {
            true => PART_EACH,
            false => ROUND_EACH,
        };
        if self.begun.is_some_and(|begun| passed < begun + each) {
            return None;
        }
        self.begun = Some(passed);
        if let Some((then, shown_us)) = self.seen.replace((passed, clock_us)) {
            let since = passed.saturating_sub(then).as_micros();
            let since_us = i64::try_from(since).unwrap_or(i64::MAX);
            let ahead_us = clock_us.saturating_sub(shown_us.saturating_add(since_us));
            if ahead_us > JUMP_US {
                self.distrusted_until = passed + DISTRUST;
            } else if ahead_us < -JUMP_US {
                // It was set right.
                self.distrusted_until = Duration::ZERO;
            }
        }
        (passed >= self.distrusted_until).then_some(clock_us)
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

    const START_US: i64 = 1_767_225_600 * series::SECOND_US;

    fn us(passed: Duration) -> i64 {
        passed.as_micros() as i64
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn a_round_is_due_each_minute_and_the_parts_of_one_each_second() {
        let mut upkeep = Upkeep::default();
        let due = |upkeep: &mut Upkeep, seconds: u64| {
            let passed = Duration::from_secs(seconds);
            upkeep.due(passed, START_US + us(passed)).is_some()
        };
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

    #[test]
    fn a_clock_that_jumps_ahead_expires_nothing_for_an_hour() {
        let mut upkeep = Upkeep::default();
        let mut at = |minute: u64, clock_us: i64| upkeep.due(minutes(minute), clock_us);
        let right = |minute: u64| START_US + us(minutes(minute));
        let ten_years_us = 10 * 365 * 86_400 * series::SECOND_US;
        assert_eq!(at(0, right(0)), Some(right(0)));
        assert_eq!(at(1, right(1)), Some(right(1)));
        for minute in 2..62 {
            assert_eq!(at(minute, right(minute) + ten_years_us), None, "{minute}");
        }
        let still = right(62) + ten_years_us;
        assert_eq!(at(62, still), Some(still), "after an hour it is believed");
    }

    #[test]
    fn a_clock_that_is_set_right_is_believed_at_once() {
        let mut upkeep = Upkeep::default();
        let mut at = |minute: u64, clock_us: i64| upkeep.due(minutes(minute), clock_us);
        let right = |minute: u64| START_US + us(minutes(minute));
        let day_us = 86_400 * series::SECOND_US;
        assert_eq!(at(0, right(0)), Some(right(0)));
        assert_eq!(at(1, right(1) + day_us), None);
        assert_eq!(at(2, right(2)), Some(right(2)));
        // Backwards expires nothing, because what has expired stays expired.
        assert_eq!(at(3, right(3) - day_us), Some(right(3) - day_us));
        assert_eq!(at(4, right(4)), None);
        // Half an hour, such as a suspended laptop, is no jump.
        let mut upkeep = Upkeep::default();
        assert!(upkeep.due(minutes(0), right(0)).is_some());
        assert!(upkeep.due(minutes(1), right(31)).is_some());
    }
}
