//! Influx line protocol: `measurement[,tag=value…] field=value[,field=value…] [timestamp]`.
//!
//! As documented in "Line protocol" of InfluxDB's reference:
//!
//! | part | escaped by a backslash |
//! | --- | --- |
//! | measurement | comma, space |
//! | tag key, tag value, field key | comma, equals sign, space |
//! | text value | double quote, backslash |
//!
//! Any other backslash is literal. Values are floats, integers (`5i`), unsigned integers (`5u`),
//! booleans (1 and 0 here) and text. Text may span several lines; a series cannot hold it, so it is
//! skipped and counted, and a line with nothing else is refused. If a field occurs twice in a line,
//! the last value is used, as in InfluxDB. A line without a time arrived now.
//!
//! Two fields are an extension: `_start` and `_end`, integers of the same precision as the times,
//! make every other field of the line an interval: integers become counts, floats and booleans
//! levels. Without `_end` the line's time is the end; with it, the line's time is ignored.

use series::Kind;

use super::{Parser, ParserOutput, is_of_points};
use crate::quotes::is_comment;
use crate::{
    Arrival, FileError, LINE_MAX, Line, Lines, Malformed, Number, Precision, Quotes, Reason,
    SeriesName, Update,
};

/// Parses Influx line protocol.
#[derive(Clone, Debug)]
pub struct Influx {
    kind: Kind,
    precision: Precision,
    /// Buffer for the text that names a series: head, line end, field.
    key: String,
    /// Buffer for the fields of a line.
    fields: Vec<Field>,
}

/// Positions of a field's key and value in a line.
#[derive(Clone, Copy, Debug)]
struct Field {
    key: (usize, usize),
    value: (usize, usize),
}

/// The time of a line's values.
#[derive(Clone, Copy, Debug)]
enum LineTime {
    At(i64),
    Over { start_us: i64, end_us: i64 },
}

impl Influx {
    /// Times have this precision; values become points of this kind (a kind of intervals is treated
    /// as gauge).
    pub fn new(kind: Kind, precision: Precision) -> Influx {
        let kind = if is_of_points(kind) { kind } else { Kind::Gauge };
        Influx { kind, precision, key: String::new(), fields: Vec::new() }
    }

    fn read(
        &mut self,
        line: &str,
        arrival: Arrival,
        out: &mut ParserOutput<'_>,
    ) -> Result<(), Reason> {
        let mut scan = Scan { bytes: line.as_bytes(), at: 0 };
        let head = scan.head()?;
        self.fields.clear();
        scan.fields(&mut self.fields)?;
        let time = scan.time()?;
        let when = self.when(line, time, arrival)?;
        let head = &line[head.0..head.1];
        let (mut numbers, mut texts) = (0, 0);
        // The name of a new series of the line, which the next ones share except for their field.
        let mut known: Option<SeriesName> = None;
        for Field { key, value } in &self.fields {
            let (key, value) = (&line[key.0..key.1], &line[value.0..value.1]);
            if is_ours(key) {
                continue;
            }
            if value.starts_with('"') {
                texts += 1;
                continue;
            }
            numbers += 1;
            let update = FieldValue::parse(value)?.update(self.kind, when)?;
            self.key.clear();
            self.key.extend([head, "\n", key]);
            let series = out.book.number_of_text(&self.key, || {
                let name = match &known {
                    Some(known) => known.with_field(unescape(key, b", ="))?,
                    None => name(head, key)?,
                };
                Ok(known.insert(name).clone())
            })?;
            out.put(series, Ok::<_, Reason>(update));
        }
        match (numbers, texts) {
            (0, 1..) => Err(Malformed::TextValue.into()),
            (0, 0) => Err(Malformed::NoValue.into()),
            _ => {
                out.parsed.texts += texts;
                Ok(())
            }
        }
    }

    fn when(
        &self,
        line: &str,
        time: (usize, usize),
        arrival: Arrival,
    ) -> Result<LineTime, Malformed> {
        let at_us = match &line[time.0..time.1] {
            "" => None,
            time => Some(self.time(time)?),
        };
        let (mut start_us, mut end_us) = (None, None);
        for Field { key, value } in &self.fields {
            let known = match &line[key.0..key.1] {
                "_start" => &mut start_us,
                "_end" => &mut end_us,
                _ => continue,
            };
            let value = &line[value.0..value.1];
            *known = Some(self.time(value.strip_suffix(['i', 'u']).unwrap_or(value))?);
        }
        match (start_us, end_us) {
            (None, None) => Ok(LineTime::At(at_us.unwrap_or_else(|| arrival.or_now_us()))),
            (None, Some(_)) => Err(Malformed::BadTime),
            (Some(start_us), end_us) => {
                let end_us = end_us.or(at_us).unwrap_or_else(|| arrival.or_now_us());
                Ok(LineTime::Over { start_us, end_us })
            }
        }
    }

    fn time(&self, text: &str) -> Result<i64, Malformed> {
        let time = text.parse().ok().filter(|_| !text.starts_with('+'));
        time.and_then(|time| self.precision.to_us(time)).ok_or(Malformed::BadTime)
    }
}

impl Parser for Influx {
    fn quotes(&self) -> Quotes {
        Quotes::Influx
    }

    fn line(
        &mut self,
        line: &str,
        arrival: Arrival,
        to: &mut ParserOutput<'_>,
    ) -> Result<(), FileError> {
        if let Err(reason) = self.read(line.trim_start_matches(' '), arrival, to) {
            to.refuse(reason);
        }
        Ok(())
    }
}

/// Tags of all lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonTags {
    /// As they follow a measurement.
    written: String,
}

impl CommonTags {
    /// Tags with these keys and values.
    ///
    /// # Errors
    /// [`Malformed::ControlCharacter`], and [`Malformed::BadTag`] for a text that ends with a
    /// backslash, which line protocol cannot express.
    pub fn new<'a>(
        tags: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<CommonTags, Malformed> {
        let mut written = String::new();
        for (key, value) in tags {
            for (before, text) in [(',', key), ('=', value)] {
                if text.chars().any(char::is_control) {
                    return Err(Malformed::ControlCharacter);
                }
                if text.is_empty() || text.ends_with('\\') {
                    return Err(Malformed::BadTag);
                }
                written.push(before);
                for c in text.chars() {
                    if matches!(c, ',' | '=' | ' ') {
                        written.push('\\');
                    }
                    written.push(c);
                }
            }
        }
        Ok(CommonTags { written })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The text with these tags in every line; `None` if it would be longer than `bytes_max`, or a
    /// line too long by them. Lines without a measurement stay as they are.
    pub fn add(&self, text: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let mut lines = Lines::quoted(text, Quotes::Influx, true);
        let mut tagged = Vec::with_capacity(text.len());
        // Reading from memory does not fail.
        while let Ok(Some(line)) = lines.next() {
            let (before, after) = line.bytes.split_at(measurement_end(&line).unwrap_or(0));
            tagged.extend_from_slice(before);
            if !before.is_empty() {
                tagged.extend_from_slice(self.written.as_bytes());
                if !line.too_long && line.bytes.len() + self.written.len() > LINE_MAX {
                    return None;
                }
            }
            tagged.extend_from_slice(after);
            if line.last {
                tagged.push(b'\n');
            }
            if tagged.len() > bytes_max {
                return None;
            }
        }
        Some(tagged)
    }

    /// A line as it was before the tags were added.
    #[must_use]
    pub fn remove(&self, line: &str) -> String {
        line.replacen(&self.written, "", 1)
    }
}

/// Where tags follow in a line that has a measurement.
fn measurement_end(line: &Line<'_>) -> Option<usize> {
    if !line.first || is_comment(line.bytes) {
        return None;
    }
    let mut scan = Scan { bytes: line.bytes, at: 0 };
    scan.spaces();
    let (start, end) = scan.take(b", ", b", ").ok()?;
    (start < end && end < line.bytes.len()).then_some(end)
}

fn is_ours(key: &str) -> bool {
    key == "_start" || key == "_end"
}

/// A line, scanned once from beginning to end.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Consumes everything up to one of `stops` or a control character, unless escaped by a
    /// backslash.
    fn take(&mut self, stops: &[u8], escaped: &[u8]) -> Result<(usize, usize), Malformed> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            if byte == b'\\' && self.bytes.get(self.at + 1).is_some_and(|b| escaped.contains(b)) {
                self.at += 2;
            } else if stops.contains(&byte) {
                break;
            } else if byte.is_ascii_control() {
                return Err(Malformed::ControlCharacter);
            } else {
                self.at += 1;
            }
        }
        Ok((start, self.at))
    }

    /// The measurement and the tags, before the fields.
    fn head(&mut self) -> Result<(usize, usize), Malformed> {
        let (start, mut end) = self.take(b", ", b", ")?;
        if start == end {
            return Err(Malformed::EmptyName);
        }
        while self.peek() == Some(b',') {
            self.at += 1;
            let (start, key_end) = self.take(b",= ", b",= ")?;
            if self.peek() != Some(b'=') {
                return Err(Malformed::BadTag);
            }
            self.at += 1;
            let value;
            (value, end) = self.take(b",= ", b",= ")?;
            if start == key_end || value == end {
                return Err(Malformed::EmptyName);
            }
            if self.peek() == Some(b'=') {
                return Err(Malformed::BadTag);
            }
        }
        self.spaces();
        if self.peek().is_none() { Err(Malformed::NotLineProtocol) } else { Ok((start, end)) }
    }

    fn fields(&mut self, fields: &mut Vec<Field>) -> Result<(), Malformed> {
        loop {
            let key = self.take(b",= ", b",= ")?;
            if key.0 == key.1 || self.peek() != Some(b'=') {
                return Err(Malformed::NotLineProtocol);
            }
            self.at += 1;
            let start = self.at;
            if self.peek() == Some(b'"') {
                self.text()?;
            } else {
                // Errors within a value are reported where it is parsed.
                while self.peek().is_some_and(|byte| !matches!(byte, b',' | b' ' | b'\r')) {
                    self.at += 1;
                }
                if start == self.at {
                    return Err(Malformed::NoValue);
                }
            }
            fields.push(Field { key, value: (start, self.at) });
            match self.peek() {
                Some(b',') => self.at += 1,
                None | Some(b' ' | b'\r') => return Ok(()),
                Some(_) => return Err(Malformed::OpenQuote),
            }
        }
    }

    /// A quoted text with its quotes.
    fn text(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(Malformed::OpenQuote),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') if matches!(self.bytes.get(self.at + 1), Some(b'"' | b'\\')) => {
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// The optional time at the end of the line.
    fn time(&mut self) -> Result<(usize, usize), Malformed> {
        self.spaces();
        let start = self.at;
        while self.peek().is_some_and(|byte| byte != b' ' && byte != b'\r') {
            self.at += 1;
        }
        let time = (start, self.at);
        self.spaces();
        // An end of line that was cut in the middle.
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        if self.at == self.bytes.len() { Ok(time) } else { Err(Malformed::NotLineProtocol) }
    }

    fn spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }
}

/// The name of a series, from an already scanned head.
fn name(head: &str, field: &str) -> Result<SeriesName, Malformed> {
    let (measurement, mut rest) = match cut(head, b',', b", ") {
        Some((measurement, rest)) => (measurement, Some(rest)),
        None => (head, None),
    };
    let mut tags = Vec::new();
    while let Some(text) = rest {
        let (tag, next) = match cut(text, b',', b",= ") {
            Some((tag, next)) => (tag, Some(next)),
            None => (text, None),
        };
        let (key, value) = cut(tag, b'=', b",= ").ok_or(Malformed::BadTag)?;
        tags.push((unescape(key, b", ="), unescape(value, b", =")));
        rest = next;
    }
    SeriesName::new(unescape(measurement, b", "), tags, unescape(field, b", ="))
}

/// Splits at the first unescaped `stop`.
fn cut<'a>(text: &'a str, stop: u8, escaped: &[u8]) -> Option<(&'a str, &'a str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1).is_some_and(|next| escaped.contains(next)) => at += 2,
            byte if byte == stop => return Some((&text[..at], &text[at + 1..])),
            _ => at += 1,
        }
    }
    None
}

fn unescape(text: &str, escaped: &[u8]) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match characters.peek().copied() {
            Some(next) if c == '\\' && next.is_ascii() && escaped.contains(&(next as u8)) => {
                plain.push(next);
                characters.next();
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// A numeric value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FieldValue {
    number: Number,
    /// Whether it was written as an integer, and so is a count over an interval.
    integer: bool,
}

impl FieldValue {
    fn parse(text: &str) -> Result<FieldValue, Malformed> {
        let number = |number| FieldValue { number, integer: false };
        let integer = |number| FieldValue { number, integer: true };
        match text {
            "t" | "T" | "true" | "True" | "TRUE" => return Ok(number(Number::Signed(1))),
            "f" | "F" | "false" | "False" | "FALSE" => return Ok(number(Number::Signed(0))),
            "" => return Err(Malformed::NoValue),
            _ => {}
        }
        // Only a minus sign may precede a number, words are not numbers, and a lone point is
        // invalid.
        let first = text.strip_prefix('-').unwrap_or(text).bytes().next();
        if !first.is_some_and(|first| first.is_ascii_digit() || first == b'.') {
            return Err(Malformed::NotANumber);
        }
        let value = match text.as_bytes().last() {
            Some(b'i') => text[..text.len() - 1].parse().ok().map(|i| integer(Number::Signed(i))),
            Some(b'u') => {
                let unsigned: Option<u64> = text[..text.len() - 1].parse().ok();
                unsigned
                    .map(|u| integer(i64::try_from(u).map_or(Number::Unsigned(u), Number::Signed)))
            }
            _ => Number::parse(text).map(number),
        };
        value.ok_or(Malformed::NotANumber)
    }

    fn update(self, kind: Kind, when: LineTime) -> Result<Update, Reason> {
        let update = match when {
            LineTime::At(at_us) => self.number.point(kind, at_us)?,
            LineTime::Over { start_us, end_us } => {
                let kind = if self.integer { Kind::Count } else { Kind::Level };
                self.number.interval(kind, start_us, end_us)?
            }
        };
        Ok(update)
    }
}

#[cfg(test)]
#[path = "influx_tests.rs"]
mod tests;
