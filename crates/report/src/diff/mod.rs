//! The comparison of two commits: one sentence, a summary for a pull request, and the formats of
//! tools that track benchmarks.

mod exports;

use record::{
    Comparison, Diff, DiffOutcome, GateDecision, GateOutcome, Metric, Part, Revision, Run,
};
use stats::Verdict;

use crate::ledger::Account;
use crate::markdown::{self, escape, list};
use crate::text::{listed, ratio};
use crate::verdict::{self, words};
use crate::{caveat, figures, gate, setting, validity, view};

pub use exports::{Direction, diff_json, diff_variables, metric_format, tracked};

/// The metrics of the summary, in the order of its rows.
const METRICS: [Metric; 4] = [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu];

/// Indices of the variants.
const BASE: usize = 0;
const HEAD: usize = 1;

/// The answer in one or two sentences, and which metrics were not compared or are undecided.
pub fn diff_sentence(run: &Run, diff: &Diff) -> String {
    let (lead, rest) = answer(run, diff);
    let uncompared = uncompared(run).map_or_else(String::new, |words| format!(" {words}."));
    let undecided = undecided(run, diff).map_or_else(String::new, |words| format!(" {words}"));
    format!("{lead}: {rest}{uncompared}{undecided}")
}

/// The metrics besides the primary one for which a regression is neither shown nor ruled out.
fn undecided(run: &Run, diff: &Diff) -> Option<String> {
    let margin = diff.margin.filter(|_| diff.outcome == DiffOutcome::Passed)?;
    let gates = || diff.gates.iter().filter(|gate| gate.decision == GateDecision::Inconclusive);
    // Percentiles that were not compared are named with the reason.
    let is_named =
        |metric: &Metric| matches!(metric, Metric::P50 | Metric::P99) && uncompared(run).is_some();
    let open: Vec<String> = METRICS
        .into_iter()
        .filter(|metric| *metric != diff.primary && !is_named(metric))
        .filter(|metric| gates().any(|gate| is_about(gate, *metric)))
        .map(|metric| name(metric).to_owned())
        .collect();
    let margin = words::percent(margin, words::Rounding::Nearest);
    (!open.is_empty()).then(|| format!("Undecided at {margin}: {}.", listed(&open)))
}

fn uncompared(run: &Run) -> Option<String> {
    caveat::uncompared(run.parts.first()?, true)
}

/// The answer with a mark before what is bold in it, if a warning weakens the primary comparison.
fn answer(run: &Run, diff: &Diff) -> (String, String) {
    let (lead, rest) = unmarked(run, diff);
    let decides = matches!(
        diff.outcome,
        DiffOutcome::Passed | DiffOutcome::Regression | DiffOutcome::Undecided
    );
    match (run.parts.first(), comparison(run, diff.primary)) {
        (Some(part), Some(comparison)) if decides => (caveat::marked(part, comparison, lead), rest),
        _ => (lead, rest),
    }
}

/// The answer: what is bold in it, and the rest.
fn unmarked(run: &Run, diff: &Diff) -> (String, String) {
    let percent = |margin: f64| words::percent(margin, words::Rounding::Nearest);
    let of = |decision: GateDecision| diff.gates.iter().filter(move |g| g.decision == decision);
    let invalid = || validity::reasons(run).join("; ");
    let primary = || comparison(run, diff.primary);
    match (diff.outcome, diff.margin) {
        (DiffOutcome::HeadFailed, _) => ("Head failed".to_owned(), format!("{}.", invalid())),
        (DiffOutcome::Invalid, _) => ("INVALID".to_owned(), format!("{}.", invalid())),
        (DiffOutcome::Regression, Some(margin)) => {
            let fails =
                |metric: &Metric| of(GateDecision::Fails).any(|gate| is_about(gate, *metric));
            let worse = validity::METRICS.into_iter().filter(fails);
            let worse = worse.filter_map(|metric| comparison(run, metric)).map(claim);
            let worse: Vec<String> = worse.collect();
            (format!("Regression beyond {}", percent(margin)), format!("{}.", worse.join(", ")))
        }
        (DiffOutcome::Passed, Some(margin)) => {
            let faster =
                primary().filter(|comparison| comparison.judgement.verdict == Verdict::Faster);
            match faster {
                Some(comparison) => ("Faster".to_owned(), format!("{}.", claim(comparison))),
                None => {
                    let claim = primary().map(claim).unwrap_or_default();
                    (format!("No regression beyond {}", percent(margin)), format!("{claim}."))
                }
            }
        }
        (DiffOutcome::NotMeasured, _) => {
            ("Not measured".to_owned(), format!("{}.", validity::shortfalls(run).join("; ")))
        }
        (DiffOutcome::Undecided, Some(margin)) => {
            let why = match (primary(), diff.gates.first()) {
                (Some(comparison), _) => format!(
                    "{}, so a regression beyond {} is neither shown nor ruled out. A longer \
                     measurement (--max-time) or a quieter machine narrows the interval.",
                    claim(comparison),
                    percent(margin)
                ),
                (None, Some(gate)) => format!("{}.", reason(gate)),
                (None, None) => String::new(),
            };
            ("Undecided".to_owned(), why)
        }
        (DiffOutcome::Regression, None) => {
            ("Failed".to_owned(), format!("{}.", reasons(of(GateDecision::Fails))))
        }
        (DiffOutcome::Passed, None) => {
            ("Passed".to_owned(), format!("not triggered: {}.", reasons(diff.gates.iter())))
        }
        (DiffOutcome::Undecided, None) => {
            ("Undecided".to_owned(), format!("{}.", reasons(of(GateDecision::Inconclusive))))
        }
    }
}

/// Whether a condition is about a metric of the head: an undecided one may have no figures.
fn is_about(gate: &GateOutcome, metric: Metric) -> bool {
    gate.condition.split_whitespace().any(|word| word.ends_with(&format!(".{}", metric.word())))
}

/// An outcome without its leading word.
fn reason(outcome: &GateOutcome) -> String {
    let line = gate::gate(outcome);
    line.split_once(": ").map_or(line.clone(), |(_, rest)| rest.to_owned())
}

fn reasons<'g>(outcomes: impl Iterator<Item = &'g GateOutcome>) -> String {
    outcomes.map(reason).collect::<Vec<_>>().join("; ")
}

fn comparison(run: &Run, metric: Metric) -> Option<&Comparison> {
    let part = run.parts.first()?;
    part.comparisons.iter().find(|comparison| comparison.metric == metric)
}

/// `throughput 0.951× the base (95% CI 0.943–0.959)`.
fn claim(comparison: &Comparison) -> String {
    let name = name(comparison.metric);
    let (value, interval) = ratio(&comparison.judgement.ratio);
    let confidence = words::percent(comparison.judgement.confidence, words::Rounding::Nearest);
    format!("{name} {value} the base ({confidence} CI {interval})")
}

fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        other => setting::metric(other, false),
    }
}

/// The summary for a pull request, as GitHub-flavoured Markdown: the answer, a table, the ledger,
/// and the whole report folded.
pub fn diff_markdown(run: &Run, diff: &Diff) -> String {
    let (lead, rest) = answer(run, diff);
    let mut out = format!("**{}**: {}\n\n", escape(&lead), escape(&rest));
    if let Some((word, rest)) = view::state_in_words(run) {
        out += &format!("> {word}: {rest}\n\n");
    }
    let Some(part) = run.parts.first() else { return out };
    out += &markdown::findings(&caveat::lines(part));
    out += &markdown::optional(uncompared(run).map(|words| format!("{words}.")));
    out += &table(part, diff);
    out += &markdown::reasons(part);
    out += &list(
        [("base", &diff.base), ("head", &diff.head)]
            .into_iter()
            .map(|(side, revision)| format!("{side}: {}", commit(revision))),
    );
    let accounts = (0..part.variants.len()).map(|index| Account::of(part, index));
    out += &list(accounts.map(|account| markdown::ledger(&account)));
    out += &markdown::disturbance(run, part);
    let report = markdown::markdown(run) + "\n";
    let title = "Details: intervals, checks, machine, and how to repeat it";
    out + markdown::details(title, &report).trim_end() + "\n"
}

/// `` `1a2b3c4` Answer faster ``, with what is not committed.
fn commit(revision: &Revision) -> String {
    let dirty = if revision.dirty { " with uncommitted changes" } else { "" };
    format!("`{}` {}{dirty}", revision.short, escape(&revision.subject))
}

fn table(part: &Part, diff: &Diff) -> String {
    let mut out = format!(
        "| | base `{}` | head `{}` | head ÷ base | 95% interval | |\n",
        diff.base.short, diff.head.short
    );
    out += "| :-- | --: | --: | --: | --: | :-- |\n";
    for metric in METRICS {
        let cells = [BASE, HEAD].map(|variant| figure(part, variant, metric));
        let [Some(base), Some(head)] = cells else { continue };
        let found = part.comparisons.iter().find(|comparison| comparison.metric == metric);
        let (value, interval) =
            found.map_or(("–".to_owned(), "–".to_owned()), verdict::ratio_cells);
        let is_uncompared = [BASE, HEAD].iter().any(|v| caveat::is_unsustained(part, *v));
        let decision = match found {
            Some(comparison) => {
                caveat::marked(part, comparison, decision(diff, comparison).to_owned())
            }
            None if is_uncompared && matches!(metric, Metric::P50 | Metric::P99) => {
                "not compared".to_owned()
            }
            None => String::new(),
        };
        let name = match metric {
            Metric::Throughput => view::throughput_unit(part),
            Metric::Cpu => "CPU/request",
            other => name(other),
        };
        out += &format!("| {name} | {base} | {head} | {value} | {interval} | {decision} |\n");
    }
    let failed = part.variants.iter().map(|v| base::format_count(v.ledger.counts.failed));
    out += &format!("| failed | {} | | | |\n\n", failed.collect::<Vec<_>>().join(" | "));
    let adjusted = part.comparisons.iter().find(|comparison| !comparison.primary);
    let adjusted = adjusted.map(|comparison| words::adjustment(&comparison.judgement));
    let note = match adjusted {
        Some(words) => format!("; all but {}: {words}", name(diff.primary)),
        None => String::new(),
    };
    let footnote = caveat::footnote(part);
    let footnote = footnote.map_or_else(String::new, |words| format!(" {}.", escape(&words)));
    out + &format!(
        "p50 and p99: {}{note}; {}.{footnote}\n\n",
        view::times_in_words(part),
        setting::blocks(part)
    )
}

fn figure(part: &Part, variant: usize, metric: Metric) -> Option<String> {
    let figures = figures::of(part, variant)?;
    let value = match metric {
        Metric::Throughput => figures.throughput(part),
        Metric::P50 => figures.percentile(&figures.times.p50_ns),
        Metric::P99 => figures.percentile(&figures.times.p99_ns),
        Metric::Cpu => figures.cpu_ns.map(|_| figures.cpu())?,
        Metric::Memory => return None,
    };
    Some(match validity::is_void(part, variant, metric) {
        true => format!("~~{value}~~"),
        false => value,
    })
}

/// The last cell of a row.
fn decision(diff: &Diff, comparison: &Comparison) -> &'static str {
    let gate = diff.gates.iter().find(|gate| is_about(gate, comparison.metric));
    match (diff.margin.and(gate), comparison.judgement.verdict) {
        (_, Verdict::Invalid) | (None, _) => verdict::in_short(comparison),
        (Some(gate), _) if gate.decision == GateDecision::Fails => "**regression**",
        (Some(gate), Verdict::Faster) if gate.decision == GateDecision::Passes => {
            verdict::in_short(comparison)
        }
        (Some(gate), _) if gate.decision == GateDecision::Passes => "no regression",
        (Some(_), _) if verdict::too_few(comparison) => verdict::in_short(comparison),
        (Some(_), _) => "undecided",
    }
}

/// The summary of a comparison that could not be made.
pub fn diff_failure_markdown(error: &str) -> String {
    let error = markdown::fenced("text", error);
    format!("**Could not compare**: nothing was measured.\n\n{error}")
}
