//! Rare stalls of a closed loop: requests that take much longer than the others, so seldom that the
//! spread over blocks does not show what they cost. See [`stats::Stalls`].

use base::Nanos;
use record::{BlockState, Fact, Finding, Offer, Severity};

use crate::block::BlockOutcome;
use crate::calibrate::Calibration;
use crate::running_variant::VariantResult;

/// A request is stalled if it takes this many mean service times, and at least the length below:
/// what waking a thread on a busy machine takes is no stall of the server.
const SERVICE_TIMES: f64 = 4.0;
const LONG_MIN: Nanos = Nanos::from_millis(10);

/// The stalls of each variant.
#[derive(Debug)]
pub(crate) struct Stalls(Vec<OfVariant>);

#[derive(Debug)]
struct OfVariant {
    connections: u32,
    /// What a request takes beyond this is a stall.
    long: Nanos,
    /// What each stall that counts took, over all connections.
    lost_s: Vec<f64>,
    /// The time for which the connections were measured, added up.
    measured_s: f64,
    /// The longest stall of a request anywhere: in other loads, and in rounds that were left out.
    longest: Nanos,
}

/// Stalled requests of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stalled {
    pub(crate) round: u32,
    pub(crate) requests: u64,
    /// What they took beyond the limit, added up.
    pub(crate) beyond: Nanos,
    /// The longest of these times.
    pub(crate) longest: Nanos,
}

impl Stalls {
    /// From the calibration, which shows how long requests usually take.
    pub(crate) fn of(plan: &spec::Part, calibration: &Calibration) -> Stalls {
        let blank = |variant: &spec::Variant| OfVariant {
            connections: variant.load.connections,
            long: Nanos(u64::MAX),
            lost_s: Vec::new(),
            measured_s: 0.0,
            longest: Nanos::ZERO,
        };
        let mut stalls = Stalls(plan.variants.iter().map(blank).collect());
        for calibrated in &calibration.variants {
            let of = &mut stalls.0[calibrated.variant];
            let mean_s = f64::from(of.connections) / calibrated.capacity_per_s.max(1e-9);
            of.long = Nanos::from_secs_f64((SERVICE_TIMES * mean_s).min(3600.0)).max(LONG_MIN);
            calibrated.ended.iter().for_each(|ended| of.note(ended, None));
        }
        stalls
    }

    /// Adds a block, in which `kept` says which rounds of the closed loop count.
    pub(crate) fn note(&mut self, outcome: &BlockOutcome, kept: &[bool]) {
        let counts = outcome.state() == BlockState::Complete;
        for ended in &outcome.ended {
            self.0[ended.life.variant as usize].note(ended, counts.then_some(kept));
        }
    }

    /// The stalls of each variant so far.
    pub(crate) fn so_far(&self) -> Vec<stats::Stalls> {
        self.0.iter().map(OfVariant::shares).collect()
    }

    /// A note about each variant whose stalls are rare.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let of_variant = |(v, of): (usize, &OfVariant)| {
            let stalls = of.shares();
            let fact = Fact::RareStalls {
                stalls,
                measured: of.lost_s.len() as u32,
                longest: of.longest + of.long,
            };
            stalls.are_rare().then(|| Finding::of_variant(Severity::Note, v, fact))
        };
        self.0.iter().enumerate().filter_map(of_variant).collect()
    }
}

impl OfVariant {
    /// Adds the slices of a start; `kept` says which rounds of its closed loop count, if any do.
    fn note(&mut self, ended: &VariantResult, kept: Option<&[bool]>) {
        for trial_sum in &ended.trial_sums {
            let kept = kept.filter(|_| trial_sum.offer == Offer::Closed);
            let counts = |round: u32| {
                kept.is_some_and(|kept| kept.get(round as usize).copied().unwrap_or(true))
            };
            for slice in trial_sum.slices.iter().filter(|slice| counts(slice.round)) {
                self.measured_s += f64::from(self.connections) * slice.window.length.as_secs_f64();
            }
            for stalled in trial_sum.stalled(self.long) {
                self.add(stalled, counts(stalled.round));
            }
        }
    }

    /// A stall of the server hits all connections at once: as many stalled requests as there are
    /// connections may be one stall, so they count as one.
    fn add(&mut self, stalled: Stalled, counts: bool) {
        self.longest = self.longest.max(stalled.longest);
        let stalls = stalled.requests.div_ceil(u64::from(self.connections.max(1)));
        if counts && stalls > 0 {
            let each_s = stalled.beyond.as_secs_f64() / stalls as f64;
            self.lost_s.extend((0..stalls).map(|_| each_s));
        }
    }

    fn shares(&self) -> stats::Stalls {
        let time_s = self.measured_s.max(1e-9);
        let shares = || self.lost_s.iter().map(|lost_s| lost_s / time_s);
        let seen_s = f64::from(self.connections) * self.longest.as_secs_f64();
        let largest = match self.lost_s.is_empty() {
            false => shares().fold(0.0, f64::max),
            true => (seen_s / time_s).min(1.0),
        };
        stats::Stalls {
            sum: shares().sum(),
            squares: shares().map(|share| share * share).sum(),
            largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant() -> OfVariant {
        OfVariant {
            connections: 10,
            long: Nanos::from_millis(20),
            lost_s: Vec::new(),
            measured_s: 60.0,
            longest: Nanos::ZERO,
        }
    }

    fn stalled(requests: u64, each: Nanos) -> Stalled {
        Stalled { round: 0, requests, beyond: each * requests, longest: each }
    }

    #[test]
    fn requests_that_all_connections_waited_for_are_one_stall() {
        let mut of = variant();
        of.add(stalled(10, Nanos::from_millis(300)), true);
        of.add(stalled(25, Nanos::from_millis(60)), true);
        assert_eq!(of.lost_s, [3.0, 0.5, 0.5, 0.5]);
        let shares = of.shares();
        assert!((shares.sum - 4.5 / 60.0).abs() < 1e-12 && (shares.largest - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_stall_that_only_the_open_loop_met_was_forgotten() {
        let mut of = variant();
        of.add(stalled(80, Nanos::from_millis(300)), false);
        let shares = of.shares();
        assert_eq!((shares.sum, shares.effective()), (0.0, 0.0));
        assert!((shares.largest - 0.05).abs() < 1e-12, "{shares:?}");
        let finding = Stalls(vec![of]).findings().remove(0);
        let Fact::RareStalls { measured, longest, .. } = finding.fact else { panic!() };
        assert_eq!((measured, longest), (0, Nanos::from_millis(320)));
        assert!(Stalls(vec![variant()]).findings().is_empty());
    }
}
