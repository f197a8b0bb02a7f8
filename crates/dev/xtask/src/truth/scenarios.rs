//! The servers of known behaviour, and the load on each.

use base::Nanos;
use fixture::{BrokenStream, Config, Faults, Freeze, Service, TlsConfig};
use spec::Endpoint;

use crate::tools::load::{Protocol, Work};

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
    pub(super) protocol: Protocol,
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

const MANY: Work = Work::Number { requests: 20_000, or_seconds: 1 };

const FEW: Work = Work::Number { requests: 2000, or_seconds: 1 };

/// All scenarios, in the order of the page.
pub(super) static SCENARIOS: [Scenario; 44] = [
    DELAYED,
    STALLING,
    Scenario {
        server: "responds at once",
        work: Work::Closed { seconds: 2 },
        ..scenario("counts-time", "for 2 s")
    },
    Scenario {
        server: "responds at once",
        work: MANY,
        ..scenario("counts-number", "20,000 requests")
    },
    STATUS_500,
    WRONG_BODY,
    TRUNCATED,
    CUT,
    NO_RESPONSE,
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
    CLOSE_ANNOUNCED,
    CLOSE_SILENT,
    Scenario { unix: true, ..scenario("unix", "Unix socket") },
    https("https-delay", DELAYED),
    https("https-stall", STALLING),
    Scenario { work: MANY, ..https("https-counts", scenario("", "20,000 requests")) },
    https("https-close-announced", CLOSE_ANNOUNCED),
    https(
        "https-close-silent",
        Scenario {
            server: "closes each connection after 100 responses, announced only by `close_notify` of TLS",
            title: "announced by TLS",
            ..CLOSE_SILENT
        },
    ),
    https(
        "https-close-unnoticed",
        Scenario {
            server: "closes each connection after 100 responses without any announcement",
            faults: || Faults { close_tls_silently: true, ..(CLOSE_SILENT.faults)() },
            ..CLOSE_SILENT
        },
    ),
    https("https-status-500", STATUS_500),
    https("https-wrong-body", WRONG_BODY),
    https(
        "https-truncated",
        Scenario {
            server: "omits the last of the 12 bytes that Content-Length announced, and closes with `close_notify`",
            ..TRUNCATED
        },
    ),
    https(
        "https-cut-off",
        Scenario {
            server: "omits that byte, and closes without `close_notify`",
            title: "truncated, no `close_notify`",
            faults: || Faults { close_tls_silently: true, ..(TRUNCATED.faults)() },
            ..TRUNCATED
        },
    ),
    https("https-reset", CUT),
    https("https-no-response", NO_RESPONSE),
    h2c("h2c-delay", DELAYED),
    h2c("h2c-counts", MANY_BY_HTTP2),
    h2c("h2c-goaway", GOAWAY),
    h2c("h2c-close-silent", CLOSE_SILENT),
    h2c("h2c-status-500", STATUS_500),
    h2c("h2c-wrong-body", WRONG_BODY),
    h2c("h2c-length", WRONG_LENGTH),
    h2c("h2c-reset", STREAM_CUT),
    h2c("h2c-trailers", WRONG_TRAILERS),
    h2("h2-delay", DELAYED),
    h2("h2-stall", STALLING),
    h2("h2-counts", MANY_BY_HTTP2),
    h2("h2-goaway", GOAWAY),
    h2("h2-close-silent", CLOSE_SILENT),
    h2("h2-status-500", STATUS_500),
    h2("h2-wrong-body", WRONG_BODY),
    h2("h2-length", WRONG_LENGTH),
    h2("h2-reset", STREAM_CUT),
    h2("h2-trailers", WRONG_TRAILERS),
];

const DELAYED: Scenario = Scenario {
    server: "holds every response for 5 ms by a timer",
    work: Work::Closed { seconds: 3 },
    faults: || Faults { delay: DELAY, ..Faults::default() },
    ..scenario("delay", "constant delay")
};

const STALLING: Scenario = Scenario {
    server: "holds every response for 5 ms, and sends nothing from 2 to 3 s and from 7 to 8 s after the first request",
    work: Work::Rate { per_s: STALL_LOAD.0, seconds: STALL_LOAD.1 },
    faults: || Faults { delay: DELAY, freeze: Some(FREEZE), ..Faults::default() },
    ..scenario("stall", "stall")
};

const STATUS_500: Scenario = Scenario {
    server: "sends status 500 with the usual body",
    faults: || Faults { error_every: EVERY, ..Faults::default() },
    ..scenario("status-500", "status 500")
};

const WRONG_BODY: Scenario = Scenario {
    server: "flips one bit of the body",
    faults: || Faults { corrupt_every: EVERY, ..Faults::default() },
    ..scenario("wrong-body", "wrong body")
};

const TRUNCATED: Scenario = Scenario {
    server: "omits the last of the 12 bytes that Content-Length announced, and closes",
    faults: || Faults { truncate_every: EVERY, ..Faults::default() },
    ..scenario("truncated", "truncated body")
};

const CUT: Scenario = Scenario {
    server: "sends half of the body, and resets the connection",
    faults: || Faults { cut_every: EVERY, ..Faults::default() },
    ..scenario("reset", "reset midway")
};

const NO_RESPONSE: Scenario = Scenario {
    server: "closes the connection instead of responding",
    faults: || Faults { drop_every: EVERY, ..Faults::default() },
    ..scenario("no-response", "no response")
};

const CLOSE_ANNOUNCED: Scenario = Scenario {
    server: "closes each connection after 100 responses, announced by `Connection: close` in the last one",
    faults: || Faults {
        close_after_answers: CLOSE_AFTER,
        announce_close: true,
        ..Faults::default()
    },
    ..scenario("close-announced", "announced close")
};

const CLOSE_SILENT: Scenario = Scenario {
    server: "closes each connection after 100 responses without announcement",
    faults: || Faults { close_after_answers: CLOSE_AFTER, ..Faults::default() },
    ..scenario("close-silent", "silent close")
};

const MANY_BY_HTTP2: Scenario = Scenario { work: MANY, ..scenario("", "20,000 requests") };

const GOAWAY: Scenario = Scenario {
    server: "sends GOAWAY with the 100th response of each connection, and processes no request that comes later on it",
    title: "GOAWAY",
    ..CLOSE_ANNOUNCED
};

const WRONG_LENGTH: Scenario = Scenario {
    server: "ends the stream without the last of the 12 bytes that `content-length` announced",
    title: "wrong length",
    ..TRUNCATED
};

const STREAM_CUT: Scenario =
    Scenario { server: "sends half of the body, and resets the stream", ..CUT };

const WRONG_TRAILERS: Scenario = Scenario {
    server: "sends the response, and `:status` among its trailers, which makes it malformed (RFC 9113, section 8.1)",
    faults: || Faults {
        broken_stream_every: EVERY,
        broken_stream: BrokenStream::StatusInTrailers,
        ..Faults::default()
    },
    ..scenario("", "wrong trailers")
};

/// A server without faults, and a few requests.
const fn scenario(id: &'static str, title: &'static str) -> Scenario {
    Scenario {
        id,
        title,
        server: "responds at once",
        work: FEW,
        faults: no_faults,
        unix: false,
        protocol: Protocol::Http,
    }
}

/// The same server with TLS.
const fn https(id: &'static str, scenario: Scenario) -> Scenario {
    Scenario { id, protocol: Protocol::Https, ..scenario }
}

/// The same server with HTTP/2.
const fn h2c(id: &'static str, scenario: Scenario) -> Scenario {
    Scenario { id, protocol: Protocol::H2c, ..scenario }
}

/// The same server with HTTP/2 and TLS.
const fn h2(id: &'static str, scenario: Scenario) -> Scenario {
    Scenario { id, protocol: Protocol::H2, ..scenario }
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
        Config {
            faults: (self.faults)(),
            tally: true,
            tls: self.protocol.is_tls().then(TlsConfig::default),
            http2: self.protocol.is_http2(),
            ..Config::new(listen, Service::hello())
        }
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
