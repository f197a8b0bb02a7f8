//! `--why`: which functions make the difference in CPU time, and what it is needed for.

use std::process::Command;

use serde_json::Value;

use crate::support::{Place, Server, TACHOGRAPH, assert_valid};

/// Compares a server with one that computes three times as long for each request, in two blocks,
/// however long they take.
fn compared(place: &Place, further: &[&str]) -> Command {
    let variant = |name: &str, burn: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\ntarget = \"http://127.0.0.1:$PORT/\"\n[[variant.process]]\n\
             name = \"server\"\ncommand = \"exec {TACHOGRAPH} serve-fixture --listen \
             tcp://127.0.0.1:$PORT --burn {burn}\"\n"
        )
    };
    let experiment = "[experiment]\nname = \"burns\"\ntitle = \"burns\"\nquestion = \"Why?\"\n\
        baseline = \"short\"\noffers = [\"closed\"]\n[load]\nconnections = 4\n\
        [schedule]\npilot_blocks = 2\nmax_blocks = 2\nwindow = \"600ms\"\nwhy = true\n";
    let text = [experiment, &variant("short", "200us"), &variant("long", "600us")].concat();
    place.write("burns.toml", &text);
    let mut words = vec!["run", "burns.toml"];
    words.extend(further);
    place.command(&words)
}

/// Whether the kernel permits profiles: those of all processes of a CPU.
fn is_permitted() -> bool {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    rustix::process::geteuid().is_root() || level.trim().parse::<i32>().unwrap() <= 0
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_rows_add_up_to_what_was_sampled_and_that_to_what_was_counted() {
    assert!(is_permitted(), "this test needs root, or kernel.perf_event_paranoid at 0");
    let place = Place::new();
    let json = place.finish(compared(&place, &["--json", "--export-html", "r.html"])).json();
    assert_valid("compare-2.json", &json);
    let [why] = json["parts"][0]["why"].as_array().unwrap().as_slice() else {
        panic!("{:#}", json["parts"][0])
    };
    for side in ["baseline_ns", "variant_ns"] {
        let own = number(&why["own"][side]);
        let rows = why["functions"].as_array().unwrap().iter();
        let rows: f64 = rows.map(|row| number(&row["own"][side])).sum();
        let sum = rows + number(&why["others"][side]);
        assert!((sum / own - 1.0).abs() < 1e-9, "{side}: {sum} of {own}");
        // A few thousand samples, whose number is not exact.
        let counted = number(&why["counted"][side]);
        assert!((own / counted - 1.0).abs() < 0.2, "{side}: {own} sampled, {counted} counted");
    }
    // The function that computes, below the thread that serves, below the process.
    let calls = why["calls"].as_array().unwrap();
    let burns =
        |call: &&Value| call["function"]["name"].as_str().is_some_and(|name| name.contains("burn"));
    let longest = |call: &&Value| number(&call["with_callees"]["variant_ns"]) as u64;
    let burn = calls.iter().filter(burns).max_by_key(longest);
    let burn = burn.unwrap_or_else(|| panic!("no call burns: {calls:?}"));
    let [short, long] =
        ["baseline_ns", "variant_ns"].map(|side| number(&burn["with_callees"][side]));
    assert!(short > 100_000.0 && long > 2.0 * short, "{burn}");
    let mut outermost = burn;
    let mut depth = 0;
    while let Some(caller) = outermost["caller"].as_u64() {
        outermost = &calls[caller as usize];
        depth += 1;
    }
    assert_eq!(outermost["function"]["module"], "process");
    assert!(depth > 3, "the calls are followed without frame pointers: {depth}");

    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(page.contains("What makes the difference in CPU time") && page.contains("burn"));
    place.run(&["report"]).prints("by samples").prints("counted by the kernel");
    place.run(&["report", "last", "--folded", "folded"]).status(2);
    let name = format!("folded/{}-long.folded", json["parts"][0]["name"].as_str().unwrap());
    let folded = std::fs::read_to_string(place.path(&name)).unwrap();
    assert!(folded.lines().any(|line| line.contains("burn")), "{folded}");
    assert!(place.leftovers().is_empty());
}

#[test]
fn what_a_running_server_needs_its_time_for_adds_up() {
    assert!(is_permitted(), "this test needs root, or kernel.perf_event_paranoid at 0");
    let place = Place::new();
    let (_server, url) = Server::http(&["--burn", "300us"]);
    let json = place.run(&["load", "--why", "-n", "5000", "--json", &url]).json();
    assert_valid("load-2.json", &json);
    let [why] = json["why"].as_array().unwrap().as_slice() else { panic!("{json:#}") };
    assert!(why["baseline"].is_null());
    let (own, counted) = (&why["own"]["variant_ns"], &why["counted"]["variant_ns"]);
    let (own, counted) = (number(own), number(counted));
    assert!((own / counted - 1.0).abs() < 0.2, "{own} sampled, {counted} counted");
    let rows = why["functions"].as_array().unwrap().iter();
    let rows: f64 = rows.map(|row| number(&row["own"]["variant_ns"])).sum();
    let sum = rows + number(&why["others"]["variant_ns"]);
    assert!((sum / own - 1.0).abs() < 1e-9, "{sum} of {own}");
    // Where reading the clock is a system call, nearly all of the burning is in the kernel.
    let burns =
        |row: &Value| row["function"]["name"].as_str().is_some_and(|of| of.contains("burn"));
    assert!(why["with_callees"].as_array().unwrap().iter().any(burns), "{why:#}");
    place.run(&["report"]).prints("CPU time: ").prints("counted by the kernel");
    assert!(place.leftovers().is_empty());
}

#[test]
fn without_the_rights_the_comparison_goes_on_and_says_what_to_set() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if level.trim().parse::<i32>().unwrap() <= 0 {
        // Here everybody has them.
        return;
    }
    let place = Place::new();
    let inner = compared(&place, &[]);
    // Root of a user namespace has no privileges outside it.
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-root-user"]).arg(inner.get_program()).args(inner.get_args());
    let ended = place.finish(place.prepare(outer));
    let paranoid = format!("kernel.perf_event_paranoid is {}", level.trim());
    ended.prints(&paranoid).prints("CAP_PERFMON").prints("requests/s");
}
