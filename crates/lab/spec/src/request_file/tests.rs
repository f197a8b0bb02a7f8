use std::io::{Error, ErrorKind};

use super::*;

fn parse(text: &str) -> Result<RequestFile, String> {
    let read = |path: &Path| match path.to_str() {
        Some("ids.csv") => Ok("id,name\n7,ann\n8,\"b, c\"\n".to_owned()),
        Some("empty.csv") => Ok("id\n".to_owned()),
        _ => Err(Error::from(ErrorKind::NotFound)),
    };
    let request = HttpRequest {
        headers: vec![("Accept".to_owned(), "*/*".to_owned())],
        ..HttpRequest::default()
    };
    let timeout = Nanos::from_secs(10);
    let defaults = RequestDefaults { request, expect: Expect::default(), timeout };
    parse_requests("requests", text, &defaults, &read).map_err(|error| error.to_string())
}

/// Name, weight and paths of each kind.
fn shown(file: &RequestFile) -> Vec<String> {
    let one = |kind: &RequestKind| {
        let paths: Vec<&str> = kind.requests.iter().map(|one| one.path.as_str()).collect();
        let status = kind.expect.status.map_or(String::new(), |status| format!(" -> {status}"));
        format!("{} x{}: {}{status}", kind.name, kind.weight, paths.join(" "))
    };
    file.kinds.iter().map(one).collect()
}

#[test]
fn a_line_of_json_is_a_kind_with_the_smallest_weights() {
    let file = parse(
        "{\"path\": \"/\", \"weight\": 30}\n\n\
         {\"name\": \"item\", \"path\": \"/items/{{ id }}\", \"weight\": 60, \"data\": \"ids.csv\", \"headers\": {\"accept\": \"text/html\", \"X-Name\": \"{{ name|upper }}\"}}\n\
         {\"method\": \"post\", \"path\": \"/items\", \"weight\": 10, \"body\": {\"n\": 1, \"t\": [\"a\"]}, \"expect_status\": 201, \"check\": \"status\"}\r\n",
    )
    .unwrap();
    assert_eq!(
        shown(&file),
        ["GET / x3: /", "item x6: /items/7 /items/8", "POST /items x1: /items -> 201"]
    );
    let headers = |kind: usize, one: usize| {
        let headers = &file.kinds[kind].requests[one].request.headers;
        headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    assert_eq!(headers(0, 0), ["Accept: */*"]);
    assert_eq!(headers(1, 1), ["X-Name: B, C", "accept: text/html"]);
    assert_eq!(headers(2, 0), ["Accept: */*", "Content-Type: application/json"]);
    assert_eq!(file.kinds[2].requests[0].request.body, b"{\"n\":1,\"t\":[\"a\"]}");
    assert_eq!(file.kinds[2].expect.check, Some(crate::Check::Status));
}

#[test]
fn values_of_a_row_do_not_break_a_json_body() {
    let line =
        "{\"path\": \"/\", \"data\": \"ids.csv\", \"body\": {\"who\": \"\\\"{{ name }}\\\"\"}}";
    let file = parse(line).unwrap();
    assert_eq!(file.kinds[0].requests[1].request.body, b"{\"who\":\"\\\"b, c\\\"\"}");
}

#[test]
fn lines_with_one_name_are_one_kind() {
    let file = parse(
        "{\"name\": \"a\", \"path\": \"/1\"}\n{\"name\": \"a\", \"path\": \"/2\"}\n{\"path\": \"/3\"}\n",
    )
    .unwrap();
    assert_eq!(shown(&file), ["a x2: /1 /2", "GET /3 x1: /3"]);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, words) in [
        ("{\"path\": \"x\"}", "'x' is not a path"),
        ("{\"path\": \"/a b\"}", "is not a path"),
        ("{\"path\": \"/\"}\n{\"pat\": \"/\"}", "requests:2:1"),
        ("{\"path\": \"/\", \"weight\": 0}", "a weight is at least 1"),
        ("{\"path\": \"/\", \"weight\": -1}", "not a request"),
        ("{\"path\": \"/\", \"expect_status\": 42}", "from 100 to 999"),
        ("{\"path\": \"/\", \"method\": \"a b\"}", "'A B' is not an HTTP method"),
        ("{\"path\": \"/{{ id }}\"}", "the template '/{{ id }}'"),
        ("{\"path\": \"/{{ nix }}\", \"data\": \"ids.csv\"}", "undefined"),
        ("{\"path\": \"/{{ id \", \"data\": \"ids.csv\"}", "the template"),
        ("{\"path\": \"/\", \"data\": \"no.csv\"}", "cannot read no.csv"),
        ("{\"path\": \"/\", \"data\": \"empty.csv\"}", "has no row"),
        ("{\"path\": \"/\", \"headers\": {\"A\": \"b\\nc\"}}", "'A' is not a header"),
        ("{\"path\": \"/\"}\n{\"path\": \"/\"}", "two different requests 'GET /'"),
        (
            "{\"name\": \"a\", \"path\": \"/1\", \"weight\": 2}\n{\"name\": \"a\", \"path\": \"/2\"}",
            "two different weights",
        ),
        ("{\"path\": \"/\", \"weight\": 2000000}", "add up to more than 1000000"),
        (
            "{\"name\": \"a\", \"path\": \"/1\", \"weight\": 4000000000}\n{\"name\": \"a\", \"path\": \"/2\", \"weight\": 4000000000}",
            "add up to more than 1000000",
        ),
        ("", "neither JSON lines"),
        ("hello\n", "neither JSON lines"),
        ("{\"log\": {\"entries\": []}}", "there is no request in requests"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

const LOG: &str = r#"127.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a?x=1 HTTP/1.1" 200 23
127.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a?x=2 HTTP/1.1" 200 24 "-" "curl/8"
127.0.0.1 - - [10/Oct/2026:13:55:37 +0000] "GET /b HTTP/1.1" 404 9
127.0.0.1 - - [10/Oct/2026:13:55:37 +0000] "GET /c HTTP/1.1" 304 0
127.0.0.1 - - [10/Oct/2026:13:55:38 +0000] "POST /a HTTP/1.1" 201 0
127.0.0.1 - - [10/Oct/2026:13:55:38 +0000] "GET /slow HTTP/1.1" 499 0
127.0.0.1 - - [10/Oct/2026:13:55:39 +0000] "-" 408 0
127.0.0.1 - - [10/Oct/2026:13:55:39 +0000] "HEAD /b HTTP/1.0" 200 0
"#;

#[test]
fn a_log_gives_kinds_in_its_proportions() {
    let file = parse(LOG).unwrap();
    assert_eq!(
        shown(&file),
        [
            "GET /a x2: /a?x=1 /a?x=2 -> 200",
            "GET /b 404 x1: /b -> 404",
            "GET /c x1: /c",
            "HEAD /b x1: /b -> 200",
        ]
    );
    let left_out: Vec<(&str, u64)> = file.left_out.iter().map(|(why, n)| (*why, *n)).collect();
    assert_eq!(
        left_out,
        [
            ("lines without a request and its status", 1),
            ("requests whose body is not in the log", 1),
            ("requests without an answer", 1),
        ]
    );
}

#[test]
fn many_paths_of_a_log_are_put_together() {
    let log = |paths: &dyn Fn(u32) -> String| {
        let line = |n| format!("- \"GET {} HTTP/1.1\" 200 1\n", paths(n));
        shown(&parse(&(0..150).map(line).collect::<String>()).unwrap())
            .iter()
            .map(|kind| kind.split(':').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        log(&|n| format!("/{}/{n}", if n % 3 == 0 { "users" } else { "items" })),
        ["GET /items/… x2", "GET /users/… x1"]
    );
    assert_eq!(log(&|n| format!("/{n}")), ["GET … x1"]);
}

#[test]
fn a_har_keeps_bodies_and_headers_of_its_first_host() {
    let entry = |method: &str, url: &str, status: u16, post: &str| {
        format!(
            "{{\"request\": {{\"method\": \"{method}\", \"url\": \"{url}\", \"headers\": [{{\"name\": \":path\", \"value\": \"/\"}}, {{\"name\": \"Host\", \"value\": \"h\"}}, {{\"name\": \"X-A\", \"value\": \"1\"}}, {{\"name\": \"accept\", \"value\": \"no\"}}]{post}}}, \"response\": {{\"status\": {status}}}}}"
        )
    };
    let entries = [
        entry("GET", "https://h.example/a?b#c", 200, ""),
        entry("GET", "https://other.example/x", 200, ""),
        entry("POST", "https://h.example/a", 201, ", \"postData\": {\"text\": \"hi\"}"),
        entry("GET", "https://h.example", 200, ""),
        entry("GET", "https://h.example/gone", 0, ""),
    ];
    let file = parse(&format!("{{\"log\": {{\"entries\": [{}]}}}}", entries.join(","))).unwrap();
    assert_eq!(
        shown(&file),
        ["GET / x1: / -> 200", "GET /a x1: /a?b -> 200", "POST /a 201 x1: /a -> 201"]
    );
    let post = &file.kinds[2].requests[0].request;
    assert_eq!(post.body, b"hi");
    let names: Vec<&str> = post.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Accept", "X-A"]);
    assert_eq!(file.left_out.len(), 2);
}

#[test]
fn a_line_may_call_a_method_by_grpc() {
    let file = parse(
        "{\"grpc\": \"a.B.C\", \"body\": {\"n\": \"{{ name }}\"}, \"data\": \"ids.csv\"}\n\
         {\"name\": \"d\", \"grpc\": \"a.B/D\", \"headers\": {\"x-a\": \"1\"}}\n",
    )
    .unwrap();
    assert!(file.is_grpc);
    assert_eq!(shown(&file), ["a.B/C x1: /a.B/C /a.B/C -> 200", "d x1: /a.B/D -> 200"]);
    let request = &file.kinds[0].requests[1].request;
    assert_eq!((request.method.as_str(), &request.body[..]), ("POST", &b"{\"n\":\"b, c\"}"[..]));
    let headers: Vec<String> = file.kinds[1].requests[0]
        .request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let own = ["te: trailers", "content-type: application/grpc", "grpc-timeout: 10S"];
    assert_eq!(headers, [&own[..], &["Accept: */*", "x-a: 1"]].concat());
    for (text, words) in [
        ("{\"grpc\": \"a.B/C\"}\n{\"path\": \"/\"}", "cannot be mixed"),
        ("{\"path\": \"/\"}\n{\"grpc\": \"a.B/C\"}", "cannot be mixed"),
        ("{\"grpc\": \"a.B/C\", \"path\": \"/\"}", "either a \"path\" or a \"grpc\""),
        ("{\"weight\": 1}", "either a \"path\" or a \"grpc\""),
        ("{\"grpc\": \"C\"}", "'C' is not a method of gRPC"),
        ("{\"grpc\": \"a.B/C\", \"method\": \"GET\"}", "neither a method of HTTP nor a status"),
        ("{\"grpc\": \"a.B/C\", \"expect_status\": 200}", "neither a method of HTTP nor a status"),
    ] {
        let refused = parse(text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn values_of_responses_are_filled_in_later() {
    let file = parse(
        "{\"name\": \"in\", \"path\": \"/in\", \"keep\": {\"sid\": {\"cookie\": \"s\"}, \"at\": {\"json\": \"/a/0\"}}}\n\
         {\"path\": \"/{{ id }}?a={{ at }}\", \"data\": \"ids.csv\", \"headers\": {\"Cookie\": \"s={{sid}}; n={{ name|upper }}\"}, \"body\": {\"at\": \"{{ at }}\"}}\n\
         {\"name\": \"on\", \"path\": \"/\", \"keep\": {\"at\": {\"header\": \"X-At\"}}}\n",
    )
    .unwrap();
    let kept = |kind: usize| {
        let one =
            |kept: &crate::KeptValue| format!("{} {}: {}", kept.number, kept.name, kept.source);
        file.kinds[kind].keep.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(kept(0), ["0 at: JSON value /a/0", "1 sid: cookie s"]);
    assert_eq!(kept(2), ["0 at: header X-At"], "the same value, from elsewhere");
    let uses = |kind: usize| file.kinds[kind].requests.iter().all(PathRequest::uses_values);
    assert_eq!([0, 1, 2].map(uses), [false, true, false]);
    let filled = file.kinds[1].requests[1].filled(|number| ["a b/\u{e9}", "{{ id }}"][number]);
    assert_eq!(filled.path, "/8?a=a%20b/%C3%A9");
    let cookie = ("Cookie".to_owned(), "s={{ id }}; n=B, C".to_owned());
    assert_eq!(filled.request.headers.last(), Some(&cookie));
    assert_eq!(filled.request.body, "{\"at\":\"a b/\u{e9}\"}".as_bytes());
    let plain = &file.kinds[0].requests[0];
    assert_eq!(plain.filled(|_| "x"), *plain);
    let keep = "\"keep\": {\"id\": {\"cookie\": \"s\"}}";
    for (text, words) in [
        (format!("{{\"path\": \"/{{{{ id }}}}\", {keep}}}"), "a line before this one keeps"),
        (
            format!("{{\"path\": \"/\", {keep}}}\n{{\"path\": \"/{{{{ id|upper }}}}\"}}"),
            "which stand alone: {{ name }}",
        ),
        (
            format!(
                "{{\"path\": \"/\", {keep}}}\n{{\"path\": \"/{{{{ id }}}}\", \"data\": \"ids.csv\"}}"
            ),
            "'id' is a column of the data and a value that is kept",
        ),
        (format!("{{\"grpc\": \"a.B/C\", {keep}}}"), "not of calls by gRPC"),
        (keep.replace("id", "a b"), "'a b' is not a name"),
        (keep.replace("cookie", "body"), "unknown variant `body`"),
        (keep.replace("\"s\"", "\"a=b\""), "is not the name of a header or cookie"),
        (keep.replace("cookie", "json"), "'s' is not a JSON pointer: it begins with /"),
        ("{\"path\": \"/\u{10fffd}\"}".to_owned(), "the character \\u{10fffd} cannot be sent"),
    ] {
        let text =
            if text.starts_with('{') { text } else { format!("{{\"path\": \"/\", {text}}}") };
        let refused = parse(&text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}
