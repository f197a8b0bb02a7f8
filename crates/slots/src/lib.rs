//! Series and their slots in a database, exactly once.
//!
//! # Glossary
//!
//! - **Retention**: a step, and how long slots of that step are kept ([`Retention`]).
//! - **Partition**: a stretch of a retention's time in a table of its own, so that
//!   expiry drops a table instead of deleting rows.
//! - **Writer**: whoever writes batches, numbered 1, 2, 3 … ([`Writer`]).
//! - **Changes**: one batch: what to add to which slots, and the state that goes with it ([`Changes`]).
//!
//! # A batch
//!
//! ```text
//!  updates ─→ series::Batch ─→ Changes ─→ Store::apply ─→ one transaction:
//!                                          1. claim the writer's next number
//!                                          2. add to the slots of the series' own step
//!                                          3. add the same, coarsened, at every coarser retention
//!                                          4. save the lanes that the updates came from
//! ```
//!
//! A number that was claimed before is a batch that was applied before: nothing
//! happens, and that is said ([`Applied::Before`]). A number that leaves one out
//! is an error. So whoever is interrupted between commit and acknowledgement
//! sends the same batch again, and it is there once.
//!
//! # What this crate does not concern itself with
//!
//! Arithmetic, which is the crate `series`; protocols and file formats; runs and trials.

mod error;
mod memory;
mod model;
mod names;
mod plan;
mod sqlite;
mod store;

pub use error::StoreError;
pub use memory::Memory;
pub use model::{
    Changes, Identity, NewSeries, NotMade, Retention, RrdChange, Selector, Series, SeriesLimit,
    Writer,
};
pub use sqlite::Sqlite;
pub use store::{Applied, Maintained, Store};
