//! Names of tables and views.

use series::SECOND_US;

/// Units of time, longest first, with their abbreviations.
const UNITS: [(i64, &str); 6] = [
    (86_400 * SECOND_US, "d"),
    (3_600 * SECOND_US, "h"),
    (60 * SECOND_US, "m"),
    (SECOND_US, "s"),
    (1_000, "ms"),
    (1, "us"),
];

/// A step in the longest unit of which it is a multiple: `10s`, `1m`, `90s`, `1d`.
pub(crate) fn step(step_us: i64) -> String {
    let unit = UNITS.into_iter().find(|(us, _)| step_us % us == 0);
    unit.map_or_else(String::new, |(us, letters)| format!("{}{letters}", step_us / us))
}

/// The table (in SQLite a view) of all slots of a step: `slot_10s`.
pub(crate) fn slot(step_us: i64) -> String {
    format!("slot_{}", step(step_us))
}

/// The table (in SQLite a view) of all packed slots of a step: `packed_10s`.
pub(crate) fn packed(step_us: i64) -> String {
    format!("packed_{}", step(step_us))
}

/// The view of all slots of a step, packed or not, with all columns of the accumulator:
/// `stored_10s`.
pub(crate) fn stored(step_us: i64) -> String {
    format!("stored_{}", step(step_us))
}

/// SQLite: the view of packed rows with the columns of their series: `spans_10s`.
pub(crate) fn spans(step_us: i64) -> String {
    format!("spans_{}", step(step_us))
}

/// SQLite: the view of the numbers of packed slots: `numbers_10s`.
pub(crate) fn numbers(step_us: i64) -> String {
    format!("numbers_{}", step(step_us))
}

/// SQLite: the view of all slots with the columns of their series, lanes added: `known_10s`.
pub(crate) fn known(step_us: i64) -> String {
    format!("known_{}", step(step_us))
}

/// The table of one partition: `slot_10s_1700000000` for the one that starts at that second.
///
/// Microseconds are appended if a partition does not start at a whole second; `m` stands for minus.
pub(crate) fn partition(step_us: i64, start_us: i64) -> String {
    part_of(&slot(step_us), start_us)
}

/// The table of a partition's packed slots: `packed_10s_1700000000`.
pub(crate) fn packed_partition(step_us: i64, start_us: i64) -> String {
    part_of(&packed(step_us), start_us)
}

/// The query whether a partition has slots, packed or not.
pub(crate) fn has_slots(step_us: i64, start_us: i64) -> String {
    let (slots, packed) = (partition(step_us, start_us), packed_partition(step_us, start_us));
    format!("SELECT EXISTS (SELECT 1 FROM {slots}) OR EXISTS (SELECT 1 FROM {packed})")
}

fn part_of(whole: &str, start_us: i64) -> String {
    let sign = if start_us < 0 { "m" } else { "" };
    let (seconds, us) =
        (start_us.unsigned_abs() / SECOND_US as u64, start_us.unsigned_abs() % SECOND_US as u64);
    let part = if us == 0 { String::new() } else { format!("_{us:06}") };
    format!("{whole}_{sign}{seconds}{part}")
}

/// The view for people: `every_10s`.
pub(crate) fn every(step_us: i64) -> String {
    format!("every_{}", step(step_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_step_and_the_start() {
        let steps = [10_000_000, 60_000_000, 90_000_000, 3_600_000_000, 86_400_000_000, 100_000, 7];
        assert_eq!(steps.map(step), ["10s", "1m", "90s", "1h", "1d", "100ms", "7us"]);
        assert_eq!(partition(10_000_000, 1_700_000_000_000_000), "slot_10s_1700000000");
        assert_eq!(partition(100_000, -1_500_000), "slot_100ms_m1_500000");
        assert_eq!(packed_partition(60_000_000, 0), "packed_1m_0");
        assert_eq!(every(60_000_000), "every_1m");
    }
}
