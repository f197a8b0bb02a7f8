//! Everything that is refused, with its position and help.

use super::*;

/// Each case: additional keys of `[experiment]`, what follows, and the error.
fn check(cases: &[(&str, &str, &str, usize, usize, &str)]) {
    for (experiment, more, message, line, column, help) in cases {
        let expected = ((*message).to_owned(), *line, *column, (*help).to_owned());
        assert_eq!(refusal(&text(experiment, more)), expected, "{experiment}{more}");
    }
}

#[test]
fn of_an_experiment() {
    let cases: &[(&str, &str, &str, usize, usize, &str)] = &[
        (
            "layuot = \"split\"\n",
            "",
            "'layuot' is not a key of [experiment]",
            5,
            1,
            "did you mean 'layout'?",
        ),
        (
            "layout = \"both\"\n",
            "",
            "layout cannot be 'both'",
            5,
            10,
            "there are: split, same, free",
        ),
        (
            "primary = \"latency\"\n",
            "",
            "primary cannot be 'latency'",
            5,
            11,
            "there are: throughput, p50, p99, cpu, memory",
        ),
        ("baseline = \"tpc\"\n", "", "there is no variant 'tpc'", 5, 12, "did you mean 'tcp'?"),
        (
            "interpreter = \"python3.6 -E\"\n",
            "",
            "interpreter must be one program, such as \"python3.6\"",
            5,
            15,
            "",
        ),
        (
            "",
            "[[variant]]\nname = \"x\"\ntarget = \"http://h/\"\nprocess = { command = \"x\", cpus = \"1\" }\n",
            "cpus cannot be '1'",
            22,
            35,
            "there are: stack, client",
        ),
        (
            "contrasts = [\"unix / tpc\"]\n",
            "",
            "there is no variant 'tpc'",
            5,
            14,
            "did you mean 'tcp'?",
        ),
        (
            "contrasts = [\"tcp / tcp\"]\n",
            "",
            "a contrast is written as \"VARIANT / BASELINE\", two different variants",
            5,
            14,
            "",
        ),
        (
            "contrasts = \"unix / tcp\"\n",
            "",
            "contrasts must be a list of strings, not a text",
            5,
            13,
            "",
        ),
        (
            "offers = [\"open\"]\n",
            "",
            "an offer is \"closed\", { open = \"50%\" } or { open = \"2000/s\" }",
            5,
            11,
            "",
        ),
        (
            "offers = [{ open = \"150%\" }]\n",
            "",
            "a share of the capacity lies between 0% and 100%",
            5,
            20,
            "",
        ),
        (
            "offers = [{ rate = 5 }]\n",
            "",
            "'rate' is not a key of an offer",
            5,
            13,
            "there are: open, arrivals",
        ),
        ("python = \"flask\"\n", "", "python must be a list of strings, not a text", 5, 10, ""),
        ("", "[lod]\n", "'lod' is not a key of the experiment", 19, 2, "did you mean 'load'?"),
        (
            "",
            "[[published]]\nfigure = \"1\"\nsource = \"s\"\nvariant = \"x\"\n",
            "there is no variant 'x'",
            22,
            11,
            "",
        ),
        ("", "[[published]]\nsource = \"s\"\n", "[[published]] has no figure", 19, 1, ""),
        (
            "",
            "[schedule]\nwindow = \"10ms\"\n",
            "the window (10.0 ms) must hold at least one slice (25.0 ms)",
            19,
            1,
            "",
        ),
        (
            "",
            "[schedule]\nprecision = \"5x\"\n",
            "precision must be a share such as \"1%\" or 0.01, not \"5x\"",
            20,
            13,
            "",
        ),
        (
            "",
            "[schedule]\nmax_blocks = 3\n",
            "max_blocks (3) must not be below pilot_blocks (10)",
            19,
            1,
            "",
        ),
        (
            "",
            "[schedule]\nisolated = 1\n",
            "isolated must be true or false, not a whole number",
            20,
            12,
            "",
        ),
    ];
    check(cases);
    let name = HEAD.replace("\"x\"", "\"a b\"");
    assert_eq!(
        refusal(&format!("{name}{STACK}{VARIANTS}")),
        ("a name must consist of letters, digits and dashes".to_owned(), 2, 8, String::new())
    );
    assert_eq!(
        refusal(""),
        (
            "there is no [experiment]".to_owned(),
            1,
            1,
            "a file begins with [experiment] and its name, title and question".to_owned()
        )
    );
    assert_eq!(
        refusal("[experiment]\nname = \"x\"\n"),
        ("[experiment] has no title".to_owned(), 1, 1, String::new())
    );
    assert_eq!(
        refusal(HEAD),
        (
            "there is no variant".to_owned(),
            1,
            1,
            "a [[variant]] has a name, a process and a target".to_owned()
        )
    );
}

#[test]
fn of_a_load() {
    check(&[
        (
            "",
            "[load]\nconnections = \"ten\"\n",
            "connections must be a whole number such as 10, not \"ten\"",
            20,
            15,
            "",
        ),
        ("", "[load]\nconnections = 0\n", "connections must be at least 1", 20, 15, ""),
        (
            "",
            "[load]\nthreads = 11\n",
            "11 threads cannot share 10 connections: each needs one",
            20,
            11,
            "",
        ),
        (
            "",
            "[load]\ntimeout = \"5 parsecs\"\n",
            "timeout must be a time such as \"250ms\", \"5s\" or \"2m\", not \"5 parsecs\"",
            20,
            11,
            "",
        ),
        ("", "[load]\ntimeout = 0\n", "timeout must be greater than zero", 20, 11, ""),
        ("", "[load]\nsize = 5\n", "size belongs to exchange = \"echo\"", 20, 8, ""),
        (
            "",
            "[load]\nexchange = \"echo\"\n",
            "exchange = \"echo\" needs a size, such as size = \"64KiB\"",
            20,
            12,
            "",
        ),
        (
            "",
            "[load]\nexchange = \"bulk\"\nchunk = 0\n",
            "chunk must be at least 1 byte",
            21,
            9,
            "",
        ),
        (
            "",
            "[load]\nexchange = \"ehco\"\n",
            "exchange cannot be 'ehco'",
            20,
            12,
            "did you mean 'echo'?",
        ),
        (
            "",
            "[load]\nexchange = \"oneshot\"\n",
            "an http:// target supports only exchange = \"http\"",
            8,
            10,
            "for raw bytes write tcp://host:port or unix:/path/to.sock",
        ),
        ("", "[load]\nexpect_status = 99\n", "99 is not a status code from 200 to 599", 20, 17, ""),
        ("", "[load]\nheaders = [\"X 1\"]\n", "a header is written as \"Name: value\"", 20, 12, ""),
        (
            "",
            "[load]\nheaders = [\"X: a\\r\\nY: b\"]\n",
            "a header is written as \"Name: value\"",
            20,
            12,
            "",
        ),
    ]);
}

#[test]
fn of_a_variant() {
    let variant = "[[variant]]\nname = \"v\"\n";
    let with = |more: &str| refusal(&text("", &format!("{variant}{more}")));
    let cases = [
        ("", "variant 'v' has no target", 19, 1, ""),
        ("stack = \"ap\"\n", "there is no [stack.ap]", 21, 9, "did you mean 'app'?"),
        (
            "stack = \"app\"\n",
            "$BIND has no value here",
            7,
            35,
            "other variants or parts declare it in their vars; this one must too",
        ),
        (
            "target = \"ftp://localhost/\"\n",
            "target 'ftp://localhost/' is not a target: 'ftp://' is not a supported scheme; use \
             http://host:port/path, http://unix:/path/to.sock:/path, tcp://host:port or \
             unix:/path/to.sock",
            21,
            10,
            "",
        ),
        (
            "target = \"http://127.0.0.1:$HOME/\"\n",
            "$HOME is not a variable",
            21,
            28,
            "declare it in vars, or use $PORT, $SOCKET or $DIR",
        ),
        (
            "target = \"unix:$SOCKET\"\n",
            "a target without http:// does not support HTTP",
            21,
            10,
            "write http://…, or choose exchange = \"oneshot\", \"echo\" or \"bulk\" in [load]",
        ),
        ("target = 5\n", "target must be a string, not a whole number", 21, 10, ""),
        ("process = \"app\"\n", "a process of [[variant]] must be a table, not a text", 21, 11, ""),
        ("process = { ready = \"a:1\" }\n", "a process of [[variant]] has no command", 21, 11, ""),
        (
            "process = { command = \"a\", readiness = 1 }\n",
            "'readiness' is not a key of a process of [[variant]]",
            21,
            28,
            "there are: name, command, env, ready, ready_timeout, stop_signal, stop_timeout, cpus",
        ),
        (
            "process = { command = \"a\", ready = \"soon\" }\n",
            "ready 'soon' cannot be checked: the port is missing; write tcp://soon:PORT",
            21,
            36,
            "write 127.0.0.1:$PORT, unix:$SOCKET, http://… or file:$DIR/…",
        ),
        (
            "process = { command = \"a\", ready = \"healthy\" }\n",
            "only a container has a health check",
            21,
            36,
            "wait for an address or a file instead",
        ),
        (
            "container = { command = \"a\", image = \"dockerfile\" }\n",
            "image 'dockerfile' needs build, the path of the Dockerfile",
            21,
            13,
            "such as build = \"$FILES/app/Dockerfile\"",
        ),
        (
            "process = { command = \"a\", ready = \"unix-dgram:$SOCKET\" }\n",
            "readiness of this kind of socket cannot be checked",
            21,
            36,
            "wait for its path instead: ready = \"file:$SOCKET\"",
        ),
        (
            "process = { command = \"a\", stop_signal = \"KILL\" }\n",
            "stop_signal cannot be 'KILL'",
            21,
            42,
            "there are: TERM, INT, QUIT",
        ),
        (
            "files = { \"/etc/passwd\" = \"x\" }\n",
            "the file '/etc/passwd' must be inside $DIR",
            21,
            11,
            "",
        ),
        (
            "files = { \"a/../../b\" = \"x\" }\n",
            "the file 'a/../../b' must be inside $DIR",
            21,
            11,
            "",
        ),
        (
            "vars = { bind = \"x\" }\n",
            "a variable's name must consist of capitals, digits and underscores, such as BIND",
            21,
            10,
            "",
        ),
        (
            "vars = { PORT = \"x\" }\n",
            "$PORT is set by tachograph; choose another name",
            21,
            10,
            "",
        ),
        (
            "vars = { A = \"$BIND\" }\n",
            "a variable cannot refer to another one ($BIND)",
            21,
            14,
            "",
        ),
        (
            "served_by = \"me\"\n",
            "served_by cannot be 'me'",
            21,
            13,
            "write \"wsgi\" for the WSGI counter, or { stub_status = \"http://…\" }, { url = \
             \"http://…\", pattern = \"…\" }, { log = \"…\" }, { file_size = \"…\" } or { \
             counter_file = \"…\" }",
        ),
        (
            "served_by = { log = \"a\", file_size = \"b\" }\n",
            "served_by needs exactly one of: stub_status, url, log, file_size, counter_file",
            21,
            13,
            "",
        ),
        (
            "served_by = { url = \"http://h:1/\" }\n",
            "url needs a pattern with one group around the number, such as pattern = 'served (\\d+)'",
            21,
            13,
            "",
        ),
        (
            "served_by = { url = \"http://h:1/\", pattern = \"x\" }\n",
            "the pattern needs one group around the number, such as (\\d+)",
            21,
            46,
            "",
        ),
        (
            "served_by = { file_size = \"a\", pattern = \"x\" }\n",
            "pattern belongs to url or log",
            21,
            42,
            "",
        ),
        (
            "served_by = { log = \"a\", self_counting = true }\n",
            "self_counting belongs to url",
            21,
            13,
            "",
        ),
    ];
    for (more, message, line, column, help) in cases {
        let expected = (message.to_owned(), line, column, help.to_owned());
        assert_eq!(with(more), expected, "{more}");
    }
    assert_eq!(
        refusal(&text(
            "",
            "[[variant]]\nname = \"tcp\"\nstack = \"app\"\nvars = { BIND = \"h:1\" }\n"
        )),
        ("two variants are named 'tcp'".to_owned(), 20, 8, String::new())
    );
    let circle = "[stack.a]\nextends = \"b\"\n[stack.b]\nextends = \"a\"\n[[variant]]\nname = \"c\"\nstack = \"a\"\n";
    assert_eq!(
        refusal(&format!("{HEAD}{circle}")),
        ("these stacks extend each other in a circle".to_owned(), 8, 11, String::new())
    );
}

#[test]
fn of_a_part() {
    let part = "[[part]]\nname = \"p\"\n";
    let with = |more: &str| refusal(&text("", &format!("{part}{more}")));
    let cases = [
        ("variants = [\"tpc\"]\n", "there is no variant 'tpc'", 21, 13, "did you mean 'tcp'?"),
        ("each = { A = [] }\n", "$A has no values", 21, 10, ""),
        (
            "each = { A = [\"1\", \"2\"] }\n",
            "two parts are named 'p'",
            20,
            8,
            "the name must contain every variable of each",
        ),
        (
            "[[part]]\nname = \"p\"\n",
            "two parts are named 'p'",
            22,
            8,
            "the name must contain every variable of each",
        ),
        ("load = { size = \"1\" }\n", "size belongs to exchange = \"echo\"", 21, 17, ""),
        (
            "published = { variant = \"x\", figure = \"1\", source = \"s\" }\n",
            "there is no variant 'x'",
            21,
            25,
            "",
        ),
    ];
    for (more, message, line, column, help) in cases {
        let expected = (message.to_owned(), line, column, help.to_owned());
        assert_eq!(with(more), expected, "{more}");
    }
    let many = format!(
        "each = {{ A = [{0}], B = [{0}] }}\n",
        (0..11).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", ")
    );
    assert_eq!(with(&many).0, "these are more than 100 parts");
    assert_eq!(
        refusal(&text("", "[[part]]\n")),
        ("[[part]] has no name".to_owned(), 19, 1, String::new())
    );
}
