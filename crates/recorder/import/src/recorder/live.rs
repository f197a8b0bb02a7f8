//! Streams without an end: the caller numbers the batches, and decides when they are written.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::{Frozen, Head, Place};
use formats::text::Windowed;
use formats::{Book, Reason, Update};
use series::{Kind, Refusal};
use store::{Maintained, Request, Store, StoreError, Writer};

use super::find::{Asked, Found};
use super::{Known, Recorder, Unstored};
use crate::placed::{Placed, placed};
use crate::{BackfillError, Options};

/// A recorder of streams that do not end.
///
/// ```text
///  find ─→ line ─→ line ─→ … ─→ write(claims) ─→ line ─→ … ─→ ended ─→ write(claims) ─→ …
///                               └── a separate thread writes to the store ──┘
/// ```
pub struct Live<'r, 's> {
    recorder: &'r mut Recorder<'s>,
    /// What is known about the series of the books that are not selected.
    books: Vec<Vec<Known>>,
    selected: usize,
    /// A batch that the store has not accepted yet.
    failed: Option<Box<Frozen>>,
    /// Series that were omitted from the current batch.
    omitted: HashSet<i64>,
    pending: Option<Pending>,
}

/// What was not written of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Series that had to be omitted because a slot of theirs would overflow.
    pub omitted: usize,
    /// What of the others was not stored.
    pub unstored: Unstored,
}

/// What the store was asked for, and has not answered yet.
struct Pending {
    /// The number of the book.
    book: usize,
    asked: Vec<Asked>,
    answer: Receiver<Result<Found, StoreError>>,
}

impl std::fmt::Debug for Live<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// Runs `work` with a recorder of streams; updates that were not written when it returns are
/// dropped, because the caller has them in a journal.
///
/// # Errors
/// Those of the store when it is first used, and those of `work`.
pub fn live<T>(
    store: &mut dyn Store,
    options: Options,
    now_us: i64,
    work: impl FnOnce(&mut Live<'_, '_>) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    Recorder::run(store, options, now_us, |recorder| {
        // Never whole, so that nothing is written without its claim.
        recorder.whole = false;
        recorder.refuses_mode = true;
        let (books, omitted) = (vec![Vec::new()], HashSet::new());
        work(&mut Live { recorder, books, selected: 0, failed: None, omitted, pending: None })
    })
}

impl<'s> Live<'_, 's> {
    /// Finds or creates these series of a book, which the caller numbers 0, 1, 2 …; false if the
    /// store has not answered within `limit`. Then the call is to be repeated, and no batch that
    /// contains their updates may be written.
    ///
    /// # Errors
    /// Those of the store; the call can be repeated.
    pub fn find<I: Iterator<Item = (formats::Series, Kind)>>(
        &mut self,
        (number, book): (usize, &Book),
        touched: impl Fn() -> I,
        limit: Duration,
    ) -> Result<bool, BackfillError> {
        loop {
            if !self.settle_pending(limit)? {
                return Ok(false);
            }
            self.select(number);
            let wanted = self.recorder.wanted(book, touched())?;
            if wanted.is_empty() {
                return Ok(true);
            }
            let (asked, answer) = self.recorder.ask(wanted);
            self.pending = Some(Pending { book: number, asked, answer });
        }
    }

    /// Keeps what the store was asked for; false if it has not answered yet.
    fn settle_pending(&mut self, limit: Duration) -> Result<bool, BackfillError> {
        let Some(Pending { book, asked, answer }) = self.pending.take() else { return Ok(true) };
        match answer.recv_timeout(limit) {
            Ok(found) => {
                self.select(book);
                self.recorder.keep(&asked, found?)?;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.pending = Some(Pending { book, asked, answer });
                Ok(false)
            }
            // The thread has panicked.
            Err(RecvTimeoutError::Disconnected) => crate::store_thread::gone(),
        }
    }

    /// Selects a book whose series were [found](Live::find) before.
    pub fn select(&mut self, number: usize) {
        if number != self.selected {
            if self.books.len() <= number {
                self.books.resize_with(number + 1, Vec::new);
            }
            std::mem::swap(&mut self.recorder.known, &mut self.books[self.selected]);
            std::mem::swap(&mut self.recorder.known, &mut self.books[number]);
            self.selected = number;
        }
    }

    /// Sets the heartbeat of series that are created from now on, in microseconds.
    pub fn set_heartbeat(&mut self, heartbeat_us: i64) {
        self.recorder.options.heartbeat_us = heartbeat_us;
    }

    /// The kind of a series that was [found](Live::find) in the same book.
    pub fn kind(&self, series: formats::Series) -> Option<Kind> {
        self.place(series).map(|place| self.head().spec(place).kind)
    }

    fn place(&self, series: formats::Series) -> Option<Place> {
        match self.recorder.known(series) {
            Known::At(place) => Some(place),
            Known::New | Known::Refused(_) => None,
        }
    }

    /// Adds the updates of a line, all or none. The series were [found](Live::find) in the same
    /// book, which must be the last one that was used.
    ///
    /// # Errors
    /// Why the line is refused. A count of 2^40 or more in a single update is [too
    /// large](Refusal::TooLarge), because a slot could overflow after it was acknowledged.
    pub fn line(&mut self, updates: &[(formats::Series, Update)]) -> Result<(), Reason> {
        let place =
            |(series, update)| Placed { place: 0, series, update, instead: None, step: None };
        let none = HashSet::new();
        match updates {
            [] => Ok(()),
            [update] => {
                let placed = place(*update);
                self.refuse_large(&placed)?;
                self.recorder.add(&placed, &none)
            }
            updates => {
                let line: Vec<Placed> = updates.iter().copied().map(place).collect();
                line.iter().try_for_each(|placed| self.refuse_large(placed))?;
                self.recorder.add_line(&line, &none)
            }
        }
    }

    /// Declares that updates since the last batch are those of a request, with which it is written.
    pub fn request(&mut self, request: Request) {
        self.recorder.head.request(request);
    }

    /// Whether a series that was [found](Live::find) in the selected book accepts updates of a kind.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes(&self, series: formats::Series, kind: Kind) -> Result<(), Reason> {
        self.recorder.takes(series, kind)
    }

    /// The time of the newest point of a series, in microseconds since the epoch.
    pub fn newest_us(&self, series: formats::Series) -> Option<i64> {
        self.head().newest_us(self.place(series)?)
    }

    /// The value of that point. All recent points are read for it.
    pub fn newest(&self, series: formats::Series) -> Option<f64> {
        self.head().newest(self.place(series)?)
    }

    /// Whether the result of a window would be accepted.
    ///
    /// # Errors
    /// Why not: the bounds of the series.
    pub fn admits_window(&mut self, windowed: &Windowed) -> Result<(), Reason> {
        match placed(windowed) {
            Some(placed) => self.recorder.admits(&placed, &HashSet::new()),
            None => Ok(()),
        }
    }

    /// Adds the result of a window, in place of its earlier one.
    ///
    /// # Errors
    /// Those of [`Live::admits_window`].
    pub fn window(&mut self, windowed: &Windowed) -> Result<(), Reason> {
        match placed(windowed) {
            Some(placed) => self.recorder.add(&placed, &HashSet::new()),
            None => Ok(()),
        }
    }

    fn refuse_large(&self, placed: &Placed) -> Result<(), Reason> {
        match self.recorder.is_large(placed) {
            true => Err(Refusal::TooLarge.into()),
            false => Ok(()),
        }
    }

    /// Approximate bytes of updates that wait to be written.
    pub fn bytes(&self) -> usize {
        self.head().bytes().saturating_sub(self.recorder.bytes_before)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.head().is_empty()
    }

    /// Whether a batch is being written, or waits to be written again.
    pub fn is_writing(&self) -> bool {
        !self.recorder.store_thread.is_idle() || self.failed.is_some()
    }

    /// Starts to write everything so far as the batch of these claims.
    ///
    /// # Panics
    /// While a batch [is being written](Live::is_writing).
    pub fn write(&mut self, claims: &[(Writer, u64)]) {
        assert!(!self.is_writing(), "batches are written one after the other");
        claims.iter().for_each(|(writer, seq)| self.recorder.head.claim(*writer, *seq));
        let frozen = self.recorder.freeze();
        self.recorder.store_thread.begin(Box::new(frozen));
    }

    /// The result of the batch, if it has ended since the last call. After an error the batch waits
    /// to be [written again](Live::again).
    pub fn ended(&mut self, limit: Duration) -> Option<Result<Batch, StoreError>> {
        loop {
            let ended = match limit {
                Duration::ZERO => self.recorder.store_thread.ended(),
                limit => self.recorder.store_thread.ended_within(limit),
            };
            match ended? {
                Ok(stored) => {
                    self.recorder.stored(stored);
                    let omitted = std::mem::take(&mut self.omitted).len();
                    let unstored = std::mem::take(&mut self.recorder.unstored);
                    return Some(Ok(Batch { omitted, unstored }));
                }
                Err((StoreError::Overflow { slots }, mut frozen)) => {
                    let before = self.omitted.len();
                    self.omitted.extend(slots.iter().map(|(_, key)| key.series));
                    if self.omitted.len() == before {
                        self.failed = Some(frozen);
                        return Some(Err(StoreError::Overflow { slots }));
                    }
                    frozen.omit(&self.omitted);
                    self.recorder.store_thread.begin(frozen);
                }
                Err((error, frozen)) => {
                    self.failed = Some(frozen);
                    return Some(Err(error));
                }
            }
        }
    }

    /// Writes a batch again that the store did not accept.
    pub fn again(&mut self) {
        if let Some(frozen) = self.failed.take() {
            self.recorder.store_thread.begin(frozen);
        }
    }

    /// Starts [`Store::maintain_while`] for this long, and calls `done` on the store's thread when it
    /// has ended. Batches that begin meanwhile are written afterwards.
    pub fn maintain(
        &self,
        now_us: i64,
        limit: Duration,
        done: impl FnOnce(Result<Maintained, StoreError>) + Send + 's,
    ) {
        self.recorder.store_thread.start(move |store| {
            let begun = Instant::now();
            done(store.maintain_while(now_us, &mut || begun.elapsed() < limit));
        });
    }

    /// Starts [`Store::forget_requests`], and calls `done` on the store's thread with the result.
    pub fn forget_requests(
        &self,
        until_us: i64,
        done: impl FnOnce(Result<u64, StoreError>) + Send + 's,
    ) {
        self.recorder.store_thread.start(move |store| done(store.forget_requests(until_us)));
    }

    fn head(&self) -> &Head {
        &self.recorder.head
    }
}
