//! The tables of a part: figures, ledger, published figures, findings.

use base::format_count;
use ledger::Ledger;
use record::{Part, Variant};

use crate::chart::escape;
use crate::text::time;
use crate::view;

/// Longer names are commands and set smaller.
const LONG_NAME: usize = 28;

/// The first cell of a row: a variant's name.
fn name(variant: &Variant) -> String {
    let class = if variant.name.chars().count() > LONG_NAME { "name long" } else { "name" };
    format!("<td class=\"{class}\">{}</td>", escape(&variant.name))
}

/// Throughput, times, CPU and memory of every variant.
pub(crate) fn figures(part: &Part) -> String {
    let unit = view::throughput_unit(part);
    let mut out = format!(
        "<div class=\"scroll\"><table><thead><tr><th>variant</th><th>{unit}</th><th>p50</th><th>p90</th><th>p99</th><th>CPU per request</th><th>peak memory</th><th>failed</th></tr></thead><tbody>\n"
    );
    let class = if part.reasons.is_empty() { "" } else { " class=\"struck\"" };
    for variant in &part.variants {
        out += &format!("<tr{class}>{}{}</tr>\n", name(variant), figure_cells(part, variant));
    }
    out += "</tbody></table></div>\n";
    out + &format!(
        "<p class=\"small muted\">p50, p90 and p99: {}. Under each figure its 95% interval.</p>\n",
        escape(&view::times_in_words(part))
    )
}

fn figure_cells(part: &Part, variant: &Variant) -> String {
    if let Some(reason) = &variant.skipped {
        return format!("<td class=\"words\" colspan=\"7\">skipped: {}</td>", escape(reason));
    }
    let Some(figures) = view::figures(part, variant) else {
        return "<td class=\"words muted\" colspan=\"7\">nothing measured in an accepted block</td>".to_owned();
    };
    let cell =
        |value: String, interval: String| format!("<td>{value}<small>{interval}</small></td>");
    let times =
        |e: &stats::Estimate| cell(time(e.value), format!("{}–{}", time(e.low), time(e.high)));
    let mut out = cell(
        format!("<b>{}</b>", view::throughput(part, figures.throughput.value)),
        view::throughput_interval(part, &figures.throughput),
    );
    for estimate in [&figures.times.p50_ns, &figures.times.p90_ns, &figures.times.p99_ns] {
        out += &times(estimate);
    }
    out += &figures.cpu_ns.as_ref().map_or("<td>–</td>".to_owned(), times);
    let memory = variant.summaries.iter().filter_map(|s| s.peak_memory_bytes).max();
    out += &format!(
        "<td>{}</td>",
        memory.map_or("–".to_owned(), |bytes| base::Bytes(bytes).to_string())
    );
    let failed = variant.ledger.counts.failed;
    let class = if failed > 0 { " class=\"bad\"" } else { "" };
    out + &format!("<td{class}>{}</td>", format_count(failed))
}

/// The ledger of every variant, with a sign wherever two counts must be equal.
pub(crate) fn ledger(part: &Part) -> String {
    let measured: Vec<&Variant> =
        part.variants.iter().filter(|variant| !variant.summaries.is_empty()).collect();
    if measured.is_empty() {
        return "<p class=\"empty\">No block was accepted, so there is nothing to add up.</p>\n"
            .to_owned();
    }
    let dropped = measured.iter().any(|v| v.ledger.counts.dropped > 0);
    let mut heads = vec!["variant"];
    if dropped {
        heads.extend(["offered", "dropped"]);
    }
    heads.extend(["sent", "completed", "failed", "in flight", "served", "series"]);
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let mut out = format!("<div class=\"scroll\"><table><thead><tr>{heads}</tr></thead><tbody>\n");
    for variant in measured {
        out += &format!("<tr>{}{}</tr>\n", name(variant), ledger_cells(&variant.ledger, dropped));
    }
    out + "</tbody></table></div>\n"
}

fn ledger_cells(ledger: &Ledger, dropped: bool) -> String {
    let c = &ledger.counts;
    let number = |count: u64| format!("<td>{}</td>", format_count(count));
    let checked = |count: u64, equal: bool| {
        let (class, sign) = if equal { ("equal", "=") } else { ("unequal", "≠") };
        format!("<td><span class=\"{class}\">{sign}</span> {}</td>", format_count(count))
    };
    let maybe = |count: Option<u64>| match count {
        Some(count) => checked(count, count == c.completed),
        None => "<td class=\"muted\">nobody counted</td>".to_owned(),
    };
    let mut out = String::new();
    if dropped {
        out += &number(c.offered);
        out += &number(c.dropped);
    }
    out += &number(c.sent);
    out += &checked(c.completed, c.sent == c.completed + c.failed + c.in_flight);
    out += &if c.failed > 0 {
        format!("<td class=\"bad\">{}</td>", format_count(c.failed))
    } else {
        number(0)
    };
    out += &number(c.in_flight);
    out += &maybe(ledger.served);
    out + &maybe(ledger.series)
}

/// Failures by kind, and who counted at the server.
pub(crate) fn ledger_notes(part: &Part) -> String {
    let mut out = String::new();
    for variant in &part.variants {
        if !variant.ledger.errors.is_empty() {
            let kinds: Vec<String> = variant
                .ledger
                .errors
                .iter()
                .map(|(kind, n)| format!("{} {kind}", format_count(*n)))
                .collect();
            let name = escape(&variant.name);
            out +=
                &format!("<p class=\"small\">{name} failed: {}.</p>\n", escape(&kinds.join(", ")));
        }
    }
    let mut counters: Vec<&str> =
        part.variants.iter().filter_map(|v| v.served_by.as_deref()).collect();
    counters.dedup();
    if !counters.is_empty() {
        let counters = escape(&counters.join("; "));
        out += &format!("<p class=\"small muted\">Served is counted by: {counters}.</p>\n");
    }
    out
}

/// What others published, beside ours.
pub(crate) fn published(part: &Part) -> String {
    if part.published.is_empty() {
        return String::new();
    }
    let mut out = "<section><h3>Published before</h3>\n<div class=\"scroll\"><table><thead><tr><th>variant</th><th>here</th><th>published</th></tr></thead><tbody>\n".to_owned();
    for published in &part.published {
        let wanted = published.variant.as_deref();
        let ours = part
            .variants
            .iter()
            .find(|variant| Some(variant.name.as_str()) == wanted)
            .and_then(|variant| view::figures(part, variant))
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
    out + "</tbody></table></div>\n<p class=\"small muted\">Machines differ, so only ratios can be set side by side.</p></section>\n"
}

/// What weakens or breaks the result, the gravest first.
pub(crate) fn findings(part: &Part) -> String {
    let mut out = "<section><h3>Validity</h3>\n".to_owned();
    let findings = view::findings(part);
    if findings.is_empty() {
        out += "<p class=\"empty\">Every check passed: nothing was found that weakens the result.</p>\n";
    } else {
        out += "<ul class=\"findings\">\n";
        for (finding, more) in findings {
            let word = view::severity_in_words(finding.severity);
            let more = match more {
                0 => String::new(),
                more => format!(" The same of {}.", crate::text::plural(more, "more block")),
            };
            let sentence = escape(&view::plain(&finding.sentence));
            out +=
                &format!("<li><span class=\"badge {word}\">{word}</span>{sentence}{more}</li>\n");
        }
        out += "</ul>\n";
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
