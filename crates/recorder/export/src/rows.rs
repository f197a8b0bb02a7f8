//! Rows of the table, column by column, until they are a row group.

use parquet::data_type::Int96;
use store::{Identity, SlotSum};

use crate::day::DAY_US;

/// Rows of a row group: more compress better, because each has a dictionary of the values of each
/// column; these take about 60 MB while they are gathered.
pub(crate) const ROWS_MAX: usize = 1 << 20;

/// 1970-01-01 as a Julian day, from which INT96 counts.
const EPOCH_JULIAN: i64 = 2_440_588;

/// The rows that follow one another and belong to one series.
#[derive(Clone, Debug)]
pub(crate) struct SeriesRun {
    /// The series' names.
    pub(crate) identity: Identity,
    /// Whether its totals are counts.
    pub(crate) flow: bool,
    /// Number of rows.
    pub(crate) rows: usize,
}

/// Rows, column by column.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) runs: Vec<SeriesRun>,
    pub(crate) slot: Vec<Int96>,
    pub(crate) total: Vec<f64>,
    pub(crate) covered_us: Vec<i64>,
    pub(crate) n: Vec<i64>,
    /// Without those that are NULL; so is `max`.
    pub(crate) min: Vec<f64>,
    pub(crate) max: Vec<f64>,
    /// 1 where `min` and `max` are not NULL.
    pub(crate) has_bounds: Vec<i16>,
    pub(crate) approximate: Vec<bool>,
}

impl Rows {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.slot.len()
    }

    /// Begins the rows of a series, or continues them.
    pub(crate) fn begin(&mut self, identity: &Identity, flow: bool) {
        if self.runs.last().is_some_and(|run| run.identity == *identity) {
            return;
        }
        self.runs.push(SeriesRun { identity: identity.clone(), flow, rows: 0 });
    }

    /// Adds a row of the series that was begun last.
    pub(crate) fn push(&mut self, slot: &SlotSum) {
        if let Some(run) = self.runs.last_mut() {
            run.rows += 1;
        }
        self.slot.push(int96(slot.slot_us));
        self.total.push(slot.integral);
        self.covered_us.push(slot.covered_us);
        self.n.push(slot.n);
        let has_bounds = slot.vmin.is_finite() && slot.vmax.is_finite();
        if has_bounds {
            self.min.push(slot.vmin);
            self.max.push(slot.vmax);
        }
        self.has_bounds.push(has_bounds.into());
        self.approximate.push(slot.approximate);
    }

    /// Empties them, but keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.slot.clear();
        self.total.clear();
        self.covered_us.clear();
        self.n.clear();
        self.min.clear();
        self.max.clear();
        self.has_bounds.clear();
        self.approximate.clear();
    }
}

/// Microseconds since the epoch as Parquet's INT96: nanoseconds of the day, and the Julian day.
pub(crate) fn int96(us: i64) -> Int96 {
    let nanos = us.rem_euclid(DAY_US).unsigned_abs() * 1_000;
    let day = us.div_euclid(DAY_US) + EPOCH_JULIAN;
    let mut int96 = Int96::new();
    int96.set_data(nanos as u32, (nanos >> 32) as u32, day as u32);
    int96
}

/// The inverse of [`int96`].
pub(crate) fn us_of(int96: &Int96) -> i64 {
    let [low, high, day] = int96.data() else { return 0 };
    let nanos = u64::from(*low) | u64::from(*high) << 32;
    (i64::from(*day) - EPOCH_JULIAN) * DAY_US + (nanos / 1_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_and_nanoseconds() {
        for us in [0, -1, 1, 1_767_225_600_123_456, -62_135_596_800_000_000, DAY_US - 1] {
            assert_eq!(us_of(&int96(us)), us);
        }
        assert_eq!(int96(1).data(), [1_000, 0, 2_440_588]);
        assert_eq!(int96(-1).data(), [2_437_872_664, 20_116, 2_440_587]);
    }
}
