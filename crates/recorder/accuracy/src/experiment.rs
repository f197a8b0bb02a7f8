//! The experiment's file.

use serde::Deserialize;

use crate::{AccuracyError, Rates};

/// The same updates for several recorders, from a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name and question.
    pub experiment: ExperimentHead,
    /// The updates.
    pub series: Updates,
    /// Published figures for them.
    #[serde(default)]
    pub published: Vec<PublishedRates>,
}

/// Name and question of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentHead {
    /// Its name.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// The question that it answers.
    pub question: String,
}

/// Updates of one series, and what happens afterwards.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Updates {
    /// The length of a slot, in seconds.
    pub step: i64,
    /// Start of the series, in seconds since 1970.
    pub start: i64,
    /// Seconds since 1970, and the value per second since the previous update.
    pub updates: Vec<(i64, f64)>,
    /// The update that is first omitted and then arrives late.
    pub late: i64,
    /// The later correction.
    pub correction: Correction,
    /// Number of random updates.
    pub random: u32,
}

/// A count that was missed at first.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Start, in seconds since 1970.
    pub start: i64,
    /// End.
    pub end: i64,
    /// The missed count.
    pub count: i64,
}

/// Published figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRates {
    /// The recorder.
    pub of: Peer,
    /// The rates of the whole slots; NaN is unknown.
    pub rates: Vec<f64>,
    /// The same for slots twice as long.
    pub coarse: Vec<f64>,
}

/// The other recorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Peer {
    /// Graphite's database whisper.
    Graphite,
    /// RRDtool.
    #[serde(rename = "RRDtool")]
    Rrdtool,
}

/// Limit on the updates of a file.
const UPDATES_MAX: usize = 10_000;

/// Limit on the slots shown side by side.
const SLOTS_MAX: usize = 5;

impl Experiment {
    /// Whether a file contains an experiment of this kind: it has a table `[series]`.
    pub fn is_one(text: &str) -> bool {
        text.lines().any(|line| line.trim() == "[series]")
    }

    /// Parses a file; messages call it `path`.
    ///
    /// # Errors
    /// What is wrong with it, with the position.
    pub fn parse(text: &str, path: &str) -> Result<Experiment, AccuracyError> {
        let wrong = |what: String| AccuracyError(format!("{path}: {what}"));
        let read: Experiment = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        read.series.check().map_err(wrong)?;
        let (whole, coarse) = (read.series.whole(1).len(), read.series.whole(2).len());
        for published in &read.published {
            if (published.rates.len(), published.coarse.len()) != (whole, coarse) {
                return Err(wrong(format!(
                    "the updates fill {whole} slots and {coarse} of twice the length, so that many rates are needed of {:?}",
                    published.of
                )));
            }
        }
        Ok(read)
    }
}

impl Updates {
    fn check(&self) -> Result<(), String> {
        let times = || std::iter::once(self.start).chain(self.updates.iter().map(|(at, _)| *at));
        let in_order = times().zip(times().skip(1)).all(|(before, after)| before < after);
        let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < 1e9;
        if !(1..=3600).contains(&self.step) || self.start < self.step {
            Err("give a step from 1 to 3600 seconds, and a start after the first of them"
                .to_owned())
        } else if self.updates.len() < 2 || self.updates.len() > UPDATES_MAX {
            Err(format!("give from 2 to {UPDATES_MAX} updates"))
        } else if !in_order {
            Err("each update must be later than the one before, and the first than the start"
                .to_owned())
        } else if !self.updates.iter().all(|(_, value)| is_whole(*value)) {
            Err("values are whole numbers, so that totals can be compared to the last".to_owned())
        } else if !self.updates.iter().any(|(at, _)| *at == self.late) {
            Err(format!("late is {}, and there is no update of that time", self.late))
        } else if self.correction.start >= self.correction.end {
            Err("the correction must end after it starts".to_owned())
        } else if !(1..=SLOTS_MAX).contains(&self.whole(1).len()) {
            Err(format!("the updates must fill from 1 to {SLOTS_MAX} slots"))
        } else {
            Ok(())
        }
    }

    /// The time of the last update.
    pub(crate) fn end(&self) -> i64 {
        self.updates.last().map_or(self.start, |(at, _)| *at)
    }

    /// The starts of the slots of `times` steps that the updates fill.
    pub(crate) fn whole(&self, times: i64) -> Vec<i64> {
        let step = self.step.saturating_mul(times);
        let first = self.start + (step - self.start.rem_euclid(step)) % step;
        (0..).map(|i| first + i * step).take_while(|at| at + step <= self.end()).collect()
    }

    /// The correct result: the time-weighted values over each slot that the updates fill.
    pub(crate) fn right(&self, updates: &[(i64, f64)], times: i64) -> Rates {
        let step = self.step * times;
        let rate = |slot: i64| {
            let mut before = self.start;
            let mut sum = 0.0;
            for (at, value) in updates {
                let held = (*at).min(slot + step) - before.max(slot);
                sum += value * held.max(0) as f64;
                before = *at;
            }
            sum / step as f64
        };
        self.whole(times).into_iter().map(|slot| (slot, Some(rate(slot)))).collect()
    }

    /// The updates without the late one.
    pub(crate) fn without_late(&self) -> Vec<(i64, f64)> {
        self.updates.iter().filter(|(at, _)| *at != self.late).copied().collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The built-in experiment.
    pub(crate) fn built_in() -> Experiment {
        let text = include_str!("../../../../experiments/series-accuracy.toml");
        assert!(Experiment::is_one(text));
        Experiment::parse(text, "series-accuracy.toml").unwrap()
    }

    #[test]
    fn what_is_right_is_the_values_by_the_time_they_held() {
        let series = built_in().series;
        assert_eq!(series.whole(1), [1_430_701_270, 1_430_701_280, 1_430_701_290]);
        assert_eq!(series.whole(2), [1_430_701_280]);
        let rates: Vec<_> = series.right(&series.updates, 1).into_iter().map(|(_, r)| r).collect();
        assert_eq!(rates, [Some(50.0), Some(22.0), Some(30.0)]);
        assert_eq!(series.right(&series.updates, 2), [(1_430_701_280, Some(26.0))]);
        assert_eq!(series.right(&series.without_late(), 1)[1].1, Some(34.0));
    }

    #[test]
    fn a_file_that_makes_no_sense_says_why() {
        let text = include_str!("../../../../experiments/series-accuracy.toml");
        for (from, to, wrong) in [
            ("step = 10", "step = 0", "give a step from 1 to 3600 seconds"),
            ("[1430701293, 30]", "[1430701283, 30]", "each update must be later"),
            ("[1430701293, 30]", "[1430701293, 0.5]", "values are whole numbers"),
            ("late = 1430701288", "late = 7", "late is 7, and there is no update of that time"),
            ("rates = [50, 22, 30]", "rates = [50]", "fill 3 slots and 1 of twice the length"),
            ("random =", "rnd =", "unknown field `rnd`"),
        ] {
            assert!(text.contains(from));
            let error = Experiment::parse(&text.replace(from, to), "mine.toml").unwrap_err();
            assert!(error.to_string().starts_with("mine.toml: "), "{error}");
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
