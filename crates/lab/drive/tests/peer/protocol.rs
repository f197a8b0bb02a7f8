//! What HTTP/1.1 allows a server to do.

use crate::helper::*;
use drive::Life;
use fixture::{Faults, Framing, HttpAnswer, ResponseBody, Service};
use spec::{Check, Exchange, Expect, HttpRequest};

/// Runs 200 requests against a response of this shape; expects all to complete.
fn assert_sound(shape: HttpAnswer, connects: u64) -> drive::LearnedResponse {
    let rig = rig(On::V4, Service::Http(shape.clone()), Faults::default());
    let mut session = rig.open().unwrap();
    let learned = session.learn().unwrap();
    let seen = session.run(&requests(200)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed, 200, "{shape:?} {:?}", seen.errors);
    assert_eq!(seen.connects, connects, "{shape:?}");
    assert_eq!(seen.closed_idle, 0, "{shape:?}");
    session.close();
    assert_eq!(rig.fixture.stop().unwrap(), 203);
    learned
}

#[test]
fn bodies_are_read_however_their_end_is_marked() {
    // Three connections join the first one; otherwise every request except those of the four open
    // ones needs a connection.
    for (framing, connects) in
        [(Framing::Length, 3), (Framing::Chunked, 3), (Framing::UntilClose, 200)]
    {
        for size in [0, 1, 12, 5_000, 700_000] {
            let body = (0..size).map(|i| (i % 253) as u8).collect();
            let learned = assert_sound(
                HttpAnswer { body: ResponseBody::Fixed(body), framing, ..HttpAnswer::default() },
                connects,
            );
            assert_eq!(learned.length, Some(size), "{framing:?}");
            assert!(!learned.varies);
        }
    }
}

#[test]
fn a_server_that_closes_after_each_answer_is_reconnected_to() {
    assert_sound(HttpAnswer { keep_alive: false, ..HttpAnswer::default() }, 200);
}

#[test]
fn http_1_0_is_kept_or_closed_as_it_says() {
    let shape = HttpAnswer { http_1_0: true, ..HttpAnswer::default() };
    assert_sound(shape.clone(), 3);
    assert_sound(HttpAnswer { keep_alive: false, ..shape }, 200);
}

#[test]
fn interim_answers_are_passed_over() {
    assert_sound(HttpAnswer { interim: true, ..HttpAnswer::default() }, 3);
}

#[test]
fn head_has_no_body_and_post_sends_one() {
    for (method, body, length) in [("HEAD", "", 0), ("POST", "a=1&b=2", 12), ("DELETE", "", 12)] {
        let mut rig = rig(On::Unix, Service::hello(), Faults::default());
        rig.load.exchange = Exchange::Http(HttpRequest {
            method: method.into(),
            headers: vec![("X-Own".into(), "1".into())],
            body: body.as_bytes().to_vec(),
        });
        let mut session = rig.open().unwrap();
        assert_eq!(session.learn().unwrap().length, Some(length), "{method}");
        let seen = session.run(&requests(50)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.completed, 50, "{method}: {:?}", seen.errors);
    }
}

#[test]
fn a_body_that_varies_is_checked_by_its_length() {
    let learned =
        assert_sound(HttpAnswer { body: ResponseBody::Numbered, ..HttpAnswer::default() }, 3);
    assert_eq!((learned.varies, learned.length, learned.body), (true, Some(12), None));
}

/// The probes of a slow server see ids of one digit.
#[test]
fn a_counter_of_which_little_was_seen_may_grow_longer() {
    let answer = HttpAnswer { body: ResponseBody::Numbered, ..HttpAnswer::default() };
    let rig = rig(On::V4, Service::Http(answer), Faults::default());
    for (further, length) in [(99, None), (100, Some(12))] {
        let mut session = rig.session();
        session.keep_learning();
        session.run(&requests(further)).unwrap();
        assert_eq!(session.settle().unwrap().length, length, "{further}");
    }
}

#[test]
fn a_length_that_varies_is_not_checked() {
    let learned =
        assert_sound(HttpAnswer { body: ResponseBody::Growing(100), ..HttpAnswer::default() }, 3);
    assert_eq!((learned.varies, learned.length, learned.status), (true, None, Some(200)));
}

#[test]
fn three_probes_that_agreed_by_chance_made_every_later_answer_a_failure() {
    // One body in five differs, but none of the probes'.
    let faults = Faults { corrupt_every: 5, ..Faults::default() };
    let rig = rig(On::V4, Service::hello(), faults);
    let mut session = rig.session();
    session.keep_learning();
    let seen = session.run(&requests(300)).unwrap();
    assert_eq!(seen.counts.completed, 300);
    let learned = session.settle().unwrap();
    assert_eq!((learned.varies, learned.length, learned.body), (true, Some(12), None));
    let seen = session.run(&requests(300)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed, 300, "{:?}", seen.errors);
}

#[test]
fn a_body_that_seldom_differs_is_wrong_while_learning_and_afterwards() {
    let faults = Faults { corrupt_every: 500, ..Faults::default() };
    let rig = rig(On::V4, Service::hello(), faults);
    let mut session = rig.session();
    session.keep_learning();
    session.run(&requests(1_000)).unwrap();
    let learned = session.settle().unwrap();
    assert!(!learned.varies && learned.body.is_some());
    let Life { counts, errors, .. } = session.life();
    assert_counts(&counts);
    assert_eq!((counts.failed, errors.get("body differs")), (2, Some(&2)));
    let seen = session.run(&requests(1_000)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.errors.get("body differs"), Some(&2));
}

#[test]
fn the_load_can_say_what_is_compared() {
    for (check, failed) in [(Check::Status, 0), (Check::Length, 0), (Check::Body, 200)] {
        let shape = HttpAnswer { body: ResponseBody::Numbered, ..HttpAnswer::default() };
        let mut rig = rig(On::V4, Service::Http(shape), Faults::default());
        rig.load.expect.check = Some(check);
        let mut session = rig.session();
        session.keep_learning();
        assert!(!session.is_learning());
        session.run(&requests(200)).unwrap();
        let Life { counts, .. } = session.life();
        assert_counts(&counts);
        assert_eq!(counts.failed, failed, "{check:?}");
    }
}

#[test]
fn a_length_that_was_constant_must_stay_so() {
    // The first nine requests have bodies of 1 to 9 digits; only the length is expected.
    let shape = HttpAnswer { body: ResponseBody::Growing(10), ..HttpAnswer::default() };
    let mut rig = rig(On::V4, Service::Http(shape), Faults::default());
    rig.load.expect.length = Some(7);
    let mut session = rig.open().unwrap();
    let seen = session.run(&requests(100)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed, 10);
    assert_eq!(seen.errors.get("length differs"), Some(&90));
}

#[test]
fn what_is_expected_is_checked_without_any_probe() {
    for (expect, kind) in [
        (Expect { status: Some(204), ..Expect::default() }, "status 200"),
        (Expect { body: Some(b"Hello World?".to_vec()), ..Expect::default() }, "body differs"),
        (Expect { body: Some(b"Hello".to_vec()), ..Expect::default() }, "length differs"),
        (Expect { length: Some(11), ..Expect::default() }, "length differs"),
    ] {
        let mut rig = rig(On::V4, Service::hello(), Faults::default());
        rig.load.expect = expect;
        let mut session = rig.open().unwrap();
        let seen = session.run(&requests(10)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.errors.get(kind), Some(&10), "{kind}: {:?}", seen.errors);
        assert_eq!(seen.connects, 3, "an answer that is wrong but complete keeps its connection");
    }
}

#[test]
fn answers_that_break_the_protocol_are_named() {
    for (answer, kind) in [
        ("SSH-2.0-x\r\n", "not HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "bad framing"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "bad chunk"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "unexpected upgrade"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "bytes after the response"),
        ("\u{15}\u{3}\u{1}\0\u{2}\u{2}F", "TLS instead of HTTP"),
    ] {
        let service = Service::Bytes { answer: answer.as_bytes().to_vec(), close: false };
        let rig = rig(On::V4, service, Faults::default());
        let mut session = rig.open().unwrap();
        let seen = session.run(&requests(20)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.errors.get(kind), Some(&20), "{kind}: {:?}", seen.errors);
    }
}

#[test]
fn a_silent_close_between_requests_is_no_failure() {
    // The server closes after 5 responses on a connection without announcing it. If the close is
    // seen before the next request is sent, nothing failed; otherwise the request did.
    for on in On::HTTP {
        let rig = rig(on, Service::hello(), Faults { close_after_answers: 5, ..Faults::default() });
        let mut session = rig.session();
        let seen = session.run(&requests(200)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.sent, 200);
        assert!(seen.closed_idle + seen.counts.failed >= 30, "{on:?} {seen:?}");
        // A hidden reconnect would be an uncounted one: the last of a connection needs none.
        let last = u64::from(seen.connections_max_used);
        assert!(seen.counts.reconnected <= seen.closed_idle, "{on:?} {seen:?}");
        assert!(seen.counts.reconnected + last >= seen.closed_idle, "{on:?} {seen:?}");
        let lost = ["closed before a response", "reset"];
        assert!(seen.errors.keys().all(|kind| lost.contains(&kind.as_str())), "{:?}", seen.errors);
        let Life { counts: life, .. } = session.close();
        assert_eq!(
            rig.fixture.stop().unwrap(),
            life.completed,
            "{on:?}: what failed was not served"
        );
    }
}

#[test]
fn connections_closed_between_slices_are_reopened_and_counted() {
    for on in On::HTTP {
        let rig = rig(on, Service::hello(), Faults { close_after_answers: 1, ..Faults::default() });
        let mut session = rig.open().unwrap();
        let mut closed_idle = 0;
        for round in 1..=3 {
            // Four connections, four requests: each is closed after its only response.
            let seen = session.run(&requests(4)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.counts.completed, 4, "{on:?} {:?}", seen.errors);
            closed_idle += seen.closed_idle;
            eventually("the end of four connections", || {
                // A slice without requests notices what was closed.
                let nothing = session.run(&requests(0)).unwrap();
                assert_eq!((nothing.counts.sent, nothing.counts.reconnected), (0, 0));
                closed_idle += nothing.closed_idle;
                closed_idle == 4 * round
            });
        }
        let Life { counts: life, .. } = session.close();
        assert_eq!((life.failed, life.reconnected), (0, 8), "{on:?}: all but the first four");
    }
}

#[test]
fn a_half_closed_connection_is_replaced() {
    let rig = rig(On::V4, Service::hello(), Faults { half_close: true, ..Faults::default() });
    // A probe that is sent before the end of its connection is seen gets no answer.
    let learned = |_| {
        let mut session = rig.open().unwrap();
        session.learn().is_ok().then_some(session)
    };
    let mut session = (0..100).find_map(learned).unwrap();
    let seen = session.run(&requests(40)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.sent, 40);
    assert!(seen.closed_idle + seen.counts.failed > 0);
}
