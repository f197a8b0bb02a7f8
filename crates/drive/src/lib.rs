//! The load engine: opens connections to one target, loads it in slices and observes what comes back.
//!
//! A [`Session`] belongs to one variant: its connections stay open between
//! slices, and its counts add up over its whole life, from the first probe to
//! the last drained answer.

mod alarm;
mod answer;
mod choice;
mod error;
mod fault;
pub mod http;
mod lane;
mod observe;
mod pacer;
mod run;
mod schedule;
mod session;
mod tally;
mod worker;

pub use choice::EngineKind;
pub use fault::Fault;
pub use observe::{Histogram, Learned, Observation, ThreadUse, Window};
pub use pacer::Pacer;
pub use session::{DriveError, Options, Session, Slice, StopFlag};
