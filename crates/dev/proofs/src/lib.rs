//! Proofs that the recorder stores every acknowledged update exactly once, also after kill −9, and
//! that it reads formats as their own parsers do.
//!
//! [`batches`] and [`imports`] start a program, kill it at random moments and start it again, and
//! compare what is then stored with what should be. `xtask prove` runs them at length, and the tests of this
//! crate briefly. The tests of `stage` that need a process to kill are here too, because the programs
//! that tests start do not belong into the product's crates.

pub mod batches;
pub mod corpus;
pub mod imports;
pub mod tables;
