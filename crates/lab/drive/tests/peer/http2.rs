//! HTTP/2: every fault is counted as often as it was made, and what a GOAWAY leaves undone is counted as
//! that.

use crate::helper::*;
use base::Nanos;
use drive::Life;
use drive::Observation;
use fixture::{BrokenStream, Faults, HttpAnswer, ResponseBody, Service};
use ledger::Errors;
use spec::{Exchange, HttpRequest, HttpVersion};

const REQUESTS: u64 = 500;
const EVERY: u64 = 50;
const STRIKES: u64 = 10;

/// A fixture that speaks HTTP/2, loaded over two connections of four streams.
fn streams(on: On, service: Service, faults: Faults) -> Rig {
    let mut rig = rig_with(on, service, |config| {
        config.faults = faults;
        config.http2 = true;
    });
    rig.load.http = HttpVersion::Http2;
    rig.load.streams = 4;
    rig.load.connections = 8;
    rig
}

const TRANSPORTS: [On; 4] = [On::V4, On::Unix, On::Tls, On::TlsUnix];

fn errors(pairs: &[(&str, u64)]) -> Errors {
    pairs.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect()
}

#[test]
fn counts_of_client_and_server_are_equal_and_connections_are_shared() {
    for on in TRANSPORTS {
        let rig = streams(on, Service::hello(), Faults::default());
        let mut session = rig.session();
        let seen = session.run(&requests(REQUESTS)).unwrap();
        assert_laws(&seen);
        assert_eq!((seen.counts.completed, seen.connects), (REQUESTS, 1), "{:?}", seen.errors);
        let Life { counts, .. } = session.close();
        assert_eq!(counts.completed, REQUESTS + 3);
        assert_eq!(rig.fixture.stop().unwrap(), REQUESTS + 3, "{on:?}");
    }
}

#[test]
fn every_fault_of_a_stream_is_one_failed_request() {
    let every = |change: fn(&mut Faults)| {
        let mut faults = Faults::default();
        change(&mut faults);
        faults
    };
    for (faults, kind) in [
        (every(|f| f.drop_every = EVERY), "stream reset (INTERNAL_ERROR)"),
        (every(|f| f.reset_every = EVERY), "stream reset (INTERNAL_ERROR)"),
        (every(|f| f.cut_every = EVERY), "stream reset (INTERNAL_ERROR)"),
        (every(|f| f.corrupt_every = EVERY), "body differs"),
        (every(|f| f.truncate_every = EVERY), "bad framing"),
        (every(|f| f.surplus_every = EVERY), "bad framing"),
    ] {
        for on in [On::V4, On::TlsUnix] {
            let rig = streams(on, Service::hello(), faults.clone());
            let mut session = rig.session();
            let seen = session.run(&requests(REQUESTS)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.errors, errors(&[(kind, STRIKES)]), "{on:?} {faults:?}");
            // One stream failed, not its connection.
            assert_eq!(seen.connects, 1, "{on:?} {faults:?}");
            assert_eq!(rig.fixture.stop().unwrap(), REQUESTS + 3);
        }
    }
}

fn broken(broken_stream: BrokenStream) -> Faults {
    Faults { broken_stream_every: EVERY, broken_stream, ..Faults::default() }
}

#[test]
fn trailers_that_are_wrong_are_a_failed_request_each() {
    for way in [
        BrokenStream::StatusInTrailers,
        BrokenStream::UppercaseTrailer,
        BrokenStream::UnendedTrailers,
    ] {
        for on in [On::V4, On::TlsUnix] {
            let rig = streams(on, Service::hello(), broken(way));
            let mut session = rig.session();
            let seen = session.run(&requests(REQUESTS)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.errors, errors(&[("HTTP/2 broken", STRIKES)]), "{on:?} {way:?}");
            assert_eq!(seen.connects, 1, "{on:?} {way:?}");
            assert_eq!(rig.fixture.stop().unwrap(), REQUESTS + 3);
        }
    }
}

#[test]
fn what_answers_no_request_ends_its_connection() {
    for (way, is_answered) in [
        (BrokenStream::TrailersAfterEnd, true),
        (BrokenStream::UnknownStream, false),
        (BrokenStream::EndedStream, false),
    ] {
        for on in [On::V4, On::TlsUnix] {
            let rig = streams(on, Service::hello(), broken(way));
            let mut session = rig.session();
            let seen = session.run(&requests(REQUESTS)).unwrap();
            assert_laws(&seen);
            let failed = seen.errors.get("HTTP/2 broken").copied().unwrap_or(0);
            assert_eq!(seen.counts.failed, failed, "{on:?} {way:?} {:?}", seen.errors);
            assert_eq!(seen.counts.completed + failed, REQUESTS, "{on:?} {way:?}");
            // Those that were on their way fail with their connection, at most four at a time.
            let least = if is_answered { 0 } else { STRIKES - 1 };
            assert!((least..=4 * STRIKES).contains(&failed), "{on:?} {way:?}: {failed}");
            // One connection is new after each strike; the last may be unused.
            assert!((STRIKES..=STRIKES + 2).contains(&seen.connects), "{way:?} {}", seen.connects);
            let served = rig.fixture.stop().unwrap();
            assert!(served <= REQUESTS + 3 && served >= seen.counts.completed + 3, "{served}");
        }
    }
}

/// How many of two swapped bodies every fifty responses are found.
fn found_swaps(body: ResponseBody) -> u64 {
    let shape = HttpAnswer { body, ..HttpAnswer::default() };
    let rig = streams(On::V4, Service::Http(shape), broken(BrokenStream::SwappedBodies));
    let mut session = rig.session();
    let seen = session.run(&requests(REQUESTS)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed + seen.counts.failed, REQUESTS);
    let found = seen.errors.get("bad framing").copied().unwrap_or(0);
    assert_eq!(seen.counts.failed, found, "{:?}", seen.errors);
    assert_eq!(rig.fixture.stop().unwrap(), REQUESTS + 3);
    found
}

#[test]
fn bodies_of_two_streams_that_are_swapped_are_found_if_their_lengths_differ() {
    assert_eq!(found_swaps(ResponseBody::Growing(1_000)), 2 * STRIKES);
    // A client cannot tell equal bodies apart.
    assert_eq!(found_swaps(ResponseBody::Fixed(b"Hello World!".to_vec())), 0);
}

#[test]
fn a_status_is_that_of_the_head() {
    let faults = Faults { fail_after: Some(103), ..Faults::default() };
    let rig = streams(On::V4, Service::hello(), faults);
    let mut session = rig.session();
    let seen = session.run(&requests(200)).unwrap();
    assert_eq!((seen.counts.completed, seen.counts.failed), (100, 100));
    assert_eq!(seen.errors, errors(&[("status 503", 100)]));
}

/// A load of a server that ends each connection after so many answers.
fn with_ended_connections(announce_close: bool) -> (Observation, u64) {
    let faults = Faults { close_after_answers: 40, announce_close, ..Faults::default() };
    let rig = streams(On::V4, Service::hello(), faults);
    let mut session = rig.session();
    let seen = session.run(&requests(REQUESTS)).unwrap();
    assert_laws(&seen);
    drop(session);
    (seen, rig.fixture.stop().unwrap())
}

#[test]
fn after_goaway_requests_use_a_new_connection_and_none_is_sent_again() {
    let (seen, served) = with_ended_connections(true);
    let left = seen.errors.get("not processed before GOAWAY").copied().unwrap_or(0);
    assert_eq!(seen.counts.failed, left, "{:?}", seen.errors);
    assert_eq!(seen.counts.completed + left, REQUESTS);
    assert_eq!(served, seen.counts.completed + 3, "what came after the announcement");
    assert!(seen.connects >= 10, "{}", seen.connects);
}

#[test]
fn a_connection_that_breaks_fails_the_requests_on_it_and_no_others() {
    let (seen, served) = with_ended_connections(false);
    let kinds: Vec<&str> = seen.errors.keys().map(String::as_str).collect();
    let known = ["closed before a response", "reset"];
    assert!(kinds.iter().all(|kind| known.contains(kind)), "{kinds:?}");
    assert!(seen.counts.failed <= seen.connects * 4, "{} {:?}", seen.connects, seen.errors);
    assert_eq!(seen.counts.completed + seen.counts.failed, REQUESTS);
    assert!(served >= seen.counts.completed + 3 && served <= REQUESTS + 3);
}

#[test]
fn bodies_of_requests_and_responses_pass_the_windows() {
    let body: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let shape = HttpAnswer { body: ResponseBody::Fixed(body.clone()), ..HttpAnswer::default() };
    for on in TRANSPORTS {
        let mut rig = streams(on, Service::Http(shape.clone()), Faults::default());
        rig.load.exchange = Exchange::Http(HttpRequest {
            method: "POST".into(),
            body: body.clone(),
            ..HttpRequest::default()
        });
        let mut session = rig.session();
        let seen = session.run(&requests(40)).unwrap();
        assert_eq!((seen.counts.completed, seen.connects), (40, 1), "{on:?} {:?}", seen.errors);
        assert!(seen.bytes_sent > 40 * 300_000 && seen.bytes_received > 40 * 300_000);
    }
}

#[test]
fn a_window_that_never_opens_is_a_timeout() {
    let faults = Faults { never_open_window: true, ..Faults::default() };
    let mut rig = streams(On::V4, Service::hello(), faults);
    let body = vec![b'x'; 100_000];
    rig.load.exchange =
        Exchange::Http(HttpRequest { method: "POST".into(), body, ..HttpRequest::default() });
    rig.load.timeout = Nanos::from_millis(200);
    let mut session = rig.open().unwrap();
    let seen = session.run(&requests(8)).unwrap();
    assert_eq!(seen.errors, errors(&[("timeout", 8)]));
}

#[test]
fn heads_have_a_length_and_no_body() {
    let mut rig = streams(On::V4, Service::hello(), Faults::default());
    rig.load.exchange =
        Exchange::Http(HttpRequest { method: "HEAD".into(), ..HttpRequest::default() });
    let mut session = rig.session();
    let seen = session.run(&requests(100)).unwrap();
    assert_eq!((seen.counts.completed, seen.window.payload_bytes), (100, 0));
}

#[test]
fn a_connection_for_each_request() {
    for on in TRANSPORTS {
        let mut rig = streams(on, Service::hello(), Faults::default());
        rig.load.streams = 1;
        rig.load.new_connection = true;
        let mut session = rig.session();
        let seen = session.run(&requests(200)).unwrap();
        assert_laws(&seen);
        assert_eq!((seen.counts.completed, seen.connects), (200, 200), "{on:?} {:?}", seen.errors);
    }
}

#[test]
fn the_connection_of_a_request_that_was_reset_was_used_again_where_each_needs_its_own() {
    let faults = Faults { drop_every: 10, ..Faults::default() };
    let mut rig = streams(On::V4, Service::hello(), faults);
    rig.load.streams = 1;
    rig.load.new_connection = true;
    let mut session = rig.session();
    let seen = session.run(&requests(200)).unwrap();
    assert_eq!((seen.counts.failed, seen.connects), (20, 200), "{:?}", seen.errors);
}

#[test]
fn an_open_loop_uses_streams_as_it_needs_them() {
    let mut rig = streams(On::V4, Service::hello(), Faults::default());
    rig.load.connections_max = Some(64);
    let mut session = rig.session();
    let mut slice = for_ms(0, 300);
    slice.mode = spec::Mode::Open { rate_per_s: 2_000.0, arrivals: spec::Arrivals::Poisson };
    let seen = session.run(&slice).unwrap();
    assert_laws(&seen);
    assert!(seen.counts.completed > 100, "{:?}", seen.counts);
    assert_eq!(seen.counts.failed, 0, "{:?}", seen.errors);
}

#[test]
fn servers_of_the_other_version_are_named() {
    let mut plain = rig(On::V4, Service::hello(), Faults::default());
    plain.load.http = HttpVersion::Http2;
    plain.load.timeout = Nanos::from_millis(500);
    let refusal = |rig: &Rig| {
        let refused = rig.open().and_then(|mut session| session.learn().map(drop));
        refused.unwrap_err().to_string().replace(&rig.target.to_string(), "TARGET")
    };
    assert_eq!(
        refusal(&plain),
        "cannot connect to TARGET: it does not speak HTTP/2 on this port, which --http2 and --grpc \
         need"
    );
    let mut secure = rig(On::Tls, Service::hello(), Faults::default());
    secure.load.http = HttpVersion::Http2;
    assert_eq!(
        refusal(&secure),
        "cannot connect to TARGET: it does not speak this version of HTTP here"
    );
    let mut newer = rig_with(On::Tls, Service::hello(), |config| config.http2 = true);
    assert_eq!(
        refusal(&newer),
        "cannot connect to TARGET: it does not speak this version of HTTP here"
    );
    newer.load.http = HttpVersion::Http2;
    assert!(newer.session().run(&requests(10)).is_ok());
}
