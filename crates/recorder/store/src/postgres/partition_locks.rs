//! The locks of partitions.
//!
//! A transaction that writes slots shares the locks of their partitions; one that packs rows takes
//! the lock of their partition exclusively. Otherwise rows could become packed after a writer has
//! looked for them: it would insert a new row, and new bounds would be merged with those in the packed
//! row instead of replacing them.

use crate::stored_retention::StoredRetention;

/// Shares the locks of these [parts](part_of) until the end of the transaction.
///
/// The first number spells "seal"; the second is made of those of the schema and of the part.
pub(super) const SHARED: &str = "SELECT pg_advisory_xact_lock_shared(1936023916,
        ((current_schema()::regnamespace::oid::bigint * 64 + part) % 2147483647)::int)
    FROM unnest($1::bigint[]) AS part";

/// Holds the lock of a part alone.
pub(super) const ALONE: &str = "SELECT pg_advisory_xact_lock(1936023916,
        ((current_schema()::regnamespace::oid::bigint * 64 + $1::bigint) % 2147483647)::int)";

/// The number of the lock of a partition, from 0 to 63: several partitions have the same, so that an
/// import of many years holds few.
pub(super) fn part_of(kept: &StoredRetention, at_us: i64) -> i64 {
    let partition = kept.partition_of(at_us).div_euclid(kept.partition_us);
    partition.wrapping_add(kept.step().us() / series::SECOND_US).rem_euclid(64)
}
