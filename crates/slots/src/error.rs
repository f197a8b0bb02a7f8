//! What can go wrong with a store, in sentences that say what to do.

use series::SlotKey;

use crate::Writer;

/// A store could not be opened, written or read. Nothing of the call has been applied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The SQLite file cannot be opened, written or read.
    #[error(transparent)]
    Record(#[from] record::RecordError),
    /// A store that holds no series.
    #[error("no series have been recorded in {0} yet: import some, or make a run")]
    NoSeries(String),
    /// Batches of a writer are missing.
    #[error(
        "writer {writer} sent batch {sent}, but its last one here is {last}: send the batches between them first"
    )]
    Missing {
        /// Who.
        writer: Writer,
        /// The number of the batch that came.
        sent: u64,
        /// The number of the last one that was applied.
        last: u64,
    },
    /// A count would be larger than a double can hold exactly.
    #[error("the counts of {} slots would go beyond 2^53, the first in series {} at {} µs: leave the updates of these series out", .slots.len(), first_series(.slots), first_slot_us(.slots))]
    Overflow {
        /// The step and the key of each.
        slots: Vec<(i64, SlotKey)>,
    },
    /// A change for a step that no retention has.
    #[error("no retention has a step of {0} µs: add one before slots of that step are written")]
    NoRetention(i64),
    /// Too many partitions would be needed.
    #[error(
        "slots of {step_us} µs would need {count} partitions, and {most} are the most: narrow the time that is written, or give the retention an age"
    )]
    TooManyPartitions {
        /// The retention's step.
        step_us: i64,
        /// How many would be needed.
        count: usize,
        /// How many there may be.
        most: usize,
    },
}

fn first_series(slots: &[(i64, SlotKey)]) -> i64 {
    slots.first().map_or(0, |(_, key)| key.series)
}

fn first_slot_us(slots: &[(i64, SlotKey)]) -> i64 {
    slots.first().map_or(0, |(_, key)| key.slot_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let missing = StoreError::Missing { writer: Writer(1), sent: 5, last: 3 };
        assert_eq!(
            missing.to_string(),
            "writer 00000000-0000-0000-0000-000000000001 sent batch 5, but its last one here is 3: send the batches between them first"
        );
        let key = SlotKey { slot_us: 20, series: 7, lane: 0 };
        assert_eq!(
            StoreError::Overflow { slots: vec![(10, key)] }.to_string(),
            "the counts of 1 slots would go beyond 2^53, the first in series 7 at 20 µs: leave the updates of these series out"
        );
    }
}
