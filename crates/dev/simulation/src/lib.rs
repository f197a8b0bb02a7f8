//! The proof of the method: worlds with a known truth, measured and judged by the code that judges
//! real runs.
//!
//! Each scenario is played many times. A run draws slices, adds them up to trials, pairs trials in
//! blocks, lets Stein's procedure determine the number of blocks after the pilot, and is judged by
//! [`judge`]. Only the slices are simulated.

mod capacity;
mod noise;
mod scenarios;
mod table;
mod world;

pub use capacity::{
    CapacityResult, CapacityWorld, capacity_markdown, capacity_worlds, run_capacity,
};
pub use scenarios::{Scenario, run_all, scenarios};
pub use table::markdown;

use base::Seed;
use world::{History, Order, REQUESTS_PER_SLICE};

use stats::{
    Aim, BetterDirection, Bias, Estimate, Evidence, Judgement, Margins, Spread, Sureness, Total,
    Verdict, anytime_half_width, judge, level_of, log_of_totals, log_ratios_of_totals, median,
    planned_blocks,
};

/// Limit on the blocks of a simulated run.
const BLOCKS_MAX: u32 = 60;
/// The true difference, as a fraction.
const DIFFERENCE: f64 = 0.02;
/// Minimum number of blocks before the first look.
const LOOK_MIN: usize = 4;

/// When a simulated run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Stein's procedure after a pilot of this many blocks.
    Stein { pilot: usize },
    /// A person looks at the anytime-valid interval after every block, and stops where it is most
    /// misleading.
    AtTheWorst,
    /// The same with Student's interval, which is not valid for that.
    AtTheWorstByStudent,
}

/// What is asked of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// How much faster the other variants are than the first.
    Ratio,
    /// How fast the second variant is.
    Level,
    /// Whether the variants are equivalent within ±2%, a margin that was declared before.
    Equivalence,
}

/// Largest share of false alarms of a scenario with a goal: 5%, and three standard errors of 2,000
/// runs.
const FALSE_ALARMS_MAX: f64 = 0.065;

/// Result of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioResult {
    /// Short name.
    pub name: &'static str,
    /// The disturbance, in words.
    pub about: &'static str,
    /// Required coverage, lowest and highest; `None` for a scenario that shows what happens without
    /// the method, or beyond what it promises.
    pub goal: Option<(f64, f64)>,
    /// Number of runs with a true difference of 2%, and of runs without a difference.
    pub runs: u32,
    /// Runs with the difference whose interval (all intervals, for several variants) contained the
    /// truth.
    pub covered: u32,
    /// Runs without a difference whose verdict was faster or slower; if the question is equivalence,
    /// runs whose difference equals the margin, and whose verdict was equivalent.
    pub false_alarms: u32,
    /// Runs with the difference that found it (all of them, for several variants); if the question
    /// is equivalence, runs without a difference whose verdict was equivalent.
    pub found: u32,
    /// Runs with the difference that found the opposite.
    pub wrong_sign: u32,
    /// Blocks per run, median.
    pub blocks: f64,
    /// Half-width of the interval as a fraction, median.
    pub half_width: f64,
}

impl ScenarioResult {
    /// Share of runs whose interval contained the truth.
    pub fn coverage(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.runs)
    }

    /// Whether coverage and false alarms are as required.
    pub fn passed(&self) -> bool {
        let alarms = f64::from(self.false_alarms) / f64::from(self.runs);
        self.goal.is_none_or(|(low, high)| {
            (low..=high).contains(&self.coverage()) && alarms <= FALSE_ALARMS_MAX
        })
    }
}

impl Scenario {
    /// Plays the scenario `runs` times with a difference of 2% and `runs` times without.
    pub fn run(&self, runs: u32, seed: Seed) -> ScenarioResult {
        let mut result = ScenarioResult {
            name: self.name,
            about: self.about,
            goal: self.goal,
            runs,
            covered: 0,
            false_alarms: 0,
            found: 0,
            wrong_sign: 0,
            blocks: 0.0,
            half_width: 0.0,
        };
        let (mut blocks, mut half_widths) = (Vec::new(), Vec::new());
        for run in 0..u64::from(runs) {
            let with = self.play(DIFFERENCE.ln_1p(), seed.derive(self.noise, 2 * run));
            result.covered += u32::from(with.covered);
            result.wrong_sign += u32::from(with.slower);
            blocks.push(with.blocks);
            half_widths.push(with.half_width);
            let without = self.play(0.0, seed.derive(self.noise, 2 * run + 1));
            let (found, alarm) = match self.question {
                Question::Equivalence => (without.equivalent, with.equivalent),
                Question::Ratio | Question::Level => (with.faster, without.alarm),
            };
            result.found += u32::from(found);
            result.false_alarms += u32::from(alarm);
        }
        result.blocks = median(&blocks).unwrap_or(f64::NAN);
        result.half_width = median(&half_widths).unwrap_or(f64::NAN);
        result
    }

    fn play(&self, difference: f64, seed: Seed) -> Outcome {
        let mut truth = vec![difference; self.variants];
        truth[0] = 0.0;
        let mut history = History::new(&self.world, &truth, seed);
        match self.stop {
            Stop::Stein { pilot } => self.play_planned(&mut history, pilot, difference),
            Stop::AtTheWorst | Stop::AtTheWorstByStudent => {
                self.play_watched(&mut history, difference)
            }
        }
    }

    fn aim(&self) -> Aim {
        Aim { precision: 0.01, confidence: 0.95, adjusted_for: self.variants as u32 - 1 }
    }

    fn play_planned(&self, history: &mut History, pilot: usize, difference: f64) -> Outcome {
        let mut trials: Vec<Vec<Total>> =
            (0..pilot).map(|block| history.interleaved_block(block, self.rounds)).collect();
        let pilots = contrasts(&trials);
        let pilots: Vec<&[f64]> = pilots.iter().map(Vec::as_slice).collect();
        let by_spread = planned_blocks(&pilots, &self.aim(), BLOCKS_MAX);
        let by_stalls = (1..self.variants)
            .map(|variant| self.aim().blocks_for_margins(&self.margins(history, variant), pilot))
            .max();
        let blocks = by_spread.max(by_stalls.unwrap_or(0).min(BLOCKS_MAX.into()) as u32) as usize;
        trials.extend((pilot..blocks).map(|block| history.interleaved_block(block, self.rounds)));
        if self.order == Order::Sequential {
            trials = history.sequential(blocks);
        }
        if self.question == Question::Level {
            let in_slices =
                |trial: &Vec<Total>| Total { per: trial[1].per * REQUESTS_PER_SLICE, ..trial[1] };
            let levels: Vec<Total> = trials.iter().map(in_slices).collect();
            let logs = log_of_totals(&levels).expect("a simulated server always serves something");
            let sureness = Sureness { alpha: 1.0 - self.aim().confidence, interrupted: false };
            let estimate = level_of(&logs, pilot, sureness);
            return Outcome::of_level(&estimate, blocks, difference);
        }
        let judged = |(other, d): (usize, &Vec<f64>)| {
            let biases: Vec<Bias> =
                history.bias(other + 1).filter(|_| self.widened).into_iter().collect();
            let margins = self.margins(history, other + 1);
            judge(&Evidence { biases: &biases, margins, ..self.evidence(d, pilot, false) })
        };
        let judgements: Vec<Judgement> =
            contrasts(&trials).iter().enumerate().map(judged).collect();
        Outcome::of(&judgements, difference)
    }

    /// What rare stops may have cost a variant beyond what the blocks show.
    fn margins(&self, history: &mut History, variant: usize) -> Margins {
        match self.widened {
            true => history.stalls(variant).margins(self.aim().alpha()),
            false => Margins::default(),
        }
    }

    /// A person looks after every block. The worst moment to stop counts.
    fn play_watched(&self, history: &mut History, difference: f64) -> Outcome {
        let trials: Vec<Vec<Total>> = (0..BLOCKS_MAX as usize)
            .map(|block| history.interleaved_block(block, self.rounds))
            .collect();
        let anytime = self.stop == Stop::AtTheWorst;
        let look =
            |d: &[f64]| Outcome::of(&[judge(&self.evidence(d, d.len(), anytime))], difference);
        let mut worst = look(&contrasts(&trials)[0]);
        for blocks in LOOK_MIN..trials.len() {
            let d = &contrasts(&trials[..blocks])[0];
            // Judging costs more than the interval, and only an interval that excludes something
            // can mislead.
            let excludes = |value: f64| {
                Spread::of(d).is_some_and(|spread| {
                    let half = if anytime {
                        anytime_half_width(&spread, self.aim().alpha())
                    } else {
                        spread.t_half_width(self.aim().alpha())
                    };
                    (spread.mean - value).abs() > half
                })
            };
            if excludes(difference) || excludes(0.0) {
                worst = worst.or_worse(look(d));
            }
        }
        worst
    }

    fn evidence<'d>(&self, d: &'d [f64], pilot_blocks: usize, interrupted: bool) -> Evidence<'d> {
        Evidence {
            d,
            interval: None,
            pilot_blocks,
            aim: self.aim(),
            margin: (self.question == Question::Equivalence).then_some(DIFFERENCE),
            better: BetterDirection::Higher,
            interrupted,
            invalid: false,
            biases: &[],
            margins: Margins::default(),
        }
    }
}

/// The log ratios of every other variant to the first, by block.
fn contrasts(trials: &[Vec<Total>]) -> Vec<Vec<f64>> {
    let variants = trials.first().map_or(0, Vec::len);
    (1..variants)
        .map(|variant| {
            let pairs: Vec<(Total, Total)> =
                trials.iter().map(|trial| (trial[0], trial[variant])).collect();
            log_ratios_of_totals(&pairs).expect("a simulated server always serves something")
        })
        .collect()
}

/// Outcome of one simulated run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    covered: bool,
    faster: bool,
    slower: bool,
    alarm: bool,
    equivalent: bool,
    blocks: f64,
    half_width: f64,
}

impl Outcome {
    fn of(judgements: &[Judgement], difference: f64) -> Outcome {
        let verdict = |wanted: Verdict| move |judged: &Judgement| judged.verdict == wanted;
        let half_width = |judged: &Judgement| (judged.ratio.high / judged.ratio.low).sqrt() - 1.0;
        Outcome {
            covered: judgements.iter().all(|judged| judged.ratio.holds(difference.exp())),
            faster: judgements.iter().all(verdict(Verdict::Faster)),
            slower: judgements.iter().any(verdict(Verdict::Slower)),
            alarm: judgements
                .iter()
                .any(|judged| matches!(judged.verdict, Verdict::Faster | Verdict::Slower)),
            equivalent: judgements.iter().all(verdict(Verdict::Equivalent)),
            blocks: judgements.iter().map(|judged| f64::from(judged.blocks)).fold(0.0, f64::max),
            half_width: judgements.iter().map(half_width).fold(0.0, f64::max),
        }
    }

    /// The interval of a level, relative to that of a variant without a difference.
    fn of_level(estimate: &Estimate, blocks: usize, difference: f64) -> Outcome {
        Outcome {
            covered: estimate.holds(difference.exp()),
            faster: estimate.low > 1.0,
            slower: estimate.high < 1.0,
            alarm: !estimate.holds(1.0),
            equivalent: false,
            blocks: blocks as f64,
            half_width: (estimate.high / estimate.low).sqrt() - 1.0,
        }
    }

    /// The more misleading of two moments of one run.
    fn or_worse(self, other: Outcome) -> Outcome {
        Outcome {
            covered: self.covered && other.covered,
            faster: self.faster || other.faster,
            slower: self.slower || other.slower,
            alarm: self.alarm || other.alarm,
            equivalent: self.equivalent || other.equivalent,
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
