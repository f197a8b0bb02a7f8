//! One self-contained HTML file for a run: no script, nothing fetched.

mod charts;
mod overview;
mod parts;
mod tables;

use record::{Run, RunKind};

use crate::chart::{self, COLOURS, Svg, escape, style};
use crate::text::{capitalised, shell};
use crate::{validity, verdict, view};

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
    out += &answers(run);
    let about = view::about(run);
    if !about.is_empty() {
        out += &format!("<p class=\"about small\">{}</p>\n", escape(&about));
    }
    out + "</header>\n"
}

/// What each part of several says to the question.
fn answers(run: &Run) -> String {
    if run.parts.len() < 2 {
        return String::new();
    }
    let line = |answer: verdict::Answer<'_>| {
        format!("<li><b>{}</b>: {}.</li>\n", escape(answer.part), escape(&answer.words))
    };
    let lines: String = verdict::answer(run).into_iter().map(line).collect();
    format!("<ul class=\"answer\">\n{lines}</ul>\n")
}

/// What has to be said before any figure.
fn notices(run: &Run) -> String {
    let mut out = String::new();
    let mut reasons: Vec<String> = run.error.iter().cloned().collect();
    for part in run.parts.iter().filter(|part| validity::is_part_invalid(part)) {
        let named = |reason: String| match run.parts.len() > 1 && !reason.starts_with(&part.name) {
            true => format!("{}: {reason}", part.name),
            false => reason,
        };
        reasons.extend(validity::of_part(part).into_iter().map(named));
    }
    if !reasons.is_empty() {
        out += "<section class=\"invalid\"><h3>INVALID</h3>";
        for reason in &reasons {
            out += &format!("<p>{}</p>", escape(reason));
        }
        out += "<p class=\"muted small\">Figures that are struck out are shown to find the cause: do not use them.</p></section>\n";
    }
    if let Some((word, rest)) = view::state_in_words(run) {
        out += &format!(
            "<section class=\"notice\"><h3>{word}</h3><p>{}</p></section>\n",
            capitalised(rest)
        );
    }
    out
}

fn machine(run: &Run) -> String {
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
        (
            "processor",
            format!("{}, {}", m.cpu_model, crate::text::plural(u64::from(m.cpus), "CPU")),
        ),
        ("memory", base::Bytes(m.memory_bytes).to_string()),
        ("system", format!("{}, Linux {}", m.os, m.kernel)),
        ("virtualised", view::virtualised(run)),
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
    let choices = match run.kind {
        RunKind::Load => "when the requests of an open loop are sent",
        _ => "the order of slices, ports, paths and padding",
    };
    out += &format!(
        "<p class=\"small muted\">The seed, {}, replays every random choice: {choices}.</p>\n",
        run.seed
    );
    let starts = run.parts.iter().flat_map(|part| &part.variants).any(|v| !v.commands.is_empty());
    if run.kind == RunKind::Compare && starts {
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

/// A chart as a file of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The file's name without its ending.
    pub name: String,
    /// The part that it shows; `None` for all of them.
    pub part: Option<String>,
    /// What it shows, in one or two sentences.
    pub caption: String,
    /// The drawing.
    pub svg: Svg,
}

/// The pictures of a run as files of their own, for a README or a slide.
///
/// Each part has up to four: `ratio`, `trials`, `times` and `speed`, after the part's name and a dash.
/// A run of several parts has `overview-ratio` and, if they share variants, `overview-grid`; if
/// the parts differ in the size of answers, also `overview-requests`, `overview-bytes` and `overview-cost`.
pub fn pictures(run: &Run) -> Vec<Picture> {
    let whole = |name: &str, caption: String, svg| Picture {
        name: format!("overview-{name}"),
        part: None,
        caption,
        svg,
    };
    let mut pictures: Vec<Picture> = overview::sweeps(run)
        .into_iter()
        .map(|(name, data)| {
            let caption = format!("{}. {}", data.title, overview::SWEEP);
            whole(name, caption, chart::sweep(&data, WIDE))
        })
        .collect();
    let grid = overview::heat(run);
    pictures.extend(
        grid.map(|data| whole("grid", overview::GRID.to_owned(), chart::heat(&data, WIDE))),
    );
    let ratios = overview::forest(run);
    pictures.extend(ratios.map(|data| {
        let baselines = overview::baselines(run);
        let caption = format!("{baselines} {}", charts::forest_words(&data));
        whole("ratio", caption, chart::forest(&data, WIDE))
    }));
    for part in &run.parts {
        let mut add = |name: &str, caption: String, svg: Svg| {
            let (name, part) = (format!("{}-{name}", part.name), Some(part.name.clone()));
            pictures.push(Picture { name, part, caption, svg });
        };
        let (primary, _) = view::split_comparisons(part);
        if primary.iter().any(|c| c.judgement.ratio.value.is_finite()) {
            let data = charts::forest(part, &primary);
            let caption = format!("{}. {}", data.title, charts::forest_words(&data));
            add("ratio", caption, chart::forest(&data, WIDE));
        }
        if let Some(data) = charts::throughput_dots(part) {
            add("trials", parts::TRIALS.to_owned(), chart::dots(&data, WIDE));
        }
        if let Some(data) = charts::quantiles(part) {
            add("times", parts::TIMES.to_owned(), chart::quantiles(&data, WIDE));
        }
        if let Some(data) = charts::strips(part) {
            add("speed", parts::SPEED.to_owned(), chart::strips(&data, WIDE));
        }
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
