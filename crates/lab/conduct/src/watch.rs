//! Traits for watching and recording a run.

use base::Nanos;
use record::{Block, Finding, Part, Run, Trial};

use crate::SliceSeen;

/// A progress event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A part begins.
    Part {
        /// Its name.
        name: String,
        /// Its number, from 1.
        number: usize,
        /// Number of parts.
        of: usize,
    },
    /// The calibration block begins.
    Calibrating,
    /// A block begins.
    Block {
        /// Its number, from 1.
        number: u32,
        /// Number of blocks planned so far.
        of: u32,
        /// Estimated time for the remaining blocks, if known.
        remaining: Option<Nanos>,
    },
    /// A stack is being started, warmed up or loaded.
    Doing {
        /// The activity.
        what: StackActivity,
        /// The variant.
        variant: String,
        /// Share of the block that is done, 0 to 1.
        share_done: f64,
    },
    /// A variant could not start and is left out.
    Skipped {
        /// The variant.
        variant: String,
        /// The error.
        error: String,
    },
    /// A check made a finding during a part.
    Found {
        /// The part so far, for the names of its variants.
        part: Box<Part>,
        /// The finding.
        finding: Finding,
    },
}

/// Activity on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackActivity {
    /// It is being calibrated.
    Trying,
    /// It is being started.
    Starting,
    /// It is loaded but not measured.
    WarmingUp,
    /// It is loaded and measured.
    Loading,
}

/// Receives the progress of a run.
pub trait Watcher {
    /// Called for each event, at most a few times a second.
    fn event(&mut self, event: &Event);
}

/// Ignores all events.
pub struct SilentWatcher;

impl Watcher for SilentWatcher {
    fn event(&mut self, _event: &Event) {}
}

/// Records a run in progress. An error is a message and ends the run, because what cannot be
/// recorded is not measured.
pub trait RunRecorder {
    /// A run begins; its parts are not known yet.
    fn begin(&mut self, run: &Run) -> Result<(), String>;
    /// A part begins; its blocks follow.
    fn part(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String>;
    /// A trial has ended. Its slices become its series in the same transaction; returns the
    /// integral of the series of completed requests as read back, or `None` if no series are kept.
    fn trial(
        &mut self,
        run: &Run,
        part: usize,
        block: u32,
        trial: &Trial,
        slices: &[SliceSeen],
    ) -> Result<Option<u64>, String>;
    /// A block has ended or was updated.
    fn block(&mut self, run: &Run, part: usize, block: &Block) -> Result<(), String>;
    /// The analysis of a part is done.
    fn part_done(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String>;
    /// The run has ended.
    fn finish(&mut self, run: &Run) -> Result<(), String>;
}

/// Records nothing.
pub struct NoRecorder;

impl RunRecorder for NoRecorder {
    fn begin(&mut self, _run: &Run) -> Result<(), String> {
        Ok(())
    }
    fn part(&mut self, _run: &Run, _index: usize, _part: &Part) -> Result<(), String> {
        Ok(())
    }
    fn trial(
        &mut self,
        _: &Run,
        _: usize,
        _: u32,
        _: &Trial,
        _: &[SliceSeen],
    ) -> Result<Option<u64>, String> {
        Ok(None)
    }
    fn block(&mut self, _run: &Run, _part: usize, _block: &Block) -> Result<(), String> {
        Ok(())
    }
    fn part_done(&mut self, _run: &Run, _index: usize, _part: &Part) -> Result<(), String> {
        Ok(())
    }
    fn finish(&mut self, _run: &Run) -> Result<(), String> {
        Ok(())
    }
}
