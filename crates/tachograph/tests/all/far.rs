//! Stacks and clients on other machines. The other machines are this one, reached through a program
//! that stands in for ssh, or an agent at the other end of two pipes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    self, Ended, Place, TACHOGRAPH, adds_up, assert_valid, eventually, marker,
    processes_with_environment, signal, wait,
};

/// A server that other machines can reach, if there are any.
fn server() -> String {
    format!("{TACHOGRAPH} serve-fixture --listen tcp://$HOST:$PORT --served-file $DIR/tally")
}

/// A command whose ssh runs everything on this machine, with temporary files of its own and our
/// binary on its PATH. All its processes have `marker` in their environment.
fn command(place: &Place, marker: &str, args: &[&str]) -> Command {
    let far = place.path("far");
    std::fs::create_dir_all(&far).unwrap();
    let ssh = place.write(
        "ssh",
        &format!(
            "#!/bin/sh\nfor last; do :; done\nexport TMPDIR={} PATH={}:$PATH\nexec sh -c \"$last\"\n",
            far.display(),
            Path::new(TACHOGRAPH).parent().unwrap().display()
        ),
    );
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command(args);
    command.env("TACHOGRAPH_SSH", &ssh).env("TACHOGRAPH_TEST_MARKER", marker);
    command.env_remove("SSH_CONNECTION");
    command
}

fn compare(place: &Place, marker: &str, further: &[&str]) -> Ended {
    let server = server();
    let args = ["compare", "--quick", "--max-time", "4s", "--served-by", "counter_file=$DIR/tally"];
    let commands = ["-n", "a", "-n", "b", &server, &server];
    place.finish(command(place, marker, &[&args[..], further, &commands].concat()))
}

/// No process of a test's commands is left, and no folder of theirs at either end.
#[track_caller]
fn nothing_is_left(place: &Place, marker: &str, limit: Duration) {
    let folders = || {
        let far = std::fs::read_dir(place.path("far")).unwrap();
        let far: Vec<_> = far.map(|entry| entry.unwrap().path()).collect();
        [place.leftovers(), far].concat()
    };
    support::nothing_is_left(marker, limit, folders);
}

#[test]
fn a_comparison_on_another_machine_adds_up_and_leaves_nothing() {
    let (place, marker) = (Place::new(), marker("on"));
    let ended = compare(&place, &marker, &["--on", "user@server", "--json"]);
    let json = ended.json();
    ended.measured();
    adds_up(&json);
    let layout = &json["parts"][0]["layout"];
    let places = layout["machines"].as_array().unwrap();
    assert_eq!(places.len(), 2, "{layout:#}");
    assert_eq!(
        (&places[0]["name"], &places[0]["is_client"]),
        (&serde_json::Value::Null, &true.into())
    );
    assert_eq!(places[1]["name"], "user@server");
    assert_eq!(places[1]["stacks"], serde_json::json!(["a", "b"]));
    assert!(places[1]["clock"]["error_ns"].as_u64().unwrap() > 0, "{layout:#}");
    assert_eq!(layout["apart"], false, "both are the same machine: {layout:#}");
    let cpu = &json["variants"][0]["cpu_ns_per_request"];
    assert!(cpu.as_u64().unwrap() > 0, "{cpu:#}");
    place.run(&["report", "last"]).prints("stack on user@server").prints("its clock is ");
    place.run(&["report", "last", "--html"]).prints("user@server: stacks of a and b");
    nothing_is_left(&place, &marker, Duration::from_secs(60));
    assert_valid("compare-2.json", &json);
}

#[test]
fn several_clients_load_at_once_and_their_counts_are_merged() {
    let (place, marker) = (Place::new(), marker("from"));
    let from = ["--on", "server", "--from", "client1", "--from", "client2", "--from", "client3"];
    let ended = compare(&place, &marker, &[&from[..], &["--json"]].concat());
    let json = ended.json();
    adds_up(&json);
    let layout = &json["parts"][0]["layout"];
    let clients = layout["machines"].as_array().unwrap().iter();
    let clients: Vec<_> = clients.filter(|place| place["is_client"] == true).collect();
    assert_eq!(clients.len(), 3, "{layout:#}");
    assert!(layout["clients_apart_ns"].is_u64(), "{layout:#}");
    assert_eq!(json["parts"][0]["load"]["connections"], 10, "they share the connections");
    place.run(&["report", "last"]).prints("clients on client1").prints("of each other");
    nothing_is_left(&place, &marker, Duration::from_secs(60));
}

#[test]
fn a_variant_of_an_experiment_names_its_machine() {
    let (place, marker) = (Place::new(), marker("file"));
    let text = format!(
        "[experiment]\nname = \"far\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n\
         [schedule]\nmax_blocks = 2\npilot_blocks = 2\nwindow = \"200ms\"\n\
         [stack.server]\nprocess = {{ command = \"{}\", ready = \"$HOST:$PORT\" }}\n\
         target = \"http://$HOST:$PORT/\"\nserved_by = {{ counter_file = \"$DIR/tally\" }}\n\
         [[variant]]\nname = \"near\"\nstack = \"server\"\n\
         [[variant]]\nname = \"far\"\nstack = \"server\"\non = \"user@server\"\n",
        server()
    );
    let file = place.write("far.toml", &text);
    let run = ["run", "--quick", "--json", file.to_str().unwrap()];
    let json = place.finish(command(&place, &marker, &run)).json();
    adds_up(&json);
    let places = &json["parts"][0]["layout"]["machines"];
    assert_eq!(places[0]["stacks"], serde_json::json!(["near"]), "{places:#}");
    assert_eq!(places[1]["stacks"], serde_json::json!(["far"]), "{places:#}");
    nothing_is_left(&place, &marker, Duration::from_secs(60));
}

#[test]
fn what_cannot_work_on_another_machine_is_refused_before_anything_starts() {
    let place = Place::new();
    let loopback = "serve -b 127.0.0.1:$PORT";
    for (args, message) in [
        (
            &["--on", "server", loopback, loopback][..],
            "the command 'serve -b 127.0.0.1:$PORT' listens on a loopback address, which other \
             machines cannot reach",
        ),
        (
            &["--on", "server", "serve $SOCKET", "serve -x $SOCKET"],
            "a Unix socket cannot be reached from another machine",
        ),
        (
            &["--on", "server", "http://localhost:1/", "http://localhost:2/"],
            "is not started by tachograph, so it cannot be started on server",
        ),
        (
            &["--on", "server", "--layout", "same", "a $PORT", "b $PORT"],
            "client and servers on different machines cannot share a CPU",
        ),
        (
            &["--from", "a", "--from", "b", "-c", "1", "a $PORT", "b $PORT"],
            "1 connections are too few for 2 clients",
        ),
        (&["--from", "a", "--from", "a", "a $PORT", "b $PORT"], "the client a is named twice"),
        (&["--at", "10.0.0.1", "a $PORT", "b $PORT"], "--at is the address of a server"),
        (&["--on=-oProxyCommand=x", "a $PORT", "b $PORT"], "is not a host: it begins with '-'"),
    ] {
        place.run(&[&["compare"], args].concat()).status(2).says(message);
    }
}

/// Starts a comparison that only a test ends, and waits until a server at the far end runs.
fn long_comparison(place: &Place, marker: &str) -> Child {
    let server = server();
    let args = ["compare", "--on", "server", "--quick", &server, &server, "-n", "a", "-n", "b"];
    let mut command = command(place, marker, &args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a server at the far end", || !running(marker, "serve-fixture").is_empty());
    child
}

/// Processes of a test that run our binary with this first argument.
fn running(marker: &str, argument: &str) -> Vec<u32> {
    let runs = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').nth(1) == Some(argument)
    };
    processes_with_environment(marker).into_iter().filter(runs).collect()
}

/// What stays is gone within ten seconds on an idle machine; tests run on busy ones.
const BUSY: Duration = Duration::from_secs(60);

#[test]
fn kill_9_of_the_near_end_leaves_nothing_at_the_far_one() {
    let (place, marker) = (Place::new(), marker("near"));
    let mut child = long_comparison(&place, &marker);
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_is_left(&place, &marker, BUSY);
}

#[test]
fn kill_9_of_the_far_end_is_reported_and_leaves_nothing() {
    let (place, marker) = (Place::new(), marker("agent"));
    let child = long_comparison(&place, &marker);
    signal(running(&marker, "agent")[0], Signal::KILL);
    let ended = wait(child, BUSY);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    let said = ended.out.clone() + &ended.err;
    assert!(said.contains("the connection to server was lost"), "{said}");
    assert!(!said.contains("report this bug"), "{said}");
    nothing_is_left(&place, &marker, BUSY);
}

#[test]
fn a_far_end_that_is_killed_in_the_middle_of_the_load_is_what_the_report_says() {
    let (place, marker) = (Place::new(), marker("middle"));
    let child = long_comparison(&place, &marker);
    let agent = running(&marker, "agent")[0];
    // How far the load is then is left to chance.
    let is_loaded = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ticks = stat.rsplit(' ').nth(38).and_then(|ticks| ticks.parse().ok());
        ticks.is_some_and(|ticks: u64| ticks >= 5)
    };
    eventually("a server at the far end that has worked for 50 ms", || {
        running(&marker, "serve-fixture").into_iter().any(is_loaded)
    });
    signal(agent, Signal::KILL);
    let ended = wait(child, BUSY);
    let said = ended.out.clone() + &ended.err;
    assert_eq!(ended.status, Some(2), "{said}");
    let first = said.find("the connection to server was lost").expect(&said);
    assert!(!said[..first].contains("requests failed"), "{said}");
    assert!(!said.contains("report this bug"), "{said}");
    nothing_is_left(&place, &marker, BUSY);
}

#[test]
fn a_far_end_that_falls_silent_is_given_up_and_leaves_nothing() {
    let (place, marker) = (Place::new(), marker("silent"));
    let child = long_comparison(&place, &marker);
    let agent = running(&marker, "agent")[0];
    signal(agent, Signal::STOP);
    let ended = wait(child, BUSY);
    assert_ne!(ended.status, Some(0));
    let said = ended.out.clone() + &ended.err;
    assert!(said.contains("nothing was heard for 5 s"), "{said}");
    // The near end has killed its ssh; on another machine the agent would now go on, and find its
    // channel closed.
    let _ = kill_process(Pid::from_raw(agent as i32).unwrap(), Signal::CONT);
    nothing_is_left(&place, &marker, BUSY);
}

#[test]
fn ctrl_c_ends_a_far_comparison_in_order() {
    let (place, marker) = (Place::new(), marker("stop"));
    let child = long_comparison(&place, &marker);
    signal(child.id(), Signal::INT);
    wait(child, BUSY).status(2).says("stopped");
    nothing_is_left(&place, &marker, BUSY);
}
