//! Requests over HTTP and the expected responses, one or several kinds in fixed proportions.

use serde::{Deserialize, Serialize};

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestKind {
    /// Its name in reports.
    pub name: String,
    /// Its share of all requests is its weight divided by the sum of weights; above zero.
    pub weight: u32,
    /// Its requests, which take turns; at least one.
    pub requests: Vec<PathRequest>,
    /// The expected response of all of them.
    pub expect: Expect,
    /// Values of their responses that later requests of the same connection use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<KeptValue>,
}

/// A value of a response, which later requests of the same connection use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptValue {
    /// Its number, which stands in the requests that use it; see [`PathRequest::filled`].
    pub number: usize,
    /// Its name in the file of requests.
    pub name: String,
    /// Where the response has it.
    pub source: ValueSource,
}

/// Where a response has a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueSource {
    /// In the header of this name.
    Header(String),
    /// In the cookie of this name that the response sets.
    Cookie(String),
    /// In the body, which is JSON: a text, a number, true or false at this pointer (RFC 6901).
    Json(String),
}

impl std::fmt::Display for ValueSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValueSource::Header(name) => write!(f, "header {name}"),
            ValueSource::Cookie(name) => write!(f, "cookie {name}"),
            ValueSource::Json(pointer) => write!(f, "JSON value {pointer}"),
        }
    }
}

/// A request with its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathRequest {
    /// Path and query.
    pub path: String,
    /// The rest.
    pub request: HttpRequest,
}

/// Begins and ends the number of a value within a request: a character that no text should contain,
/// because Unicode assigns it to no one.
pub(crate) const MARK: char = '\u{10fffd}';

/// The placeholder of a value in a request.
pub(crate) fn placeholder(number: usize) -> String {
    format!("{MARK}{number}{MARK}")
}

impl PathRequest {
    /// Whether it uses values of earlier responses.
    pub fn uses_values(&self) -> bool {
        let HttpRequest { headers, body, .. } = &self.request;
        let mark = MARK.to_string();
        self.path.contains(MARK)
            || headers.iter().any(|(_, value)| value.contains(MARK))
            || body.windows(mark.len()).any(|bytes| bytes == mark.as_bytes())
    }

    /// The request with values in the places of their numbers. In its path, what would end that is
    /// percent-encoded; elsewhere values stand as they are.
    pub fn filled<'v>(&self, value: impl Fn(usize) -> &'v str) -> PathRequest {
        let text = |text: &str| filled(text, |number| value(number).to_owned());
        let HttpRequest { method, headers, body } = &self.request;
        // A body without values may be anything.
        let body = match std::str::from_utf8(body) {
            Ok(body) => text(body).into_bytes(),
            Err(_) => body.clone(),
        };
        let header = |(name, value): &(String, String)| (name.clone(), text(value));
        let headers = headers.iter().map(header).collect();
        let request = HttpRequest { method: method.clone(), headers, body };
        let path = filled(&self.path, |number| in_path(value(number)));
        PathRequest { path, request }
    }
}

/// A text with values in the places of their numbers.
fn filled(text: &str, value: impl Fn(usize) -> String) -> String {
    let part = |(i, part): (usize, &str)| match part.parse() {
        Ok(number) if i % 2 == 1 => value(number),
        _ => part.to_owned(),
    };
    text.split(MARK).enumerate().map(part).collect()
}

/// A value as it can stand in a path (RFC 3986, 2.1).
fn in_path(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'!'..=b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// An HTTP request without its target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The method, in upper case.
    pub method: String,
    /// Headers as given, in order; they replace default headers of the same name.
    pub headers: Vec<(String, String)>,
    /// The body; if not empty, Content-Length is sent.
    pub body: Vec<u8>,
}

impl Default for HttpRequest {
    fn default() -> HttpRequest {
        HttpRequest { method: "GET".to_owned(), headers: Vec::new(), body: Vec::new() }
    }
}

/// The expected response. What is `None` is learned from the first responses: status and body must
/// then repeat exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// Expected status code.
    pub status: Option<u16>,
    /// Expected body.
    pub body: Option<Vec<u8>>,
    /// Expected length of the body.
    pub length: Option<u64>,
    /// What is compared with the first response; `None` for what does not vary while learning.
    pub check: Option<Check>,
}

impl Expect {
    /// Whether it says what of the body is compared, so that nothing is learned about it.
    pub fn says_what_to_compare(&self) -> bool {
        self.body.is_some() || self.length.is_some() || self.check.is_some()
    }
}

/// What of a response is compared, besides its framing. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Check {
    /// The status.
    Status,
    /// The length of the body.
    Length,
    /// Every byte of the body.
    Body,
}
