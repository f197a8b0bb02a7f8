//! Connections to one target, kept between slices.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{CpuSet, Nanos, Seed};
use ledger::Counts;
use spec::{Load, Mode, Target};

use crate::observe::{Learned, Observation};

/// Set from a signal handler to end a slice early; what is in flight is still drained.
pub type StopFlag = Arc<AtomicBool>;

/// How a session runs, apart from what it sends.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs that client threads are pinned to, round robin; empty for no pinning.
    pub cpus: CpuSet,
    /// Seed of the arrivals.
    pub seed: Seed,
    /// The step of `completed_by_step`.
    pub step: Nanos,
    /// Ends slices early.
    pub stop: StopFlag,
}

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

/// The client could not do its work at all; answers that are wrong are counted instead.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Nothing could be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The load does not fit the target.
    #[error("{0}")]
    Unfit(String),
}

/// Connections to one target and the counts of their whole life.
pub struct Session {
    _todo: (),
}

impl Session {
    /// Resolves the target and opens the first connection; the others are opened by the first slice.
    pub fn open(_target: &Target, _load: &Load, _options: &Options) -> Result<Session, DriveError> {
        Err(DriveError::Unfit("not built yet".into()))
    }

    /// Sends three probes, one after another, and keeps what they agree on as
    /// the answer that every later one must repeat, within what the load's `Expect` leaves open.
    /// The probes are in the ledger. Callable once; without it only `Expect` is checked.
    pub fn learn(&mut self) -> Result<Learned, DriveError> {
        Err(DriveError::Unfit("not built yet".into()))
    }

    /// Loads the target for one slice, then drains.
    pub fn run(&mut self, _slice: &Slice) -> Result<Observation, DriveError> {
        Err(DriveError::Unfit("not built yet".into()))
    }

    /// Counts over the session's life so far, probes included.
    pub fn life(&self) -> (Counts, ledger::Errors) {
        (Counts::default(), ledger::Errors::new())
    }

    /// Closes every connection in an orderly way and returns the counts of the session's life.
    pub fn close(self) -> (Counts, ledger::Errors) {
        self.life()
    }
}
