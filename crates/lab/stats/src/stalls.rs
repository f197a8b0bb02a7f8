//! Stalls that are too rare for their spread over blocks.
//!
//! If a server stalls twice in all that was measured of it, most blocks contain no stall, and a
//! comparison may by chance contain none at all: the spread over blocks then says nothing about
//! stalls, and Student's interval is too narrow. What such a variant may have lost is bounded by the
//! number of stalls instead: if they come independently, their number is Poisson-distributed, and
//! their sum is a weighted sum of Poisson counts, for which Fay and Feuer (Statistics in Medicine 16,
//! 1997, 791–801) give an interval by the gamma distribution.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Gamma};

/// From this number on, blocks contain enough stalls for Student's interval: in simulations with 6 to
/// 30 blocks, it then covers at least 94%.
const RARE_BELOW: f64 = 20.0;

/// With fewer stalls than this, those that make a p99 may not have been met. In simulations with a limit
/// of 40, 6% of the intervals of servers that stop end below their p99; with 60, 3%.
const FEW_BELOW: f64 = 60.0;

/// How many times as long as the longest stall others may be, at most. In simulations of servers that
/// stop at random times, 3% of the intervals of p99 end below it; without this allowance, 32%
/// (`crates/dev/zoo/src/slices.rs`).
const LONGER_MAX: f64 = 1.5;

/// Stalls of one variant, as shares of the time for which its connections were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Sum of what they took: 0.1 if connections were stalled for a tenth of their time.
    pub sum: f64,
    /// Sum of the squares.
    pub squares: f64,
    /// What the largest took. If none was measured, what one would have taken that was seen elsewhere.
    pub largest: f64,
}

/// By how much the logarithm of a throughput may be off, in both directions; not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Margins {
    /// How much lower it may be.
    pub below: f64,
    /// How much higher.
    pub above: f64,
}

impl Stalls {
    /// The number of equally large stalls with the same sum and variance.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// Whether there were any, but too few.
    pub fn are_rare(&self) -> bool {
        self.largest > 0.0 && self.effective() < RARE_BELOW
    }

    /// The margins of a throughput at the error probability `alpha`; none if stalls are not rare.
    pub fn margins(&self, alpha: f64) -> Margins {
        if !self.are_rare() {
            return Margins::default();
        }
        let (low, high) = self.interval(alpha);
        let without = (1.0 - self.sum).max(f64::MIN_POSITIVE);
        Margins { below: (without + high).ln().max(0.0), above: -(without + low).ln().min(0.0) }
    }

    /// The value that the quantile `q` of a latency may reach if stalls delayed these shares of the
    /// requests, and the longest that was met took `longest`: a stall delays the requests that are due
    /// meanwhile by equally distributed times. Zero if stalls are not few, or delay too few requests.
    pub fn quantile_at_most(&self, q: f64, longest: f64, alpha: f64) -> f64 {
        let are_few = self.largest > 0.0 && self.effective() < FEW_BELOW;
        let share = if are_few { self.interval(alpha).1.min(1.0) } else { 0.0 };
        let longest = longest * self.longer(alpha);
        if share > 1.0 - q { longest * (1.0 - (1.0 - q) / share) } else { 0.0 }
    }

    /// How many times as long as the longest of these stalls others may be: often it is two in a row
    /// that make a percentile. Of n stalls with uniformly distributed lengths, all are shorter than a
    /// share x of the limit with the probability xⁿ, which gives the limit's upper bound.
    fn longer(&self, alpha: f64) -> f64 {
        (alpha / 2.0).powf(-1.0 / self.effective().max(1.0)).min(LONGER_MAX)
    }

    /// Fay and Feuer's interval of the sum.
    fn interval(&self, alpha: f64) -> (f64, f64) {
        let quantile = |sum: f64, squares: f64, p: f64| {
            // Chi-square with 2·sum²/squares degrees of freedom, times squares/(2·sum).
            let gamma = Gamma::new(sum * sum / squares, sum / squares);
            gamma.map_or(f64::NAN, |gamma| gamma.inverse_cdf(p))
        };
        let low = match self.sum > 0.0 {
            true => quantile(self.sum, self.squares, alpha / 2.0),
            false => 0.0,
        };
        let (sum, squares) = (self.sum + self.largest, self.squares + self.largest.powi(2));
        (low, quantile(sum, squares, 1.0 - alpha / 2.0))
    }
}

impl Margins {
    /// The margins of the ratio of one throughput to another, which vary independently (MOVER: Zou
    /// & Donner 2008).
    pub fn over(self, baseline: Margins) -> Margins {
        Margins { below: self.below.hypot(baseline.above), above: self.above.hypot(baseline.below) }
    }

    /// The larger of both.
    pub fn largest(&self) -> f64 {
        self.below.max(self.above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(number: u32, each: f64) -> Stalls {
        let number = f64::from(number);
        Stalls { sum: number * each, squares: number * each * each, largest: each }
    }

    #[test]
    fn equal_stalls_have_the_exact_interval_of_a_poisson_count() {
        // Garwood's 95% intervals of the counts 0, 1, 3 and 10.
        for (number, low, high) in
            [(0, 0.0, 3.689), (1, 0.0253, 5.572), (3, 0.6187, 8.767), (10, 4.795, 18.39)]
        {
            let found = equal(number, 0.01).interval(0.05);
            assert!((found.0 - 0.01 * low).abs() < 1e-5, "{number}: {found:?}");
            assert!((found.1 - 0.01 * high).abs() < 1e-4, "{number}: {found:?}");
        }
    }

    #[test]
    fn a_stopping_server_that_did_not_stop_seemed_equal() {
        // A stop that was seen elsewhere would have taken 3% of the measured time.
        let margins = equal(0, 0.03).margins(0.05);
        assert!((margins.below - 1.11068_f64.ln()).abs() < 1e-4, "{margins:?}");
        assert_eq!(margins.above, 0.0);
        assert_eq!(Stalls::default().margins(0.05), Margins::default());
        assert_eq!(equal(20, 0.01).margins(0.05), Margins::default(), "not rare");
    }

    #[test]
    fn the_p99_of_a_server_whose_stops_were_not_met_was_that_of_one_without() {
        // No stop in 2,000 requests, but one of 0.66 s elsewhere, which would have delayed 354: up to
        // 3.689 of them may delay 65% of the requests, and 1% by more than 0.65 s, or half as much
        // again.
        let unseen = equal(0, 354.0 / 2_000.0);
        let at_most = unseen.quantile_at_most(0.99, 0.66, 0.05);
        assert!((at_most - 1.5 * 0.66 * (1.0 - 0.01 / 0.6529)).abs() < 1e-3, "{at_most}");
        assert_eq!(equal(0, 0.002).quantile_at_most(0.99, 0.66, 0.05), 0.0, "at most 0.7%");
        assert!(equal(59, 0.01).quantile_at_most(0.99, 0.66, 0.05) > 0.66);
        assert_eq!(equal(60, 0.01).quantile_at_most(0.99, 0.66, 0.05), 0.0, "not few");
    }

    #[test]
    fn two_stops_in_a_row_were_longer_than_the_longest_that_was_met() {
        for (number, longer) in [(0, 1.5), (1, 1.5), (9, 1.5), (12, 1.3599), (19, 1.2143)] {
            let found = equal(number, 0.01).longer(0.05);
            assert!((found - longer).abs() < 1e-4, "{number}: {found}");
        }
        // Each of 16 stops took 0.1 s, and delayed 0.5% of the requests: up to 26 may delay 13%.
        let at_most = equal(16, 0.005).quantile_at_most(0.99, 0.1, 0.05);
        assert!((at_most - 0.1 * 1.2594 * (1.0 - 0.01 / 0.1299)).abs() < 1e-4, "{at_most}");
    }

    #[test]
    fn margins_of_a_ratio_are_those_of_both() {
        let (a, b) = (Margins { below: 0.03, above: 0.0 }, Margins { below: 0.04, above: 0.03 });
        let ratio = b.over(a);
        assert!(
            (ratio.below - 0.04).abs() < 1e-12 && (ratio.above - 0.0018_f64.sqrt()).abs() < 1e-12
        );
        assert_eq!(ratio.largest(), ratio.above);
    }
}
