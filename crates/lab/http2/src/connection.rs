//! One connection: what both sides have agreed on, and what waits to be sent.

use std::collections::{HashSet, VecDeque};

use crate::fields::ResponseHead;
use crate::frame::{self, FrameHeader, WINDOW, WINDOW_MAX, flag, setting};
use crate::hpack::{Decoder, HpackError, TABLE_BYTES};
use crate::request::Request;

/// Received bytes after which the server gets room for as many again.
const CONSUMED_MAX: u32 = 1 << 29;

/// The last stream that is begun on a connection; the rest of the numbers is for those in progress.
pub(crate) const STREAM_MAX: u32 = 0x7fff_0000;

/// Whether requests can be sent on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    #[default]
    Closed,
    /// It is being made.
    Connecting,
    Open,
    /// The server has announced its end: only the streams that it processes are waited for.
    Draining,
}

/// Headers whose last frame has not arrived yet.
#[derive(Debug)]
pub(crate) struct UnfinishedHeaders {
    pub(crate) first: FrameHeader,
    pub(crate) block: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    /// Distinguishes it from earlier ones in its place.
    pub(crate) generation: u32,
    /// Slots that use it.
    pub(crate) attached: usize,
    /// Streams in progress.
    pub(crate) active: usize,
    /// The number of the next stream.
    pub(crate) next_stream: u32,
    /// Slots that wait for one of the streams that the server allows.
    pub(crate) queue: VecDeque<usize>,
    /// Slots whose body waits for room.
    pub(crate) blocked: Vec<usize>,
    /// Received bytes that are not a whole frame yet.
    pub(crate) incoming: Vec<u8>,
    pub(crate) outgoing: Vec<u8>,
    /// Slots whose requests are in `outgoing`.
    pub(crate) unsent: Vec<usize>,
    /// Whether the engine below has bytes that the kernel has not taken.
    pub(crate) is_sending: bool,
    /// Whether sending waits until all received bytes are processed.
    pub(crate) is_corked: bool,
    pub(crate) headers: Option<UnfinishedHeaders>,
    /// Streams that this side has reset, and of which the server may have sent more before it knew.
    abandoned: HashSet<u32>,
    /// Whether the server's parameters have arrived.
    pub(crate) has_settings: bool,
    /// What the server allows.
    pub(crate) streams_max: usize,
    pub(crate) payload_max: usize,
    pub(crate) window: i64,
    pub(crate) stream_window: i64,
    /// How the next request is encoded.
    encoding: Encoding,
    decoder: Decoder,
    /// The last block of headers and the last one of trailers, if the same bytes mean the same again.
    last: [KnownBlock; 2],
    /// Received bytes for which the server has not got room yet.
    consumed: u32,
}

/// A block of headers, and its meaning.
#[derive(Debug, Default)]
struct KnownBlock {
    bytes: Vec<u8>,
    head: ResponseHead,
}

/// Gets name and value of each field of a block.
pub(crate) type FieldReader<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// How requests are encoded on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// The next one fills the server's table.
    First,
    /// The server's table has its headers.
    Indexed,
    /// Without a table, whose size has to be set to zero first.
    TableClosed,
    Literal,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection {
            phase: Phase::Closed,
            generation: 0,
            attached: 0,
            active: 0,
            next_stream: 1,
            queue: VecDeque::new(),
            blocked: Vec::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            unsent: Vec::new(),
            is_sending: false,
            is_corked: false,
            headers: None,
            abandoned: HashSet::new(),
            has_settings: false,
            streams_max: usize::MAX,
            payload_max: frame::PAYLOAD_MAX,
            window: WINDOW,
            stream_window: WINDOW,
            encoding: Encoding::First,
            decoder: Decoder::default(),
            last: Default::default(),
            consumed: 0,
        }
    }
}

impl Connection {
    /// Empties its place for another one.
    pub(crate) fn reset(&mut self) {
        *self = Connection { generation: self.generation.wrapping_add(1), ..Connection::default() };
    }

    /// Adds the client's first bytes: no pushes, and windows that never fill.
    pub(crate) fn greet(&mut self) {
        self.outgoing.extend_from_slice(frame::PREFACE);
        let window = WINDOW_MAX as u32;
        frame::write_settings(
            &mut self.outgoing,
            &[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, window)],
        );
        frame::write_window_update(&mut self.outgoing, 0, (WINDOW_MAX - WINDOW) as u32);
    }

    /// Applies the server's parameters, if requests need a table of `needed_bytes`. Returns by how much the windows of its streams changed, or
    /// `None` for values that are not allowed.
    pub(crate) fn apply(&mut self, payload: &[u8], needed_bytes: usize) -> Option<i64> {
        let before = self.stream_window;
        for (name, value) in frame::settings(payload)? {
            let number = value as usize;
            match name {
                setting::HEADER_TABLE_SIZE => self.limit_table(number, needed_bytes),
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = number,
                setting::ENABLE_PUSH if value != 0 => return None,
                setting::INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => return None,
                setting::INITIAL_WINDOW_SIZE => self.stream_window = i64::from(value),
                setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&number) => return None,
                setting::MAX_FRAME_SIZE => self.payload_max = number,
                _ => {}
            }
        }
        self.has_settings = true;
        frame::write(&mut self.outgoing, frame::kind::SETTINGS, frame::flag::ACK, 0, &[]);
        Some(self.stream_window - before)
    }

    /// The server's table has at most so many bytes: if more are needed, requests are sent without one
    /// (RFC 7541, 4.2).
    fn limit_table(&mut self, bytes: usize, needed_bytes: usize) {
        if bytes.min(TABLE_BYTES) < needed_bytes && self.encoding != Encoding::Literal {
            self.encoding = Encoding::TableClosed;
        }
    }

    /// Adds the headers of a request on a new stream, and returns its number.
    pub(crate) fn begin_stream(&mut self, request: &Request) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.active += 1;
        let ends = request.body.is_empty();
        let block = match self.encoding {
            Encoding::First if !request.is_literal() => {
                self.encoding = Encoding::Indexed;
                &request.first
            }
            Encoding::Indexed if !request.is_literal() => &request.next,
            Encoding::First | Encoding::Indexed | Encoding::Literal => &request.literal,
            Encoding::TableClosed => {
                self.encoding = Encoding::Literal;
                let block = [&[0x20], request.literal.as_slice()].concat();
                frame::write_headers(&mut self.outgoing, stream, &block, ends);
                return stream;
            }
        };
        frame::write_headers(&mut self.outgoing, stream, block, ends);
        stream
    }

    /// What a block of headers or trailers says; `each` gets every field of it, if it is given.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        is_trailers: bool,
        mut each: Option<FieldReader<'_>>,
    ) -> Result<ResponseHead, HpackError> {
        let last = &mut self.last[usize::from(is_trailers)];
        if last.bytes == block && !block.is_empty() && each.is_none() {
            return Ok(last.head);
        }
        let mut head = ResponseHead::default();
        let repeats = self.decoder.decode(block, &mut |name, value| {
            head.add(name, value);
            if let Some(each) = &mut each {
                each(name, value);
            }
        })?;
        last.bytes.clear();
        if repeats {
            last.bytes.extend_from_slice(block);
            last.head = head;
        } else {
            // The same bytes may mean something else now.
            self.last.iter_mut().for_each(|last| last.bytes.clear());
        }
        Ok(head)
    }

    /// Resets a stream.
    pub(crate) fn abandon(&mut self, stream: u32, error: u32) {
        frame::write_reset(&mut self.outgoing, stream, error);
        self.abandoned.insert(stream);
    }

    /// The server has reset a stream too, and sends no more of it.
    pub(crate) fn forget(&mut self, stream: u32) {
        self.abandoned.remove(&stream);
    }

    /// Whether a frame of a stream that is not in progress was on its way when this side reset it.
    pub(crate) fn was_abandoned(&mut self, header: FrameHeader) -> bool {
        match header.has(flag::END_STREAM) {
            true => self.abandoned.remove(&header.stream),
            false => self.abandoned.contains(&header.stream),
        }
    }

    /// Received bytes of bodies: the server gets new room when it has used a part of it.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.consumed += bytes as u32;
        if self.consumed >= CONSUMED_MAX {
            frame::write_window_update(&mut self.outgoing, 0, self.consumed);
            self.consumed = 0;
        }
    }

    /// The same for one stream, of which `consumed` bytes have been received.
    pub(crate) fn consume_stream(&mut self, stream: u32, consumed: &mut u32, bytes: usize) {
        *consumed += bytes as u32;
        if *consumed >= CONSUMED_MAX {
            frame::write_window_update(&mut self.outgoing, stream, *consumed);
            *consumed = 0;
        }
    }
}
