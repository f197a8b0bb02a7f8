//! A series as functions see it: values at equal steps, each with the part of the step that it
//! stands for.

use std::collections::BTreeMap;

use crate::Aggregation;

/// A series in a query. Times are in seconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name that is shown.
    pub name: String,
    /// The expression that it comes from, of which names of combined series are made.
    pub path: String,
    /// The tags, including `name`.
    pub tags: BTreeMap<String, String>,
    /// Start of the first step.
    pub start_s: i64,
    /// The length of a step.
    pub step_s: i64,
    /// End of the last step, usually.
    pub end_s: i64,
    /// A value for each step; NaN is unknown.
    pub values: Vec<f64>,
    /// Seconds of each step that are known, if they are not the same for all known values.
    ///
    /// A value × these seconds is the total of its step.
    pub known_s: Option<Vec<f64>>,
    /// The part of a step that must be known for its value to be shown. Values that are not shown
    /// still count in longer steps, so that no total loses them.
    pub least_known: f64,
    /// How values are consolidated if there are more of them than wanted.
    pub consolidation: Aggregation,
    /// The least part of a longer step that must be known.
    pub xff: f64,
    /// Its colour, if one was requested.
    pub color: Option<String>,
}

impl Series {
    /// A series whose values stand for whole steps.
    pub fn new(name: &str, start_s: i64, step_s: i64, values: Vec<f64>) -> Series {
        let step_s = step_s.max(1);
        Series {
            name: name.to_owned(),
            path: name.to_owned(),
            tags: [("name".to_owned(), name.to_owned())].into(),
            start_s,
            step_s,
            end_s: start_s.saturating_add(step_s.saturating_mul(values.len() as i64)),
            values,
            known_s: None,
            least_known: 0.0,
            consolidation: Aggregation::Average,
            xff: 0.0,
            color: None,
        }
    }

    /// The same with another name, of which later names are made, too.
    pub(crate) fn renamed(mut self, name: String) -> Series {
        self.path.clone_from(&name);
        self.name = name;
        self
    }

    /// The same with other values for the same steps.
    pub(crate) fn mapped(mut self, of: impl Fn(f64) -> f64) -> Series {
        for value in &mut self.values {
            *value = of(*value);
        }
        self
    }

    /// The same with values that no longer are means over time, so no part of a step weighs more.
    pub(crate) fn unweighted(mut self, values: Vec<f64>) -> Series {
        self.values = values;
        self.known_s = None;
        self
    }

    /// The values with the seconds that each stands for: 0 for unknown ones.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let step_s = self.step_s as f64;
        self.values.iter().enumerate().map(move |(place, value)| {
            let known_s = self.known_s.as_ref().and_then(|known| known.get(place).copied());
            (*value, if value.is_nan() { 0.0 } else { known_s.unwrap_or(step_s) })
        })
    }

    /// The start of a step.
    pub fn at_s(&self, place: usize) -> i64 {
        self.start_s.saturating_add(self.step_s.saturating_mul(place as i64))
    }

    /// An aggregate of some places: the mean is weighted by the time for which values are known, so
    /// that mean × known time is the total of those places.
    pub(crate) fn aggregate(&self, places: std::ops::Range<usize>, how: Aggregation) -> f64 {
        let values = &self.values[places.clone()];
        match (&self.known_s, how) {
            (Some(known_s), Aggregation::Average) => mean(values, &known_s[places]),
            _ => how.of(values.iter().copied()),
        }
    }

    /// The same at a step of `step_s` seconds, a multiple of its own: the bands are aligned to the
    /// epoch, so that they stay the same when the range moves.
    pub fn consolidated(self, step_s: i64) -> Series {
        if step_s <= self.step_s {
            return self;
        }
        let first_s = self.start_s.div_euclid(step_s) * step_s;
        let end_s = self.at_s(self.values.len());
        let count = usize::try_from((end_s - first_s + step_s - 1) / step_s).unwrap_or(0);
        let (mut values, mut known) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let of_band = (step_s / self.step_s).max(1) as f64;
        let seconds: Vec<f64> = self.weighted().map(|(_, seconds)| seconds).collect();
        let mut from = 0;
        for band in 0..count {
            let until_s = first_s + step_s * (band as i64 + 1);
            let mut until = from;
            while until < self.values.len() && self.at_s(until) < until_s {
                until += 1;
            }
            let some = (from..until).filter(|place| self.is_shown(*place)).count();
            let enough = some > 0 && some as f64 / of_band >= self.xff;
            values.push(match enough {
                true => self.aggregate(from..until, self.consolidation),
                false => f64::NAN,
            });
            known.push(seconds[from..until].iter().sum());
            from = until;
        }
        let known_s = (self.consolidation == Aggregation::Average).then_some(known);
        let end_s = first_s + step_s * count as i64;
        Series { start_s: first_s, step_s, end_s, values, known_s, least_known: 0.0, ..self }
    }

    /// Whether enough of a step is known for its value to be shown.
    fn is_shown(&self, place: usize) -> bool {
        let known_s = self.known_s.as_ref().map(|known_s| known_s[place]);
        let enough = known_s.is_none_or(|s| s >= self.least_known * self.step_s as f64);
        enough && !self.values[place].is_nan()
    }

    /// The values to show: NaN where too little is known.
    pub fn shown(&self) -> impl Iterator<Item = f64> + '_ {
        let value = |place| if self.is_shown(place) { self.values[place] } else { f64::NAN };
        (0..self.values.len()).map(value)
    }

    /// The same with at most `points` values, or two if only one is wanted: bands begin at
    /// multiples of their length, so there can be a part of one at both ends.
    pub fn fitted(self, points: usize) -> Series {
        let count = self.values.len();
        if count <= points.max(1) {
            return self;
        }
        // The length depends on the number of values alone, not on where they begin.
        let per_band = (count - 1).div_ceil(points.max(2) - 1);
        let step_s = self.step_s.saturating_mul(per_band as i64);
        self.consolidated(step_s)
    }

    /// Σ value × known seconds.
    pub fn total(&self) -> f64 {
        self.weighted().filter(|(value, _)| !value.is_nan()).map(|(v, s)| v * s).sum()
    }

    /// The seconds for which values are known.
    pub fn known_seconds(&self) -> f64 {
        self.weighted().map(|(_, seconds)| seconds).sum()
    }

    /// The least and the greatest value that is shown; NaN without one.
    pub fn extremes(&self) -> (f64, f64) {
        let shown: Vec<f64> = self.shown().collect();
        let of = |how: Aggregation| how.of(shown.iter().copied());
        (of(Aggregation::Min), of(Aggregation::Max))
    }

    /// The known values.
    pub(crate) fn known(&self) -> impl DoubleEndedIterator<Item = f64> + '_ {
        self.values.iter().copied().filter(|value| !value.is_nan())
    }
}

/// The mean of values, weighted by the seconds that they stand for.
fn mean(values: &[f64], known_s: &[f64]) -> f64 {
    let known = || values.iter().zip(known_s).filter(|(value, s)| !value.is_nan() && **s > 0.0);
    let Some((_, first_s)) = known().next() else { return f64::NAN };
    if known().all(|(_, s)| s == first_s) {
        // Without the weights, the result is the plain mean to the last bit.
        return Aggregation::Average.of(known().map(|(value, _)| *value));
    }
    known().map(|(v, s)| v * s).sum::<f64>() / known().map(|(_, s)| s).sum::<f64>()
}

/// Series with the same start and step, and the same number of values.
pub(crate) struct AlignedSeries {
    pub(crate) series: Vec<Series>,
    pub(crate) start_s: i64,
    pub(crate) step_s: i64,
    pub(crate) end_s: i64,
    /// Number of values of each.
    pub(crate) count: usize,
}

impl AlignedSeries {
    /// The values of all series at a place.
    pub(crate) fn row(&self, place: usize) -> impl DoubleEndedIterator<Item = f64> + Clone + '_ {
        self.series.iter().map(move |series| series.values[place])
    }
}

/// Brings series to a common step, the least common multiple, and a common range.
pub(crate) fn align(series: Vec<Series>) -> Option<AlignedSeries> {
    let step_s = series.iter().map(|s| s.step_s).reduce(least_common_multiple)?;
    let same = series.iter().all(|s| s.step_s == step_s && s.start_s == series[0].start_s);
    let mut series: Vec<Series> = match same {
        true => series,
        false => series.into_iter().map(|s| s.consolidated(step_s)).collect(),
    };
    let start_s = series.iter().map(|s| s.start_s).min()?;
    let last_s = series.iter().map(|s| s.at_s(s.values.len())).max()?;
    let end_s = series.iter().map(|s| s.end_s).max()?;
    let count = usize::try_from((last_s - start_s + step_s - 1) / step_s).unwrap_or(0);
    for one in &mut series {
        // Constant lines have a step of their own, which need not begin at a multiple of it.
        let before = usize::try_from((one.start_s - start_s) / step_s).unwrap_or(0);
        let missing = count.saturating_sub(one.values.len() + before);
        if before > 0 || missing > 0 {
            one.values.splice(0..0, std::iter::repeat_n(f64::NAN, before));
            one.values.extend(std::iter::repeat_n(f64::NAN, missing));
            if let Some(known_s) = &mut one.known_s {
                known_s.splice(0..0, std::iter::repeat_n(0.0, before));
                known_s.extend(std::iter::repeat_n(0.0, missing));
            }
        }
        one.values.truncate(count);
        one.start_s = start_s;
    }
    Some(AlignedSeries { series, start_s, step_s, end_s, count })
}

fn least_common_multiple(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_means_lost_the_total() {
        let mut series = Series::new("a", 0, 10, vec![10.0, 1.0, f64::NAN, 4.0]);
        series.known_s = Some(vec![1.0, 10.0, 0.0, 5.0]);
        let total = series.total();
        assert_eq!(total, 40.0);
        let coarse = series.consolidated(40);
        assert_eq!(coarse.values, [40.0 / 16.0]);
        assert_eq!(coarse.total(), total);
    }

    #[test]
    fn bands_stay_where_they_are_when_the_range_moves() {
        let values = |from: i64, until: i64| (from..until).map(|i| i as f64).collect::<Vec<_>>();
        let first = Series::new("a", 50, 10, values(5, 105)).fitted(20);
        let later = Series::new("a", 60, 10, values(6, 106)).fitted(20);
        assert_eq!(first.step_s, later.step_s);
        assert!(first.values.len() <= 20 && later.values.len() <= 20);
        assert_eq!(first.start_s % first.step_s, 0);
        let at = |series: &Series, at_s: i64| {
            series.values[((at_s - series.start_s) / series.step_s) as usize]
        };
        assert_eq!(at(&first, 600), at(&later, 600));
        assert_eq!(first.total(), values(5, 105).iter().sum::<f64>() * 10.0);
    }

    #[test]
    fn one_point_is_enough_for_a_long_range() {
        let fitted = Series::new("a", 95, 10, vec![1.0; 1_000]).fitted(1);
        assert!(fitted.values.len() <= 2, "{}", fitted.values.len());
        assert!(fitted.values.iter().all(|v| *v == 1.0));
    }

    #[test]
    fn a_slot_that_is_hardly_known_is_hidden_but_counts() {
        let mut series = Series::new("a", 0, 10, vec![10.0, 2.0]);
        series.known_s = Some(vec![1.0, 10.0]);
        series.least_known = 0.5;
        let shown: Vec<f64> = series.shown().collect();
        assert!(shown[0].is_nan() && shown[1] == 2.0);
        let coarse = series.consolidated(20);
        assert_eq!(coarse.shown().collect::<Vec<_>>(), [30.0 / 11.0]);
    }

    #[test]
    fn series_of_different_steps_are_aligned_by_time() {
        let fine = Series::new("a", 20, 10, vec![1.0, 2.0, 3.0, 4.0]);
        let coarse = Series::new("b", 0, 20, vec![10.0, 20.0, 30.0]);
        let aligned = align(vec![fine, coarse]).unwrap();
        assert_eq!((aligned.start_s, aligned.step_s, aligned.count), (0, 20, 3));
        assert!(aligned.series[0].values[0].is_nan());
        assert_eq!(aligned.series[0].values[1..], [1.5, 3.5]);
    }
}
