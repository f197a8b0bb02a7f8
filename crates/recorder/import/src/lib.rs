//! Updates into a store of slots, a file at a time, exactly once.
//!
//! # How the same file twice changes nothing
//!
//! Lines are written in pieces, each of them one batch of the store. The writer of
//! a piece is named by a fingerprint of everything in the stream up to its end,
//! of its length, of the lane, and of the options that say what lines mean. A piece whose
//! writer the store knows is there already; it is read again (gauges and windows
//! go on from it) and not written.
//!
//! A file that has grown begins with what it was, so its old pieces are known.
//! For that, pieces do not depend on where the file ends: blocks of 10,000 lines,
//! and what remains at the end of the file in pieces of 1,000, 100, 10 and 1.
//!
//! ```text
//!  first time   ├──────10,000──────┤├1,000┤├1,000┤├100┤├10┤├1┤├1┤
//!  grown        ├─────known────────┤├────────known──────────────┤├1┤…├10┤…├100┤…├1,000┤…├──10,000──┤
//! ```
//!
//! Content is fingerprinted after unpacking, so a file and its gzip are the same.
//!
//! Whole files ([`files`]) are rings that forget, so a later copy does not begin
//! with the earlier one. There each series goes on from the newest that it has.

mod advance;
mod desk;
mod error;
pub mod files;
mod fingerprint;
mod lines;
mod recorder;
mod summary;

pub use error::BackfillError;
pub use fingerprint::Fingerprint;
pub use lines::{Lines, import};
pub use recorder::{HEAD_BYTES, Options, RrdMode, WRITTEN_EACH};
pub use summary::{Refused, Summary, Watch};
