//! Answers: one line per part, and one sentence per verdict.

pub(crate) mod words;

use base::Nanos;
use record::{Comparison, Metric, Offer, Part, Run, RunKind};
use stats::{DECIDING_BLOCKS_MIN, Judgement, Verdict};

use crate::finding_lines::FindingLine;
use crate::text::{capitalised, ratio};
use crate::{capacity, caveat, disruption, figures, setting, validity, view};
use words::{Measure, Wording, few_in_words, is_few};

/// From this number of comparisons with one baseline, an answer contains only the extremes.
const RANKED_MIN: usize = 3;

/// Whether a comparison has too few blocks to decide anything.
pub(crate) fn too_few(comparison: &Comparison) -> bool {
    let judgement = &comparison.judgement;
    judgement.verdict == Verdict::Inconclusive && is_few(judgement.blocks as usize)
}

/// A ratio and its interval in a table. There is no interval with too few blocks, and no ratio if
/// INVALID.
pub(crate) fn ratio_cells(comparison: &Comparison) -> (String, String) {
    let (value, interval) = ratio(&comparison.judgement.ratio);
    if validity::is_refused(comparison) {
        return ("INVALID".to_owned(), "–".to_owned());
    }
    (value, if too_few(comparison) { "so far".to_owned() } else { interval })
}

/// `2.05× (1.73–2.42)`, `2.05× so far` with too few blocks, or `INVALID`.
pub(crate) fn ratio_in_words(comparison: &Comparison) -> String {
    match ratio_cells(comparison) {
        (value, interval) if interval == "–" => value,
        (value, _) if too_few(comparison) => format!("{value} so far"),
        (value, interval) => format!("{value} ({interval})"),
    }
}

/// A verdict in one or two words.
pub(crate) fn in_short(comparison: &Comparison) -> &'static str {
    use Metric::{Cpu, Memory};
    let larger = comparison.judgement.ratio.value > 1.0;
    match (comparison.judgement.verdict, comparison.metric) {
        (Verdict::Faster | Verdict::Slower, Cpu | Memory) if larger => "more",
        (Verdict::Faster | Verdict::Slower, Cpu | Memory) => "less",
        (Verdict::Faster, _) => "faster",
        (Verdict::Slower, _) => "slower",
        (Verdict::NoDifference, _) => "no difference detected",
        (Verdict::Equivalent, _) => "equivalent",
        (Verdict::Inconclusive, _) if too_few(comparison) => "too few blocks",
        (Verdict::Inconclusive, _) => "inconclusive",
        (Verdict::Invalid, _) => "INVALID",
    }
}

fn measure(part: &Part, comparison: &Comparison) -> Measure {
    Measure::of(comparison.metric, comparison.offer, part.is_bulk())
}

/// `unix serves 1.14× tcp`.
fn claim(part: &Part, comparison: &Comparison) -> String {
    let (value, _) = ratio(&comparison.judgement.ratio);
    measure(part, comparison).claim(
        view::name(part, comparison.variant),
        value.trim_end_matches('×'),
        view::name(part, comparison.baseline),
    )
}

/// A verdict in one short line: `unix serves 1.14× tcp (1.12–1.17)`, with a mark if a warning
/// weakens it.
fn headline(part: &Part, comparison: &Comparison) -> String {
    let (measure, name) = (measure(part, comparison), |of| view::name(part, of));
    let (variant, baseline) = (name(comparison.variant), name(comparison.baseline));
    let words = in_one_line(&comparison.judgement, measure, variant, baseline);
    caveat::marked(part, comparison, words)
}

/// The judgement on `variant ÷ baseline` in one short line.
fn in_one_line(judgement: &Judgement, measure: Measure, variant: &str, baseline: &str) -> String {
    let (value, interval) = ratio(&judgement.ratio);
    let claim = measure.claim(variant, value.trim_end_matches('×'), baseline);
    match judgement.verdict {
        Verdict::Invalid => format!("INVALID: {variant} ÷ {baseline}"),
        _ if !judgement.ratio.value.is_finite() => "no verdict".to_owned(),
        Verdict::Faster | Verdict::Slower => format!("{claim} ({interval})"),
        Verdict::NoDifference => format!("no difference detected: {claim} ({interval})"),
        Verdict::Equivalent => format!("equivalent: {claim} ({interval})"),
        Verdict::Inconclusive if is_few(judgement.blocks as usize) => {
            format!("{}: so far {claim}", few_in_words(judgement.blocks))
        }
        Verdict::Inconclusive => format!("inconclusive: {claim} ({interval})"),
    }
}

/// A run's first verdict in one line, for a list of runs: `unix serves 1.14× tcp (1.12–1.17)`.
pub fn first_verdict(first: &record::FirstComparison) -> String {
    // The list does not know the offer, so `p99` stands without it.
    let measure = match first.metric {
        Metric::P50 | Metric::P99 => Measure::Times(first.metric.word()),
        metric => Measure::of(metric, Offer::Closed, false),
    };
    in_one_line(&first.judgement, measure, &first.variant, &first.baseline)
}

/// One line of a run's answer.
pub(crate) struct AnswerLine<'a> {
    /// The part's name; empty if the run has only one part.
    pub(crate) part: &'a str,
    /// The answer, without a full stop.
    pub(crate) words: String,
}

/// The run's answer to its question, from the primary verdicts of each part.
pub(crate) fn answer(run: &Run) -> Vec<AnswerLine<'_>> {
    let several = run.parts.len() > 1;
    let lines = run.parts.iter().map(|part| {
        let words = of_part(run, part).join("; ");
        match several {
            true => AnswerLine { part: &part.name, words },
            false => AnswerLine { part: "", words: beginning(part, words) },
        }
    });
    lines.collect()
}

/// Capitalises the first word of a line unless it is a name.
fn beginning(part: &Part, words: String) -> String {
    let is_name = part.variants.iter().any(|variant| words.starts_with(&variant.name));
    match words.strip_prefix(caveat::MARK) {
        Some(marked) => {
            format!("{} {}", caveat::MARK, beginning(part, marked.trim_start().to_owned()))
        }
        None if is_name => words,
        None => capitalised(&words),
    }
}

fn of_part(run: &Run, part: &Part) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if validity::is_part_invalid(part) {
        // The stack's log is shown with the reason, not in the answer.
        let causes = validity::causes(part);
        lines.extend(causes.into_iter().map(|finding| format!("INVALID: {}", finding.words)));
    }
    let (primary, _) = view::split_comparisons(part);
    let valid: Vec<&Comparison> =
        primary.into_iter().filter(|c| !validity::is_refused(c) && is_known(c)).collect();
    let mut baselines: Vec<u32> = Vec::new();
    for comparison in &valid {
        if !baselines.contains(&comparison.baseline) {
            baselines.push(comparison.baseline);
        }
    }
    for baseline in baselines {
        let group: Vec<&Comparison> =
            valid.iter().copied().filter(|c| c.baseline == baseline).collect();
        match group.len() {
            ..RANKED_MIN => lines.extend(group.iter().map(|c| headline(part, c))),
            _ => lines.push(ranking(part, &group)),
        }
    }
    lines.extend(disruption::answer(part));
    if lines.is_empty() {
        lines.push(alone(run, part));
    }
    lines
}

/// The answer of a part without a verdict.
fn alone(run: &Run, part: &Part) -> String {
    let figures = |index: usize| Some((&part.variants[index].name, figures::of(part, index)?));
    let measured: Vec<_> = (0..part.variants.len()).filter_map(figures).collect();
    match measured.as_slice() {
        [(name, figures)] if run.kind == RunKind::Load || part.variants.len() == measured.len() => {
            let mark = match caveat::lines(part).is_empty() {
                true => String::new(),
                false => format!("{} ", caveat::MARK),
            };
            format!(
                "{mark}{name} serves {} {}{}",
                figures.throughput(part),
                view::throughput_unit(part),
                if figures.so_far { " so far" } else { "" }
            )
        }
        [] if run.kind == RunKind::Load => "nothing was measured".to_owned(),
        _ => no_verdict(part),
    }
}

/// Why nothing was compared: variants that were skipped, or too little data so far.
pub(crate) fn no_verdict(part: &Part) -> String {
    let mut left = part.variants.iter().filter(|variant| variant.skipped.is_none());
    match (left.next(), left.next()) {
        (None, _) => "nothing could be measured: every variant was skipped".to_owned(),
        (Some(only), None) if part.variants.len() > 1 => {
            format!("no verdict: the variants to compare with {} were skipped", only.name)
        }
        _ => "no verdict: there are not enough blocks to compare".to_owned(),
    }
}

/// The extremes of several variants against one baseline, and the number of undecided ones.
fn ranking(part: &Part, group: &[&Comparison]) -> String {
    // A null server only shows how fast the client is, unless nothing else is compared.
    let is_ceiling = |c: &&Comparison| {
        part.variants.get(c.variant as usize).is_some_and(|variant| variant.ceiling)
    };
    let (ceilings, mut ranked): (Vec<&Comparison>, Vec<&Comparison>) =
        group.iter().partition(|c| is_ceiling(c));
    if ranked.is_empty() {
        ranked = group.to_vec();
    }
    ranked.sort_by(|a, b| a.judgement.ratio.value.total_cmp(&b.judgement.ratio.value));
    let (Some(lowest), Some(highest)) = (ranked.first(), ranked.last()) else {
        return String::new();
    };
    let (least, most, less, more, metric) = match lowest.metric {
        Metric::Throughput => ("slowest", "fastest", "slower than", "faster than", String::new()),
        metric => {
            let metric = setting::metric(metric, part.is_bulk());
            ("lowest", "highest", "below", "above", format!(" in {metric}"))
        }
    };
    let few = group.iter().all(|c| too_few(c));
    let decided = |c: &Comparison| matches!(c.judgement.verdict, Verdict::Faster | Verdict::Slower);
    let all = |beyond: fn(f64) -> bool| {
        ranked.iter().all(|c| decided(c) && beyond(c.judgement.ratio.value))
    };
    let (count, baseline) = (ranked.len(), view::name(part, lowest.baseline));
    let mut words = match () {
        () if few => {
            let few = few_in_words(lowest.judgement.blocks);
            format!("{few}; so far, of {count} compared with {baseline}{metric}")
        }
        () if all(|ratio| ratio > 1.0) => format!("all {count} are {more} {baseline}{metric}"),
        () if all(|ratio| ratio < 1.0) => format!("all {count} are {less} {baseline}{metric}"),
        () => format!("of {count} compared with {baseline}{metric}"),
    };
    let ratio_of = |c: &Comparison| if few { ratio_cells(c).0 } else { ratio_in_words(c) };
    let name_of = |c: &Comparison| caveat::marked(part, c, view::name(part, c.variant).to_owned());
    for (word, comparison) in [(most, highest), (least, lowest)] {
        let name = name_of(comparison);
        words += &format!(", the {word} is {name}, {}", ratio_of(comparison));
        if !few && !decided(comparison) {
            words += &format!(", {}", in_short(comparison));
        }
    }
    for comparison in ceilings.iter().filter(|_| ceilings.len() < group.len()) {
        let name = name_of(comparison);
        words += &format!("; {name}, a null server, {}", ratio_of(comparison));
    }
    let between = ranked.get(1..count - 1).unwrap_or_default();
    let undecided = between.iter().filter(|c| c.judgement.verdict == Verdict::Inconclusive).count();
    if undecided > 0 && !few {
        words += &format!("; {undecided} of the others inconclusive");
    }
    words
}

/// Whether both sides were measured.
fn is_known(comparison: &Comparison) -> bool {
    comparison.judgement.ratio.value.is_finite()
}

/// Load and layout of a comparison.
fn conditions(part: &Part, offer: Offer) -> String {
    if let Some(capacity) = &part.capacity {
        let words = capacity::words::conditions(capacity);
        return format!("highest rates with {words}; {}", setting::part_layout(part));
    }
    let offers = setting::offers(part).into_iter().filter(|(kind, _)| *kind == offer);
    let offers: Vec<_> = offers.collect();
    format!("{}; {}", setting::load(&part.load, &offers), setting::part_layout(part))
}

/// Mean duration of a complete block.
fn block_time(part: &Part) -> Option<Nanos> {
    let (sum, count) = part
        .complete_blocks()
        .fold((0u128, 0u128), |(sum, n), block| (sum + u128::from(block.elapsed.0), n + 1));
    u64::try_from(sum.checked_div(count)?).ok().filter(|nanos| *nanos > 0).map(Nanos)
}

fn circumstances(part: &Part, comparison: &Comparison) -> String {
    let conditions = conditions(part, comparison.offer);
    words::circumstances(&comparison.judgement, comparison.primary, &conditions)
}

/// The sentence of a comparison with its circumstances in parentheses; `circumstances` is empty if
/// they are printed elsewhere.
fn sentence_with(part: &Part, comparison: &Comparison, circumstances: &str) -> String {
    let wording = Wording {
        variant: view::name(part, comparison.variant),
        baseline: view::name(part, comparison.baseline),
        measure: measure(part, comparison),
        circumstances,
        block_time: block_time(part),
        because: &validity::because(part, comparison),
    };
    words::sentence(&comparison.judgement, &wording)
}

/// The complete sentence of a comparison.
pub(crate) fn sentence(part: &Part, comparison: &Comparison) -> String {
    sentence_with(part, comparison, &circumstances(part, comparison))
}

/// The sentences of a part's primary verdicts.
pub(crate) struct Verdicts<'a> {
    /// A sentence before the first verdict.
    pub(crate) lead: Option<String>,
    /// The verdicts.
    pub(crate) rows: Vec<Row<'a>>,
    /// What weakens several of the verdicts, or the figures of a part without verdicts.
    pub(crate) caveats: Vec<FindingLine>,
    /// Which percentiles were not compared and why, without a full stop.
    pub(crate) uncompared: Option<String>,
    /// The circumstances that all verdicts share: `8 blocks; adjusted for 4 comparisons; …`.
    pub(crate) circumstances: Option<String>,
}

/// A primary verdict.
pub(crate) struct Row<'a> {
    /// The comparison.
    pub(crate) comparison: &'a Comparison,
    /// Its sentence, with a full stop, and with a mark if a warning weakens it.
    pub(crate) sentence: String,
    /// Whether a warning weakens it: one of its own, or one of several verdicts.
    pub(crate) weakened: bool,
    /// What weakens this verdict alone.
    pub(crate) caveats: Vec<FindingLine>,
}

/// The sentences of a part's primary verdicts; shared circumstances are given once.
pub(crate) fn verdicts(part: &Part) -> Verdicts<'_> {
    let (mut primary, _) = view::split_comparisons(part);
    let uncompared = caveat::uncompared(part, false);
    let compared = primary.len();
    primary.retain(|c| validity::is_refused(c) || is_known(c));
    if primary.is_empty() {
        let lead = (compared > 0).then(|| "No verdict: no block could be compared.".to_owned());
        let caveats = caveat::lines(part);
        return Verdicts { lead, rows: Vec::new(), caveats, uncompared, circumstances: None };
    }
    let mut valid = primary.iter().filter(|c| !validity::is_refused(c));
    let all_few = primary.len() > 1 && primary.iter().all(|c| too_few(c));
    let lead = primary
        .first()
        .filter(|_| all_few)
        .map(|first| format!("{}. So far:", capitalised(&few_in_words(first.judgement.blocks))));
    let shared = valid.next().map(|first| circumstances(part, first)).filter(|first| {
        primary.len() > 1 && valid.all(|other| circumstances(part, other) == *first)
    });
    let sentence_of = |comparison: &Comparison| {
        if validity::is_refused(comparison) {
            return format!("{}: INVALID (see above).", view::sides(part, comparison));
        }
        if lead.is_some() {
            return format!("{}.", claim(part, comparison));
        }
        match &shared {
            Some(_) => sentence_with(part, comparison, ""),
            None => sentence(part, comparison),
        }
    };
    let mut rows: Vec<Row> = primary
        .iter()
        .map(|comparison| Row {
            comparison,
            sentence: caveat::marked(part, comparison, sentence_of(comparison)),
            weakened: caveat::is_weakened(part, comparison),
            caveats: Vec::new(),
        })
        .collect();
    let mut of_several = Vec::new();
    for mut line in caveat::lines(part) {
        let weakens = |row: &&mut Row| {
            caveat::weakening(part, row.comparison).iter().any(|i| line.findings.contains(i))
        };
        let all = rows.len();
        let mut weakened: Vec<&mut Row> = rows.iter_mut().filter(weakens).collect();
        match weakened.as_mut_slice() {
            [only] => only.caveats.push(line),
            several => {
                let which = if several.len() == all { "all " } else { "" };
                line.words = format!("{which}{} verdicts: {}", several.len(), line.words);
                of_several.push(line);
            }
        }
    }
    Verdicts { lead, rows, caveats: of_several, uncompared, circumstances: shared }
}

/// `2 of 6 blocks`, for provisional figures.
pub(crate) fn blocks_so_far(part: &Part) -> String {
    format!("{} of {DECIDING_BLOCKS_MIN} blocks", part.complete_blocks().count())
}
