//! One screen of plain text for a run.

use std::ops::Range;

use record::{Part, Run, RunKind, Severity};
use stats::Verdict;

use crate::finding_lines::FindingLine;
use crate::load::LoadReport;
use crate::text::{Style, capitalised, fit, left, one_line, right, shell, width, wrap};
use crate::{
    caveat, changes, disruption, fact, figures, ledger, machine, place, setting, validity, verdict,
    view,
};

/// The report for a terminal or a pipe, ending in a newline.
///
/// A run of `load` gets [`LoadReport::terminal`].
pub fn terminal(run: &Run, style: &Style) -> String {
    if run.kind == RunKind::Load
        && let Some(report) = LoadReport::from_run(run)
    {
        return report.terminal(style);
    }
    let mut page = Page { style, out: String::new() };
    page.head(run);
    for (index, part) in run.parts.iter().enumerate() {
        page.part(run, index, part);
    }
    page.changed(run);
    page.foot(run);
    page.out
}

/// Minimum width of the variants' names beside their figures.
const NAME_MIN: usize = 7;

/// A variant's figures in a table.
struct Row<const N: usize> {
    variant: usize,
    is_bad: bool,
    cells: [String; N],
}

struct Page<'a> {
    style: &'a Style,
    out: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    /// A paragraph, wrapped before it is coloured so that escape codes do not count.
    fn paragraph(&mut self, text: &str, hang: usize, paint: impl Fn(&str) -> String) {
        for line in wrap(text, self.style.columns(), hang) {
            self.line(&paint(&line));
        }
    }

    /// A label in the margin with text beside it.
    fn labelled(&mut self, label: &str, text: &str, paint: impl Fn(&str) -> String) {
        self.beside(11, label, text, paint);
    }

    fn beside(&mut self, margin: usize, label: &str, text: &str, paint: impl Fn(&str) -> String) {
        let lines = wrap(text, self.style.columns() - margin, 0);
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let line = format!("{}{}", self.style.dim(&left(label, margin)), paint(line));
            self.line(&line);
        }
    }

    fn head(&mut self, run: &Run) {
        let style = self.style;
        self.paragraph(&run.title, 0, |line| style.bold(line));
        if run.question != run.title && !run.question.is_empty() {
            self.paragraph(&run.question, 0, str::to_owned);
        }
        for (word, rest) in view::forewords(run) {
            self.paragraph(&format!("{word}: {rest}"), 0, |line| style.warn(line));
        }
        if let Some(error) = &run.error {
            self.paragraph(&format!("INVALID: {error}"), 2, |line| style.bad(line));
        }
        if run.parts.len() > 1 {
            self.blank();
            for answer in verdict::answer(run) {
                self.paragraph(&format!("{}: {}", answer.part, answer.words), 2, str::to_owned);
            }
        }
    }

    fn part(&mut self, run: &Run, index: usize, part: &Part) {
        let style = self.style;
        self.blank();
        if run.parts.len() > 1 {
            let title = format!("{}. {}", index + 1, view::heading(part));
            self.paragraph(&title, 3, |line| style.bold(line));
        }
        self.paragraph(&setting::line(part), 0, |line| style.dim(line));
        for reason in validity::of_part(part) {
            self.paragraph(&format!("INVALID: {reason}"), 2, |line| style.bad(line));
        }
        self.losses(part);
        self.blank();
        self.table(part);
        self.blank();
        self.verdicts(part);
        self.ledger(part);
        self.findings(run, part);
        self.published(part);
    }

    /// What actions during the load cost.
    fn losses(&mut self, part: &Part) {
        let losses = disruption::losses(part);
        if losses.is_empty() {
            return;
        }
        self.blank();
        let row = |of: &disruption::Losses<'_>| Row {
            variant: of.variant,
            is_bad: of.lost > 0,
            cells: of.cells(),
        };
        let rows: Vec<_> = losses.iter().map(row).collect();
        self.columns(part, &disruption::HEADS, &rows);
        self.paragraph(disruption::LEGEND, 2, |line| self.style.dim(line));
        for of in &losses {
            let name = fit(&part.variants[of.variant].name, self.style.columns() / 2);
            let words = format!("{name}: {}", of.actions_in_words());
            self.paragraph(&words, 2, |line| self.style.dim(line));
        }
    }

    fn table(&mut self, part: &Part) {
        let measured = (0..part.variants.len()).filter(|v| part.variants[*v].skipped.is_none());
        let row = |variant: usize| Row {
            variant,
            is_bad: part.variants[variant].ledger.counts.failed > 0,
            cells: row(part, variant),
        };
        let rows: Vec<Row<6>> = measured.map(row).collect();
        let heads =
            [view::throughput_unit(part), "95% interval", "p50", "p99", "CPU/req", "failed"];
        self.columns(part, &heads, &rows);
        for variant in &part.variants {
            if let Some(reason) = &variant.skipped {
                let name = fit(&variant.name, self.style.columns() / 2);
                self.paragraph(&format!("{name} was skipped: {reason}"), 2, str::to_owned);
            }
        }
        if !rows.is_empty() {
            let words = format!("p50 and p99: {}", view::times_in_words(part));
            self.paragraph(&words, 2, |line| self.style.dim(line));
            if let Some(words) = caveat::footnote(part) {
                self.paragraph(&words, 2, |line| self.style.warn(line));
            }
            if let Some(words) = view::bytes_in_words(part) {
                self.paragraph(&words, 2, |line| self.style.dim(line));
            }
        }
        if let Some(words) = validity::void_in_words(part) {
            self.paragraph(&words, 2, |line| self.style.bad(line));
        }
    }

    /// The rows, in several blocks if the terminal is narrow; the bad ones are red.
    fn columns<const N: usize>(&mut self, part: &Part, heads: &[&str; N], rows: &[Row<N>]) {
        let mut columns = heads.map(width);
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(&row.cells) {
                *column = (*column).max(width(cell));
            }
        }
        for range in self.beside_each_other(&columns) {
            self.rows(part, heads, rows, &columns, range);
        }
    }

    /// Which columns fit side by side: all of them, unless the terminal is narrow.
    fn beside_each_other(&self, columns: &[usize]) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut used = usize::MAX;
        for (index, column) in columns.iter().enumerate() {
            used = used.saturating_add(column + 2);
            match ranges.last_mut() {
                Some(range) if used <= self.style.columns() => range.end = index + 1,
                _ => {
                    ranges.push(index..index + 1);
                    used = NAME_MIN + column + 2;
                }
            }
        }
        ranges
    }

    /// Some columns of all rows.
    fn rows<const N: usize>(
        &mut self,
        part: &Part,
        heads: &[&str; N],
        rows: &[Row<N>],
        columns: &[usize; N],
        range: Range<usize>,
    ) {
        let figures: usize = columns[range.clone()].iter().map(|column| column + 2).sum();
        let room = self.style.columns().saturating_sub(figures);
        let longest = part.variants.iter().map(|v| width(&one_line(&v.name))).max().unwrap_or(0);
        // A name that does not fit beside its figures gets its own line above them.
        let beside = longest.max(NAME_MIN) <= room;
        let margin = if beside { longest.max(NAME_MIN) } else { room.min(NAME_MIN) };
        let cells = |row: &[String]| -> String {
            row[range.clone()]
                .iter()
                .zip(&columns[range.clone()])
                .map(|(cell, column)| format!("  {}", right(cell, *column)))
                .collect()
        };
        let head = format!("{}{}", left("variant", margin), cells(&heads.map(str::to_owned)));
        self.line(&self.style.dim(&head));
        for row in rows {
            let variant = &part.variants[row.variant];
            let mut figures = cells(&row.cells);
            if row.is_bad {
                figures = self.style.bad(&figures);
            }
            if beside {
                let name = left(&one_line(&variant.name), margin);
                self.line(&format!("{}{figures}", self.style.bold(&name)));
            } else {
                let name = fit(&variant.name, self.style.columns());
                self.line(&self.style.bold(&name));
                self.line(&format!("{}{figures}", " ".repeat(margin)));
            }
        }
    }

    fn verdicts(&mut self, part: &Part) {
        let style = self.style;
        let (_, others) = view::split_comparisons(part);
        let verdicts = verdict::verdicts(part);
        let said = verdicts.lead.is_some() || !verdicts.rows.is_empty();
        if let Some(lead) = verdicts.lead {
            self.paragraph(&lead, 2, |line| style.warn(line));
        }
        for row in &verdicts.rows {
            let comparison = row.comparison;
            let paint = |line: &str| match comparison.judgement.verdict {
                Verdict::Invalid => style.bad(line),
                _ if row.weakened => style.warn(line),
                Verdict::Faster | Verdict::Slower | Verdict::Equivalent => style.good(line),
                Verdict::NoDifference => style.bold(line),
                Verdict::Inconclusive => style.warn(line),
            };
            self.paragraph(&row.marked(), 2, paint);
            self.caveats(&row.caveats);
            let same_pair: Vec<_> = others
                .iter()
                .filter(|c| (c.baseline, c.variant) == (comparison.baseline, comparison.variant))
                // If the primary verdict is INVALID, further INVALID ones are not listed.
                .filter(|c| !(validity::is_refused(comparison) && validity::is_refused(c)))
                .collect();
            if let Some(first) = same_pair.first() {
                let beside = same_pair.iter().map(|c| {
                    let metric = setting::metric(c.metric, part.is_bulk());
                    format!("{metric} {}", verdict::ratio_in_words(c))
                });
                let beside = beside.collect::<Vec<_>>().join("; ");
                let adjustment = verdict::words::adjustment(&first.judgement);
                let words = format!("{adjustment}: {beside}");
                self.paragraph(&words, 2, |line| style.dim(line));
            }
        }
        if !said && part.variants.len() > 1 && !view::has_actions(part) {
            let words = format!("{}.", capitalised(&verdict::no_verdict(part)));
            self.paragraph(&words, 2, str::to_owned);
        }
        self.caveats(&verdicts.caveats);
        if let Some(words) = verdicts.uncompared {
            self.paragraph(&format!("note: {words}"), 2, |line| style.warn(line));
        }
        if let Some(words) = verdicts.circumstances {
            let words = format!("{}.", capitalised(&words));
            self.paragraph(&words, 2, |line| style.dim(line));
        }
        if let Some(words) = disruption::answer(part) {
            self.paragraph(&format!("{words}."), 2, |line| style.bold(line));
        }
    }

    /// What weakens the verdicts above.
    fn caveats(&mut self, lines: &[FindingLine]) {
        for line in lines {
            let words = format!("{}: {}", fact::severity(line.severity), line.line());
            self.paragraph(&words, 2, |line| self.style.warn(line));
        }
    }

    fn ledger(&mut self, part: &Part) {
        let style = self.style;
        let measured: Vec<_> =
            part.variants.iter().enumerate().filter(|(_, v)| v.ledger.counts.offered > 0).collect();
        if measured.is_empty() {
            return;
        }
        self.blank();
        let names: Vec<String> = measured.iter().map(|(_, v)| fit(&v.name, 17)).collect();
        let margin = names.iter().map(|name| width(name)).max().unwrap_or(0).max(9) + 2;
        for ((number, variant), name) in measured.iter().zip(&names) {
            let disrupted = disruption::is_disrupted(part, *number);
            let broken = ledger::is_broken(&variant.ledger, disrupted);
            let columns = style.columns() - margin;
            for (index, line) in
                ledger::wrapped(&variant.ledger, disrupted, columns).iter().enumerate()
            {
                let label = style.dim(&left(if index == 0 { name } else { "" }, margin));
                let line = if broken { style.bad(line) } else { line.clone() };
                self.line(&format!("{label}{line}"));
            }
        }
    }

    fn findings(&mut self, run: &Run, part: &Part) {
        let style = self.style;
        let disturbance = setting::disturbance(part, &run.machine);
        // What makes the part INVALID or weakens its verdicts is already above.
        let findings = caveat::elsewhere(part);
        if !findings.is_empty() || disturbance.is_some() || !part.published.is_empty() {
            self.blank();
        }
        if let Some(words) = disturbance {
            self.labelled("disturbed", &words, str::to_owned);
        }
        for finding in findings {
            let paint = |line: &str| match finding.severity {
                Severity::Invalid => style.bad(line),
                Severity::Warning => style.warn(line),
                Severity::Note => line.to_owned(),
            };
            self.labelled(fact::severity(finding.severity), &finding.line(), paint);
        }
    }

    fn published(&mut self, part: &Part) {
        let mut source = "";
        for published in &part.published {
            let name = published.variant.as_deref().unwrap_or("");
            let mut text = format!("{name}: {}", published.figure);
            if name.is_empty() {
                text = published.figure.clone();
            }
            let label = if source == published.source { "" } else { "published" };
            if source != published.source {
                text += &format!(" ({})", published.source);
            }
            source = &published.source;
            self.labelled(label, &text, str::to_owned);
        }
        for comparison in view::split_comparisons(part).0 {
            if let Some((published, _)) = view::published_ratio(part, comparison) {
                let names = view::sides(part, comparison);
                let mut text = format!("{names}: {published:.2}×");
                if !validity::is_refused(comparison) {
                    text += &format!("; here {}", verdict::ratio_in_words(comparison));
                }
                self.labelled("", &text, str::to_owned);
            }
        }
    }

    /// What each change from one part to another does.
    fn changed(&mut self, run: &Run) {
        let style = self.style;
        let effects = changes::effects(run);
        if effects.is_empty() {
            return;
        }
        self.blank();
        self.paragraph(changes::TITLE, 0, |line| style.bold(line));
        let mut above = String::new();
        for effect in &effects {
            let what = effect.what();
            if what != above {
                self.paragraph(&what, 2, str::to_owned);
                above = what;
            }
            let [before, after, change] = effect.ratios();
            let words = format!("{}: {before} → {after}, effect {change}", effect.compared());
            let paint = |line: &str| match effect.is_detected() {
                true => style.good(line),
                false => line.to_owned(),
            };
            self.beside(2, "", &words, paint);
        }
        let legend = format!("{}.", changes::LEGEND);
        self.paragraph(&legend, 2, |line| style.dim(line));
    }

    fn foot(&mut self, run: &Run) {
        self.blank();
        self.beside(13, "machine", &machine::line(run), str::to_owned);
        for line in place::lines(run) {
            self.beside(13, "", &line, str::to_owned);
        }
        if let Some(waking) = setting::waking(run) {
            self.beside(13, "", &waking.brief, str::to_owned);
        }
        // Commands are never wrapped, so that they can be copied.
        let repeat = one_line(&shell(&run.command_line));
        let margin = |label: &str| self.style.dim(&left(label, 13));
        let lines = [
            format!("{}{repeat}", margin("repeat")),
            format!("{}tachograph report {} --html > report.html", margin("HTML report"), run.id),
        ];
        for line in lines {
            self.line(&line);
        }
    }
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
