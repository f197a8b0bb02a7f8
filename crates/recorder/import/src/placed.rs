//! Updates with their places in a piece.

use formats::text::Windowed;
use formats::{Update, What};
use series::{Interval, Step};

/// An update with the index of its line in the piece. Updates of one index are adjacent, and are
/// accepted or refused together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) place: usize,
    pub(crate) series: formats::Series,
    pub(crate) update: Update,
    /// The interval written earlier that this one replaces.
    pub(crate) instead: Option<Interval>,
    /// The step of an interval that is only known coarsely; otherwise that of its series.
    pub(crate) step: Option<Step>,
}

/// The update for the result of a window; `None` if nothing changes.
pub(crate) fn placed(windowed: &Windowed) -> Option<Placed> {
    let Windowed { series, update, instead } = *windowed;
    let interval = |update: Update| match update.what {
        What::Interval(interval) => Some(interval),
        What::Point(_) => None,
    };
    let old = instead.and_then(interval);
    let (update, instead) = match (update, old, instead) {
        (Some(update), old, _) => (update, old),
        (None, Some(old), Some(known)) => {
            (Update { what: What::Interval(old.inverse()), ..known }, None)
        }
        (None, ..) => return None,
    };
    Some(Placed { place: 0, series, update, instead, step: None })
}
