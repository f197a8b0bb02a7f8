//! Quantities with their units: parsing what people type, and printing.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration, or an instant on the monotonic clock, in whole nanoseconds.
///
/// 64 bits hold 584 years. Sums and products stop there instead of wrapping: what was typed or came
/// from another machine can be that long, and then means for ever.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Nanos = Nanos(0);

    /// Whole microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// A duration in seconds; negative and non-finite values become zero.
    pub fn from_secs_f64(secs: f64) -> Nanos {
        Nanos((secs * 1e9).round() as u64)
    }

    /// The duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero if `earlier` is later.
    pub fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Parses `250ms`, `5s`, `1.5m`, `2h`, `80us` or `100ns`; a bare number is seconds.
    pub fn parse(text: &str) -> Result<Nanos, UnitError> {
        let (number, unit) = split_unit(text);
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "" | "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(UnitError::new(text, "a time such as 250ms, 5s or 2m")),
        };
        let value = parse_number(number)
            .ok_or_else(|| UnitError::new(text, "a time such as 250ms, 5s or 2m"))?;
        let nanos = value * scale;
        if nanos > u64::MAX as f64 / 2.0 {
            return Err(UnitError::new(text, "a time shorter than a century"));
        }
        Ok(Nanos(nanos.round() as u64))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits with a suitable unit: `847 ns`, `12.3 µs`, `5.44 ms`, `61.0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        let (value, unit) = match self.0 {
            0..=999 => return f.pad(&format!("{} ns", self.0)),
            1_000..=999_499 => (n / 1e3, "µs"),
            999_500..=999_499_999 => (n / 1e6, "ms"),
            _ if self.0 < 300_000_000_000 => (n / 1e9, "s"),
            _ => (n / 60e9, "min"),
        };
        f.pad(&format!("{} {unit}", three_digits(value)))
    }
}

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Parses `12`, `64B`, `4KiB`, `1MiB` or `2GiB`; `k`, `M` and `G` alone are powers of 1000.
    pub fn parse(text: &str) -> Result<Bytes, UnitError> {
        let (number, unit) = split_unit(text);
        let scale = match unit {
            "" | "B" => 1.0,
            "k" | "kB" => 1e3,
            "M" | "MB" => 1e6,
            "G" | "GB" => 1e9,
            "K" | "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return Err(UnitError::new(text, "a size such as 12, 4KiB or 1MiB")),
        };
        let value = parse_number(number)
            .ok_or_else(|| UnitError::new(text, "a size such as 12, 4KiB or 1MiB"))?;
        Ok(Bytes((value * scale).round() as u64))
    }
}

impl fmt::Display for Bytes {
    /// Three significant digits in powers of 1024: `12 B`, `4.00 KiB`, `23.1 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        let text = match self.0 {
            0..=1023 => format!("{} B", self.0),
            1024..=1_048_575 => format!("{} KiB", three_digits(n / 1024.0)),
            1_048_576..=1_073_741_823 => format!("{} MiB", three_digits(n / 1_048_576.0)),
            _ => format!("{} GiB", three_digits(n / 1_073_741_824.0)),
        };
        f.pad(&text)
    }
}

/// A quantity that could not be parsed, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

impl UnitError {
    fn new(text: &str, wanted: &'static str) -> UnitError {
        UnitError { text: text.to_owned(), wanted }
    }
}

/// Parses a fraction: `1%` and `0.01` are both 0.01.
pub fn parse_fraction(text: &str) -> Result<f64, UnitError> {
    let wanted = "a fraction such as 1% or 0.01";
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let value = parse_number(number).ok_or_else(|| UnitError::new(text, wanted))?;
    Ok(value * scale)
}

/// Parses a rate per second: `500`, `10k`, `1.5M`; a trailing `/s` is allowed.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let wanted = "a rate per second such as 500, 10k or 1.5M";
    let (number, unit) = split_unit(text.trim().trim_end_matches("/s"));
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        _ => return Err(UnitError::new(text, wanted)),
    };
    match parse_number(number) {
        Some(value) if value > 0.0 => Ok(value * scale),
        _ => Err(UnitError::new(text, wanted)),
    }
}

/// A whole number with thousands separated by commas: `203,120`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate per second, short enough for a table: `0.82`, `45.1`, `1,837`, `255,120`.
pub fn format_rate(per_s: f64) -> String {
    if !per_s.is_finite() {
        "–".to_owned()
    } else if per_s < 99.95 {
        three_digits(per_s)
    } else {
        format_count(per_s.round() as u64)
    }
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn parse_number(text: &str) -> Option<f64> {
    let value: f64 = text.trim().replace('_', "").parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        for (text, nanos) in [
            ("5s", 5_000_000_000),
            ("5", 5_000_000_000),
            ("250ms", 250_000_000),
            ("1.5 m", 90_000_000_000),
            ("80us", 80_000),
            ("80µs", 80_000),
            ("2h", 7_200_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(Nanos::parse(text), Ok(Nanos(nanos)), "{text}");
        }
        for text in ["", "s", "-1s", "5 parsecs", "1e400s", "nan", "99999999999h"] {
            assert!(Nanos::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_sum_of_very_long_times_wrapped_to_a_short_one() {
        let longest = Nanos::parse("2500000h").unwrap();
        assert_eq!(longest + longest + longest, Nanos(u64::MAX));
        assert_eq!(longest * 3, Nanos(u64::MAX));
        let mut sum = longest;
        sum += Nanos(u64::MAX);
        assert_eq!(sum, Nanos(u64::MAX));
    }

    #[test]
    fn times_print_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (5_440_000, "5.44 ms"),
            (999_600_000, "1.00 s"),
            (61_000_000_000, "61.0 s"),
            (600_000_000_000, "10.0 min"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn sizes_fractions_and_rates() {
        assert_eq!(Bytes::parse("4KiB"), Ok(Bytes(4096)));
        assert_eq!(Bytes::parse("12"), Ok(Bytes(12)));
        assert_eq!(Bytes::parse("1MB"), Ok(Bytes(1_000_000)));
        assert!(Bytes::parse("1 furlong").is_err());
        assert_eq!(Bytes(12).to_string(), "12 B");
        assert_eq!(Bytes(4096).to_string(), "4.00 KiB");
        assert_eq!(parse_fraction("1%"), Ok(0.01));
        assert_eq!(parse_fraction("0.05"), Ok(0.05));
        assert!(parse_fraction("x%").is_err());
        assert_eq!(parse_rate("10k"), Ok(10_000.0));
        assert_eq!(parse_rate("250/s"), Ok(250.0));
        assert!(parse_rate("0").is_err());
        assert_eq!(format_count(1), "1");
        assert_eq!(format_count(203_120), "203,120");
        assert_eq!(format_rate(0.816), "0.82");
        assert_eq!(format_rate(1836.6), "1,837");
    }
}
