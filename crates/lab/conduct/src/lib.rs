//! Runs a plan: blocks of fresh stacks, interleaved slices of load, validity checks and verdicts.
//!
//! [`run`] executes the parts of a plan. Each part has a calibration block (response, warm-up, half
//! of capacity), a pilot of blocks, the further blocks that the pilot's variance calls for, and the
//! analysis. All results go to a [`RunRecorder`] as soon as they are known, so a killed run keeps its
//! data.

mod acting;
mod analyse;
mod block;
mod calibrate;
mod capacity;
mod conclude;
mod cpus;
mod edges;
mod error;
mod kernel_parts;
mod layout;
mod lead_in;
mod load;
mod looks;
mod machine_activity;
mod machines;
mod means;
mod network;
mod null_server;
mod pace;
mod part;
mod profilers;
mod recording;
mod reflect;
mod reread;
mod run;
mod running_variant;
mod schedule;
mod server_count;
mod servers;
mod slice_updates;
mod stalls;
mod stops;
mod sustained;
mod trial_sum;
mod uneven_disturbance;
mod validity;
mod watch;
mod wherever;
mod why;

pub use drive::LiveCounts;
pub use error::ConductError;
pub use load::{LoadOptions, LoadPlan, LoadResult, load};
pub use machines::Machines;
pub use profilers::SAMPLE_PERIOD;
pub use recording::Recording;
pub use reread::reread_series;
pub use run::{Options, run};
pub use slice_updates::SliceSeen;
pub use watch::{Event, NoRecorder, RunRecorder, SilentWatcher, StackActivity, Watcher};
