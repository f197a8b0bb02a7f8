//! Change points: a server that slows down.

use crate::median::median;
use crate::spread::mean;

/// A step above this share of the level within a trial is drift.
const DRIFT_CHANGE_MIN: f64 = 0.05;
/// Minimum length of a segment, so that a single outlier is not a level.
const SEGMENT_MIN: usize = 2;

/// The indices at which the mean of `series` changes: each begins a new segment.
///
/// Minimises the sum of squared distances to the segment's mean plus `penalty` per change over all
/// segmentations, by the pruned exact search PELT (Killick, Fearnhead & Eckley, JASA 107, 2012).
/// `penalty` is in squared units of the series. Segments have at least two values.
pub fn pelt(series: &[f64], penalty: f64) -> Vec<usize> {
    let n = series.len();
    if n < 2 * SEGMENT_MIN {
        return Vec::new();
    }
    let cost = SegmentCost::new(series);
    // best[t] is the least cost of the first t values, last[t] the start of its final segment.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates: Vec<usize> = vec![0];
    for t in SEGMENT_MIN..=n {
        for &start in &candidates {
            let total = best[start] + cost.of(start, t) + penalty;
            if t - start >= SEGMENT_MIN && total < best[t] {
                (best[t], last[t]) = (total, start);
            }
        }
        // If ending a segment at `settled` beats continuing from `start` by more than the cost of a
        // change, `start` can begin no optimal final segment from here on. `settled` is far enough
        // back to begin one itself.
        let settled = t + 1 - SEGMENT_MIN;
        candidates.retain(|&start| best[start] + cost.of(start, settled) <= best[settled]);
        candidates.push(settled);
    }
    let mut changes = Vec::new();
    let mut t = last[n];
    while t > 0 {
        changes.push(t);
        t = last[t];
    }
    changes.reverse();
    debug_assert!(
        changes.windows(2).all(|pair| pair[1] >= pair[0] + SEGMENT_MIN),
        "no segment is shorter than {SEGMENT_MIN}: {changes:?}"
    );
    changes
}

/// Squared distances to the mean of any stretch, from running sums.
struct SegmentCost {
    sums: Vec<(f64, f64)>,
}

impl SegmentCost {
    fn new(series: &[f64]) -> SegmentCost {
        // Centred first, because the difference of large squares loses digits.
        let centre = mean(series);
        let mut sums = vec![(0.0, 0.0)];
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in series {
            sum += value - centre;
            squares += (value - centre).powi(2);
            sums.push((sum, squares));
        }
        SegmentCost { sums }
    }

    fn of(&self, from: usize, to: usize) -> f64 {
        let sum = self.sums[to].0 - self.sums[from].0;
        let squares = self.sums[to].1 - self.sums[from].1;
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }
}

/// The penalty per change: 3·σ²·ln n (after Zhang & Siegmund, Biometrics 63, 2007), with σ from the
/// median of absolute first differences, on which steps and outliers have hardly any influence. σ
/// is at least half a percent of the level, so that a series without noise is not split up.
fn default_penalty(series: &[f64]) -> f64 {
    let differences: Vec<f64> = series.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // The median of |N(0, 2σ²)| is 0.6745·√2·σ.
    let sigma = median(&differences).unwrap_or(0.0) / (0.6745 * std::f64::consts::SQRT_2);
    let floor = 0.005 * median(series).unwrap_or(0.0).abs();
    3.0 * sigma.max(floor).powi(2) * (series.len() as f64).ln()
}

/// A change of level within a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The first bucket of the new level.
    pub at: usize,
    /// The relative change: −0.2 is a fifth slower.
    pub change: f64,
}

/// Steps between adjacent levels that exceed `change_min`.
fn steps(buckets: &[f64], change_min: f64) -> Vec<Drift> {
    let changes = pelt(buckets, default_penalty(buckets));
    let mut bounds = vec![0];
    bounds.extend(&changes);
    bounds.push(buckets.len());
    let level = |i: usize| mean(&buckets[bounds[i]..bounds[i + 1]]);
    changes
        .iter()
        .enumerate()
        .map(|(i, &at)| Drift { at, change: level(i + 1) / level(i) - 1.0 })
        .filter(|step| step.change.abs() > change_min || !step.change.is_finite())
        .collect()
}

/// The largest step above 5% in the level of one trial's buckets (requests completed per unit of
/// time), if there is one. Steps are compared as factors: half as fast is as large as twice as fast.
/// One that begins at nothing has no factor, and counts only if there is no other.
pub fn drift(buckets: &[f64]) -> Option<Drift> {
    let size = |step: &Drift| (step.change.is_finite(), step.change.ln_1p().abs());
    let larger = |a: &Drift, b: &Drift| {
        let ((of_a, a), (of_b, b)) = (size(a), size(b));
        of_a.cmp(&of_b).then(a.total_cmp(&b))
    };
    steps(buckets, DRIFT_CHANGE_MIN).into_iter().max_by(larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;
    use proptest::prelude::*;

    /// `level` per bucket with about 1% noise.
    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut rng = Seed(seed).rng("noise");
        let levels = levels.iter().flat_map(|&(count, level)| vec![level; count]);
        levels
            .map(|level| {
                let uniform = rng.next_u64() as f64 / u64::MAX as f64;
                level * (1.0 + 0.04 * (uniform - 0.5))
            })
            .collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        assert_eq!(pelt(&[1.0, 1.0, 1.0, 5.0, 5.0, 5.0], 1.0), [3]);
        assert_eq!(pelt(&[1.0, 1.0, 5.0, 5.0, 2.0, 2.0], 1.0), [2, 4]);
        assert_eq!(pelt(&[1.0, 1.0, 5.0, 5.0], 100.0), [] as [usize; 0]);
        assert_eq!(pelt(&[1.0, 9.0, 1.0], 0.1), [] as [usize; 0], "too short for two segments");
    }

    #[test]
    fn a_server_that_slows_by_a_fifth_drifts_and_a_steady_one_does_not() {
        for seed in 0..20 {
            let slows = drift(&noisy(&[(20, 1000.0), (20, 800.0)], seed)).unwrap();
            assert_eq!(slows.at, 20, "seed {seed}");
            assert!((slows.change + 0.2).abs() < 0.02, "{slows:?}");
            assert_eq!(drift(&noisy(&[(40, 1000.0)], seed)), None, "seed {seed}");
            assert_eq!(drift(&noisy(&[(20, 1000.0), (20, 970.0)], seed)), None, "seed {seed}");
        }
    }

    #[test]
    fn a_server_that_starts_from_nothing_or_dies_drifts() {
        assert!(drift(&[0.0, 0.0, 0.0, 0.0, 100.0, 101.0, 99.0, 100.0]).is_some());
        assert_eq!(drift(&[100.0, 101.0, 99.0, 100.0, 0.0, 0.0, 0.0]).unwrap().change, -1.0);
        let stops = [100.0, 101.0, 99.0, 100.0, 0.0, 0.0, 0.0, 50.0, 50.0, 50.0];
        assert_eq!(drift(&stops).unwrap().change, -1.0, "before it goes on");
        assert_eq!(drift(&[]), None);
        assert_eq!(drift(&[0.0; 20]), None);
    }

    #[test]
    fn of_several_steps_the_largest_factor_counts() {
        let (twice, a_tenth) = ((20, 2000.0), (20, 200.0));
        let change = |levels: &[(usize, f64)]| drift(&noisy(levels, 1)).unwrap().change;
        assert!((change(&[(20, 1000.0), twice, a_tenth]) + 0.9).abs() < 0.02);
        assert!((change(&[(20, 100.0), (20, 1000.0), (20, 500.0)]) - 9.0).abs() < 0.2);
    }

    /// The least cost over all segmentations, by exhaustive search.
    fn exhaustive(series: &[f64], penalty: f64) -> f64 {
        let cost = SegmentCost::new(series);
        let n = series.len();
        (0..1_u32 << (n - 1))
            .filter_map(|cuts| {
                let mut bounds = vec![0];
                bounds.extend((1..n).filter(|i| cuts >> (i - 1) & 1 == 1));
                bounds.push(n);
                let long_enough = bounds.windows(2).all(|w| w[1] - w[0] >= SEGMENT_MIN);
                long_enough.then(|| total(&cost, &bounds, penalty))
            })
            .fold(f64::INFINITY, f64::min)
    }

    fn total(cost: &SegmentCost, bounds: &[usize], penalty: f64) -> f64 {
        let changes = bounds.len() - 2;
        bounds.windows(2).map(|w| cost.of(w[0], w[1])).sum::<f64>() + penalty * changes as f64
    }

    proptest! {
        #[test]
        fn pruning_loses_no_optimum(series in prop::collection::vec(0.0..10.0_f64, 4..12), penalty in 0.1..30.0_f64) {
            let mut bounds = vec![0];
            bounds.extend(pelt(&series, penalty));
            bounds.push(series.len());
            let found = total(&SegmentCost::new(&series), &bounds, penalty);
            prop_assert!((found - exhaustive(&series, penalty)).abs() < 1e-9);
        }
    }
}
