//! Functions over windows and intervals of time.

use super::FunctionResult;
use super::arguments::{Arguments, Size};
use crate::aggregation::percentile;
use crate::number::{float, general};
use crate::{Aggregation, GraphiteError, Series};

/// The series of the first argument, from so long before the range that a window fits, with that
/// length in seconds and the window's text.
fn with_window(
    arguments: &mut Arguments<'_>,
) -> Result<(Vec<Series>, i64, String, Size), GraphiteError> {
    let (text, size) = arguments.size(1)?;
    let before_s = match size {
        Size::Seconds(seconds) => seconds,
        Size::Points(points) => {
            let longest_s = arguments.series(0)?.iter().map(|series| series.step_s).max();
            longest_s.unwrap_or(0).saturating_mul(points as i64)
        }
    };
    let (from_s, until_s) = (arguments.context.from_s, arguments.context.until_s);
    let found = arguments.series_between(0, from_s.saturating_sub(before_s), until_s)?;
    Ok((found, before_s, text, size))
}

/// Limit on the values that all windows of a call have together.
const WINDOW_VALUES_MAX: usize = 500_000_000;

/// Refuses windows that would take minutes to compute.
fn limit_windows(found: &[Series], points: impl Fn(&Series) -> usize) -> Result<(), GraphiteError> {
    let work = found.iter().map(|series| points(series).saturating_mul(series.values.len()));
    let work = work.fold(0, usize::saturating_add);
    if work <= WINDOW_VALUES_MAX {
        return Ok(());
    }
    Err(GraphiteError::Limit {
        what: format!("has windows of {work} values in all"),
        limit: WINDOW_VALUES_MAX as u64,
        remedy: "use a shorter window, or select fewer series",
    })
}

/// The points of a window.
fn points_of(size: &Size, series: &Series) -> usize {
    match size {
        Size::Points(points) => *points,
        Size::Seconds(seconds) => usize::try_from(seconds / series.step_s).unwrap_or(0),
    }
}

pub(super) fn moving(
    arguments: &mut Arguments<'_>,
    how: Aggregation,
    label: &str,
    xff_place: usize,
) -> FunctionResult {
    let xff = arguments.number(xff_place)?.map(|number| number.value);
    let (found, before_s, text, size) = with_window(arguments)?;
    limit_windows(&found, |series| points_of(&size, series))?;
    let moved = found.into_iter().map(|series| {
        let points = points_of(&size, &series);
        let xff = xff.unwrap_or(series.xff);
        let value = |end: usize| {
            let window = end - points..end;
            let known = series.values[window.clone()].iter().filter(|v| !v.is_nan()).count();
            let enough = known > 0 && known as f64 / points as f64 >= xff;
            if enough { series.aggregate(window, how) } else { f64::NAN }
        };
        let values = (points + 1..=series.values.len()).map(value).collect();
        let name = format!("{label}({},{text})", series.name);
        let start_s = series.start_s.saturating_add(before_s);
        Series { start_s, ..series.unweighted(values).renamed(name) }
    });
    Ok(moved.collect())
}

pub(super) fn moving_window(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (name, how) = arguments.aggregation(2, "average")?;
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).unwrap_or_default();
    let label = format!("moving{first}{}", letters.as_str().to_lowercase());
    moving(arguments, how, &label, 3)
}

pub(super) fn exponential_moving_average(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (found, before_s, text, size) = with_window(arguments)?;
    let moved = found.into_iter().map(|series| {
        let (points, length) = match size {
            Size::Points(points) => (points, points as f64),
            Size::Seconds(s) => (usize::try_from(s / series.step_s).unwrap_or(0), s as f64),
        };
        let constant = 2.0 / (length + 1.0);
        let points = points.min(series.values.len());
        let first = Aggregation::Average.of(series.values[..points].iter().copied());
        let mut average = if first.is_nan() { 0.0 } else { first };
        let mut values = vec![average];
        values.extend(series.values[points..].iter().map(|value| {
            if value.is_nan() {
                return f64::NAN;
            }
            average = constant * value + (1.0 - constant) * average;
            average
        }));
        let name = format!("exponentialMovingAverage({},{text})", series.name);
        let start_s = series.start_s.saturating_add(before_s);
        Series { start_s, ..series.unweighted(values).renamed(name) }
    });
    Ok(moved.collect())
}

pub(super) fn stdev(arguments: &mut Arguments<'_>) -> FunctionResult {
    let points = arguments.count(1, 1)?.max(1);
    let tolerance = arguments.number_or(2, 0.1)?;
    let found = arguments.series(0)?;
    limit_windows(&found, |_| points)?;
    let found = found.into_iter().map(|series| {
        let value = |place: usize| {
            let window = &series.values[(place + 1).saturating_sub(points)..=place];
            let known = window.iter().filter(|value| !value.is_nan()).count();
            let enough = known > 0 && known as f64 / points as f64 >= tolerance;
            let all = window.iter().copied();
            if enough { Aggregation::Stddev.of(all) } else { f64::NAN }
        };
        let values = (0..series.values.len()).map(value).collect();
        let name = format!("stdev({},{points})", series.name);
        series.unweighted(values).renamed(name)
    });
    Ok(found.collect())
}

pub(super) fn summarize(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (text, length_s) = arguments.positive_length(1)?;
    let (func, how) = arguments.aggregation(2, "sum")?;
    let to_from = arguments.is_true(3)?;
    let limit = arguments.context.values_max;
    let suffix = if to_from { ", true" } else { "" };
    let found = arguments.series(0)?.into_iter().map(|series| {
        let name = format!("summarize({}, \"{text}\", \"{func}\"{suffix})", series.name);
        let (start_s, end_s) = match to_from {
            true => (series.start_s, series.end_s),
            false => (
                series.start_s - series.start_s.rem_euclid(length_s),
                series.end_s - series.end_s.rem_euclid(length_s) + length_s,
            ),
        };
        let of_interval = length_s as f64 / series.step_s as f64;
        let mut values = Vec::new();
        let (mut from, mut at_s) = (0, start_s);
        while at_s < end_s && values.len() <= limit {
            let until_s = at_s + length_s;
            let mut until = from;
            while until < series.values.len() && series.at_s(until) < until_s {
                until += 1;
            }
            let known = series.values[from..until].iter().filter(|v| !v.is_nan()).count();
            let enough = known > 0 && known as f64 / of_interval >= series.xff;
            values.push(if enough { series.aggregate(from..until, how) } else { f64::NAN });
            (from, at_s) = (until, until_s);
        }
        let series = series.unweighted(values).renamed(name);
        Series { start_s, end_s: at_s, step_s: length_s, ..series }
    });
    Ok(found.collect())
}

pub(super) fn hitcount(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (text, length_s) = arguments.positive_length(1)?;
    let aligned = arguments.is_true(2)?;
    let suffix = if aligned { ", true" } else { "" };
    let limit = arguments.context.values_max as i64;
    let found = match aligned {
        true => {
            let from_s = arguments.floor_to_unit(length_s);
            arguments.series_between(0, from_s, arguments.context.until_s)?
        }
        false => arguments.series(0)?,
    };
    let counted = found.into_iter().map(|series| {
        let name = format!("hitcount({}, \"{text}\"{suffix})", series.name);
        let end_s = match aligned {
            true => {
                let whole = (series.end_s - series.start_s) / length_s;
                series.start_s + whole * length_s + length_s
            }
            false => series.end_s,
        };
        let count = ((end_s - series.start_s + length_s - 1) / length_s).clamp(0, limit + 1);
        let start_s = end_s - count * length_s;
        let mut values = vec![f64::NAN; usize::try_from(count).unwrap_or(0)];
        let step_s = series.step_s;
        for (place, (value, known_s)) in series.weighted().enumerate() {
            if value.is_nan() {
                continue;
            }
            // The count of a slot is its rate × its known time, spread evenly over the slot.
            let per_second = value * known_s / step_s as f64;
            let (from_s, until_s) = (series.at_s(place), series.at_s(place) + step_s);
            let mut at_s = from_s.max(start_s);
            while at_s < until_s.min(end_s) {
                let bucket = (at_s - start_s) / length_s;
                let part_end_s = until_s.min(start_s + (bucket + 1) * length_s);
                if let Some(sum) = usize::try_from(bucket).ok().and_then(|b| values.get_mut(b)) {
                    let part = per_second * (part_end_s - at_s) as f64;
                    *sum = if sum.is_nan() { part } else { *sum + part };
                }
                at_s = part_end_s;
            }
        }
        let series = series.unweighted(values).renamed(name);
        Series { start_s, end_s, step_s: length_s, ..series }
    });
    Ok(counted.collect())
}

pub(super) fn n_percentile(arguments: &mut Arguments<'_>) -> FunctionResult {
    let n = arguments.number_or(1, 0.0)?;
    if !(n > 0.0 && n <= 100.0) {
        return Err(arguments.wrong("'n' must be above 0 and at most 100"));
    }
    let found = arguments.series(0)?.into_iter().filter_map(|series| {
        let value = percentile(series.values.iter().copied(), n, false);
        let name = format!("nPercentile({}, {})", series.name, general(n));
        let count = series.values.len();
        let known = !value.is_nan();
        known.then(|| series.unweighted(vec![value; count]).renamed(name))
    });
    Ok(found.collect())
}

pub(super) fn aggregate_line(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (_, how) = arguments.aggregation(1, "average")?;
    let keep_step = arguments.is_true(2)?;
    let context = arguments.context;
    let found = arguments.series(0)?.into_iter().map(|series| {
        let value = series.aggregate(0..series.values.len(), how);
        let shown = if value.is_nan() { "None".to_owned() } else { general(value) };
        let name = format!("aggregateLine({}, {shown})", series.name);
        let count = series.values.len();
        match keep_step {
            true => series.unweighted(vec![value; count]).renamed(name),
            false => line(context.from_s, context.until_s, value).renamed(name),
        }
    });
    Ok(found.collect())
}

/// A horizontal line from the beginning of a range to its end.
pub(super) fn line(from_s: i64, until_s: i64, value: f64) -> Series {
    let step_s = ((until_s - from_s) / 2).max(1);
    let line = Series::new(&float(value), from_s, step_s, vec![value; 3]);
    Series { end_s: until_s, ..line }
}
