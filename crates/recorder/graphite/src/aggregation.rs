//! Functions of several values: `average`, `sum`, `max` and so on.

use std::fmt;

/// A function of several values. Unknown values are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The mean.
    Average,
    /// The mean, with unknown values as 0.
    AverageZero,
    /// The median.
    Median,
    /// The sum.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The first value minus the others.
    Diff,
    /// The standard deviation of the values as a whole population.
    Stddev,
    /// The number of known values.
    Count,
    /// The greatest value minus the least.
    Range,
    /// The product; unknown if one value is.
    Multiply,
    /// The first known value.
    First,
    /// The last known value.
    Last,
}

impl Aggregation {
    /// All names, each with its function.
    pub const NAMES: [(&'static str, Aggregation); 17] = [
        ("average", Aggregation::Average),
        ("avg", Aggregation::Average),
        ("avg_zero", Aggregation::AverageZero),
        ("median", Aggregation::Median),
        ("sum", Aggregation::Sum),
        ("total", Aggregation::Sum),
        ("min", Aggregation::Min),
        ("max", Aggregation::Max),
        ("diff", Aggregation::Diff),
        ("stddev", Aggregation::Stddev),
        ("count", Aggregation::Count),
        ("range", Aggregation::Range),
        ("rangeOf", Aggregation::Range),
        ("multiply", Aggregation::Multiply),
        ("first", Aggregation::First),
        ("last", Aggregation::Last),
        ("current", Aggregation::Last),
    ];

    /// The function of a name, also as in `sumSeries`.
    pub fn named(name: &str) -> Option<Aggregation> {
        let short = name.strip_suffix("Series").unwrap_or(name);
        Aggregation::NAMES.iter().find(|(known, _)| *known == short).map(|(_, how)| *how)
    }

    /// The result; NaN if nothing is known.
    pub fn of(self, values: impl DoubleEndedIterator<Item = f64> + Clone) -> f64 {
        let known = || values.clone().filter(|value| !value.is_nan());
        let Some(first) = known().next() else {
            let zero = self == Aggregation::AverageZero && values.clone().next().is_some();
            return match self {
                Aggregation::Count => 0.0,
                _ if zero => 0.0,
                _ => f64::NAN,
            };
        };
        let count = || known().count() as f64;
        match self {
            Aggregation::Average => known().sum::<f64>() / count(),
            Aggregation::AverageZero => known().sum::<f64>() / values.clone().count() as f64,
            Aggregation::Median => median(known().collect()),
            Aggregation::Sum => known().sum(),
            Aggregation::Min => known().fold(first, f64::min),
            Aggregation::Max => known().fold(first, f64::max),
            Aggregation::Diff => first - known().skip(1).sum::<f64>(),
            Aggregation::Stddev => {
                let mean = known().sum::<f64>() / count();
                (known().map(|value| (value - mean).powi(2)).sum::<f64>() / count()).sqrt()
            }
            Aggregation::Count => count(),
            Aggregation::Range => known().fold(first, f64::max) - known().fold(first, f64::min),
            Aggregation::Multiply => values.clone().product(),
            Aggregation::First => first,
            Aggregation::Last => known().next_back().unwrap_or(first),
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        (values[middle - 1] + values[middle]) / 2.0
    } else {
        values[middle]
    }
}

/// The percentile of values by rank among n + 1, as Graphite defines it; NaN if nothing is known.
pub(crate) fn percentile(values: impl Iterator<Item = f64>, n: f64, interpolate: bool) -> f64 {
    let mut sorted: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    let exact = n / 100.0 * (sorted.len() as f64 + 1.0);
    let fraction = exact.fract();
    let mut rank = exact as usize;
    if !interpolate && fraction > 0.0 {
        rank += 1;
    }
    let value = sorted[rank.clamp(1, sorted.len()) - 1];
    match sorted.get(rank) {
        Some(next) if interpolate => value + fraction * (next - value),
        _ => value,
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Aggregation::NAMES.iter().find(|(_, how)| how == self);
        f.pad(name.map_or("average", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: f64 = f64::NAN;

    #[test]
    fn unknown_values_are_left_out() {
        let values = [UNKNOWN, 4.0, 1.0, UNKNOWN, 7.0];
        for (name, result) in [
            ("average", 4.0),
            ("avg_zero", 2.4),
            ("median", 4.0),
            ("sum", 12.0),
            ("sumSeries", 12.0),
            ("min", 1.0),
            ("max", 7.0),
            ("diff", -4.0),
            ("stddev", 6.0_f64.sqrt()),
            ("count", 3.0),
            ("range", 6.0),
            ("first", 4.0),
            ("last", 7.0),
        ] {
            let how = Aggregation::named(name).unwrap();
            assert_eq!(how.of(values.into_iter()), result, "{name}");
        }
        assert!(Aggregation::Multiply.of(values.into_iter()).is_nan());
        assert_eq!(Aggregation::Multiply.of([2.0, 3.0].into_iter()), 6.0);
        assert!(Aggregation::Sum.of([UNKNOWN].into_iter()).is_nan());
        assert_eq!(Aggregation::Count.of([UNKNOWN].into_iter()), 0.0);
        assert_eq!(Aggregation::named("nonsense"), None);
    }

    #[test]
    fn a_percentile_is_one_of_the_values_unless_interpolated() {
        let of = |n, interpolate| percentile((1..=10).map(f64::from), n, interpolate);
        assert_eq!((of(50.0, false), of(50.0, true)), (6.0, 5.5));
        assert_eq!((of(100.0, false), of(100.0, true)), (10.0, 10.0));
        assert_eq!((of(1.0, false), of(0.1, true)), (1.0, 1.0));
        assert!(percentile([UNKNOWN].into_iter(), 50.0, false).is_nan());
    }
}
