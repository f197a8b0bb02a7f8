//! The tables of a part: figures, ledger, published figures, findings.

use base::format_count;
use ledger::Ledger;
use record::{Part, Variant};

use crate::answer;
use crate::chart::{escape, key};
use crate::text::{time, time_interval};
use crate::view;

/// Longer names are commands and set smaller.
const LONG_NAME: usize = 28;

/// A variant's row: its name beside its cells, or above them where a name of the part is long.
fn row(part: &Part, index: usize, class: &str, columns: usize, cells: &str) -> String {
    let name = escape(&part.variants[index].name);
    let key = key(index);
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    if part.variants.iter().any(|variant| variant.name.chars().count() > LONG_NAME) {
        format!(
            "<tr class=\"title\"><td class=\"name long\" colspan=\"{columns}\">{key}{name}</td></tr>\n<tr{class}><td></td>{cells}</tr>\n"
        )
    } else {
        format!("<tr{class}><td class=\"name\">{key}{name}</td>{cells}</tr>\n")
    }
}

/// Throughput, times, CPU and memory of every variant.
pub(crate) fn figures(part: &Part) -> String {
    let unit = view::throughput_unit(part);
    let mut out = format!(
        "<div class=\"scroll\"><table><thead><tr><th>variant</th><th>{unit}</th><th>p50</th><th class=\"extra\">p90</th><th>p99</th><th>CPU/request</th><th class=\"extra\">memory</th><th>failed</th></tr></thead><tbody>\n"
    );
    for (index, variant) in part.variants.iter().enumerate() {
        let class = if answer::is_refused(part, index) { "struck" } else { "" };
        out += &row(part, index, class, 8, &figure_cells(part, variant));
    }
    out += "</tbody></table></div>\n";
    let measured =
        part.variants.iter().any(|v| view::figures(part, v).is_some_and(|f| !single(&f)));
    let intervals = match measured {
        true if view::few_blocks(part) => " Too few blocks for intervals.",
        true => " Under each figure its 95% interval.",
        false => "",
    };
    let bytes = view::bytes_in_words(part)
        .map_or_else(String::new, |words| format!(" {}.", escape(&words)));
    out + &format!(
        "<p class=\"small muted\">p50, p90 and p99: {}. CPU is the whole stack's, memory its peak.{intervals}{bytes}</p>\n",
        escape(&view::times_in_words(part))
    )
}

/// Whether the figures come from a single trial: their intervals have no width and say nothing.
fn single(figures: &view::Figures<'_>) -> bool {
    figures.throughput.low == figures.throughput.high
}

fn figure_cells(part: &Part, variant: &Variant) -> String {
    if let Some(reason) = &variant.skipped {
        return format!("<td class=\"words\" colspan=\"7\">skipped: {}</td>", escape(reason));
    }
    let Some(figures) = view::figures(part, variant) else {
        return "<td class=\"words muted\" colspan=\"7\">nothing measured in an accepted block</td>".to_owned();
    };
    let single = single(&figures) || view::few_blocks(part);
    let cell = |class: &str, value: String, interval: String| {
        let interval = if single { String::new() } else { format!("<small>{interval}</small>") };
        format!("<td{class}>{value}{interval}</td>")
    };
    let times =
        |class: &str, e: &stats::Estimate| cell(class, time(e.value), time_interval(e.low, e.high));
    let extra = " class=\"extra\"";
    let mut out = cell(
        "",
        format!("<b>{}</b>", view::throughput(part, figures.throughput.value)),
        view::throughput_interval(part, &figures.throughput),
    );
    out += &times("", &figures.times.p50_ns);
    out += &times(extra, &figures.times.p90_ns);
    out += &times("", &figures.times.p99_ns);
    out += &figures.cpu_ns.as_ref().map_or("<td>–</td>".to_owned(), |cpu| times("", cpu));
    let memory = variant.summaries.iter().filter_map(|s| s.peak_memory_bytes).max();
    let memory = memory.map_or("–".to_owned(), |bytes| base::Bytes(bytes).to_string());
    out += &format!("<td{extra}>{memory}</td>");
    let failed = variant.ledger.counts.failed;
    let class = if failed > 0 { " class=\"bad\"" } else { "" };
    out + &format!("<td{class}>{}</td>", format_count(failed))
}

/// The ledger of every variant, with a sign wherever two counts must be equal.
pub(crate) fn ledger(part: &Part) -> String {
    let measured: Vec<(usize, &Variant)> =
        part.variants.iter().enumerate().filter(|(_, v)| !v.summaries.is_empty()).collect();
    if measured.is_empty() {
        return "<p class=\"empty\">No block was accepted, so there is nothing to add up.</p>\n"
            .to_owned();
    }
    let dropped = measured.iter().any(|(_, v)| v.ledger.counts.dropped > 0);
    let mut heads = vec!["variant"];
    if dropped {
        heads.extend(["offered", "dropped"]);
    }
    heads.extend(["sent", "completed", "failed", "in flight", "served", "series"]);
    let columns = heads.len();
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let mut out = format!("<div class=\"scroll\"><table><thead><tr>{heads}</tr></thead><tbody>\n");
    for (index, variant) in measured {
        out += &row(part, index, "", columns, &ledger_cells(&variant.ledger, dropped));
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
    let mut out = "<section><h3>Published before</h3>\n<div class=\"scroll\"><table><thead><tr><th>variant</th><th>here</th><th class=\"words\">published</th></tr></thead><tbody>\n".to_owned();
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
        for (severity, sentence) in findings {
            let word = view::severity_in_words(severity);
            let sentence = escape(&sentence);
            out += &format!("<li><span class=\"badge {word}\">{word}</span>{sentence}</li>\n");
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
