//! What a store knows of the time, so that a wrong clock makes nothing expire.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use series::SECOND_US;

use crate::stored_retention::StoredRetention;

/// What a store knows of the time, in microseconds since the epoch. A clock that is far ahead of it
/// may be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTimes {
    /// The latest time that expiry has believed, to the length of a partition; if nothing has ever
    /// expired, the age of the oldest slots, and the end of the newest if everything is kept for ever.
    /// `None` without slots.
    ///
    /// A wrong clock can write slots at once, but moves this only if expiry believes it.
    pub expired_us: Option<RangeInclusive<i64>>,
    /// The end of the newest partition that a clock which was wrong for less than an hour cannot have
    /// filled. `None` without partitions.
    pub recorded_us: Option<i64>,
    /// The end of the newest partition with slots, even if a wrong clock wrote them. `None` without slots.
    pub newest_us: Option<i64>,
}

/// For less than this, a clock that is wrong is not believed: what it has written meanwhile tells
/// nothing.
const WRONG_US: i64 = 3_600 * SECOND_US;

/// What the partitions of a retention tell about the time: the starts of some of them.
#[derive(Debug)]
pub(crate) struct RetentionTimes {
    kept: StoredRetention,
    /// The newest one.
    made_us: Option<i64>,
    /// The newest one that has slots, and the one that has them [for certain](needed).
    newest_us: Option<i64>,
    certain_us: Option<i64>,
    /// The oldest one that has slots, if nothing has ever expired.
    oldest_us: Option<i64>,
}

impl RetentionTimes {
    /// Of a retention with these partitions; `has_slots` tells whether one has any.
    ///
    /// # Errors
    /// Those of `has_slots`.
    pub(crate) fn new<E>(
        kept: StoredRetention,
        partitions: &BTreeSet<i64>,
        mut has_slots: impl FnMut(i64) -> Result<bool, E>,
    ) -> Result<RetentionTimes, E> {
        let (mut newest, needed) = (Vec::new(), needed(&kept));
        for start_us in partitions.iter().rev() {
            if newest.len() < needed && has_slots(*start_us)? {
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
        Ok(RetentionTimes { kept, made_us, newest_us, certain_us, oldest_us })
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

/// What retentions know of the time together.
pub(crate) fn known_times(all: &[RetentionTimes]) -> KnownTimes {
    let has_age = all.iter().any(|one| one.kept.retention.age_us.is_some());
    // The shortest partitions tell it best. While there are slots, partitions without any do not
    // count: each maintenance on a clock that is ahead would move it.
    let newest_us = || all.iter().filter_map(|one| one.end_of(one.newest_us)).min();
    let made_us = || all.iter().filter_map(|one| one.end_of(one.made_us)).min();
    let certain = all.iter().filter(|one| one.certain_us.is_some());
    let shortest = certain.min_by_key(|one| one.kept.partition_us);
    let certain_us = shortest.and_then(|one| one.end_of(one.certain_us));
    let until_us = match has_age {
        true => all.iter().filter_map(RetentionTimes::harmless_us).min(),
        false => newest_us().or_else(made_us),
    };
    let from_us = all.iter().filter_map(RetentionTimes::expired_us).max();
    KnownTimes {
        expired_us: until_us.map(|until_us| from_us.unwrap_or(until_us).min(until_us)..=until_us),
        recorded_us: certain_us.or_else(made_us),
        newest_us: newest_us(),
    }
}

/// How many of the newest partitions with slots are needed to know a time for certain: a clock that
/// was wrong for less than [`WRONG_US`] may have written those of all but the last.
fn needed(kept: &StoredRetention) -> usize {
    let over = WRONG_US.div_euclid(kept.partition_us) + 1;
    let is_whole = WRONG_US.rem_euclid(kept.partition_us) == 0;
    usize::try_from(over + i64::from(!is_whole)).unwrap_or(usize::MAX).saturating_add(1)
}
