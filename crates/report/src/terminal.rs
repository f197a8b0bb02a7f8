//! One screen of plain text for a run.

use record::{Comparison, Part, Run, Severity};
use stats::Verdict;

use crate::load::LoadReport;
use crate::page::{LABEL, Page, TableRow};
use crate::text::{Style, Tone, fit, one_line, sentence, shell, width};
use crate::{
    capacity, caveat, changes, disruption, fact, figures, handshakes, kinds, ledger, machine,
    place, setting, streams, validity, verdict, view, why,
};

/// The report for a terminal or a pipe, ending in a newline.
pub fn terminal(run: &Run, style: &Style) -> String {
    if let Some(report) = LoadReport::from_run(run) {
        return report.terminal(style);
    }
    let mut page = Page::new(style);
    head(&mut page, run);
    for (index, part) in run.parts.iter().enumerate() {
        section(&mut page, run, index, part);
    }
    changed(&mut page, run);
    foot(&mut page, run);
    page.finish()
}

fn head(page: &mut Page<'_>, run: &Run) {
    page.paragraph(Tone::Bold, 0, &run.title);
    if run.question != run.title && !run.question.is_empty() {
        page.paragraph(Tone::Plain, 0, &run.question);
    }
    for (word, rest) in view::forewords(run) {
        page.paragraph(Tone::Warn, 0, format!("{word}: {rest}"));
    }
    if let Some(error) = &run.error {
        page.paragraph(Tone::Bad, 2, format!("INVALID: {error}"));
    }
    if run.parts.len() > 1 {
        page.blank();
        for answer in verdict::answer(run) {
            page.paragraph(Tone::Plain, 2, format!("{}: {}", answer.part, answer.words));
        }
    }
}

fn section(page: &mut Page<'_>, run: &Run, index: usize, part: &Part) {
    page.blank();
    if run.parts.len() > 1 {
        page.paragraph(Tone::Bold, 3, format!("{}. {}", index + 1, view::heading(part)));
    }
    let setting = match part.capacity {
        Some(_) => capacity::page::setting(part),
        None => setting::line(part),
    };
    page.paragraph(Tone::Dim, 0, setting);
    for reason in validity::of_part(part) {
        page.paragraph(Tone::Bad, 2, format!("INVALID: {reason}"));
    }
    losses(page, part);
    page.blank();
    match part.capacity {
        Some(_) => capacity::page::on_page(page, part),
        None => table(page, part),
    }
    if part.capacity.is_none() || !part.comparisons.is_empty() {
        page.blank();
        verdicts(page, part);
    }
    let tables = kinds::largest(part).into_iter().chain(streams::table(part));
    tables.for_each(|table| table.on_page(page));
    why::on_page(page, part);
    ledgers(page, part);
    findings(page, run, part);
    published(page, part);
}

/// What actions during the load cost.
fn losses(page: &mut Page<'_>, part: &Part) {
    let losses = disruption::losses(part);
    if losses.is_empty() {
        return;
    }
    page.blank();
    let row = |of: &disruption::Losses<'_>| TableRow {
        name: part.variants[of.variant].name.clone(),
        is_bad: of.lost > 0,
        cells: of.cells().to_vec(),
    };
    let rows: Vec<_> = losses.iter().map(row).collect();
    page.table("variant", &disruption::HEADS, &rows);
    page.paragraph(Tone::Dim, 2, disruption::LEGEND);
    for of in &losses {
        let name = fit(&part.variants[of.variant].name, page.style.columns() / 2);
        page.paragraph(Tone::Dim, 2, format!("{name}: {}", of.actions_in_words()));
    }
}

fn table(page: &mut Page<'_>, part: &Part) {
    let measured = (0..part.variants.len()).filter(|v| part.variants[*v].skipped.is_none());
    let row = |variant: usize| TableRow {
        name: part.variants[variant].name.clone(),
        is_bad: part.variants[variant].ledger.counts.failed > 0,
        cells: row(part, variant).to_vec(),
    };
    let rows: Vec<TableRow> = measured.map(row).collect();
    let heads = [view::throughput_unit(part), "95% interval", "p50", "p99", "CPU/req", "failed"];
    page.table("variant", &heads, &rows);
    for variant in &part.variants {
        if let Some(reason) = &variant.skipped {
            let name = fit(&variant.name, page.style.columns() / 2);
            page.paragraph(Tone::Plain, 2, format!("{name} was skipped: {reason}"));
        }
    }
    if !rows.is_empty() {
        page.paragraph(Tone::Dim, 2, format!("p50 and p99: {}", view::times_in_words(part)));
        page.optional(Tone::Warn, caveat::footnote(part));
        page.optional(Tone::Dim, view::bytes_in_words(part));
    }
    page.optional(Tone::Bad, validity::void_in_words(part));
}

fn verdicts(page: &mut Page<'_>, part: &Part) {
    let verdicts = verdict::verdicts(part);
    let said = verdicts.lead.is_some() || !verdicts.rows.is_empty();
    page.optional(Tone::Warn, verdicts.lead);
    for row in &verdicts.rows {
        page.paragraph(tone_of(row), 2, &row.sentence);
        page.caveats(&row.caveats);
        page.optional(Tone::Dim, same_pair(part, row.comparison));
    }
    if !said && part.variants.len() > 1 && !view::has_actions(part) {
        page.paragraph(Tone::Plain, 2, sentence(&verdict::no_verdict(part)));
    }
    page.caveats(&verdicts.caveats);
    page.optional(Tone::Warn, verdicts.uncompared.map(|words| format!("note: {words}")));
    page.optional(Tone::Dim, verdicts.circumstances.map(|words| sentence(&words)));
    page.optional(Tone::Bold, disruption::answer(part).map(|words| format!("{words}.")));
}

fn tone_of(row: &verdict::Row<'_>) -> Tone {
    match row.comparison.judgement.verdict {
        Verdict::Invalid => Tone::Bad,
        _ if row.weakened => Tone::Warn,
        Verdict::Faster | Verdict::Slower | Verdict::Equivalent => Tone::Good,
        Verdict::NoDifference => Tone::Bold,
        Verdict::Inconclusive => Tone::Warn,
    }
}

/// The secondary ratios of the variants of a primary one: `unadjusted: p50 0.90× (0.89–0.92)`.
fn same_pair(part: &Part, primary: &Comparison) -> Option<String> {
    let (_, others) = view::split_comparisons(part);
    let same_pair: Vec<_> = others
        .into_iter()
        .filter(|c| (c.baseline, c.variant) == (primary.baseline, primary.variant))
        // If the primary verdict is INVALID, further INVALID ones are not listed.
        .filter(|c| !(validity::is_refused(primary) && validity::is_refused(c)))
        .collect();
    let ratios = same_pair.iter().map(|c| {
        format!("{} {}", setting::metric(c.metric, part.is_bulk()), verdict::ratio_in_words(c))
    });
    let ratios = ratios.collect::<Vec<_>>().join("; ");
    Some(format!("{}: {ratios}", verdict::words::adjustment(&same_pair.first()?.judgement)))
}

fn ledgers(page: &mut Page<'_>, part: &Part) {
    let accounts: Vec<_> = ledger::accounts(part).collect();
    if accounts.is_empty() {
        return;
    }
    page.blank();
    let names: Vec<String> = accounts.iter().map(|account| fit(account.name, 17)).collect();
    let margin = names.iter().map(|name| width(name)).max().unwrap_or(0).max(9) + 2;
    for (account, name) in accounts.iter().zip(&names) {
        page.account(margin, name, account);
    }
}

fn findings(page: &mut Page<'_>, run: &Run, part: &Part) {
    let disturbance = setting::disturbance(part, &run.machine);
    let handshakes = handshakes::in_words(part);
    // What makes the part INVALID or weakens its verdicts is already above.
    let findings = caveat::elsewhere(part);
    let is_shown = !findings.is_empty() || disturbance.is_some() || !handshakes.is_empty();
    if is_shown || !part.published.is_empty() {
        page.blank();
    }
    for words in handshakes {
        page.beside(LABEL, "TLS", Tone::Plain, &words);
    }
    if let Some(words) = disturbance {
        page.beside(LABEL, "disturbed", Tone::Plain, &words);
    }
    for finding in findings {
        let tone = match finding.severity {
            Severity::Invalid => Tone::Bad,
            Severity::Warning => Tone::Warn,
            Severity::Note => Tone::Plain,
        };
        page.beside(LABEL, fact::severity(finding.severity), tone, &finding.line());
    }
}

fn published(page: &mut Page<'_>, part: &Part) {
    let mut source = "";
    for published in &part.published {
        let name = published.variant.as_deref().unwrap_or("");
        let colon = if name.is_empty() { "" } else { ": " };
        let text = format!("{name}{colon}{}", published.figure);
        if source == published.source {
            page.beside(LABEL, "", Tone::Plain, &text);
        } else {
            source = &published.source;
            page.beside(LABEL, "published", Tone::Plain, &format!("{text} ({source})"));
        }
    }
    for comparison in view::split_comparisons(part).0 {
        if let Some((published, _)) = view::published_ratio(part, comparison) {
            let mut text = format!("{}: {published:.2}×", view::sides(part, comparison));
            if !validity::is_refused(comparison) {
                text += &format!("; here {}", verdict::ratio_in_words(comparison));
            }
            page.beside(LABEL, "", Tone::Plain, &text);
        }
    }
}

/// What each change from one part to another does.
fn changed(page: &mut Page<'_>, run: &Run) {
    let effects = changes::effects(run);
    if effects.is_empty() {
        return;
    }
    page.blank();
    page.paragraph(Tone::Bold, 0, changes::TITLE);
    let mut above = String::new();
    for effect in &effects {
        let what = effect.what();
        if what != above {
            page.paragraph(Tone::Plain, 2, &what);
            above = what;
        }
        let [before, after, change] = effect.ratios();
        let words = format!("{}: {before} → {after}, effect {change}", effect.compared());
        let tone = if effect.is_detected() { Tone::Good } else { Tone::Plain };
        page.beside(2, "", tone, &words);
    }
    page.paragraph(Tone::Dim, 2, format!("{}.", changes::LEGEND));
}

fn foot(page: &mut Page<'_>, run: &Run) {
    const MARGIN: usize = 13;
    page.blank();
    page.beside(MARGIN, "machine", Tone::Plain, &machine::words(&run.machine));
    for line in place::lines(run).into_iter().chain(setting::waking(run).map(|w| w.brief)) {
        page.beside(MARGIN, "", Tone::Plain, &line);
    }
    // Commands are never wrapped, so that they can be copied.
    page.line_beside(MARGIN, "repeat", &one_line(&shell(&run.command_line)));
    let command = format!("tachograph report {} --html > report.html", run.id);
    page.line_beside(MARGIN, "HTML report", &command);
}

/// The cells of a measured variant.
fn row(part: &Part, variant: usize) -> [String; 6] {
    let failed = base::format_count(part.variants[variant].ledger.counts.failed);
    let Some(figures) = figures::of(part, variant) else {
        return ["–", "–", "–", "–", "–", &failed].map(str::to_owned);
    };
    [
        figures.throughput(part),
        figures::throughput_interval(part, &figures),
        figures.percentile(&figures.times.p50_ns),
        figures.percentile(&figures.times.p99_ns),
        figures.cpu(),
        failed,
    ]
}
