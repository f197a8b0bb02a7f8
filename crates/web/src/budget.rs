//! How much memory all queries together may take.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use store::{Abandonment, StoreError};

use crate::answer::RequestRefusal;

/// Slots that a query may read beside others. One that reads more waits for its turn, which one
/// query has at a time.
pub(crate) const SLOTS_BESIDE_OTHERS: usize = 250_000;

/// Limit on the bytes of all answers that clients have not read yet. A longer one is sent alone.
const ANSWERS_MAX: usize = 64 << 20;

/// An answer of so many bytes needs no room.
const SHORT: usize = 64 << 10;

/// How long an answer may wait for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a query that waits finds out whether its client still does.
const ASKED_EACH: Duration = Duration::from_millis(50);

/// The budget of all queries. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    shared: Arc<SharedBudget>,
}

#[derive(Debug, Default)]
struct SharedBudget {
    taken: Mutex<TakenBudget>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct TakenBudget {
    /// Whether a large query runs.
    turn: bool,
    /// Bytes of answers.
    answers: usize,
}

/// The turn of a large query, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    shared: Arc<SharedBudget>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.lock().turn = false;
        self.shared.freed.notify_all();
    }
}

impl SharedBudget {
    fn lock(&self) -> MutexGuard<'_, TakenBudget> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `take` has taken something. Returns false if that lasts longer than `limit`.
    ///
    /// # Errors
    /// [`StoreError::Abandoned`] if the client goes away meanwhile.
    fn wait(
        &self,
        client: &Abandonment,
        limit: Duration,
        mut take: impl FnMut(&mut TakenBudget) -> bool,
    ) -> Result<bool, StoreError> {
        let (begin, mut taken) = (Instant::now(), self.lock());
        while !take(&mut taken) {
            if client.is_told() {
                return Err(StoreError::Abandoned);
            }
            if begin.elapsed() >= limit {
                return Ok(false);
            }
            let waited = self.freed.wait_timeout(taken, ASKED_EACH.min(limit));
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(true)
    }
}

impl Budget {
    /// Waits for the turn of a large query.
    ///
    /// # Errors
    /// [`StoreError::Abandoned`] if the client goes away meanwhile.
    pub(crate) fn turn(&self, client: &Abandonment) -> Result<Turn, StoreError> {
        let take = |taken: &mut TakenBudget| !std::mem::replace(&mut taken.turn, true);
        self.shared.wait(client, Duration::MAX, take)?;
        Ok(Turn { shared: self.shared.clone() })
    }

    /// An answer that has its room until it is sent. Waits for it, so it must be called where the
    /// query still has its turn: otherwise answers would pile up.
    pub(crate) fn answer(
        &self,
        client: &Abandonment,
        text: String,
    ) -> Result<Bytes, RequestRefusal> {
        self.answer_within(client, text, PATIENCE)
    }

    fn answer_within(
        &self,
        client: &Abandonment,
        text: String,
        limit: Duration,
    ) -> Result<Bytes, RequestRefusal> {
        if text.len() <= SHORT {
            return Ok(text.into());
        }
        let room = text.len().min(ANSWERS_MAX);
        let take = |taken: &mut TakenBudget| {
            let is_room = taken.answers + room <= ANSWERS_MAX;
            taken.answers += if is_room { room } else { 0 };
            is_room
        };
        match self.shared.wait(client, limit, take) {
            Ok(true) => {}
            Ok(false) => {
                return Err(RequestRefusal::Unavailable(
                    "too many large answers at a time: try again later".to_owned(),
                ));
            }
            Err(error) => return Err(RequestRefusal::Read(error.into())),
        }
        let shared = self.shared.clone();
        Ok(Bytes::from_owner(RoomedAnswer { text, room, shared }))
    }
}

/// An answer and its room.
struct RoomedAnswer {
    text: String,
    room: usize,
    shared: Arc<SharedBudget>,
}

impl AsRef<[u8]> for RoomedAnswer {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for RoomedAnswer {
    fn drop(&mut self) {
        self.shared.lock().answers -= self.room;
        self.shared.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_read_do_not_fill_the_memory() {
        let (budget, client) = (Budget::default(), Abandonment::default());
        let text = |bytes: usize| "x".repeat(bytes);
        let within = |text: String| budget.answer_within(&client, text, Duration::from_millis(10));
        let half = budget.answer(&client, text(ANSWERS_MAX / 2)).unwrap();
        let other = budget.answer(&client, text(ANSWERS_MAX / 2)).unwrap();
        assert!(within(text(SHORT + 1)).is_err());
        assert_eq!(within(text(SHORT)).unwrap().len(), SHORT);
        drop(half);
        // One that is longer than the limit waits until it is alone.
        assert!(within(text(ANSWERS_MAX + 1)).is_err());
        std::thread::scope(|scope| {
            let answer = || budget.answer(&client, text(ANSWERS_MAX + 1)).unwrap().len();
            let waiting = scope.spawn(answer);
            drop(other);
            assert_eq!(waiting.join().unwrap(), ANSWERS_MAX + 1);
        });
        assert_eq!(budget.shared.lock().answers, 0);
    }

    #[test]
    fn a_large_query_whose_client_goes_away_waits_no_longer() {
        let (budget, client, gone) =
            (Budget::default(), Abandonment::default(), Abandonment::default());
        let turn = budget.turn(&client).unwrap();
        let room = budget.answer(&client, "x".repeat(ANSWERS_MAX)).unwrap();
        std::thread::scope(|scope| {
            let turn = scope.spawn(|| budget.turn(&gone));
            let answer = scope.spawn(|| budget.answer(&gone, "x".repeat(SHORT + 1)));
            gone.tell();
            assert!(matches!(turn.join().unwrap(), Err(StoreError::Abandoned)));
            let answer = answer.join().unwrap();
            assert!(matches!(answer, Err(RequestRefusal::Read(_))), "{answer:?}");
        });
        drop((turn, room));
        assert!(budget.turn(&client).is_ok());
    }
}
