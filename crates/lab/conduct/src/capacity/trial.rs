//! A trial of a search for a capacity: what it measured of each condition, and what limited the client.

use base::Nanos;
use record::{CapacityTrial, ClientLimit, Condition, Trial};
use stats::{Measure, RatePoint};

use crate::trial_sum::TrialSum;
use crate::validity::CLIENT_BUSY_MAX;

/// A request that the client sent later than this share of the limit on latency was late because of
/// the client. If these are at least as many as this share of the slow ones, they decided.
const LATE_OF_LIMIT: f64 = 0.5;
const LATE_OF_SLOW: f64 = 0.5;
/// The same for what was not sent by the end of the window although a connection was free, as a share
/// of all requests.
const UNSENT_MAX: f64 = 0.01;

/// Makes the recorded form of the last trial of a variant. `cpus` is the number of CPUs that its stack
/// may use.
pub(super) fn trial_of(
    conditions: &[Condition],
    sum: &TrialSum,
    trial: &Trial,
    block: u32,
    round: u32,
    lead_in: Nanos,
    cpus: u32,
) -> CapacityTrial {
    let counts = &sum.counts;
    let due = sum.window.due;
    let histogram = trial.latency.as_ref().and_then(|latency| latency.histogram().ok().flatten());
    let lateness = trial.lateness.as_ref().and_then(|late| late.histogram().ok().flatten());
    let latency = conditions.iter().find_map(|condition| match condition {
        Condition::Latency { quantile, limit } => Some((*quantile, *limit)),
        _ => None,
    });
    let at_most = |limit: Nanos| histogram.as_ref().map_or(0, |all| all.count_between(0, limit.0));
    let slow = latency.map(|(_, limit)| due.saturating_sub(at_most(limit)));
    let tail = latency.map_or(0.99, |(quantile, _)| quantile);
    let value = |q: f64| histogram.as_ref().map_or(0, |all| all.value_at_quantile(q));
    let elapsed: Nanos =
        sum.slices.iter().fold(Nanos::ZERO, |sum, slice| sum + slice.cost.activity.elapsed);
    let all_cpus = elapsed.0 as f64 * f64::from(cpus.max(1));
    let mut made = CapacityTrial {
        variant: trial.variant,
        block,
        round,
        offered_per_s: trial.offered_per_s.unwrap_or(0.0),
        lead_in,
        window: trial.window,
        due,
        slow,
        offered: counts.offered,
        failed: counts.dropped + counts.failed + counts.in_flight,
        answered: trial.completed_in_window,
        cpu: trial.stack_cpu.filter(|_| elapsed.0 > 0).map(|cpu| cpu.0 as f64 / all_cpus),
        p50_ns: value(0.5),
        tail_ns: value(tail),
        holds: true,
        kept: true,
        connections_busy: sum.waiting_for_connections > 0
            || sum.connections_used >= sum.connections_limit.connections,
        client: None,
    };
    made.holds =
        conditions.iter().all(|condition| measure(&made, *condition).holds(condition.limit()));
    made.client = client_limit(&made, sum, trial, latency.map(|(_, limit)| limit), lateness);
    made
}

fn client_limit(
    made: &CapacityTrial,
    sum: &TrialSum,
    trial: &Trial,
    limit: Option<Nanos>,
    lateness: Option<hdrhistogram::Histogram<u64>>,
) -> Option<ClientLimit> {
    let busy = trial.client_busy();
    if busy > CLIENT_BUSY_MAX {
        return Some(ClientLimit::Busy { share: busy.min(1.0) });
    }
    let due = made.due.max(1) as f64;
    let unsent = sum.window.waiting.saturating_sub(sum.waiting_for_connections) as f64 / due;
    if unsent > UNSENT_MAX {
        return Some(ClientLimit::Late { share: unsent });
    }
    let late_from = (limit?.0 as f64 * LATE_OF_LIMIT) as u64;
    let late = lateness.map_or(0, |all| all.count_between(late_from, u64::MAX)) as f64;
    let decides = !made.holds && late >= LATE_OF_SLOW * made.slow.unwrap_or(0) as f64;
    (decides && late > 0.0).then(|| ClientLimit::Late { share: late / due })
}

/// What a trial measured of a condition.
pub(super) fn measure(trial: &CapacityTrial, condition: Condition) -> Measure {
    match condition {
        Condition::Latency { .. } => match trial.slow {
            Some(slow) => Measure::Share { bad: slow as f64, all: trial.due as f64 },
            None => Measure::Unknown,
        },
        Condition::Errors { .. } => {
            Measure::Share { bad: trial.failed as f64, all: trial.offered as f64 }
        }
        Condition::Cpu { .. } => trial.cpu.map_or(Measure::Unknown, Measure::Level),
    }
}

/// A trial as the estimate takes it.
pub(super) fn point(trial: &CapacityTrial, conditions: &[Condition]) -> RatePoint {
    let sound = 1.0 - trial.failed as f64 / trial.offered.max(1) as f64;
    let expected = trial.due as f64 * sound;
    RatePoint {
        block: trial.block,
        rate_per_s: trial.offered_per_s,
        // Without any right answer nothing can be said about the queue.
        answered: if expected >= 1.0 { trial.answered as f64 / expected } else { 1.0 },
        measures: conditions.iter().map(|condition| measure(trial, *condition)).collect(),
    }
}
