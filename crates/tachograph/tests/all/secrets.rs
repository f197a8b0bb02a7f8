//! What is secret in a command line is neither printed, exported nor recorded.

use crate::support::{Ended, Place, Server, TACHOGRAPH, UNHURRIED};

const EXPORTS: [&str; 8] = [
    "--export-json",
    "r.json",
    "--export-markdown",
    "r.md",
    "--export-csv",
    "r.csv",
    "--export-html",
    "r.html",
];

/// Looks for `s3cr3t`, which every secret of these tests contains, in everything that a run prints
/// and writes, and in the reports of its record.
#[track_caller]
fn nothing_leaks(place: &Place, ended: &Ended) {
    let holds = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"s3cr3t");
    let mut shown = vec![("output".to_owned(), (ended.out.clone() + &ended.err).into_bytes())];
    for format in ["--json", "--markdown", "--csv", "--html"] {
        let report = place.run(&["report", "last", format]);
        shown.push((format!("report {format}"), (report.out + &report.err).into_bytes()));
    }
    let report = place.run(&["report", "last"]);
    assert!(matches!(report.status, Some(0..=2)), "{report:?}");
    shown.push(("report".to_owned(), report.out.into_bytes()));
    let files: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().collect();
    for entry in files {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() && name != "headers.txt" {
            shown.push((name, std::fs::read(path).unwrap()));
        }
    }
    for name in ["record.sqlite", "r.json", "r.md", "r.csv", "r.html"] {
        let bytes = shown.iter().find(|(of, _)| of == name).map(|(_, bytes)| bytes.len());
        assert!(bytes.is_some_and(|bytes| bytes > 0), "{name} was not written: {ended:?}");
    }
    for (name, bytes) in shown {
        assert!(!holds(&bytes), "{name}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_comparison_does_not_leak_secrets() {
    let place = Place::new();
    place.write("headers.txt", "X-Api-Key: s3cr3t-file\n\nAccept: text/html\n");
    let serve = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
    let first = format!("env PGPASSWORD=s3cr3t-env {serve}");
    let second = format!("{serve} --body postgres://ada:s3cr3t-url@db/x");
    let mut args = vec!["compare", "--quick", "--closed-only", "--max-time", "4s"];
    args.extend(["-H", "Authorization: Bearer s3cr3t-header", "--header=Cookie: a=s3cr3t-cookie"]);
    args.extend(["--header", "@headers.txt", "--method", "POST", "--body", "s3cr3t-body"]);
    args.extend(EXPORTS);
    args.extend([first.as_str(), second.as_str()]);
    let ended = place.run(&args);
    ended.prints("***");
    nothing_leaks(&place, &ended);
    let json = std::fs::read_to_string(place.path("r.json")).unwrap();
    for shown in ["Authorization: ***", "Cookie: ***", "@headers.txt", "postgres://ada:***@db/x"] {
        assert!(json.contains(shown), "{shown} is not in {json}");
    }
}

#[test]
fn a_load_does_not_leak_secrets() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let url = format!("{url}?token=s3cr3t-query");
    let mut args = vec!["load", "-n", "100", "-H", "Authorization: s3cr3t-header"];
    // A condition concerns the target, whose recorded name is without the secret.
    args.extend(["--body", "s3cr3t-body", "--fail-if", "throughput > 1", &url]);
    args.extend(EXPORTS);
    let ended = place.run(&args);
    ended.status(1);
    nothing_leaks(&place, &ended);
}

/// What a file says about requests is as secret as the same on the command line.
#[test]
fn an_experiment_does_not_leak_secrets() {
    let place = Place::new();
    let text = format!(
        "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\noffers = [\"closed\"]\n\n\
         [load]\nmethod = \"POST\"\nheaders = [\"X-Trace: s3cr3t-header\", \"Accept: text/html\"]\n\
         body = \"s3cr3t-body\"\n\n[stack.app]\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         process = {{ command = \"env DB_PASS=s3cr3t-env {TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}\", ready = \"127.0.0.1:$PORT\" }}\n\n\
         [[variant]]\nname = \"one\"\nstack = \"app\"\n\n[[variant]]\nname = \"two\"\nstack = \"app\"\n"
    );
    let folder = place.path("files");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("x.toml"), text).unwrap();
    let mut args = vec!["run", "./files/x.toml", "--quick", "--max-time", "4s"];
    args.extend(EXPORTS);
    let ended = place.run(&args);
    nothing_leaks(&place, &ended);
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(html.contains("X-Trace: ***") && html.contains("Accept: text/html"), "{html}");
}

#[test]
fn errors_about_commands_and_targets_do_not_leak_secrets() {
    let place = Place::new();
    let refused = "http://127.0.0.1:1/?token=s3cr3t-query";
    let without_port = "env DB_PASS=s3cr3t-env false ";
    for (args, said) in [
        (&["load", refused][..], "cannot connect to http://127.0.0.1:1/?token=***: "),
        (
            &["compare", "--max-time", "4s", without_port, without_port],
            "the shell replaced it: use single quotes",
        ),
        (&["compare", "DB_PASS=s3cr3t-env ./x --port", "./y $PORT"], "gives --port no value"),
    ] {
        let ended = place.run(args);
        ended.status(2).says(said);
        assert!(!(ended.out + &ended.err).contains("s3cr3t"), "{said}");
    }
}

#[test]
fn headers_that_cannot_be_read_are_refused_without_being_shown() {
    let place = Place::new();
    place.write("headers.txt", "Accept: text/html\nBearer s3cr3t\n");
    for (header, said) in [
        ("@headers.txt", "line 2 of headers.txt is not a header; write 'Name: value'"),
        ("@none.txt", "cannot read the headers from none.txt: No such file or directory"),
        ("Bearer s3cr3t", "'***' is not a header; write 'Name: value' or @FILE"),
    ] {
        let ended = place.run(&["load", "-H", header, "http://127.0.0.1:1/"]);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains(said), "{}", ended.err);
        assert!(!ended.err.contains("s3cr3t"), "{}", ended.err);
    }
}
