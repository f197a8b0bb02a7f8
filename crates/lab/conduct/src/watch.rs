//! Who is told of a run's progress, and who writes it down.

use base::Nanos;
use record::{Block, Finding, Part, Run, Trial};

use crate::SliceSeen;

/// Something that a person who is watching wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A part begins.
    Part {
        /// Its name.
        name: String,
        /// Its number, from 1.
        number: usize,
        /// How many parts there are.
        of: usize,
    },
    /// The calibration block begins.
    Calibrating,
    /// A block begins.
    Block {
        /// Its number, from 1.
        number: u32,
        /// How many are planned so far.
        of: u32,
        /// The time that the blocks still to come will take, if it can be told.
        remaining: Option<Nanos>,
    },
    /// A stack is being started, warmed or loaded.
    Doing {
        /// What is being done.
        what: Doing,
        /// The variant.
        variant: String,
        /// How much of the block is done, 0 to 1.
        share_done: f64,
    },
    /// A variant could not be started and is left out.
    Skipped {
        /// The variant.
        variant: String,
        /// The error.
        error: String,
    },
    /// A check saw something in the middle of a part.
    Found {
        /// The part so far, which knows the names of its variants.
        part: Box<Part>,
        /// What was seen.
        finding: Finding,
    },
}

/// What is being done with a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is tried for the first time.
    Trying,
    /// It is being started.
    Starting,
    /// It is loaded and not measured.
    WarmingUp,
    /// It is loaded and measured.
    Loading,
}

/// Watches a run.
pub trait Watcher {
    /// Called as things happen, at most a few times a second.
    fn event(&mut self, event: &Event);
}

/// Watches nothing.
pub struct Silent;

impl Watcher for Silent {
    fn event(&mut self, _event: &Event) {}
}

/// Writes a run down while it goes. An error is a sentence; it ends the run, because what cannot be recorded is not measured.
pub trait Recorder {
    /// A run begins; its parts are not known yet.
    fn begin(&mut self, run: &Run) -> Result<(), String>;
    /// A part begins; its blocks follow.
    fn part(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String>;
    /// A trial has ended. Its slices become its series, in the same breath; the integral of the
    /// series of completed requests is read back, or `None` where none is kept.
    fn trial(
        &mut self,
        run: &Run,
        part: usize,
        block: u32,
        trial: &Trial,
        slices: &[SliceSeen],
    ) -> Result<Option<u64>, String>;
    /// A block has ended, or was looked at again.
    fn block(&mut self, run: &Run, part: usize, block: &Block) -> Result<(), String>;
    /// The analysis of a part is done.
    fn part_done(&mut self, run: &Run, index: usize, part: &Part) -> Result<(), String>;
    /// The run has ended.
    fn finish(&mut self, run: &Run) -> Result<(), String>;
}

/// Writes nothing down.
pub struct NoRecorder;

impl Recorder for NoRecorder {
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
