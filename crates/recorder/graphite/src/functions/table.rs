//! The list of all functions.

use super::Kind::{
    Aggregation, AggregationOrFunction, Any, Boolean, Float, IntOrInf, IntOrInterval, Integer,
    Interval, Node, NodeOrTag, SeriesList, Tag, Text,
};
use super::{Function, Parameter, alias, calculate, combine, filter, forecast, special, transform};
use crate::Aggregation as How;

const SERIES: Parameter = SeriesList.required("seriesList");
const LISTS: Parameter = SeriesList.several("seriesLists", true);

/// Each function with its parameters, its group, what runs it, and its description.
macro_rules! functions {
    ($($name:ident($($parameter:expr),*) $group:literal, $run:expr, $description:literal;)*) => {
        &[$(Function {
            name: stringify!($name),
            group: $group,
            description: $description,
            parameters: &[$($parameter),*],
            run: $run,
        }),*]
    };
}

/// All functions, sorted by name.
pub const FUNCTIONS: &[Function] = functions! {
    absolute(SERIES) "Transform", transform::absolute, "The values without their sign.";
    add(SERIES, Float.required("constant")) "Transform", transform::add, "Adds a constant.";
    aggregate(SERIES, Aggregation.required("func"))
        "Combine", combine::aggregate, "Combines series point by point with an aggregation.";
    aggregateLine(SERIES, Aggregation.or("func", "average"), Boolean.or("keepStep", "false"))
        "Calculate", calculate::aggregate_line, "A horizontal line at an aggregate of each series.";
    alias(SERIES, Text.required("newName")) "Alias", alias::alias, "Changes the name.";
    aliasByMetric(SERIES)
        "Alias", alias::alias_by_metric, "Changes the name to the last node of the path.";
    aliasByNode(SERIES, NodeOrTag.several("nodes", true))
        "Alias", alias::alias_by_node, "Changes the name to nodes of the path or values of tags.";
    aliasByTags(SERIES, NodeOrTag.several("tags", true))
        "Alias", alias::alias_by_node, "Changes the name to values of tags or nodes of the path.";
    aliasSub(SERIES, Text.required("search"), Text.required("replace"))
        "Alias", alias::alias_sub, "Replaces matches of a regular expression in the name.";
    asPercent(SERIES, Any.optional("total"), NodeOrTag.several("nodes", false))
        "Combine", combine::as_percent,
        "Each series in percent of a total: a number, one series, as many series, or the sum of all.";
    averageAbove(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Average, true),
        "The series with a mean above n.";
    averageBelow(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Average, false),
        "The series with a mean of at most n.";
    averageSeries(LISTS)
        "Combine", |a| combine::all(a, How::Average, "average"),
        "The mean of series, point by point.";
    averageSeriesWithWildcards(SERIES, Node.several("position", false))
        "Combine", |a| combine::with_wildcards(a, How::Average, "average"),
        "The mean of series whose paths are equal without these nodes.";
    avg(LISTS) "Combine", |a| combine::all(a, How::Average, "average"), "Short for averageSeries.";
    cactiStyle(SERIES, Text.optional("system"), Text.optional("units"))
        "Special", alias::cacti_style,
        "Adds the last, the greatest and the least value to the name.";
    changed(SERIES) "Special", transform::changed, "1 where the value changes, otherwise 0.";
    color(SERIES, Text.required("theColor")) "Graph", special::color, "The colour in pictures.";
    consolidateBy(SERIES, Aggregation.required("consolidationFunc"))
        "Special", special::consolidate_by,
        "How values are consolidated if there are more of them than wanted.";
    constantLine(Float.required("value")) "Special", special::constant_line, "A horizontal line.";
    countSeries(LISTS) "Combine", combine::count, "The number of series.";
    cumulative(SERIES) "Special", special::cumulative, "Short for consolidateBy(…, 'sum').";
    currentAbove(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Last, true),
        "The series with a last value above n.";
    currentBelow(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Last, false),
        "The series with a last value of at most n.";
    delay(SERIES, Integer.required("steps"))
        "Transform", transform::delay, "Moves the values so many points later.";
    derivative(SERIES) "Transform", transform::derivative, "The difference from the point before.";
    diffSeries(LISTS)
        "Combine", |a| combine::all(a, How::Diff, "diff"), "The first series minus all others.";
    diffSeriesLists(SeriesList.required("seriesListFirstPos"),
        SeriesList.required("seriesListSecondPos"))
        "Combine", |a| combine::lists(a, "diffSeries", |a, b| How::Diff.of([a, b].into_iter())),
        "Each series of the first list minus the one of the second.";
    divideSeries(SeriesList.required("dividendSeriesList"), SeriesList.required("divisorSeries"))
        "Combine", combine::divide, "Each series divided by one series.";
    divideSeriesLists(SeriesList.required("dividendSeriesList"),
        SeriesList.required("divisorSeriesList"))
        "Combine", |a| combine::lists(a, "divideSeries", combine::quotient),
        "Each series of the first list divided by the one of the second.";
    exclude(SERIES, Text.required("pattern"))
        "Filter Series", filter::exclude,
        "The series whose names do not match a regular expression.";
    exponentialMovingAverage(SERIES, IntOrInterval.required("windowSize"))
        "Calculate", calculate::exponential_moving_average,
        "A moving mean that gives later values more weight.";
    fallbackSeries(SERIES, SeriesList.required("fallback"))
        "Special", filter::fallback_series, "The second list if the first is empty.";
    grep(SERIES, Text.required("pattern"))
        "Filter Series", filter::grep, "The series whose names match a regular expression.";
    group(LISTS) "Combine", combine::group, "Several lists of series as one.";
    groupByNode(SERIES, NodeOrTag.required("nodeNum"), AggregationOrFunction.or("callback",
        "average"))
        "Combine", combine::group_by_node, "Combines the series that are equal in one node.";
    groupByNodes(SERIES, AggregationOrFunction.required("callback"), NodeOrTag.several("nodes",
        true))
        "Combine", combine::group_by_nodes, "Combines the series that are equal in these nodes.";
    groupByTags(SERIES, AggregationOrFunction.required("callback"), Tag.several("tags", true))
        "Combine", combine::group_by_tags,
        "Combines the series that have equal values of these tags.";
    highest(SERIES, Integer.or("n", "1"), Aggregation.or("func", "average"))
        "Filter Series", filter::highest, "The n series with the highest aggregate.";
    highestAverage(SERIES, Integer.required("n"))
        "Filter Series", |a| filter::first(a, How::Average, true),
        "The n series with the highest mean.";
    highestCurrent(SERIES, Integer.required("n"))
        "Filter Series", |a| filter::first(a, How::Last, true),
        "The n series with the highest last value.";
    highestMax(SERIES, Integer.required("n"))
        "Filter Series", |a| filter::first(a, How::Max, true),
        "The n series with the highest maximum.";
    hitcount(SERIES, Interval.required("intervalString"), Boolean.or("alignToInterval", "false"))
        "Transform", calculate::hitcount, "The exact count in each interval: rate × known time.";
    holtWintersAberration(SERIES, Integer.or("delta", "3"), Interval.or("bootstrapInterval", "7d"),
        Interval.or("seasonality", "1d"))
        "Calculate", forecast::holt_winters_aberration,
        "How far values are outside the Holt-Winters confidence bands.";
    holtWintersConfidenceBands(SERIES, Integer.or("delta", "3"), Interval.or("bootstrapInterval",
        "7d"), Interval.or("seasonality", "1d"))
        "Calculate", forecast::holt_winters_confidence_bands,
        "The Holt-Winters forecast, so many deviations below and above.";
    holtWintersForecast(SERIES, Interval.or("bootstrapInterval", "7d"), Interval.or("seasonality",
        "1d"))
        "Calculate", forecast::holt_winters_forecast, "A forecast from level, slope and season.";
    integral(SERIES) "Transform", transform::integral, "The running sum of values.";
    integralByInterval(SERIES, Interval.required("intervalUnit"))
        "Transform", transform::integral_by_interval,
        "The running sum of values, from 0 in every interval.";
    interpolate(SERIES, IntOrInf.or("limit", "inf"))
        "Transform", transform::interpolate,
        "Fills gaps of at most this many points with a straight line.";
    invert(SERIES) "Transform", transform::invert, "1 divided by each value.";
    isNonNull(SERIES) "Combine", transform::is_non_null, "1 where a value is known, otherwise 0.";
    keepLastValue(SERIES, IntOrInf.or("limit", "inf"))
        "Transform", transform::keep_last_value,
        "Fills gaps of at most this many points with the value before.";
    limit(SERIES, Integer.required("n")) "Filter Series", filter::limit, "The first n series.";
    log(SERIES, Float.or("base", "10")) "Transform", transform::logarithm, "The logarithm.";
    lower(SERIES)
        "Alias", |a| alias::named(a, |series| series.name.to_lowercase()),
        "Changes the name to lower case.";
    lowest(SERIES, Integer.or("n", "1"), Aggregation.or("func", "average"))
        "Filter Series", filter::lowest, "The n series with the lowest aggregate.";
    lowestAverage(SERIES, Integer.required("n"))
        "Filter Series", |a| filter::first(a, How::Average, false),
        "The n series with the lowest mean.";
    lowestCurrent(SERIES, Integer.required("n"))
        "Filter Series", |a| filter::first(a, How::Last, false),
        "The n series with the lowest last value.";
    maxSeries(LISTS)
        "Combine", |a| combine::all(a, How::Max, "max"),
        "The greatest value of all series, point by point.";
    maximumAbove(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Max, true),
        "The series with a greatest value above n.";
    maximumBelow(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Max, false),
        "The series with a greatest value of at most n.";
    minMax(SERIES)
        "Transform", transform::min_max,
        "Scales each series from its least value to its greatest to 0 to 1.";
    minSeries(LISTS)
        "Combine", |a| combine::all(a, How::Min, "min"),
        "The least value of all series, point by point.";
    minimumAbove(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Min, true),
        "The series with a least value above n.";
    minimumBelow(SERIES, Float.required("n"))
        "Filter Series", |a| filter::above(a, How::Min, false),
        "The series with a least value of at most n.";
    mostDeviant(SERIES, Integer.required("n"))
        "Filter Series", filter::most_deviant, "The n series with the greatest standard deviation.";
    movingAverage(SERIES, IntOrInterval.required("windowSize"), Float.optional("xFilesFactor"))
        "Calculate", |a| calculate::moving(a, How::Average, "movingAverage", 2),
        "The mean of a moving window, weighted by the time for which values are known.";
    movingMax(SERIES, IntOrInterval.required("windowSize"), Float.optional("xFilesFactor"))
        "Calculate", |a| calculate::moving(a, How::Max, "movingMax", 2),
        "The greatest value of a moving window.";
    movingMedian(SERIES, IntOrInterval.required("windowSize"), Float.optional("xFilesFactor"))
        "Calculate", |a| calculate::moving(a, How::Median, "movingMedian", 2),
        "The median of a moving window.";
    movingMin(SERIES, IntOrInterval.required("windowSize"), Float.optional("xFilesFactor"))
        "Calculate", |a| calculate::moving(a, How::Min, "movingMin", 2),
        "The least value of a moving window.";
    movingSum(SERIES, IntOrInterval.required("windowSize"), Float.optional("xFilesFactor"))
        "Calculate", |a| calculate::moving(a, How::Sum, "movingSum", 2),
        "The sum of a moving window.";
    movingWindow(SERIES, IntOrInterval.required("windowSize"), Aggregation.or("func", "average"),
        Float.optional("xFilesFactor"))
        "Calculate", calculate::moving_window, "An aggregation of a moving window.";
    multiplySeries(LISTS) "Combine", combine::multiply, "The product of series, point by point.";
    multiplySeriesLists(SeriesList.required("seriesListFirstPos"),
        SeriesList.required("seriesListSecondPos"))
        "Combine", |a| combine::lists(a, "multiplySeries", |a, b| a * b),
        "Each series of the first list times the one of the second.";
    multiplySeriesWithWildcards(SERIES, Node.several("position", false))
        "Combine", |a| combine::with_wildcards(a, How::Multiply, "multiply"),
        "The product of series whose paths are equal without these nodes.";
    nPercentile(SERIES, Float.required("n"))
        "Calculate", calculate::n_percentile, "A horizontal line at each series' percentile.";
    nonNegativeDerivative(SERIES, Float.optional("maxValue"), Float.optional("minValue"))
        "Transform", transform::non_negative_derivative,
        "The growth of a counter; a decrease is unknown unless it wraps at maxValue.";
    offset(SERIES, Float.required("factor")) "Transform", transform::offset, "Adds a constant.";
    offsetToZero(SERIES) "Transform", transform::offset_to_zero, "Subtracts the least value.";
    pct(SERIES, Any.optional("total"), NodeOrTag.several("nodes", false))
        "Combine", combine::as_percent, "Short for asPercent.";
    perSecond(SERIES, Float.optional("maxValue"), Float.optional("minValue"))
        "Transform", transform::per_second, "The growth of a counter per second.";
    percentileOfSeries(SERIES, Float.required("n"), Boolean.or("interpolate", "false"))
        "Combine", combine::percentile_of_series,
        "The percentile of the series' values, point by point.";
    pow(SERIES, Float.required("factor")) "Transform", transform::pow, "Raises values to a power.";
    rangeOfSeries(LISTS)
        "Combine", |a| combine::all(a, How::Range, "rangeOf"),
        "The greatest value minus the least, point by point.";
    removeAbovePercentile(SERIES, Float.required("n"))
        "Filter Data", |a| filter::beyond_percentile(a, f64::le),
        "Removes the values above the percentile.";
    removeAboveValue(SERIES, Float.required("n"))
        "Filter Data", |a| filter::kept(a, |value, bound| value <= bound),
        "Removes the values above n.";
    removeBelowPercentile(SERIES, Float.required("n"))
        "Filter Data", |a| filter::beyond_percentile(a, f64::ge),
        "Removes the values below the percentile.";
    removeBelowValue(SERIES, Float.required("n"))
        "Filter Data", |a| filter::kept(a, |value, bound| value >= bound),
        "Removes the values below n.";
    removeEmptySeries(SERIES, Float.optional("xFilesFactor"))
        "Filter Series", filter::remove_empty_series, "The series with known values.";
    round(SERIES, Integer.optional("precision"))
        "Transform", transform::round, "Rounds values to so many decimal places.";
    scale(SERIES, Float.required("factor"))
        "Transform", transform::scale, "Multiplies by a constant.";
    scaleToSeconds(SERIES, Integer.required("seconds"))
        "Transform", transform::scale_to_seconds,
        "Converts a value per step to a value per so many seconds.";
    seriesByTag(Text.several("tagExpressions", true))
        "Special", special::series_by_tag, "The series whose tags match all expressions.";
    setXFilesFactor(SERIES, Float.required("xFilesFactor"))
        "Special", special::set_xff, "The least part of a longer interval that must be known.";
    sortBy(SERIES, Aggregation.or("func", "average"), Boolean.or("reverse", "false"))
        "Sorting", filter::sort_by, "Sorts series by an aggregate.";
    sortByMaxima(SERIES)
        "Sorting", filter::sort_by_maxima, "Sorts series by their maximum, highest first.";
    sortByMinima(SERIES)
        "Sorting", filter::sort_by_minima,
        "Sorts the series with values above 0 by their minimum, lowest first.";
    sortByName(SERIES, Boolean.or("natural", "false"), Boolean.or("reverse", "false"))
        "Sorting", filter::sort_by_name, "Sorts series by name.";
    sortByTotal(SERIES)
        "Sorting", filter::sort_by_total, "Sorts series by the sum of their values, highest first.";
    squareRoot(SERIES) "Transform", transform::square_root, "The square root.";
    stddevSeries(LISTS)
        "Combine", |a| combine::all(a, How::Stddev, "stddev"),
        "The standard deviation of series, point by point.";
    stdev(SERIES, Integer.required("points"), Float.or("windowTolerance", "0.1"))
        "Calculate", calculate::stdev, "The standard deviation of a moving window.";
    substr(SERIES, Node.or("start", "0"), Node.or("stop", "0"))
        "Special", alias::substr, "Changes the name to some nodes of the path.";
    sum(LISTS) "Combine", |a| combine::all(a, How::Sum, "sum"), "Short for sumSeries.";
    sumSeries(LISTS)
        "Combine", |a| combine::all(a, How::Sum, "sum"), "The sum of series, point by point.";
    sumSeriesLists(SeriesList.required("seriesListFirstPos"),
        SeriesList.required("seriesListSecondPos"))
        "Combine", |a| combine::lists(a, "sumSeries", |a, b| How::Sum.of([a, b].into_iter())),
        "Each series of the first list plus the one of the second.";
    sumSeriesWithWildcards(SERIES, Node.several("position", false))
        "Combine", |a| combine::with_wildcards(a, How::Sum, "sum"),
        "The sum of series whose paths are equal without these nodes.";
    summarize(SERIES, Interval.required("intervalString"), Aggregation.or("func", "sum"),
        Boolean.or("alignToFrom", "false"))
        "Transform", calculate::summarize, "Aggregates the values of each interval.";
    threshold(Float.required("value"), Text.optional("label"), Text.optional("color"))
        "Graph", special::threshold, "A horizontal line with a name and a colour.";
    timeShift(SERIES, Interval.required("timeShift"), Boolean.or("resetEnd", "true"),
        Boolean.or("alignDST", "false"))
        "Transform", transform::time_shift, "Shows the values of another time.";
    timeSlice(SERIES, Text.required("startSliceAt"), Text.or("endSliceAt", "now"))
        "Transform", transform::time_slice, "Only the values between two times.";
    transformNull(SERIES, Float.or("default", "0"), SeriesList.optional("referenceSeries"))
        "Transform", transform::transform_null,
        "Replaces unknown values; with referenceSeries only where one of them is known.";
    unique(LISTS) "Filter Series", filter::unique, "The series without repeated names.";
    upper(SERIES)
        "Alias", |a| alias::named(a, |series| series.name.to_uppercase()),
        "Changes the name to upper case.";
    weightedAverage(SeriesList.required("seriesListAvg"), SeriesList.required("seriesListWeight"),
        NodeOrTag.several("nodes", true))
        "Combine", combine::weighted_average,
        "The mean of series, weighted by others that are equal in these nodes.";
    xFilesFactor(SERIES, Float.required("xFilesFactor"))
        "Special", special::set_xff, "The same as setXFilesFactor.";
};
