//! Observations of slices as updates of series.
//!
//! ```text
//!  slice             ├──lead-in──┼────────window────────┼─drain─┤
//!  completed          12│ 40│ 41│ 39│ 40│ 42│ 40│ 41│ 40│  7│      one interval a step
//!  failed            └──────────────── 0 ───────────────────────┘  one interval
//!  mean, p50, p99                └─────── levels ───────┘          one interval each
//! ```
//!
//! Between its slices a variant is not loaded, and its series do not cover that time.

use base::{Nanos, Timestamp};
use drive::Observation;
use ledger::Counts;
use series::{Interval, Kind, Refusal};

/// Observations of one slice of a trial, or of the probes before the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceSeen {
    started: Timestamp,
    elapsed: Nanos,
    completed_by_step: Vec<u64>,
    step: Nanos,
    failed: u64,
    lead_in: Nanos,
    window: Nanos,
    times: Option<ResponseTimes>,
}

/// Latency in an open loop, service time in a closed one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ResponseTimes {
    open: bool,
    mean_ns: f64,
    p50_ns: u64,
    p99_ns: u64,
}

/// A series of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) measurement: &'static str,
    pub(crate) field: &'static str,
    pub(crate) kind: Kind,
}

impl Measure {
    /// Completed requests: the series with which the ledger is compared.
    pub(crate) const COMPLETED: Measure =
        Measure { measurement: "requests", field: "completed", kind: Kind::Count };

    const FAILED: Measure = Measure { field: "failed", ..Measure::COMPLETED };

    fn time(open: bool, field: &'static str) -> Measure {
        let measurement = if open { "latency" } else { "service_time" };
        Measure { measurement, field, kind: Kind::Level }
    }
}

impl SliceSeen {
    /// A slice that began at `started`, and whose window began `lead_in` later.
    pub fn new(started: Timestamp, lead_in: Nanos, seen: &Observation) -> SliceSeen {
        let open = !seen.latency.is_empty();
        let times = if open { &seen.latency } else { &seen.service_time };
        let times = (!times.is_empty()).then(|| ResponseTimes {
            open,
            mean_ns: times.mean(),
            p50_ns: times.value_at_quantile(0.5),
            p99_ns: times.value_at_quantile(0.99),
        });
        SliceSeen {
            started,
            elapsed: seen.elapsed,
            completed_by_step: seen.completed_by_step.clone(),
            step: seen.step,
            failed: seen.counts.failed,
            lead_in,
            window: seen.window.length,
            times,
        }
    }

    /// Requests outside any complete slice, such as the probes.
    pub(crate) fn of_life(started: Timestamp, elapsed: Nanos, counts: &Counts) -> SliceSeen {
        SliceSeen {
            started,
            elapsed,
            completed_by_step: vec![counts.completed],
            step: elapsed,
            failed: counts.failed,
            lead_in: Nanos::ZERO,
            window: Nanos::ZERO,
            times: None,
        }
    }

    /// Moves the last completed requests, at most `requests`, to the failed ones; returns how many
    /// are left to be moved.
    pub(crate) fn retract(&mut self, requests: u64) -> u64 {
        let mut left = requests;
        for step in self.completed_by_step.iter_mut().rev() {
            let taken = left.min(*step);
            *step -= taken;
            left -= taken;
        }
        self.failed += requests - left;
        left
    }

    /// The first and the last microsecond since the epoch that it covers.
    pub(crate) fn span_us(&self) -> (i64, i64) {
        let steps = Nanos(self.step.0.saturating_mul(self.completed_by_step.len() as u64));
        (self.at_us(Nanos::ZERO), self.at_us(self.elapsed.max(steps)) + 1)
    }

    fn at_us(&self, offset: Nanos) -> i64 {
        let start_us = self.started.as_microsecond();
        start_us.saturating_add(i64::try_from(offset.0 / 1_000).unwrap_or(i64::MAX))
    }

    /// The updates of each series of the trial. The counts of the intervals add up to the completed
    /// and failed requests.
    pub(crate) fn updates(&self) -> Result<Vec<(Measure, Interval)>, Refusal> {
        let mut updates = Vec::new();
        let mut at_us = self.at_us(Nanos::ZERO);
        let end_us = self.span_us().1;
        for (i, completed) in self.completed_by_step.iter().enumerate() {
            let until = self.at_us(Nanos(self.step.0.saturating_mul(i as u64 + 1)));
            // A step shorter than a microsecond is extended to one.
            let until = until.clamp(at_us + 1, end_us.max(at_us + 1));
            updates.push((Measure::COMPLETED, count(at_us, until, *completed)?));
            at_us = until;
        }
        if at_us < end_us {
            updates.push((Measure::COMPLETED, count(at_us, end_us, 0)?));
        }
        updates.push((Measure::FAILED, count(self.at_us(Nanos::ZERO), end_us, self.failed)?));
        let (from_us, to_us) = (self.at_us(self.lead_in), self.at_us(self.lead_in + self.window));
        if let Some(times) = self.times.filter(|_| from_us < to_us) {
            let levels = [
                ("mean_ns", times.mean_ns),
                ("p50_ns", times.p50_ns as f64),
                ("p99_ns", times.p99_ns as f64),
            ];
            for (field, value) in levels {
                let interval = Interval::level(from_us, to_us, value)?;
                updates.push((Measure::time(times.open, field), interval));
            }
        }
        Ok(updates)
    }
}

fn count(from_us: i64, to_us: i64, count: u64) -> Result<Interval, Refusal> {
    Interval::count(from_us, to_us, i64::try_from(count).map_err(|_| Refusal::TooLarge)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A trial of one window of a second in steps of 50 ms, with counts only.
    pub(crate) fn trial(variant: u32, counts: ledger::Counts) -> record::Trial {
        record::Trial {
            variant,
            offer: record::Offer::Closed,
            offered_per_s: None,
            started: Timestamp::from_millisecond(1_795_000_000_900).unwrap(),
            slices: Vec::new(),
            window: Nanos::from_secs(1),
            completed_in_window: counts.completed,
            payload_bytes: 0,
            ledger: ledger::Ledger { counts, ..ledger::Ledger::default() },
            latency: None,
            service_time: record::Distribution::default(),
            lateness: None,
            stack_cpu: None,
            machine_busy: None,
            client: Vec::new(),
            peak_memory_bytes: None,
            completed_by_step: Vec::new(),
            step: Nanos::from_millis(50),
            env_padding_bytes: 0,
            handshakes: None,
            disruption: None,
            kinds: Vec::new(),
            stream: None,
            profile: None,
        }
    }

    /// A slice with steps of 50 ms.
    pub(crate) fn slice(start_ms: i64, by_step: &[u64], failed: u64) -> SliceSeen {
        SliceSeen {
            started: Timestamp::from_millisecond(start_ms).unwrap(),
            elapsed: Nanos::from_millis(50 * by_step.len() as u64),
            completed_by_step: by_step.to_vec(),
            step: Nanos::from_millis(50),
            failed,
            lead_in: Nanos::from_millis(50),
            window: Nanos::from_millis(100),
            times: Some(ResponseTimes {
                open: false,
                mean_ns: 2.5e6,
                p50_ns: 2_000_000,
                p99_ns: 9_000_000,
            }),
        }
    }

    fn total(updates: &[(Measure, Interval)], measure: Measure) -> f64 {
        let mine = updates.iter().filter(|(of, _)| *of == measure);
        mine.map(|(_, interval)| interval.cover().amount.as_f64()).sum()
    }

    #[test]
    fn intervals_follow_one_another_and_add_up() {
        let mut slice = slice(1_000, &[3, 0, 5], 2);
        // The last responses came 20 ms after the last step that had any.
        slice.elapsed = Nanos::from_millis(170);
        let updates = slice.updates().unwrap();
        assert_eq!(total(&updates, Measure::COMPLETED), 8.0);
        assert_eq!(total(&updates, Measure::FAILED), 2.0);
        let spans: Vec<(i64, i64)> = updates
            .iter()
            .filter(|(of, _)| *of == Measure::COMPLETED)
            .map(|(_, i)| (i.cover().span.start_us(), i.cover().span.end_us()))
            .collect();
        let end_us = 1_170_001;
        assert_eq!(
            spans,
            [
                (1_000_000, 1_050_000),
                (1_050_000, 1_100_000),
                (1_100_000, 1_150_000),
                (1_150_000, end_us)
            ]
        );
        let level = updates.iter().find(|(of, _)| of.field == "p99_ns").unwrap();
        assert_eq!(level.0.measurement, "service_time");
        assert_eq!(level.1.cover().span.us(), 100_000);
    }

    #[test]
    fn probes_without_any_time_are_counted_too() {
        let counts = Counts { sent: 3, completed: 3, ..Counts::default() };
        let slice = SliceSeen::of_life(Timestamp::UNIX_EPOCH, Nanos::ZERO, &counts);
        let updates = slice.updates().unwrap();
        assert_eq!(total(&updates, Measure::COMPLETED), 3.0);
        assert_eq!(updates.len(), 2, "no times are known of probes: {updates:?}");
    }
}
