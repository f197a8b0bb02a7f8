//! Other machines over ssh: namespaces with a real sshd each.

use std::process::{Command, Stdio};
use std::time::Duration;

use throwaway::{Network, NoNetwork};

use crate::diff::{self, Repo};
use crate::support::{Place, TACHOGRAPH, adds_up, eventually, holds_within, not_run, wait};

/// A network; `None`, with a note, where there can be none.
fn network(names: &[&str]) -> Option<Network> {
    match Network::start(names) {
        Ok(network) => Some(network),
        Err(NoNetwork::NotRoot) => {
            not_run(&NoNetwork::NotRoot.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A command of tachograph in the network of the near machine.
fn near(place: &Place, network: &Network, lines: &str, args: &[&str]) -> Command {
    let mut command = network.near(TACHOGRAPH);
    command.args(args);
    let mut command = place.prepare(command);
    command.env("TACHOGRAPH_SSH", network.ssh(lines).unwrap());
    command
}

#[test]
fn the_doctor_visits_other_machines() {
    let Some(network) = network(&["far"]) else { return };
    let place = Place::new();
    let doctor = |args: &[&str]| place.finish(near(&place, &network, "", args));
    let first = doctor(&["doctor", "--on", "far", "raw-sockets"]);
    first.status(0).prints("far, reached by ssh in ").prints("; copied tachograph (");
    first.prints("  raw-sockets: ").prints("    ok      python3 (");
    // It looks at that machine: what is not on PATH there is missing.
    network.sh("far", "mount --bind /dev/null $(command -v python3)").unwrap();
    let second = doctor(&["doctor", "--on", "far", "python-servers"]);
    second
        .status(1)
        .prints("; tachograph was there\n")
        .prints("MISSING python3; install it with: ");
    let unknown = doctor(&["doctor", "--on", "far", "wonder"]);
    assert_eq!(
        (unknown.status, unknown.err.as_str()),
        (place.run(&["doctor", "wonder"]).status, place.run(&["doctor", "wonder"]).err.as_str())
    );
    assert_eq!(network.left_at("far"), [""; 0]);
}

#[test]
fn machines_that_cannot_be_reached_are_refused_in_a_sentence() {
    let Some(network) = network(&["far"]) else { return };
    let place = Place::new();
    let refused = |lines: &str, host: &str, sentence: &str| {
        let ended = place.finish(near(&place, &network, lines, &["doctor", "--on", host]));
        ended.status(2);
        // The configured command, by which the test reaches its network.
        let said = match ended.err.trim_end().split_once("nsenter ") {
            Some((before, hand)) => format!("{before}ssh {}", hand.rsplit(' ').next().unwrap()),
            None => ended.err.trim_end().to_owned(),
        };
        assert_eq!((ended.out.as_str(), said.as_str()), ("", sentence));
    };
    refused(
        "",
        "root@-oProxyCommand=reboot",
        "error: 'root@-oProxyCommand=reboot' is not a host: it begins with '-'; write HOST, \
         USER@HOST or ssh://USER@HOST:PORT",
    );
    refused(
        "UserKnownHostsFile /dev/null",
        "far",
        "error: cannot use far: its host key is not in known_hosts (No ED25519 host key is known for \
         10.77.0.11 and you have requested strict checking). Log in once by hand and compare the \
         fingerprint: ssh far",
    );
    refused(
        "",
        "ssh://far:2222",
        "error: cannot use ssh://far:2222: connection refused (ssh: connect to host 10.77.0.11 port \
         2222: Connection refused). Start sshd there, or check the port",
    );
}

/// A server that other machines can reach, with a count of its own.
const SERVER: &str =
    "$TACHOGRAPH serve-fixture --listen tcp://$HOST:$PORT --served-file $DIR/count";

/// Fails unless nothing is left at the far machines; they are the test's own.
#[track_caller]
fn nothing_left(network: &Network, machines: &[&str]) {
    for machine in machines {
        let left = || {
            let mut left = network.left_at(machine);
            let temp = network.home(machine).with_file_name("tmp");
            let entries = std::fs::read_dir(temp).unwrap().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()));
            left.retain(|name| !name.contains("/tmp/tachograph-0"));
            left
        };
        let limit = Duration::from_secs(60);
        assert!(holds_within(limit, || left().is_empty()), "left at {machine}: {:?}", left());
    }
}

/// Compares a server with itself on these machines: the ledgers add up, and nothing stays. Returns
/// the part.
fn compared(network: &Network, machines: &[&str]) -> serde_json::Value {
    let place = Place::new();
    let args = ["compare", "--quick", "--max-time", "4s", "--json"];
    let rest = ["--served-by", "counter_file=$DIR/count", SERVER, SERVER];
    let all = [&args[..], machines, &rest].concat();
    let json = place.finish(near(&place, network, "", &all)).json();
    adds_up(&json);
    let links = json["parts"][0]["layout"]["links"].as_array().unwrap();
    assert!(links.iter().any(|link| link["bytes_per_s"].as_f64() > Some(1e6)), "{links:#?}");
    for machine in ["server", "client"] {
        let gone = || network.left_at(machine).is_empty();
        assert!(holds_within(Duration::from_secs(60), gone), "{:?}", network.left_at(machine));
    }
    json["parts"][0].clone()
}

#[test]
fn comparisons_with_other_machines_add_up() {
    let Some(network) = network(&["server", "client"]) else { return };
    let part = compared(&network, &["--why", "--on", "server", "--from", "client"]);
    let machines = &part["layout"]["machines"];
    let server = machines.as_array().unwrap().iter().find(|m| m["name"] == "server");
    assert_eq!(server.unwrap()["address"], network.address("server").as_str(), "{machines:#}");
    // Their functions were sampled there.
    for why in part["why"].as_array().unwrap() {
        let [own, counted] = ["own", "counted"].map(|of| why[of]["variant_ns"].as_f64().unwrap());
        assert!((own / counted - 1.0).abs() < 0.5, "{own} sampled, {counted} counted");
        let programs = why["calls"].as_array().unwrap().iter();
        let mut programs = programs.filter(|call| call["caller"].is_null());
        assert!(programs.any(|call| call["function"]["name"] == "tachograph"), "{why:#}");
    }
    let enough = part["blocks"].as_u64() >= Some(2);
    assert_eq!(part["why"].as_array().unwrap().is_empty(), !enough, "{part:#}");
    // The servers are here, at our address as the client sees it.
    let part = compared(&network, &["--from", "client"]);
    let machines = &part["layout"]["machines"];
    let here = machines[0]["address"].as_str().unwrap();
    assert!(here != "127.0.0.1" && machines[0]["stacks"] != serde_json::json!([]), "{machines:#}");
    assert_eq!(machines[1]["is_client"], true, "{machines:#}");
}

#[test]
fn both_commits_are_built_where_ssh_leads() {
    let Some(network) = network(&["server"]) else { return };
    let repo = Repo::new();
    let serve = "exec \"$TACHOGRAPH\" serve-fixture --listen \"tcp://$1\" --served-file served \
                 $(cat built)\n";
    repo.write("far.sh", serve);
    repo.commit("Elsewhere");
    repo.write("flags", diff::SLOWER);
    repo.commit("Slower");
    let args = ["diff", "--quick", "--closed-only", "--max-time", "4s", "--json", "--on", "server"];
    let build = ["--build", "cp flags built", "--served-by", "counter_file=served"];
    let mut command = near(&repo.place, &network, "", &[&args[..], &build].concat());
    command.args(["HEAD^", "sh far.sh $HOST:$PORT"]).current_dir(repo.root());
    let json = repo.place.finish(command).measured().json();
    adds_up(&json);
    diff::is_slower(&json);
    nothing_left(&network, &["server"]);
}

#[test]
fn a_network_that_goes_away_ends_the_comparison_and_what_it_started() {
    let Some(network) = network(&["server"]) else { return };
    let place = Place::new();
    let args = ["compare", "--quick", "--on", "server", SERVER, SERVER];
    let mut command = near(&place, &network, "", &args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let serves = || network.left_at("server").iter().any(|line| line.contains("serve-fixture"));
    eventually("a server there", serves);
    network.link("server", false).unwrap();
    let gone = || network.left_at("server").is_empty();
    // Ten seconds on an idle machine.
    assert!(holds_within(Duration::from_secs(60), gone), "{:?}", network.left_at("server"));
    let ended = wait(child, Duration::from_secs(60));
    assert_ne!(ended.status, Some(0));
    let said = ended.out.clone() + &ended.err;
    assert!(said.contains("the connection to server was lost"), "{said}");
}

/// A short comparison.
const COMPARE: [&str; 6] = ["compare", "--quick", "--closed-only", "--max-time", "8s", "--json"];

#[test]
fn clients_on_two_machines_have_one_ledger() {
    let Some(network) = network(&["stacks", "left", "right"]) else { return };
    let place = Place::new();
    let further = ["--served-by", "counter_file=$DIR/count", "--on", "stacks", "--from", "left"];
    let commands = ["--from", "right", SERVER, SERVER];
    let args = [&COMPARE[..], &further, &commands].concat();
    // One of them is reached through another.
    let lines = "Host right\n  ProxyJump left\n";
    let ended = place.finish(near(&place, &network, lines, &args));
    ended.measured();
    let json = ended.json();
    adds_up(&json);
    let machines = json["parts"][0]["layout"]["machines"].as_array().unwrap();
    let clients = machines.iter().filter(|machine| machine["is_client"] == true).count();
    assert_eq!(clients, 2, "{machines:#?}");
    nothing_left(&network, &["stacks", "left", "right"]);
}

#[test]
fn a_capacity_is_that_of_a_server_elsewhere() {
    let Some(network) = network(&["server", "client"]) else { return };
    let place = Place::new();
    let server = format!("{SERVER} --limit 200");
    let limits = ["--latency", "150ms", "--quantile", "0.9", "--max-errors", "50%", "--cpu", "90%"];
    let args = ["capacity", "--on", "server", "--from", "client", "--max-time", "30s", "--json"];
    let further = ["--served-by", "counter_file=$DIR/count", "-n", "bucket", &server];
    let all = [&args[..], &limits, &further].concat();
    let json = place.finish(near(&place, &network, "", &all)).json();
    let found = &json["variants"][0];
    // On a busy machine the time may end before there are enough blocks for an interval.
    assert!(["found", "undecided"].contains(&found["outcome"].as_str().unwrap()), "{found}");
    if found["outcome"] == "found" {
        let end = |name: &str| found["capacity_per_s"][name].as_f64().unwrap_or(f64::INFINITY);
        assert!(end("low") <= 204.0 && 196.0 <= end("high"), "{found}");
    }
    // That of the blocks; the time may end before the first one.
    let ledger = &found["ledger"];
    assert_eq!(json["blocks"] == 0, ledger["completed"] == 0, "{ledger}");
    assert!(json["blocks"] == 0 || ledger["served"] == ledger["completed"], "{ledger}");
    let layout = &json["layout"];
    let is_at = |name: &str, role: &str| {
        let mut places = layout["machines"].as_array().unwrap().iter();
        let place = places.find(|place| place["name"] == name).unwrap();
        match role {
            "client" => place["is_client"] == true,
            _ => place["stacks"] == serde_json::json!(["bucket"]),
        }
    };
    assert!(is_at("server", "stack") && is_at("client", "client"), "{layout:#}");
    assert!(layout["links"][0]["bytes_per_s"].as_f64() > Some(1e6), "{layout:#}");
    // The CPU time of the server, on its machine.
    let used = json["trials"].as_array().unwrap().iter().map(|trial| &trial["cpu"]);
    assert!(used.clone().all(|cpu| cpu.as_f64().is_some_and(|cpu| cpu > 0.0)), "{json:#}");
    nothing_left(&network, &["server", "client"]);
}

#[test]
fn a_delay_of_the_network_is_seen_in_the_median() {
    let Some(mut network) = network(&["far"]) else { return };
    let place = Place::new();
    let delay_ms = 100.0;
    let delayed = network.delay("far", Duration::from_millis(100)).unwrap();
    let further = ["-c", "2", "--on", "far", "--at", &delayed.address, SERVER, SERVER];
    let ended = place.finish(near(&place, &network, "", &[&COMPARE[..], &further].concat()));
    ended.measured();
    let json = ended.json();
    let checks: Vec<_> = json["validity"].as_array().unwrap().iter().map(|f| &f["check"]).collect();
    assert!(checks.iter().any(|check| *check == "network_limited"), "{checks:?}");
    let link = &json["parts"][0]["layout"]["links"][0];
    assert!(link["round_trip_min_ns"].as_f64().unwrap() / 1e6 > delay_ms, "{link:#}");
    // What else the machine does only adds to the delay, and less than the delay a second time.
    for variant in json["variants"].as_array().unwrap() {
        let ms = |of: &serde_json::Value, name| of["service_time_ns"][name].as_f64().unwrap() / 1e6;
        let trials = variant["trials"].as_array().unwrap().iter();
        let min_ms = trials.map(|trial| ms(trial, "min")).fold(f64::INFINITY, f64::min);
        let p50_ms = ms(variant, "p50");
        let once = delay_ms..1.9 * delay_ms;
        assert!(once.contains(&min_ms), "{}: {min_ms} ms", delayed.way);
        assert!(once.contains(&p50_ms), "{}: p50 {p50_ms} ms", delayed.way);
    }
}

#[test]
fn a_comparison_with_a_machine_that_cannot_be_reached_measures_nothing() {
    let Some(network) = network(&["far"]) else { return };
    let place = Place::new();
    let lines = "UserKnownHostsFile /dev/null";
    let args = [&COMPARE[..], &["--on", "far", SERVER, SERVER]].concat();
    let ended = place.finish(near(&place, &network, lines, &args));
    ended.status(2).says("error: cannot use far: its host key is not in known_hosts (");
    assert_eq!(ended.out, "");
}
