//! From a part of a run to the data of its charts.

use hdrhistogram::Histogram;
use record::{Comparison, Metric, Offer, Part, Run, Trial};
use stats::{Estimate, Verdict};

use crate::chart::{
    AxisFormat, Curve, Dot, Dots, Forest, ForestRow, Level, Quantiles, Strip, Strips,
};
use crate::text::{self, time};
use crate::{caveat, figures, setting, validity, verdict, view};

/// The legend of a forest plot.
pub(super) fn forest_words(data: &Forest) -> String {
    let published = data.rows.iter().any(|row| row.published.is_some());
    let diamond = if published { " The open diamond is the published ratio." } else { "" };
    let few = data.rows.iter().any(|row| row.value.is_finite() && row.bounds() == [None, None]);
    let few = if few { " A mark without a line has too few blocks for an interval." } else { "" };
    let arrow = arrow_words(data);
    let invalid = data.rows.iter().any(|row| row.invalid && row.value.is_finite());
    let invalid = if invalid { " Struck-out names are INVALID." } else { "" };
    format!(
        "Marks are estimates, lines their intervals; the vertical line is 1, no difference.{few}{arrow}{diamond}{invalid}"
    )
}

/// Explains arrows; empty without any.
pub(super) fn arrow_words(data: &Forest) -> &'static str {
    let arrow = data.rows.iter().any(|row| row.bounds().iter().flatten().count() == 1);
    if arrow { " An arrow is an end without a bound." } else { "" }
}

/// The ratios of these comparisons.
pub(crate) fn forest(part: &Part, comparisons: &[&Comparison]) -> Forest {
    let rows: Vec<ForestRow> = comparisons.iter().map(|c| forest_row(part, c)).collect();
    let one_baseline = comparisons.windows(2).all(|w| w[0].baseline == w[1].baseline);
    let baseline = match comparisons.first() {
        Some(first) if one_baseline => crate::text::fit(view::name(part, first.baseline), 28),
        _ => "the other".to_owned(),
    };
    let primary = comparisons.iter().all(|c| c.metric == Metric::Throughput);
    let metric = match comparisons.first() {
        Some(first) if primary && !part.is_bulk() && first.primary => "Requests per second",
        Some(first) if primary && part.is_bulk() && first.primary => "Bytes per second",
        Some(first) if comparisons.len() == 1 => setting::metric(first.metric, part.is_bulk()),
        _ => "Ratios",
    };
    let (below, above) =
        if primary { ("slower than", "faster than") } else { ("less than", "more than") };
    Forest {
        title: format!("{metric}, relative to {baseline}"),
        description: described(&rows),
        below: format!("{below} {baseline}"),
        above: format!("{above} {baseline}"),
        rows,
    }
}

/// The ratios of a forest plot in words.
pub(super) fn described(rows: &[ForestRow]) -> String {
    rows.iter().map(|row| format!("{}: {}", row.label, row.words)).collect::<Vec<_>>().join(". ")
}

fn forest_row(part: &Part, comparison: &Comparison) -> ForestRow {
    let metric = setting::metric(comparison.metric, part.is_bulk());
    let name = view::name(part, comparison.variant);
    let label = if comparison.primary { name.to_owned() } else { format!("{metric}, {name}") };
    let invalid = validity::is_refused(comparison);
    let few = verdict::too_few(comparison);
    let words = match invalid {
        true => "INVALID".to_owned(),
        false if few => verdict::ratio_in_words(comparison),
        false => format!("{} {}", verdict::ratio_in_words(comparison), short(comparison)),
    };
    let words = caveat::marked(part, comparison, words);
    let ratio = &comparison.judgement.ratio;
    ForestRow {
        label,
        words,
        value: ratio.value,
        low: if few { f64::NAN } else { ratio.low },
        high: if few { f64::NAN } else { ratio.high },
        series: comparison.variant as usize,
        published: view::published_ratio(part, comparison).map(|(ratio, _)| ratio),
        invalid,
    }
}

fn short(comparison: &Comparison) -> &'static str {
    match comparison.judgement.verdict {
        Verdict::NoDifference => "no difference",
        _ => verdict::in_short(comparison),
    }
}

/// A variant's name beside its latencies, marked if these cannot be compared.
fn timed_name(part: &Part, variant: usize) -> String {
    let name = &part.variants[variant].name;
    match caveat::is_unsustained(part, variant) {
        true => format!("{name} {}", caveat::UNSUSTAINED),
        false => name.clone(),
    }
}

fn capacity_offer(part: &Part) -> Offer {
    let measured = (0..part.variants.len()).find_map(|index| view::capacity(part, index));
    measured.map_or(Offer::Closed, |summary| summary.offer)
}

/// An estimate to draw: without its interval if there are too few blocks or nothing bounds it; an
/// end without a bound is infinite, or NaN below.
pub(super) fn shown(part: &Part, e: Estimate) -> Estimate {
    let [low, high] = match text::bounds(&e) {
        [None, None] => [e.value; 2],
        _ if view::few_blocks(part) => [e.value; 2],
        [low, high] => [low.unwrap_or(f64::NAN), high.unwrap_or(f64::INFINITY)],
    };
    Estimate { low, high, ..e }
}

/// Throughput of every trial by block; `None` without any.
pub(crate) fn throughput_dots(part: &Part) -> Option<Dots> {
    let figure = |trial: &Trial| match part.is_bulk() {
        true => trial.payload_bytes as f64 / trial.window.as_secs_f64() / 1e9,
        false => trial.throughput_per_s(),
    };
    let level = |variant: usize| {
        let scale = if part.is_bulk() { 1e-9 } else { 1.0 };
        Some(figures::scaled(shown(part, figures::of(part, variant)?.throughput), scale))
    };
    let title = "Every trial's throughput by block";
    let unit = view::throughput_unit(part).to_owned();
    dots(part, capacity_offer(part), title, unit, AxisFormat::Rate, figure, level)
}

/// The 99th percentile of every trial by block; `None` without any.
pub(crate) fn p99_dots(part: &Part) -> Option<Dots> {
    let figure = |trial: &Trial| view::times(trial).p99_ns as f64;
    let level = |variant| Some(shown(part, view::latency_summary(part, variant)?.p99_ns));
    let title = "Every trial's 99th percentile by block";
    let unit = format!("p99 of {}", view::times_in_words(part));
    dots(part, view::times_offer(part), title, unit, AxisFormat::Time, figure, level)
}

fn dots(
    part: &Part,
    offer: Offer,
    title: &str,
    unit: String,
    format: AxisFormat,
    figure: impl Fn(&Trial) -> f64,
    level: impl Fn(usize) -> Option<Estimate>,
) -> Option<Dots> {
    let trials =
        part.measured_blocks().flat_map(|block| block.trials.iter().map(move |t| (block, t)));
    let dots: Vec<Dot> = trials
        .filter(|(_, trial)| trial.offer == offer)
        .map(|(block, trial)| Dot {
            variant: trial.variant as usize,
            block: block.index,
            value: figure(trial),
        })
        .filter(|dot| dot.value.is_finite())
        .collect();
    let levels: Vec<Level> = (0..part.variants.len())
        .filter_map(|variant| Some(Level { variant, estimate: level(variant)? }))
        .filter(|level| level.estimate.value.is_finite())
        .collect();
    let name = |variant: usize| match format {
        AxisFormat::Time => timed_name(part, variant),
        _ => part.variants[variant].name.clone(),
    };
    let lines: Vec<String> = levels
        .iter()
        .map(|Level { variant, estimate }| {
            format!("{} {}", part.variants[*variant].name, format.write(estimate.value))
        })
        .collect();
    (!dots.is_empty()).then(|| Dots {
        title: title.to_owned(),
        description: format!("{}: {}.", unit, lines.join(", ")),
        unit,
        format,
        // A variant without dots has no name, and so is not in the legend.
        names: (0..part.variants.len())
            .map(|variant| match dots.iter().any(|dot| dot.variant == variant) {
                true => name(variant),
                false => String::new(),
            })
            .collect(),
        blocks: part.measured_blocks().map(|block| block.index).max().unwrap_or(0),
        left_out: part.measured_blocks().filter(|b| !b.is_complete()).map(|b| b.index).collect(),
        dots,
        levels,
    })
}

/// Times by percentile; `None` without any histogram.
pub(crate) fn quantiles(part: &Part) -> Option<Quantiles> {
    let curve = |series| {
        let (name, points) = (timed_name(part, series), curve(part, series));
        Curve { name, series, points }
    };
    let curves = (0..part.variants.len()).map(curve);
    let curves: Vec<Curve> = curves.filter(|curve| !curve.points.is_empty()).collect();
    let p99 = |index: usize| {
        let p99 = view::latency_summary(part, index)?.p99_ns.value;
        Some(format!("{} 99% within {}", part.variants[index].name, time(p99)))
    };
    let words: Vec<String> = (0..part.variants.len()).filter_map(p99).collect();
    (!curves.is_empty()).then(|| Quantiles {
        title: "Times by percentile".to_owned(),
        description: format!("{}: {}.", view::times_in_words(part), words.join(", ")),
        unit: view::times_in_words(part),
        curves,
    })
}

/// Lowest, geometric mean and highest value over the trials of complete blocks, at quantiles with
/// at least ten requests beyond them in every trial.
fn curve(part: &Part, variant: usize) -> Vec<(f64, f64, f64, f64)> {
    let histograms: Vec<_> = view::trials(part, variant, view::times_offer(part))
        .filter_map(|(_, trial)| view::times(trial).histogram().ok().flatten())
        .filter(|histogram| !histogram.is_empty())
        .collect();
    let Some(fewest) = histograms.iter().map(|histogram| histogram.len()).min() else {
        return Vec::new();
    };
    let last = 1.0 - 10.0 / fewest as f64;
    let mut grid: Vec<f64> = (0..=80).map(|i| 1.0 - 10f64.powf(-f64::from(i) / 16.0)).collect();
    grid.push(0.5);
    grid.sort_by(f64::total_cmp);
    grid.retain(|quantile| *quantile <= last);
    let columns: Vec<Vec<f64>> = histograms.iter().map(|h| values_at(h, &grid)).collect();
    grid.iter()
        .enumerate()
        .filter_map(|(row, &quantile)| {
            let mut values: Vec<f64> = columns.iter().map(|column| column[row]).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (*values.first()?, *values.last()?);
            Some((quantile, low, view::geometric_mean(values.into_iter()), high))
        })
        .collect()
}

/// The values at ascending quantiles, in one pass: [`Histogram::value_at_quantile`] counts from the
/// beginning for each.
fn values_at(histogram: &Histogram<u64>, quantiles: &[f64]) -> Vec<f64> {
    let mut recorded = histogram.iter_recorded();
    let (mut value, mut counted) = (0, 0);
    let at = |&quantile: &f64| {
        let rank = ((quantile * histogram.len() as f64).ceil() as u64).max(1);
        while counted < rank
            && let Some(next) = recorded.next()
        {
            counted += next.count_at_value();
            value = next.value_iterated_to();
        }
        (if quantile == 0.0 { histogram.lowest_equivalent(value) } else { value }) as f64
    };
    quantiles.iter().map(at).collect()
}

/// Throughput over the time under load, on the same scale for all parts of the run; `None` without
/// series.
pub(crate) fn strips(run: &Run, part: &Part) -> Option<Strips> {
    let all = run.parts.iter().filter_map(of_part);
    let span_s = all.map(|strips| strips.seconds()).fold(0.0, f64::max);
    of_part(part).map(|strips| Strips { span_s, ..strips })
}

fn of_part(part: &Part) -> Option<Strips> {
    let strips: Vec<Strip> = (0..part.variants.len())
        .map(|series| strip(part, series))
        .filter(|strip| strip.step_s > 0.0 && !strip.trials.is_empty())
        .collect();
    let words: Vec<String> = strips.iter().map(|s| format!("{}: {}", s.name, s.total)).collect();
    (!strips.is_empty()).then(|| Strips {
        title: "Requests per second through the time under load".to_owned(),
        description: words.join(". "),
        span_s: 0.0,
        strips,
    })
}

fn strip(part: &Part, series: usize) -> Strip {
    let mut strip =
        Strip { name: view::name(part, series as u32).to_owned(), series, ..Strip::default() };
    let mut total = 0;
    for block in part.measured_blocks() {
        for trial in block.measured_trials().filter(|t| t.variant as usize == series) {
            strip.step_s = trial.step.as_secs_f64();
            strip.trials.push((block.index, block.is_complete(), trial.completed_by_step.clone()));
            if block.is_complete() {
                total += trial.completed_by_step.iter().sum::<u64>();
            }
        }
    }
    strip.total = match strip.trials.iter().any(|(_, complete, _)| *complete) {
        true => format!("area = {} requests", base::format_count(total)),
        false => "no complete block".to_owned(),
    };
    strip
}

#[cfg(test)]
mod tests {
    use base::Seed;
    use rand::RngExt as _;

    use super::*;

    #[test]
    fn one_pass_finds_the_same_values() {
        let mut rng = Seed(7).rng("values");
        for spread in [1, 20, 1_000, 1_000_000_000] {
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            for _ in 0..rng.random_range(1..300) {
                histogram.record(rng.random_range(0..=spread)).unwrap();
            }
            let grid: Vec<f64> = (0..=100).map(|percent| f64::from(percent) / 100.0).collect();
            let each = grid.iter().map(|at| histogram.value_at_quantile(*at) as f64);
            assert_eq!(values_at(&histogram, &grid), each.collect::<Vec<f64>>(), "up to {spread}");
        }
    }
}
