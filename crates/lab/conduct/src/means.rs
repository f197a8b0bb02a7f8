//! How mean times compare, of single kinds of request or of the parts of responses.

use record::{KindComparison, Metric, Part, StreamComparison, StreamPart, Trial};
use stats::{Estimate, Sureness, Total};

use crate::analyse::{offer_of, trial_of};

/// Ratios of means, from the blocks in which both variants have one: baseline, variant, the number of
/// the mean, and its ratio. The intervals of all `count` means hold together.
fn ratios(
    plan: &spec::Part,
    part: &Part,
    sureness: Sureness,
    count: usize,
    total: &dyn Fn(&Trial, usize) -> Option<Total>,
) -> Vec<(u32, u32, usize, Estimate)> {
    let offer = offer_of(plan, Metric::P50);
    let sureness = Sureness { alpha: sureness.alpha / count.max(1) as f64, ..sureness };
    let one = |contrast: &spec::Contrast, mean: usize| {
        let pairs: Vec<(Total, Total)> = part
            .complete_blocks()
            .filter_map(|block| {
                let of = |variant| total(trial_of(block, variant, offer)?, mean);
                Some((of(contrast.baseline)?, of(contrast.variant)?))
            })
            .collect();
        let logs = stats::log_ratios_of_totals(&pairs).ok().filter(|logs| logs.len() >= 2)?;
        let pilot_blocks = (plan.schedule.pilot_blocks as usize).min(logs.len());
        let ratio = stats::level_of(&logs, pilot_blocks, sureness);
        Some((contrast.baseline as u32, contrast.variant as u32, mean, ratio))
    };
    let contrasts = plan.contrasts.iter();
    contrasts.flat_map(|contrast| (0..count).filter_map(move |mean| one(contrast, mean))).collect()
}

fn total(times: &record::Distribution) -> Option<Total> {
    let count = times.count as f64;
    (count > 0.0).then_some(Total { amount: times.mean_ns * count, per: count })
}

/// The ratios of the mean times of each kind of request.
pub(crate) fn compare_kinds(
    plan: &spec::Part,
    part: &Part,
    sureness: Sureness,
) -> Vec<KindComparison> {
    let of = |trial: &Trial, kind: usize| total(&trial.kinds.get(kind)?.times);
    let offer = offer_of(plan, Metric::P50);
    ratios(plan, part, sureness, part.load.kinds.len(), &of)
        .into_iter()
        .map(|(baseline, variant, kind, ratio)| KindComparison {
            baseline,
            variant,
            offer,
            kind: kind as u32,
            ratio,
        })
        .collect()
}

/// The ratios of the mean times to the first byte, to the first event, and between events.
pub(crate) fn compare_streams(
    plan: &spec::Part,
    part: &Part,
    sureness: Sureness,
) -> Vec<StreamComparison> {
    let of =
        |trial: &Trial, mean: usize| total(trial.stream.as_ref()?.times(StreamPart::ALL[mean]));
    let offer = offer_of(plan, Metric::P50);
    ratios(plan, part, sureness, StreamPart::ALL.len(), &of)
        .into_iter()
        .map(|(baseline, variant, mean, ratio)| StreamComparison {
            baseline,
            variant,
            offer,
            part: StreamPart::ALL[mean],
            ratio,
        })
        .collect()
}
