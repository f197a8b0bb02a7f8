//! Slots of the recorder as Parquet files.
//!
//! # Glossary
//!
//! - **Table**: all files of a folder, as Hive, Spark and DuckDB see them: [`table::COLUMNS`] in the
//!   files, [`table::PARTITION_COLUMNS`] in the names of the folders.
//! - **Partition**: a folder of the table with the slots of one step and one day (UTC).
//! - **Version**: of a table of Delta Lake, what it is after a commit.
//!
//! The table is documented in docs/parquet.md.

mod day;
mod delta;
mod earlier;
mod error;
mod file;
mod notes;
mod place;
mod rows;
mod run;
pub mod table;
mod totals;

pub use day::Day;
pub use error::ExportError;
pub use run::{ExportRequest, PartitionChange, Summary, export, export_delta};
pub use table::{FileState, Partition, file_states, partitions};
pub use totals::{Totals, totals};
