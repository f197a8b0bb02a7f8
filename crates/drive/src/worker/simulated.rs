//! A third engine, simulated: a server with seeded faults, which knows exactly how many answers were right.

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, OnceLock};

use base::{Rng, Seed};
use netio::{Connect, Ending, Handler, Traffic};
use proptest::prelude::*;
use rand::Rng as _;
use spec::{Arrivals, Exchange, Expect};

use super::*;
use crate::observe::Learned;

/// What is wrong, each with its chance in a thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Chances {
    refuse: u64,
    pend: u64,
    close_before: u64,
    close_within: u64,
    reset: u64,
    corrupt: u64,
    unavailable: u64,
    announce_close: u64,
    close_idle: u64,
    stall: u64,
    /// Bytes come one at a time.
    dribble: bool,
}

/// What the server knows of its own answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truth {
    sound: u64,
    corrupt: u64,
    unavailable: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sound,
    Corrupt,
    Unavailable,
}

#[derive(Debug)]
enum Pending {
    Connected(bool),
    Byte(u8),
    /// The last byte of an answer.
    Last(u8, Kind),
    End(Ending),
}

#[derive(Debug, Default)]
struct Slot {
    open: bool,
    pending: VecDeque<Pending>,
}

struct SimulatedWire {
    slots: Vec<Slot>,
    rng: Rng,
    chances: Chances,
    truth: Truth,
    traffic: Traffic,
}

struct Simulated(SimulatedWire);

impl SimulatedWire {
    fn draw(&mut self, per_mille: u64) -> bool {
        self.rng.next_u64() % 1000 < per_mille
    }

    fn answer(&mut self, slot: usize) {
        let chances = self.chances;
        if self.draw(chances.stall) {
            return;
        }
        if self.draw(chances.close_before) {
            return self.slots[slot].pending.push_back(Pending::End(Ending::Closed));
        }
        let (kind, status, body) = if self.draw(chances.corrupt) {
            (Kind::Corrupt, "200 OK", "hellp")
        } else if self.draw(chances.unavailable) {
            (Kind::Unavailable, "503 No", "no")
        } else {
            (Kind::Sound, "200 OK", "hello")
        };
        let closes = self.draw(chances.announce_close);
        let connection = if closes { "Connection: close\r\n" } else { "" };
        let bytes = format!(
            "HTTP/1.1 {status}\r\n{connection}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes();
        let cut = if self.draw(chances.close_within) {
            Some(Ending::Closed)
        } else if self.draw(chances.reset) {
            Some(Ending::Failed(Failure::Reset))
        } else {
            None
        };
        let close_idle = self.draw(chances.close_idle);
        let keep = match cut {
            Some(_) => 1 + (self.rng.next_u64() as usize) % (bytes.len() - 1),
            None => bytes.len() - 1,
        };
        let pending = &mut self.slots[slot].pending;
        pending.extend(bytes[..keep].iter().map(|byte| Pending::Byte(*byte)));
        match cut {
            Some(ending) => pending.push_back(Pending::End(ending)),
            None => {
                pending.push_back(Pending::Last(bytes[keep], kind));
                if closes || close_idle {
                    pending.push_back(Pending::End(Ending::Closed));
                }
            }
        }
    }
}

impl Wire for SimulatedWire {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        assert!(!self.slots[slot].open, "connected twice");
        let chances = self.chances;
        let refused = self.draw(chances.refuse);
        if self.draw(chances.pend) {
            self.slots[slot].open = true;
            self.slots[slot].pending.push_back(Pending::Connected(!refused));
            Ok(Connect::Pending)
        } else if refused {
            Err(Failure::Refused)
        } else {
            self.slots[slot].open = true;
            self.traffic.connects += 1;
            Ok(Connect::Done)
        }
    }

    fn send(&mut self, slot: usize) -> Result<(), Failure> {
        assert!(self.slots[slot].open, "sent without a connection");
        if matches!(self.slots[slot].pending.front(), Some(Pending::End(_))) {
            self.close(slot);
            return Err(Failure::ClosedByPeer);
        }
        assert!(self.slots[slot].pending.is_empty(), "sent before the last answer was read");
        self.traffic.sent += 1;
        self.answer(slot);
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
    }

    fn retire(&mut self, slot: usize) {
        self.close(slot);
    }

    fn hold(&mut self, _slot: usize) {}

    fn release(&mut self, _slot: usize) {}

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Engine for Simulated {
    type Wire = SimulatedWire;

    fn wire(&mut self) -> &mut SimulatedWire {
        &mut self.0
    }

    fn turn<H: Handler<SimulatedWire>>(
        &mut self,
        timeout: Nanos,
        handler: &mut H,
    ) -> io::Result<()> {
        let wire = &mut self.0;
        let mut idle = true;
        // Another order of the connections in every turn.
        let first = wire.rng.next_u64() as usize;
        for i in 0..wire.slots.len() {
            let slot = (first + i) % wire.slots.len();
            idle &= wire.slots[slot].pending.is_empty();
            step(wire, slot, handler);
        }
        if idle {
            std::thread::sleep(timeout.into());
        }
        Ok(())
    }
}

/// Reports a piece of what is pending on a slot.
fn step<H: Handler<SimulatedWire>>(wire: &mut SimulatedWire, slot: usize, handler: &mut H) {
    match wire.slots[slot].pending.front() {
        None => {}
        Some(Pending::Connected(true)) => {
            wire.slots[slot].pending.pop_front();
            wire.traffic.connects += 1;
            handler.connected(wire, slot);
        }
        Some(Pending::Connected(false)) => {
            wire.close(slot);
            handler.ended(wire, slot, Ending::Failed(Failure::Refused));
        }
        Some(Pending::End(ending)) => {
            let ending = *ending;
            wire.close(slot);
            handler.ended(wire, slot, ending);
        }
        Some(Pending::Byte(_) | Pending::Last(..)) => deliver(wire, slot, handler),
    }
}

/// Delivers up to a random number of bytes, never beyond the end of an answer.
fn deliver<H: Handler<SimulatedWire>>(wire: &mut SimulatedWire, slot: usize, handler: &mut H) {
    let most = if wire.chances.dribble { 1 } else { 1 + wire.rng.next_u64() % 80 };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < most {
        match wire.slots[slot].pending.front() {
            Some(Pending::Byte(byte)) => bytes.push(*byte),
            Some(Pending::Last(byte, kind)) => {
                bytes.push(*byte);
                match kind {
                    Kind::Sound => wire.truth.sound += 1,
                    Kind::Corrupt => wire.truth.corrupt += 1,
                    Kind::Unavailable => wire.truth.unavailable += 1,
                }
                wire.slots[slot].pending.pop_front();
                break;
            }
            _ => break,
        }
        wire.slots[slot].pending.pop_front();
    }
    wire.traffic.received += bytes.len() as u64;
    // An end that follows is announced as often as not.
    let ends = matches!(wire.slots[slot].pending.front(), Some(Pending::End(Ending::Closed)));
    let closing = ends && wire.draw(500);
    handler.received(wire, slot, &bytes, closing);
}

/// Runs one slice of `requests` over `connections` against the faults.
fn simulate(
    seed: u64,
    chances: Chances,
    connections: usize,
    slice: &Slice,
) -> (Observation, Truth) {
    let exchange = Exchange::Http(Default::default());
    let mut expected = Expected::from_load(&exchange, &Expect::default(), &Arc::from(&b""[..]));
    expected.learn(&Learned {
        status: Some(200),
        body: Some(b"hello".to_vec()),
        length: Some(5),
        varies: false,
    });
    let engine = Simulated(SimulatedWire {
        slots: (0..connections).map(|_| Slot::default()).collect(),
        rng: Seed(seed).rng("simulated"),
        chances,
        truth: Truth::default(),
        traffic: Traffic::default(),
    });
    let answers = (0..connections).map(|_| Answer::Http(crate::http::Reader::new(false))).collect();
    let mut worker = Worker::new(engine, answers, 0);
    let orders = Orders {
        slice: *slice,
        expected,
        budget: Budget::new(slice.requests),
        timeout: Nanos::from_millis(20),
        one_request: seed.is_multiple_of(5),
        step: Nanos::from_millis(1),
        stop: StopFlag::default(),
        seed: Seed(seed),
        cpus: CpuSet::default(),
        lanes: 1,
        ready: Barrier::new(1),
        start: OnceLock::new(),
    };
    let share = worker.run(&orders, connections, false).unwrap();
    (share.observation, worker.engine.0.truth)
}

fn slice(open: bool, requests: Option<u64>) -> Slice {
    Slice {
        mode: if open {
            Mode::Open { rate_per_s: 20_000.0, arrivals: Arrivals::Poisson }
        } else {
            Mode::Closed
        },
        lead_in: Nanos::from_micros(200),
        window: Nanos::from_millis(3),
        requests,
        drain: Nanos::from_millis(2),
    }
}

fn chances() -> impl Strategy<Value = Chances> {
    let some = || prop_oneof![Just(0u64), Just(0), 1u64..200];
    (
        (some(), some(), some(), some(), some()),
        (some(), some(), some(), some(), 0u64..8),
        any::<bool>(),
    )
        .prop_map(|(a, b, dribble)| Chances {
            refuse: a.0,
            pend: a.1,
            close_before: a.2,
            close_within: a.3,
            reset: a.4,
            corrupt: b.0,
            unavailable: b.1,
            announce_close: b.2,
            close_idle: b.3,
            stall: b.4,
            dribble,
        })
}

#[test]
fn a_sound_simulation_completes_everything() {
    let (seen, truth) = simulate(1, Chances::default(), 3, &slice(false, Some(100)));
    assert_eq!((seen.counts.completed, truth.sound), (100, 100));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn whatever_goes_wrong_every_request_is_in_one_column(
        seed: u64,
        chances in chances(),
        connections in 1usize..9,
        open: bool,
        requests in prop::option::of(0u64..120),
    ) {
        let (seen, truth) = simulate(seed, chances, connections, &slice(open, requests));
        let c = seen.counts;
        prop_assert_eq!(c.offered, c.sent + c.dropped);
        prop_assert_eq!(c.sent, c.completed + c.failed + c.in_flight);
        prop_assert_eq!(seen.errors.values().sum::<u64>(), c.failed);
        prop_assert_eq!(seen.completed_by_step.iter().sum::<u64>(), c.completed);
        prop_assert_eq!(seen.service_time.len(), seen.window.completed);
        let failed_as = |kind: &str| seen.errors.get(kind).copied().unwrap_or(0);
        let told = Truth {
            sound: c.completed,
            corrupt: failed_as("body differs"),
            unavailable: failed_as("status 503"),
        };
        prop_assert_eq!(told, truth, "{:?}", seen.errors);
        if let Some(requests) = requests {
            prop_assert_eq!(c.offered, requests);
            prop_assert_eq!((c.dropped, c.in_flight), (0, 0));
        }
    }
}
