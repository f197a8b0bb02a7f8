//! The interface of all stores.

use std::borrow::Cow;

use series::{Accumulator, Lane, SlotKey, Step, rrd::Rrd};

use crate::{
    Abandonment, Changes, Digests, KnownTimes, NewSeries, NotMade, Retention, Selector, Series,
    SeriesLimit, StoreError, Take, Writer,
};

/// Result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchResult {
    /// It is stored now.
    Now {
        /// Number of its slots older than any retention keeps, which were omitted.
        expired: u64,
    },
    /// It was applied before; nothing has changed.
    Before,
}

/// Result of maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceResult {
    /// Dropped partitions, all of whose slots had expired.
    pub dropped: u64,
    /// Partitions created in advance.
    pub made: u64,
    /// Slots packed because their span was over.
    pub sealed: u64,
    /// Whether it was ended early, so that more is to be done.
    pub is_partial: bool,
    /// Whether another process is doing it now.
    pub is_elsewhere: bool,
}

/// How long a span must be over before maintenance seals it: most late data has arrived by then.
pub const SEALED_AFTER_US: i64 = 2 * 3_600 * series::SECOND_US;

/// Limit on the requests that one call of [`Store::forget_requests`] forgets: some tens of
/// milliseconds, for which batches may have to wait.
pub const FORGOTTEN_MAX: u64 = 5_000;

/// The day of a time in microseconds since the epoch, since 1970.
pub(crate) fn day_of(at_us: i64) -> i32 {
    // 2^63 microseconds are 10^8 days.
    at_us.div_euclid(86_400 * series::SECOND_US) as i32
}

/// A batch in pieces, so that it need not be in memory as a whole.
pub trait Source {
    /// Restarts with the first piece. The pieces are the same each time.
    fn restart(&mut self);

    /// The next piece; `None` after the last one.
    fn next(&mut self) -> Option<Cow<'_, Changes>>;
}

/// A batch of one piece.
#[derive(Debug)]
pub(crate) struct WholeBatch<'c> {
    changes: &'c Changes,
    given: bool,
}

impl<'c> WholeBatch<'c> {
    pub(crate) fn new(changes: &'c Changes) -> WholeBatch<'c> {
        WholeBatch { changes, given: false }
    }
}

impl Source for WholeBatch<'_> {
    fn restart(&mut self) {
        self.given = false;
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        (!std::mem::replace(&mut self.given, true)).then_some(Cow::Borrowed(self.changes))
    }
}

/// The time that the expiry of one command believes, in microseconds since the epoch: the clock's,
/// unless that is ahead of [what is recorded](KnownTimes::recorded_us). A command cannot wait whether a
/// clock stays where it is.
///
/// # Errors
/// Those of the store.
pub fn believed_us(store: &mut dyn Store, clock_us: i64) -> Result<i64, StoreError> {
    let recorded_us = store.known_times()?.recorded_us;
    Ok(recorded_us.map_or(clock_us, |recorded_us| clock_us.min(recorded_us)))
}

/// A place for series and their slots. Every call is one transaction, which is on disk when the
/// call returns, if the store has a disk.
pub trait Store: Send {
    /// Its location, for messages; without passwords.
    fn place(&self) -> String;

    /// What ends the reads of a store that was opened read-only; elsewhere it has no effect.
    fn abandonment(&self) -> Abandonment {
        Abandonment::default()
    }

    /// The retentions, finest first.
    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError>;

    /// Adds retentions, and changes the ages of those with the same step. None is removed.
    ///
    /// A new one starts empty: it does not contain earlier data.
    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError>;

    /// Finds series by their identity, and creates missing ones; one result for each.
    ///
    /// An existing series is returned as it was created, whatever else is requested.
    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError>;

    /// The selected series, ordered by identity.
    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError>;

    /// The number of series. Series are never removed, so an equal number means the same series.
    fn series_count(&mut self) -> Result<i64, StoreError>;

    /// The numbers of lanes by name; missing ones are created. The empty name is lane 0.
    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError>;

    /// The state of lanes, by series and lane; a lane that was never saved is a new one.
    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError>;

    /// A series in RRD mode with its rows; `None` for other series, or before the first write.
    fn rrd(&mut self, series: i64) -> Result<Option<Rrd>, StoreError>;

    /// The number of the writer's last batch; 0 without one.
    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError>;

    /// Whether a batch has the request of this name, and it is not yet forgotten.
    fn has_request(&mut self, key: Writer) -> Result<bool, StoreError>;

    /// Forgets requests that arrived on days (UTC) before that of `until_us`, in microseconds since
    /// the epoch; returns their number. There may be more if it is [`FORGOTTEN_MAX`] or larger.
    fn forget_requests(&mut self, until_us: i64) -> Result<u64, StoreError>;

    /// What it knows of the time.
    fn known_times(&mut self) -> Result<KnownTimes, StoreError>;

    /// Applies batch number `seq` of a writer, which numbers its batches 1, 2, 3 …: once and
    /// completely, or not at all.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the previous batch has not been applied; [`StoreError::Overflow`]
    /// if a count would reach 2^53; [`StoreError::NoRetention`] for a step without retention. After
    /// any of these the same batch may be sent again. [`StoreError::Stale`] if another writer has
    /// changed a lane since: then the batch must be computed again from the lanes in the error.
    fn apply(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<BatchResult, StoreError> {
        self.apply_all(&[(writer, seq)], &mut WholeBatch::new(changes))
    }

    /// Applies a batch that represents batches of several writers, each given with its number: all
    /// of them once and completely, or none.
    ///
    /// # Errors
    /// Those of [`Store::apply`], and [`StoreError::Overtaken`] if some of the batches were
    /// applied before and others were not, or if another batch has one of the requests.
    fn apply_all(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
    ) -> Result<BatchResult, StoreError>;

    /// The slots of `step` that start at or after `from_us` and before `until_us` (microseconds
    /// since the epoch), ordered by key.
    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError>;

    /// Reads the slots of all series of `step` that start at or after `from_us` and before
    /// `until_us` (microseconds since the epoch), with the lanes added: series by series, in the
    /// order of their numbers. All of it is of one moment.
    ///
    /// Ends early when `take` says so. Returns the horizon: earlier slots have expired.
    fn scan(
        &mut self,
        step: Step,
        from_us: i64,
        until_us: i64,
        take: &mut Take<'_>,
    ) -> Result<i64, StoreError>;

    /// Digests of the spans of `step` that overlap a time: from `from_us` up to `until_us`. Much
    /// faster than [`Store::scan`], because nothing is unpacked.
    fn digests(&mut self, step: Step, from_us: i64, until_us: i64) -> Result<Digests, StoreError>;

    /// The id of this store: a UUID, made at random by the first call and kept in the store. A copy
    /// of the store has the same.
    fn recorder(&mut self) -> Result<String, StoreError>;

    /// Packs the slots of every span that is over at `until_us` (microseconds since the epoch), in
    /// PostgreSQL only of series with enough of them; returns the number of packed slots. Reads give
    /// the same results.
    ///
    /// Each span, or some series of it, is a separate transaction. Packed slots can be changed like
    /// others, only more slowly.
    ///
    /// # Errors
    /// Those of a database; what was packed before stays packed.
    fn seal(&mut self, until_us: i64) -> Result<u64, StoreError>;

    /// Drops the partitions that have expired at `now_us`, creates those that are needed next, and
    /// seals the spans that have been over for two hours.
    ///
    /// From then on, slots older than what is kept are not written. Where several processes share a
    /// database, one does it at a time; for the others [`MaintenanceResult::is_elsewhere`] is set.
    fn maintain(&mut self, now_us: i64) -> Result<MaintenanceResult, StoreError> {
        self.maintain_while(now_us, &mut || true)
    }

    /// Like [`Store::maintain`], but drops no further partition and seals no further span once
    /// `goes_on` returns false, so that batches need not wait for long: each is a transaction of its
    /// own. The next call continues.
    fn maintain_while(
        &mut self,
        now_us: i64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError>;
}
