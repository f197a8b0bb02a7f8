//! Files with archives of several resolutions.
//!
//! Both formats store recent time finely and older time coarsely, and both store the same time more
//! than once. For each instant the finest known value is used ([`finest()`]): nothing is counted
//! twice, and nothing that only a coarse archive contains is lost.

mod finest;
mod resume;
mod rrd;
mod whisper;
mod xml;

pub use finest::{Archive, Stretch, finest};
pub use resume::ResumedSource;
pub use rrd::{ExtractedField, Rrd, RrdArchive, RrdSource};
pub use whisper::{Aggregation, Whisper, WhisperArchive};
