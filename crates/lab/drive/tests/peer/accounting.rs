//! Sound servers: everything sent is completed, and the server counted the same.

use crate::helper::*;
use base::Nanos;
use drive::Life;
use fixture::{Faults, Service};

fn sound(on: On) -> Rig {
    rig(on, Service::hello(), Faults::default())
}

#[test]
fn every_request_is_completed_and_served_on_every_stream_transport() {
    for on in On::HTTP {
        let rig = sound(on);
        let mut session = rig.session();
        let seen = session.run(&requests(1000)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.completed, 1000, "{on:?}");
        assert_eq!(seen.window.completed, 1000);
        assert_eq!(seen.window.payload_bytes, 12_000);
        assert_eq!(seen.connects, 3, "the first connection was opened with the session");
        let Life { counts: life, errors, .. } = session.close();
        assert_eq!((life.completed, errors.len()), (1003, 0), "three probes");
        assert_eq!(rig.fixture.stop().unwrap(), 1003, "{on:?}");
    }
}

#[test]
fn a_connection_per_request_is_exact_too() {
    for on in On::HTTP {
        let mut rig = sound(on);
        rig.load.new_connection = true;
        let mut session = rig.session();
        let seen = session.run(&requests(500)).unwrap();
        assert_laws(&seen);
        assert_eq!((seen.counts.completed, seen.connects), (500, 500), "{on:?}");
        assert_eq!(session.close().counts.completed, 503);
        assert_eq!(rig.fixture.stop().unwrap(), 503);
    }
}

#[test]
fn the_requests_that_connections_do_not_divide_are_sent_too() {
    let mut rig = sound(On::V4);
    rig.load.connections = 7;
    rig.load.threads = 3;
    let mut session = rig.session();
    for n in [1, 2, 6, 8, 100, 101] {
        let seen = session.run(&requests(n)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.completed, n);
        assert_eq!(seen.threads.len(), 3);
    }
}

#[test]
fn a_slice_counts_its_window_apart_from_its_lead_in() {
    let rig = sound(On::Unix);
    let mut session = rig.session();
    let mut completed = 0;
    for _ in 0..3 {
        let seen = session.run(&for_ms(300, 300)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.window.length, Nanos::from_millis(300));
        assert!(seen.window.completed > 0 && seen.window.completed < seen.counts.completed);
        completed += seen.counts.completed;
    }
    let Life { counts: life, .. } = session.close();
    assert_eq!(life.completed, completed + 3);
    assert_eq!(rig.fixture.stop().unwrap(), life.completed);
}

#[test]
fn more_connections_than_a_unix_backlog_are_opened_without_a_failure() {
    // With TCP the kernel itself drops what overflows the backlog, and the client sees timeouts.
    for on in [On::Unix, On::Abstract] {
        let mut rig = rig_with(on, Service::hello(), |config| config.backlog = 2);
        rig.load.connections = 100;
        let mut session = rig.session();
        let seen = session.run(&requests(1000)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.completed, 1000, "{on:?} {:?}", seen.errors);
        assert_eq!(seen.connects, 99);
    }
}
