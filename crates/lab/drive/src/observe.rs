//! Observations of a slice.

use base::Nanos;
use ledger::{Counts, Errors, add_errors};
use netio::Handshake;
use serde::{Deserialize, Serialize};
use spec::Check;

use crate::histogram::{Histogram, histogram, sparse};
use crate::kinds::{KindCounts, merge_kinds};

/// Observations of one slice, or of several added up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// All requests of the slice, including lead-in and drain: the ledger's columns.
    pub counts: Counts,
    /// Failures by kind.
    pub errors: Errors,
    /// The same for each kind of request, if there are several.
    pub kinds: Vec<KindCounts>,
    /// The measured window.
    pub window: Window,
    /// Done − scheduled, of requests that were due in the window, whenever they completed (open
    /// loop; empty in a closed one). A request that was not answered counts with the timeout.
    #[serde(with = "sparse")]
    pub latency: Histogram,
    /// Done − sent, of the same requests.
    #[serde(with = "sparse")]
    pub service_time: Histogram,
    /// The client's own delay of each request sent in the window (open loop): sent − scheduled, or
    /// 0 if the request had to wait for a connection and was sent on the first one that became
    /// free. That wait is caused by the server and part of the latency.
    #[serde(with = "sparse")]
    pub lateness: Histogram,
    /// The longest time that any request of the slice waited for its end, from the instant at which
    /// it was due (open loop) or sent (closed loop): for its response, its failure, or the end of
    /// the slice.
    pub longest_wait: Nanos,
    /// How long after the end of the window the first of the requests ended that were outstanding
    /// then, if any was. While the whole server stops, none does.
    pub first_after: Option<Nanos>,
    /// How long before the end of the window the last request ended that ended before it, if any did.
    pub last_before: Option<Nanos>,
    /// Stalls among the requests of the histograms: requests that took longer than
    /// [`Slice::stalled_after`](crate::Slice::stalled_after), of which those that ended within a
    /// quarter of that time of each other are one. Of several threads the most, because a server that
    /// stops does so for all of them.
    pub stalls: u64,
    /// Completed requests of the whole slice, by [`Observation::step`] since the start of the
    /// slice; adds up to `counts.completed` exactly.
    pub completed_by_step: Vec<u64>,
    /// The length of one step.
    pub step: Nanos,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// Bytes written to sockets.
    pub bytes_sent: u64,
    /// Connections made during the slice.
    pub connects: u64,
    /// The handshakes of these connections, if they speak TLS.
    pub handshakes: Option<Box<Handshakes>>,
    /// Events in the responses and when their parts arrived, if they are counted.
    pub stream: Option<Box<StreamTimes>>,
    /// Most connections in use at once.
    pub connections_max_used: u32,
    /// The limit on connections, and its cause.
    pub connections_limit: ConnectionsLimit,
    /// Those of `window.waiting` for which every allowed connection was busy, or every open one while
    /// the client was late, and those of `counts.dropped` that found the queue full. For the others
    /// a connection was free, but the client did not send them before the window ended.
    pub waiting_for_connections: u64,
    /// Times that a source address ran out of ports and the next one of 127/8 was used.
    pub source_changes: u64,
    /// Connections that the server closed while no request was on them.
    pub closed_idle: u64,
    /// From the first send to the end of the drain.
    pub elapsed: Nanos,
    /// CPU time of the client, one entry per thread.
    pub threads: Vec<ThreadUse>,
}

impl Observation {
    /// Adds the observation of other threads or of another client of the same time, exactly: counts
    /// are added, and histograms are those of all values.
    pub fn merge(&mut self, other: Observation) {
        self.counts.merge(&other.counts);
        add_errors(&mut self.errors, &other.errors);
        merge_kinds(&mut self.kinds, &other.kinds);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.first_after = self.first_after.into_iter().chain(other.first_after).min();
        self.last_before = self.last_before.into_iter().chain(other.last_before).min();
        self.stalls = self.stalls.max(other.stalls);
        self.window.length = self.window.length.max(other.window.length);
        self.window.due += other.window.due;
        self.window.waiting += other.window.waiting;
        self.window.counted_ns += other.window.counted_ns;
        self.window.connections += other.window.connections;
        self.window.completed += other.window.completed;
        self.window.payload_bytes += other.window.payload_bytes;
        self.window.service_time_sum_ns += other.window.service_time_sum_ns;
        self.window.busy_ns += other.window.busy_ns;
        self.window.settle();
        for (sum, part) in [
            (&mut self.latency, &other.latency),
            (&mut self.service_time, &other.service_time),
            (&mut self.lateness, &other.lateness),
        ] {
            // Adding to an auto-resizing histogram cannot fail.
            let _ = sum.add(part);
        }
        if self.completed_by_step.len() < other.completed_by_step.len() {
            self.completed_by_step.resize(other.completed_by_step.len(), 0);
        }
        for (sum, part) in self.completed_by_step.iter_mut().zip(&other.completed_by_step) {
            *sum += part;
        }
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.connects += other.connects;
        match (&mut self.handshakes, other.handshakes) {
            (Some(sum), Some(part)) => sum.merge(&part),
            (sum, part) => *sum = sum.take().or(part),
        }
        match (&mut self.stream, other.stream) {
            (Some(sum), Some(part)) => sum.merge(&part),
            (sum, part) => *sum = sum.take().or(part),
        }
        self.source_changes += other.source_changes;
        self.closed_idle += other.closed_idle;
        self.connections_max_used += other.connections_max_used;
        self.connections_limit.connections += other.connections_limit.connections;
        self.waiting_for_connections += other.waiting_for_connections;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.threads.extend(other.threads);
    }
}

/// The TLS handshakes of a slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handshakes {
    /// From the first to the last message of each.
    #[serde(with = "sparse")]
    pub took: Histogram,
    /// How many of them continued an earlier session.
    pub resumed: u64,
    /// The version of the protocol, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite, as rustls names it.
    pub cipher: String,
}

impl Handshakes {
    /// Nothing yet, of the kind of this first one.
    pub(crate) fn like(first: &Handshake) -> Handshakes {
        let (version, cipher) = (first.version.to_owned(), first.cipher.to_owned());
        Handshakes { took: histogram(), resumed: 0, version, cipher }
    }

    /// Adds others, of the same server.
    pub fn merge(&mut self, other: &Handshakes) {
        // Adding to an auto-resizing histogram cannot fail.
        let _ = self.took.add(&other.took);
        self.resumed += other.resumed;
    }
}

/// Server-sent events of a slice, and when the parts of its responses arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamTimes {
    /// All events, also of responses that failed.
    pub events: u64,
    /// Those that arrived in the window.
    pub events_in_window: u64,
    /// From sending a request to the first byte of its response, of those whose service times are
    /// recorded and that completed.
    #[serde(with = "sparse")]
    pub first_byte: Histogram,
    /// The same to the first event, if there was one.
    #[serde(with = "sparse")]
    pub first_event: Histogram,
    /// From one event to the next of the same response, in the window; zero for events that arrived
    /// together.
    #[serde(with = "sparse")]
    pub gaps: Histogram,
}

impl Default for StreamTimes {
    fn default() -> StreamTimes {
        let [first_byte, first_event, gaps] = [histogram(), histogram(), histogram()];
        StreamTimes { events: 0, events_in_window: 0, first_byte, first_event, gaps }
    }
}

impl StreamTimes {
    /// Adds others.
    pub fn merge(&mut self, other: &StreamTimes) {
        self.events += other.events;
        self.events_in_window += other.events_in_window;
        for (sum, part) in [
            (&mut self.first_byte, &other.first_byte),
            (&mut self.first_event, &other.first_event),
            (&mut self.gaps, &other.gaps),
        ] {
            // Adding to an auto-resizing histogram cannot fail.
            let _ = sum.add(part);
        }
    }
}

/// The limit on connections in use at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsLimit {
    /// The limit.
    pub connections: u32,
    /// Its cause.
    pub by: LimitedBy,
}

/// What limits the number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitedBy {
    /// The load: `connections` or, in an open loop, `connections_max`.
    #[default]
    Load,
    /// The limit on the process's open files.
    OpenFiles,
}

/// The measured window of a slice: after the lead-in, before the drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its length; the sum of lengths for several slices. In a continued loop, the mean over the
    /// connections of the time that counts.
    pub length: Nanos,
    /// Requests completed in it; in a continued loop, in its own time.
    pub completed: u64,
    /// Requests that were due in it (open loop).
    pub due: u64,
    /// Requests that were due by its end and had not been sent (open loop).
    pub waiting: u64,
    /// Body bytes (or raw payload bytes) of those requests.
    pub payload_bytes: u64,
    /// Sum of their service times in nanoseconds: Little's law needs the exact mean.
    pub service_time_sum_ns: u128,
    /// Sum over connections of the time within the window in which a request was outstanding, in
    /// nanoseconds, whenever it began or ended and however it ended: the left side of Little's law,
    /// measured directly.
    pub busy_ns: u128,
    /// Sum over the connections of a continued loop of the time that counts, in nanoseconds; zero
    /// in other loops.
    pub counted_ns: u128,
    /// Connections of a continued loop; zero in other loops.
    pub connections: u32,
}

impl Window {
    /// Computes the length of a continued loop's window.
    pub(crate) fn settle(&mut self) {
        if self.connections > 0 {
            self.length = Nanos((self.counted_ns / u128::from(self.connections)) as u64);
        }
    }
}

/// CPU time of a client thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// CPU time used during the slice.
    pub cpu: Nanos,
    /// Wall time of the slice on this thread.
    pub wall: Nanos,
}

/// The response learned from the probes, and from those that followed if they were learned from,
/// with which all later ones are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedResponse {
    /// The status, for HTTP.
    pub status: Option<u16>,
    /// The body, if it is compared: all responses agreed, or the load demands it.
    pub body: Option<Vec<u8>>,
    /// The body's length, if it is compared.
    pub length: Option<u64>,
    /// Whether the body varied, so that only status, framing and (if constant) length are checked.
    pub varies: bool,
    /// The responses to each kind of request, if there are several. Then the status is what they
    /// agree on, body and length are unknown, and one that varies is enough.
    pub kinds: Vec<LearnedResponse>,
}

impl LearnedResponse {
    /// What is compared with it.
    pub fn check(&self) -> Check {
        match (&self.body, self.length) {
            (Some(_), _) => Check::Body,
            (None, Some(_)) => Check::Length,
            (None, None) => Check::Status,
        }
    }
}
