//! Reading one response of any exchange, and comparing it with the expected one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netio::{Address, GrpcFields, Messages};
use spec::{Check as Level, Exchange, Expect, HttpVersion, Load};

use crate::Fault;
use crate::deck::Card;
use crate::events::EventReader;
use crate::grpc::UnaryReader;
use crate::http::{Flow, ResponseReader, Sink};
use crate::observe::LearnedResponse;
use crate::values::ResponseCopy;

/// How the end of a response is found.
#[derive(Debug)]
pub(crate) enum ResponseEnd {
    /// By HTTP's framing.
    Http(ResponseReader),
    /// By HTTP/2, whose engine reports it.
    Framed,
    /// By HTTP/2, and it answers a call by gRPC.
    Unary(UnaryReader),
    /// By the server closing the connection.
    UntilClose,
    /// After this many bytes.
    Sized { size: u64 },
    /// By the transport, which preserves message boundaries.
    Message,
    /// There is none: nothing may be received.
    Nothing,
    /// An endless stream, counted in chunks.
    Stream {
        chunk: u64,
        /// Received, but not yet part of a counted chunk.
        waiting: u64,
    },
}

impl ResponseEnd {
    pub(crate) fn new(load: &Load, address: &Address, kinds: usize) -> ResponseEnd {
        match &load.exchange {
            Exchange::Http(_) if load.grpc.is_some() => ResponseEnd::Unary(UnaryReader::default()),
            Exchange::Http(_) if load.http == HttpVersion::Http2 => ResponseEnd::Framed,
            Exchange::Http(_) => ResponseEnd::Http(ResponseReader::of_kinds(kinds)),
            Exchange::Oneshot => ResponseEnd::UntilClose,
            Exchange::Echo { .. } if address.keeps_messages() => ResponseEnd::Message,
            Exchange::Echo { size } => ResponseEnd::Sized { size: size.0 },
            Exchange::Bulk { chunk } => ResponseEnd::Stream { chunk: chunk.0, waiting: 0 },
            Exchange::Lines(_) => ResponseEnd::Nothing,
        }
    }

    /// The same for another connection to the same server.
    pub(crate) fn another(&self) -> ResponseEnd {
        match *self {
            ResponseEnd::Http(ref reader) => ResponseEnd::Http(reader.another()),
            ResponseEnd::Framed => ResponseEnd::Framed,
            ResponseEnd::Unary(_) => ResponseEnd::Unary(UnaryReader::default()),
            ResponseEnd::UntilClose => ResponseEnd::UntilClose,
            ResponseEnd::Sized { size } => ResponseEnd::Sized { size },
            ResponseEnd::Message => ResponseEnd::Message,
            ResponseEnd::Nothing => ResponseEnd::Nothing,
            ResponseEnd::Stream { chunk, .. } => ResponseEnd::Stream { chunk, waiting: 0 },
        }
    }

    /// Whether the server sends without a request.
    pub(crate) fn needs_no_request(&self) -> bool {
        matches!(self, ResponseEnd::UntilClose | ResponseEnd::Stream { .. })
    }

    /// A request has been sent.
    pub(crate) fn begin(&mut self, card: Card) {
        match self {
            ResponseEnd::Http(reader) => reader.begin_kind(card.kind as usize, card.to_head),
            ResponseEnd::Unary(reader) => *reader = UnaryReader::default(),
            _ => {}
        }
    }

    /// Headers or trailers say something about a call.
    pub(crate) fn called(&mut self, fields: GrpcFields) {
        if let ResponseEnd::Unary(reader) = self {
            reader.note(fields);
        }
    }

    /// What is wrong with a complete response, whatever was expected.
    pub(crate) fn verdict(&self, seen: &ReceivedResponse) -> Result<(), Fault> {
        match self {
            ResponseEnd::Unary(reader) => reader.verdict(seen.status),
            _ => Ok(()),
        }
    }

    /// A new connection: discards bytes of the old stream.
    pub(crate) fn connected(&mut self) {
        if let ResponseEnd::Stream { waiting, .. } = self {
            *waiting = 0;
        }
    }

    /// Reads the next bytes of anything except a stream in chunks.
    pub(crate) fn push(&mut self, bytes: &[u8], check: &mut Check<'_>) -> Result<Flow, Fault> {
        const KEPT: Flow = Flow::Done { keep_alive: true };
        match self {
            ResponseEnd::Http(reader) => reader.push(bytes, check),
            ResponseEnd::Unary(reader) => {
                reader.push(bytes, |message| check.body(message));
                Ok(Flow::More)
            }
            ResponseEnd::UntilClose | ResponseEnd::Framed => {
                check.body(bytes);
                Ok(Flow::More)
            }
            ResponseEnd::Message => {
                check.body(bytes);
                Ok(KEPT)
            }
            ResponseEnd::Sized { size } => {
                check.body(bytes);
                match check.seen.bytes.cmp(size) {
                    std::cmp::Ordering::Less => Ok(Flow::More),
                    std::cmp::Ordering::Equal => Ok(KEPT),
                    std::cmp::Ordering::Greater => Err(Fault::SurplusBytes),
                }
            }
            ResponseEnd::Nothing => Err(Fault::SurplusBytes),
            ResponseEnd::Stream { waiting, .. } => {
                *waiting += bytes.len() as u64;
                Ok(Flow::More)
            }
        }
    }

    /// Consumes one whole chunk of a stream, if it has arrived.
    pub(crate) fn take_chunk(&mut self, seen: &mut ReceivedResponse) -> bool {
        match self {
            ResponseEnd::Stream { chunk, waiting } if *waiting >= *chunk => {
                *waiting -= *chunk;
                seen.bytes = *chunk;
                true
            }
            _ => false,
        }
    }

    /// The server has closed the connection.
    pub(crate) fn end(&mut self, seen: &ReceivedResponse) -> Result<Flow, Fault> {
        match self {
            ResponseEnd::Http(reader) => reader.end(),
            ResponseEnd::UntilClose if seen.bytes > 0 => Ok(Flow::Done { keep_alive: false }),
            ResponseEnd::Stream { waiting, .. } if *waiting > 0 => Err(Fault::ClosedWithin),
            _ if seen.bytes > 0 || seen.status > 0 => Err(Fault::ClosedWithin),
            _ => Err(Fault::ClosedBefore),
        }
    }
}

/// The expected response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedResponse {
    status: Option<u16>,
    body: Option<Arc<[u8]>>,
    length: Option<u64>,
    /// What the load demands to be compared, if it does.
    check: Option<Level>,
    /// Counts deviations instead of reporting them, while the response is learned.
    deviations: Option<Arc<Deviations>>,
}

/// Responses that differ from the learned one, while that is still being learned.
#[derive(Debug, Default)]
pub(crate) struct Deviations {
    /// Only in the bytes of the body.
    body: AtomicU64,
    /// In the length.
    length: AtomicU64,
}

impl Deviations {
    /// Those that differ only in their bytes, and those that differ in their length.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.body.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed))
    }
}

impl ExpectedResponse {
    /// What can be checked before the first response, for each kind of request.
    pub(crate) fn of_load(load: &Load, messages: &Messages) -> Vec<ExpectedResponse> {
        let of = |expect| ExpectedResponse::from_load(&load.exchange, expect, &messages[0]);
        match load.kinds.as_slice() {
            [] => vec![of(&load.expect)],
            kinds => kinds.iter().map(|kind| of(&kind.expect)).collect(),
        }
    }

    /// What can be checked before the first response.
    pub(crate) fn from_load(
        exchange: &Exchange,
        expect: &Expect,
        message: &Arc<[u8]>,
    ) -> ExpectedResponse {
        match exchange {
            Exchange::Echo { .. } => {
                ExpectedResponse { body: Some(message.clone()), ..Default::default() }
            }
            Exchange::Bulk { .. } | Exchange::Lines(_) => ExpectedResponse::default(),
            Exchange::Http(_) | Exchange::Oneshot => ExpectedResponse {
                status: expect.status,
                body: expect.body.as_deref().map(Arc::from),
                length: expect.length,
                check: expect.check,
                deviations: None,
            },
        }
    }

    /// Fills in what was learned, where nothing was specified.
    pub(crate) fn learn(&mut self, learned: &LearnedResponse) {
        self.status = self.status.or(learned.status);
        if self.length.is_none() && self.body.is_none() {
            let check = self.check.unwrap_or(Level::Body);
            self.length = learned.length.filter(|_| check >= Level::Length);
            self.body = learned.body.as_deref().filter(|_| check == Level::Body).map(Arc::from);
        }
    }

    /// Whether what is compared may still be narrowed: neither body, length nor check was
    /// specified, and something of the learned body is compared.
    pub(crate) fn is_learned(&self, expect: &Expect) -> bool {
        !expect.says_what_to_compare() && (self.body.is_some() || self.length.is_some())
    }

    /// From now on, counts deviations from the learned body instead of reporting them.
    pub(crate) fn tolerate(&mut self) {
        self.deviations = Some(Arc::default());
    }

    /// Whether deviations are counted instead of reported.
    pub(crate) fn tolerates(&self) -> bool {
        self.deviations.is_some()
    }

    /// From now on, reports deviations; returns those that were counted, if they were.
    pub(crate) fn end_tolerance(&mut self) -> Option<Arc<Deviations>> {
        self.deviations.take()
    }

    /// Compares no more than this.
    pub(crate) fn narrow(&mut self, check: Level) {
        self.body = self.body.take().filter(|_| check == Level::Body);
        self.length = self.length.filter(|_| check >= Level::Length);
    }

    /// A response that differs.
    #[cold]
    fn deviation(&self, fault: Fault) -> Result<(), Fault> {
        let Some(deviations) = &self.deviations else { return Err(fault) };
        let count = match fault {
            Fault::LengthDiffers => &deviations.length,
            _ => &deviations.body,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What has been received of one response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedResponse {
    pub(crate) status: u16,
    /// Bytes of the body so far.
    pub(crate) bytes: u64,
    differs: bool,
}

impl ReceivedResponse {
    /// Compares a complete response with the expected one.
    pub(crate) fn verdict(&self, expected: &ExpectedResponse) -> Result<(), Fault> {
        if expected.status.is_some_and(|status| status != self.status) {
            return Err(Fault::Status(self.status));
        }
        let length = expected.length.or(expected.body.as_ref().map(|body| body.len() as u64));
        if length.is_some_and(|length| length != self.bytes) {
            return expected.deviation(Fault::LengthDiffers);
        }
        if self.differs { expected.deviation(Fault::BodyDiffers) } else { Ok(()) }
    }
}

/// Compares a response as it arrives.
pub(crate) struct Check<'a> {
    pub(crate) expected: &'a ExpectedResponse,
    pub(crate) seen: &'a mut ReceivedResponse,
    /// Buffer for a probe's body.
    pub(crate) kept: Option<&'a mut ProbeBody>,
    /// Counts the events in the body, if it has some.
    pub(crate) events: Option<&'a mut EventReader>,
    /// Copies what values are looked for in, if any are.
    pub(crate) copy: Option<&'a mut ResponseCopy>,
}

/// A probe's body, unless it is too long to be learned.
#[derive(Debug)]
pub(crate) struct ProbeBody {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_too_long: bool,
}

impl ProbeBody {
    /// A buffer for a body of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> ProbeBody {
        ProbeBody { bytes: Vec::new(), bytes_max, is_too_long: false }
    }

    /// Adds bytes. Beyond the limit all are discarded and no more are kept.
    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.bytes.len() + bytes.len() > self.bytes_max {
            self.is_too_long = true;
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The whole body, unless it was too long.
    pub(crate) fn into_body(self) -> Option<Vec<u8>> {
        (!self.is_too_long).then_some(self.bytes)
    }
}

impl Sink for Check<'_> {
    fn head(&mut self, bytes: &[u8]) {
        if let Some(copy) = &mut self.copy {
            copy.head(bytes);
        }
    }

    fn status(&mut self, status: u16) {
        self.seen.status = status;
    }

    fn body(&mut self, bytes: &[u8]) {
        if let Some(body) = &self.expected.body {
            let from = usize::try_from(self.seen.bytes).unwrap_or(usize::MAX);
            let wanted = body.get(from..).and_then(|rest| rest.get(..bytes.len()));
            self.seen.differs |= wanted != Some(bytes);
        }
        self.seen.bytes += bytes.len() as u64;
        if let Some(kept) = &mut self.kept {
            kept.add(bytes);
        }
        if let Some(events) = &mut self.events {
            events.push(bytes);
        }
        if let Some(copy) = &mut self.copy {
            copy.body(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: &ExpectedResponse, status: u16, pieces: &[&[u8]]) -> Result<(), Fault> {
        let mut seen = ReceivedResponse::default();
        let mut check = Check { expected, seen: &mut seen, kept: None, events: None, copy: None };
        check.status(status);
        for piece in pieces {
            check.body(piece);
        }
        seen.verdict(expected)
    }

    #[test]
    fn every_byte_of_the_body_is_compared() {
        let mut expected = ExpectedResponse::default();
        assert_eq!(verdict(&expected, 500, &[b"anything"]), Ok(()));
        expected.learn(&LearnedResponse {
            status: Some(200),
            body: Some(b"hello".to_vec()),
            length: Some(5),
            varies: false,
            ..LearnedResponse::default()
        });
        assert_eq!(verdict(&expected, 200, &[b"he", b"", b"llo"]), Ok(()));
        assert_eq!(verdict(&expected, 404, &[b"hello"]), Err(Fault::Status(404)));
        assert_eq!(verdict(&expected, 200, &[b"hell"]), Err(Fault::LengthDiffers));
        assert_eq!(verdict(&expected, 200, &[b"hello", b"!"]), Err(Fault::LengthDiffers));
        for i in 0..5 {
            let mut body = b"hello".to_vec();
            body[i] ^= 1;
            assert_eq!(verdict(&expected, 200, &[&body]), Err(Fault::BodyDiffers), "{i}");
        }
    }

    #[test]
    fn a_body_beyond_the_limit_is_given_up_while_it_is_read() {
        let mut kept = ProbeBody::new(10);
        for piece in [&b"01234"[..], b"56789"] {
            kept.add(piece);
        }
        assert_eq!(kept.bytes, b"0123456789");
        kept.add(b"x");
        assert_eq!(kept.bytes.capacity(), 0);
        kept.add(b"");
        kept.add(b"y");
        assert_eq!(kept.bytes.capacity(), 0, "nothing is kept from then on");
        assert_eq!(kept.into_body(), None);
        assert_eq!(ProbeBody::new(0).into_body(), Some(Vec::new()));
    }

    #[test]
    fn an_expected_response_overrides_the_learned_one() {
        let expect = Expect { status: Some(204), length: Some(3), ..Expect::default() };
        let exchange = Exchange::Http(Default::default());
        let mut expected = ExpectedResponse::from_load(&exchange, &expect, &Arc::from(&b""[..]));
        expected.learn(&LearnedResponse {
            status: Some(200),
            body: Some(b"hello".to_vec()),
            length: Some(5),
            varies: false,
            ..LearnedResponse::default()
        });
        assert_eq!(verdict(&expected, 204, &[b"abc"]), Ok(()));
        assert_eq!(verdict(&expected, 200, &[b"abc"]), Err(Fault::Status(200)));
        assert_eq!(verdict(&expected, 204, &[b"hello"]), Err(Fault::LengthDiffers));
    }
}
