//! What others write, to updates of series.
//!
//! Text comes a line at a time ([`text`]): Graphite plaintext, Influx line
//! protocol, StatsD lines, CSV with start and end. Whole files come with their
//! archives ([`files`]): `rrdtool dump` and whisper. Both give the same thing:
//! [`Update`]s of [`Series`], which a [`Book`] gives numbers to.
//!
//! ```text
//!  bytes ─→ open ─→ Lines ─→ text::Parser ─┐
//!          (gzip)                          ├─→ (Series, Update)  +  Reason
//!           └─────→ files::{Rrd, Whisper} ─┘
//! ```
//!
//! # Nothing is lost in silence
//!
//! What is not taken has a [`Reason`], and is counted by it ([`Tally`]). A line
//! may be taken in part (one field of five is text): then that part has a
//! reason. Lines that begin with `#` are comments in every text format, so that
//! lines kept aside under a comment that says why can be put right and read again.
//!
//! # What this crate does not concern itself with
//!
//! Sockets, databases, clocks: the caller says what time it is ([`Arrival`]).

mod book;
mod compressed;
mod error;
pub mod files;
mod lines;
mod name;
mod number;
mod reason;
pub mod text;
mod time;
mod update;

pub use book::{Book, Series};
pub use compressed::{Opened, open};
pub use error::FileError;
pub use lines::{LINE_MAX, Line, Lines};
pub use name::{NAME_MAX, SeriesName, TAGS_MAX};
pub use number::Number;
pub use reason::{Malformed, Reason, Tally};
pub use time::{Arrival, Precision, parse_time};
pub use update::{Update, What};
