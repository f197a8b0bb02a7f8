//! What the findings forbid: verdicts, figures, or the whole run.

use std::collections::BTreeSet;

use record::{
    CapacityOutcome, Comparison, Fact, Metric, Part, Run, RunKind, RunState, VariantCapacity,
};
use stats::Verdict;

use crate::finding_lines::{self, FindingLine};
use crate::text::{self, listed};
use crate::verdict::words::{few_in_words, is_few};
use crate::{fact, setting, view};

/// What a run as a whole amounts to: `verdict` in its JSON, and its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunVerdict {
    /// Measured, and all is well: status 0.
    Ok,
    /// Measured, but a check failed: status 1. See [`is_invalid`].
    Invalid,
    /// Too little was measured for a verdict: status 2. See [`shortfalls`]; or the connection to another
    /// machine was lost.
    Incomplete,
}

impl RunVerdict {
    /// The verdict on a run. What is INVALID stays so however much was measured.
    pub fn of(run: &Run) -> RunVerdict {
        match (is_invalid(run), shortfalls(run).is_empty()) {
            (true, _) if is_machine_lost(run) => RunVerdict::Incomplete,
            (true, _) => RunVerdict::Invalid,
            (false, true) => RunVerdict::Ok,
            (false, false) => RunVerdict::Incomplete,
        }
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            RunVerdict::Ok => "ok",
            RunVerdict::Invalid => "invalid",
            RunVerdict::Incomplete => "incomplete",
        }
    }
}

/// The parts without a verdict because too little was measured, one line each without a full stop:
/// too few blocks, or stopped before the interval was narrow enough.
///
/// A run of `load` has no verdict to miss, and a part whose variants were all skipped has nothing
/// to measure.
pub fn shortfalls(run: &Run) -> Vec<String> {
    if run.kind == RunKind::Load {
        return Vec::new();
    }
    let stopped = run.state == RunState::Interrupted;
    let of_part = |part: &Part| Some(named(run, part, shortfall(part, stopped)?));
    run.parts.iter().filter_map(of_part).collect()
}

/// Words about a part, with its name if there are others.
fn named(run: &Run, part: &Part, words: String) -> String {
    match run.parts.len() {
        1 => words,
        _ => format!("{}: {words}", part.name),
    }
}

fn shortfall(part: &Part, stopped: bool) -> Option<String> {
    if part.variants.iter().all(|variant| variant.skipped.is_some()) {
        return None;
    }
    if let Some(capacity) = &part.capacity {
        let is_open =
            |found: &VariantCapacity| matches!(found.outcome, CapacityOutcome::Undecided { .. });
        let found = capacity.variants.len() == part.variants.len();
        let is_complete = found && !capacity.variants.iter().any(is_open);
        return (!is_complete).then(|| "too little was measured for an interval".to_owned());
    }
    let mut primary = part.comparisons.iter().filter(|c| c.primary).peekable();
    if primary.peek().is_none() {
        let none = part.complete_blocks().count() == 0;
        return (none || stopped).then(|| match none {
            true => few_in_words(0),
            false => "stopped early".to_owned(),
        });
    }
    let is_open = |c: &&Comparison| {
        c.judgement.verdict == Verdict::Inconclusive || !c.judgement.ratio.is_bounded()
    };
    let open: Vec<u32> = primary
        .filter(|c| {
            !is_refused(c) && (is_few(c.judgement.blocks as usize) || stopped && is_open(c))
        })
        .map(|c| c.judgement.blocks)
        .collect();
    let fewest = open.into_iter().min()?;
    Some(match is_few(fewest as usize) {
        true => few_in_words(fewest),
        false => "stopped before every comparison had its verdict".to_owned(),
    })
}

/// Whether a run is invalid: it failed or was killed, a primary verdict is INVALID, or a check
/// failed in a part without comparisons.
///
/// A secondary metric that is INVALID leaves the run valid.
pub fn is_invalid(run: &Run) -> bool {
    run.error.is_some() || did_not_end(run) || run.parts.iter().any(is_part_invalid)
}

/// Whether all that is wrong with a run is that the connection to another machine was lost.
fn is_machine_lost(run: &Run) -> bool {
    let invalid: Vec<_> = run.parts.iter().flat_map(Part::invalid).collect();
    let is_lost = |fact: &Fact| matches!(fact, Fact::MachineLost { .. });
    run.error.is_none()
        && !did_not_end(run)
        && !invalid.is_empty()
        && invalid.iter().all(|finding| is_lost(&finding.fact))
}

/// Why [`is_invalid`] is true, one line each without a full stop; empty if it is false.
pub fn reasons(run: &Run) -> Vec<String> {
    let mut reasons: Vec<String> = run.error.iter().cloned().collect();
    if run.error.is_none() && did_not_end(run) {
        reasons.extend(view::state_in_words(run).map(|(word, rest)| format!("{word}: {rest}")));
    }
    for part in &run.parts {
        reasons.extend(of_part(part).into_iter().map(|reason| named(run, part, reason)));
    }
    reasons
}

fn did_not_end(run: &Run) -> bool {
    matches!(run.state, RunState::Running | RunState::Failed)
}

/// Whether a part is invalid.
pub(crate) fn is_part_invalid(part: &Part) -> bool {
    match part.comparisons.iter().any(|c| c.primary) {
        true => part.comparisons.iter().any(|c| c.primary && is_refused(c)),
        false => part.invalid().next().is_some(),
    }
}

/// Whether a verdict is INVALID.
pub(crate) fn is_refused(comparison: &Comparison) -> bool {
    comparison.judgement.verdict == Verdict::Invalid
}

/// The findings behind [`is_part_invalid`].
pub(crate) fn causes(part: &Part) -> Vec<FindingLine> {
    let compared = part.comparisons.iter().any(|c| c.primary);
    let forbids = |index: u32| {
        let refused = || part.comparisons.iter().filter(|c| c.primary && is_refused(c));
        refused().any(|c| c.because.contains(&index))
    };
    // A bias that widens one metric's interval, which is a warning, may forbid another metric.
    finding_lines::those(part, |index, finding| match compared {
        true => forbids(index),
        false => finding.is_invalid(),
    })
}

/// Why a part is invalid, one line each.
pub(crate) fn of_part(part: &Part) -> Vec<String> {
    let mut reasons: Vec<String> = causes(part).iter().map(FindingLine::line).collect();
    let unexplained =
        part.comparisons.iter().find(|c| c.primary && is_refused(c) && c.because.is_empty());
    if let Some(comparison) = unexplained {
        reasons.push(format!("{} failed a validity check", view::sides(part, comparison)));
    }
    reasons
}

/// Why one comparison is INVALID, without a full stop.
pub(crate) fn because(part: &Part, comparison: &Comparison) -> String {
    let lines = finding_lines::those(part, |index, _| comparison.because.contains(&index));
    lines.iter().map(FindingLine::line).collect::<Vec<_>>().join("; ")
}

/// The findings that are not among [`causes`], with the metrics that they forbid.
pub(crate) fn others(part: &Part) -> Vec<FindingLine> {
    let causes: Vec<u32> = causes(part).into_iter().flat_map(|finding| finding.findings).collect();
    with_forbidden(part, finding_lines::those(part, |index, _| !causes.contains(&index)))
}

/// The lines, each with the metrics whose verdicts it forbids.
pub(crate) fn with_forbidden(part: &Part, mut lines: Vec<FindingLine>) -> Vec<FindingLine> {
    for line in &mut lines {
        let forbidden = forbidden(part, &line.findings);
        if !forbidden.is_empty() {
            line.words += &format!("; {}", fact::forbids(&forbidden, part.is_bulk()));
        }
    }
    lines
}

/// The metrics whose verdicts these findings forbid.
fn forbidden(part: &Part, findings: &[u32]) -> Vec<Metric> {
    let touched = |c: &&Comparison| is_refused(c) && c.because.iter().any(|i| findings.contains(i));
    let metrics = part.comparisons.iter().filter(touched).map(|c| c.metric);
    metrics.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether a variant's figure of this metric is invalid.
///
/// A finding about no particular variant invalidates the figures of all.
pub(crate) fn is_void(part: &Part, variant: usize, metric: Metric) -> bool {
    let blames = |index: &u32| {
        let finding = part.findings.get(*index as usize);
        finding.is_some_and(|f| f.variant.is_none_or(|v| v as usize == variant))
    };
    if !part.comparisons.iter().any(|c| c.primary) {
        return part.invalid().any(|f| f.variant.is_none_or(|v| v as usize == variant));
    }
    let mut refused = part.comparisons.iter().filter(|c| c.metric == metric && is_refused(c));
    refused.any(|c| {
        let takes_part = [c.baseline, c.variant].contains(&(variant as u32));
        takes_part && (c.because.is_empty() || c.because.iter().any(blames))
    })
}

/// All metrics, in the order of their columns in a table.
pub(crate) const METRICS: [Metric; 5] =
    [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu, Metric::Memory];

/// Which figures of a table are invalid; `None` if all are valid.
pub(crate) fn void_in_words(part: &Part) -> Option<String> {
    let measured = |index: &usize| view::capacity(part, *index).is_some();
    let measured: Vec<usize> = (0..part.variants.len()).filter(measured).collect();
    let compared = |metric: &Metric| {
        part.comparisons.is_empty() || part.comparisons.iter().any(|c| c.metric == *metric)
    };
    let metrics = || METRICS.into_iter().filter(compared);
    let void = |variant: usize| -> Vec<Metric> {
        metrics().filter(|metric| is_void(part, variant, *metric)).collect()
    };
    let of_variant = |variant: &usize| match void(*variant) {
        none if none.is_empty() => None,
        all if all.len() == metrics().count() => {
            Some(format!("the figures of {}", part.variants[*variant].name))
        }
        some => {
            let names: Vec<String> =
                some.iter().map(|m| setting::metric(*m, part.is_bulk()).to_owned()).collect();
            Some(format!("{} of {}", listed(&names), part.variants[*variant].name))
        }
    };
    let voids: Vec<String> = measured.iter().filter_map(of_variant).collect();
    let all = measured.iter().all(|variant| void(*variant).len() == metrics().count());
    match voids.as_slice() {
        [] => None,
        _ if all => Some("Invalid run: do not use these figures.".to_owned()),
        voids => Some(text::capitalised(&format!("invalid: do not use {}.", voids.join("; ")))),
    }
}
