//! Batches whose pieces are made by a thread of their own.

use std::borrow::Cow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::{BatchResult, Changes, Source, Store, StoreError, Writer};

/// Pieces that may be ready before the store asks for them. One suffices to keep both threads busy,
/// and each takes megabytes.
const READY: usize = 1;

/// A pass over the batch: its pieces, and `None` after the last one.
type Pass = SyncSender<Option<Changes>>;

/// As [`Store::apply_all`], but a separate thread makes the next piece while the store writes one.
///
/// # Errors
/// Those of [`Store::apply_all`].
///
/// # Panics
/// If the source does.
pub fn apply_ahead(
    store: &mut dyn Store,
    claims: &[(Writer, u64)],
    source: &mut (dyn Source + Send),
) -> Result<BatchResult, StoreError> {
    thread::scope(|scope| {
        let (give, taken) = channel::<&mut (dyn Source + Send)>();
        let (passes, wanted) = channel();
        let maker = thread::Builder::new().name("pieces".to_owned());
        let made = maker.spawn_scoped(scope, move || {
            for source in taken {
                wanted.iter().for_each(|pass| make(source, &pass));
            }
        });
        // Without another thread, this one does both.
        if made.is_err() {
            return store.apply_all(claims, source);
        }
        // The thread waits for it.
        drop(give.send(source));
        drop(give);
        store.apply_all(claims, &mut PiecesAhead { passes, pieces: None })
    })
}

/// Makes all pieces of a pass. The store ends a pass early when it begins another one.
fn make(source: &mut dyn Source, pass: &Pass) {
    source.restart();
    loop {
        let piece = source.next().map(Cow::into_owned);
        let is_last = piece.is_none();
        if pass.send(piece).is_err() || is_last {
            return;
        }
    }
}

/// Begins a pass.
fn begin(passes: &Sender<Pass>) -> Receiver<Option<Changes>> {
    let (pass, pieces) = sync_channel(READY);
    // If the thread has panicked, the first piece is missed.
    drop(passes.send(pass));
    pieces
}

/// The pieces that the other thread makes, of the current pass.
struct PiecesAhead {
    passes: Sender<Pass>,
    pieces: Option<Receiver<Option<Changes>>>,
}

impl Source for PiecesAhead {
    fn restart(&mut self) {
        self.pieces = None;
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        let pieces = self.pieces.get_or_insert_with(|| begin(&self.passes));
        let Ok(piece) = pieces.recv() else {
            // A batch without its last pieces must not be written.
            panic!("the thread that makes the pieces of a batch has ended")
        };
        piece.map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use series::{Accumulator, Delta, SlotKey, Step};

    use super::*;
    use crate::{Memory, Retention};

    const STEP: i64 = 10_000_000;

    /// Pieces of one slot each; the piece at `panics_at` panics.
    struct Pieces<'a> {
        count: usize,
        at: usize,
        panics_at: Option<usize>,
        passes: &'a AtomicUsize,
    }

    impl Source for Pieces<'_> {
        fn restart(&mut self) {
            self.at = 0;
            self.passes.fetch_add(1, Ordering::Relaxed);
        }

        fn next(&mut self) -> Option<Cow<'_, Changes>> {
            assert_ne!(Some(self.at), self.panics_at, "as asked");
            self.at += 1;
            (self.at <= self.count).then(|| {
                let key = SlotKey { slot_us: self.at as i64 * STEP, series: 1, lane: 0 };
                let mut piece = Changes::default();
                let delta = Delta::widen(Accumulator { n: 1, ..Accumulator::EMPTY });
                piece.add(Step::from_micros(STEP).unwrap(), key, delta);
                Cow::Owned(piece)
            })
        }
    }

    fn store() -> Memory {
        let mut store = Memory::default();
        store.retain(&[Retention::from_secs(10, None).unwrap()]).unwrap();
        store
    }

    fn slots(store: &mut Memory) -> usize {
        store.slots(Step::from_micros(STEP).unwrap(), &[1], i64::MIN, i64::MAX).unwrap().len()
    }

    #[test]
    fn every_piece_arrives_once_and_a_batch_that_was_applied_is_not_made() {
        let (mut store, passes) = (store(), AtomicUsize::new(0));
        for (seq, applied) in [
            (1, BatchResult::Now { expired: 0 }),
            (1, BatchResult::Before),
            (2, BatchResult::Now { expired: 0 }),
        ] {
            let mut pieces = Pieces { count: 100, at: 7, panics_at: None, passes: &passes };
            let done = apply_ahead(&mut store, &[(Writer(1), seq)], &mut pieces);
            assert_eq!(done.unwrap(), applied);
            assert_eq!(slots(&mut store), 100);
        }
        assert_eq!(passes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_source_that_panics_ends_no_batch() {
        let (mut store, passes) = (store(), AtomicUsize::new(0));
        let mut pieces = Pieces { count: 100, at: 0, panics_at: Some(50), passes: &passes };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            apply_ahead(&mut store, &[(Writer(1), 1)], &mut pieces)
        }));
        assert!(done.is_err());
        assert_eq!((store.last_batch(Writer(1)).unwrap(), slots(&mut store)), (0, 0));
    }
}
