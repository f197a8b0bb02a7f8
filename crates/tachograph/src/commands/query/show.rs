//! Slots as text.

use serde_json::{Value, json};
use series::{CombinedSlot, Flavor};
use store::Series;

use super::slots_of::QueryResult;

/// Columns to the left of a chart.
pub(super) const MARGIN: usize = 12;

/// Height of a chart in lines.
const HEIGHT: usize = 10;

/// Eighths of a line.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns for people, one table per series.
pub(super) fn table(found: &QueryResult) -> String {
    let mut text = String::new();
    for (series, slots) in &found.series {
        let flow = is_flow(series);
        let rate = if flow { "per second" } else { "level" };
        let total = if flow { "total" } else { "level × s" };
        text += &format!("{}\n", series.identity);
        text += &format!(
            "{:<20} {rate:>12} {total:>12} {:>10} {:>10} {:>7}\n",
            "from", "min", "max", "known"
        );
        for (at_us, slot) in slots {
            let known = 100.0 * slot.covered_us.max(0) as f64 / found.step.us() as f64;
            text += &format!(
                "{:<20} {:>12} {:>12} {:>10} {:>10} {known:>6.0}%\n",
                time(*at_us),
                shown(slot.rate),
                if slot.covered_us > 0 { shown(Some(slot.integral.as_f64())) } else { shown(None) },
                shown(slot.min),
                shown(slot.max),
            );
        }
        let unit = if flow { "" } else { " level × s" };
        text += &format!("total {}{unit}\n\n", number(sum(slots)));
    }
    text
}

/// CSV; unknown values are empty.
pub(super) fn csv(found: &QueryResult) -> String {
    let mut table = csv::Writer::from_writer(vec![]);
    let mut put = |cells: [String; 9]| {
        table.write_record(cells).expect("memory takes every record");
    };
    let head = ["series", "start", "end", "rate", "total", "min", "max", "covered_s", "updates"];
    put(head.map(str::to_owned));
    let cell = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    for (series, slots) in &found.series {
        for (at_us, slot) in slots {
            let total = (slot.covered_us > 0).then(|| slot.integral.as_f64());
            put([
                series.identity.to_string(),
                time(*at_us),
                time(at_us + found.step.us()),
                cell(slot.rate),
                cell(total),
                cell(slot.min),
                cell(slot.max),
                (slot.covered_us as f64 / 1e6).to_string(),
                slot.n.to_string(),
            ]);
        }
    }
    let bytes = table.into_inner().expect("memory takes every record");
    String::from_utf8(bytes).expect("cells are text")
}

/// JSON, schema 1; unknown values are null.
pub(super) fn json(found: &QueryResult) -> String {
    let series = found.series.iter().map(|(series, slots)| {
        let identity = &series.identity;
        json!({
            "measurement": identity.measurement,
            "field": identity.field,
            "tags": identity.tags,
            "kind": series.spec.kind,
            "total": sum(slots),
            "slots": slots.iter().map(|(at_us, slot)| slot_json(*at_us, slot)).collect::<Vec<_>>(),
        })
    });
    let all: Vec<Value> = series.collect();
    format!("{:#}\n", json!({"schema": 1, "step_us": found.step.us(), "series": all}))
}

fn slot_json(at_us: i64, slot: &CombinedSlot) -> Value {
    let total = (slot.covered_us > 0).then(|| slot.integral.as_f64());
    json!({
        "start": time(at_us),
        "rate": slot.rate,
        "total": total,
        "min": slot.min,
        "max": slot.max,
        "covered_us": slot.covered_us,
        "updates": slot.n,
    })
}

/// A chart of the rate or level; unknown slots are dots at the bottom.
pub(super) fn plot(found: &QueryResult) -> String {
    let mut text = String::new();
    for (series, slots) in &found.series {
        let what = if is_flow(series) { "per second" } else { "level" };
        text += &format!("{}\n{what}, slots of {}\n", series.identity, length(found.step.us()));
        text += &picture(slots);
        text.push('\n');
    }
    text
}

fn picture(slots: &[(i64, CombinedSlot)]) -> String {
    let rates: Vec<Option<f64>> = slots.iter().map(|(_, slot)| slot.rate).collect();
    let known = || rates.iter().flatten().copied();
    let (low, high) = (known().fold(0.0, f64::min), known().fold(0.0, f64::max));
    let span = if high > low { high - low } else { 1.0 };
    let mut text = String::new();
    for line in (0..HEIGHT).rev() {
        let label = match line {
            0 => number(low),
            l if l == HEIGHT - 1 => number(high),
            _ => String::new(),
        };
        text += &format!("{label:>10} │");
        for rate in &rates {
            let eighths = rate.map(|rate| (rate - low) / span * (HEIGHT * 8) as f64);
            text.push(match eighths {
                None if line == 0 => '·',
                None => ' ',
                Some(eighths) => {
                    let here = (eighths.round() as i64 - (line * 8) as i64).clamp(0, 8);
                    BARS[here as usize]
                }
            });
        }
        text.push('\n');
    }
    let first = slots.first().map(|(at_us, _)| time(*at_us)).unwrap_or_default();
    let last = slots.last().map(|(at_us, _)| time(*at_us)).unwrap_or_default();
    let gap = rates.len().saturating_sub(first.len() + last.len()).max(2);
    text += &format!("{:>10} └{first}{}{last}\n", "", " ".repeat(gap));
    text
}

fn is_flow(series: &Series) -> bool {
    series.spec.kind.flavor() == Flavor::Flow
}

fn sum(slots: &[(i64, CombinedSlot)]) -> f64 {
    slots.iter().map(|(_, slot)| slot.integral.as_f64()).sum()
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), number)
}

/// A duration in the longest unit of which it is a multiple.
fn length(us: i64) -> String {
    let units =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s")];
    match units.into_iter().find(|(unit_us, _)| us % unit_us == 0) {
        Some((unit_us, unit)) => format!("{} {unit}", us / unit_us),
        None => format!("{} s", us as f64 / 1e6),
    }
}

/// A number for people: integers in full, others with five significant digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e12 {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    if (-4..12).contains(&magnitude) {
        let places = (4 - magnitude).max(0) as usize;
        let text = format!("{value:.places$}");
        let trimmed = text.trim_end_matches('0').trim_end_matches('.');
        return if text.contains('.') { trimmed.to_owned() } else { text };
    }
    format!("{value:.4e}")
}

fn time(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole_ones_whole() {
        for (value, text) in [
            (0.0, "0"),
            (1020.0, "1020"),
            (21.999_999, "22"),
            (0.123_456_78, "0.12346"),
            (123_456.78, "123457"),
            (1e15, "1.0000e15"),
            (0.000_001_5, "1.5000e-6"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn lengths_are_in_the_longest_unit_that_fits() {
        let lengths = [604_800_000_000, 7_200_000_000, 90_000_000, 250_000].map(length);
        assert_eq!(lengths, ["7 d", "2 h", "90 s", "0.25 s"]);
    }

    #[test]
    fn a_picture_shows_heights_and_what_is_unknown() {
        let slot = |rate: Option<f64>| CombinedSlot {
            integral: series::Integral::ZERO,
            covered_us: 0,
            rate,
            min: None,
            max: None,
            n: 0,
        };
        let rates = [Some(0.0), Some(5.0), None, Some(10.0)];
        let slots: Vec<_> = rates.iter().map(|rate| (0, slot(*rate))).collect();
        let text = picture(&slots);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "        10 │   █");
        assert_eq!(lines[5], "           │ █ █");
        assert_eq!(lines[9], "         0 │ █·█");
        assert_eq!(lines.len(), HEIGHT + 1);
    }
}
