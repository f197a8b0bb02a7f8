//! Times and lengths of time as Graphite's render API documents them ("from / until"), after `at`.

use jiff::civil::{DateTime, Time, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

use crate::GraphiteError;

const DAY_S: i64 = 86_400;

/// The range of times that are accepted: the years 1 to 9000.
const LIMITS_S: std::ops::RangeInclusive<i64> = -62_000_000_000..=221_000_000_000;

/// Parses a time such as `now`, `-1h`, `1430701282`, `20150504`, `10:30_20150504`,
/// `midnight+1d`, `noon_yesterday`, `monday` or `05/04/2015`; seconds since the epoch.
///
/// Names of days and times of day are those of `zone`.
///
/// # Errors
/// [`GraphiteError::Time`].
pub fn parse_time(text: &str, now_s: i64, zone: &TimeZone) -> Result<i64, GraphiteError> {
    let wrong = || GraphiteError::Time { text: crate::parse::shortened(text) };
    let plain: String = text.to_ascii_lowercase().replace(['_', ',', ' '], "");
    if plain.is_empty() || plain.len() > 64 {
        return Err(wrong());
    }
    if let Some(seconds) = unix_time(&plain) {
        return Some(seconds).filter(|s| LIMITS_S.contains(s)).ok_or_else(wrong);
    }
    let (reference, offset) = match plain.find(['+', '-']) {
        Some(at) => plain.split_at(at),
        None => (plain.as_str(), ""),
    };
    let reference_s = reference_time(reference, now_s, zone).ok_or_else(wrong)?;
    let offset_s = match offset {
        "" => 0,
        offset => parse_length(offset).map_err(|_| wrong())?,
    };
    let at_s = reference_s.checked_add(offset_s).filter(|s| LIMITS_S.contains(s));
    at_s.ok_or_else(wrong)
}

/// Digits that are no date; a fraction is ignored.
fn unix_time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (fraction == "0" && civil_date(whole).is_some()) {
        return None;
    }
    whole.parse().ok()
}

/// `YYYYMMDD`.
fn civil_date(text: &str) -> Option<jiff::civil::Date> {
    if text.len() != 8 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let year: i16 = text[..4].parse().ok()?;
    let month: i8 = text[4..6].parse().ok()?;
    let day: i8 = text[6..].parse().ok()?;
    if year <= 1900 {
        return None;
    }
    jiff::civil::Date::new(year, month, day).ok()
}

/// The time before the offset.
fn reference_time(text: &str, now_s: i64, zone: &TimeZone) -> Option<i64> {
    if text.is_empty() || text == "now" {
        return Some(now_s);
    }
    let now = Timestamp::from_second(now_s).ok()?.to_zoned(zone.clone()).datetime();
    let (time, day) = time_of_day(text)?;
    let today = now.date();
    let date = match day {
        "" | "today" => today,
        "yesterday" => today.checked_sub(1.day()).ok()?,
        "tomorrow" => today.checked_add(1.day()).ok()?,
        day => named_day(day, today)?,
    };
    let at = DateTime::from_parts(date, time).to_zoned(zone.clone()).ok()?;
    Some(at.timestamp().as_second())
}

/// The time of day at the beginning of a text, midnight without one, and the rest.
fn time_of_day(text: &str) -> Option<(Time, &str)> {
    for (name, hour) in [("midnight", 0), ("noon", 12), ("teatime", 16)] {
        if let Some(rest) = text.strip_prefix(name) {
            return Some((Time::new(hour, 0, 0, 0).ok()?, rest));
        }
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let after = &text[digits..];
    if !(1..=2).contains(&digits) {
        return Some((Time::midnight(), text));
    }
    let hour: i8 = text[..digits].parse().ok()?;
    let (minute, rest) = match after.strip_prefix(':') {
        Some(rest) if rest.is_char_boundary(2.min(rest.len())) && rest.len() >= 2 => {
            (rest[..2].parse::<i8>().ok()?, &rest[2..])
        }
        Some(_) => return None,
        None if after.starts_with("am") || after.starts_with("pm") => (0, after),
        None => return Some((Time::midnight(), text)),
    };
    let (hour, rest) = match (rest.strip_prefix("am"), rest.strip_prefix("pm")) {
        (Some(rest), _) => (hour % 12 + if hour > 12 { 12 } else { 0 }, rest),
        (_, Some(rest)) => (hour % 12 + 12, rest),
        _ => (hour, rest),
    };
    Some((Time::new(hour, minute, 0, 0).ok()?, rest))
}

/// `YYYYMMDD`, `MM/DD/YY`, `MM/DD/YYYY`, `jan1` or `monday`, the latest one.
fn named_day(text: &str, today: jiff::civil::Date) -> Option<jiff::civil::Date> {
    if let Some(day) = civil_date(text) {
        return Some(day);
    }
    let parts: Vec<&str> = text.split('/').collect();
    if let [month, day, year] = parts[..] {
        let (month, day, year): (i8, i8, i16) =
            (month.parse().ok()?, day.parse().ok()?, year.parse().ok()?);
        let year = match year {
            0..70 => year + 2000,
            70..100 => year + 1900,
            year => year,
        };
        return jiff::civil::Date::new(year, month, day).ok();
    }
    let start = text.get(..3)?;
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    if let Some(month) = MONTHS.iter().position(|month| *month == start) {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let day: i8 = digits.parse().ok()?;
        return jiff::civil::Date::new(today.year(), month as i8 + 1, day).ok();
    }
    const DAYS: [(&str, Weekday); 7] = [
        ("sun", Weekday::Sunday),
        ("mon", Weekday::Monday),
        ("tue", Weekday::Tuesday),
        ("wed", Weekday::Wednesday),
        ("thu", Weekday::Thursday),
        ("fri", Weekday::Friday),
        ("sat", Weekday::Saturday),
    ];
    let (_, weekday) = DAYS.iter().find(|(name, _)| *name == start)?;
    let ago = today.weekday().since(*weekday);
    today.checked_sub(Span::new().days(i64::from(ago))).ok()
}

/// Parses a length of time such as `1h`, `-30min`, `+1d12h`; seconds. A month has 30 days, a year 365.
///
/// # Errors
/// [`GraphiteError::Length`].
pub fn parse_length(text: &str) -> Result<i64, GraphiteError> {
    let wrong = || GraphiteError::Length(crate::parse::shortened(text));
    let trimmed = text.trim();
    let (sign, mut rest) = match trimmed.as_bytes().first() {
        Some(b'-') => (-1, &trimmed[1..]),
        Some(b'+') => (1, &trimmed[1..]),
        Some(b'0'..=b'9') => (1, trimmed),
        _ => return Err(wrong()),
    };
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_s = unit(&rest[..letters]).ok_or_else(wrong)?;
        rest = &rest[letters..];
        let part = count.checked_mul(unit_s).ok_or_else(wrong)?;
        total = total.checked_add(part).filter(|s| *s <= 10_000 * 365 * DAY_S).ok_or_else(wrong)?;
    }
    Ok(sign * total)
}

/// The seconds of a unit, of which the first letters are enough.
fn unit(name: &str) -> Option<i64> {
    let units = [
        ("mon", 30 * DAY_S),
        ("min", 60),
        ("s", 1),
        ("h", 3_600),
        ("d", DAY_S),
        ("w", 7 * DAY_S),
        ("y", 365 * DAY_S),
    ];
    // Grafana writes minutes as `m`.
    let name = if name == "m" { "min" } else { name };
    units.iter().find(|(start, _)| name.starts_with(start)).map(|(_, seconds)| *seconds)
}

/// The start of the hour, day or minute that contains an instant: of the longest of them that is
/// not longer than `length_s`.
pub(crate) fn floor_to_unit(at_s: i64, length_s: i64, zone: &TimeZone) -> i64 {
    if length_s >= DAY_S {
        let start = Timestamp::from_second(at_s)
            .ok()
            .and_then(|at| at.to_zoned(zone.clone()).start_of_day().ok());
        return start.map_or(at_s - at_s.rem_euclid(DAY_S), |start| start.timestamp().as_second());
    }
    let unit_s = if length_s >= 3_600 { 3_600 } else { 60 };
    if length_s >= unit_s { at_s - at_s.rem_euclid(unit_s) } else { at_s }
}

/// The time zone of a name such as `Europe/Berlin`. Grafana's `browser` is UTC.
///
/// # Errors
/// [`GraphiteError::Pattern`] for a zone that this system does not know.
pub fn zone(name: &str) -> Result<TimeZone, GraphiteError> {
    if matches!(name, "" | "browser") || name.eq_ignore_ascii_case("utc") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| GraphiteError::Pattern {
        text: crate::parse::shortened(name),
        what: "time zone",
        cause: "this system does not know it; use UTC, or install its time zone data".to_owned(),
    })
}

/// `2015-05-04 01:01:22` in a zone.
pub fn shown(at_s: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_second(at_s).unwrap_or(Timestamp::UNIX_EPOCH);
    let at = at.to_zoned(zone.clone()).datetime();
    let at = at.round(jiff::Unit::Second).unwrap_or(date(1970, 1, 1).at(0, 0, 0, 0));
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 4 May 2015, 01:01:22 UTC.
    const NOW_S: i64 = 1_430_701_282;

    #[test]
    fn times_of_the_documentation() {
        let midnight = NOW_S - NOW_S % DAY_S;
        for (text, at_s) in [
            ("now", NOW_S),
            ("-1h", NOW_S - 3_600),
            ("-7days", NOW_S - 7 * DAY_S),
            ("now-5min", NOW_S - 300),
            ("-1d12h", NOW_S - 36 * 3_600),
            ("1430701282", NOW_S),
            ("1430701282.75", NOW_S),
            ("20150504", midnight),
            ("10:30_20150504", midnight + 10 * 3_600 + 1_800),
            ("00:00_20150503", midnight - DAY_S),
            ("midnight", midnight),
            ("midnight+1d", midnight + DAY_S),
            ("noon_yesterday", midnight - DAY_S / 2),
            ("6pm_today", midnight + 18 * 3_600),
            ("12am", midnight),
            ("6:15pm", midnight + 18 * 3_600 + 900),
            ("tomorrow", midnight + DAY_S),
            ("monday", midnight),
            ("sunday", midnight - DAY_S),
            ("05/04/2015", midnight),
            ("05/04/15", midnight),
            ("may4", midnight),
            ("noon may 4", midnight + DAY_S / 2),
            ("-2mon", NOW_S - 60 * DAY_S),
            ("-10m", NOW_S - 600),
        ] {
            assert_eq!(parse_time(text, NOW_S, &TimeZone::UTC), Ok(at_s), "{text}");
        }
    }

    #[test]
    fn days_are_those_of_the_zone() {
        let berlin = TimeZone::fixed(jiff::tz::offset(2));
        let midnight = NOW_S - NOW_S % DAY_S - 2 * 3_600;
        assert_eq!(parse_time("midnight", NOW_S, &berlin), Ok(midnight));
        assert_eq!(shown(midnight, &berlin), "2015-05-04 00:00:00");
        assert_eq!(floor_to_unit(NOW_S, DAY_S, &berlin), midnight);
        assert_eq!(zone("utc"), Ok(TimeZone::UTC));
        assert_eq!(
            zone("Nowhere/At All").unwrap_err().to_string(),
            "'Nowhere/At All' is not a valid time zone: this system does not know it; use UTC, or \
             install its time zone data"
        );
    }

    #[test]
    fn other_texts_are_errors() {
        for text in
            ["", "yesteryear", "-1", "-1x", "1:5", "99:00", "20151332abc", "jan", "-", "1e3", "ü:1"]
        {
            let error = parse_time(text, NOW_S, &TimeZone::UTC).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "'{text}' is not a time: use a Unix time, 'now', an age such as -1h, \
                     HH:MM_YYYYMMDD or YYYYMMDD"
                )
            );
        }
        let huge = "9".repeat(30);
        assert!(parse_time(&huge, NOW_S, &TimeZone::UTC).is_err());
        assert!(parse_time("-99999999999y", NOW_S, &TimeZone::UTC).is_err());
        assert_eq!(
            parse_length("1 fortnight").unwrap_err().to_string(),
            "'1 fortnight' is not a length of time: use a number and a unit, such as 30s, 5min, 1h or 7d"
        );
    }
}
