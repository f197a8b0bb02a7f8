//! Pieces of a file that are written separately.

use std::collections::HashSet;

use store::StoreError;

use crate::event::Effect;
use crate::gather::{Gatherer, Rrds};
use crate::head::FrozenBatch;
use crate::placed::Piece;

/// A piece that is written separately, because its counts may be too large for their slots: in a batch
/// of many pieces it is unknown which lines to refuse.
#[derive(Debug, Default)]
pub(crate) enum Alone {
    /// There is none.
    #[default]
    None,
    /// It waits until everything before it is written. The lines at these places were refused.
    Waits(HashSet<usize>),
    /// The store has been given it; the states of series in RRD mode are those before it.
    Sent(HashSet<usize>, Rrds),
    /// The store has it.
    Written,
}

impl Alone {
    /// Adds a piece to the head; false if everything is to be written before it is given again.
    pub(crate) fn add<S>(
        &mut self,
        Piece { writers, updates }: Piece<'_>,
        gatherer: &mut Gatherer,
        is_settled: bool,
        effects: &mut Vec<Effect<S>>,
    ) -> bool {
        let add = |gatherer: &mut Gatherer, refused: &HashSet<usize>| {
            let more = gatherer.lines(updates, refused);
            writers.iter().for_each(|writer| gatherer.head.claim(*writer, 1));
            more
        };
        match std::mem::take(self) {
            Alone::Written => return true,
            Alone::None if !gatherer.may_overflow(updates) => {
                effects.push(Effect::Refuse(add(gatherer, &HashSet::new())));
                return true;
            }
            Alone::None => *self = Alone::Waits(HashSet::new()),
            Alone::Waits(mut refused) if is_settled => {
                let rrds = gatherer.rrds.clone();
                let more = add(gatherer, &refused);
                // A line that was refused and kept stays refused.
                refused.extend(more.iter().map(|(place, _)| *place));
                effects.push(Effect::Refuse(more));
                *self = Alone::Sent(refused, rrds);
            }
            waits => *self = waits,
        }
        false
    }

    /// The store has the batch.
    pub(crate) fn written(&mut self) {
        if let Alone::Sent(..) = self {
            *self = Alone::Written;
        }
    }

    /// The store has not written the batch.
    ///
    /// # Errors
    /// The same error, unless the piece can be added again without the series that do not fit.
    pub(crate) fn failed(
        &mut self,
        error: StoreError,
        frozen: FrozenBatch,
        gatherer: &mut Gatherer,
    ) -> Result<(), StoreError> {
        match (std::mem::take(self), error) {
            (Alone::Sent(refused, rrds), StoreError::Overflow { slots }) => {
                let full = slots.iter().map(|(_, key)| key.series).collect();
                if !gatherer.undo(frozen, rrds, &full) {
                    return Err(StoreError::Overflow { slots });
                }
                *self = Alone::Waits(refused);
                Ok(())
            }
            (_, error) => Err(error),
        }
    }
}
