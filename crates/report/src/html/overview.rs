//! Charts of all parts of a run: their ratios, and, if several parts compare the same variants, a
//! grid.

use maud::{Markup, PreEscaped, html};
use record::{Comparison, Metric, Offer, Part, Run, Summary};
use stats::Estimate;

use super::{both, charted, charts, note, section as section_of, tables};
use crate::changes::{self, Effect};
use crate::chart::{
    self, AxisFormat, Forest, Heat, HeatCell, HeatRow, Sweep, SweepLine, SweepPoint,
};
use crate::figures::scaled;
use crate::{validity, verdict, view};

/// With more ratios than this, one chart is unreadable; each part has its own then.
const ROWS_MAX: usize = 30;

/// Caption of a grid.
pub(super) const GRID: &str = "Throughput as a multiple of each part's baseline, which is 1×. \
    Bold: the interval excludes 1. Blue is faster, orange slower.";

/// Caption of figures by size.
pub(super) const SWEEP: &str = "Both axes are logarithmic. Marks are estimates, vertical lines \
    their intervals; estimates from too few blocks have none. INVALID parts are omitted.";

/// Names the baselines of the ratios of all parts.
pub(super) fn baselines(run: &Run) -> String {
    let of_part =
        |part| view::split_comparisons(part).0.into_iter().map(move |c| (part, c.baseline));
    let mut names: Vec<&str> =
        run.parts.iter().flat_map(of_part).map(|(part, b)| view::name(part, b)).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [one] => format!("Each ratio is relative to {one}."),
        _ => "Each ratio is relative to the baseline of its part.".to_owned(),
    }
}

/// The section before the parts; empty for a run of one part.
pub(super) fn section(run: &Run) -> Markup {
    html! {
        (grids(run))
        @if let Some(data) = forest(run) {
            (charted("The ratio, part by part", |w| chart::forest(&data, w), charts::forest_words(&data)))
        }
        @for (_, data) in sweeps(run) {
            (charted(&data.title, |w| chart::sweep(&data, w), SWEEP))
        }
        (changed(run))
    }
}

/// What each change from one part to another does.
fn changed(run: &Run) -> Markup {
    let effects = changes::effects(run);
    let mut above = String::new();
    let mut new = |effect: &Effect<'_>| {
        let what = effect.what();
        (what != above).then(|| above.clone_from(&what)).map(|()| what)
    };
    let rows = html! {
        @for effect in &effects {
            @if let Some(what) = new(effect) { tr.title { td.name colspan="4" { span.pin { (what) } } } }
            @let [before, after, change] = effect.ratios();
            tr {
                td.words { (effect.compared()) } td { (before) } td { (after) }
                td { @if effect.is_detected() { b { (change) } } @else { (change) } }
            }
        }
    };
    let [_, heads @ ..] = changes::HEADS;
    let head = html! { @for head in heads { th { (head) } } };
    html! {
        @if !effects.is_empty() {
            (section_of(changes::TITLE, html! {
                (tables::table(head, rows))
                (note(changes::LEGEND.to_owned() + "."))
            }))
        }
    }
}

/// Caption of a grid against a variant that the reader chose.
const PICKED: &str = "Throughput as a multiple of the chosen variant's, which is 1×: estimates, without intervals. For a verdict, measure with --baseline. Blue is faster, orange slower.";

/// The grids from which the reader chooses: against each part's own baseline, and against each
/// variant that shares a part with others. No script: the page contains every grid, and the style
/// shows the one whose button is pressed.
fn grids(run: &Run) -> Markup {
    let Some(own) = heat(run) else { return html! {} };
    let mut choices = vec![("each part's own".to_owned(), own, GRID)];
    for name in names(run) {
        let is_comparable = |part: &&Part| {
            let has = |name: &str| throughput_of(part, name).is_some();
            has(name) && part.variants.iter().any(|other| other.name != name && has(&other.name))
        };
        if run.parts.iter().any(|part| is_comparable(&part)) {
            let title = format!("Throughput as a multiple of {name}'s");
            choices.push((
                name.to_owned(),
                grid(run, title, |p, row| against(p, row, name)),
                PICKED,
            ));
        }
    }
    let shown = |at: usize| {
        format!("#baseline-{at}:checked ~ .panels > :nth-child({}) {{ display: block; }}\n", at + 1)
    };
    html! {
        section.pick {
            h3 { "All parts at a glance" }
            style { @for at in 0..choices.len() { (PreEscaped(shown(at))) } }
            span.small.muted { "Baseline:" }
            @for (at, (label, _, _)) in choices.iter().enumerate() {
                " " input type="radio" name="baseline" id={ "baseline-" (at) } checked[at == 0];
                label for={ "baseline-" (at) } { (label) }
            }
            div.panels {
                @for (_, data, words) in &choices {
                    div { (both(|w| chart::heat(data, w))) (note(words)) }
                }
            }
        }
    }
}

/// Minimum factor between the response sizes of successive parts.
const SIZE_STEP_MIN: f64 = 1.5;

/// Figures to chart by size: file name, title, unit, format, and the figure from a summary and the
/// response size in bytes.
type Figure =
    (&'static str, &'static str, &'static str, AxisFormat, fn(&Summary, f64) -> Option<Estimate>);

const FIGURES: [Figure; 3] = [
    ("requests", "Requests per second by response size", "requests/s", AxisFormat::Rate, |s, _| {
        Some(s.throughput_per_s)
    }),
    (
        "bytes",
        "Bytes per second by response size",
        "bytes of bodies per second",
        AxisFormat::Bandwidth,
        |s, bytes| Some(scaled(s.throughput_per_s, bytes)),
    ),
    // Nanoseconds per byte are seconds per 10⁹ bytes.
    (
        "cost",
        "CPU time per gigabyte by response size",
        "s of CPU per GB",
        AxisFormat::Rate,
        |s, bytes| Some(scaled(s.cpu_ns_per_request?, 1.0 / bytes)),
    ),
];

/// Figures by response size, with the names of their charts, if the parts of a run compare the same
/// variants with increasing response sizes.
pub(super) fn sweeps(run: &Run) -> Vec<(&'static str, Sweep)> {
    let parts: Vec<&Part> = run
        .parts
        .iter()
        .filter(|part| !validity::is_part_invalid(part) && !part.is_bulk())
        .collect();
    let sizes: Option<Vec<f64>> = parts.iter().map(|part| answer_bytes(part)).collect();
    let Some(sizes) = sizes.filter(|sizes| sizes.len() > 2) else { return Vec::new() };
    if sizes.windows(2).any(|pair| pair[1] < SIZE_STEP_MIN * pair[0]) {
        return Vec::new();
    }
    let names: Vec<&str> = parts[0].variants.iter().map(|variant| variant.name.as_str()).collect();
    let draw = |&(file, title, unit, format, figure): &Figure| {
        let point = |part: &Part, name: &str, bytes: f64| {
            let variant = part.variants.iter().position(|variant| variant.name == name)?;
            let estimate = figure(&view::capacity(part, variant)?, bytes)?;
            Some(SweepPoint { bytes, estimate: charts::shown(part, estimate) })
        };
        let lines = names.iter().enumerate().map(|(series, name)| SweepLine {
            name: (*name).to_owned(),
            series,
            points: parts.iter().zip(&sizes).filter_map(|(p, s)| point(p, name, *s)).collect(),
        });
        let lines: Vec<SweepLine> = lines.filter(|line| !line.points.is_empty()).collect();
        let words = |line: &SweepLine| {
            let points = line.points.iter();
            let points: Vec<String> = points
                .map(|p| {
                    format!("{} {}", crate::text::size(p.bytes), format.write(p.estimate.value))
                })
                .collect();
            format!("{}: {}", line.name, points.join(", "))
        };
        let description = lines.iter().map(words).collect::<Vec<_>>().join(". ");
        let (title, unit) = (title.to_owned(), unit.to_owned());
        (file, Sweep { title, description, unit, format, lines })
    };
    FIGURES.iter().map(draw).filter(|(_, sweep)| !sweep.lines.is_empty()).collect()
}

/// Mean response size in bytes over the part's closed loops; `None` without any, or if responses
/// are empty.
fn answer_bytes(part: &Part) -> Option<f64> {
    let trials = |variant| view::trials(part, variant, Offer::Closed).map(|(_, trial)| trial);
    let all = || (0..part.variants.len()).flat_map(trials);
    let bytes: u64 = all().map(|trial| trial.payload_bytes).sum();
    let answers: u64 = all().map(|trial| trial.completed_in_window).sum();
    (bytes > 0 && answers > 0).then(|| bytes as f64 / answers as f64)
}

/// The primary ratios of all parts, in order.
pub(super) fn forest(run: &Run) -> Option<Forest> {
    if run.parts.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for part in &run.parts {
        let (primary, _) = view::split_comparisons(part);
        let mut data = charts::forest(part, &primary);
        for row in &mut data.rows {
            row.label = match primary.len() {
                1 => part.name.clone(),
                _ => format!("{}: {}", part.name, row.label),
            };
        }
        rows.extend(data.rows);
    }
    (2..=ROWS_MAX).contains(&rows.len()).then(|| Forest {
        title: "Ratios of all parts".to_owned(),
        description: charts::described(&rows),
        below: "less than its baseline".to_owned(),
        above: "more than its baseline".to_owned(),
        rows,
    })
}

/// A row for each variant and a column for each part, if at least three variants are in two or more
/// parts.
pub(super) fn heat(run: &Run) -> Option<Heat> {
    let has = |part: &&Part, name: &str| part.variants.iter().any(|v| v.name == name);
    let shared = |name: &&str| run.parts.iter().filter(|part| has(part, name)).count() > 1;
    if run.parts.len() < 2 || names(run).into_iter().filter(shared).count() < 3 {
        return None;
    }
    Some(grid(run, "Throughput as a multiple of each part's baseline".to_owned(), cell))
}

/// The variants of all parts, without duplicates.
fn names(run: &Run) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for variant in run.parts.iter().flat_map(|part| &part.variants) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    names
}

fn grid(run: &Run, title: String, cell: impl Fn(&Part, &str) -> HeatCell) -> Heat {
    let row = |name: &str| HeatRow {
        label: name.to_owned(),
        cells: run.parts.iter().map(|part| cell(part, name)).collect(),
    };
    let rows: Vec<HeatRow> = names(run).into_iter().map(row).collect();
    let words = |row: &HeatRow| {
        let cells = row.cells.iter().zip(&run.parts);
        let cells: Vec<String> =
            cells.map(|(cell, part)| format!("{} {}", part.name, cell.words)).collect();
        format!("{}: {}", row.label, cells.join(", "))
    };
    Heat {
        title,
        description: rows.iter().map(words).collect::<Vec<_>>().join(". "),
        columns: run.parts.iter().map(|part| part.name.clone()).collect(),
        rows,
    }
}

/// Throughput of a variant in a part; `None` if it is INVALID.
fn throughput_of(part: &Part, name: &str) -> Option<f64> {
    let variant = part.variants.iter().position(|variant| variant.name == name)?;
    if validity::is_void(part, variant, Metric::Throughput) {
        return None;
    }
    Some(view::capacity(part, variant)?.throughput_per_s.value)
        .filter(|value| value.is_finite() && *value > 0.0)
}

/// A cell of a grid against a variant that the reader chose.
fn against(part: &Part, name: &str, baseline: &str) -> HeatCell {
    if !part.variants.iter().any(|variant| variant.name == name) {
        return HeatCell::default();
    }
    match (throughput_of(part, name), throughput_of(part, baseline)) {
        (Some(value), Some(base)) => {
            let ratio = value / base;
            let words = match name == baseline {
                true => "1×".to_owned(),
                false if ratio >= 100.0 => format!("{ratio:.0}×"),
                false => format!("{ratio:.2}×"),
            };
            let tip = format!("{name} ÷ {baseline}, {}: {words}", part.name);
            HeatCell { ratio: Some(ratio), words, tip, decided: false }
        }
        _ => HeatCell { words: "–".to_owned(), ..HeatCell::default() },
    }
}

fn cell(part: &Part, name: &str) -> HeatCell {
    let empty = HeatCell { words: "–".to_owned(), ..HeatCell::default() };
    let Some(index) = part.variants.iter().position(|variant| variant.name == name) else {
        return HeatCell::default();
    };
    let throughput = |c: &&Comparison| c.metric == Metric::Throughput;
    let comparisons = || part.comparisons.iter().filter(throughput);
    if let Some(comparison) = comparisons().find(|c| c.variant as usize == index) {
        let estimate = &comparison.judgement.ratio;
        if validity::is_refused(comparison) || !estimate.value.is_finite() {
            return empty;
        }
        let (value, _) = verdict::ratio_cells(comparison);
        return HeatCell {
            ratio: Some(estimate.value),
            tip: format!("{name}, {}: {}", part.name, verdict::ratio_in_words(comparison)),
            words: value,
            decided: !verdict::too_few(comparison) && (estimate.low > 1.0 || estimate.high < 1.0),
        };
    }
    if comparisons().any(|c| c.baseline as usize == index) {
        return HeatCell {
            ratio: Some(1.0),
            words: "1×".to_owned(),
            decided: false,
            tip: format!("{name} is the baseline of {}", part.name),
        };
    }
    empty
}
