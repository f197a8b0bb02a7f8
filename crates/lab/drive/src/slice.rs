//! What a session is asked to do, one stretch of load at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Nanos;
use spec::Mode;

/// Set from a signal handler to end a slice early; what is in flight is still drained, for a second at most.
pub type StopFlag = Arc<AtomicBool>;

/// One stretch of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Closed or open loop.
    pub mode: Mode,
    /// Loaded and counted in the ledger, but outside the measured window.
    pub lead_in: Nanos,
    /// The measured stretch; ignored if `requests` is set.
    pub window: Nanos,
    /// Send exactly this many requests, and measure until the last one is answered.
    pub requests: Option<u64>,
    /// How long to wait, after the window, for answers in flight. What is left then counts as `in_flight`.
    pub drain: Nanos,
}
