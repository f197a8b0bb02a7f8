//! Open loops: requests arrive whatever the server does.

use crate::helper::*;
use base::Nanos;
use drive::{ConnectionsLimit, LimitedBy, Slice};
use fixture::{Faults, Service};
use spec::{Arrivals, Mode};

fn open(rate_per_s: f64, slice: Slice) -> Slice {
    Slice { mode: Mode::Open { rate_per_s, arrivals: Arrivals::Uniform }, ..slice }
}

#[test]
fn exactly_as_many_arrive_as_were_asked_for() {
    for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
        for threads in [1, 3] {
            let mut rig = rig(On::V4, Service::hello(), Faults::default());
            rig.load.threads = threads;
            let mut session = rig.session();
            let mode = Mode::Open { rate_per_s: 2000.0, arrivals };
            let seen = session.run(&Slice { mode, ..requests(301) }).unwrap();
            assert_laws(&seen);
            assert_eq!((seen.counts.offered, seen.counts.completed), (301, 301));
            assert_eq!((seen.latency.len(), seen.lateness.len()), (301, 301));
            session.close();
            assert_eq!(rig.fixture.stop().unwrap(), 304);
        }
    }
}

#[test]
fn a_stretch_of_time_offers_rate_times_length() {
    let rig = rig(On::Unix, Service::hello(), Faults::default());
    let mut session = rig.session();
    let seen = session.run(&open(1000.0, for_ms(50, 150))).unwrap();
    assert_laws(&seen);
    // Uniform arrivals at 0, 1, … 199 ms.
    assert_eq!(seen.counts.offered, 200);
    assert_eq!(seen.window.length, Nanos::from_millis(150));
}

#[test]
fn waiting_for_a_connection_is_part_of_the_latency() {
    // One connection, 5 ms per response, and all twenty requests due within the first 2 ms.
    let faults = Faults { delay: Nanos::from_millis(5), ..Faults::default() };
    let mut rig = rig(On::Unix, Service::hello(), faults);
    rig.load.connections = 1;
    let mut session = rig.session();
    let seen = session.run(&open(10_000.0, requests(20))).unwrap();
    assert_laws(&seen);
    assert_eq!((seen.counts.completed, seen.counts.dropped), (20, 0));
    // The last one waits for nineteen others; its own service still takes 5 ms.
    assert!(seen.latency.max() >= 97_000_000, "{}", seen.latency.max());
    // The client was not late: nineteen waited for the connection, which is the server's doing.
    assert_eq!(seen.lateness.len(), 20);
    assert_eq!(seen.lateness.count_between(0, 0), 19, "{:?}", seen.lateness.max());
    assert!(seen.service_time.min() >= 4_990_000, "{}", seen.service_time.min());
    assert!(seen.latency.max() > seen.service_time.min() * 10);
}

#[test]
fn arrivals_that_could_not_be_sent_in_time_are_reported_as_dropped() {
    let faults = Faults { delay: Nanos::from_millis(10), ..Faults::default() };
    let mut rig = rig(On::V4, Service::hello(), faults);
    rig.load.connections = 1;
    let mut session = rig.session();
    let drain = Nanos::from_millis(20);
    let seen = session.run(&open(2000.0, Slice { drain, ..for_ms(0, 100) })).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.offered, 200);
    assert_eq!(seen.latency.len(), 200, "those without an answer took at least the timeout");
    assert!(seen.counts.dropped >= 185, "at most one request in 10 ms: {:?}", seen.counts);
    assert!(seen.counts.in_flight <= 1, "{:?}", seen.counts);
    let limit = ConnectionsLimit { connections: 1, by: LimitedBy::Load };
    assert_eq!((seen.connections_max_used, seen.connections_limit), (1, limit));
    assert!(seen.waiting_for_connections >= seen.counts.dropped - 1, "{seen:?}");
}

#[test]
fn a_server_too_slow_for_its_rate_had_only_the_latencies_that_ended_in_time() {
    let faults = Faults { delay: Nanos::from_millis(10), ..Faults::default() };
    let mut rig = rig(On::V4, Service::hello(), faults);
    rig.load.connections = 1;
    let mut session = rig.session();
    let seen = session.run(&open(2000.0, for_ms(0, 100))).unwrap();
    assert_laws(&seen);
    assert_eq!((seen.counts.completed, seen.counts.dropped), (200, 0), "all are sent in the drain");
    assert_eq!((seen.latency.len(), seen.window.due), (200, 200));
    // The last one waits for 199 others of 10 ms each, and was due after 100 ms.
    assert!(seen.latency.max() > 1_880_000_000, "{}", seen.latency.max());
    assert!(seen.window.completed <= 10, "{:?}", seen.window);
}

#[test]
fn ten_connections_were_all_that_a_slow_server_got_at_any_rate() {
    for on in [On::V4, On::Unix] {
        for threads in [1, 2] {
            let faults = Faults { delay: Nanos::from_millis(50), ..Faults::default() };
            let mut rig = rig(on, Service::hello(), faults);
            (rig.load.threads, rig.load.connections_max) = (threads, Some(400));
            let mut session = rig.session();
            let seen = session.run(&open(1000.0, requests(500))).unwrap();
            assert_laws(&seen);
            assert_eq!((seen.counts.completed, seen.counts.dropped), (500, 0));
            assert!(seen.connections_max_used > 4, "{on:?}: {}", seen.connections_max_used);
            assert!(seen.connections_max_used <= seen.connections_limit.connections);
            assert_eq!(seen.connections_limit.connections, 400);

            // Additional connections are closed: a closed loop continues with its four.
            let seen = session.run(&requests(100)).unwrap();
            assert_laws(&seen);
            assert_eq!((seen.connects, seen.connections_max_used), (0, 4), "{on:?}");
            assert_eq!(seen.counts.reconnected, 0, "it was not the server that closed them");
            session.close();
            assert_eq!(rig.fixture.stop().unwrap(), 603);
        }
    }
}

#[test]
fn the_cap_of_connections_is_kept_and_named() {
    let faults = Faults { delay: Nanos::from_millis(50), ..Faults::default() };
    let mut rig = rig(On::Unix, Service::hello(), faults);
    (rig.load.connections, rig.load.connections_max) = (1, Some(3));
    let mut session = rig.session();
    let drain = Nanos::from_millis(20);
    let seen = session.run(&open(2000.0, Slice { drain, ..for_ms(0, 300) })).unwrap();
    assert_laws(&seen);
    let limit = ConnectionsLimit { connections: 3, by: LimitedBy::Load };
    assert_eq!((seen.connections_max_used, seen.connections_limit), (3, limit));
    assert!(seen.waiting_for_connections > 0, "{:?}", seen.counts);
}

#[test]
fn a_dead_server_fails_what_arrives() {
    let mut rig = rig(On::Unix, Service::hello(), Faults::default());
    let mut session = rig.session();
    rig.fixture = {
        let gone = rig_with(On::Unix, Service::hello(), |_| {});
        std::mem::replace(&mut rig.fixture, gone.fixture)
    };
    rig.fixture.stop().unwrap();
    let seen = session.run(&open(1000.0, requests(50))).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.failed, 50, "{:?}", seen.errors);
    assert_eq!(seen.errors.get("no such socket"), Some(&50), "{:?}", seen.errors);
}
