//! Servers that go away, hang or refuse, and users who stop the run.

use crate::helper::*;
use base::Nanos;
use drive::Life;
use drive::Slice;
use fixture::{Faults, Service};
use ledger::Errors;
use std::sync::atomic::Ordering;

#[test]
fn what_is_unanswered_after_the_drain_is_in_flight_and_counted_once() {
    // Every fourth response is delayed far beyond the drain.
    let faults =
        Faults { delay_every: 4, delay_every_by: Nanos::from_secs(4), ..Faults::default() };
    for on in [On::V4, On::Unix] {
        let mut rig = rig(on, Service::hello(), faults.clone());
        rig.load.connections = 8;
        let mut session = rig.session();
        let slice = Slice { drain: Nanos::from_millis(10), ..for_ms(0, 1500) };
        let first = session.run(&slice).unwrap();
        assert_laws(&first);
        assert_eq!(first.counts.in_flight, 8, "{on:?}: all connections end up waiting");
        assert_eq!(session.life().counts.in_flight, 8);
        // The fixture has sent what it delayed: these requests are over.
        eventually("the end of what is held back", || rig.fixture.held() == 0);
        let second = session.run(&requests(2)).unwrap();
        assert_laws(&second);
        assert_eq!(second.counts.completed, 2, "late answers are nobody's");
        assert_eq!(second.connects, 8, "connections with a late answer on them are replaced");
        let Life { counts: life, .. } = session.close();
        assert_counts(&life);
        assert_eq!(life.in_flight, 8);
        assert_eq!(rig.fixture.stop().unwrap(), life.completed + 8);
    }
}

#[test]
fn a_stop_ends_a_slice_and_what_is_under_way_is_awaited() {
    for slice in [for_ms(0, 60_000), requests(u64::MAX)] {
        let rig = rig(On::Unix, Service::hello(), Faults::default());
        let mut session = rig.session();
        let before = rig.fixture.served();
        let seen = stopped(&rig, || rig.fixture.served() > before + 100, || session.run(&slice));
        let seen = seen.unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.in_flight + seen.counts.failed, 0);
        assert!(seen.window.completed > 0);
        assert!(seen.window.length < Nanos::from_secs(59));
        let Life { counts: life, .. } = session.close();
        assert_eq!(rig.fixture.stop().unwrap(), life.completed);
    }
}

/// The result of `work`, whose stop flag is set once `condition` holds.
fn stopped<T>(rig: &Rig, condition: impl Fn() -> bool + Send, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("what is waited for before the stop", condition);
            rig.options.stop.store(true, Ordering::Relaxed);
        });
        work()
    })
}

/// Runs `work` on its own thread, which must return long before `timeout`.
fn before_any_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for a timeout")
}

#[test]
fn a_stop_waited_ten_seconds_for_a_server_that_never_answers() {
    // The first requests are answered, so that a session can learn.
    let faults = Faults { stall_after: Some(3), ..Faults::default() };
    let seen = before_any_timeout(move || {
        let mut rig = rig(On::V4, Service::hello(), faults);
        rig.load.timeout = Nanos::from_secs(600);
        let mut session = rig.session();
        let slice = Slice { drain: Nanos::from_secs(600), ..for_ms(0, 600_000) };
        let asked = || rig.fixture.requests() >= 3 + 4;
        stopped(&rig, asked, || session.run(&slice)).unwrap()
    });
    assert_laws(&seen);
    assert_eq!((seen.counts.sent, seen.counts.in_flight), (4, 4));
}

#[test]
fn a_stop_ends_the_wait_for_the_first_answer_too() {
    let faults = Faults { stall_after: Some(0), ..Faults::default() };
    let error = before_any_timeout(move || {
        let mut rig = rig(On::Unix, Service::hello(), faults);
        rig.load.timeout = Nanos::from_secs(600);
        let mut session = rig.open().unwrap();
        stopped(&rig, || rig.fixture.requests() > 0, || session.learn()).unwrap_err()
    });
    assert_eq!(error.to_string(), "stopped before the first responses");
}

#[test]
fn a_server_that_never_accepts_on_tcp_times_out() {
    let mut rig = rig(On::V4, Service::hello(), Faults { never_accept: true, ..Faults::default() });
    rig.load.timeout = Nanos::from_millis(100);
    // The kernel completes the handshake, and nothing ever responds.
    let mut session = rig.open().unwrap();
    let seen = session.run(&requests(8)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.errors, Errors::from([("timeout".to_owned(), 8)]));
}

#[test]
fn a_backlog_that_overflows_on_tcp_is_a_connect_timeout() {
    let mut rig = rig_with(On::V4, Service::hello(), |config| {
        config.backlog = 0;
        config.faults.never_accept = true;
    });
    rig.load.timeout = Nanos::from_millis(200);
    rig.load.connections = 6;
    let mut session = rig.open().unwrap();
    let seen = session.run(&requests(6)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.failed, 6);
    let refused = seen.errors.get("connect timeout").copied().unwrap_or(0);
    assert!(refused >= 3, "a backlog of 0 holds one or two: {:?}", seen.errors);
}

#[test]
fn an_overflowing_backlog_of_a_unix_socket_is_reported() {
    let mut rig = rig_with(On::Unix, Service::hello(), |config| {
        config.backlog = 1;
        config.faults.never_accept = true;
    });
    rig.load.timeout = Nanos::from_millis(100);
    rig.load.connections = 6;
    let mut session = rig.open().unwrap();
    let seen = session.run(&requests(6)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.failed, 6);
    assert!(seen.errors.contains_key("accept queue full"), "{:?}", seen.errors);
}

#[test]
fn a_server_that_goes_away_fails_what_follows() {
    for (on, kind) in [
        (On::V4, "refused"),
        (On::V6, "refused"),
        (On::Unix, "no such socket"),
        (On::Abstract, "refused"),
    ] {
        let rig = rig(on, Service::hello(), Faults::default());
        let mut session = rig.session();
        session.run(&requests(100)).unwrap();
        assert_eq!(rig.fixture.stop().unwrap(), 103);
        let seen = session.run(&requests(20)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.closed_idle, 4, "{on:?}: no request was on the connections");
        assert_eq!(seen.counts.reconnected, 4, "{on:?}: one request for each of them");
        assert_eq!(seen.errors, Errors::from([(kind.to_owned(), 20)]), "{on:?}");
    }
}

#[test]
fn the_count_is_in_the_counter_file_and_behind_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served");
    let rig = rig_with(On::V4, Service::hello(), |config| config.counter = Some(path.clone()));
    let mut session = rig.session();
    session.run(&requests(77)).unwrap();
    assert_eq!(netio::SharedCounter::read(&path).unwrap(), 80);
    let spec::Target::Http { endpoint, tls: false, authority, .. } = rig.target.clone() else {
        unreachable!()
    };
    let count = spec::Target::Http { endpoint, tls: false, authority, path: "/__served".into() };
    let mut asking = drive::Session::open(&count, &rig.load, &rig.options).unwrap();
    assert_eq!(asking.learn().unwrap().body.as_deref(), Some(&b"80"[..]), "asking is not counted");
    asking.close();
    session.close();
    assert_eq!(rig.fixture.stop().unwrap(), 80);
}
