//! Updates that cover the time since the previous one.

use serde::{Deserialize, Serialize};

use crate::amount::{finite, whole};
use crate::{Amount, COUNT_MAX, Refusal, SECOND_US, Span, Step};

/// The kind of a series' updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Points: a level that held since the previous point.
    Gauge,
    /// Points: a total that only grows, wraps at 2^32 or 2^64, and restarts with its process.
    Counter,
    /// Points: a total that goes up and down.
    Derive,
    /// Points: the count since the previous point.
    Absolute,
    /// Points: a total, perhaps with fractions, that only grows and restarts at 0 with its process.
    /// It never wraps.
    Total,
    /// Intervals with counts.
    Count,
    /// Intervals with levels.
    Level,
}

/// How to combine a series' lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavor {
    /// Counted quantities: lanes add up.
    Flow,
    /// Levels: lanes are averaged, weighted by time.
    Level,
}

impl Kind {
    /// Whether it is a flow or a level.
    pub const fn flavor(self) -> Flavor {
        match self {
            Kind::Gauge | Kind::Level => Flavor::Level,
            Kind::Counter | Kind::Derive | Kind::Absolute | Kind::Total | Kind::Count => {
                Flavor::Flow
            }
        }
    }

    /// A reading of this kind, from a number in a protocol.
    ///
    /// # Errors
    /// [`Refusal::NotANumber`], [`Refusal::Infinite`], and for counted quantities
    /// [`Refusal::NegativeCounter`], [`Refusal::Fraction`] and [`Refusal::TooLarge`];
    /// [`Refusal::WrongKind`] for a series of intervals.
    pub fn reading(self, value: f64) -> Result<Reading, Refusal> {
        match self {
            Kind::Gauge => finite(value).map(Reading::Level),
            Kind::Counter | Kind::Absolute | Kind::Total if value < 0.0 => {
                finite(value).and(Err(Refusal::NegativeCounter))
            }
            Kind::Total => finite(value).map(Reading::Level),
            Kind::Counter | Kind::Absolute => whole(value).map(|v| Reading::Unsigned(v as u64)),
            Kind::Derive => whole(value).map(Reading::Signed),
            Kind::Count | Kind::Level => Err(Refusal::WrongKind),
        }
    }
}

/// How the updates of a series are read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The kind of its updates.
    pub kind: Kind,
    /// The finest step at which it is stored.
    pub step: Step,
    /// The longest gap, in microseconds, that a point may cover. A longer one is completely
    /// unknown.
    pub heartbeat_us: i64,
    /// Minimum accepted rate per second or level.
    pub min: Option<f64>,
    /// Maximum accepted rate or level.
    pub max: Option<f64>,
    /// How far, in microseconds, a point may be behind the newest of its lane.
    pub lateness_us: i64,
}

impl Spec {
    /// A heartbeat of two steps and a lateness window of ten minutes, without bounds.
    pub const fn new(kind: Kind, step: Step) -> Spec {
        let (heartbeat_us, lateness_us) = (2 * step.us(), 600 * SECOND_US);
        Spec { kind, step, heartbeat_us, min: None, max: None, lateness_us }
    }

    /// Whether a rate or level is within the bounds, which are inclusive.
    pub fn admits(&self, rate: f64) -> bool {
        self.min.is_none_or(|min| rate >= min) && self.max.is_none_or(|max| rate <= max)
    }

    /// The amount that covers the time between two points of a lane.
    ///
    /// It depends only on the two points, so a late point has the same result as a replay in order
    /// of time.
    pub(crate) fn between(&self, earlier: &Point, later: &Point) -> Result<(Span, Amount), Gap> {
        let span = Span::new(earlier.at_us, later.at_us).map_err(|_| Gap::Silence)?;
        if span.us() > self.heartbeat_us {
            return Err(Gap::Silence);
        }
        let amount = match (self.kind, earlier.reading, later.reading) {
            (_, Reading::Unknown, _) | (_, _, Reading::Unknown) => return Err(Gap::Unknown),
            (Kind::Total, Reading::Level(from), Reading::Level(to)) => growth(from, to, span)?,
            (Kind::Counter, Reading::Unsigned(from), Reading::Unsigned(to)) => {
                Amount::Count(counter_difference(from, to)?)
            }
            (_, Reading::Signed(from), Reading::Signed(to)) => {
                let difference = i128::from(to) - i128::from(from);
                if difference.unsigned_abs() > COUNT_MAX as u128 {
                    return Err(Gap::TooLarge);
                }
                Amount::Count(difference as i64)
            }
            (_, _, Reading::Unsigned(count)) => Amount::Count(count as i64),
            (_, _, Reading::Level(value)) => Amount::Level(value),
            // A lane has readings of one kind, so this is unreachable; two different ones give no
            // amount.
            (_, _, Reading::Signed(_)) => return Err(Gap::First),
        };
        if self.admits(amount.rate(span)) { Ok((span, amount)) } else { Err(Gap::OutOfBounds) }
    }
}

/// The increase of a counter.
///
/// A counter that decreased has wrapped or restarted. It is taken to have wrapped if that gives a
/// small difference: less than 2^31 for one that was below 2^32, at most 2^53 for one that wraps at
/// 2^64. Otherwise it has restarted, and the count before the restart is unknown.
fn counter_difference(from: u64, to: u64) -> Result<i64, Gap> {
    let difference = if to >= from {
        to - from
    } else {
        let (wrapped, small) = if from < 1 << 32 {
            (to.wrapping_sub(from) & u64::from(u32::MAX), (1 << 31) - 1)
        } else {
            (to.wrapping_sub(from), COUNT_MAX as u64)
        };
        if wrapped > small {
            return Err(Gap::Reset);
        }
        wrapped
    };
    match i64::try_from(difference) {
        Ok(difference) if difference <= COUNT_MAX => Ok(difference),
        _ => Err(Gap::TooLarge),
    }
}

/// The limit on a growth that is kept as a count. A slot can hold thousands of them.
const GROWTH_MAX: f64 = (1_u64 << 40) as f64;

/// The growth of a total: a count if it is a whole number below 2^40, otherwise a rate.
fn growth(from: f64, to: f64, span: Span) -> Result<Amount, Gap> {
    let growth = to - from;
    if growth < 0.0 {
        return Err(Gap::Reset);
    }
    if from.fract() == 0.0 && to.fract() == 0.0 && growth < GROWTH_MAX {
        return Ok(Amount::Count(growth as i64));
    }
    Ok(Amount::Level(growth * SECOND_US as f64 / span.us() as f64))
}

/// The value of a point, depending on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// A gauge's level, or a total.
    Level(f64),
    /// A counter's total, or an absolute's count.
    Unsigned(u64),
    /// A derive's total.
    Signed(i64),
    /// No value: the time before it and after it, up to the next points, is unknown.
    Unknown,
}

impl Reading {
    /// The reading as a double; integers beyond 2^53 are rounded, and [`Reading::Unknown`] is NaN.
    pub fn as_f64(self) -> f64 {
        match self {
            Reading::Level(value) => value,
            Reading::Unsigned(value) => value as f64,
            Reading::Signed(value) => value as f64,
            Reading::Unknown => f64::NAN,
        }
    }

    /// Checks that a series of `kind` can have the reading.
    ///
    /// # Errors
    /// [`Refusal::WrongKind`], [`Refusal::NotANumber`], [`Refusal::Infinite`], and
    /// [`Refusal::TooLarge`] for an absolute beyond 2^53, because it is a count, and
    /// [`Refusal::NegativeCounter`] for a negative total.
    pub fn checked(self, kind: Kind) -> Result<Reading, Refusal> {
        match (kind, self) {
            (Kind::Gauge, Reading::Level(value)) => finite(value).map(Reading::Level),
            (Kind::Total, Reading::Level(value)) => Kind::Total.reading(value),
            (Kind::Count | Kind::Level, Reading::Unknown) => Err(Refusal::WrongKind),
            (_, Reading::Unknown) => Ok(self),
            (Kind::Absolute, Reading::Unsigned(count)) if count > COUNT_MAX as u64 => {
                Err(Refusal::TooLarge)
            }
            (Kind::Counter | Kind::Absolute, Reading::Unsigned(_))
            | (Kind::Derive, Reading::Signed(_)) => Ok(self),
            _ => Err(Refusal::WrongKind),
        }
    }
}

/// A value at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Microseconds since the epoch.
    pub at_us: i64,
    /// The value.
    pub reading: Reading,
}

/// Why the time before an accepted point is unknown.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// There is no point before it.
    #[error("it is the lane's first point")]
    First,
    /// The previous point is further away than the heartbeat.
    #[error("the gap before it was longer than the heartbeat")]
    Silence,
    /// One of the two points has no value.
    #[error("it has no value, or the point before it has none")]
    Unknown,
    /// The counter was reset.
    #[error("the counter was reset")]
    Reset,
    /// The rate or level is outside the bounds.
    #[error("its rate is outside the series' bounds")]
    OutOfBounds,
    /// The difference is larger than 2^53.
    #[error("it differs from the point before it by more than 2^53")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: Kind) -> Spec {
        Spec::new(kind, Step::from_secs(10).unwrap())
    }

    fn count(kind: Kind, from: Reading, to: Reading) -> Result<i64, Gap> {
        let earlier = Point { at_us: 0, reading: from };
        let later = Point { at_us: SECOND_US, reading: to };
        spec(kind).between(&earlier, &later).map(|(_, amount)| match amount {
            Amount::Count(count) => count,
            Amount::Level(value) => panic!("a level of {value} from a {kind:?}"),
        })
    }

    #[test]
    fn a_counter_wraps_exactly_or_restarts() {
        let counter =
            |from, to| count(Kind::Counter, Reading::Unsigned(from), Reading::Unsigned(to));
        assert_eq!(counter(5, 12), Ok(7));
        assert_eq!(counter(u64::from(u32::MAX), 0), Ok(1), "RRDtool makes it 0");
        assert_eq!(counter(u64::from(u32::MAX) - 9, 5), Ok(15));
        assert_eq!(counter(u64::MAX, 4), Ok(5));
        assert_eq!(counter(1_000, 0), Err(Gap::Reset));
        assert_eq!(counter(1 << 40, 3), Err(Gap::Reset));
        assert_eq!(counter(1 << 63, 3), Err(Gap::Reset));
        assert_eq!(counter(0, u64::MAX), Err(Gap::TooLarge));
    }

    #[test]
    fn a_total_grows_by_fractions_and_never_wraps() {
        let total = |from, to| {
            let earlier = Point { at_us: 0, reading: Reading::Level(from) };
            let later = Point { at_us: 4 * SECOND_US, reading: Reading::Level(to) };
            spec(Kind::Total).between(&earlier, &later).map(|(_, amount)| amount)
        };
        assert_eq!(total(5.0, 12.0), Ok(Amount::Count(7)));
        assert_eq!(total(5.0, 5.0), Ok(Amount::Count(0)));
        assert_eq!(total(0.25, 1.25), Ok(Amount::Level(0.25)), "per second");
        assert_eq!(total(0.0, GROWTH_MAX), Ok(Amount::Level(GROWTH_MAX / 4.0)));
        assert_eq!(total(4_294_967_295.0, 0.0), Err(Gap::Reset));
        assert_eq!(Kind::Total.reading(-0.5), Err(Refusal::NegativeCounter));
        assert_eq!(Kind::Total.reading(f64::INFINITY), Err(Refusal::Infinite));
        assert_eq!(Kind::Total.flavor(), Flavor::Flow);
    }

    #[test]
    fn a_derive_is_signed_and_may_change_its_sign() {
        let derive = |from, to| count(Kind::Derive, Reading::Signed(from), Reading::Signed(to));
        assert_eq!(derive(5, -7), Ok(-12));
        assert_eq!(derive(-7, 5), Ok(12));
        assert_eq!(derive(i64::MIN, i64::MAX), Err(Gap::TooLarge));
    }

    #[test]
    fn silence_equal_to_the_heartbeat_is_accepted() {
        let spec = spec(Kind::Gauge);
        let at = |at_us| Point { at_us, reading: Reading::Level(1.0) };
        assert!(spec.between(&at(0), &at(spec.heartbeat_us)).is_ok());
        assert_eq!(spec.between(&at(0), &at(spec.heartbeat_us + 1)), Err(Gap::Silence));
    }

    #[test]
    fn bounds_are_inclusive_and_are_those_of_the_rate() {
        let bounded = Spec { min: Some(0.0), max: Some(3.5), ..spec(Kind::Absolute) };
        let at = |at_us, count| Point { at_us, reading: Reading::Unsigned(count) };
        assert!(bounded.between(&at(0, 0), &at(2 * SECOND_US, 7)).is_ok());
        assert_eq!(bounded.between(&at(0, 0), &at(2 * SECOND_US, 8)), Err(Gap::OutOfBounds));
    }

    #[test]
    fn readings_are_refused_with_their_reason() {
        assert_eq!(Kind::Gauge.reading(f64::NAN), Err(Refusal::NotANumber));
        assert_eq!(Kind::Gauge.reading(f64::NEG_INFINITY), Err(Refusal::Infinite));
        assert_eq!(Kind::Counter.reading(f64::NEG_INFINITY), Err(Refusal::Infinite));
        assert_eq!(Kind::Counter.reading(-1.0), Err(Refusal::NegativeCounter));
        assert_eq!(Kind::Counter.reading(1.5), Err(Refusal::Fraction));
        assert_eq!(Kind::Derive.reading(-1e16), Err(Refusal::TooLarge));
        assert_eq!(Kind::Derive.reading(-5.0), Ok(Reading::Signed(-5)));
        assert_eq!(Kind::Count.reading(1.0), Err(Refusal::WrongKind));
        assert_eq!(Reading::Unsigned(u64::MAX).checked(Kind::Absolute), Err(Refusal::TooLarge));
        assert!(Reading::Unsigned(u64::MAX).checked(Kind::Counter).is_ok());
        assert_eq!(Reading::Level(1.0).checked(Kind::Derive), Err(Refusal::WrongKind));
    }
}
