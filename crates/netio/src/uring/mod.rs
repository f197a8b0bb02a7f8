//! The engine for kernels with io_uring: one system call for a batch of connections.
//!
//! Every open socket has one multishot receive under way, which takes its
//! buffers from a ring that all slots share. A request is then one send entry,
//! which says nothing when it succeeds, and one completion of the receive.
//! Sends of all connections that were answered in a turn go out with the
//! system call that begins the next one.

mod buffers;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use base::Nanos;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};

pub use self::ring::NoUring;

use self::buffers::Buffers;
use self::ring::{Completion, Ring};
use crate::connect::{Blocking, Connector};
use crate::retired::Retired;
use crate::{Connect, Ending, Engine, Failure, Handler, Setup, Traffic, Wire};

/// Completions taken from the kernel at once.
const COMPLETIONS: usize = 256;

/// The size of one receive buffer where messages need none that is longer.
const BUFFER_BYTES: usize = 16 * 1024;

/// All receive buffers together, in bytes, unless a few of them are already longer than this.
/// Only what is used of them costs memory.
const BUFFERS_BYTES_MAX: usize = 16 << 20;

/// Receive buffers at least, so that the kernel has some to fill while others are read.
const BUFFERS_MIN: usize = 16;

/// Messages up to this many bytes find room in the socket's buffer, so that no send is ever left over.
const SENT_AT_ONCE: usize = 4096;

/// io_uring with receive buffers that all slots share.
///
/// It belongs to the thread that makes it: any other gets an error from every turn.
pub struct Uring {
    // Dropped before the buffers that it fills.
    wire: UringWire,
    buffers: Buffers,
    completions: Box<[Completion; COMPLETIONS]>,
    busy_poll: bool,
}

/// The sockets of a [`Uring`] engine.
pub struct UringWire {
    ring: Ring,
    connector: Connector,
    message: Arc<[u8]>,
    slots: Vec<Slot>,
    retired: Retired,
    /// Slots that were released, and have something to be delivered.
    released: VecDeque<usize>,
    traffic: Traffic,
    /// Why the ring took no more requests; every turn reports it.
    broken: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Tells this socket's completions from those of earlier ones in the same slot.
    generation: u32,
    connecting: bool,
    /// Whether a message waits for room.
    crowded: bool,
    /// Whether a receive is under way.
    receiving: bool,
    held: bool,
    /// What came while the slot was held.
    kept: Vec<u8>,
    /// How the connection ended while the slot was held.
    kept_ending: Option<Ending>,
}

/// What a request was for, in the lowest bits of its token's upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Receive,
    Send,
    /// Waits for a socket to become writable: a pending connection has its outcome, or a message finds room.
    Writable,
    /// Nobody waits for its outcome.
    Aside,
}

const KIND_BITS: u32 = 2;
const KINDS: [Kind; 4] = [Kind::Receive, Kind::Send, Kind::Writable, Kind::Aside];

impl Uring {
    /// An engine as described, or the reason why this machine has none.
    pub fn new(setup: &Setup) -> Result<Uring, NoUring> {
        let ring = Ring::new(setup.slots)?;
        let (count, bytes_each) = buffer_shape(setup);
        let buffers = Buffers::new(count, bytes_each).map_err(NoUring::from)?;
        buffers.register(ring.io_uring())?;
        let wire = UringWire {
            ring,
            connector: Connector::new(setup, Blocking::OnceOpen),
            message: setup.message.clone(),
            slots: (0..setup.slots).map(|_| Slot::default()).collect(),
            retired: Retired::new(),
            released: VecDeque::new(),
            traffic: Traffic::default(),
            broken: None,
        };
        let completions = Box::new([Completion::default(); COMPLETIONS]);
        Ok(Uring { wire, buffers, completions, busy_poll: setup.busy_poll })
    }

    /// Whether an engine could be made here, or the reason why not.
    pub fn probe() -> Result<(), NoUring> {
        let ring = Ring::new(1)?;
        let buffers = Buffers::new(1, BUFFER_BYTES)?;
        buffers.register(ring.io_uring())?;
        drop(ring);
        Ok(())
    }
}

/// How many receive buffers of how many bytes: one for each slot where that is no waste.
fn buffer_shape(setup: &Setup) -> (u16, usize) {
    let keeps_messages = setup.address.keeps_messages();
    let longest = if keeps_messages { setup.message.len() + 1 } else { 0 };
    let bytes_each = longest.max(BUFFER_BYTES).next_multiple_of(4096);
    let most = (BUFFERS_BYTES_MAX / bytes_each).max(BUFFERS_MIN);
    let count = setup.slots.clamp(BUFFERS_MIN, most).next_power_of_two();
    (count as u16, bytes_each)
}

impl UringWire {
    fn token(&self, slot: usize, kind: Kind) -> u64 {
        let low = ((slot as u64) << KIND_BITS) | kind as u64;
        (u64::from(self.slots[slot].generation) << 32) | low
    }

    /// Queues a request. Where the ring takes no more, the next turn says why.
    fn push(&mut self, entry: &Entry) {
        if let Err(error) = self.ring.push(entry) {
            self.broken.get_or_insert(error);
        }
    }

    fn await_writable(&mut self, slot: usize) {
        let token = self.token(slot, Kind::Writable);
        let Some(socket) = &self.slots[slot].socket else { return };
        let poll = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLOUT as u32);
        self.push(&poll.build().user_data(token));
    }

    /// Sends one whole message at once, or waits for room.
    ///
    /// Not through the ring: where a datagram finds no room there, its retry was seen to send
    /// nothing but an empty one (Linux 6.18).
    fn send_message(&mut self, slot: usize) -> Result<(), Failure> {
        self.slots[slot].crowded = false;
        loop {
            let Some(socket) = &self.slots[slot].socket else { return Ok(()) };
            match send(socket, &self.message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => {
                    self.traffic.sent += bytes as u64;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.slots[slot].crowded = true;
                    self.await_writable(slot);
                    return Ok(());
                }
                Err(errno) => {
                    self.close(slot);
                    return Err(not_taken(errno));
                }
            }
        }
    }

    /// Starts receiving on a slot that is open and does not yet.
    fn receive(&mut self, slot: usize) {
        let token = self.token(slot, Kind::Receive);
        let state = &mut self.slots[slot];
        let Some(socket) = &state.socket else { return };
        if !state.receiving {
            state.receiving = true;
            let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), buffers::GROUP);
            self.push(&receive.build().user_data(token));
        }
    }

    /// Ends the requests of this token; what they still complete with is ignored.
    fn cancel(&mut self, token: u64) {
        let cancel = opcode::AsyncCancel::new(token).build();
        self.push(&cancel.user_data(Kind::Aside as u64).flags(Flags::SKIP_SUCCESS));
    }

    fn close_socket(&mut self, socket: OwnedFd) {
        let close = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.push(&close.user_data(Kind::Aside as u64).flags(Flags::SKIP_SUCCESS));
    }

    /// Takes the socket out of its slot, whose requests are strangers from then on.
    fn vacate(&mut self, slot: usize) -> Option<OwnedFd> {
        let state = &mut self.slots[slot];
        let socket = state.socket.take();
        state.generation = state.generation.wrapping_add(1);
        state.connecting = false;
        state.crowded = false;
        state.receiving = false;
        state.held = false;
        state.kept.clear();
        state.kept_ending = None;
        socket
    }

    /// Closes a socket whose connection has ended.
    fn dispose(&mut self, slot: usize) {
        if self.slots[slot].receiving || self.message.len() > SENT_AT_ONCE {
            return self.close(slot);
        }
        if let Some(socket) = self.vacate(slot) {
            self.close_socket(socket);
        }
    }

    fn is_current(&self, slot: usize, generation: u32) -> bool {
        let state = &self.slots[slot];
        state.socket.is_some() && state.generation == generation
    }

    /// Takes back what was counted as sent and was not.
    fn send_failed(&mut self, taken: i32) -> Failure {
        let partly = usize::try_from(taken).unwrap_or(0);
        self.traffic.sent -= (self.message.len() - partly) as u64;
        if taken >= 0 {
            return Failure::Reset;
        }
        not_taken(Errno::from_raw_os_error(-taken))
    }
}

impl Wire for UringWire {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        let (socket, connect) = self.connector.open()?;
        self.traffic.source_changes = self.connector.source_changes();
        debug_assert!(self.slots[slot].socket.is_none(), "a slot holds one socket at a time");
        self.slots[slot].socket = Some(socket);
        match connect {
            Connect::Done => {
                self.traffic.connects += 1;
                self.receive(slot);
            }
            Connect::Pending => {
                self.slots[slot].connecting = true;
                self.await_writable(slot);
            }
        }
        Ok(connect)
    }

    fn send(&mut self, slot: usize) -> Result<(), Failure> {
        let Some(socket) = &self.slots[slot].socket else { return Ok(()) };
        if self.message.is_empty() {
            return Ok(());
        }
        if self.connector.address().keeps_messages() {
            return self.send_message(slot);
        }
        // The kernel sends on until everything is out (MSG_WAITALL), and completes only what failed.
        let send = opcode::Send::new(
            Fd(socket.as_raw_fd()),
            self.message.as_ptr(),
            self.message.len() as u32,
        )
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .user_data(self.token(slot, Kind::Send))
        .flags(Flags::SKIP_SUCCESS);
        self.traffic.sent += self.message.len() as u64;
        self.push(&send);
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        if self.slots[slot].socket.is_none() {
            return;
        }
        if self.slots[slot].receiving {
            self.cancel(self.token(slot, Kind::Receive));
        }
        if self.slots[slot].connecting || self.slots[slot].crowded {
            self.cancel(self.token(slot, Kind::Writable));
        }
        self.cancel(self.token(slot, Kind::Send));
        if let Some(socket) = self.vacate(slot) {
            self.close_socket(socket);
        }
    }

    fn retire(&mut self, slot: usize) {
        if !self.slots[slot].receiving || self.connector.lingers_zero() {
            return self.close(slot);
        }
        let token = self.token(slot, Kind::Receive);
        if let Some(socket) = self.vacate(slot)
            && let Some((evicted, socket)) = self.retired.keep(token, socket)
        {
            self.cancel(evicted);
            self.close_socket(socket);
        }
    }

    fn hold(&mut self, slot: usize) {
        let state = &mut self.slots[slot];
        if state.socket.is_some() && !std::mem::replace(&mut state.held, true) && state.receiving {
            self.cancel(self.token(slot, Kind::Receive));
        }
    }

    fn release(&mut self, slot: usize) {
        if std::mem::take(&mut self.slots[slot].held) {
            self.released.push_back(slot);
        }
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Engine for Uring {
    type Wire = UringWire;

    fn wire(&mut self) -> &mut UringWire {
        &mut self.wire
    }

    fn turn<H: Handler<UringWire>>(&mut self, timeout: Nanos, handler: &mut H) -> io::Result<()> {
        let timeout = if self.wire.released.is_empty() { timeout } else { Nanos::ZERO };
        self.wire.ring.enter(timeout, self.busy_poll)?;
        for _ in 0..self.wire.released.len() {
            if let Some(slot) = self.wire.released.pop_front() {
                self.deliver_kept(slot, handler);
            }
        }
        loop {
            let n = self.wire.ring.take(self.completions.as_mut_slice());
            for i in 0..n {
                let next = if i + 1 < n { Some(self.completions[i + 1]) } else { None };
                self.complete(self.completions[i], next, handler);
            }
            if n < COMPLETIONS {
                break;
            }
        }
        self.wire.broken.take().map_or(Ok(()), Err)
    }
}

impl Uring {
    fn complete<H: Handler<UringWire>>(
        &mut self,
        this: Completion,
        next: Option<Completion>,
        handler: &mut H,
    ) {
        let kind = KINDS[(this.token & ((1 << KIND_BITS) - 1)) as usize];
        let slot = ((this.token & 0xffff_ffff) >> KIND_BITS) as usize;
        let current = kind != Kind::Aside && self.wire.is_current(slot, (this.token >> 32) as u32);
        match kind {
            Kind::Receive if current => self.received(slot, this, next, handler),
            Kind::Receive => self.received_by_nobody(this),
            Kind::Send => {
                let failure = self.wire.send_failed(this.result);
                if current {
                    self.wire.close(slot);
                    handler.ended(&mut self.wire, slot, Ending::Failed(failure));
                }
            }
            Kind::Writable if current => self.writable(slot, handler),
            Kind::Writable | Kind::Aside => {}
        }
    }

    fn writable<H: Handler<UringWire>>(&mut self, slot: usize, handler: &mut H) {
        if self.wire.slots[slot].connecting {
            self.connected(slot, handler);
        } else if self.wire.slots[slot].crowded
            && let Err(failure) = self.wire.send_message(slot)
        {
            handler.ended(&mut self.wire, slot, Ending::Failed(failure));
        }
    }

    fn connected<H: Handler<UringWire>>(&mut self, slot: usize, handler: &mut H) {
        let Some(socket) = &self.wire.slots[slot].socket else { return };
        let outcome = outcome(socket);
        self.wire.slots[slot].connecting = false;
        match outcome {
            Ok(()) => {
                self.wire.traffic.connects += 1;
                self.wire.receive(slot);
                handler.connected(&mut self.wire, slot);
            }
            Err(failure) => {
                self.wire.dispose(slot);
                handler.ended(&mut self.wire, slot, Ending::Failed(failure));
            }
        }
    }

    /// A receive completed: bytes, the end, or nothing but that it has to be started again.
    fn received<H: Handler<UringWire>>(
        &mut self,
        slot: usize,
        this: Completion,
        next: Option<Completion>,
        handler: &mut H,
    ) {
        if !cqueue::more(this.flags) {
            self.wire.slots[slot].receiving = false;
        }
        let is_datagram = self.wire.connector.address().is_datagram();
        if this.result > 0 || this.result == 0 && is_datagram {
            let closing = next.is_some_and(|next| next.token == this.token && next.result == 0)
                && !is_datagram;
            self.deliver(slot, this, closing, handler);
            if self.wire.is_current(slot, (this.token >> 32) as u32) && !self.wire.slots[slot].held
            {
                self.wire.receive(slot);
            }
            return;
        }
        let ending = if this.result == 0 {
            Ending::Closed
        } else {
            match Errno::from_raw_os_error(-this.result) {
                // Out of buffers for the moment, or cancelled for a hold that may be over by now.
                Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN => {
                    if !self.wire.slots[slot].held {
                        self.wire.receive(slot);
                    }
                    return;
                }
                errno => Ending::Failed(errno.into()),
            }
        };
        if self.wire.slots[slot].held {
            self.wire.slots[slot].kept_ending = Some(ending);
        } else {
            self.wire.dispose(slot);
            handler.ended(&mut self.wire, slot, ending);
        }
    }

    fn deliver<H: Handler<UringWire>>(
        &mut self,
        slot: usize,
        this: Completion,
        closing: bool,
        handler: &mut H,
    ) {
        let id = cqueue::buffer_select(this.flags);
        let bytes = id.map_or(&[][..], |id| self.buffers.filled(id, this.result as usize));
        self.wire.traffic.received += bytes.len() as u64;
        if self.wire.slots[slot].held {
            self.wire.slots[slot].kept.extend_from_slice(bytes);
        } else {
            handler.received(&mut self.wire, slot, bytes, closing);
        }
        if let Some(id) = id {
            self.buffers.give_back(id);
        }
    }

    /// A socket that has left its slot received something.
    fn received_by_nobody(&mut self, this: Completion) {
        if let Some(id) = cqueue::buffer_select(this.flags) {
            self.buffers.give_back(id);
        }
        // Its receive is over, for its peer has closed; or for a lack of buffers, and then it is not
        // worth another one.
        if !cqueue::more(this.flags)
            && let Some(socket) = self.wire.retired.release(this.token)
        {
            self.wire.close_socket(socket);
        }
    }

    /// Delivers what came while the slot was held, and goes on receiving.
    fn deliver_kept<H: Handler<UringWire>>(&mut self, slot: usize, handler: &mut H) {
        let state = &mut self.wire.slots[slot];
        if state.held || state.socket.is_none() {
            return;
        }
        let generation = state.generation;
        let kept = std::mem::take(&mut state.kept);
        if !kept.is_empty() {
            let closing = state.kept_ending == Some(Ending::Closed);
            handler.received(&mut self.wire, slot, &kept, closing);
        }
        if !self.wire.is_current(slot, generation) || self.wire.slots[slot].held {
            return;
        }
        match self.wire.slots[slot].kept_ending.take() {
            None => self.wire.receive(slot),
            Some(ending) => {
                self.wire.dispose(slot);
                handler.ended(&mut self.wire, slot, ending);
            }
        }
    }
}

/// Why not one byte of a message was taken.
fn not_taken(errno: Errno) -> Failure {
    match Failure::from(errno) {
        Failure::Reset => Failure::ClosedByPeer,
        failure => failure,
    }
}

/// The outcome of a pending connection.
fn outcome(socket: impl AsFd) -> Result<(), Failure> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(errno)) | Err(errno) => Err(errno.into()),
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.wire.ring.quiesce() {
            // Memory that the kernel might still use is given up rather than used twice.
            let nothing: Arc<[u8]> = Arc::from(&b""[..]);
            std::mem::forget(std::mem::replace(&mut self.wire.message, nothing));
            self.buffers.leak();
        }
    }
}
