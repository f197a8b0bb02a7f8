//! The client's count against nginx's own access log, over TCP and over a Unix socket, with and without
//! TLS.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Place, assert_valid, eventually, free_port};

/// An nginx with one worker and an access log, stopped when the test ends.
struct Nginx(Child);

impl Nginx {
    fn start(place: &Place, listen: &str) -> Nginx {
        let server = format!(
            "server {{ listen {listen}; location / {{ return 200 'Hello World!'; }}\n\
             location /missing {{ return 404 'None.'; }} }}"
        );
        Nginx::with(place, "combined", &server)
    }

    /// With this format of its log, and this server.
    fn with(place: &Place, log_format: &str, server: &str) -> Nginx {
        let dir = place.dir.path().display();
        let root = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        place.write(
            "nginx.conf",
            &format!(
                "daemon off; {root} worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ log_format ids '$connection $uri $request_id $cookie_sid $http_x_token';\n\
                 access_log {dir}/access.log {log_format}; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;\n\
                 fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
                 keepalive_requests 1000000000;\n\
                 {server} }}\n"
            ),
        );
        let nginx = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let child = Command::new(nginx)
            .args(["-e", "stderr", "-c"])
            .arg(place.path("nginx.conf"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("nginx does not start ({error}); install it with: sudo apt install nginx")
            });
        Nginx(child)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

/// Loads nginx with `requests` and compares every count with the number of log lines.
fn ledger_against_the_log(
    listen: &str,
    url: &str,
    ready: impl Fn() -> bool,
    requests: u64,
    further: &[&str],
) -> serde_json::Value {
    let place = Place::new();
    make_certificate(&place);
    let here = |text: &str| text.replace("$DIR", &place.dir.path().display().to_string());
    let (listen, url) = (here(listen), here(url));
    let further: Vec<String> = further.iter().map(|text| here(text)).collect();
    let _nginx = Nginx::start(&place, &listen);
    let socket = place.path("s.sock");
    eventually("nginx's readiness", || {
        ready() || std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let by = format!("log={}", place.path("access.log").display());
    let count = requests.to_string();
    let mut args = vec!["load", "-n", &count, "--served-by", &by, "--json", &url];
    args.extend(further.iter().map(String::as_str));
    let json = place.run(&args).measured().json();
    assert_valid("load-2.json", &json);
    let column = |ledger: &str, name: &str| json[ledger][name].as_u64().unwrap();
    let lines = std::fs::read_to_string(place.path("access.log")).unwrap().lines().count();
    // Three probes before the requests, and some to learn whether the body varies.
    assert!((3..=303).contains(&column("warm_up", "sent")), "{}", json["warm_up"]);
    assert_eq!(lines as u64, column("warm_up", "completed") + column("ledger", "completed"));
    assert_eq!(column("ledger", "served"), column("ledger", "completed"));
    assert_eq!(column("ledger", "completed") + column("ledger", "failed"), requests);
    json
}

/// The same, where none may fail.
fn all_succeed(
    listen: &str,
    url: &str,
    ready: impl Fn() -> bool,
    requests: u64,
    further: &[&str],
) -> serde_json::Value {
    let json = ledger_against_the_log(listen, url, ready, requests, further);
    assert_eq!(json["ledger"]["completed"], requests, "{}", json["errors"]);
    assert_eq!(json["verdict"], "ok");
    json
}

/// Kinds of request with weights of 4, 3, 2 and 1.
const KINDS: &str = r#"{"path": "/", "weight": 4, "expect_status": 200, "check": "status"}
{"name": "item", "path": "/items/{{ id }}", "weight": 3, "data": "ids.csv", "expect_status": 200, "check": "status"}
{"method": "POST", "path": "/form", "weight": 2, "body": {"a": "b"}, "expect_status": 200, "check": "status"}
{"method": "HEAD", "path": "/missing", "expect_status": 404, "check": "status"}
"#;

/// The requests of each kind against the lines of nginx's log with its path.
fn kinds_against_the_log(protocol: &str, scheme: &str, further: &[&str]) {
    let place = Place::new();
    make_certificate(&place);
    place.write("kinds.jsonl", KINDS);
    place.write("ids.csv", "id\n1\n2\n3\n");
    let port = free_port();
    let dir = place.dir.path().display().to_string();
    let _nginx =
        Nginx::start(&place, &format!("127.0.0.1:{port}{}", protocol.replace("$DIR", &dir)));
    eventually("nginx's readiness", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let url = format!("{scheme}://127.0.0.1:{port}/");
    let mut args = vec!["load", "-n", "10000", "--request-file", "kinds.jsonl", "--json", &url];
    let further: Vec<String> = further.iter().map(|text| text.replace("$DIR", &dir)).collect();
    args.extend(further.iter().map(String::as_str));
    let json = place.run(&args).measured().json();
    assert_valid("load-2.json", &json);
    assert_eq!(json["ledger"]["completed"], 10_000, "{}", json["errors"]);
    let log = std::fs::read_to_string(place.path("access.log")).unwrap();
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count() as u64;
    let kinds = json["kinds"].as_array().unwrap();
    // Proportions are exact, and each kind had three probes.
    for (kind, (name, words, share)) in kinds.iter().zip([
        ("GET /", "\"GET / ", 4_000),
        ("item", "\"GET /items/", 3_000),
        ("POST /form", "\"POST /form ", 2_000),
        ("HEAD /missing", "\"HEAD /missing ", 1_000),
    ]) {
        assert_eq!((kind["name"].as_str(), &kind["completed"]), (Some(name), &share.into()));
        assert_eq!(lines(words), share + 3, "{name}");
    }
    for id in 1..=3 {
        assert_eq!(lines(&format!("\"GET /items/{id} ")), 1_001, "they take turns");
    }
    place.run(&["report"]).prints("HEAD /missing").prints("service time");
}

#[test]
fn each_kind_of_request_over_http_1() {
    kinds_against_the_log("", "http", &["--engine", "epoll"]);
    // Where the kernel has it, io_uring.
    kinds_against_the_log("", "http", &["--connections", "64"]);
}

#[test]
fn each_kind_of_request_with_tls_and_over_http_2() {
    kinds_against_the_log(WITH_TLS, "https", &["--insecure"]);
    kinds_against_the_log(" http2", "http", &["--http2", "--streams", "5"]);
}

#[test]
fn kept_connections_over_tcp() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    all_succeed(&format!("127.0.0.1:{port}"), &url, ready, 20_000, &[]);
}

#[test]
fn a_connection_per_request_over_tcp() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    all_succeed(&format!("127.0.0.1:{port}"), &url, ready, 20_000, &["--new-connection"]);
}

#[test]
fn kept_connections_over_a_unix_socket() {
    all_succeed("unix:$DIR/s.sock", "http://unix:$DIR/s.sock:/", || false, 20_000, &[]);
}

/// A key, and a certificate for localhost, in the place of a test.
pub(crate) fn make_certificate(place: &Place) {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(place.dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What makes nginx's server speak TLS, after its address.
const WITH_TLS: &str = " ssl; ssl_certificate $DIR/cert.pem; ssl_certificate_key $DIR/key.pem; \
                        ssl_session_tickets on";

#[test]
fn kept_connections_with_tls() {
    all_succeed(
        &format!("unix:$DIR/s.sock{WITH_TLS}"),
        "https://unix:$DIR/s.sock:/",
        || false,
        20_000,
        &["--cacert", "$DIR/cert.pem"],
    );
}

#[test]
fn new_connections_with_tls_and_with_sessions_that_are_resumed() {
    for (further, version, resumed) in [
        (&[][..], "ssl_protocols TLSv1.2", false),
        (&[], "ssl_protocols TLSv1.3", false),
        (&["--tls-resumption"], "ssl_protocols TLSv1.2", true),
        (&["--tls-resumption"], "ssl_protocols TLSv1.3", true),
    ] {
        let port = free_port();
        let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        let args = ["--new-connection", "--cacert", "$DIR/cert.pem"];
        let json = all_succeed(
            &format!("127.0.0.1:{port}{WITH_TLS}; {version}"),
            &format!("https://localhost:{port}/"),
            ready,
            1_000,
            &[&args[..], further].concat(),
        );
        let handshakes = &json["handshakes"];
        assert_eq!(handshakes["count"], 1_000);
        // A ticket of TLS 1.3 is for one connection, and may come later than the next one begins.
        let allowed = if resumed { 900..=1_000 } else { 0..=0 };
        assert!(allowed.contains(&handshakes["resumed"].as_u64().unwrap()), "{handshakes}");
        let version = version.replace("ssl_protocols TLSv", "TLS ");
        assert_eq!(handshakes["version"], version);
    }
}

#[test]
fn streams_with_and_without_tls() {
    for (listen, scheme, further) in [
        ("unix:$DIR/s.sock http2".to_owned(), "http", &["--http2", "--streams", "8"][..]),
        (
            format!("unix:$DIR/s.sock http2{WITH_TLS}"),
            "https",
            &["--http2", "--streams", "8", "--cacert", "$DIR/cert.pem"],
        ),
    ] {
        let url = format!("{scheme}://unix:$DIR/s.sock:/");
        let json = all_succeed(&listen, &url, || false, 20_000, further);
        assert_eq!(json["load"]["http"], "2");
        assert_eq!(
            (&json["load"]["connections"], &json["load"]["streams"]),
            (&10.into(), &8.into())
        );
    }
}

/// nginx announces the end of a connection after so many requests (GOAWAY), and does not process those
/// that were on their way.
#[test]
fn requests_that_a_goaway_leaves_undone_are_counted_as_that() {
    let listen = "unix:$DIR/s.sock http2; keepalive_requests 100";
    let url = "http://unix:$DIR/s.sock:/";
    let further = ["--http2", "--streams", "8"];
    let json = ledger_against_the_log(listen, url, || false, 20_000, &further);
    let errors = json["errors"].as_object().unwrap();
    let undone = errors.get("not processed before GOAWAY").map_or(0, |n| n.as_u64().unwrap());
    assert_eq!(json["ledger"]["failed"], undone, "{errors:?}");
    // At most the seven other streams of each of about 200 connections.
    assert!(undone <= 1_500, "{undone}");
    assert_eq!(errors.len(), usize::from(undone > 0));
}

#[test]
fn heads_have_no_body() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    all_succeed(&format!("127.0.0.1:{port}"), &url, ready, 20_000, &["--method", "HEAD"]);
}

/// nginx gives out its numbers of requests, and logs which ones come back on which connection.
#[test]
fn each_connection_sends_the_cookie_and_the_token_of_its_own_last_login() {
    for (protocol, flags) in [("", &[][..]), ("http2", &["--http2"][..])] {
        let place = Place::new();
        let port = free_port();
        let server = format!(
            "server {{ listen 127.0.0.1:{port} {protocol}; default_type application/json;\n\
             location /login {{ add_header Set-Cookie 'sid=$request_id; Path=/';\n\
             return 200 '{{\"user\": {{\"token\": \"$request_id\"}}}}'; }}\n\
             location /use {{ return 200 '{{}}'; }} }}"
        );
        let _nginx = Nginx::with(&place, "ids", &server);
        eventually("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        place.write(
            "kinds.jsonl",
            "{\"path\": \"/login\", \"keep\": {\"sid\": {\"cookie\": \"sid\"}, \"token\": {\"json\": \"/user/token\"}}}\n\
             {\"path\": \"/use\", \"weight\": 9, \"headers\": {\"Cookie\": \"sid={{ sid }}\", \"X-Token\": \"{{ token }}\"}}\n",
        );
        let url = format!("http://127.0.0.1:{port}/");
        let mut args = vec!["load", "-n", "2000", "-c", "8", "--request-file", "kinds.jsonl"];
        args.extend(flags.iter().chain(&["--json", &url]));
        let json = place.run(&args).measured().json();
        let log = std::fs::read_to_string(place.path("access.log")).unwrap();
        let column = |ledger: &str, name: &str| json[ledger][name].as_u64().unwrap();
        assert_eq!((column("ledger", "failed"), column("warm_up", "failed")), (0, 0));
        let completed = column("ledger", "completed") + column("warm_up", "completed");
        assert_eq!(log.lines().count() as u64, completed);
        let (mut own, mut given) = (BTreeMap::new(), BTreeSet::new());
        for line in log.lines() {
            let [connection, uri, id, sid, token] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            if uri == "/login" {
                own.insert(connection, id);
                given.insert(id);
                continue;
            }
            assert_eq!(sid, token, "both are of one response: {line}");
            match own.get(connection) {
                Some(own) => assert_eq!(sid, *own, "{line}"),
                // That of the probes.
                None => assert!(given.contains(sid), "{line}"),
            }
        }
        assert!(own.len() > 4, "{own:?}");
    }
}
