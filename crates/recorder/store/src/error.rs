//! Errors of a store; each says what to do.

use recordfile::RecordError;
use series::{Lane, SlotKey};

use crate::Writer;

/// A store could not be opened, written or read. Nothing of the call has been applied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The SQLite file cannot be opened, written or read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The URL of a PostgreSQL database is invalid.
    #[error(
        "'{url}' is not the URL of a PostgreSQL database ({cause}): write postgres://user@host/database, or postgres:///database?host=/var/run/postgresql for a Unix socket"
    )]
    Url {
        /// The URL without its password.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// PostgreSQL does not respond.
    #[error(
        "PostgreSQL at {place} does not answer ({cause}): start it, or set TACHOGRAPH_RECORD to another database or a file"
    )]
    Unreachable {
        /// The address.
        place: String,
        /// The system's error.
        cause: String,
    },
    /// The host of a PostgreSQL URL has no address.
    #[error("the host of PostgreSQL at {place} is not known ({cause}): check TACHOGRAPH_RECORD")]
    NoHost {
        /// The address.
        place: String,
        /// The system's error.
        cause: String,
    },
    /// PostgreSQL refuses the login.
    #[error(
        "PostgreSQL at {place} does not let us in ({cause}): check the user and the password in TACHOGRAPH_RECORD"
    )]
    NotLetIn {
        /// Where.
        place: String,
        /// What PostgreSQL said.
        cause: String,
    },
    /// The database does not exist.
    #[error(
        "no database at {place}: create it with `createdb`, or set TACHOGRAPH_RECORD to another one"
    )]
    NoDatabase {
        /// Where.
        place: String,
    },
    /// The user lacks a privilege.
    #[error(
        "PostgreSQL at {place} does not allow it ({cause}): grant the user CREATE on the schema, or open the store for reading only"
    )]
    Denied {
        /// Where.
        place: String,
        /// What PostgreSQL said.
        cause: String,
    },
    /// The connection broke.
    #[error(
        "the connection to PostgreSQL at {place} was lost: run the command again once it is back; \
         a batch that is sent twice counts once"
    )]
    Lost {
        /// Where.
        place: String,
    },
    /// The server's disk is full.
    #[error(
        "no space left for PostgreSQL at {place}: free some space on its disk, and send the batch \
         again"
    )]
    Full {
        /// Where.
        place: String,
    },
    /// A lock was not available.
    #[error("PostgreSQL at {place} is busy with a long query or another writer: call again later")]
    Busy {
        /// Where.
        place: String,
    },
    /// The read was cancelled ([`crate::Abandonment`]).
    #[error("the read was stopped, because its client went away")]
    Abandoned,
    /// A later version created the schema.
    #[error(
        "the series at {place} were written by a newer tachograph (schema {found}; this version \
         reads {known}): update tachograph, or set TACHOGRAPH_RECORD to another database"
    )]
    Newer {
        /// Where.
        place: String,
        /// The schema found.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// An earlier version created the schema, and reading does not change it.
    #[error(
        "the series at {place} were written by an older tachograph (schema {found}; this version \
         reads {known}): run `tachograph maintain` once, which migrates them"
    )]
    Older {
        /// Where.
        place: String,
        /// The schema found.
        found: i64,
        /// The schema that this version reads.
        known: i64,
    },
    /// A version before the first release created the schema.
    #[error(
        "the series at {place} were written by a tachograph before its first release (schema {found}; \
         this version reads {known}): import them again, or set TACHOGRAPH_RECORD to another file or \
         database"
    )]
    Unreleased {
        /// Where.
        place: String,
        /// The schema found.
        found: i64,
        /// The schema that this version reads.
        known: i64,
    },
    /// Any other PostgreSQL error.
    #[error("PostgreSQL at {place} failed ({cause}): nothing of this call was applied")]
    Postgres {
        /// Where.
        place: String,
        /// What PostgreSQL said.
        cause: String,
    },
    /// An invalid value in the database.
    #[error(
        "invalid value in the series at {place} ({cause}): it was changed by hand or by another \
         program"
    )]
    Value {
        /// Where.
        place: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A time outside PostgreSQL's range.
    #[error(
        "a slot at {0} µs since 1970 is beyond the times that PostgreSQL knows: leave the updates before 4684 BC and after the year 287000 out"
    )]
    Time(i64),
    /// A store without series.
    #[error("no series recorded in {0} yet: import some, or start a run")]
    NoSeries(String),
    /// Batches of a writer are missing.
    #[error(
        "writer {writer} sent batch {sent}, but its last one here is {last}: send the batches between them first"
    )]
    Missing {
        /// The writer.
        writer: Writer,
        /// The number of this batch.
        sent: u64,
        /// The number of the last batch that was applied.
        last: u64,
    },
    /// Some of the batches to be applied together, or some of their requests, are already stored.
    #[error("another process has written a part of the same data: run this one again to resume")]
    Overtaken,
    /// Lanes are not as they were when the batch was computed: another writer has changed them.
    #[error(
        "another process keeps writing the same {} series: give each writer its own --lane, or stop \
         one of them and run this again", .lanes.len()
    )]
    Stale {
        /// The lanes as they are now, by series and lane.
        lanes: Vec<((i64, i32), Lane)>,
    },
    /// A count would exceed what a double holds exactly, which must stay below 2^53.
    #[error("the counts of {} slots would reach 2^53, the first in series {} at {} µs: omit the \
        updates of these series", .slots.len(), first_series(.slots), first_slot_us(.slots))]
    Overflow {
        /// Step and key of each.
        slots: Vec<(i64, SlotKey)>,
    },
    /// A change for a step without retention.
    #[error("no retention has a step of {0} µs: add one before slots of that step are written")]
    NoRetention(i64),
    /// Too many partitions would be needed.
    #[error(
        "slots of {step_us} µs would need {count} partitions, and {most} are the most: narrow the time that is written, or give the retention an age"
    )]
    TooManyPartitions {
        /// The retention's step.
        step_us: i64,
        /// The number needed.
        count: usize,
        /// The limit.
        most: usize,
    },
}

impl StoreError {
    /// Whether a retry may succeed: the store is starting, restarting, busy, or out of space.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            StoreError::Record(RecordError::Locked(_) | RecordError::Full(_))
                | StoreError::Unreachable { .. }
                | StoreError::Lost { .. }
                | StoreError::Full { .. }
                | StoreError::Busy { .. }
        )
    }
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
            "the counts of 1 slots would reach 2^53, the first in series 7 at 20 µs: omit the \
             updates of these series"
        );
    }
}
