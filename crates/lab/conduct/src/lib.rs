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
mod disturbance;
mod edges;
mod error;
mod layout;
mod load;
mod part;
mod recording;
mod reread;
mod run;
mod running_variant;
mod slices;
mod tally;
mod uneven;
mod validity;
mod watch;

pub use drive::Live;
pub use error::LabError;
pub use layout::Cpus;
pub use load::{LoadOptions, LoadPlan, Loaded, load};
pub use recording::Recording;
pub use reread::reread_series;
pub use run::{Options, run};
pub use slices::SliceSeen;
pub use watch::{Doing, Event, NoRecorder, Recorder, Silent, Watcher};
