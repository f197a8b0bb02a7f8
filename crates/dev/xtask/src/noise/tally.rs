//! What is kept of the comparisons beside neighbours, and what it comes to.

use serde::{Deserialize, Serialize};

use super::{PROFILES, TRUTH_OFF};
use crate::binary::Outcome;

/// Only comparisons of one method and length belong together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) seconds: u32,
    pub(super) closed_only: bool,
    /// The measured build.
    pub(super) version: String,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) conditions: Conditions,
    pub(super) profile: String,
    pub(super) truth: f64,
    pub(super) run: u32,
    /// Without an outcome, why.
    pub(super) outcome: Result<Outcome, String>,
    /// |ln| of the ratio of two consecutive runs of wrk ÷ the truth.
    pub(super) wrk_off: Option<f64>,
}

impl Entry {
    pub(super) fn is(&self, profile: &str, truth: f64, run: u32) -> bool {
        self.profile == profile && self.truth == truth && self.run == run
    }

    /// The result in one line, for progress output.
    pub(super) fn line(&self) -> String {
        let Entry { profile, truth, run, .. } = self;
        let found = match &self.outcome {
            Ok(o) => format!("{} {:.4}–{:.4} {}", o.verdict, o.low, o.high, o.reasons),
            Err(why) => why.clone(),
        };
        format!("{profile}, run {}, truth {truth:.4}: {found}", run + 1)
    }
}

/// Results of one profile.
#[derive(Debug, Default)]
pub(super) struct ProfileResult {
    runs: u32,
    /// Failed, or INVALID.
    without_verdict: u32,
    alarms: u32,
    equal_runs: u32,
    covered: u32,
    with_interval: u32,
    half_widths: Vec<f64>,
    wrk_off: Vec<f64>,
}

impl ProfileResult {
    fn note(&mut self, entry: &Entry) {
        let is_equal = entry.truth == 1.0;
        self.runs += 1;
        self.equal_runs += u32::from(is_equal);
        self.wrk_off.extend(entry.wrk_off);
        let Some(o) = entry.outcome.as_ref().ok().filter(|o| o.verdict != "invalid") else {
            self.without_verdict += 1;
            return;
        };
        self.alarms += u32::from(is_equal && o.is_different());
        if o.low.is_finite() && o.high.is_finite() && o.low > 0.0 {
            self.with_interval += 1;
            let off = if is_equal { 0.0 } else { TRUTH_OFF };
            self.covered += u32::from(o.holds(entry.truth, off));
            self.half_widths.push(o.half_width());
        }
    }

    /// 95% of runs with a verdict, at most 7 false alarms in 60, and 93% coverage, with a tolerance for
    /// few runs.
    pub(super) fn meets_its_goals(&self) -> bool {
        // One run beyond a goal is chance if there are few.
        let over = |n: u32, share: f64, of: u32| f64::from(n) > share * f64::from(of) + 1.0;
        let missed = self.with_interval - self.covered;
        !over(self.without_verdict, 0.05, self.runs)
            && !over(self.alarms, 7.0 / 60.0, self.equal_runs)
            && !over(missed, 0.07, self.with_interval)
    }

    fn row(&self, name: &str) -> String {
        let percent =
            |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{:.2}%", 100.0 * v));
        format!(
            "| {name} | {} | {} of {} | {} of {} | {} of {} | ±{} | {} |\n",
            self.runs,
            self.runs - self.without_verdict,
            self.runs,
            self.alarms,
            self.equal_runs,
            self.covered,
            self.with_interval,
            percent(stats::median(&self.half_widths)),
            percent(stats::median(&self.wrk_off)),
        )
    }
}

/// The results of each profile that was measured.
pub(super) fn results(entries: &[&Entry]) -> Vec<(&'static str, ProfileResult)> {
    let of = |name: &'static str| {
        let mut result = ProfileResult::default();
        entries.iter().filter(|entry| entry.profile == name).for_each(|entry| result.note(entry));
        (name, result)
    };
    PROFILES.iter().map(|profile| of(profile.name)).filter(|(_, of)| of.runs > 0).collect()
}

/// A row per profile.
pub(super) fn table(entries: &[&Entry]) -> String {
    let rows: Vec<String> =
        results(entries).iter().map(|(name, result)| result.row(name)).collect();
    format!(
        "| profile | runs | with a verdict | false alarms | intervals with the true ratio \
         | median half-width | wrk, one after the other, off by |\n\
         | --- | --: | --: | --: | --: | --: | --: |\n{}",
        rows.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::super::TRUTH;
    use super::*;

    fn entry(truth: f64, outcome: Result<(&str, f64, f64), &str>) -> Entry {
        let outcome = outcome.map(|(verdict, low, high)| Outcome {
            verdict: verdict.to_owned(),
            ratio: (low * high).sqrt(),
            low,
            high,
            blocks: 8,
            reasons: String::new(),
        });
        let version = "tachograph 0.1.0".to_owned();
        Entry {
            conditions: Conditions { seed: 1, seconds: 15, closed_only: false, version },
            profile: "quiet".to_owned(),
            truth,
            run: 0,
            outcome: outcome.map_err(str::to_owned),
            wrk_off: None,
        }
    }

    #[test]
    fn a_result_counts_alarms_misses_and_runs_without_a_verdict() {
        let entries = [
            entry(1.0, Ok(("faster", 1.01, 1.02))),
            entry(1.0, Ok(("inconclusive", 0.98, 1.02))),
            entry(TRUTH, Ok(("slower", 0.94, 0.97))),
            entry(TRUTH, Ok(("invalid", 0.94, 0.97))),
            entry(1.0, Err("it cannot be run")),
        ];
        let table = table(&entries.iter().collect::<Vec<_>>());
        let row = "| quiet | 5 | 3 of 5 | 1 of 3 | 2 of 3 | ±1.58% | – |";
        assert_eq!(table.lines().nth(2), Some(row));
        let back: Entry =
            serde_json::from_str(&serde_json::to_string(&entries[4]).unwrap()).unwrap();
        assert_eq!(back.outcome, entries[4].outcome);
    }
}
