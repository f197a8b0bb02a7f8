//! A run as GitHub-flavoured Markdown, to paste into an issue or a README.

use record::{Part, Run};

use crate::text::{one_line, ratio, shell, time};
use crate::view;

/// The report as Markdown.
pub fn markdown(run: &Run) -> String {
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
    for part in &run.parts {
        if run.parts.len() > 1 {
            out += &format!("### {}: {}\n\n", escape(&part.name), escape(&part.question));
        }
        out += &part_section(part);
    }
    out += &format!("Machine: {}.\n\n", escape(&view::machine_line(run)));
    out += &format!("Run `{}`, tachograph {}. Repeat it with:\n\n", run.id, escape(&run.version));
    out += &fenced(&one_line(&shell(&run.command_line)));
    out
}

fn part_section(part: &Part) -> String {
    let mut out = String::new();
    for reason in &part.reasons {
        out += &format!("**INVALID**: {}\n\n", escape(reason));
    }
    out += &table(part);
    for comparison in view::split_comparisons(part).0 {
        out += &format!("{}\n\n", escape(&view::plain(&comparison.sentence)));
    }
    out += &ratios(part);
    for variant in part.variants.iter().filter(|v| !v.summaries.is_empty()) {
        out += &format!("- {}: {}\n", escape(&variant.name), variant.ledger.line());
    }
    out.push('\n');
    for (finding, _) in view::findings(part) {
        let word = view::severity_in_words(finding.severity);
        out += &format!("- {word}: {}\n", escape(&view::plain(&finding.sentence)));
    }
    if !part.findings.is_empty() {
        out.push('\n');
    }
    for published in &part.published {
        let name = published.variant.as_deref().unwrap_or("published");
        let (name, figure) = (escape(name), escape(&published.figure));
        out += &format!("- published, {name}: {figure} ({})\n", escape(&published.source));
    }
    if !part.published.is_empty() {
        out.push('\n');
    }
    let setting = [part.load.clone(), part.layout.clone(), view::blocks_in_words(part)];
    out + &format!("{}.\n\n", escape(&setting.join("; ")))
}

fn table(part: &Part) -> String {
    let unit = view::throughput_unit(part);
    let mut out =
        format!("| variant | {unit} | 95% interval | p50 | p99 | CPU/request | failed |\n");
    out += "| :-- | --: | --: | --: | --: | --: | --: |\n";
    for variant in &part.variants {
        let name = escape(&variant.name);
        if let Some(reason) = &variant.skipped {
            out += &format!("| {name} | skipped: {} | | | | | |\n", escape(reason));
            continue;
        }
        let failed = variant.ledger.counts.failed;
        let Some(figures) = view::figures(part, variant) else {
            out += &format!("| {name} | – | – | – | – | – | {failed} |\n");
            continue;
        };
        out += &format!(
            "| {name} | {} | {} | {} | {} | {} | {failed} |\n",
            view::throughput(part, figures.throughput.value),
            view::throughput_interval(part, &figures.throughput),
            time(figures.times.p50_ns.value),
            time(figures.times.p99_ns.value),
            figures.cpu_ns.map_or("–".to_owned(), |cpu| time(cpu.value)),
        );
    }
    let bytes =
        view::bytes_in_words(part).map_or_else(String::new, |words| format!("{words}.\n\n"));
    out + &format!("\np50 and p99: {}.\n\n{bytes}", view::times_in_words(part))
}

fn ratios(part: &Part) -> String {
    if part.comparisons.is_empty() {
        return String::new();
    }
    let mut out = "| compared | metric | ratio | interval | verdict |\n".to_owned();
    out += "| :-- | :-- | --: | --: | :-- |\n";
    for comparison in &part.comparisons {
        let (value, interval) = ratio(&comparison.ratio);
        let unadjusted = if comparison.primary { "" } else { " (unadjusted)" };
        out += &format!(
            "| {} ÷ {} | {} | {value} | {interval} | {}{unadjusted} |\n",
            escape(view::name(part, comparison.variant)),
            escape(view::name(part, comparison.baseline)),
            view::metric_in_words(&comparison.metric, part.bulk),
            view::verdict_in_words(comparison),
        );
    }
    out + "\n"
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
