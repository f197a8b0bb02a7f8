//! Pairs of servers for `compare`: an even one, and one that is sometimes slow.

use zoo::{Behaviour, Kind, StopTime, Subject};

/// Two servers of known behaviour.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) id: &'static str,
    kind: Kind,
    /// What the second server does.
    pub(super) server: &'static str,
    behaviour: Behaviour,
}

/// The first server of all comparisons.
const EVEN: Behaviour = Behaviour::even(0.005);

/// All comparisons, in the order of the page.
pub(super) static COMPARISONS: [Comparison; 3] = [
    Comparison {
        id: "compare-slow-requests",
        kind: Kind::SlowRequests,
        server: "takes 500 ms for 2% of the requests, by independent draws, and answers the others at once",
        behaviour: Behaviour::with_slow(0.0, 0.02, 0.5),
    },
    Comparison {
        id: "compare-stops-by-count",
        kind: Kind::StopsByCount,
        server: "holds every response for 1 ms, and stops everything for 60 ms after every 400 requests",
        behaviour: Behaviour::with_stops(0.001, StopTime::Requests(400), 0.06),
    },
    Comparison {
        id: "compare-stops-by-time",
        kind: Kind::PeriodicStops,
        server: "holds every response for 5 ms, and stops everything for 300 ms every 3 s",
        behaviour: Behaviour::with_stops(0.005, StopTime::Fixed(2.7), 0.3),
    },
];

/// The servers, as subjects of `prove zoo`.
pub(crate) fn subjects() -> Vec<Subject> {
    let subject = |Comparison { kind, behaviour, .. }: &Comparison| Subject {
        kind: *kind,
        asyncio: false,
        worse: behaviour.clone(),
        behaviour: behaviour.clone(),
        even: EVEN,
    };
    COMPARISONS.iter().map(subject).collect()
}

impl Comparison {
    /// The first server, and the second one.
    pub(super) fn behaviours(&self) -> [&Behaviour; 2] {
        [&EVEN, &self.behaviour]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_ratios_are_those_of_the_page() {
        let ratios = COMPARISONS.each_ref().map(|comparison| {
            let [a, b] = comparison.behaviours().map(|one| one.throughput_per_s(10));
            (100.0 * b / a).round()
        });
        assert_eq!(ratios, [50.0, 200.0, 90.0]);
    }
}
