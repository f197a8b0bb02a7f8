//! One part of a run: its verdict first, then what it rests on.

use record::{Comparison, Part, Run};
use stats::Verdict;

use super::{both, charts, tables};
use crate::answer::{self, capitalised};
use crate::chart::{self, escape};
use crate::text::time;
use crate::view;

/// What trials as dots show.
pub(super) const TRIALS: &str =
    "Every block started each variant afresh. Bands are the intervals of the estimates.";
/// What times by percentile show.
pub(super) const TIMES: &str = "Lines are the medians over trials, bands reach from the lowest to the highest trial; a line ends where a trial has fewer than ten slower requests.";
/// What requests over time show.
pub(super) const SPEED: &str =
    "As on a tachograph's disc the area is the distance: rate × time is exactly the count.";

pub(crate) fn part(run: &Run, index: usize, part: &Part) -> String {
    let mut out = String::new();
    if run.parts.len() > 1 {
        out += &format!("<h2>{}. {}</h2>\n", index + 1, escape(&part.question));
    } else {
        out += "<h2 class=\"unseen\">Result</h2>\n";
    }
    let mut setting = vec![part.load.clone(), part.layout.clone(), view::blocks_in_words(part)];
    if part.quick {
        setting.push("shortened for a quick look".to_owned());
    }
    setting.retain(|words| !words.is_empty());
    out += &format!("<p class=\"muted\">{}</p>\n", escape(&setting.join("; ")));
    out += &verdicts(part);
    out += &format!("<section><h3>Figures</h3>\n{}</section>\n", tables::figures(part));
    out += &ratios(part);
    out += &trials(part);
    out += &percentiles(part);
    out += &over_time(part);
    out += &format!(
        "<section><h3>Ledger</h3>\n<p class=\"small muted\">Every request of every block, rejected ones included, from ready to stopped, counted by the client, by the server and by the recorded series.</p>\n{}{}</section>\n",
        tables::ledger(part),
        tables::ledger_notes(part)
    );
    out += &tables::findings(part);
    out += &tables::published(part);
    out + &format!(
        "<section><h3>{}</h3>\n{}</section>\n",
        if part.variants.len() > 1 { "What was compared" } else { "What was measured" },
        tables::stacks(part)
    )
}

fn verdicts(part: &Part) -> String {
    let (primary, _) = view::split_comparisons(part);
    if primary.is_empty() {
        let words = match part.variants.iter().filter(|v| v.skipped.is_none()).count() {
            0 => "Nothing could be measured: every variant was skipped.",
            1 => return alone(part),
            _ => "No verdict: there are not enough blocks to compare.",
        };
        return format!("<section><p class=\"empty\">{words}</p></section>\n");
    }
    let several = if primary.len() > 1 { " several" } else { "" };
    let verdicts = answer::verdicts(part);
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
    let variant = part.variants.iter().find(|variant| variant.skipped.is_none());
    let Some(figures) = variant.and_then(|variant| view::figures(part, variant)) else {
        return "<section><p class=\"empty\">Nothing was measured.</p></section>\n".to_owned();
    };
    let class = if part.reasons.is_empty() { "none" } else { "void" };
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
    let (value, interval) = answer::ratio_cells(comparison);
    let class = match comparison.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "none",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "void",
    };
    let percent = comparison.confidence * 100.0;
    let small = match comparison.verdict {
        Verdict::Invalid => "not to be used".to_owned(),
        _ if answer::too_few(comparison) => "too few blocks".to_owned(),
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
    if primary.iter().any(|c| c.ratio.value.is_finite()) {
        let data = charts::forest(part, &primary);
        let metric = view::metric_in_words(&primary[0].metric, part.bulk);
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
    let rejected = if throughput.rejected.is_empty() { "" } else { " Grey blocks were rejected." };
    out + &format!("<p class=\"small muted\">{TRIALS}{rejected}</p></section>\n")
}

fn percentiles(part: &Part) -> String {
    charts::quantiles(part).map_or(String::new(), |data| {
        format!(
            "<section><h3>How long requests took</h3>\n{}<p class=\"small muted\">{TIMES}</p></section>\n",
            both(|w| chart::quantiles(&data, w))
        )
    })
}

fn over_time(part: &Part) -> String {
    let Some(data) = charts::strips(part) else {
        return String::new();
    };
    let offers = match (view::has_offer(part, "closed"), view::has_offer(part, "open")) {
        (true, true) => " In each block the closed loop comes first, then the open one.",
        _ => "",
    };
    let rejected = if part.measured_blocks().all(record::Block::accepted) {
        ""
    } else {
        " Grey blocks were rejected and are not in the sums."
    };
    format!(
        "<section><h3>Requests per second over time</h3>\n{}<p class=\"small muted\">{SPEED}{offers}{rejected}</p></section>\n",
        both(|w| chart::strips(&data, w))
    )
}
