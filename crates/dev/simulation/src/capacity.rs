//! The proof of `tachograph capacity`: searches in simulated time for the capacity of queues whose truth is
//! known by formula.
//!
//! Only the trials are simulated. Which rates are tried, how many blocks there are and what they say
//! together is decided by the code that decides it in real runs.

use std::fmt::Write as _;

use base::{Rng, Seed};
use rand::RngExt as _;
use stats::{
    Aim, BetterDirection, Bracket, Bracketing, Estimate, Evidence, Judgement, Levels, Margins,
    Measure, PILOT_BLOCKS, RatePoint, SEARCH_BLOCKS_MAX, TrialLength, judge, median,
    planned_blocks, pseudo_values, t_quantile,
};
use zoo::Queue;

use crate::noise::normal;

/// The wanted half-width.
const PRECISION: f64 = 0.02;
/// The share of requests that may be slow: a limit on p99.
const SHARE: f64 = 0.01;

/// A world in which two servers are searched for their capacities.
#[derive(Clone, Debug)]
pub struct CapacityWorld {
    /// Short name.
    pub name: &'static str,
    /// The servers and their disturbance, in words.
    pub about: &'static str,
    /// The servers; the second is this many times as fast as the first.
    pub queue: Queue,
    /// See `queue`.
    pub factor: f64,
    /// The limit on p99.
    pub limit_s: f64,
    /// Time for the whole search.
    pub time_s: f64,
    /// Standard deviation of a start's speed, on the log scale.
    pub starts: f64,
    /// Standard deviation of the machine's speed from trial to trial, on the log scale.
    pub noise: f64,
    /// Required coverage; `None` for a world that shows a limit of the method.
    pub goal: Option<f64>,
}

/// Results of the searches in a world.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityResult {
    /// Short name.
    pub name: &'static str,
    /// The servers and their disturbance, in words.
    pub about: &'static str,
    /// Required coverage.
    pub goal: Option<f64>,
    /// Searches.
    pub runs: u32,
    /// Those that found a capacity.
    pub found: u32,
    /// Those of them whose interval for the first server held the truth.
    pub covered: u32,
    /// Those of them whose interval for the ratio held the truth.
    pub ratios_covered: u32,
    /// Mean error of the capacity, as a fraction.
    pub bias: f64,
    /// Half-width of the capacity's interval as a fraction, median.
    pub half_width: f64,
    /// Blocks, median.
    pub blocks: f64,
}

impl CapacityResult {
    /// Share of the capacities found whose interval held the truth.
    pub fn coverage(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.found.max(1))
    }

    /// The same for ratios.
    pub fn ratio_coverage(&self) -> f64 {
        f64::from(self.ratios_covered) / f64::from(self.found.max(1))
    }

    /// Whether coverage is as required, and nearly all searches found a capacity.
    pub fn passed(&self) -> bool {
        self.goal.is_none_or(|goal| {
            self.coverage() >= goal
                && self.ratio_coverage() >= goal
                && f64::from(self.found) >= 0.98 * f64::from(self.runs)
        })
    }
}

/// The worlds.
pub fn capacity_worlds() -> Vec<CapacityWorld> {
    let exponential = Queue::Exponential { service_s: 0.001 };
    let quiet = CapacityWorld {
        name: "M/M/1",
        about: "one worker, exponential service times of 1 ms, p99 of 50 ms",
        queue: exponential,
        factor: 1.05,
        limit_s: 0.05,
        time_s: 180.0,
        starts: 0.0,
        noise: 0.0,
        goal: Some(0.93),
    };
    vec![
        quiet.clone(),
        CapacityWorld {
            name: "M/M/1, strict",
            about: "the same with a p99 of 10 ms",
            limit_s: 0.01,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "M/M/1, slow",
            about: "service times of 5 ms, p99 of 100 ms: 154 requests/s",
            queue: Queue::Exponential { service_s: 0.005 },
            limit_s: 0.1,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "M/M/1, a minute",
            about: "the first world with a third of the time",
            time_s: 60.0,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "M/M/1, an hour",
            about: "the second world until the interval is ±2%, for an hour at most",
            limit_s: 0.01,
            time_s: 3600.0,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "M/D/1",
            about: "one worker, constant service times of 2 ms, p99 of 20 ms",
            queue: Queue::Constant { service_s: 0.002, workers: 1 },
            limit_s: 0.02,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "M/D/4",
            about: "four workers, constant service times of 10 ms, p99 of 30 ms",
            queue: Queue::Constant { service_s: 0.01, workers: 4 },
            limit_s: 0.03,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "token bucket",
            about: "1,000 answers per second, p99 of 20 ms",
            queue: Queue::Bucket { gap_s: 0.001 },
            limit_s: 0.02,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "uneven starts",
            about: "the first world; every start has its own speed, ±1.5%",
            starts: 0.015,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "uneven machine",
            about: "the first world; the speed differs from trial to trial by ±2%",
            noise: 0.02,
            ..quiet.clone()
        },
        CapacityWorld {
            name: "lax limit",
            about: "10,000 answers per second, p99 of 200 ms: the queue needs minutes to settle",
            queue: Queue::Bucket { gap_s: 0.0001 },
            limit_s: 0.2,
            goal: None,
            ..quiet.clone()
        },
    ]
}

/// Plays every world.
pub fn run_capacity(runs: u32, seed: Seed) -> Vec<CapacityResult> {
    capacity_worlds().iter().map(|world| world.run(runs, seed)).collect()
}

/// The results as a table in Markdown.
pub fn capacity_markdown(results: &[CapacityResult]) -> String {
    let mut table = "| world | servers | found | interval holds the capacity | interval holds the ratio | mean error | half-width | blocks |\n\
                     | --- | --- | --: | --: | --: | --: | --: | --: |\n"
        .to_owned();
    for result in results {
        let missed = if result.passed() { "" } else { " **missed**" };
        // Writing to a String never fails.
        let _ = writeln!(
            table,
            "| {} | {} | {} of {} | {:.1}%{missed} | {:.1}% | {:+.2}% | ±{:.1}% | {:.0} |",
            result.name,
            result.about,
            result.found,
            result.runs,
            100.0 * result.coverage(),
            100.0 * result.ratio_coverage(),
            100.0 * result.bias,
            100.0 * result.half_width,
            result.blocks,
        );
    }
    table
}

impl CapacityWorld {
    /// Searches `runs` times.
    pub fn run(&self, runs: u32, seed: Seed) -> CapacityResult {
        let faster = scaled(self.queue, self.factor);
        let truths = [self.queue, faster].map(|q| q.capacity_per_s(self.limit_s, SHARE));
        let mut result = CapacityResult {
            name: self.name,
            about: self.about,
            goal: self.goal,
            runs,
            found: 0,
            covered: 0,
            ratios_covered: 0,
            bias: 0.0,
            half_width: 0.0,
            blocks: 0.0,
        };
        let (mut blocks, mut half_widths, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..u64::from(runs) {
            let Some(found) = self.search(seed.derive(self.name, run)) else { continue };
            result.found += 1;
            result.covered += u32::from(found.capacity.holds(truths[0]));
            result.ratios_covered += u32::from(found.ratio.ratio.holds(truths[1] / truths[0]));
            errors.push((found.capacity.value / truths[0]).ln());
            half_widths.push((found.capacity.high / found.capacity.low).sqrt() - 1.0);
            blocks.push(f64::from(found.ratio.blocks));
        }
        result.bias = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        result.half_width = median(&half_widths).unwrap_or(f64::NAN);
        result.blocks = median(&blocks).unwrap_or(f64::NAN);
        result
    }

    fn search(&self, seed: Seed) -> Option<FoundCapacities> {
        let queues = [self.queue, scaled(self.queue, self.factor)];
        let mut rng = seed.rng("trials");
        let mut left_s = self.time_s;
        let mut all_levels = Vec::new();
        let mut lengths = Vec::new();
        for queue in queues {
            let most = queue.most_per_s();
            let (limit_s, variants) = (Some(self.limit_s), queues.len());
            let length = TrialLength::of(most, limit_s, Some(SHARE), self.time_s, variants);
            let mut bracket = Bracket::new(most / 3.0, 1.0, 1e6);
            let (held, failed) = loop {
                match bracket.next() {
                    Bracketing::Try(rate) => {
                        let short = length.of_bracket();
                        left_s -= short.total_s();
                        let point = self.trial(queue, 0, rate, short, &mut rng);
                        bracket.tell(rate, point.measures[0].holds(SHARE));
                    }
                    Bracketing::Between(held, failed) => break (held, failed),
                    Bracketing::HoldsAt(_) | Bracketing::FailsAt(_) => return None,
                }
            };
            all_levels.push(Levels::between(held, failed));
            lengths.push(length);
        }
        let mut points = [Vec::new(), Vec::new()];
        let (mut wanted, mut number) = (PILOT_BLOCKS, 0);
        let mut block_s = 0.0_f64;
        while number < wanted && left_s > block_s {
            number += 1;
            let before_s = left_s;
            for (variant, queue) in queues.iter().enumerate() {
                let speed = (self.starts * normal(&mut rng)).exp();
                let queue = scaled(*queue, speed);
                for rate in all_levels[variant].rates(2.0 * rng.random::<f64>() - 1.0) {
                    left_s -= lengths[variant].total_s();
                    let point = self.trial(queue, number, rate, lengths[variant], &mut rng);
                    points[variant].push(point);
                }
                all_levels[variant].learn(&points[variant], &[SHARE]);
            }
            block_s = before_s - left_s;
            if number == PILOT_BLOCKS {
                let values = values(&points)?;
                let ratios = differences(&values);
                let pilots = [values[0].as_slice(), values[1].as_slice(), ratios.as_slice()];
                wanted = planned_blocks(&pilots, &aim(), SEARCH_BLOCKS_MAX);
            }
        }
        let values = values(&points)?;
        let pilot = PILOT_BLOCKS.min(number) as usize;
        let critical = t_quantile(aim().alpha(), number as usize - 1);
        let [a, b] = [0, 1].map(|v| stats::capacity(&points[v], &[SHARE], critical));
        let (a, b) = (a?.0, b?.0);
        Some(FoundCapacities {
            capacity: a,
            ratio: judge(&Evidence {
                d: &differences(&values),
                interval: Some(b.relative_to(&a)),
                pilot_blocks: pilot,
                aim: aim(),
                margin: None,
                better: BetterDirection::Higher,
                interrupted: false,
                invalid: false,
                biases: &[],
                margins: Margins::default(),
            }),
        })
    }

    /// One trial, which begins with an empty queue.
    fn trial(
        &self,
        queue: Queue,
        block: u32,
        rate_per_s: f64,
        length: TrialLength,
        rng: &mut Rng,
    ) -> RatePoint {
        let queue = scaled(queue, (self.noise * normal(rng)).exp());
        let (workers, counted) = match queue {
            Queue::Constant { workers, .. } => (workers as usize, 1.0),
            Queue::Exponential { .. } => (1, 1.0),
            Queue::Bucket { .. } => (1, 0.0),
        };
        let mut free = vec![0.0_f64; workers];
        let end_s = length.total_s();
        let (mut now_s, mut due, mut slow, mut answered) = (0.0, 0.0, 0.0, 0.0);
        loop {
            now_s += exponential(rng) / rate_per_s;
            if now_s > end_s {
                break;
            }
            let service_s = match queue {
                Queue::Exponential { service_s } => service_s * exponential(rng),
                Queue::Constant { service_s, .. } => service_s,
                Queue::Bucket { gap_s } => gap_s,
            };
            let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a worker");
            let begin_s = first.max(now_s);
            *first = begin_s + service_s;
            let done_s = begin_s + counted * service_s;
            if now_s >= length.lead_in_s {
                due += 1.0;
                slow += f64::from(u32::from(done_s - now_s > self.limit_s));
            }
            answered += f64::from(u32::from((length.lead_in_s..end_s).contains(&done_s)));
        }
        let measures = vec![Measure::Share { bad: slow, all: due }];
        RatePoint { block, rate_per_s, answered: answered / f64::max(due, 1.0), measures }
    }
}

/// What a search found.
struct FoundCapacities {
    capacity: Estimate,
    ratio: Judgement,
}

fn aim() -> Aim {
    Aim { precision: PRECISION, confidence: 0.95, adjusted_for: 1 }
}

fn values(points: &[Vec<RatePoint>; 2]) -> Option<[Vec<f64>; 2]> {
    let [a, b] = points;
    let values = |points: &[RatePoint]| -> Option<Vec<f64>> {
        Some(pseudo_values(points, &[SHARE])?.into_values().collect())
    };
    Some([values(a)?, values(b)?])
}

fn differences(values: &[Vec<f64>; 2]) -> Vec<f64> {
    values[0].iter().zip(&values[1]).map(|(a, b)| b - a).collect()
}

/// The queue of a server that is this many times as fast.
fn scaled(queue: Queue, factor: f64) -> Queue {
    match queue {
        Queue::Exponential { service_s } => Queue::Exponential { service_s: service_s / factor },
        Queue::Constant { service_s, workers } => {
            Queue::Constant { service_s: service_s / factor, workers }
        }
        Queue::Bucket { gap_s } => Queue::Bucket { gap_s: gap_s / factor },
    }
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 runs determine a coverage of 93% to ±4.6% (99% of the time).
    #[test]
    fn intervals_hold_the_capacity_in_every_world() {
        for world in capacity_worlds().iter().filter(|world| world.time_s < 1000.0) {
            let result = world.run(200, Seed(2));
            let least = result.goal.unwrap_or(0.9) - 0.046;
            assert!(result.coverage() > least && result.ratio_coverage() > least, "{result:?}");
            assert!(result.found >= 190, "{result:?}");
            assert!(result.bias.abs() < 0.03 && result.half_width < 0.25, "{result:?}");
        }
    }

    #[test]
    fn more_time_makes_a_narrower_interval() {
        let worlds = capacity_worlds();
        let world = |name: &str| worlds.iter().find(|world| world.name == name).unwrap();
        let [short, long] =
            ["M/M/1, strict", "M/M/1, an hour"].map(|name| world(name).run(20, Seed(1)).half_width);
        assert!(long < short / 2.0, "{long} {short}");
    }
}
