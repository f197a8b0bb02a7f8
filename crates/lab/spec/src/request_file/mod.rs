//! Files of requests: JSON lines, an access log, or a HAR, to kinds of request.

mod access_log;
mod har;
mod in_order;
mod json_lines;

use std::collections::BTreeMap;
use std::path::Path;

use base::Nanos;

use crate::error::SpecError;
use crate::requests::{Expect, HttpRequest, PathRequest, RequestKind};

pub use in_order::{LogEntry, LogReader, LogRequest};

/// Limits on kinds, each of which gets three probes and a row in reports; on requests; and on the cards
/// of a deck in which their proportions are exact.
const KINDS_MAX: usize = 1_000;
const REQUESTS_MAX: usize = 1_000_000;
const WEIGHTS_MAX: u64 = 1_000_000;

/// Kinds by path that a log or HAR may have before its paths are put together.
const PATHS_MAX: usize = 100;

/// What a file of requests contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFile {
    /// Its kinds of request.
    pub kinds: Vec<RequestKind>,
    /// Whether they are calls by gRPC, with JSON as their bodies.
    pub is_grpc: bool,
    /// What it has that cannot be sent, with its number: `requests whose body is not in the log`.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// What each request has unless the file says otherwise.
#[derive(Clone, Debug, Default)]
pub struct RequestDefaults {
    /// Method, headers and body.
    pub request: HttpRequest,
    /// The expected response.
    pub expect: Expect,
    /// How long the client waits, which servers of calls are told.
    pub timeout: Nanos,
}

/// Parses a file of requests; its first character and its lines show what it is. `read` reads the files
/// that it names.
///
/// # Errors
/// The position of what is wrong; too many kinds or requests; a file without any.
pub fn parse_requests(
    path: &str,
    text: &str,
    defaults: &RequestDefaults,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<RequestFile, SpecError> {
    let is_json = text.trim_start().starts_with('{');
    let file = match is_json.then(|| serde_json::from_str::<har::HarFile>(text)) {
        Some(Ok(har)) => har::requests(path, &har, defaults)?,
        _ if is_json => json_lines::requests(path, text, defaults, read)?,
        _ => access_log::requests(path, text, defaults)?,
    };
    check(path, &file.kinds)?;
    Ok(RequestFile { kinds: reduced(file.kinds), ..file })
}

fn check(path: &str, kinds: &[RequestKind]) -> Result<(), SpecError> {
    let requests: usize = kinds.iter().map(|kind| kind.requests.len()).sum();
    let weights: u64 = kinds.iter().map(|kind| u64::from(kind.weight)).sum();
    let too_many = |what: &str, limit: u64| {
        let message = format!("{path} has more than {limit} {what}");
        Err(SpecError::new(message).help("use a part of it"))
    };
    if kinds.is_empty() {
        return Err(SpecError::new(format!("there is no request in {path}")));
    }
    if kinds.len() > KINDS_MAX {
        return too_many("kinds of request", KINDS_MAX as u64);
    }
    if requests > REQUESTS_MAX {
        return too_many("requests", REQUESTS_MAX as u64);
    }
    if weights > WEIGHTS_MAX {
        let message = format!("the weights in {path} add up to more than {WEIGHTS_MAX}");
        return Err(SpecError::new(message).help("divide them by a common factor"));
    }
    Ok(())
}

/// The same proportions with the smallest weights.
fn reduced(mut kinds: Vec<RequestKind>) -> Vec<RequestKind> {
    let divisor = kinds.iter().fold(0, |divisor, kind| greatest_common(kind.weight, divisor));
    kinds.iter_mut().for_each(|kind| kind.weight /= divisor.max(1));
    kinds
}

/// The greatest common divisor, by Euclid's algorithm.
fn greatest_common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common(b, a % b) }
}

/// A request that was seen by another client, and the answer that it got.
#[derive(Clone, Debug)]
struct SeenRequest {
    request: PathRequest,
    status: u16,
}

impl SeenRequest {
    fn path(&self) -> &str {
        let path = &self.request.path;
        path.split('?').next().unwrap_or(path)
    }

    /// The status that the same request gets again; `None` if that depends on what the client has
    /// already.
    fn expected(&self) -> Option<u16> {
        (!matches!(self.status, 206 | 304)).then_some(self.status)
    }
}

/// Puts what was seen together to kinds: by method, path and status; if that gives too many, by the first
/// part of the path, or without it. Each kind's weight is the number of its requests.
fn kinds_of(seen: Vec<SeenRequest>, expect: &Expect) -> Vec<RequestKind> {
    let first_part = |one: &SeenRequest| {
        let rest = one.path().trim_start_matches('/');
        match rest.split_once('/') {
            Some((first, _)) => format!("/{first}/…"),
            None => format!("/{rest}"),
        }
    };
    let groupings: [&dyn Fn(&SeenRequest) -> String; 3] =
        [&|one| one.path().to_owned(), &first_part, &|_| "…".to_owned()];
    let mut kinds = Vec::new();
    for place in groupings {
        let mut groups: BTreeMap<(String, Option<u16>), Vec<PathRequest>> = BTreeMap::new();
        for one in &seen {
            let name = format!("{} {}", one.request.request.method, place(one));
            groups.entry((name, one.expected())).or_default().push(one.request.clone());
        }
        kinds = groups
            .into_iter()
            .map(|((name, status), requests)| RequestKind {
                name: match status {
                    Some(200) | None => name,
                    Some(status) => format!("{name} {status}"),
                },
                weight: requests.len() as u32,
                requests,
                expect: Expect { status: expect.status.or(status), ..expect.clone() },
                keep: Vec::new(),
            })
            .collect();
        if kinds.len() <= PATHS_MAX {
            break;
        }
    }
    // The most frequent ones first, as a reader expects.
    kinds.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    kinds
}

/// Whether a path can be sent as it is.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}

/// Whether a word can be a method or the name of a header (RFC 9110, 5.6.2).
pub(crate) fn is_token(word: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

#[cfg(test)]
mod tests;
