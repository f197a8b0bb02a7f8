//! The effect of a slice's edges on a closed loop's throughput.
//!
//! Throughput counts requests that *end* in the window. Those outstanding at its start bring work
//! in, those outstanding at its end take work out. Over many slices the two balance, unless every
//! slice is cut at the same moments of the server's activity: then throughput is off by about as
//! much as the balance.

use std::collections::BTreeSet;

use record::{Block, Fact, Finding, Offer, Severity};
use stats::Spread;

use crate::block::BlockOutcome;
use crate::stops::{STOPS_MIN, Stops};

/// Tolerated significant imbalance, as a share of the connections' time.
const OFF_MAX: f64 = 0.01;

/// Two-sided significance level of an imbalance: one that remains forbids the verdict.
const ALPHA: f64 = 0.001;

/// The balance of every variant in every block.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    balances: Vec<Balance>,
}

#[derive(Debug)]
struct Balance {
    block: u32,
    variant: u32,
    /// Work brought into the window less work taken out, as a share of the connections' time.
    share: f64,
    stops: Stops,
}

impl Edges {
    /// Adds a block.
    pub(crate) fn note(&mut self, block: u32, part: &spec::Part, outcome: &BlockOutcome) {
        for ended in &outcome.ended {
            let variant = ended.life.variant;
            if part.variants[variant as usize].is_one_way() {
                continue;
            }
            let connections = part.variants[variant as usize].load.connections;
            let closed =
                ended.trial_sums.iter().filter(|trial_sum| trial_sum.offer == Offer::Closed);
            self.balances.extend(closed.filter(|trial_sum| trial_sum.counts.failed == 0).map(
                |trial_sum| {
                    let share = trial_sum.share_by_littles_law(connections)
                        - trial_sum.busy_share(connections);
                    // A slice that is the whole trial begins where nothing was before.
                    let stops = match part.schedule.one_slice {
                        true => Stops::default(),
                        false => Stops::of(trial_sum, connections),
                    };
                    Balance { block, variant, share, stops }
                },
            ));
        }
    }

    /// Forbids the verdict of each variant whose balance over the complete blocks differs significantly
    /// from zero, or whose slices are too short for its stops.
    pub(crate) fn findings(&self, blocks: &[Block], variants: usize) -> Vec<Finding> {
        let complete: BTreeSet<u32> =
            blocks.iter().filter(|b| b.is_complete()).map(|b| b.index).collect();
        let mine = |variant: usize| {
            let mine = self.balances.iter().filter(move |b| b.variant as usize == variant);
            mine.filter(|b| complete.contains(&b.block))
        };
        let imbalance = |variant: usize| {
            let shares: Vec<f64> = mine(variant).map(|b| b.share).collect();
            let spread = Spread::of(&shares)?;
            let half_width = spread.t_half_width(ALPHA);
            let fact = Fact::Edges { mean: spread.mean, half_width };
            (spread.mean.abs() - half_width > OFF_MAX)
                .then(|| Finding::of_variant(Severity::Invalid, variant, fact))
        };
        let stops = |variant: usize| {
            let (stopped, slice) = mine(variant).map(|b| b.stops).sum::<Stops>().too_long()?;
            let fact = Fact::LongStops { stopped, slice, needed: STOPS_MIN };
            Some(Finding::of_variant(Severity::Invalid, variant, fact))
        };
        (0..variants).flat_map(|v| imbalance(v).into_iter().chain(stops(v))).collect()
    }
}

#[cfg(test)]
mod tests {
    use record::BlockState;

    use super::*;

    fn block(index: u32, failed: bool) -> Block {
        let state = if failed { BlockState::Failed } else { BlockState::Complete };
        Block::new(index, base::timestamp_now(), state)
    }

    fn edges(shares: &[f64]) -> Edges {
        let balance = |(i, share): (usize, &f64)| Balance {
            block: i as u32 + 1,
            share: *share,
            variant: 1,
            stops: Stops::default(),
        };
        Edges { balances: shares.iter().enumerate().map(balance).collect() }
    }

    fn checks(shares: &[f64], failed: &[u32]) -> Vec<(Option<u32>, f64)> {
        let blocks: Vec<Block> =
            (1..=shares.len() as u32).map(|i| block(i, failed.contains(&i))).collect();
        let found = edges(shares).findings(&blocks, 2);
        let seen = |finding: &Finding| match finding.fact {
            Fact::Edges { mean, .. } => (finding.variant, (mean * 1e3).round() / 1e3),
            _ => unreachable!("edges find nothing else"),
        };
        found.iter().map(seen).collect()
    }

    #[test]
    fn a_significant_imbalance_is_reported() {
        assert_eq!(checks(&[0.05, 0.06, 0.05, 0.06], &[]), [(Some(1), 0.055)]);
        assert_eq!(checks(&[-0.05, -0.06, -0.05, -0.06], &[]), [(Some(1), -0.055)]);
    }

    #[test]
    fn chance_is_not() {
        assert_eq!(checks(&[0.05, -0.06, 0.05, -0.03], &[]), []);
        assert_eq!(checks(&[0.008, 0.009, 0.008, 0.009], &[]), [], "too little to matter");
        assert_eq!(checks(&[0.05], &[]), [], "one block says nothing of chance");
    }

    #[test]
    fn failed_blocks_do_not_count() {
        assert_eq!(checks(&[0.001, 0.9, 0.002, 0.9], &[2, 4]), []);
    }
}
