//! A run as GitHub-flavoured Markdown, to paste into an issue or a README.

use std::collections::BTreeSet;

use record::{Metric, Part, Run, Variant};

use crate::finding_lines::FindingLine;
use crate::html::{Picture, pictures};
use crate::ledger::Account;
use crate::load::{LoadReport, TIMES};
use crate::means::MeansTable;
use crate::text::{capitalised, one_line, sentence, shell};
use crate::verdict::{self, AnswerLine, ratio_cells};
use crate::{
    capacity, caveat, changes, disruption, figures, handshakes, kinds, ledger, machine, place,
    setting, streams, validity, view, why,
};

/// The report as Markdown.
pub fn markdown(run: &Run) -> String {
    page(run, None)
}

/// The report as Markdown with the charts of [`pictures`](crate::pictures()), which are SVG files
/// in `folder`.
///
/// Charts of all parts are below the answer; without a chart of all ratios, each part has its own.
pub fn markdown_with_pictures(run: &Run, folder: &str) -> String {
    page(run, Some(folder))
}

fn page(run: &Run, folder: Option<&str>) -> String {
    let mut out = format!("## {}\n\n", escape(&run.title));
    if run.question != run.title && !run.question.is_empty() {
        out += &paragraph(&run.question);
    }
    for (word, rest) in view::forewords(run) {
        out += &format!("> {word}: {rest}\n\n");
    }
    if let Some(error) = &run.error {
        out += &invalid(error);
    }
    out += &answers(run);
    let about = view::about(run);
    if !about.is_empty() {
        out += &format!("{}\n\n", escape_lines(&about));
    }
    let shown = folder.map_or_else(Vec::new, |_| shown(run));
    let embed = |part: Option<&str>| {
        let of_part = shown.iter().filter(|picture| picture.part.as_deref() == part);
        of_part.map(|picture| image(picture, folder.unwrap_or_default())).collect::<String>()
    };
    out += &embed(None);
    out += &changed(run);
    for part in &run.parts {
        if run.parts.len() > 1 {
            out += &format!("### {}\n\n", escape(&view::heading(part)));
        }
        out += &part_section(run, part, &embed(Some(&part.name)));
    }
    out += &paragraph(&format!("Machine: {}.", machine::words(&run.machine)));
    out += &list(place::lines(run).iter().map(|line| escape(line)));
    if let Some(setting::WakeupCost { brief, why }) = setting::waking(run) {
        out += &details(&escape(&capitalised(&brief)), &paragraph(&why));
    }
    out += &format!("Run `{}`, {}. Repeat it with:\n\n", run.id, escape(&view::maker(run)));
    out + &fenced("sh", &one_line(&shell(&run.command_line)))
}

/// What each change from one part to another does.
fn changed(run: &Run) -> String {
    let effects = changes::effects(run);
    if effects.is_empty() {
        return String::new();
    }
    let mut out = format!("### {}\n\n", changes::TITLE);
    out += &format!("| {} |\n", changes::HEADS.join(" | "));
    out += "| :-- | :-- | --: | --: | --: |\n";
    let mut above = String::new();
    for effect in &effects {
        let [before, after, change] = effect.ratios();
        let change = if effect.is_detected() { format!("**{change}**") } else { change };
        let what = escape(&effect.what());
        let shown = if what == above { "" } else { &what };
        let compared = escape(&effect.compared());
        out += &format!("| {shown} | {compared} | {before} | {after} | {change} |\n");
        above = what;
    }
    out + &format!("\n{}.\n\n", changes::LEGEND)
}

/// The charts of all parts; if none of them shows the ratios, each part's own.
fn shown(run: &Run) -> Vec<Picture> {
    let all = pictures(run);
    let ratios = all.iter().any(|picture| picture.name == "overview-ratio");
    let wanted = |picture: &Picture| match &picture.part {
        None => true,
        Some(part) => !ratios && picture.name == format!("{part}-ratio"),
    };
    all.into_iter().filter(wanted).collect()
}

fn image(picture: &Picture, folder: &str) -> String {
    let slash = if folder.is_empty() { "" } else { "/" };
    // Brackets and spaces would end the address.
    let file = format!("{folder}{slash}{}.svg", picture.name).replace(' ', "%20");
    let file = file.replace('(', "%28").replace(')', "%29");
    let caption = escape(&picture.caption);
    format!("![{}]({file})\n\n*{caption}*\n\n", escape(picture.svg.title()))
}

fn answers(run: &Run) -> String {
    let line = |answer: &AnswerLine<'_>| {
        format!("**{}**: {}.", escape(answer.part), escape(&answer.words))
    };
    match verdict::answer(run).as_slice() {
        [one] => format!("**{}.**\n\n", escape(&one.words)),
        lines => list(lines.iter().map(line)),
    }
}

fn part_section(run: &Run, part: &Part, pictures: &str) -> String {
    let mut out = String::new();
    for reason in validity::of_part(part) {
        out += &invalid(&reason);
    }
    out += pictures;
    if let Some(report) = LoadReport::from_run(run) {
        return out + &load(run, part, &report);
    }
    out += &losses(part);
    match part.capacity {
        Some(_) => out += &capacity::page::markdown(part, escape),
        None => out += &(table(part) + &means(part)),
    }
    if part.capacity.is_none() || !part.comparisons.is_empty() {
        out += &verdicts(part);
    }
    out += &others(part);
    out += &reasons(part);
    out += &list(ledger::accounts(part).map(|account| ledger(&account)));
    out += &disturbance(run, part);
    // What makes the part INVALID or weakens its verdicts is already above.
    out += &findings(&caveat::elsewhere(part));
    let setting = match part.capacity {
        Some(_) => capacity::page::setting(part),
        None => setting::line(part),
    };
    out + &paragraph(&format!("{setting}."))
}

/// Kinds of request and parts of responses.
fn means(part: &Part) -> String {
    let tables = kinds::table(part).into_iter().chain(streams::table(part));
    let one = |table: MeansTable| {
        let heads: Vec<String> = table.heads.iter().map(|head| escape(head)).collect();
        let mut out = format!("| {} | {} |\n| :-- |", table.first, heads.join(" | "));
        out += &format!("{}\n", " --: |".repeat(heads.len()));
        for row in &table.rows {
            out += &format!("| {} | {} |\n", escape(&row.name), row.cells.join(" | "));
        }
        out + "\n" + &paragraph(&sentence(&table.legend))
    };
    tables.map(one).collect()
}

/// What makes the difference in CPU time.
pub(crate) fn reasons(part: &Part) -> String {
    let table = |why: &record::Why| {
        let heads: Vec<String> = why::heads(part, why).iter().map(|head| escape(head)).collect();
        let mut out = format!("**{}**\n\n", escape(&sentence(&why::sentence(part, why))));
        out += &format!("| {} | {} |\n", why::FUNCTION, heads.join(" | "));
        out += &format!("| :-- |{}\n", " --: |".repeat(heads.len()));
        for row in why::rows(why) {
            let module = match row.module.is_empty() {
                true => String::new(),
                false => format!(" ({})", escape(&row.module)),
            };
            // Sums and parts of the kernel are words.
            let is_word = row.module.is_empty();
            let name = if is_word { escape(&row.name) } else { format!("`{}`", row.name) };
            out += &format!("| {name}{module} | {} |\n", row.cells.join(" | "));
        }
        let notes = [why::method(why), why::agreement(why)];
        let notes =
            notes.iter().chain(&why::hints(why)).map(|note| sentence(note)).collect::<Vec<_>>();
        out += &format!("\n{} {}\n\n", why::legend(why), notes.join(" "));
        let calls = why::call_rows(why).into_iter().filter(|call| call.differs);
        let calls = calls.map(|call| format!("system call `{}`: {}", call.name, call.figures()));
        let waits = why::waits_in_words(part, why);
        out + &list(calls.chain(waits.iter().map(|words| escape(&sentence(words)))))
    };
    part.why.iter().map(table).collect()
}

/// A run of `load`: one trial without comparisons.
fn load(run: &Run, part: &Part, report: &LoadReport<'_>) -> String {
    let mut out = findings(&caveat::lines(part));
    out += &format!("| | {} |\n", TIMES.join(" | "));
    out += &format!("| :-- |{}\n", " --: |".repeat(TIMES.len()));
    for (name, values) in report.times_rows() {
        out += &format!("| {name} | {} |\n", values.join(" | "));
    }
    let [words, of] = report.times_in_words();
    out += &format!("\n{}; {of}.\n\n", capitalised(&words));
    out += &means(part);
    out += &reasons(part);
    let mut items = vec![report.speed().join(", "), report.account().line()];
    let failures = ledger::failures(&report.ledger().errors);
    items.extend((!failures.is_empty()).then(|| format!("failed: {failures}")));
    items.extend(report.statuses_in_words().map(|words| format!("statuses: {words}")));
    items.push(format!("client: {}", report.client()));
    items.extend(handshakes::in_words(part));
    let disturbed = setting::disturbance(part, &run.machine);
    items.extend(disturbed.map(|words| format!("disturbed: {words}")));
    items.extend(caveat::elsewhere(part).iter().map(FindingLine::labelled));
    out += &list(items.iter().map(|item| escape(item)));
    out + &paragraph(&sentence(&report.setting()))
}

fn invalid(reason: &str) -> String {
    format!("**INVALID**: {}", paragraph(reason))
}

pub(crate) fn ledger(account: &Account<'_>) -> String {
    format!("{}: {}", escape(account.name), account.line())
}

/// Other activity on the machine.
pub(crate) fn disturbance(run: &Run, part: &Part) -> String {
    let words = setting::disturbance(part, &run.machine);
    let tls = list(handshakes::in_words(part).iter().map(|words| escape(words)));
    tls + &optional(words.map(|words| sentence(&words)))
}

/// `warning: unix is client-limited: …`.
pub(crate) fn findings(lines: &[FindingLine]) -> String {
    list(lines.iter().map(|line| escape(&line.labelled())))
}

/// A paragraph, if there is anything to say.
pub(crate) fn optional(words: Option<String>) -> String {
    words.map_or_else(String::new, |words| paragraph(&words))
}

fn paragraph(words: &str) -> String {
    format!("{}\n\n", escape(words))
}

/// Something that is shown when its summary is clicked. GitHub recognises Markdown inside only after
/// an empty line.
pub(crate) fn details(summary: &str, inside: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{inside}</details>\n\n")
}

pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    let list: String = items.map(|item| format!("- {item}\n")).collect();
    if list.is_empty() { list } else { list + "\n" }
}

fn table(part: &Part) -> String {
    let unit = view::throughput_unit(part);
    let published = part.published.iter().any(|p| p.variant.is_some());
    let (head, line) = if published { (" published |", " :-- |") } else { ("", "") };
    let mut out =
        format!("| variant | {unit} | 95% interval | p50 | p99 | CPU/request | failed |{head}\n");
    out += &format!("| :-- | --: | --: | --: | --: | --: | --: |{line}\n");
    for (index, variant) in part.variants.iter().enumerate() {
        let last = match published {
            true => format!(" {} |", escape(&published_cell(part, variant))),
            false => String::new(),
        };
        out += &format!("| {} |{last}\n", row(part, index).join(" | "));
    }
    let measured = (0..part.variants.len()).any(|index| figures::of(part, index).is_some());
    let few = match view::is_provisional(part) && measured {
        true => format!(" Provisional: {}.", verdict::blocks_so_far(part)),
        false => String::new(),
    };
    out += &format!("\np50 and p99: {}.{few}\n\n", view::times_in_words(part));
    for words in [caveat::footnote(part), view::bytes_in_words(part)].into_iter().flatten() {
        out += &paragraph(&format!("{words}."));
    }
    out + &other_published(part)
}

/// What actions during the load cost.
fn losses(part: &Part) -> String {
    let losses = disruption::losses(part);
    if losses.is_empty() {
        return String::new();
    }
    let mut out = format!("| variant | {} |\n", disruption::HEADS.join(" | "));
    out += &format!("| :-- |{}\n", " --: |".repeat(disruption::HEADS.len()));
    for of in &losses {
        let name = escape(&part.variants[of.variant].name);
        out += &format!("| {name} | {} |\n", of.cells().join(" | "));
    }
    out += &format!("\n{}\n\n", sentence(disruption::LEGEND));
    out + &list(losses.iter().map(|of| {
        let name = &part.variants[of.variant].name;
        escape(&format!("{name}: {}", of.actions_in_words()))
    }))
}

fn row(part: &Part, index: usize) -> [String; 7] {
    let variant = &part.variants[index];
    let name = escape(&variant.name);
    let failed = base::format_count(variant.ledger.counts.failed);
    let empty = |words: String, failed| {
        let dash = || "–".to_owned();
        [name.clone(), words, dash(), dash(), dash(), dash(), failed]
    };
    if let Some(reason) = &variant.skipped {
        return empty(format!("skipped: {}", escape(reason)), String::new());
    }
    let void = |metric: Metric, value: String| match validity::is_void(part, index, metric) {
        true => format!("~~{value}~~ INVALID"),
        false => value,
    };
    let Some(figures) = figures::of(part, index) else {
        let refused = validity::is_void(part, index, Metric::Throughput);
        let words = if refused { "INVALID" } else { "no valid data" };
        return empty(words.to_owned(), failed);
    };
    let throughput = match (caveat::of_variant(part, index), figures.throughput(part)) {
        (none, value) if none.is_empty() => value,
        // An INVALID figure is marked as such.
        (_, value) if validity::is_void(part, index, Metric::Throughput) => value,
        (_, value) => format!("{} {value}", caveat::MARK),
    };
    [
        name,
        void(Metric::Throughput, throughput),
        figures::throughput_interval(part, &figures),
        void(Metric::P50, figures.percentile(&figures.times.p50_ns)),
        void(Metric::P99, figures.percentile(&figures.times.p99_ns)),
        figures.cpu_ns.map_or("–".to_owned(), |_| void(Metric::Cpu, figures.cpu())),
        failed,
    ]
}

/// The published figures of a variant, with their source if a part has several.
fn published_cell(part: &Part, variant: &Variant) -> String {
    let several = part.published.windows(2).any(|pair| pair[0].source != pair[1].source);
    let figures = part.published.iter().filter(|p| p.variant.as_deref() == Some(&*variant.name));
    let words = figures.map(|p| match several {
        true => format!("{} ({})", p.figure, p.source),
        false => p.figure.clone(),
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Published figures of no particular variant, and the sources of all.
fn other_published(part: &Part) -> String {
    let fits = |name: &str| part.variants.iter().any(|variant| variant.name == name);
    let others = part.published.iter().filter(|p| !p.variant.as_deref().is_some_and(fits));
    let mut out = list(others.map(|p| {
        let name = p.variant.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        escape(&format!("published: {name}{}", p.figure))
    }));
    let sources: BTreeSet<&str> = part.published.iter().map(|p| p.source.as_str()).collect();
    if !sources.is_empty() {
        let sources = Vec::from_iter(sources).join("; ");
        let words = format!("Published: {sources}. Machines differ, so compare only ratios.");
        out += &paragraph(&words);
    }
    out
}

fn verdicts(part: &Part) -> String {
    let verdicts = verdict::verdicts(part);
    let mut out = verdicts.lead.map_or_else(String::new, |lead| format!("{lead}\n\n"));
    out += &list(verdicts.rows.iter().map(|row| {
        let comparison = row.comparison;
        let beside = view::published_ratio(part, comparison);
        let beside = beside.filter(|_| !validity::is_refused(comparison)).map(|(ratio, _)| {
            format!(" Published {ratio:.2}×, here {}.", verdict::ratio_in_words(comparison))
        });
        let caveats = row.caveats.iter().map(|line| format!("\n  - {}", escape(&line.labelled())));
        escape(&row.sentence) + &beside.unwrap_or_default() + &caveats.collect::<String>()
    }));
    out += &findings(&verdicts.caveats);
    out += &optional(verdicts.uncompared.map(|words| format!("{words}.")));
    out + &optional(verdicts.circumstances.map(|words| sentence(&words)))
}

/// The secondary ratios, collapsed.
fn others(part: &Part) -> String {
    let (_, others) = view::split_comparisons(part);
    if others.is_empty() {
        return String::new();
    }
    let mut metrics: Vec<&str> =
        others.iter().map(|c| setting::metric(c.metric, part.is_bulk())).collect();
    metrics.dedup();
    let adjusted = others.iter().find(|c| c.judgement.adjusted_for > 1);
    let adjustment = match adjusted {
        Some(comparison) => verdict::words::adjustment(&comparison.judgement),
        None => "unadjusted: one in twenty such intervals misses by chance".to_owned(),
    };
    let mut table = "| compared | metric | ratio | interval | verdict |\n".to_owned();
    table += "| :-- | :-- | --: | --: | :-- |\n";
    for comparison in others {
        let (value, interval) = ratio_cells(comparison);
        table += &format!(
            "| {} | {} | {value} | {interval} | {} |\n",
            escape(&view::sides(part, comparison)),
            setting::metric(comparison.metric, part.is_bulk()),
            caveat::marked(part, comparison, verdict::in_short(comparison).to_owned()),
        );
    }
    details(&format!("{} ({adjustment})", metrics.join(", ")), &format!("{table}\n"))
}

/// Paragraphs with their line breaks.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

/// Escapes Markdown and HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '$' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// A code block in a language, whose fence is longer than any run of backticks inside it.
pub(crate) fn fenced(language: &str, code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{code}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_do_not_become_markup() {
        assert_eq!(escape("a|b *c* <i> `d`"), "a\\|b \\*c\\* &lt;i&gt; \\`d\\`");
        assert_eq!(fenced("sh", "echo ```"), "````sh\necho ```\n````\n");
    }
}
