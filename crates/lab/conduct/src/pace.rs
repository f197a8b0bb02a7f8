//! The lengths of slices and warm-ups that follow from how long a server's slow requests take.
//!
//! A continued loop (see [`drive::LoopStart`]) is right about slow requests that wait, however short
//! its slices are. Slow requests that compute are different: what they compute while the slice waits
//! for its last requests would, without a break, slow down others. So slices are several times as
//! long as that wait, which also keeps the share of time small that is spent waiting.

use base::Nanos;
use record::Offer;
use spec::Part;

use crate::calibrate::{Calibration, VariantCalibration};
use crate::stops::Stops;
use crate::trial_sum::TrialSum;

/// Length of a closed loop's slice, in mean waits for its last requests. In simulations with slow
/// requests that compute on one CPU, 4 leaves a bias of up to 10%, and 8 of up to 3%.
const DRAINS: f64 = 8.0;

/// Minimum length of an open loop's slice: its queue needs time to reach its usual length.
const OPEN_SLICE_MIN: Nanos = Nanos::from_millis(100);

/// Length of an open loop's slice, in latencies at the quantile below. A stop that is longer than a
/// slice would be counted too seldom: other variants wait for its end. The first third is its lead-in,
/// because the queue begins empty: the longest latencies are those of requests that find a queue.
const LATENCIES: f64 = 3.0;
const LATENCY_QUANTILE: f64 = 0.995;

/// Length of a lead-in, in mean service times of the slowest variant: a connection's first two
/// requests end in it even if the server is twice as slow as usual at that moment.
const LEAD_IN_SERVICE_TIMES: f64 = 4.0;

/// Limit on the part of a block's warm-up that outlasts long requests.
const SETTLING_MAX: Nanos = Nanos::from_secs(5);

/// The lengths of a part's slices and warm-ups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Length of a closed loop's slice.
    pub(crate) closed: Nanos,
    /// Length of an open loop's slice.
    pub(crate) open: Nanos,
    /// Lead-in required by the slowest variant.
    pub(crate) lead_in: Nanos,
    /// The same in an open loop whose slices are as long as they should be.
    pub(crate) open_lead_in: Nanos,
    /// The requests that take most of the connections' time are over after this.
    pub(crate) settling: Nanos,
    /// Connections begin within this time of one another.
    pub(crate) spread: Nanos,
}

impl Pace {
    /// From the calibration. Long requests in a few of its slices are those of a busy machine: they
    /// make only the slices of open loops longer, for which more is at stake.
    pub(crate) fn of(part: &Part, calibration: &Calibration) -> Pace {
        let slowest = |of: &dyn Fn(&VariantCalibration) -> f64| {
            calibration.variants.iter().map(of).fold(0.0, f64::max).min(3600.0)
        };
        let lead_in = lead_in(part, calibration);
        let drain_s = slowest(&|c| c.drain.as_secs_f64());
        let long_s = slowest(&|c| c.long_service_time.as_secs_f64());
        let longest_s = slowest(&|c| c.longest_usual.as_secs_f64());
        let (length, window) = (part.schedule.slice, part.schedule.window);
        let seconds = Nanos::from_secs_f64;
        Pace {
            closed: length.max(seconds(DRAINS * drain_s)),
            open: length
                .max(OPEN_SLICE_MIN)
                .max(seconds(LATENCIES * longest_s).min(Nanos(window.0 / 2))),
            lead_in,
            open_lead_in: lead_in.max(seconds(longest_s)),
            settling: seconds(long_s).min(SETTLING_MAX),
            spread: seconds(drain_s),
        }
    }

    /// Lengthens slices that turn out to be too short in a block.
    pub(crate) fn learn(&mut self, trial_sums: &[TrialSum], connections: u32) {
        trial_sums.iter().for_each(|sum| self.learn_from(sum, connections));
    }

    fn learn_from(&mut self, sum: &TrialSum, connections: u32) {
        let seconds = |s: f64| Nanos::from_secs_f64(s.min(3600.0));
        match sum.offer {
            Offer::Closed => {
                let drain = sum.usual_drain();
                let for_stops = Stops::of(sum, connections).slice_min().unwrap_or_default();
                self.closed = self.closed.max(seconds(DRAINS * drain.as_secs_f64())).max(for_stops);
                self.spread = self.spread.max(drain);
            }
            Offer::Open => {
                let long = sum.latency_at(LATENCY_QUANTILE);
                self.open = self.open.max(seconds(LATENCIES * long.as_secs_f64()));
                self.open_lead_in = self.open_lead_in.max(seconds(long.as_secs_f64()));
            }
            Offer::WarmUp | Offer::Calibration => {}
        }
    }

    /// The lead-in of an offer's slices, whose mean length is `mean`: an open loop's is at most a
    /// third, so that slices which are too short for both are not even shorter windows.
    pub(crate) fn lead_in_of(&self, offer: Offer, mean: Nanos) -> Nanos {
        match offer {
            Offer::Open => self.open_lead_in.min(Nanos(mean.0 / 3)).max(self.lead_in),
            Offer::Closed | Offer::WarmUp | Offer::Calibration => self.lead_in,
        }
    }

    /// Length of an offer's slice.
    pub(crate) fn slice(&self, offer: Offer) -> Nanos {
        if offer == Offer::Open { self.open } else { self.closed }
    }
}

/// Length of a lead-in: four mean service times of the slowest variant.
fn lead_in(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    service_times(plan, calibration, LEAD_IN_SERVICE_TIMES)
}

/// So many mean service times of the slowest variant, as far as requests succeed; at most an hour.
pub(crate) fn service_times(plan: &spec::Part, calibration: &Calibration, number: f64) -> Nanos {
    let sound = calibration.variants.iter().filter(|calibrated| !calibrated.is_failing);
    let means = sound.map(|calibrated| number * mean_service_time_s(plan, calibrated));
    Nanos::from_secs_f64(means.fold(0.0, f64::max).min(3600.0))
}

/// The mean service time of a calibrated variant in seconds, by Little's law.
fn mean_service_time_s(plan: &spec::Part, calibrated: &VariantCalibration) -> f64 {
    let connections = f64::from(plan.variants[calibrated.variant].load.connections);
    connections / calibrated.capacity_per_s.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loops_queue_grows_before_it_is_measured() {
        let ms = Nanos::from_millis;
        let pace = Pace {
            closed: ms(25),
            open: ms(900),
            lead_in: ms(20),
            open_lead_in: ms(300),
            settling: Nanos::ZERO,
            spread: Nanos::ZERO,
        };
        assert_eq!(pace.lead_in_of(Offer::Open, ms(900)), ms(300));
        assert_eq!(pace.lead_in_of(Offer::Open, ms(450)), ms(150), "no time for more");
        assert_eq!(pace.lead_in_of(Offer::Closed, ms(900)), ms(20));
    }
}
