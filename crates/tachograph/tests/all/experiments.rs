//! The built-in experiments run, and report what they cannot run and why.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base::Seed;
use serde_json::Value;

use crate::support::{Place, TACHOGRAPH, UNHURRIED, wait};

/// Runs a copy of a built-in experiment as briefly as possible, one block per part, and checks every
/// variant: served equals completed, or it names what it lacks.
fn every_variant_serves_or_says_what_it_lacks(args: &[&str], variants: usize) {
    let place = Place::new();
    let file = shortened(&place, args[0]);
    let mut command = place.command(&["run", &file, "--quick", "--max-time", "1s", "--json"]);
    let command = command.args(&args[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The longest takes two minutes alone, and more than 400 s beside other tests and a compiler.
    let ended = wait(child, Duration::from_secs(1_200));
    // A busy machine affects the verdict, which is irrelevant here.
    ended.measured();
    let report = ended.json();
    let listed = list(&report["variants"]);
    assert_eq!(listed.len(), variants, "{args:?}");
    for variant in listed {
        let name = format!("{}: {}", variant["part"], variant["name"]);
        if let Some(reason) = variant["skipped"].as_str() {
            assert!(reason.contains(" install "), "{name}: {reason}");
            let may_lack = std::env::var_os("CI").is_none() || name.contains("nxweb");
            assert!(may_lack, "{name} is left out: {reason}");
            continue;
        }
        let ledger = &variant["ledger"];
        assert_eq!(ledger["failed"], 0, "{name}: {ledger} {}", variant["errors"]);
        assert!(ledger["completed"].as_u64() > Some(0), "{name}: {ledger}");
        assert_eq!(ledger["served"], ledger["completed"], "{name}: {ledger}");
        assert_eq!(ledger["sent"], ledger["completed"], "{name}: {ledger}");
    }
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
    let packages = place.run(&["doctor", args[0]]).out;
    let there = "(in a separate environment)";
    assert!(!packages.contains("Python packages") || packages.contains(there), "{packages}");
}

/// A copy of a built-in experiment with short windows.
fn shortened(place: &Place, name: &str) -> String {
    place.run(&["run", name, "--eject", "mine"]).status(0);
    let file = place.path(&format!("mine/{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let short = [("slice", "25ms"), ("window", "100ms"), ("warmup", "50ms")];
    let stays = |line: &&str| short.iter().all(|(key, _)| !line.starts_with(&format!("{key} = ")));
    let mut lines: Vec<&str> = text.lines().filter(stays).collect();
    let at = lines.iter().position(|line| *line == "[schedule]").unwrap_or_else(|| {
        lines.push("[schedule]");
        lines.len() - 1
    });
    let short = short.map(|(key, value)| format!("{key} = \"{value}\""));
    lines.splice(at + 1..at + 1, short.iter().map(String::as_str));
    std::fs::write(&file, lines.join("\n")).unwrap();
    file.display().to_string()
}

/// Eight contenders that the time of day draws, and those whose names contain theirs;
/// `make experiments` runs all of them.
#[test]
fn python_servers_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let (names, seed) = (in_parts(&folder), Seed::from_time());
    let mut drawn: Vec<&str> = names.iter().map(String::as_str).collect();
    drawn.sort_by_key(|name| (seed.derive(name, 0).0, *name));
    drawn.dedup();
    drawn.truncate(8);
    let running = names.iter().filter(|name| drawn.iter().any(|part| name.contains(part)));
    let mut args = vec!["python-servers"];
    args.extend(drawn.iter().flat_map(|name| ["--only", name]));
    every_variant_serves_or_says_what_it_lacks(&args, running.count());
}

/// The names of the variants in all parts of `python-servers`.
fn in_parts(folder: &Path) -> Vec<String> {
    let read = |path: &Path| spec::SourceFile {
        path: path.display().to_string(),
        text: std::fs::read_to_string(path).unwrap(),
    };
    let included = std::fs::read_dir(folder.join("python-servers")).unwrap();
    let included: Vec<_> = included.map(|file| read(&file.unwrap().path())).collect();
    let plan = spec::parse_plan_files(&read(&folder.join("python-servers.toml")), &included);
    let parts = plan.unwrap().parts.into_iter();
    parts.flat_map(|part| part.variants).map(|variant| variant.name).collect()
}

/// Every layer, behind one of the two servers: both run in `python-servers`.
#[test]
fn django_layers_run() {
    every_variant_serves_or_says_what_it_lacks(&["django-layers", "--only", "granian"], 5);
}

#[test]
fn payloads_run() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().to_str().unwrap();
    let args = ["payload", "--only", "16KiB", "--only", "256KiB", "--keep-files", folder];
    every_variant_serves_or_says_what_it_lacks(&args, 8);
    for (part, variant, buffers) in
        [("16KiB", "unix-buffered", true), ("256KiB", "tcp-unbuffered", false)]
    {
        let file = kept.path().join(part).join(variant).join("nginx.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("server unix:/") == variant.starts_with("unix"), "{text}");
        assert!(text.contains("proxy_buffering off") != buffers, "{text}");
    }
}

#[test]
fn flask_behind_gunicorn_and_nginx_runs() {
    every_variant_serves_or_says_what_it_lacks(&["flask-gunicorn-nginx"], 4);
}

/// Parts of measurements that are repeated as they were published: the servers of 2013, and the
/// layout of 2016.
#[test]
fn published_measurements_run() {
    for (experiment, part) in
        [("django-layers-2013", "row-as-published"), ("flask-gunicorn-nginx-2016", "as-published")]
    {
        every_variant_serves_or_says_what_it_lacks(&[experiment, "--only", part], 2);
    }
}

/// Two servers that hand over to another process, and the control.
#[test]
fn graceful_restarts_run() {
    let place = Place::new();
    let chosen = ["nginx-upgrade", "gunicorn-gthread-usr2", "rebinds"];
    let mut args = vec!["run", "graceful-restart", "--quick", "--max-time", "1s", "--json"];
    args.extend(chosen.iter().flat_map(|name| ["--only", name]));
    let ended = place.run(&args);
    // A busy machine affects the verdict, but not what was lost.
    let report = ended.measured().json();
    let listed = list(&report["variants"]);
    assert_eq!(listed.len(), chosen.len());
    for variant in listed {
        let name = variant["name"].as_str().unwrap();
        if let Some(reason) = variant["skipped"].as_str() {
            assert!(reason.contains(" install ") && std::env::var_os("CI").is_none(), "{reason}");
            continue;
        }
        let disruption = &variant["trials"][0]["disruption"];
        let lost: u64 = list(&disruption["actions"])
            .iter()
            .map(|action| action["lost"].as_u64().unwrap())
            .sum();
        let ledger = |column: &str| variant["ledger"][column].as_u64().unwrap();
        assert_eq!(ledger("failed") + ledger("in_flight"), lost, "{name}: {disruption}");
        let answered = ledger("completed")..=ledger("completed") + lost;
        assert!(answered.contains(&ledger("served")), "{name}: {}", variant["ledger"]);
        match name {
            "rebinds" => assert!(lost > 0, "{disruption}"),
            _ => assert!(disruption["new_processes"].as_u64() > Some(0), "{name}: {disruption}"),
        }
    }
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn doctor_says_of_python_packages_what_it_knows() {
    let place = Place::new();
    let mut command = place.command(&["doctor", "flask-gunicorn-nginx"]);
    command.env("XDG_CACHE_HOME", place.path("empty"));
    place
        .finish(command)
        .prints("note    Python packages ")
        .prints("(not installed yet: the first run");
}

/// A `PATH` of which only these programs are left.
fn path_with(place: &Place, programs: &[&str]) -> std::path::PathBuf {
    let folder = place.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for program in programs {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(program))
            .find(|path| path.exists())
            .unwrap();
        std::os::unix::fs::symlink(found, folder.join(program)).unwrap();
    }
    folder
}

#[test]
fn doctor_failed_because_one_experiment_lacked_a_program_and_never_said_what_was_ready() {
    let place = Place::new();
    let mut command = place.command(&["doctor"]);
    command.env("PATH", path_with(&place, &["git"]));
    let ended = place.finish(command);
    let ready = "Commands:\n  ok      compare, run: ready\n  ok      load: ready\n  ok      serve, \
                 import, query: ready\n  ok      diff: ready\n\nMachine:\n";
    assert!(ended.status(0).out.starts_with(ready), "{}", ended.out);
    ended.prints("MISSING nxweb; install it with: ");

    let mut command = place.command(&["doctor"]);
    command.env("TACHOGRAPH_RECORD", "/dev/null/record.sqlite").env("PATH", "/nowhere");
    let ended = place.finish(command);
    let missing = "Commands:\n  MISSING compare, run: cannot write the record \
                   /dev/null/record.sqlite: not a directory; --record FILE chooses another one\n";
    assert!(ended.status(1).out.starts_with(missing), "{}", ended.out);

    let mut command = place.command(&["doctor"]);
    command.env("PATH", "/nowhere");
    let ended = place.finish(command);
    ended.status(0).prints("note    diff: needs git; install it with: sudo apt install git\n");
}

/// A server file added to a copy of the folder is used without further changes.
#[test]
fn a_further_file_is_a_further_contender() {
    let place = Place::new();
    place.run(&["run", "python-servers", "--eject", "mine"]).status(0);
    let further = "[[variant]]\nname = \"further\"\ngroups = [\"of-2013\"]\n\
                   target = \"http://127.0.0.1:$PORT/\"\nprocess = { command = \"further\" }\n\
                   needs = { further = \"apt install further\" }\n";
    place.write("mine/python-servers/further.toml", further);
    let missing = "MISSING further; install it with: apt install further";
    place.run(&["doctor", "./mine/python-servers.toml"]).status(1).prints(missing);
}

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
         process = {{ command = \"{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED} --body $NAME\", ready = \"127.0.0.1:$PORT\" }}\n\n{}{}{}",
        variant("absent", needs),
        variant("second", ""),
        variant("third", "")
    );
    place.write("three.toml", &text);
}

#[test]
fn a_baseline_that_cannot_start_is_replaced_by_the_first_that_can() {
    let place = Place::new();
    without_baseline(&place);
    let ended = place.run(&["run", "./three.toml", "--quick", "--max-time", "6s"]);
    ended.says("skipping absent: ").says("apt install no-such-package");
    let sentence = "absent could not start, so the others are compared with second";
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

/// A command that prints secrets from its environment, and fails.
#[test]
fn a_secret_that_a_failing_command_prints_is_neither_recorded_nor_shown() {
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
    ended.says("skipping leaks: ").says("ZZ_DEPLOY_TOKEN=[ZZ_DEPLOY_TOKEN redacted]");
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

/// The pitfall of 2013: nginx responds with 502 when uWSGI's short backlog is full.
#[test]
fn a_short_backlog_is_refused_with_the_words_of_nginx() {
    let place = Place::new();
    let mut args = vec!["run", "python-servers-concurrent", "--only", "short-backlog"];
    args.extend(["--quick", "--max-time", "6s", "--json"]);
    let ended = place.run(&args);
    let report = ended.status(1).json();
    assert_eq!(report["verdict"], "invalid");
    let reason = report["reasons"][0].as_str().unwrap();
    for words in
        ["short-backlog: ", " requests failed (", "status 502", "nginx: ", " connect() to "]
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
