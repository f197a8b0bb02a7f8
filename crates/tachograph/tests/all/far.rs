//! Stacks and clients on other machines. The other machines are this one, reached through a program
//! that stands in for ssh, or an agent at the other end of two pipes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    self, Ended, Place, Server, TACHOGRAPH, UNHURRIED, adds_up, assert_valid, eventually, marker,
    processes_with_environment, signal, wait,
};

/// A server that other machines can reach, if there are any.
fn server() -> String {
    let listens = format!("{TACHOGRAPH} serve-fixture --listen tcp://$HOST:$PORT {UNHURRIED}");
    format!("{listens} --served-file $DIR/tally")
}

/// A command that reaches other machines as [`here`] says.
fn command(place: &Place, marker: &str, args: &[&str]) -> Command {
    let mut command = place.command(args);
    here(&mut command, place, marker);
    command
}

/// Lets a command's ssh run everything on this machine, with temporary files of its own and our
/// binary on its PATH. All its processes have `marker` in their environment.
pub(crate) fn here(command: &mut Command, place: &Place, marker: &str) {
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
    command.env("TACHOGRAPH_SSH", &ssh).env("TACHOGRAPH_TEST_MARKER", marker);
    command.env_remove("SSH_CONNECTION");
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
fn an_experiment_runs_on_another_machine_with_its_files() {
    let (place, marker) = (Place::new(), marker("files"));
    let text = format!(
        "[experiment]\nname = \"files\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n\
         [schedule]\nmax_blocks = 2\npilot_blocks = 2\nwindow = \"200ms\"\n\
         [stack.server]\nprocess = {{ command = \"sh $FILES/bin/start {TACHOGRAPH} $PORT $DIR\" }}\n\
         target = \"http://127.0.0.1:$PORT/\"\nserved_by = {{ counter_file = \"$DIR/tally\" }}\n\
         [[variant]]\nname = \"tcp\"\nstack = \"server\"\n\
         [[variant]]\nname = \"contained\"\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         container = {{ image = \"some:image\", command = \"serve\", publish = \"$PORT:80\", ready = \"http://127.0.0.1:$PORT/\" }}\n"
    );
    std::fs::create_dir_all(place.path("mine/bin")).unwrap();
    let file = place.write("mine/files.toml", &text);
    let server = "exec $1 serve-fixture --listen tcp://127.0.0.1:$2 --served-file $3/tally\n";
    place.write("mine/bin/start", server);
    let run = ["run", "--quick", "--json", file.to_str().unwrap(), "--on", "server"];
    let with =
        |further: &[&str]| place.finish(command(&place, &marker, &[&run[..], further].concat()));
    let ended = with(&["--from", "server"]);
    ended.says("left out: 'contained' needs a container engine, which works only on this machine");
    let json = ended.json();
    adds_up(&json);
    let places = &json["parts"][0]["layout"]["machines"];
    assert_eq!(places[1]["stacks"], serde_json::json!(["tcp"]), "{places:#}");
    assert_eq!(places[1]["is_client"], true, "{places:#}");
    with(&[]).status(2).says("with --from server too, its client is on the same machine");
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

/// Whether a process has used 50 ms of CPU time.
fn has_worked(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = stat.rsplit(' ').nth(38).and_then(|ticks| ticks.parse().ok());
    ticks.is_some_and(|ticks: u64| ticks >= 5)
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
    eventually("a server at the far end that has worked for 50 ms", || {
        running(&marker, "serve-fixture").into_iter().any(has_worked)
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

/// The report of a load from other machines, and what the server has counted.
fn load(place: &Place, marker: &str, further: &[&str]) -> (serde_json::Value, u64) {
    let tally = place.path("tally");
    let (_server, url) = Server::http(&["--served-file", tally.to_str().unwrap()]);
    let served = format!("counter_file={}", tally.display());
    let args = ["load", "--json", "--served-by", &served, &url];
    let ended = place.finish(command(place, marker, &[&args[..], further].concat()));
    ended.measured();
    (ended.json(), counted(&tally))
}

/// The count in a server's file; 0 before there is one.
fn counted(tally: &Path) -> u64 {
    let bytes = std::fs::read(tally).unwrap_or_default();
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[test]
fn a_running_server_is_loaded_from_several_machines() {
    let (place, marker) = (Place::new(), marker("load"));
    let from = ["--from", "client1", "--from", "client2", "--from", "client3"];
    // 1,000 requests cannot be divided by three.
    let (json, served) = load(&place, &marker, &[&from[..], &["-n", "1000", "-c", "7"]].concat());
    let ledger = &json["ledger"];
    for column in ["sent", "completed", "served", "series"] {
        assert_eq!(ledger[column], 1000, "{column} in {ledger:#}");
    }
    assert_eq!(served, 1000 + json["warm_up"]["completed"].as_u64().unwrap());
    let machines = json["layout"]["machines"].as_array().unwrap();
    let names: Vec<_> = machines.iter().map(|machine| machine["name"].clone()).collect();
    assert_eq!(
        serde_json::json!(names),
        serde_json::json!([null, "client1", "client2", "client3"])
    );
    assert!(json["layout"]["clients_apart_ns"].is_u64(), "{:#}", json["layout"]);
    assert_eq!(json["load"]["connections"], 7);
    place
        .run(&["report", "last"])
        .prints("7 connections, closed loop, clients on client1, client2 and client3")
        .prints(" 3 threads, the busiest ")
        .prints("of each other");
    place.run(&["report", "last", "--html"]).prints("client2: client; ");
    assert_valid("load-2.json", &json);

    let rate = ["-r", "400", "--arrivals", "uniform", "-d", "1s", "--warmup", "100ms"];
    let (json, served) = load(&place, &marker, &[&from[..], &rate].concat());
    assert_eq!(json["ledger"]["offered"], 400, "{:#}", json["ledger"]);
    let counted = |part: &str| json[part]["completed"].as_u64().unwrap();
    assert_eq!(served, counted("ledger") + counted("warm_up"), "{json:#}");
    nothing_is_left(&place, &marker, Duration::from_secs(60));
}

#[test]
fn a_load_from_another_machine_is_refused_what_it_cannot_do() {
    let place = Place::new();
    for (args, message) in [
        (&["--from", "a", "--from", "a"][..], "the client a is named twice"),
        (&["-c", "1", "--from", "a", "--from", "b"], "1 connections are too few for 2 clients"),
        (&["--from", "a", "--cpus", "0"], "cannot be used with"),
        (&["--from", "a", "--why"], "cannot be used with"),
        (&["--from=-oProxyCommand=x"], "is not a host: it begins with '-'"),
    ] {
        let args = [&["load", "http://127.0.0.1:1/"], args].concat();
        place.run(&args).status(2).says(message);
    }
    let (marker, load) = (marker("closed"), ["load", "--from", "a", "http://127.0.0.1:1/"]);
    let ended = place.finish(command(&place, &marker, &load));
    ended.status(2).says("from a: cannot connect to http://127.0.0.1:1/: connection refused");
    nothing_is_left(&place, &marker, BUSY);
}

#[test]
fn a_load_from_another_machine_that_is_lost_or_stopped_says_so() {
    for (ending, message) in
        [(Signal::KILL, "the connection to client was lost"), (Signal::INT, "Stopped early")]
    {
        let (place, marker) = (Place::new(), marker("lost"));
        let tally = place.path("tally");
        let (_server, url) = Server::http(&["--served-file", tally.to_str().unwrap()]);
        let mut command =
            command(&place, &marker, &["load", "--from", "client", "-d", "300s", &url]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // At most 303 requests come before those that are measured.
        eventually("a measured load", || counted(&tally) > 1000);
        let to = if ending == Signal::KILL { running(&marker, "agent")[0] } else { child.id() };
        signal(to, ending);
        let ended = wait(child, BUSY);
        let said = ended.out.clone() + &ended.err;
        assert!(said.contains(message), "{said}");
        assert_eq!(ended.status, Some(if ending == Signal::KILL { 2 } else { 0 }), "{said}");
        nothing_is_left(&place, &marker, BUSY);
    }
}
