//! The content of a slot, and how two of them merge.

use std::ops::{Add, Neg};

use serde::{Deserialize, Serialize};

use crate::{SECOND_US, Step};

/// A slot's integral.
///
/// Counts add as integers modulo 2^64: addition is exact in any order and can always be undone by
/// subtraction, and the sum is right whenever the true sum fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integral {
    /// Σ count.
    Count(i64),
    /// Σ value × seconds.
    Area(f64),
}

impl Integral {
    /// Nothing.
    pub const ZERO: Integral = Integral::Count(0);

    /// The integral as a double: exact for counts up to 2^53.
    pub fn as_f64(self) -> f64 {
        match self {
            Integral::Count(count) => count as f64,
            Integral::Area(area) => area,
        }
    }
}

impl Add for Integral {
    type Output = Integral;
    /// A count plus an area is an area, unless the count is 0: then the area is unchanged.
    fn add(self, other: Integral) -> Integral {
        match (self, other) {
            (Integral::Count(a), Integral::Count(b)) => Integral::Count(a.wrapping_add(b)),
            (Integral::Count(0), area) | (area, Integral::Count(0)) => area,
            (a, b) => Integral::Area(a.as_f64() + b.as_f64()),
        }
    }
}

impl Neg for Integral {
    type Output = Integral;
    fn neg(self) -> Integral {
        match self {
            Integral::Count(count) => Integral::Count(count.wrapping_neg()),
            Integral::Area(area) => Integral::Area(-area),
        }
    }
}

/// What is known about a slot of one lane: additive columns, so that slots merge in any order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulator {
    /// Σ count, or Σ value × seconds.
    pub integral: Integral,
    /// Microseconds that are known. Negative while a retraction waits for what it retracts.
    pub covered_us: i64,
    /// The minimum value or rate per second over any part of the slot; `+∞` without one.
    pub vmin: f64,
    /// The maximum; `−∞` without one.
    pub vmax: f64,
    /// Updates that ended in this slot.
    pub n: i64,
    /// The time of the latest of them; `i64::MIN` without one.
    pub last_us: i64,
    /// Its value as sent: the level, the count, the counter's reading. 0 without one.
    pub last_val: f64,
    /// Something was retracted: `vmin`, `vmax` and the last update may belong to what is gone.
    pub approximate: bool,
}

impl Accumulator {
    /// An unknown slot: the neutral element of [`Accumulator::merge`].
    pub const EMPTY: Accumulator = Accumulator {
        integral: Integral::ZERO,
        covered_us: 0,
        vmin: f64::INFINITY,
        vmax: f64::NEG_INFINITY,
        n: 0,
        last_us: i64::MIN,
        last_val: 0.0,
        approximate: false,
    };

    /// An update that ended at `at_us`, without what it covers.
    pub(crate) fn mark(at_us: i64, value: f64, n: i64) -> Accumulator {
        let mut mark = Accumulator { n, ..Accumulator::EMPTY };
        if n > 0 {
            (mark.last_us, mark.last_val) = (at_us, value);
        }
        mark
    }

    /// Merges another accumulator of the same slot.
    ///
    /// Commutative and associative, with [`Accumulator::EMPTY`] as the neutral element; exactly so
    /// except for areas, which are doubles. Of two last updates at the same microsecond the greater
    /// value wins, so order is irrelevant.
    pub fn merge(&mut self, other: &Accumulator) {
        self.integral = self.integral + other.integral;
        self.covered_us = self.covered_us.wrapping_add(other.covered_us);
        self.vmin = self.vmin.min(other.vmin);
        self.vmax = self.vmax.max(other.vmax);
        self.n = self.n.wrapping_add(other.n);
        let later = other.last_us > self.last_us
            || (other.last_us == self.last_us && other.last_val > self.last_val);
        if later {
            (self.last_us, self.last_val) = (other.last_us, other.last_val);
        }
        self.approximate |= other.approximate;
    }

    /// The minimum value or rate, if any.
    pub fn min(&self) -> Option<f64> {
        self.vmin.is_finite().then_some(self.vmin)
    }

    /// The maximum value or rate, if any.
    pub fn max(&self) -> Option<f64> {
        self.vmax.is_finite().then_some(self.vmax)
    }

    /// The latest update, as its time in microseconds and its value.
    pub fn last(&self) -> Option<(i64, f64)> {
        (self.last_us != i64::MIN).then_some((self.last_us, self.last_val))
    }

    /// Whether the slot is empty: no coverage, no integral, no update.
    pub fn is_void(&self) -> bool {
        self.covered_us == 0 && self.n == 0 && self.integral.as_f64() == 0.0
    }

    /// The rate per second or the level: integral ÷ covered.
    ///
    /// `None` (unknown) if less than `(1 − xff)` of the step is covered, or nothing.
    pub fn rate(&self, step: Step, xff: f64) -> Option<f64> {
        let known = self.covered_us > 0 && self.covered_us as f64 >= (1.0 - xff) * step.us() as f64;
        known.then(|| self.integral.as_f64() / (self.covered_us as f64 / SECOND_US as f64))
    }
}

impl Default for Accumulator {
    fn default() -> Accumulator {
        Accumulator::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_shown_where_enough_is_covered() {
        let step = Step::from_secs(10).unwrap();
        let slot = |covered_s: i64| Accumulator {
            integral: Integral::Count(30),
            covered_us: covered_s * SECOND_US,
            ..Accumulator::EMPTY
        };
        assert_eq!(slot(10).rate(step, 0.0), Some(3.0));
        assert_eq!(slot(9).rate(step, 0.0), None);
        assert_eq!(slot(5).rate(step, 0.5), Some(6.0));
        assert_eq!(slot(4).rate(step, 0.5), None);
        assert_eq!(slot(0).rate(step, 1.0), None, "nothing covered is never known");
        assert_eq!(slot(-5).rate(step, 1.0), None);
    }

    #[test]
    fn an_empty_slot_has_neither_bounds_nor_a_last_update() {
        let empty = Accumulator::EMPTY;
        assert_eq!((empty.min(), empty.max(), empty.last()), (None, None, None));
        assert!(empty.is_void());
        assert!(!Accumulator::mark(5, 1.0, 1).is_void());
    }

    #[test]
    fn sums_beyond_63_bits_come_back() {
        let near = Integral::Count(i64::MAX);
        let over = near + Integral::Count(7);
        assert_eq!(over + Integral::Count(-7), near);
    }
}
