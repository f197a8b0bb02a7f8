//! `[load]`: the requests, in layers that override each other key by key.

use std::ops::Range;
use std::path::Path;

use base::{Bytes, Nanos};

use super::reader::{Scope, Table};
use crate::calls::{CallBodies, Calls, method_name};
use crate::error::SpecError;
use crate::load::{EngineChoice, Exchange, HttpVersion, Lines, Load};
use crate::request_file::{RequestDefaults, is_token, parse_requests};
use crate::requests::{Check, Expect, HttpRequest};

pub(super) const LOAD_KEYS: [&str; 31] = [
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
    "check",
    "lines",
    "series",
    "prefix",
    "interval",
    "insecure",
    "cacert",
    "cert",
    "key",
    "tls_resumption",
    "http",
    "streams",
    "requests",
    "events",
    "grpc",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Oneshot,
    Echo,
    Bulk,
    Lines,
}

const KINDS: [(&str, Kind); 5] = [
    ("http", Kind::Http),
    ("oneshot", Kind::Oneshot),
    ("echo", Kind::Echo),
    ("bulk", Kind::Bulk),
    ("lines", Kind::Lines),
];

const VERSIONS: [(&str, HttpVersion); 2] = [("1.1", HttpVersion::Http1), ("2", HttpVersion::Http2)];

const ENGINES: [(&str, EngineChoice); 3] = [
    ("auto", EngineChoice::Auto),
    ("epoll", EngineChoice::Epoll),
    ("io-uring", EngineChoice::IoUring),
];

const CHECKS: [(&str, Check); 3] =
    [("status", Check::Status), ("length", Check::Length), ("body", Check::Body)];

/// Reads the layers; later ones override earlier ones.
pub(super) fn load(layers: &[Table<'_>], scope: &Scope) -> Result<Load, SpecError> {
    let mut load = Load::default();
    let mut kind = Kind::Http;
    let mut request = HttpRequest::default();
    let mut expect = Expect::default();
    let (mut requests, mut called): (Option<String>, Option<String>) = (None, None);
    let mut size: Option<Bytes> = None;
    let mut chunk: Option<Bytes> = None;
    let mut lines = Lines {
        per_message: 20,
        series: 1_000,
        prefix: "load".to_owned(),
        interval: Nanos::from_secs(1),
    };
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
        requests = table.text("requests", scope)?.or(requests);
        called = table.text("grpc", scope)?.or(called);
        size = table.size("size", scope)?.or(size);
        chunk = table.size("chunk", scope)?.or(chunk);
        expect.status = status(table, scope)?.or(expect.status);
        expect.body = table.text("expect_body", scope)?.map(String::into_bytes).or(expect.body);
        expect.length = table.size("expect_length", scope)?.map(|size| size.0).or(expect.length);
        expect.check = table.choice("check", &CHECKS, scope)?.or(expect.check);
        set(&mut load.http, table.choice("http", &VERSIONS, scope)?);
        set(&mut load.streams, table.number("streams", scope)?);
        set(&mut load.events, table.flag("events")?);
        set(&mut load.tls.insecure, table.flag("insecure")?);
        set(&mut load.tls.resumption, table.flag("tls_resumption")?);
        for (key, file) in [
            ("cacert", &mut load.tls.cacert),
            ("cert", &mut load.tls.cert),
            ("key", &mut load.tls.key),
        ] {
            set(file, table.text(key, scope)?.map(|path| Some(path.into())));
        }
    }
    for table in layers {
        set(&mut lines.per_message, table.number("lines", scope)?);
        set(&mut lines.series, table.number("series", scope)?);
        set(&mut lines.prefix, table.text("prefix", scope)?);
        set(&mut lines.interval, table.time("interval", scope)?);
    }
    if let Some(text) = called {
        belongs("grpc", "http", kind == Kind::Http, layers)?;
        let method = method_name(&text);
        let method = method.map_err(|why| error_at("grpc", layers, why.message))?;
        for key in ["http", "method", "expect_status", "requests", "events"] {
            if last_span(key, layers).is_some() {
                return Err(error_at(key, layers, format!("{key} has no meaning beside grpc")));
            }
        }
        load.http = HttpVersion::Http2;
        load.grpc = Some(Calls { method: Some(method), bodies: CallBodies::Json });
        request = HttpRequest::call(request.headers, request.body, load.timeout);
        expect.status = Some(200);
    }
    check_numbers(&load, layers)?;
    check_streams(&load, kind, layers)?;
    load.connections = load.connections.saturating_mul(load.streams);
    load.exchange = match kind {
        Kind::Http => Exchange::Http(request),
        Kind::Oneshot => Exchange::Oneshot,
        Kind::Echo => Exchange::Echo { size: positive(size, "size", "echo", layers)? },
        Kind::Bulk => Exchange::Bulk { chunk: positive(chunk, "chunk", "bulk", layers)? },
        Kind::Lines => {
            check_lines(&lines, &load, layers)?;
            Exchange::Lines(lines)
        }
    };
    if load.tls.cert.is_some() != load.tls.key.is_some() {
        let given = if load.tls.cert.is_some() { "cert" } else { "key" };
        let message = "a client certificate needs both cert and key".to_owned();
        return Err(error_at(given, layers, message));
    }
    for key in ["lines", "series", "prefix", "interval"] {
        belongs(key, "lines", kind == Kind::Lines, layers)?;
    }
    if expect.check.is_some() && (expect.body.is_some() || expect.length.is_some()) {
        let message = "check says what to compare with the first responses, and expect_body and \
                       expect_length what to compare instead; leave out one of them";
        return Err(error_at("check", layers, message.to_owned()));
    }
    if expect.check.is_some() && !matches!(kind, Kind::Http | Kind::Oneshot) {
        let message = "check belongs to exchange = \"http\" and \"oneshot\"";
        return Err(error_at("check", layers, message.to_owned()));
    }
    for key in ["expect_body", "expect_length"] {
        if kind == Kind::Lines && last_span(key, layers).is_some() {
            let message = format!("exchange = \"lines\" has no response, so {key} has no meaning");
            return Err(error_at(key, layers, message));
        }
    }
    belongs("size", "echo", kind == Kind::Echo, layers)?;
    belongs("chunk", "bulk", kind == Kind::Bulk, layers)?;
    for key in ["method", "headers", "body", "expect_status"] {
        belongs(key, "http", kind == Kind::Http, layers)?;
    }
    belongs("requests", "http", kind == Kind::Http, layers)?;
    belongs("events", "http", kind == Kind::Http, layers)?;
    if let (Some(text), Exchange::Http(request)) = (&requests, &load.exchange) {
        let (request, timeout) = (request.clone(), load.timeout);
        let defaults = RequestDefaults { request, expect: expect.clone(), timeout };
        let read = |_: &Path| Err(std::io::ErrorKind::Unsupported.into());
        let file = parse_requests("requests", text, &defaults, &read)?;
        if file.is_grpc {
            load.http = HttpVersion::Http2;
            load.grpc = Some(Calls { method: None, bodies: CallBodies::Json });
        }
        load.kinds = file.kinds;
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

/// Checks the keys of HTTP/2.
fn check_streams(load: &Load, kind: Kind, layers: &[Table<'_>]) -> Result<(), SpecError> {
    let error = |key: &str, message: &str| Err(error_at(key, layers, message.to_owned()));
    if load.http == HttpVersion::Http2 && kind != Kind::Http {
        return error("http", "http belongs to exchange = \"http\"");
    }
    if !(1..=1_000).contains(&load.streams) {
        return error("streams", "streams must be from 1 to 1000");
    }
    if load.streams > 1 && load.http != HttpVersion::Http2 {
        return error("streams", "streams need http = \"2\"");
    }
    if load.streams > 1 && load.new_connection {
        return error("streams", "new_connection has one request on each connection");
    }
    Ok(())
}

/// Checks the keys of `exchange = "lines"`.
fn check_lines(lines: &Lines, load: &Load, layers: &[Table<'_>]) -> Result<(), SpecError> {
    let error = |key: &str, message: String| Err(error_at(key, layers, message));
    if lines.per_message == 0 {
        return error("lines", "lines must be at least 1: the number of lines in a message".into());
    }
    if lines.series < load.threads {
        return error(
            "series",
            format!("series must be at least {}, one per thread", load.threads),
        );
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if lines.prefix.is_empty() || !lines.prefix.chars().all(plain) {
        let message = "prefix must be letters, digits, '.', '-' and '_', such as \"load\"";
        return error("prefix", message.to_owned());
    }
    let second = Nanos::from_secs(1);
    if lines.interval < second
        || !lines.interval.0.is_multiple_of(second.0)
        || lines.interval > Lines::SPAN
    {
        let message = "interval must be whole seconds, from \"1s\" to \"20h\"".to_owned();
        return error("interval", message);
    }
    if lines.message_bytes() > Lines::MESSAGE_BYTES_MAX {
        let message = format!(
            "{} lines of {} bytes are more than fit into a datagram ({} bytes)",
            lines.per_message,
            lines.line_bytes(),
            Lines::MESSAGE_BYTES_MAX
        );
        return error("lines", message);
    }
    if load.engine == EngineChoice::IoUring {
        return error("engine", "exchange = \"lines\" needs engine = \"epoll\"".to_owned());
    }
    if load.new_connection {
        let message = "exchange = \"lines\" sends many messages over each connection";
        return error("new_connection", message.to_owned());
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
