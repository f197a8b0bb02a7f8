//! Functions that make one series of several.

use std::collections::BTreeMap;

use super::FunctionResult;
use super::alias::key;
use super::arguments::{Arguments, NodeOrTag};
use crate::aggregation::percentile;
use crate::number::general;
use crate::series::{AlignedSeries, align};
use crate::tags::tags_of;
use crate::{Aggregation, Series};

/// The paths of series, each once, joined by commas.
fn paths(series: &[Series]) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for one in series {
        if !paths.contains(&one.path.as_str()) {
            paths.push(&one.path);
        }
    }
    paths.join(",")
}

/// Seconds of each place for which one of the series at least is known, if they differ.
fn known_of(aligned: &AlignedSeries) -> Option<Vec<f64>> {
    if aligned.series.iter().all(|series| series.known_s.is_none()) {
        return None;
    }
    let mut known_s = vec![0.0; aligned.count];
    for series in &aligned.series {
        for (known_s, (_, seconds)) in known_s.iter_mut().zip(series.weighted()) {
            *known_s = f64::max(*known_s, seconds);
        }
    }
    Some(known_s)
}

/// A series with the range of aligned ones.
fn of_aligned(aligned: &AlignedSeries, name: &str, values: Vec<f64>) -> Series {
    let series = Series::new(name, aligned.start_s, aligned.step_s, values);
    Series { end_s: aligned.end_s, ..series }
}

/// Combines series place by place; none gives none.
pub(super) fn aggregate_series(series: Vec<Series>, how: Aggregation, label: &str) -> Vec<Series> {
    let name = format!("{label}Series({})", paths(&series));
    let mut tags = series.first().map(|series| series.tags.clone()).unwrap_or_default();
    tags.retain(|tag, value| series.iter().all(|one| one.tags.get(tag) == Some(value)));
    tags.entry("name".to_owned()).or_insert_with(|| name.clone());
    tags.insert("aggregatedBy".to_owned(), label.to_owned());
    let Some(aligned) = align(series) else { return Vec::new() };
    let values = (0..aligned.count).map(|place| how.of(aligned.row(place))).collect();
    let known_s = known_of(&aligned);
    let least_known = aligned.series.iter().map(|s| s.least_known).fold(0.0, f64::max);
    vec![Series { tags, known_s, least_known, ..of_aligned(&aligned, &name, values) }]
}

pub(super) fn all(arguments: &mut Arguments<'_>, how: Aggregation, label: &str) -> FunctionResult {
    Ok(aggregate_series(arguments.series(0)?, how, label))
}

pub(super) fn multiply(arguments: &mut Arguments<'_>) -> FunctionResult {
    let series = arguments.series(0)?;
    if series.len() == 1 {
        return Ok(series);
    }
    Ok(aggregate_series(series, Aggregation::Multiply, "multiply"))
}

pub(super) fn count(arguments: &mut Arguments<'_>) -> FunctionResult {
    let series = arguments.series(0)?;
    let (name, number) = (format!("countSeries({})", paths(&series)), series.len() as f64);
    let Some(aligned) = align(series) else { return Ok(Vec::new()) };
    Ok(vec![of_aligned(&aligned, &name, vec![number; aligned.count])])
}

pub(super) fn aggregate(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (name, how) = arguments.aggregation(1, "average")?;
    let label = name.strip_suffix("Series").unwrap_or(&name);
    all(arguments, how, label)
}

pub(super) fn percentile_of_series(arguments: &mut Arguments<'_>) -> FunctionResult {
    let n = arguments.number_or(1, 0.0)?;
    if !(n > 0.0 && n <= 100.0) {
        return Err(arguments.wrong("'n' must be above 0 and at most 100"));
    }
    let interpolate = arguments.is_true(2)?;
    let series = arguments.series(0)?;
    let path = series.first().map(|series| series.path.clone()).unwrap_or_default();
    let name = format!("percentileOfSeries({path},{})", general(n));
    let Some(aligned) = align(series) else { return Ok(Vec::new()) };
    let value = |place| percentile(aligned.row(place), n, interpolate);
    let values = (0..aligned.count).map(value).collect();
    Ok(vec![of_aligned(&aligned, &name, values)])
}

/// The quotient; unknown for a divisor of 0.
pub(super) fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { a / b }
}

/// Two series place by place.
fn pair(a: &Series, b: &Series, name: &str, of: impl Fn(f64, f64) -> f64) -> Option<Series> {
    let aligned = align(vec![a.clone(), b.clone()])?;
    let (a, b) = (&aligned.series[0].values, &aligned.series[1].values);
    let values = a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect();
    Some(of_aligned(&aligned, name, values))
}

pub(super) fn divide(arguments: &mut Arguments<'_>) -> FunctionResult {
    let dividends = arguments.series(0)?;
    let divisors = arguments.series(1)?;
    let divisor = match &divisors[..] {
        [] => {
            let missing = dividends.into_iter().map(|series| {
                let name = format!("divideSeries({},MISSING)", series.name);
                series.mapped(|_| f64::NAN).renamed(name)
            });
            return Ok(missing.collect());
        }
        [divisor] => divisor,
        divisors => {
            let count = divisors.len();
            return Err(arguments.wrong(format!(
                "the divisor must be exactly 1 series, but {count} match; use divideSeriesLists \
                 for several"
            )));
        }
    };
    let quotients = dividends.iter().filter_map(|dividend| {
        let name = format!("divideSeries({},{})", dividend.name, divisor.name);
        pair(dividend, divisor, &name, quotient)
    });
    Ok(quotients.collect())
}

pub(super) fn lists(
    arguments: &mut Arguments<'_>,
    label: &str,
    of: fn(f64, f64) -> f64,
) -> FunctionResult {
    let (first, second) = (arguments.series(0)?, arguments.series(1)?);
    if first.len() != second.len() {
        let counts =
            format!("both must match as many series, not {} and {}", first.len(), second.len());
        return Err(arguments.wrong(counts));
    }
    let pairs = first
        .iter()
        .zip(&second)
        .filter_map(|(a, b)| pair(a, b, &format!("{label}({},{})", a.name, b.name), of));
    Ok(pairs.collect())
}

/// Series with equal keys, in the order of their first one.
fn groups(series: Vec<Series>, key: impl Fn(&Series) -> String) -> Vec<(String, Vec<Series>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<Series>)> = Vec::new();
    for one in series {
        let key = key(&one);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(one);
    }
    groups
}

fn grouped(
    series: Vec<Series>,
    callback: &str,
    how: Aggregation,
    nodes: &[NodeOrTag],
) -> FunctionResult {
    let label = callback.strip_suffix("Series").unwrap_or(callback);
    let groups = groups(series, |series| key(series, nodes));
    let combined = groups.into_iter().flat_map(|(key, series)| {
        let combined = aggregate_series(series, how, label);
        combined.into_iter().map(move |series| Series { name: key.clone(), ..series })
    });
    Ok(combined.collect())
}

pub(super) fn group_by_node(arguments: &mut Arguments<'_>) -> FunctionResult {
    let mut nodes = arguments.nodes(1)?;
    nodes.truncate(1);
    let (callback, how) = arguments.aggregation(2, "average")?;
    grouped(arguments.series(0)?, &callback, how, &nodes)
}

pub(super) fn group_by_nodes(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (callback, how) = arguments.aggregation(1, "average")?;
    let nodes = arguments.nodes(2)?;
    grouped(arguments.series(0)?, &callback, how, &nodes)
}

pub(super) fn group_by_tags(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (callback, how) = arguments.aggregation(1, "average")?;
    let tags = arguments.texts(2)?;
    let series = arguments.series(0)?;
    let name_of = |series: &Series| series.tags.get("name").cloned().unwrap_or_default();
    let first = series.first().map(name_of).unwrap_or_default();
    let same = series.iter().all(|series| name_of(series) == first);
    let by_name = tags.iter().any(|tag| tag == "name");
    let key = |series: &Series| {
        let name = match (by_name, same) {
            (true, _) => name_of(series),
            (false, true) => first.clone(),
            (false, false) => callback.clone(),
        };
        let mut parts: Vec<String> = tags
            .iter()
            .filter(|tag| *tag != "name")
            .map(|tag| format!("{tag}={}", series.tags.get(tag).map_or("", String::as_str)))
            .collect();
        parts.sort();
        parts.insert(0, name);
        parts.join(";")
    };
    let label = callback.strip_suffix("Series").unwrap_or(&callback);
    let combined = groups(series, key).into_iter().flat_map(|(key, series)| {
        aggregate_series(series, how, label).into_iter().map(move |series| {
            let tags = tags_of(&key);
            Series { tags, ..series.renamed(key.clone()) }
        })
    });
    Ok(combined.collect())
}

pub(super) fn with_wildcards(
    arguments: &mut Arguments<'_>,
    how: Aggregation,
    label: &str,
) -> FunctionResult {
    let nodes = arguments.nodes(1)?;
    let left_out = |place: usize| {
        nodes.iter().any(|node| matches!(node, NodeOrTag::Node(n) if *n == place as i64))
    };
    let key = |series: &Series| {
        let nodes = series.name.split('.').enumerate();
        let kept = nodes.filter(|(place, _)| !left_out(*place)).map(|(_, node)| node);
        kept.collect::<Vec<_>>().join(".")
    };
    let combined = groups(arguments.series(0)?, key).into_iter().flat_map(|(key, series)| {
        let combined = aggregate_series(series, how, label);
        combined.into_iter().map(move |series| Series { name: key.clone(), ..series })
    });
    Ok(combined.collect())
}

pub(super) fn group(arguments: &mut Arguments<'_>) -> FunctionResult {
    arguments.series(0)
}

/// A part of a whole, in percent; unknown if the whole is 0.
fn percent(part: f64, whole: f64) -> f64 {
    quotient(part, whole) * 100.0
}

pub(super) fn as_percent(arguments: &mut Arguments<'_>) -> FunctionResult {
    let nodes = arguments.nodes(2)?;
    let series = arguments.series(0)?;
    let totals = if arguments.is_series(1) { Some(arguments.series(1)?) } else { None };
    if !nodes.is_empty() {
        if totals.is_none() && arguments.get(1).is_some() {
            return Err(arguments.wrong("'total' must be series or none if nodes are given"));
        }
        return Ok(percent_by_key(series, totals, &nodes));
    }
    let named = |part: &Series, whole: &str| format!("asPercent({},{whole})", part.name);
    if let Some(totals) = totals {
        return match totals.len() {
            1 => {
                let whole = &totals[0];
                let of = |part| pair(part, whole, &named(part, &whole.name), percent);
                Ok(series.iter().filter_map(of).collect())
            }
            count if count == series.len() => {
                let sorted = |mut series: Vec<Series>| {
                    series.sort_by(|a, b| a.name.cmp(&b.name));
                    series
                };
                let (series, totals) = (sorted(series), sorted(totals));
                let pairs = series.iter().zip(&totals);
                let of = |(part, whole): (&Series, &Series)| {
                    pair(part, whole, &named(part, &whole.name), percent)
                };
                Ok(pairs.filter_map(of).collect())
            }
            count => Err(arguments.wrong(format!(
                "'total' must match 1 series or as many as the first argument, {}, but matches \
                 {count}",
                series.len()
            ))),
        };
    }
    if let Some(total) = arguments.number(1)? {
        let of = |part: Series| {
            let name = named(&part, &total.as_str());
            part.mapped(|value| percent(value, total.value)).renamed(name)
        };
        return Ok(series.into_iter().map(of).collect());
    }
    let Some(whole) = aggregate_series(series.clone(), Aggregation::Sum, "sum").pop() else {
        return Ok(Vec::new());
    };
    let of = |part| pair(part, &whole, &named(part, &whole.name), percent);
    Ok(series.iter().filter_map(of).collect())
}

/// Percentages within groups of equal nodes.
fn percent_by_key(
    series: Vec<Series>,
    totals: Option<Vec<Series>>,
    nodes: &[NodeOrTag],
) -> Vec<Series> {
    let parts = groups(series, |series| key(series, nodes));
    let wholes = match &totals {
        None => parts.clone(),
        Some(totals) => groups(totals.clone(), |series| key(series, nodes)),
    };
    let wholes = wholes.into_iter().filter_map(|(key, mut series)| {
        let whole = match series.len() {
            1 => series.pop(),
            _ => aggregate_series(series, Aggregation::Sum, "sum").pop(),
        };
        whole.map(|whole| (key, whole))
    });
    let wholes: Vec<(String, Series)> = wholes.collect();
    let mut found = Vec::new();
    for (key, parts) in &parts {
        let whole = wholes.iter().find(|(known, _)| known == key).map(|(_, whole)| whole);
        found.extend(parts.iter().filter_map(|part| match whole {
            Some(whole) => {
                let name = format!("asPercent({},{})", part.name, whole.name);
                pair(part, whole, &name, percent)
            }
            None => {
                let name = format!("asPercent({},MISSING)", part.name);
                Some(part.clone().mapped(|_| f64::NAN).renamed(name))
            }
        }));
    }
    let without_parts = |key: &String| parts.iter().all(|(known, _)| known != key);
    found.extend(wholes.iter().filter(|(key, _)| without_parts(key)).map(|(_, whole)| {
        let name = format!("asPercent(MISSING,{})", whole.name);
        whole.clone().mapped(|_| f64::NAN).renamed(name)
    }));
    found
}

pub(super) fn weighted_average(arguments: &mut Arguments<'_>) -> FunctionResult {
    let nodes = arguments.nodes(2)?;
    let (averages, weights) = (arguments.series(0)?, arguments.series(1)?);
    if averages.len() != weights.len() {
        return Err(arguments.wrong(format!(
            "both must match as many series, not {} and {}",
            averages.len(),
            weights.len()
        )));
    }
    let names = |series: &[Series]| {
        let mut paths: Vec<&str> = series.iter().map(|series| series.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.join(",")
    };
    let shown: Vec<String> = nodes
        .iter()
        .map(|node| match node {
            NodeOrTag::Node(n) => n.to_string(),
            NodeOrTag::Tag(tag) => tag.clone(),
        })
        .collect();
    let name =
        format!("weightedAverage({}, {}, {})", names(&averages), names(&weights), shown.join(", "));
    let products = averages.iter().filter_map(|average| {
        let key_of = key(average, &nodes);
        let weight = weights.iter().rfind(|weight| key(weight, &nodes) == key_of)?;
        pair(average, weight, "product", |a, b| a * b)
    });
    let products = aggregate_series(products.collect(), Aggregation::Sum, "sum");
    let weights = aggregate_series(weights, Aggregation::Sum, "sum");
    let (Some(products), Some(weights)) = (products.first(), weights.first()) else {
        return Ok(Vec::new());
    };
    Ok(pair(products, weights, &name, quotient).into_iter().collect())
}
