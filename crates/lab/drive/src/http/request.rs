//! A request as bytes.

use spec::HttpRequest;

/// The request as sent.
///
/// The user's headers replace default headers of the same name. With `new_connection` the server is
/// asked to close, so that its port waits in TIME_WAIT and not the client's.
pub fn request_bytes(
    request: &HttpRequest,
    authority: &str,
    path: &str,
    new_connection: bool,
) -> Vec<u8> {
    let mut out = format!("{} {path} HTTP/1.1\r\n", request.method).into_bytes();
    let mut line = |name: &str, value: &str| {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    };
    let own = |name: &str| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !own("host") {
        line("Host", authority);
    }
    if !own("user-agent") {
        line("User-Agent", concat!("tachograph/", env!("CARGO_PKG_VERSION")));
    }
    if new_connection && !own("connection") {
        line("Connection", "close");
    }
    let framed = own("content-length") || own("transfer-encoding");
    let body_is_meant = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    if !framed && (body_is_meant || !request.body.is_empty()) {
        line("Content-Length", &request.body.len().to_string());
    }
    for (name, value) in &request.headers {
        line(name, value);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&request.body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &HttpRequest, new_connection: bool) -> String {
        String::from_utf8(request_bytes(request, "localhost", "/x?y", new_connection)).unwrap()
    }

    #[test]
    fn a_plain_get() {
        assert_eq!(
            text(&HttpRequest::default(), false),
            "GET /x?y HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tachograph/0.1.0\r\n\r\n"
        );
    }

    #[test]
    fn a_connection_per_request_asks_the_server_to_close() {
        assert!(text(&HttpRequest::default(), true).contains("\r\nConnection: close\r\n"));
    }

    #[test]
    fn own_headers_replace_ours_and_a_body_is_framed() {
        let request = HttpRequest {
            method: "POST".into(),
            headers: vec![("host".into(), "example".into()), ("User-agent".into(), "me".into())],
            body: b"a=1".to_vec(),
        };
        assert_eq!(
            text(&request, false),
            "POST /x?y HTTP/1.1\r\nContent-Length: 3\r\nhost: example\r\nUser-agent: me\r\n\r\na=1"
        );
    }

    #[test]
    fn an_empty_post_has_a_length_and_the_users_length_wins() {
        let mut request = HttpRequest { method: "POST".into(), ..HttpRequest::default() };
        assert!(text(&request, false).contains("Content-Length: 0\r\n"));
        request.headers = vec![("Content-Length".into(), "7".into())];
        assert_eq!(text(&request, false).matches("Content-Length").count(), 1);
    }
}
