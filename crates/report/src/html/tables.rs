//! The tables of a part: figures, ledger, published figures, findings.

use base::format_count;
use record::{Metric, Part, Run, RunKind};

use crate::chart::{escape, key};
use crate::load::{LoadReport, TIMES};
use crate::text::{time, time_interval};
use crate::{fact, ledger, setting, validity, verdict, view};

/// Longer names are commands and set smaller.
const LONG_NAME: usize = 28;

/// A variant's row: its name beside its cells, or above them where a name of the part is long.
fn row(part: &Part, index: usize, columns: usize, cells: &str) -> String {
    let name = escape(&part.variants[index].name);
    let key = key(index);
    if part.variants.iter().any(|variant| variant.name.chars().count() > LONG_NAME) {
        format!(
            "<tr class=\"title\"><td class=\"name long\" colspan=\"{columns}\">{key}{name}</td></tr>\n<tr><td></td>{cells}</tr>\n"
        )
    } else {
        format!("<tr><td class=\"name\">{key}{name}</td>{cells}</tr>\n")
    }
}

/// Throughput, times, CPU and memory of every variant.
pub(crate) fn figures(run: &Run, part: &Part) -> String {
    let unit = view::throughput_unit(part);
    let mut out = format!(
        "<div class=\"scroll\"><table><thead><tr><th>variant</th><th>{unit}</th><th>p50</th><th class=\"extra\">p90</th><th>p99</th><th>CPU/request</th><th class=\"extra\">memory</th><th>failed</th></tr></thead><tbody>\n"
    );
    for index in 0..part.variants.len() {
        out += &row(part, index, 8, &figure_cells(part, index));
    }
    out += "</tbody></table></div>\n";
    let measured = (0..part.variants.len()).any(|index| view::figures(part, index).is_some());
    let intervals = match measured && run.kind != RunKind::Load {
        true if view::is_provisional(part) => {
            format!(" Provisional: {}.", verdict::blocks_so_far(part))
        }
        true => " Under each figure its 95% interval.".to_owned(),
        false => String::new(),
    };
    let bytes = view::bytes_in_words(part)
        .map_or_else(String::new, |words| format!(" {}.", escape(&words)));
    out + &format!(
        "<p class=\"small muted\">p50, p90 and p99: {}. CPU is the whole stack's, memory its peak.{intervals}{bytes}</p>\n",
        escape(&view::times_in_words(part))
    )
}

/// The times of a load.
pub(crate) fn times(report: &LoadReport<'_>) -> String {
    let head: String = TIMES.iter().map(|head| format!("<th>{head}</th>")).collect();
    let mut out =
        format!("<div class=\"scroll\"><table><thead><tr><th></th>{head}</tr></thead><tbody>\n");
    for (name, values) in report.times_rows() {
        let cells: String = values.iter().map(|value| format!("<td>{value}</td>")).collect();
        out += &format!("<tr><td class=\"name\">{name}</td>{cells}</tr>\n");
    }
    let [words, of] = report.times_in_words();
    let (first, rest) = report.speed();
    let speed = std::iter::once(first).chain(rest).collect::<Vec<_>>().join(", ");
    let statuses = report.statuses_in_words();
    let statuses = statuses.map_or_else(String::new, |words| format!(" Statuses: {words}."));
    out + &format!(
        "</tbody></table></div>\n<p class=\"small muted\">{}; {}. Throughput: {}.{statuses} Client: {}.</p>\n",
        crate::text::capitalised(&words),
        escape(&of),
        escape(&speed),
        escape(&report.client())
    )
}

fn figure_cells(part: &Part, index: usize) -> String {
    let variant = &part.variants[index];
    if let Some(reason) = &variant.skipped {
        return format!("<td class=\"words\" colspan=\"7\">skipped: {}</td>", escape(reason));
    }
    let Some(figures) = view::figures(part, index) else {
        return "<td class=\"words muted\" colspan=\"7\">no valid data</td>".to_owned();
    };
    let cell = |metric: Metric, extra: bool, value: String, interval: Option<String>| {
        let struck = if validity::is_void(part, index, metric) { "struck" } else { "" };
        let classes: Vec<&str> = [if extra { "extra" } else { "" }, struck]
            .into_iter()
            .filter(|class| !class.is_empty())
            .collect();
        let class = match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        };
        let interval = interval.map_or_else(String::new, |text| format!("<small>{text}</small>"));
        format!("<td{class}>{value}{interval}</td>")
    };
    let shown = |e: &stats::Estimate| e.is_bounded() && !figures.so_far;
    let times = |metric: Metric, extra: bool, e: &stats::Estimate| {
        let interval = shown(e).then(|| time_interval(e.low, e.high));
        cell(metric, extra, time(e.value), interval)
    };
    let throughput = &figures.throughput;
    let mut out = cell(
        Metric::Throughput,
        false,
        format!("<b>{}</b>", view::throughput(part, throughput.value)),
        shown(throughput).then(|| view::throughput_interval(part, &figures)),
    );
    out += &times(Metric::P50, false, &figures.times.p50_ns);
    out += &times(Metric::P99, true, &figures.times.p90_ns);
    out += &times(Metric::P99, false, &figures.times.p99_ns);
    let cpu = figures.cpu_ns.as_ref();
    out += &cpu.map_or("<td>–</td>".to_owned(), |cpu| times(Metric::Cpu, false, cpu));
    let memory = view::summaries(part, index).iter().filter_map(|s| s.peak_memory_bytes).max();
    let memory = memory.map_or("–".to_owned(), |bytes| base::Bytes(bytes).to_string());
    out += &cell(Metric::Memory, true, memory, None);
    let failed = variant.ledger.counts.failed;
    let class = if failed > 0 { " class=\"bad\"" } else { "" };
    out + &format!("<td{class}>{}</td>", format_count(failed))
}

/// The ledger of every variant, a clause per equation. Clauses wrap, so that none is clipped in a
/// narrow window or on paper.
pub(crate) fn ledger(part: &Part) -> String {
    let measured: Vec<usize> = (0..part.variants.len())
        .filter(|index| part.variants[*index].ledger.counts.offered > 0)
        .collect();
    if measured.is_empty() {
        return "<p class=\"empty\">No request was sent, so there is nothing to add up.</p>\n"
            .to_owned();
    }
    let of = |index: &usize| {
        let variant = &part.variants[*index];
        (*index, variant.name.as_str(), &variant.ledger)
    };
    ledger_of(&measured.iter().map(of).collect::<Vec<_>>())
}

/// Ledgers with their place in the legend and their names.
pub(crate) fn ledger_of(ledgers: &[(usize, &str, &::ledger::Ledger)]) -> String {
    let clause = |clause: &ledger::Clause| {
        let (class, sign) = match clause.sign() {
            Some(sign) if clause.is_broken() => ("unequal", sign),
            Some(sign) => ("equal", sign),
            None => return format!("<span class=\"muted\">{}</span>", escape(&clause.left)),
        };
        let right = clause.right.as_ref().map_or("", |(_, right)| right.as_str());
        format!(
            "<span>{} <b class=\"{class}\">{sign}</b> {}</span>",
            escape(&clause.left),
            escape(right)
        )
    };
    let line = |(index, name, ledger): &(usize, &str, &::ledger::Ledger)| {
        let clauses: Vec<String> = ledger::clauses(ledger).iter().map(clause).collect();
        format!("<dt>{}{}</dt><dd>{}</dd>\n", key(*index), escape(name), clauses.join("\n"))
    };
    let lines: String = ledgers.iter().map(line).collect();
    format!("<dl class=\"ledger\">\n{lines}</dl>\n")
}

/// Failures by kind, and where requests were counted at the server.
pub(crate) fn ledger_notes(part: &Part) -> String {
    let mut out = String::new();
    for variant in &part.variants {
        let kinds = ledger::failures(&variant.ledger.errors);
        if !kinds.is_empty() {
            let name = escape(&variant.name);
            out += &format!("<p class=\"small\">{name} failed: {}.</p>\n", escape(&kinds));
        }
    }
    let mut counters: Vec<String> = part
        .variants
        .iter()
        .filter_map(|v| Some(setting::served_by(v.served_by.as_ref()?)))
        .collect();
    counters.dedup();
    if !counters.is_empty() {
        let counters = escape(&counters.join("; "));
        out += &format!("<p class=\"small muted\">Served is counted by {counters}.</p>\n");
    }
    out
}

/// What others published, beside ours.
pub(crate) fn published(part: &Part) -> String {
    if part.published.is_empty() {
        return String::new();
    }
    let mut out = "<section><h3>Published before</h3>\n<div class=\"scroll\"><table><thead><tr><th>variant</th><th>here</th><th class=\"words\">published</th></tr></thead><tbody>\n".to_owned();
    for published in &part.published {
        let wanted = published.variant.as_deref();
        let ours = part
            .variants
            .iter()
            .position(|variant| Some(variant.name.as_str()) == wanted)
            .and_then(|index| view::figures(part, index))
            .map_or("–".to_owned(), |figures| {
                let value = view::throughput(part, figures.throughput.value);
                format!("{value} {}", view::throughput_unit(part))
            });
        out += &format!(
            "<tr><td class=\"name\">{}</td><td>{ours}</td><td class=\"words\">{}<small>{}</small></td></tr>\n",
            escape(wanted.unwrap_or("")),
            escape(&published.figure),
            escape(&published.source)
        );
    }
    out + "</tbody></table></div>\n<p class=\"small muted\">Machines differ, so compare only \
        ratios.</p></section>\n"
}

/// What weakens or breaks the result, the gravest first.
pub(crate) fn findings(run: &Run, part: &Part) -> String {
    let mut out = "<section><h3>Validity</h3>\n".to_owned();
    let mut told = validity::causes(part);
    told.extend(validity::others(part));
    let measured = (0..part.variants.len()).any(|index| view::figures(part, index).is_some());
    if told.is_empty() {
        out += match measured {
            true if run.kind == RunKind::Load => {
                "<p class=\"empty\">Nothing was found that weakens these figures.</p>\n"
            }
            true => {
                "<p class=\"empty\">Every check passed: nothing was found that weakens the result.</p>\n"
            }
            false => "<p class=\"empty\">Nothing was measured that could be checked.</p>\n",
        };
    } else {
        out += "<ul class=\"findings\">\n";
        for told in told {
            let word = fact::severity(told.severity);
            let words = escape(&told.line());
            out += &format!("<li><span class=\"badge {word}\">{word}</span>{words}</li>\n");
        }
        out += "</ul>\n";
    }
    if let Some(words) = setting::disturbance(part, &run.machine) {
        let words = crate::text::capitalised(&words);
        out += &format!("<p class=\"small muted\">{}.</p>\n", escape(&words));
    }
    out + "</section>\n"
}

/// What each variant is.
pub(crate) fn stacks(part: &Part) -> String {
    let mut out = String::new();
    for variant in &part.variants {
        out += &format!(
            "<p><b>{}</b> <span class=\"muted small\">reached at <code>{}</code></span></p>\n",
            escape(&variant.name),
            escape(&variant.target)
        );
        if !variant.commands.is_empty() {
            out += &format!("<pre>{}</pre>\n", escape(&variant.commands.join("\n")));
        }
    }
    out
}
