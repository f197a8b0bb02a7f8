//! From updates to slots: arithmetic in which rate × time is the count.
//!
//! # Glossary
//!
//! - **Step**: the length of a slot, in whole microseconds ([`Step`]).
//! - **Slot**: a stretch of one step, aligned to the Unix epoch:
//!   `slot = t − t mod step`. It holds an [`Accumulator`], never an average.
//! - **Integral**: a slot's Σ count (flow) or Σ value × seconds (level) ([`Integral`]).
//! - **Covered**: the microseconds of a slot for which something is known.
//! - **Flow** and **level**: what is counted (requests, bytes) and what is held
//!   (temperature, memory). Flows add across lanes; levels are averaged by time ([`Flavor`]).
//! - **Interval**: an update with start and end: `(start, end, count | level)`.
//!   It needs no other update, so intervals come in any order ([`Interval`]).
//! - **Point**: an update `(t, value)` that covers the time since the previous
//!   point of its lane ([`Point`], [`Lane`]).
//! - **Heartbeat**: the longest gap between two points that a value may cover.
//! - **Bounds**: the smallest and largest rate a point may have; beyond them the time is unknown.
//! - **Lane**: a writer's own clock within a series: a host, a process.
//! - **Stream**: the deltas that one writer sends of a series; each of their times counts once
//!   ([`CountedTime`]).
//! - **Lateness window**: how far behind its lane's newest point a point may arrive.
//! - **Retraction**: the removal of an earlier interval; a negative count is one.
//! - **Resolution**: the slots of one step. A coarse slot is the sum of the fine ones in it.
//!
//! # From updates to slots
//!
//! An update is split at slot boundaries. A count is split in integers: the first `o` of an
//! interval of length `d` have `⌊count × o ÷ d⌋`, so each piece depends on the interval alone, the
//! last piece is the rest, and the pieces of a coarse slot are the sums of those of its fine slots.
//!
//! ```text
//!  time →      0s        10s       20s       30s       40s
//!  slots       ├─────────┼─────────┼─────────┼─────────┤
//!  interval         └───── 7 in 20 s ───┘
//!              5 s: 1      10 s: 4   5 s: 2              1 + 4 + 2 = 7
//!
//!  points           a         b  ⇣c       d
//!                   └─ b held ┴──c─┴── d ─┘              c comes late, and takes
//!                                                        its part of d's time back
//! ```
//!
//! # From slots to coarser slots
//!
//! ```text
//!  10 s   │ 1 │ 4 │ 2 │ 0 │ · │ 9 │      integral, covered, n: added
//!         └───────────┬───────────┘      vmin, vmax: least, greatest
//!  60 s   │          16           │      last: the latest
//! ```
//!
//! Nothing is averaged before it is shown, so nothing is averaged twice, and the total is the same
//! at every resolution.
//!
//! ```
//! use series::{Batch, Delta, Integral, Interval, SlotKey, Slots, Step, SECOND_US};
//!
//! let (ten, minute) = (Step::from_secs(10).unwrap(), Step::from_secs(60).unwrap());
//! let requests = Interval::count(5 * SECOND_US, 25 * SECOND_US, 7)?;
//! let mut batch = Batch::default();
//! for (slot_us, part) in requests.slots(ten) {
//!     batch.add(SlotKey { slot_us, series: 1, lane: 0 }, Delta::widen(part));
//! }
//! let (mut fine, mut coarse) = (Slots::default(), Slots::default());
//! fine.apply_batch(&batch);
//! coarse.apply_batch(&batch.coarsened(minute));
//!
//! let key = SlotKey { slot_us: 0, series: 1, lane: 0 };
//! let row = coarse.get(key).unwrap();
//! assert_eq!(row.integral, Integral::Count(7));
//! assert_eq!(row.rate(minute, 0.5), None, "20 s of 60 s are less than half");
//! assert_eq!(row.rate(minute, 0.9), Some(0.35));
//! assert_eq!(&coarse, &fine.consolidated(minute));
//! # Ok::<(), series::Refusal>(())
//! ```
//!
//! # Exactness
//!
//! Times are integer microseconds. Counts are integers and exact up to [`COUNT_MAX`] = 2^53, the
//! largest for which a database's double is exact. The integral of a level is a double, with an
//! error of at most one part in 10^12 of the Σ |value| × seconds that was added or retracted.
//!
//! # Not in this crate
//!
//! Storage: this crate computes the changes of the row `(slot, series, lane)` ([`SlotKey`],
//! [`Delta`]) and how rows merge, and keeps rows only in memory ([`Slots`]). Neither names and
//! tags, protocols, clocks (the caller provides the time), nor I/O.
//!
//! The module [`rrd`] is separate: RRDtool's own state machine, for series that must show what
//! RRDtool would, to the last printed digit.

mod accumulator;
mod amount;
mod combine;
mod counted;
mod delta;
mod interval;
mod lane;
mod log;
mod point;
mod refusal;
pub mod rrd;
mod time;

pub use accumulator::{Accumulator, Integral};
pub use amount::{Amount, COUNT_MAX, LEVEL_MAX};
pub use combine::{CombinedSlot, combine};
pub use counted::CountedTime;
pub use delta::{Batch, Bounds, Delta, SlotKey, Slots};
pub use interval::{Cover, Interval, Sense};
pub use lane::{Lane, Outcome};
pub use log::{Intervals, Log, Mark, Points, nearest_whole};
pub use point::{Flavor, Gap, Kind, Point, Reading, Spec};
pub use refusal::{Limits, Refusal, Refusals};
pub use time::{SECOND_US, Span, Step};
