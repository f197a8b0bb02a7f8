//! `[load]`: the requests, in layers that override each other key by key.

use std::ops::Range;

use base::{Bytes, Nanos};

use super::reader::{Scope, Table};
use crate::error::SpecError;
use crate::load::{EngineChoice, Exchange, Expect, HttpRequest, Load};

pub(super) const LOAD_KEYS: [&str; 16] = [
    "connections",
    "threads",
    "new_connection",
    "engine",
    "busy_poll",
    "linger_zero",
    "timeout",
    "exchange",
    "size",
    "chunk",
    "method",
    "headers",
    "body",
    "expect_status",
    "expect_body",
    "expect_length",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Oneshot,
    Echo,
    Bulk,
}

const KINDS: [(&str, Kind); 4] =
    [("http", Kind::Http), ("oneshot", Kind::Oneshot), ("echo", Kind::Echo), ("bulk", Kind::Bulk)];

const ENGINES: [(&str, EngineChoice); 3] = [
    ("auto", EngineChoice::Auto),
    ("epoll", EngineChoice::Epoll),
    ("io-uring", EngineChoice::IoUring),
];

/// Reads the layers; later ones override earlier ones.
pub(super) fn load(layers: &[Table<'_>], scope: &Scope) -> Result<Load, SpecError> {
    let mut load = Load::default();
    let mut kind = Kind::Http;
    let mut request = HttpRequest::default();
    let mut expect = Expect::default();
    let mut size: Option<Bytes> = None;
    let mut chunk: Option<Bytes> = None;
    for table in layers {
        set(&mut load.connections, table.number("connections", scope)?);
        set(&mut load.threads, table.number("threads", scope)?);
        set(&mut load.new_connection, table.flag("new_connection")?);
        set(&mut load.engine, table.choice("engine", &ENGINES, scope)?);
        set(&mut load.busy_poll, table.flag("busy_poll")?);
        set(&mut load.linger_zero, table.flag("linger_zero")?);
        set(&mut load.timeout, table.time("timeout", scope)?);
        set(&mut kind, table.choice("exchange", &KINDS, scope)?);
        set(&mut request.method, table.text("method", scope)?);
        set(&mut request.headers, headers(table)?);
        set(&mut request.body, table.text("body", scope)?.map(String::into_bytes));
        size = table.size("size", scope)?.or(size);
        chunk = table.size("chunk", scope)?.or(chunk);
        expect.status = status(table, scope)?.or(expect.status);
        expect.body = table.text("expect_body", scope)?.map(String::into_bytes).or(expect.body);
        expect.length = table.size("expect_length", scope)?.map(|size| size.0).or(expect.length);
    }
    check_numbers(&load, layers)?;
    load.exchange = match kind {
        Kind::Http => Exchange::Http(request),
        Kind::Oneshot => Exchange::Oneshot,
        Kind::Echo => Exchange::Echo { size: positive(size, "size", "echo", layers)? },
        Kind::Bulk => Exchange::Bulk { chunk: positive(chunk, "chunk", "bulk", layers)? },
    };
    belongs("size", "echo", kind == Kind::Echo, layers)?;
    belongs("chunk", "bulk", kind == Kind::Bulk, layers)?;
    for key in ["method", "headers", "body", "expect_status"] {
        belongs(key, "http", kind == Kind::Http, layers)?;
    }
    load.expect = expect;
    Ok(load)
}

fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// Where a key was last given, for errors.
fn last_span(key: &str, layers: &[Table<'_>]) -> Option<(Range<usize>, usize)> {
    layers
        .iter()
        .enumerate()
        .rev()
        .find_map(|(i, table)| table.get(key).map(|value| (value.span(), i)))
}

fn error_at(key: &str, layers: &[Table<'_>], message: String) -> SpecError {
    match last_span(key, layers) {
        Some((span, layer)) => layers[layer].source.error(span, message),
        None => SpecError::new(message),
    }
}

fn check_numbers(load: &Load, layers: &[Table<'_>]) -> Result<(), SpecError> {
    if load.connections == 0 {
        return Err(error_at("connections", layers, "connections must be at least 1".to_owned()));
    }
    if load.threads == 0 {
        return Err(error_at("threads", layers, "threads must be at least 1".to_owned()));
    }
    if load.threads > load.connections {
        let message = format!(
            "{} threads cannot share {} connections: each needs one",
            load.threads, load.connections
        );
        return Err(error_at("threads", layers, message));
    }
    if load.timeout == Nanos::ZERO {
        return Err(error_at("timeout", layers, "timeout must be greater than zero".to_owned()));
    }
    Ok(())
}

fn positive(
    given: Option<Bytes>,
    key: &str,
    exchange: &str,
    layers: &[Table<'_>],
) -> Result<Bytes, SpecError> {
    match given {
        Some(Bytes(0)) => Err(error_at(key, layers, format!("{key} must be at least 1 byte"))),
        Some(bytes) => Ok(bytes),
        None => {
            let message =
                format!("exchange = \"{exchange}\" needs a {key}, such as {key} = \"64KiB\"");
            Err(error_at("exchange", layers, message))
        }
    }
}

fn belongs(key: &str, exchange: &str, holds: bool, layers: &[Table<'_>]) -> Result<(), SpecError> {
    match last_span(key, layers) {
        Some(_) if !holds => {
            Err(error_at(key, layers, format!("{key} belongs to exchange = \"{exchange}\"")))
        }
        _ => Ok(()),
    }
}

fn status(table: &Table<'_>, scope: &Scope) -> Result<Option<u16>, SpecError> {
    match table.number("expect_status", scope)? {
        None => Ok(None),
        Some(status @ 200..=599) => Ok(Some(status as u16)),
        Some(status) => Err(error_at(
            "expect_status",
            std::slice::from_ref(table),
            format!("{status} is not a status code from 200 to 599"),
        )),
    }
}

fn headers(table: &Table<'_>) -> Result<Option<Vec<(String, String)>>, SpecError> {
    if table.get("headers").is_none() {
        return Ok(None);
    }
    let header = |(line, span): (String, Range<usize>)| match line.split_once(':') {
        Some((name, value)) if is_token(name) && !value.contains(['\r', '\n']) => {
            Ok((name.to_owned(), value.trim().to_owned()))
        }
        _ => Err(table.source.error(span, "a header is written as \"Name: value\"")),
    };
    table.words("headers")?.into_iter().map(header).collect::<Result<_, _>>().map(Some)
}

/// RFC 9110, 5.6.2: characters of a header name.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
