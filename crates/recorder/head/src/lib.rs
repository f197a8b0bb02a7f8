//! What came last, in memory, before it goes to a store.
//!
//! Updates come slot after slot over all series; a store is fast and small when it is given many
//! slots of a series at once. So updates are gathered here, series by series, in two or three
//! bytes each, until they are [frozen](Head::freeze) and written in one batch.
//!
//! ```text
//!                      ┌ log of series 1: recent points │ new ones ┐
//!  updates as they ─→  ├ log of series 2                           ├ freeze ─→ Frozen ─→ Store::apply_all
//!  come, any series    └ …                                         ┘  │          (one transaction: slots,
//!                                                                     │           lanes, and the claims)
//!                        recent points alone, for what comes next  ←──┘
//! ```
//!
//! # Glossary
//!
//! - **Log**: the updates of a series in the order in which they came, as [`series::Log`] keeps them.
//! - **Recent points**: those that a late point may still come between ([`series::Lane`]).
//! - **Claim**: the batch of a writer for which the updates stand. Claims are written in the
//!   transaction that writes the slots, so that whoever is cut off knows what is there.
//! - **Journal**: what was acknowledged, on disk, until a store has it ([`journal`]).
//!
//! # What this crate does not concern itself with
//!
//! Names of series, protocols, databases, and when to write: whoever fills it looks at
//! [`Head::bytes`].

mod frozen;
pub mod journal;
mod open;

pub use frozen::Frozen;
pub use journal::{Journal, JournalError};
pub use open::{Head, Place};
