//! What the blocks of a search say together.

use std::collections::BTreeSet;

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
        let d: Vec<f64> = values
            .map(|(a, b)| a.iter().filter_map(|(block, a)| Some(b.get(block)? - a)).collect())
            .unwrap_or_default();
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
    // All trials of a variant in a block may have been disturbed.
    let blocks = points.iter().map(|point| point.block).collect::<BTreeSet<u32>>().len();
    if blocks < BLOCKS_MIN {
        return None;
    }
    let critical = match interrupted {
        true => {
            let values = stats::pseudo_values(&points, &limits)?;
            anytime(&values.into_values().collect::<Vec<f64>>(), 1.0 - confidence)
        }
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

#[cfg(test)]
mod tests {
    use base::Nanos;
    use record::{Block, BlockState, Capacity};

    use super::*;

    /// Eight blocks of a server of this capacity; block 2 has no trial of it that counts.
    fn part_of(capacities: &[f64], disturbed: Option<usize>) -> Part {
        let mut capacity = Capacity {
            conditions: vec![Condition::Latency { quantile: 0.99, limit: Nanos::from_millis(50) }],
            ..Capacity::default()
        };
        let mut part = Part::default();
        for number in 1..=8 {
            part.blocks.push(Block::new(number, base::timestamp_now(), BlockState::Complete));
            for (variant, at) in capacities.iter().enumerate() {
                for (round, near) in [0.97, 1.0, 1.03].into_iter().enumerate() {
                    let offered_per_s = at * near * (1.0 + 0.001 * f64::from(number));
                    let odds = 0.01 / 0.99 * (offered_per_s / at).powf(40.0);
                    let due = 10_000;
                    capacity.trials.push(CapacityTrial {
                        variant: variant as u32,
                        block: number,
                        round: round as u32,
                        offered_per_s,
                        lead_in: Nanos::ZERO,
                        window: Nanos::from_secs(10),
                        due,
                        slow: Some((due as f64 * odds / (1.0 + odds)) as u64),
                        offered: due,
                        failed: 0,
                        answered: due,
                        cpu: None,
                        p50_ns: 1,
                        tail_ns: 1,
                        holds: offered_per_s <= *at,
                        kept: (number, Some(variant)) != (2, disturbed),
                        connections_busy: false,
                        client: None,
                    });
                }
            }
        }
        part.capacity = Some(capacity);
        part
    }

    fn found(part: &Part, variant: usize) -> (Estimate, u32) {
        match outcome(part, variant, 0.95, false) {
            Some(CapacityOutcome::Found { per_s, blocks, .. }) => (per_s, blocks),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_capacity_is_where_the_limit_is_crossed() {
        let (per_s, blocks) = found(&part_of(&[900.0], None), 0);
        assert!((per_s.value / 900.0 - 1.0).abs() < 0.005, "{per_s:?}");
        assert_eq!(blocks, 8);
    }

    #[test]
    fn a_block_whose_trials_were_disturbed_is_missing_for_that_variant_alone() {
        let part = part_of(&[900.0, 990.0], Some(0));
        assert_eq!((found(&part, 0).1, found(&part, 1).1), (7, 8));
        let blocks = |variant| {
            let values = stats::pseudo_values(&points(&part, variant), &limits(&part)).unwrap();
            values.into_keys().collect::<Vec<u32>>()
        };
        assert_eq!(blocks(0), [1, 3, 4, 5, 6, 7, 8]);
        assert_eq!(blocks(1).len(), 8);
    }

    #[test]
    fn a_client_that_limits_most_failing_trials_is_the_result() {
        let mut part = part_of(&[900.0], None);
        let limit = record::ClientLimit::Busy { share: 0.99 };
        let trials = &mut part.capacity.as_mut().unwrap().trials;
        trials.iter_mut().filter(|t| !t.holds).for_each(|trial| trial.client = Some(limit));
        let Some(CapacityOutcome::ClientLimited { held_per_s, per_s, .. }) =
            outcome(&part, 0, 0.95, false)
        else {
            panic!("the client is the limit");
        };
        assert!(held_per_s.unwrap() <= 900.0 && per_s > 900.0);
    }

    #[test]
    fn who_has_seen_the_data_gets_a_wider_interval() {
        let part = part_of(&[900.0], None);
        let width = |interrupted| match outcome(&part, 0, 0.95, interrupted) {
            Some(CapacityOutcome::Found { per_s, .. }) => per_s.high / per_s.low,
            other => panic!("{other:?}"),
        };
        assert!(width(true) > width(false));
    }
}
