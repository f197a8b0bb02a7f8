//! Runs a plan: blocks of fresh stacks, interleaved slices of load, validity checks and verdicts.
//!
//! One [`run`] goes through the parts of a plan. A part goes through a
//! calibration block (what is the answer, how long is the warm-up, what is
//! half of capacity), a pilot of blocks, the blocks that the pilot's variance
//! calls for, and the analysis. Everything that was seen is handed to a
//! [`Recorder`] as soon as it is known, so that a run which is cut off keeps
//! what it had.

mod analyse;
mod block;
mod calibrate;
mod edges;
mod layout;
mod part;
mod recording;
mod reread;
mod resident;
mod run;
mod slices;
mod tally;
mod validity;
mod watch;

pub use layout::Cpus;
pub use recording::Recording;
pub use reread::reread_series;
pub use run::{LabError, Options, run};
pub use slices::SliceSeen;
pub use watch::{Event, NoRecorder, Recorder, Silent, Watcher};
