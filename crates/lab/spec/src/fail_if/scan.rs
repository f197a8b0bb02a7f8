//! The tokens of a condition.

use std::ops::Range;

use base::{Bytes, Nanos};

use super::{METRICS, error};
use crate::error::SpecError;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A number with its unit applied.
    Number(f64),
    /// A variant, with its part if named, and an unchecked metric.
    Measured { part: Option<String>, variant: String, metric: String, metric_span: Range<usize> },
    /// `and`, `or`, an operator, a comparison or a parenthesis.
    Sign(&'static str),
    /// End of the text.
    End,
}

const SIGNS: [&str; 10] = ["<=", ">=", "<", ">", "+", "-", "*", "/", "(", ")"];

/// Splits a text into tokens with their positions; the last is [`Token::End`].
pub(super) fn scan(text: &str) -> Result<Vec<(Token, Range<usize>)>, SpecError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, end) = one(text, at, c)?;
        tokens.push((token, at..end));
        at = end;
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

fn one(text: &str, at: usize, first: char) -> Result<(Token, usize), SpecError> {
    let rest = &text[at..];
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), at + sign.len()));
    }
    match first {
        '0'..='9' | '.' => number(text, at),
        '"' | '\'' => quoted(text, at, first),
        _ if is_name(first) => word(text, at),
        '=' | '!' => Err(error(text, &(at..at + 1), "two measured values are never equal")
            .help("compare with <, <=, > or >=")),
        _ => {
            let span = at..at + first.len_utf8();
            Err(error(text, &span, format!("'{}' is not understood", first.escape_debug())))
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn number(text: &str, at: usize) -> Result<(Token, usize), SpecError> {
    let rest = &text[at..];
    let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let digits = digits.unwrap_or(rest.len());
    let unit = rest[digits..].find(|c: char| !(c.is_alphabetic() || c == '%'));
    let end = digits + unit.unwrap_or(rest.len() - digits);
    let (number, unit) = (&rest[..digits], &rest[digits..end]);
    let wrong = || {
        let message = format!("'{}' is not a number with a unit known here", &rest[..end]);
        error(text, &(at..at + end), message).help("write 1.05, 5%, 5ms, 80us or 64MiB")
    };
    let value: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
    let value = match unit {
        "" => value,
        "%" => value / 100.0,
        "ns" | "us" | "µs" | "ms" | "s" | "m" | "min" | "h" => {
            Nanos::parse(&rest[..end]).map_err(|_| wrong())?.0 as f64
        }
        "k" => value * 1e3,
        _ => Bytes::parse(&rest[..end]).map_err(|_| wrong())?.0 as f64,
    };
    Ok((Token::Number(value), at + end))
}

/// `'gunicorn 23.0'.p99`
fn quoted(text: &str, at: usize, quote: char) -> Result<(Token, usize), SpecError> {
    let (name, end) = quoted_name(text, at, quote)?;
    named(text, at, name, end)
}

fn quoted_name(text: &str, at: usize, quote: char) -> Result<(&str, usize), SpecError> {
    let inside = &text[at + 1..];
    let length = inside
        .find(quote)
        .ok_or_else(|| error(text, &(at..text.len()), "this quotation mark is not closed"))?;
    Ok((&inside[..length], at + length + 2))
}

/// `unix.p99`, or `and`, `or`.
fn word(text: &str, at: usize) -> Result<(Token, usize), SpecError> {
    let end = word_end(text, at);
    match &text[at..end] {
        "and" => Ok((Token::Sign("and"), end)),
        "or" => Ok((Token::Sign("or"), end)),
        name => named(text, at, name, end),
    }
}

/// A dash belongs to a name if a letter or digit follows it directly.
fn word_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let mut end = 0;
    for (i, c) in rest.char_indices() {
        let joins = c == '-' && rest[i + 1..].starts_with(char::is_alphanumeric);
        if !(c.is_alphanumeric() || c == '_' || joins) {
            break;
        }
        end = i + c.len_utf8();
    }
    at + end
}

/// A variant, or a part, a slash and its variant: `'large files'/unix.p99`.
fn named(text: &str, at: usize, name: &str, name_end: usize) -> Result<(Token, usize), SpecError> {
    let Some(rest) = text[name_end..].strip_prefix('/') else {
        return measured(text, at, None, name, name_end);
    };
    let next = name_end + 1;
    let (variant, end) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted_name(text, next, quote)?,
        _ => {
            let end = word_end(text, next);
            (&text[next..end], end)
        }
    };
    if variant.is_empty() {
        return measured(text, at, None, name, name_end);
    }
    measured(text, at, Some(name), variant, end)
}

fn measured(
    text: &str,
    at: usize,
    part: Option<&str>,
    variant: &str,
    name_end: usize,
) -> Result<(Token, usize), SpecError> {
    let Some(rest) = text[name_end..].strip_prefix('.') else {
        // A metric of the only variant, which is resolved later.
        if part.is_none() && METRICS.contains(&&text[at..name_end]) {
            let token = Token::Measured {
                part: None,
                variant: String::new(),
                metric: variant.to_owned(),
                metric_span: at..name_end,
            };
            return Ok((token, name_end));
        }
        return Err(error(text, &(at..name_end), format!("'{variant}' needs a metric"))
            .help(format!("write {}.p99, for example", &text[at..name_end])));
    };
    let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let metric_span = name_end + 1..name_end + 1 + length;
    let token = Token::Measured {
        part: part.map(str::to_owned),
        variant: variant.to_owned(),
        metric: rest[..length].to_owned(),
        metric_span: metric_span.clone(),
    };
    Ok((token, metric_span.end))
}
