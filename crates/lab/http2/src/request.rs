//! The request that every stream sends.

use spec::HttpRequest;

use crate::hpack::{self, HeaderField, TABLE_BYTES};

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

/// The request, encoded once for all streams.
#[derive(Clone, Debug)]
pub struct Request {
    /// The block of a connection's first request; it fills the server's table.
    pub(crate) first: Vec<u8>,
    /// The block of its other requests.
    pub(crate) next: Vec<u8>,
    /// The block without a table.
    pub(crate) literal: Vec<u8>,
    /// The size of the table that the blocks need.
    pub(crate) table_bytes: usize,
    pub(crate) body: Vec<u8>,
    /// Whether the response has no body whatever its headers say.
    pub(crate) is_head: bool,
}

impl Request {
    /// Encodes a request. The user's headers replace default headers of the same name.
    pub fn new(request: &HttpRequest, scheme: &str, authority: &str, path: &str) -> Request {
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
        let table_bytes = hpack::sum_of_entries(&fields);
        let literal = hpack::literal(&fields);
        let (first, next) = match table_bytes <= TABLE_BYTES {
            true => (hpack::with_entries(&fields), hpack::with_indices(&fields)),
            false => (literal.clone(), literal.clone()),
        };
        let (body, is_head) = (request.body.clone(), request.method == "HEAD");
        Request { first, next, literal, table_bytes, body, is_head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    fn headers(request: &HttpRequest) -> String {
        let encoded = Request::new(request, "http", "localhost", "/x");
        let mut out = String::new();
        Decoder::default()
            .decode(&encoded.first, &mut |name, value| {
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
