//! Estimates and verdicts of comparisons.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An estimate with its confidence interval, in the unit of the estimated quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate; NaN without data, `null` in JSON.
    #[serde(serialize_with = "null_if_not_finite", deserialize_with = "nan_if_null")]
    pub value: f64,
    /// Lower end of the interval.
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
    fn words_in_json_are_those_of_the_schema() {
        let words = [
            (Verdict::Faster, "\"faster\""),
            (Verdict::Slower, "\"slower\""),
            (Verdict::NoDifference, "\"no_difference\""),
            (Verdict::Equivalent, "\"equivalent\""),
            (Verdict::Inconclusive, "\"inconclusive\""),
            (Verdict::Invalid, "\"invalid\""),
        ];
        for (verdict, word) in words {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), word);
        }
    }
}
