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

/// A command that prints the secrets of the shell that started it, and fails.
#[test]
fn a_secret_that_a_failing_command_prints_is_neither_recorded_nor_shown() {
    let _turn = turn();
    let place = Place::new();
    without_baseline(&place);
    let leaks = "[[variant]]\nname = \"leaks\"\ntarget = \"http://127.0.0.1:$PORT/\"\n\
                 process = { command = \"sh -c 'env | sort; exit 3'\", ready = \"127.0.0.1:$PORT\" }\n";
    let text = std::fs::read_to_string(place.path("three.toml")).unwrap();
    place.write("three.toml", &(text + leaks));
    let secrets = ["tok-5f3a9c2e7b", "hunter2-hunter2"];
    let mut args = vec!["run", "./three.toml", "--quick", "--max-time", "6s"];
    args.extend([
        "--export-json",
        "r.json",
        "--export-html",
        "r.html",
        "--export-markdown",
        "r.md",
    ]);
    let mut command = place.command(&args);
    // Last in the alphabet, so that they are among the last lines of the log.
    command.env_clear().envs(std::env::vars().filter(|(name, _)| name.as_str() < "_"));
    command.env("TMPDIR", place.temp()).env("XDG_CACHE_HOME", place.path("cache"));
    command.env("TACHOGRAPH_RECORD", place.path("record.sqlite"));
    command.env("ZZ_DEPLOY_TOKEN", secrets[0]).env("zz_db_password", secrets[1]);
    let ended = place.finish(command);
    ended.says("leaks is left out: ").says("ZZ_DEPLOY_TOKEN=[ZZ_DEPLOY_TOKEN redacted]");
    ended.says("zz_db_password=[zz_db_password redacted]");

    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    let record = read("record.sqlite");
    assert!(holds(&record, "[ZZ_DEPLOY_TOKEN redacted]"), "the reason is recorded without it");
    let shown = [ended.out.into_bytes(), ended.err.into_bytes(), read("r.json"), read("r.html")];
    for bytes in shown.into_iter().chain([record, read("r.md")]) {
        for secret in secrets {
            assert!(!holds(&bytes, secret), "{secret} in {}", String::from_utf8_lossy(&bytes));
        }
    }
    for file in std::fs::read_dir(place.dir.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!secrets.iter().any(|secret| holds(&bytes, secret)), "{}", path.display());
    }
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
