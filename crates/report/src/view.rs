//! What all exporters ask of a run: its headline figures and its state in words.

use base::format_rate;
use record::{
    Block, Comparison, Distribution, Finding, Part, Run, RunState, Severity, Summary, Trial,
    Variant,
};
use stats::{Estimate, Verdict};

use crate::{answer, text};

/// The figures that stand in a variant's row.
pub(crate) struct Figures<'a> {
    /// Requests per second, or bytes per second in a bulk part.
    pub(crate) throughput: Estimate,
    /// The summary that latency is read from.
    pub(crate) times: &'a Summary,
    /// CPU of the stack per request.
    pub(crate) cpu_ns: Option<Estimate>,
}

/// The summary that says how much a variant can do: closed loop if there is one.
pub(crate) fn capacity(variant: &Variant) -> Option<&Summary> {
    variant.summaries.iter().find(|s| s.offer == "closed").or(variant.summaries.first())
}

/// The summary that says how long a variant takes: open loop if there is one.
pub(crate) fn promptness(variant: &Variant) -> Option<&Summary> {
    variant.summaries.iter().find(|s| s.offer == "open").or(variant.summaries.first())
}

/// A variant's row; `None` if nothing was measured.
pub(crate) fn figures<'a>(part: &Part, variant: &'a Variant) -> Option<Figures<'a>> {
    let capacity = capacity(variant)?;
    let times = promptness(variant)?;
    let mut throughput = capacity.throughput_per_s;
    if part.bulk {
        let scale = capacity.bytes_per_s / throughput.value;
        let scaled = |value: f64| value * scale;
        throughput = Estimate {
            value: capacity.bytes_per_s,
            low: scaled(throughput.low),
            high: scaled(throughput.high),
        };
    }
    Some(Figures { throughput, times, cpu_ns: capacity.cpu_ns_per_request })
}

/// The head of the throughput column.
pub(crate) fn throughput_unit(part: &Part) -> &'static str {
    if part.bulk { "GB/s" } else { "requests/s" }
}

/// A throughput without its unit: `1,837`, or `3.21` in a bulk part.
pub(crate) fn throughput(part: &Part, value: f64) -> String {
    if part.bulk { format_rate(value / 1e9) } else { format_rate(value) }
}

/// `1,820–1,854`; `–` where too few blocks stand behind it.
pub(crate) fn throughput_interval(part: &Part, estimate: &Estimate) -> String {
    if few_blocks(part) {
        return "–".to_owned();
    }
    format!("{}–{}", throughput(part, estimate.low), throughput(part, estimate.high))
}

/// What the percentiles of a part are percentiles of.
pub(crate) fn times_in_words(part: &Part) -> String {
    match part.variants.iter().find_map(promptness) {
        Some(Summary { offer, offered_per_s: Some(rate), .. }) if offer == "open" => {
            format!("latency, open loop at {} requests/s", format_rate(*rate))
        }
        Some(summary) if summary.offer == "open" => "latency, open loop".to_owned(),
        _ => "service time, closed loop".to_owned(),
    }
}

/// The offer whose times stand in the tables and curves.
pub(crate) fn times_offer(part: &Part) -> &str {
    part.variants.iter().find_map(promptness).map_or("closed", |s| s.offer.as_str())
}

/// Answers smaller than this are judged by their number, not by their bytes.
const BYTES_WORTH_SAYING: f64 = 1024.0;

/// How many bytes each variant moves and what they cost, where answers are large:
/// `tcp 1.21 GB/s at 0.81 s of CPU per GB`.
pub(crate) fn bytes_in_words(part: &Part) -> Option<String> {
    let of = |variant: &Variant| {
        let closed = capacity(variant)?;
        let bytes = closed.bytes_per_s / closed.throughput_per_s.value;
        if part.bulk || !bytes.is_finite() || bytes < BYTES_WORTH_SAYING {
            return None;
        }
        let cost = closed.cpu_ns_per_request.map_or_else(String::new, |cpu| {
            format!(" at {} s of CPU per GB", format_rate(cpu.value / bytes))
        });
        Some(format!("{} {}{cost}", variant.name, text::bandwidth(closed.bytes_per_s)))
    };
    let words: Vec<String> = part.variants.iter().filter_map(of).collect();
    (!words.is_empty()).then(|| format!("bodies: {}", words.join(", ")))
}

/// Whether anything was measured under this offer.
pub(crate) fn has_offer(part: &Part, offer: &str) -> bool {
    part.measured_blocks().flat_map(|block| &block.trials).any(|trial| trial.offer == offer)
}

/// Accepted trials of a variant under an offer, with their blocks.
pub(crate) fn trials<'a>(
    part: &'a Part,
    variant: usize,
    offer: &'a str,
) -> impl Iterator<Item = (&'a Block, &'a Trial)> {
    part.measured_blocks()
        .filter(|block| block.accepted())
        .flat_map(|block| block.trials.iter().map(move |trial| (block, trial)))
        .filter(move |(_, trial)| trial.variant as usize == variant && trial.offer == offer)
}

/// Latency where the loop was open; service time where it was closed, where every
/// request is due at the moment it is sent and so both are the same.
pub(crate) fn times(trial: &Trial) -> &Distribution {
    trial.latency.as_ref().unwrap_or(&trial.service_time)
}

/// The middle of some numbers; `None` of none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// A variant's name by its index.
pub(crate) fn name(part: &Part, variant: u32) -> &str {
    part.variants.get(variant as usize).map_or("?", |variant| &variant.name)
}

/// The primary verdicts, and the others.
pub(crate) fn split_comparisons(part: &Part) -> (Vec<&Comparison>, Vec<&Comparison>) {
    part.comparisons.iter().partition(|comparison| comparison.primary)
}

/// Whether figures of this part have no interval worth showing.
pub(crate) fn few_blocks(part: &Part) -> bool {
    answer::is_few(block_counts(part).0)
}

/// How many blocks were accepted and how many rejected.
pub(crate) fn block_counts(part: &Part) -> (usize, usize) {
    let accepted = part.measured_blocks().filter(|block| block.accepted()).count();
    (accepted, part.measured_blocks().count() - accepted)
}

/// `12 blocks, 1 rejected`.
pub(crate) fn blocks_in_words(part: &Part) -> String {
    let (accepted, rejected) = block_counts(part);
    let mut words = text::plural(accepted, "block");
    if rejected > 0 {
        words += &format!(", {rejected} rejected");
    }
    words
}

/// What a metric is called in a table.
pub(crate) fn metric_in_words(metric: &str, bulk: bool) -> &str {
    match metric {
        "throughput" if bulk => "bytes/s",
        "throughput" => "requests/s",
        "cpu" => "CPU per request",
        "memory" => "peak memory",
        other => other,
    }
}

/// A verdict in one or two words.
pub(crate) fn verdict_in_words(comparison: &Comparison) -> &'static str {
    let larger = comparison.ratio.value > 1.0;
    match (comparison.verdict, comparison.metric.as_str()) {
        (Verdict::Faster | Verdict::Slower, "cpu" | "memory") if larger => "more",
        (Verdict::Faster | Verdict::Slower, "cpu" | "memory") => "less",
        (Verdict::Faster, _) => "faster",
        (Verdict::Slower, _) => "slower",
        (Verdict::NoDifference, _) => "no difference detected",
        (Verdict::Equivalent, _) => "equivalent",
        (Verdict::Inconclusive, _) if answer::too_few(comparison) => "too few blocks",
        (Verdict::Inconclusive, _) => "inconclusive",
        (Verdict::Invalid, _) => "INVALID",
    }
}

/// A sentence without Markdown's emphasis.
pub(crate) fn plain(sentence: &str) -> String {
    sentence.replace("**", "")
}

/// What has to be said about how the run ended; `None` if it went to its end.
pub(crate) fn state_in_words(run: &Run) -> Option<&'static str> {
    match run.state {
        RunState::Done => None,
        RunState::Running => {
            Some("Cut off: the run was killed, or is still going on. What it had by then is shown.")
        }
        RunState::Interrupted => Some(
            "Stopped early: somebody who stops a run has seen its data, so the intervals are the wider ones that stay valid at any time.",
        ),
        RunState::Failed => Some("Failed: the run could not go on. What it had by then is shown."),
    }
}

/// Every reason for which a run is invalid, those of its parts named for them.
pub(crate) fn reasons(run: &Run) -> Vec<String> {
    let mut reasons = run.reasons.clone();
    for part in &run.parts {
        for reason in &part.reasons {
            if run.parts.len() > 1 {
                reasons.push(format!("{}: {reason}", part.name));
            } else {
                reasons.push(reason.clone());
            }
        }
    }
    reasons
}

/// A part's heading: its name before its question, unless the question holds the name.
pub(crate) fn heading(part: &Part) -> String {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let (question, name) = (part.question.to_lowercase(), part.name.to_lowercase());
    let said = question.match_indices(&name).any(|(at, _)| {
        edge(question[..at].chars().next_back()) && edge(question[at + name.len()..].chars().next())
    });
    if said { part.question.clone() } else { format!("{}: {}", part.name, part.question) }
}

/// What the experiment says about itself, from the text of it that was recorded; empty if there is none.
pub(crate) fn about(run: &Run) -> String {
    let plan: toml::Table = toml::from_str(&run.plan).unwrap_or_default();
    let about = plan.get("experiment").and_then(|experiment| experiment.get("about"));
    about.and_then(|about| about.as_str()).unwrap_or_default().trim().to_owned()
}

/// Findings in words, the gravest first, one for each kind: what differs in its numbers only is
/// told by its worst case.
pub(crate) fn findings(part: &Part) -> Vec<(Severity, String)> {
    let mut kinds: Vec<Vec<&Finding>> = Vec::new();
    for finding in &part.findings {
        let same = |kind: &&mut Vec<&Finding>| {
            let first = kind[0];
            (&first.check, first.severity) == (&finding.check, finding.severity)
                && (first.variant == finding.variant && finding.block.is_some()
                    || skeleton(part, first) == skeleton(part, finding))
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(rank(kind[0].severity)));
    kinds.iter().map(|kind| (kind[0].severity, in_one(part, kind))).collect()
}

/// A finding's sentence without its variant and its numbers.
fn skeleton(part: &Part, finding: &Finding) -> String {
    let variant = finding.variant.map_or("", |variant| name(part, variant));
    let rest = if variant.is_empty() {
        finding.sentence.clone()
    } else {
        finding.sentence.replace(variant, "")
    };
    rest.chars().filter(|c| !c.is_ascii_digit() && !"+-.".contains(*c)).collect()
}

fn in_one(part: &Part, kind: &[&Finding]) -> String {
    let off = |finding: &Finding| (finding.value.abs() - finding.limit).abs();
    let worst = kind.iter().copied().reduce(|a, b| if off(b) > off(a) { b } else { a });
    let Some(worst) = worst else { return String::new() };
    let mut blocks: Vec<u32> = kind.iter().filter_map(|finding| finding.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    if kind.len() > 1 && worst.check == "drift" {
        let variant = worst.variant.map_or("?", |variant| name(part, variant));
        return format!(
            "throughput changed within blocks: in {}, by {} at most ({variant})",
            text::plural(blocks.len(), "block"),
            format!("{:+.0}%", 100.0 * worst.value).replace('-', "−")
        );
    }
    let mut sentence = plain(&worst.sentence);
    let mut others: Vec<&str> = kind
        .iter()
        .filter(|finding| finding.variant != worst.variant)
        .filter_map(|finding| finding.variant.map(|variant| name(part, variant)))
        .collect();
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        sentence += &format!(" (also: {})", others.join(", "));
    } else if blocks.len() > 1 {
        sentence += &format!(" (and in {})", text::plural(blocks.len() - 1, "more block"));
    }
    sentence
}

fn rank(severity: Severity) -> u8 {
    match severity {
        Severity::Note => 0,
        Severity::Rejected => 1,
        Severity::Warning => 2,
        Severity::Invalid => 3,
    }
}

/// What a severity is called.
pub(crate) fn severity_in_words(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Rejected => "rejected",
        Severity::Invalid => "INVALID",
    }
}

/// The machine in one line.
pub(crate) fn machine_line(run: &Run) -> String {
    let m = &run.machine;
    let mut words = vec![
        m.cpu_model.clone(),
        text::plural(m.cpus as usize, "CPU"),
        base::Bytes(m.memory_bytes).to_string(),
        format!("Linux {}", m.kernel),
        m.os.clone(),
    ];
    words.extend(m.hypervisor.clone());
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

/// The published ratio that stands beside a comparison of throughputs, if both its variants were published
/// by the same source.
pub(crate) fn published_ratio(part: &Part, comparison: &Comparison) -> Option<(f64, String)> {
    if comparison.metric != "throughput" {
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
                "name": name, "question": question, "layout": "", "load": "", "variants": [],
                "blocks": [], "comparisons": [], "findings": [], "published": [], "reasons": [],
                "precision": 0.02, "quick": false, "bulk": false,
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
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
