//! Text for a terminal or a pipe in the making.

use crate::finding_lines::FindingLine;
use crate::ledger::Account;
use crate::text::{Style, Tone, left, wrap};

/// Width of the margin for the labels of what was found.
pub(crate) const LABEL: usize = 11;

/// Lines of text that fit in the columns of a style.
pub(crate) struct Page<'a> {
    pub(crate) style: &'a Style,
    out: String,
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
}
