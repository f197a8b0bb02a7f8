//! Numbers of JSON by value, exactly.

/// A number of JSON (RFC 8259, 6): its digits without zeros at their ends, times a power of ten.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// The value of a valid number; `None` if its exponent does not fit into 64 bits.
    fn of(text: &str) -> Option<Decimal> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let mut exponent = exponent.checked_sub(fraction.len() as i64)?;
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent = exponent.checked_add(1)?;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        match digits.is_empty() {
            // Zero has no sign that matters.
            true => Some(Decimal { is_negative: false, digits, exponent: 0 }),
            false => Some(Decimal { is_negative, digits, exponent }),
        }
    }
}

/// Whether two valid numbers of JSON have the same value: `1.0` and `1`, `1e3` and `1000`. Nothing is
/// rounded. Numbers with exponents beyond 64 bits are equal if they are written alike.
pub(crate) fn are_equal(a: &str, b: &str) -> bool {
    a == b || matches!((Decimal::of(a), Decimal::of(b)), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_equal_by_value() {
        for (a, b, equal) in [
            ("1", "1.0", true),
            ("1000", "1e3", true),
            ("1000", "1E+3", true),
            ("0.001", "1e-3", true),
            ("0.10", "0.1", true),
            ("-0", "0.000e5", true),
            ("-1", "1", false),
            ("10", "1", false),
            ("9007199254740993", "9007199254740992", false),
            ("9007199254740993.0", "9007199254740993", true),
            ("0.1", "0.1000000000000000055511151231257827", false),
            ("123456789012345678901234567890", "1.2345678901234567890123456789e29", true),
            ("1e400", "1e401", false),
            ("1e400", "10e399", true),
            ("1e99999999999999999999", "1e99999999999999999999", true),
            ("1e99999999999999999999", "10e99999999999999999998", false),
        ] {
            assert_eq!(are_equal(a, b), equal, "{a} and {b}");
            assert_eq!(are_equal(b, a), equal, "{b} and {a}");
        }
    }

    proptest! {
        #[test]
        fn shifting_the_point_against_the_exponent_changes_nothing(
            mantissa in "[1-9][0-9]{0,30}", zeros in 0usize..40, negative: bool, other in "[1-9][0-9]{0,30}"
        ) {
            let sign = if negative { "-" } else { "" };
            let plain = format!("{sign}{mantissa}");
            let shifted = format!("{sign}{mantissa}{}e-{zeros}", "0".repeat(zeros));
            let small = format!("{sign}0.{}{mantissa}E{}", "0".repeat(zeros), zeros + mantissa.len());
            prop_assert!(are_equal(&plain, &shifted), "{plain} {shifted}");
            prop_assert!(are_equal(&plain, &small), "{plain} {small}");
            prop_assert_eq!(are_equal(&mantissa, &other), mantissa == other);
        }
    }
}
