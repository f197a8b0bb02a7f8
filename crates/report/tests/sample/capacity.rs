//! Runs of `capacity`.

use super::*;

/// Two servers, of which the second takes 5% more; the first has a block in which others were busy.
pub(crate) fn capacity() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-130000-capacity".to_owned());
    run.kind = RunKind::Capacity;
    run.title = "tcp vs unix".to_owned();
    run.question = "At which rates does the condition stop holding?".to_owned();
    let part = &mut run.parts[0];
    part.findings.clear();
    part.question.clone_from(&run.question);
    part.comparisons.truncate(1);
    part.comparisons[0].offer = Offer::Open;
    let conditions = vec![
        Condition::Latency { quantile: 0.99, limit: Nanos::from_millis(50) },
        Condition::Errors { share: 0.001 },
    ];
    let mut all = Capacity { conditions, ..Capacity::default() };
    for (variant, capacity) in [(0, 908.0), (1, 955.0)] {
        let mut add = |block: u32, round: u32, rate: f64| {
            let over = (rate / capacity).powi(40);
            let tail = 4e6 + 46e6 * over.min(20.0);
            let slow = (9.0 * over) as u64;
            all.trials.push(CapacityTrial {
                variant,
                block,
                round,
                offered_per_s: rate,
                lead_in: Nanos::from_millis(500),
                window: Nanos::from_millis(2000),
                due: (2.0 * rate) as u64,
                slow: Some(slow.min((2.0 * rate) as u64)),
                offered: (2.5 * rate) as u64,
                failed: u64::from(over > 5.0),
                answered: (2.0 * rate) as u64,
                cpu: Some(rate / 1100.0),
                p50_ns: 2_000_000 + (over.min(20.0) * 1e6) as u64,
                tail_ns: tail as u64,
                holds: rate < capacity,
                kept: (block, variant) != (3, 0),
                connections_busy: false,
                client: None,
            });
        };
        for (round, rate) in [300.0, 600.0, 1200.0, 850.0, 1010.0].into_iter().enumerate() {
            add(0, round as u32, rate);
        }
        for block in 1..=8 {
            for (round, at) in [0.97, 1.0, 1.03].into_iter().enumerate() {
                add(block, round as u32, capacity * at * (1.0 + 0.002 * f64::from(block)));
            }
        }
        let per_s = Estimate { value: capacity, low: 0.97 * capacity, high: 1.02 * capacity };
        let outcome = CapacityOutcome::Found { per_s, by: 0, blocks: 8, anytime: false };
        let connections_busy = if variant == 1 { [5, 6] } else { [0, 6] };
        all.variants.push(VariantCapacity { variant, outcome, connections_busy });
    }
    part.capacity = Some(all);
    run
}

/// One server that the client could not load as it was to.
pub(crate) fn capacity_limited() -> Run {
    let mut run = capacity();
    run.id = RunId("20261121-131000-limited".to_owned());
    let part = &mut run.parts[0];
    part.comparisons.clear();
    part.variants.truncate(1);
    for block in &mut part.blocks {
        block.trials.retain(|trial| trial.variant == 0);
        block.lives.retain(|life| life.variant == 0);
        block.order.retain(|variant| *variant == 0);
    }
    let all = part.capacity.as_mut().unwrap();
    all.variants.truncate(1);
    all.trials.retain(|trial| trial.variant == 0);
    let limit = ClientLimit::Late { share: 0.04 };
    all.trials[2].client = Some(limit);
    all.variants[0].outcome =
        CapacityOutcome::ClientLimited { held_per_s: Some(850.0), per_s: 1200.0, limit };
    run
}
