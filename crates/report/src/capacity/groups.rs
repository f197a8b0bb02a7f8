//! The trials of a variant in a few groups of about the same rate, for tables.

use base::{Nanos, format_count, format_rate};
use record::{CapacityTrial, Part};

use super::words::percent;

/// At most so many groups.
const GROUPS: usize = 8;

/// Column names of [`Group::cells`]; the third is the quantile of the condition.
pub(crate) fn heads(tail: &str) -> [String; 7] {
    ["requests/s", "p50", tail, "slower", "failed", "CPU", "trials"].map(str::to_owned)
}

/// Trials of about the same rate.
pub(crate) struct Group<'a> {
    trials: Vec<&'a CapacityTrial>,
}

impl Group<'_> {
    fn mean(&self, of: impl Fn(&CapacityTrial) -> f64) -> f64 {
        self.trials.iter().map(|trial| of(trial)).sum::<f64>() / self.trials.len().max(1) as f64
    }

    fn median(&self, of: impl Fn(&CapacityTrial) -> u64) -> Nanos {
        let mut all: Vec<u64> = self.trials.iter().map(|trial| of(trial)).collect();
        all.sort_unstable();
        Nanos(all.get(all.len() / 2).copied().unwrap_or(0))
    }

    fn share(
        &self,
        bad: impl Fn(&CapacityTrial) -> u64,
        all: impl Fn(&CapacityTrial) -> u64,
    ) -> f64 {
        let [bad, all] = self.trials.iter().fold([0, 0], |[b, a], t| [b + bad(t), a + all(t)]);
        bad as f64 / all.max(1) as f64
    }

    /// Whether the conditions held in most of them.
    pub(crate) fn holds(&self) -> bool {
        2 * self.trials.iter().filter(|trial| trial.holds).count() > self.trials.len()
    }

    /// Mean rate, medians of latencies, shares of slow and failed requests, and CPU use.
    pub(crate) fn cells(&self) -> [String; 7] {
        let known = self.trials.iter().all(|trial| trial.slow.is_some());
        let slower = self.share(|trial| trial.slow.unwrap_or(0), |trial| trial.due);
        let cpu = self.mean(|trial| trial.cpu.unwrap_or(f64::NAN));
        let dash = || "–".to_owned();
        [
            format_rate(self.mean(|trial| trial.offered_per_s)),
            self.median(|trial| trial.p50_ns).to_string(),
            self.median(|trial| trial.tail_ns).to_string(),
            if known { percent(slower) } else { dash() },
            percent(self.share(|trial| trial.failed, |trial| trial.offered)),
            if cpu.is_finite() { format!("{:.0}%", 100.0 * cpu) } else { dash() },
            format_count(self.trials.len() as u64),
        ]
    }
}

/// The trials of a variant, by ascending rate.
pub(crate) fn groups(part: &Part, variant: u32) -> Vec<Group<'_>> {
    let all = part.capacity.iter().flat_map(|capacity| &capacity.trials);
    let mut trials: Vec<&CapacityTrial> = all.filter(|trial| trial.variant == variant).collect();
    trials.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    let each = trials.len().div_ceil(GROUPS).max(1);
    trials.chunks(each).map(|trials| Group { trials: trials.to_vec() }).collect()
}
