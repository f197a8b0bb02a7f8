//! The record: one SQLite file, whatever is in it: runs, series, or both. Each has tables of its own,
//! with a schema of their own that is migrated where they are used.
//!
//! The schema of the runs is SQLite's `user_version`, that of the series is in `slots_schema`: years of
//! series do not become unreadable with runs of another version, or the other way round. Reading
//! migrates nothing; series of an older schema are migrated by the next writer, or by `tachograph
//! maintain`.
//!
//! Not here: the tables, which are in `archive` (runs) and `store` (series).

mod default_path;
mod error;
mod folder;
mod open;
mod owners;

pub use default_path::default_path;
pub use error::RecordError;
pub use folder::create_folder;
pub use open::{open, open_read_only};
pub use owners::{ForeignPath, refuse_foreign, refuse_foreign_links};
