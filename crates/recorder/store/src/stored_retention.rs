//! A retention as a store keeps it: its partitions, and the spans that are packed.

use std::collections::BTreeSet;

use series::{SECOND_US, Step};

use crate::{KnownTimes, Retention};

/// Number of slots in a span; the last one of a partition may have fewer.
pub(crate) const SPAN_SLOTS: i64 = 180;

/// For less than this, a clock that is wrong is not believed: what it has written meanwhile tells
/// nothing.
const WRONG_US: i64 = 3_600 * SECOND_US;

/// What a retention knows of the time: its partitions.
#[derive(Debug)]
pub(crate) struct Telling {
    kept: StoredRetention,
    /// The newest one.
    made_us: Option<i64>,
    /// The newest one that has slots, and the one that has them [for certain](StoredRetention::telling).
    newest_us: Option<i64>,
    certain_us: Option<i64>,
    /// The oldest one that has slots, if nothing has ever expired.
    oldest_us: Option<i64>,
}

impl Telling {
    /// Of a retention with these partitions; `has_slots` tells whether one has any.
    ///
    /// # Errors
    /// Those of `has_slots`.
    pub(crate) fn new<E>(
        kept: StoredRetention,
        partitions: &BTreeSet<i64>,
        mut has_slots: impl FnMut(i64) -> Result<bool, E>,
    ) -> Result<Telling, E> {
        let mut newest = Vec::new();
        for start_us in partitions.iter().rev() {
            if newest.len() < kept.telling() && has_slots(*start_us)? {
                newest.push(*start_us);
            }
        }
        let mut oldest_us = None;
        for start_us in partitions {
            if kept.horizon_us == i64::MIN && oldest_us.is_none() && has_slots(*start_us)? {
                oldest_us = Some(*start_us);
            }
        }
        let (newest_us, certain_us) = (newest.first().copied(), newest.last().copied());
        let made_us = partitions.last().copied();
        Ok(Telling { kept, made_us, newest_us, certain_us, oldest_us })
    }

    /// The time of the last expiry is in a partition that starts here; `None` if there was none.
    fn expired_us(&self) -> Option<i64> {
        let horizon_us = Some(self.kept.horizon_us).filter(|us| *us != i64::MIN)?;
        Some(horizon_us.saturating_add(self.kept.retention.age_us?))
    }

    /// The latest time by which no more expires than has already; `None` if that is unknown.
    fn harmless_us(&self) -> Option<i64> {
        let expired_us = self.expired_us().map(|us| self.kept.end_of(us));
        let oldest_us = self.oldest_us.zip(self.kept.retention.age_us);
        expired_us.or(oldest_us.map(|(us, age_us)| us.saturating_add(age_us)))
    }

    fn end_of(&self, partition_us: Option<i64>) -> Option<i64> {
        partition_us.map(|us| self.kept.end_of(us))
    }
}

/// What the retentions of a store know of the time.
pub(crate) fn known_times(all: &[Telling]) -> KnownTimes {
    let has_age = all.iter().any(|telling| telling.kept.retention.age_us.is_some());
    // The shortest partitions tell it best. While there are slots, partitions without any do not
    // count: each maintenance on a clock that is ahead would move it.
    let newest_us = || all.iter().filter_map(|telling| telling.end_of(telling.newest_us)).min();
    let made_us = || all.iter().filter_map(|telling| telling.end_of(telling.made_us)).min();
    let certain = all.iter().filter(|telling| telling.certain_us.is_some());
    let shortest = certain.min_by_key(|telling| telling.kept.partition_us);
    let certain_us = shortest.and_then(|telling| telling.end_of(telling.certain_us));
    let until_us = match has_age {
        true => all.iter().filter_map(Telling::harmless_us).min(),
        false => newest_us().or_else(made_us),
    };
    let from_us = all.iter().filter_map(Telling::expired_us).max();
    KnownTimes {
        expired_us: until_us.map(|until_us| from_us.unwrap_or(until_us).min(until_us)..=until_us),
        recorded_us: certain_us.or_else(made_us),
        newest_us: newest_us(),
    }
}

/// A retention in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredRetention {
    /// The step and the age.
    pub(crate) retention: Retention,
    /// The length of a partition, fixed when the retention was created.
    pub(crate) partition_us: i64,
    /// Start of the oldest partition that is kept: a multiple of `partition_us`, or the earliest
    /// time.
    pub(crate) horizon_us: i64,
}

impl StoredRetention {
    /// A new retention, of which nothing has expired.
    pub(crate) fn new(retention: Retention) -> StoredRetention {
        StoredRetention { retention, partition_us: retention.partition_us(), horizon_us: i64::MIN }
    }

    pub(crate) fn step(&self) -> Step {
        self.retention.step
    }

    /// How many of the newest partitions with slots are needed to know a time for certain: a clock that
    /// was wrong for less than [`WRONG_US`] may have written those of all but the last.
    pub(crate) fn telling(&self) -> usize {
        let over = WRONG_US.div_euclid(self.partition_us) + 1;
        let is_whole = WRONG_US.rem_euclid(self.partition_us) == 0;
        usize::try_from(over + i64::from(!is_whole)).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// The end of a partition.
    fn end_of(&self, partition_us: i64) -> i64 {
        partition_us.saturating_add(self.partition_us)
    }

    /// The start of the partition that contains an instant.
    pub(crate) fn partition_of(&self, at_us: i64) -> i64 {
        at_us.saturating_sub(at_us.rem_euclid(self.partition_us))
    }

    /// The start of the span that contains an instant: partitions consist of spans, which are
    /// packed.
    pub(crate) fn span_of(&self, at_us: i64) -> i64 {
        let partition_us = self.partition_of(at_us);
        let span_us = self.step().us().saturating_mul(SPAN_SLOTS);
        let since_us = at_us.saturating_sub(partition_us);
        partition_us.saturating_add(since_us - since_us.rem_euclid(span_us))
    }

    /// The end of a span: that of its partition for the last one, which may be shorter.
    pub(crate) fn span_end(&self, span_us: i64) -> i64 {
        let end_us = span_us.saturating_add(self.step().us().saturating_mul(SPAN_SLOTS));
        end_us.min(self.partition_of(span_us).saturating_add(self.partition_us))
    }

    /// The spans that overlap a time: the start of the first and the end of the last.
    pub(crate) fn spans_over(&self, from_us: i64, until_us: i64) -> Option<(i64, i64)> {
        let last_us = until_us.saturating_sub(1);
        (from_us < until_us).then(|| (self.span_of(from_us), self.span_end(self.span_of(last_us))))
    }

    /// The current partitions and the next ones, unless they have expired.
    pub(crate) fn ahead(&self, now_us: i64) -> BTreeSet<i64> {
        let present_us = self.partition_of(now_us);
        let next_us = present_us.saturating_add(self.partition_us);
        [present_us, next_us].into_iter().filter(|us| *us >= self.horizon_us).collect()
    }

    /// The horizon at `now_us`. It moves back only if a clock that was far ahead has moved it: what
    /// arrives from then on would otherwise not be kept until that time has come.
    pub(crate) fn horizon_at(&self, now_us: i64) -> i64 {
        let Some(age_us) = self.retention.age_us else { return self.horizon_us };
        let wanted_us = self.partition_of(now_us.saturating_sub(age_us));
        let present_us = self.partition_of(now_us);
        if self.horizon_us > present_us { wanted_us } else { wanted_us.max(self.horizon_us) }
    }
}
