//! Whether a disturbance affected one variant more than the others.
//!
//! Rounds distribute the activity of others over all variants. If it still differs significantly
//! between two variants, it came with one of them, and the ratio of the two is biased. The test
//! uses the machine's activity, never the metric.

use base::Nanos;
use record::{Disturber, Fact, Finding, Offer, Severity};
use stats::Spread;

use crate::running_variant::VariantResult;

/// Others are present in a slice if they used more CPUs than this. Presence is compared rather than
/// the amount, because a neighbour that uses the rest of a CPU uses less beside a variant that
/// leaves less.
const PRESENT: f64 = 0.2;

/// Significance level at which a difference forbids a verdict, shared by all contrasts of a part.
const P_MAX: f64 = 0.001;

/// Minimum number of blocks for the test.
const BLOCKS_MIN: usize = 3;

/// One number per source, variant and block.
#[derive(Debug, Default)]
pub(crate) struct Unevenness {
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    block: u32,
    variant: u32,
    source: Disturber,
    size: f64,
}

/// The smallest relevant difference, in the source's unit; `median` is the median latency in
/// seconds.
fn least(source: Disturber, median: f64) -> f64 {
    match source {
        Disturber::OtherProcesses | Disturber::Throttling => 0.15,
        Disturber::Steal => 0.02,
        Disturber::Lateness => (0.2 * median).max(100e-6),
    }
}

impl Unevenness {
    /// Adds a block; `resolved` says whether single slices show the activity of others.
    pub(crate) fn note(&mut self, block: u32, ended: &VariantResult, resolved: bool) {
        let variant = ended.life.variant;
        let measured = ended.trial_sums.iter().filter(|trial_sum| trial_sum.offer.is_measured());
        let slices: Vec<_> = measured.clone().flat_map(|trial_sum| &trial_sum.slices).collect();
        let share = |of: &dyn Fn(&crate::trial_sum::TrialSlice) -> Option<bool>| -> Option<f64> {
            let known: Vec<bool> = slices.iter().filter_map(|slice| of(slice)).collect();
            let hits = known.iter().filter(|hit| **hit).count();
            (!known.is_empty()).then(|| hits as f64 / known.len() as f64)
        };
        let mean = |values: Vec<f64>| -> Option<f64> {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let others = share(&|slice| Some(slice.other_cpus? > PRESENT)).filter(|_| resolved);
        let stolen = slices.iter().filter_map(|slice| slice.cost.activity.stolen).collect();
        let throttled = share(&|slice| Some(slice.cost.throttled? > 0));
        let mut open = measured.filter(|trial_sum| trial_sum.offer == Offer::Open);
        let late =
            open.find_map(|trial_sum| trial_sum.lateness()).map(|(p99, _)| p99.as_secs_f64());
        let sizes = [
            (Disturber::OtherProcesses, others),
            (Disturber::Steal, mean(stolen)),
            (Disturber::Throttling, throttled),
            (Disturber::Lateness, late),
        ];
        let known = sizes.into_iter().filter_map(|(source, size)| Some((source, size?)));
        self.seen.extend(known.map(|(source, size)| Seen { block, variant, source, size }));
    }

    /// Findings about uneven disturbances, for each contrast.
    pub(crate) fn findings(
        &self,
        contrasts: &[spec::Contrast],
        complete: &[u32],
        median_latency: Nanos,
    ) -> Vec<Finding> {
        let sources = [
            Disturber::OtherProcesses,
            Disturber::Steal,
            Disturber::Throttling,
            Disturber::Lateness,
        ];
        let p_max = P_MAX / (contrasts.len().max(1) * sources.len()) as f64;
        let mut found = Vec::new();
        for contrast in contrasts {
            for source in sources {
                let pairs = self.pairs(source, contrast, complete);
                let mean = |of: fn(&(f64, f64)) -> f64| {
                    pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64
                };
                let (there, here) = (mean(|pair| pair.0), mean(|pair| pair.1));
                let p = p_of_difference(&pairs);
                let matters = (here - there).abs() >= least(source, median_latency.as_secs_f64());
                if pairs.len() >= BLOCKS_MIN && matters && p <= p_max {
                    let other = contrast.baseline as u32;
                    let fact = Fact::Uneven { source, other, here, there, p };
                    found.push(Finding::of_variant(Severity::Invalid, contrast.variant, fact));
                }
            }
        }
        found
    }

    /// The sizes of (baseline, variant) in each block that has both.
    fn pairs(
        &self,
        source: Disturber,
        contrast: &spec::Contrast,
        complete: &[u32],
    ) -> Vec<(f64, f64)> {
        let size = |block: u32, variant: usize| {
            let mine =
                |s: &&Seen| (s.block, s.variant as usize) == (block, variant) && s.source == source;
            self.seen.iter().find(mine).map(|seen| seen.size)
        };
        complete
            .iter()
            .filter_map(|block| {
                Some((size(*block, contrast.baseline)?, size(*block, contrast.variant)?))
            })
            .collect()
    }
}

/// Two-sided p of Student's paired test.
fn p_of_difference(pairs: &[(f64, f64)]) -> f64 {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    match Spread::of(&differences) {
        Some(spread) => stats::t_test_p(&spread),
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sizes: &[(f64, f64)], source: Disturber) -> Unevenness {
        let mut all = Unevenness::default();
        for (i, (a, b)) in sizes.iter().enumerate() {
            let block = i as u32 + 1;
            all.seen.push(Seen { block, variant: 0, source, size: *a });
            all.seen.push(Seen { block, variant: 1, source, size: *b });
        }
        all
    }

    fn findings(sizes: &[(f64, f64)], source: Disturber) -> usize {
        let contrast = spec::Contrast { baseline: 0, variant: 1 };
        let complete: Vec<u32> = (1..=sizes.len() as u32).collect();
        seen(sizes, source).findings(&[contrast], &complete, Nanos::from_millis(1)).len()
    }

    #[test]
    fn a_hog_that_runs_during_one_variant_only_is_found() {
        let hog = [(0.02, 0.95), (0.04, 1.0), (0.0, 0.97), (0.03, 0.98), (0.01, 1.0), (0.02, 0.96)];
        assert_eq!(findings(&hog, Disturber::OtherProcesses), 1);
    }

    #[test]
    fn a_neighbour_that_comes_and_goes_is_not() {
        let bursts =
            [(0.4, 0.5), (0.7, 0.6), (0.0, 0.1), (0.9, 0.9), (0.3, 0.2), (0.5, 0.45), (0.2, 0.4)];
        assert_eq!(findings(&bursts, Disturber::OtherProcesses), 0);
    }

    #[test]
    fn a_difference_too_small_to_matter_is_accepted() {
        let steal = [(0.001, 0.004), (0.001, 0.0041), (0.001, 0.0039), (0.001, 0.004)];
        assert_eq!(findings(&steal, Disturber::Steal), 0);
        assert_eq!(findings(&steal[..2], Disturber::Steal), 0, "two blocks test nothing");
    }
}
