//! A simulated engine that follows a script; a seed determines what a real kernel leaves to chance.

use std::collections::VecDeque;
use std::io;

use base::{Nanos, Rng, Seed};
use netio::{Connect, Ending, Engine, Failure, Handler, Traffic, Wire};
use rand::Rng as _;

use super::script::{Act, Script};

/// Faults of connecting and of idle connections, with their probabilities in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    /// A connection is refused.
    pub(super) refuse: u64,
    /// The outcome of a connection attempt comes later.
    pub(super) pend: u64,
    /// Bytes arrive one at a time.
    pub(super) dribble: bool,
}

#[derive(Debug)]
enum PendingEvent {
    Connected(bool),
    /// Nothing for a turn.
    Pause,
    Byte(u8),
    /// The last bytes of a whole response.
    Last(Vec<u8>, Act),
    End(Ending),
}

#[derive(Debug, Default)]
struct Slot {
    open: bool,
    pending: VecDeque<PendingEvent>,
}

/// The simulated server, and the responses that it has delivered.
pub(super) struct SimulatedWire {
    slots: Vec<Slot>,
    rng: Rng,
    chances: Chances,
    script: Script,
    taken: usize,
    /// Every response whose last byte was delivered.
    pub(super) delivered: Vec<Act>,
    traffic: Traffic,
}

pub(super) struct SimulatedEngine(pub(super) SimulatedWire);

impl SimulatedEngine {
    pub(super) fn new(
        seed: u64,
        script: Script,
        chances: Chances,
        slots: usize,
    ) -> SimulatedEngine {
        SimulatedEngine(SimulatedWire {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            rng: Seed(seed).rng("simulated"),
            chances,
            script,
            taken: 0,
            delivered: Vec::new(),
            traffic: Traffic::default(),
        })
    }
}

impl SimulatedWire {
    fn draw(&mut self, per_mille: u64) -> bool {
        self.rng.next_u64() % 1000 < per_mille
    }

    fn answer(&mut self, slot: usize) {
        let act = self.script.act(self.taken);
        self.taken += 1;
        let (mut bytes, first) = act.bytes();
        // The surplus byte arrives with the previous one, as on a socket to which both were sent at
        // once.
        let together = if act == Act::Surplus { 2 } else { 1 };
        let whole = !matches!(act, Act::Close(_) | Act::Reset(_) | Act::Stall);
        let last = if whole { bytes.split_off(bytes.len() - together) } else { Vec::new() };
        let pauses = if act == Act::Late { 1 + self.rng.next_u64() % 40 } else { 0 };
        let pending = &mut self.slots[slot].pending;
        pending.extend((0..pauses).map(|_| PendingEvent::Pause));
        for (at, byte) in bytes.into_iter().enumerate() {
            if at == first {
                pending.push_back(PendingEvent::Pause);
            }
            pending.push_back(PendingEvent::Byte(byte));
        }
        if whole {
            pending.push_back(PendingEvent::Last(last, act));
        }
        match act {
            Act::Reset(_) => pending.push_back(PendingEvent::End(Ending::Failed(Failure::Reset))),
            _ if act.closes() => pending.push_back(PendingEvent::End(Ending::Closed)),
            _ => {}
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
            self.slots[slot].pending.push_back(PendingEvent::Connected(!refused));
            Ok(Connect::Pending)
        } else if refused {
            Err(Failure::Refused)
        } else {
            self.slots[slot].open = true;
            self.traffic.connects += 1;
            Ok(Connect::Done)
        }
    }

    fn send(&mut self, slot: usize, _message: usize) -> Result<(), Failure> {
        assert!(self.slots[slot].open, "sent without a connection");
        if matches!(self.slots[slot].pending.front(), Some(PendingEvent::End(_))) {
            if self.draw(500) {
                self.close(slot);
                return Err(Failure::ClosedByPeer);
            }
            // Reported as late as by an engine that sends in its next turn.
            let found = PendingEvent::End(Ending::Failed(Failure::ClosedByPeer));
            self.slots[slot].pending = VecDeque::from([found]);
            return Ok(());
        }
        assert!(self.slots[slot].pending.is_empty(), "sent before the last answer was read");
        self.traffic.sent += 1;
        self.answer(slot);
        Ok(())
    }

    fn send_own(&mut self, _slot: usize, _message: &[u8]) -> Result<bool, Failure> {
        Err(Failure::Unsupported)
    }

    fn shut_down(&mut self, _slot: usize) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn close(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
    }

    fn retire(&mut self, slot: usize) {
        self.close(slot);
    }

    fn retired(&mut self) -> usize {
        0
    }

    fn close_retired(&mut self) {}

    fn hold(&mut self, _slot: usize) {}

    fn release(&mut self, _slot: usize) {}

    fn traffic(&mut self) -> Traffic {
        self.traffic
    }
}

impl Engine for SimulatedEngine {
    fn wire(&mut self) -> &mut dyn Wire {
        &mut self.0
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        let wire = &mut self.0;
        let mut idle = true;
        // A different order of connections in every turn.
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

/// Reports some of what is pending on a slot.
fn step(wire: &mut SimulatedWire, slot: usize, handler: &mut dyn Handler) {
    match wire.slots[slot].pending.front() {
        None => {}
        Some(PendingEvent::Connected(true)) => {
            wire.slots[slot].pending.pop_front();
            wire.traffic.connects += 1;
            handler.connected(wire, slot, None);
        }
        Some(PendingEvent::Connected(false)) => {
            wire.close(slot);
            handler.ended(wire, slot, Ending::Failed(Failure::Refused));
        }
        Some(PendingEvent::Pause) => {
            wire.slots[slot].pending.pop_front();
        }
        Some(PendingEvent::End(ending)) => {
            let ending = *ending;
            wire.close(slot);
            handler.ended(wire, slot, ending);
        }
        Some(PendingEvent::Byte(_) | PendingEvent::Last(..)) => deliver(wire, slot, handler),
    }
}

/// Delivers up to a random number of bytes, never beyond the end of a response.
fn deliver(wire: &mut SimulatedWire, slot: usize, handler: &mut dyn Handler) {
    let most = if wire.chances.dribble { 1 } else { 1 + wire.rng.next_u64() % 80 };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < most {
        match wire.slots[slot].pending.front() {
            Some(PendingEvent::Byte(byte)) => bytes.push(*byte),
            Some(PendingEvent::Last(last, act)) => {
                bytes.extend_from_slice(last);
                wire.delivered.push(*act);
                wire.slots[slot].pending.pop_front();
                break;
            }
            _ => break,
        }
        wire.slots[slot].pending.pop_front();
    }
    wire.traffic.received += bytes.len() as u64;
    // A following end is announced half of the time.
    let ends = matches!(wire.slots[slot].pending.front(), Some(PendingEvent::End(Ending::Closed)));
    let closing = ends && wire.draw(500);
    handler.received(wire, slot, &bytes, closing);
}
