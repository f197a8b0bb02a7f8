//! What the blocks of a search say together.

use record::{
    CapacityOutcome, CapacityTrial, Comparison, Condition, Metric, Offer, Part, VariantCapacity,
};
use stats::{
    Aim, BetterDirection, Estimate, Evidence, Margins, RatePoint, Spread, anytime_half_width,
    judge, t_quantile,
};

use super::trial::point;
use crate::analyse::add_up_ledgers;
use crate::validity::forbidding;

/// With fewer blocks there is no interval.
const BLOCKS_MIN: usize = 3;
/// The client limits a search if it limited more than this share of the trials that did not hold.
const CLIENT_SHARE: f64 = 0.5;
/// Trials are near the capacity if their rates differ from it by at most this share.
const NEAR: f64 = 0.15;

/// Completes a part: the capacity of each variant, and the ratios to the first. `outcomes` is what is
/// known without any block.
pub(super) fn conclude(
    plan: &spec::Part,
    part: &mut Part,
    outcomes: Vec<(usize, CapacityOutcome)>,
    pilot_blocks: usize,
    interrupted: bool,
) {
    add_up_ledgers(part);
    let confidence = plan.schedule.confidence;
    let mut variants = Vec::new();
    for (variant, without) in outcomes {
        let found = outcome(part, variant, confidence, interrupted);
        let outcome = match without {
            // The blocks know better than a bracket that found levels or had no time.
            CapacityOutcome::Undecided { held_per_s, failed_per_s } => {
                found.unwrap_or(CapacityOutcome::Undecided { held_per_s, failed_per_s })
            }
            end => end,
        };
        let connections_busy = connections_busy(part, variant, &outcome);
        variants.push(VariantCapacity { variant: variant as u32, outcome, connections_busy });
    }
    let capacities: Vec<(usize, Estimate)> = variants
        .iter()
        .filter_map(|found| match &found.outcome {
            CapacityOutcome::Found { per_s, .. } => Some((found.variant as usize, *per_s)),
            _ => None,
        })
        .collect();
    if let Some(capacity) = &mut part.capacity {
        capacity.variants = variants;
    }
    let adjusted_for = plan.contrasts.len().max(1) as u32;
    let aim = Aim { precision: plan.schedule.precision, confidence, adjusted_for };
    for contrast in &plan.contrasts {
        let of = |v: usize| capacities.iter().find(|(variant, _)| *variant == v);
        let (Some((_, baseline)), Some((_, variant))) =
            (of(contrast.baseline), of(contrast.variant))
        else {
            continue;
        };
        let [a, b] = [contrast.baseline, contrast.variant].map(|v| points(part, v));
        let limits = limits(part);
        let values = stats::pseudo_values(&a, &limits).zip(stats::pseudo_values(&b, &limits));
        let d: Vec<f64> =
            values.map(|(a, b)| a.iter().zip(&b).map(|(a, b)| b - a).collect()).unwrap_or_default();
        let sides = [contrast.baseline as u32, contrast.variant as u32];
        let because = forbidding(part, sides, Metric::Throughput, Offer::Open);
        let judgement = judge(&Evidence {
            d: &d,
            interval: Some(variant.relative_to(baseline)),
            pilot_blocks: pilot_blocks.min(d.len()),
            aim,
            margin: plan.schedule.margin.map(|margin| margin.0),
            better: BetterDirection::Higher,
            interrupted,
            invalid: !because.is_empty(),
            biases: &[],
            margins: Margins::default(),
        });
        part.comparisons.push(Comparison {
            baseline: sides[0],
            variant: sides[1],
            metric: Metric::Throughput,
            offer: Offer::Open,
            primary: true,
            judgement,
            because,
        });
    }
}

fn limits(part: &Part) -> Vec<f64> {
    conditions(part).iter().map(|condition| condition.limit()).collect()
}

fn conditions(part: &Part) -> &[Condition] {
    part.capacity.as_ref().map_or(&[], |capacity| &capacity.conditions)
}

/// The trials of a variant in complete blocks, without those that others disturbed.
fn trials(part: &Part, variant: usize) -> impl Iterator<Item = &CapacityTrial> {
    let complete = |block: u32| part.complete_blocks().any(|known| known.index == block);
    let all = part.capacity.iter().flat_map(|capacity| &capacity.trials);
    all.filter(move |trial| {
        trial.kept && trial.variant as usize == variant && complete(trial.block)
    })
}

/// The same as the estimate takes them.
pub(super) fn points(part: &Part, variant: usize) -> Vec<RatePoint> {
    trials(part, variant).map(|trial| point(trial, conditions(part))).collect()
}

/// What the blocks say about a variant, if there are enough.
fn outcome(
    part: &Part,
    variant: usize,
    confidence: f64,
    interrupted: bool,
) -> Option<CapacityOutcome> {
    let failed: Vec<&CapacityTrial> = trials(part, variant).filter(|trial| !trial.holds).collect();
    let limited: Vec<&&CapacityTrial> =
        failed.iter().filter(|trial| trial.client.is_some()).collect();
    if limited.len() as f64 > CLIENT_SHARE * failed.len() as f64
        && let Some(lowest) =
            limited.iter().min_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s))
    {
        let held = trials(part, variant).filter(|trial| trial.holds);
        let held = held.map(|trial| trial.offered_per_s).max_by(f64::total_cmp);
        return Some(CapacityOutcome::ClientLimited {
            held_per_s: held,
            per_s: lowest.offered_per_s,
            limit: lowest.client?,
        });
    }
    let points = points(part, variant);
    let limits = limits(part);
    let blocks = part.complete_blocks().count();
    if blocks < BLOCKS_MIN {
        return None;
    }
    let critical = match interrupted {
        true => anytime(&stats::pseudo_values(&points, &limits)?, 1.0 - confidence),
        false => t_quantile(1.0 - confidence, blocks - 1),
    };
    let (per_s, crossing) = stats::capacity(&points, &limits, critical)?;
    Some(CapacityOutcome::Found {
        per_s,
        by: crossing.condition as u32,
        blocks: blocks as u32,
        anytime: interrupted,
    })
}

/// The critical value for a person who has seen the data.
fn anytime(values: &[f64], alpha: f64) -> f64 {
    let Some(spread) = Spread::of(values) else { return f64::INFINITY };
    let half = anytime_half_width(&spread, alpha) / spread.standard_error;
    if half.is_nan() { f64::INFINITY } else { half }
}

/// Trials near the capacity that used all allowed connections, and all trials near it.
fn connections_busy(part: &Part, variant: usize, outcome: &CapacityOutcome) -> [u32; 2] {
    let CapacityOutcome::Found { per_s, .. } = outcome else { return [0, 0] };
    let near: Vec<&CapacityTrial> = trials(part, variant)
        .filter(|trial| (trial.offered_per_s / per_s.value - 1.0).abs() <= NEAR)
        // Above the capacity the queue fills any number of connections.
        .filter(|trial| trial.offered_per_s <= per_s.value)
        .collect();
    let busy = near.iter().filter(|trial| trial.connections_busy).count();
    [busy as u32, near.len() as u32]
}
