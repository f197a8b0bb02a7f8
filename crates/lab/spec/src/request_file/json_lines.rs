//! One request a line, as JSON; with templates, one for each row of a CSV.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::{Environment, UndefinedBehavior};
use serde::Deserialize;
use serde_json::Value;

use super::{RequestDefaults, RequestFile, is_path, is_token};
use crate::calls::method_name;
use crate::error::SpecError;
use crate::requests::{
    Check, Expect, HttpRequest, KeptValue, MARK, PathRequest, RequestKind, ValueSource, placeholder,
};

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
    #[serde(default)]
    keep: BTreeMap<String, ValueSource>,
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

/// Limit on values of responses, of which each connection has its own.
const VALUES_MAX: usize = 100;

/// The names of the values that lines so far have kept, by number.
#[derive(Debug, Default)]
struct ValueNames(Vec<String>);

impl ValueNames {
    /// The values that a line keeps.
    fn keep(&mut self, line: &RequestLine) -> Result<Vec<KeptValue>, String> {
        let mut kept = Vec::new();
        for (name, source) in &line.keep {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(format!("'{name}' is not a name: it has letters, digits and _"));
            }
            match source {
                ValueSource::Header(header) | ValueSource::Cookie(header) if !is_token(header) => {
                    return Err(format!("'{header}' is not the name of a header or cookie"));
                }
                ValueSource::Json(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
                    return Err(format!("'{pointer}' is not a JSON pointer: it begins with /"));
                }
                _ => {}
            }
            let known = self.0.iter().position(|known| known == name);
            let number = known.unwrap_or(self.0.len());
            if known.is_none() {
                self.0.push(name.clone());
            }
            kept.push(KeptValue { number, name: name.clone(), source: source.clone() });
        }
        if self.0.len() > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values are kept"));
        }
        Ok(kept)
    }

    /// A template in which placeholders stand for the values. They are unknown to what renders
    /// templates, so nothing else can be made of them there.
    fn hold_places(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, from)) = rest.split_once("{{")
            && let Some((inside, after)) = from.split_once("}}")
        {
            out.push_str(before);
            match self.0.iter().position(|name| name == inside.trim()) {
                Some(number) => out.push_str(&placeholder(number)),
                None => out.push_str(&rest[before.len()..rest.len() - after.len()]),
            }
            rest = after;
        }
        out + rest
    }
}

pub(super) fn requests(
    path: &str,
    text: &str,
    defaults: &RequestDefaults,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<RequestFile, SpecError> {
    let mut kinds: Vec<RequestKind> = Vec::new();
    let (mut start, mut is_grpc, mut values) = (0, None, ValueNames::default());
    for line in text.split_inclusive('\n') {
        let span = start..start + line.trim_end().len();
        start += line.len();
        if line.trim().is_empty() {
            continue;
        }
        let error = |message: String| SpecError::new(message).at(path, text, span.clone());
        let parsed = parsed(line).map_err(error)?;
        let mut kind = kind(&parsed, &values, defaults, read).map_err(error)?;
        kind.keep = values.keep(&parsed).map_err(error)?;
        if *is_grpc.get_or_insert(parsed.grpc.is_some()) != parsed.grpc.is_some() {
            let message = "requests over HTTP and calls by gRPC cannot be mixed";
            return Err(error(message.to_owned()));
        }
        match kinds.iter_mut().find(|known| known.name == kind.name) {
            None => kinds.push(kind),
            Some(known)
                if parsed.name.is_some()
                    && (&known.expect, &known.keep) == (&kind.expect, &kind.keep) =>
            {
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
    let parsed = parsed(line)?;
    if !parsed.keep.is_empty() {
        return Err("a replay keeps no values of answers; leave out \"keep\"".to_owned());
    }
    Ok(kind(&parsed, &ValueNames::default(), defaults, read)?.requests)
}

fn parsed(line: &str) -> Result<RequestLine, String> {
    if line.contains(MARK) {
        return Err(format!("the character {} cannot be sent", MARK.escape_unicode()));
    }
    serde_json::from_str(line).map_err(|why| format!("not a request: {why}"))
}

/// The kind of request of a line, which may use these values; what it keeps is left out.
fn kind(
    line: &RequestLine,
    values: &ValueNames,
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
    if called.is_some() && !line.keep.is_empty() {
        return Err("values are kept of responses over HTTP, not of calls by gRPC".to_owned());
    }
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
        .map(|row| request(line, &path, &method, &Template { values, row }, defaults))
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
        keep: Vec::new(),
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
    known: &Template<'_>,
    RequestDefaults { request: defaults, timeout, .. }: &RequestDefaults,
) -> Result<PathRequest, String> {
    let path = known.rendered(path)?;
    if !is_path(&path) {
        return Err(format!("'{path}' is not a path: it begins with / and has no spaces"));
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in &line.headers {
        let value = known.rendered(value)?;
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
        Some(Value::String(text)) => known.rendered(text)?.into_bytes(),
        Some(value) => {
            if !has_type && line.grpc.is_none() {
                all.push(("Content-Type".to_owned(), "application/json".to_owned()));
            }
            known.rendered_values(value)?.to_string().into_bytes()
        }
    };
    all.extend(headers);
    let request = match line.grpc {
        Some(_) => HttpRequest::call(all, body, *timeout),
        None => HttpRequest { method: method.to_owned(), headers: all, body },
    };
    Ok(PathRequest { path, request })
}

/// What the templates of a line may contain.
struct Template<'a> {
    values: &'a ValueNames,
    row: &'a Row,
}

impl Template<'_> {
    /// A template with the columns of a row; what a row lacks is an error.
    fn rendered(&self, text: &str) -> Result<String, String> {
        if !text.contains("{{") && !text.contains("{%") {
            return Ok(text.to_owned());
        }
        if let Some(name) = self.values.0.iter().find(|name| self.row.contains_key(*name)) {
            return Err(format!("'{name}' is a column of the data and a value that is kept"));
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let rendered = environment.render_str(&self.values.hold_places(text), self.row);
        rendered.map_err(|error| {
            format!(
                "the template '{text}': {error}; names are columns of \"data\", and values that a \
                 line before this one keeps, which stand alone: {{{{ name }}}}"
            )
        })
    }

    /// A value in which every text is a template.
    fn rendered_values(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.rendered(text)?),
            Value::Array(values) => {
                let each = values.iter().map(|value| self.rendered_values(value));
                Value::Array(each.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let one = |(name, value): (&String, &Value)| {
                    Ok((name.clone(), self.rendered_values(value)?))
                };
                Value::Object(fields.iter().map(one).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }
}
