//! Which rates to try in the search for a capacity: first a bracket, then levels around the crossing.

use crate::crossing::{RatePoint, crossing};

/// Rates in a block.
pub const LEVELS: usize = 3;
/// Blocks of a search whose spread determines how many there are, and how many there are at most.
pub const PILOT_BLOCKS: u32 = 8;
/// See [`PILOT_BLOCKS`].
pub const SEARCH_BLOCKS_MAX: u32 = 60;
/// The share of a search's time for the trials of these blocks; the rest is for the bracket and for
/// starts.
const PILOT_SHARE: f64 = 0.7;

/// A bracket is narrow enough if its ends differ by this factor.
const NARROW: f64 = 1.25;

/// A bracket of the capacity: a rate at which the conditions held, and one at which they did not.
///
/// Rates are doubled or halved until both are known, and then the bracket is divided in the middle of
/// its logarithms. Its trials are short and single, so it may be wrong; the levels that follow leave
/// it if they have to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    first: f64,
    lowest: f64,
    highest: f64,
    held: Option<f64>,
    failed: Option<f64>,
}

/// What a bracket has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bracketing {
    /// This rate is to be tried next.
    Try(f64),
    /// The capacity is probably between these rates.
    Between(f64, f64),
    /// The conditions hold at the highest rate.
    HoldsAt(f64),
    /// The conditions do not hold at the lowest rate.
    FailsAt(f64),
}

impl Bracket {
    /// A bracket that begins with a rate, between the lowest and the highest one that may be tried.
    pub fn new(first: f64, lowest: f64, highest: f64) -> Bracket {
        let first = first.clamp(lowest, highest);
        Bracket { first, lowest, highest, held: None, failed: None }
    }

    /// What to do now.
    pub fn next(&self) -> Bracketing {
        match (self.held, self.failed) {
            (None, None) => Bracketing::Try(self.first),
            (Some(held), None) if held >= self.highest => Bracketing::HoldsAt(held),
            (Some(held), None) => Bracketing::Try((2.0 * held).min(self.highest)),
            (None, Some(failed)) if failed <= self.lowest => Bracketing::FailsAt(failed),
            (None, Some(failed)) => Bracketing::Try((failed / 2.0).max(self.lowest)),
            (Some(held), Some(failed)) if failed / held <= NARROW => {
                Bracketing::Between(held, failed)
            }
            (Some(held), Some(failed)) => Bracketing::Try((held * failed).sqrt()),
        }
    }

    /// Adds what a trial at `rate` showed.
    pub fn tell(&mut self, rate: f64, holds: bool) {
        match holds {
            true => self.held = Some(rate),
            false => self.failed = Some(rate),
        }
    }

    /// The highest rate at which the conditions held so far.
    pub fn held(&self) -> Option<f64> {
        self.held
    }

    /// The lowest rate at which they did not hold.
    pub fn failed(&self) -> Option<f64> {
        self.failed
    }
}

/// The rates of the next block: one at the estimate so far, one below and one above it.
///
/// The distance is that over which the odds of a bad request change by a factor of four, within limits: much
/// closer rates show no slope, and where a level such as CPU use rises slowly, further ones leave the
/// range in which a straight line fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    centre: f64,
    distance: f64,
}

/// By how much the odds of a bad request change from one level to the next.
const ODDS: f64 = 4.0;
/// Limits of the distance between levels, on the log scale.
const DISTANCES: [f64; 2] = [0.003, 0.12];
/// The distance while all trials hold, or none: then each block doubles the rate, or halves it.
const LOST_DISTANCE: f64 = 0.35;
/// How far all levels of a block are shifted at random, as a share of their distance.
const SHIFT: f64 = 0.5;
/// The distance changes by at most this factor from one block to the next.
const CHANGE: f64 = 3.0;

impl Levels {
    /// The levels of the first block, from a bracket.
    pub fn between(held: f64, failed: f64) -> Levels {
        let distance = ((failed / held).ln() / 2.0).clamp(DISTANCES[0], DISTANCES[1]);
        Levels { centre: (held * failed).ln() / 2.0, distance }
    }

    /// The rates, lowest first; `shift` is random between −1 and 1.
    pub fn rates(&self, shift: f64) -> [f64; LEVELS] {
        let centre = self.centre + SHIFT * shift * self.distance;
        [-1.0, 0.0, 1.0].map(|at| (centre + at * self.distance).exp())
    }

    /// Moves to the crossing of all trials so far. Without one, moves up or down, as the trials of the
    /// last block suggest.
    pub fn learn(&mut self, points: &[RatePoint], limits: &[f64]) {
        let all: Vec<&RatePoint> = points.iter().collect();
        let reach = 2.0 * self.distance;
        match crossing(&all, limits) {
            Some(found) => {
                let wanted = ODDS.ln() / found.slope;
                let [least, most] = [self.distance / CHANGE, self.distance * CHANGE];
                let moved = (found.log_rate - self.centre).clamp(-reach, reach);
                self.centre += moved;
                self.distance = wanted.clamp(least, most).clamp(DISTANCES[0], DISTANCES[1]);
            }
            None => {
                let last = points.last().map(|point| point.block);
                let holds = |point: &&RatePoint| {
                    point.measures.iter().zip(limits).all(|(measure, limit)| measure.holds(*limit))
                };
                let of_last = points.iter().filter(|point| Some(point.block) == last);
                let (held, failed): (Vec<_>, Vec<_>) = of_last.partition(holds);
                self.distance = (2.0 * self.distance).min(LOST_DISTANCE);
                self.centre += if held.len() > failed.len() { reach } else { -reach };
            }
        }
    }
}

/// How long a trial is loaded before it is measured, and how long it is measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialLength {
    /// Lead-in, in which the queue builds up.
    pub lead_in_s: f64,
    /// Window.
    pub window_s: f64,
}

/// A trial in the bracket, as a share of one in a block.
const BRACKET_SHARE: f64 = 0.5;
/// The lead-in and the window last this many times the limit on latency, if there is time.
const LEAD_IN_LIMITS: f64 = 10.0;
const WINDOW_LIMITS: f64 = 40.0;
/// Bad requests that a window should contain at the limit.
const BAD_WANTED: f64 = 30.0;
/// The share of a trial that may be lead-in.
const LEAD_IN_SHARE: f64 = 0.3;
/// Shortest window and lead-in.
const WINDOW_MIN_S: f64 = 1.0;
const LEAD_IN_MIN_S: f64 = 0.2;

impl TrialLength {
    /// The length of a block's trials: so that they contain enough bad requests at a rate near the
    /// capacity and the queue has time to build up, but at most so that the pilot of so many variants
    /// fits into the search's time.
    ///
    /// `limit_s` is the limit on latency and `share` the share of requests that may be bad, if there
    /// are such conditions.
    pub fn of(
        rate_per_s: f64,
        limit_s: Option<f64>,
        share: Option<f64>,
        time_s: f64,
        variants: usize,
    ) -> TrialLength {
        let trials = PILOT_BLOCKS as usize * LEVELS * variants;
        let longest_s = PILOT_SHARE * time_s / trials as f64;
        let by_limit = limit_s.unwrap_or(0.0);
        let by_count = share.map_or(0.0, |share| BAD_WANTED / share / rate_per_s);
        let lead_in = (LEAD_IN_LIMITS * by_limit).max(LEAD_IN_MIN_S);
        let window = (WINDOW_LIMITS * by_limit).max(by_count).max(WINDOW_MIN_S);
        let lead_in_s = lead_in.min(LEAD_IN_SHARE * longest_s).max(LEAD_IN_MIN_S);
        TrialLength { lead_in_s, window_s: window.min(longest_s - lead_in_s).max(WINDOW_MIN_S) }
    }

    /// The length of a trial in the bracket.
    pub fn of_bracket(self) -> TrialLength {
        let share = |length: f64, least: f64| (BRACKET_SHARE * length).max(least);
        TrialLength {
            lead_in_s: share(self.lead_in_s, LEAD_IN_MIN_S),
            window_s: share(self.window_s, WINDOW_MIN_S),
        }
    }

    /// Lead-in and window together.
    pub fn total_s(self) -> f64 {
        self.lead_in_s + self.window_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crossing::Measure;
    use proptest::prelude::*;

    fn find(truth: f64, first: f64) -> (Bracketing, usize) {
        let mut bracket = Bracket::new(first, 1.0, 100_000.0);
        for trials in 0.. {
            match bracket.next() {
                Bracketing::Try(rate) => bracket.tell(rate, rate <= truth),
                found => return (found, trials),
            }
        }
        unreachable!()
    }

    #[test]
    fn a_capacity_beyond_the_ends_is_found_there() {
        assert_eq!(find(0.5, 100.0).0, Bracketing::FailsAt(1.0));
        assert_eq!(find(1e9, 100.0).0, Bracketing::HoldsAt(100_000.0));
    }

    proptest! {
        #[test]
        fn a_bracket_holds_the_capacity_after_few_trials(truth in 1.5..90_000.0_f64, first in 1.0..100_000.0_f64) {
            let (found, trials) = find(truth, first);
            let Bracketing::Between(held, failed) = found else { panic!("{found:?}") };
            prop_assert!(held <= truth && truth < failed && failed / held <= NARROW);
            prop_assert!(trials <= 21, "{trials}");
        }

        #[test]
        fn levels_reach_a_capacity_outside_the_bracket(truth in 300.0..3000.0_f64) {
            let mut levels = Levels::between(900.0, 1100.0);
            let mut points = Vec::new();
            for block in 1..=40 {
                for rate in levels.rates(0.0) {
                    // Steep: 1% at the capacity.
                    let odds = 0.0101 * (rate / truth).powf(50.0);
                    let bad = 1000.0 * odds / (1.0 + odds);
                    let measures = vec![Measure::Share { bad: bad.floor(), all: 1000.0 }];
                    points.push(RatePoint { block, rate_per_s: rate, answered: 1.0, measures });
                }
                levels.learn(&points, &[0.01]);
            }
            let [low, _, high] = levels.rates(0.0);
            prop_assert!(low < truth * 1.01 && truth * 0.99 < high, "{low} to {high}");
        }
    }

    #[test]
    fn a_trial_is_as_long_as_its_condition_needs_and_no_longer_than_there_is_time() {
        // The time of a search in which a trial may last a second.
        const PER_S: f64 = 24.0 / PILOT_SHARE;
        let length = TrialLength::of(1000.0, Some(0.05), Some(0.01), 3600.0, 1);
        assert_eq!(length, TrialLength { lead_in_s: 0.5, window_s: 3.0 });
        let slow = TrialLength::of(10.0, Some(0.05), Some(0.01), 8.0 * PER_S, 1);
        assert!((slow.window_s - 7.5).abs() < 1e-9 && slow.lead_in_s == 0.5, "{slow:?}");
        let lax = TrialLength::of(1000.0, Some(2.0), Some(0.01), 20.0 * PER_S, 2);
        assert!((lax.lead_in_s - 3.0).abs() < 1e-9 && (lax.window_s - 7.0).abs() < 1e-9, "{lax:?}");
        let cpu = TrialLength::of(1000.0, None, None, 10.0 * PER_S, 1);
        assert_eq!(cpu, TrialLength { lead_in_s: 0.2, window_s: 1.0 });
        assert!((lax.of_bracket().total_s() - 5.0).abs() < 1e-9);
    }
}
