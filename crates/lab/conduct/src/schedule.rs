//! The schedule of a part's blocks: the plan's, adapted to what the calibration has shown and to the
//! time that is left.

use base::Nanos;
use drive::LearnedResponse;
use record::Offer;
use spec::Mode;

use crate::analyse;
use crate::block::SettledOffer;
use crate::calibrate::{Calibration, warmup_for};
use crate::pace::{Pace, service_times};

/// Minimum length of a slice, in mean service times of the slowest variant.
const SLICE_SERVICE_TIMES: f64 = 10.0;

/// Minimum length of a window, in mean service times of the slowest variant: two slices.
const WINDOW_SERVICE_TIMES: f64 = 2.0 * SLICE_SERVICE_TIMES;

/// Limit up to which windows are extended for slow requests, in a full and in a quick run.
const WINDOW_MAX: Nanos = Nanos::from_secs(30);
const QUICK_WINDOW_MAX: Nanos = Nanos::from_secs(10);

/// Warm-up if a variant never settled.
const WARM_UP_UNSETTLED: Nanos = Nanos::from_secs(1);

/// Limit of what is added to the schedule's warm-up.
const WARM_UP_MORE: Nanos = Nanos::from_secs(3);

/// Time per variant and block besides warm-up and windows: start, stop, and waiting for the
/// server-side count to settle.
const BLOCK_OVERHEAD: Nanos = Nanos::from_millis(700);
/// Windows are not shortened below this, or below four slices.
const WINDOW_MIN: Nanos = Nanos::from_millis(300);

/// Where windows are shortened, that of the load from which the primary metric is taken is this many
/// times as long as the others'.
const PRIMARY_WINDOWS: u64 = 2;

/// The schedule for a part that has `left` of its time, and the windows of loads from which the
/// primary metric is not taken. If that is too short for the pilot and one more block, the pilot has
/// fewer blocks, but enough for a verdict; if it is too short for those, windows are shorter. With
/// actions, windows keep their length.
///
/// A block's start and warm-up take the same time however long its windows are, so a few long
/// blocks measure more than many short ones.
pub(crate) fn schedule_within(
    plan: &spec::Part,
    variants: usize,
    left: Nanos,
) -> (spec::Schedule, Nanos) {
    let mut schedule = plan.schedule.clone();
    let (variants, offers) = (variants.max(1) as u64, plan.offers.len().max(1) as u64);
    let beside_windows = schedule.warmup + BLOCK_OVERHEAD;
    let block = (beside_windows + schedule.window * offers) * variants;
    let deciding = stats::DECIDING_BLOCKS_MIN as u32;
    let fit = (left.0 / block.0.max(1)).saturating_sub(1);
    let longest = schedule.window;
    if fit >= u64::from(schedule.pilot_blocks) {
        return (schedule, longest);
    }
    if schedule.one_slice {
        // Windows keep their length, because the moments of actions are given.
        schedule.pilot_blocks = (fit as u32).clamp(1, schedule.pilot_blocks);
        return (schedule, longest);
    }
    let fewest = deciding.min(schedule.pilot_blocks);
    schedule.pilot_blocks = (fit as u32).clamp(fewest, schedule.pilot_blocks);
    let per_variant = Nanos(left.0 / u64::from(schedule.pilot_blocks + 1) / variants);
    let windows = per_variant.saturating_sub(beside_windows);
    let shortest = WINDOW_MIN.max(schedule.slice * 4).min(longest);
    let other = Nanos(windows.0 / (offers - 1 + PRIMARY_WINDOWS)).max(shortest).min(longest);
    let primary = windows.saturating_sub(other * (offers - 1));
    schedule.window = primary.max(shortest).min(longest);
    (schedule, other)
}

/// The offers of a part with their rates and windows: `other_window` for those from which the primary
/// metric is not taken.
pub(crate) fn settle_offers(
    plan: &spec::Part,
    calibration: &Calibration,
    other_window: Nanos,
) -> Vec<SettledOffer> {
    let slowest =
        calibration.variants.iter().map(|c| c.capacity_per_s).fold(f64::INFINITY, f64::min);
    let primary = analyse::offer_of(plan, analyse::metric_of(plan.primary));
    let settle = |offer: &spec::Offer| {
        let (offer, mode) = match *offer {
            spec::Offer::Closed => (Offer::Closed, Mode::Closed),
            spec::Offer::OpenRate { rate_per_s, arrivals } => {
                (Offer::Open, Mode::Open { rate_per_s, arrivals })
            }
            spec::Offer::OpenShare { share, arrivals } => {
                (Offer::Open, Mode::Open { rate_per_s: share * slowest, arrivals })
            }
        };
        let sound = match mode {
            Mode::Open { rate_per_s, .. } => rate_per_s.is_finite() && rate_per_s >= 1.0,
            Mode::Closed => true,
        };
        let window = if offer == primary { plan.schedule.window } else { other_window };
        sound.then_some(SettledOffer { offer, mode, window })
    };
    plan.offers.iter().filter_map(settle).collect()
}

/// The schedule's slice, or a longer one for slow requests; at most half a window, so that each
/// variant has two slices.
fn settled_slice(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    let needed = service_times(plan, calibration, SLICE_SERVICE_TIMES);
    let schedule = &plan.schedule;
    schedule.slice.max(needed.min(Nanos(schedule.window.0 / 2)))
}

/// The offers with windows for at least two slices of this pace each, or as long as fits into the
/// time `per_variant` that a block has for each variant.
pub(crate) fn extended(
    offers: &[SettledOffer],
    pace: &Pace,
    warmup: Nanos,
    per_variant: Option<Nanos>,
) -> Vec<SettledOffer> {
    let wanted =
        |offer: &SettledOffer| offer.window.max((pace.slice(offer.offer) * 2).min(WINDOW_MAX));
    let sum = |of: &dyn Fn(&SettledOffer) -> Nanos| -> f64 {
        offers.iter().map(|offer| of(offer).as_secs_f64()).sum()
    };
    let (shortest_s, wanted_s) = (sum(&|offer| offer.window), sum(&wanted));
    let beside = warmup.max(pace.settling) + Nanos(pace.settling.0 / 2) + BLOCK_OVERHEAD;
    let room_s =
        per_variant.map_or(f64::INFINITY, |time| time.saturating_sub(beside).as_secs_f64());
    let share = ((room_s - shortest_s) / (wanted_s - shortest_s).max(1e-9)).clamp(0.0, 1.0);
    let lengthen = |offer: &SettledOffer| {
        let more = wanted(offer).saturating_sub(offer.window);
        SettledOffer { window: offer.window + Nanos((more.0 as f64 * share) as u64), ..*offer }
    };
    offers.iter().map(lengthen).collect()
}

/// 1.5 times the slowest variant's last change of level, or a second if a variant never settled, but at
/// least the schedule's warm-up and at most three seconds more.
pub(crate) fn warmup(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    let longer = settled_after(calibration).map(warmup_for);
    let shortest = plan.schedule.warmup;
    longer.unwrap_or(WARM_UP_UNSETTLED).clamp(shortest, shortest + WARM_UP_MORE)
}

/// The plan with each variant's response from the calibration, so that a stack which later responds
/// differently is detected.
pub(crate) fn with_learned(plan: &spec::Part, calibration: &Calibration) -> spec::Part {
    let mut plan = plan.clone();
    // The moments of actions are given.
    if !plan.schedule.one_slice {
        plan.schedule.window = settled_window(&plan, calibration);
        plan.schedule.slice = settled_slice(&plan, calibration);
    }
    for calibrated in &calibration.variants {
        let load = &mut plan.variants[calibrated.variant].load;
        if let Some(encoded) = &calibrated.encoded {
            load.clone_from(encoded);
        }
        if let Some(learned) = &calibrated.learned {
            expect_learned(load, learned);
        }
    }
    plan
}

/// Expects of each kind of request what was learned of it.
pub(crate) fn expect_learned(load: &mut spec::Load, learned: &LearnedResponse) {
    if load.kinds.is_empty() {
        remember(&mut load.expect, learned);
    }
    // Of a single kind, it is what was learned of all.
    let of_kinds = match learned.kinds.as_slice() {
        [] => std::slice::from_ref(learned),
        kinds => kinds,
    };
    for (kind, learned) in load.kinds.iter_mut().zip(of_kinds) {
        remember(&mut kind.expect, learned);
    }
}

/// Expects what was learned, except where something else was asked for.
fn remember(expect: &mut spec::Expect, learned: &LearnedResponse) {
    expect.status = expect.status.or(learned.status);
    if expect.body.is_none() && expect.length.is_none() {
        // What varied in the calibration is not learned again from three probes.
        expect.check = expect.check.or(Some(learned.check()));
        expect.length = learned.length;
        expect.body.clone_from(&learned.body);
    }
}

/// When the last variant settled; `None` if one never did.
pub(crate) fn settled_after(calibration: &Calibration) -> Option<Nanos> {
    let settled: Option<Vec<Nanos>> =
        calibration.variants.iter().map(|c| c.settled_after).collect();
    Some(settled?.into_iter().max().unwrap_or(Nanos::ZERO))
}

/// The schedule's window, or a longer one if it would contain only a few requests.
fn settled_window(plan: &spec::Part, calibration: &Calibration) -> Nanos {
    let needed = service_times(plan, calibration, WINDOW_SERVICE_TIMES);
    let longest = if plan.schedule.quick { QUICK_WINDOW_MAX } else { WINDOW_MAX };
    plan.schedule.window.max(needed.min(longest))
}
