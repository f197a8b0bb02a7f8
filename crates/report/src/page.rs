//! Text for a terminal or a pipe in the making.

use std::ops::Range;

use crate::finding_lines::FindingLine;
use crate::ledger::Account;
use crate::text::{Style, Tone, fit, left, one_line, right, width, wrap};

/// Width of the margin for the labels of what was found.
pub(crate) const LABEL: usize = 11;

/// Lines of text that fit in the columns of a style.
pub(crate) struct Page<'a> {
    pub(crate) style: &'a Style,
    out: String,
}

/// Minimum width of the names beside their figures.
const NAME_MIN: usize = 7;

/// A row of a table: a name and its figures.
pub(crate) struct TableRow {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
    /// Whether it is shown as bad.
    pub(crate) is_bad: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(style: &'a Style) -> Page<'a> {
        Page { style, out: String::new() }
    }

    /// The whole text, ending in a newline.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.out.push_str(line.as_ref().trim_end());
        self.out.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.line("");
    }

    /// A paragraph, wrapped before it is coloured so that escape codes do not count; its lines after
    /// the first are indented by `hang`.
    pub(crate) fn paragraph(&mut self, tone: Tone, hang: usize, text: impl AsRef<str>) {
        for line in wrap(text.as_ref(), self.style.columns(), hang) {
            self.line(self.style.paint(tone, &line));
        }
    }

    /// A paragraph with a hanging indent, if there is anything to print.
    pub(crate) fn optional(&mut self, tone: Tone, text: Option<String>) {
        if let Some(text) = text {
            self.paragraph(tone, 2, text);
        }
    }

    /// A label in a margin, with text beside it.
    pub(crate) fn beside(&mut self, margin: usize, label: &str, tone: Tone, text: &str) {
        self.lines_beside(margin, label, tone, &wrap(text, self.style.columns() - margin, 0));
    }

    fn lines_beside(&mut self, margin: usize, label: &str, tone: Tone, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            self.line_beside(margin, label, &self.style.paint(tone, line));
        }
    }

    /// A line that is not wrapped, beside its label.
    pub(crate) fn line_beside(&mut self, margin: usize, label: &str, line: &str) {
        self.line(self.style.paint(Tone::Dim, &left(label, margin)) + line);
    }

    /// A ledger with its label in a margin.
    pub(crate) fn account(&mut self, margin: usize, label: &str, account: &Account<'_>) {
        let tone = if account.is_broken() { Tone::Bad } else { Tone::Plain };
        let lines = account.wrapped(self.style.columns() - margin);
        self.lines_beside(margin, label, tone, &lines);
    }

    /// What weakens the verdicts or the figures above.
    pub(crate) fn caveats(&mut self, lines: &[FindingLine]) {
        for line in lines {
            self.paragraph(Tone::Warn, 2, line.labelled());
        }
    }

    /// A table, in several blocks if the terminal is narrow; its bad rows are red.
    pub(crate) fn table(&mut self, first: &str, heads: &[&str], rows: &[TableRow]) {
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(at, head)| {
                let cells = rows.iter().map(|row| width(&row.cells[at]));
                cells.chain([width(head)]).max().unwrap_or(0)
            })
            .collect();
        for range in beside_each_other(self.style.columns(), &widths) {
            self.some_columns(first, heads, rows, &widths, range);
        }
    }

    fn some_columns(
        &mut self,
        first: &str,
        heads: &[&str],
        rows: &[TableRow],
        widths: &[usize],
        range: Range<usize>,
    ) {
        let style = self.style;
        let figures: usize = widths[range.clone()].iter().map(|column| column + 2).sum();
        let room = style.columns().saturating_sub(figures);
        let longest = rows.iter().map(|row| width(&one_line(&row.name))).max().unwrap_or(0);
        // A name that does not fit beside its figures gets its own line above them.
        let beside = longest.max(NAME_MIN) <= room;
        let margin = if beside { longest.max(NAME_MIN) } else { room.min(NAME_MIN) };
        let cells = |cell: &dyn Fn(usize) -> String| -> String {
            range.clone().map(|at| format!("  {}", right(&cell(at), widths[at]))).collect()
        };
        let head = left(first, margin) + &cells(&|at| heads[at].to_owned());
        self.line(style.paint(Tone::Dim, &head));
        for row in rows {
            let tone = if row.is_bad { Tone::Bad } else { Tone::Plain };
            let figures = style.paint(tone, &cells(&|at| row.cells[at].clone()));
            if beside {
                let name = left(&one_line(&row.name), margin);
                self.line(style.paint(Tone::Bold, &name) + &figures);
            } else {
                self.line(style.paint(Tone::Bold, &fit(&row.name, style.columns())));
                self.line(" ".repeat(margin) + &figures);
            }
        }
    }
}

/// Which columns fit side by side: all of them, unless the terminal is narrow.
fn beside_each_other(columns: usize, widths: &[usize]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (index, column) in widths.iter().enumerate() {
        used = used.saturating_add(column + 2);
        match ranges.last_mut() {
            Some(range) if used <= columns => range.end = index + 1,
            _ => {
                ranges.push(index..index + 1);
                used = NAME_MIN + column + 2;
            }
        }
    }
    ranges
}
