//! `tachograph replay`: the same requests to two servers.

mod peer;

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Seed;
use peer::{Peer, Reply};
use rustix::process::Signal;
use serde_json::Value;

use crate::far;
use crate::support::{
    self, Ended, Place, TACHOGRAPH, assert_valid, eventually, free_port, marker, signal, wait,
};

/// A line of an access log.
fn line(request: &str, second: u64) -> String {
    format!("::1 - - [29/Nov/2026:10:00:{second:02} +0000] \"{request} HTTP/1.1\" 200 12\n")
}

/// A log of requests to `/0`, `/1`, ….
fn log(count: u64) -> String {
    (0..count).map(|at| line(&format!("GET /{at}"), 0)).collect()
}

fn fixture(flags: &str) -> String {
    format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {flags}")
}

/// The JSON of a replay whose counts add up.
#[track_caller]
fn sound(ended: &Ended) -> Value {
    let json = ended.json();
    assert_valid("replay-1.json", &json);
    assert_eq!(json["adds_up"], true, "{json:#}");
    json
}

/// A seed for a test's choices, which is shown if it fails.
fn seed() -> Seed {
    let given = std::env::var("TACHOGRAPH_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(Seed::from_time);
    #[allow(clippy::print_stdout, reason = "shown only if the test fails")]
    {
        println!("TACHOGRAPH_TEST_SEED={seed}");
    }
    seed
}

/// So many different numbers below a limit.
fn chosen(seed: Seed, count: usize, below: u64) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for draw in 0.. {
        let one = seed.derive("place", draw).0 % below;
        if !all.contains(&one) {
            all.push(one);
        }
        if all.len() == count {
            return all;
        }
    }
    unreachable!("there are enough numbers")
}

/// In what the answer of the second server differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Status,
    Header,
    Number,
    BigNumber,
    Member,
    Length,
    Bytes,
    Cookie,
}

impl Change {
    const ALL: [Change; 8] = [
        Change::Status,
        Change::Header,
        Change::Number,
        Change::BigNumber,
        Change::Member,
        Change::Length,
        Change::Bytes,
        Change::Cookie,
    ];

    /// Kind and place in the report.
    fn reported(self) -> String {
        match self {
            Change::Status => "status -",
            Change::Header => "header content-type",
            Change::Number => "json_value /items/*/n",
            Change::BigNumber => "json_value /id",
            Change::Member => "json_member /more",
            Change::Length => "json_length /items",
            Change::Bytes => "body -",
            Change::Cookie => "header set-cookie",
        }
        .to_owned()
    }

    /// The answer of the second server to the request of this number.
    fn answer(self, at: u64) -> Reply {
        let json = "Content-Type: application/json\r\n";
        let body = |items: &str, id: &str, more: &str| {
            format!("{{ \"items\" : [{items}],\n \"at\": {at}, \"id\": {id}{more} }}")
        };
        let (items, id) = (r#"{"n": 10e-1}, {"n":2 }"#, "9007199254740993.0");
        match self {
            Change::Status => Reply::of(500, json, "{}"),
            Change::Header => Reply::of(200, "Content-Type: text/plain\r\n", &body(items, id, "")),
            Change::Number => Reply::of(200, json, &body(r#"{"n":1},{"n":2.5}"#, id, "")),
            Change::BigNumber => Reply::of(200, json, &body(items, "9007199254740992", "")),
            Change::Member => Reply::of(200, json, &body(items, id, ", \"more\": null")),
            Change::Length => Reply::of(200, json, &body(r#"{"n":1}"#, id, "")),
            Change::Bytes => Reply::of(200, json, "{"),
            Change::Cookie => {
                Reply::of(200, &format!("{json}Set-Cookie: sid={at}\r\n"), &body(items, id, ""))
            }
        }
    }
}

/// The answer of the first server to the request of this number, and another form of the same one.
fn usual(at: u64) -> Reply {
    let body = format!(r#"{{"id":9007199254740993,"at":{at},"items":[{{"n":1}},{{"n":2}}]}}"#);
    Reply::of(200, "Content-Type: application/json\r\n", &body)
}

fn other_form(at: u64) -> Reply {
    let body = format!(
        "{{\n \"items\" : [ {{\"\\u006e\":1.0}} , {{\"n\":20e-1}} ],\n \"at\": {at}, \"id\": 9007199254740993.0 }}"
    );
    Reply::of(200, "Content-Type: application/json\r\nServer: other\r\n", &body)
}

fn number(path: &str) -> u64 {
    path.trim_start_matches('/').parse().unwrap()
}

/// A hundred differences of kinds and in places that a seed chooses are found among many answers, each
/// in its group, and no other. `xtask prove replay` says how many, a million by itself.
#[test]
fn a_hundred_differences_among_many_answers_are_found() {
    let count = std::env::var("TACHOGRAPH_TEST_REQUESTS").ok();
    let count: u64 = count.map_or(10_000, |count| count.parse().unwrap());
    let place = Place::new();
    place.write("access.log", &log(count));
    let seed = seed();
    let kind = |at: u64| Change::ALL[(seed.derive("kind", at).0 % 8) as usize];
    let changes: HashMap<u64, Change> =
        chosen(seed, 100, count).into_iter().map(|at| (at, kind(at))).collect();
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (at, change) in &changes {
        let (requests, line) = expected.entry(change.reported()).or_insert((0, u64::MAX));
        *requests += 1;
        *line = (*line).min(at + 1);
    }
    let old = Peer::start(|_, path| usual(number(path)));
    let new = Peer::start(move |_, path| {
        let at = number(path);
        changes.get(&at).map_or_else(|| other_form(at), |change| change.answer(at))
    });
    let mut command =
        place.command(&["replay", "access.log", &old.url, &new.url, "--json", "--timeout", "60s"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = wait(command.spawn().unwrap(), Duration::from_secs(1_800));
    let json = sound(ended.status(1));
    assert_eq!(json["state"], "done");
    assert_eq!((&json["asked"], &json["different"]), (&count.into(), &100.into()));
    assert_eq!(json["same"], count - 100);
    let groups = json["differences"].as_array().unwrap();
    let found: BTreeMap<String, (u64, u64)> = groups
        .iter()
        .map(|group| {
            let place = group["place"].as_str().unwrap_or("-");
            let kind = format!("{} {place}", group["kind"].as_str().unwrap());
            let line = group["example"]["line"].as_u64().unwrap();
            (kind, (group["requests"].as_u64().unwrap(), line))
        })
        .collect();
    // Where the type of a body is another one, its bytes are compared, and they differ in form.
    if let Some(headers) = expected.get("header content-type").copied() {
        let body = expected.entry("body -".to_owned()).or_insert((0, u64::MAX));
        *body = (body.0 + headers.0, body.1.min(headers.1));
    }
    assert_eq!(found, expected);
    assert_eq!((old.requests(), new.requests()), (count, count));
}

/// How a server fails.
#[derive(Clone, Copy)]
enum Trouble {
    Close,
    Part,
    Reset,
    Silence,
    Framing,
}

impl Trouble {
    const ALL: [Trouble; 5] =
        [Trouble::Close, Trouble::Part, Trouble::Reset, Trouble::Silence, Trouble::Framing];

    fn reply(self) -> Reply {
        match self {
            Trouble::Close => Reply::Close,
            Trouble::Part => {
                Reply::Part("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_owned())
            }
            Trouble::Reset => Reply::Reset,
            Trouble::Silence => Reply::Silence,
            Trouble::Framing => {
                let text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na";
                Reply::Part(text.to_owned())
            }
        }
    }

    fn cause(self) -> &'static str {
        match self {
            Trouble::Close => "closed before a response",
            Trouble::Part => "closed within a response",
            Trouble::Reset => "reset",
            Trouble::Silence => "timeout",
            Trouble::Framing => "bad framing",
        }
    }
}

#[test]
fn failures_are_counted_as_what_the_servers_did() {
    let place = Place::new();
    const COUNT: u64 = 2_000;
    place.write("access.log", &log(COUNT));
    let seed = seed();
    // Some places are troubles of both.
    let troubles = |side: &str| -> HashMap<u64, Trouble> {
        let own = chosen(seed.derive(side, 0), 30, COUNT);
        let both = chosen(seed.derive("both", 0), 5, COUNT);
        let trouble = |at: u64| Trouble::ALL[(seed.derive(side, 1 + at).0 % 5) as usize];
        own.into_iter().chain(both).map(|at| (at, trouble(at))).collect()
    };
    let (of_old, of_new) = (troubles("old"), troubles("new"));
    let both = of_old.keys().filter(|at| of_new.contains_key(at)).count() as u64;
    let (only_old, only_new) = (of_old.len() as u64 - both, of_new.len() as u64 - both);
    let causes = |troubles: &HashMap<u64, Trouble>| {
        let mut causes: BTreeMap<String, u64> = BTreeMap::new();
        for trouble in troubles.values() {
            *causes.entry(trouble.cause().to_owned()).or_default() += 1;
        }
        serde_json::json!(causes)
    };
    let (causes_of_old, causes_of_new) = (causes(&of_old), causes(&of_new));
    let server = |troubles: HashMap<u64, Trouble>| {
        Peer::start(move |_, path| match troubles.get(&number(path)) {
            Some(trouble) => trouble.reply(),
            None => Reply::of(200, "", path),
        })
    };
    let (old, new) = (server(of_old), server(of_new));
    let flags = ["-c", "20", "--timeout", "8s", "--json"];
    let ended = place.run(&[&["replay", "access.log", &old.url, &new.url], &flags[..]].concat());
    let json = sound(ended.status(1));
    let expected = serde_json::json!({"old": only_old, "new": only_new, "both": both});
    assert_eq!(json["failed"], expected);
    assert_eq!(json["same"], COUNT - only_old - only_new - both);
    assert_eq!(json["different"], 0);
    assert_eq!(json["old"]["errors"], causes_of_old);
    assert_eq!(json["new"]["errors"], causes_of_new);
    // Nothing is sent twice.
    assert_eq!((old.requests(), new.requests()), (COUNT, COUNT));
    let text =
        place.run(&["replay", "access.log", &old.url, &new.url, "--timeout", "1s", "-c", "40"]);
    text.status(1).prints("closed within a response").prints("requests failed.");
}

/// nginx with these locations, started by a command that names `$PORT`.
fn nginx(place: &Place, name: &str, locations: &str) -> String {
    let dir = place.dir.path().display();
    let root = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders: String =
        folders.iter().map(|kind| format!("{kind}_temp_path {dir}/{name}-{kind};\n")).collect();
    let conf = format!(
        "daemon off; {root} worker_processes 1; pid {dir}/{name}.pid; error_log {dir}/{name}-error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log {dir}/{name}.log; {folders}\n\
         server {{ listen 127.0.0.1:@PORT; default_type text/plain; {locations} }} }}\n"
    );
    place.write(&format!("{name}.template"), &conf);
    let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    format!(
        "sh -c 'sed s/@PORT/$PORT/ {dir}/{name}.template > {dir}/{name}.conf && exec {program} -e \
         stderr -c {dir}/{name}.conf'"
    )
}

#[test]
fn a_location_that_nginx_lacks_is_found_with_its_own_log() {
    let place = Place::new();
    let common = "location / { return 200 'Hello $uri'; }\n\
                  location = /moved { return 302 /there/; }\n\
                  location /data/ { default_type application/json; return 200 '{\"uri\": \"$uri\", \"v\": 1}'; }\n";
    let items = "location /items/ { return 200 'Item $uri'; }\n";
    let old = nginx(&place, "old", &format!("{common}{items}"));
    let new = nginx(&place, "new", &format!("{common}location /items/ {{ return 404; }}\n"));
    // A real run, whose log has its warm-up and calibration too.
    let kinds = "{\"path\": \"/\", \"weight\": 5}\n{\"path\": \"/moved\", \"weight\": 2}\n\
                 {\"path\": \"/items/7?full=1\", \"weight\": 3}\n{\"path\": \"/data/1\", \"method\": \"HEAD\"}\n\
                 {\"path\": \"/data/2\", \"weight\": 2}\n{\"path\": \"/form\", \"method\": \"POST\", \"body\": \"a=b\"}\n";
    place.write("kinds.jsonl", kinds);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/");
    let mut server = Command::new("sh")
        .args(["-c", &format!("export PORT={port}; exec {old}")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    eventually("nginx's readiness", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    place.run(&["load", "-n", "2600", "--request-file", "kinds.jsonl", &url]).measured();
    signal(server.id(), Signal::TERM);
    server.wait().unwrap();
    std::fs::rename(place.path("old.log"), place.path("real.log")).unwrap();
    let real = std::fs::read_to_string(place.path("real.log")).unwrap();
    let lines = |wanted: &str| real.lines().filter(|line| line.contains(wanted)).count() as u64;
    let (all, posts, of_items) = (real.lines().count() as u64, lines("\"POST "), lines(" /items/"));
    assert!(posts > 50 && of_items > 200 && all > 2600, "{all} {posts} {of_items}");
    let ended =
        place.run(&["replay", "real.log", &old, &new, "--json", "--export-markdown", "r.md"]);
    let json = sound(ended.status(1));
    assert_eq!(json["entries"], all);
    assert_eq!(json["left_out"]["requests whose body is not in the log"], posts);
    assert_eq!(json["asked"], all - posts);
    assert_eq!(json["different"], of_items);
    let groups = json["differences"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{groups:#?}");
    assert_eq!(groups[0]["sentence"], "status 200 → 404");
    assert_eq!(groups[0]["example"]["path"], "/items/7?full=1");
    // Both logged what they were sent.
    for log in ["old.log", "new.log"] {
        let text = std::fs::read_to_string(place.path(log)).unwrap();
        assert_eq!(text.lines().count() as u64, all - posts, "{log}");
    }
    let markdown = std::fs::read_to_string(place.path("r.md")).unwrap();
    assert!(markdown.contains("| status 200 → 404 | line "), "{markdown}");
    place.run(&["replay", "real.log", &old, &old]).status(0).prints("are the same.");
    assert!(place.leftovers().is_empty());
}

#[test]
fn the_order_of_the_log_is_kept_over_one_connection_and_methods_are_chosen() {
    let place = Place::new();
    let lines = "{\"path\": \"/a\", \"weight\": 3}\n{\"path\": \"/b\", \"method\": \"DELETE\"}\n\
                 {\"path\": \"/a\"}\n{\"path\": \"/c\", \"method\": \"HEAD\"}\n{\"path\": \"/{{ id }}\", \"data\": \"ids.csv\"}\n";
    place.write("log.jsonl", lines);
    place.write("ids.csv", "id\n9\n8\n");
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noting = seen.clone();
    let old = Peer::start(move |method, path| {
        noting.lock().unwrap().push(format!("{method} {path}"));
        Reply::of(200, "", if method == "HEAD" { "" } else { path })
    });
    let new =
        Peer::start(|method, path| Reply::of(200, "", if method == "HEAD" { "" } else { path }));
    let ended = place.run(&["replay", "log.jsonl", &old.url, &new.url, "-c", "1", "--json"]);
    let json = sound(ended.status(0));
    assert_eq!(
        (&json["entries"], &json["asked"], &json["same"]),
        (&6.into(), &5.into(), &5.into())
    );
    assert_eq!(json["left_out"]["requests with other methods than GET and HEAD"], 1);
    let taken = || std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(taken(), ["GET /a", "GET /a", "HEAD /c", "GET /9", "GET /8"]);
    // With other methods the order may matter, and is kept unless the user says otherwise.
    let ended = place.run(&["replay", "log.jsonl", &old.url, &new.url, "--unsafe-methods"]);
    ended.status(0).prints("6 requests of log.jsonl in ").prints("1 connection to each server");
    assert_eq!(taken(), ["GET /a", "DELETE /b", "GET /a", "HEAD /c", "GET /9", "GET /8"]);
}

#[test]
fn standard_input_sockets_and_https_work() {
    let place = Place::new();
    let tcp = fixture("--tls --body '{\"a\": 1}'");
    let unix =
        format!("{TACHOGRAPH} serve-fixture --tls --listen unix:$SOCKET --body '{{\"a\": 1}}'");
    let mut command = place.command(&["replay", "-", &tcp, &unix, "--https", "-k", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(log(500).as_bytes()).unwrap();
    let json = sound(wait(child, Duration::from_secs(120)).status(0));
    assert_eq!((&json["same"], &json["log"]), (&500.into(), &"standard input".into()));
    let untrusted = ["replay", "access.log", &tcp, &unix, "--https"];
    place.write("access.log", &log(1));
    place.run(&untrusted).status(2).says("old: cannot connect to https://127.0.0.1:");
    assert!(place.leftovers().is_empty());
}

#[test]
fn the_times_of_the_log_are_kept() {
    let place = Place::new();
    let lines = [line("GET /0", 0), line("GET /1", 0), line("GET /2", 2), line("GET /3", 4)];
    place.write("access.log", &lines.concat());
    let (old, new) =
        (Peer::start(|_, p| Reply::of(200, "", p)), Peer::start(|_, p| Reply::of(200, "", p)));
    let ended = place.run(&["replay", "access.log", &old.url, &new.url, "--speed", "4x", "--json"]);
    let json = sound(ended.status(0));
    assert!(json["elapsed_ns"].as_u64().unwrap() >= 1_000_000_000, "{}", json["elapsed_ns"]);
    assert_eq!((&json["speed"], &json["same"]), (&4.0.into(), &4.into()));
    place.write("log.jsonl", "{\"path\": \"/\"}\n");
    place
        .run(&["replay", "log.jsonl", &old.url, &new.url, "--speed", "1x"])
        .status(2)
        .says("line 1 of log.jsonl has no time; leave out --speed");
}

#[test]
fn ctrl_c_reports_what_was_compared() {
    let place = Place::new();
    place.write("access.log", &log(200_000));
    let old = Peer::start(|_, _| Reply::of(200, "", "Hello World!"));
    let new = fixture("");
    let args =
        ["replay", "access.log", &old.url, &new, "--ignore-header", "content-type", "--json"];
    let mut command = place.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a few requests", || old.requests() > 100);
    signal(child.id(), Signal::INT);
    let ended = wait(child, Duration::from_secs(60));
    let json = sound(ended.status(2).says("stopped before the end of the log"));
    assert_eq!(json["state"], "interrupted");
    let asked = json["asked"].as_u64().unwrap();
    assert!(asked > 100 && asked < 200_000, "{asked}");
    assert_eq!(json["same"], asked - json["in_flight"].as_u64().unwrap());
    eventually("nothing is left", || place.leftovers().is_empty());
}

#[test]
fn a_server_that_ends_ends_the_replay() {
    let place = Place::new();
    place.write("access.log", &log(200_000));
    let pid = place.path("pid");
    let mortal = format!("sh -c 'echo $$ > {}; exec {}'", pid.display(), fixture("--body x"));
    let old = Peer::start(move |_, path| {
        if path == "/500" {
            let pid = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            signal(pid, Signal::KILL);
        }
        Reply::of(200, "", "x")
    });
    let flags = ["--ignore-header", "content-type", "--json"];
    let ended = place.run(&[&["replay", "access.log", &old.url, &mortal], &flags[..]].concat());
    let json = sound(ended.status(1));
    assert_eq!(json["state"], "failed");
    assert!(json["error"].as_str().unwrap().starts_with("new: "), "{}", json["error"]);
    assert!(
        json["asked"].as_u64().unwrap() < 200_000 && json["failed"]["new"].as_u64().unwrap() > 0
    );
    assert!(place.leftovers().is_empty());
}

#[test]
fn what_cannot_be_replayed_is_said_with_what_to_do() {
    let place = Place::new();
    place.write("access.log", &log(3));
    place.write("posts.log", &line("POST /", 0));
    place.write("bad.jsonl", "{\"path\": \"/\"}\n{\"path\": 7}\n");
    place.write("empty.log", "");
    let server = Peer::start(|_, path| Reply::of(200, "", path));
    let (url, closed) = (server.url.as_str(), format!("http://127.0.0.1:{}/", free_port()));
    let with_path = format!("{url}a");
    for (args, words) in [
        (vec!["none.log", url, url], "cannot read none.log: No such file"),
        (vec!["bad.jsonl", url, url], "line 2 of bad.jsonl: not a request"),
        (vec!["posts.log", url, url], "nothing was compared: posts.log has no request"),
        (vec!["empty.log", url, url], "nothing was compared: empty.log has no request"),
        (vec!["access.log", url, &closed], "new: cannot connect to http://127.0.0.1:"),
        (vec!["access.log", &with_path, url], "leave out the URL's"),
        (vec!["access.log", url, "no-such-server $PORT"], "no-such-server"),
        (vec!["access.log", url, url, "--ignore", "a"], "'a' is not a JSON Pointer"),
        (vec!["access.log", url, url, "--speed", "0x"], "write a multiple such as 1x"),
        (vec!["access.log", url, url, "--https"], "a URL has its own scheme"),
        (vec!["access.log", url, url, "-k"], "the options of HTTPS have no meaning here"),
        (vec!["access.log", url], "required"),
    ] {
        let all = [vec!["replay"], args].concat();
        place.run(&all).status(2).says(words);
    }
    assert!(place.leftovers().is_empty());
}

#[test]
fn servers_on_another_machine_are_compared_from_here() {
    let (place, marker) = (Place::new(), marker("replay-on"));
    place.write("access.log", &log(200));
    let server =
        |body: &str| format!("{TACHOGRAPH} serve-fixture --listen tcp://$HOST:$PORT --body {body}");
    let replay_of = |log: &[&str], old: &str, new: &str| {
        let args = ["replay", "--on", "server", "--json"];
        let mut command = place.command(&[&args[..], log, &[old, new]].concat());
        far::here(&mut command, &place, &marker);
        place.finish(command)
    };
    let replay = |old: &str, new: &str| replay_of(&["access.log"], old, new);
    let same = replay(&server("a"), &server("a"));
    let json = sound(same.status(0));
    assert_eq!((&json["asked"], &json["same"]), (&200.into(), &200.into()));
    assert!(json["old"]["machine"] == "server", "{json:#}");
    let json = sound(replay(&server("a"), &server("b")).status(1));
    assert_eq!((&json["asked"], &json["different"]), (&200.into(), &200.into()));
    // One that ends in the middle.
    let slow: String = (0..50).map(|at| line(&format!("GET /{at}"), at / 10)).collect();
    place.write("slow.log", &slow);
    let ends = format!("sh -c '{} & sleep 2; kill $!'", server("a"));
    let json = sound(replay_of(&["--speed", "1x", "slow.log"], &server("a"), &ends).status(1));
    let error = json["error"].as_str().unwrap();
    assert!(error.starts_with("new: ") && json["same"].as_u64() > Some(0), "{json:#}");
    let refused = replay("http://127.0.0.1:1/", "http://127.0.0.1:1/");
    refused.status(2).says("none is started on server; leave out --on");
    replay("serve -b 127.0.0.1:$PORT", &server("a")).status(2).says("listens on a loopback");
    replay(&server("a"), "exit 3").status(2).says("new: on server: ");
    let folders = || {
        let far = std::fs::read_dir(place.path("far")).unwrap();
        let far: Vec<_> = far.map(|entry| entry.unwrap().path()).collect();
        [place.leftovers(), far].concat()
    };
    support::nothing_is_left(&marker, Duration::from_secs(60), folders);
}
