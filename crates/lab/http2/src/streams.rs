//! Slots, which are streams, and the connections that they share.

use netio::{Connect, Failure, Traffic, Wire};

use crate::connection::{Connection, Phase};
use crate::frame::{self, error, flag, kind};
use crate::request::{Request, RequestSet};

/// Connections that a group of slots may have at once: one for new requests, and one that the server is
/// about to end.
pub(crate) const CONNECTIONS_EACH: usize = 2;

/// All slots and connections.
pub(crate) struct Layer {
    pub(crate) requests: RequestSet,
    /// Slots that share a connection.
    pub(crate) streams: usize,
    /// Whether each request needs a connection of its own.
    pub(crate) one_request: bool,
    pub(crate) slots: Vec<StreamSlot>,
    pub(crate) connections: Vec<Connection>,
    /// Connections whose sending failed outside a turn, which is reported in the next one.
    pub(crate) broken: Vec<(usize, Failure)>,
    /// Connections that have ended, for which slots may be waiting.
    pub(crate) freed: Vec<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct StreamSlot {
    /// The connection that it uses.
    pub(crate) connection: Option<usize>,
    /// Whether it waits until a connection of its group has ended.
    pub(crate) waits: bool,
    /// The number of its last request.
    request: usize,
    /// That request, if it is not one of the set.
    own: Option<Box<Request>>,
    /// The stream of its request; 0 without one.
    pub(crate) stream: u32,
    /// Whether the head of the response has arrived.
    pub(crate) has_head: bool,
    /// Bytes of the body so far, and how many there must be.
    pub(crate) received: u64,
    pub(crate) length: Option<u64>,
    /// Received bytes for which the server has not got room yet.
    pub(crate) consumed: u32,
    /// Bytes of the request's body that were sent, and room for more.
    pub(crate) sent: usize,
    pub(crate) window: i64,
}

impl StreamSlot {
    /// Forgets its stream.
    pub(crate) fn end_stream(&mut self) {
        let StreamSlot { connection, waits, request, .. } = *self;
        let own = self.own.take();
        *self = StreamSlot { connection, waits, request, own, ..StreamSlot::default() };
    }

    /// Its last request.
    pub(crate) fn request<'a>(&'a self, requests: &'a RequestSet) -> &'a Request {
        self.own.as_deref().unwrap_or_else(|| requests.number(self.request))
    }
}

impl Layer {
    /// The slots that may share connection `c`.
    pub(crate) fn group(&self, c: usize) -> std::ops::Range<usize> {
        let first = c / CONNECTIONS_EACH * self.streams;
        first..(first + self.streams).min(self.slots.len())
    }

    /// The slot of a stream of connection `c`.
    pub(crate) fn slot_of(&self, c: usize, stream: u32) -> Option<usize> {
        let is_this = |slot: &usize| {
            self.slots[*slot].stream == stream && self.slots[*slot].connection == Some(c)
        };
        self.group(c).find(is_this)
    }

    /// The slot leaves its connection, and forgets its stream. Returns the connection.
    pub(crate) fn detach(&mut self, slot: usize) -> Option<usize> {
        let state = std::mem::take(&mut self.slots[slot]);
        let c = state.connection?;
        let connection = &mut self.connections[c];
        connection.attached -= 1;
        connection.active -= usize::from(state.stream > 0);
        connection.queue.retain(|waiting| *waiting != slot);
        connection.blocked.retain(|waiting| *waiting != slot);
        connection.unsent.retain(|waiting| *waiting != slot);
        Some(c)
    }
}

/// The wire of one call: that of the engine below, and the layer on it.
pub(crate) struct StreamWire<'a> {
    pub(crate) below: &'a mut dyn Wire,
    pub(crate) layer: &'a mut Layer,
}

impl StreamWire<'_> {
    /// Finds a connection for a slot, or makes one.
    pub(crate) fn attach(&mut self, slot: usize) -> Result<Connect, Failure> {
        let first = slot / self.layer.streams * CONNECTIONS_EACH;
        let places = first..first + CONNECTIONS_EACH;
        let phase = |c: &usize| self.layer.connections[*c].phase;
        let usable = |c: &usize| matches!(phase(c), Phase::Connecting | Phase::Open);
        let found = places.clone().find(usable);
        let c = match found.or_else(|| places.clone().find(|c| phase(c) == Phase::Closed)) {
            Some(c) => c,
            None => {
                self.layer.slots[slot].waits = true;
                return Ok(Connect::Pending);
            }
        };
        if self.layer.connections[c].phase == Phase::Closed {
            let connect = self.below.connect(c)?;
            let connection = &mut self.layer.connections[c];
            connection.reset();
            connection.phase = Phase::Connecting;
            if connect == Connect::Done {
                connection.phase = Phase::Open;
                connection.greet();
                if let Err(failure) = self.flush(c) {
                    self.layer.connections[c].reset();
                    return Err(failure);
                }
            }
        }
        self.layer.connections[c].attached += 1;
        self.layer.slots[slot].connection = Some(c);
        Ok(match self.layer.connections[c].phase {
            Phase::Open => Connect::Done,
            _ => Connect::Pending,
        })
    }

    /// Begins the slot's next stream.
    pub(crate) fn begin_stream(&mut self, slot: usize, c: usize) {
        let Layer { requests, slots, connections, .. } = &mut *self.layer;
        let connection = &mut connections[c];
        let stream = connection.begin_stream(slots[slot].request(requests));
        connection.unsent.push(slot);
        slots[slot].end_stream();
        slots[slot].stream = stream;
        slots[slot].window = connection.stream_window;
        self.send_body(slot, c);
    }

    /// Begins the stream of the slot's request, or lets it wait for those before it.
    fn send_request(&mut self, slot: usize) {
        let Some(c) = self.layer.slots[slot].connection else { return };
        let connection = &mut self.layer.connections[c];
        if connection.active >= connection.streams_max {
            connection.queue.push_back(slot);
            return;
        }
        self.begin_stream(slot, c);
        self.flush_later(c);
    }

    /// Sends what the windows allow of the slot's body.
    pub(crate) fn send_body(&mut self, slot: usize, c: usize) {
        let Layer { requests, slots, connections, .. } = &mut *self.layer;
        let (state, connection) = (&mut slots[slot], &mut connections[c]);
        let body_length = state.request(requests).body.len();
        while state.sent < body_length {
            let rest = &state.request(requests).body[state.sent..];
            let room = state.window.min(connection.window).max(0) as usize;
            let length = rest.len().min(room).min(connection.payload_max);
            if length == 0 {
                if !connection.blocked.contains(&slot) {
                    connection.blocked.push(slot);
                }
                return;
            }
            let flags = if length == rest.len() { flag::END_STREAM } else { 0 };
            let stream = state.stream;
            frame::write(&mut connection.outgoing, kind::DATA, flags, stream, &rest[..length]);
            state.sent += length;
            state.window -= length as i64;
            connection.window -= length as i64;
        }
    }

    /// Sends the bodies that waited for room.
    pub(crate) fn send_blocked(&mut self, c: usize) {
        for slot in std::mem::take(&mut self.layer.connections[c].blocked) {
            self.send_body(slot, c);
        }
    }

    /// Begins streams that waited for those before them.
    pub(crate) fn begin_queued(&mut self, c: usize) {
        while self.layer.connections[c].active < self.layer.connections[c].streams_max
            && let Some(slot) = self.layer.connections[c].queue.pop_front()
        {
            self.begin_stream(slot, c);
        }
    }

    /// Sends what waits, unless something is being sent. After an error the connection below is
    /// closed.
    pub(crate) fn flush(&mut self, c: usize) -> Result<(), Failure> {
        let connection = &mut self.layer.connections[c];
        if connection.is_sending || connection.is_corked || connection.outgoing.is_empty() {
            return Ok(());
        }
        let all = self.below.send_own(c, &connection.outgoing)?;
        connection.outgoing.clear();
        connection.unsent.clear();
        connection.is_sending = !all;
        Ok(())
    }

    /// The same where a failure can only be reported later.
    pub(crate) fn flush_later(&mut self, c: usize) {
        if let Err(failure) = self.flush(c) {
            self.layer.broken.push((c, failure));
        }
    }

    /// The place of a connection that has ended is free.
    pub(crate) fn free(&mut self, c: usize) {
        self.layer.connections[c].reset();
        self.layer.freed.push(c);
    }

    /// Ends a slot from this side; returns the connection if no slot is left on it.
    pub(crate) fn leave(&mut self, slot: usize) -> Option<usize> {
        let stream = self.layer.slots[slot].stream;
        let c = self.layer.detach(slot)?;
        let connection = &mut self.layer.connections[c];
        if stream > 0 {
            connection.abandon(stream, error::CANCEL);
        }
        if connection.attached > 0 {
            self.begin_queued(c);
            self.flush_later(c);
            return None;
        }
        if connection.phase != Phase::Connecting {
            frame::write_goaway(&mut connection.outgoing, 0, error::NO_ERROR);
            connection.is_corked = false;
            // It is closed either way.
            let _ = self.flush(c);
        }
        self.free(c);
        Some(c)
    }
}

impl Wire for StreamWire<'_> {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        self.attach(slot)
    }

    fn send(&mut self, slot: usize, message: usize) -> Result<(), Failure> {
        self.layer.slots[slot].request = message;
        self.layer.slots[slot].own = None;
        self.send_request(slot);
        Ok(())
    }

    fn send_own(&mut self, slot: usize, message: &[u8]) -> Result<bool, Failure> {
        let own = Request::from_own(message).ok_or(Failure::Unsupported)?;
        self.layer.slots[slot].own = Some(Box::new(own));
        self.send_request(slot);
        Ok(true)
    }

    fn shut_down(&mut self, _slot: usize) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn close(&mut self, slot: usize) {
        if let Some(c) = self.leave(slot) {
            self.below.close(c);
        }
    }

    fn retire(&mut self, slot: usize) {
        if let Some(c) = self.leave(slot) {
            self.below.retire(c);
        }
    }

    fn retired(&mut self) -> usize {
        self.below.retired()
    }

    fn close_retired(&mut self) {
        self.below.close_retired();
    }

    fn hold(&mut self, _slot: usize) {}

    fn release(&mut self, _slot: usize) {}

    fn traffic(&mut self) -> Traffic {
        self.below.traffic()
    }
}

impl StreamWire<'_> {
    /// Closes a connection that the server is ending, or that was for one request, once no slot uses it
    /// any more.
    pub(crate) fn close_if_left(&mut self, c: usize) {
        let connection = &mut self.layer.connections[c];
        let is_done = connection.phase == Phase::Draining || self.layer.one_request;
        if is_done && connection.attached == 0 {
            self.free(c);
            self.below.retire(c);
        }
    }
}
