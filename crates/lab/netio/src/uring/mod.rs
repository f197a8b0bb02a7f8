//! The I/O backend for kernels with io_uring: one system call for a batch of connections.
//!
//! Every open socket has one multishot receive, which takes its buffers from a ring that all slots
//! share. A request then costs one send entry, which posts no completion on success, and one
//! completion of the receive. The sends of all connections that received a response in a turn are
//! submitted with the system call that starts the next turn.
//!
//! Datagrams do not go through the ring. When one found no room, the kernel's retry sent an empty one
//! instead (Linux 6.18); they are sent by a system call and received after a poll.

mod buffers;
mod ring;
mod wire;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::Nanos;
use io_uring::cqueue;
use rustix::io::Errno;
use rustix::net::sockopt;

pub use self::ring::NoUring;
pub use self::wire::UringWire;

use self::buffers::Buffers;
use self::ring::{Completion, Ring};
use self::wire::{KIND_BITS, KINDS, Kind};
use crate::{Ending, Engine, Failure, Handler, Setup, Wire};

/// Completions taken at once.
const COMPLETIONS: usize = 256;

/// Size of a receive buffer, unless messages need longer ones.
const BUFFER_BYTES: usize = 16 * 1024;

/// Limit on all receive buffers together, in bytes, unless the minimum number exceeds it. Only used
/// buffers cost memory.
const BUFFERS_BYTES_MAX: usize = 16 << 20;

/// Minimum number of receive buffers, so that the kernel can fill some while others are read.
const BUFFERS_MIN: usize = 16;

/// io_uring with receive buffers that all slots share.
///
/// It belongs to the thread that created it: on any other thread every turn fails.
pub struct Uring {
    // Dropped before the buffers that it fills.
    wire: UringWire,
    buffers: Buffers,
    completions: Box<[Completion; COMPLETIONS]>,
    busy_poll: bool,
}

impl Uring {
    /// An engine with these parameters, or the reason why it is not available.
    pub fn new(setup: &Setup) -> Result<Uring, NoUring> {
        let ring = Ring::new(setup.slots)?;
        let (count, bytes_each) = buffer_shape(setup);
        let buffers = Buffers::new(count, bytes_each).map_err(NoUring::from)?;
        buffers.register(ring.io_uring())?;
        let wire = UringWire::new(setup, ring);
        let completions = Box::new([Completion::default(); COMPLETIONS]);
        Ok(Uring { wire, buffers, completions, busy_poll: setup.busy_poll })
    }

    /// Whether an engine can be created on this machine, or the reason why not.
    pub fn probe() -> Result<(), NoUring> {
        let ring = Ring::new(1)?;
        let buffers = Buffers::new(1, BUFFER_BYTES)?;
        buffers.register(ring.io_uring())?;
        drop(ring);
        Ok(())
    }
}

/// Number and size of receive buffers: one per slot unless that takes too much memory.
fn buffer_shape(setup: &Setup) -> (u16, usize) {
    let keeps_messages = setup.address.keeps_messages();
    let lengths = setup.messages.iter().map(|message| message.len() + 1);
    let longest = if keeps_messages { lengths.max().unwrap_or(0) } else { 0 };
    let bytes_each = longest.max(BUFFER_BYTES).next_multiple_of(4096);
    let most = (BUFFERS_BYTES_MAX / bytes_each).max(BUFFERS_MIN);
    let count = setup.slots.clamp(BUFFERS_MIN, most).next_power_of_two();
    (count as u16, bytes_each)
}

impl Engine for Uring {
    fn wire(&mut self) -> &mut dyn Wire {
        &mut self.wire
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
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
    fn complete(&mut self, this: Completion, next: Option<Completion>, handler: &mut dyn Handler) {
        let kind = KINDS[(this.token & ((1 << KIND_BITS) - 1)) as usize];
        let slot = ((this.token & 0xffff_ffff) >> KIND_BITS) as usize;
        debug_assert!(kind == Kind::Unattended || slot < self.wire.slots.len(), "slot {slot}");
        let current =
            kind != Kind::Unattended && self.wire.is_current(slot, (this.token >> 32) as u32);
        match kind {
            Kind::Receive if current => self.received(slot, this, next, handler),
            Kind::Receive => self.received_after_leaving(this),
            Kind::Send => {
                let failure = self.wire.send_failed(slot, this.result);
                if current {
                    self.wire.close(slot);
                    handler.ended(&mut self.wire, slot, Ending::Failed(failure));
                }
            }
            Kind::Writable if current => self.writable(slot, handler),
            Kind::Writable | Kind::Unattended => {}
        }
    }

    fn writable(&mut self, slot: usize, handler: &mut dyn Handler) {
        if self.wire.slots[slot].connecting {
            self.connected(slot, handler);
        } else if self.wire.slots[slot].crowded {
            let all_sent = match self.wire.slots[slot].own.is_empty() {
                true => self.wire.send_message(slot).map(|()| false),
                false => self.wire.push_own_out(slot),
            };
            match all_sent {
                Ok(true) => handler.taken(&mut self.wire, slot),
                Ok(false) => {}
                Err(failure) => handler.ended(&mut self.wire, slot, Ending::Failed(failure)),
            }
        }
    }

    fn connected(&mut self, slot: usize, handler: &mut dyn Handler) {
        let Some(socket) = &self.wire.slots[slot].socket else { return };
        let outcome = outcome(socket);
        self.wire.slots[slot].connecting = false;
        match outcome {
            Ok(()) => {
                self.wire.traffic.connects += 1;
                self.wire.receive(slot);
                handler.connected(&mut self.wire, slot, None);
            }
            Err(failure) => {
                self.wire.dispose(slot);
                handler.ended(&mut self.wire, slot, Ending::Failed(failure));
            }
        }
    }

    /// A receive completed: bytes, the end, or only a reason to start it again.
    fn received(
        &mut self,
        slot: usize,
        this: Completion,
        next: Option<Completion>,
        handler: &mut dyn Handler,
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
                // Temporarily out of buffers, or cancelled for a hold that may be over by now.
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

    fn deliver(&mut self, slot: usize, this: Completion, closing: bool, handler: &mut dyn Handler) {
        debug_assert!(this.result >= 0, "a failed receive brings no bytes");
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
    fn received_after_leaving(&mut self, this: Completion) {
        if let Some(id) = cqueue::buffer_select(this.flags) {
            self.buffers.give_back(id);
        }
        // Its receive is over: either its peer has closed, or there was no buffer, and then it is
        // not worth restarting.
        if !cqueue::more(this.flags)
            && let Some(socket) = self.wire.retired.release(this.token)
        {
            self.wire.close_socket(socket);
        }
    }

    /// Delivers what arrived while the slot was held, and resumes receiving.
    fn deliver_kept(&mut self, slot: usize, handler: &mut dyn Handler) {
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
            // Memory that the kernel might still use is leaked rather than reused.
            std::mem::forget(std::mem::replace(&mut self.wire.messages, Arc::from([])));
            self.buffers.leak();
        }
    }
}

#[cfg(test)]
mod tests;
