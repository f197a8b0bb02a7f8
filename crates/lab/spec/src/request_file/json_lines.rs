//! One request a line, as JSON; with templates, one for each row of a CSV.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::{Environment, UndefinedBehavior};
use serde::Deserialize;
use serde_json::Value;

use super::{RequestDefaults, RequestFile, is_path, is_token};
use crate::calls::method_name;
use crate::error::SpecError;
use crate::requests::{Check, Expect, HttpRequest, PathRequest, RequestKind};

/// A line. What is missing is that of the command line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    name: Option<String>,
    method: Option<String>,
    path: Option<String>,
    grpc: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    weight: Option<u32>,
    expect_status: Option<u16>,
    expect_length: Option<u64>,
    expect_body: Option<String>,
    check: Option<CheckWord>,
    data: Option<PathBuf>,
}

/// What of the response is compared.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CheckWord {
    Status,
    Length,
    Body,
}

/// The columns of a row.
type Row = BTreeMap<String, String>;

pub(super) fn requests(
    path: &str,
    text: &str,
    defaults: &RequestDefaults,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<RequestFile, SpecError> {
    let mut kinds: Vec<RequestKind> = Vec::new();
    let (mut start, mut is_grpc) = (0, None);
    for line in text.split_inclusive('\n') {
        let span = start..start + line.trim_end().len();
        start += line.len();
        if line.trim().is_empty() {
            continue;
        }
        let error = |message: String| SpecError::new(message).at(path, text, span.clone());
        let parsed = parsed(line).map_err(error)?;
        let kind = kind(&parsed, defaults, read).map_err(error)?;
        if *is_grpc.get_or_insert(parsed.grpc.is_some()) != parsed.grpc.is_some() {
            let message = "requests over HTTP and calls by gRPC cannot be mixed";
            return Err(error(message.to_owned()));
        }
        match kinds.iter_mut().find(|known| known.name == kind.name) {
            None => kinds.push(kind),
            Some(known) if parsed.name.is_some() && known.expect == kind.expect => {
                let cross = |a: &RequestKind, b: &RequestKind| {
                    u64::from(a.weight) * b.requests.len() as u64
                };
                if cross(known, &kind) != cross(&kind, known) {
                    let message = format!("'{}' has two different weights", kind.name);
                    return Err(error(message));
                }
                known.weight = known.weight.saturating_add(kind.weight);
                known.requests.extend(kind.requests);
            }
            Some(_) => {
                let message = format!("there are two different requests '{}'", kind.name);
                return Err(error(message).help("give each its own \"name\""));
            }
        }
    }
    Ok(RequestFile { kinds, is_grpc: is_grpc == Some(true), ..RequestFile::default() })
}

/// The requests of a line: one, or one for each row of its data.
pub(super) fn requests_of_line(
    line: &str,
    defaults: &RequestDefaults,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Vec<PathRequest>, String> {
    Ok(kind(&parsed(line)?, defaults, read)?.requests)
}

fn parsed(line: &str) -> Result<RequestLine, String> {
    serde_json::from_str(line).map_err(|why| format!("not a request: {why}"))
}

fn kind(
    line: &RequestLine,
    defaults: &RequestDefaults,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<RequestKind, String> {
    let called = line.grpc.as_deref().map(method_name).transpose();
    let called = called.map_err(|error| error.message)?;
    let path = match (&line.path, &called) {
        (Some(path), None) => path.clone(),
        (None, Some(called)) => format!("/{called}"),
        _ => return Err("a line has either a \"path\" or a \"grpc\"".to_owned()),
    };
    if called.is_some() && (line.method.is_some() || line.expect_status.is_some()) {
        return Err("a call by gRPC has neither a method of HTTP nor a status of HTTP".to_owned());
    }
    let method = line.method.as_ref().unwrap_or(&defaults.request.method).to_ascii_uppercase();
    if !is_token(&method) {
        return Err(format!("'{method}' is not an HTTP method"));
    }
    let weight = line.weight.unwrap_or(1);
    if weight == 0 {
        return Err("a weight is at least 1".to_owned());
    }
    if line.expect_status.is_some_and(|status| !(100..=999).contains(&status)) {
        return Err("expect_status is a status from 100 to 999".to_owned());
    }
    let rows = match &line.data {
        None => vec![Row::new()],
        Some(path) => rows(path, read)?,
    };
    let requests = rows
        .iter()
        .map(|row| request(line, &path, &method, row, defaults))
        .collect::<Result<Vec<_>, _>>()?;
    let expect = &defaults.expect;
    let check = line.check.map(|word| match word {
        CheckWord::Status => Check::Status,
        CheckWord::Length => Check::Length,
        CheckWord::Body => Check::Body,
    });
    Ok(RequestKind {
        name: match (&line.name, called) {
            (Some(name), _) => name.trim().to_owned(),
            (None, Some(called)) => called,
            (None, None) => format!("{method} {path}"),
        },
        weight,
        requests,
        expect: Expect {
            status: line.grpc.as_ref().map(|_| 200).or(line.expect_status).or(expect.status),
            body: line.expect_body.clone().map(String::into_bytes).or_else(|| expect.body.clone()),
            length: line.expect_length.or(expect.length),
            check: check.or(expect.check),
        },
    })
}

fn rows(path: &Path, read: &dyn Fn(&Path) -> std::io::Result<String>) -> Result<Vec<Row>, String> {
    let shown = path.display();
    let text = read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<Vec<Row>, csv::Error>>();
    let rows = rows.map_err(|error| format!("{shown}: {error}"))?;
    if rows.is_empty() {
        return Err(format!("{shown} has no row below its header"));
    }
    Ok(rows)
}

fn request(
    line: &RequestLine,
    path: &str,
    method: &str,
    row: &Row,
    RequestDefaults { request: defaults, timeout, .. }: &RequestDefaults,
) -> Result<PathRequest, String> {
    let path = rendered(path, row)?;
    if !is_path(&path) {
        return Err(format!("'{path}' is not a path: it begins with / and has no spaces"));
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in &line.headers {
        let value = rendered(value, row)?;
        if !is_token(name) || value.contains(['\r', '\n', '\0']) {
            return Err(format!("'{name}' is not a header that can be sent"));
        }
        headers.push((name.clone(), value));
    }
    let is_given = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let others = defaults.headers.iter().filter(|(name, _)| !is_given(name));
    let mut all: Vec<(String, String)> = others.cloned().collect();
    let has_type = is_given("content-type")
        || all.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let body = match &line.body {
        None => defaults.body.clone(),
        Some(Value::String(text)) => rendered(text, row)?.into_bytes(),
        Some(value) => {
            if !has_type && line.grpc.is_none() {
                all.push(("Content-Type".to_owned(), "application/json".to_owned()));
            }
            rendered_values(value, row)?.to_string().into_bytes()
        }
    };
    all.extend(headers);
    let request = match line.grpc {
        Some(_) => HttpRequest::call(all, body, *timeout),
        None => HttpRequest { method: method.to_owned(), headers: all, body },
    };
    Ok(PathRequest { path, request })
}

/// A template with the columns of a row; what a row lacks is an error.
fn rendered(text: &str, row: &Row) -> Result<String, String> {
    if !text.contains("{{") && !text.contains("{%") {
        return Ok(text.to_owned());
    }
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.render_str(text, row).map_err(|error| format!("the template '{text}': {error}"))
}

/// A value in which every text is a template.
fn rendered_values(value: &Value, row: &Row) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(rendered(text, row)?),
        Value::Array(values) => {
            Value::Array(values.iter().map(|v| rendered_values(v, row)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let one = |(name, v): (&String, &Value)| Ok((name.clone(), rendered_values(v, row)?));
            Value::Object(fields.iter().map(one).collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
