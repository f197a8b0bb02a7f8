//! Numbers in text formats.

use std::num::IntErrorKind;

use series::{Kind, Point, Reading, Refusal};

use crate::{Update, UpdateContent};

/// A number without loss of precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer that fits 64 bits with its sign.
    Signed(i64),
    /// An integer from 2^63 to 2^64 − 1.
    Unsigned(u64),
    /// Anything else; NaN and infinities are refused where they are used.
    Float(f64),
}

impl Number {
    /// Parses an integer or decimal, with sign and exponent, or a word for NaN or infinity.
    pub fn parse(text: &str) -> Option<Number> {
        let float = || text.parse().ok().map(Number::Float);
        match text.parse() {
            Ok(integer) => Some(Number::Signed(integer)),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                text.parse().ok().map(Number::Unsigned).or_else(float)
            }
            Err(_) => float(),
        }
    }

    /// The nearest double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Signed(integer) => integer as f64,
            Number::Unsigned(integer) => integer as f64,
            Number::Float(value) => value,
        }
    }

    /// A point of a series of `kind`. Counters and derives keep all 64 bits.
    ///
    /// # Errors
    /// Those of [`Kind::reading`].
    #[inline]
    pub fn point(self, kind: Kind, at_us: i64) -> Result<Update, Refusal> {
        let reading = match (kind, self) {
            (Kind::Counter | Kind::Absolute, Number::Signed(integer)) => {
                let unsigned = u64::try_from(integer).map_err(|_| Refusal::NegativeCounter)?;
                Reading::Unsigned(unsigned).checked(kind)?
            }
            (Kind::Counter | Kind::Absolute, Number::Unsigned(integer)) => {
                Reading::Unsigned(integer).checked(kind)?
            }
            (Kind::Derive, Number::Signed(integer)) => Reading::Signed(integer),
            (kind, number) => kind.reading(number.as_f64())?,
        };
        Ok(Update { kind, what: UpdateContent::Point(Point { at_us, reading }) })
    }

    /// An interval of a series of `kind`, which is [`Kind::Count`] or [`Kind::Level`].
    ///
    /// # Errors
    /// Those of [`Update::count`] and [`Update::level`]; [`Refusal::Fraction`]
    /// for a count with a fraction; [`Refusal::WrongKind`] for a kind of points.
    pub fn interval(self, kind: Kind, start_us: i64, end_us: i64) -> Result<Update, Refusal> {
        match (kind, self) {
            (Kind::Count, Number::Signed(count)) => Update::count(start_us, end_us, count),
            (Kind::Count, Number::Unsigned(_)) => Err(Refusal::TooLarge),
            (Kind::Count, Number::Float(value)) => match Kind::Derive.reading(value)? {
                Reading::Signed(count) => Update::count(start_us, end_us, count),
                _ => Err(Refusal::WrongKind),
            },
            (Kind::Level, number) => Update::level(start_us, end_us, number.as_f64()),
            _ => Err(Refusal::WrongKind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_all_their_digits() {
        for (text, number) in [
            ("42", Number::Signed(42)),
            ("-9223372036854775808", Number::Signed(i64::MIN)),
            ("18446744073709551615", Number::Unsigned(u64::MAX)),
            ("18446744073709551616", Number::Float(18446744073709551616.0)),
            ("+5", Number::Signed(5)),
            (".5", Number::Float(0.5)),
            ("5.", Number::Float(5.0)),
            ("-1.5e-3", Number::Float(-0.0015)),
            ("inf", Number::Float(f64::INFINITY)),
        ] {
            assert_eq!(Number::parse(text), Some(number), "{text}");
        }
        for text in ["", "-", "1 ", "0x10", "1,5", "1_000", "five", "1e", "--1"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn points_take_the_form_of_their_kind() {
        let counter = Number::Unsigned(u64::MAX).point(Kind::Counter, 5).unwrap();
        let reading = Reading::Unsigned(u64::MAX);
        assert_eq!(counter.what, UpdateContent::Point(Point { at_us: 5, reading }));
        assert_eq!(Number::Signed(-1).point(Kind::Counter, 5), Err(Refusal::NegativeCounter));
        assert_eq!(Number::Float(0.5).point(Kind::Counter, 5), Err(Refusal::Fraction));
        assert_eq!(Number::Float(f64::NAN).point(Kind::Gauge, 5), Err(Refusal::NotANumber));
        assert_eq!(Number::Signed(1).point(Kind::Count, 5), Err(Refusal::WrongKind));
    }

    #[test]
    fn intervals_take_the_form_of_their_kind() {
        assert_eq!(Number::Float(3.0).interval(Kind::Count, 0, 10), Update::count(0, 10, 3));
        assert_eq!(Number::Float(0.5).interval(Kind::Count, 0, 10), Err(Refusal::Fraction));
        assert_eq!(Number::Unsigned(u64::MAX).interval(Kind::Count, 0, 1), Err(Refusal::TooLarge));
        assert_eq!(Number::Signed(2).interval(Kind::Level, 0, 10), Update::level(0, 10, 2.0));
        assert_eq!(Number::Signed(2).interval(Kind::Gauge, 0, 10), Err(Refusal::WrongKind));
        assert_eq!(Number::Signed(2).interval(Kind::Count, 10, 10), Err(Refusal::EmptyInterval));
    }
}
