//! Arithmetic of the validity checks.

use statrs::function::factorial::ln_factorial;

/// Fisher's exact test of a 2×2 table, two-sided: the probability of a distribution at least as
/// uneven, given the same totals.
///
/// ```text
///              rejected  accepted
/// variant A        a         b
/// variant B        c         d
/// ```
///
/// R. A. Fisher, Statistical Methods for Research Workers, 1925, § 21.02. 1 for an empty row or column.
pub fn fisher_exact(a: u64, b: u64, c: u64, d: u64) -> f64 {
    let (row, column, total) = (a + b, a + c, a + b + c + d);
    let fixed = ln_factorial(row)
        + ln_factorial(total - row)
        + ln_factorial(column)
        + ln_factorial(total - column)
        - ln_factorial(total);
    let probability = |a: u64| {
        let (b, c) = (row - a, column - a);
        let d = total - row - c;
        (fixed - ln_factorial(a) - ln_factorial(b) - ln_factorial(c) - ln_factorial(d)).exp()
    };
    // Tables as likely as the observed one must not be lost to rounding.
    let limit = probability(a) * (1.0 + 1e-7);
    let low = (row + column).saturating_sub(total);
    let p: f64 =
        (low..=row.min(column)).map(probability).filter(|probability| *probability <= limit).sum();
    debug_assert!(p > 0.0 && p < 1.0 + 1e-6, "p = {p} of {a}, {b}, {c}, {d}");
    p.min(1.0)
}

/// The median; the mean of the two middle values of an even number; `None` without values. NaN
/// sorts last.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
    } else {
        Some(upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fishers_lady_tasting_tea() {
        // Eight cups: 3 of 4 right has p = 34/70, all right 2/70.
        assert!((fisher_exact(3, 1, 1, 3) - 34.0 / 70.0).abs() < 1e-9);
        assert!((fisher_exact(4, 0, 0, 4) - 2.0 / 70.0).abs() < 1e-9);
        assert_eq!(fisher_exact(0, 0, 0, 0), 1.0);
        assert!((fisher_exact(0, 10, 0, 10) - 1.0).abs() < 1e-9);
        // Five rejections of twelve against none of twelve: not yet below 0.01.
        assert!((fisher_exact(5, 7, 0, 12) - 0.037_267).abs() < 1e-5);
        assert!(fisher_exact(7, 5, 0, 12) < 0.01);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    proptest! {
        #[test]
        fn fisher_does_not_care_which_row_or_column_comes_first(a in 0..20_u64, b in 0..20_u64, c in 0..20_u64, d in 0..20_u64) {
            let p = fisher_exact(a, b, c, d);
            prop_assert!(p > 0.0 && p <= 1.0);
            for other in [fisher_exact(c, d, a, b), fisher_exact(b, a, d, c), fisher_exact(a, c, b, d)] {
                prop_assert!((p - other).abs() < 1e-6);
            }
        }
    }
}
