//! What all exporters need from a run: its headline figures and its state in words.

use std::borrow::Cow;

use base::format_rate;
use record::{
    Block, Comparison, Distribution, Metric, Offer, Part, Run, RunKind, RunState, Summary, Trial,
};
use stats::Estimate;

use crate::verdict::words::is_few;
use crate::{setting, text};

/// A variant's summaries: those of the analysis, or provisional ones from its trials.
pub(crate) fn summaries(part: &Part, variant: usize) -> Cow<'_, [Summary]> {
    match part.variants.get(variant) {
        Some(analysed) if !analysed.summaries.is_empty() => Cow::from(&analysed.summaries),
        _ => Cow::from(from_trials(part, variant)),
    }
}

/// Summaries from a variant's trials, without an analysis: of complete blocks, or of all if none is
/// complete.
fn from_trials(part: &Part, variant: usize) -> Vec<Summary> {
    let any_complete = part.complete_blocks().next().is_some();
    let blocks = part.measured_blocks().filter(|block| !any_complete || block.is_complete());
    let trials: Vec<&Trial> = blocks
        .flat_map(Block::measured_trials)
        .filter(|t| t.variant as usize == variant && t.window.0 > 0 && t.completed_in_window > 0)
        .collect();
    let of_offer = |offer: Offer| -> Option<Summary> {
        let trials = || trials.iter().filter(|trial| trial.offer == offer);
        let first = trials().next()?;
        let mean = |of: &dyn Fn(&Trial) -> f64| unbounded(geometric_mean(trials().map(|t| of(t))));
        let cpu = |of: fn(&Trial) -> Option<base::Nanos>| {
            let each = |t: &Trial| {
                of(t).map_or(f64::NAN, |cpu| cpu.0 as f64 / t.ledger.counts.completed.max(1) as f64)
            };
            trials().all(|t| of(t).is_some_and(|cpu| cpu.0 > 0)).then(|| mean(&each))
        };
        let window: f64 = trials().map(|t| t.window.as_secs_f64()).sum();
        let bytes: f64 = trials().map(|t| t.payload_bytes as f64).sum();
        Some(Summary {
            offer,
            offered_per_s: first.offered_per_s,
            throughput_per_s: mean(&Trial::throughput_per_s),
            bytes_per_s: bytes / window,
            p50_ns: mean(&|t| times(t).p50_ns as f64),
            p90_ns: mean(&|t| times(t).p90_ns as f64),
            p99_ns: mean(&|t| times(t).p99_ns as f64),
            cpu_ns_per_request: cpu(|t| t.stack_cpu),
            machine_ns_per_request: cpu(|t| t.machine_busy),
            peak_memory_bytes: trials().filter_map(|t| t.peak_memory_bytes).max(),
        })
    };
    [Offer::Closed, Offer::Open].into_iter().filter_map(of_offer).collect()
}

/// An estimate without an interval.
fn unbounded(value: f64) -> Estimate {
    Estimate { value, low: 0.0, high: f64::INFINITY }
}

/// The geometric mean; NaN without values.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    // The mean of one value is exactly that value.
    if let [one] = values.as_slice() {
        return *one;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (sum / values.len() as f64).exp()
}

/// The summary for throughput: the closed loop if there is one.
pub(crate) fn capacity(part: &Part, variant: usize) -> Option<Summary> {
    under(part, variant, Offer::Closed)
}

/// The summary for latency: the open loop if there is one.
pub(crate) fn latency_summary(part: &Part, variant: usize) -> Option<Summary> {
    under(part, variant, Offer::Open)
}

/// The summary under an offer, or the first if there is none.
fn under(part: &Part, variant: usize, offer: Offer) -> Option<Summary> {
    let summaries = summaries(part, variant);
    summaries.iter().find(|s| s.offer == offer).or(summaries.first()).cloned()
}

/// The heading of the throughput column.
pub(crate) fn throughput_unit(part: &Part) -> &'static str {
    if part.is_bulk() { "GB/s" } else { "requests/s" }
}

/// A throughput without its unit: `1,837`, or `3.21` in a bulk part.
pub(crate) fn throughput(part: &Part, value: f64) -> String {
    if part.is_bulk() { format_rate(value / 1e9) } else { format_rate(value) }
}

/// Describes the percentiles of a part.
pub(crate) fn times_in_words(part: &Part) -> String {
    let dropped = part.variants.iter().any(|variant| variant.ledger.counts.dropped > 0);
    // Dropped and failed requests have no time.
    let of = if dropped { " of completed requests" } else { "" };
    // Nothing answers a message, so it ends here for its sender.
    let until = if part.is_one_way() { ", until the socket took the message" } else { "" };
    match timed(part) {
        Some(summary) if summary.offer == Offer::Open => {
            format!("latency{of}, {}{until}", setting::offer(Offer::Open, summary.offered_per_s))
        }
        _ => format!("service time{of}, closed loop{until}"),
    }
}

/// The offer whose times are in the tables and curves.
pub(crate) fn times_offer(part: &Part) -> Offer {
    timed(part).map_or(Offer::Closed, |summary| summary.offer)
}

fn timed(part: &Part) -> Option<Summary> {
    (0..part.variants.len()).find_map(|variant| latency_summary(part, variant))
}

/// Smaller responses are compared by their number, not by their bytes.
const BYTES_WORTH_SAYING: f64 = 1024.0;

/// Bandwidth and cost of each variant if responses are large: `tcp 1.21 GB/s at 0.81 s of CPU per
/// GB`.
pub(crate) fn bytes_in_words(part: &Part) -> Option<String> {
    let of = |index: usize| {
        let closed = capacity(part, index)?;
        let bytes = closed.bytes_per_s / closed.throughput_per_s.value;
        if part.is_bulk() || !bytes.is_finite() || bytes < BYTES_WORTH_SAYING {
            return None;
        }
        let cost = closed.cpu_ns_per_request.map_or_else(String::new, |cpu| {
            format!(" at {} s of CPU per GB", format_rate(cpu.value / bytes))
        });
        let name = &part.variants[index].name;
        Some(format!("{name} {}{cost}", text::bandwidth(closed.bytes_per_s)))
    };
    let words: Vec<String> = (0..part.variants.len()).filter_map(of).collect();
    (!words.is_empty()).then(|| format!("bodies: {}", words.join(", ")))
}

/// Trials of a variant under an offer in complete blocks, with their blocks.
pub(crate) fn trials(
    part: &Part,
    variant: usize,
    offer: Offer,
) -> impl Iterator<Item = (&Block, &Trial)> {
    part.complete_blocks()
        .flat_map(|block| block.trials.iter().map(move |trial| (block, trial)))
        .filter(move |(_, trial)| trial.variant as usize == variant && trial.offer == offer)
}

/// Whether anything was done to a stack of the part while it was loaded; then the result is what it
/// cost, and variants are compared only if the plan says so.
pub(crate) fn has_actions(part: &Part) -> bool {
    part.blocks.iter().flat_map(|block| &block.trials).any(|trial| trial.disruption.is_some())
}

/// Latency in an open loop; service time in a closed one, where every request is due when it is
/// sent, so both are equal.
pub(crate) fn times(trial: &Trial) -> &Distribution {
    trial.latency.as_ref().unwrap_or(&trial.service_time)
}

/// A variant's name by its index.
pub(crate) fn name(part: &Part, variant: u32) -> &str {
    part.variants.get(variant as usize).map_or("?", |variant| &variant.name)
}

/// The primary verdicts, and the others.
pub(crate) fn split_comparisons(part: &Part) -> (Vec<&Comparison>, Vec<&Comparison>) {
    part.comparisons.iter().partition(|comparison| comparison.primary)
}

/// `unix ÷ tcp`.
pub(crate) fn sides(part: &Part, comparison: &Comparison) -> String {
    format!("{} ÷ {}", name(part, comparison.variant), name(part, comparison.baseline))
}

/// Whether there are too few blocks for intervals.
pub(crate) fn few_blocks(part: &Part) -> bool {
    is_few(part.complete_blocks().count())
}

/// Whether figures are provisional: no block is complete, or too few for the comparisons.
pub(crate) fn is_provisional(part: &Part) -> bool {
    match part.complete_blocks().count() {
        0 => true,
        complete => is_few(complete) && part.variants.len() > 1,
    }
}

/// What a reader must know before the figures, each as a word and a sentence: how the run ended,
/// unless it is complete, and whether it is older than the method.
pub(crate) fn forewords(run: &Run) -> Vec<(&'static str, String)> {
    let state = state_in_words(run).map(|(word, rest)| (word, rest.to_owned()));
    let older = (run.method() < record::METHOD).then(|| {
        let words = format!(
            "Measured by version {} of the method, which is now at {}. Measure again before \
             comparing these figures with newer ones.",
            run.method(),
            record::METHOD
        );
        ("Older method", words)
    });
    state.into_iter().chain(older).collect()
}

/// `tachograph 0.1.0, method 1`.
pub(crate) fn maker(run: &Run) -> String {
    match run.method() {
        0 => format!("tachograph {}", run.release()),
        method => format!("tachograph {}, method {method}", run.release()),
    }
}

/// How the run ended, as a word and a sentence; `None` if it is complete.
pub(crate) fn state_in_words(run: &Run) -> Option<(&'static str, &'static str)> {
    match (run.state, run.kind) {
        (RunState::Done, _) => None,
        (RunState::Running, _) => Some((
            "Cut off",
            "The run was killed, or is still running. This report shows its data so far.",
        )),
        (RunState::Interrupted, RunKind::Load) => {
            Some(("Stopped early", "This report shows the data so far."))
        }
        (RunState::Interrupted, _) => Some(("Stopped early", "Intervals are widened accordingly.")),
        (RunState::Failed, _) => {
            Some(("Failed", "The run could not continue. This report shows its data so far."))
        }
    }
}

/// A part's heading: its name and question, unless the question contains the name.
pub(crate) fn heading(part: &Part) -> String {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let (question, name) = (part.question.to_lowercase(), part.name.to_lowercase());
    let said = question.match_indices(&name).any(|(at, _)| {
        edge(question[..at].chars().next_back()) && edge(question[at + name.len()..].chars().next())
    });
    if said { part.question.clone() } else { format!("{}: {}", part.name, part.question) }
}

/// The experiment's `about`, from its recorded text; empty without one.
pub(crate) fn about(run: &Run) -> String {
    let plan: toml::Table = toml::from_str(&run.plan).unwrap_or_default();
    let about = plan.get("experiment").and_then(|experiment| experiment.get("about"));
    about.and_then(|about| about.as_str()).unwrap_or_default().trim().to_owned()
}

/// The published ratio beside a comparison of throughputs, if the same source published both
/// variants.
pub(crate) fn published_ratio(part: &Part, comparison: &Comparison) -> Option<(f64, String)> {
    if comparison.metric != Metric::Throughput {
        return None;
    }
    let figure = |variant: u32, source: Option<&str>| {
        part.published.iter().find_map(|p| {
            let fits = p.variant.as_deref() == Some(name(part, variant))
                && source.is_none_or(|source| source == p.source);
            p.throughput_per_s.filter(|_| fits).map(|rate| (rate, p.source.clone()))
        })
    };
    let (baseline, source) = figure(comparison.baseline, None)?;
    let (variant, _) = figure(comparison.variant, Some(&source))?;
    (baseline > 0.0).then(|| (variant / baseline, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_says_its_part_once() {
        let part = |name: &str, question: &str| {
            let json = serde_json::json!({
                "name": name, "question": question, "layout": record::Layout::default(),
                "load": record::Load::default(), "variants": [], "blocks": [], "comparisons": [],
                "findings": [], "published": [], "precision": 0.02, "quick": false,
                "disturbance": null,
            });
            heading(&serde_json::from_value(json).unwrap())
        };
        let with = "With answers of 64B, does it matter?";
        assert_eq!(part("64B", with), with);
        assert_eq!(part("4B", with), format!("4B: {with}"));
        assert_eq!(part("nginx", "How should Nginx reach it?"), "How should Nginx reach it?");
        assert_eq!(part("of-2013", "Of the ways of 2013?"), "of-2013: Of the ways of 2013?");
    }

    #[test]
    fn a_geometric_mean_of_nothing_is_no_number() {
        assert!(geometric_mean([].into_iter()).is_nan());
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-12);
    }
}
