//! Functions that change values one by one, or with their neighbours.

use super::FunctionResult;
use super::arguments::Arguments;
use crate::number::general;
use crate::{Aggregation, Series};

/// Changes every value; `name` is the new name.
fn each(
    found: Vec<Series>,
    name: impl Fn(&Series) -> String,
    of: impl Fn(f64) -> f64 + Copy,
) -> FunctionResult {
    let changed = found.into_iter().map(|series| {
        let name = name(&series);
        series.mapped(of).renamed(name)
    });
    Ok(changed.collect())
}

/// Changes all values of each series together.
fn whole(
    found: Vec<Series>,
    name: impl Fn(&Series) -> String,
    of: impl Fn(&Series) -> Vec<f64>,
) -> Vec<Series> {
    let changed = found.into_iter().map(|series| {
        let (name, values) = (name(&series), of(&series));
        series.unweighted(values).renamed(name)
    });
    changed.collect()
}

/// `function(name)`.
fn called(function: &'static str) -> impl Fn(&Series) -> String {
    move |series| format!("{function}({})", series.name)
}

/// `function(name,2)`.
fn called_with(function: &'static str, factor: f64) -> impl Fn(&Series) -> String {
    move |series| format!("{function}({},{})", series.name, general(factor))
}

pub(super) fn scale(arguments: &mut Arguments<'_>) -> FunctionResult {
    let factor = arguments.number_or(1, 1.0)?;
    each(arguments.series(0)?, called_with("scale", factor), |value| value * factor)
}

pub(super) fn scale_to_seconds(arguments: &mut Arguments<'_>) -> FunctionResult {
    let seconds = arguments.number_or(1, 1.0)?;
    let found = arguments.series(0)?.into_iter().map(|series| {
        let name = format!("scaleToSeconds({},{})", series.name, seconds.trunc());
        let factor = seconds / series.step_s as f64;
        series.mapped(|value| value * factor).renamed(name)
    });
    Ok(found.collect())
}

pub(super) fn offset(arguments: &mut Arguments<'_>) -> FunctionResult {
    let addend = arguments.number_or(1, 0.0)?;
    each(arguments.series(0)?, called_with("offset", addend), |value| value + addend)
}

pub(super) fn add(arguments: &mut Arguments<'_>) -> FunctionResult {
    let addend = arguments.number_or(1, 0.0)?;
    each(arguments.series(0)?, called_with("add", addend), |value| value + addend)
}

pub(super) fn offset_to_zero(arguments: &mut Arguments<'_>) -> FunctionResult {
    let found = arguments.series(0)?.into_iter().map(|series| {
        let least = Aggregation::Min.of(series.values.iter().copied());
        let name = format!("offsetToZero({})", series.name);
        series.mapped(|value| value - least).renamed(name)
    });
    Ok(found.collect())
}

pub(super) fn absolute(arguments: &mut Arguments<'_>) -> FunctionResult {
    each(arguments.series(0)?, called("absolute"), f64::abs)
}

pub(super) fn invert(arguments: &mut Arguments<'_>) -> FunctionResult {
    let inverse = |value: f64| if value == 0.0 { f64::NAN } else { 1.0 / value };
    each(arguments.series(0)?, called("invert"), inverse)
}

pub(super) fn pow(arguments: &mut Arguments<'_>) -> FunctionResult {
    let exponent = arguments.number_or(1, 1.0)?;
    let power = |value: f64| finite(value.powf(exponent));
    each(arguments.series(0)?, called_with("pow", exponent), power)
}

/// A result that is a number; unknown otherwise.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::NAN }
}

pub(super) fn square_root(arguments: &mut Arguments<'_>) -> FunctionResult {
    each(arguments.series(0)?, called("squareRoot"), f64::sqrt)
}

pub(super) fn logarithm(arguments: &mut Arguments<'_>) -> FunctionResult {
    let base = arguments.number(1)?;
    let shown = base.map_or_else(|| "10".to_owned(), |base| base.as_str());
    let base = base.map_or(10.0, |base| base.value);
    if base <= 0.0 || base == 1.0 {
        return Err(arguments.wrong("'base' must be above 0 and not 1"));
    }
    let log = |value: f64| {
        if value <= 0.0 || value.is_nan() {
            f64::NAN
        } else if base == 10.0 {
            value.log10()
        } else {
            value.ln() / base.ln()
        }
    };
    each(arguments.series(0)?, |series| format!("log({}, {shown})", series.name), log)
}

pub(super) fn round(arguments: &mut Arguments<'_>) -> FunctionResult {
    let precision = arguments.number(1)?.map(|number| number.value.trunc());
    let factor = 10_f64.powf(precision.unwrap_or(0.0));
    let name = |series: &Series| match precision {
        Some(precision) => format!("round({},{})", series.name, general(precision)),
        None => format!("round({})", series.name),
    };
    each(arguments.series(0)?, name, |value| rounded(value, precision.unwrap_or(0.0), factor))
}

/// A value with so many decimal places. Formatting rounds the exact value, ties to even; a
/// multiplication would round first.
fn rounded(value: f64, precision: f64, factor: f64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    if (0.0..=20.0).contains(&precision) {
        return format!("{value:.*}", precision as usize).parse().unwrap_or(value);
    }
    let scaled = value * factor;
    if scaled.is_finite() { scaled.round_ties_even() / factor } else { value }
}

pub(super) fn min_max(arguments: &mut Arguments<'_>) -> FunctionResult {
    let found = arguments.series(0)?.into_iter().map(|series| {
        let least = Aggregation::Min.of(series.values.iter().copied());
        let range = Aggregation::Range.of(series.values.iter().copied());
        let name = format!("minMax({})", series.name);
        let of = |value: f64| match value.is_nan() {
            false if range == 0.0 => 0.0,
            _ => (value - least) / range,
        };
        series.mapped(of).renamed(name)
    });
    Ok(found.collect())
}

pub(super) fn is_non_null(arguments: &mut Arguments<'_>) -> FunctionResult {
    let known = |series: &Series| -> Vec<f64> {
        series.values.iter().map(|value| f64::from(!value.is_nan())).collect()
    };
    Ok(whole(arguments.series(0)?, called("isNonNull"), known))
}

pub(super) fn transform_null(arguments: &mut Arguments<'_>) -> FunctionResult {
    let default = arguments.number_or(1, 0.0)?;
    let references = match arguments.get(2) {
        Some(_) => arguments.series(2)?,
        None => Vec::new(),
    };
    let suffix = if references.is_empty() { "" } else { ",referenceSeries" };
    let known_at = |at_s: i64| {
        references.iter().any(|series| {
            let place = usize::try_from((at_s - series.start_s).div_euclid(series.step_s));
            place.ok().and_then(|place| series.values.get(place)).is_some_and(|v| !v.is_nan())
        })
    };
    let name =
        |series: &Series| format!("transformNull({},{}{suffix})", series.name, general(default));
    let values = |series: &Series| -> Vec<f64> {
        let of = |(place, value): (usize, &f64)| match value.is_nan() {
            true if references.is_empty() || known_at(series.at_s(place)) => default,
            _ => *value,
        };
        series.values.iter().enumerate().map(of).collect()
    };
    Ok(whole(arguments.series(0)?, name, values))
}

pub(super) fn keep_last_value(arguments: &mut Arguments<'_>) -> FunctionResult {
    let limit = arguments.count(1, usize::MAX)?;
    let values = |series: &Series| fill_gaps(&series.values, limit, |before, _, _, _| before);
    Ok(whole(arguments.series(0)?, called("keepLastValue"), values))
}

pub(super) fn interpolate(arguments: &mut Arguments<'_>) -> FunctionResult {
    let limit = arguments.count(1, usize::MAX)?;
    let values = |series: &Series| {
        fill_gaps(&series.values, limit, |before, after, place, gap| match after {
            Some(after) => before + place as f64 * (after - before) / (gap + 1) as f64,
            None => f64::NAN,
        })
    };
    Ok(whole(arguments.series(0)?, called("interpolate"), values))
}

/// Fills gaps of at most `limit` places: `of` gets the value before, the one after if there is one,
/// the place in the gap from 1, and the length of the gap.
fn fill_gaps(
    values: &[f64],
    limit: usize,
    of: impl Fn(f64, Option<f64>, usize, usize) -> f64,
) -> Vec<f64> {
    let mut filled = values.to_vec();
    let mut place = 0;
    while place < values.len() {
        if !values[place].is_nan() {
            place += 1;
            continue;
        }
        let gap = values[place..].iter().take_while(|value| value.is_nan()).count();
        if let Some(before) = place.checked_sub(1).map(|place| values[place]) {
            let after = values.get(place + gap).copied();
            if gap <= limit {
                for inside in 0..gap {
                    filled[place + inside] = of(before, after, inside + 1, gap);
                }
            }
        }
        place += gap;
    }
    filled
}

pub(super) fn changed(arguments: &mut Arguments<'_>) -> FunctionResult {
    let values = |series: &Series| {
        let mut before = f64::NAN;
        let changed = series.values.iter().map(|value| {
            let differs = !value.is_nan() && !before.is_nan() && *value != before;
            if !value.is_nan() {
                before = *value;
            }
            f64::from(differs)
        });
        changed.collect()
    };
    Ok(whole(arguments.series(0)?, called("changed"), values))
}

/// The differences between neighbours.
fn differences(series: &Series, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let before = std::iter::once(f64::NAN).chain(series.values.iter().copied());
    before.zip(&series.values).map(|(before, value)| of(before, *value)).collect()
}

pub(super) fn derivative(arguments: &mut Arguments<'_>) -> FunctionResult {
    let values = |series: &Series| differences(series, |before, value| value - before);
    Ok(whole(arguments.series(0)?, called("derivative"), values))
}

/// Differences of a counter that wraps at `max` or restarts at `min`; a decrease is unknown
/// without them, and a value beyond them is, with the next one.
fn growth(series: &Series, max: Option<f64>, min: Option<f64>) -> Vec<f64> {
    let mut before = f64::NAN;
    let growth = series.values.iter().map(|value| {
        if max.is_some_and(|max| *value > max) || min.is_some_and(|min| *value < min) {
            before = f64::NAN;
            return f64::NAN;
        }
        let last = std::mem::replace(&mut before, *value);
        match (max, min) {
            _ if value.is_nan() || last.is_nan() => f64::NAN,
            _ if *value >= last => value - last,
            (Some(max), min) => max + 1.0 + value - last - min.unwrap_or(0.0),
            (None, Some(min)) => value - min,
            (None, None) => f64::NAN,
        }
    });
    growth.collect()
}

fn bounds(arguments: &Arguments<'_>) -> Result<(Option<f64>, Option<f64>), crate::GraphiteError> {
    let number = |place| Ok(arguments.number(place)?.map(|number| number.value));
    Ok((number(1)?, number(2)?))
}

pub(super) fn non_negative_derivative(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (max, min) = bounds(arguments)?;
    let values = |series: &Series| growth(series, max, min);
    Ok(whole(arguments.series(0)?, called("nonNegativeDerivative"), values))
}

pub(super) fn per_second(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (max, min) = bounds(arguments)?;
    let values = |series: &Series| {
        let step_s = series.step_s as f64;
        growth(series, max, min).into_iter().map(|growth| growth / step_s).collect()
    };
    Ok(whole(arguments.series(0)?, called("perSecond"), values))
}

pub(super) fn integral(arguments: &mut Arguments<'_>) -> FunctionResult {
    let values = |series: &Series| {
        let mut sum = 0.0;
        let sums = series.values.iter().map(|value| {
            if value.is_nan() {
                return f64::NAN;
            }
            sum += value;
            sum
        });
        sums.collect()
    };
    Ok(whole(arguments.series(0)?, called("integral"), values))
}

pub(super) fn integral_by_interval(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (text, length_s) = arguments.length(1)?;
    let length_s = length_s.abs();
    if length_s == 0 {
        return Err(arguments.wrong("'intervalUnit' must be longer than 0 s"));
    }
    let from_s = arguments.context.from_s;
    let name = |series: &Series| format!("integralByInterval({},'{text}')", series.name);
    let values = |series: &Series| {
        let mut sum = 0.0;
        let sums = series.values.iter().enumerate().map(|(place, value)| {
            let since_s = series.at_s(place) - from_s;
            let before_s = since_s - series.step_s;
            if since_s.div_euclid(length_s) != before_s.div_euclid(length_s) {
                sum = 0.0;
            }
            if !value.is_nan() {
                sum += value;
            }
            sum
        });
        sums.collect()
    };
    Ok(whole(arguments.series(0)?, name, values))
}

pub(super) fn delay(arguments: &mut Arguments<'_>) -> FunctionResult {
    let steps = arguments.number_or(1, 0.0)?.trunc();
    let name = |series: &Series| format!("delay({},{steps})", series.name);
    let values = |series: &Series| {
        let count = series.values.len() as i64;
        let from = |place: i64| usize::try_from(place - steps as i64).ok();
        let at = |place| from(place).and_then(|place| series.values.get(place)).copied();
        (0..count).map(|place| at(place).unwrap_or(f64::NAN)).collect()
    };
    Ok(whole(arguments.series(0)?, name, values))
}

pub(super) fn time_shift(arguments: &mut Arguments<'_>) -> FunctionResult {
    let mut text = arguments.required_text(1)?;
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '-');
    }
    let shift_s = crate::parse_length(&text)?;
    let (from_s, until_s) = (arguments.context.from_s, arguments.context.until_s);
    let found = arguments.series_between(0, from_s + shift_s, until_s + shift_s)?;
    let shifted = found.into_iter().map(|series| {
        let name = format!("timeShift({}, \"{text}\")", series.name);
        let (start_s, end_s) = (series.start_s - shift_s, series.end_s - shift_s);
        Series { name, start_s, end_s, ..series }
    });
    Ok(shifted.collect())
}

pub(super) fn time_slice(arguments: &mut Arguments<'_>) -> FunctionResult {
    let context = arguments.context;
    let at = |text: Option<String>, otherwise_s: i64| match text {
        Some(text) => crate::parse_time(&text, context.until_s, &context.zone),
        None => Ok(otherwise_s),
    };
    let from_s = at(arguments.text(1)?, context.from_s)?;
    let until_s = at(arguments.text(2)?, context.until_s)?;
    let found = arguments.series(0)?.into_iter().map(|mut series| {
        let name = format!("timeSlice({}, {from_s}, {until_s})", series.name);
        for place in 0..series.values.len() {
            if !(from_s..=until_s).contains(&series.at_s(place)) {
                series.values[place] = f64::NAN;
            }
        }
        series.renamed(name)
    });
    Ok(found.collect())
}
