//! The result of an import in words.

use std::path::Path;

use import::Summary;

use super::watch::Watcher;
use report::indented;

/// A finished import.
pub(super) struct ImportResult<'a> {
    pub(super) file: &'a Path,
    pub(super) summary: &'a Summary,
    pub(super) watcher: &'a Watcher,
    pub(super) width: usize,
}

/// A file name for people.
pub(super) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// A time for people.
pub(super) fn time(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| format!("{us} µs"), |t| t.to_string())
}

impl ImportResult<'_> {
    pub(super) fn text(&self) -> String {
        let summary = self.summary;
        let mut text = format!("{}\n", name(self.file));
        text += &self.line(&format!(
            "lines {}, updates {}, series {}",
            summary.lines, summary.updates, summary.series
        ));
        if let Some((from_us, to_us)) = summary.span_us {
            text += &self.line(&format!("from {} to {}", time(from_us), time(to_us)));
        }
        let counts = [
            ("lines already imported", summary.known),
            ("comments and empty lines", summary.comments),
            ("text values omitted", summary.texts),
            ("slots older than every retention, omitted", summary.unstored.expired),
            ("points refused because another process wrote later ones", summary.unstored.overtaken),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            text += &self.line(&format!("{what}: {count}"));
        }
        if let Some(number) = summary.torn {
            text += &self.line(&format!(
                "line {number} has no line end and was left for the next import; if the file is \
                 complete, add --complete"
            ));
        }
        if summary.refused.total() > 0 {
            text += &self.refused();
        }
        text
    }

    fn refused(&self) -> String {
        let summary = self.summary;
        let mut text =
            self.line(&format!("refused: {} ({})", summary.refused_lines, summary.refused));
        for (number, line, reason) in self.watcher.shown() {
            text += &indented(&format!("line {number}: {line}"), 4, self.width);
            text += &indented(reason, 6, self.width);
        }
        let shown = self.watcher.shown().len() as u64;
        if summary.refused_lines > shown {
            text +=
                &indented(&format!("and {} more", summary.refused_lines - shown), 4, self.width);
        }
        // Paths are not wrapped, so that they can be copied.
        text + &format!("  kept in {}\n", self.watcher.refused_file().display())
    }

    fn line(&self, text: &str) -> String {
        indented(text, 2, self.width)
    }
}
