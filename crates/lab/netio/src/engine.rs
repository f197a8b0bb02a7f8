//! The interface between the load engine and the I/O backends.

use std::io;
use std::sync::Arc;

use base::Nanos;

use crate::{Address, Failure};

/// Parameters of an engine.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The address of every slot's connection.
    pub address: Address,
    /// The messages that slots send, by number.
    pub messages: Messages,
    /// Number of slots, which limits the connections.
    pub slots: usize,
    /// Limit on one read and on a datagram, in bytes.
    pub buffer_bytes: usize,
    /// Spin instead of sleeping when idle.
    pub busy_poll: bool,
    /// Reset TCP connections instead of closing them (SO_LINGER 0), so that no port waits in
    /// TIME_WAIT.
    pub linger_zero: bool,
}

/// Messages that are sent again and again.
pub type Messages = Arc<[Arc<[u8]>]>;

impl Setup {
    /// An engine of a single message that sleeps, closes in an orderly way and reads up to 256 KiB
    /// at once.
    pub fn new(address: Address, message: Arc<[u8]>, slots: usize) -> Setup {
        Setup::of_messages(address, Arc::from([message]), slots)
    }

    /// The same for several messages.
    pub fn of_messages(address: Address, messages: Messages, slots: usize) -> Setup {
        let longest = messages.iter().map(|message| message.len()).max().unwrap_or(0);
        // One byte more than the right message, so that a longer one is detected.
        let buffer_bytes = (256 * 1024).max(longest + 1);
        Setup { address, messages, slots, buffer_bytes, busy_poll: false, linger_zero: false }
    }
}

/// Immediate result of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Connected: bytes can be sent.
    Done,
    /// The outcome comes later, as [`Handler::connected`] or [`Handler::ended`].
    Pending,
}

/// How a connection ended, other than by a close from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed its sending side in an orderly way, and all earlier bytes were delivered.
    Closed,
    /// The connection could not be made, or broke. As with [`Wire::send`],
    /// [`Failure::ClosedByPeer`] means that no byte of the message was accepted.
    Failed(Failure),
}

/// How the keys of a connection were agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// From its first to its last message.
    pub took: Nanos,
    /// Whether it continued an earlier session.
    pub resumed: bool,
    /// The version of the protocol, such as `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite, as rustls names it.
    pub cipher: &'static str,
}

/// What the headers or trailers of a response say about a call ("gRPC over HTTP2", Responses).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcFields {
    /// Whether the content is that of gRPC.
    pub is_grpc: bool,
    /// The status of the call, if it is a number.
    pub status: Option<u32>,
}

/// Bytes moved since the engine was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read from sockets.
    pub received: u64,
    /// Bytes that the kernel accepted for sending.
    pub sent: u64,
    /// Connections made.
    pub connects: u64,
    /// Times that a source address ran out of ports and the next one of 127/8 was used.
    pub source_changes: u64,
}

/// Operations on a slot; also available inside a [`Handler`].
pub trait Wire {
    /// Starts a connection in an empty slot. An error leaves the slot empty.
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure>;

    /// Starts sending a message of the engine on an open slot, at once or at the start of the next
    /// turn; what the kernel does not accept at once is sent later. An error leaves the slot empty,
    /// and is [`Failure::ClosedByPeer`] only if no byte was accepted. A later error ends the
    /// connection.
    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure>;

    /// Sends these bytes on an open slot instead of one of the engine's messages. True if the kernel took
    /// all of them at once; the rest is sent later, and [`Handler::taken`] reports its end. Until
    /// then the slot takes no further bytes. An error is as with [`Wire::send`].
    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure>;

    /// Ends the sending side of an open stream once everything is sent: the peer reads the end, and
    /// its close is reported as [`Ending::Closed`].
    ///
    /// Only for readiness-based engines; others fail with [`Failure::Unsupported`].
    fn shut_down(&mut self, slot: usize) -> Result<(), Failure>;

    /// Closes the slot's socket, if it has one, by the start of the next turn. Reports nothing more
    /// about it.
    fn close(&mut self, slot: usize);

    /// Empties the slot but keeps its socket until the peer has closed its end, so that the peer's
    /// port waits in TIME_WAIT. Bounded: if there are too many, the oldest kept socket is closed.
    fn retire(&mut self, slot: usize);

    /// The number of sockets that were retired and whose peer has not closed its end yet.
    fn retired(&mut self) -> usize;

    /// Closes all of those.
    fn close_retired(&mut self);

    /// Delivers nothing more from the slot until [`Wire::release`]; the bytes wait in the kernel.
    fn hold(&mut self, slot: usize);

    /// Resumes delivery, beginning with what has been waiting.
    fn release(&mut self, slot: usize);

    /// Bytes moved since the engine was created.
    fn traffic(&mut self) -> Traffic;
}

/// An I/O backend that connects, sends and receives for a fixed number of slots.
pub trait Engine {
    /// For operations outside a turn.
    fn wire(&mut self) -> &mut dyn Wire;

    /// Waits for events, at most for `timeout`, and reports all of them. A zero timeout never
    /// waits.
    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()>;
}

/// An engine on top of another one. Outside a turn it is its own wire.
pub trait EngineLayer {
    /// The wire of the engine below, with this one's layer on it.
    fn over(&mut self) -> impl Wire;
}

impl<L: EngineLayer> Wire for L {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        self.over().connect(slot)
    }

    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure> {
        self.over().send(slot, message)
    }

    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        self.over().send_own(slot, message)
    }

    fn shut_down(&mut self, slot: usize) -> Result<(), Failure> {
        self.over().shut_down(slot)
    }

    fn close(&mut self, slot: usize) {
        self.over().close(slot);
    }

    fn retire(&mut self, slot: usize) {
        self.over().retire(slot);
    }

    fn retired(&mut self) -> usize {
        self.over().retired()
    }

    fn close_retired(&mut self) {
        self.over().close_retired();
    }

    fn hold(&mut self, slot: usize) {
        self.over().hold(slot);
    }

    fn release(&mut self, slot: usize) {
        self.over().release(slot);
    }

    fn traffic(&mut self) -> Traffic {
        self.over().traffic()
    }
}

impl Engine for Box<dyn Engine> {
    fn wire(&mut self) -> &mut dyn Wire {
        (**self).wire()
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        (**self).turn(timeout, handler)
    }
}

/// Receives the events of each slot.
pub trait Handler {
    /// A pending connection is open; with the handshake, if there was one after connecting.
    fn connected(&mut self, wire: &mut dyn Wire, slot: usize, handshake: Option<Handshake>);

    /// The kernel has taken the rest of what [`Wire::send_own`] was given.
    fn taken(&mut self, wire: &mut dyn Wire, slot: usize);

    /// Bytes arrived: any part of a stream, or one message. `closing` means that the peer has
    /// already closed, so an end will be reported after its last bytes.
    fn received(&mut self, wire: &mut dyn Wire, slot: usize, bytes: &[u8], closing: bool);

    /// The head of the slot's response arrived, from an engine that knows where responses begin and
    /// end; what it receives is then a body.
    fn responded(&mut self, wire: &mut dyn Wire, slot: usize, status: u16) {
        let _ = (wire, slot, status);
    }

    /// The response to a request that asks for its headers has this one; before its head is reported.
    /// From an engine that knows where responses begin.
    fn header(&mut self, slot: usize, name: &[u8], value: &[u8]) {
        let _ = (slot, name, value);
    }

    /// Its headers or trailers say something about a call by gRPC; before the event that they belong to.
    fn called(&mut self, slot: usize, fields: GrpcFields) {
        let _ = (slot, fields);
    }

    /// That response is complete. Unless it `keeps` the slot, the next request needs a new connection.
    fn completed(&mut self, wire: &mut dyn Wire, slot: usize, keeps: bool) {
        let _ = (wire, slot, keeps);
    }

    /// The slot's connection ended or could not be made; the slot is empty.
    fn ended(&mut self, wire: &mut dyn Wire, slot: usize, ending: Ending);
}
