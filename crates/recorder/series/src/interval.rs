//! Updates with start and end, and how they are split over slots.

use serde::{Deserialize, Serialize};

use crate::amount::{finite, whole};
use crate::{Accumulator, Amount, COUNT_MAX, Kind, Refusal, Span, Spec, Step};

/// Whether an update adds or retracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// Adds.
    Add,
    /// Retracts an equal one, including its coverage.
    Retract,
    /// Changes a count by its amount, which may be negative; coverage stays the same.
    Correct,
}

/// Known time: an amount over a span.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cover {
    /// The time range.
    pub span: Span,
    /// The amount.
    pub amount: Amount,
    /// Added or retracted.
    pub sense: Sense,
}

impl Cover {
    /// The change of each slot of `step`, in order of time.
    pub fn split(self, step: Step) -> impl Iterator<Item = (i64, Accumulator)> {
        let us = self.span.us();
        let rate = self.amount.rate(self.span);
        self.span.pieces(step).map(move |piece| {
            let integral = self.amount.share(piece, us);
            let covered_us = piece.to_us - piece.from_us;
            let part = match self.sense {
                Sense::Add => Accumulator {
                    integral,
                    covered_us,
                    vmin: rate,
                    vmax: rate,
                    ..Accumulator::EMPTY
                },
                Sense::Retract => Accumulator {
                    integral: -integral,
                    covered_us: -covered_us,
                    approximate: true,
                    ..Accumulator::EMPTY
                },
                Sense::Correct => Accumulator { integral, approximate: true, ..Accumulator::EMPTY },
            };
            (piece.slot_us, part)
        })
    }
}

/// A self-contained update: known time with an amount.
///
/// Intervals of a lane should not overlap, because a lane is one clock. If they do, counts are
/// right, and the time is counted as often as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval(Cover);

impl Interval {
    /// A number of events between two instants (microseconds since the epoch). A negative count
    /// retracts an interval of that count: a correction.
    ///
    /// # Errors
    /// [`Refusal::EmptyInterval`], [`Refusal::TooLong`], [`Refusal::TooLarge`].
    pub fn count(start_us: i64, end_us: i64, count: i64) -> Result<Interval, Refusal> {
        let span = Span::new(start_us, end_us)?;
        if count.unsigned_abs() > COUNT_MAX as u64 {
            return Err(Refusal::TooLarge);
        }
        let sense = if count < 0 { Sense::Retract } else { Sense::Add };
        Ok(Interval(Cover { span, amount: Amount::Count(count.abs()), sense }))
    }

    /// A correction: more events, or fewer if `count` is negative, between two instants
    /// (microseconds since the epoch) that are already covered.
    ///
    /// # Errors
    /// Those of [`Interval::count`].
    pub fn correction(start_us: i64, end_us: i64, count: i64) -> Result<Interval, Refusal> {
        let Interval(Cover { span, .. }) = Interval::count(start_us, end_us, count)?;
        Ok(Interval(Cover { span, amount: Amount::Count(count), sense: Sense::Correct }))
    }

    /// A constant level, or a rate per second, between two instants.
    ///
    /// # Errors
    /// [`Refusal::EmptyInterval`], [`Refusal::TooLong`], [`Refusal::NotANumber`],
    /// [`Refusal::Infinite`], [`Refusal::TooLarge`].
    pub fn level(start_us: i64, end_us: i64, value: f64) -> Result<Interval, Refusal> {
        let span = Span::new(start_us, end_us)?;
        let value = finite(value)?;
        Ok(Interval(Cover { span, amount: Amount::Level(value), sense: Sense::Add }))
    }

    /// An interval of a series' own kind, from a number in a protocol.
    ///
    /// # Errors
    /// Those of [`Interval::count`] and [`Interval::level`]; [`Refusal::Fraction`] for a count with
    /// a fraction, [`Refusal::OutOfBounds`] if the value is outside the series' bounds,
    /// [`Refusal::WrongKind`] for a series of points.
    pub fn of(spec: &Spec, start_us: i64, end_us: i64, value: f64) -> Result<Interval, Refusal> {
        let interval = match spec.kind {
            Kind::Count => Interval::count(start_us, end_us, whole(value)?)?,
            Kind::Level => Interval::level(start_us, end_us, value)?,
            _ => return Err(Refusal::WrongKind),
        };
        let Cover { span, amount, .. } = interval.0;
        if spec.admits(amount.rate(span)) { Ok(interval) } else { Err(Refusal::OutOfBounds) }
    }

    /// The interval that retracts this one, or adds it again.
    #[must_use]
    pub fn inverse(self) -> Interval {
        let Cover { span, amount, sense } = self.0;
        let (amount, sense) = match (sense, amount) {
            (Sense::Add, amount) => (amount, Sense::Retract),
            (Sense::Retract, amount) => (amount, Sense::Add),
            (Sense::Correct, Amount::Count(count)) => (Amount::Count(-count), Sense::Correct),
            (Sense::Correct, Amount::Level(value)) => (Amount::Level(-value), Sense::Correct),
        };
        Interval(Cover { span, amount, sense })
    }

    /// The time and amount that it covers.
    pub fn cover(self) -> Cover {
        self.0
    }

    /// The change of each slot of `step`, in order of time.
    ///
    /// The update itself is counted once, in the slot of its last microsecond.
    pub fn slots(self, step: Step) -> impl Iterator<Item = (i64, Accumulator)> {
        let Cover { span, amount, sense } = self.0;
        let n = match sense {
            Sense::Add => 1,
            Sense::Retract => -1,
            Sense::Correct => 0,
        };
        let mark = Accumulator::mark(span.end_us(), amount.as_f64(), n);
        let last_slot_us = step.slot_of(span.end_us() - 1);
        self.0.split(step).map(move |(slot_us, mut part)| {
            if slot_us == last_slot_us {
                part.merge(&mark);
            }
            (slot_us, part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Integral, SECOND_US};

    fn step() -> Step {
        Step::from_secs(10).unwrap()
    }

    #[test]
    fn a_count_is_cut_in_integers_and_the_last_piece_is_what_remains() {
        let interval = Interval::count(5_000_000, 25_000_000, 7).unwrap();
        let slots: Vec<_> = interval.slots(step()).collect();
        let counts: Vec<_> = slots.iter().map(|(_, part)| part.integral).collect();
        assert_eq!(counts, [Integral::Count(1), Integral::Count(4), Integral::Count(2)]);
        let marks: Vec<_> = slots.iter().map(|(_, part)| part.n).collect();
        assert_eq!(marks, [0, 0, 1], "the update is counted once, where it ends");
        assert_eq!(slots[2].1.last(), Some((25_000_000, 7.0)));
        assert_eq!(slots[0].1.min(), Some(0.35));
    }

    #[test]
    fn an_interval_that_ends_on_a_boundary_belongs_to_the_slot_before() {
        let interval = Interval::count(0, 10_000_000, 4).unwrap();
        let slots: Vec<_> = interval.slots(step()).collect();
        assert_eq!(slots.len(), 1);
        assert_eq!((slots[0].0, slots[0].1.n), (0, 1));
    }

    #[test]
    fn a_count_that_is_partly_taken_back_keeps_its_time() {
        let whole = Interval::count(0, 10_000_000, 75).unwrap();
        let fewer = Interval::correction(0, 10_000_000, -3).unwrap();
        let mut slot = Accumulator::EMPTY;
        for (_, part) in whole.slots(step()).chain(fewer.slots(step())) {
            slot.merge(&part);
        }
        assert_eq!((slot.integral, slot.covered_us, slot.n), (Integral::Count(72), 10_000_000, 1));
        assert_eq!((slot.rate(step(), 0.0), slot.approximate), (Some(7.2), true));
        for (_, part) in fewer.inverse().slots(step()) {
            slot.merge(&part);
        }
        assert_eq!(slot.integral, Integral::Count(75));
    }

    #[test]
    fn a_level_is_weighed_by_its_time() {
        let interval = Interval::level(5_000_000, 25_000_000, 0.5).unwrap();
        let areas: Vec<_> = interval.slots(step()).map(|(_, p)| p.integral.as_f64()).collect();
        assert_eq!(areas, [2.5, 5.0, 2.5]);
    }

    #[test]
    fn bad_intervals_are_refused_with_their_reason() {
        assert_eq!(Interval::count(0, 1, COUNT_MAX + 1), Err(Refusal::TooLarge));
        assert_eq!(Interval::count(0, 1, i64::MIN), Err(Refusal::TooLarge));
        assert!(Interval::count(0, 1, COUNT_MAX).is_ok());
        assert_eq!(Interval::count(1, 1, 1), Err(Refusal::EmptyInterval));
        assert_eq!(Interval::level(0, 1, f64::NAN), Err(Refusal::NotANumber));
        assert_eq!(Interval::level(0, 1, f64::INFINITY), Err(Refusal::Infinite));
        assert_eq!(Interval::level(0, 1, -1e201), Err(Refusal::TooLarge));
        let spec = Spec { max: Some(5.0), ..Spec::new(Kind::Count, step()) };
        assert_eq!(Interval::of(&spec, 0, SECOND_US, 0.5), Err(Refusal::Fraction));
        assert_eq!(Interval::of(&spec, 0, SECOND_US, 1e300), Err(Refusal::TooLarge));
        assert_eq!(Interval::of(&spec, 0, SECOND_US, 6.0), Err(Refusal::OutOfBounds));
        assert_eq!(
            Interval::of(&spec, 0, SECOND_US, -5.0),
            Interval::count(0, SECOND_US, -5),
            "a correction is held against the bounds of what it takes back"
        );
        let gauge = Spec::new(Kind::Gauge, step());
        assert_eq!(Interval::of(&gauge, 0, 1, 1.0), Err(Refusal::WrongKind));
    }
}
