//! Days in UTC, which are partitions.

use jiff::civil::{Date, date};
use series::SECOND_US;

/// A day's length in microseconds.
pub(crate) const DAY_US: i64 = 86_400 * SECOND_US;

/// 1970-01-01.
const EPOCH: Date = date(1970, 1, 1);

/// A day in UTC, from the year 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i64);

impl Day {
    /// The first day that has a name of ten characters: 0001-01-01.
    pub(crate) const FIRST: Day = Day(-719_162);

    /// The last one: 9999-12-31.
    pub(crate) const LAST: Day = Day(2_932_896);

    /// The day that contains an instant, in microseconds since the epoch; the nearest one for an
    /// instant outside of all.
    pub(crate) fn of(at_us: i64) -> Day {
        Day(at_us.div_euclid(DAY_US)).clamp(Day::FIRST, Day::LAST)
    }

    /// Parses a day: `2026-11-22`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Day, String> {
        let wrong = || format!("'{text}' is not a day: write one as 2026-11-22");
        let parsed = text.parse::<Date>().ok().filter(|_| text.len() == 10);
        let date = parsed.filter(|date| date.year() >= 1).ok_or_else(wrong)?;
        let days = date.since((jiff::Unit::Day, EPOCH)).map_err(|_| wrong())?.get_days();
        Ok(Day(days.into()))
    }

    /// Its start, in microseconds since the epoch.
    pub(crate) fn start_us(self) -> i64 {
        self.0 * DAY_US
    }

    /// The start of the next day.
    pub(crate) fn end_us(self) -> i64 {
        (self.0 + 1) * DAY_US
    }

    /// The next day; `None` after the last one.
    pub(crate) fn next(self) -> Option<Day> {
        Some(Day(self.0 + 1)).filter(|day| *day <= Day::LAST)
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let date =
            EPOCH.checked_add(jiff::Span::new().days(self.0)).map_err(|_| std::fmt::Error)?;
        f.pad(&date.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_they_are_read() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2026-11-22", 20_779),
            ("0001-01-01", Day::FIRST.0),
            ("9999-12-31", Day::LAST.0),
        ] {
            assert_eq!(Day::parse(text), Ok(Day(days)), "{text}");
            assert_eq!(Day(days).to_string(), text);
        }
        for text in ["2026-11", "2026-02-30", "22.11.2026", "+002026-11-22", "0000-01-01", ""] {
            let error = Day::parse(text).unwrap_err();
            assert_eq!(error, format!("'{text}' is not a day: write one as 2026-11-22"));
        }
    }

    #[test]
    fn a_day_has_its_first_microsecond_and_not_that_of_the_next() {
        let day = Day::of(-1);
        assert_eq!((day.start_us(), day.end_us()), (-DAY_US, 0));
        assert_eq!(day.next(), Some(Day::of(0)));
        assert_eq!(Day::of(i64::MAX), Day::LAST);
        assert_eq!(Day::of(i64::MIN), Day::FIRST);
        assert_eq!(Day::LAST.next(), None);
    }
}
