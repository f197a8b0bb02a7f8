//! What the threads and the listeners know of each other.

use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{ArrivalTimes, Clock, Moment};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::Notify;

use crate::in_progress::InProgress;

/// How long the journal's disk may take for something until that is trouble, in microseconds.
const DISK_MAX_US: i64 = 10 * series::SECOND_US;

/// What the threads and the listeners know of each other.
#[derive(Debug)]
pub(crate) struct State {
    /// Size of the journal's files.
    pub(crate) journal_bytes: AtomicU64,
    /// When the oldest line arrived that no store has, in microseconds since the epoch; 0 if there
    /// is none.
    pub(crate) oldest_us: AtomicI64,
    /// Approximate memory of updates that wait to be written.
    pub(crate) head_bytes: AtomicU64,
    /// Whether the store takes no more for now.
    pub(crate) full: AtomicBool,
    /// Whether a batch is to be written now, and then none any more, because a successor takes
    /// over.
    pub(crate) last_batch: AtomicBool,
    /// Whether that batch is written.
    pub(crate) is_flushed: AtomicBool,
    /// The last error of the store, until it accepts a batch.
    store_error: Mutex<Option<String>>,
    /// The last error of the journal, until it accepts a message.
    journal_error: Mutex<Option<String>>,
    /// Positions of the journal that are missing, until a person has been told.
    missing: Mutex<Vec<RangeInclusive<u64>>>,
    /// Since when the journal's disk has been at work, as [`Moment::passed_us`]; 0 if it is not.
    busy_us: AtomicI64,
    /// Which time it is.
    clock: Mutex<Clock>,
    /// Told when a thread has ended.
    pub(crate) ended: Notify,
    /// HTTP requests that are being answered.
    pub(crate) requests: InProgress,
}

impl Default for State {
    fn default() -> State {
        State {
            journal_bytes: AtomicU64::default(),
            oldest_us: AtomicI64::default(),
            head_bytes: AtomicU64::default(),
            full: AtomicBool::default(),
            last_batch: AtomicBool::default(),
            is_flushed: AtomicBool::default(),
            store_error: Mutex::default(),
            journal_error: Mutex::default(),
            missing: Mutex::default(),
            busy_us: AtomicI64::default(),
            clock: Mutex::new(Clock::new(moment())),
            ended: Notify::default(),
            requests: InProgress::default(),
        }
    }
}

impl State {
    /// The arrival of something now.
    pub(crate) fn arrived(&self) -> ArrivalTimes {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).arrived(moment())
    }

    /// The time that is believed now, in microseconds since the epoch.
    pub(crate) fn now_us(&self) -> i64 {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).now_us(moment())
    }

    /// The time at which it is to be judged what has expired; `None` while that is unknown.
    pub(super) fn expiry_us(&self) -> Option<i64> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).expiry_us(moment())
    }

    /// The time before which requests are forgotten that are to be remembered for so long; `None`
    /// while that is unknown.
    pub(super) fn forget_us(&self, remember: Duration) -> Option<i64> {
        let remember_us = i64::try_from(remember.as_micros()).unwrap_or(i64::MAX);
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.forget_us(moment(), remember_us)
    }

    /// A sender says which time it is, in microseconds since the epoch.
    pub(super) fn hear(&self, said_us: i64) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).hear(moment(), said_us);
    }

    /// How far the clock is ahead of the time by which slots expire.
    pub(crate) fn clock_ahead(&self) -> Duration {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_micros(clock.ahead_us(moment()) as u64)
    }

    /// Compares the clock with the latest time that expiry has believed in the record.
    pub(super) fn compare_clock(&self, expired_us: &RangeInclusive<i64>) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).compare(moment(), expired_us);
    }

    /// Why the store does not accept batches at the moment, if so.
    pub(crate) fn store_error(&self) -> Option<String> {
        self.store_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_store_error(&self, error: Option<String>) {
        *self.store_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The positions of the journal that are missing, once.
    pub(crate) fn take_missing(&self) -> Vec<RangeInclusive<u64>> {
        std::mem::take(&mut *self.missing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_missing(&self, missing: Vec<RangeInclusive<u64>>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
    }

    pub(super) fn set_journal_error(&self, error: Option<String>) {
        *self.journal_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    pub(super) fn has_journal_error(&self) -> bool {
        self.journal_error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Why messages are not written to the journal or to the store at the moment, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let journal = || self.journal_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let silence = self.silence_of_disk(moment().passed_us);
        silence.or_else(journal).or_else(|| self.store_error())
    }

    /// What a person is told of a disk that neither answers nor fails.
    fn silence_of_disk(&self, passed_us: i64) -> Option<String> {
        let busy_us = self.busy_us.load(Ordering::Relaxed);
        let silent_us = passed_us - busy_us;
        (busy_us != 0 && silent_us >= DISK_MAX_US).then(|| {
            let silent_s = silent_us / series::SECOND_US;
            format!("the disk of the journal has not answered for {silent_s} s")
        })
    }

    /// Locks the journal, or what is tested in its place. Until that is dropped, its disk is at work.
    pub(super) fn hold<'j, T>(&'j self, journal: &'j Mutex<T>) -> HeldJournal<'j, T> {
        let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        self.busy_us.store(moment().passed_us, Ordering::Relaxed);
        HeldJournal { journal, busy_us: &self.busy_us }
    }

    /// Age of the oldest line that no store has.
    pub(crate) fn oldest_age(&self) -> Duration {
        match self.oldest_us.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            oldest_us => {
                Duration::from_micros(self.now_us().saturating_sub(oldest_us).max(0) as u64)
            }
        }
    }
}

/// A journal whose disk is at work.
pub(super) struct HeldJournal<'j, T> {
    journal: MutexGuard<'j, T>,
    busy_us: &'j AtomicI64,
}

impl<T> Deref for HeldJournal<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.journal
    }
}

impl<T> DerefMut for HeldJournal<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.journal
    }
}

impl<T> Drop for HeldJournal<'_, T> {
    fn drop(&mut self) {
        // The lock ends after this.
        self.busy_us.store(0, Ordering::Relaxed);
    }
}

/// Tells the daemon that a thread has ended, also if it has panicked.
pub(super) struct Ends(pub(super) Arc<State>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.notify_one();
    }
}

/// A reading of the clocks.
fn moment() -> Moment {
    let us = |clock: ClockId| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
        tv_sec.saturating_mul(series::SECOND_US).saturating_add(tv_nsec / 1_000)
    };
    // It goes on while the machine is suspended.
    Moment { passed_us: us(ClockId::Boottime), shown_us: us(ClockId::Realtime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_neither_answers_nor_fails_is_told() {
        let (state, journal) = (State::default(), Mutex::new(()));
        let held = state.hold(&journal);
        let since_us = state.busy_us.load(Ordering::Relaxed);
        let after = |seconds| state.silence_of_disk(since_us + seconds * series::SECOND_US);
        assert_eq!(after(9), None);
        let told = "the disk of the journal has not answered for 12 s";
        assert_eq!(after(12).as_deref(), Some(told));
        drop(held);
        assert_eq!(after(12), None);
    }
}
