//! How much memory all queries together may take.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;

use crate::answer::Refusal;

/// Slots that a query may read beside others. One that reads more waits for its turn, which one
/// query has at a time.
pub(crate) const SLOTS_BESIDE_OTHERS: usize = 250_000;

/// Limit on the bytes of all answers that clients have not read yet. A longer one is sent alone.
const ANSWERS_MAX: usize = 64 << 20;

/// An answer of so many bytes needs no room.
const SHORT: usize = 64 << 10;

/// How long an answer may wait for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// The budget of all queries. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    large: Mutex<()>,
    /// Bytes of answers.
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    /// Waits for the turn of a large query; it ends when the guard is dropped.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.shared.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer that has its room until it is sent. Waits for it, so it must be called where the
    /// query still has its turn: otherwise answers would pile up.
    pub(crate) fn answer(&self, text: String) -> Result<Bytes, Refusal> {
        self.answer_within(text, PATIENCE)
    }

    fn answer_within(&self, text: String, limit: Duration) -> Result<Bytes, Refusal> {
        if text.len() <= SHORT {
            return Ok(text.into());
        }
        let room = text.len().min(ANSWERS_MAX);
        let taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken + room > ANSWERS_MAX;
        let waited = self.shared.freed.wait_timeout_while(taken, limit, is_full);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Refusal::Unavailable(
                "too many large answers at a time: try again later".to_owned(),
            ));
        }
        *taken += room;
        let shared = self.shared.clone();
        Ok(Bytes::from_owner(Roomed { text, room, shared }))
    }
}

/// An answer and its room.
struct Roomed {
    text: String,
    room: usize,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for Roomed {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Roomed {
    fn drop(&mut self) {
        *self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.room;
        self.shared.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_read_do_not_fill_the_memory() {
        let budget = Budget::default();
        let text = |bytes: usize| "x".repeat(bytes);
        let brief = Duration::from_millis(10);
        let half = budget.answer(text(ANSWERS_MAX / 2)).unwrap();
        let other = budget.answer(text(ANSWERS_MAX / 2)).unwrap();
        assert!(budget.answer_within(text(SHORT + 1), brief).is_err());
        assert_eq!(budget.answer_within(text(SHORT), brief).unwrap().len(), SHORT);
        drop(half);
        // One that is longer than the limit waits until it is alone.
        assert!(budget.answer_within(text(ANSWERS_MAX + 1), brief).is_err());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.answer(text(ANSWERS_MAX + 1)).unwrap().len());
            drop(other);
            assert_eq!(waiting.join().unwrap(), ANSWERS_MAX + 1);
        });
        assert_eq!(*budget.shared.taken.lock().unwrap(), 0);
    }
}
