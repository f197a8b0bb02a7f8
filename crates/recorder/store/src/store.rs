//! What every store can do.

use series::{Accumulator, Lane, SlotKey, Step, rrd::Rrd};

use crate::{
    Changes, NewSeries, NotMade, Retention, Selector, Series, SeriesLimit, StoreError, Writer,
};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is in the store now.
    Now {
        /// How many of its slots are older than what any retention keeps, and so were left out.
        expired: u64,
    },
    /// It was applied before, and nothing has changed.
    Before,
}

/// What maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Partitions that were dropped because all of their slots had expired.
    pub dropped: u64,
    /// Partitions that were made ahead of time.
    pub made: u64,
    /// Slots that were packed because their span was over.
    pub sealed: u64,
}

/// How long a span is over before maintenance seals it: most of what comes late has come by then.
pub const SEALED_AFTER_US: i64 = 2 * 3_600 * series::SECOND_US;

/// A batch that comes in pieces, so that it need not be held at once.
pub trait Source {
    /// Begins again with the first piece. Every time the pieces are the same.
    fn restart(&mut self);

    /// The next piece; `None` after the last one.
    fn next(&mut self) -> Option<&Changes>;
}

/// A batch that is one piece.
#[derive(Debug)]
pub(crate) struct Whole<'c> {
    changes: &'c Changes,
    given: bool,
}

impl<'c> Whole<'c> {
    pub(crate) fn new(changes: &'c Changes) -> Whole<'c> {
        Whole { changes, given: false }
    }
}

impl Source for Whole<'_> {
    fn restart(&mut self) {
        self.given = false;
    }

    fn next(&mut self) -> Option<&Changes> {
        (!std::mem::replace(&mut self.given, true)).then_some(self.changes)
    }
}

/// A place where series and their slots are kept. Every call is one transaction,
/// which is on disk when the call returns, if the store has a disk.
pub trait Store: Send {
    /// Where it is, for messages; without passwords.
    fn place(&self) -> String;

    /// The retentions, the finest first.
    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError>;

    /// Adds retentions, and changes the ages of those that have the same step. None is taken away.
    ///
    /// A new one begins empty: it does not hold what was written before.
    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError>;

    /// Finds series by their identity, and makes those that do not exist; one answer for each that is wanted.
    ///
    /// A series that exists is given as it was made, whatever else is wanted of it.
    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError>;

    /// The series that are meant, in the order of their identities.
    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError>;

    /// The numbers of lanes by their names, made on first sight. The empty name is lane 0.
    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError>;

    /// The state of lanes, by series and lane; a lane that was never saved is a new one.
    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError>;

    /// A series in RRD mode with its rows; `None` if it is not, or nothing was written yet.
    fn rrd(&mut self, series: i64) -> Result<Option<Rrd>, StoreError>;

    /// The number of the writer's last batch; 0 if there is none.
    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError>;

    /// Applies batch number `seq` of a writer, which numbers its batches 1, 2, 3 …: once, whole, or not at all.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the batch before it has not been applied;
    /// [`StoreError::Overflow`] if a count would reach 2^53;
    /// [`StoreError::NoRetention`] for a step that is not kept. After any error
    /// the same batch may be sent again.
    fn apply(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<Applied, StoreError> {
        self.apply_all(&[(writer, seq)], &mut Whole::new(changes))
    }

    /// Applies a batch that stands for batches of several writers, each given with its number: all
    /// of them once and whole, or none.
    ///
    /// # Errors
    /// Those of [`Store::apply`], and [`StoreError::Overtaken`] if some of the batches were
    /// applied before and others were not.
    fn apply_all(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
    ) -> Result<Applied, StoreError>;

    /// The slots of `step` that begin at or after `from_us` and before `until_us`
    /// (microseconds since the epoch), in the order of their keys.
    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError>;

    /// Packs the slots of every span that is over at `until_us` (microseconds since the epoch), where
    /// a series has enough of them for it; how many were packed. Nothing of what is read changes.
    ///
    /// Each span is a transaction of its own. Packed slots are written to as others are, only more slowly.
    ///
    /// # Errors
    /// Those of a database; what was packed until then stays packed.
    fn seal(&mut self, until_us: i64) -> Result<u64, StoreError>;

    /// Drops the partitions that have expired at `now_us`, makes those that are needed next, and
    /// seals the spans that have been over for two hours.
    ///
    /// Slots older than what is kept are not written from then on.
    fn maintain(&mut self, now_us: i64) -> Result<Maintained, StoreError>;
}
