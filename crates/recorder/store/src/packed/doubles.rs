//! Doubles as integers ÷ a divisor, exactly.
//!
//! A double that was written with two decimals is an integer ÷ 100: the division gives exactly the
//! same double, in Rust as in SQL, because both round according to IEEE 754. Sums of such doubles
//! are off by a few units in the last place, which become a second integer ÷ a power of two. Any
//! other doubles are integers ÷ a power of two, in one or two parts.

use series::nearest_whole;

/// Beyond this an integer may not be exact as a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Maximum bits of the integers that represent doubles.
const BITS_MAX: i32 = 61;

/// Relative distance of a sum to a decimal number.
const NEAR: f64 = 1e-13;

/// Supported exponents of two.
const EXPONENTS: std::ops::RangeInclusive<i32> = -900..=900;

/// Doubles: each is its number ÷ the divisor, plus its rest ÷ the rest's divisor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Doubles {
    pub(super) numbers: Vec<i64>,
    pub(super) divisor: f64,
    pub(super) rest: Option<(Vec<i64>, f64)>,
}

impl Doubles {
    /// Finds integers for doubles. `hints` are likely divisors.
    ///
    /// `None` if some are not finite, or differ too much in size.
    pub(super) fn new(doubles: &[f64], hints: &[f64]) -> Option<Doubles> {
        if !doubles.iter().all(|double| double.is_finite()) {
            return None;
        }
        decimal(doubles, hints).or_else(|| near_decimal(doubles, hints)).or_else(|| binary(doubles))
    }
}

/// The divisors to try: powers of ten, with the hints after the first.
fn divisors(hints: &[f64]) -> impl Iterator<Item = f64> {
    let tens = (0..10).map(|power| 10_f64.powi(power));
    let fit = |divisor: &f64| divisor.is_finite() && *divisor > 0.0;
    tens.chain(hints.iter().copied().filter(fit))
}

/// The numbers of all doubles; `None` if one has none. Most divisors fail at the first double, before
/// anything is allocated.
fn all(doubles: &[f64], number: impl Fn(f64) -> Option<i64>) -> Option<Vec<i64>> {
    let (first, rest) = doubles.split_first()?;
    let first = number(*first)?;
    let mut numbers = Vec::with_capacity(doubles.len());
    numbers.push(first);
    for double in rest {
        numbers.push(number(*double)?);
    }
    Some(numbers)
}

fn decimal(doubles: &[f64], hints: &[f64]) -> Option<Doubles> {
    let whole = |double: f64, divisor: f64| {
        let number = nearest_whole(double * divisor);
        let exact = number / divisor == double && number.abs() <= EXACT_MAX;
        exact.then_some(number as i64)
    };
    divisors(hints).find_map(|divisor| {
        let numbers = all(doubles, |double| whole(double, divisor))?;
        Some(Doubles { numbers, divisor, rest: None })
    })
}

fn near_decimal(doubles: &[f64], hints: &[f64]) -> Option<Doubles> {
    let near = |double: f64, divisor: f64| {
        let number = nearest_whole(double * divisor);
        let close = (number / divisor - double).abs() <= double.abs() * NEAR;
        (close && number.abs() <= EXACT_MAX).then_some(number as i64)
    };
    divisors(hints).find_map(|divisor| {
        let numbers = all(doubles, |double| near(double, divisor))?;
        rest_of(doubles, numbers, divisor)
    })
}

fn binary(doubles: &[f64]) -> Option<Doubles> {
    let finest = finest(doubles)?;
    let greatest = doubles.iter().map(|double| double.abs()).fold(0.0, f64::max);
    let top = exponent(greatest);
    if !EXPONENTS.contains(&finest) || !EXPONENTS.contains(&top) {
        return None;
    }
    // What is below the bits of the first part is the rest.
    let cut = finest.max(top + 1 - BITS_MAX);
    let divisor = 2_f64.powi(-cut);
    let numbers: Vec<i64> =
        doubles.iter().map(|double| (double * divisor).trunc() as i64).collect();
    if cut == finest {
        return Some(Doubles { numbers, divisor, rest: None });
    }
    rest_of(doubles, numbers, divisor)
}

/// The rest of each double after its number, as separate integers.
fn rest_of(doubles: &[f64], numbers: Vec<i64>, divisor: f64) -> Option<Doubles> {
    // The difference of two doubles that are so close is exact.
    let rests =
        doubles.iter().zip(&numbers).map(|(double, number)| double - *number as f64 / divisor);
    let rests: Vec<f64> = rests.collect();
    let finest = finest(&rests)?;
    let greatest = rests.iter().map(|rest| rest.abs()).fold(0.0, f64::max);
    if !EXPONENTS.contains(&finest) || exponent(greatest) + 1 - finest > BITS_MAX {
        return None;
    }
    let scale = 2_f64.powi(-finest);
    let found: Vec<i64> = rests.iter().map(|rest| (rest * scale) as i64).collect();
    let exact =
        doubles.iter().zip(&numbers).zip(&found).all(|((double, number), rest)| {
            *number as f64 / divisor + *rest as f64 / scale == *double
        });
    exact.then_some(Doubles { numbers, divisor, rest: Some((found, scale)) })
}

/// The exponent of two of the lowest bit set in any of the doubles; `None` if all are 0.
fn finest(doubles: &[f64]) -> Option<i32> {
    doubles.iter().filter(|double| **double != 0.0).map(|double| lowest(*double)).min()
}

/// The exponent of two of a double's lowest set bit.
fn lowest(double: f64) -> i32 {
    let bits = double.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    let unit = ((bits >> 52) & 0x7ff) as i32 - 1_075;
    if mantissa == 0 { unit + 52 } else { unit + mantissa.trailing_zeros() as i32 }
}

/// The exponent of two of a double's highest bit.
fn exponent(double: f64) -> i32 {
    ((double.to_bits() >> 52) & 0x7ff) as i32 - 1_023
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(found: &Doubles) -> Vec<f64> {
        let mut doubles: Vec<f64> =
            found.numbers.iter().map(|number| *number as f64 / found.divisor).collect();
        if let Some((rests, divisor)) = &found.rest {
            for (double, rest) in doubles.iter_mut().zip(rests) {
                *double += *rest as f64 / divisor;
            }
        }
        doubles
    }

    #[test]
    fn every_kind_of_doubles_comes_back() {
        let sums: Vec<f64> = (0..50)
            .map(|i| (0..10).map(|j| f64::from(i * 7 + j * j) / 100.0).sum::<f64>())
            .collect();
        let cases: [(&str, Vec<f64>, f64, bool); 7] = [
            ("whole", vec![0.0, 5.0, -7.0], 1.0, false),
            ("decimals", vec![12.34, 0.1, -0.07], 100.0, false),
            ("rates over three seconds", vec![1.0 / 3.0, 7.0 / 3.0], 3.0, false),
            ("sums of decimals", sums, 100.0, true),
            ("nothing but zeros", vec![0.0; 4], 1.0, false),
            (
                "fractions of two",
                vec![std::f64::consts::PI, std::f64::consts::E],
                2_f64.powi(51),
                false,
            ),
            ("far apart", vec![1e-9 / 3.0, 1e9 / 3.0], 2_f64.powi(32), true),
        ];
        for (name, doubles, divisor, rest) in cases {
            let found = Doubles::new(&doubles, &[3.0]).unwrap();
            assert_eq!(back(&found), doubles, "{name}");
            assert_eq!((found.divisor, found.rest.is_some()), (divisor, rest), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_exact_is_not_found() {
        assert_eq!(Doubles::new(&[f64::NAN], &[]), None);
        assert_eq!(Doubles::new(&[f64::INFINITY, 1.0], &[]), None);
        assert_eq!(Doubles::new(&[1e100 / 3.0, 1.0 / 3.0, 1e-100 / 3.0], &[]), None);
        assert_eq!(Doubles::new(&[f64::MIN_POSITIVE / 8.0], &[]), None);
    }
}
