//! Proofs that the recorder stores every acknowledged update exactly once, even after kill −9, and
//! that it parses formats like their own parsers.
//!
//! [`batches`] and [`imports`] start a program, kill it at random moments, restart it, and compare
//! the stored data with the expected data. `xtask prove` runs them at length, and the tests of
//! `xtask` and of the program briefly. The tests of `stage` that need a process to kill are here too, because programs
//! for tests do not belong in the product's crates.

pub mod batches;
pub mod corpus;
pub mod counts;
pub mod daemon;
pub mod database_kills;
pub mod imports;
pub mod parquet;
pub mod power_cuts;
pub mod render;
pub mod restarts;
pub mod serve_kills;
pub mod statsd_kills;
pub mod tables;
