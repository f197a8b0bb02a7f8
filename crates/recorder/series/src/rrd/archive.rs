//! Archives: from slots to rows.

use serde::{Deserialize, Serialize};

/// How the slots of a row become its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Consolidation {
    /// The mean of the known slots.
    Average,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The last one, known or not.
    Last,
}

impl Consolidation {
    /// Every consolidation.
    pub const ALL: [Consolidation; 4] =
        [Consolidation::Average, Consolidation::Min, Consolidation::Max, Consolidation::Last];

    /// RRDtool's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Consolidation::Average => "AVERAGE",
            Consolidation::Min => "MIN",
            Consolidation::Max => "MAX",
            Consolidation::Last => "LAST",
        }
    }

    /// The initial value of a row without known slots.
    const fn start(self) -> f64 {
        match self {
            Consolidation::Average => 0.0,
            Consolidation::Min => f64::INFINITY,
            Consolidation::Max => f64::NEG_INFINITY,
            Consolidation::Last => f64::NAN,
        }
    }

    /// The contribution of a value repeated for several slots.
    fn repeated(self, value: f64, slots: i64) -> f64 {
        if self == Consolidation::Average { value * slots as f64 } else { value }
    }

    /// The accumulated value after `value` was repeated for several slots.
    fn gathered(self, so_far: f64, value: f64) -> f64 {
        match self {
            Consolidation::Average => so_far + value,
            Consolidation::Min => {
                if value < so_far {
                    value
                } else {
                    so_far
                }
            }
            Consolidation::Max => {
                if value > so_far {
                    value
                } else {
                    so_far
                }
            }
            Consolidation::Last => value,
        }
    }
}

/// An archive of a data source: the number of steps per row, and of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// How slots become a row.
    pub consolidation: Consolidation,
    /// Fraction of a row's slots that may be unknown: at least 0, less than 1.
    pub xff: f64,
    /// Slots per row.
    pub steps: i64,
    /// Number of rows kept.
    pub rows: i64,
}

/// A completed row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Index of the archive.
    pub archive: usize,
    /// The end of its time, microseconds since the epoch.
    pub end_us: i64,
    /// Its value; NaN is unknown.
    pub value: f64,
}

/// The incomplete row of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenRow {
    /// The accumulated value; NaN if there is none.
    #[serde(with = "super::text")]
    gathered: f64,
    /// Unknown slots so far.
    unknown: i64,
}

/// Equal slots closed by one update.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedSlots {
    /// The number of the first one since the epoch.
    pub(super) first: i64,
    /// Number of slots; at least one.
    pub(super) slots: i64,
    /// The value of each; NaN is unknown.
    pub(super) value: f64,
}

/// The values of the rows completed by closed slots: a first one, and then equal ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CompletedRows {
    /// The first row's value.
    pub(super) first: f64,
    /// The value of each further row.
    pub(super) further: f64,
    /// Number of rows, of which at most as many are written as the archive has.
    pub(super) rows: i64,
}

impl OpenRow {
    /// The open row at creation: the whole slots before the open one are unknown.
    pub(super) fn at_start(open_slot: i64, archive: &Archive) -> OpenRow {
        OpenRow { gathered: f64::NAN, unknown: open_slot % archive.steps }
    }

    /// An open row as a dump shows it.
    pub(super) fn resumed(gathered: f64, unknown: i64) -> OpenRow {
        OpenRow { gathered, unknown }
    }

    /// Adds closed slots; returns the rows that they completed.
    pub(super) fn close(
        &mut self,
        archive: &Archive,
        closed: ClosedSlots,
    ) -> Option<CompletedRows> {
        let to_end = archive.steps - closed.first % archive.steps;
        if archive.steps == 1 {
            let rows = closed.slots.min(archive.rows);
            return Some(CompletedRows { first: closed.value, further: closed.value, rows });
        }
        if closed.slots < to_end {
            self.gather(archive, closed);
            return None;
        }
        let first = self.complete(archive, closed.value, to_end);
        let beyond = closed.slots - to_end;
        self.begin(archive, closed.value, beyond % archive.steps);
        let rows = (beyond / archive.steps + 1).min(archive.rows);
        Some(CompletedRows { first, further: closed.value, rows })
    }

    /// Adds slots that do not complete the row.
    fn gather(&mut self, archive: &Archive, closed: ClosedSlots) {
        let consolidation = archive.consolidation;
        if closed.value.is_nan() {
            self.unknown += closed.slots;
            return;
        }
        let value = consolidation.repeated(closed.value, closed.slots);
        self.gathered = if self.gathered.is_nan() {
            value
        } else {
            consolidation.gathered(self.gathered, value)
        };
    }

    /// The value of the row if its last `slots` slots are `value`.
    fn complete(&mut self, archive: &Archive, value: f64, slots: i64) -> f64 {
        if value.is_nan() {
            self.unknown += slots;
        }
        if self.unknown as f64 > archive.steps as f64 * archive.xff {
            return f64::NAN;
        }
        let consolidation = archive.consolidation;
        let so_far = or(self.gathered, consolidation.start());
        let value = or(value, consolidation.start());
        let all = consolidation.gathered(so_far, consolidation.repeated(value, slots));
        if consolidation == Consolidation::Average {
            all / (archive.steps - self.unknown) as f64
        } else {
            all
        }
    }

    /// Starts the next row with `slots` slots of `value`.
    fn begin(&mut self, archive: &Archive, value: f64, slots: i64) {
        let consolidation = archive.consolidation;
        self.unknown = if value.is_nan() { slots } else { 0 };
        self.gathered = if slots > 0 && !value.is_nan() {
            consolidation.repeated(value, slots)
        } else {
            consolidation.start()
        };
    }
}

/// The value, or a substitute for NaN.
pub(super) fn or(value: f64, otherwise: f64) -> f64 {
    if value.is_nan() { otherwise } else { value }
}
