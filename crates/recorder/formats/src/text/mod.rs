//! Line-based formats.

mod csv;
mod graphite;
mod influx;
mod statsd;
mod window;

use std::fmt;

use series::{Kind, Limits};

pub use csv::{Columns, Csv};
pub use graphite::Graphite;
pub use influx::{CommonTags, Influx};
pub use statsd::Statsd;
pub use window::{CarriedWindows, HeldValue, WindowResult, Windows};

use crate::quotes::is_comment;
use crate::{Arrival, Book, FileError, Line, Malformed, Quotes, Reason, Series, Update};

/// A parser for the lines of one stream, in order.
pub trait Parser: fmt::Debug {
    /// Parses a line that is neither empty nor a comment. Values that depend on earlier lines are
    /// only recorded in [`ParsedLine::held`] and applied later.
    ///
    /// # Errors
    /// [`FileError`] if the stream cannot be parsed at all. A problem with a line is a [`Reason`]
    /// in `to`.
    fn line(
        &mut self,
        line: &str,
        arrival: Arrival,
        to: &mut ParserOutput<'_>,
    ) -> Result<(), FileError>;

    /// How texts that may span several lines are quoted.
    fn quotes(&self) -> Quotes {
        Quotes::None
    }

    /// Applies a line's held values: all of them, or none with a [`Reason`] in `to`.
    fn take(&mut self, held: &[HeldValue], to: &mut ParsedLine) {
        let _ = (held, to);
    }

    /// Whether the meaning of a line depends on earlier lines.
    fn remembers(&self) -> bool {
        false
    }

    /// Emits what is still held, at the end of the stream.
    fn flush(&mut self, to: &mut ParsedLine) {
        let _ = to;
    }

    /// The open windows, for a format that has them.
    fn windows(&mut self) -> Option<&mut Windows> {
        None
    }

    /// Sets the last value of a gauge, on which a change of it is based.
    fn level(&mut self, series: Series, value: Option<f64>) {
        let _ = (series, value);
    }
}

/// The output of a parser.
#[derive(Debug)]
pub struct ParserOutput<'a> {
    /// The series, by number.
    pub book: &'a mut Book,
    /// The parsed content.
    pub parsed: &'a mut ParsedLine,
    /// The horizons.
    pub limits: &'a Limits,
}

impl ParserOutput<'_> {
    /// Adds an update, or the reason for refusing it.
    #[inline]
    pub(crate) fn put(&mut self, series: Series, update: Result<Update, impl Into<Reason>>) {
        match update {
            Ok(update) => self.parsed.updates.push((series, update)),
            Err(reason) => self.refuse(reason),
        }
    }

    /// Adds a reason for refusing the line.
    pub(crate) fn refuse(&mut self, reason: impl Into<Reason>) {
        self.parsed.reasons.push(reason.into());
    }
}

/// The content of a line: updates, or the reasons why the whole line is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedLine {
    /// The updates, in the order of the line.
    pub updates: Vec<(Series, Update)>,
    /// Values that [`Reader::take`] adds to windows and gauges, in the order of the line.
    pub held: Vec<HeldValue>,
    /// Results of windows that have closed, or whose stream has ended.
    pub windows: Vec<WindowResult>,
    /// Why the line is refused.
    pub reasons: Vec<Reason>,
    /// Whether it is a comment.
    pub comment: bool,
    /// Texts beside its numbers, which are skipped: a series holds numbers.
    pub texts: u64,
}

impl ParsedLine {
    fn clear(&mut self) {
        self.updates.clear();
        self.held.clear();
        self.windows.clear();
        self.reasons.clear();
        self.comment = false;
        self.texts = 0;
    }

    /// A line is accepted or refused as a whole.
    fn settle(&mut self) {
        if self.reasons.is_empty() {
            last_of_each(&mut self.updates);
            return;
        }
        self.updates.clear();
        self.held.clear();
        self.texts = 0;
        self.reasons.dedup();
    }
}

/// Keeps the last of several updates of one series in a line: they have the same time.
fn last_of_each(updates: &mut Vec<(Series, Update)>) {
    if updates.len() < 2 {
        return;
    }
    let mut by_series: Vec<(Series, usize)> =
        updates.iter().enumerate().map(|(place, (series, _))| (*series, place)).collect();
    by_series.sort_unstable();
    if by_series.windows(2).all(|pair| pair[0].0 != pair[1].0) {
        return;
    }
    let mut last = vec![true; updates.len()];
    for pair in by_series.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        last[pair[0].1] = false;
    }
    let mut last = last.into_iter();
    updates.retain(|_| last.next().unwrap_or(true));
}

/// A parser with its series and horizons.
#[derive(Debug)]
pub struct Reader {
    parser: Box<dyn Parser>,
    book: Book,
    limits: Limits,
    parsed: ParsedLine,
}

impl Reader {
    /// A reader with `parser`, for at most `series_max` series.
    pub fn new(parser: Box<dyn Parser>, limits: Limits, series_max: usize) -> Reader {
        Reader { parser, book: Book::new(series_max), limits, parsed: ParsedLine::default() }
    }

    /// The series seen so far.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// How texts that may span several lines are quoted.
    pub fn quotes(&self) -> Quotes {
        self.parser.quotes()
    }

    /// Reads a line and applies its values.
    ///
    /// # Errors
    /// Those of [`Reader::read`].
    pub fn line(&mut self, line: Line<'_>, arrival: Arrival) -> Result<&ParsedLine, FileError> {
        self.read(line, arrival)?;
        if !self.parsed.held.is_empty() {
            let held = std::mem::take(&mut self.parsed.held);
            self.take(&held);
        }
        Ok(&self.parsed)
    }

    /// Reads a line, or a piece of one that is too long, which is refused once, at its end.
    ///
    /// # Errors
    /// [`FileError`] if the stream cannot be parsed at all.
    pub fn read(&mut self, line: Line<'_>, arrival: Arrival) -> Result<&ParsedLine, FileError> {
        self.parsed.clear();
        if line.too_long {
            if line.last {
                self.parsed.reasons.push(Malformed::LineTooLong.into());
            }
            return Ok(&self.parsed);
        }
        // The byte order mark that some programs write is ignored.
        let bytes = match line.bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if line.number == 1 => rest,
            _ => line.bytes,
        };
        match std::str::from_utf8(bytes) {
            _ if is_comment(bytes) => self.parsed.comment = true,
            Err(_) => self.parsed.reasons.push(Malformed::NotUtf8.into()),
            Ok(text) if text.trim_ascii().is_empty() => {}
            Ok(text) => {
                let (book, parsed, limits) = (&mut self.book, &mut self.parsed, &self.limits);
                let mut out = ParserOutput { book, parsed, limits };
                self.parser.line(text, arrival, &mut out)?;
                self.admit(arrival);
                self.parsed.settle();
            }
        }
        Ok(&self.parsed)
    }

    /// Applies a line's held values, all or none.
    pub fn take(&mut self, held: &[HeldValue]) -> &ParsedLine {
        self.parsed.clear();
        self.parser.take(held, &mut self.parsed);
        &self.parsed
    }

    /// What the arrival of a message, of this or of another format, closes.
    pub fn pass(&mut self, now_us: i64) -> &ParsedLine {
        self.parsed.clear();
        if let Some(windows) = self.parser.windows() {
            windows.pass(now_us, &mut self.parsed);
        }
        &self.parsed
    }

    /// Emits the current values of open windows, and forgets them: later values of their time are
    /// added to what was emitted, and do not replace it.
    pub fn cut(&mut self) -> &ParsedLine {
        self.parsed.clear();
        if let Some(windows) = self.parser.windows() {
            windows.cut(&mut self.parsed);
        }
        &self.parsed
    }

    /// The open windows, for a format that has them, and the series.
    pub fn windows(&mut self) -> Option<(&mut Windows, &mut Book)> {
        Some((self.parser.windows()?, &mut self.book))
    }

    /// Takes out the results of windows of the last call; there may be millions.
    pub fn take_windows(&mut self) -> Vec<WindowResult> {
        std::mem::take(&mut self.parsed.windows)
    }

    /// Sets the last value of a gauge, on which a change of it is based.
    pub fn level(&mut self, series: Series, value: Option<f64>) {
        self.parser.level(series, value);
    }

    /// Whether the meaning of a line depends on earlier lines: windows and gauges of StatsD.
    pub fn remembers(&self) -> bool {
        self.parser.remembers()
    }

    /// What is still held. If the stream continues later, this is replaced by the final values.
    pub fn flush(&mut self) -> &ParsedLine {
        self.parsed.clear();
        self.parser.flush(&mut self.parsed);
        &self.parsed
    }

    /// Refuses a line if part of it is beyond the horizons.
    fn admit(&mut self, arrival: Arrival) {
        let ParsedLine { updates, reasons, .. } = &mut self.parsed;
        let beyond = |(_, update): &(Series, Update)| {
            update.within(&self.limits, arrival.now_us).err().map(Reason::from)
        };
        reasons.extend(updates.iter().filter_map(beyond));
    }
}

/// Whether points can be of this kind.
pub(crate) fn is_of_points(kind: Kind) -> bool {
    !matches!(kind, Kind::Count | Kind::Level)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Lines;

    /// Reads lines at 2026-01-01 and lists series with updates, then reasons.
    pub(crate) fn read(parser: impl Parser + 'static, text: &str) -> Vec<String> {
        read_at(parser, text, Arrival { now_us: 1_767_225_600_000_000, at_us: None })
    }

    pub(crate) fn read_at(
        parser: impl Parser + 'static,
        text: &str,
        arrival: Arrival,
    ) -> Vec<String> {
        let mut reader = Reader::new(Box::new(parser), Limits::DEFAULT, 1000);
        let mut lines = Lines::quoted(text.as_bytes(), reader.quotes(), true);
        let mut shown = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let parsed = reader.line(line, arrival).unwrap().clone();
            shown.extend(show(&reader, &parsed));
        }
        let parsed = reader.flush().clone();
        shown.extend(show(&reader, &parsed));
        shown
    }

    fn show(reader: &Reader, parsed: &ParsedLine) -> Vec<String> {
        let given = parsed.windows.iter().flat_map(|windowed| {
            let taken_back =
                windowed.instead.map(|update| ("taken back: ", windowed.series, update));
            let given = windowed.update.map(|update| ("", windowed.series, update));
            taken_back.into_iter().chain(given)
        });
        let updates = parsed.updates.iter().map(|(series, update)| ("", *series, *update));
        let updates = updates.chain(given).map(|(word, series, update)| {
            let name = reader.book().name(series);
            let (from, to) = update.times_us();
            let (from, to) = (from as f64 / 1e6, to as f64 / 1e6);
            match update.what {
                crate::UpdateContent::Point(point) => {
                    format!("{word}{name} {:?} {} @{from}", update.kind, point.reading.as_f64())
                }
                crate::UpdateContent::Interval(interval) => {
                    let cover = interval.cover();
                    format!("{word}{name} {:?} {} {from}..{to}", update.kind, cover.amount.as_f64())
                }
            }
        });
        updates.chain(parsed.reasons.iter().map(|r| format!("! {}", r.name()))).collect()
    }

    #[test]
    fn lines_that_cannot_be_read_have_their_reason() {
        let mut reader = Reader::new(Box::new(Graphite::new(Kind::Gauge)), Limits::DEFAULT, 1);
        let arrival = Arrival::live(1_767_225_600_000_000);
        let mut reasons = |bytes: &[u8]| {
            let line =
                Line { number: 2, bytes, too_long: false, first: true, last: true, torn: false };
            let parsed = reader.line(line, arrival).unwrap();
            parsed.reasons.iter().map(|r| r.name()).collect::<Vec<_>>()
        };
        assert_eq!(reasons(b"a\xff 1 1430701282"), ["not_utf8"]);
        assert_eq!(reasons(b"a 1 1767226201"), ["future"]);
        assert!(reasons(b"a 1 1767226200").is_empty());
        assert_eq!(reasons(b"b 1 1767226200"), ["too_many_series"]);
        assert!(reasons(b" \t").is_empty());
        assert!(reasons(b"# comment").is_empty());
        assert!(reasons(b" \t# an indented comment \xff").is_empty());
        let part = |last: bool| {
            let (bytes, first) = (&b"a 1 1"[..], !last);
            Line { number: 3, bytes, too_long: true, first, last, torn: false }
        };
        assert!(reader.line(part(false), arrival).unwrap().reasons.is_empty());
        assert_eq!(
            reader.line(part(true), arrival).unwrap().reasons,
            [Malformed::LineTooLong.into()]
        );
    }
}
