//! The interval of a quantile of independent values, from their ranks alone.

use statrs::distribution::{Binomial, DiscreteCDF as _};

/// Ranks, from 1, of the two of `n` independent values in ascending order between which their
/// population's quantile `q` lies, each side with an error of `alpha / 2` at most. `None` where the
/// values are too few for that end.
///
/// The number of values up to the quantile is binomial, whatever their distribution (David and
/// Nagaraja, Order Statistics, 7.1).
pub fn quantile_ranks(n: u64, q: f64, alpha: f64) -> (Option<u64>, Option<u64>) {
    let Ok(up_to_quantile) = Binomial::new(q, n) else { return (None, None) };
    // The smallest number of values that is reached with this probability.
    let at = |p: f64| up_to_quantile.inverse_cdf(p);
    let low = at(alpha / 2.0);
    let high = at(1.0 - alpha / 2.0) + 1;
    ((low > 0).then_some(low), (high <= n).then_some(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // The median of 10 values: the second and the ninth (2 × 11/1024 = 2.1%).
        assert_eq!(quantile_ranks(10, 0.5, 0.05), (Some(2), Some(9)));
        assert_eq!(quantile_ranks(5, 0.5, 0.05), (None, None), "2 × 1/32 is more than 5%");
        assert_eq!(quantile_ranks(6, 0.5, 0.05), (Some(1), Some(6)));
        // 0.99ⁿ falls below 2.5% with the 368th.
        assert_eq!(quantile_ranks(368, 0.99, 0.05).1, Some(368));
        assert_eq!(quantile_ranks(367, 0.99, 0.05).1, None);
        assert_eq!(quantile_ranks(0, 0.99, 0.05), (None, None));
        let (low, high) = quantile_ranks(1_000_000, 0.99, 0.05);
        assert!(low.unwrap().abs_diff(989_805) <= 2 && high.unwrap().abs_diff(990_196) <= 2);
    }
}
