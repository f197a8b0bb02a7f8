//! Two runs side by side: figures, their ratio, and why that is no verdict.

use base::Nanos;
use record::{Part, Run, RunKind};
use stats::Estimate;

use crate::load::LoadReport;
use crate::page::Page;
use crate::text::{self, Style, Tone, fit, indented, left, right, time};
use crate::{caveat, figures, setting, validity, view};

/// Width of the column of a run's figures.
const FIGURES: usize = 26;
/// Width of the column of names.
const NAMES: usize = 14;

/// Two runs side by side for a terminal or a pipe, ending in a newline.
pub fn beside(a: &Run, b: &Run, style: &Style) -> String {
    let mut page = Page::new(style);
    for (letter, run) in [("A", a), ("B", b)] {
        head(&mut page, letter, run);
    }
    let pairs = pairs(a, b);
    for (name, of_a, of_b) in &pairs {
        table(&mut page, name, *of_a, *of_b);
    }
    for (letter, run) in [("A", a), ("B", b)] {
        for words in run.parts.iter().filter_map(caveat::footnote) {
            page.paragraph(Tone::Warn, 2, format!("{letter}: {words}."));
        }
    }
    page.blank();
    if pairs.is_empty() {
        let words = "These runs have no variant in common that both measured.";
        page.paragraph(Tone::Plain, 0, words);
    }
    page.paragraph(Tone::Warn, 0, no_verdict(a, b));
    page.finish()
}

fn head(page: &mut Page<'_>, letter: &str, run: &Run) {
    let when = run.started.strftime("%Y-%m-%d %H:%M UTC");
    page.line(format!("{}  {}  {when}", page.style.paint(Tone::Bold, letter), run.id));
    let load = run.parts.first().map(|part| load(run, part)).unwrap_or_default();
    page.line(indented(&format!("{}; {load}", asked(run)), 3, page.style.columns()));
    if validity::is_invalid(run) {
        page.line(page.style.paint(Tone::Bad, "   INVALID: do not use these figures."));
    }
}

/// The figures of a pair of variants and their ratios.
fn table(page: &mut Page<'_>, name: &str, of_a: RunVariant<'_>, of_b: RunVariant<'_>) {
    let style = page.style;
    page.blank();
    page.line(style.paint(Tone::Bold, &fit(name, style.columns())));
    let line = |name: &str, [a, b, ratio]: [&str; 3]| {
        let figures = [a, b].map(|figure| right(figure, FIGURES)).concat();
        format!("{}{figures}{}", left(name, NAMES), right(ratio, 9))
    };
    page.line(style.paint(Tone::Dim, &line("", ["A", "B", "B ÷ A"])));
    for (a, b) in figures_of(of_a).iter().zip(&figures_of(of_b)) {
        let ratio = b.estimate.value / a.estimate.value;
        let known = ratio.is_finite() && a.is_comparable && b.is_comparable;
        let ratio = if known { format!("{ratio:.2}×") } else { "–".to_owned() };
        page.line(line(a.name, [&a.words, &b.words, &ratio]));
    }
}

/// The target or the question.
fn asked(run: &Run) -> String {
    match run.kind {
        RunKind::Load => run.title.clone(),
        _ if run.question.is_empty() => run.title.clone(),
        _ => run.question.clone(),
    }
}

fn load(run: &Run, part: &Part) -> String {
    LoadReport::from_run(run).map_or_else(|| setting::line(part), |report| report.setting())
}

/// Why these ratios are not verdicts, and what to do instead.
fn no_verdict(a: &Run, b: &Run) -> String {
    let apart = (a.started.as_nanosecond() - b.started.as_nanosecond()).unsigned_abs();
    let apart = Nanos(u64::try_from(apart).unwrap_or(u64::MAX));
    let mut words = format!(
        "No verdict: the runs began {apart} apart, and a machine changes its speed from one hour to \
         the next, so the ratio holds that change too."
    );
    if a.machine.cpu_model != b.machine.cpu_model || a.machine.cpus != b.machine.cpus {
        words += " They ran on different machines.";
    }
    let load = |run: &Run| run.parts.first().map(|part| part.load.clone());
    if load(a) != load(b) {
        words += " Their loads differ.";
    }
    words + " To decide, measure both in one run, in which they take turns: tachograph compare."
}

/// A variant of a run.
type RunVariant<'a> = (&'a Part, usize);

/// Pairs of variants in both runs: same part and name, or the only one of each.
fn pairs<'a>(a: &'a Run, b: &'a Run) -> Vec<(String, RunVariant<'a>, RunVariant<'a>)> {
    let all = |run: &'a Run| -> Vec<RunVariant<'a>> {
        let of_part = |part: &'a Part| (0..part.variants.len()).map(move |index| (part, index));
        run.parts
            .iter()
            .flat_map(of_part)
            .filter(|(part, v)| figures::of(part, *v).is_some())
            .collect()
    };
    let name = |(part, index): &RunVariant<'_>| part.variants[*index].name.clone();
    let (of_a, of_b) = (all(a), all(b));
    if let ([a], [b]) = (of_a.as_slice(), of_b.as_slice()) {
        let words =
            if name(a) == name(b) { name(a) } else { format!("{} and {}", name(a), name(b)) };
        return vec![(words, *a, *b)];
    }
    let several = a.parts.len() > 1;
    of_a.iter()
        .filter_map(|of| {
            let same =
                |other: &&RunVariant<'_>| other.0.name == of.0.name && name(other) == name(of);
            let other = of_b.iter().find(same)?;
            let words = if several { format!("{}: {}", of.0.name, name(of)) } else { name(of) };
            Some((words, *of, *other))
        })
        .collect()
}

/// A figure of one of the runs.
struct Figure {
    name: &'static str,
    estimate: Estimate,
    /// The figure with its interval and its mark: `1,120 (1,003–1,251)`.
    words: String,
    is_comparable: bool,
}

fn figures_of((part, variant): RunVariant<'_>) -> Vec<Figure> {
    let Some(figures) = figures::of(part, variant) else { return Vec::new() };
    let figure = |name, estimate, words: &dyn Fn(f64) -> String, mark: &str| {
        let words = with_interval(part, &estimate, words) + mark;
        Figure { name, estimate, words, is_comparable: mark.is_empty() }
    };
    let throughput = |value: f64| view::throughput(part, value);
    let mut all = vec![
        figure(view::throughput_unit(part), figures.throughput, &throughput, ""),
        figure("p50", figures.times.p50_ns, &time, figures.mark()),
        figure("p99", figures.times.p99_ns, &time, figures.mark()),
    ];
    all.extend(figures.cpu_ns.map(|cpu| figure("CPU/request", cpu, &time, "")));
    all
}

fn with_interval(part: &Part, estimate: &Estimate, words: &dyn Fn(f64) -> String) -> String {
    let value = text::value(estimate, words);
    match text::interval(estimate, words).filter(|_| !view::few_blocks(part)) {
        Some(interval) => format!("{value} ({interval})"),
        None => value,
    }
}
