//! A slice: one stretch of load in a session.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Nanos;
use serde::{Deserialize, Serialize};
use spec::Mode;

/// Set from a signal handler to end a slice early; outstanding requests are still drained, for a
/// second at most.
pub type StopFlag = Arc<AtomicBool>;

/// How a closed loop begins its slice, and what its window counts.
///
/// A loop that begins fresh in each of many short slices is too young to hold its share of slow
/// requests. A continued loop has a time of its own, in which its slices follow one another:
///
/// ```text
///  slice 1        │ drain            slice 2        │
///  ──a──▶──b──▶───┼─c──────▶         ┄┄┄c┄┄▶──d──▶──e▶──f──
///                 │                  └ c ends here, in the loop's own time
///                 └ others are loaded after this
/// ```
///
/// Request c took longer than its slice, so its connection waits at the beginning of the next slice
/// for as long, and c completes at the end of that wait. The first request after that, d, is not
/// counted, and neither is its time: the server may have stopped before the slice began, and a stop
/// belongs to the slice in which it begins. The rest is the loop as if it had never been
/// interrupted, whether single requests are slow or everything stops now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopStart {
    /// Every connection sends at once; the window counts what completes in it.
    #[default]
    Fresh,
    /// The first slice of a continued loop: each connection first waits for a random part of this
    /// time, so that connections with long requests do not go in step.
    Spread(Nanos),
    /// A further slice of a continued loop.
    Continued,
}

/// One stretch of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Closed or open loop.
    pub mode: Mode,
    /// How a closed loop begins; ignored in an open one.
    pub start: LoopStart,
    /// Time that is loaded and counted in the ledger, but outside the measured window.
    pub lead_in: Nanos,
    /// Length of the measured window; ignored if `requests` is set.
    pub window: Nanos,
    /// Send exactly this many requests, and measure until the last one has ended.
    pub requests: Option<u64>,
    /// How long to wait after the window for requests that were due in it. Those that were sent
    /// and not answered by then count as `in_flight`, those that could not be sent as dropped.
    pub drain: Nanos,
    /// A request that takes longer than this is stalled; see [`Observation::stalls`].
    ///
    /// [`Observation::stalls`]: crate::Observation::stalls
    pub stalled_after: Option<Nanos>,
}

/// A session's threads among those of several clients, which share the arrivals of an open loop as
/// the threads of one client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadShare {
    /// Number of the session's first thread.
    pub first: u32,
    /// Threads of all clients.
    pub all: u32,
}
