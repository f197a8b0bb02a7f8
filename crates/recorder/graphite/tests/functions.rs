//! Targets over a few series in memory: names, values, and errors.

#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

use std::collections::BTreeMap;

use graphite::{
    Context, Entry, GraphiteError, Index, Selection, Series, SeriesSource, evaluate, parse,
};
use proptest::prelude::*;

const UNKNOWN: f64 = f64::NAN;

/// Series of ten-second slots from 0 s.
struct Memory {
    index: Index,
    values: BTreeMap<i64, Vec<f64>>,
    known_s: BTreeMap<i64, Vec<f64>>,
}

/// Name, tags and values.
type Given<'g> = (&'g str, &'g [(&'g str, &'g str)], &'g [f64]);

impl Memory {
    fn new(series: &[Given<'_>]) -> Memory {
        let mut values = BTreeMap::new();
        let entries = series.iter().zip(1..).map(|((name, tags, of), id)| {
            values.insert(id, of.to_vec());
            let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Entry::new(name, &tags, id)
        });
        let index = Index::new(entries.collect());
        Memory { index, values, known_s: BTreeMap::new() }
    }
}

impl SeriesSource for Memory {
    fn fetch(
        &mut self,
        selection: &Selection<'_>,
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let entries = self.index.select(selection)?;
        let first = (from_s + 9).div_euclid(10);
        let last = (until_s + 9).div_euclid(10);
        let of = |values: &Vec<f64>, otherwise| -> Vec<f64> {
            let at = |place: i64| usize::try_from(place).ok().and_then(|place| values.get(place));
            (first..last).map(|place| at(place).copied().unwrap_or(otherwise)).collect()
        };
        let series = entries.into_iter().map(|entry| {
            let values = of(&self.values[&entry.id], UNKNOWN);
            let mut series = Series::new(&entry.full, first * 10, 10, values);
            series.tags = entry.tags.clone();
            series.known_s = self.known_s.get(&entry.id).map(|known_s| of(known_s, 0.0));
            series
        });
        Ok(series.collect())
    }
}

fn memory() -> Memory {
    Memory::new(&[
        ("web.a.hits", &[], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("web.b.hits", &[], &[10.0, UNKNOWN, 30.0, 30.0, 20.0, 60.0]),
        ("disk", &[("host", "x"), ("rack", "1")], &[5.0; 6]),
        ("disk", &[("host", "y"), ("rack", "1")], &[7.0; 6]),
    ])
}

/// Each series as `name: values`, with the start if it is not 0.
fn shown(target: &str) -> Vec<String> {
    answer(target).unwrap_or_else(|error| vec![error.to_string()])
}

fn answer(target: &str) -> Result<Vec<String>, GraphiteError> {
    answer_from(&mut memory(), target)
}

fn answer_from(memory: &mut Memory, target: &str) -> Result<Vec<String>, GraphiteError> {
    let context = Context::new(0, 60, 10_000)?;
    let found = evaluate(&parse(target)?, &context, memory)?;
    let one = |series: &Series| {
        let value = |value: &f64| match value.is_nan() {
            true => "-".to_owned(),
            false => format!("{}", (value * 1e6).round() / 1e6),
        };
        let values: Vec<String> = series.values.iter().map(value).collect();
        let from =
            if series.start_s == 0 { String::new() } else { format!("@{} ", series.start_s) };
        format!("{}: {from}{}", series.name, values.join(" "))
    };
    Ok(found.iter().map(one).collect())
}

#[test]
fn functions_do_what_graphite_documents() {
    for (target, result) in [
        ("sumSeries(web.*.hits)", "sumSeries(web.*.hits): 11 2 33 34 25 66"),
        ("sum(web.a.hits, web.b.hits)", "sumSeries(web.a.hits,web.b.hits): 11 2 33 34 25 66"),
        ("averageSeries(web.*.hits)", "averageSeries(web.*.hits): 5.5 2 16.5 17 12.5 33"),
        ("maxSeries(web.*.hits)", "maxSeries(web.*.hits): 10 2 30 30 20 60"),
        ("diffSeries(web.b.hits,web.a.hits)", "diffSeries(web.b.hits,web.a.hits): 9 2 27 26 15 54"),
        (
            "divideSeries(web.b.hits, web.a.hits)",
            "divideSeries(web.b.hits,web.a.hits): 10 - 10 7.5 4 10",
        ),
        ("multiplySeries(web.*.hits)", "multiplySeries(web.*.hits): 10 - 90 120 100 360"),
        ("scale(web.a.hits, 0.5)", "scale(web.a.hits,0.5): 0.5 1 1.5 2 2.5 3"),
        ("offset(web.a.hits, -1)", "offset(web.a.hits,-1): 0 1 2 3 4 5"),
        ("derivative(web.b.hits)", "derivative(web.b.hits): - - - 0 -10 40"),
        ("nonNegativeDerivative(web.b.hits)", "nonNegativeDerivative(web.b.hits): - - - 0 - 40"),
        (
            "nonNegativeDerivative(web.b.hits, 99)",
            "nonNegativeDerivative(web.b.hits): - - - 0 90 40",
        ),
        ("perSecond(web.a.hits)", "perSecond(web.a.hits): - 0.1 0.1 0.1 0.1 0.1"),
        ("integral(web.b.hits)", "integral(web.b.hits): 10 - 40 70 90 150"),
        ("keepLastValue(web.b.hits)", "keepLastValue(web.b.hits): 10 10 30 30 20 60"),
        ("interpolate(web.b.hits)", "interpolate(web.b.hits): 10 20 30 30 20 60"),
        ("transformNull(web.b.hits, -1)", "transformNull(web.b.hits,-1): 10 -1 30 30 20 60"),
        ("movingAverage(web.a.hits, 2)", "movingAverage(web.a.hits,2): 1 1.5 2.5 3.5 4.5 5.5"),
        ("movingAverage(web.a.hits, '30s')", "movingAverage(web.a.hits,\"30s\"): 1 1.5 2 3 4 5"),
        ("timeShift(web.a.hits, '20s')", "timeShift(web.a.hits, \"-20s\"): - - 1 2 3 4"),
        ("summarize(web.b.hits, '20s')", "summarize(web.b.hits, \"20s\", \"sum\"): 10 60 80 -"),
        (
            "summarize(web.b.hits, '30s', 'max', true)",
            "summarize(web.b.hits, \"30s\", \"max\", true): 30 60",
        ),
        ("hitcount(web.a.hits, '30s')", "hitcount(web.a.hits, \"30s\"): 60 150"),
        ("asPercent(web.a.hits, 10)", "asPercent(web.a.hits,10): 10 20 30 40 50 60"),
        ("removeAboveValue(web.a.hits, 3)", "removeAboveValue(web.a.hits, 3): 1 2 3 - - -"),
        ("removeBelowValue(web.a.hits, 3)", "removeBelowValue(web.a.hits, 3): - - 3 4 5 6"),
        ("nPercentile(web.a.hits, 50)", "nPercentile(web.a.hits, 50): 4 4 4 4 4 4"),
        (
            "percentileOfSeries(web.*.hits, 50)",
            "percentileOfSeries(web.*.hits,50): 10 2 30 30 20 60",
        ),
        ("constantLine(5)", "5.0: 5 5 5"),
        ("threshold(2.5, 'most', 'red')", "most: 2.5 2.5 2.5"),
        ("absolute(offset(web.a.hits, -3))", "absolute(offset(web.a.hits,-3)): 2 1 0 1 2 3"),
        ("alias(web.a.hits, 'hits of a')", "hits of a: 1 2 3 4 5 6"),
        ("aliasByNode(scale(web.a.hits, 1), 1, -1)", "a.hits: 1 2 3 4 5 6"),
        ("aliasSub(web.a.hits, '^web\\.(.)', '<\\1>')", "<a>.hits: 1 2 3 4 5 6"),
        ("web.a.hits | scale(2) | alias('x')", "x: 2 4 6 8 10 12"),
        ("grep(web.*.hits, '[.]b')", "web.b.hits: 10 - 30 30 20 60"),
        ("exclude(web.*.hits, '[.]b')", "web.a.hits: 1 2 3 4 5 6"),
        ("highestAverage(web.*.hits, 1)", "web.b.hits: 10 - 30 30 20 60"),
        ("lowestCurrent(web.*.hits, 1)", "web.a.hits: 1 2 3 4 5 6"),
        ("limit(sortByMaxima(web.*.hits), 1)", "web.b.hits: 10 - 30 30 20 60"),
        ("groupByNode(web.*.hits, 2, 'sum')", "hits: 11 2 33 34 25 66"),
        ("groupByNodes(web.*.hits, 'max', 0, 2)", "web.hits: 10 2 30 30 20 60"),
        ("seriesByTag('name=disk', 'host=x')", "disk;host=x;rack=1: 5 5 5 5 5 5"),
        ("groupByTags(seriesByTag('name=disk'), 'sum', 'rack')", "disk;rack=1: 12 12 12 12 12 12"),
        ("aliasByTags(disk;host=x*, 'host', 0)", "x.disk: 5 5 5 5 5 5"),
        ("fallbackSeries(no.such, constantLine(0))", "0.0: 0 0 0"),
        (
            "cactiStyle(web.a.hits)",
            "web.a.hits Current:6.00    Max:6.00    Min:1.00    : 1 2 3 4 5 6",
        ),
    ] {
        assert_eq!(shown(target), [result], "{target}");
    }
    assert_eq!(shown("disk").len(), 2, "a path selects series with any tags");
    assert_eq!(shown("sumSeries(no.such.*)"), [""; 0]);
}

#[test]
fn every_error_says_what_to_do() {
    for (target, message) in [
        (
            "sumSerie(a)",
            "unknown function 'sumSerie', did you mean 'sumSeries'?; see /functions for all of them",
        ),
        ("frobnicate(a)", "unknown function 'frobnicate'; see /functions for all of them"),
        ("scale(web.a.hits)", "scale(): the argument 'factor' is missing"),
        ("scale(web.a.hits, 1, 2)", "scale(): takes at most 2 arguments"),
        ("scale(web.a.hits, 'x')", "scale(): 'factor' must be a number"),
        ("scale(web.a.hits, by=2)", "scale(): has no parameter 'by'"),
        ("scale(web.a.hits, 2, factor=2)", "scale(): 'factor' is given twice"),
        ("alias(web.a.hits, b)", "alias(): 'newName' must be a quoted text"),
        ("sumSeries(1)", "sumSeries(): 'seriesLists' must be series"),
        ("limit(web.a.hits, -1)", "limit(): 'n' must be a whole number from 0"),
        (
            "movingAverage(web.a.hits, 0)",
            "movingAverage(): 'windowSize' must be a number of points or a length such as '5min'",
        ),
        ("summarize(web.a.hits, '0s')", "summarize(): 'intervalString' must be longer than 0 s"),
        (
            "summarize(web.a.hits, '1h', 'mode')",
            "summarize(): 'mode' is not an aggregation; use one of average, avg, avg_zero, median, \
             sum, total, min, max, diff, stddev, count, range, rangeOf, multiply, first, last, \
             current",
        ),
        (
            "divideSeries(web.a.hits, web.*.hits)",
            "divideSeries(): the divisor must be exactly 1 series, but 2 match; use \
             divideSeriesLists for several",
        ),
        ("grep(web.a.hits, '(')", "'(' is not a valid regular expression: unclosed group"),
        ("5", "the query selects nothing"),
    ] {
        if target == "5" {
            // A number alone is a path, as in Graphite.
            assert_eq!(shown(target), [""; 0]);
            continue;
        }
        assert_eq!(shown(target), [message], "{target}");
    }
}

#[test]
fn nested_windows_multiplied_the_work() {
    let nested = format!("{}web.a.hits{}", "movingAverage(".repeat(60), ",2)".repeat(60));
    assert_eq!(
        answer(&nested).unwrap_err().to_string(),
        "the query needs too many values in all its calls, but the limit is 200000; nest fewer \
         calls, or select fewer series"
    );
}

#[test]
fn a_window_over_all_data_took_minutes() {
    let context = Context::new(0, 1_000_000, 10_000_000).unwrap();
    let target = parse("stdev(web.a.hits, 10000)").unwrap();
    let error = evaluate(&target, &context, &mut memory()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the query has windows of 1000000000 values in all, but the limit is 500000000; use a \
         shorter window, or select fewer series"
    );
}

#[test]
fn a_range_that_is_empty_is_an_error() {
    assert_eq!(
        Context::new(60, 60, 10).unwrap_err().to_string(),
        "the range is empty: 'until' must be after 'from'"
    );
}

proptest! {
    /// Rate × known time is the count at every width, also through hitcount.
    #[test]
    fn no_width_changes_a_total(
        counts in prop::collection::vec((0_u32..1_000, 0_u32..=10), 1..300),
        from in 0_i64..50,
        points in 1_usize..100,
        length in 1_i64..40,
    ) {
        let known_s: Vec<f64> = counts.iter().map(|(_, known)| f64::from(*known)).collect();
        let rate = |(count, known): &(u32, u32)| match known {
            0 => UNKNOWN,
            known => f64::from(*count) / f64::from(*known),
        };
        let mut memory = Memory::new(&[("a", &[], &counts.iter().map(rate).collect::<Vec<_>>())]);
        memory.known_s.insert(1, known_s);
        let until_s = counts.len() as i64 * 10;
        let from_s = from.min(counts.len() as i64 - 1) * 10;
        let context = Context::new(from_s, until_s, 100_000).unwrap();
        let total: f64 = counts[(from_s / 10) as usize..]
            .iter()
            .map(|(count, known)| if *known == 0 { 0.0 } else { f64::from(*count) })
            .sum();
        let near = |sum: f64| (sum - total).abs() <= 1e-9 * total.max(1.0);

        let series = evaluate(&parse("a").unwrap(), &context, &mut memory).unwrap().remove(0);
        let fitted = series.fitted(points);
        prop_assert!(fitted.values.len() <= points.max(2));
        prop_assert!(near(fitted.total()), "{} {total}", fitted.total());

        let target = format!("hitcount(a, '{}s')", length * 7);
        let hits = evaluate(&parse(&target).unwrap(), &context, &mut memory).unwrap().remove(0);
        let sum: f64 = hits.values.iter().filter(|v| !v.is_nan()).sum();
        prop_assert!(near(sum), "{sum} {total}");
    }

    /// No text makes the parser or a function panic.
    #[test]
    fn no_target_panics(target in "[a-zS(){},.'\"0-9*|=-]{0,40}", name in 0_usize..1_000, n in -9.0..99.0) {
        let context = Context::new(0, 60, 1_000).unwrap();
        if let Ok(parsed) = parse(&target) {
            let _ = evaluate(&parsed, &context, &mut memory());
        }
        let function = &graphite::FUNCTIONS[name % graphite::FUNCTIONS.len()];
        for arguments in ["web.*.hits", "web.*.hits,web.a.hits", "web.*.hits,'13s'", "web.*.hits,'sum',1"] {
            for target in [
                format!("{}({arguments})", function.name),
                format!("{}(web.*.hits,{n:.0},{n:.2})", function.name),
                format!("{}(web.*.hits,{arguments})", function.name),
            ] {
                if let Ok(parsed) = parse(&target) {
                    let _ = evaluate(&parsed, &context, &mut memory());
                }
            }
        }
    }
}

#[test]
fn the_list_of_functions_is_sorted_and_unique() {
    let names: Vec<&str> = graphite::FUNCTIONS.iter().map(|function| function.name).collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
}

#[test]
fn the_page_lists_every_function() {
    let page = include_str!("../../../../docs/graphite.md");
    let table = page.split_once("## Functions").unwrap().1;
    let listed: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    for function in graphite::FUNCTIONS {
        let row = format!("| {} |", function.group);
        let row = table.lines().find(|line| line.starts_with(&row)).unwrap();
        assert!(row.contains(&format!("`{}`", function.name)), "{}", function.name);
    }
    let known = |name: &&&str| graphite::FUNCTIONS.iter().any(|function| function.name == **name);
    assert_eq!(listed.iter().filter(known).count(), graphite::FUNCTIONS.len());
}

/// After the cases of carbonapi's mockbackend (cmd/mockbackend/testcases), over series of ours; the
/// names of results are graphite-web's.
#[test]
fn targets_of_carbonapi_have_its_results() {
    let mut memory = Memory::new(&[
        ("api.host1.size", &[], &[UNKNOWN; 6]),
        ("api.host2.size", &[], &[0.0, 0.0, 0.0, 700.0, 700.0, 700.0]),
        ("api.host3.size", &[], &[UNKNOWN; 6]),
        ("q.open", &[], &[0.0, 1.0, 2.0, 2.0, 3.0, 3.0]),
        ("q.waiting", &[], &[100.0, 110.0, 110.0, 110.0, 150.0, 150.0]),
        ("flat", &[], &[1.0; 6]),
        ("fo(o).bar", &[], &[1.0; 6]),
        ("back\\slash", &[], &[1.0; 6]),
        ("m.x", &[], &[4.0, 6.0, 2.0, 2.0, 3.0, 1.0]),
        ("m.y", &[], &[8.0, 1.0, 1.0, 7.0, 4.0, 1.0]),
        ("m.unknown", &[], &[UNKNOWN; 6]),
        ("tagged", &[("a", "1"), ("b", "2")], &[1.0; 6]),
    ]);
    let (x, y, unknown) = ("m.x: 4 6 2 2 3 1", "m.y: 8 1 1 7 4 1", "m.unknown: - - - - - -");
    for (target, expected) in [
        ("q.open", &["q.open: 0 1 2 2 3 3"][..]),
        (
            "percentileOfSeries(api.*.size, 95, false)",
            &["percentileOfSeries(api.*.size,95): 0 0 0 700 700 700"],
        ),
        ("aliasByNode(aliasSub(q.open, '(.*)', '0.1.2.@.4'), 2)", &["2: 0 1 2 2 3 3"]),
        ("seriesByTag('a=1', 'b=2')", &["tagged;a=1;b=2: 1 1 1 1 1 1"]),
        ("group(flat, missing)", &["flat: 1 1 1 1 1 1"]),
        ("sum(q.*)", &["sumSeries(q.*): 100 111 112 112 153 153"]),
        ("fo\\(o\\).bar", &["fo(o).bar: 1 1 1 1 1 1"]),
        ("back\\\\slash", &["back\\slash: 1 1 1 1 1 1"]),
        (
            "maxSeries(flat, asPercent(timeShift(flat, '10s', false), flat))",
            &["maxSeries(flat,asPercent(timeShift(flat, \"-10s\"),flat)): 1 100 100 100 100 100"],
        ),
        ("limit(sortByMaxima(m.*), 2)", &[y, x]),
        ("limit(sortByMaxima(m.*), 3)", &[y, x, unknown]),
    ] {
        assert_eq!(answer_from(&mut memory, target).unwrap(), expected, "{target}");
    }
    for how in ["max", "min", "sum", "avg", "average", "last", "first"] {
        let expected = [format!("consolidateBy(m.x,\"{how}\"): 4 6 2 2 3 1")];
        let target = format!("consolidateBy(m.x, '{how}')");
        assert_eq!(answer_from(&mut memory, &target).unwrap(), expected);
    }
    for refused in [
        "consolidateBy(m.x, 'maximum')",
        "consolidateBy(m.x, 'minimum')",
        "consolidateBy(m.x, 'somefunc')",
        "aliasByNode()",
        "aliasByNode(flat)",
        "aliasByNode(flat, abc)",
        "devideSeries(flat)",
        "groupByNode(m.*, 0, '4')",
    ] {
        assert!(answer_from(&mut memory, refused).is_err(), "{refused}");
    }
}
