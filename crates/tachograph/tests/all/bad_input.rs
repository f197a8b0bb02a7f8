//! Bad input gives one clear message and status 2, and leaves nothing behind.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Place, Server, free_port};

#[test]
fn an_unknown_option_is_named() {
    Place::new().run(&["load", "--connexions", "3"]).status(2).says("--connexions");
}

#[test]
fn a_refused_connection_says_where_and_what_to_do() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let ended = Place::new().run(&["load", &url]);
    ended.status(2).says("127.0.0.1").says("refused");
    assert_eq!(ended.err.trim().lines().count(), 1, "{}", ended.err);
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let ended = Place::new().run(&["load", "http://unix:/nowhere/app.sock:/"]);
    ended.status(2).says("/nowhere/app.sock");
}

#[test]
fn a_socket_path_that_is_too_long_is_refused() {
    let path = format!("http://unix:/{}:/", "x".repeat(120));
    Place::new().run(&["load", &path]).status(2).says("107");
}

#[test]
fn options_of_https_need_https() {
    let place = Place::new();
    place
        .run(&["load", "--insecure", "http://127.0.0.1/"])
        .status(2)
        .says("the options of HTTPS have no meaning here; write https:// in the target");
    place
        .run(&["compare", "--insecure", "a $PORT", "b $PORT"])
        .status(2)
        .says("the options of HTTPS have no meaning here")
        .says("add --https if the servers speak it");
    place
        .run(&["compare", "--https", "http://127.0.0.1:1/", "http://127.0.0.1:2/"])
        .status(2)
        .says("--https is for commands; a URL has its own scheme");
    place.run(&["load", "--cert", "x.pem", "https://localhost/"]).status(2).says("--key");
    let missing = ["load", "--cacert", "missing.pem", "https://localhost/"];
    place.run(&missing).status(2).says("cannot read missing.pem: No such file or directory");
}

#[test]
fn a_raw_target_needs_an_exchange() {
    Place::new().run(&["load", "tcp://127.0.0.1:9"]).status(2).says("--exchange");
}

#[test]
fn a_server_that_never_answers_times_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let ended = Place::new().run(&["load", "--timeout", "300ms", "-d", "1s", &url]);
    drop(listener);
    ended.status(2).says("300 ms");
}

#[test]
fn a_command_that_is_not_found_is_named() {
    let place = Place::new();
    let ended = place.run(&[
        "compare",
        "--quick",
        "no-such-server --port $PORT",
        "no-such-server --unix $SOCKET",
    ]);
    ended.status(2).says("no-such-server");
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_server_that_stops_at_once_shows_its_last_words() {
    let place = Place::new();
    let dies = "sh -c 'echo I lost my configuration >&2; exit 3' $PORT";
    let ended = place.run(&["compare", "--quick", dies, dies, "-n", "a", "-n", "b"]);
    ended.status(2);
    let text = format!("{}{}", ended.out, ended.err);
    assert!(text.contains("I lost my configuration"), "{text}");
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_server_that_is_never_ready_is_given_up() {
    let place = Place::new();
    let ended = place.run(&[
        "compare",
        "--quick",
        "--ready-timeout",
        "500ms",
        "sleep 1000 $PORT",
        "sleep 1001 $PORT",
    ]);
    ended.status(2);
    let text = format!("{}{}", ended.out, ended.err);
    assert!(text.contains("500 ms"), "{text}");
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_malformed_experiment_shows_line_and_column() {
    let place = Place::new();
    place.write("broken.toml", "[experiment]\nname = \"broken\"\ntitel = \"Broken\"\n");
    place.run(&["run", "./broken.toml"]).status(2).says("broken.toml:3:1").says("title");
}

#[test]
fn a_missing_experiment_is_reported() {
    Place::new().run(&["run", "raw-sokets"]).status(2).says("raw-sockets");
}

#[test]
fn an_unwritable_record_is_reported() {
    let (_server, url) = Server::http(&[]);
    let ended = Place::new().run(&["load", "-n", "10", "--record", "/proc/nowhere/r.sqlite", &url]);
    ended.status(2).says("/proc/nowhere");
}

#[test]
fn a_full_disk_is_reported() {
    let (_server, url) = Server::http(&[]);
    let ended = Place::new().run(&["load", "-n", "10", "--export-json=/dev/full", &url]);
    ended.status(2).says("/dev/full");
}

#[test]
fn one_command_is_not_a_comparison() {
    Place::new().run(&["compare", "server $PORT"]).status(2).says("load");
}

#[test]
fn a_threshold_that_cannot_be_read_is_shown() {
    let ended = Place::new().run(&["compare", "a $PORT", "b $PORT", "--fail-if", "b.p99 >> 3"]);
    ended.status(2).says("b.p99 >> 3");
}

#[test]
fn output_that_a_full_disk_did_not_take_was_lost_without_a_word() {
    let (_server, url) = Server::http(&[]);
    let place = Place::new();
    let load = ["load", "-n", "10", &url, "--export-csv", "load.csv"];
    let json = [&load[..], &["--json"]].concat();
    let to_stdout = ["load", "-n", "10", &url, "--export-markdown", "-"];
    for args in [
        &load[..],
        &json,
        &to_stdout,
        &["report", "last", "--html", "-"],
        &["list"],
        &["series"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["load", "--help"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = place.command(args).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {err}");
        let words = "error: cannot write to standard output: No space left on device (os error 28)";
        assert!(err.contains(words), "{args:?}: {err}");
    }
    assert!(std::fs::read_to_string(place.path("load.csv")).unwrap().starts_with("run,part,"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    for args in [&["list"][..], &["--help"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.command(args);
        let ended = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}
