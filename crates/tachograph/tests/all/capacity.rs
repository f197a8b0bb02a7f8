//! `tachograph capacity` with servers of known capacity.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Place, TACHOGRAPH, assert_valid, eventually, signal, wait};

fn fixture(flags: &str) -> String {
    format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {flags}")
}

/// A server that answers 200 requests per second, whatever is offered. With a limit that its queue
/// exceeds only far above that rate, short trials would say more if nothing corrected them. A pause of
/// the machine is shorter than the limit.
#[test]
fn the_interval_holds_the_rate_of_a_token_bucket() {
    let place = Place::new();
    let command = fixture("--limit 200 --served-file $DIR/served");
    let ended = place.run(&[
        "capacity",
        &command,
        "--latency",
        "500ms",
        "--quantile",
        "0.95",
        "--max-time",
        "45s",
        "-n",
        "bucket",
        "--json",
        "--export-html",
        "r.html",
        "--export-markdown",
        "r.md",
        "--export-csv",
        "r.csv",
        "--served-by",
        "counter_file=$DIR/served",
    ]);
    let json = ended.json();
    assert_valid("capacity-1.json", &json);
    let bucket = &json["variants"][0];
    // On a busy machine the time may end before there are enough blocks for an interval.
    let outcome = bucket["outcome"].as_str().unwrap().to_owned();
    assert!(["found", "undecided"].contains(&outcome.as_str()), "{bucket}");
    if outcome == "found" {
        let end = |name: &str| bucket["capacity_per_s"][name].as_f64().unwrap_or(f64::INFINITY);
        assert!(end("low") <= 204.0 && 196.0 <= end("high"), "{bucket}");
    }
    // Every request of every trial is in the ledger.
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    let analysed = json["trials"].as_array().unwrap().iter().filter(|t| t["block"] != 0);
    let offered: u64 = analysed.map(|trial| count(trial, "offered")).sum();
    let ledger = &bucket["ledger"];
    assert!(count(ledger, "offered") >= offered && offered > 0, "{ledger}");
    assert_eq!(count(ledger, "sent"), count(ledger, "completed") + count(ledger, "failed"));
    assert_eq!(ledger["series"], ledger["completed"]);
    // The recorded run gives the same report.
    let again = place.run(&["report", "last", "--json"]).json();
    assert_eq!(again["variants"], json["variants"]);
    assert_eq!(again["trials"], json["trials"]);
    place.run(&["report", "last"]).prints("bucket: ");
    place.run(&["list"]).prints("capacity of bucket");
    for file in ["r.html", "r.md", "r.csv"] {
        assert!(std::fs::metadata(place.path(file)).unwrap().len() > 100, "{file}");
    }
    assert!(place.leftovers().is_empty());
}

#[test]
fn a_condition_that_always_or_never_holds_has_its_own_sentence() {
    let place = Place::new();
    let command = fixture("");
    let always =
        ["capacity", &command, "--max-errors", "50%", "--max-rate", "40", "--max-time", "90s"];
    let gates = ["--fail-if", "capacity < 40", "--fail-if", "capacity < 50"];
    place
        .run(&[&always[..], &gates].concat())
        .status(0)
        .prints("at least 40.0 requests/s: errors ≤ 50% still holds at the highest")
        .says("not triggered: capacity < 40 (capacity of ")
        .says("inconclusive: capacity < 50 (capacity of ");
    let slow = fixture("--delay 50ms --delay-every 1");
    let never = ["capacity", &slow, "--p99", "10ms", "--max-time", "60s", "--json"];
    let json = place.run(&never).json();
    // On a machine that is too slow for the lowest rate, the time ends first.
    let outcome = json["variants"][0]["outcome"].as_str().unwrap().to_owned();
    assert!(["nowhere", "undecided"].contains(&outcome.as_str()), "{json}");
    assert_eq!(json["variants"][0]["capacity_per_s"], Value::Null);
}

#[test]
fn a_part_of_an_experiment_is_a_search() {
    let place = Place::new();
    let variant = |name: &str| {
        let command = fixture("");
        format!(
            "[[variant]]\nname = \"{name}\"\ntarget = \"http://127.0.0.1:$PORT/\"\n\
             process = {{ command = '{command}' }}\n"
        )
    };
    let text = format!(
        "[experiment]\nname = \"both\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n{}{}\
         [[part]]\nname = \"comparison\"\nschedule = {{ max_time = \"1s\" }}\n\
         [[part]]\nname = \"search\"\nvariants = [\"a\"]\nschedule = {{ max_time = \"90s\" }}\n\
         capacity = {{ max_errors = \"50%\", max_rate = 40 }}\n",
        variant("a"),
        variant("b"),
    );
    place.write("both.toml", &text);
    let gate = ["--fail-if", "search/a.capacity < 40"];
    let run = ["run", "./both.toml", "--quick", "--json"];
    let ended = place.run(&[&run[..], &gate, &["--export-html", "r.html"]].concat());
    let json = ended.says("not triggered: search/a.capacity < 40 (search: capacity of a: ").json();
    assert_valid("compare-2.json", &json);
    assert_eq!(json["parts"][0]["capacity"], Value::Null);
    let found = &json["parts"][1]["capacity"]["variants"][0];
    assert_eq!((&found["name"], &found["outcome"]), (&"a".into(), &"at_least".into()), "{found}");
    let sentence = "a: at least 40.0 requests/s: errors ≤ 50% still holds at the highest rate";
    assert!(found["sentence"].as_str().unwrap().starts_with(sentence), "{found}");
    place.run(&["report", "last"]).prints(sentence);
    assert!(std::fs::read_to_string(place.path("r.html")).unwrap().contains(sentence));
}

#[test]
fn ctrl_c_ends_a_search_and_reports_what_is_there() {
    let place = Place::new();
    let (one, other) = (fixture("--limit 300"), fixture("--limit 330"));
    let mut command = place.command(&[
        "capacity",
        &one,
        &other,
        "-n",
        "one",
        "-n",
        "other",
        "--p99",
        "1s",
        "--max-time",
        "5m",
        "--json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the first, rough search on record", || place.rows("trial") > 0);
    signal(child.id(), Signal::INT);
    let ended = wait(child, Duration::from_secs(60));
    ended.status(2);
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    assert_valid("capacity-1.json", &json);
    assert_eq!(json["state"], "interrupted");
    assert_eq!(json["variants"][0]["outcome"], "undecided");
    assert!(!json["trials"].as_array().unwrap().is_empty());
    eventually("nothing is left", || place.leftovers().is_empty());
}

#[test]
fn wrong_conditions_are_refused_with_what_to_do() {
    let place = Place::new();
    let server = fixture("");
    let refused = |further: &[&str]| {
        let mut args = vec!["capacity", &server];
        args.extend(further);
        place.run(&args).status(2).err.clone()
    };
    let says = |further: &[&str], texts: &[&str]| {
        let err = refused(further);
        for text in texts {
            assert!(err.contains(text), "{text} is missing: {err}");
        }
    };
    says(&[], &["no condition: at which rate", "add --p99 50ms, --max-errors 0.1% or --cpu 80%"]);
    says(&["--p99", "0s"], &["no request takes less than 0s"]);
    says(&["--p99", "20s"], &["the limit of 20.0 s is not below the timeout of 10.0 s"]);
    says(&["--max-errors", "200%"], &["--max-errors is a share between 0% and 100%"]);
    says(&["--cpu", "0"], &["--cpu is a share between 0% and 100%"]);
    says(&["--quantile", "0.9"], &["--latency"]);
    says(
        &["--p99", "50ms", "--fail-if", "p99 > 50ms"],
        &["a search for a capacity compares no p99", "there are: capacity, failed, errors"],
    );
    place
        .run(&["compare", &server, &server, "--fail-if", "a.capacity < 1"])
        .status(2)
        .says("only tachograph capacity measures a capacity");
    place
        .run(&["capacity", "no-such-server --port $PORT", "--p99", "50ms"])
        .status(2)
        .says("no-such-server")
        .says("could not be measured");
    place
        .run(&["capacity", "http://127.0.0.1:1/", "--cpu", "50%"])
        .status(2)
        .says("the CPU time of a server that already runs is not known");
    assert!(place.leftovers().is_empty());
}
