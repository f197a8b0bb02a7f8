use super::*;

fn args(commands: &[&str]) -> CompareArgs {
    CompareArgs {
        commands: commands.iter().map(|&command| command.to_owned()).collect(),
        ..CompareArgs::default()
    }
}

#[test]
fn a_command_that_names_the_socket_is_reached_through_it() {
    let plan = compare_plan(&args(&[
        "gunicorn -b 127.0.0.1:$PORT server:app",
        "gunicorn -b unix:${SOCKET} server:app",
    ]))
    .expect("a plan");
    let [tcp, unix] = plan.parts[0].variants.as_slice() else { panic!("two variants") };
    assert_eq!((tcp.name.as_str(), tcp.target.as_str()), ("tcp", "http://127.0.0.1:$PORT/"));
    assert_eq!(tcp.stack.processes[0].ready, [ReadyCheck::Port("$PORT".to_owned())]);
    assert_eq!((unix.name.as_str(), unix.target.as_str()), ("unix", "http://unix:$SOCKET:/"));
    assert_eq!(unix.stack.processes[0].ready, [ReadyCheck::Socket("$SOCKET".to_owned())]);
    assert_eq!(plan.parts[0].contrasts, [Contrast { baseline: 0, variant: 1 }]);
    assert_eq!(plan.parts[0].offers, default_offers());
    assert_eq!(plan.question, "Which is faster: tcp or unix?");
}

#[test]
fn a_quick_look_is_shorter() {
    let full = compare_plan(&args(&["a", "b"])).expect("a plan").parts[0].schedule.clone();
    let quick = CompareArgs { quick: true, ..args(&["a", "b"]) };
    let quick = compare_plan(&quick).expect("a plan").parts[0].schedule.clone();
    assert_eq!((full.pilot_blocks, full.window, full.quick), (10, Nanos::from_millis(1500), false));
    assert_eq!(
        (quick.pilot_blocks, quick.window, quick.quick),
        (6, Nanos::from_millis(1200), true)
    );
}

#[test]
fn starts_are_alike_unless_asked_otherwise() {
    let independent = |given: &CompareArgs| {
        compare_plan(given).expect("a plan").parts[0].schedule.independent_starts
    };
    assert!(!independent(&args(&["a", "b"])));
    assert!(independent(&CompareArgs { independent_starts: true, ..args(&["a", "b"]) }));
}

#[test]
fn names_and_paths_are_taken_as_given() {
    let given = CompareArgs {
        names: vec!["old".to_owned()],
        path: "hello?x=1".to_owned(),
        ..args(&["./a $PORT", "./b $PORT"])
    };
    let part = compare_plan(&given).expect("a plan").parts.remove(0);
    assert_eq!(part.variants[0].name, "old");
    assert_eq!(part.variants[1].name, "b");
    assert_eq!(part.variants[1].target, "http://127.0.0.1:$PORT/hello?x=1");
}

#[test]
fn errors_say_what_to_do() {
    let quotes = "\nhelp: put each command in single quotes to keep your shell from expanding \
        $PORT and $SOCKET";
    let served_by = vec![ServedBy::Wsgi, ServedBy::Wsgi];
    let cases = [
        (
            args(&["one"]),
            "compare needs at least two commands\nhelp: give each server's command in single quotes, e.g. tachograph compare './old --port $PORT' './new --port $PORT'; to load one running server: tachograph load URL".to_owned(),
        ),
        (args(&["one", " "]), format!("a command is empty{quotes}")),
        (
            args(&["gunicorn -b 127.0.0.1: a:b", "x"]),
            format!("the command 'gunicorn -b 127.0.0.1: a:b' contains an address without $PORT \
                or $SOCKET{quotes}"),
        ),
        (
            CompareArgs { names: vec!["x".into(), "x".into()], ..args(&["a", "b"]) },
            "two variants are named 'x'\nhelp: give each its own with -n NAME, in the order of the commands".to_owned(),
        ),
        (
            CompareArgs { names: vec!["x".into(); 3], ..args(&["a", "b"]) },
            "there are 3 names for 2 commands".to_owned(),
        ),
        (
            CompareArgs { path: "/a b".to_owned(), ..args(&["a", "b"]) },
            "--path '/a b': ' ' in the path must be written as %20".to_owned(),
        ),
        (
            CompareArgs { precision: Some(0.0), ..args(&["a", "b"]) },
            "precision must lie between 0 and 1, such as 1%".to_owned(),
        ),
        (
            CompareArgs { served_by, ..args(&["a", "b", "c"]) },
            "there are 2 --served-by for 3 commands\nhelp: give one for all commands, or one for each in their order".to_owned(),
        ),
    ];
    for (args, message) in cases {
        assert_eq!(compare_plan(&args).expect_err("an error").to_string(), message);
    }
}

#[test]
fn a_port_that_the_shell_had_replaced_by_nothing_was_waited_for() {
    // What `"… --port $PORT …"` in double quotes becomes.
    for (command, option) in [
        ("srv --port ", "--port"),
        ("srv --port", "--port"),
        ("srv --port  --debug", "--port"),
        ("srv --port= --debug", "--port="),
        ("srv -b ", "-b"),
        ("srv -p  -v", "-p"),
    ] {
        let error = compare_plan(&args(&[command, "x"])).expect_err("an error").to_string();
        let words = format!(
            "the command '{command}' gives {option} no value\nhelp: put each command in single \
             quotes to keep your shell from expanding $PORT and $SOCKET"
        );
        assert_eq!(error, words);
    }
    for address in ["srv --listen=:", "srv --bind=127.0.0.1:"] {
        let error = compare_plan(&args(&[address, "x"])).expect_err("an error").to_string();
        assert!(error.contains("contains an address without $PORT or $SOCKET"), "{error}");
    }
    for sound in ["srv -p", "srv --port 80", "srv --port=80", "srv --portable  x", "srv -b $PORT  "]
    {
        compare_plan(&args(&[sound, "x"])).expect("a plan");
    }
}

#[test]
fn only_a_stack_that_names_no_port_leaves_it_to_the_environment() {
    let names = |command: &str| {
        let part = compare_plan(&args(&[command, "x"])).expect("a plan").parts.remove(0);
        part.variants[0].stack.names_place()
    };
    for told in ["srv $PORT", "srv ${PORT2}", "sh -c 'srv -u \"$SOCKET\"'"] {
        assert!(names(told), "{told}");
    }
    for untold in ["srv 8080", "srv $DIR $PORTAL", "srv"] {
        assert!(!names(untold), "{untold}");
    }
}

#[test]
fn urls_were_taken_for_files_that_are_not_there() {
    let plan = compare_plan(&args(&["http://127.0.0.1:8001/", "http://[::1]:8002/x"])).unwrap();
    let part = &plan.parts[0];
    let names: Vec<&str> = part.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["127.0.0.1:8001", "[::1]:8002/x"]);
    assert!(part.variants.iter().all(|v| v.stack.processes.is_empty()));
    assert_eq!(part.variants[0].target, "http://127.0.0.1:8001/");
    assert_eq!(part.layout, Layout::Free);
    let twice = compare_plan(&args(&["http://h:1/", "http://h:1/"])).unwrap();
    assert_eq!(twice.parts[0].variants[1].name, "h:1 (2)");
}

#[test]
fn what_cannot_be_asked_of_running_servers_is_refused() {
    let urls = ["http://h:1/", "http://h:2/"];
    let file = |path: &str| ServedBy::CounterFile { path: path.to_owned(), per_request: 1 };
    let of = |args: &CompareArgs| compare_plan(args).unwrap_err().message;
    assert_eq!(
        of(&args(&["http://h:1/", "server $PORT"])),
        "servers that already run cannot be compared with servers that are started"
    );
    assert_eq!(
        of(&CompareArgs { path: "/x".to_owned(), ..args(&urls) }),
        "--path is for commands; a URL has its own path"
    );
    let shared = "a server-side count that several URLs share cannot tell their requests apart";
    for served_by in [vec![file("/n")], vec![file("/n"), file("/n")]] {
        assert_eq!(of(&CompareArgs { served_by, ..args(&urls) }), shared);
    }
    let served_by = vec![file("/n"), file("/m")];
    let plan = compare_plan(&CompareArgs { served_by, ..args(&urls) }).unwrap();
    assert_eq!(plan.parts[0].variants[1].served_by, Some(file("/m")));
    let https = CompareArgs { https: true, ..args(&["https://h/", "https://i/"]) };
    assert_eq!(of(&https), "--https is for commands; a URL has its own scheme");
}
