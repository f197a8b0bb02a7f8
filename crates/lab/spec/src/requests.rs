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
}

/// A request with its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathRequest {
    /// Path and query.
    pub path: String,
    /// The rest.
    pub request: HttpRequest,
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
