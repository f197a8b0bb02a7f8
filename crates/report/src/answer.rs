//! What a run says in short: an answer for each part, its verdicts in a sentence each, what is
//! said once for all of them, and why figures are refused.

use record::{Comparison, Finding, Part, Run, Severity, Variant};
use stats::{DECIDING_BLOCKS_MIN, Verdict};

use crate::text::ratio;
use crate::view;

/// From this many comparisons with one baseline on, only the extremes stand in an answer.
const RANKED_MIN: usize = 3;

/// Whether a comparison has so few blocks that nothing is decided and its interval says nothing.
pub(crate) fn too_few(comparison: &Comparison) -> bool {
    comparison.verdict == Verdict::Inconclusive && is_few(comparison.blocks as usize)
}

/// Whether intervals of so many blocks are left out.
pub(crate) fn is_few(blocks: usize) -> bool {
    blocks < DECIDING_BLOCKS_MIN
}

/// A ratio and its interval in a table; the interval of too few blocks is `–`.
pub(crate) fn ratio_cells(comparison: &Comparison) -> (String, String) {
    let (value, interval) = ratio(&comparison.ratio);
    if comparison.verdict == Verdict::Invalid {
        return ("–".to_owned(), "–".to_owned());
    }
    (value, if too_few(comparison) { "–".to_owned() } else { interval })
}

/// `2.05× (1.73–2.42)`, or `2.05×` of too few blocks.
pub(crate) fn ratio_in_words(comparison: &Comparison) -> String {
    match ratio_cells(comparison) {
        (value, interval) if interval == "–" => value,
        (value, interval) => format!("{value} ({interval})"),
    }
}

/// `unix serves 1.14× tcp`, with `ratio` for the number.
fn claim(part: &Part, comparison: &Comparison) -> String {
    let variant = view::name(part, comparison.variant);
    let baseline = view::name(part, comparison.baseline);
    let (ratio, _) = ratio(&comparison.ratio);
    match comparison.metric.as_str() {
        "throughput" if part.bulk => format!("{variant} moves {ratio} the bytes/s of {baseline}"),
        "throughput" => format!("{variant} serves {ratio} {baseline}"),
        "cpu" | "memory" => {
            let metric = view::metric_in_words(&comparison.metric, part.bulk);
            format!("{variant} needs {ratio} the {metric} of {baseline}")
        }
        metric => format!("{metric} of {variant} is {ratio} {baseline}'s"),
    }
}

/// A verdict in one short line: `unix serves 1.14× tcp (1.12–1.17)`.
fn headline(part: &Part, comparison: &Comparison) -> String {
    let claim = claim(part, comparison);
    let (_, interval) = ratio(&comparison.ratio);
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => format!("{claim} ({interval})"),
        Verdict::NoDifference => format!("no difference detected: {claim} ({interval})"),
        Verdict::Equivalent => format!("equivalent: {claim} ({interval})"),
        Verdict::Inconclusive if too_few(comparison) => {
            format!("{}: so far {claim}", few_in_words(comparison.blocks))
        }
        Verdict::Inconclusive => format!("undecided: {claim} ({interval})"),
        Verdict::Invalid => format!(
            "{} ÷ {} is refused",
            view::name(part, comparison.variant),
            view::name(part, comparison.baseline)
        ),
    }
}

fn few_in_words(blocks: u32) -> String {
    format!("too few blocks for a verdict ({blocks} of {DECIDING_BLOCKS_MIN})")
}

/// One line of a run's answer.
pub(crate) struct Answer<'a> {
    /// The part's name; empty where the run has one part only.
    pub(crate) part: &'a str,
    /// What it says, without a full stop.
    pub(crate) words: String,
}

/// What the run says to its question, from the primary verdicts of each part.
pub(crate) fn answer(run: &Run) -> Vec<Answer<'_>> {
    let several = run.parts.len() > 1;
    let line = |part| Answer {
        part: if several { part_name(part) } else { "" },
        words: if several { words(part) } else { beginning(part, words(part)) },
    };
    run.parts.iter().map(line).collect()
}

fn words(part: &Part) -> String {
    of_part(part).join("; ")
}

/// Words that begin a line; a name stays as it is.
fn beginning(part: &Part, words: String) -> String {
    let is_name = part.variants.iter().any(|variant| words.starts_with(&variant.name));
    if is_name { words } else { capitalised(&words) }
}

fn part_name(part: &Part) -> &str {
    &part.name
}

fn of_part(part: &Part) -> Vec<String> {
    // A part that is named for the variant says the name before it.
    let repeated = format!("{} is refused", part.name);
    let refused = |refusal: Refusal| match refusal.what.strip_prefix(&repeated) {
        Some(why) => format!("refused{why}"),
        None => refusal.what,
    };
    let mut lines: Vec<String> = refusals(part).into_iter().map(refused).collect();
    let (primary, _) = view::split_comparisons(part);
    let valid: Vec<&Comparison> =
        primary.into_iter().filter(|c| c.verdict != Verdict::Invalid && is_known(c)).collect();
    let mut baselines: Vec<u32> = valid.iter().map(|c| c.baseline).collect();
    baselines.dedup();
    for baseline in baselines {
        let group: Vec<&Comparison> =
            valid.iter().copied().filter(|c| c.baseline == baseline).collect();
        match group.len() {
            ..RANKED_MIN => lines.extend(group.iter().map(|c| headline(part, c))),
            _ => lines.push(ranking(part, &group)),
        }
    }
    if lines.is_empty() {
        lines.push(match part.reasons.first() {
            Some(reason) => format!("refused: {}", reason.trim_end_matches('.')),
            None => alone(part),
        });
    }
    lines
}

fn alone(part: &Part) -> String {
    let figures = |v| view::figures(part, v).map(|figures| (v, figures));
    let measured: Vec<(&Variant, view::Figures<'_>)> =
        part.variants.iter().filter_map(figures).collect();
    match measured.as_slice() {
        [(variant, figures)] => format!(
            "{} does {} {}",
            variant.name,
            view::throughput(part, figures.throughput.value),
            view::throughput_unit(part)
        ),
        _ => "no verdict: there are not enough blocks to compare".to_owned(),
    }
}

/// The extremes of several variants against one baseline, and how many more are undecided.
fn ranking(part: &Part, group: &[&Comparison]) -> String {
    // Our own server shows how fast the client is, unless it is all that is compared.
    let (ceilings, mut ranked): (Vec<&Comparison>, Vec<&Comparison>) =
        group.iter().partition(|c| does_nothing(part, c.variant));
    if ranked.is_empty() {
        ranked = group.to_vec();
    }
    ranked.sort_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    let (Some(lowest), Some(highest)) = (ranked.first(), ranked.last()) else {
        return String::new();
    };
    let (least, most, less, more, metric) = match lowest.metric.as_str() {
        "throughput" => ("slowest", "fastest", "slower than", "faster than", String::new()),
        metric => {
            let metric = view::metric_in_words(metric, part.bulk);
            ("lowest", "highest", "below", "above", format!(" in {metric}"))
        }
    };
    let few = group.iter().all(|c| too_few(c));
    let decided = |c: &Comparison| matches!(c.verdict, Verdict::Faster | Verdict::Slower);
    let all = |beyond: fn(f64) -> bool| ranked.iter().all(|c| decided(c) && beyond(c.ratio.value));
    let (count, baseline) = (ranked.len(), view::name(part, lowest.baseline));
    let mut words = match () {
        () if few => {
            let few = few_in_words(lowest.blocks);
            format!("{few}; so far, of {count} compared with {baseline}{metric}")
        }
        () if all(|ratio| ratio > 1.0) => format!("all {count} are {more} {baseline}{metric}"),
        () if all(|ratio| ratio < 1.0) => format!("all {count} are {less} {baseline}{metric}"),
        () => format!("of {count} compared with {baseline}{metric}"),
    };
    for (word, comparison) in [(most, highest), (least, lowest)] {
        let name = view::name(part, comparison.variant);
        words += &format!(", the {word} is {name}, {}", ratio_in_words(comparison));
        if !few && !decided(comparison) {
            words += &format!(", {}", view::verdict_in_words(comparison));
        }
    }
    for comparison in ceilings.iter().filter(|_| ceilings.len() < group.len()) {
        let name = view::name(part, comparison.variant);
        words += &format!("; {name}, which does nothing, {}", ratio_in_words(comparison));
    }
    let between = ranked.get(1..count - 1).unwrap_or_default();
    let undecided = between.iter().filter(|c| c.verdict == Verdict::Inconclusive).count();
    if undecided > 0 && !few {
        words += &format!("; {undecided} of the others undecided");
    }
    words
}

/// Whether a variant is our own server that does nothing, which shows how fast the client is.
fn does_nothing(part: &Part, variant: u32) -> bool {
    let commands = part.variants.get(variant as usize).map(|v| v.commands.as_slice());
    commands.unwrap_or_default().iter().any(|command| command.contains(" serve-fixture "))
}

/// A part's primary verdicts in a sentence each.
pub(crate) struct Verdicts<'a> {
    /// What is said of all of them before the first.
    pub(crate) lead: Option<String>,
    /// The comparisons with their sentences.
    pub(crate) rows: Vec<(&'a Comparison, String)>,
    /// What all of them rest on, where it is the same: `8 blocks; adjusted for 4 comparisons; …`.
    pub(crate) circumstances: Option<String>,
}

/// Whether anything was measured of both sides.
fn is_known(comparison: &Comparison) -> bool {
    comparison.ratio.value.is_finite()
}

/// The sentences of a part's primary verdicts; what is the same in all their brackets is taken out.
pub(crate) fn verdicts(part: &Part) -> Verdicts<'_> {
    let (mut primary, _) = view::split_comparisons(part);
    let compared = primary.len();
    primary.retain(|c| c.verdict == Verdict::Invalid || is_known(c));
    if primary.is_empty() && compared > 0 {
        let lead = Some("No verdict: no block could be used to compare.".to_owned());
        return Verdicts { lead, rows: Vec::new(), circumstances: None };
    }
    let split: Vec<Option<Split>> =
        primary.iter().map(|c| Split::of(&view::plain(&c.sentence), c.blocks)).collect();
    let mut shared = split.iter().flatten().map(|split| split.circumstances.clone());
    let first = shared.next();
    // A sentence that stands alone keeps its bracket.
    let alone = primary.len() == 1 && !too_few(primary[0]);
    let circumstances = first.filter(|first| !alone && shared.all(|other| other == *first));
    let lead = (primary.len() > 1 && primary.iter().all(|c| too_few(c)))
        .then(|| format!("{}. So far:", capitalised(&few_in_words(primary[0].blocks))));
    let sentence = |comparison: &Comparison, split: Option<Split>| {
        let refused = refusals(part)
            .into_iter()
            .find(|r| [comparison.variant, comparison.baseline].contains(&r.variant));
        match (comparison.verdict, refused) {
            (Verdict::Invalid, Some(refusal)) => {
                let name = view::name(part, refusal.variant);
                return format!(
                    "INVALID: {} ÷ {}, because {name} is refused.",
                    view::name(part, comparison.variant),
                    view::name(part, comparison.baseline)
                );
            }
            (Verdict::Invalid, None) if !part.reasons.is_empty() => {
                return format!(
                    "INVALID: {} ÷ {}, as the whole part is.",
                    view::name(part, comparison.variant),
                    view::name(part, comparison.baseline)
                );
            }
            _ if lead.is_some() => return format!("{}.", claim(part, comparison)),
            _ if too_few(comparison) => {
                return format!("{}.", capitalised(&headline(part, comparison)));
            }
            _ => {}
        }
        match split.filter(|_| circumstances.is_some()) {
            Some(split) => sober(&split.short),
            None => sober(without_quick(&view::plain(&comparison.sentence))),
        }
    };
    let rows = primary.iter().zip(split).map(|(c, split)| (*c, sentence(c, split))).collect();
    Verdicts { lead, rows, circumstances }
}

pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A recorded sentence without what its bracket says from the number of blocks on.
#[derive(Debug, PartialEq)]
struct Split {
    short: String,
    circumstances: String,
}

impl Split {
    fn of(sentence: &str, blocks: u32) -> Option<Split> {
        let sentence = without_quick(sentence);
        let count = crate::text::plural(blocks as usize, "block");
        let inside = format!("; {count}");
        let (start, from) = match sentence.rfind(&inside) {
            Some(at) => (at, at + 2),
            None => {
                let at = sentence.rfind(&format!(" ({count}"))?;
                (at, at + 2)
            }
        };
        let mut depth = 0;
        let end = from
            + sentence[from..].find(|c| {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth < 0
            })?;
        // A bracket in which nothing is left goes as a whole.
        let (head, rest) = (&sentence[..start], &sentence[end..]);
        let rest = if start + 2 == from && sentence[start..].starts_with(" (") {
            &rest[1..]
        } else {
            rest
        };
        Some(Split {
            short: format!("{head}{rest}"),
            circumstances: sentence[from..end].to_owned(),
        })
    }
}

/// That a run was short is said once in a part.
fn without_quick(sentence: &str) -> &str {
    sentence.trim_end_matches(" Quick look: shorter than a full run.")
}

/// A sentence of an earlier version, which could ask for a thousand hours of blocks.
fn sober(sentence: &str) -> String {
    let hours = || {
        let about = sentence.find("; about ")?;
        let (_, rest) = sentence[about..].split_once(" (")?;
        let (hours, _) = rest.split_once(" h) in a new run")?;
        let hours: f64 = hours.parse().ok()?;
        (hours > 24.0)
            .then(|| format!("{}; more than a day of blocks would be needed.", &sentence[..about]))
    };
    hours().unwrap_or_else(|| sentence.to_owned())
}

/// Why a variant's figures are not to be used.
pub(crate) struct Refusal {
    pub(crate) variant: u32,
    /// `short-backlog is refused: 52,555 of 100,471 requests failed (52,555 status 502)`.
    pub(crate) what: String,
    /// The last line that its stack wrote.
    pub(crate) log: Option<String>,
}

const LOG: &str = " (last line of its log: ";

/// Each variant that broke a rule of the ledger, with what it broke, once.
pub(crate) fn refusals(part: &Part) -> Vec<Refusal> {
    let mut found: Vec<Refusal> = Vec::new();
    let mut seen: Vec<(u32, &str)> = Vec::new();
    for finding in invalid(part) {
        let Some(variant) = finding.variant else { continue };
        if seen.contains(&(variant, &finding.check)) {
            continue;
        }
        seen.push((variant, &finding.check));
        let name = view::name(part, variant);
        let sentence = view::plain(&finding.sentence);
        let (why, log) = match sentence.split_once(LOG) {
            Some((why, log)) => (why, Some(log.strip_suffix(')').unwrap_or(log).to_owned())),
            None => (sentence.as_str(), None),
        };
        let why = why.strip_prefix(name).unwrap_or(why).trim_start_matches([':', ',', ' ']);
        let all = part.variants.get(variant as usize).and_then(failures);
        let why = match all {
            Some(all) if finding.check == "errors" => all,
            _ => why.trim_end_matches('.').to_owned(),
        };
        found.push(Refusal { variant, what: format!("{name} is refused: {why}"), log });
    }
    found
}

fn invalid(part: &Part) -> impl Iterator<Item = &Finding> {
    part.findings.iter().filter(|finding| finding.severity == Severity::Invalid)
}

/// `52,555 of 100,471 requests failed (52,555 status 502)`.
fn failures(variant: &Variant) -> Option<String> {
    let counts = &variant.ledger.counts;
    let kinds: Vec<String> = variant
        .ledger
        .errors
        .iter()
        .map(|(kind, count)| format!("{} {kind}", base::format_count(*count)))
        .collect();
    (counts.failed > 0).then(|| {
        format!(
            "{} of {} requests failed ({})",
            base::format_count(counts.failed),
            base::format_count(counts.sent),
            kinds.join(", ")
        )
    })
}

/// Whether a variant's figures are not to be used; a reason that blames no variant spoils all of them.
pub(crate) fn is_refused(part: &Part, variant: usize) -> bool {
    let refusals = refusals(part);
    reasons(part).len() > refusals.len() || refusals.iter().any(|r| r.variant as usize == variant)
}

/// Why a part is invalid: each variant that is refused, and then what no variant is to blame for.
pub(crate) fn reasons(part: &Part) -> Vec<String> {
    let refusals = refusals(part);
    let refused = |variant: Option<u32>| refusals.iter().any(|r| Some(r.variant) == variant);
    let mut rejected = part.findings.iter().filter(|f| f.severity == Severity::Rejected);
    let blameless = !refusals.is_empty() && rejected.all(|finding| refused(finding.variant));
    let told = |reason: &str| {
        let by_finding = invalid(part).any(|finding| {
            finding.variant.is_some()
                && (reason.contains(&finding.sentence) || finding.sentence.contains(reason))
        });
        // Blocks in which only what is refused was disturbed say nothing about the machine.
        by_finding || (blameless && reason.contains(" blocks were rejected; "))
    };
    let others = part.reasons.iter().filter(|reason| !told(reason)).cloned();
    let refusals = refusals.iter().map(|refusal| match &refusal.log {
        Some(log) => format!("{}. The last line of its log: {log}", refusal.what),
        None => format!("{}.", refusal.what),
    });
    refusals.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(sentence: &str, blocks: u32) -> Option<(String, String)> {
        Split::of(sentence, blocks).map(|split| (split.short, split.circumstances))
    }

    #[test]
    fn brackets_lose_what_is_the_same_for_all() {
        let text = "unix serves 1.21× tcp (95% CI 1.17–1.25; 20 blocks; adjusted for 3 comparisons; \
                    2 connections (kept), closed loop). Quick look: shorter than a full run.";
        let (short, rest) = split(text, 20).unwrap();
        assert_eq!(short, "unix serves 1.21× tcp (95% CI 1.17–1.25).");
        assert_eq!(
            rest,
            "20 blocks; adjusted for 3 comparisons; 2 connections (kept), closed loop"
        );
        let text = "Inconclusive: −1% to +6.2% with a target of ±2% (unix ÷ tcp in requests/s; \
                    20 blocks; 2 connections); about 42 more blocks (4 min) in a new run.";
        let (short, _) = split(text, 20).unwrap();
        assert_eq!(
            short,
            "Inconclusive: −1% to +6.2% with a target of ±2% (unix ÷ tcp in requests/s); \
             about 42 more blocks (4 min) in a new run."
        );
        let text = "Too few blocks for a verdict (2 of 6): so far a serves 4.29× b (2 blocks; x).";
        let (short, rest) = split(text, 2).unwrap();
        assert_eq!(short, "Too few blocks for a verdict (2 of 6): so far a serves 4.29× b.");
        assert_eq!(rest, "2 blocks; x");
        assert_eq!(split("unix serves 1.21× tcp.", 20), None);
        assert_eq!(split("unclosed (95%; 20 blocks", 20), None);
    }

    #[test]
    fn a_thousand_hours_are_no_advice() {
        let old =
            |time: &str| format!("Inconclusive: x (y); about 9 more blocks ({time}) in a new run.");
        assert_eq!(
            sober(&old("913.4 h")),
            "Inconclusive: x (y); more than a day of blocks would be needed."
        );
        for time in ["3.3 h", "49 min"] {
            assert_eq!(sober(&old(time)), old(time));
        }
    }
}
