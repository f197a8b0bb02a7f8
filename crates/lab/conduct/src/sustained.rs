//! Whether an open loop's rate was sustained: as many requests completed in its windows as were due.
//!
//! Each slice begins with no request outstanding, so requests that take longer than its lead-in are
//! missing at its end although the server sustains the rate. How many follows from their latencies
//! ([`stats::outstanding_share`]), since a slice waits for its last requests.
//!
//! A queue that grows also makes latencies long. If it grows by a tenth of the rate, they stay far below
//! the length of a slice and explain nothing; at twice the capacity, they would explain everything. So
//! they only count for a rate that the variant completed in its closed loop, or in the calibration if
//! there is no closed loop.

use std::collections::BTreeMap;

use base::Nanos;
use record::{Fact, Finding, Offer, Part, Severity, Trial};
use stats::{Spread, Total};

use crate::analyse::{is_latency, metric_of, offer_of, trial_of};
use crate::block::BlockOutcome;
use crate::calibrate::Calibration;
use crate::validity::ACHIEVED_MIN;

/// Two-sided error probability with which a rate is called unsustained. With 0.05, 6 of 850 rates of
/// the zoo were, all of which are below 55% of what their servers sustain.
const ALPHA: f64 = 0.01;
/// The same for one block alone, in standard errors of a number of independent requests.
const ONE_BLOCK_ERRORS: f64 = 3.0;

/// The open loops of all blocks.
#[derive(Debug)]
pub(crate) struct OpenLoops {
    capacities_per_s: BTreeMap<usize, f64>,
    /// The share of the requests due that were outstanding without a queue, by block and variant.
    outstanding: BTreeMap<(u32, usize), f64>,
}

impl OpenLoops {
    pub(crate) fn of(calibration: &Calibration) -> OpenLoops {
        let variants = calibration.variants.iter();
        let capacities_per_s = variants.map(|c| (c.variant, c.capacity_per_s)).collect();
        OpenLoops { capacities_per_s, outstanding: BTreeMap::new() }
    }

    /// Those of a variant with this share in each of `blocks`.
    #[cfg(test)]
    pub(crate) fn in_blocks(
        blocks: std::ops::RangeInclusive<u32>,
        variant: usize,
        share: f64,
    ) -> OpenLoops {
        let outstanding = blocks.map(|block| ((block, variant), share)).collect();
        OpenLoops { capacities_per_s: BTreeMap::new(), outstanding }
    }

    /// Adds a block.
    pub(crate) fn note(&mut self, block: u32, outcome: &BlockOutcome) {
        for ended in &outcome.ended {
            let mut sums = ended.trial_sums.iter();
            if let Some(open) = sums.find(|sum| sum.offer == Offer::Open) {
                let key = (block, ended.life.variant as usize);
                self.outstanding.insert(key, open.outstanding_share());
            }
        }
    }

    /// The findings about variants that did not sustain their rate. Their latency is not compared, and
    /// if latency is the primary metric, there is no verdict.
    pub(crate) fn findings(&self, plan: &spec::Part, part: &Part) -> Vec<Finding> {
        (0..part.variants.len()).filter_map(|v| self.unsustained(plan, part, v)).collect()
    }

    fn unsustained(&self, plan: &spec::Part, part: &Part, v: usize) -> Option<Finding> {
        let blocks: Vec<(u32, &Trial)> = part
            .complete_blocks()
            .filter_map(|block| Some((block.index, trial_of(block, v, Offer::Open)?)))
            .collect();
        let calibrated = || self.capacities_per_s.get(&v).copied().unwrap_or(0.0);
        let capacity_per_s = closed_per_s(part, v).unwrap_or_else(calibrated);
        let outstanding = |block: u32, trial: &Trial| match trial.offered_per_s {
            Some(rate) if rate <= capacity_per_s => {
                self.outstanding.get(&(block, v)).copied().unwrap_or(0.0)
            }
            _ => 0.0,
        };
        let totals: Vec<Total> =
            blocks.iter().map(|(block, trial)| total(trial, outstanding(*block, trial))).collect();
        let (achieved, _) = achieved(&totals).filter(|(_, at_most)| *at_most < ACHIEVED_MIN)?;
        let dropped = blocks.iter().map(|(_, trial)| trial.ledger.counts.dropped).sum();
        let fact =
            Fact::Unsustained { achieved, limit: ACHIEVED_MIN, dropped, connections_cap: None };
        let decides = is_latency(metric_of(plan.primary), offer_of(plan, metric_of(plan.primary)));
        let severity = match (decides, plan.variants[v].actions.is_empty()) {
            (true, _) => Severity::Invalid,
            (false, true) => Severity::Warning,
            // A consequence of the actions, which have their own table.
            (false, false) => Severity::Note,
        };
        Some(Finding::of_variant(severity, v, fact))
    }
}

/// The throughput of a variant's closed loop; `None` without one.
fn closed_per_s(part: &Part, v: usize) -> Option<f64> {
    let closed = part.complete_blocks().filter_map(|block| trial_of(block, v, Offer::Closed));
    let (completed, window) = closed.fold((0, Nanos::ZERO), |(completed, window), trial| {
        (completed + trial.completed_in_window, window + trial.window)
    });
    (window > Nanos::ZERO).then(|| completed as f64 / window.as_secs_f64())
}

/// Requests completed in a trial's windows, and the share of the due ones that were only outstanding,
/// per request due.
fn total(trial: &Trial, outstanding: f64) -> Total {
    let due = trial.latency.as_ref().map_or(0, |latency| latency.count) as f64;
    Total { amount: trial.completed_in_window as f64 + outstanding * due, per: due }
}

/// The share of the requests due that completed, and the largest share compatible with how it varied
/// between blocks.
fn achieved(totals: &[Total]) -> Option<(f64, f64)> {
    let (sum, of) = totals.iter().fold((0.0, 0.0), |(a, p), t| (a + t.amount, p + t.per));
    let spread = stats::log_of_totals(totals).ok().and_then(|logs| Spread::of(&logs));
    // One block alone has no spread, but its requests are few.
    let half = spread
        .map_or_else(|| ONE_BLOCK_ERRORS / of.max(1.0).sqrt(), |spread| spread.t_half_width(ALPHA));
    (of > 0.0).then(|| (sum / of, sum / of * half.exp()))
}
