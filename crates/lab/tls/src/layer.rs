//! An engine with TLS on top of one without.

use std::io;

use base::Nanos;
use netio::{
    Connect, Ending, Engine, EngineLayer, Failure, Handler, Handshake, Messages, Setup, TlsFailure,
    Traffic, Wire,
};

use crate::client::Client;
use crate::connection::Connection;

/// An engine whose connections speak TLS.
pub struct Tls<E> {
    below: E,
    layer: Layer,
}

impl<E: Engine> Tls<E> {
    /// TLS over the engine `below`, which was made with this setup.
    pub fn new(below: E, client: Client, setup: &Setup) -> Tls<E> {
        let slots = (0..setup.slots).map(|_| TlsSlot::default()).collect();
        let messages = setup.messages.clone();
        Tls { below, layer: Layer { client, messages, slots, plain: Vec::new() } }
    }
}

/// What TLS keeps of all slots.
struct Layer {
    client: Client,
    messages: Messages,
    slots: Vec<TlsSlot>,
    /// What the bytes that were received last contain.
    plain: Vec<u8>,
}

#[derive(Default)]
struct TlsSlot {
    connection: Option<Box<Connection>>,
    /// Bytes for the server, which wait for those before them to be taken.
    outgoing: Vec<u8>,
    /// Whether the engine below has bytes that the kernel has not taken.
    is_sending: bool,
    /// Whether what is sent waits for what else there is to send: the last message of the handshake
    /// and the first request need only one system call.
    is_corked: bool,
    /// Whether the end of a message of the handler's own is to be reported.
    reports_taken: bool,
}

/// The wire of one call: that of the engine below, and the layer on it.
struct TlsWire<'a> {
    below: &'a mut dyn Wire,
    layer: &'a mut Layer,
}

impl TlsWire<'_> {
    /// Begins the handshake on a slot that is connected below.
    fn begin(&mut self, slot: usize) -> Result<(), Failure> {
        let state = &mut self.layer.slots[slot];
        let begun = Connection::new(&self.layer.client).and_then(|mut connection| {
            connection.receive(&[], &mut self.layer.plain, &mut state.outgoing)?;
            Ok(connection)
        });
        match begun {
            Ok(connection) => state.connection = Some(Box::new(connection)),
            Err(failure) => {
                self.drop_connection(slot);
                return Err(Failure::Tls(failure));
            }
        }
        self.flush(slot).map(drop)
    }

    /// Sends what waits, unless something is being sent; whether everything was taken. An error
    /// leaves the slot empty.
    fn flush(&mut self, slot: usize) -> Result<bool, Failure> {
        let state = &mut self.layer.slots[slot];
        if state.is_sending || state.outgoing.is_empty() {
            return Ok(!state.is_sending);
        }
        match self.below.send_own(slot, &state.outgoing) {
            Ok(all) => {
                state.outgoing.clear();
                state.is_sending = !all;
                Ok(all)
            }
            Err(failure) => {
                *state = TlsSlot::default();
                Err(failure)
            }
        }
    }

    /// Encrypts a message and sends it; whether all of it was taken. An error leaves the slot empty.
    fn send_encrypted(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        let TlsSlot { connection, outgoing, is_corked, .. } = &mut self.layer.slots[slot];
        let Some(connection) = connection else { return Ok(true) };
        if let Err(failure) = connection.send(message, outgoing) {
            self.drop_connection(slot);
            return Err(Failure::Tls(failure));
        }
        if *is_corked { Ok(false) } else { self.flush(slot) }
    }

    /// Closes the slot without a word.
    fn drop_connection(&mut self, slot: usize) {
        self.layer.slots[slot] = TlsSlot::default();
        self.below.close(slot);
    }

    /// Says that nothing more will follow, as far as the kernel takes it at once.
    fn say_goodbye(&mut self, slot: usize) {
        let state = &mut self.layer.slots[slot];
        if let Some(connection) = &mut state.connection {
            connection.say_goodbye(&mut state.outgoing);
            // The connection is given up either way.
            let _ = self.flush(slot);
        }
    }
}

impl Wire for TlsWire<'_> {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        self.layer.slots[slot] = TlsSlot::default();
        if self.below.connect(slot)? == Connect::Done {
            self.begin(slot)?;
        }
        Ok(Connect::Pending)
    }

    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure> {
        let message = self.layer.messages[message].clone();
        self.send_encrypted(slot, &message).map(drop)
    }

    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        let all = self.send_encrypted(slot, message)?;
        self.layer.slots[slot].reports_taken = !all;
        Ok(all)
    }

    fn shut_down(&mut self, slot: usize) -> Result<(), Failure> {
        self.say_goodbye(slot);
        self.below.shut_down(slot)
    }

    fn close(&mut self, slot: usize) {
        self.say_goodbye(slot);
        self.drop_connection(slot);
    }

    fn retire(&mut self, slot: usize) {
        self.say_goodbye(slot);
        self.layer.slots[slot] = TlsSlot::default();
        self.below.retire(slot);
    }

    fn retired(&mut self) -> usize {
        self.below.retired()
    }

    fn close_retired(&mut self) {
        self.below.close_retired();
    }

    fn hold(&mut self, slot: usize) {
        self.below.hold(slot);
    }

    fn release(&mut self, slot: usize) {
        self.below.release(slot);
    }

    fn traffic(&mut self) -> Traffic {
        self.below.traffic()
    }
}

impl<E: Engine> EngineLayer for Tls<E> {
    fn over(&mut self) -> impl Wire {
        TlsWire { below: self.below.wire(), layer: &mut self.layer }
    }
}

impl<E: Engine> Engine for Tls<E> {
    fn wire(&mut self) -> &mut dyn Wire {
        self
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        self.below.turn(timeout, &mut EventRelay { layer: &mut self.layer, above: handler })
    }
}

/// Receives the events of the engine below, and reports those of TLS.
struct EventRelay<'a> {
    layer: &'a mut Layer,
    above: &'a mut dyn Handler,
}

impl EventRelay<'_> {
    /// Ends a connection from here.
    fn end(&mut self, below: &mut dyn Wire, slot: usize, ending: Ending) {
        let mut over = TlsWire { below, layer: self.layer };
        over.drop_connection(slot);
        self.above.ended(&mut over, slot, ending);
    }

    /// Reports a connection whose keys are agreed on, and sends what the report asks for together
    /// with the end of the handshake.
    fn agreed(&mut self, below: &mut dyn Wire, slot: usize, handshake: Handshake) {
        let mut over = TlsWire { below, layer: self.layer };
        over.layer.slots[slot].is_corked = true;
        self.above.connected(&mut over, slot, Some(handshake));
        over.layer.slots[slot].is_corked = false;
    }

    /// Sends what waits.
    fn flush(&mut self, below: &mut dyn Wire, slot: usize) {
        let mut over = TlsWire { below, layer: self.layer };
        match over.flush(slot) {
            Ok(true) if std::mem::take(&mut over.layer.slots[slot].reports_taken) => {
                self.above.taken(&mut over, slot);
            }
            Ok(_) => {}
            Err(failure) => self.above.ended(&mut over, slot, Ending::Failed(failure)),
        }
    }
}

impl Handler for EventRelay<'_> {
    fn connected(&mut self, below: &mut dyn Wire, slot: usize, _: Option<Handshake>) {
        let mut over = TlsWire { below, layer: self.layer };
        if let Err(failure) = over.begin(slot) {
            self.above.ended(&mut over, slot, Ending::Failed(failure));
        }
    }

    fn taken(&mut self, below: &mut dyn Wire, slot: usize) {
        self.layer.slots[slot].is_sending = false;
        self.flush(below, slot);
    }

    fn received(&mut self, below: &mut dyn Wire, slot: usize, bytes: &[u8], closing: bool) {
        let Layer { client, slots, plain, .. } = &mut *self.layer;
        let TlsSlot { connection: Some(connection), outgoing, .. } = &mut slots[slot] else {
            return;
        };
        plain.clear();
        let was_agreed = connection.is_agreed();
        let mut outcome = connection.receive(bytes, plain, outgoing);
        if !was_agreed && connection.is_agreed() && !client.accepts(connection.protocol()) {
            outcome = Err(TlsFailure::OtherProtocol);
        }
        let closing = closing || connection.is_peer_closed();
        if !was_agreed && connection.is_agreed() && outcome.is_ok() {
            let handshake = connection.handshake();
            self.agreed(below, slot, handshake);
        }
        self.flush(below, slot);
        if !self.layer.plain.is_empty() && self.layer.slots[slot].connection.is_some() {
            let plain = std::mem::take(&mut self.layer.plain);
            let mut over = TlsWire { below, layer: self.layer };
            self.above.received(&mut over, slot, &plain, closing);
            self.layer.plain = plain;
        }
        let Some(connection) = &self.layer.slots[slot].connection else { return };
        let ending = match outcome {
            Err(failure) => Ending::Failed(Failure::Tls(failure)),
            // Some servers wait for the same announcement before they close.
            Ok(()) if connection.is_peer_closed() => Ending::Closed,
            Ok(()) => return,
        };
        self.end(below, slot, ending);
    }

    fn ended(&mut self, below: &mut dyn Wire, slot: usize, ending: Ending) {
        let connection = std::mem::take(&mut self.layer.slots[slot]).connection;
        let is_agreed = connection.is_some_and(|connection| connection.is_agreed());
        let ending = match ending {
            Ending::Closed if !is_agreed => Ending::Failed(Failure::Tls(TlsFailure::ClosedEarly)),
            // Anything on the way may have cut the connection off.
            Ending::Closed => Ending::Failed(Failure::Tls(TlsFailure::Unannounced)),
            ending => ending,
        };
        self.above.ended(&mut TlsWire { below, layer: self.layer }, slot, ending);
    }
}
