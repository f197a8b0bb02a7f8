//! How single kinds of request compare, where the load has several.

use record::{KindComparison, Metric, Part, Trial};
use stats::{Sureness, Total};

use crate::analyse::{offer_of, trial_of};

/// The ratios of the mean times of each kind, from the blocks in which both variants were asked for it.
pub(crate) fn compare_kinds(
    plan: &spec::Part,
    part: &Part,
    sureness: Sureness,
) -> Vec<KindComparison> {
    let offer = offer_of(plan, Metric::P50);
    let kinds = part.load.kinds.len();
    let sureness = Sureness { alpha: sureness.alpha / kinds.max(1) as f64, ..sureness };
    let one = |contrast: &spec::Contrast, kind: usize| {
        let total = |trial: &Trial| {
            let times = &trial.kinds.get(kind)?.times;
            let count = times.count as f64;
            (count > 0.0).then_some(Total { amount: times.mean_ns * count, per: count })
        };
        let pairs: Vec<(Total, Total)> = part
            .complete_blocks()
            .filter_map(|block| {
                let of = |variant| total(trial_of(block, variant, offer)?);
                Some((of(contrast.baseline)?, of(contrast.variant)?))
            })
            .collect();
        let logs = stats::log_ratios_of_totals(&pairs).ok().filter(|logs| logs.len() >= 2)?;
        let pilot_blocks = (plan.schedule.pilot_blocks as usize).min(logs.len());
        Some(KindComparison {
            baseline: contrast.baseline as u32,
            variant: contrast.variant as u32,
            offer,
            kind: kind as u32,
            ratio: stats::level_of(&logs, pilot_blocks, sureness),
        })
    };
    let contrasts = plan.contrasts.iter();
    contrasts.flat_map(|contrast| (0..kinds).filter_map(move |kind| one(contrast, kind))).collect()
}
