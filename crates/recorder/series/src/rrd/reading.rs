//! Parses readings as RRDtool does.

use serde::{Deserialize, Serialize};

use super::SourceKind;

/// RRDtool stores at most this many characters of a reading.
const TEXT_MAX: usize = 29;

/// Powers of ten that RRDtool can convert (in its implementation, those of two in a double).
const EXPONENTS: std::ops::RangeInclusive<i64> = -1021..=1024;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// `U`.
    Unknown,
    /// An integer, for COUNTER and DERIVE, whose differences are exact at any size.
    Integer {
        /// Whether it had a minus sign: RRDtool distinguishes −0 from 0.
        negative: bool,
        /// Its digits.
        magnitude: u128,
    },
    /// A floating-point number, for the other kinds; NaN is unknown.
    Real(#[serde(with = "super::text")] f64),
}

/// A reading that RRDtool would refuse too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    /// Not an integer in the kind's form.
    #[error("'{text}' is not a reading of a {kind}, which takes {wanted} integers and U")]
    NotAnInteger {
        /// The text.
        text: String,
        /// The kind.
        kind: &'static str,
        /// `signed` or `unsigned`.
        wanted: &'static str,
    },
    /// Not a number.
    #[error("'{text}' is not a reading of a {kind}, which takes numbers, nan, inf and U")]
    NotANumber {
        /// The text.
        text: String,
        /// The kind.
        kind: &'static str,
    },
    /// Longer than what RRDtool stores.
    #[error("'{0}…' is longer than the 29 characters that RRDtool remembers of a reading")]
    TooLong(String),
}

impl Reading {
    /// Parses the text after the time in an update.
    ///
    /// Floating-point numbers are converted as RRDtool does, digit by digit in doubles, which is
    /// not always the nearest double.
    ///
    /// # Errors
    /// [`ReadingError`] where RRDtool would refuse the update.
    pub fn parse(kind: SourceKind, text: &str) -> Result<Reading, ReadingError> {
        if text.starts_with('U') {
            return Ok(Reading::Unknown);
        }
        if text.len() > TEXT_MAX {
            return Err(ReadingError::TooLong(text.chars().take(TEXT_MAX).collect()));
        }
        match kind {
            SourceKind::Counter | SourceKind::Derive => integer(kind, text),
            _ => number(text).map(Reading::Real).ok_or_else(|| ReadingError::NotANumber {
                text: text.to_owned(),
                kind: kind.name(),
            }),
        }
    }

    /// Whether a data source of `kind` can have this reading.
    pub fn fits(self, kind: SourceKind) -> bool {
        let counts = matches!(kind, SourceKind::Counter | SourceKind::Derive);
        match self {
            Reading::Unknown => true,
            Reading::Integer { .. } => counts,
            Reading::Real(_) => !counts,
        }
    }

    /// The change of a counter or derive since `earlier`; NaN if RRDtool cannot compute it.
    pub(super) fn minus(self, earlier: Reading) -> f64 {
        match (self, earlier) {
            (
                Reading::Integer { negative, magnitude },
                Reading::Integer { negative: was_negative, magnitude: was },
            ) if negative == was_negative => {
                let forward = (magnitude >= was) != negative;
                let distance = in_doubles(magnitude.abs_diff(was));
                if forward { distance } else { -distance }
            }
            (Reading::Real(value), Reading::Real(was)) => value - was,
            _ => f64::NAN,
        }
    }
}

/// Converts an integer as RRDtool does, digit by digit in doubles.
fn in_doubles(integer: u128) -> f64 {
    integer.to_string().bytes().fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0'))
}

fn integer(kind: SourceKind, text: &str) -> Result<Reading, ReadingError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) if kind == SourceKind::Derive => (true, digits),
        _ => (false, text),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let magnitude = plain.then(|| digits.parse().ok()).flatten();
    match magnitude {
        Some(magnitude) => Ok(Reading::Integer { negative, magnitude }),
        None => Err(ReadingError::NotAnInteger {
            text: text.to_owned(),
            kind: kind.name(),
            wanted: if kind == SourceKind::Derive { "signed" } else { "unsigned" },
        }),
    }
}

/// A floating-point number in RRDtool's grammar, rounded as RRDtool does.
fn number(text: &str) -> Option<f64> {
    decimal(text).or_else(|| special(text))
}

/// The words for NaN and infinity; RRDtool only checks their beginning.
fn special(text: &str) -> Option<f64> {
    let starts = |word: &str| {
        text.get(..word.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(word))
    };
    if starts("-nan") || starts("nan") {
        Some(f64::NAN)
    } else if starts("inf") {
        Some(f64::INFINITY)
    } else if starts("-inf") {
        Some(f64::NEG_INFINITY)
    } else {
        None
    }
}

/// White space, a sign, digits with or without a point, and an exponent, which may be empty.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, text) = sign(text);
    let (whole, text) = digits(text);
    let (fraction, text) = text.strip_prefix('.').map_or(("", text), digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match text.strip_prefix(['e', 'E']) {
        None if text.is_empty() => 0,
        None => return None,
        Some(text) => {
            let (below, text) = sign(text);
            let (digits, rest) = digits(text);
            if !rest.is_empty() {
                return None;
            }
            let exponent: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            if below { -exponent } else { exponent }
        }
    };
    let exponent = exponent - fraction.len() as i64;
    if !EXPONENTS.contains(&exponent) {
        return None;
    }
    let number = whole
        .bytes()
        .chain(fraction.bytes())
        .fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0'));
    Some(scaled(if negative { -number } else { number }, exponent))
}

/// `number` × 10^`exponent`, by the squares 10, 100, 10^4, 10^8 …, rounding at each.
fn scaled(mut number: f64, exponent: i64) -> f64 {
    let mut power = 10.0_f64;
    let mut bits = exponent.unsigned_abs();
    while bits > 0 {
        if bits & 1 == 1 {
            number = if exponent < 0 { number / power } else { number * power };
        }
        bits >>= 1;
        power *= power;
    }
    number
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(text: &str) -> Option<f64> {
        match Reading::parse(SourceKind::Gauge, text) {
            Ok(Reading::Real(value)) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn numbers_are_read_as_rrdtool_reads_them() {
        for (text, value) in [
            ("1.5", 1.5),
            (" +.5", 0.5),
            ("5.", 5.0),
            ("-2e3", -2000.0),
            ("1e", 1.0),
            ("1E-2", 0.01),
            ("infinity", f64::INFINITY),
            ("-Inf", f64::NEG_INFINITY),
            ("1e600", f64::INFINITY),
        ] {
            assert_eq!(real(text), Some(value), "{text}");
        }
        assert!(real("nan").is_some_and(f64::is_nan));
        assert_ne!(real("0.001"), None);
        for text in ["", "-", ".", "e5", "1x", "1e5x", "+inf", "1e5000", "1e-5000", "0x10"] {
            assert_eq!(real(text), None, "{text}");
        }
    }

    #[test]
    fn integers_have_the_form_of_their_kind() {
        let parse = |kind, text: &str| Reading::parse(kind, text);
        let negative = Reading::Integer { negative: true, magnitude: 5 };
        assert_eq!(parse(SourceKind::Derive, "-5"), Ok(negative));
        assert_eq!(
            parse(SourceKind::Counter, "-5").unwrap_err().to_string(),
            "'-5' is not a reading of a COUNTER, which takes unsigned integers and U"
        );
        assert_eq!(
            parse(SourceKind::Derive, "5.0").unwrap_err().to_string(),
            "'5.0' is not a reading of a DERIVE, which takes signed integers and U"
        );
        assert_eq!(
            parse(SourceKind::Gauge, "five").unwrap_err().to_string(),
            "'five' is not a reading of a GAUGE, which takes numbers, nan, inf and U"
        );
        assert_eq!(
            parse(SourceKind::Counter, &"9".repeat(30)).unwrap_err().to_string(),
            "'99999999999999999999999999999…' is longer than the 29 characters that RRDtool remembers of a reading"
        );
        assert_eq!(parse(SourceKind::Counter, "Unknown"), Ok(Reading::Unknown));
    }

    #[test]
    fn differences_of_integers_are_exact_and_do_not_cross_zero() {
        let minus = |a: &str, b: &str| {
            let read = |text| Reading::parse(SourceKind::Derive, text).unwrap();
            read(a).minus(read(b))
        };
        assert_eq!(minus("18446744073709551615", "18446744073709551610"), 5.0);
        assert_eq!(minus("3", "10"), -7.0);
        assert_eq!(minus("-3", "-10"), 7.0);
        assert_eq!(minus("-10", "-3"), -7.0);
        assert!(minus("1", "-1").is_nan());
        assert!(minus("0", "-0").is_nan());
    }
}
