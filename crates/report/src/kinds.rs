//! Several kinds of request in one load: a table with a row for each.

use base::{Nanos, format_count};
use ledger::Counts;
use record::{Distribution, KindTrial, LoadKind, Offer, Part, Trial};
use serde_json::{Value, json};

use crate::json_parts::distribution_json;
use crate::means::{self, MeansTable, mean, offer, ratio_cell};
use crate::page::TableRow;
use crate::text::plural;
use crate::view;

/// Rows that a terminal shows: those with the largest shares.
const SHOWN: usize = 20;

/// All trials of a variant, or some of them, by kind.
struct KindSum {
    counts: Counts,
    /// Of the trials under the offer that times are shown of.
    times: Vec<Distribution>,
}

impl KindSum {
    fn of<'a>(trials: impl Iterator<Item = &'a Trial>, offer: Offer, kind: usize) -> KindSum {
        let mut sum = KindSum { counts: Counts::default(), times: Vec::new() };
        for trial in trials {
            let Some(KindTrial { counts, times, .. }) = trial.kinds.get(kind) else { continue };
            sum.counts.merge(counts);
            if trial.offer == offer && times.count > 0 {
                sum.times.push(times.clone());
            }
        }
        sum
    }

    fn mean(&self) -> String {
        mean(self.times.iter())
    }

    /// The geometric mean over the trials of a percentile of each.
    fn percentile(&self, of: fn(&Distribution) -> u64) -> String {
        let all = self.times.iter().map(|times| of(times) as f64);
        match view::geometric_mean(all) {
            mean if mean.is_finite() => Nanos(mean.round() as u64).to_string(),
            _ => "–".to_owned(),
        }
    }
}

/// The table of a part's kinds of request; `None` if there is one kind only.
pub(crate) fn table(part: &Part) -> Option<MeansTable> {
    let kinds = &part.load.kinds;
    // Times at many rates together say nothing.
    if kinds.is_empty() || part.capacity.is_some() {
        return None;
    }
    let measured = |v: &usize| part.variants[*v].skipped.is_none();
    let variants: Vec<usize> = (0..part.variants.len()).filter(measured).collect();
    let offer = offer(part)?;
    let weights: u64 = kinds.iter().map(|kind| u64::from(kind.weight)).sum();
    let trials = |variant: usize| {
        let all = part.measured_blocks().flat_map(|block| &block.trials);
        all.filter(move |trial| trial.variant as usize == variant)
    };
    let mut heads = vec!["share".to_owned()];
    let is_alone = variants.len() == 1;
    if is_alone {
        heads.extend(["completed", "failed", "mean", "p50", "p99"].map(str::to_owned));
    } else {
        heads.extend(variants.iter().map(|v| part.variants[*v].name.clone()));
        heads.extend(pairs(part).into_iter().map(|pair| means::sides(part, pair)));
        heads.push("failed".to_owned());
    }
    let row = |kind: usize| {
        let LoadKind { name, weight, .. } = &kinds[kind];
        let mut cells = vec![share(f64::from(*weight) / weights as f64)];
        let sums: Vec<KindSum> = match is_alone {
            true => {
                let shown = trials(variants[0]).filter(|trial| trial.offer.is_measured());
                vec![KindSum::of(shown, offer, kind)]
            }
            false => variants.iter().map(|v| KindSum::of(trials(*v), offer, kind)).collect(),
        };
        let failed: u64 = sums.iter().map(|sum| sum.counts.failed).sum();
        if is_alone {
            let sum = &sums[0];
            cells.extend([
                format_count(sum.counts.completed),
                format_count(failed),
                sum.mean(),
                sum.percentile(|times| times.p50_ns),
                sum.percentile(|times| times.p99_ns),
            ]);
        } else {
            cells.extend(sums.iter().map(KindSum::mean));
            cells.extend(pairs(part).into_iter().map(|pair| ratio_of(part, kind, pair)));
            cells.push(format_count(failed));
        }
        TableRow { name: name.clone(), cells, is_bad: failed > 0 }
    };
    let times = means::word(offer);
    let legend = match is_alone {
        true => format!("mean, p50 and p99: {times}"),
        false => format!(
            "mean {times}, and its ratio with an interval; the intervals of all kinds hold together"
        ),
    };
    let rows = (0..kinds.len()).map(row).collect();
    Some(MeansTable { title: "By kind of request", first: "request", heads, rows, legend })
}

/// The table with the rows of the largest shares only.
pub(crate) fn largest(part: &Part) -> Option<MeansTable> {
    let mut table = table(part)?;
    let mut rows: Vec<(u32, TableRow)> =
        part.load.kinds.iter().map(|kind| kind.weight).zip(table.rows).collect();
    rows.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let others = rows.len().saturating_sub(SHOWN);
    rows.truncate(SHOWN);
    table.rows = rows.into_iter().map(|(_, row)| row).collect();
    if others > 0 {
        let others = plural(others as u64, "kind");
        table.legend += &format!("; {others} with smaller shares in the HTML report");
    }
    Some(table)
}

/// Baseline and variant of each comparison.
fn pairs(part: &Part) -> Vec<(u32, u32)> {
    means::pairs(part.kinds.iter().map(|one| (one.baseline, one.variant)))
}

fn ratio_of(part: &Part, kind: usize, (baseline, variant): (u32, u32)) -> String {
    let is_this = |one: &&record::KindComparison| {
        (one.baseline, one.variant, one.kind as usize) == (baseline, variant, kind)
    };
    let found = part.kinds.iter().find(is_this).map(|one| &one.ratio);
    ratio_cell(part, (baseline, variant), found)
}

fn share(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The kinds of a trial.
pub(crate) fn of_trial(part: &Part, trial: &Trial) -> Value {
    let one = |(kind, trial): (&LoadKind, &KindTrial)| {
        json!({
            "name": kind.name,
            "sent": trial.counts.sent,
            "completed": trial.counts.completed,
            "failed": trial.counts.failed,
            "in_flight": trial.counts.in_flight,
            "errors": trial.errors,
            "times_ns": distribution_json(&trial.times),
        })
    };
    part.load.kinds.iter().zip(&trial.kinds).map(one).collect()
}

/// The ratios of a part's kinds.
pub(crate) fn comparisons(part: &Part) -> Value {
    let one = |of: &record::KindComparison| {
        json!({
            "baseline": view::name(part, of.baseline),
            "variant": view::name(part, of.variant),
            "offer": of.offer,
            "kind": part.load.kinds.get(of.kind as usize).map(|kind| &kind.name),
            "ratio": of.ratio.value,
            "low": of.ratio.low,
            "high": of.ratio.high,
        })
    };
    part.kinds.iter().map(one).collect()
}
