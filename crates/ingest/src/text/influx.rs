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
//! Any other backslash is itself. Values are floats, integers (`5i`), unsigned
//! integers (`5u`), booleans (1 and 0 here) and text, which a series cannot hold.
//! A line without a time arrived now.
//!
//! Two fields are ours: `_start` and `_end`, integers of the same precision as the
//! times, make every other field of the line an interval: integers are counts,
//! floats and booleans levels. Without `_end` the line's time is the end; with it,
//! the line's time is not looked at.

use series::Kind;

use super::{Out, Parser, is_of_points};
use crate::{Arrival, FileError, Malformed, Number, Precision, Reason, SeriesName, Update};

/// Reads Influx line protocol.
#[derive(Clone, Debug)]
pub struct Influx {
    kind: Kind,
    precision: Precision,
    /// Room for the text that names a series: its head, a line end, its field.
    key: String,
}

/// The parts of a line.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    head: &'a str,
    fields: &'a str,
    time: &'a str,
}

/// When the values of a line hold.
#[derive(Clone, Copy, Debug)]
enum When {
    At(i64),
    Over { start_us: i64, end_us: i64 },
}

impl Influx {
    /// Its times have this precision, its values are points of this kind (one of
    /// intervals is taken as a gauge).
    pub fn new(kind: Kind, precision: Precision) -> Influx {
        let kind = if is_of_points(kind) { kind } else { Kind::Gauge };
        Influx { kind, precision, key: String::new() }
    }

    fn read(&mut self, line: &str, arrival: Arrival, out: &mut Out<'_>) -> Result<(), Malformed> {
        let parts = Parts::of(line)?;
        check_fields(parts.fields)?;
        let when = self.when(&parts, arrival)?;
        for (key, value) in Fields(parts.fields).flatten() {
            if is_ours(key) {
                continue;
            }
            let number = match Value::parse(value) {
                Ok(number) => number,
                Err(malformed) => {
                    out.refuse(malformed);
                    continue;
                }
            };
            self.key.clear();
            self.key.extend([parts.head, "\n", key]);
            match out.book.number_of_text(&self.key, || name(parts.head, key)) {
                Ok(series) => out.put(series, number.update(self.kind, when)),
                Err(malformed) => out.refuse(malformed),
            }
        }
        Ok(())
    }

    fn when(&self, parts: &Parts<'_>, arrival: Arrival) -> Result<When, Malformed> {
        let at_us = match parts.time {
            "" => None,
            time => Some(self.time(time)?),
        };
        if !parts.fields.contains("_start=") && !parts.fields.contains("_end=") {
            return Ok(When::At(at_us.unwrap_or_else(|| arrival.or_now_us())));
        }
        let (mut start_us, mut end_us) = (None, None);
        for (key, value) in Fields(parts.fields).flatten() {
            let digits = value.strip_suffix(['i', 'u']).unwrap_or(value);
            match key {
                "_start" => start_us = Some(self.time(digits)?),
                "_end" => end_us = Some(self.time(digits)?),
                _ => {}
            }
        }
        match (start_us, end_us) {
            (None, None) => Ok(When::At(at_us.unwrap_or_else(|| arrival.or_now_us()))),
            (None, Some(_)) => Err(Malformed::BadTime),
            (Some(start_us), end_us) => {
                let end_us = end_us.or(at_us).unwrap_or_else(|| arrival.or_now_us());
                Ok(When::Over { start_us, end_us })
            }
        }
    }

    fn time(&self, text: &str) -> Result<i64, Malformed> {
        let time = text.parse().ok();
        time.and_then(|time| self.precision.to_us(time)).ok_or(Malformed::BadTime)
    }
}

impl Parser for Influx {
    fn line(&mut self, line: &str, arrival: Arrival, to: &mut Out<'_>) -> Result<(), FileError> {
        if let Err(malformed) = self.read(line, arrival, to) {
            to.refuse(malformed);
        }
        Ok(())
    }
}

fn is_ours(key: &str) -> bool {
    key == "_start" || key == "_end"
}

impl Parts<'_> {
    fn of(line: &str) -> Result<Parts<'_>, Malformed> {
        let line = line.trim_matches([' ', '\r', '\t']);
        let (head, rest) = cut(line, b' ').ok_or(Malformed::NotLineProtocol)?;
        let rest = rest.trim_start_matches(' ');
        let end = end_of_fields(rest)?;
        let (fields, time) = rest.split_at(end);
        let time = time.trim_matches(' ');
        if head.is_empty() || fields.is_empty() {
            return Err(Malformed::NotLineProtocol);
        }
        if time.contains(' ') {
            return Err(Malformed::NotLineProtocol);
        }
        Ok(Parts { head, fields, time })
    }
}

/// Cuts at the first `stop` that no backslash escapes.
fn cut(text: &str, stop: u8) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1).is_some_and(|next| b", =".contains(next)) => at += 2,
            byte if byte == stop => return Some((&text[..at], &text[at + 1..])),
            _ => at += 1,
        }
    }
    None
}

/// Where the fields end: at the first space that is neither escaped nor quoted.
fn end_of_fields(text: &str) -> Result<usize, Malformed> {
    let bytes = text.as_bytes();
    let (mut at, mut in_key) = (0, true);
    while at < bytes.len() {
        match bytes[at] {
            b' ' => return Ok(at),
            b'\\' if in_key && bytes.get(at + 1).is_some_and(|next| b", =".contains(next)) => {
                at += 2
            }
            b'=' if in_key => {
                in_key = false;
                at += 1;
                if bytes.get(at) == Some(&b'"') {
                    at += 1 + end_of_quote(&text[at + 1..]).ok_or(Malformed::OpenQuote)?;
                }
            }
            b',' => {
                in_key = true;
                at += 1;
            }
            _ => at += 1,
        }
    }
    Ok(bytes.len())
}

/// The fields of a line as key and value, both as they are written.
struct Fields<'a>(&'a str);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a str, &'a str), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((key, rest)) = cut(self.0, b'=') else {
            self.0 = "";
            return Some(Err(Malformed::NotLineProtocol));
        };
        let end = match rest.strip_prefix('"') {
            Some(text) => match end_of_quote(text) {
                Some(end) => end + 1,
                None => {
                    self.0 = "";
                    return Some(Err(Malformed::OpenQuote));
                }
            },
            None => memchr::memchr(b',', rest.as_bytes()).unwrap_or(rest.len()),
        };
        let (value, rest) = rest.split_at(end);
        self.0 = match rest.strip_prefix(',') {
            // A comma with nothing behind it announces a field that is not there.
            Some("") => "=",
            Some(rest) => rest,
            None if rest.is_empty() => "",
            None => {
                self.0 = "";
                return Some(Err(Malformed::OpenQuote));
            }
        };
        if key.is_empty() {
            self.0 = "";
            return Some(Err(Malformed::NotLineProtocol));
        }
        Some(Ok((key, value)))
    }
}

/// Where a quoted text ends, its closing quote included.
fn end_of_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Nothing of a line is taken unless all its fields can be told apart.
fn check_fields(fields: &str) -> Result<(), Malformed> {
    Fields(fields).try_for_each(|field| field.map(|_| ()))
}

fn name(head: &str, field: &str) -> Result<SeriesName, Malformed> {
    let (measurement, mut rest) = match cut(head, b',') {
        Some((measurement, rest)) => (measurement, Some(rest)),
        None => (head, None),
    };
    let mut tags = Vec::new();
    while let Some(text) = rest {
        let (tag, next) = match cut(text, b',') {
            Some((tag, next)) => (tag, Some(next)),
            None => (text, None),
        };
        let (key, value) = cut(tag, b'=').ok_or(Malformed::BadTag)?;
        if cut(value, b'=').is_some() {
            return Err(Malformed::BadTag);
        }
        tags.push((unescape(key, b", ="), unescape(value, b", =")));
        rest = next;
    }
    SeriesName::new(unescape(measurement, b", "), tags, unescape(field, b", ="))
}

fn unescape(text: &str, escaped: &[u8]) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        match next {
            Some(next) if c == '\\' && next.is_ascii() && escaped.contains(&(next as u8)) => {}
            _ => plain.push(c),
        }
    }
    plain
}

/// A value that a series can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    number: Number,
    /// Whether it was written as an integer, and so is a count over an interval.
    integer: bool,
}

impl Value {
    fn parse(text: &str) -> Result<Value, Malformed> {
        let number = |number| Value { number, integer: false };
        let integer = |number| Value { number, integer: true };
        match text {
            "t" | "T" | "true" | "True" | "TRUE" => return Ok(number(Number::Signed(1))),
            "f" | "F" | "false" | "False" | "FALSE" => return Ok(number(Number::Signed(0))),
            "" => return Err(Malformed::NoValue),
            _ => {}
        }
        if text.starts_with('"') {
            return Err(Malformed::TextValue);
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

    fn update(self, kind: Kind, when: When) -> Result<Update, Reason> {
        let update = match when {
            When::At(at_us) => self.number.point(kind, at_us)?,
            When::Over { start_us, end_us } => {
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
