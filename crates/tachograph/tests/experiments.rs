//! The built-in experiments really run, and say what they cannot run and why.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use serde_json::Value;
use support::{Place, TACHOGRAPH, turn};

/// A file whose baseline needs a program that no machine has.
fn without_baseline(place: &Place) {
    let variant = |name: &str, needs: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nstack = \"app\"\n{needs}vars = {{ NAME = \"{name}\" }}\n"
        )
    };
    let needs = "needs = { no-such-program = \"apt install no-such-package\" }\n";
    let text = format!(
        "[experiment]\nname = \"three\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n\n\
         [stack.app]\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         process = {{ command = \"{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT --body $NAME\", ready = \"127.0.0.1:$PORT\" }}\n\n{}{}{}",
        variant("absent", needs),
        variant("second", ""),
        variant("third", "")
    );
    place.write("three.toml", &text);
}

#[test]
fn a_baseline_that_cannot_start_is_replaced_by_the_first_that_can() {
    let _turn = turn();
    let place = Place::new();
    without_baseline(&place);
    let ended = place.run(&["run", "./three.toml", "--quick", "--max-time", "6s"]);
    ended.says("absent is left out: ").says("apt install no-such-package");
    let sentence = "the baseline absent could not start, so the others are compared with second";
    ended.says(sentence);
    assert!(!ended.out.contains("not enough blocks to compare"), "{}", ended.out);
    let report = place.run(&["report", "last", "--json"]).json();
    let comparison = &report["comparisons"][0];
    assert_eq!(
        (&comparison["baseline"], &comparison["variant"]),
        (&"second".into(), &"third".into())
    );
    assert!(list(&report["validity"]).iter().any(|finding| finding["sentence"] == sentence));
}

/// The trap of 2013: nginx answers 502 for what uWSGI's short backlog has no room for.
#[test]
fn a_short_backlog_is_refused_with_the_words_of_nginx() {
    let _turn = turn();
    let place = Place::new();
    let mut args = vec!["run", "python-servers-concurrent", "--only", "short-backlog"];
    args.extend(["--quick", "--max-time", "6s", "--json"]);
    let ended = place.run(&args);
    let report = ended.status(1).json();
    assert_eq!(report["verdict"], "invalid");
    let reason = report["reasons"][0].as_str().unwrap();
    for words in
        ["short-backlog, ", " requests failed: ", "status 502", "nginx: ", " connect() to "]
    {
        assert!(reason.contains(words), "'{words}' is not in '{reason}'");
    }
    assert!(!reason.contains("not quiet enough"), "{reason}");
    let [sound, short] = list(&report["variants"]) else { panic!("two variants") };
    let ledger = &short["ledger"];
    let count = |name: &str| ledger[name].as_u64().unwrap();
    assert_eq!(short["errors"]["status 502"], ledger["failed"]);
    assert!(count("failed") > 0, "{ledger}");
    assert_eq!(count("sent"), count("completed") + count("failed"), "{ledger}");
    assert_eq!(count("served"), count("completed"), "what nginx refused never reached the app");
    assert_eq!(sound["ledger"]["failed"], 0);
    assert_eq!(sound["ledger"]["served"], sound["ledger"]["sent"]);
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
