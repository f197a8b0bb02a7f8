//! The response reader: bytes in, events out, however the bytes are split.

use std::sync::Arc;

use super::HEAD_MAX;
use super::chunked::{ChunkedBody, Piece};
use super::head::{self, Framing, ResponseHead};
use super::template::Heads;
use crate::Fault;

/// Receives the parts of a response.
pub trait Sink {
    /// The whole head of the final response; its status follows.
    fn head(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The status of the final response; interim ones (1xx) are skipped.
    fn status(&mut self, status: u16);

    /// The next part of the body, without its framing.
    fn body(&mut self, bytes: &[u8]);
}

/// The state after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The response is incomplete.
    More,
    /// The response is complete.
    Done {
        /// Whether the connection can carry another request.
        keep_alive: bool,
    },
}

/// Reads a sequence of responses.
///
/// Does no I/O. Copies and allocates only for a head that arrives in several pieces, and for the
/// first few heads, which are kept: a later head that differs only in unimportant values is
/// compared with them instead of being parsed.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
    /// Kept heads by kind of request; empty to parse every head.
    known: Arc<[Heads]>,
    /// The kind of request.
    kind: usize,
    /// The pieces of an incomplete head.
    head: Vec<u8>,
    /// Whether the request's method is HEAD.
    to_head: bool,
    keep_alive: bool,
    /// Whether any byte of a response has arrived.
    begun: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(ChunkedBody),
    UntilClose,
    Done,
}

impl ResponseReader {
    /// A reader of responses; `to_head` means that the requests' method is HEAD.
    pub fn new(to_head: bool) -> ResponseReader {
        ResponseReader { to_head, ..ResponseReader::of_kinds(1) }
    }

    /// A reader of responses to so many kinds of request, which keeps the heads of each.
    pub fn of_kinds(kinds: usize) -> ResponseReader {
        ResponseReader::with(false, (0..kinds).map(|_| Heads::default()).collect())
    }

    /// A reader that parses every head. It gives the same results, and serves as the reference in
    /// tests.
    pub fn parsing_every_head(to_head: bool) -> ResponseReader {
        ResponseReader::with(to_head, Arc::from([]))
    }

    /// A reader for another connection to the same server, which shares the kept heads.
    pub fn another(&self) -> ResponseReader {
        ResponseReader::with(self.to_head, self.known.clone())
    }

    fn with(to_head: bool, known: Arc<[Heads]>) -> ResponseReader {
        ResponseReader {
            state: State::Done,
            known,
            kind: 0,
            head: Vec::new(),
            to_head,
            keep_alive: false,
            begun: false,
        }
    }

    /// A request has been sent, so a response follows.
    pub fn begin(&mut self) {
        self.state = State::Head;
        self.head.clear();
        self.begun = false;
    }

    /// The same for a request of this kind, whose method is HEAD or not.
    pub fn begin_kind(&mut self, kind: usize, to_head: bool) {
        self.kind = kind;
        self.to_head = to_head;
        self.begin();
    }

    /// Reads the next bytes. After an error the connection is unusable.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<Flow, Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let consumed = match &mut self.state {
                State::Done => return Err(Fault::SurplusBytes),
                State::Head => self.push_head(rest, sink)?,
                State::UntilClose => {
                    sink.body(rest);
                    rest.len()
                }
                State::Length(left) => {
                    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    sink.body(&rest[..n]);
                    *left -= n as u64;
                    if *left == 0 {
                        self.state = State::Done;
                    }
                    n
                }
                State::Chunked(chunked) => match chunked.step(rest)? {
                    Piece::Framing(n) => n,
                    Piece::Data(n) => {
                        sink.body(&rest[..n]);
                        n
                    }
                    Piece::End(n) => {
                        self.state = State::Done;
                        n
                    }
                },
            };
            rest = &rest[consumed..];
        }
        Ok(self.flow())
    }

    /// The server has closed: completes a response delimited by that; an error for any other.
    pub fn end(&mut self) -> Result<Flow, Fault> {
        match self.state {
            State::UntilClose => {
                self.state = State::Done;
                Ok(Flow::Done { keep_alive: false })
            }
            _ if self.begun => Err(Fault::ClosedWithin),
            _ => Err(Fault::ClosedBefore),
        }
    }

    fn flow(&self) -> Flow {
        match self.state {
            State::Done => Flow::Done { keep_alive: self.keep_alive },
            _ => Flow::More,
        }
    }

    /// Consumes bytes of a head; returns their number.
    fn push_head(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        self.begun = true;
        if self.head.is_empty()
            && let Some((head, length)) =
                self.known.get(self.kind).and_then(|heads| heads.find(bytes))
        {
            sink.head(&bytes[..length]);
            self.take_final(head, sink);
            return Ok(length);
        }
        if self.head.is_empty()
            && let Some(end) = head::head_end(bytes)
        {
            head::check_beginning(bytes)?;
            self.take_head(&bytes[..end], sink)?;
            return Ok(end);
        }
        self.push_line(bytes, sink)
    }

    /// Consumes bytes up to the end of a line, so that nothing of the body is copied; returns their
    /// number.
    fn push_line(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let taken = line.min(HEAD_MAX + 1 - self.head.len());
        self.head.extend_from_slice(&bytes[..taken]);
        head::check_beginning(&self.head)?;
        if self.head.ends_with(b"\n\n") || self.head.ends_with(b"\n\r\n") {
            let pieces = std::mem::take(&mut self.head);
            self.take_head(&pieces, sink)?;
            self.head = pieces;
            self.head.clear();
        } else if self.head.len() >= HEAD_MAX {
            return Err(Fault::HeadTooLarge);
        }
        Ok(taken)
    }

    fn take_head(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        if bytes.len() > HEAD_MAX {
            return Err(Fault::HeadTooLarge);
        }
        let head = head::parse(bytes, self.to_head)?;
        match head.status {
            101 => return Err(Fault::UnexpectedUpgrade),
            100..=199 => return Ok(()),
            _ => {}
        }
        if let Some(heads) = self.known.get(self.kind) {
            heads.learn(bytes, head);
        }
        sink.head(bytes);
        self.take_final(head, sink);
        Ok(())
    }

    /// The head of the final response is complete: its body follows.
    fn take_final(&mut self, head: ResponseHead, sink: &mut impl Sink) {
        let ResponseHead { status, framing, keep_alive } = head;
        sink.status(status);
        self.keep_alive = keep_alive;
        self.state = match framing {
            Framing::Empty => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(ChunkedBody::new()),
            Framing::UntilClose => State::UntilClose,
        };
    }
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
