//! The frames of connections, as events of their streams.

use netio::{
    Connect, Ending, Failure, GrpcFields, Handler, Handshake, Http2Failure, TlsFailure, Wire,
};

use crate::connection::{FieldReader, Phase, STREAM_MAX, UnfinishedHeaders};
use crate::frame::{self, FrameHeader, HEADER_BYTES, WINDOW_MAX, error, flag, kind};
use crate::streams::{Layer, StreamSlot, StreamWire};

/// Receives the events of the connections, and reports those of the streams.
pub(crate) struct FrameRelay<'a> {
    pub(crate) layer: &'a mut Layer,
    pub(crate) above: &'a mut dyn Handler,
}

/// The server broke the protocol.
struct ProtocolError;

impl FrameRelay<'_> {
    /// Reports connections that failed while they were used, and connects slots that waited.
    pub(crate) fn settle(&mut self, below: &mut dyn Wire) {
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
                Ending::Closed | Ending::Failed(Failure::Tls(TlsFailure::Unannounced))
                    if queued.contains(&slot) =>
                {
                    Ending::Failed(Failure::ClosedByPeer)
                }
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
            let is_greeting = header.kind == kind::SETTINGS && !header.has(flag::ACK);
            if !self.layer.connections[c].has_settings && !is_greeting {
                return Err(ProtocolError);
            }
            if header.length > frame::PAYLOAD_MAX || !header.is_sound() {
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
                match self.layer.slot_of(c, header.stream) {
                    Some(slot) => self.fail(below, slot, failure),
                    None => {
                        self.layer.connections[c].forget(header.stream);
                        return self.was_begun(c, header.stream);
                    }
                }
            }
            kind::PRIORITY if payload.len() != 5 => {
                if let Some(slot) = self.layer.slot_of(c, header.stream) {
                    self.refuse(below, c, slot, error::FRAME_SIZE_ERROR);
                }
            }
            kind::SETTINGS if header.has(flag::ACK) => {}
            kind::SETTINGS => {
                let change = connection
                    .apply(payload, self.layer.requests.table_bytes)
                    .ok_or(ProtocolError)?;
                for slot in self.layer.group(c) {
                    let state = &mut self.layer.slots[slot];
                    if state.connection == Some(c) && state.stream > 0 {
                        state.window += change;
                        if state.window > WINDOW_MAX {
                            return Err(ProtocolError);
                        }
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
                let slot = self.layer.slot_of(c, header.stream);
                let window = match (header.stream, slot) {
                    (0, _) => &mut self.layer.connections[c].window,
                    (_, Some(slot)) => &mut self.layer.slots[slot].window,
                    (stream, None) => return self.was_begun(c, stream),
                };
                *window += more;
                if more > 0 && *window <= WINDOW_MAX {
                    StreamWire { below, layer: self.layer }.send_blocked(c);
                } else if header.stream == 0 {
                    return Err(ProtocolError);
                } else if let Some(slot) = slot {
                    self.refuse(below, c, slot, error::FLOW_CONTROL_ERROR);
                }
            }
            kind::PUSH_PROMISE => return Err(ProtocolError),
            _ => {}
        }
        Ok(())
    }

    /// A frame of a stream that is not in progress answers no request, unless it was on its way when
    /// this side reset the stream (RFC 9113, 5.1).
    fn answers_nothing(&mut self, c: usize, header: FrameHeader) -> Result<(), ProtocolError> {
        let was_abandoned = self.layer.connections[c].was_abandoned(header);
        was_abandoned.then_some(()).ok_or(ProtocolError)
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
            return self.answers_nothing(c, header);
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
        let slot = self.layer.slot_of(c, header.stream);
        let is_trailers = slot.is_some_and(|slot| self.layer.slots[slot].has_head);
        let Layer { requests, slots, connections, .. } = &mut *self.layer;
        let asking =
            slot.filter(|slot| !is_trailers && slots[*slot].request(requests).asks_for_headers);
        let above = &mut *self.above;
        // The headers of an interim response are not the response's. Its status comes first, or it is
        // malformed.
        let mut is_interim = false;
        let mut report = |name: &[u8], value: &[u8]| {
            is_interim |= name == b":status" && value.starts_with(b"1");
            if let Some(slot) = asking.filter(|_| !is_interim) {
                above.header(slot, name, value);
            }
        };
        let each: Option<FieldReader<'_>> = match asking {
            Some(_) => Some(&mut report),
            None => None,
        };
        let head = connections[c].decode(block, is_trailers, each).map_err(|_| ProtocolError)?;
        let Some(slot) = slot else {
            return self.answers_nothing(c, header);
        };
        let Layer { requests, slots, .. } = &mut *self.layer;
        let state = &mut slots[slot];
        let is_head = state.request(requests).is_head;
        let ends = header.has(flag::END_STREAM);
        if head.is_malformed {
            self.refuse(below, c, slot, error::PROTOCOL_ERROR);
            return Ok(());
        }
        match (state.has_head, head.status) {
            // Trailers.
            (true, 0) if ends => self.above.called(slot, head.grpc),
            // Interim responses are not the response (RFC 9110, 15.2).
            (false, 100..=199) if !ends => return Ok(()),
            (false, 200..) => {
                state.has_head = true;
                // Of these, the length is that of another response (RFC 9110, 8.6).
                let is_empty = is_head || matches!(head.status, 204 | 304);
                state.length = if is_empty { Some(0) } else { head.length };
                // The status of a call stands where its stream ends.
                let status = head.grpc.status.filter(|_| ends);
                self.above.called(slot, GrpcFields { status, ..head.grpc });
                let mut wire = StreamWire { below, layer: self.layer };
                self.above.responded(&mut wire, slot, head.status);
            }
            _ => {
                self.refuse(below, c, slot, error::PROTOCOL_ERROR);
                return Ok(());
            }
        }
        if ends && self.layer.slots[slot].stream == header.stream {
            self.complete(below, c, slot);
        }
        Ok(())
    }

    /// The server broke the protocol on one stream, and may keep to it on the others (RFC 9113, 5.4.2
    /// and 8.1.1).
    fn refuse(&mut self, below: &mut dyn Wire, c: usize, slot: usize, error: u32) {
        let stream = self.layer.slots[slot].stream;
        self.layer.connections[c].abandon(stream, error);
        self.fail(below, slot, Http2Failure::Broken);
    }

    /// A stream failed, its connection did not.
    fn fail(&mut self, below: &mut dyn Wire, slot: usize, failure: Http2Failure) {
        let c = self.layer.detach(slot);
        let mut wire = StreamWire { below, layer: self.layer };
        // Before the next request looks for a connection.
        c.iter().for_each(|c| wire.close_if_left(*c));
        let ending = Ending::Failed(Failure::Http2(failure));
        self.above.ended(&mut wire, slot, ending);
        c.iter().for_each(|c| wire.begin_queued(*c));
    }

    /// The slot's response is complete.
    fn complete(&mut self, below: &mut dyn Wire, c: usize, slot: usize) {
        let Layer { requests, slots, connections, .. } = &mut *self.layer;
        let (state, connection) = (&mut slots[slot], &mut connections[c]);
        let body_length = state.request(requests).body.len();
        if state.length.is_some_and(|length| length != state.received) {
            return self.fail(below, slot, Http2Failure::WrongLength);
        }
        if state.sent < body_length {
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
        let generation = connection.generation;
        if self.process(below, c, bytes).is_ok() {
            return self.uncork(below, c, generation);
        }
        if self.layer.connections[c].generation != generation {
            return;
        }
        let connection = &mut self.layer.connections[c];
        let has_settings = connection.has_settings;
        frame::write_goaway(&mut connection.outgoing, 0, error::PROTOCOL_ERROR);
        connection.is_corked = false;
        // It is closed either way.
        let _ = StreamWire { below, layer: self.layer }.flush(c);
        below.close(c);
        let failure = if has_settings { Http2Failure::Broken } else { Http2Failure::NotHttp2 };
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
