//! RRDtool's own state machine, for series that must show what RRDtool would.
//!
//! Accumulators cannot express some of RRDtool's rules (whether a slot is unknown depends on which
//! update closed it), so its state is updated on ingest, one [`State`] per data source, and emits
//! each row as RRDtool would write it. For times in whole seconds, [`Rrd::fetch`] agrees with
//! `rrdtool fetch` of RRDtool 1.7.2 in every printed digit; a test runs both over random sequences.
//!
//! # The rules
//!
//! 1. A row is labelled with its slot's end.
//! 2. An update at or before the last one is an error.
//! 3. The start is the last update; the earlier seconds of its slot are unknown.
//! 4. An interval longer than the heartbeat is unknown, and the reading before it forgotten.
//! 5. `U` and NaN are unknown.
//! 6. GAUGE is the rate; ABSOLUTE is divided by the interval.
//! 7. COUNTER: a negative difference gains 2^32 − 1 and, if still negative, 2^64 − 2^32.
//! 8. DERIVE is signed; a change of sign is unknown.
//! 9. DCOUNTER and DDERIVE are floating; a DCOUNTER that moves towards zero was reset: unknown.
//! 10. Bounds are on the rate, inclusive; beyond them the interval is unknown and the reading kept.
//! 11. A slot is Σ(rate × s) ÷ (step − unknown s), unknown when more than half the
//!     step had been unknown before the closing update.
//! 12. The closing update's own unknown seconds do not count in that test.
//! 13. An update that closes two slots or more closes the open one with its own piece;
//!     one that closes exactly one and exceeds the heartbeat loses the whole slot.
//! 14. A consolidated row spans n steps, aligned; unknown if more than n × xff of its slots
//!     are. AVERAGE is the mean of the known slots, MIN and MAX are of slots, LAST the last.
//! 15. Nothing shows until an update crosses the slot's end.
//! 16. Where times have parts of seconds, RRDtool drops those of unknown time
//!     (rrdtool-1.x#766) and some of the last microsecond; here they are exact.
//!
//! Two things are stricter than in RRDtool: a malformed reading is refused even where RRDtool would
//! ignore it (after a gap longer than the heartbeat; for a DCOUNTER or DDERIVE without a
//! predecessor), and so is one longer than 29 characters, where RRDtool truncates what it stores.
//! The sign of a NaN is meaningless, so `-nan` is printed as `nan`.
//!
//! ```text
//!  readings  →  interval × rate  →  slot (PDP)  →  rows of each archive (CDP)
//!  Reading      State::update       State          Archive → Row
//! ```

mod archive;
mod definition;
mod fetch;
mod reading;
mod state;
mod text;

pub use archive::{Archive, Consolidation, Row};
pub use definition::{Definition, DefinitionError, SourceKind};
pub use fetch::{FetchError, FetchResult, Rrd, format_value};
pub use reading::{Reading, ReadingError};
pub use state::{State, UpdateError};
