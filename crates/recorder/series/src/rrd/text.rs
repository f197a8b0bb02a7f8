//! Doubles in stored states, as text: JSON has no form for NaN and infinities.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Writes the shortest text that parses as the same double.
pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads such a text.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom(format!("'{text}' is not a number")))
}
