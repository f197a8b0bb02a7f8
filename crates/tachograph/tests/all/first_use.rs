//! Problems found when the command was used for the first time.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{self, Ended, Place, Server};

/// A comparison of a second.
fn compare(place: &Place, arguments: &[&str]) -> Ended {
    let quick = ["compare", "--quick", "--max-time", "1s", "--closed-only"];
    place.run(&[&quick[..], arguments].concat())
}

#[test]
fn a_copied_experiment_lacked_its_files() {
    let place = Place::new();
    let shown = place.run(&["run", "--show", "raw-sockets"]);
    shown.status(0).says("it also needs apps").says("tachograph run raw-sockets --eject FOLDER");
    place.write("mine.toml", &shown.out);
    place
        .run(&["run", "./mine.toml"])
        .status(2)
        .says("./mine.toml refers to $FILES/apps, but there is no apps in ")
        .says("--eject FOLDER");
    let ejected = place.run(&["run", "raw-sockets", "--eject", "mine"]);
    ejected.status(0).prints("mine/apps/raw_sockets_server.py\n");
    ejected.prints("\nrun it with: tachograph run mine/raw-sockets.toml\n");
    let run = [
        "run",
        "mine/raw-sockets.toml",
        "--quick",
        "--max-time",
        "1s",
        "--only",
        "python-split",
        "--json",
    ];
    let ended = place.run(&run);
    ended.measured();
    for variant in ended.json()["variants"].as_array().unwrap() {
        assert_eq!(variant["skipped"], serde_json::Value::Null);
        assert!(variant["ledger"]["completed"].as_u64() > Some(0), "{variant}");
    }
}

#[test]
fn what_root_had_in_its_cache_was_only_for_root_after_a_run_with_a_strict_umask() {
    if !rustix::process::getuid().is_root() {
        return support::not_run("only root's cache is also for servers that drop its rights");
    }
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let run = |umask: &str| {
        let quick = ["compare", "--quick", "--max-time", "1s", "--closed-only", &url, &url];
        let mut command = place.command(&quick);
        command.env("XDG_CACHE_HOME", place.path("cache"));
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        place.finish(support::run_by("sh", &["-c", &script], &command));
    };
    let find = |condition: &[&str]| {
        let mut command = std::process::Command::new("find");
        let found = command.arg(place.path("cache/tachograph")).args(condition).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    run("077");
    assert!(find(&["-name", "tachograph_counter.py"]).contains("/python-"));
    assert_eq!(find(&["!", "-perm", "-o=r"]), "");
    // One that was made before is mended.
    let status = std::process::Command::new("chmod")
        .args(["-R", "go="])
        .arg(place.path("cache/tachograph"))
        .status();
    assert!(status.unwrap().success());
    run("022");
    assert_eq!(find(&["!", "-perm", "-o=r"]), "");
}

/// As another user, a server reads a file of its stack and one that it wrote as root.
#[test]
fn with_a_strict_umask_of_root_servers_that_drop_their_rights_could_not_read_their_own_files() {
    if !rustix::process::getuid().is_root() {
        return support::not_run("only root's servers can drop rights");
    }
    let place = Place::new();
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let text = format!(
        "[experiment]\nname = \"rights\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n\
         [stack.server]\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         process = {{ command = \"sh -c 'echo more > $DIR/second.txt && \
         {nobody} cat $DIR/pages/first.txt $DIR/second.txt && \
         exec $TACHOGRAPH serve-fixture --listen tcp://127.0.0.1:$PORT'\" }}\n\
         [stack.server.files]\n\"pages/first.txt\" = \"words\"\n\
         [[variant]]\nname = \"a\"\nstack = \"server\"\n[[variant]]\nname = \"b\"\nstack = \"server\"\n"
    );
    place.write("rights.toml", &text);
    let run = ["run", "./rights.toml", "--quick", "--max-time", "1s", "--json"];
    let mut command = place.command(&run);
    // Only root can enter the folder of a test.
    command.env("TMPDIR", "/tmp");
    let script = "umask 077; exec \"$0\" \"$@\"";
    let json = place.finish(support::run_by("sh", &["-c", script], &command)).json();
    for variant in json["variants"].as_array().unwrap() {
        assert_eq!(variant["skipped"], serde_json::Value::Null, "{variant:#}");
        assert!(variant["ledger"]["completed"].as_u64() > Some(0), "{variant:#}");
    }
}

#[test]
fn an_experiment_with_includes_is_copied_whole_and_nothing_is_replaced() {
    let place = Place::new();
    let eject = |name: &str| place.run(&["run", name, "--eject", "mine"]);
    eject("python-servers").status(0).prints("mine/python-servers/uvicorn.toml\n");
    eject("python-servers").status(0);
    // A copy can be copied and is complete.
    place.run(&["run", "mine/python-servers.toml", "--eject", "again"]).status(0);
    for file in ["python-servers.toml", "python-servers/caddy.toml", "apps/hello.py"] {
        let read = |folder: &str| std::fs::read(place.path(folder).join(file)).unwrap();
        assert_eq!(read("mine"), read("again"), "{file}");
    }
    place.write("mine/apps/hello.py", "changed");
    eject("python-servers").status(2).says("mine/apps/hello.py already exists and differs");
}

#[test]
fn the_report_of_a_single_load_spoke_of_comparisons() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    for (mode, words) in [(&[][..], "closed loop"), (&["-r", "300"], "open loop at 300 requests/s")]
    {
        let mut load = vec!["load", "-d", "300ms", &url];
        load.extend(mode);
        let first = place.run(&load);
        assert!(matches!(first.status, Some(0 | 1)), "{}", first.err);
        let again = place.run(&["report", "last"]);
        assert_eq!(first.out, again.out);
        let markdown = place.run(&["report", "last", "--markdown"]);
        let html = place.run(&["report", "last", "--html"]);
        for text in [&again.out, &markdown.out, &html.out] {
            assert!(text.contains(words), "{words} is not in\n{text}");
            for word in ["othing was measured", "o verdict", "Every check passed"] {
                assert!(!text.contains(word), "'{word}' is in\n{text}");
            }
        }
    }
}

#[test]
fn each_command_had_flags_of_its_own_for_the_same_thing() {
    let place = Place::new();
    let shared = [
        "--json",
        "--export-json",
        "--export-csv",
        "--export-markdown",
        "--export-html",
        "--fail-if",
        "--fail-if-inconclusive",
        "--closed-only",
        "--seed",
        "--cpus",
    ];
    for command in ["load", "compare", "diff", "run"] {
        let help = place.run(&[command, "--help"]).out;
        for flag in shared {
            assert!(help.contains(&format!(" {flag}")), "{command} has no {flag}");
        }
    }
}

#[test]
fn a_load_had_no_thresholds_no_exports_and_no_counts_by_status() {
    let place = Place::new();
    // The three probes and 50 measured requests get a response; then there is an error page. What is
    // checked is declared, so there are no requests to learn from, whose number depends on the time.
    let (_server, url) = Server::http(&["--fail-after", "53"]);
    let few = ["load", "-n", "100", "-c", "1", "--check", "status", &url];
    let load = |more: &[&str]| place.run(&[&few, more].concat());
    let ended =
        load(&["--fail-if", "failed > 40", "--export-csv", "a.csv", "--export-markdown", "a.md"]);
    ended
        .status(1)
        .prints("statuses   200: 50, 503: 50")
        .says("triggered: failed > 40 (failed of ");
    let csv = std::fs::read_to_string(place.path("a.csv")).unwrap();
    assert!(csv.starts_with("run,part,block,"), "{csv}");
    assert_eq!(csv.lines().count(), 2, "a head and the measured trial");
    let markdown = std::fs::read_to_string(place.path("a.md")).unwrap();
    assert!(markdown.contains("- statuses: 200: 50, 503: 50"), "{markdown}");

    let (_server, url) = Server::http(&[]);
    let load =
        |condition| place.run(&["load", "-n", "400", "--json", "--fail-if", condition, &url]);
    let well = load("p99 > 1h or failed > 0");
    well.status(0).says("not triggered: p99 > 1h or failed > 0");
    assert_eq!(well.json()["statuses"], serde_json::json!({ "200": 400 }));
    load("p99 > 1ns").status(1).says("triggered: p99 > 1ns (p99 of http://127.0.0.1:");
    load("throughput < 1/s").status(2);
    place
        .run(&["load", "--closed-only", "-r", "10", &url])
        .status(2)
        .says("--closed-only skips it");
}

#[test]
fn servers_that_already_run_could_not_be_compared() {
    let place = Place::new();
    let counted = |name: &str| {
        let file = place.path(name).display().to_string();
        let (server, url) = Server::http(&["--served-file", &file]);
        (server, url, format!("counter_file={file}"))
    };
    let (_one, first, by_first) = counted("one");
    let (_two, second, by_second) = counted("two");
    let ended = compare(
        &place,
        &["--json", "--served-by", &by_first, "--served-by", &by_second, &first, &second],
    );
    ended.measured();
    for variant in ended.json()["variants"].as_array().unwrap() {
        let ledger = &variant["ledger"];
        assert!(ledger["completed"].as_u64() > Some(0), "{ledger}");
        assert_eq!(ledger["served"], ledger["completed"], "{ledger}");
        assert_eq!(ledger["series"], ledger["completed"], "{ledger}");
    }
    place
        .run(&["report"])
        .prints("the servers were already running, so there is one start of each");
    // Tachograph does not stop servers that it did not start.
    place.run(&["load", "-n", "1", &first]).status(0);
    place.run(&["load", "-n", "1", &second]).status(0);
}

/// A server that gives this reply to the first request, the second, and so on; its URL.
fn replying(reply: impl Fn(usize) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (reply, replies) = (Arc::new(reply), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (reply, replies) = (reply.clone(), replies.clone());
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let next = || reply(replies.fetch_add(1, Ordering::Relaxed) + 1);
                while stream.read(&mut request).is_ok_and(|n| n > 0)
                    && stream.write_all(next().as_bytes()).is_ok()
                {}
            });
        }
    });
    url
}

/// A server that redirects every request.
fn redirecting() -> String {
    replying(|_| "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n".to_owned())
}

#[test]
fn an_error_page_was_compared_to_the_end_and_a_redirect_without_a_word() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let (_broken, error_page) = Server::http(&["--fail-after", "0"]);
    let refused = compare(&place, &[&url, &error_page]);
    refused.status(2).says("--expect-status 503");
    assert_eq!(place.rows("block where block > 0"), 0, "nothing was measured");
    let ended = compare(&place, &[&url, &redirecting()]);
    ended.measured();
    ended.says("redirect (status 302)").prints("redirect (status 302)");
}

#[test]
fn runs_had_no_names_and_two_could_not_be_shown_side_by_side() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    for name in ["before the change", "after"] {
        place.run(&["load", "-n", "100", "--name", name, &url]).status(0);
    }
    let list = place.run(&["list"]);
    list.status(0)
        .prints(&format!("before the change: load {url}"))
        .prints(&format!("after: load {url}"));
    place.run(&["report", "before the change"]).status(0).prints(&url);
    let both = place.run(&["report", "before the change", "after"]);
    both.status(0)
        .prints("B ÷ A")
        .prints("No verdict: the runs began ")
        .prints("tachograph compare");
    place
        .run(&["report", "before the change", "after", "--html"])
        .status(2)
        .says("--html writes one run");
    place.run(&["report", "neither"]).status(2).says("neither");
    for flag in ["--html", "--csv"] {
        let confused = place.run(&["report", flag, "before the change"]);
        confused.status(2).says("but 'before the change' is a run; put the run first: ");
        confused.says(&format!("tachograph report 'before the change' {flag} report."));
        assert!(!place.path("before the change").exists());
    }
    place.run(&["report", "--html", "page"]).status(0);
    place.run(&["report", "after", "--html", "after"]).status(0);
}

#[test]
fn nothing_could_be_run_around_a_comparison_nor_a_parameter_scanned() {
    let place = Place::new();
    let server = "$TACHOGRAPH serve-fixture --listen tcp://127.0.0.1:$PORT --body-size {size}";
    let server = server.replace("$TACHOGRAPH", support::TACHOGRAPH);
    let ended = compare(
        &place,
        &[
            "--json",
            "-L",
            "size",
            "10,20",
            "--setup",
            "echo setup {size} >> log",
            "--prepare",
            "echo prepare {size} >> log",
            "--cleanup",
            "echo cleanup >> log",
            &server,
        ],
    );
    ended.measured();
    assert_eq!(ended.json()["variants"].as_array().unwrap().len(), 2);
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["setup 10", "setup 20"]);
    assert_eq!(lines.last(), Some(&"cleanup"));
    assert_eq!(lines.iter().filter(|line| **line == "cleanup").count(), 1, "{log}");
    let starts = lines.iter().filter(|line| **line == "prepare 20").count();
    // The calibration and at least one block.
    assert!(starts >= 2, "{log}");

    let failed = place.run(&[
        "compare",
        "--setup",
        "exit 3",
        "--cleanup",
        "echo late >> log",
        "a $PORT",
        "b $PORT",
    ]);
    failed.status(2).says("the --setup command `exit 3` failed: it ended with exit status: 3");
    assert!(std::fs::read_to_string(place.path("log")).unwrap().ends_with("late\n"));
    let unused = place.run(&["compare", "-P", "n", "1", "3", "a $PORT", "b $PORT"]);
    unused.status(2).says("no command names {n}");
}

#[test]
fn the_option_that_gives_a_slow_server_more_time_was_not_named() {
    let place = Place::new();
    let ended =
        place.run(&["compare", "--ready-timeout", "300ms", "sleep 60 # $PORT", "sleep 61 # $PORT"]);
    ended
        .status(2)
        .says("was not ready after 300 ms")
        .says("--ready-timeout, or ready_timeout in an experiment");
}

#[test]
fn a_histogram_that_could_not_be_written_lost_the_screen() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let ended = place.run(&["load", "-n", "10", "--hdr", "/dev/full", &url]);
    ended.status(2).says("cannot write /dev/full").prints("requests/s").prints("ledger");
}

/// A server whose bodies have as many bytes as it has responded to requests.
fn varying() -> String {
    replying(|n| format!("HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n{}", "x".repeat(n)))
}

#[test]
fn the_length_of_bodies_of_any_length_was_said_to_be_checked() {
    let place = Place::new();
    let ended = place.run(&["load", "-n", "10", "-c", "1", "--json", &varying()]);
    let warnings = ended.status(0).json()["warnings"].to_string();
    assert!(warnings.contains("so only status and framing are checked"), "{warnings}");
}
