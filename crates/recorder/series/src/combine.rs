//! Combines the lanes of a series.

use crate::{Accumulator, Flavor, Integral, SECOND_US, Step};

/// A slot of a series over all its lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CombinedSlot {
    /// Σ integral: for a flow, the total.
    pub integral: Integral,
    /// Known microseconds: Σ covered, at most the step.
    pub covered_us: i64,
    /// The rate per second or the level; `None` (unknown) if too little is covered.
    pub rate: Option<f64>,
    /// The minimum value or rate in any one lane.
    pub min: Option<f64>,
    /// The maximum value or rate in any one lane.
    pub max: Option<f64>,
    /// Number of updates.
    pub n: i64,
}

/// Combines a slot's lanes.
///
/// A flow's lanes add up, and its rate is their total ÷ the covered time, so rate × covered is the
/// total. A level is Σ integral ÷ Σ covered, the time-weighted average. The time that lanes cover
/// together is taken to be the sum of what each covers, at most the step: exact if each covers the
/// whole slot or one takes over from another. If all lanes lack the same part of a slot, only the
/// lanes' own rows show it.
///
/// Unknown if less than `(1 − xff)` of the step is covered.
pub fn combine<'a>(
    flavor: Flavor,
    step: Step,
    xff: f64,
    lanes: impl IntoIterator<Item = &'a Accumulator>,
) -> CombinedSlot {
    let mut sum = Accumulator::EMPTY;
    for lane in lanes {
        sum.merge(lane);
    }
    let covered_us = sum.covered_us.min(step.us());
    let known = sum.rate(step, xff);
    let rate = match flavor {
        Flavor::Level => known,
        Flavor::Flow => {
            known.map(|_| sum.integral.as_f64() / (covered_us as f64 / SECOND_US as f64))
        }
    };
    debug_assert!(rate.is_none() || covered_us > 0, "a rate of no time");
    CombinedSlot {
        integral: sum.integral,
        covered_us,
        rate,
        min: sum.min(),
        max: sum.max(),
        n: sum.n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(integral: Integral, covered_s: i64) -> Accumulator {
        Accumulator { integral, covered_us: covered_s * SECOND_US, ..Accumulator::EMPTY }
    }

    fn rate(flavor: Flavor, lanes: &[Accumulator]) -> Option<f64> {
        combine(flavor, Step::from_secs(10).unwrap(), 0.5, lanes).rate
    }

    #[test]
    fn flows_add_and_levels_are_averaged_by_time() {
        let flows = [lane(Integral::Count(100), 10), lane(Integral::Count(50), 10)];
        assert_eq!(rate(Flavor::Flow, &flows), Some(15.0));
        let levels = [lane(Integral::Area(100.0), 10), lane(Integral::Area(10.0), 5)];
        assert_eq!(rate(Flavor::Level, &levels), Some(110.0 / 15.0));
    }

    #[test]
    fn a_process_that_takes_over_from_another_leaves_the_rate_as_it_was() {
        let flows = [lane(Integral::Count(50), 5), lane(Integral::Count(50), 5)];
        assert_eq!(rate(Flavor::Flow, &flows), Some(10.0));
    }

    #[test]
    fn too_little_is_unknown() {
        assert_eq!(rate(Flavor::Flow, &[lane(Integral::Count(5), 4)]), None);
        assert_eq!(rate(Flavor::Level, &[]), None);
    }
}
