//! A machine and servers with known true speeds.

use base::{Rng, Seed};
use rand::RngExt as _;

use crate::noise::{happens, normal, student_3};
use stats::{
    Bias, BiasCause, Stalls, Total, bias_bound, kept_rounds, log_bias, lost_share, mirrored_order,
};

/// Requests per undisturbed slice of the baseline: half a second at 10,000/s.
pub(super) const REQUESTS_PER_SLICE: f64 = 5_000.0;
/// Slices per variant and block: a window of 5 s in slices of half a second.
pub(super) const SLICES: usize = 10;

/// Differences between the levels of a server's starts, on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    /// Normal with this standard deviation.
    Normal(f64),
    /// Student's t with 3 degrees of freedom times this scale: occasionally a start is far off.
    HeavyTailed(f64),
    /// Normal, and `share` of the starts settle `lower` below the others.
    Bimodal { sd: f64, share: f64, lower: f64 },
    /// Normal, and each start resembles the one before it with this correlation.
    Correlated { sd: f64, correlation: f64 },
}

/// Slowdowns that affect whatever is running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bursts {
    /// Probability that one begins in a quiet slice.
    pub(super) begin: f64,
    /// Probability that one continues for another slice.
    pub(super) go_on: f64,
    /// How much slower everything is, on the log scale.
    pub(super) depth: f64,
}

/// Stops of every variant but the first, which is as fast as the others are in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RareStops {
    /// Probability that one begins in a slice.
    pub(super) begin: f64,
    /// How long it lasts, in slices.
    pub(super) length: f64,
}

impl RareStops {
    /// What they cost in the long run, on the log scale.
    fn cost(&self) -> f64 {
        (self.begin * self.length).ln_1p()
    }
}

/// The disturbances of a measurement. All sizes are on the log scale: 0.01 is about 1%.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct World {
    /// Level of each start.
    pub(super) start: Start,
    /// Standard deviation of a single slice.
    pub(super) slice_sd: f64,
    /// Standard deviation of the machine's level from block to block.
    pub(super) block_sd: f64,
    /// Change of the machine's level with every slice.
    pub(super) drift_per_slice: f64,
    /// The machine's own drift, an AR(1) process over slices: correlation of neighbours, standard
    /// deviation.
    pub(super) wandering: (f64, f64),
    /// Slowdowns, if there are any.
    pub(super) bursts: Option<Bursts>,
    /// Share of the time for which the hypervisor stops the machine, beside the first variant and
    /// beside the others.
    pub(super) steal: [f64; 2],
    /// Rare stops of the servers themselves.
    pub(super) stops: Option<RareStops>,
}

impl World {
    /// Nothing differs but the two servers.
    pub(super) const STILL: World = World {
        start: Start::Normal(0.0),
        slice_sd: 0.0,
        block_sd: 0.0,
        drift_per_slice: 0.0,
        wandering: (0.0, 0.0),
        bursts: None,
        steal: [0.0, 0.0],
        stops: None,
    };
}

/// The order of blocks and variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Blocks of all variants, with their slices in mirrored order.
    Interleaved,
    /// All trials of the first variant, then all of the next.
    Sequential,
}

/// Which rounds of slices count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// Every one.
    All,
    /// Those in which the machine was not much busier with something else than in the others.
    Quiet,
}

/// CPUs that whatever slows everything down uses, and how exactly that is seen.
const BURST_CPUS: f64 = 0.5;
const SEEN_TO_CPUS: f64 = 0.03;

/// One history of the world: its noise is a function of the moment and of the start, whatever the
/// order of the measurement. So two orders can be compared on the same data.
pub(super) struct History<'a> {
    world: &'a World,
    /// True level of each variant, on the log scale.
    truth: &'a [f64],
    rng: Rng,
    starts: StartLevels,
    orders: Rng,
    activity: Rng,
    /// The machine's level in each slice so far.
    moments: Vec<f64>,
    /// Whether everything was slowed down in each slice so far.
    busy: Vec<bool>,
    wandering: f64,
    block: f64,
    in_burst: bool,
    stops: Rng,
    /// Slices so far, of one variant, in which rare stops could begin.
    slices: f64,
    /// Rare stops of each variant.
    rare: Vec<u32>,
    rare_stops: Rng,
    /// Share of the time that each variant lost in each block so far.
    lost: Vec<Vec<f64>>,
}

impl<'a> History<'a> {
    pub(super) fn new(world: &'a World, truth: &'a [f64], seed: Seed) -> History<'a> {
        let mut rng = seed.rng("machine");
        let wandering = world.wandering.1 * normal(&mut rng);
        History {
            world,
            truth,
            rng,
            starts: StartLevels { rng: seed.rng("starts"), levels: Vec::new() },
            orders: seed.rng("order"),
            activity: seed.rng("activity"),
            moments: Vec::new(),
            busy: Vec::new(),
            wandering,
            block: 0.0,
            in_burst: false,
            stops: seed.rng("stops"),
            slices: 0.0,
            rare: vec![0; truth.len()],
            rare_stops: seed.rng("rare stops"),
            lost: Vec::new(),
        }
    }

    /// Requests and slices of every variant in an interleaved block. Blocks must be requested in
    /// order, from 0.
    pub(super) fn interleaved_block(&mut self, block: usize, rounds: Rounds) -> Vec<Total> {
        let variants = self.truth.len();
        let order = mirrored_order(variants, SLICES, &mut self.orders);
        let first = block * order.len();
        // Slices are drawn in their order, so both kinds of rounds have the same history.
        let completed: Vec<f64> = order
            .iter()
            .enumerate()
            .map(|(i, &variant)| self.completed(variant, block, first + i))
            .collect();
        let kept = match rounds {
            Rounds::All => vec![true; SLICES],
            Rounds::Quiet => kept_rounds(&self.taken_cpus(first, variants)),
        };
        let count = kept.iter().filter(|kept| **kept).count() as f64;
        let (mut trials, mut lost) = (vec![0.0; variants], vec![0.0; variants]);
        for (i, &variant) in order.iter().enumerate().filter(|(i, _)| kept[i / variants]) {
            let stopped = 2.0 * self.world.steal[variant.min(1)] * self.stops.random::<f64>();
            lost[variant] += stopped / count;
            trials[variant] += (completed[i] * (1.0 - stopped)).round();
        }
        self.lost.push(lost);
        self.slices += count;
        let per: Vec<f64> = (0..variants).map(|v| count + self.stopped(v, count)).collect();
        trials.into_iter().zip(per).map(|(amount, per)| Total { amount, per }).collect()
    }

    /// For how long rare stops lengthened so many slices of a variant.
    fn stopped(&mut self, variant: usize, slices: f64) -> f64 {
        let Some(RareStops { begin, length }) = self.world.stops.filter(|_| variant > 0) else {
            return 0.0;
        };
        let begun = (0..slices as u32).filter(|_| happens(&mut self.rare_stops, begin)).count();
        self.rare[variant] += begun as u32;
        begun as f64 * length
    }

    /// The rare stops of a variant so far. As many slices of other loads show the length of one,
    /// if one begins there.
    pub(super) fn stalls(&mut self, variant: usize) -> Stalls {
        let (Some(stops), true) = (self.world.stops, variant > 0) else {
            return Stalls::default();
        };
        let number = f64::from(self.rare[variant]);
        let each = stops.length / (self.slices + number * stops.length);
        let seen = number > 0.0
            || (0..self.slices as u32).any(|_| happens(&mut self.rare_stops, stops.begin));
        let largest = if seen { each } else { 0.0 };
        Stalls { sum: number * each, squares: number * each * each, largest }
    }

    /// CPUs that others were seen to use in each round of a block.
    fn taken_cpus(&mut self, first: usize, variants: usize) -> Vec<f64> {
        let rounds = self.busy[first..first + SLICES * variants].chunks(variants);
        let activity = &mut self.activity;
        rounds
            .map(|round| {
                let busy = round.iter().filter(|busy| **busy).count() as f64;
                BURST_CPUS * busy / variants as f64 + SEEN_TO_CPUS * normal(activity)
            })
            .collect()
    }

    /// The bound on the bias of a variant's ratio to the first one: both CPUs of the machine were
    /// stopped for the lost share of the time, and used for the rest.
    pub(super) fn bias(&self, variant: usize) -> Option<Bias> {
        let share = |lost: f64| lost_share(lost, 2.0 * (1.0 - lost));
        let of_blocks: Vec<f64> =
            self.lost.iter().map(|lost| log_bias(share(lost[0]), share(lost[variant]))).collect();
        let log_bound = bias_bound(&of_blocks)?;
        Some(Bias { cause: BiasCause::Steal, log_bound })
    }

    /// Requests and slices of every variant in each of `blocks` blocks, measured one variant after the
    /// other.
    pub(super) fn sequential(&mut self, blocks: usize) -> Vec<Vec<Total>> {
        (0..blocks)
            .map(|block| {
                (0..self.truth.len())
                    .map(|variant| {
                        let first = (variant * blocks + block) * SLICES;
                        let trial: f64 = (first..first + SLICES)
                            .map(|moment| self.completed(variant, block, moment))
                            .sum();
                        Total { amount: trial, per: SLICES as f64 }
                    })
                    .collect()
            })
            .collect()
    }

    /// Requests that a variant completes in the slice at a moment: an integer, as in reality.
    fn completed(&mut self, variant: usize, block: usize, moment: usize) -> f64 {
        let start = self.starts.level(self.world.start, self.truth.len(), variant, block);
        let stops = self.world.stops.filter(|_| variant > 0).map_or(0.0, |stops| stops.cost());
        let level = self.truth[variant] + stops + start + self.machine(moment);
        (REQUESTS_PER_SLICE * level.exp()).round()
    }

    fn machine(&mut self, moment: usize) -> f64 {
        while self.moments.len() <= moment {
            let next = self.next_moment();
            self.moments.push(next);
            self.busy.push(self.in_burst);
        }
        self.moments[moment]
    }

    fn next_moment(&mut self) -> f64 {
        let world = self.world;
        if self.moments.len().is_multiple_of(self.truth.len() * SLICES) {
            self.block = world.block_sd * normal(&mut self.rng);
        }
        let (correlation, sd) = world.wandering;
        self.wandering = correlation * self.wandering
            + sd * (1.0 - correlation * correlation).sqrt() * normal(&mut self.rng);
        let burst = match world.bursts {
            Some(bursts) => {
                let probability = if self.in_burst { bursts.go_on } else { bursts.begin };
                self.in_burst = happens(&mut self.rng, probability);
                if self.in_burst { -bursts.depth } else { 0.0 }
            }
            None => 0.0,
        };
        let drift = world.drift_per_slice * self.moments.len() as f64;
        drift + self.block + self.wandering + burst + world.slice_sd * normal(&mut self.rng)
    }
}

/// The level of each start, drawn block by block for all variants.
struct StartLevels {
    rng: Rng,
    levels: Vec<f64>,
}

impl StartLevels {
    fn level(&mut self, start: Start, variants: usize, variant: usize, block: usize) -> f64 {
        let wanted = block * variants + variant;
        while self.levels.len() <= wanted {
            let before = self.levels.len().checked_sub(variants).map(|i| self.levels[i]);
            let next = self.draw(start, before);
            self.levels.push(next);
        }
        self.levels[wanted]
    }

    fn draw(&mut self, start: Start, before: Option<f64>) -> f64 {
        let rng = &mut self.rng;
        match start {
            Start::Normal(sd) => sd * normal(rng),
            Start::HeavyTailed(scale) => scale * student_3(rng),
            Start::Bimodal { sd, share, lower } => {
                sd * normal(rng) - if happens(rng, share) { lower } else { 0.0 }
            }
            Start::Correlated { sd, correlation } => match before {
                Some(before) => {
                    correlation * before
                        + sd * (1.0 - correlation * correlation).sqrt() * normal(rng)
                }
                None => sd * normal(rng),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests per slice.
    fn rates(block: &[Total]) -> Vec<f64> {
        block.iter().map(|total| total.amount / total.per).collect()
    }

    #[test]
    fn a_still_world_shows_the_truth() {
        let truth = [0.0, 0.1_f64];
        let mut history = History::new(&World::STILL, &truth, Seed(1));
        assert_eq!(rates(&history.interleaved_block(0, Rounds::All)), [5000.0, 5526.0]);
        assert!(history.sequential(2).iter().all(|block| rates(block) == [5000.0, 5526.0]));
    }

    #[test]
    fn stops_cost_what_the_stopping_server_is_faster_without_them() {
        let stops = Some(RareStops { begin: 0.05, length: 0.6 });
        let world = World { stops, ..World::STILL };
        let mut history = History::new(&world, &[0.0, 0.0], Seed(1));
        let mut sum = [Total { amount: 0.0, per: 0.0 }; 2];
        for block in 0..2_000 {
            for (sum, total) in sum.iter_mut().zip(history.interleaved_block(block, Rounds::All)) {
                sum.amount += total.amount;
                sum.per += total.per;
            }
        }
        let rates = rates(&sum);
        assert!((rates[1] / rates[0] - 1.0).abs() < 0.003, "{rates:?}");
        let stalls = history.stalls(1);
        assert!((stalls.sum - 0.03 / 1.03).abs() < 0.003, "{stalls:?}");
        assert_eq!(history.stalls(0), Stalls::default());
    }

    #[test]
    fn the_mirror_cancels_a_drift_that_sequential_order_takes_for_a_difference() {
        let world = World { drift_per_slice: -0.001, ..World::STILL };
        let truth = [0.0, 0.0];
        let mut history = History::new(&world, &truth, Seed(1));
        let block = rates(&history.interleaved_block(0, Rounds::All));
        assert!((block[1] / block[0] - 1.0).abs() < 1e-4, "{block:?}");
        let sequential = history.sequential(20);
        let first = rates(&sequential[0]);
        let ratio = first[1] / first[0];
        assert!((ratio / (-0.2_f64).exp() - 1.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn bursts_slow_everything_down_for_a_while() {
        let bursts = Some(Bursts { begin: 0.05, go_on: 0.8, depth: 0.7 });
        let world = World { bursts, ..World::STILL };
        let mut history = History::new(&world, &[0.0], Seed(3));
        let slow = (0..10_000).filter(|&moment| history.machine(moment) < -0.5).count();
        // In equilibrium a share of 0.05 ÷ (0.05 + 0.2) of all slices is slow.
        assert!((1_700..2_300).contains(&slow), "{slow}");
    }

    #[test]
    fn busy_rounds_are_left_out_for_all_variants_alike() {
        let bursts = Some(Bursts { begin: 0.03, go_on: 0.8, depth: 0.7 });
        let world = World { bursts, ..World::STILL };
        let truth = [0.0, 0.1_f64];
        let (mut all, mut quiet) =
            (History::new(&world, &truth, Seed(5)), History::new(&world, &truth, Seed(5)));
        let blocks = 0..200;
        let even = |block: &Vec<Total>| rates(block) == [5000.0, 5526.0];
        let undisturbed = |history: &mut History, rounds| {
            let blocks = blocks.clone().map(|block| history.interleaved_block(block, rounds));
            blocks.filter(even).count()
        };
        let (all, quiet) =
            (undisturbed(&mut all, Rounds::All), undisturbed(&mut quiet, Rounds::Quiet));
        assert!(all < 120 && quiet > 170, "{all} {quiet}");
    }

    #[test]
    fn correlated_starts_resemble_the_one_before_of_the_same_variant() {
        let mut starts = StartLevels { rng: Seed(4).rng("starts"), levels: Vec::new() };
        let start = Start::Correlated { sd: 1.0, correlation: 0.8 };
        let first: Vec<f64> = (0..2000).map(|block| starts.level(start, 2, 0, block)).collect();
        let correlation = stats::lag1_autocorrelation(&first);
        assert!((correlation - 0.8).abs() < 0.05, "{correlation}");
    }
}
