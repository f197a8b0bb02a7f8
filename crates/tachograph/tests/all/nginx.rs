//! The client's count against nginx's own access log, over TCP and over a Unix socket.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Place, eventually, free_port};

/// An nginx with one worker and an access log, stopped when the test ends.
struct Nginx(Child);

impl Nginx {
    fn start(place: &Place, listen: &str) -> Nginx {
        let dir = place.dir.path().display();
        let root = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        place.write(
            "nginx.conf",
            &format!(
                "daemon off; {root} worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ access_log {dir}/access.log; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;\n\
                 fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
                 keepalive_requests 1000000000;\n\
                 server {{ listen {listen}; location / {{ return 200 'Hello World!'; }} }} }}\n"
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
fn ledger_against_the_log(listen: &str, url: &str, ready: impl Fn() -> bool, further: &[&str]) {
    let place = Place::new();
    let listen = listen.replace("$DIR", &place.dir.path().display().to_string());
    let url = url.replace("$DIR", &place.dir.path().display().to_string());
    let _nginx = Nginx::start(&place, &listen);
    let socket = place.path("s.sock");
    eventually("nginx's readiness", || {
        ready() || std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let by = format!("log={}", place.path("access.log").display());
    let mut args = vec!["load", "-n", "20000", "--served-by", &by, "--json", &url];
    args.extend(further);
    let json = place.run(&args).status(0).json();
    assert_eq!(json["ledger"]["completed"], 20_000);
    assert_eq!(json["ledger"]["served"], 20_000);
    let lines = std::fs::read_to_string(place.path("access.log")).unwrap().lines().count();
    // Three probes before the twenty thousand requests, and some to learn whether the body varies.
    let before = json["warm_up"]["sent"].as_u64().unwrap();
    assert!((3..=303).contains(&before), "{before}");
    assert_eq!(lines as u64, before + 20_000);
}

#[test]
fn kept_connections_over_tcp() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    ledger_against_the_log(&format!("127.0.0.1:{port}"), &url, ready, &[]);
}

#[test]
fn a_connection_per_request_over_tcp() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    ledger_against_the_log(&format!("127.0.0.1:{port}"), &url, ready, &["--new-connection"]);
}

#[test]
fn kept_connections_over_a_unix_socket() {
    ledger_against_the_log("unix:$DIR/s.sock", "http://unix:$DIR/s.sock:/", || false, &[]);
}

#[test]
fn heads_have_no_body() {
    let port = free_port();
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let url = format!("http://127.0.0.1:{port}/");
    ledger_against_the_log(&format!("127.0.0.1:{port}"), &url, ready, &["--method", "HEAD"]);
}
