//! Series and their slots in a database, exactly once.
//!
//! # Glossary
//!
//! - **Retention**: a step, and how long slots of that step are kept ([`Retention`]).
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
//! A number that was claimed before is a batch that was applied before: nothing happens, and the
//! result says so ([`BatchResult::Before`]). A gap in the numbers is an error. So a writer that was
//! interrupted between commit and acknowledgement sends the same batch again, and it is stored
//! once.
//!
//! # Not in this crate
//!
//! Arithmetic (crate `series`); protocols and file formats; runs and trials.

mod abandonment;
mod ahead;
mod error;
mod fingerprint;
mod known_times;
mod memory;
mod model;
mod names;
mod packed;
mod plan;
mod postgres;
mod scan;
mod sqlite;
mod steps;
mod store;
mod stored_retention;

pub use self::packed::Packing;
pub use self::postgres::Postgres;
pub use abandonment::Abandonment;
pub use ahead::apply_ahead;
pub use error::StoreError;
pub use fingerprint::Fingerprint;
pub use known_times::KnownTimes;
pub use memory::Memory;
pub use model::{
    Changes, Identity, LaneChange, NewSeries, NotMade, Request, Retention, RrdChange, Selector,
    Series, SeriesLimit, Writer,
};
pub use scan::{Digests, OfSeries, SlotSum, SpanDigest, Take};
pub use sqlite::Sqlite;
pub use store::{
    BatchResult, FORGOTTEN_MAX, MaintenanceResult, SEALED_AFTER_US, Source, Store, believed_us,
};

/// Opens the store at `place`: the URL of a PostgreSQL database (`postgres://…`), or the path of a
/// SQLite file, which is created if it does not exist.
///
/// # Errors
/// Those of [`Postgres::open`] and [`Sqlite::open`].
pub fn open(place: &str) -> Result<Box<dyn Store>, StoreError> {
    if is_postgres(place) {
        Ok(Box::new(Postgres::open(place)?))
    } else {
        Ok(Box::new(Sqlite::open(place)?))
    }
}

/// Opens the store at `place` read-only: nothing is created or changed.
///
/// # Errors
/// Those of [`Postgres::open_read_only`] and [`Sqlite::open_read_only`].
pub fn open_read_only(place: &str) -> Result<Box<dyn Store>, StoreError> {
    if is_postgres(place) {
        Ok(Box::new(Postgres::open_read_only(place)?))
    } else {
        Ok(Box::new(Sqlite::open_read_only(place)?))
    }
}

/// The name of the view of a step's slots: `every_10s`.
pub fn view_of(step: series::Step) -> String {
    names::every(step.us())
}

/// A step in words, as in the names of views: `10s`, `1m`, `1h`.
pub fn step_name(step: series::Step) -> String {
    names::step(step.us())
}

/// Whether `place` is the URL of a PostgreSQL database.
pub fn is_postgres(place: &str) -> bool {
    place.starts_with("postgres://") || place.starts_with("postgresql://")
}
