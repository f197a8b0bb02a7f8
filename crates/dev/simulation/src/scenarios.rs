//! The scenarios, with the coverage required of each.

use base::Seed;

use crate::world::{Bursts, Order, RareStops, Rounds, Start, World};
use crate::{Question, ScenarioResult, Stop};

/// A world, and how it is measured.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Scenarios with the same value use identical noise.
    pub(super) noise: &'static str,
    pub(super) goal: Option<(f64, f64)>,
    pub(super) world: World,
    pub(super) variants: usize,
    pub(super) order: Order,
    pub(super) stop: Stop,
    /// Whether the interval is widened by the bound on the bias of uneven steal, and by the margins of
    /// rare stops.
    pub(super) widened: bool,
    pub(super) rounds: Rounds,
    pub(super) question: Question,
}

/// Noise of the size seen on a shared machine of two CPUs: d varies by about 2% from block to
/// block.
const NORMAL: World =
    World { start: Start::Normal(0.01), slice_sd: 0.03, block_sd: 0.03, ..World::STILL };
/// One server stops for a slice, about once in a pilot of 6 blocks.
const STOPPING: World = World { stops: Some(RareStops { begin: 0.02, length: 1.0 }), ..NORMAL };
/// A tenth of a percent per slice: 2% per block.
const DRIFTING: World = World { drift_per_slice: -0.001, ..NORMAL };
/// The hypervisor stops the machine for 5% of the time beside one variant, and for 8% beside the
/// other.
const UNEVEN: World = World { steal: [0.05, 0.08], ..NORMAL };
/// Neighbours that come and go over minutes.
const WANDERING: World = World { wandering: (0.99, 0.05), ..NORMAL };

const PLANNED: Scenario = Scenario {
    name: "normal",
    about: "normal noise per slice, block and start",
    noise: "normal",
    goal: Some((0.935, 0.965)),
    world: NORMAL,
    variants: 2,
    order: Order::Interleaved,
    stop: Stop::Stein { pilot: 10 },
    widened: false,
    rounds: Rounds::All,
    question: Question::Ratio,
};
/// Everything runs at half speed a third of the time.
const NEIGHBOUR: World = World {
    bursts: Some(Bursts { begin: 0.025, go_on: 0.95, depth: std::f64::consts::LN_2 }),
    ..NORMAL
};
const AT_LEAST_93: Option<(f64, f64)> = Some((0.93, 1.0));

/// All scenarios: first those with a goal, then the contrasts.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        PLANNED,
        Scenario {
            name: "quick",
            about: "the same with a pilot of 6 blocks",
            noise: "quick",
            stop: Stop::Stein { pilot: 6 },
            ..PLANNED
        },
        Scenario {
            name: "drift",
            about: "the machine slows by 0.1% per slice, 2% per block",
            noise: "drift",
            goal: AT_LEAST_93,
            world: DRIFTING,
            ..PLANNED
        },
        Scenario {
            name: "AR(1)",
            about: "the machine's speed wanders by 5%, neighbouring slices correlate by 0.99",
            noise: "AR(1)",
            goal: AT_LEAST_93,
            world: WANDERING,
            ..PLANNED
        },
        Scenario {
            name: "t3 tails",
            about: "levels of starts follow Student's t with 3 degrees of freedom",
            noise: "t3 tails",
            goal: AT_LEAST_93,
            world: World { start: Start::HeavyTailed(0.01), ..NORMAL },
            ..PLANNED
        },
        Scenario {
            name: "bursts",
            about: "everything is 30% slower for 5 slices on average, 1 slice in 20 affected",
            noise: "bursts",
            goal: AT_LEAST_93,
            world: World {
                bursts: Some(Bursts { begin: 0.0105, go_on: 0.8, depth: 0.3567 }),
                ..NORMAL
            },
            ..PLANNED
        },
        Scenario {
            name: "a neighbour",
            about: "everything runs at half speed a third of the time, for 20 slices on average",
            noise: "a neighbour",
            goal: AT_LEAST_93,
            world: NEIGHBOUR,
            ..PLANNED
        },
        Scenario {
            name: "a neighbour, rounds left out",
            about: "the same neighbour; rounds in which it was busier are left out",
            noise: "a neighbour",
            goal: AT_LEAST_93,
            world: NEIGHBOUR,
            rounds: Rounds::Quiet,
            ..PLANNED
        },
        Scenario {
            name: "two speeds",
            about: "the machine toggles between two speeds 1.4 apart, each for 12 slices on average",
            noise: "two speeds",
            goal: AT_LEAST_93,
            world: World {
                bursts: Some(Bursts { begin: 1.0 / 12.0, go_on: 11.0 / 12.0, depth: 0.3365 }),
                ..NORMAL
            },
            ..PLANNED
        },
        Scenario {
            name: "bimodal restarts",
            about: "3 starts of 10 settle 4% lower",
            noise: "bimodal restarts",
            goal: AT_LEAST_93,
            world: World { start: Start::Bimodal { sd: 0.005, share: 0.3, lower: 0.04 }, ..NORMAL },
            ..PLANNED
        },
        Scenario {
            name: "Ctrl-C at the worst moment",
            about: "someone looks after each of 60 blocks and stops when it misleads the most",
            noise: "Ctrl-C",
            goal: Some((0.95, 1.0)),
            stop: Stop::AtTheWorst,
            ..PLANNED
        },
        Scenario {
            name: "5 variants",
            about: "4 comparisons with one baseline, all intervals must hold",
            noise: "5 variants",
            goal: Some((0.935, 1.0)),
            variants: 5,
            ..PLANNED
        },
        Scenario {
            name: "uneven steal",
            about: "the machine stands still 5% of the time for one variant, 8% for the other",
            noise: "uneven steal",
            goal: AT_LEAST_93,
            world: UNEVEN,
            widened: true,
            ..PLANNED
        },
        Scenario {
            name: "uneven steal, not widened",
            about: "the same without the bound on the bias",
            noise: "uneven steal",
            goal: None,
            world: UNEVEN,
            ..PLANNED
        },
        Scenario {
            name: "rare stops",
            about: "one server stops for 0.5 s, in 1 slice of 50; a pilot of 6 blocks",
            noise: "rare stops",
            goal: AT_LEAST_93,
            world: STOPPING,
            stop: Stop::Stein { pilot: 6 },
            widened: true,
            ..PLANNED
        },
        Scenario {
            name: "rare stops, by their spread",
            about: "the same without the margins of rare stops",
            noise: "rare stops",
            goal: None,
            world: STOPPING,
            stop: Stop::Stein { pilot: 6 },
            ..PLANNED
        },
        Scenario {
            name: "level",
            about: "the level of a single variant; an alarm is an interval without the truth",
            noise: "level",
            goal: AT_LEAST_93,
            question: Question::Level,
            ..PLANNED
        },
        Scenario {
            name: "equivalence",
            about: "a margin of 2%, declared beforehand; an alarm is a true difference of 2% called equivalent",
            noise: "equivalence",
            goal: AT_LEAST_93,
            question: Question::Equivalence,
            ..PLANNED
        },
        Scenario {
            name: "equivalence, Ctrl-C",
            about: "the same, stopped at the worst moment",
            noise: "equivalence, Ctrl-C",
            goal: Some((0.95, 1.0)),
            question: Question::Equivalence,
            stop: Stop::AtTheWorst,
            ..PLANNED
        },
        Scenario {
            name: "drift, one after the other",
            about: "the drift again, all trials of one variant before those of the other",
            noise: "drift",
            goal: None,
            world: DRIFTING,
            order: Order::Sequential,
            ..PLANNED
        },
        Scenario {
            name: "AR(1), one after the other",
            about: "the wandering machine again, all trials of one variant before those of the other",
            noise: "AR(1)",
            goal: None,
            world: WANDERING,
            order: Order::Sequential,
            ..PLANNED
        },
        Scenario {
            name: "Ctrl-C, Student's interval",
            about: "the worst moment again, without the anytime-valid interval",
            noise: "Ctrl-C",
            goal: None,
            stop: Stop::AtTheWorstByStudent,
            ..PLANNED
        },
        Scenario {
            name: "starts that resemble each other",
            about: "beyond the promise: levels of successive starts correlate by 0.5",
            noise: "starts that resemble each other",
            goal: None,
            world: World { start: Start::Correlated { sd: 0.02, correlation: 0.5 }, ..NORMAL },
            ..PLANNED
        },
    ]
}

/// Plays every scenario `runs` times with a difference and `runs` times without.
pub fn run_all(runs: u32, seed: Seed) -> Vec<ScenarioResult> {
    scenarios().iter().map(|scenario| scenario.run(runs, seed)).collect()
}
