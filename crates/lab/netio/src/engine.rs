//! The contract between the load engine and whatever moves its bytes.

use std::io;
use std::sync::Arc;

use base::Nanos;

use crate::{Address, Failure};

/// What an engine is made for.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where every slot connects to.
    pub address: Address,
    /// What every slot sends.
    pub message: Arc<[u8]>,
    /// Connections at most.
    pub slots: usize,
    /// Bounds one read, and with it the longest datagram, in bytes.
    pub buffer_bytes: usize,
    /// Spin instead of sleeping while nothing happens.
    pub busy_poll: bool,
    /// Reset TCP connections instead of closing them (SO_LINGER 0), so that no port waits in TIME_WAIT.
    pub linger_zero: bool,
}

impl Setup {
    /// An engine that sleeps, closes in an orderly way and reads up to 256 KiB at once.
    pub fn new(address: Address, message: Arc<[u8]>, slots: usize) -> Setup {
        // One byte more than any right message, so that a longer one is seen to be longer.
        let buffer_bytes = (256 * 1024).max(message.len() + 1);
        Setup { address, message, slots, buffer_bytes, busy_poll: false, linger_zero: false }
    }
}

/// How far a connection got at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// It is open: bytes can be sent.
    Done,
    /// The outcome comes later, as [`Handler::connected`] or [`Handler::ended`].
    Pending,
}

/// How a connection ended without being closed from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed its sending side in an orderly way, and every byte before that was delivered.
    Closed,
    /// The connection could not be made, or was cut. As with [`Wire::send`],
    /// [`Failure::ClosedByPeer`] says that not one byte of the message was taken.
    Failed(Failure),
}

/// Bytes moved since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read from sockets.
    pub received: u64,
    /// Bytes that the kernel took for sending.
    pub sent: u64,
    /// Connections made.
    pub connects: u64,
    /// Times that the ports of a source address ran out and another address of 127/8 was taken.
    pub source_changes: u64,
}

/// What can be done to a slot, also from within a [`Handler`].
pub trait Wire {
    /// Starts a connection in an empty slot. An error leaves the slot empty.
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure>;

    /// Starts sending the message on an open slot, at once or at the beginning
    /// of the next turn; what the kernel does not take at once follows by
    /// itself. An error leaves the slot empty, and says
    /// [`Failure::ClosedByPeer`] only if not one byte was taken. One that is
    /// found later ends the connection.
    fn send(&mut self, slot: usize) -> Result<(), Failure>;

    /// Closes the slot's socket, if it has one, by the beginning of the next
    /// turn. Nothing more is reported of it.
    fn close(&mut self, slot: usize);

    /// Empties the slot, but keeps its socket aside until the peer has closed
    /// its end, so that the peer is the one whose port waits in TIME_WAIT.
    /// Bounded: the oldest socket kept aside is closed when there are too many.
    fn retire(&mut self, slot: usize);

    /// Delivers nothing more from the slot until [`Wire::release`]; the bytes wait in the kernel.
    fn hold(&mut self, slot: usize);

    /// Delivers again, beginning with what has been waiting.
    fn release(&mut self, slot: usize);

    /// Bytes moved since the engine was made.
    fn traffic(&self) -> Traffic;
}

/// Something that connects, sends and receives for a fixed number of slots.
pub trait Engine {
    /// What a handler gets to act on.
    type Wire: Wire;

    /// Acts outside of a turn.
    fn wire(&mut self) -> &mut Self::Wire;

    /// Waits for something to happen, no longer than `timeout`, and reports
    /// everything that did. A zero timeout never waits.
    fn turn<H: Handler<Self::Wire>>(&mut self, timeout: Nanos, handler: &mut H) -> io::Result<()>;
}

/// What happened, slot by slot.
pub trait Handler<W: Wire> {
    /// A pending connection is open.
    fn connected(&mut self, wire: &mut W, slot: usize);

    /// Bytes arrived: on a stream any part of it, on a transport with messages
    /// one message. `closing` says that the peer has already closed, so that an
    /// end will be reported as soon as its last bytes have been.
    fn received(&mut self, wire: &mut W, slot: usize, bytes: &[u8], closing: bool);

    /// The slot's connection ended or could not be made; the slot is empty.
    fn ended(&mut self, wire: &mut W, slot: usize, ending: Ending);
}
