//! Proofs that the recorder stores every acknowledged update exactly once, also after kill −9, and
//! that it reads formats as their own parsers do.
//!
//! [`batches`] and [`imports`] start a program, kill it at random moments and start it again, and
//! compare what is then stored with what should be. `xtask prove` runs them at length, and the tests of this
//! crate briefly.

pub mod batches;
pub mod corpus;
pub mod imports;
