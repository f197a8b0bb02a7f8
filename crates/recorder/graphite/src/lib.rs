//! Graphite's query language: targets, times, wildcards and functions.
//!
//! ```text
//!  target ─→ parse ─→ Expression ─→ evaluate ─→ Vec<Series>
//!                                      ↑
//!                                    Source (series by path or tag, in a range)
//! ```
//!
//! The functions behave as documented in Graphite's "Functions" and as graphite-web 1.1.10
//! behaves, with one difference: a mean over time is weighted by the time for which values are
//! known, so value × known time is the total at every width.
//!
//! # Not in this crate
//!
//! Reading a store, HTTP, output formats.

mod aggregation;
mod context;
mod error;
mod evaluate;
mod functions;
mod glob;
mod index;
mod number;
mod parse;
mod series;
mod source;
mod tags;
mod time;

pub use aggregation::Aggregation;
pub use context::Context;
pub use error::GraphiteError;
pub use evaluate::evaluate;
pub use functions::{FUNCTIONS, Function, Kind, Parameter};
pub use glob::Glob;
pub use index::{Entry, Index, Node};
pub use number::Number;
pub use parse::{Call, DEPTH_MAX, Expression, TARGET_BYTES_MAX, parse};
pub use series::Series;
pub use source::{Selection, SeriesSource};
pub use tags::TagExpression;
pub use time::{parse_length, parse_time, shown, zone};
