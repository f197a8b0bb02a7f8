//! The long-run throughput, by formula.

use crate::behaviour::{Behaviour, Lock, Pace, SlowSelection, StopTime};

impl Behaviour {
    /// Answers per second of a closed loop of so many connections in the long run: over time, and
    /// over fresh starts where starts or connections differ.
    ///
    /// A lock must be held for at least the work of a fast request, and must not be combined with
    /// slow requests or connections.
    pub fn throughput_per_s(&self, connections: u32) -> f64 {
        let connections_f = f64::from(connections);
        let per_work_s = match &self.lock {
            Some(lock) => locked(lock, self.fast_s, connections),
            None => connections_f * self.mean_rate(),
        };
        match &self.pace {
            Pace::Even | Pace::SlowStart { .. } => per_work_s,
            Pace::Phases { factor, .. } => per_work_s * (1.0 + 1.0 / factor) / 2.0,
            Pace::Stops {
                when: StopTime::Exponential(run_s) | StopTime::Fixed(run_s),
                length_s,
            } => per_work_s * run_s / (run_s + length_s),
            Pace::Stops { when: StopTime::Requests(n), length_s } => {
                1.0 / (1.0 / per_work_s + length_s / *n as f64)
            }
        }
    }

    /// Requests per work of one connection: the inverse of the mean work of a request, averaged
    /// over connections.
    fn mean_rate(&self) -> f64 {
        let (share, length_s) = match &self.slow {
            None => (0.0, 0.0),
            Some(slow) => match slow.which {
                SlowSelection::Share(share) => (share, slow.length_s),
                SlowSelection::Every(n) => (1.0 / n as f64, slow.length_s),
            },
        };
        let rate = |factor: f64| 1.0 / ((1.0 - share) * self.fast_s * factor + share * length_s);
        match &self.slow_connections {
            None => rate(1.0),
            Some(slow) => (1.0 - slow.share) * rate(1.0) + slow.share * rate(slow.factor),
        }
    }
}

/// Throughput behind a lock whose holders hold it for at least the work of a request.
///
/// Whenever the lock is released, all connections but that of its holder wait for it (`n` − 1),
/// because a request is done before the next holder is. They take the lock one after another until
/// one of them holds it again. If none does, all `n` work at the same time, end together, and then
/// all `n` take the lock. So the states "n − 1 wait" and "n wait" form a Markov chain, each step of
/// which lasts for a hold or for one request's work; the throughput is the mean number of
/// requests that take the lock in a step over its mean length.
fn locked(lock: &Lock, fast_s: f64, connections: u32) -> f64 {
    let held = |waiting: u32| 1.0 - (1.0 - lock.share).powi(waiting as i32);
    let (few, all) = (held(connections - 1), held(connections));
    let share_few = all / (1.0 - few + all);
    // Share of the steps with a holder. With `k` waiting, held(k) ÷ share of them take the lock.
    let held = share_few * few + (1.0 - share_few) * all;
    held / lock.share / (held * lock.hold_s + (1.0 - held) * fast_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{SlowConnections, SlowRequests};

    #[test]
    fn throughput_is_what_one_can_work_out_by_hand() {
        let even = Behaviour::even(0.005);
        let every =
            SlowRequests { which: SlowSelection::Every(10), length_s: 0.055, computes: false };
        let half = SlowConnections { share: 0.5, factor: 3.0 };
        let paced = |pace| Behaviour { pace, ..even.clone() };
        for (behaviour, expected) in [
            (even.clone(), 2_000.0),
            // A lock that every request holds makes them take turns.
            (Behaviour { lock: Some(Lock { share: 1.0, hold_s: 0.005 }), ..even.clone() }, 200.0),
            (Behaviour::with_slow(0.0, 0.02, 0.5), 1_000.0),
            (Behaviour { slow: Some(every), ..even.clone() }, 1_000.0),
            (Behaviour::with_stops(0.001, StopTime::Requests(400), 0.06), 4_000.0),
            (Behaviour::with_stops(0.005, StopTime::Fixed(2.7), 0.3), 1_800.0),
            (Behaviour { slow_connections: Some(half), ..even.clone() }, 2_000.0 * 2.0 / 3.0),
            (paced(Pace::Phases { length_s: 1.0, factor: 2.0 }), 1_500.0),
            (paced(Pace::SlowStart { length_s: 1.0, factor: 3.0 }), 2_000.0),
        ] {
            let throughput = behaviour.throughput_per_s(10);
            assert!((throughput - expected).abs() < 1e-6, "{throughput} {behaviour:?}");
        }
    }
}
