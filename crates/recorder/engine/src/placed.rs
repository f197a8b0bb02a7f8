//! Updates with their places in a piece.

use formats::text::WindowResult;
use formats::{Series, Update, UpdateContent};
use series::{Interval, Step};
use store::Writer;

/// A piece of a source that can be read again, such as a file: lines that are claimed together. It needs
/// no journal, because the store tells which pieces it has. Its series [were
/// found](crate::Event::Find).
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Those whose first batch it is; without them, its lines are only judged, because the store has
    /// it.
    pub writers: &'a [Writer],
    /// The updates. Those of a line have one place, and are accepted or refused together.
    pub updates: &'a [PlacedUpdate],
}

/// An update with the index of its line in the piece. Updates of one index are adjacent, and are
/// accepted or refused together.
#[derive(Clone, Copy, Debug)]
pub struct PlacedUpdate {
    /// The index.
    pub place: usize,
    /// The series, by its number in the book.
    pub series: Series,
    /// The update.
    pub update: Update,
    /// The interval written earlier that this one replaces.
    pub instead: Option<Interval>,
    /// The step of an interval that is only known coarsely; otherwise that of its series.
    pub step: Option<Step>,
}

impl PlacedUpdate {
    /// An update that replaces nothing.
    pub fn new(place: usize, series: Series, update: Update) -> PlacedUpdate {
        PlacedUpdate { place, series, update, instead: None, step: None }
    }

    /// The update for the result of a window; `None` if nothing changes.
    pub fn windowed(place: usize, windowed: &WindowResult) -> Option<PlacedUpdate> {
        let WindowResult { series, update, instead } = *windowed;
        let interval = |update: Update| match update.what {
            UpdateContent::Interval(interval) => Some(interval),
            UpdateContent::Point(_) => None,
        };
        let old = instead.and_then(interval);
        let (update, instead) = match (update, old, instead) {
            (Some(update), old, _) => (update, old),
            (None, Some(old), Some(known)) => {
                (Update { what: UpdateContent::Interval(old.inverse()), ..known }, None)
            }
            (None, ..) => return None,
        };
        Some(PlacedUpdate { instead, ..PlacedUpdate::new(place, series, update) })
    }
}
