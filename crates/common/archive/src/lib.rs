//! Where runs are kept: tables of their own in the record, the SQLite file that they share with
//! series.
//!
//! [`Store`] writes each trial as soon as it ends, so a killed run keeps its data. SQL starts with
//! the view `trials`.
//!
//! Not here: what a run consists of (`record`), and the file itself (`recordfile`).

mod read;
mod schema;
mod store;
mod write;

pub use recordfile::RecordError;
pub use store::Store;
pub use write::add_trial;
