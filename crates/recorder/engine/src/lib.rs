//! From acknowledged messages to committed slots.
//!
//! ```text
//!  messages ─→ journal ─→ head ─→ batch ─→ store
//!              (on disk,   (in memory, series
//!              then        by series)
//!              acknowledged)
//! ```
//!
//! - [`journal`]: acknowledged updates on disk, until a store has them.
//! - [`record`]: what is in the journal: messages, and the batches that contain them.
//! - [`session`]: which batches the store has, and where to continue after a kill.
//! - [`head`]: recent updates in memory, series by series, until they are written in one batch.
//! - [`clock`]: which time to believe, when the machine's clock may be wrong.
//! - [`disk`]: the disk as a trait, so that a simulator can tear writes, fill the disk, and cut the
//!   power (`tests/simulation`).

pub mod clock;
pub mod disk;
pub mod head;
pub mod journal;
pub mod record;
pub mod session;

pub use clock::{Clock, Moment};
pub use disk::{Disk, Folder};
pub use head::{Frozen, Head, Place};
pub use journal::{Journal, JournalError};
pub use record::{Format, Record};
pub use session::{Batches, Session, SessionError, WindowsRecord};
