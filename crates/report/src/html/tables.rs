//! The tables of a part: figures, ledger, published figures, findings.

use base::format_count;
use maud::{Markup, PreEscaped, html};
use record::{Metric, Part, Run, RunKind};

use super::{empty, note, section, warning_mark};
use crate::chart;
use crate::ledger::Account;
use crate::load::{LoadReport, TIMES};
use crate::means::MeansTable;
use crate::text::{self, capitalised, sentence, time};
use crate::{
    caveat, disruption, fact, figures, handshakes, kinds, ledger, setting, streams, validity,
    verdict, view,
};

/// Longer names are commands, in a smaller font.
const LONG_NAME: usize = 28;

/// The mark of a variant.
fn key(index: usize) -> PreEscaped<String> {
    PreEscaped(chart::key(index))
}

/// A table that scrolls where the window is too narrow for it.
pub(super) fn table(head: Markup, rows: Markup) -> Markup {
    html! {
        // Who cannot swipe scrolls with the keyboard.
        div.scroll tabindex="0" { table { thead { tr { (head) } } tbody { (rows) } } }
    }
}

/// A variant's row: its name beside its cells, or above them if a name in the part is long.
fn row(part: &Part, index: usize, columns: usize, cells: Markup) -> Markup {
    let name = &part.variants[index].name;
    let long = part.variants.iter().any(|variant| variant.name.chars().count() > LONG_NAME);
    html! {
        @if long {
            tr.title { td.name.long colspan=(columns) { span.pin { (key(index)) (name) } } }
            tr { td {} (cells) }
        } @else {
            tr { td.name { (key(index)) (name) } (cells) }
        }
    }
}

/// Throughput, times, CPU and memory of every variant.
pub(crate) fn figures(run: &Run, part: &Part) -> Markup {
    let head = html! {
        th { "variant" } th { (view::throughput_unit(part)) } th { "p50" } th { "p90" } th { "p99" }
        th { "CPU/request" } th { "memory" } th { "failed" }
    };
    let rows = html! {
        @for index in 0..part.variants.len() { (row(part, index, 8, figure_cells(part, index))) }
    };
    let measured = (0..part.variants.len()).any(|index| figures::of(part, index).is_some());
    html! {
        (table(head, rows))
        p.small.muted {
            "p50, p90 and p99: " (view::times_in_words(part))
            ". CPU is the whole stack's. Memory is the largest sum of the resident memory of its processes."
            @if measured && run.kind != RunKind::Load {
                @if view::is_provisional(part) {
                    " Provisional: " (verdict::blocks_so_far(part)) "."
                } @else {
                    " Under each figure its 95% interval."
                }
            }
            @if let Some(words) = view::bytes_in_words(part) { " " (words) "." }
        }
        @if let Some(words) = caveat::footnote(part) { p.small.warned { (words) "." } }
    }
}

/// The times of a load.
pub(crate) fn times(report: &LoadReport<'_>) -> Markup {
    let head = html! { th {} @for head in TIMES { th { (head) } } };
    let rows = html! {
        @for (name, values) in report.times_rows() {
            tr {
                td.name { (name) }
                @for value in values { td { (value) } }
            }
        }
    };
    let [words, of] = report.times_in_words();
    html! {
        (table(head, rows))
        p.small.muted {
            (capitalised(&words)) "; " (of) ". Throughput: " (report.speed().join(", ")) "."
            @if let Some(words) = report.statuses_in_words() { " Statuses: " (words) "." }
            " Client: " (report.client()) "."
        }
    }
}

fn figure_cells(part: &Part, index: usize) -> Markup {
    let variant = &part.variants[index];
    if let Some(reason) = &variant.skipped {
        return html! { td.words colspan="7" { "skipped: " (reason) } };
    }
    let Some(figures) = figures::of(part, index) else {
        return html! { td.words.muted colspan="7" { "no valid data" } };
    };
    let cell = |metric: Metric, value: Markup, interval: Option<String>| {
        let class = validity::is_void(part, index, metric).then_some("struck");
        let interval = interval.filter(|_| !figures.so_far);
        html! { td class=[class] { (value) @if let Some(interval) = interval { small { (interval) } } } }
    };
    let mark = html! {
        @if !figures.mark().is_empty() {
            sup.mark title="rate not sustained" { (figures.mark()) }
            span.unseen { " (rate not sustained)" }
        }
    };
    let times = |metric: Metric, e: &stats::Estimate, mark: &Markup| {
        cell(metric, html! { (text::value(e, time)) (mark) }, text::interval(e, time))
    };
    // An INVALID figure is struck out instead.
    let is_warned = !caveat::of_variant(part, index).is_empty()
        && !validity::is_void(part, index, Metric::Throughput);
    let throughput = html! {
        @if is_warned { (warning_mark()) " " }
        b { (figures.throughput(part)) }
    };
    let interval = |value: f64| view::throughput(part, value);
    let interval = text::interval(&figures.throughput, interval);
    let memory = view::summaries(part, index).iter().filter_map(|s| s.peak_memory_bytes).max();
    let memory = memory.map_or("–".to_owned(), |bytes| base::Bytes(bytes).to_string());
    let failed = variant.ledger.counts.failed;
    html! {
        (cell(Metric::Throughput, throughput, interval))
        (times(Metric::P50, &figures.times.p50_ns, &mark))
        (times(Metric::P99, &figures.times.p90_ns, &mark))
        (times(Metric::P99, &figures.times.p99_ns, &mark))
        @match &figures.cpu_ns {
            Some(cpu) => (times(Metric::Cpu, cpu, &html! {})),
            None => td { "–" },
        }
        (cell(Metric::Memory, html! { (memory) }, None))
        td class=[(failed > 0).then_some("bad")] { (format_count(failed)) }
    }
}

/// What actions during the load cost.
pub(crate) fn losses(part: &Part) -> Markup {
    let losses = disruption::losses(part);
    let head = html! { th { "variant" } @for head in disruption::HEADS { th { (head) } } };
    let rows = html! {
        @for of in &losses {
            (row(part, of.variant, 8, html! {
                @for (head, cell) in disruption::HEADS.iter().zip(of.cells()) {
                    td class=[(*head == "lost" && of.lost > 0).then_some("bad")] { (cell) }
                }
            }))
        }
    };
    html! {
        @if !losses.is_empty() {
            (section("Lost in actions", html! {
                (table(head, rows))
                p.small.muted { (sentence(disruption::LEGEND)) }
                @for of in &losses {
                    p.small { b { (part.variants[of.variant].name) } ": " (of.actions_in_words()) "." }
                }
            }))
        }
    }
}

/// The ledger of every variant, one clause per equation. Clauses wrap, so none is clipped in a
/// narrow window or in print.
pub(crate) fn ledger(part: &Part) -> Markup {
    let accounts: Vec<_> = ledger::accounts(part).collect();
    match accounts.is_empty() {
        true => empty("No request was sent, so there is nothing to add up."),
        false => ledger_of(&accounts),
    }
}

/// Ledgers, one clause per equation.
pub(crate) fn ledger_of(accounts: &[Account<'_>]) -> Markup {
    html! {
        dl.ledger {
            @for account in accounts {
                dt { (key(account.index)) (account.name) }
                // The spaces are where a line may end.
                dd { @for each in account.clauses() { (clause(&each)) " " } }
            }
        }
    }
}

fn clause(clause: &ledger::Clause) -> Markup {
    let class = if clause.is_broken() { "unequal" } else { "equal" };
    html! {
        @if let Some(sign) = clause.sign() {
            span {
                (clause.left) " " b class=(class) { (sign) } " "
                @if let Some((_, right)) = &clause.right { (right) }
            }
        } @else {
            span.muted { (clause.left) }
        }
    }
}

/// Failures by kind, and the sources of the server-side counts.
pub(crate) fn ledger_notes(part: &Part) -> Markup {
    let served = part.variants.iter().filter_map(|v| v.served_by.as_ref());
    let mut counters: Vec<String> = served.map(setting::served_by).collect();
    counters.dedup();
    html! {
        @for variant in &part.variants {
            @let kinds = ledger::failures(&variant.ledger.errors);
            @if !kinds.is_empty() { p.small { (variant.name) " failed: " (kinds) "." } }
        }
        @if !counters.is_empty() {
            p.small.muted { "Served is counted by " (counters.join("; ")) "." }
        }
    }
}

/// Figures published by others, beside ours.
pub(crate) fn published(part: &Part) -> Markup {
    if part.published.is_empty() {
        return html! {};
    }
    let ours = |wanted: Option<&str>| {
        let index = part.variants.iter().position(|v| Some(v.name.as_str()) == wanted)?;
        let value = view::throughput(part, figures::of(part, index)?.throughput.value);
        Some(format!("{value} {}", view::throughput_unit(part)))
    };
    let head = html! { th { "variant" } th { "here" } th.words { "published" } };
    let rows = html! {
        @for published in &part.published {
            @let variant = published.variant.as_deref();
            tr {
                td.name { (variant.unwrap_or("")) }
                td { (ours(variant).unwrap_or_else(|| "–".to_owned())) }
                td.words { (published.figure) small { (published.source) } }
            }
        }
    };
    let words = note("Machines differ, so compare only ratios.");
    section("Published before", html! { (table(head, rows)) (words) })
}

/// Kinds of request and parts of responses.
pub(crate) fn means(part: &Part) -> Markup {
    let one = |of: &MeansTable| {
        let head = html! { th { (of.first) } @for head in &of.heads { th { (head) } } };
        let rows = html! {
            @for row in &of.rows {
                tr {
                    td.name { (row.name) }
                    @for cell in &row.cells { td class=[row.is_bad.then_some("bad")] { (cell) } }
                }
            }
        };
        section(of.title, html! { (table(head, rows)) (note(sentence(&of.legend))) })
    };
    let tables = kinds::table(part).into_iter().chain(streams::table(part));
    html! { @for table in tables { (one(&table)) } }
}

/// Findings, most severe first.
pub(crate) fn findings(run: &Run, part: &Part) -> Markup {
    let mut lines = validity::causes(part);
    lines.extend(validity::others(part));
    let measured = (0..part.variants.len()).any(|index| figures::of(part, index).is_some());
    let nothing = match measured {
        true if run.kind == RunKind::Load => "Nothing was found that weakens these figures.",
        true => "Every check passed: nothing was found that weakens the result.",
        false => "Nothing was measured that could be checked.",
    };
    let body = html! {
        @if lines.is_empty() {
            (empty(nothing))
        } @else {
            ul.findings {
                @for finding in &lines {
                    @let word = fact::severity(finding.severity);
                    li { span class={ "badge " (word) } { (word) } (finding.line()) }
                }
            }
        }
        @for words in handshakes::in_words(part) { (note(sentence(&words))) }
        @if let Some(words) = setting::disturbance(part, &run.machine) { (note(sentence(&words))) }
    };
    section("Validity", body)
}

/// The variants' stacks.
pub(crate) fn stacks(part: &Part) -> Markup {
    html! {
        @for variant in &part.variants {
            p {
                b { (variant.name) } " "
                span.muted.small { "reached at " code { (variant.target) } }
            }
            @if !variant.commands.is_empty() { pre { (variant.commands.join("\n")) } }
        }
    }
}
