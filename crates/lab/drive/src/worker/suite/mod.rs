//! One test suite for every engine: a scripted server, and the counts that the client must have.
//!
//! Epoll and io_uring meet a real server over TCP and Unix sockets; the simulated engine plays the
//! same scripts, with more faults than a real kernel can be made to produce. What a kernel leaves
//! to chance (how bytes are split, which connection comes first) must not affect the counts.

mod script;
mod server;
mod simulated;

use base::Seed;
use netio::{NoUring, Uring};
use proptest::prelude::*;
use spec::{Arrivals, EngineChoice, Exchange, Expect, HttpRequest, Load, Target};

use self::script::{Act, Script};
use self::server::{Listener, Server};
use self::simulated::{Chances, SimulatedEngine};
use super::*;
use crate::deck::{Choices, Deck, KindChoice};
use crate::observe::LearnedResponse;
use crate::{Options, Session};

/// Long enough for a right response on any machine; seldom waited for.
const TIMEOUT: Nanos = Nanos::from_secs(20);

/// The engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestedEngine {
    Simulated,
    Real(EngineChoice, SocketFamily),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketFamily {
    Tcp,
    Unix,
}

/// How a script is played.
#[derive(Clone, Debug)]
struct Play {
    script: Script,
    connections: u32,
    requests: u64,
    timeout: Nanos,
    /// Bytes of a request's body.
    body_bytes: usize,
    new_connection: bool,
}

impl Play {
    /// The whole script once on three connections.
    fn of(script: Script) -> Play {
        let requests = script.len();
        let timeout = TIMEOUT;
        Play { script, connections: 3, requests, timeout, body_bytes: 0, new_connection: false }
    }

    /// Plays on every engine of this machine and compares the counts with the script.
    fn on_every_engine(&self) {
        for over in [SocketFamily::Tcp, SocketFamily::Unix] {
            self.check(TestedEngine::Real(EngineChoice::Epoll, over));
        }
        self.check(TestedEngine::Simulated);
        if io_uring_is_there() {
            for over in [SocketFamily::Tcp, SocketFamily::Unix] {
                self.check(TestedEngine::Real(EngineChoice::IoUring, over));
            }
        }
    }

    fn check(&self, by: TestedEngine) {
        let seen = match by {
            TestedEngine::Simulated => self.simulate(),
            // A Unix socket has no resets.
            TestedEngine::Real(_, SocketFamily::Unix) if self.has_resets() => return,
            TestedEngine::Real(engine, over) => self.really(engine, over),
        };
        assert_laws(&seen);
        let (completed, errors) = self.script.truth(self.requests);
        assert_eq!(seen.errors, errors, "{by:?} {self:?}");
        assert_eq!(seen.counts.completed, completed, "{by:?}");
        assert_eq!((seen.counts.sent, seen.counts.in_flight), (self.requests, 0), "{by:?}");
    }

    fn has_resets(&self) -> bool {
        (0..self.script.len() as usize).any(|n| matches!(self.script.act(n), Act::Reset(_)))
    }

    fn simulate(&self) -> Observation {
        let slice = Slice { requests: Some(self.requests), ..slice(false, None) };
        let one_request = self.new_connection;
        let connections = self.connections as usize;
        let engine = SimulatedEngine::new(7, self.script.clone(), Chances::default(), connections);
        simulate(engine, connections, &slice, one_request, Nanos::from_millis(200)).0
    }

    fn really(&self, engine: EngineChoice, over: SocketFamily) -> Observation {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (listener, url) = match over {
            SocketFamily::Unix => {
                (Listener::unix(&path), format!("http://unix:{}:/", path.display()))
            }
            SocketFamily::Tcp => {
                let (listener, port) = Listener::tcp();
                (listener, format!("http://127.0.0.1:{port}/"))
            }
        };
        let target = Target::parse(&url).unwrap();
        let load = Load {
            connections: self.connections,
            new_connection: self.new_connection,
            engine,
            timeout: self.timeout,
            exchange: Exchange::Http(HttpRequest {
                body: vec![b'x'; self.body_bytes],
                ..HttpRequest::default()
            }),
            expect: Expect {
                status: Some(200),
                body: Some(b"hello".to_vec()),
                ..Expect::default()
            },
            ..Load::default()
        };
        let request_bytes = crate::outbox::Outbox::new(&target, &load).messages[0].len();
        let _server = Server::start(listener, self.script.clone(), request_bytes);
        let options = Options::of_tests();
        let mut session = Session::open(&target, &load, &options).unwrap();
        assert_eq!(
            session.engine().name(),
            if engine == EngineChoice::Epoll { "epoll" } else { "io-uring" }
        );
        let drain = TIMEOUT;
        let slice = Slice { requests: Some(self.requests), drain, ..slice(false, None) };
        let seen = session.run(&slice).unwrap();
        session.close();
        seen
    }
}

/// Whether io_uring can be tested. If not, the suite fails unless the variable below is set.
fn io_uring_is_there() -> bool {
    Uring::probe().map_err(|why| without_io_uring(&why)).is_ok()
}

/// Fails unless the tests may run without io_uring.
pub(super) fn without_io_uring(why: &NoUring) {
    assert!(std::env::var_os(WITHOUT).is_some(), "{}", missing_words(why));
}

/// Set this variable to run the tests on a machine without io_uring.
const WITHOUT: &str = "TACHOGRAPH_TEST_WITHOUT_IO_URING";

fn missing_words(why: &NoUring) -> String {
    format!(
        "the io_uring engine was NOT tested: {why}. Run the tests where io_uring is allowed, or set {WITHOUT}=1 to leave it out knowingly"
    )
}

fn assert_laws(seen: &Observation) {
    let c = seen.counts;
    assert_eq!(c.offered, c.sent + c.dropped);
    assert_eq!(c.sent, c.completed + c.failed + c.in_flight);
    assert_eq!(seen.errors.values().sum::<u64>(), c.failed);
    assert_eq!(seen.completed_by_step.iter().sum::<u64>(), c.completed);
}

/// Kinds of request, whose counts add up whatever happens: each slice asserts that.
const KINDS: usize = 3;

/// Runs one slice over `connections` simulated ones; returns the observation and the responses
/// delivered.
fn simulate(
    engine: SimulatedEngine,
    connections: usize,
    slice: &Slice,
    one_request: bool,
    timeout: Nanos,
) -> (Observation, Vec<Act>) {
    let exchange = Exchange::Http(Default::default());
    let mut expected =
        ExpectedResponse::from_load(&exchange, &Expect::default(), &std::sync::Arc::from(&b""[..]));
    let body = Some(b"hello".to_vec());
    expected.learn(&LearnedResponse {
        status: Some(200),
        body,
        length: Some(5),
        varies: false,
        ..LearnedResponse::default()
    });
    let answers = (0..connections)
        .map(|_| ResponseEnd::Http(crate::http::ResponseReader::of_kinds(KINDS)))
        .collect();
    let kind = |weight: u32| KindChoice { weight, messages: vec![0], to_head: vec![false] };
    let choices = Choices::new((1..=KINDS as u32).map(kind).collect());
    let deck = Deck::new(Arc::new(choices), Seed(1), 0);
    let mut worker = Worker::new(engine, answers, 0).with_deck(deck);
    let orders = Orders {
        timeout,
        one_request,
        opens_ahead: !one_request,
        expected: vec![expected.clone(); KINDS],
        ..Orders::of_one_thread(*slice, expected)
    };
    let share = worker.run(&orders, connections, None).unwrap();
    (share.observation, worker.engine.0.delivered)
}

fn slice(open: bool, requests: Option<u64>) -> Slice {
    Slice {
        mode: if open {
            Mode::Open { rate_per_s: 20_000.0, arrivals: Arrivals::Poisson }
        } else {
            Mode::Closed
        },
        start: LoopStart::Fresh,
        lead_in: Nanos::from_micros(200),
        window: Nanos::from_millis(3),
        requests,
        drain: Nanos::from_millis(2),
        stalled_after: None,
    }
}

#[test]
fn answers_cut_at_every_byte_are_whole_answers() {
    let length = script::sound().len();
    Play::of(Script::new((1..length).map(Act::Cut))).on_every_engine();
}

#[test]
fn a_close_at_every_byte_is_seen() {
    let length = script::sound().len();
    Play::of(Script::new((0..length).map(Act::Close))).on_every_engine();
}

#[test]
fn a_reset_at_every_byte_is_seen() {
    let length = script::sound().len();
    Play::of(Script::new((0..length).map(Act::Reset))).on_every_engine();
}

#[test]
fn requests_that_find_the_socket_full_arrive_whole_whatever_their_length() {
    // Each is longer than a socket's buffer, and one byte longer than the last: it is sent in
    // pieces, with waits for room in between, and the last piece has a different length every time.
    for body_bytes in (0..8).map(|more| 3_000_000 + more) {
        let script = Script::new([Act::Answer, Act::Late]);
        let play = Play { body_bytes, requests: 6, ..Play::of(script) };
        play.on_every_engine();
    }
}

#[test]
fn responses_out_of_order_belong_to_their_requests() {
    let script = Script::new([Act::Late, Act::Late, Act::Answer, Act::Late, Act::Cut(7)]);
    for connections in [1, 2, 7, 40] {
        let play = Play { connections, requests: 400, ..Play::of(script.clone()) };
        play.on_every_engine();
    }
}

#[test]
fn a_connection_that_stalls_times_out_alone() {
    let stall = Script::new([Act::Answer, Act::Stall, Act::Answer, Act::Cut(9), Act::Late]);
    // Twice the stalls: longer than any pause of a busy machine.
    let timeout = Nanos::from_secs(3);
    Play { requests: 5, timeout, ..Play::of(stall) }.on_every_engine();
}

#[test]
fn every_kind_of_wrong_response_is_distinguished() {
    let kinds = [
        Act::Answer,
        Act::Corrupt,
        Act::LastAnswer,
        Act::Unavailable,
        Act::Surplus,
        Act::Close(0),
        Act::Late,
        Act::Close(20),
        Act::Cut(30),
    ];
    for new_connection in [false, true] {
        let requests = 40 * kinds.len() as u64;
        Play { requests, new_connection, ..Play::of(Script::new(kinds)) }.on_every_engine();
    }
}

#[test]
fn random_scripts_are_counted_alike_by_every_engine() {
    let faults = [Act::Corrupt, Act::Unavailable, Act::Surplus, Act::Close(0), Act::Reset(0)];
    for seed in 0..12 {
        let mut rng = Seed(seed).rng("script");
        let with_resets = if seed % 2 == 0 { faults.len() } else { faults.len() - 1 };
        let script = Script::random(&mut rng, &faults[..with_resets], 150);
        let connections = 1 + seed as u32 * 3;
        Play { connections, ..Play::of(script) }.on_every_engine();
    }
}

#[test]
fn without_io_uring_the_message_names_what_was_not_tested() {
    assert_eq!(
        missing_words(&NoUring::Missing),
        "the io_uring engine was NOT tested: this kernel has no io_uring; use --engine epoll. Run \
         the tests where io_uring is allowed, or set TACHOGRAPH_TEST_WITHOUT_IO_URING=1 to leave \
         it out knowingly"
    );
}

fn faults() -> impl Strategy<Value = Vec<Act>> {
    let all = vec![
        Act::AnswerAndClose,
        Act::Corrupt,
        Act::Unavailable,
        Act::Close(0),
        Act::Reset(0),
        Act::Stall,
    ];
    proptest::sample::subsequence(all, 0..=6)
}

fn chances() -> impl Strategy<Value = Chances> {
    let some = || prop_oneof![Just(0u64), Just(0), 1u64..200];
    (some(), some(), any::<bool>()).prop_map(|(refuse, pend, dribble)| Chances {
        refuse,
        pend,
        dribble,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_request_is_in_one_column_whatever_goes_wrong(
        seed: u64,
        chances in chances(),
        faults in faults(),
        connections in 1usize..9,
        open: bool,
        requests in prop::option::of(0u64..120),
    ) {
        let script = Script::random(&mut Seed(seed).rng("script"), &faults, 60);
        let engine = SimulatedEngine::new(seed, script, chances, connections);
        let timeout = Nanos::from_millis(3);
        let one_request = seed.is_multiple_of(5);
        let (seen, delivered) =
            simulate(engine, connections, &slice(open, requests), one_request, timeout);
        assert_laws(&seen);
        let c = seen.counts;
        let sound = delivered.iter().filter(|act| act.error().is_none()).count() as u64;
        prop_assert_eq!(sound, c.completed, "{:?}", seen.errors);
        for kind in ["body differs", "status 503"] {
            let counted = delivered.iter().filter(|act| act.error() == Some(kind)).count() as u64;
            prop_assert_eq!(counted, seen.errors.get(kind).copied().unwrap_or(0));
        }
        if let Some(requests) = requests {
            prop_assert_eq!(c.offered, requests);
            prop_assert_eq!((c.dropped, c.in_flight), (0, 0));
        }
    }
}
