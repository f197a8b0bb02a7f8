//! The second opinion: the sign-flip test, which makes no assumption about the distribution.
//!
//! If the variants do not differ, each block's d is as likely to have the opposite sign, because
//! the labels are interchangeable. So the observed sum is compared with the sums under all
//! assignments of signs (Fisher, The Design of Experiments, 1935, § 21).

use base::Seed;
use rand::Rng;

/// Up to this number all 2ⁿ assignments are counted; above it they are sampled.
const EXACT_MAX: usize = 24;
/// Sample size: p near 0.05 is then known to ±0.003.
const DRAWS: u32 = 20_000;

/// The share of sign assignments whose sum is at least as far from zero as the observed one: the
/// two-sided p-value of "no difference".
///
/// Exact up to 24 values; above that 20,000 assignments are sampled with a fixed seed, so the same
/// data always give the same result. 1 without data.
pub fn sign_flip_p(d: &[f64]) -> f64 {
    let observed = d.iter().sum::<f64>().abs();
    let scale: f64 = d.iter().map(|value| value.abs()).sum();
    // Sums of the same terms in another order differ in their last digits.
    let threshold = observed - 1e-12 * scale;
    let p = if threshold <= 0.0 {
        1.0
    } else if d.len() <= EXACT_MAX {
        exact(d, threshold)
    } else {
        drawn(d, threshold)
    };
    // The observed signs are one of the assignments, so that p is never zero.
    debug_assert!(p > 0.0 && p <= 1.0, "p = {p} of {d:?}");
    p
}

/// The smallest p-value that `n` values can give: two of the 2ⁿ assignments.
pub fn sign_flip_p_min(n: usize) -> f64 {
    if n == 0 { 1.0 } else { 2.0_f64.powi(1 - n as i32) }
}

/// Meet in the middle: the sums of either half are sorted, and for each sum of the left half those
/// of the right that reach the threshold are a suffix. Both tails have the same weight, because
/// flipping all signs maps one to the other.
fn exact(d: &[f64], threshold: f64) -> f64 {
    let (left, right) = d.split_at(d.len() / 2);
    let (left, right) = (signed_sums(left), signed_sums(right));
    let mut suffix = right.len();
    let mut count: u64 = 0;
    for sum in left {
        while suffix > 0 && sum + right[suffix - 1] >= threshold {
            suffix -= 1;
        }
        count += (right.len() - suffix) as u64;
    }
    2.0 * count as f64 / 2.0_f64.powi(d.len() as i32)
}

/// The sums under all assignments of signs, ascending.
fn signed_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums = sums.iter().flat_map(|sum| [sum + value, sum - value]).collect();
    }
    sums.sort_by(f64::total_cmp);
    sums
}

/// Samples assignments, eight signs at a time from a table of their sums.
fn drawn(d: &[f64], threshold: f64) -> f64 {
    let tables: Vec<[f64; 256]> = d.chunks(8).map(sums_by_signs).collect();
    let mut rng = Seed(0).rng("sign flip");
    let mut count = 0_u32;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for tables in tables.chunks(8) {
            let signs = rng.next_u64().to_le_bytes();
            for (table, signs) in tables.iter().zip(signs) {
                sum += table[usize::from(signs)];
            }
        }
        count += u32::from(sum.abs() >= threshold);
    }
    // The observed assignment is itself one of the sample, hence the ones.
    f64::from(count + 1) / f64::from(DRAWS + 1)
}

/// The sum of up to eight values under each assignment: bit i of the index flips value i.
fn sums_by_signs(values: &[f64]) -> [f64; 256] {
    std::array::from_fn(|signs| {
        let signed = |(i, value): (usize, &f64)| if signs >> i & 1 == 0 { *value } else { -value };
        values.iter().enumerate().map(signed).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_cases_by_hand() {
        assert_eq!(sign_flip_p(&[]), 1.0);
        assert_eq!(sign_flip_p(&[0.0, 0.0]), 1.0);
        assert_eq!(sign_flip_p(&[1.0; 5]), 0.0625);
        assert_eq!(sign_flip_p(&[1.0; 6]), 0.03125);
        // Of 8 sums ±1±2±4 those at ±5 and ±7 reach |−1+2+4| = 5.
        assert_eq!(sign_flip_p(&[-1.0, 2.0, 4.0]), 0.5);
        for n in 1..20 {
            assert_eq!(sign_flip_p(&vec![0.3; n]), sign_flip_p_min(n), "{n} values");
        }
    }

    #[test]
    fn drawn_assignments_agree_with_counted_ones() {
        let d: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 11) - 3.5).collect();
        let threshold = d.iter().sum::<f64>().abs() - 1e-9;
        assert!((exact(&d, threshold) - drawn(&d, threshold)).abs() < 0.006);
    }

    #[test]
    fn long_series_are_judged_the_same_every_time() {
        let d: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 101) - 45.0).collect();
        assert_eq!(sign_flip_p(&d), sign_flip_p(&d));
        assert!(sign_flip_p(&[0.1; 100]) < 1e-4);
    }

    proptest! {
        #[test]
        fn it_is_symmetric_and_free_of_scale(d in prop::collection::vec(-1.0..1.0_f64, 1..14), scale in 0.1..10.0_f64) {
            let negated: Vec<f64> = d.iter().map(|value| -value).collect();
            let scaled: Vec<f64> = d.iter().map(|value| value * scale).collect();
            prop_assert_eq!(sign_flip_p(&d), sign_flip_p(&negated));
            prop_assert_eq!(sign_flip_p(&d), sign_flip_p(&scaled));
        }

        #[test]
        fn the_order_does_not_matter_and_p_stays_in_its_bounds(mut d in prop::collection::vec(-1.0..1.0_f64, 1..14)) {
            let p = sign_flip_p(&d);
            d.reverse();
            prop_assert_eq!(p, sign_flip_p(&d));
            prop_assert!((sign_flip_p_min(d.len())..=1.0).contains(&p));
        }

        #[test]
        fn counting_in_the_middle_equals_counting_one_by_one(d in prop::collection::vec(-1.0..1.0_f64, 1..10)) {
            let threshold = d.iter().sum::<f64>().abs() - 1e-9;
            prop_assume!(threshold > 0.0);
            let count = (0..1_u32 << d.len()).filter(|signs| {
                let sum: f64 = d.iter().enumerate().map(|(i, v)| if signs >> i & 1 == 0 { *v } else { -v }).sum();
                sum.abs() >= threshold
            }).count();
            prop_assert_eq!(exact(&d, threshold), count as f64 / f64::from(1_u32 << d.len()));
        }
    }
}
