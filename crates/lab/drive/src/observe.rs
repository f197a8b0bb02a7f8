//! What a slice of load was seen to do.

use base::Nanos;
use ledger::{Counts, Errors};

/// Latencies in nanoseconds, three significant digits, auto-resizing so that nothing is clipped.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// What one slice, or several added up, was seen to do.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Every request of the slice, lead-in and drain included: the ledger's columns.
    pub counts: Counts,
    /// Failures by kind.
    pub errors: Errors,
    /// The measured stretch.
    pub window: Window,
    /// Done − scheduled, of requests that completed inside the window (open loop; empty in a closed one).
    pub latency: Histogram,
    /// Done − sent, of requests that completed inside the window.
    pub service_time: Histogram,
    /// By how much the client itself was late with each request sent inside the window (open loop):
    /// sent − scheduled, or 0 where the request had to wait for a connection and went out on the
    /// first that became free. That wait is the server's doing, and part of the latency.
    pub lateness: Histogram,
    /// Completed requests of the whole slice by step of [`Observation::step`] since the slice began;
    /// adds up to `counts.completed` exactly.
    pub completed_by_step: Vec<u64>,
    /// The length of one step.
    pub step: Nanos,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// Bytes written to sockets.
    pub bytes_sent: u64,
    /// Connections made during the slice.
    pub connects: u64,
    /// Connections that were in use at once at most.
    pub connections_max_used: u32,
    /// How many could have been, and what set that limit.
    pub connections_limit: ConnectionsLimit,
    /// Of `counts.dropped`, those for which every connection that the limit allows was busy, or those
    /// that were open while the client was late. The others came while a connection was free, and
    /// the client did not get to them before the slice ended.
    pub dropped_for_want_of_connections: u64,
    /// Times that the ports of a source address ran out and another address of 127/8 was taken.
    pub source_changes: u64,
    /// Connections that the server closed while they were idle, or between two requests; no request was on them.
    pub closed_idle: u64,
    /// From the first send to the end of the drain.
    pub elapsed: Nanos,
    /// The client's own cost, one entry per thread.
    pub threads: Vec<ThreadUse>,
}

/// How many connections a slice may have in use at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsLimit {
    /// How many.
    pub connections: u32,
    /// What set it.
    pub by: LimitedBy,
}

/// What limits the number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitedBy {
    /// The load: `connections` or, in an open loop, `connections_max`.
    #[default]
    Load,
    /// The process may have no more open files.
    OpenFiles,
}

/// The measured stretch of a slice: after the lead-in, before the drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its length; lengths of several slices add up.
    pub length: Nanos,
    /// Requests that completed inside it.
    pub completed: u64,
    /// Body bytes (or raw payload bytes) of those.
    pub payload_bytes: u64,
    /// Σ of service time of those, in nanoseconds: Little's law needs the exact mean.
    pub service_time_sum_ns: u128,
    /// Σ over connections of the time within the window during which a request was under way
    /// on them, in nanoseconds, whenever it began or ended and however it ended: the left side of
    /// Little's law, taken directly.
    pub busy_ns: u128,
}

/// What a client thread cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// CPU time used during the slice.
    pub cpu: Nanos,
    /// Wall time of the slice on this thread.
    pub wall: Nanos,
}

/// What the first answers taught: what every later one is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The status, for HTTP.
    pub status: Option<u16>,
    /// The body, if three probes agreed on it.
    pub body: Option<Vec<u8>>,
    /// The body's length, if three probes agreed on it.
    pub length: Option<u64>,
    /// Whether the body varied, so that only status, framing and (if constant) length are checked.
    pub varies: bool,
}
