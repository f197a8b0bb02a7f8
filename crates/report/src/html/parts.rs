//! One part of a run: its verdict first, then what it rests on.

use record::{Comparison, Metric, Offer, Part, Run, RunKind};
use stats::Verdict;

use super::{both, charts, tables};
use crate::chart::{self, escape};
use crate::load::LoadReport;
use crate::text::{capitalised, time};
use crate::{setting, validity, verdict, view};

/// What trials as dots show.
pub(super) const TRIALS: &str =
    "Every block starts each variant fresh. Bands are the intervals of the estimates.";
/// What times by percentile show.
pub(super) const TIMES: &str = "Lines are geometric means over trials, bands reach from the lowest to the highest trial; a line ends where a trial has fewer than ten slower requests.";
/// What requests over time show.
pub(super) const SPEED: &str =
    "The area under a curve is the number of requests, as on a tachograph's disc: rate × time.";

pub(crate) fn part(run: &Run, index: usize, part: &Part) -> String {
    let mut out = String::new();
    if run.parts.len() > 1 {
        out += &format!("<h2>{}. {}</h2>\n", index + 1, escape(&part.question));
    } else {
        out += "<h2 class=\"unseen\">Result</h2>\n";
    }
    if let Some(report) = LoadReport::from_run(run) {
        return out + &load(run, part, &report);
    }
    out += &format!("<p class=\"muted\">{}</p>\n", escape(&setting::line(part)));
    out += &verdicts(run, part);
    out += &format!("<section><h3>Figures</h3>\n{}</section>\n", tables::figures(run, part));
    out += &ratios(part);
    out += &trials(part);
    out += &percentiles(part);
    out += &over_time(part);
    out += &format!(
        "<section><h3>Ledger</h3>\n<p class=\"small muted\">Every request of every block but the calibration, from ready to stopped, as the client, the server and the recorded series counted it.</p>\n{}{}</section>\n",
        tables::ledger(part),
        tables::ledger_notes(part)
    );
    out += &tables::findings(run, part);
    out += &tables::published(part);
    out + &format!(
        "<section><h3>{}</h3>\n{}</section>\n",
        if part.variants.len() > 1 { "What was compared" } else { "What was measured" },
        tables::stacks(part)
    )
}

/// A run of `load`: one trial, and nothing that it is compared with.
fn load(run: &Run, part: &Part, report: &LoadReport<'_>) -> String {
    let mut out = format!("<p class=\"muted\">{}</p>\n", escape(&report.setting()));
    out += &alone(part);
    out += &format!("<section><h3>Figures</h3>\n{}</section>\n", tables::times(report));
    if let Some(data) = charts::quantiles(part) {
        out += &format!(
            "<section><h3>Latency distribution</h3>\n{}<p class=\"small muted\">The line ends where fewer than ten requests were slower.</p></section>\n",
            both(|w| chart::quantiles(&data, w))
        );
    }
    if let Some(data) = charts::strips(part) {
        out += &format!(
            "<section><h3>Requests per second over time</h3>\n{}<p class=\"small muted\">{SPEED}</p></section>\n",
            both(|w| chart::strips(&data, w))
        );
    }
    out += &format!(
        "<section><h3>Ledger</h3>\n<p class=\"small muted\">Every request that was measured, as the client, the server and the recorded series counted it.</p>\n{}{}</section>\n",
        tables::ledger_of(&[(0, &part.variants[0].name, report.ledger())]),
        tables::ledger_notes(part)
    );
    out + &tables::findings(run, part)
}

fn verdicts(run: &Run, part: &Part) -> String {
    let (primary, _) = view::split_comparisons(part);
    if primary.is_empty() {
        let words = match part.variants.iter().filter(|v| v.skipped.is_none()).count() {
            0 => "Nothing could be measured: every variant was skipped.".to_owned(),
            _ if run.kind == RunKind::Load || part.variants.len() == 1 => return alone(part),
            _ => verdict::no_verdict(),
        };
        return format!("<section><p class=\"empty\">{words}</p></section>\n");
    }
    let several = if primary.len() > 1 { " several" } else { "" };
    let verdicts = verdict::verdicts(part);
    let small = |words: &str| format!("<p class=\"small muted\">{}.</p>\n", escape(words));
    let lead = verdicts.lead.map_or_else(String::new, |lead| format!("<p>{}</p>\n", escape(&lead)));
    let rows: String = verdicts.rows.iter().map(|(c, sentence)| verdict(c, sentence)).collect();
    let circumstances = verdicts.circumstances.map(|words| small(&capitalised(&words)));
    format!(
        "<section class=\"verdicts{several}\">\n{lead}{rows}{}</section>\n",
        circumstances.unwrap_or_default()
    )
}

/// The headline of a part that has one variant only.
fn alone(part: &Part) -> String {
    let index = part.variants.iter().position(|variant| variant.skipped.is_none()).unwrap_or(0);
    let Some(figures) = view::figures(part, index) else {
        return "<section><p class=\"empty\">Nothing was measured.</p></section>\n".to_owned();
    };
    let class = if validity::is_void(part, index, Metric::Throughput) { "void" } else { "none" };
    let value = view::throughput(part, figures.throughput.value);
    format!(
        "<section class=\"verdicts\"><div class=\"verdict {class}\"><div class=\"ratio\"><span>{value}</span><small>{}</small></div><p>Half of the requests took at most {}, 99% at most {}: {}.</p></div></section>\n",
        view::throughput_unit(part),
        time(figures.times.p50_ns.value),
        time(figures.times.p99_ns.value),
        escape(&view::times_in_words(part))
    )
}

fn verdict(comparison: &Comparison, sentence: &str) -> String {
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
    format!(
        "<div class=\"verdict {class}\"><div class=\"ratio\"><span>{value}</span><small>{small}</small></div><p>{}</p></div>\n",
        escape(sentence)
    )
}

fn ratios(part: &Part) -> String {
    let (primary, others) = view::split_comparisons(part);
    let mut out = String::new();
    if primary.iter().any(|c| c.judgement.ratio.value.is_finite()) {
        let data = charts::forest(part, &primary);
        let metric = setting::metric(primary[0].metric, part.is_bulk());
        out +=
            &format!("<section><h3>Ratio of {metric}</h3>\n{}", both(|w| chart::forest(&data, w)));
        out += &format!("{}</section>\n", charts::forest_legend(&data));
    }
    if !others.is_empty() {
        let data = charts::forest(part, &others);
        out += &format!(
            "<section><h3>Other ratios</h3>\n{}<p class=\"small muted\">Unadjusted: one of several intervals of 95% may miss by chance. Of times, CPU and memory, less is better.</p></section>\n",
            both(|w| chart::forest(&data, w))
        );
    }
    out
}

fn trials(part: &Part) -> String {
    let Some(throughput) = charts::throughput_dots(part) else {
        return "<section><h3>Trials</h3><p class=\"empty\">No trial had ended.</p></section>\n"
            .to_owned();
    };
    if throughput.blocks < 2 {
        return String::new();
    }
    let mut out = format!(
        "<section><h3>Every trial, block by block</h3>\n{}",
        both(|w| chart::dots(&throughput, w))
    );
    if let Some(p99) = charts::p99_dots(part) {
        out += &both(|w| chart::dots(&p99, w));
    }
    let grey = if throughput.left_out.is_empty() { "" } else { " Grey blocks do not count." };
    out + &format!("<p class=\"small muted\">{TRIALS}{grey}</p></section>\n")
}

fn percentiles(part: &Part) -> String {
    charts::quantiles(part).map_or(String::new(), |data| {
        format!(
            "<section><h3>Latency distribution</h3>\n{}<p class=\"small muted\">{TIMES}</p></section>\n",
            both(|w| chart::quantiles(&data, w))
        )
    })
}

fn over_time(part: &Part) -> String {
    let Some(data) = charts::strips(part) else {
        return String::new();
    };
    let offers = view::offers(part);
    let offered = |wanted: Offer| offers.iter().any(|(offer, _)| *offer == wanted);
    let offers = match (offered(Offer::Closed), offered(Offer::Open)) {
        (true, true) => " In each block the closed loop comes first, then the open one.",
        _ => "",
    };
    let rejected = if part.measured_blocks().all(record::Block::is_complete) {
        ""
    } else {
        " Grey blocks do not count and are not in the sums."
    };
    format!(
        "<section><h3>Requests per second over time</h3>\n{}<p class=\"small muted\">{SPEED}{offers}{rejected}</p></section>\n",
        both(|w| chart::strips(&data, w))
    )
}
