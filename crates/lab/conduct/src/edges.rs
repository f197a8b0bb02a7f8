//! The effect of a slice's edges on a closed loop's throughput.
//!
//! Throughput counts requests that *end* in the window. Those outstanding at its start bring work
//! in, those outstanding at its end take work out. Over many slices the two balance, unless every
//! slice is cut at the same moments of the server's activity: then throughput is off by about as
//! much as the balance.
//!
//! A stop of the whole server that goes on at the end of a slice is waited for, so the next slice
//! begins after a stop. Where that is the rule, slices must hold several stops, or what they see
//! depends on where a slice's lead-in ends. In simulations of 400 servers that stop (`zoo`, slices cut
//! to 0.25 to 2 s), a slice as long as the mean time for which no request ended after it was off by
//! up to 97%; one of twice that length by 11% in nine of ten, of four times by 6%, of six by 4%.

use std::collections::BTreeSet;

use base::Nanos;
use record::{Block, Fact, Finding, Offer, Severity};
use stats::Spread;

use crate::block::BlockOutcome;
use crate::trial_sum::TrialSlice;

/// Tolerated significant imbalance, as a share of the connections' time.
const OFF_MAX: f64 = 0.01;

/// Two-sided significance level of an imbalance: one that remains forbids the verdict.
const ALPHA: f64 = 0.001;

/// Shortest slice, in mean times for which no request ended after a slice.
const STOPS_MIN: f64 = 6.0;

/// Shorter means say nothing of the server: slices are lengthened for its stops up to this length (see
/// `pace`), and where a machine is busy, everything stops for some milliseconds.
const STOPPED_MIN: Nanos = Nanos::from_millis(100);

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
    /// How long no request ended after the slices, together, without those in which all connections
    /// only waited.
    stopped: Nanos,
    /// These slices, with their lead-ins, together.
    length: Nanos,
    slices: u64,
    /// The median service time, times the slices.
    usual: Nanos,
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
                    let slices = match part.schedule.one_slice {
                        true => &[][..],
                        false => &trial_sum.slices,
                    };
                    let sum = |of: fn(&TrialSlice) -> Option<Nanos>| {
                        slices.iter().filter_map(of).fold(Nanos::ZERO, |sum, one| sum + one)
                    };
                    let counted = slices.iter().filter(|slice| slice.stopped.is_some()).count();
                    Balance {
                        block,
                        variant,
                        share,
                        usual: trial_sum.median_service_time() * counted as u64,
                        stopped: sum(|slice| slice.stopped),
                        length: sum(|slice| slice.stopped.map(|_| slice.length)),
                        slices: counted as u64,
                    }
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
            let slices: u64 = mine(variant).map(|b| b.slices).sum();
            let mean = |of: fn(&Balance) -> Nanos| {
                let sum = mine(variant).map(of).fold(Nanos::ZERO, |sum, one| sum + one);
                Nanos(sum.0 / slices.max(1))
            };
            let (stopped, slice) = (mean(|b| b.stopped), mean(|b| b.length));
            let too_long = stopped.0 as f64 * STOPS_MIN > slice.0 as f64;
            // A connection that is alone with its request waits for it without a stop.
            (too_long && stopped >= STOPPED_MIN.max(mean(|b| b.usual))).then(|| {
                let fact = Fact::LongStops { stopped, slice, needed: STOPS_MIN };
                Finding::of_variant(Severity::Invalid, variant, fact)
            })
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
            ..with_stops(Nanos::ZERO)
        };
        Edges { balances: shares.iter().enumerate().map(balance).collect() }
    }

    /// Two slices of 900 ms, after each of which a server stopped for so long.
    fn with_stops(stopped: Nanos) -> Balance {
        in_slices_of(Nanos::from_millis(900), stopped)
    }

    fn in_slices_of(slice: Nanos, stopped: Nanos) -> Balance {
        let (stopped, length) = (stopped * 2, slice * 2);
        let usual = Nanos::from_millis(4) * 2;
        Balance { block: 1, variant: 1, share: 0.0, stopped, length, slices: 2, usual }
    }

    /// The zoo's server of seed 60 that stopped for 0.7 s after every 181 requests was called 13 to
    /// 272 times as fast as itself, in slices of 0.5 s.
    #[test]
    fn stops_longer_than_slices_had_a_verdict() {
        let found = |stopped: u64| {
            let balances = vec![with_stops(Nanos::from_millis(stopped))];
            Edges { balances }.findings(&[block(1, false)], 2)
        };
        assert_eq!(found(150), []);
        let (stopped, slice) = (Nanos::from_millis(151), Nanos::from_millis(900));
        let fact = Fact::LongStops { stopped, slice, needed: STOPS_MIN };
        assert_eq!(found(151), [Finding::of_variant(Severity::Invalid, 1, fact)]);
        let busy = in_slices_of(Nanos::from_micros(37_500), Nanos::from_micros(17_900));
        assert_eq!(
            Edges { balances: vec![busy] }.findings(&[block(1, false)], 2),
            [],
            "a busy machine"
        );
        let alone = Balance {
            usual: Nanos::from_millis(500) * 2,
            ..in_slices_of(Nanos::from_millis(900), Nanos::from_millis(250))
        };
        assert_eq!(
            Edges { balances: vec![alone] }.findings(&[block(1, false)], 2),
            [],
            "one connection, requests of half a second"
        );
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
