//! The interval for a run that was stopped after looking at its data.
//!
//! A person who presses Ctrl-C has seen the data and may have chosen the moment because of them, so
//! an interval for a fixed number of blocks would cover too seldom. A confidence sequence covers
//! the truth at all moments at once with the stated probability, so any choice of moment is
//! allowed.

use crate::spread::Spread;

/// The variance g of the mixture over standardised effects μ/σ ~ N(0, g). Fixed before any data are
/// seen; with 2 the interval is within a few percent of the narrowest for 6 to 30 blocks, where
/// people stop.
const MIXTURE_VARIANCE: f64 = 2.0;

/// Half-width of the anytime-valid t interval around the mean at error probability `alpha`.
///
/// For a candidate mean μ, let t = √n·(mean − μ)/s and ν = n − 1. With the right Haar measure over
/// σ and the Gaussian mixture N(0, g) over the standardised effect, the scale-invariant likelihood
/// ratio against μ is
///
/// ```text
/// E(μ) = (1 + ng)^(−1/2) · [ (1 + t²/ν) / (1 + t²/(ν(1 + ng))) ]^(n/2)
/// ```
///
/// a nonnegative martingale that starts at 1 if μ is the truth, so by Ville's inequality it ever
/// reaches 1/α with probability at most α (Wang & Ramdas, Anytime-valid t-tests and confidence
/// sequences for Gaussian means with unknown variance, arXiv 2310.03722, section 4). The interval
/// consists of the μ with E(μ) < 1/α. With K = ((1 + ng)/α²)^(1/n) the solution is
///
/// ```text
/// t²/ν < (K − 1) / (1 − K/(1 + ng))
/// ```
///
/// or infinity while K ≥ 1 + ng, which holds for the first few blocks. Merged groups (see
/// [`Spread`]) count as one observation each.
pub fn anytime_half_width(spread: &Spread, alpha: f64) -> f64 {
    let n = spread.groups.len() as f64;
    let widened = 1.0 + n * MIXTURE_VARIANCE;
    let k = (widened / (alpha * alpha)).powf(1.0 / n);
    if k >= widened {
        return f64::INFINITY;
    }
    let t_squared = (n - 1.0) * (k - 1.0) / (1.0 - k / widened);
    t_squared.sqrt() * spread.standard_error
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Rng, Seed};

    /// The martingale itself, from sums, to check its closed-form inverse.
    fn evidence_against(d: &[f64], mean: f64) -> f64 {
        let n = d.len() as f64;
        let centre = d.iter().sum::<f64>() / n;
        let within: f64 = d.iter().map(|x| (x - centre).powi(2)).sum();
        let between = n * (centre - mean).powi(2);
        let widened = 1.0 + n * MIXTURE_VARIANCE;
        ((within + between) / (within + between / widened)).powf(n / 2.0) / widened.sqrt()
    }

    fn normal(rng: &mut Rng) -> f64 {
        use rand::Rng as _;
        // The sum of twelve uniforms is close enough to a normal for this test.
        (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn the_interval_ends_where_the_evidence_reaches_one_in_alpha() {
        let d = [0.3, -0.2, 0.5, 0.1, 0.9, -0.4, 0.2, 0.35];
        let spread = Spread::of(&d).unwrap();
        for alpha in [0.05, 0.0125] {
            let half = anytime_half_width(&spread, alpha);
            for end in [spread.mean - half, spread.mean + half] {
                let evidence = evidence_against(&d, end);
                assert!((evidence * alpha - 1.0).abs() < 1e-9, "{evidence} at {end}");
            }
        }
    }

    #[test]
    fn evidence_is_a_fair_game_when_the_mean_is_true() {
        // One observation carries no information about μ/σ's size, so the martingale starts at 1.
        assert!((evidence_against(&[0.7], 0.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn it_is_wider_than_students_interval_and_unbounded_at_first() {
        let d: Vec<f64> = (0..40).map(|i| f64::from(i * 17 % 23) / 23.0).collect();
        for n in 2..=40 {
            let spread = Spread::of(&d[..n]).unwrap();
            let half = anytime_half_width(&spread, 0.05);
            assert!(half > spread.t_half_width(0.05), "{n} blocks");
            assert_eq!(half.is_infinite(), n < 4, "{n} blocks: {half}");
        }
    }

    #[test]
    fn looking_after_every_block_seldom_misleads() {
        let mut rng = Seed(2310_03722).rng("peeking");
        let (runs, blocks) = (1000, 60);
        let (mut misled, mut misled_by_student) = (0, 0);
        for _ in 0..runs {
            let d: Vec<f64> = (0..blocks).map(|_| normal(&mut rng)).collect();
            let excludes_truth = |half_width: &dyn Fn(&Spread) -> f64| {
                (2..=blocks)
                    .filter_map(|n| Spread::of(&d[..n]))
                    .any(|s| s.mean.abs() > half_width(&s))
            };
            misled += u32::from(excludes_truth(&|s| anytime_half_width(s, 0.05)));
            misled_by_student += u32::from(excludes_truth(&|s| s.t_half_width(0.05)));
        }
        assert!(misled <= 50, "{misled} of {runs}");
        assert!(misled_by_student > 200, "peeking is what misleads: {misled_by_student} of {runs}");
    }
}
