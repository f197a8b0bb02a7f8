//! The requests of a log to two servers, in its order, and how their answers differ.
//!
//! One thread runs as many lanes as there are connections. A lane takes the next request, sends it to
//! both servers at once, waits for both answers, compares them, and takes the next one. So both servers
//! see a request at nearly the same time, answers that depend on the time or on what both servers read
//! differ as little as possible, and memory is bounded: no answer waits for more than its counterpart.
//! Another thread reads the log.
//!
//! Nothing is retried, and cookies are not followed. Not here: which servers these are (`spec`), how
//! they are started (`stage`), and words for people (`report`).

mod answer;
mod client;
mod comparison;
mod decimal;
mod error;
mod groups;
mod json;
mod lanes;
mod log;
mod pointer;
mod run;
mod schedule;
mod tally;

pub use comparison::{ComparisonRules, HEADERS};
pub use error::ReplayError;
pub use log::LogSource;
pub use pointer::{JsonPattern, PointerError};
pub use run::{Options, Progress, ReplayPlan, replay};
