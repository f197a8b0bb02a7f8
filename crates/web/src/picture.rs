//! `/render?format=svg`: curves as a picture for people.

use graphite::Series;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Unit, ZonedRound};
use report::chart::{Times, TimesCurve, times};

use crate::answer::RequestRefusal;
use crate::parameters::Parameters;

/// Width and height without parameters, in pixels.
const DEFAULT: (u32, u32) = (800, 300);

/// Limits on both.
const LEAST: u32 = 200;
const MOST: u32 = 4_000;

/// Pixels for a time on the axis.
const TICK: u32 = 90;

/// Steps of the time axis in seconds.
const STEPS_S: [i64; 24] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    2 * 60,
    5 * 60,
    10 * 60,
    15 * 60,
    30 * 60,
    3_600,
    2 * 3_600,
    3 * 3_600,
    6 * 3_600,
    12 * 3_600,
    DAY_S,
    2 * DAY_S,
    7 * DAY_S,
    14 * DAY_S,
    30 * DAY_S,
    90 * DAY_S,
    365 * DAY_S,
];

const DAY_S: i64 = 86_400;

/// A picture to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canvas {
    pub(crate) width: u32,
    height: u32,
    title: String,
}

impl Canvas {
    pub(crate) fn new(parameters: &Parameters) -> Result<Canvas, RequestRefusal> {
        let size = |name: &str, default: u32| match parameters.count(name)? {
            None => Ok(default),
            Some(count) => u32::try_from(count)
                .ok()
                .filter(|pixels| (LEAST..=MOST).contains(pixels))
                .ok_or_else(|| {
                    RequestRefusal::Request(format!(
                        "'{name}' must be from {LEAST} to {MOST} pixels"
                    ))
                }),
        };
        let title = parameters.get("title").unwrap_or_default().chars().take(200).collect();
        let (width, height) = (size("width", DEFAULT.0)?, size("height", DEFAULT.1)?);
        Ok(Canvas { width, height, title })
    }

    /// The curves as a standalone SVG file. Counts are drawn per second.
    pub(crate) fn draw(
        &self,
        found: &[Series],
        from_s: i64,
        until_s: i64,
        zone: &TimeZone,
        are_counts: bool,
    ) -> String {
        let curve = |series: &Series| TimesCurve {
            name: series.name.clone(),
            start_s: series.start_s as f64,
            step_s: series.step_s as f64,
            values: series.shown().collect(),
        };
        let shown = |at_s| graphite::shown(at_s, zone);
        let range = format!("{} to {}", shown(from_s), shown(until_s));
        let title = if self.title.is_empty() { range.clone() } else { self.title.clone() };
        let drawing = Times {
            title,
            description: format!("{} series, {range}", found.len()),
            unit: if are_counts && !found.is_empty() { "per second" } else { "" }.to_owned(),
            from_s: from_s as f64,
            until_s: until_s as f64,
            ticks: ticks(from_s, until_s, (self.width / TICK).max(2).into(), zone),
            height: self.height,
            curves: found.iter().map(curve).collect(),
        };
        times(&drawing, self.width).standalone()
    }
}

/// Round times in the range, at most about `wanted`, in the time zone; at midnight, the date.
fn ticks(from_s: i64, until_s: i64, wanted: i64, zone: &TimeZone) -> Vec<(f64, String)> {
    let range_s = until_s - from_s;
    let step_s = STEPS_S.into_iter().find(|step_s| range_s / step_s <= wanted);
    let step_s = step_s.unwrap_or_else(|| (range_s / wanted / DAY_S + 1) * DAY_S);
    let Ok(from) = Timestamp::from_second(from_s) else { return Vec::new() };
    let midnight = ZonedRound::new().smallest(Unit::Day).mode(jiff::RoundMode::Trunc);
    let Ok(mut at) = from.to_zoned(zone.clone()).round(midnight) else { return Vec::new() };
    let format = match step_s {
        ..60 => "%H:%M:%S",
        60..DAY_S => "%H:%M",
        _ => "%Y-%m-%d",
    };
    let mut found = Vec::new();
    while at.timestamp().as_second() <= until_s {
        if at.timestamp().as_second() >= from_s {
            let is_midnight = at.time() == jiff::civil::Time::midnight();
            let format = if is_midnight { "%Y-%m-%d" } else { format };
            found.push((at.timestamp().as_second() as f64, at.strftime(format).to_string()));
        }
        // Days have 23 to 25 hours where clocks change.
        let step = match step_s % DAY_S {
            0 => (step_s / DAY_S).days(),
            _ => step_s.seconds(),
        };
        let Ok(next) = at.checked_add(step) else { break };
        at = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from_s: i64, until_s: i64, zone: &TimeZone) -> Vec<String> {
        ticks(from_s, until_s, 6, zone).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn times_are_round_and_midnight_has_its_date() {
        let midnight_s = 1_772_323_200; // 2026-03-01T00:00:00Z
        assert_eq!(
            labels(midnight_s - 3_700, midnight_s + 7_300, &TimeZone::UTC),
            ["23:00", "23:30", "2026-03-01", "00:30", "01:00", "01:30", "02:00"]
        );
        assert_eq!(
            labels(midnight_s + 1, midnight_s + 31, &TimeZone::UTC),
            ["00:00:05", "00:00:10", "00:00:15", "00:00:20", "00:00:25", "00:00:30"]
        );
        let days = labels(midnight_s, midnight_s + 5 * DAY_S, &TimeZone::UTC);
        assert_eq!(days[..2], ["2026-03-01", "2026-03-02"]);
    }

    #[test]
    fn where_clocks_change_a_day_still_begins_at_midnight() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let from_s = 1_774_652_400; // 2026-03-28 00:00 there; the clocks change on the 29th.
        let found = ticks(from_s, from_s + 4 * DAY_S, 4, &zone);
        let hours: Vec<f64> = found.windows(2).map(|w| (w[1].0 - w[0].0) / 3_600.0).collect();
        assert_eq!(hours[..3], [24.0, 23.0, 24.0]);
    }

    #[test]
    fn any_range_has_a_bounded_number_of_times() {
        for range_s in [1, 59, 3_601, 86_399, 31 * DAY_S, 400 * DAY_S, 30_000 * DAY_S] {
            let count = ticks(1_772_323_200, 1_772_323_200 + range_s, 8, &TimeZone::UTC).len();
            assert!(count <= 10, "{range_s}: {count}");
        }
    }
}
