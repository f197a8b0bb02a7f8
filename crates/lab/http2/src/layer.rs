//! An engine whose slots are streams, on top of one whose slots are connections.

use std::io;

use base::Nanos;
use netio::{Connect, Ending, Engine, Failure, Handler, Handshake, Http2Failure, Traffic, Wire};

use crate::connection::{Connection, Phase, STREAM_MAX, UnfinishedHeaders};
use crate::frame::{self, FrameHeader, HEADER_BYTES, WINDOW_MAX, error, flag, kind};
use crate::request::Request;

/// Connections that a group of slots may have at once: one for new requests, and one that the server is
/// about to end.
const CONNECTIONS_EACH: usize = 2;

/// An engine whose connections speak HTTP/2.
pub struct Http2<E> {
    below: E,
    layer: Layer,
}

impl<E: Engine> Http2<E> {
    /// The number of slots that the engine below needs for so many slots in groups of `streams`.
    pub fn slots_below(slots: usize, streams: usize) -> usize {
        slots.div_ceil(streams.max(1)) * CONNECTIONS_EACH
    }

    /// HTTP/2 over the engine `below`, with `slots` slots, of which `streams` share a connection.
    pub fn new(below: E, request: Request, slots: usize, streams: usize) -> Http2<E> {
        let connections = Http2::<E>::slots_below(slots, streams);
        let layer = Layer {
            request,
            streams: streams.max(1),
            slots: (0..slots).map(|_| StreamSlot::default()).collect(),
            connections: (0..connections).map(|_| Connection::default()).collect(),
            broken: Vec::new(),
            freed: Vec::new(),
        };
        Http2 { below, layer }
    }

    /// The engine below.
    pub fn into_below(self) -> E {
        self.below
    }

    fn over(&mut self) -> StreamWire<'_> {
        StreamWire { below: self.below.wire(), layer: &mut self.layer }
    }
}

/// All slots and connections.
struct Layer {
    request: Request,
    /// Slots that share a connection.
    streams: usize,
    slots: Vec<StreamSlot>,
    connections: Vec<Connection>,
    /// Connections whose sending failed outside a turn, which is reported in the next one.
    broken: Vec<(usize, Failure)>,
    /// Connections that have ended, for which slots may be waiting.
    freed: Vec<usize>,
}

#[derive(Debug, Default)]
struct StreamSlot {
    /// The connection that it uses.
    connection: Option<usize>,
    /// Whether it waits until a connection of its group has ended.
    waits: bool,
    /// The stream of its request; 0 without one.
    stream: u32,
    /// Whether the head of the response has arrived.
    has_head: bool,
    /// Bytes of the body so far, and how many there must be.
    received: u64,
    length: Option<u64>,
    /// Received bytes for which the server has not got room yet.
    consumed: u32,
    /// Bytes of the request's body that were sent, and room for more.
    sent: usize,
    window: i64,
}

impl StreamSlot {
    /// Forgets its stream.
    fn end_stream(&mut self) {
        *self =
            StreamSlot { connection: self.connection, waits: self.waits, ..StreamSlot::default() };
    }
}

impl Layer {
    /// The slots that may share connection `c`.
    fn group(&self, c: usize) -> std::ops::Range<usize> {
        let first = c / CONNECTIONS_EACH * self.streams;
        first..(first + self.streams).min(self.slots.len())
    }

    /// The slot of a stream of connection `c`.
    fn slot_of(&self, c: usize, stream: u32) -> Option<usize> {
        let is_this = |slot: &usize| {
            self.slots[*slot].stream == stream && self.slots[*slot].connection == Some(c)
        };
        self.group(c).find(is_this)
    }

    /// The slot leaves its connection, and forgets its stream. Returns the connection.
    fn detach(&mut self, slot: usize) -> Option<usize> {
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
struct StreamWire<'a> {
    below: &'a mut dyn Wire,
    layer: &'a mut Layer,
}

impl StreamWire<'_> {
    /// Finds a connection for a slot, or makes one.
    fn attach(&mut self, slot: usize) -> Result<Connect, Failure> {
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
    fn begin_stream(&mut self, slot: usize, c: usize) {
        let Layer { request, slots, connections, .. } = &mut *self.layer;
        let connection = &mut connections[c];
        let stream = connection.begin_stream(request);
        connection.unsent.push(slot);
        slots[slot].end_stream();
        slots[slot].stream = stream;
        slots[slot].window = connection.stream_window;
        self.send_body(slot, c);
    }

    /// Sends what the windows allow of the slot's body.
    fn send_body(&mut self, slot: usize, c: usize) {
        let Layer { request, slots, connections, .. } = &mut *self.layer;
        let (state, connection) = (&mut slots[slot], &mut connections[c]);
        while state.sent < request.body.len() {
            let rest = &request.body[state.sent..];
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
    fn send_blocked(&mut self, c: usize) {
        for slot in std::mem::take(&mut self.layer.connections[c].blocked) {
            self.send_body(slot, c);
        }
    }

    /// Begins streams that waited for those before them.
    fn begin_queued(&mut self, c: usize) {
        while self.layer.connections[c].active < self.layer.connections[c].streams_max
            && let Some(slot) = self.layer.connections[c].queue.pop_front()
        {
            self.begin_stream(slot, c);
        }
    }

    /// Sends what waits, unless something is being sent. After an error the connection below is
    /// closed.
    fn flush(&mut self, c: usize) -> Result<(), Failure> {
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
    fn flush_later(&mut self, c: usize) {
        if let Err(failure) = self.flush(c) {
            self.layer.broken.push((c, failure));
        }
    }

    /// The place of a connection that has ended is free.
    fn free(&mut self, c: usize) {
        self.layer.connections[c].reset();
        self.layer.freed.push(c);
    }

    /// Ends a slot from this side; returns the connection if no slot is left on it.
    fn leave(&mut self, slot: usize) -> Option<usize> {
        let stream = self.layer.slots[slot].stream;
        let c = self.layer.detach(slot)?;
        let connection = &mut self.layer.connections[c];
        if stream > 0 {
            frame::write_reset(&mut connection.outgoing, stream, error::CANCEL);
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

    fn send(&mut self, slot: usize) -> Result<(), Failure> {
        let Some(c) = self.layer.slots[slot].connection else { return Ok(()) };
        let connection = &mut self.layer.connections[c];
        if connection.active >= connection.streams_max {
            connection.queue.push_back(slot);
            return Ok(());
        }
        self.begin_stream(slot, c);
        self.flush_later(c);
        Ok(())
    }

    fn send_own(&mut self, _slot: usize, _message: &[u8]) -> Result<bool, Failure> {
        Err(Failure::Unsupported)
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

impl<E: Engine> Wire for Http2<E> {
    fn connect(&mut self, slot: usize) -> Result<Connect, Failure> {
        self.over().connect(slot)
    }

    fn send(&mut self, slot: usize) -> Result<(), Failure> {
        self.over().send(slot)
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

impl<E: Engine> Engine for Http2<E> {
    fn wire(&mut self) -> &mut dyn Wire {
        self
    }

    fn turn(&mut self, timeout: Nanos, handler: &mut dyn Handler) -> io::Result<()> {
        let is_settled = self.layer.broken.is_empty() && self.layer.freed.is_empty();
        let timeout = if is_settled { timeout } else { Nanos::ZERO };
        let mut relay = FrameRelay { layer: &mut self.layer, above: handler };
        relay.settle(self.below.wire());
        self.below.turn(timeout, &mut relay)?;
        relay.settle(self.below.wire());
        Ok(())
    }
}

/// Receives the events of the connections, and reports those of the streams.
struct FrameRelay<'a> {
    layer: &'a mut Layer,
    above: &'a mut dyn Handler,
}

/// The server broke the protocol.
struct ProtocolError;

impl FrameRelay<'_> {
    /// Reports connections that failed while they were used, and connects slots that waited.
    fn settle(&mut self, below: &mut dyn Wire) {
        for (c, failure) in std::mem::take(&mut self.layer.broken) {
            self.end(below, c, Ending::Failed(failure));
        }
        for c in std::mem::take(&mut self.layer.freed) {
            self.connect_waiting(below, self.layer.group(c));
        }
    }

    /// Connection `c` has ended: so have its slots.
    fn end(&mut self, below: &mut dyn Wire, c: usize, ending: Ending) {
        if self.layer.connections[c].phase == Phase::Closed {
            return;
        }
        let unsent = std::mem::take(&mut self.layer.connections[c].unsent);
        let queued = std::mem::take(&mut self.layer.connections[c].queue);
        let group = self.layer.group(c);
        let attached: Vec<usize> =
            group.filter(|slot| self.layer.slots[*slot].connection == Some(c)).collect();
        for slot in &attached {
            self.layer.slots[*slot] = StreamSlot::default();
        }
        self.layer.connections[c].reset();
        self.layer.freed.push(c);
        for slot in attached {
            let never_sent = unsent.contains(&slot) || queued.contains(&slot);
            let ending = match ending {
                // The others' requests were sent before.
                Ending::Failed(Failure::ClosedByPeer) if !never_sent => {
                    Ending::Failed(Failure::Reset)
                }
                Ending::Closed if queued.contains(&slot) => Ending::Failed(Failure::ClosedByPeer),
                ending => ending,
            };
            self.above.ended(&mut StreamWire { below, layer: self.layer }, slot, ending);
        }
    }

    /// Slots that waited for a connection to end may have one now.
    fn connect_waiting(&mut self, below: &mut dyn Wire, group: std::ops::Range<usize>) {
        for slot in group {
            if std::mem::take(&mut self.layer.slots[slot].waits) {
                let mut wire = StreamWire { below, layer: self.layer };
                match wire.attach(slot) {
                    Ok(Connect::Done) => self.above.connected(&mut wire, slot, None),
                    Ok(Connect::Pending) => {}
                    Err(failure) => {
                        self.above.ended(&mut wire, slot, Ending::Failed(failure));
                    }
                }
            }
        }
    }

    /// Processes all whole frames; false if the connection has ended meanwhile.
    fn process(
        &mut self,
        below: &mut dyn Wire,
        c: usize,
        bytes: &[u8],
    ) -> Result<bool, ProtocolError> {
        let generation = self.layer.connections[c].generation;
        let mut buffer = std::mem::take(&mut self.layer.connections[c].incoming);
        let mut rest = match buffer.is_empty() {
            true => bytes,
            false => {
                buffer.extend_from_slice(bytes);
                buffer.as_slice()
            }
        };
        while let Some(header) = FrameHeader::parse(rest) {
            if !self.layer.connections[c].has_settings && header.kind != kind::SETTINGS {
                return Err(ProtocolError);
            }
            if header.length > frame::PAYLOAD_MAX {
                return Err(ProtocolError);
            }
            let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + header.length) else { break };
            rest = &rest[HEADER_BYTES + header.length..];
            self.frame(below, c, header, payload)?;
            if self.layer.connections[c].generation != generation {
                return Ok(false);
            }
        }
        let left = rest.len();
        if buffer.is_empty() {
            buffer.extend_from_slice(&bytes[bytes.len() - left..]);
        } else {
            buffer.drain(..buffer.len() - left);
        }
        self.layer.connections[c].incoming = buffer;
        Ok(true)
    }

    fn frame(
        &mut self,
        below: &mut dyn Wire,
        c: usize,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ProtocolError> {
        let connection = &mut self.layer.connections[c];
        let number = || frame::number(payload).ok_or(ProtocolError);
        if connection.headers.is_some() && header.kind != kind::CONTINUATION {
            return Err(ProtocolError);
        }
        match header.kind {
            kind::DATA => return self.data(below, c, header, payload),
            kind::HEADERS => {
                let block = header.content(payload).ok_or(ProtocolError)?;
                if header.has(flag::END_HEADERS) {
                    return self.headers(below, c, header, block);
                }
                let block = block.to_vec();
                connection.headers = Some(UnfinishedHeaders { first: header, block });
            }
            kind::CONTINUATION => {
                let Some(mut headers) = connection.headers.take() else {
                    return Err(ProtocolError);
                };
                headers.block.extend_from_slice(payload);
                if headers.first.stream != header.stream || headers.block.len() > 1 << 20 {
                    return Err(ProtocolError);
                }
                if header.has(flag::END_HEADERS) {
                    return self.headers(below, c, headers.first, &headers.block);
                }
                connection.headers = Some(headers);
            }
            kind::RST_STREAM => {
                let failure = Http2Failure::Reset(number()?);
                if let Some(slot) = self.layer.slot_of(c, header.stream) {
                    self.fail(below, slot, failure);
                }
            }
            kind::SETTINGS if header.has(flag::ACK) => {}
            kind::SETTINGS => {
                let change = connection.apply(payload, &self.layer.request).ok_or(ProtocolError)?;
                for slot in self.layer.group(c) {
                    if self.layer.slots[slot].connection == Some(c) {
                        self.layer.slots[slot].window += change;
                    }
                }
                let mut wire = StreamWire { below, layer: self.layer };
                wire.send_blocked(c);
                wire.begin_queued(c);
            }
            kind::PING if !header.has(flag::ACK) => {
                frame::write(&mut connection.outgoing, kind::PING, flag::ACK, 0, payload);
            }
            kind::GOAWAY => {
                let last = number()? & 0x7fff_ffff;
                self.go_away(below, c, last);
            }
            kind::WINDOW_UPDATE => {
                let more = i64::from(number()? & 0x7fff_ffff);
                let window = match header.stream {
                    0 => &mut connection.window,
                    stream => match self.layer.slot_of(c, stream) {
                        Some(slot) => &mut self.layer.slots[slot].window,
                        None => return Ok(()),
                    },
                };
                *window += more;
                if *window > WINDOW_MAX {
                    return Err(ProtocolError);
                }
                StreamWire { below, layer: self.layer }.send_blocked(c);
            }
            kind::PUSH_PROMISE => return Err(ProtocolError),
            _ => {}
        }
        Ok(())
    }

    /// A stream that is not in progress must have been (RFC 9113, 5.1.1).
    fn was_begun(&self, c: usize, stream: u32) -> Result<(), ProtocolError> {
        let known = stream % 2 == 1 && stream < self.layer.connections[c].next_stream;
        if known { Ok(()) } else { Err(ProtocolError) }
    }

    fn data(
        &mut self,
        below: &mut dyn Wire,
        c: usize,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ProtocolError> {
        let content = header.content(payload).ok_or(ProtocolError)?;
        self.layer.connections[c].consume(payload.len());
        let Some(slot) = self.layer.slot_of(c, header.stream) else {
            return self.was_begun(c, header.stream);
        };
        let Layer { slots, connections, .. } = &mut *self.layer;
        let state = &mut slots[slot];
        if !state.has_head {
            return Err(ProtocolError);
        }
        state.received += content.len() as u64;
        if !header.has(flag::END_STREAM) {
            connections[c].consume_stream(header.stream, &mut state.consumed, payload.len());
        }
        if !content.is_empty() {
            let mut wire = StreamWire { below, layer: self.layer };
            self.above.received(&mut wire, slot, content, false);
        }
        let goes_on = self.layer.slots[slot].stream == header.stream
            && self.layer.slots[slot].connection == Some(c);
        if goes_on && header.has(flag::END_STREAM) {
            self.complete(below, c, slot);
        }
        Ok(())
    }

    fn headers(
        &mut self,
        below: &mut dyn Wire,
        c: usize,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), ProtocolError> {
        let head = self.layer.connections[c].decode(block).map_err(|_| ProtocolError)?;
        let Some(slot) = self.layer.slot_of(c, header.stream) else {
            return self.was_begun(c, header.stream);
        };
        let state = &mut self.layer.slots[slot];
        let ends = header.has(flag::END_STREAM);
        match (state.has_head, head.status) {
            // Trailers.
            (true, 0) if ends => {}
            // Interim responses are not the response (RFC 9110, 15.2).
            (false, 100..=199) if !ends => return Ok(()),
            (false, 200..) => {
                state.has_head = true;
                state.length = head.length;
                let mut wire = StreamWire { below, layer: self.layer };
                self.above.responded(&mut wire, slot, head.status);
            }
            // One stream is malformed, the connection is not (RFC 9113, 8.1.1).
            _ => {
                let connection = &mut self.layer.connections[c];
                let malformed = error::PROTOCOL_ERROR;
                frame::write_reset(&mut connection.outgoing, header.stream, malformed);
                self.fail(below, slot, Http2Failure::Broken);
                return Ok(());
            }
        }
        if ends && self.layer.slots[slot].stream == header.stream {
            self.complete(below, c, slot);
        }
        Ok(())
    }

    /// A stream failed, its connection did not.
    fn fail(&mut self, below: &mut dyn Wire, slot: usize, failure: Http2Failure) {
        let c = self.layer.detach(slot);
        let mut wire = StreamWire { below, layer: self.layer };
        let ending = Ending::Failed(Failure::Http2(failure));
        self.above.ended(&mut wire, slot, ending);
        if let Some(c) = c {
            wire.begin_queued(c);
            wire.close_if_left(c);
        }
    }

    /// The slot's response is complete.
    fn complete(&mut self, below: &mut dyn Wire, c: usize, slot: usize) {
        let Layer { request, slots, connections, .. } = &mut *self.layer;
        let (state, connection) = (&mut slots[slot], &mut connections[c]);
        // A response to HEAD has the length of the body that GET would get (RFC 9110, 8.6).
        let is_whole =
            request.is_head || state.length.is_none_or(|length| length == state.received);
        if !is_whole {
            return self.fail(below, slot, Http2Failure::WrongLength);
        }
        if state.sent < request.body.len() {
            // The server needs no more of the request.
            frame::write_reset(&mut connection.outgoing, state.stream, error::NO_ERROR);
        }
        state.end_stream();
        connection.active -= 1;
        connection.blocked.retain(|waiting| *waiting != slot);
        if connection.next_stream > STREAM_MAX {
            connection.phase = Phase::Draining;
        }
        let keeps = connection.phase == Phase::Open;
        let mut wire = StreamWire { below, layer: self.layer };
        self.above.completed(&mut wire, slot, keeps);
        wire.begin_queued(c);
    }

    /// The server ends the connection after stream `last`.
    fn go_away(&mut self, below: &mut dyn Wire, c: usize, last: u32) {
        let connection = &mut self.layer.connections[c];
        connection.phase = Phase::Draining;
        let queued = std::mem::take(&mut connection.queue);
        let generation = connection.generation;
        for slot in self.layer.group(c) {
            let StreamSlot { connection: Some(mine), stream, .. } = self.layer.slots[slot] else {
                continue;
            };
            if mine != c || stream > 0 && stream <= last {
                continue;
            }
            let ending = if stream > 0 {
                Ending::Failed(Failure::Http2(Http2Failure::GoneAway))
            } else if queued.contains(&slot) {
                // It was not sent.
                Ending::Failed(Failure::ClosedByPeer)
            } else {
                Ending::Closed
            };
            self.layer.detach(slot);
            let mut wire = StreamWire { below, layer: self.layer };
            self.above.ended(&mut wire, slot, ending);
        }
        if self.layer.connections[c].generation == generation {
            StreamWire { below, layer: self.layer }.close_if_left(c);
        }
    }
}

impl StreamWire<'_> {
    /// Closes a connection that the server is ending once no slot uses it any more.
    fn close_if_left(&mut self, c: usize) {
        let connection = &mut self.layer.connections[c];
        if connection.phase == Phase::Draining && connection.attached == 0 {
            self.free(c);
            self.below.retire(c);
        }
    }
}

impl Handler for FrameRelay<'_> {
    fn connected(&mut self, below: &mut dyn Wire, c: usize, handshake: Option<Handshake>) {
        let connection = &mut self.layer.connections[c];
        connection.phase = Phase::Open;
        connection.is_corked = true;
        connection.greet();
        let generation = connection.generation;
        let mut handshake = handshake;
        for slot in self.layer.group(c) {
            if self.layer.slots[slot].connection == Some(c) {
                let mut wire = StreamWire { below, layer: self.layer };
                self.above.connected(&mut wire, slot, handshake.take());
            }
        }
        self.uncork(below, c, generation);
    }

    fn taken(&mut self, below: &mut dyn Wire, c: usize) {
        self.layer.connections[c].is_sending = false;
        let generation = self.layer.connections[c].generation;
        self.uncork(below, c, generation);
    }

    fn received(&mut self, below: &mut dyn Wire, c: usize, bytes: &[u8], _closing: bool) {
        let connection = &mut self.layer.connections[c];
        connection.is_corked = true;
        let (generation, had_settings) = (connection.generation, connection.has_settings);
        if self.process(below, c, bytes).is_ok() {
            return self.uncork(below, c, generation);
        }
        if self.layer.connections[c].generation != generation {
            return;
        }
        let connection = &mut self.layer.connections[c];
        frame::write_goaway(&mut connection.outgoing, 0, error::PROTOCOL_ERROR);
        connection.is_corked = false;
        // It is closed either way.
        let _ = StreamWire { below, layer: self.layer }.flush(c);
        below.close(c);
        let failure = if had_settings { Http2Failure::Broken } else { Http2Failure::NotHttp2 };
        self.end(below, c, Ending::Failed(Failure::Http2(failure)));
    }

    fn ended(&mut self, below: &mut dyn Wire, c: usize, ending: Ending) {
        self.end(below, c, ending);
    }
}

impl FrameRelay<'_> {
    /// Sends what has gathered, if the connection is still the same.
    fn uncork(&mut self, below: &mut dyn Wire, c: usize, generation: u32) {
        if self.layer.connections[c].generation != generation {
            return;
        }
        self.layer.connections[c].is_corked = false;
        if let Err(failure) = (StreamWire { below, layer: self.layer }).flush(c) {
            self.end(below, c, Ending::Failed(failure));
        }
    }
}
