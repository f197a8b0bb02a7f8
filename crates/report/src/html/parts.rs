//! One part of a run: its verdict first, then the evidence.

use maud::{Markup, html};
use record::{Metric, Offer, Part, Run, RunKind};
use stats::Verdict;

use super::{
    both, capacity, charted, charts, empty, marked, note, section, tables, warning_mark, why,
};
use crate::chart;
use crate::finding_lines::FindingLine;
use crate::load::LoadReport;
use crate::text::sentence;
use crate::verdict::Row;
use crate::{caveat, figures, setting, validity, verdict, view};

/// Caption of trials as dots.
pub(super) const TRIALS: &str =
    "Every block starts each variant fresh. Bands are the intervals of the estimates.";
/// Caption of times by percentile.
pub(super) const TIMES: &str = "Lines are geometric means over trials, bands reach from the lowest to the highest trial; a line ends where a trial has fewer than ten slower requests.";
/// Caption of requests over time.
pub(super) const SPEED: &str =
    "The area under a curve is the number of requests, as on a tachograph's disc: rate × time.";

pub(crate) fn part(run: &Run, index: usize, part: &Part) -> Markup {
    let load = LoadReport::from_run(run);
    let compared = if part.variants.len() > 1 { "What was compared" } else { "What was measured" };
    html! {
        @if run.parts.len() > 1 {
            h2 { (index + 1) ". " (part.question) }
        } @else {
            h2.unseen { "Result" }
        }
        @if let Some(report) = load {
            (self::load(run, part, &report))
        } @else if part.capacity.is_some() {
            (self::capacity(run, part))
        } @else {
            p.muted { (setting::line(part)) }
            (verdicts(run, part))
            (tables::losses(part))
            (section("Figures", tables::figures(run, part)))
            (ratios(part))
            (tables::means(part))
            (why::sections(part))
            (trials(part))
            (percentiles(part))
            (over_time(run, part))
            section {
                h3 { "Ledger" }
                (note("Every request of every block but the calibration, from ready to stopped, as the client, the server and the recorded series counted it."))
                (tables::ledger(part))
                (tables::ledger_notes(part))
            }
            (tables::findings(run, part))
            (tables::published(part))
            (section(compared, tables::stacks(part)))
        }
    }
}

/// A search for capacities.
fn capacity(run: &Run, part: &Part) -> Markup {
    html! {
        p.muted { (crate::capacity::page::setting(part)) }
        (capacity::headline(part))
        @if !part.comparisons.is_empty() { (verdicts(run, part)) }
        (capacity::trials(part))
        section {
            h3 { "Ledger" }
            (note("Every request of every block but the first, rough search, from ready to stopped, as the client, the server and the recorded series counted it."))
            (tables::ledger(part))
            (tables::ledger_notes(part))
        }
        (tables::findings(run, part))
        (section("What was measured", tables::stacks(part)))
    }
}

/// A run of `load`: one trial without comparisons.
fn load(run: &Run, part: &Part, report: &LoadReport<'_>) -> Markup {
    html! {
        p.muted { (report.setting()) }
        (alone(part))
        (section("Figures", tables::times(report)))
        @if let Some(data) = charts::quantiles(part) {
            (charted("Latency distribution", |w| chart::quantiles(&data, w), "The line ends where fewer than ten requests were slower."))
        }
        @if let Some(data) = charts::strips(run, part) {
            (charted("Requests per second over time", |w| chart::strips(&data, w), SPEED))
        }
        (tables::means(part))
        (why::sections(part))
        section {
            h3 { "Ledger" }
            (note("Every request that was measured, as the client, the server and the recorded series counted it."))
            (tables::ledger_of(&[report.account()]))
            (tables::ledger_notes(part))
        }
        (tables::findings(run, part))
    }
}

fn verdicts(run: &Run, part: &Part) -> Markup {
    let (primary, _) = view::split_comparisons(part);
    if primary.is_empty() {
        let nothing = part.variants.iter().all(|variant| variant.skipped.is_some());
        if !nothing && view::has_actions(part) {
            return html! {};
        }
        if !nothing && (run.kind == RunKind::Load || part.variants.len() == 1) {
            return alone(part);
        }
        let words = sentence(&verdict::no_verdict(part));
        return html! { section { (empty(&words)) (caveats(&caveat::lines(part))) } };
    }
    let verdicts = verdict::verdicts(part);
    html! {
        section.verdicts.several[primary.len() > 1] {
            @if let Some(lead) = verdicts.lead { p { (lead) } }
            @for row in &verdicts.rows { (verdict(row)) }
            (caveats(&verdicts.caveats))
            @if let Some(words) = verdicts.uncompared { p.warned { (words) "." } }
            @if let Some(words) = verdicts.circumstances { (note(sentence(&words))) }
        }
    }
}

/// What weakens the verdict beside it.
fn caveats(lines: &[FindingLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul.caveats { @for line in lines { li { (warning_mark()) " " (line.line()) "." } } }
        }
    }
}

/// The headline of a part with a single variant.
fn alone(part: &Part) -> Markup {
    let index = part.variants.iter().position(|variant| variant.skipped.is_none()).unwrap_or(0);
    let Some(figures) = figures::of(part, index) else {
        return html! { section { (empty("Nothing was measured.")) } };
    };
    let class = if validity::is_void(part, index, Metric::Throughput) { "void" } else { "none" };
    let words = html! {
        p {
            "Half of the requests took at most " (figures.percentile(&figures.times.p50_ns))
            ", 99% at most " (figures.percentile(&figures.times.p99_ns))
            ": " (view::times_in_words(part)) "."
        }
        (caveats(&caveat::lines(part)))
    };
    let value = figures.throughput(part);
    let card = card(class, &value, view::throughput_unit(part), words);
    html! { section.verdicts { (card) } }
}

fn verdict(row: &Row<'_>) -> Markup {
    let comparison = row.comparison;
    let (value, interval) = verdict::ratio_cells(comparison);
    let judgement = &comparison.judgement;
    let class = match judgement.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "none",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "refused",
    };
    let percent = judgement.confidence * 100.0;
    let small = match judgement.verdict {
        Verdict::Invalid => "no ratio".to_owned(),
        _ if verdict::too_few(comparison) => "so far".to_owned(),
        _ => format!("{interval} ({percent:.0}%)"),
    };
    let class = if row.weakened { format!("{class} weakened") } else { class.to_owned() };
    card(&class, &value, &small, html! { p { (marked(&row.sentence)) } (caveats(&row.caveats)) })
}

/// A large figure with what it means beside it.
fn card(class: &str, value: &str, small: &str, words: Markup) -> Markup {
    html! {
        div class={ "verdict " (class) } {
            div.ratio { span { (value) } small { (small) } }
            div { (words) }
        }
    }
}

fn ratios(part: &Part) -> Markup {
    let (primary, others) = view::split_comparisons(part);
    html! {
        @if primary.iter().any(|c| c.judgement.ratio.value.is_finite()) {
            @let data = charts::forest(part, &primary);
            (charted(html! { "Ratio of " (setting::metric(primary[0].metric, part.is_bulk())) }, |w| chart::forest(&data, w), charts::forest_words(&data)))
        }
        @if !others.is_empty() {
            @let data = charts::forest(part, &others);
            (charted("Other ratios", |w| chart::forest(&data, w), html! {
                "Unadjusted: one of several intervals of 95% may miss by chance. Of times, CPU and memory, less is better."
                (charts::arrow_words(&data))
            }))
        }
    }
}

fn trials(part: &Part) -> Markup {
    let Some(throughput) = charts::throughput_dots(part) else {
        return section("Trials", empty("No trial had ended."));
    };
    let grey = if throughput.left_out.is_empty() { "" } else { " Grey blocks do not count." };
    html! {
        @if throughput.blocks > 1 {
            section {
                h3 { "Every trial, block by block" }
                (both(|w| chart::dots(&throughput, w)))
                @if let Some(p99) = charts::p99_dots(part) { (both(|w| chart::dots(&p99, w))) }
                p.small.muted { (TRIALS) (grey) }
            }
        }
    }
}

fn percentiles(part: &Part) -> Markup {
    html! {
        @if let Some(data) = charts::quantiles(part) {
            (charted("Latency distribution", |w| chart::quantiles(&data, w), TIMES))
        }
    }
}

fn over_time(run: &Run, part: &Part) -> Markup {
    let offers = setting::offers(part);
    let offered = |wanted: Offer| offers.iter().any(|(offer, _)| *offer == wanted);
    html! {
        @if let Some(data) = charts::strips(run, part) {
            section {
                h3 { "Requests per second over time" }
                (both(|w| chart::strips(&data, w)))
                p.small.muted {
                    (SPEED)
                    @if offered(Offer::Closed) && offered(Offer::Open) {
                        " In each block the closed loop comes first, then the open one."
                    }
                    @if run.parts.len() > 1 { " All parts have the same time scale." }
                    @if !part.measured_blocks().all(record::Block::is_complete) {
                        " Grey blocks do not count and are not in the sums."
                    }
                }
            }
        }
    }
}
