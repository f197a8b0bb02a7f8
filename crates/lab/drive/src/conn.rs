//! State of a slot, kept between slices.

use base::Nanos;

use crate::deck::Card;
use crate::events::Arrival;
use crate::response::{ReceivedResponse, ResponseEnd};
use crate::slice_counts::{Completion, LongRequest, RequestTimes};
use crate::values::ConnValues;

/// State of a slot's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Closed,
    Connecting,
    Open,
    /// Open, but bytes arrived that no request had asked for; the next request on it fails.
    Tainted,
    /// Open until its announced close; only then is the next request sent, on a new connection.
    Ending,
    /// Its sending side is shut down: the peer's close acknowledges what was sent.
    Shut,
}

/// A slot's outstanding request, and the connection that it was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutstandingRequest {
    None,
    /// None. The server closed the connection while it was idle, and no request has been sent on
    /// its successor yet.
    NoneSinceLoss,
    /// Outstanding on a connection that was open before.
    OnKept,
    /// Outstanding on a connection that was opened for it.
    OnFresh,
}

/// State of a slot, kept between slices.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) link: Link,
    pub(crate) request: OutstandingRequest,
    /// Whether the deadline queue has an entry for it.
    pub(crate) queued: bool,
    /// Messages that the kernel has taken, but the peer has not acknowledged.
    pub(crate) unacknowledged: Vec<Completion>,
    /// Its last request.
    pub(crate) card: Card,
    /// When that was due and sent.
    pub(crate) since: RequestTimes,
    pub(crate) answer: ResponseEnd,
    pub(crate) seen: ReceivedResponse,
    /// When its parts arrived, if that is of interest.
    pub(crate) arrival: Arrival,
    /// Values of its responses, and of the one in progress.
    pub(crate) values: ConnValues,
    /// What it takes into the next slice of a continued loop.
    pub(crate) carry: Carry,
    /// When the time begins that counts in this slice of a continued loop: after its first request
    /// and the lead-in.
    pub(crate) counted_from: Option<Nanos>,
}

/// What a connection takes from a slice of a continued loop into the next one.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    /// By how much its last request exceeded the slice: it waits for as long.
    pub(crate) wait: Nanos,
    /// That request if it completed.
    pub(crate) request: Option<LongRequest>,
}

impl Conn {
    pub(crate) fn new(answer: ResponseEnd) -> Conn {
        Conn {
            link: Link::Closed,
            request: OutstandingRequest::None,
            queued: false,
            unacknowledged: Vec::new(),
            card: Card::default(),
            since: RequestTimes::default(),
            answer,
            seen: ReceivedResponse::default(),
            arrival: Arrival::default(),
            values: ConnValues::default(),
            carry: Carry::default(),
            counted_from: None,
        }
    }

    /// Whether a request is outstanding on it.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.request, OutstandingRequest::OnKept | OutstandingRequest::OnFresh)
    }

    /// Whether nothing has been sent since the connection was opened ahead of its requests.
    pub(crate) fn is_unused(&self) -> bool {
        self.request == OutstandingRequest::OnKept && self.unacknowledged.is_empty()
    }

    /// Whether it can carry another request.
    pub(crate) fn stays_open(&self) -> bool {
        matches!(self.link, Link::Open | Link::Tainted)
    }
}
