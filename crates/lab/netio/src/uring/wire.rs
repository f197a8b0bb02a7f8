//! The sockets of an io_uring engine: operations on slots.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::buffers;
use super::ring::Ring;
use crate::connect::{BlockingMode, Connector};
use crate::retired::RetiredSockets;
use crate::{Connect, Ending, Failure, Messages, Setup, Traffic, Wire};

/// Messages up to this size fit into the socket's buffer, so a send is never partial.
const SENT_AT_ONCE: usize = 4096;

/// The sockets of the io_uring engine.
pub struct UringWire {
    pub(super) ring: Ring,
    pub(super) connector: Connector,
    pub(super) messages: Messages,
    /// Whether each of them is sent at once.
    are_short: bool,
    pub(super) slots: Vec<Slot>,
    pub(super) retired: RetiredSockets,
    /// Slots that were released and have something to deliver.
    pub(super) released: VecDeque<usize>,
    pub(super) traffic: Traffic,
    /// Why the ring refused a request; every turn reports it.
    pub(super) broken: Option<io::Error>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    /// Distinguishes this socket's completions from those of earlier ones in the same slot.
    pub(super) generation: u32,
    pub(super) connecting: bool,
    /// The message that was sent last.
    sending: usize,
    /// Whether it waits for room.
    pub(super) crowded: bool,
    /// What is left of a message of the handler's own; empty when none is being sent.
    pub(super) own: Vec<u8>,
    /// Whether the kernel has accepted a part of that message.
    own_begun: bool,
    /// Whether a receive is active.
    pub(super) receiving: bool,
    pub(super) held: bool,
    /// What arrived while the slot was held.
    pub(super) kept: Vec<u8>,
    /// How the connection ended while the slot was held.
    pub(super) kept_ending: Option<Ending>,
}

/// The purpose of a request, in the lowest bits of its token's upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Receive,
    Send,
    /// Waits for a socket to become writable: a pending connection has its outcome, or there is
    /// room for a message.
    Writable,
    /// Its outcome is ignored.
    Unattended,
}

pub(super) const KIND_BITS: u32 = 2;
pub(super) const KINDS: [Kind; 4] = [Kind::Receive, Kind::Send, Kind::Writable, Kind::Unattended];

impl UringWire {
    pub(super) fn new(setup: &Setup, ring: Ring) -> UringWire {
        UringWire {
            ring,
            connector: Connector::new(setup, BlockingMode::OnceOpen),
            messages: setup.messages.clone(),
            are_short: setup.messages.iter().all(|message| message.len() <= SENT_AT_ONCE),
            slots: (0..setup.slots).map(|_| Slot::default()).collect(),
            retired: RetiredSockets::new(),
            released: VecDeque::with_capacity(setup.slots),
            traffic: Traffic::default(),
            broken: None,
        }
    }

    fn token(&self, slot: usize, kind: Kind) -> u64 {
        debug_assert!(slot < 1 << (u32::BITS - KIND_BITS), "a slot does not reach the generation");
        let low = ((slot as u64) << KIND_BITS) | kind as u64;
        (u64::from(self.slots[slot].generation) << 32) | low
    }

    /// Queues a request. If the ring refuses it, the next turn reports why.
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
    /// Not through the ring: when a datagram found no room there, its retry sent an empty one
    /// (Linux 6.18).
    pub(super) fn send_message(&mut self, slot: usize) -> Result<(), Failure> {
        self.slots[slot].crowded = false;
        loop {
            let Some(socket) = &self.slots[slot].socket else { return Ok(()) };
            let message = &self.messages[self.slots[slot].sending];
            match send(socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
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
                    return Err(Failure::of_send(errno, false));
                }
            }
        }
    }

    /// Sends the rest of a message of the handler's own; true if that was all of it.
    ///
    /// Not through the ring, which would need the bytes until it has sent them.
    pub(super) fn push_own_out(&mut self, slot: usize) -> Result<bool, Failure> {
        self.slots[slot].crowded = false;
        let own = std::mem::take(&mut self.slots[slot].own);
        let sent = self.send_now(slot, &own)?;
        self.keep_own(slot, own, sent);
        Ok(self.slots[slot].own.is_empty())
    }

    /// Keeps what is left of a message of the handler's own until there is room.
    fn keep_own(&mut self, slot: usize, mut own: Vec<u8>, sent: usize) {
        own.drain(..sent);
        self.slots[slot].own_begun |= sent > 0;
        if !own.is_empty() {
            self.slots[slot].crowded = true;
            self.await_writable(slot);
        }
        self.slots[slot].own = own;
    }

    /// Sends as many of these bytes as the kernel accepts. An error closes the slot.
    fn send_now(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Failure> {
        let mut sent = 0;
        while sent < bytes.len() {
            let Some(socket) = &self.slots[slot].socket else { break };
            match send(socket, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(n) => {
                    sent += n;
                    self.traffic.sent += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    let partly = sent > 0 || self.slots[slot].own_begun;
                    self.close(slot);
                    return Err(Failure::of_send(errno, partly));
                }
            }
        }
        Ok(sent)
    }

    /// Starts receiving on an open slot, unless it already does.
    pub(super) fn receive(&mut self, slot: usize) {
        let token = self.token(slot, Kind::Receive);
        let state = &mut self.slots[slot];
        let Some(socket) = &state.socket else { return };
        if !state.receiving {
            state.receiving = true;
            let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), buffers::GROUP);
            self.push(&receive.build().user_data(token));
        }
    }

    /// Cancels the requests with this token; their completions are ignored.
    fn cancel(&mut self, token: u64) {
        let cancel = opcode::AsyncCancel::new(token).build();
        self.push(&cancel.user_data(Kind::Unattended as u64).flags(Flags::SKIP_SUCCESS));
    }

    pub(super) fn close_socket(&mut self, socket: OwnedFd) {
        let close = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.push(&close.user_data(Kind::Unattended as u64).flags(Flags::SKIP_SUCCESS));
    }

    /// Takes the socket out of its slot; completions of its requests are ignored from then on.
    fn vacate(&mut self, slot: usize) -> Option<OwnedFd> {
        let state = &mut self.slots[slot];
        let socket = state.socket.take();
        state.generation = state.generation.wrapping_add(1);
        state.connecting = false;
        state.crowded = false;
        state.own.clear();
        state.receiving = false;
        state.held = false;
        state.kept.clear();
        state.kept_ending = None;
        socket
    }

    /// Closes a socket whose connection has ended.
    pub(super) fn dispose(&mut self, slot: usize) {
        if self.slots[slot].receiving || !self.are_short {
            return self.close(slot);
        }
        if let Some(socket) = self.vacate(slot) {
            self.close_socket(socket);
        }
    }

    pub(super) fn is_current(&self, slot: usize, generation: u32) -> bool {
        let state = &self.slots[slot];
        state.socket.is_some() && state.generation == generation
    }

    /// Subtracts what was counted as sent but was not. If the slot has sent another message on a new
    /// connection since then, that one's length is subtracted.
    pub(super) fn send_failed(&mut self, slot: usize, taken: i32) -> Failure {
        let partly = usize::try_from(taken).unwrap_or(0);
        let length = self.messages[self.slots[slot].sending].len();
        self.traffic.sent -= length.saturating_sub(partly) as u64;
        if taken >= 0 {
            return Failure::Reset;
        }
        Failure::of_send(Errno::from_raw_os_error(-taken), false)
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

    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure> {
        self.slots[slot].sending = message;
        let Some(socket) = &self.slots[slot].socket else { return Ok(()) };
        let message = &self.messages[message];
        if message.is_empty() {
            return Ok(());
        }
        if self.connector.address().keeps_messages() {
            return self.send_message(slot);
        }
        // The kernel continues until everything is sent (MSG_WAITALL), and posts a completion only
        // on failure.
        let send =
            opcode::Send::new(Fd(socket.as_raw_fd()), message.as_ptr(), message.len() as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build()
                .user_data(self.token(slot, Kind::Send))
                .flags(Flags::SKIP_SUCCESS);
        self.traffic.sent += message.len() as u64;
        self.push(&send);
        Ok(())
    }

    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        debug_assert!(self.slots[slot].own.is_empty(), "one message at a time");
        self.slots[slot].own_begun = false;
        let sent = self.send_now(slot, message)?;
        if sent < message.len() {
            self.keep_own(slot, message.to_vec(), sent);
        }
        Ok(sent == message.len())
    }

    fn shut_down(&mut self, _slot: usize) -> Result<(), Failure> {
        Err(Failure::Unsupported)
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

    fn retired(&mut self) -> usize {
        self.retired.len()
    }

    fn close_retired(&mut self) {
        while let Some((token, socket)) = self.retired.oldest() {
            self.cancel(token);
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

    fn traffic(&mut self) -> Traffic {
        self.traffic
    }
}
