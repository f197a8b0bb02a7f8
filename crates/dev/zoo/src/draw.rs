//! Kinds of servers, whose parameters a seed draws.

use base::{Rng, Seed};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::behaviour::{
    Behaviour, Lock, Pace, SlowConnections, SlowRequests, SlowSelection, StopTime,
};

/// What "5% more trouble" multiplies.
const WORSE: f64 = 1.05;

/// A way to be uneven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// 0.1 to 10% of the requests take 20 ms to 2 s, by independent draws.
    SlowRequests,
    /// Every n-th request does.
    NthSlow,
    /// Everything stops for 5 ms to 1 s, after exponential running times of 0.3 to 5 s.
    Stops,
    /// The same, after fixed running times.
    PeriodicStops,
    /// Everything stops for 5 ms to 1 s after every 50 to 2,000 requests.
    StopsByCount,
    /// One request in a hundred holds a lock for 5 to 100 ms, and the others wait for it.
    Lock,
    /// The first 0.2 to 1 s of the process are 3 times as slow.
    SlowStart,
    /// Each connection is fast or 3 times as slow.
    SlowConnections,
    /// A second fast, a second 2 to 3 times as slow.
    Phases,
    /// Slow requests and stops.
    Mixture,
    /// Slow requests that compute instead of sleeping.
    Computing,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 11] = [
        Kind::SlowRequests,
        Kind::NthSlow,
        Kind::Stops,
        Kind::PeriodicStops,
        Kind::StopsByCount,
        Kind::Lock,
        Kind::SlowStart,
        Kind::SlowConnections,
        Kind::Phases,
        Kind::Mixture,
        Kind::Computing,
    ];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::SlowRequests => "slow-requests",
            Kind::NthSlow => "nth-slow",
            Kind::Stops => "stops",
            Kind::PeriodicStops => "periodic-stops",
            Kind::StopsByCount => "stops-by-count",
            Kind::Lock => "lock",
            Kind::SlowStart => "slow-start",
            Kind::SlowConnections => "slow-connections",
            Kind::Phases => "phases",
            Kind::Mixture => "mixture",
            Kind::Computing => "computing",
        }
    }

    /// A server of this kind.
    pub fn draw(self, seed: Seed) -> Subject {
        let mut rng = seed.rng(self.name());
        // A computing request would stop all of asyncio's others.
        let asyncio = self != Kind::Computing && rng.random_bool(1.0 / 3.0);
        // Ten connections then need at most a tenth of a CPU of either server, so that several
        // comparisons can be made at the same time.
        let fast_s =
            if asyncio { between(0.012, 0.02, &mut rng) } else { between(0.004, 0.01, &mut rng) };
        let behaviour = self.behaviour(fast_s, &mut rng);
        let worse = self.worse(&behaviour, rng.random_bool(0.5));
        // An even server between twice as fast and half as fast.
        let even_s = f64::from(Subject::CONNECTIONS)
            / behaviour.throughput_per_s(Subject::CONNECTIONS)
            * between(0.5, 2.0, &mut rng);
        let even = Behaviour::even(even_s.max(fast_s));
        Subject { kind: self, asyncio, behaviour, worse, even }
    }

    fn behaviour(self, fast_s: f64, rng: &mut Rng) -> Behaviour {
        let even = Behaviour::even(fast_s);
        match self {
            Kind::SlowRequests => {
                let share = between(0.001, 0.1, rng);
                Behaviour::with_slow(fast_s, share, between(0.02, 2.0, rng))
            }
            Kind::NthSlow => {
                let which = SlowSelection::Every(between(10.0, 1_000.0, rng) as u64);
                let slow =
                    SlowRequests { which, length_s: between(0.02, 2.0, rng), computes: false };
                Behaviour { slow: Some(slow), ..even }
            }
            Kind::Stops => {
                let when = StopTime::Exponential(between(0.3, 5.0, rng));
                Behaviour::with_stops(fast_s, when, between(0.005, 1.0, rng))
            }
            Kind::PeriodicStops => {
                let when = StopTime::Fixed(between(0.3, 5.0, rng));
                Behaviour::with_stops(fast_s, when, between(0.005, 1.0, rng))
            }
            Kind::StopsByCount => {
                let when = StopTime::Requests(between(50.0, 2_000.0, rng) as u64);
                Behaviour::with_stops(fast_s, when, between(0.005, 1.0, rng))
            }
            Kind::Lock => {
                let hold_s = between(0.005, 0.1, rng).max(fast_s);
                Behaviour { lock: Some(Lock { share: 0.01, hold_s }), ..even }
            }
            Kind::SlowStart => {
                let length_s = between(0.2, 1.0, rng);
                Behaviour { pace: Pace::SlowStart { length_s, factor: 3.0 }, ..even }
            }
            Kind::SlowConnections => {
                let slow = SlowConnections { share: 0.5, factor: 3.0 };
                Behaviour { slow_connections: Some(slow), ..even }
            }
            Kind::Phases => {
                let factor = between(2.0, 3.0, rng);
                Behaviour { pace: Pace::Phases { length_s: 1.0, factor }, ..even }
            }
            Kind::Mixture => {
                let slow = Behaviour::with_slow(
                    fast_s,
                    between(0.001, 0.05, rng),
                    between(0.02, 0.5, rng),
                );
                let when = StopTime::Exponential(between(0.3, 5.0, rng));
                let pace = Pace::Stops { when, length_s: between(0.005, 0.3, rng) };
                Behaviour { pace, ..slow }
            }
            Kind::Computing => {
                // Computes for 10 to 40% of the time of one CPU.
                let busy = between(0.1, 0.4, rng);
                let per_request_s = busy * fast_s / (f64::from(Subject::CONNECTIONS) - busy);
                let length_s = between(0.02, 0.1, rng);
                let which = SlowSelection::Share(per_request_s / length_s);
                Behaviour { slow: Some(SlowRequests { which, length_s, computes: true }), ..even }
            }
        }
    }

    /// The same with 5% more of what makes it uneven, or 5% slower where that does not change its
    /// long-run throughput.
    fn worse(self, behaviour: &Behaviour, more_often: bool) -> Behaviour {
        let mut worse = behaviour.clone();
        match (&mut worse.slow, self) {
            (_, Kind::SlowStart | Kind::SlowConnections) => worse.fast_s *= WORSE,
            (Some(SlowRequests { which: SlowSelection::Share(share), .. }), Kind::SlowRequests)
                if more_often =>
            {
                *share *= WORSE;
            }
            (Some(slow), _) => slow.length_s *= WORSE,
            (None, _) => {}
        }
        match &mut worse.pace {
            Pace::Stops { length_s, .. } => *length_s *= WORSE,
            Pace::Phases { factor, .. } => *factor *= WORSE,
            Pace::Even | Pace::SlowStart { .. } => {}
        }
        if let Some(lock) = &mut worse.lock {
            lock.hold_s *= WORSE;
        }
        worse
    }
}

/// A drawn server, and those that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Whether it runs on asyncio, or with a thread per connection.
    pub asyncio: bool,
    /// The server.
    pub behaviour: Behaviour,
    /// The same with 5% more trouble.
    pub worse: Behaviour,
    /// A server without trouble.
    pub even: Behaviour,
}

impl Subject {
    /// Connections of every load.
    pub const CONNECTIONS: u32 = 10;
}

/// A number whose logarithm is uniform.
fn between(low: f64, high: f64, rng: &mut Rng) -> f64 {
    (rng.random_range(low.ln()..high.ln())).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worse_server_is_slower_and_a_seed_replays_its_draw() {
        for kind in Kind::ALL {
            for seed in 0..50 {
                let subject = kind.draw(Seed(seed));
                assert_eq!(subject, kind.draw(Seed(seed)));
                let ratio =
                    subject.worse.throughput_per_s(10) / subject.behaviour.throughput_per_s(10);
                assert!((0.95..1.0).contains(&ratio), "{} {seed}: {ratio}", kind.name());
                let even = subject.even.throughput_per_s(10);
                let uneven = subject.behaviour.throughput_per_s(10);
                assert!((0.4..2.5).contains(&(uneven / even)), "{} {seed}", kind.name());
            }
        }
    }

    #[test]
    fn both_implementations_are_drawn() {
        let asyncio = (0..300).filter(|seed| Kind::Lock.draw(Seed(*seed)).asyncio).count();
        assert!((70..130).contains(&asyncio), "{asyncio}");
    }
}
