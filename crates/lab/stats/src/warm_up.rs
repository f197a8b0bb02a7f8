//! The end of a warm-up.

use crate::median::median;

/// Rates that differ from the final level by a smaller share do not count as warm-up: the mirrored
/// order of slices cancels the rest.
const DIFFERENCE_MIN: f64 = 0.02;

/// The same, as a multiple of the spread at the end: a machine that is never quiet must not seem to
/// warm up.
const SPREADS: f64 = 3.0;

/// The standard deviation of a normal distribution, divided by its median absolute deviation.
const PER_MEDIAN_DEVIATION: f64 = 1.4826;

/// The warm-up is over if this share of the rates that follow are near the final level; the others are
/// the machine's disturbances.
const NEAR_MIN: f64 = 0.5;

/// With fewer buckets no end is found.
const BUCKETS_MIN: usize = 8;

/// The bucket from which a server's rate is near its final level, the median of the second half; 0 if
/// it always was. `None` with fewer than eight buckets, or if the level still changes in the last
/// quarter.
///
/// `rates` are those of equal periods from the start. Changes in the second half, after which the level
/// is what it was, are no warm-up: a machine with a neighbour has many.
pub fn warmed_up_after(rates: &[f64]) -> Option<usize> {
    if rates.len() < BUCKETS_MIN {
        return None;
    }
    let (first, second) = rates.split_at(rates.len() / 2);
    let level = median(second)?;
    let deviations: Vec<f64> = second.iter().map(|rate| (rate - level).abs()).collect();
    let spread = PER_MEDIAN_DEVIATION * median(&deviations)?;
    let allowed = (DIFFERENCE_MIN * level).max(SPREADS * spread);
    let (third, last) = second.split_at(second.len() / 2);
    if (median(last)? - median(third)?).abs() > allowed {
        return None;
    }
    let near = |rate: &f64| (rate - level).abs() <= allowed;
    let over = |from: &usize| {
        let rest = &first[*from..];
        let count = rest.iter().filter(|rate| near(rate)).count();
        near(&rest[0]) && count as f64 >= NEAR_MIN * rest.len() as f64
    };
    Some((0..first.len()).find(over).unwrap_or(first.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;
    use rand::RngExt as _;

    /// `level` per bucket with noise of up to `noise` of it.
    fn noisy(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut rng = Seed(seed).rng("noise");
        let levels = levels.iter().flat_map(|&(count, level)| vec![level; count]);
        levels.map(|level| level * (1.0 + noise * (rng.random::<f64>() - 0.5))).collect()
    }

    #[test]
    fn warm_up_ends_when_the_rate_is_near_its_final_level() {
        for seed in 0..20 {
            let after = |levels: &[(usize, f64)]| warmed_up_after(&noisy(levels, 0.02, seed));
            assert_eq!(after(&[(4, 600.0), (4, 900.0), (24, 1000.0)]), Some(8), "seed {seed}");
            assert_eq!(after(&[(3, 1500.0), (13, 1000.0)]), Some(3), "seed {seed}");
            assert_eq!(after(&[(32, 1000.0)]), Some(0), "seed {seed}");
            assert_eq!(after(&[(26, 1000.0), (6, 700.0)]), None, "seed {seed}");
            assert_eq!(after(&[(20, 600.0), (12, 1000.0)]), None, "seed {seed}");
        }
        assert_eq!(warmed_up_after(&[1.0; 7]), None);
        assert_eq!(warmed_up_after(&[1.0; 8]), Some(0));
        assert_eq!(warmed_up_after(&[0.0; 16]), Some(0));
    }

    #[test]
    fn a_neighbour_made_warm_ups_long() {
        let mut rates = noisy(&[(16, 1000.0)], 0.02, 1);
        for disturbed in [2, 6, 7, 11] {
            rates[disturbed] = 600.0;
        }
        assert_eq!(warmed_up_after(&rates), Some(0));
    }
}
