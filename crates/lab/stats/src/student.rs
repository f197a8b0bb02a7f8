//! Quantiles of Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The two-sided critical value: |t| with `df` degrees of freedom exceeds it with probability `alpha`.
///
/// Infinite without degrees of freedom or for `alpha` ≤ 0, because nothing can then be ruled out.
pub fn t_quantile(alpha: f64, df: usize) -> f64 {
    if alpha >= 1.0 {
        return 0.0;
    }
    match StudentsT::new(0.0, 1.0, df as f64) {
        // The lower tail is used because 1 − α/2 loses digits for a small α.
        Ok(t) if alpha > 0.0 => -t.inverse_cdf(alpha / 2.0),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        for (alpha, df, value) in [
            (0.05, 1, 12.706_205),
            (0.05, 5, 2.570_582),
            (0.05, 9, 2.262_157),
            (0.10, 9, 1.833_113),
            (0.05, 29, 2.045_230),
            (0.01, 9, 3.249_836),
            (0.0125, 9, 3.110_935),
            (0.001, 23, 3.767_627),
            (0.05, 1000, 1.962_339),
        ] {
            let t = t_quantile(alpha, df);
            assert!((t - value).abs() < 1e-6 * value, "α {alpha}, {df} df: {t} is not {value}");
        }
    }

    #[test]
    fn nothing_is_ruled_out_without_freedom() {
        assert_eq!(t_quantile(0.05, 0), f64::INFINITY);
        assert_eq!(t_quantile(0.0, 9), f64::INFINITY);
        assert_eq!(t_quantile(1.0, 9), 0.0);
    }
}
