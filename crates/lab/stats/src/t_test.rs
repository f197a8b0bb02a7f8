//! Student's t test.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::Spread;

/// Two-sided p of the hypothesis that the mean behind `spread` is zero: the probability that |t|
/// with its degrees of freedom is at least as large.
///
/// Without any spread it is 0 for a non-zero mean, and 1 for zero.
pub fn t_test_p(spread: &Spread) -> f64 {
    if spread.mean == 0.0 {
        return 1.0;
    }
    let t = (spread.mean / spread.standard_error).abs();
    match StudentsT::new(0.0, 1.0, spread.df() as f64) {
        Ok(_) if t.is_infinite() => 0.0,
        Ok(distribution) => 2.0 * distribution.cdf(-t),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::t_quantile;

    #[test]
    fn p_is_alpha_where_t_is_the_critical_value() {
        let values = [0.3, 0.1, 0.5, 0.2, 0.4, 0.25];
        let spread = Spread::of(&values).unwrap();
        let p = t_test_p(&spread);
        assert!((t_quantile(p, spread.df()) - spread.mean / spread.standard_error).abs() < 1e-6);
        assert_eq!(t_test_p(&Spread::of(&[2.0, 2.0, 2.0]).unwrap()), 0.0);
        assert_eq!(t_test_p(&Spread::of(&[0.0, 0.0]).unwrap()), 1.0);
        assert_eq!(t_test_p(&Spread::of(&[-1.0, 1.0]).unwrap()), 1.0);
    }
}
