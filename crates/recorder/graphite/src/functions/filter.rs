//! Functions that choose and sort series.

use std::collections::HashSet;

use super::FunctionResult;
use super::arguments::Arguments;
use crate::aggregation::percentile;
use crate::{Aggregation, Series};

/// A series' value for sorting; unknown ones are least.
fn rank(series: &Series, how: Aggregation) -> f64 {
    let value = series.aggregate(0..series.values.len(), how);
    if value.is_nan() { f64::NEG_INFINITY } else { value }
}

/// Sorts by an aggregate; series with equal ones keep their order.
fn sorted(found: Vec<Series>, how: Aggregation, descending: bool) -> Vec<Series> {
    let mut ranked: Vec<(f64, Series)> = found.into_iter().map(|s| (rank(&s, how), s)).collect();
    ranked.sort_by(|(a, _), (b, _)| if descending { b.total_cmp(a) } else { a.total_cmp(b) });
    ranked.into_iter().map(|(_, series)| series).collect()
}

pub(super) fn first(
    arguments: &mut Arguments<'_>,
    how: Aggregation,
    descending: bool,
) -> FunctionResult {
    let count = arguments.count(1, 1)?;
    let mut found = sorted(arguments.series(0)?, how, descending);
    found.truncate(count);
    Ok(found)
}

pub(super) fn highest(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (_, how) = arguments.aggregation(2, "average")?;
    first(arguments, how, true)
}

pub(super) fn lowest(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (_, how) = arguments.aggregation(2, "average")?;
    first(arguments, how, false)
}

pub(super) fn limit(arguments: &mut Arguments<'_>) -> FunctionResult {
    let count = arguments.count(1, 1)?;
    let mut found = arguments.series(0)?;
    found.truncate(count);
    Ok(found)
}

pub(super) fn sort_by(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (_, how) = arguments.aggregation(1, "average")?;
    let descending = arguments.is_true(2)?;
    Ok(sorted(arguments.series(0)?, how, descending))
}

pub(super) fn sort_by_total(arguments: &mut Arguments<'_>) -> FunctionResult {
    Ok(sorted(arguments.series(0)?, Aggregation::Sum, true))
}

pub(super) fn sort_by_maxima(arguments: &mut Arguments<'_>) -> FunctionResult {
    Ok(sorted(arguments.series(0)?, Aggregation::Max, true))
}

pub(super) fn sort_by_minima(arguments: &mut Arguments<'_>) -> FunctionResult {
    let mut found = arguments.series(0)?;
    found.retain(|series| rank(series, Aggregation::Max) > 0.0);
    Ok(sorted(found, Aggregation::Min, false))
}

pub(super) fn sort_by_name(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (natural, descending) = (arguments.is_true(1)?, arguments.is_true(2)?);
    let mut found = arguments.series(0)?;
    found.sort_by(|a, b| {
        let ordering = match natural {
            true => natural_key(&a.name).cmp(&natural_key(&b.name)),
            false => a.name.cmp(&b.name),
        };
        if descending { ordering.reverse() } else { ordering }
    });
    Ok(found)
}

/// A name whose numbers have ten digits, so that 10 comes after 9.
fn natural_key(name: &str) -> String {
    let (mut key, mut digits) = (String::new(), String::new());
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            key.push_str(&format!("{:0>10}", digits.trim_start_matches('0')));
            digits.clear();
        }
        key.push(c);
    }
    key
}

pub(super) fn grep(arguments: &mut Arguments<'_>) -> FunctionResult {
    let pattern = arguments.regex(1)?;
    let mut found = arguments.series(0)?;
    found.retain(|series| pattern.is_match(&series.name));
    Ok(found)
}

pub(super) fn exclude(arguments: &mut Arguments<'_>) -> FunctionResult {
    let pattern = arguments.regex(1)?;
    let mut found = arguments.series(0)?;
    found.retain(|series| !pattern.is_match(&series.name));
    Ok(found)
}

pub(super) fn above(
    arguments: &mut Arguments<'_>,
    how: Aggregation,
    is_above: bool,
) -> FunctionResult {
    let bound = arguments.number_or(1, 0.0)?;
    let mut found = arguments.series(0)?;
    found.retain(|series| {
        let value = series.aggregate(0..series.values.len(), how);
        if is_above { value > bound } else { value <= bound }
    });
    Ok(found)
}

pub(super) fn most_deviant(arguments: &mut Arguments<'_>) -> FunctionResult {
    let count = arguments.count(1, 1)?;
    let mut found = arguments.series(0)?;
    found.retain(|series| series.known().next().is_some());
    let mut found = sorted(found, Aggregation::Stddev, true);
    found.truncate(count);
    Ok(found)
}

pub(super) fn unique(arguments: &mut Arguments<'_>) -> FunctionResult {
    let mut seen = HashSet::new();
    let mut found = arguments.series(0)?;
    found.retain(|series| seen.insert(series.name.clone()));
    Ok(found)
}

pub(super) fn remove_empty_series(arguments: &mut Arguments<'_>) -> FunctionResult {
    let xff = arguments.number_or(1, 0.0)?;
    let mut found = arguments.series(0)?;
    found.retain(|series| {
        let known = series.known().count();
        known > 0 && known as f64 / series.values.len() as f64 >= xff
    });
    Ok(found)
}

pub(super) fn fallback_series(arguments: &mut Arguments<'_>) -> FunctionResult {
    let found = arguments.series(0)?;
    if found.is_empty() { arguments.series(1) } else { Ok(found) }
}

/// Removes the values that `is_kept` rejects.
pub(super) fn kept(
    arguments: &mut Arguments<'_>,
    is_kept: impl Fn(f64, f64) -> bool,
) -> FunctionResult {
    let bound = arguments.number_or(1, 0.0)?;
    let function = arguments.call.name.clone();
    let found = arguments.series(0)?.into_iter().map(|series| {
        let name = format!("{function}({}, {})", series.name, crate::number::general(bound));
        series.mapped(|v| if is_kept(v, bound) { v } else { f64::NAN }).renamed(name)
    });
    Ok(found.collect())
}

pub(super) fn beyond_percentile(
    arguments: &mut Arguments<'_>,
    is_kept: fn(&f64, &f64) -> bool,
) -> FunctionResult {
    let n = arguments.number_or(1, 0.0)?;
    let function = arguments.call.name.clone();
    let found = arguments.series(0)?.into_iter().map(|series| {
        let bound = percentile(series.values.iter().copied(), n, false);
        let name = format!("{function}({}, {})", series.name, crate::number::general(n));
        series.mapped(|v| if is_kept(&v, &bound) { v } else { f64::NAN }).renamed(name)
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_comes_after_nine() {
        assert!(natural_key("web10") > natural_key("web9"));
        assert!(natural_key("web010.a") > natural_key("web9.b"));
    }
}
