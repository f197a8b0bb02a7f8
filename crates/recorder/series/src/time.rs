//! Steps, slots and time ranges, in integer microseconds since the Unix epoch.

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;

/// Limit on a step, ten years: a year aligned to the epoch still fits.
const STEP_MAX_US: i64 = 3_660 * 86_400 * SECOND_US;

/// The length of a slot: at least one microsecond, at most ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Step(i64);

impl Step {
    /// A step in microseconds; `None` unless it is from 1 µs to ten years.
    pub const fn from_micros(us: i64) -> Option<Step> {
        if us >= 1 && us <= STEP_MAX_US { Some(Step(us)) } else { None }
    }

    /// A step in seconds; `None` unless it is from 1 s to ten years.
    pub const fn from_secs(seconds: i64) -> Option<Step> {
        match seconds.checked_mul(SECOND_US) {
            Some(us) => Step::from_micros(us),
            None => None,
        }
    }

    /// The length in microseconds.
    pub const fn us(self) -> i64 {
        self.0
    }

    /// The start of the slot that contains the instant `at_us`.
    ///
    /// Times before 1970 are treated alike: slots never straddle the epoch.
    pub const fn slot_of(self, at_us: i64) -> i64 {
        at_us.saturating_sub(at_us.rem_euclid(self.0))
    }

    /// Whether every slot of this step is inside one slot of `coarser`.
    pub const fn divides(self, coarser: Step) -> bool {
        coarser.0 % self.0 == 0
    }
}

impl TryFrom<i64> for Step {
    type Error = String;
    fn try_from(us: i64) -> Result<Step, String> {
        Step::from_micros(us).ok_or_else(|| format!("{us} µs is not a step: use 1 µs to ten years"))
    }
}

impl From<Step> for i64 {
    fn from(step: Step) -> i64 {
        step.0
    }
}

/// A non-empty time range: from `start_us` up to, but not including, `end_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    start_us: i64,
    end_us: i64,
}

impl Span {
    /// The range from `start_us` to `end_us`, microseconds since the epoch.
    ///
    /// # Errors
    /// [`Refusal::EmptyInterval`] unless it ends after it starts;
    /// [`Refusal::TooLong`] if its length does not fit 63 bits.
    pub fn new(start_us: i64, end_us: i64) -> Result<Span, Refusal> {
        if end_us <= start_us {
            return Err(Refusal::EmptyInterval);
        }
        match end_us.checked_sub(start_us) {
            Some(_) => Ok(Span { start_us, end_us }),
            None => Err(Refusal::TooLong),
        }
    }

    /// The first microsecond.
    pub const fn start_us(self) -> i64 {
        self.start_us
    }

    /// The first microsecond after it.
    pub const fn end_us(self) -> i64 {
        self.end_us
    }

    /// The length in microseconds, at least 1.
    pub const fn us(self) -> i64 {
        self.end_us - self.start_us
    }

    /// The length in seconds.
    pub fn seconds(self) -> f64 {
        self.us() as f64 / SECOND_US as f64
    }

    /// The pieces of the range in each slot of `step`, in order of time.
    pub(crate) fn pieces(self, step: Step) -> impl Iterator<Item = Piece> {
        let mut at_us = self.start_us;
        std::iter::from_fn(move || {
            if at_us >= self.end_us {
                return None;
            }
            let slot_us = step.slot_of(at_us);
            let from_us = at_us - self.start_us;
            let from = at_us;
            at_us = slot_us.saturating_add(step.us()).min(self.end_us);
            debug_assert!(slot_us <= from && from < at_us, "a piece lies in its slot");
            Some(Piece { slot_us, from_us, to_us: at_us - self.start_us })
        })
    }
}

/// The part of a span in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The slot's start.
    pub(crate) slot_us: i64,
    /// Start of the piece, relative to the span's start.
    pub(crate) from_us: i64,
    /// End of the piece, relative to the span's start.
    pub(crate) to_us: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_align_to_the_epoch_on_both_sides() {
        let step = Step::from_secs(10).unwrap();
        for (at_s, slot_s) in [(0, 0), (9, 0), (10, 10), (-1, -10), (-10, -10), (-11, -20)] {
            assert_eq!(step.slot_of(at_s * SECOND_US), slot_s * SECOND_US, "{at_s}");
        }
        assert_eq!(step.slot_of(i64::MIN), i64::MIN, "the earliest instant does not overflow");
    }

    #[test]
    fn a_step_has_limits() {
        assert_eq!(Step::from_micros(0), None);
        assert_eq!(Step::from_micros(-1), None);
        assert_eq!(Step::from_secs(i64::MAX), None);
        assert!(Step::from_secs(31_536_000).is_some());
        assert_eq!(Step::try_from(0).unwrap_err(), "0 µs is not a step: use 1 µs to ten years");
    }

    #[test]
    fn a_span_is_cut_where_slots_begin() {
        let step = Step::from_micros(10).unwrap();
        let cut = |start, end| -> Vec<(i64, i64, i64)> {
            let span = Span::new(start, end).unwrap();
            span.pieces(step).map(|p| (p.slot_us, p.from_us, p.to_us)).collect()
        };
        assert_eq!(cut(5, 25), [(0, 0, 5), (10, 5, 15), (20, 15, 20)]);
        assert_eq!(cut(10, 20), [(10, 0, 10)]);
        assert_eq!(cut(-3, 1), [(-10, 0, 3), (0, 3, 4)]);
        assert_eq!(cut(i64::MAX - 9, i64::MAX).len(), 2, "the last instant does not overflow");
    }

    #[test]
    fn a_span_is_never_empty() {
        assert_eq!(Span::new(5, 5), Err(Refusal::EmptyInterval));
        assert_eq!(Span::new(5, 4), Err(Refusal::EmptyInterval));
        assert_eq!(Span::new(i64::MIN, i64::MAX), Err(Refusal::TooLong));
    }
}
