//! Recent updates in memory, before they go to a store.
//!
//! Updates arrive slot by slot over all series, while a store is fast and small when it gets many
//! slots of a series at once. So updates are gathered here, series by series, in two or three bytes
//! each, until they are [frozen](Head::freeze) and written in one batch.
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
//! - **Stream**: deltas of which each time counts once ([`series::CountedTime`]).
//! - **Claim**: the batch of a writer that the updates represent. Claims are written in the same
//!   transaction as the slots, so an interrupted writer can find out what is stored.
//! - **Journal**: acknowledged updates on disk, until a store has them ([`crate::journal`]).
//!
//! # Not in this module
//!
//! Names of series, protocols, databases, and when to write: the caller checks [`Head::bytes`].

mod frozen;
mod open;
mod recent;

pub use frozen::FrozenBatch;
pub use open::Head;
pub use recent::Place;
pub(crate) use recent::STREAM_LANE;
