//! The I/O backend for every kernel: epoll, edge-triggered, registered once per socket.
//!
//! On a persistent connection a request costs one send, one receive and a share of one epoll_wait.
//! Reading right after sending gains nothing on Linux: the response is not there yet.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use base::{Nanos, monotonic_now};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use crate::connect::{BlockingMode, Connector};
use crate::retired::RetiredSockets;
use crate::{Connect, Ending, Engine, Failure, Handler, Messages, Setup, Traffic, Wire};

/// Events per epoll_wait.
const EVENTS: usize = 256;

/// Reads from one socket before the others get their turn.
const READS_PER_TURN: usize = 16;

/// Shorter waits use ppoll, because epoll_wait has a resolution of a millisecond.
const FINE_WAIT: Nanos = Nanos::from_millis(20);

/// Epoll with a receive buffer that all slots share.
pub struct Epoll {
    wire: EpollWire,
    buffer: Vec<u8>,
    busy_poll: bool,
}

/// The sockets of an [`Epoll`] engine.
#[derive(Debug)]
pub struct EpollWire {
    epoll: OwnedFd,
    connector: Connector,
    messages: Messages,
    slots: Vec<Slot>,
    retired: RetiredSockets,
    /// Slots that may have more to read without a new event.
    unread: VecDeque<usize>,
    traffic: Traffic,
}

#[derive(Debug, Default)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Distinguishes this socket's events from those of earlier ones in the same slot.
    generation: u32,
    connecting: bool,
    /// The message that is being sent, if one is.
    sending: Option<usize>,
    /// Bytes of it that the kernel has accepted.
    taken: usize,
    /// What is left of a message of the handler's own; empty when none is being sent.
    own: Vec<u8>,
    /// Whether the kernel has accepted a part of that message.
    own_begun: bool,
    /// Whether the socket stays registered for writability. A pending connection signals its
    /// outcome by becoming writable, and TCP then raises no further writable edges unless a send
    /// was cut short. A Unix socket raises one whenever its peer reads, and never has a pending
    /// connection.
    writable_always: bool,
    /// Whether the socket is registered for writability until its message is sent.
    wants_write: bool,
    held: bool,
    /// The peer has closed; bytes may still be waiting before the end.
    closing: bool,
}

impl Epoll {
    /// An engine with these parameters.
    pub fn new(setup: &Setup) -> io::Result<Epoll> {
        let wire = EpollWire {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connector: Connector::new(setup, BlockingMode::Never),
            messages: setup.messages.clone(),
            slots: (0..setup.slots).map(|_| Slot::default()).collect(),
            retired: RetiredSockets::new(),
            unread: VecDeque::with_capacity(setup.slots),
            traffic: Traffic::default(),
        };
        let buffer = vec![0; setup.buffer_bytes.max(1)];
        Ok(Epoll { wire, buffer, busy_poll: setup.busy_poll })
    }
}

impl EpollWire {
    fn registration(writable: bool) -> EventFlags {
        let base = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if writable { base | EventFlags::OUT } else { base }
    }

    fn token(&self, slot: usize) -> u64 {
        (u64::from(self.slots[slot].generation) << 32) | slot as u64
    }

    /// Sends the rest of the message.
    fn push_out(&mut self, slot: usize) -> Result<(), Failure> {
        let state = &mut self.slots[slot];
        let (Some(socket), Some(number)) = (&state.socket, state.sending) else { return Ok(()) };
        let message = &self.messages[number];
        while state.taken < message.len() {
            match send(socket, &message[state.taken..], SendFlags::NOSIGNAL) {
                Ok(n) => {
                    state.taken += n;
                    self.traffic.sent += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.watch_writable(slot, true),
                Err(errno) => {
                    let partly = state.taken > 0;
                    self.close(slot);
                    return Err(Failure::of_send(errno, partly));
                }
            }
        }
        state.sending = None;
        if state.wants_write { self.watch_writable(slot, false) } else { Ok(()) }
    }

    /// Sends the rest of a message of the handler's own; true if that was all of it.
    fn push_own_out(&mut self, slot: usize) -> Result<bool, Failure> {
        let mut own = std::mem::take(&mut self.slots[slot].own);
        let sent = self.send_all(slot, &own)?;
        own.drain(..sent);
        let done = own.is_empty();
        self.slots[slot].own = own;
        self.slots[slot].own_begun |= sent > 0;
        self.watch_writable(slot, !done)?;
        Ok(done)
    }

    /// Sends as many of these bytes as the kernel accepts. An error closes the slot.
    fn send_all(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Failure> {
        let mut sent = 0;
        while sent < bytes.len() {
            let Some(socket) = &self.slots[slot].socket else { break };
            match send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
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

    /// Turns writable events on or off for sockets that are registered without them.
    fn watch_writable(&mut self, slot: usize, on: bool) -> Result<(), Failure> {
        if self.slots[slot].writable_always || self.slots[slot].wants_write == on {
            return Ok(());
        }
        let (token, flags) = (self.token(slot), EpollWire::registration(on));
        let state = &mut self.slots[slot];
        state.wants_write = on;
        if let Some(socket) = &state.socket {
            epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags)?;
        }
        Ok(())
    }

    /// Takes events from the kernel, waiting at most `timeout`.
    fn wait<'s>(
        &self,
        timeout: Nanos,
        space: &'s mut [MaybeUninit<Event>; EVENTS],
    ) -> io::Result<&'s [Event]> {
        let mut limit = timespec(timeout);
        if timeout > Nanos::ZERO && timeout < FINE_WAIT {
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut fds, Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => return Ok(&[]),
                Ok(_) => limit = timespec(Nanos::ZERO),
                Err(errno) => return Err(errno.into()),
            }
        }
        match epoll::wait(&self.epoll, space, Some(&limit)) {
            Ok((events, _)) => Ok(events),
            Err(Errno::INTR) => Ok(&[]),
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_current(&self, slot: usize, generation: u32) -> bool {
        let state = &self.slots[slot];
        state.socket.is_some() && state.generation == generation
    }

    /// The outcome of a pending connection.
    fn outcome(&self, slot: usize) -> Result<(), Failure> {
        match &self.slots[slot].socket {
            None => Ok(()),
            Some(socket) => match sockopt::socket_error(socket) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(errno)) | Err(errno) => Err(errno.into()),
            },
        }
    }
}

impl Wire for EpollWire {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        let (socket, connect) = self.connector.open()?;
        self.traffic.source_changes = self.connector.source_changes();
        let state = &mut self.slots[slot];
        debug_assert!(state.socket.is_none(), "a slot holds one socket at a time");
        let pending = connect == Connect::Pending;
        *state = Slot {
            generation: state.generation.wrapping_add(1),
            connecting: pending,
            writable_always: pending,
            ..Slot::default()
        };
        let (token, flags) = (self.token(slot), EpollWire::registration(pending));
        epoll::add(&self.epoll, &socket, EventData::new_u64(token), flags)?;
        self.slots[slot].socket = Some(socket);
        if connect == Connect::Done {
            self.traffic.connects += 1;
        }
        Ok(connect)
    }

    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure> {
        self.slots[slot].sending = Some(message);
        self.slots[slot].taken = 0;
        self.push_out(slot)
    }

    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        debug_assert!(self.slots[slot].own.is_empty(), "one message at a time");
        self.slots[slot].own_begun = false;
        let sent = self.send_all(slot, message)?;
        if sent == message.len() {
            return Ok(true);
        }
        self.slots[slot].own.extend_from_slice(&message[sent..]);
        self.slots[slot].own_begun = sent > 0;
        self.watch_writable(slot, true)?;
        Ok(false)
    }

    fn shut_down(&mut self, slot: usize) -> Result<(), Failure> {
        let Some(socket) = &self.slots[slot].socket else { return Ok(()) };
        shutdown(socket, Shutdown::Write).map_err(|errno| {
            self.close(slot);
            Failure::of_send(errno, true)
        })
    }

    fn close(&mut self, slot: usize) {
        self.slots[slot].socket = None;
        self.slots[slot].own.clear();
    }

    fn retire(&mut self, slot: usize) {
        let token = self.token(slot);
        let state = &mut self.slots[slot];
        if let Some(socket) = state.socket.take()
            && !state.closing
            && !self.connector.lingers_zero()
        {
            drop(self.retired.keep(token, socket));
        }
    }

    fn retired(&mut self) -> usize {
        self.retired.len()
    }

    fn close_retired(&mut self) {
        while let Some((_, socket)) = self.retired.oldest() {
            drop(socket);
        }
    }

    fn hold(&mut self, slot: usize) {
        self.slots[slot].held = true;
    }

    fn release(&mut self, slot: usize) {
        if std::mem::take(&mut self.slots[slot].held) {
            self.unread.push_back(slot);
        }
    }

    fn traffic(&mut self) -> Traffic {
        self.traffic
    }
}

impl Engine for Epoll {
    fn wire(&mut self) -> &mut dyn Wire {
        &mut self.wire
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        if !self.busy_poll || timeout == Nanos::ZERO {
            return self.turn_once(timeout, handler).map(|_| ());
        }
        let until = monotonic_now() + timeout;
        while !self.turn_once(Nanos::ZERO, handler)? && monotonic_now() < until {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Epoll {
    /// Handles the kernel's events once; whether there were any.
    fn turn_once(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<bool> {
        let timeout = if self.wire.unread.is_empty() { timeout } else { Nanos::ZERO };
        let mut space = [const { MaybeUninit::uninit() }; EVENTS];
        let events = self.wire.wait(timeout, &mut space)?;
        let any = !events.is_empty() || !self.wire.unread.is_empty();
        for _ in 0..self.wire.unread.len() {
            if let Some(slot) = self.wire.unread.pop_front() {
                self.read(slot, handler);
            }
        }
        for event in events {
            self.dispatch(event.data.u64(), event.flags, handler);
        }
        Ok(any)
    }

    fn dispatch(&mut self, token: u64, flags: EventFlags, handler: &mut dyn Handler) {
        let (slot, generation) = ((token & 0xffff_ffff) as usize, (token >> 32) as u32);
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if !self.wire.is_current(slot, generation) {
            if hung_up {
                drop(self.wire.retired.release(token));
            }
            return;
        }
        if self.wire.slots[slot].connecting {
            if !hung_up && !flags.contains(EventFlags::OUT) {
                return;
            }
            self.wire.slots[slot].connecting = false;
            let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            if failed && let Err(failure) = self.wire.outcome(slot) {
                self.wire.close(slot);
                handler.ended(&mut self.wire, slot, Ending::Failed(failure));
                return;
            }
            self.wire.traffic.connects += 1;
            handler.connected(&mut self.wire, slot, None);
        } else if flags.contains(EventFlags::OUT) {
            let all_sent = match self.wire.slots[slot].own.is_empty() {
                true => self.wire.push_out(slot).map(|()| false),
                false => self.wire.push_own_out(slot),
            };
            match all_sent {
                Ok(true) => handler.taken(&mut self.wire, slot),
                Ok(false) => {}
                Err(failure) => {
                    return handler.ended(&mut self.wire, slot, Ending::Failed(failure));
                }
            }
        }
        if !self.wire.is_current(slot, generation) {
            return;
        }
        self.wire.slots[slot].closing |= hung_up;
        if hung_up || flags.contains(EventFlags::IN) {
            self.read(slot, handler);
        }
    }

    /// Delivers what the slot has received, until the kernel has no more or the slot's share of the
    /// turn is used up.
    fn read(&mut self, slot: usize, handler: &mut dyn Handler) {
        let generation = self.wire.slots[slot].generation;
        for _ in 0..READS_PER_TURN {
            let state = &self.wire.slots[slot];
            if state.held || !self.wire.is_current(slot, generation) {
                return;
            }
            let (Some(socket), closing) = (&state.socket, state.closing) else { return };
            match recv(socket, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) if !self.wire.connector.address().is_datagram() => {
                    self.wire.close(slot);
                    return handler.ended(&mut self.wire, slot, Ending::Closed);
                }
                Ok((bytes, _)) => {
                    self.wire.traffic.received += bytes as u64;
                    let full = bytes == self.buffer.len();
                    let received = &self.buffer[..bytes];
                    handler.received(&mut self.wire, slot, received, closing);
                    // A stream that returned less than requested is empty, and later bytes raise a
                    // new edge (epoll(7)).
                    if !full && !closing && !self.wire.connector.address().keeps_messages() {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    self.wire.close(slot);
                    let failure = Failure::from(errno);
                    return handler.ended(&mut self.wire, slot, Ending::Failed(failure));
                }
            }
        }
        self.wire.unread.push_back(slot);
    }
}

fn timespec(timeout: Nanos) -> Timespec {
    Timespec {
        tv_sec: (timeout.0 / 1_000_000_000) as i64,
        tv_nsec: (timeout.0 % 1_000_000_000) as i64,
    }
}
