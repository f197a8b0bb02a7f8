//! A retention as a store keeps it: its partitions, and the spans that are packed.

use std::collections::BTreeSet;

use series::Step;

use crate::Retention;

/// Number of slots in a span; the last one of a partition may have fewer.
pub(crate) const SPAN_SLOTS: i64 = 180;

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

    /// The end of a partition.
    pub(crate) fn end_of(&self, partition_us: i64) -> i64 {
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
