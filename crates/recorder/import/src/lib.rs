//! Imports updates into a store, file by file, exactly once.
//!
//! # Why importing the same file twice changes nothing
//!
//! Lines are written in pieces, each of them one batch of the store. The writer of a piece is a
//! fingerprint of everything in the stream up to its end, of its length, of the lane, and of the
//! options that affect the meaning of lines. A piece whose writer the store knows is already
//! stored; it is read again (gauges and windows depend on it) but not written.
//!
//! A file that has grown starts with its old content, so its old pieces are known. For this, pieces
//! must not depend on where the file ends: blocks of 10,000 lines, and the rest of the file in
//! pieces of 1,000, 100, 10 and 1.
//!
//! ```text
//!  first time   ├──────10,000──────┤├1,000┤├1,000┤├100┤├10┤├1┤├1┤
//!  grown        ├─────known────────┤├────────known──────────────┤├1┤…├10┤…├100┤…├1,000┤…├──10,000──┤
//! ```
//!
//! Content is fingerprinted after unpacking, so a file and its gzip are the same.
//!
//! Whole files ([`files`]) are rings that drop data, so a later copy does not begin with the
//! earlier one. There each series continues from its newest row.

mod error;
pub mod files;
mod lines;
mod recorder;
mod store_thread;
mod summary;

pub use engine::{HEAD_BYTES, Options, RrdMode, UnstoredUpdates, WRITTEN_EACH};
pub use error::BackfillError;
pub use lines::{LineStream, import};
pub use summary::{RefusedLine, Summary, Watch};
