//! Formats that come a line at a time.

mod csv;
mod graphite;
mod influx;
mod statsd;
mod window;

use std::fmt;

use series::{Kind, Limits};

pub use csv::{Columns, Csv};
pub use graphite::Graphite;
pub use influx::Influx;
pub use statsd::Statsd;

use crate::{Arrival, Book, FileError, Line, Malformed, Reason, Series, Update};

/// The field of series whose format has none.
pub(crate) const FIELD: &str = "value";

/// What reads the lines of one stream, in their order.
pub trait Parser: fmt::Debug {
    /// Reads a line that is neither empty nor a comment.
    ///
    /// # Errors
    /// [`FileError`] where nothing of the stream could be read. What is wrong with
    /// a line is a [`Reason`] in `out`.
    fn line(&mut self, line: &str, arrival: Arrival, to: &mut Out<'_>) -> Result<(), FileError>;

    /// Gives out what was held back, at the end of the stream or of a window.
    fn flush(&mut self, to: &mut Out<'_>) {
        let _ = to;
    }
}

/// Where a parser puts what it has read.
#[derive(Debug)]
pub struct Out<'a> {
    /// The series, by number.
    pub book: &'a mut Book,
    /// What was read.
    pub parsed: &'a mut Parsed,
    /// The horizons, for parsers that hold back what they read.
    pub limits: &'a Limits,
}

impl Out<'_> {
    /// Notes an update, or why there is none.
    pub(crate) fn put(&mut self, series: Series, update: Result<Update, impl Into<Reason>>) {
        match update {
            Ok(update) => self.parsed.updates.push((series, update)),
            Err(reason) => self.refuse(reason),
        }
    }

    /// Notes why a line or a part of it was not taken.
    pub(crate) fn refuse(&mut self, reason: impl Into<Reason>) {
        self.parsed.reasons.push(reason.into());
    }
}

/// What was read of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The updates, in the order of the line.
    pub updates: Vec<(Series, Update)>,
    /// Why the line, or parts of it, were not taken.
    pub reasons: Vec<Reason>,
    /// Whether it was a comment.
    pub comment: bool,
}

/// A parser with its series and horizons.
#[derive(Debug)]
pub struct Reader {
    parser: Box<dyn Parser>,
    book: Book,
    limits: Limits,
    parsed: Parsed,
}

impl Reader {
    /// Reads with `parser`, for at most `series_max` series.
    pub fn new(parser: Box<dyn Parser>, limits: Limits, series_max: usize) -> Reader {
        Reader { parser, book: Book::new(series_max), limits, parsed: Parsed::default() }
    }

    /// The series that were seen.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Reads a line, or a part of one that is too long, which is refused once, at its end.
    ///
    /// # Errors
    /// [`FileError`] where nothing of the stream could be read.
    pub fn line(&mut self, line: Line<'_>, arrival: Arrival) -> Result<&Parsed, FileError> {
        self.clear();
        if line.too_long {
            if line.last {
                self.parsed.reasons.push(Malformed::LineTooLong.into());
            }
            return Ok(&self.parsed);
        }
        // The mark that some programs put before UTF-8 text is no part of it.
        let bytes = match line.bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if line.number == 1 => rest,
            _ => line.bytes,
        };
        match std::str::from_utf8(bytes) {
            Err(_) => self.parsed.reasons.push(Malformed::NotUtf8.into()),
            Ok(text) if text.trim_ascii().is_empty() => {}
            Ok(text) if text.starts_with('#') => self.parsed.comment = true,
            Ok(text) => {
                let (book, parsed, limits) = (&mut self.book, &mut self.parsed, &self.limits);
                let mut out = Out { book, parsed, limits };
                self.parser.line(text, arrival, &mut out)?;
                self.admit(arrival);
            }
        }
        Ok(&self.parsed)
    }

    /// What was held back: the windows of StatsD that are still open.
    pub fn flush(&mut self, arrival: Arrival) -> &Parsed {
        self.clear();
        let (book, parsed, limits) = (&mut self.book, &mut self.parsed, &self.limits);
        let mut out = Out { book, parsed, limits };
        self.parser.flush(&mut out);
        self.admit(arrival);
        &self.parsed
    }

    fn clear(&mut self) {
        self.parsed.updates.clear();
        self.parsed.reasons.clear();
        self.parsed.comment = false;
    }

    /// Refuses what lies beyond the horizons.
    fn admit(&mut self, arrival: Arrival) {
        let Parsed { updates, reasons, .. } = &mut self.parsed;
        updates.retain(|(_, update)| {
            let admitted = update.within(&self.limits, arrival.now_us);
            admitted.map_err(|refusal| reasons.push(refusal.into())).is_ok()
        });
    }
}

/// Whether points may be of this kind.
pub(crate) fn is_of_points(kind: Kind) -> bool {
    !matches!(kind, Kind::Count | Kind::Level)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
        let mut shown = Vec::new();
        for (i, line) in text.split('\n').enumerate() {
            let line = Line {
                number: i as u64 + 1,
                bytes: line.as_bytes(),
                too_long: false,
                first: true,
                last: true,
            };
            let parsed = reader.line(line, arrival).unwrap().clone();
            shown.extend(show(&reader, &parsed));
        }
        let parsed = reader.flush(arrival).clone();
        shown.extend(show(&reader, &parsed));
        shown
    }

    fn show(reader: &Reader, parsed: &Parsed) -> Vec<String> {
        let updates = parsed.updates.iter().map(|(series, update)| {
            let name = reader.book().name(*series);
            let (from, to) = update.times_us();
            let (from, to) = (from as f64 / 1e6, to as f64 / 1e6);
            match update.what {
                crate::What::Point(point) => {
                    format!("{name} {:?} {} @{from}", update.kind, point.reading.as_f64())
                }
                crate::What::Interval(interval) => {
                    let cover = interval.cover();
                    let sign = if cover.sense == series::Sense::Add { "" } else { "-" };
                    format!("{name} {:?} {sign}{} {from}..{to}", update.kind, cover.amount.as_f64())
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
            let line = Line { number: 2, bytes, too_long: false, first: true, last: true };
            let parsed = reader.line(line, arrival).unwrap();
            parsed.reasons.iter().map(|r| r.name()).collect::<Vec<_>>()
        };
        assert_eq!(reasons(b"a\xff 1 1430701282"), ["not_utf8"]);
        assert_eq!(reasons(b"a 1 1767226201"), ["future"]);
        assert!(reasons(b"a 1 1767226200").is_empty());
        assert_eq!(reasons(b"b 1 1767226200"), ["too_many_series"]);
        assert!(reasons(b" \t").is_empty());
        assert!(reasons(b"# comment").is_empty());
        let part =
            |last: bool| Line { number: 3, bytes: b"a 1 1", too_long: true, first: !last, last };
        assert!(reader.line(part(false), arrival).unwrap().reasons.is_empty());
        assert_eq!(
            reader.line(part(true), arrival).unwrap().reasons,
            [Malformed::LineTooLong.into()]
        );
    }
}
