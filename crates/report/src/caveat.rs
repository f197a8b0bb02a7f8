//! What weakens a verdict without forbidding it. It is printed beside the verdict.

use record::{Comparison, Disturber, Fact, Finding, Metric, Offer, Part, Severity};

use crate::finding_lines::{self, FindingLine};
use crate::text::listed;
use crate::{validity, view};

/// Precedes a verdict that a warning weakens, and a figure of a variant with a warning.
pub(crate) const MARK: &str = "⚠";

/// Follows a percentile of an open loop whose rate was not sustained.
pub(crate) const UNSUSTAINED: &str = "†";

/// The warnings that weaken a comparison, as indices of [`Part::findings`]; none if it is INVALID.
pub(crate) fn weakening(part: &Part, comparison: &Comparison) -> Vec<u32> {
    let weakens = |finding: &Finding| {
        let sides = [comparison.baseline, comparison.variant];
        finding.severity == Severity::Warning
            && finding.variant.is_none_or(|variant| sides.contains(&variant))
            && is_of_sides(&finding.fact, sides)
            && touches(&finding.fact, comparison.metric, comparison.offer)
    };
    let all = (0..).zip(&part.findings).filter(|(_, finding)| weakens(finding));
    all.filter(|_| !validity::is_refused(comparison)).map(|(index, _)| index).collect()
}

/// Whether a warning weakens a comparison.
pub(crate) fn is_weakened(part: &Part, comparison: &Comparison) -> bool {
    !weakening(part, comparison).is_empty()
}

/// Words with the [`MARK`] if a warning weakens the comparison.
pub(crate) fn marked(part: &Part, comparison: &Comparison, words: String) -> String {
    if is_weakened(part, comparison) { format!("{MARK} {words}") } else { words }
}

/// Whether a fact about two variants is about these.
fn is_of_sides(fact: &Fact, sides: [u32; 2]) -> bool {
    match fact {
        Fact::Uneven { other, .. } => sides.contains(other),
        _ => true,
    }
}

/// Whether a warning about a variant weakens a metric under an offer.
fn touches(fact: &Fact, metric: Metric, offer: Offer) -> bool {
    match fact {
        Fact::Unsustained { .. }
        | Fact::Lateness { .. }
        | Fact::Uneven { source: Disturber::Lateness, .. } => is_latency(metric, offer),
        Fact::NullServer { .. }
        | Fact::NetworkLimited { .. }
        | Fact::ClientBusy { .. }
        | Fact::Edges { .. }
        | Fact::LongStops { .. } => {
            offer != Offer::Open && !matches!(metric, Metric::Cpu | Metric::Memory)
        }
        Fact::NotProfiled { .. } | Fact::NothingSampled { .. } | Fact::ProfileDiffers { .. } => {
            false
        }
        _ => true,
    }
}

fn is_latency(metric: Metric, offer: Offer) -> bool {
    offer == Offer::Open && matches!(metric, Metric::P50 | Metric::P99)
}

/// The warnings that weaken any of these verdicts, one line for each kind.
///
/// Without comparisons the figures themselves are the result, and every warning weakens it.
pub(crate) fn lines(part: &Part) -> Vec<FindingLine> {
    let (primary, _) = view::split_comparisons(part);
    let weakening: Vec<u32> = primary.iter().flat_map(|c| weakening(part, c)).collect();
    let lines = finding_lines::those(part, |index, finding| match primary.is_empty() {
        true => finding.severity == Severity::Warning,
        false => weakening.contains(&index),
    });
    validity::with_forbidden(part, lines)
}

/// The [other findings](validity::others) that are not beside a verdict, as [`lines`] are.
pub(crate) fn elsewhere(part: &Part) -> Vec<FindingLine> {
    let beside: Vec<u32> = lines(part).into_iter().flat_map(|line| line.findings).collect();
    let is_elsewhere = |line: &FindingLine| !line.findings.iter().all(|i| beside.contains(i));
    validity::others(part).into_iter().filter(is_elsewhere).collect()
}

/// The warnings about a variant's throughput, one line for each kind.
pub(crate) fn of_variant(part: &Part, variant: usize) -> Vec<FindingLine> {
    let offer = view::capacity(part, variant).map_or(Offer::Closed, |summary| summary.offer);
    finding_lines::those(part, |_, finding| {
        finding.severity == Severity::Warning
            && finding.variant == Some(variant as u32)
            && touches(&finding.fact, Metric::Throughput, offer)
    })
}

/// Whether a variant did not sustain the rate of its open loop, so its percentiles cannot be
/// compared; false if all of them are INVALID anyway.
pub(crate) fn is_unsustained(part: &Part, variant: usize) -> bool {
    let void = |metric: Metric| validity::is_void(part, variant, metric);
    !(void(Metric::P50) && void(Metric::P99))
        && view::latency_summary(part, variant).is_some_and(|summary| summary.offer == Offer::Open)
        && part.findings.iter().any(|finding| {
            matches!(finding.fact, Fact::Unsustained { .. })
                && finding.variant == Some(variant as u32)
        })
}

/// The variants whose percentiles in the tables cannot be compared.
fn unsustained(part: &Part) -> Vec<usize> {
    (0..part.variants.len()).filter(|variant| is_unsustained(part, *variant)).collect()
}

/// The footnote to the percentiles with the mark [`UNSUSTAINED`], without a full stop: `† unix did
/// not sustain 918 requests/s: do not compare its percentiles`.
pub(crate) fn footnote(part: &Part) -> Option<String> {
    let variants = unsustained(part);
    let whose = if variants.len() == 1 { "its" } else { "their" };
    let words = missed(part, &variants, None)?;
    Some(format!("{UNSUSTAINED} {words}: do not compare {whose} percentiles"))
}

/// `p50 and p99 were not compared: unix did not sustain 918 requests/s`, without a full stop; with
/// conditions on them also `nor gated`. `None` if they were compared.
pub(crate) fn uncompared(part: &Part, gated: bool) -> Option<String> {
    let (primary, _) = view::split_comparisons(part);
    let misses = |c: &Comparison, metric: Metric| {
        let same = |other: &Comparison| {
            (other.metric, other.baseline, other.variant) == (metric, c.baseline, c.variant)
        };
        [c.baseline, c.variant].into_iter().any(|side| is_unsustained(part, side as usize))
            && !part.comparisons.iter().any(same)
    };
    let metrics: Vec<Metric> = [Metric::P50, Metric::P99]
        .into_iter()
        .filter(|metric| primary.iter().any(|c| misses(c, *metric)))
        .collect();
    let all = primary.iter().all(|c| metrics.iter().any(|metric| misses(c, *metric)));
    let variants: Vec<usize> = unsustained(part)
        .into_iter()
        .filter(|v| primary.iter().any(|c| [c.baseline, c.variant].contains(&(*v as u32))))
        .collect();
    let names: Vec<String> = metrics.iter().map(|metric| metric.word().to_owned()).collect();
    let were = if names.len() == 1 { "was" } else { "were" };
    let (of, who) = match (all, variants.len()) {
        (true, _) => (String::new(), None),
        (false, 1) => (format!(" of {}", listed_names(part, &variants)), Some("it")),
        (false, _) => (format!(" of {}", listed_names(part, &variants)), Some("they")),
    };
    let done = if gated { "neither compared nor gated" } else { "not compared" };
    let missed = missed(part, &variants, who).filter(|_| !metrics.is_empty())?;
    Some(format!("{}{of} {were} {done}: {missed}", listed(&names)))
}

/// `unix did not sustain 918 requests/s`; `who` instead of the names.
fn missed(part: &Part, variants: &[usize], who: Option<&str>) -> Option<String> {
    let first = view::latency_summary(part, *variants.first()?)?;
    let rate = match first.offered_per_s {
        Some(rate) => format!("{} requests/s", base::format_rate(rate)),
        None => "the offered rate".to_owned(),
    };
    let who = who.map_or_else(|| listed_names(part, variants), str::to_owned);
    Some(format!("{who} did not sustain {rate}"))
}

fn listed_names(part: &Part, variants: &[usize]) -> String {
    listed(&variants.iter().map(|v| part.variants[*v].name.clone()).collect::<Vec<_>>())
}
