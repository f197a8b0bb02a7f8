//! The table of a partition's packed slots.

use crate::names;
use crate::packed::{DIVIDED, NUMBERS};

/// The columns after the key, in the order of writing and reading.
pub(super) fn columns() -> String {
    let numbers = NUMBERS.iter().map(|column| format!("{column}_base, {column}"));
    let divisors = DIVIDED.iter().map(|column| format!("{column}_div"));
    let all: Vec<String> = numbers.chain(divisors).collect();
    format!("format, first, count, shape, {}", all.join(", "))
}

/// The statement that creates the table of a partition's packed slots.
pub(super) fn create(step_us: i64, start_us: i64) -> String {
    let numbers = NUMBERS.iter().map(|column| format!("{column}_base INTEGER, {column} BLOB"));
    let divisors = DIVIDED.iter().map(|column| format!("{column}_div REAL"));
    let all: Vec<String> = numbers.chain(divisors).collect();
    format!(
        "CREATE TABLE {} (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            {},
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID",
        names::packed_partition(step_us, start_us),
        all.join(", ")
    )
}

/// The SELECT of no packed rows.
pub(super) fn nothing() -> String {
    let columns = format!("span_us, series, lane, {}", columns());
    let columns: Vec<String> = columns.split(", ").map(|name| format!("NULL AS {name}")).collect();
    format!("SELECT {} WHERE 0", columns.join(", "))
}
