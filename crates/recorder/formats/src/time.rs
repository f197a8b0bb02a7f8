//! Times in text formats, as microseconds since the epoch.

use series::SECOND_US;

/// The unit of integer times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Nanoseconds, truncated to microseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    #[default]
    Seconds,
}

impl Precision {
    /// Parses `ns`, `us`, `ms` or `s`, as in InfluxDB's `precision`.
    pub fn parse(text: &str) -> Option<Precision> {
        match text {
            "ns" | "n" => Some(Precision::Nanoseconds),
            "us" | "u" | "µs" => Some(Precision::Microseconds),
            "ms" => Some(Precision::Milliseconds),
            "s" => Some(Precision::Seconds),
            _ => None,
        }
    }

    /// Its name, as [`Precision::parse`] reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Nanoseconds => "ns",
            Precision::Microseconds => "us",
            Precision::Milliseconds => "ms",
            Precision::Seconds => "s",
        }
    }

    /// A time of this unit in microseconds; `None` if it does not fit.
    pub fn to_us(self, time: i64) -> Option<i64> {
        match self {
            Precision::Nanoseconds => Some(time.div_euclid(1000)),
            Precision::Microseconds => Some(time),
            Precision::Milliseconds => time.checked_mul(1000),
            Precision::Seconds => time.checked_mul(SECOND_US),
        }
    }
}

/// Arrival time of the input, for formats and lines without times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The clock, in microseconds since the epoch: horizons are relative to it.
    pub now_us: i64,
    /// Arrival time of lines without a time, if known: now for a socket, the user's choice for a
    /// file.
    pub at_us: Option<i64>,
}

impl Arrival {
    /// Input that arrives now.
    pub const fn live(now_us: i64) -> Arrival {
        Arrival { now_us, at_us: Some(now_us) }
    }

    /// Arrival time of a line in a format where no time means now.
    pub fn or_now_us(&self) -> i64 {
        self.at_us.unwrap_or(self.now_us)
    }
}

/// Parses an integer of `precision`, seconds with a fraction, or an RFC 3339 time.
pub fn parse_time(text: &str, precision: Precision) -> Option<i64> {
    if let Ok(time) = text.parse() {
        return precision.to_us(time);
    }
    match precision {
        Precision::Seconds => decimal_seconds(text).or_else(|| rfc_3339(text)),
        _ => rfc_3339(text),
    }
}

/// Parses seconds with or without a fraction, exactly; truncates to microseconds.
pub(crate) fn decimal_seconds(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let places = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let micros = places.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let us = seconds.checked_mul(SECOND_US)?.checked_add(micros)?;
    Some(if negative { -us } else { us })
}

fn rfc_3339(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_microsecond() {
        for (text, precision, us) in [
            ("1430701282", Precision::Seconds, Some(1_430_701_282_000_000)),
            ("1430701282.25", Precision::Seconds, Some(1_430_701_282_250_000)),
            ("1430701282.0000019", Precision::Seconds, Some(1_430_701_282_000_001)),
            ("-1.5", Precision::Seconds, Some(-1_500_000)),
            ("1556813561098000999", Precision::Nanoseconds, Some(1_556_813_561_098_000)),
            ("-1", Precision::Nanoseconds, Some(-1)),
            ("1556813561098", Precision::Milliseconds, Some(1_556_813_561_098_000)),
            ("2015-05-04T01:01:22Z", Precision::Seconds, Some(1_430_701_282_000_000)),
            ("2015-05-04T03:01:22.5+02:00", Precision::Nanoseconds, Some(1_430_701_282_500_000)),
            ("9223372036854775807", Precision::Seconds, None),
            ("9223372036854775.9", Precision::Seconds, None),
            ("1.5", Precision::Milliseconds, None),
            ("1e9", Precision::Seconds, None),
            ("2015-05-04 01:01:22", Precision::Seconds, None),
            ("", Precision::Seconds, None),
            (".5", Precision::Seconds, None),
        ] {
            assert_eq!(parse_time(text, precision), us, "{text} in {precision:?}");
        }
    }

    #[test]
    fn precisions_are_those_of_influxdb() {
        assert_eq!(Precision::parse("ns"), Some(Precision::Nanoseconds));
        assert_eq!(Precision::parse("s"), Some(Precision::Seconds));
        assert_eq!(Precision::parse("h"), None);
        for name in ["ns", "us", "ms", "s"] {
            assert_eq!(Precision::parse(name).unwrap().name(), name);
        }
    }
}
