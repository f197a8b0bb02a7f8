//! One self-contained HTML file for a run: no script, nothing fetched.

mod charts;
mod overview;
mod parts;
mod tables;

use record::{Run, RunKind};

use crate::chart::{self, COLOURS, Svg, escape, style};
use crate::text::shell;
use crate::view;

const STYLE: &str = include_str!("style.css");

/// A disc with a trace on it, as a tachograph writes them.
const MARK: &str = r#"<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" aria-hidden="true"><circle cx="12" cy="12" r="10.5" stroke-width="1.5"/><circle cx="12" cy="12" r="1.6" fill="currentColor" stroke="none"/><path stroke-width="1.5" stroke-linejoin="round" d="M12 5l2.2-.9 1.4 2.4 2.8-.2.1 2.8 2.4 1.3-1 2.6-1.6 1.2.4 2.7-2.6.6-1.4 2-2.6-1-2.8.6-1-2.4-2.5-.8.6-2.6L4.300 11l1.600-2L6 6.300l2.600-.2z"/></svg>"#;

/// The report as one HTML file.
pub fn html(run: &Run) -> String {
    let title = escape(&run.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} – tachograph</title>\n<style>\n{COLOURS}{}{STYLE}</style>\n</head>\n<body>\n",
        style()
    );
    page += &header(run);
    page += "<main>\n";
    page += &notices(run);
    page += &overview::section(run);
    for (index, part) in run.parts.iter().enumerate() {
        page += &parts::part(run, index, part);
    }
    if run.parts.is_empty() {
        page += "<section><p class=\"empty\">Nothing had been measured by the time the run ended.</p></section>\n";
    }
    page += &machine(run);
    page += &repeat(run);
    page += "</main>\n";
    page += &format!(
        "<footer>Recorded by tachograph {}. Everything on this page comes from the record of run {}.</footer>\n</body>\n</html>\n",
        escape(&run.version),
        escape(run.id.as_str())
    );
    page
}

fn header(run: &Run) -> String {
    let started = run.started.strftime("%Y-%m-%d %H:%M UTC");
    let took = run.finished.map_or(String::new(), |finished| {
        let nanos = (finished.as_nanosecond() - run.started.as_nanosecond()).max(0);
        let took = base::Nanos(u64::try_from(nanos).unwrap_or(0));
        format!(", took {took}")
    });
    let mut out = format!(
        "<header>\n<div class=\"brand\">{MARK}<b>tachograph</b><span>{}</span><span class=\"right\">{started}{took}</span></div>\n<h1>{}</h1>\n",
        escape(run.id.as_str()),
        escape(&run.title)
    );
    if run.question != run.title && !run.question.is_empty() {
        out += &format!("<p class=\"question\">{}</p>\n", escape(&run.question));
    }
    out + "</header>\n"
}

/// What has to be said before any figure.
fn notices(run: &Run) -> String {
    let mut out = String::new();
    let reasons = view::reasons(run);
    if !reasons.is_empty() {
        out += "<section class=\"invalid\"><h3>INVALID</h3>";
        for reason in &reasons {
            out += &format!("<p>{}</p>", escape(reason));
        }
        out += "<p class=\"muted small\">The figures below are shown to find the cause, not to be used.</p></section>\n";
    }
    if let Some(words) = view::state_in_words(run) {
        let (word, rest) = words.split_once(": ").unwrap_or(("", words));
        out += &format!(
            "<section class=\"notice\"><h3>{word}</h3><p>{}</p></section>\n",
            capitalised(rest)
        );
    }
    out
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn machine(run: &Run) -> String {
    let m = &run.machine;
    let tracking = match m.connection_tracking {
        Some(true) => "on the path of loopback traffic",
        Some(false) => "not on the path of loopback traffic",
        None => "not visible from here",
    };
    let cgroup = match m.cgroup {
        0 => "none that we may use".to_owned(),
        version => format!("version {version}"),
    };
    let mut rows = vec![
        ("processor", format!("{}, {}", m.cpu_model, crate::text::plural(m.cpus as usize, "CPU"))),
        ("memory", base::Bytes(m.memory_bytes).to_string()),
        ("system", format!("{}, Linux {}", m.os, m.kernel)),
        ("hypervisor", m.hypervisor.clone().unwrap_or_else(|| "none seen".to_owned())),
        ("frequency", m.governor.clone().unwrap_or_else(|| "no governor".to_owned())),
        ("connection tracking", tracking.to_owned()),
        ("cgroup", cgroup),
    ];
    rows.extend(m.facts.iter().map(|(name, fact)| (name.as_str(), fact.clone())));
    let list: String = rows
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)))
        .collect();
    format!("<h2>Machine</h2>\n<section><dl>\n{list}</dl></section>\n")
}

fn repeat(run: &Run) -> String {
    let command = escape(&shell(&run.command_line));
    let mut out = format!("<h2>Repeat it</h2>\n<section><pre>{command}</pre>\n");
    out += &format!(
        "<p class=\"small muted\">The seed, {}, replays every random choice: the order of slices, ports, paths and padding.</p>\n",
        run.seed
    );
    if run.kind == RunKind::Compare {
        out += "<p class=\"small muted\">Each command is started with <code>PORT</code> and <code>SOCKET</code> in its environment.</p>\n";
    }
    if !run.plan.is_empty() {
        out += &format!(
            "<details><summary>The experiment as it was run</summary><pre>{}</pre></details>\n",
            escape(&run.plan)
        );
    }
    out + "</section>\n"
}

/// The pictures of a run as files of their own, for a README or a slide: name without ending, and drawing.
///
/// Each part has up to four: `ratio`, `trials`, `times` and `speed`, after the part's name and a dash.
/// A run of several parts has `overview-ratio` and, if they share variants, `overview-grid`; if
/// the parts differ in the size of answers, also `overview-requests`, `overview-bytes` and `overview-cost`.
pub fn pictures(run: &Run) -> Vec<(String, Svg)> {
    let mut pictures = Vec::new();
    let whole = overview::forest(run).map(|data| chart::forest(&data, WIDE));
    pictures.extend(whole.map(|svg| ("overview-ratio".to_owned(), svg)));
    let grid = overview::heat(run).map(|data| chart::heat(&data, WIDE));
    pictures.extend(grid.map(|svg| ("overview-grid".to_owned(), svg)));
    let sweeps = overview::sweeps(run).into_iter();
    pictures
        .extend(sweeps.map(|(name, data)| (format!("overview-{name}"), chart::sweep(&data, WIDE))));
    for part in &run.parts {
        let mut add = |name: &str, svg: Option<Svg>| {
            pictures.extend(svg.map(|svg| (format!("{}-{name}", part.name), svg)));
        };
        let (primary, _) = view::split_comparisons(part);
        let ratios = (!primary.is_empty()).then(|| charts::forest(part, &primary));
        add("ratio", ratios.map(|data| chart::forest(&data, WIDE)));
        add("trials", charts::throughput_dots(part).map(|data| chart::dots(&data, WIDE)));
        add("times", charts::quantiles(part).map(|data| chart::quantiles(&data, WIDE)));
        add("speed", charts::strips(part).map(|data| chart::strips(&data, WIDE)));
    }
    pictures
}

/// The width of a chart on a page in a wide window.
const WIDE: u32 = 748;
/// The same on a telephone.
const NARROW: u32 = 340;

/// A chart twice, for wide and for narrow windows, so that its text keeps its size.
fn both(draw: impl Fn(u32) -> Svg) -> String {
    format!(
        "<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>\n",
        draw(WIDE).inline(),
        draw(NARROW).inline()
    )
}
