//! Whether a disturbance affected one variant more than the others.
//!
//! Rounds distribute the activity of others over all variants. If it still differs significantly
//! between two variants, it came with one of them, and the ratio of the two is biased. The test
//! uses the machine's activity, never the metric. Where the bias has a bound ([`stats::bias_bound`]),
//! the interval is widened by it; otherwise there is no verdict.
//!
//! A difference counts from the error probability of the verdict itself on: a metric that follows the
//! disturbance differs between the variants with the same significance, so a stricter test of the
//! disturbance would let wrong verdicts pass. With the limit at 0.1%, a process that ran beside one
//! variant in five blocks of six, and beside both in the first, made equal servers "0.72×".
//!
//! What is tested is how often others were active, not how much they used: a neighbour that uses the
//! rest of a CPU uses more of it beside a variant that leaves more, which is no unfairness.

use base::Nanos;
use record::{Disturber, Fact, Finding, Metric, Offer, Severity, UncheckedInput};
use stats::Spread;

use crate::running_variant::VariantResult;
use crate::trial_sum::TrialSlice;
use crate::validity::is_boundable;

/// Others are present in a slice if they used more CPUs than this. Presence is compared rather than
/// the amount, because a neighbour that uses the rest of a CPU uses less beside a variant that
/// leaves less.
const PRESENT: f64 = 0.2;

/// Minimum number of blocks for the test.
const BLOCKS_MIN: usize = 3;

/// One number per source, variant and block.
#[derive(Debug, Default)]
pub(crate) struct Unevenness {
    seen: Vec<VariantDisturbance>,
    /// Whether slices were too short to show the activity of others.
    is_blind: bool,
}

#[derive(Clone, Copy, Debug)]
struct VariantDisturbance {
    block: u32,
    variant: u32,
    source: Disturber,
    size: f64,
    taken: TakenCpu,
}

/// CPU time that was taken while a variant was loaded.
#[derive(Clone, Copy, Debug, Default)]
struct TakenCpu {
    /// What was taken, in CPU seconds.
    taken: f64,
    /// What stack and client used meanwhile; `None` if unknown.
    used: Option<f64>,
}

impl TakenCpu {
    /// The sum over slices of what `taken_cpus` took in each.
    fn sum<'a>(slices: impl Iterator<Item = (&'a TrialSlice, f64)>) -> TakenCpu {
        let mut sum = TakenCpu { taken: 0.0, used: Some(0.0) };
        for (slice, taken_cpus) in slices {
            let activity = &slice.cost.activity;
            sum.taken += taken_cpus * activity.elapsed.as_secs_f64();
            let used = slice.cost.stack_cpu.map(|cpu| (activity.own_cpu + cpu).as_secs_f64());
            sum.used = sum.used.zip(used).map(|(sum, used)| sum + used);
        }
        sum
    }

    /// The largest share of its time that the variant can have lost; `None` if unknown.
    fn lost(&self) -> Option<f64> {
        Some(stats::lost_share(self.taken, self.used?))
    }
}

/// The smallest relevant difference, in the source's unit; `median` is the median latency in
/// seconds.
fn least(source: Disturber, median: f64) -> f64 {
    match source {
        Disturber::OtherProcesses | Disturber::Throttling => 0.15,
        Disturber::Steal => 0.01,
        Disturber::Lateness => (0.2 * median).max(100e-6),
    }
}

impl Unevenness {
    /// Adds a block; `resolved` says whether single slices show the activity of others.
    pub(crate) fn note(&mut self, block: u32, ended: &VariantResult, resolved: bool) {
        self.is_blind |= !resolved;
        let variant = ended.life.variant;
        let measured = ended.trial_sums.iter().filter(|trial_sum| trial_sum.offer.is_measured());
        let slices: Vec<&TrialSlice> =
            measured.clone().flat_map(|trial_sum| &trial_sum.slices).collect();
        let mean = |values: Vec<f64>| -> Option<f64> {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let share =
            |hits: Vec<bool>| mean(hits.into_iter().map(|hit| f64::from(u8::from(hit))).collect());
        let with_others = measured.clone().flat_map(|trial_sum| trial_sum.slices_with_others());
        let with_others: Vec<(&TrialSlice, f64)> =
            with_others.filter_map(|(slice, cpus)| Some((slice, cpus?))).collect();
        let others = share(with_others.iter().map(|(_, cpus)| *cpus > PRESENT).collect());
        let others = others.filter(|_| resolved);
        let present = with_others.into_iter().filter(|(_, cpus)| *cpus > PRESENT);
        let by_others = TakenCpu::sum(present);
        let stolen = slices.iter().filter_map(|slice| slice.cost.activity.stolen).collect();
        let by_hypervisor =
            slices.iter().filter_map(|slice| Some((*slice, slice.cost.activity.stolen_cpus?)));
        let by_hypervisor = TakenCpu::sum(by_hypervisor);
        let throttled = slices.iter().filter_map(|slice| Some(slice.cost.throttled? > 0));
        let throttled = share(throttled.collect());
        let mut open = measured.filter(|trial_sum| trial_sum.offer == Offer::Open);
        let late =
            open.find_map(|trial_sum| trial_sum.lateness()).map(|(p99, _)| p99.as_secs_f64());
        let sizes = [
            (Disturber::OtherProcesses, others, by_others),
            (Disturber::Steal, mean(stolen), by_hypervisor),
            (Disturber::Throttling, throttled, TakenCpu::default()),
            (Disturber::Lateness, late, TakenCpu::default()),
        ];
        let known = sizes.into_iter().filter_map(|(source, size, taken)| {
            Some(VariantDisturbance { block, variant, source, size: size?, taken })
        });
        self.seen.extend(known);
    }

    /// Findings about uneven disturbances, for each contrast, whose verdicts together have the error
    /// probability `alpha`. One is a warning if it only widens the interval of the `deciding` metric,
    /// under its offer.
    pub(crate) fn findings(
        &self,
        contrasts: &[spec::Contrast],
        complete: &[u32],
        alpha: f64,
        median_latency: Nanos,
        (deciding, offer): (Metric, Offer),
    ) -> Vec<Finding> {
        let sources = [
            Disturber::OtherProcesses,
            Disturber::Steal,
            Disturber::Throttling,
            Disturber::Lateness,
        ];
        let median = median_latency.as_secs_f64();
        let p_max = alpha / contrasts.len().max(1) as f64;
        let mut found = Vec::new();
        if self.is_blind && !contrasts.is_empty() {
            let fact = Fact::Unchecked { what: UncheckedInput::ShortSlices };
            found.push(Finding { severity: Severity::Warning, block: None, variant: None, fact });
        }
        for contrast in contrasts {
            for source in sources {
                let pairs = self.pairs(source, contrast, complete);
                let mean = |of: fn(&(VariantDisturbance, VariantDisturbance)) -> f64| {
                    pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64
                };
                let (there, here) = (mean(|pair| pair.0.size), mean(|pair| pair.1.size));
                let p = p_of_difference(&pairs);
                let matters = (here - there).abs() >= least(source, median);
                if pairs.len() >= BLOCKS_MIN && matters && p <= p_max {
                    let other = contrast.baseline as u32;
                    let log_bound = log_bound(source, &pairs, there, here, median);
                    let widens = log_bound.is_some() && is_boundable(source, deciding, offer);
                    let severity = if widens { Severity::Warning } else { Severity::Invalid };
                    let fact = Fact::Uneven { source, other, here, there, p, log_bound };
                    found.push(Finding::of_variant(severity, contrast.variant, fact));
                }
            }
        }
        found
    }

    /// What was seen of (baseline, variant) in each block that has both.
    fn pairs(
        &self,
        source: Disturber,
        contrast: &spec::Contrast,
        complete: &[u32],
    ) -> Vec<(VariantDisturbance, VariantDisturbance)> {
        let seen = |block: u32, variant: usize| {
            let mine = |s: &&VariantDisturbance| {
                (s.block, s.variant as usize) == (block, variant) && s.source == source
            };
            self.seen.iter().find(mine).copied()
        };
        complete
            .iter()
            .filter_map(|block| {
                Some((seen(*block, contrast.baseline)?, seen(*block, contrast.variant)?))
            })
            .collect()
    }
}

/// The bound on the bias of the metrics that have one; `None` if there is no bound.
///
/// - Steal: both variants may have lost the share that was taken from them.
/// - Other processes: a neighbour also uses idle CPU time, so its total does not show what it
///   would have taken from the other variant. Its presence does: had it been there as often as beside
///   the other, the variant would have lost the same share of as many slices.
/// - Lateness: latency contains it, so it is off by at most the difference.
/// - Throttling: it is known how often the quota stopped the load, but not for how long.
fn log_bound(
    source: Disturber,
    pairs: &[(VariantDisturbance, VariantDisturbance)],
    there: f64,
    here: f64,
    median_latency: f64,
) -> Option<f64> {
    let of_blocks: Option<Vec<f64>> = match source {
        Disturber::Steal => {
            let bias = |(a, b): &(VariantDisturbance, VariantDisturbance)| {
                Some(stats::log_bias(a.taken.lost()?, b.taken.lost()?))
            };
            pairs.iter().map(bias).collect()
        }
        Disturber::OtherProcesses => {
            let disturbed = pairs.iter().map(|(a, b)| if here > there { b.taken } else { a.taken });
            let all = disturbed.reduce(|sum, of| TakenCpu {
                taken: sum.taken + of.taken,
                used: sum.used.zip(of.used).map(|(sum, used)| sum + used),
            });
            let lost = all?.lost()?;
            let bias = |(a, b): &(VariantDisturbance, VariantDisturbance)| {
                stats::log_bias(lost * a.size, lost * b.size)
            };
            Some(pairs.iter().map(bias).collect())
        }
        Disturber::Lateness => {
            let bias = |(a, b): &(VariantDisturbance, VariantDisturbance)| {
                let share = (b.size - a.size) / median_latency;
                share.signum() * -(-share.abs()).ln_1p()
            };
            Some(pairs.iter().map(bias).collect())
        }
        Disturber::Throttling => None,
    };
    stats::bias_bound(&of_blocks?)
}

/// Two-sided p of Student's paired test.
fn p_of_difference(pairs: &[(VariantDisturbance, VariantDisturbance)]) -> f64 {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b.size - a.size).collect();
    match Spread::of(&differences) {
        Some(spread) => stats::t_test_p(&spread),
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    /// What was seen of two variants in blocks with these sizes, each of which took `taken` of 1 CPU
    /// that stack and client used.
    fn seen(sizes: &[(f64, f64)], source: Disturber, taken: fn(f64) -> f64) -> Unevenness {
        let mut all = Unevenness::default();
        for (i, (a, b)) in sizes.iter().enumerate() {
            for (variant, size) in [(0, *a), (1, *b)] {
                let taken = TakenCpu { taken: taken(size), used: Some(1.0) };
                all.seen.push(VariantDisturbance {
                    block: i as u32 + 1,
                    variant,
                    source,
                    size,
                    taken,
                });
            }
        }
        all
    }

    fn found_by(all: &Unevenness, blocks: usize) -> Vec<Finding> {
        let contrast = spec::Contrast { baseline: 0, variant: 1 };
        let complete: Vec<u32> = (1..=blocks as u32).collect();
        let median = Nanos::from_millis(1);
        all.findings(&[contrast], &complete, 0.05, median, (Metric::Throughput, Offer::Closed))
    }

    fn findings(sizes: &[(f64, f64)], source: Disturber) -> usize {
        found_by(&seen(sizes, source, |size| size), sizes.len()).len()
    }

    fn bound_of(found: &[Finding]) -> (Severity, Option<f64>) {
        let [Finding { severity, fact: Fact::Uneven { log_bound, .. }, .. }] = found else {
            panic!("one finding: {found:?}")
        };
        (*severity, *log_bound)
    }

    /// Sizes around two means, a little different in each block.
    fn around(a: f64, b: f64) -> Vec<(f64, f64)> {
        (0..10).map(|i| (a + 0.001 * f64::from(i % 3), b + 0.001 * f64::from(i % 2))).collect()
    }

    #[test]
    fn uneven_steal_with_a_known_bound_widens_instead_of_forbidding() {
        // Of two CPUs, 27.4% and 33.8% were stolen; the rest was used.
        let mut all = seen(&around(0.274, 0.338), Disturber::Steal, |share| 2.0 * share);
        for seen in &mut all.seen {
            seen.taken.used = Some(2.0 * (1.0 - seen.size));
        }
        let (severity, bound) = bound_of(&found_by(&all, 10));
        let bound = bound.expect("a bound");
        assert_eq!(severity, Severity::Warning);
        // Lost at most: 0.548 ÷ (0.548 + 0.726) and 0.676 ÷ (0.676 + 0.662).
        let expected = ((1.0 - 0.430_1) / (1.0 - 0.505_2_f64)).ln();
        assert!((bound / expected - 1.0).abs() < 0.05, "{bound} {expected}");
        // Without the stack's CPU time there is no bound.
        all.seen.iter_mut().for_each(|seen| seen.taken.used = None);
        assert_eq!(bound_of(&found_by(&all, 10)), (Severity::Invalid, None));
    }

    #[test]
    fn steal_that_is_proportional_to_what_a_variant_uses_widens_by_almost_nothing() {
        let mut all = seen(&around(0.1, 0.2), Disturber::Steal, |share| share);
        for seen in &mut all.seen {
            seen.taken.used = Some(4.0 * seen.taken.taken);
        }
        let (severity, bound) = bound_of(&found_by(&all, 10));
        assert_eq!(severity, Severity::Warning);
        assert!(bound.unwrap() < 1e-9, "{bound:?}");
    }

    #[test]
    fn slices_that_do_not_show_others_are_no_silent_pass() {
        let sizes = around(0.1, 0.1);
        let mut all = seen(&sizes, Disturber::Steal, |_| 0.0);
        assert!(found_by(&all, sizes.len()).is_empty());
        all.is_blind = true;
        let found = found_by(&all, sizes.len());
        let what = UncheckedInput::ShortSlices;
        assert_eq!(found[0].fact, Fact::Unchecked { what });
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn a_neighbour_beside_one_variant_has_a_bound_and_a_hog_beside_it_has_none() {
        // Present in 10% and 40% of the slices, and then it takes 0.3 of a CPU.
        let sizes = around(0.1, 0.4);
        let all = seen(&sizes, Disturber::OtherProcesses, |_| 0.3);
        let (severity, bound) = bound_of(&found_by(&all, 10));
        let lost = 0.3 / (0.3 + 0.5);
        let expected = ((1.0 - lost * 0.1) / (1.0 - lost * 0.4_f64)).ln();
        assert_eq!(severity, Severity::Warning);
        assert!((bound.unwrap() / expected - 1.0).abs() < 0.05, "{bound:?} {expected}");
        let hog = seen(&around(0.02, 0.98), Disturber::OtherProcesses, |_| 0.95);
        assert_eq!(bound_of(&found_by(&hog, 10)), (Severity::Invalid, None));
    }

    #[test]
    fn lateness_is_bounded_by_its_difference_and_throttling_is_not() {
        let sizes = around(0.0, 0.25).iter().map(|(a, b)| (a * 1e-3, b * 1e-3)).collect::<Vec<_>>();
        let all = seen(&sizes, Disturber::Lateness, |_| 0.0);
        let (severity, bound) = bound_of(&found_by(&all, 10));
        assert_eq!(severity, Severity::Warning, "throughput is not affected");
        // 250 µs of a median of 1 ms.
        assert!((bound.unwrap() / -(-0.25_f64).ln_1p() - 1.0).abs() < 0.05, "{bound:?}");
        let throttled = seen(&around(0.1, 0.5), Disturber::Throttling, |_| 0.0);
        assert_eq!(bound_of(&found_by(&throttled, 10)), (Severity::Invalid, None));
    }

    #[test]
    fn a_hog_that_runs_during_one_variant_only_is_found() {
        let hog = [(0.02, 0.95), (0.04, 1.0), (0.0, 0.97), (0.03, 0.98), (0.01, 1.0), (0.02, 0.96)];
        assert_eq!(findings(&hog, Disturber::OtherProcesses), 1);
    }

    /// Equal servers, called 0.72 times as fast without a word.
    #[test]
    fn a_hog_beside_one_variant_after_a_block_that_was_disturbed_alike_is_found() {
        let sizes = [(1.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)];
        assert_eq!(findings(&sizes, Disturber::OtherProcesses), 1);
    }

    /// Presence beside a and b in each block, and the logarithm of their ratio, of two equal servers.
    fn equal_servers(seed: u64) -> (Vec<(f64, f64)>, Vec<f64>) {
        let mut rng = base::Seed(seed).rng("hog");
        let blocks = rng.random_range(6..=15);
        // Blocks in which others ran beside both, beside b only, or as it happened.
        let (both, only_b) = (rng.random_range(0.0..0.6), rng.random_range(0.0..1.0));
        let depth = rng.random_range(0.05..0.7);
        (0..blocks)
            .map(|_| {
                let sizes = match (rng.random_bool(both), rng.random_bool(only_b)) {
                    (true, _) => (1.0, 1.0),
                    (false, true) => (0.0, 1.0),
                    (false, false) => (rng.random::<f64>(), rng.random::<f64>()),
                };
                let noise: f64 = (0..12).map(|_| rng.random_range(-0.5..0.5)).sum();
                (sizes, depth * (sizes.0 - sizes.1) + 0.02 * noise)
            })
            .unzip()
    }

    #[test]
    fn whatever_ran_beside_one_variant_a_verdict_that_follows_from_it_is_rare() {
        let is_wrong = |d: &[f64]| stats::t_test_p(&Spread::of(d).unwrap()) <= 0.05;
        let runs: Vec<_> = (0..4_000).map(equal_servers).collect();
        let wrong: Vec<_> = runs.iter().filter(|(_, d)| is_wrong(d)).collect();
        assert!(wrong.len() > 1_000, "{} runs would mislead", wrong.len());
        let unseen =
            wrong.iter().filter(|(sizes, _)| findings(sizes, Disturber::OtherProcesses) == 0);
        let unseen = unseen.count();
        assert!(unseen < 4_000 / 20, "{unseen} of them say nothing");
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
