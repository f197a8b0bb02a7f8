//! One self-contained HTML file for a run: no script, nothing fetched.

mod capacity;
mod charts;
mod overview;
mod parts;
mod tables;
mod why;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use record::{Part, Run, RunKind};

use crate::chart::{self, COLOURS, Svg, style};
use crate::text::{capitalised, plural, sentence, shell};
use crate::{caveat, machine, setting, validity, verdict, view};

const STYLE: &str = include_str!("style.css");

/// A disc with a trace, as in a tachograph.
const MARK: &str = r#"<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" aria-hidden="true"><circle cx="12" cy="12" r="10.5" stroke-width="1.5"/><circle cx="12" cy="12" r="1.6" fill="currentColor" stroke="none"/><path stroke-width="1.5" stroke-linejoin="round" d="M12 5l2.2-.9 1.4 2.4 2.8-.2.1 2.8 2.4 1.3-1 2.6-1.6 1.2.4 2.7-2.6.6-1.4 2-2.6-1-2.8.6-1-2.4-2.5-.8.6-2.6L4.300 11l1.600-2L6 6.300l2.600-.2z"/></svg>"#;

/// The report as one HTML file.
pub fn html(run: &Run) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (run.title) " – tachograph" }
                style { (PreEscaped(COLOURS)) (PreEscaped(style())) (PreEscaped(STYLE)) }
            }
            body {
                (header(run))
                main {
                    (notices(run))
                    (overview::section(run))
                    @for (index, part) in run.parts.iter().enumerate() {
                        (parts::part(run, index, part))
                    }
                    @if run.parts.is_empty() {
                        section { (empty("Nothing had been measured by the time the run ended.")) }
                    }
                    (machine(run))
                    (repeat(run))
                }
                footer {
                    "Recorded by " (view::maker(run))
                    ". Everything on this page comes from the record of run " (run.id) "."
                }
            }
        }
    };
    printable(&page.into_string())
}

/// Control characters, which names and answers may hold and pages may not, are replaced.
fn printable(page: &str) -> String {
    let replaced = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    page.replace(replaced, "\u{fffd}")
}

fn header(run: &Run) -> Markup {
    let took = run.finished.map(|finished| {
        let nanos = (finished.as_nanosecond() - run.started.as_nanosecond()).max(0);
        base::Nanos(u64::try_from(nanos).unwrap_or(0))
    });
    let about = view::about(run);
    html! {
        header {
            div.brand {
                (PreEscaped(MARK)) b { "tachograph" } span { (run.id) }
                span.right {
                    (run.started.strftime("%Y-%m-%d %H:%M UTC"))
                    @if let Some(took) = took { ", took " (took) }
                }
            }
            h1 { (run.title) }
            @if run.question != run.title && !run.question.is_empty() {
                p.question { (run.question) }
            }
            (answers(run))
            @if !about.is_empty() { p.about.small { (about) } }
        }
    }
}

/// Each part's answer to the question.
fn answers(run: &Run) -> Markup {
    html! {
        @if run.parts.len() > 1 {
            ul.answer {
                @for answer in verdict::answer(run) {
                    li { b { (answer.part) } ": " (marked(&answer.words)) "." }
                }
            }
        }
    }
}

/// Notices above all figures.
fn notices(run: &Run) -> Markup {
    let mut reasons: Vec<String> = run.error.iter().cloned().collect();
    for part in run.parts.iter().filter(|part| validity::is_part_invalid(part)) {
        let named = |reason: String| match run.parts.len() > 1 && !reason.starts_with(&part.name) {
            true => format!("{}: {reason}", part.name),
            false => reason,
        };
        reasons.extend(validity::of_part(part).into_iter().map(named));
    }
    html! {
        @if !reasons.is_empty() {
            section.invalid {
                h3 { "INVALID" }
                @for reason in &reasons { p { (reason) } }
                p.muted.small { "Figures that are struck out are shown to find the cause: do not use them." }
            }
        }
        @for (word, rest) in view::forewords(run) {
            section.notice { h3 { (word) } p { (capitalised(&rest)) } }
        }
    }
}

fn machine(run: &Run) -> Markup {
    let m = &run.machine;
    let tracking = match m.connection_tracking {
        Some(true) => "on the path of loopback traffic",
        Some(false) => "not on the path of loopback traffic",
        None => "not visible from here",
    };
    let cgroup = match m.cgroup {
        0 => "none available".to_owned(),
        version => format!("version {version}"),
    };
    let mut rows = vec![
        ("processor", format!("{}, {}", m.cpu_model, plural(u64::from(m.cpus), "CPU"))),
        ("memory", base::Bytes(m.memory_bytes).to_string()),
        ("system", format!("{}, Linux {}", m.os, m.kernel)),
        ("virtualised", machine::virtualised(run)),
        ("frequency", m.governor.clone().unwrap_or_else(|| "no governor".to_owned())),
        ("connection tracking", tracking.to_owned()),
        ("cgroup", cgroup),
    ];
    rows.extend(m.facts.iter().map(|(name, fact)| (name.as_str(), fact.clone())));
    html! {
        h2 { "Machine" }
        section {
            dl { @for (name, value) in rows { dt { (name) } dd { (value) } } }
            @for line in crate::place::lines(run) { p { (line) } }
            @if let Some(setting::WakeupCost { brief, why }) = setting::waking(run) {
                details { summary { (sentence(&brief)) } p.small { (why) } }
            }
        }
    }
}

fn repeat(run: &Run) -> Markup {
    let choices = match run.kind {
        RunKind::Load => "when the requests of an open loop are sent",
        RunKind::Capacity => {
            "the order of trials, their rates and requests, ports, paths and padding"
        }
        _ => "the order of slices, ports, paths and padding",
    };
    let starts = run.parts.iter().flat_map(|part| &part.variants).any(|v| !v.commands.is_empty());
    html! {
        h2 { "Repeat it" }
        section {
            pre { (shell(&run.command_line)) }
            p.small.muted { "The seed, " (run.seed) ", replays every random choice: " (choices) "." }
            @if run.kind == RunKind::Compare && starts {
                p.small.muted {
                    "Each command is started with " code { "PORT" } " and " code { "SOCKET" }
                    " in its environment."
                }
            }
            @if !run.plan.is_empty() {
                details { summary { "The experiment as it was run" } pre { (run.plan) } }
            }
        }
    }
}

/// Words of a verdict, in which the mark of a warning is also read aloud.
fn marked(words: &str) -> Markup {
    let mut pieces = words.split(caveat::MARK);
    html! {
        (pieces.next().unwrap_or_default())
        @for piece in pieces { (warning_mark()) (piece) }
    }
}

/// The mark of what a warning weakens.
fn warning_mark() -> Markup {
    html! { span.mark title="warning" { (caveat::MARK) } span.unseen { " warning:" } }
}

/// A section with its heading.
fn section(title: impl Render, body: impl Render) -> Markup {
    html! { section { h3 { (title) } (body) } }
}

/// A small grey paragraph below what it explains.
fn note(words: impl Render) -> Markup {
    html! { p.small.muted { (words) } }
}

/// A section with a chart and what its marks are.
fn charted(title: impl Render, draw: impl Fn(u32) -> Svg, words: impl Render) -> Markup {
    section(title, html! { (both(draw)) (note(words)) })
}

/// What stands where there is nothing to show.
fn empty(words: &str) -> Markup {
    html! { p.empty { (words) } }
}

/// A chart as a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The file name without extension.
    pub name: String,
    /// The part; `None` for charts of all parts.
    pub part: Option<String>,
    /// Caption, in one or two sentences.
    pub caption: String,
    /// The chart.
    pub svg: Svg,
}

/// The charts of a run as files, for a README or a slide.
///
/// Each part has up to four: `ratio`, `trials`, `times` and `speed`, prefixed with the part's name
/// and a dash; a search for capacities has `knee`. A run of several parts has `overview-ratio` and, if they share variants,
/// `overview-grid`; if the parts differ in response size, also `overview-requests`,
/// `overview-bytes` and `overview-cost`.
pub fn pictures(run: &Run) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let mut add = |part: Option<&Part>, name: &str, caption: String, svg: Svg| {
        let part = part.map(|part| part.name.clone());
        let name = format!("{}-{name}", part.as_deref().unwrap_or("overview"));
        pictures.push(Picture { name, part, caption, svg });
    };
    for (name, data) in overview::sweeps(run) {
        let caption = format!("{}. {}", data.title, overview::SWEEP);
        add(None, name, caption, chart::sweep(&data, WIDE));
    }
    if let Some(data) = overview::heat(run) {
        add(None, "grid", overview::GRID.to_owned(), chart::heat(&data, WIDE));
    }
    if let Some(data) = overview::forest(run) {
        let caption = format!("{} {}", overview::baselines(run), charts::forest_words(&data));
        add(None, "ratio", caption, chart::forest(&data, WIDE));
    }
    for part in &run.parts {
        let (primary, _) = view::split_comparisons(part);
        if let Some(data) = capacity::knee_of(part) {
            add(Some(part), "knee", capacity::KNEE.to_owned(), chart::knee(&data, WIDE));
            continue;
        }
        if primary.iter().any(|c| c.judgement.ratio.value.is_finite()) {
            let data = charts::forest(part, &primary);
            let caption = format!("{}. {}", data.title, charts::forest_words(&data));
            add(Some(part), "ratio", caption, chart::forest(&data, WIDE));
        }
        if let Some(data) = charts::throughput_dots(part) {
            add(Some(part), "trials", parts::TRIALS.to_owned(), chart::dots(&data, WIDE));
        }
        if let Some(data) = charts::quantiles(part) {
            add(Some(part), "times", parts::TIMES.to_owned(), chart::quantiles(&data, WIDE));
        }
        if let Some(data) = charts::strips(run, part) {
            add(Some(part), "speed", parts::SPEED.to_owned(), chart::strips(&data, WIDE));
        }
    }
    pictures
}

/// Width of a chart on a page in a wide window.
const WIDE: u32 = 748;
/// The same on a phone.
const NARROW: u32 = 340;

/// A chart in two versions, for wide and for narrow windows, so that its text keeps its size.
fn both(draw: impl Fn(u32) -> Svg) -> Markup {
    html! {
        div.wide { (PreEscaped(draw(WIDE).inline())) }
        div.narrow { (PreEscaped(draw(NARROW).inline())) }
    }
}
