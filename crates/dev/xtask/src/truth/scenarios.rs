//! The servers of known behaviour, and the load on each.

use base::Nanos;
use fixture::{Config, Faults, Freeze, Service};
use spec::Endpoint;

use crate::tools::load::Work;

/// A server of known behaviour, and the load on it.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) id: &'static str,
    /// The heading of its column in a table of several.
    pub(super) title: &'static str,
    /// What the server does.
    pub(super) server: &'static str,
    pub(super) work: Work,
    pub(super) faults: fn() -> Faults,
    pub(super) unix: bool,
}

/// One response in this many is at fault.
const EVERY: u64 = 100;

/// Responses before a server closes a connection.
const CLOSE_AFTER: u64 = 100;

/// Timeout of a request in seconds, longer than every freeze.
pub(super) const TIMEOUT_S: u32 = 2;

/// The known delay of a response.
pub(super) const DELAY: Nanos = Nanos::from_millis(5);

/// The freezes of the stalling server: two of them in the load's ten seconds.
pub(super) const FREEZE: Freeze = Freeze {
    first: Nanos::from_millis(2000),
    every: Nanos::from_millis(5000),
    length: Nanos::from_millis(1000),
};

/// Requests per second, and the seconds, of the load on the stalling server.
pub(super) const STALL_LOAD: (u32, u32) = (200, 10);

const FEW: Work = Work::Number { requests: 2000, or_seconds: 1 };

/// All scenarios, in the order of the page.
pub(super) static SCENARIOS: [Scenario; 13] = [
    Scenario {
        server: "holds every response for 5 ms by a timer",
        work: Work::Closed { seconds: 3 },
        faults: || Faults { delay: DELAY, ..Faults::default() },
        ..scenario("delay", "constant delay")
    },
    Scenario {
        server: "holds every response for 5 ms, and sends nothing from 2 to 3 s and from 7 to 8 s after the first request",
        work: Work::Rate { per_s: STALL_LOAD.0, seconds: STALL_LOAD.1 },
        faults: || Faults { delay: DELAY, freeze: Some(FREEZE), ..Faults::default() },
        ..scenario("stall", "stall")
    },
    Scenario {
        server: "responds at once",
        work: Work::Closed { seconds: 2 },
        ..scenario("counts-time", "for 2 s")
    },
    Scenario {
        server: "responds at once",
        work: Work::Number { requests: 20_000, or_seconds: 1 },
        ..scenario("counts-number", "20,000 requests")
    },
    Scenario {
        server: "sends status 500 with the usual body",
        faults: || Faults { error_every: EVERY, ..Faults::default() },
        ..scenario("status-500", "status 500")
    },
    Scenario {
        server: "flips one bit of the body",
        faults: || Faults { corrupt_every: EVERY, ..Faults::default() },
        ..scenario("wrong-body", "wrong body")
    },
    Scenario {
        server: "omits the last of the 12 bytes that Content-Length announced, and closes",
        faults: || Faults { truncate_every: EVERY, ..Faults::default() },
        ..scenario("truncated", "truncated body")
    },
    Scenario {
        server: "sends half of the body, and resets the connection",
        faults: || Faults { cut_every: EVERY, ..Faults::default() },
        ..scenario("reset", "reset midway")
    },
    Scenario {
        server: "closes the connection instead of responding",
        faults: || Faults { drop_every: EVERY, ..Faults::default() },
        ..scenario("no-response", "no response")
    },
    Scenario {
        server: "responds after 3 s, a second after the timeout",
        work: Work::Number { requests: 2000, or_seconds: 8 },
        faults: || Faults {
            delay_every: EVERY,
            delay_every_by: Nanos::from_millis(3000),
            ..Faults::default()
        },
        ..scenario("late", "response after the timeout")
    },
    Scenario {
        server: "closes each connection after 100 responses, announced by `Connection: close` in the last one",
        faults: || Faults {
            close_after_answers: CLOSE_AFTER,
            announce_close: true,
            ..Faults::default()
        },
        ..scenario("close-announced", "announced close")
    },
    Scenario {
        server: "closes each connection after 100 responses without announcement",
        faults: || Faults { close_after_answers: CLOSE_AFTER, ..Faults::default() },
        ..scenario("close-silent", "silent close")
    },
    Scenario { unix: true, ..scenario("unix", "Unix socket") },
];

/// A server without faults, and a few requests.
const fn scenario(id: &'static str, title: &'static str) -> Scenario {
    Scenario { id, title, server: "responds at once", work: FEW, faults: no_faults, unix: false }
}

fn no_faults() -> Faults {
    Faults::default()
}

impl Scenario {
    /// The scenario of this name.
    pub(super) fn named(id: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.id == id)
    }

    /// The server's configuration, for an address.
    pub(super) fn config(&self, listen: Endpoint) -> Config {
        Config { faults: (self.faults)(), tally: true, ..Config::new(listen, Service::hello()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own() {
        for scenario in &SCENARIOS {
            let named = SCENARIOS.iter().filter(|other| other.id == scenario.id);
            assert_eq!(named.count(), 1, "{}", scenario.id);
            assert_eq!(Scenario::named(scenario.id).map(|found| found.title), Some(scenario.title));
        }
        assert!(Scenario::named("nothing").is_none());
    }
}
