//! Numbers as Graphite prints them in names.

/// A number in a target. Names repeat integers without a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value.
    pub value: f64,
    /// Whether it was written as an integer.
    pub is_integer: bool,
}

impl Number {
    /// Parses `12`, `-1.5` or `1e3`.
    pub fn parse(text: &str) -> Option<Number> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let starts_well = digits.starts_with(|c: char| c.is_ascii_digit());
        let is_clean = digits.chars().all(|c| c.is_ascii_digit() || "eE.+-".contains(c));
        if !starts_well || !is_clean || digits.ends_with('.') {
            return None;
        }
        let value: f64 = text.parse().ok()?;
        let is_integer = digits.chars().all(|c| c.is_ascii_digit());
        value.is_finite().then_some(Number { value, is_integer })
    }

    /// The number as Python's `str` prints it.
    pub fn as_str(self) -> String {
        if self.is_integer { format!("{}", self.value) } else { float(self.value) }
    }
}

/// A double as Python's `str` prints it, for usual magnitudes.
pub(crate) fn float(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e16 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}

/// C's `%g`: six significant digits, no trailing zeros, an exponent for very large or small numbers.
pub(crate) fn general(value: f64) -> String {
    if value.is_nan() || value.is_infinite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        trimmed(&format!("{value:.*}", (5 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (value, shown) in [
            (0.0, "0"),
            (2.0, "2"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (1e6, "1e+06"),
            (999_999.0, "999999"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_012_3, "1.23e-05"),
            (1.0 / 3.0, "0.333333"),
        ] {
            assert_eq!(general(value), shown);
        }
    }

    #[test]
    fn what_only_begins_like_a_number_is_none() {
        assert_eq!(Number::parse("12"), Some(Number { value: 12.0, is_integer: true }));
        assert_eq!(Number::parse("-1.5").map(Number::as_str).as_deref(), Some("-1.5"));
        assert_eq!(Number::parse("1e3").map(Number::as_str).as_deref(), Some("1000.0"));
        for text in ["12.host", "1.", "-", "", "1e", "0x10", "1e999", "inf", "nan"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }
}
