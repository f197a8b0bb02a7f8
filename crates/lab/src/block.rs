//! One block: every variant started fresh, warmed, and loaded in slices in mirrored random order.

use std::sync::atomic::Ordering;

use base::{Nanos, Seed};
use drive::Slice;
use rand::RngExt as _;
use spec::{Mode, Part};

use crate::resident::{Ended, Resident, StartError, Surroundings, WARM_UP};
use crate::watch::{Event, Watcher};

/// One offer with its rate settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledOffer {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
}

/// What a block is to do.
pub(crate) struct BlockPlan<'a> {
    pub(crate) part: &'a Part,
    /// Variants that take part: all but the skipped ones.
    pub(crate) variants: Vec<usize>,
    pub(crate) offers: Vec<SettledOffer>,
    pub(crate) warmup: Nanos,
    /// How long a loop takes until it holds as many long requests as it ever will.
    pub(crate) settling: Nanos,
    pub(crate) seed: Seed,
}

/// What a block came to.
pub(crate) struct BlockOutcome {
    pub(crate) order: Vec<u32>,
    pub(crate) ended: Vec<Ended>,
    /// Something that a stack or the client could not do: the block does not count.
    pub(crate) trouble: Vec<Trouble>,
    pub(crate) interrupted: bool,
    pub(crate) throttled: bool,
    /// Processes that left the CPUs of their stack.
    pub(crate) unpinned: Vec<String>,
    /// The CPU frequency governors before and after, where they differ.
    pub(crate) governors: Option<(Vec<String>, Vec<String>)>,
}

/// A variant that failed to take part in a block.
pub(crate) struct Trouble {
    pub(crate) variant: usize,
    pub(crate) sentence: String,
}

/// The share of a slice that is loaded but not measured, while caches and queues fill again.
pub(crate) const LEAD_IN_SHARE: f64 = 0.12;

/// How long answers in flight are waited for after a slice; the load's own timeout bounds it too.
fn drain_of(variant: &spec::Variant) -> Nanos {
    variant.load.timeout
}

pub(crate) fn slice_of(variant: &spec::Variant, mode: Mode, length: Nanos) -> Slice {
    let lead_in = Nanos((length.0 as f64 * LEAD_IN_SHARE) as u64);
    Slice { mode, lead_in, window: length - lead_in, requests: None, drain: drain_of(variant) }
}

/// Shortens the window by twice `cycle`, of which a random part is loaded before it.
///
/// A loop begins in the same way in every slice, and a server that does something every so many
/// requests then does it at the same moments of every slice. A window that begins or ends at a
/// fixed moment would always hold too much of that or too little; one that is placed
/// anywhere in a cycle, with equal chances, holds on average what there is. The sum of two equal
/// chances does so even where `cycle`, a service time, is a little less than the true cycle.
fn place_at_random(slice: &mut Slice, cycle: Nanos, rng: &mut base::Rng) {
    let room = (cycle * 2).min(Nanos(slice.window.0 / 2));
    slice.window = slice.window - room;
    let share = (rng.random::<f64>() + rng.random::<f64>()) / 2.0;
    slice.lead_in += Nanos((room.0 as f64 * share) as u64);
}

/// The variants of `group` in mirrored random order, `slices` of each.
fn mirrored(group: &[usize], slices: u32, rng: &mut base::Rng) -> Vec<usize> {
    let order = stats::mirrored_order(group.len(), slices as usize, rng);
    order.into_iter().map(|place| group[place]).collect()
}

/// The variants of `group`, each once, in random order.
fn shuffled(group: &[usize], rng: &mut base::Rng) -> Vec<usize> {
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

/// Runs one block to its end, or until it cannot go on or is interrupted. Every stack is stopped on return.
pub(crate) fn run_block(
    plan: &BlockPlan<'_>,
    around: &Surroundings<'_>,
    watcher: &mut dyn Watcher,
) -> BlockOutcome {
    let mut rng = plan.seed.rng("order");
    let schedule = &plan.part.schedule;
    let slices = (schedule.window.0).div_ceil(schedule.slice.0).max(1) as u32;
    let groups: Vec<Vec<usize>> = if schedule.isolated {
        shuffled(&plan.variants, &mut rng).into_iter().map(|v| vec![v]).collect()
    } else {
        vec![plan.variants.clone()]
    };
    let mut outcome = BlockOutcome {
        order: Vec::new(),
        ended: Vec::new(),
        trouble: Vec::new(),
        interrupted: false,
        throttled: false,
        unpinned: Vec::new(),
        governors: None,
    };
    let governors = host::governors();
    let groups_count = groups.len();
    for (i, group) in groups.into_iter().enumerate() {
        let mut progress = Progress {
            watcher: &mut *watcher,
            done: 0.0,
            base: i as f64 / groups_count as f64,
            scale: 1.0 / groups_count as f64,
        };
        let mut residents = Vec::new();
        let result = run_group(
            plan,
            around,
            &group,
            slices,
            &mut rng,
            &mut residents,
            &mut outcome,
            &mut progress,
        );
        outcome.throttled |= residents.iter().any(|resident| resident.throttled() > 0);
        outcome.unpinned.extend(residents.iter().filter_map(Resident::unpinned));
        if let Err(trouble) = result {
            // A person who stops the run makes the slice fall short; that is nobody's fault.
            if !around.stop.load(Ordering::Relaxed) {
                outcome.trouble.push(trouble);
            }
        }
        outcome.interrupted |= around.stop.load(Ordering::Relaxed);
        while let Some(resident) = residents.pop() {
            outcome.ended.push(resident.end());
        }
        if outcome.interrupted || !outcome.trouble.is_empty() {
            break;
        }
    }
    let governors_after = host::governors();
    outcome.governors = (governors != governors_after).then_some((governors, governors_after));
    outcome.ended.sort_by_key(|ended| ended.life.variant);
    outcome
}

#[expect(clippy::too_many_arguments, reason = "the state of a block, passed once")]
fn run_group(
    plan: &BlockPlan<'_>,
    around: &Surroundings<'_>,
    group: &[usize],
    slices: u32,
    rng: &mut base::Rng,
    residents: &mut Vec<Resident>,
    outcome: &mut BlockOutcome,
    progress: &mut Progress<'_>,
) -> Result<(), Trouble> {
    let variants = &plan.part.variants;
    let schedule = &plan.part.schedule;
    // Stacks start in random order too, so that none is always the first to find its caches cold.
    for v in shuffled(group, rng) {
        progress.says("starting", &variants[v].name, 0.0);
        let seed = plan.seed.derive("variant", v as u64);
        let resident = Resident::start(v, &variants[v], around, seed)
            .map_err(|error| trouble(v, &variants[v].name, &error))?;
        residents.push(resident);
        if around.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    let total = plan.warmup.0 as f64 * group.len() as f64
        + plan.offers.len() as f64 * schedule.window.0 as f64 * group.len() as f64;
    // The warm-up is interleaved like the load: two halves in mirrored order.
    let half = Nanos(plan.warmup.0 / 2);
    for v in mirrored(group, 2, rng) {
        if half == Nanos::ZERO {
            break;
        }
        progress.says("warming", &variants[v].name, half.0 as f64 / total);
        let slice = slice_of(&variants[v], Mode::Closed, half);
        load(residents, v, variants, WARM_UP, &slice)?;
        if around.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    for offer in &plan.offers {
        let order = mirrored(group, slices, rng);
        let per_variant = order.len() / group.len();
        let length = Nanos(schedule.window.0 / per_variant as u64);
        for v in order {
            outcome.order.push(v as u32);
            progress.says("loading", &variants[v].name, length.0 as f64 / total);
            let mut slice = slice_of(&variants[v], offer.mode, length);
            place_at_random(&mut slice, plan.settling, rng);
            load(residents, v, variants, offer.name, &slice)?;
            if around.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn load(
    residents: &mut [Resident],
    v: usize,
    variants: &[spec::Variant],
    offer: &'static str,
    slice: &Slice,
) -> Result<(), Trouble> {
    let resident = residents
        .iter_mut()
        .find(|resident| resident.variant == v)
        .expect("the order names only variants of the group, and all of them were started");
    resident.load(offer, slice).map_err(|error| trouble(v, &variants[v].name, &error))?;
    resident.check_alive().map_err(|error| trouble(v, &variants[v].name, &error.into()))
}

fn trouble(variant: usize, name: &str, error: &StartError) -> Trouble {
    Trouble { variant, sentence: format!("{name}: {error}") }
}

/// Tells the watcher how far a block has come.
struct Progress<'a> {
    watcher: &'a mut dyn Watcher,
    done: f64,
    base: f64,
    scale: f64,
}

impl Progress<'_> {
    /// Says what begins now, and books `share` of the block for it.
    fn says(&mut self, what: &'static str, variant: &str, share: f64) {
        let share_done = (self.base + self.scale * self.done).min(1.0);
        self.watcher.event(&Event::Doing { what, variant: variant.to_owned(), share_done });
        self.done += share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_one_length_lie_anywhere_in_their_slice() {
        let mut rng = Seed(1).rng("windows");
        let (length, cycle) = (Nanos::from_millis(100), Nanos::from_millis(10));
        let mut begins = Vec::new();
        for _ in 0..1_000 {
            let lead_in = Nanos::from_millis(12);
            let window = length - lead_in;
            let mut slice =
                Slice { mode: Mode::Closed, lead_in, window, requests: None, drain: length };
            place_at_random(&mut slice, cycle, &mut rng);
            assert_eq!(slice.window, Nanos::from_millis(68));
            assert!(slice.lead_in + slice.window <= length);
            begins.push(slice.lead_in.0 as f64 / 1e6);
        }
        let mean = begins.iter().sum::<f64>() / begins.len() as f64;
        // 12 + 20 ÷ 2, within four standard errors of the sum of two uniform distributions.
        assert!((mean - 22.0).abs() < 4.0 * 10.0 / 6f64.sqrt() / 1000f64.sqrt(), "{mean}");
    }

    #[test]
    fn half_of_a_window_is_left_however_long_requests_are() {
        let mut slice = Slice {
            mode: Mode::Closed,
            lead_in: Nanos(12),
            window: Nanos(88),
            requests: None,
            drain: Nanos::ZERO,
        };
        place_at_random(&mut slice, Nanos(1_000), &mut Seed(1).rng("windows"));
        assert_eq!(slice.window, Nanos(44));
    }
}
