//! Rare stalls: requests that take much longer than the others, so seldom that the spread over blocks
//! does not show what they cost. See [`stats::Stalls`].

use base::Nanos;
use record::{BlockState, Fact, Finding, Offer, Severity};

use crate::block::BlockOutcome;
use crate::calibrate::Calibration;
use crate::running_variant::VariantResult;
use crate::trial_sum::StalledRequests;

/// A request is stalled if it takes this many mean service times, and at least the length below:
/// what waking a thread on a busy machine takes is no stall of the server.
const SERVICE_TIMES: f64 = 4.0;
const LONG_MIN: Nanos = Nanos::from_millis(10);

/// Stalls that change an interval's ends by less than this, on a logarithmic scale, are not worth a
/// word: those of a machine that takes 20 ms to wake a thread once in a while.
const MARGIN_MIN: f64 = 0.002;
const ALPHA: f64 = 0.05;

/// The stalls of each variant.
#[derive(Debug)]
pub(crate) struct Stalls(Vec<OfVariant>);

#[derive(Debug, Default)]
struct OfVariant {
    connections: u32,
    /// What a request takes beyond this is a stall.
    long: Nanos,
    /// Of the closed loop: seconds that stalls took, of all connections' seconds.
    lost: StallShare,
    /// Of the open loop: requests that stalls delayed, of all requests.
    delayed: StallShare,
    /// Rate of the open loop.
    rate_per_s: f64,
    /// The longest stall of a request anywhere: also in other loads, and in rounds that were left out.
    longest: Nanos,
    /// Whether a stall has hit many connections at once.
    hits_many: bool,
}

/// What stalls took of all that counts.
#[derive(Debug, Default)]
struct StallShare {
    by_stalls: Vec<f64>,
    all: f64,
}

/// The rounds that count, by offer.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRounds {
    pub(crate) closed: Vec<bool>,
    pub(crate) open: Vec<bool>,
}

impl Stalls {
    /// From the calibration, which shows how long requests usually take.
    pub(crate) fn of(plan: &spec::Part, calibration: &Calibration) -> Stalls {
        let blank = |variant: &spec::Variant| OfVariant {
            connections: variant.load.connections.max(1),
            long: Nanos(u64::MAX),
            ..OfVariant::default()
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

    /// A request of each variant that takes longer than this is stalled.
    pub(crate) fn after(&self) -> Vec<Nanos> {
        self.0.iter().map(|of| of.long).collect()
    }

    /// Adds a block.
    pub(crate) fn note(&mut self, outcome: &BlockOutcome, kept: &KeptRounds) {
        let counts = outcome.state() == BlockState::Complete;
        for ended in &outcome.ended {
            self.0[ended.life.variant as usize].note(ended, counts.then_some(kept));
        }
    }

    /// What stalls took of the closed loop of each variant so far.
    pub(crate) fn so_far(&self) -> Vec<stats::Stalls> {
        self.0.iter().map(OfVariant::lost).collect()
    }

    /// A note about each variant whose stalls are rare, and may have cost something.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let of_variant = |(v, of): (usize, &OfVariant)| {
            let (lost, delayed) = (of.lost(), of.delayed());
            let cost = lost.margins(ALPHA).largest() >= MARGIN_MIN;
            let few = if cost { &of.lost } else { &of.delayed };
            let measured = few.by_stalls.len() as u32;
            let longest = of.longest + of.long;
            let fact = Fact::RareStalls { lost, delayed, measured, longest };
            let matters = cost || delayed.quantile_at_most(0.99, 1.0, ALPHA) > 0.0;
            matters.then(|| Finding::of_variant(Severity::Note, v, fact))
        };
        self.0.iter().enumerate().filter_map(of_variant).collect()
    }
}

impl OfVariant {
    /// Adds the slices of a start; `kept` says which rounds of measured loads count, if any do.
    fn note(&mut self, ended: &VariantResult, kept: Option<&KeptRounds>) {
        for trial_sum in &ended.trial_sums {
            let kept = kept.and_then(|kept| match trial_sum.offer {
                Offer::Closed => Some(&kept.closed),
                Offer::Open => Some(&kept.open),
                Offer::WarmUp | Offer::Calibration => None,
            });
            let counts = |round: u32| {
                kept.is_some_and(|kept| kept.get(round as usize).copied().unwrap_or(true))
            };
            self.rate_per_s = trial_sum.offered_per_s.unwrap_or(self.rate_per_s);
            for slice in trial_sum.slices.iter().filter(|slice| counts(slice.round)) {
                if trial_sum.offer == Offer::Closed {
                    self.lost.all +=
                        f64::from(self.connections) * slice.window.length.as_secs_f64();
                }
            }
            for stalled in trial_sum.stalled(self.long) {
                self.see(stalled);
                match (trial_sum.offer, counts(stalled.round)) {
                    (Offer::Closed, true) => self.add_lost(stalled),
                    (Offer::Open, true) => self.add_delayed(stalled),
                    _ => {}
                }
            }
        }
    }

    fn see(&mut self, stalled: StalledRequests) {
        self.longest = self.longest.max(stalled.longest);
        let each = u64::from(self.connections) * stalled.stalls.max(1);
        self.hits_many |= 2 * stalled.requests >= each;
    }

    fn add_lost(&mut self, stalled: StalledRequests) {
        self.lost.add(stalled.number(), stalled.beyond.as_secs_f64());
    }

    fn add_delayed(&mut self, stalled: StalledRequests) {
        self.delayed.all += stalled.of as f64;
        self.delayed.add(stalled.number(), stalled.requests as f64);
    }

    fn lost(&self) -> stats::Stalls {
        let hit = if self.hits_many { f64::from(self.connections) } else { 1.0 };
        self.lost.shares(hit * self.longest.as_secs_f64())
    }

    fn delayed(&self) -> stats::Stalls {
        let due = self.rate_per_s * self.longest.as_secs_f64();
        let hit = if self.hits_many { due.max(1.0) } else { 1.0 };
        self.delayed.shares(if self.longest > Nanos::ZERO { hit } else { 0.0 })
    }
}

impl StalledRequests {
    /// The number of stalls. A client that could not tell them apart counts as if there was one.
    fn number(&self) -> u64 {
        self.stalls.max(1).min(self.requests)
    }
}

impl StallShare {
    /// Adds the stalls of a slice, of which only the sum is known.
    fn add(&mut self, stalls: u64, taken: f64) {
        self.by_stalls.extend((0..stalls).map(|_| taken / stalls as f64));
    }

    /// Shares of all that was measured, with what one more stall would have taken if there was none.
    fn shares(&self, unseen: f64) -> stats::Stalls {
        if self.all <= 0.0 {
            return stats::Stalls::default();
        }
        let shares = || self.by_stalls.iter().map(|taken| taken / self.all);
        let largest = match self.by_stalls.is_empty() {
            false => shares().fold(0.0, f64::max),
            true => (unseen / self.all).min(1.0),
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
            lost: StallShare { all: 60.0, ..StallShare::default() },
            delayed: StallShare { all: 2_000.0, ..StallShare::default() },
            rate_per_s: 500.0,
            ..OfVariant::default()
        }
    }

    fn stalled(requests: u64, each: Nanos) -> StalledRequests {
        let beyond = each * requests;
        StalledRequests {
            requests,
            stalls: 1,
            beyond,
            longest: each,
            of: 100,
            ..StalledRequests::default()
        }
    }

    #[test]
    fn requests_that_ended_together_are_one_stall() {
        let mut of = variant();
        of.add_lost(stalled(10, Nanos::from_millis(300)));
        of.add_lost(StalledRequests { stalls: 3, ..stalled(25, Nanos::from_millis(60)) });
        of.add_lost(StalledRequests { stalls: 0, ..stalled(2, Nanos::from_millis(60)) });
        of.add_lost(StalledRequests { stalls: 1, ..stalled(0, Nanos::ZERO) });
        assert_eq!(of.lost.by_stalls, [3.0, 0.5, 0.5, 0.5, 0.12]);
        let shares = of.lost();
        assert!((shares.sum - 4.62 / 60.0).abs() < 1e-12 && (shares.largest - 0.05).abs() < 1e-12);
        of.add_delayed(stalled(80, Nanos::from_millis(300)));
        assert_eq!((of.delayed().sum, of.delayed.all), (80.0 / 2_100.0, 2_100.0));
    }

    #[test]
    fn a_stall_that_only_another_load_met_was_forgotten() {
        let mut of = variant();
        of.see(stalled(3, Nanos::from_millis(300)));
        assert!((of.lost().largest - 0.3 / 60.0).abs() < 1e-12, "three slow requests, not a stop");
        of.see(stalled(80, Nanos::from_millis(300)));
        let lost = of.lost();
        assert_eq!((lost.sum, lost.effective()), (0.0, 0.0));
        assert!((lost.largest - 0.05).abs() < 1e-12, "{lost:?}");
        assert!((of.delayed().largest - 0.075).abs() < 1e-12, "150 of 2,000 requests");
        let finding = Stalls(vec![of]).findings().remove(0);
        let Fact::RareStalls { measured, longest, .. } = finding.fact else { panic!() };
        assert_eq!((measured, longest), (0, Nanos::from_millis(320)));
        assert!(Stalls(vec![variant()]).findings().is_empty());
        let mut late = variant();
        late.see(stalled(1, Nanos::from_millis(2)));
        assert!(Stalls(vec![late]).findings().is_empty(), "2 of 60,000 ms");
    }
}
