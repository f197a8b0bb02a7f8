//! The amount of an update, and what numbers it may be.

use serde::{Deserialize, Serialize};

use crate::time::Piece;
use crate::{Integral, Refusal, SECOND_US, Span};

/// Limit on the count of one update: 2^53, up to which a double in a database is exact.
pub const COUNT_MAX: i64 = 1 << 53;

/// Limit on the absolute value of a level: sums of areas stay far from overflow.
pub const LEVEL_MAX: f64 = 1e200;

/// The amount of an update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// A number of events, spread evenly.
    Count(i64),
    /// A constant level, or a rate per second.
    Level(f64),
}

impl Amount {
    /// The amount as it was sent.
    pub fn as_f64(self) -> f64 {
        match self {
            Amount::Count(count) => count as f64,
            Amount::Level(value) => value,
        }
    }

    /// The rate per second over `span`, or the level.
    pub fn rate(self, span: Span) -> f64 {
        match self {
            Amount::Count(count) => count as f64 / span.seconds(),
            Amount::Level(value) => value,
        }
    }

    /// The share of a piece of length `us`.
    #[inline]
    pub(crate) fn share(self, piece: Piece, us: i64) -> Integral {
        match self {
            Amount::Count(count) => Integral::Count(
                given_out(count, piece.to_us, us) - given_out(count, piece.from_us, us),
            ),
            Amount::Level(value) => {
                Integral::Area(value * (piece.to_us - piece.from_us) as f64 / SECOND_US as f64)
            }
        }
    }
}

/// How much of `count` belongs to the first `offset_us` of a span of `us`.
///
/// Rounded towards zero, so that a negated count is split into the negated pieces.
fn given_out(count: i64, offset_us: i64, us: i64) -> i64 {
    debug_assert!((0..=us).contains(&offset_us), "the offset is in the span");
    if let Some(product) = count.checked_mul(offset_us) {
        return product / us;
    }
    let exact = i128::from(count) * i128::from(offset_us) / i128::from(us);
    // The quotient is between 0 and count, because the offset is between 0 and us.
    exact as i64
}

/// Checks that a number is neither NaN nor infinite nor too large to sum.
pub(crate) fn finite(value: f64) -> Result<f64, Refusal> {
    if value.is_nan() {
        Err(Refusal::NotANumber)
    } else if value.is_infinite() {
        Err(Refusal::Infinite)
    } else if value.abs() > LEVEL_MAX {
        Err(Refusal::TooLarge)
    } else {
        Ok(value)
    }
}

/// An integer of at most 2^53 in absolute value.
pub(crate) fn whole(value: f64) -> Result<i64, Refusal> {
    let value = finite(value)?;
    if value.fract() != 0.0 {
        Err(Refusal::Fraction)
    } else if value.abs() > COUNT_MAX as f64 {
        Err(Refusal::TooLarge)
    } else {
        Ok(value as i64)
    }
}
