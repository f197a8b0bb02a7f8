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
//! What is not taken has a [`Reason`], and is counted by it ([`Tally`]). A line is
//! taken whole or refused whole, so that a refused line that was put right counts
//! once. Lines whose first character is `#` are comments in every text format, so
//! that lines can be kept aside under a comment that says why.
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
mod quotes;
mod reason;
pub mod text;
mod time;
mod update;

pub use book::{Book, Series};
pub use compressed::{Opened, UNPACKED_MAX, check, open};
pub use error::FileError;
pub use lines::{LINE_MAX, Line, Lines};
pub use name::{NAME_MAX, SeriesName, TAGS_MAX};
pub use number::Number;
pub use quotes::Quotes;
pub use reason::{Malformed, Reason, Tally};
pub use time::{Arrival, Precision, parse_time};
pub use update::{Update, What};
