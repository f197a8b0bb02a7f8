//! From acknowledged messages to committed slots.
//!
//! ```text
//!  messages ─→ journal ─→ head ─→ batch ─→ store
//!              (on disk,   (in memory, series
//!              then        by series)
//!              acknowledged)
//! ```
//!
//! - [`Engine`]: the state machine. It is told what happens ([`Event`]), and wants things to be done
//!   ([`Effect`]); an executor has the threads, the clock, the disk and the store.
//! - [`journal`]: acknowledged updates on disk, until a store has them.
//! - [`record`]: what is in the journal: messages, and the batches that contain them.
//! - [`session`]: which batches the store has, and where to continue after a kill.
//! - [`head`]: recent updates in memory, series by series, until they are written in one batch.
//! - [`clock`]: which time to believe, when the machine's clock may be wrong.
//! - [`disk`]: the disk as a trait, so that a simulator can tear writes, fill the disk, and cut the
//!   power (`tests/simulation`).
//! - [`gather`]: the head by the names of series.
//! - [`Piece`]: what a source gives that can be read again, such as a file, and needs no journal.

mod advance;
mod alone;
mod answer;
mod behind;
pub mod clock;
pub mod disk;
mod elements;
mod engine;
mod event;
pub mod gather;
pub mod head;
mod intake;
pub mod journal;
mod options;
mod outgoing;
mod placed;
pub mod record;
pub mod session;
mod state;
mod statsd;
mod stored;
mod text;
mod unstored;
mod upkeep;

pub use answer::{LineCounts, Message, RefusedLines};
pub use clock::{ArrivalTimes, Clock, Moment};
pub use disk::{Disk, Folder};
pub use engine::Engine;
pub use event::{Effect, EngineError, Event, Figure, Now, Reply, Wants};
pub use gather::Gatherer;
pub use head::{FrozenBatch, Head, Place};
pub use journal::{Journal, JournalError};
pub use options::{EngineOptions, HEAD_BYTES, Options, RrdMode, WRITTEN_EACH};
pub use placed::{Piece, PlacedUpdate};
pub use record::{Format, Record};
pub use session::{Batches, Session, SessionError};
pub use stored::{StoredBatch, write};
pub use unstored::UnstoredUpdates;
