//! Seeded noise.

use base::Rng;
use rand::Rng as _;

/// Uniform between 0 and 1, both excluded.
pub(super) fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Whether an event of this probability happens.
pub(super) fn happens(rng: &mut Rng, probability: f64) -> bool {
    uniform(rng) < probability
}

/// Standard normal (Box & Muller, Annals of Mathematical Statistics 29, 1958).
pub(super) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * uniform(rng).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(rng)).cos()
}

/// Student's t with 3 degrees of freedom, whose variance is 3 and whose fourth moment is infinite.
pub(super) fn student_3(rng: &mut Rng) -> f64 {
    let chi_squared: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / (chi_squared / 3.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;

    fn share(draw: impl Fn(&mut Rng) -> f64, inside: f64) -> f64 {
        let mut rng = Seed(1).rng("noise");
        (0..20_000).filter(|_| draw(&mut rng).abs() < inside).count() as f64 / 20_000.0
    }

    #[test]
    fn quantiles_are_those_of_the_distributions() {
        assert!((share(normal, 1.959_964) - 0.95).abs() < 0.006);
        assert!((share(normal, 0.674_49) - 0.5).abs() < 0.012);
        assert!((share(student_3, 3.182_446) - 0.95).abs() < 0.006);
        assert!((share(uniform, 0.25) - 0.25).abs() < 0.012);
    }
}
