//! A slice: one stretch of load in a session.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Nanos;
use serde::{Deserialize, Serialize};
use spec::Mode;

/// Set from a signal handler to end a slice early; outstanding requests are still drained, for a
/// second at most.
pub type StopFlag = Arc<AtomicBool>;

/// One stretch of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Closed or open loop.
    pub mode: Mode,
    /// Time that is loaded and counted in the ledger, but outside the measured window.
    pub lead_in: Nanos,
    /// Length of the measured window; ignored if `requests` is set.
    pub window: Nanos,
    /// Send exactly this many requests, and measure until the last one has ended.
    pub requests: Option<u64>,
    /// How long to wait for outstanding requests after the window. The rest counts as `in_flight`.
    pub drain: Nanos,
}
