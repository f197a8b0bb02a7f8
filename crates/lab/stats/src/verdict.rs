//! Estimates and verdicts of comparisons.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::stalls::Margins;

/// An estimate with its confidence interval, in the unit of the estimated quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate; NaN without data, `null` in JSON.
    #[serde(serialize_with = "null_if_not_finite", deserialize_with = "nan_if_null")]
    pub value: f64,
    /// Lower end of the interval; NaN without data, `null` in JSON.
    #[serde(serialize_with = "null_if_not_finite", deserialize_with = "nan_if_null")]
    pub low: f64,
    /// Upper end of the interval; infinite if there are too few blocks, `null` in JSON.
    #[serde(serialize_with = "null_if_not_finite", deserialize_with = "infinite_if_null")]
    pub high: f64,
}

impl Estimate {
    /// The estimate exp(mean) with the interval exp(mean ± half-width), from the log scale.
    pub fn from_log(mean: f64, half_width: f64) -> Estimate {
        debug_assert!(half_width >= 0.0 || half_width.is_nan(), "half-width {half_width}");
        let value = mean.exp();
        if half_width.is_finite() {
            Estimate { value, low: (mean - half_width).exp(), high: (mean + half_width).exp() }
        } else {
            Estimate { value, low: 0.0, high: f64::INFINITY }
        }
    }

    /// This ratio as a multiple of an independent one, with an interval at the same confidence.
    ///
    /// In logarithms, the distance from the estimate to each end is the root of the sum of the
    /// squares of the two distances that move the quotient in this direction (MOVER: Zou & Donner
    /// 2008, Statistics in Medicine 27, 1693–1702). Unbounded if one of the two is.
    pub fn relative_to(&self, other: &Estimate) -> Estimate {
        let value = self.value / other.value;
        if !(self.is_bounded() && other.is_bounded() && self.low > 0.0 && other.low > 0.0) {
            return Estimate { value, low: 0.0, high: f64::INFINITY };
        }
        let apart = |high: f64, low: f64| (high / low).ln();
        let down = apart(self.value, self.low).hypot(apart(other.high, other.value));
        let up = apart(self.high, self.value).hypot(apart(other.value, other.low));
        Estimate { value, low: value * (-down).exp(), high: value * up.exp() }
    }

    /// The interval, further on both sides by this on a logarithmic scale.
    pub fn widened(&self, log_bound: f64) -> Estimate {
        let factor = log_bound.exp();
        Estimate { low: self.low / factor, high: self.high * factor, ..*self }
    }

    /// The interval, at least as far from the value as these margins.
    pub fn at_least(&self, margins: Margins) -> Estimate {
        Estimate {
            low: self.low.min(self.value * (-margins.below).exp()),
            high: self.high.max(self.value * margins.above.exp()),
            ..*self
        }
    }

    /// The longer side of the interval on a logarithmic scale; infinite if a side is unbounded.
    pub fn half_width_log(&self) -> f64 {
        let side = |from: f64, to: f64| match (to / from).ln() {
            half if half.is_finite() => half.max(0.0),
            _ => f64::INFINITY,
        };
        side(self.low, self.value).max(side(self.value, self.high))
    }

    /// Whether `value` is in the interval, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the interval is bounded on both sides.
    pub fn is_bounded(&self) -> bool {
        self.value.is_finite() && self.low.is_finite() && self.high.is_finite()
    }
}

fn null_if_not_finite<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { to.serialize_f64(*value) } else { to.serialize_none() }
}

fn infinite_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
}

fn nan_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A verdict on `variant ÷ baseline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval is on the better side of 1.
    Faster,
    /// The interval is on the worse side of 1.
    Slower,
    /// The interval includes 1 and has the target precision.
    NoDifference,
    /// Within a declared margin (two one-sided tests).
    Equivalent,
    /// The interval is too wide, or the second opinion disagrees.
    Inconclusive,
    /// The data are invalid.
    Invalid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unbounded_estimate_survives_json() {
        let unbounded = Estimate { value: 1.5, low: 0.0, high: f64::INFINITY };
        let text = serde_json::to_string(&unbounded).unwrap();
        assert_eq!(text, r#"{"value":1.5,"low":0.0,"high":null}"#);
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), unbounded);
        let nothing = Estimate::from_log(f64::NAN, f64::INFINITY);
        let text = serde_json::to_string(&nothing).unwrap();
        assert_eq!(text, r#"{"value":null,"low":0.0,"high":null}"#);
        assert!(serde_json::from_str::<Estimate>(&text).unwrap().value.is_nan());
    }

    #[test]
    fn a_ratio_of_ratios_has_the_uncertainty_of_both() {
        let ratio = |mean: f64, half: f64| Estimate::from_log(mean, half);
        let of = ratio(0.5, 0.3).relative_to(&ratio(0.2, 0.4));
        // 0.3² + 0.4² = 0.5².
        for (got, want) in [(of.value, 0.3_f64), (of.low, -0.2), (of.high, 0.8)] {
            assert!((got.ln() - want).abs() < 1e-12, "{of:?}");
        }
        // Uneven intervals: down by 0.3 and 0.4, up by 0.6 and 0.8.
        let uneven = |value: f64, down: f64, up: f64| Estimate {
            value: value.exp(),
            low: (value - down).exp(),
            high: (value + up).exp(),
        };
        let of = uneven(1.0, 0.3, 0.6).relative_to(&uneven(1.0, 0.8, 0.4));
        assert!((of.low.ln() + 0.5).abs() < 1e-12 && (of.high.ln() - 1.0).abs() < 1e-12, "{of:?}");
        // What is certain adds nothing; what is unknown leaves nothing known.
        let exact = Estimate { value: 2.0, low: 2.0, high: 2.0 };
        assert_eq!(exact.relative_to(&exact), Estimate { value: 1.0, low: 1.0, high: 1.0 });
        let unknown = ratio(0.1, f64::INFINITY);
        assert!(!exact.relative_to(&unknown).is_bounded());
        assert!(!unknown.relative_to(&exact).is_bounded());
    }
}
