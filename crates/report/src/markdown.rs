//! A run as GitHub-flavoured Markdown, to paste into an issue or a README.

use record::{Comparison, Part, Run, Severity, Variant};
use stats::Verdict;

use crate::answer::{self, answer, ratio_cells};
use crate::html::{Picture, pictures};
use crate::text::{one_line, shell, time};
use crate::view;

/// The report as Markdown.
pub fn markdown(run: &Run) -> String {
    page(run, None)
}

/// The report as Markdown that shows the pictures of [`pictures`](crate::pictures()), which lie in `folder` as SVG files.
///
/// Those of all parts stand below the answer; where there is none of all ratios, each part has its own.
pub fn markdown_with_pictures(run: &Run, folder: &str) -> String {
    page(run, Some(folder))
}

fn page(run: &Run, folder: Option<&str>) -> String {
    let mut out = format!("## {}\n\n", escape(&run.title));
    if run.question != run.title {
        out += &format!("{}\n\n", escape(&run.question));
    }
    if let Some(words) = view::state_in_words(run) {
        out += &format!("> {words}\n\n");
    }
    for reason in &run.reasons {
        out += &format!("**INVALID**: {}\n\n", escape(reason));
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
    for part in &run.parts {
        if run.parts.len() > 1 {
            out += &format!("### {}\n\n", escape(&view::heading(part)));
        }
        out += &part_section(part, &embed(Some(&part.name)));
    }
    out += &format!("Machine: {}.\n\n", escape(&view::machine_line(run)));
    out += &format!("Run `{}`, tachograph {}. Repeat it with:\n\n", run.id, escape(&run.version));
    out += &fenced(&one_line(&shell(&run.command_line)));
    out
}

/// The pictures of all parts; where none of them has the ratios, each part's own.
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
    // Brackets and blanks would end the address.
    let file = format!("{folder}{slash}{}.svg", picture.name).replace(' ', "%20");
    let file = file.replace('(', "%28").replace(')', "%29");
    let caption = escape(&picture.caption);
    format!("![{}]({file})\n\n*{caption}*\n\n", escape(picture.svg.title()))
}

fn answers(run: &Run) -> String {
    let lines = answer(run);
    let line = |answer: &answer::Answer<'_>| match answer.part {
        "" => format!("- {}.\n", escape(&answer.words)),
        part => format!("- **{}**: {}.\n", escape(part), escape(&answer.words)),
    };
    match lines.as_slice() {
        [] => String::new(),
        [one] if one.part.is_empty() => {
            format!("**{}.**\n\n", escape(&one.words))
        }
        lines => lines.iter().map(line).collect::<String>() + "\n",
    }
}

fn part_section(part: &Part, pictures: &str) -> String {
    let mut out = String::new();
    for reason in answer::reasons(part) {
        out += &format!("**INVALID**: {}\n\n", escape(&reason));
    }
    out += pictures;
    out += &table(part);
    out += &verdicts(part);
    out += &others(part);
    out += &list(
        part.variants
            .iter()
            .filter(|v| !v.summaries.is_empty())
            .map(|variant| format!("{}: {}", escape(&variant.name), variant.ledger.line())),
    );
    // What is INVALID stands above.
    let findings = view::findings(part).into_iter();
    out += &list(findings.filter(|(severity, _)| *severity != Severity::Invalid).map(
        |(severity, sentence)| {
            format!("{}: {}", view::severity_in_words(severity), escape(&sentence))
        },
    ));
    let mut setting = vec![part.load.clone(), part.layout.clone(), view::blocks_in_words(part)];
    if part.quick {
        setting.push("shortened for a quick look".to_owned());
    }
    setting.retain(|words| !words.is_empty());
    out + &format!("{}.\n\n", escape(&setting.join("; ")))
}

fn list(items: impl Iterator<Item = String>) -> String {
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
        out += &format!("| {} |{last}\n", row(part, index, variant).join(" | "));
    }
    let few = if !view::few_blocks(part) || part.variants.iter().all(|v| v.summaries.is_empty()) {
        ""
    } else {
        " Too few blocks for intervals."
    };
    out += &format!("\np50 and p99: {}.{few}\n\n", view::times_in_words(part));
    if let Some(words) = view::bytes_in_words(part) {
        out += &format!("{}.\n\n", escape(&words));
    }
    out + &other_published(part)
}

fn row(part: &Part, index: usize, variant: &Variant) -> [String; 7] {
    let name = escape(&variant.name);
    let failed = base::format_count(variant.ledger.counts.failed);
    let empty = |words: String, failed| {
        let dash = || "–".to_owned();
        [name.clone(), words, dash(), dash(), dash(), dash(), failed]
    };
    if let Some(reason) = &variant.skipped {
        return empty(format!("skipped: {}", escape(reason)), String::new());
    }
    let Some(figures) = view::figures(part, variant) else {
        let refused = answer::is_refused(part, index);
        let words = if refused { "refused" } else { "in no accepted block" };
        return empty(words.to_owned(), failed);
    };
    [
        name,
        match (answer::is_refused(part, index), view::throughput(part, figures.throughput.value)) {
            (true, value) => format!("~~{value}~~ refused"),
            (false, value) => value,
        },
        view::throughput_interval(part, &figures.throughput),
        time(figures.times.p50_ns.value),
        time(figures.times.p99_ns.value),
        figures.cpu_ns.map_or("–".to_owned(), |cpu| time(cpu.value)),
        failed,
    ]
}

/// What others published of a variant; their source, too, where a part has several.
fn published_cell(part: &Part, variant: &Variant) -> String {
    let several = part.published.windows(2).any(|pair| pair[0].source != pair[1].source);
    let figures = part.published.iter().filter(|p| p.variant.as_deref() == Some(&*variant.name));
    let words = figures.map(|p| match several {
        true => format!("{} ({})", p.figure, p.source),
        false => p.figure.clone(),
    });
    words.collect::<Vec<_>>().join("; ")
}

/// What was published of no variant in particular, and where all of it comes from.
fn other_published(part: &Part) -> String {
    let fits = |name: &str| part.variants.iter().any(|variant| variant.name == name);
    let others = part.published.iter().filter(|p| !p.variant.as_deref().is_some_and(fits));
    let mut out = list(others.map(|p| {
        let name = p.variant.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        escape(&format!("published: {name}{}", p.figure))
    }));
    let mut sources: Vec<&str> = part.published.iter().map(|p| p.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    if !sources.is_empty() {
        let sources = escape(&sources.join("; "));
        out += &format!(
            "Published: {sources}. Machines differ, so only ratios can be set side by side.\n\n"
        );
    }
    out
}

fn verdicts(part: &Part) -> String {
    let verdicts = answer::verdicts(part);
    let mut out = verdicts.lead.map_or_else(String::new, |lead| format!("{lead}\n\n"));
    out += &list(verdicts.rows.iter().map(|(comparison, sentence)| {
        let beside = view::published_ratio(part, comparison);
        let beside = beside.filter(|_| comparison.verdict != Verdict::Invalid).map(|(ratio, _)| {
            format!(" Published {ratio:.2}×, here {}.", answer::ratio_in_words(comparison))
        });
        escape(sentence) + &beside.unwrap_or_default()
    }));
    if let Some(words) = verdicts.circumstances {
        out += &format!("{}.\n\n", escape(&answer::capitalised(&words)));
    }
    out
}

/// The secondary ratios, folded away.
fn others(part: &Part) -> String {
    let (_, others) = view::split_comparisons(part);
    if others.is_empty() {
        return String::new();
    }
    let mut metrics: Vec<&str> =
        others.iter().map(|c| view::metric_in_words(&c.metric, part.bulk)).collect();
    metrics.dedup();
    // GitHub reads a table inside only after an empty line.
    let mut out = format!(
        "<details><summary>{} (unadjusted: one in twenty such intervals misses by chance)</summary>\n\n",
        metrics.join(", ")
    );
    out += "| compared | metric | ratio | interval | verdict |\n";
    out += "| :-- | :-- | --: | --: | :-- |\n";
    for comparison in others {
        let (value, interval) = ratio_cells(comparison);
        out += &format!(
            "| {} | {} | {value} | {interval} | {} |\n",
            escape(&sides(part, comparison)),
            view::metric_in_words(&comparison.metric, part.bulk),
            view::verdict_in_words(comparison),
        );
    }
    out + "\n</details>\n\n"
}

fn sides(part: &Part, comparison: &Comparison) -> String {
    format!("{} ÷ {}", view::name(part, comparison.variant), view::name(part, comparison.baseline))
}

/// Paragraphs that keep their lines.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

/// Text that Markdown and the HTML inside it leave alone.
fn escape(text: &str) -> String {
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

/// A code block whose fence is longer than any run of backticks inside it.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{code}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_do_not_become_markup() {
        assert_eq!(escape("a|b *c* <i> `d`"), "a\\|b \\*c\\* &lt;i&gt; \\`d\\`");
        assert_eq!(fenced("echo ```"), "````sh\necho ```\n````\n");
    }
}
