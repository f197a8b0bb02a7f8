//! The requests that streams send.

use std::sync::Arc;

use spec::HttpRequest;

use crate::hpack::{self, CommonFields, HeaderField, TABLE_BYTES};

/// Headers that belong to a connection, or that HTTP/2 expresses otherwise (RFC 9113, 8.2.2 and 8.3.1).
const OF_CONNECTIONS: [&str; 7] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Requests, by number, encoded once for all streams.
#[derive(Clone, Debug)]
pub struct RequestSet {
    all: Arc<[Request]>,
    /// The size of the table that their blocks need.
    pub(crate) table_bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Request {
    /// The block if it is a connection's first request; it fills the server's table.
    pub(crate) first: Vec<u8>,
    /// The block if it is not.
    pub(crate) next: Vec<u8>,
    /// The block without a table.
    pub(crate) literal: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// Whether the response has no body whatever its headers say.
    pub(crate) is_head: bool,
    /// Whether the headers of the response are reported.
    pub(crate) asks_for_headers: bool,
}

impl Request {
    /// A request of its own, whose blocks neither use nor fill a table.
    fn literal(fields: &[HeaderField], request: &HttpRequest, asks_for_headers: bool) -> Request {
        Request {
            first: Vec::new(),
            next: Vec::new(),
            literal: hpack::literal(fields),
            body: request.body.clone(),
            is_head: request.method == "HEAD",
            asks_for_headers,
        }
    }

    /// Whether it neither uses nor fills a table.
    pub(crate) fn is_literal(&self) -> bool {
        self.first.is_empty()
    }

    /// The request that [`own_request`] has made bytes of.
    pub(crate) fn from_own(bytes: &[u8]) -> Option<Request> {
        let (flags, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (literal, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Request {
            first: Vec::new(),
            next: Vec::new(),
            literal: literal.to_vec(),
            body: body.to_vec(),
            is_head: flags & IS_HEAD != 0,
            asks_for_headers: flags & ASKS_FOR_HEADERS != 0,
        })
    }
}

/// Flags of a request of its own.
const IS_HEAD: u8 = 1;
const ASKS_FOR_HEADERS: u8 = 2;

/// A request that is in no set, as bytes for [`Wire::send_own`](netio::Wire::send_own) of an
/// [`Http2`](crate::Http2).
pub fn own_request(
    request: &HttpRequest,
    path: &str,
    scheme: &str,
    authority: &str,
    asks_for_headers: bool,
) -> Vec<u8> {
    let literal = hpack::literal(&fields(request, scheme, authority, path));
    let is_head = if request.method == "HEAD" { IS_HEAD } else { 0 };
    let mut out = vec![is_head | if asks_for_headers { ASKS_FOR_HEADERS } else { 0 }];
    out.extend_from_slice(&(literal.len() as u32).to_le_bytes());
    out.extend_from_slice(&literal);
    out.extend_from_slice(&request.body);
    out
}

impl RequestSet {
    /// Encodes requests, each with its path. The user's headers replace default headers of the same
    /// name.
    pub fn new(requests: &[(&HttpRequest, &str)], scheme: &str, authority: &str) -> RequestSet {
        RequestSet::asking(requests, scheme, authority, |_| false)
    }

    /// The same, where the headers of the responses to some requests, by number, are reported.
    pub fn asking(
        requests: &[(&HttpRequest, &str)],
        scheme: &str,
        authority: &str,
        asks_for_headers: impl Fn(usize) -> bool,
    ) -> RequestSet {
        let fields: Vec<Vec<HeaderField>> = requests
            .iter()
            .map(|(request, path)| fields(request, scheme, authority, path))
            .collect();
        let mut common = CommonFields::of(&fields);
        if common.table_bytes() > TABLE_BYTES {
            common = CommonFields::default();
        }
        let encode = |(number, fields): (usize, &Vec<HeaderField>)| Request {
            first: common.with_entries(fields),
            next: common.with_indices(fields),
            ..Request::literal(fields, requests[number].0, asks_for_headers(number))
        };
        let all = fields.iter().enumerate().map(encode).collect();
        RequestSet { all, table_bytes: common.table_bytes() }
    }

    pub(crate) fn number(&self, number: usize) -> &Request {
        &self.all[number]
    }
}

fn fields(request: &HttpRequest, scheme: &str, authority: &str, path: &str) -> Vec<HeaderField> {
    let own = |name: &str| {
        let mut all = request.headers.iter().rev();
        all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut fields: Vec<HeaderField> = vec![
        field(":method", &request.method),
        field(":scheme", scheme),
        field(":authority", own("host").unwrap_or(authority)),
        field(":path", path),
    ];
    let agent = concat!("tachograph/", env!("CARGO_PKG_VERSION"));
    if own("user-agent").is_none() {
        fields.push(field("user-agent", agent));
    }
    let body_is_meant = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    if body_is_meant || !request.body.is_empty() {
        fields.push(field("content-length", &request.body.len().to_string()));
    }
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        if !OF_CONNECTIONS.contains(&name.as_str()) {
            fields.push((name, value.clone()));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    fn headers(request: &HttpRequest) -> String {
        let encoded = RequestSet::new(&[(request, "/x")], "http", "localhost");
        let mut out = String::new();
        Decoder::default()
            .decode(&encoded.number(0).first, &mut |name, value| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                out += &format!("{}: {}\n", text(name), text(value));
            })
            .unwrap();
        out
    }

    #[test]
    fn a_plain_request_and_one_with_headers_and_a_body() {
        assert_eq!(
            headers(&HttpRequest::default()),
            ":method: GET\n:scheme: http\n:authority: localhost\n:path: /x\n\
             user-agent: tachograph/0.1.0\n"
        );
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = HttpRequest {
            method: "POST".into(),
            headers: vec![
                header("Host", "example.org"),
                header("Connection", "close"),
                header("User-Agent", "me"),
                header("X-A", "B"),
            ],
            body: b"abc".to_vec(),
        };
        assert_eq!(
            headers(&request),
            ":method: POST\n:scheme: http\n:authority: example.org\n:path: /x\n\
             content-length: 3\nuser-agent: me\nx-a: B\n"
        );
    }
}
