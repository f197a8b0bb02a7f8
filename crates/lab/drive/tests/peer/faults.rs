//! Faulty servers: each fault is counted exactly as often as it was made, on every stream
//! transport.

use crate::helper::*;
use base::Nanos;
use drive::Life;
use fixture::{Faults, Service};
use ledger::{Discrepancy, Errors, Law, Ledger, Tolerance};

const REQUESTS: u64 = 500;
/// The three probes come first, so a fault every 50 requests occurs at 50, 100, … 500 of 503.
const EVERY: u64 = 50;
const STRIKES: u64 = 10;

/// Runs 500 requests with the fault; returns the ledger of the whole session with the server's
/// count.
fn ledger(on: On, faults: Faults) -> Ledger {
    let rig = rig(on, Service::hello(), faults);
    let mut session = rig.session();
    let seen = session.run(&requests(REQUESTS)).unwrap();
    assert_laws(&seen);
    let Life { counts, errors, .. } = session.close();
    assert_counts(&counts);
    let served = Some(rig.fixture.stop().unwrap());
    Ledger { counts, served, discarded: None, series: None, errors }
}

fn assert_failed(faults: &Faults, kind: &str) {
    for on in On::HTTP {
        let ledger = ledger(on, faults.clone());
        assert_eq!(ledger.errors, Errors::from([(kind.to_owned(), STRIKES)]), "{on:?}");
        assert_eq!(ledger.counts.failed, STRIKES);
        assert_eq!(ledger.counts.completed, REQUESTS + 3 - STRIKES);
        assert_eq!(ledger.served, Some(REQUESTS + 3), "the server counted them all");
        assert!(ledger.fails(Tolerance::CLOSED) && !ledger.audit().is_empty());
    }
}

#[test]
fn a_dropped_reply_fails_and_is_not_sent_again() {
    assert_failed(&Faults { drop_every: EVERY, ..Faults::default() }, "closed before a response");
}

#[test]
fn a_corrupted_byte_is_seen() {
    assert_failed(&Faults { corrupt_every: EVERY, ..Faults::default() }, "body differs");
}

#[test]
fn a_truncated_body_is_seen() {
    assert_failed(
        &Faults { truncate_every: EVERY, ..Faults::default() },
        "closed within a response",
    );
}

#[test]
fn a_byte_too_many_is_seen() {
    assert_failed(
        &Faults { surplus_every: EVERY, ..Faults::default() },
        "bytes after the \
        response",
    );
}

#[test]
fn a_reset_is_seen() {
    for on in [On::V4, On::V6] {
        let ledger = ledger(on, Faults { reset_every: EVERY, ..Faults::default() });
        assert_eq!(ledger.errors, Errors::from([("reset".to_owned(), STRIKES)]), "{on:?}");
    }
}

#[test]
fn one_dropped_reply_in_ten_thousand_is_seen() {
    let rig = rig(On::Unix, Service::hello(), Faults { drop_every: 10_000, ..Faults::default() });
    let mut session = rig.session();
    let seen = session.run(&requests(10_000)).unwrap();
    assert_laws(&seen);
    assert_eq!((seen.counts.completed, seen.counts.failed), (9_999, 1));
}

#[test]
fn a_request_counted_twice_shows_in_the_ledger() {
    for on in On::HTTP {
        let ledger = ledger(on, Faults { count_twice_every: 500, ..Faults::default() });
        assert_eq!(ledger.counts.completed, REQUESTS + 3);
        assert_eq!(ledger.served, Some(REQUESTS + 4));
        let gap = Discrepancy { law: Law::Served, left: REQUESTS + 4, right: REQUESTS + 3 };
        assert_eq!(ledger.audit(), [gap]);
    }
}

#[test]
fn a_request_not_counted_shows_in_the_ledger() {
    for on in On::HTTP {
        let ledger = ledger(on, Faults { count_never_every: 500, ..Faults::default() });
        assert_eq!(ledger.served, Some(REQUESTS + 2));
        let gap = Discrepancy { law: Law::Served, left: REQUESTS + 2, right: REQUESTS + 3 };
        assert_eq!(ledger.audit(), [gap]);
    }
}

#[test]
fn a_fast_error_is_no_answer() {
    for on in On::HTTP {
        let ledger = ledger(on, Faults { fail_after: Some(100), ..Faults::default() });
        assert_eq!(ledger.counts.completed, 100);
        assert_eq!(ledger.errors, Errors::from([("status 503".to_owned(), 403)]));
    }
}

#[test]
fn a_server_that_stalls_shows_as_timeouts_and_never_hangs() {
    for on in [On::V4, On::Unix] {
        let faults = Faults { stall_after: Some(100), ..Faults::default() };
        let mut rig = rig(on, Service::hello(), faults);
        rig.load.timeout = Nanos::from_secs(1);
        let mut session = rig.session();
        let seen = session.run(&requests(101)).unwrap();
        assert_laws(&seen);
        assert_eq!((seen.counts.completed, seen.counts.failed), (97, 4), "{on:?}");
        assert_eq!(seen.errors, Errors::from([("timeout".to_owned(), 4)]));
        assert_eq!(rig.fixture.stop().unwrap(), 100);
    }
}

#[test]
fn every_kth_answer_that_is_late_is_in_the_histogram() {
    let faults =
        Faults { delay_every: 50, delay_every_by: Nanos::from_millis(20), ..Faults::default() };
    let rig = rig(On::V4, Service::hello(), faults);
    let mut session = rig.session();
    let seen = session.run(&requests(REQUESTS)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed, REQUESTS);
    let late = seen.service_time.count_between(19_900_000, u64::MAX);
    assert!(late >= STRIKES, "{late} answers took 20 ms, {STRIKES} were held back");
}

#[test]
fn a_limited_server_is_not_outrun() {
    let rig =
        rig(On::Unix, Service::hello(), Faults { limit_per_s: Some(1000.0), ..Faults::default() });
    let mut session = rig.session();
    let seen = session.run(&requests(100)).unwrap();
    assert_laws(&seen);
    // 100 responses 1 ms apart take at least 99 ms from the first to the last.
    assert!(seen.window.length >= Nanos::from_millis(96), "{}", seen.window.length);
}

#[test]
fn slowness_burnt_or_waited_is_in_every_service_time() {
    let slow = Nanos::from_millis(2);
    for faults in [
        Faults { delay: slow, ..Faults::default() },
        Faults { burn: slow, ..Faults::default() },
        Faults { slow_after: Some(0), slow_by: slow, ..Faults::default() },
    ] {
        let rig = rig(On::V4, Service::hello(), faults);
        let mut session = rig.session();
        let seen = session.run(&requests(20)).unwrap();
        assert_laws(&seen);
        // The histogram keeps three digits: its buckets at 2 ms are at least 1 µs wide.
        assert!(seen.service_time.min() >= slow.0 - 10_000, "{}", seen.service_time.min());
    }
}
