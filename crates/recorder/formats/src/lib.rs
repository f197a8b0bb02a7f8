//! Parsers: from other programs' formats to updates of series.
//!
//! Text is read line by line ([`text`]): Graphite plaintext, Influx line protocol, StatsD lines,
//! CSV. Graphite's pickle protocol becomes lines ([`pickle`]). Whole files contain archives
//! ([`files`]): `rrdtool dump` and whisper. Binary messages are those of Prometheus remote write
//! and OTLP ([`Messages`]). All give the same: [`Update`]s of
//! [`Series`], which are numbered by a [`Book`].
//!
//! ```text
//!  bytes ─→ open ─→ Lines ─→ text::Parser ─┐
//!          (gzip)                          ├─→ (Series, Update)  +  Reason
//!           └─────→ files::{Rrd, Whisper} ─┤
//!  a message ─────→ Messages ──────────────┘
//! ```
//!
//! # Nothing is lost silently
//!
//! What is refused has a [`Reason`], by which it is counted ([`RefusalCounts`]). A line is accepted or
//! refused as a whole, so a refused line that is corrected counts once. Lines whose first character
//! is `#` are comments in every text format, so a file of refused lines can contain the reasons.
//!
//! # Not in this crate
//!
//! Sockets, databases, clocks: the caller provides the time ([`Arrival`]).

mod book;
mod compressed;
mod error;
pub mod files;
mod lines;
mod messages;
mod name;
mod number;
pub mod pickle;
mod quotes;
mod reason;
pub mod text;
mod time;
mod update;

pub use book::{Book, Series};
pub use compressed::{OpenedStream, UNPACKED_MAX, check, open};
pub use error::FileError;
pub use lines::{LINE_MAX, Line, Lines};
pub use messages::{
    ELEMENTS_MAX, Element, ElementKind, MessageContent, MessageError, Messages, Protocol,
    check_message,
};
pub use name::{NAME_MAX, SeriesName, TAGS_MAX};
pub use number::Number;
pub use quotes::Quotes;
pub use reason::{Malformed, Reason, RefusalCounts};
pub use time::{Arrival, Precision, parse_time};
pub use update::{Update, UpdateContent};
