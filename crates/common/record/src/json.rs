//! Values in JSON where serde's own form would lose something.

use base::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

/// RFC 3339 in UTC with nine decimals, so that text order is time order.
pub(crate) fn nine_decimals<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{at:.9}"))
}

/// JSON has no NaN, and serde writes null instead.
pub(crate) fn nan_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}
