//! Runs, blocks, trials, histograms and verdicts: the plain data and their SQLite store.

mod model;

pub use model::*;
