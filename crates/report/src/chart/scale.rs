//! Axes: from values to pixels, and tick values.

/// A linear or logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// Linear: `low` is at pixel `from`, `high` at `to`.
    pub(crate) fn linear(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, from, to, log: false }
    }

    /// Logarithmic; values must be positive.
    pub(crate) fn log(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = low.max(f64::MIN_POSITIVE);
        let high = if high > low { high } else { low * 2.0 };
        Scale { low, high, from, to, log: true }
    }

    /// Linear, from slightly below the values to slightly above, or from zero if the smallest is
    /// small; logarithmic if they span more than a factor of eight.
    pub(crate) fn around(values: &[f64], from: f64, to: f64) -> Scale {
        let (low, high) = extent(values);
        if low > 0.0 && high / low > 8.0 {
            return Scale::log(low / 1.15, high * 1.15, from, to);
        }
        let margin = ((high - low) * 0.12).max(high.abs() * 0.004);
        let bottom = if low >= 0.0 && low < high * 0.5 { 0.0 } else { low - margin };
        Scale::linear(bottom, high + margin, from, to)
    }

    /// The pixel of a value; values beyond the axis are at its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// Round values on the axis, about as many as `wanted`.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log && self.high / self.low >= 3.0 {
            log_ticks(self.low, self.high, wanted)
        } else {
            linear_ticks(self.low, self.high, wanted)
        }
    }
}

/// The smallest and the largest finite value; 0 and 1 if there is none.
pub(crate) fn extent(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Multiples of 1, 2 or 5 times a power of ten within the range.
fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let raw = (high - low) / wanted.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let step = step.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(power * 10.0);
    let first = (low / step).ceil() as i64;
    let last = (high / step * (1.0 + 1e-12)).floor() as i64;
    (first..=last.min(first + 100)).map(|i| i as f64 * step).collect()
}

/// Powers of ten, with as many round values between them as fit.
fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    const SETS: [&[f64]; 4] =
        [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 5.0], &[1.0]];
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all = |set: &[f64], every: i32| -> Vec<f64> {
        (from..=to)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| set.iter().map(move |m| m * 10f64.powi(power)))
            .filter(|tick| *tick >= low * 0.9999 && *tick <= high * 1.0001)
            .collect()
    };
    for set in SETS {
        let ticks = all(set, 1);
        if ticks.len() <= wanted + 1 {
            return ticks;
        }
    }
    let every = (to - from) / wanted.max(1) as i32 + 1;
    all(SETS[3], every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(linear_ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(1812.0, 2104.0, 5), [1900.0, 2000.0, 2100.0]);
        assert_eq!(log_ticks(0.8, 60.0, 6), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(1.0, 1e9, 4), [1.0, 1e3, 1e6, 1e9]);
    }

    #[test]
    fn a_log_axis_that_is_short_has_straight_ticks() {
        let ticks = Scale::log(0.95, 1.2, 0.0, 100.0).ticks(5);
        let wanted = [0.95, 1.0, 1.05, 1.1, 1.15, 1.2];
        assert_eq!(ticks.len(), wanted.len());
        assert!(ticks.iter().zip(wanted).all(|(tick, wanted)| (tick - wanted).abs() < 1e-9));
    }

    #[test]
    fn values_find_their_pixel() {
        let scale = Scale::linear(0.0, 10.0, 100.0, 0.0);
        assert_eq!((scale.at(0.0), scale.at(5.0), scale.at(99.0)), (100.0, 50.0, 0.0));
        let log = Scale::log(1.0, 100.0, 0.0, 200.0);
        assert!((log.at(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(log.at(f64::NAN), 0.0);
    }

    #[test]
    fn an_axis_survives_values_that_are_none() {
        for values in [&[][..], &[f64::NAN], &[0.0], &[5.0, 5.0], &[f64::INFINITY]] {
            let scale = Scale::around(values, 0.0, 100.0);
            assert!(scale.at(5.0).is_finite());
            assert!(scale.ticks(5).len() < 20);
        }
    }
}
