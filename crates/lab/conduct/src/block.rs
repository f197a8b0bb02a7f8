//! One block: every variant started fresh, warmed, and loaded in slices in mirrored random order.

use std::sync::atomic::Ordering;

use base::{Nanos, Seed};
use drive::{LoopStart, Slice};
use rand::RngExt as _;
use record::{BlockState, Fact, Offer, Trial};
use spec::{Mode, Part};

use crate::error::StartError;
use crate::lead_in::{shortest_lead_in, slice_of};
use crate::machine_activity::kept_rounds;
use crate::pace::Pace;
use crate::running_variant::{RunningVariant, Setting, StartSeeds, VariantResult};
use crate::trial_sum::TrialSum;
use crate::watch::{Event, StackActivity, Watcher};

/// An offer with its rate and window determined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledOffer {
    pub(crate) offer: Offer,
    pub(crate) mode: Mode,
    /// Measured time per variant and block.
    pub(crate) window: Nanos,
}

/// Plan of a block.
pub(crate) struct BlockPlan<'a> {
    pub(crate) part: &'a Part,
    /// The variants in it: all except skipped ones.
    pub(crate) variants: Vec<usize>,
    pub(crate) offers: Vec<SettledOffer>,
    pub(crate) warmup: Nanos,
    pub(crate) pace: Pace,
    /// A request of each variant that takes longer than this is stalled.
    pub(crate) stalled_after: Vec<Nanos>,
    pub(crate) seed: Seed,
}

/// Result of a block.
pub(crate) struct BlockOutcome {
    pub(crate) order: Vec<u32>,
    pub(crate) ended: Vec<VariantResult>,
    /// Why the block ended early, if it did.
    pub(crate) failure: Option<BlockFailure>,
    pub(crate) interrupted: bool,
    /// Processes that ran outside their stack's CPUs, by variant.
    pub(crate) unpinned: Vec<(usize, String)>,
    /// The CPU frequency governors before and after, if they differ.
    pub(crate) governors: Option<(Vec<String>, Vec<String>)>,
}

/// The failure of a variant that ended a block.
pub(crate) struct BlockFailure {
    pub(crate) variant: usize,
    /// What happened, for the reader.
    pub(crate) fact: Fact,
}

impl BlockFailure {
    pub(crate) fn new(variant: usize, error: &StartError) -> BlockFailure {
        let words = base::redact(&error.to_string());
        let fact = match error {
            StartError::Far(far::FarError::Lost { .. }) => Fact::MachineLost { error: words },
            _ => Fact::StackFailed { error: words },
        };
        BlockFailure { variant, fact }
    }
}

impl BlockOutcome {
    pub(crate) fn state(&self) -> BlockState {
        match (self.interrupted, &self.failure) {
            (true, _) => BlockState::Interrupted,
            (false, Some(_)) => BlockState::Failed,
            (false, None) => BlockState::Complete,
        }
    }

    /// The trials of each variant, in the order of `ended`. Rounds in which others used more CPU
    /// time than usual are in the ledgers but in none of the figures; `resolved` says whether that
    /// can be measured for slices as short as these.
    pub(crate) fn trials(&self, resolved: bool) -> Vec<Vec<Trial>> {
        let closed = self.kept(Offer::Closed, resolved);
        let open = self.kept(Offer::Open, resolved);
        let kept = |offer: Offer, round: u32| {
            let rounds = match offer {
                Offer::Closed => &closed,
                Offer::Open => &open,
                Offer::WarmUp | Offer::Calibration => return true,
            };
            rounds.get(round as usize).copied().unwrap_or(true)
        };
        self.ended.iter().map(|ended| ended.trials(&kept)).collect()
    }

    /// The trials of all variants, before any round is left out.
    pub(crate) fn trial_sums(&self) -> impl Iterator<Item = &TrialSum> {
        self.ended.iter().flat_map(|ended| &ended.trial_sums)
    }

    /// Which rounds of an offer are kept. A round's size is the mean over its slices.
    pub(crate) fn kept(&self, offer: Offer, resolved: bool) -> Vec<bool> {
        let mut rounds: Vec<(f64, f64)> = Vec::new();
        for (round, taken) in self
            .trial_sums()
            .filter(|trial_sum| trial_sum.offer == offer)
            .flat_map(|trial_sum| trial_sum.taken_cpus())
        {
            let round = round as usize;
            rounds.resize(rounds.len().max(round + 1), (0.0, 0.0));
            rounds[round].0 += taken;
            rounds[round].1 += 1.0;
        }
        let means: Vec<f64> = rounds.iter().map(|(sum, n)| sum / n.max(1.0)).collect();
        if resolved { kept_rounds(&means) } else { vec![true; means.len()] }
    }
}

/// How much longer or shorter than the mean a slice may be, as a share of it.
const JITTER: f64 = 0.4;

/// The factors by which the rounds' slices differ from their mean length: random, and the same for
/// a round and its mirror image.
///
/// A server that does something after every so many requests, or every so many milliseconds, would
/// otherwise do it at the same moments of every slice: a window at a fixed position contains too
/// much or too little of it.
fn lengths(rounds: usize, rng: &mut base::Rng) -> Vec<f64> {
    let half: Vec<f64> =
        (0..rounds.div_ceil(2)).map(|_| rng.random_range(1.0 - JITTER..1.0 + JITTER)).collect();
    let all: Vec<f64> = (0..rounds).map(|round| half[round.min(rounds - 1 - round)]).collect();
    let mean = all.iter().sum::<f64>() / rounds.max(1) as f64;
    all.into_iter().map(|factor| factor / mean).collect()
}

/// The variants of `group` in mirrored random order, `slices` of each.
fn mirrored(group: &[usize], slices: u32, rng: &mut base::Rng) -> Vec<usize> {
    let order = stats::mirrored_order(group.len(), slices as usize, rng);
    order.into_iter().map(|place| group[place]).collect()
}

/// The variants of `group`, each once, in random order.
pub(crate) fn shuffled(group: &[usize], rng: &mut base::Rng) -> Vec<usize> {
    let mut order = mirrored(group, 2, rng);
    order.reverse();
    let mut seen = Vec::new();
    for v in order {
        if !seen.contains(&v) {
            seen.push(v);
        }
    }
    seen
}

/// Runs one block until it ends, fails or is interrupted. Every stack is stopped on return.
pub(crate) fn run_block(
    plan: &BlockPlan<'_>,
    around: &Setting<'_>,
    watcher: &mut dyn Watcher,
) -> BlockOutcome {
    let mut rng = plan.seed.rng("order");
    let schedule = &plan.part.schedule;
    let groups: Vec<Vec<usize>> = if schedule.isolated {
        shuffled(&plan.variants, &mut rng).into_iter().map(|v| vec![v]).collect()
    } else {
        vec![plan.variants.clone()]
    };
    let mut outcome = BlockOutcome {
        order: Vec::new(),
        ended: Vec::new(),
        failure: None,
        interrupted: false,
        unpinned: Vec::new(),
        governors: None,
    };
    let governors = host::governors();
    let groups_count = groups.len();
    for (i, group) in groups.into_iter().enumerate() {
        let mut progress = BlockProgress {
            watcher: &mut *watcher,
            done: 0.0,
            base: i as f64 / groups_count as f64,
            scale: 1.0 / groups_count as f64,
        };
        let mut all_running = Vec::new();
        let order = &mut outcome.order;
        let result =
            run_group(plan, around, &group, &mut rng, &mut all_running, order, &mut progress);
        let unpinned = |running: &RunningVariant| Some((running.variant, running.unpinned()?));
        outcome.unpinned.extend(all_running.iter().filter_map(unpinned));
        if let Err((variant, error)) = result {
            // A slice that the user stops is incomplete.
            if !around.stop.load(Ordering::Relaxed) {
                outcome.failure = Some(BlockFailure::new(variant, &error));
            }
        }
        outcome.interrupted |= around.stop.load(Ordering::Relaxed);
        outcome.ended.extend(end_all(all_running));
        // What actions cost one variant does not concern the others.
        let over = outcome.failure.is_some() && !schedule.one_slice;
        if outcome.interrupted || over {
            break;
        }
    }
    let governors_after = host::governors();
    outcome.governors = (governors != governors_after).then_some((governors, governors_after));
    outcome.ended.sort_by_key(|ended| ended.life.variant);
    outcome
}

/// Ends all variants at once: each waits until its server-side count settles and its processes are
/// gone.
pub(crate) fn end_all(all_running: Vec<RunningVariant>) -> Vec<VariantResult> {
    std::thread::scope(|scope| {
        let ending: Vec<_> =
            all_running.into_iter().map(|running| scope.spawn(move || running.end())).collect();
        let ended = ending.into_iter().map(|variant| match variant.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

fn run_group(
    plan: &BlockPlan<'_>,
    around: &Setting<'_>,
    group: &[usize],
    rng: &mut base::Rng,
    all_running: &mut Vec<RunningVariant>,
    loaded: &mut Vec<u32>,
    progress: &mut BlockProgress<'_>,
) -> Result<(), (usize, StartError)> {
    let variants = &plan.part.variants;
    // Stacks also start in random order, so that none is always the first to find cold caches.
    for v in shuffled(group, rng) {
        progress.report(StackActivity::Starting, &variants[v].name, 0.0);
        let independent = plan.part.schedule.independent_starts;
        let seeds = StartSeeds::in_block(plan.seed, v, independent);
        let running =
            RunningVariant::start(v, &variants[v], around, seeds).map_err(|error| (v, error))?;
        all_running.push(running);
        if around.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    let settling = |v: usize| !variants[v].is_one_way() && !plan.part.schedule.one_slice;
    let offers: Nanos = plan.offers.iter().fold(Nanos::ZERO, |sum, offer| sum + offer.window);
    let total = (plan.warmup + offers).0 as f64 * group.len() as f64;
    // The warm-up is interleaved like the load: two halves in mirrored order. Where requests are
    // long, it ends at a random moment of theirs.
    let longer = Nanos((plan.pace.settling.0 as f64 * rng.random::<f64>()) as u64);
    let half = Nanos((plan.warmup.max(plan.pace.settling) + longer).0 / 2);
    let mut begun = vec![false; variants.len()];
    for v in mirrored(group, 2, rng) {
        if half == Nanos::ZERO {
            break;
        }
        progress.report(StackActivity::WarmingUp, &variants[v].name, half.0 as f64 / total);
        let start = match (settling(v), std::mem::replace(&mut begun[v], true)) {
            (false, _) => LoopStart::Fresh,
            (true, false) => LoopStart::Spread(plan.pace.spread),
            (true, true) => LoopStart::Continued,
        };
        let slice = slice_of(&variants[v], Mode::Closed, start, half, plan.pace.lead_in);
        load(all_running, v, Offer::WarmUp, 0, &slice, around)?;
        if around.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    for offer in &plan.offers {
        let slice = plan.pace.slice(offer.offer).min(Nanos(offer.window.0 / 2));
        let slices = offer.window.0.div_ceil(slice.0.max(1)).max(1) as u32;
        let order = match plan.part.schedule.one_slice {
            true => shuffled(group, rng),
            false => mirrored(group, slices, rng),
        };
        let per_variant = order.len() / group.len();
        let mean = offer.window.0 as f64 / per_variant as f64;
        let lengths = lengths(per_variant, rng);
        for (i, v) in order.into_iter().enumerate() {
            loaded.push(v as u32);
            let round = i / group.len();
            let length = Nanos((mean * lengths[round]) as u64);
            progress.report(StackActivity::Loading, &variants[v].name, length.0 as f64 / total);
            let start = if settling(v) { LoopStart::Continued } else { LoopStart::Fresh };
            // A short round has as long a lead-in as the others.
            let mean = Nanos(mean as u64);
            let shortest = shortest_lead_in(offer.mode, start, mean);
            let lead_in = plan.pace.lead_in_of(offer.offer, mean).max(shortest);
            let mut slice = slice_of(&variants[v], offer.mode, start, length, lead_in);
            slice.stalled_after = Some(plan.stalled_after[v]);
            if plan.part.schedule.one_slice {
                (slice.lead_in, slice.window) = (Nanos::ZERO, length);
            }
            load(all_running, v, offer.offer, round as u32, &slice, around)?;
            if around.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn load(
    all_running: &mut [RunningVariant],
    v: usize,
    offer: Offer,
    round: u32,
    slice: &Slice,
    around: &Setting<'_>,
) -> Result<(), (usize, StartError)> {
    let running = all_running
        .iter_mut()
        .find(|running| running.variant == v)
        .expect("the order names only variants of the group, and all of them were started");
    running.load(offer, round, slice, around.meter).map_err(|error| (v, error))?;
    running.check_alive().map_err(|error| (v, error))
}

/// Reports a block's progress to the watcher.
struct BlockProgress<'a> {
    watcher: &'a mut dyn Watcher,
    done: f64,
    base: f64,
    scale: f64,
}

impl BlockProgress<'_> {
    /// Reports what begins now, and adds `share` to the progress.
    fn report(&mut self, what: StackActivity, variant: &str, share: f64) {
        let share_done = (self.base + self.scale * self.done).min(1.0);
        self.watcher.event(&Event::Doing { what, variant: variant.to_owned(), share_done });
        self.done += share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_as_long_as_its_mirror_image_and_all_last_as_long_as_planned() {
        for rounds in [1, 2, 7, 60] {
            let lengths = lengths(rounds, &mut Seed(1).rng("windows"));
            assert!((lengths.iter().sum::<f64>() - rounds as f64).abs() < 1e-9);
            assert!(lengths.iter().eq(lengths.iter().rev()), "{lengths:?}");
            assert!(lengths.iter().all(|factor| (0.4..1.7).contains(factor)), "{lengths:?}");
        }
        let many = lengths(60, &mut Seed(1).rng("windows"));
        assert!(many.iter().any(|factor| *factor < 0.75));
        assert!(many.iter().any(|factor| *factor > 1.25));
    }
}
