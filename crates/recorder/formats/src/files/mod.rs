//! Files with archives of several resolutions.
//!
//! Both forms keep recent time finely and older time coarsely, and both hold the
//! same time more than once. What is taken of each instant is the finest that
//! is known of it ([`finest()`]): nothing is counted twice, and nothing that only a
//! coarse archive knows is left out.

mod finest;
mod resume;
mod rrd;
mod whisper;
mod xml;

pub use finest::{Archive, Stretch, finest};
pub use resume::Resumed;
pub use rrd::{Extracted, Rrd, RrdArchive, RrdSource};
pub use whisper::{Aggregation, Whisper, WhisperArchive};
