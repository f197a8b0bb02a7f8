use base::{Bytes, Nanos};
use proptest::prelude::*;

use super::*;
use crate::action::{Action, ActionStep, Deed};
use crate::load::{Arrivals, Exchange};
use crate::plan::{
    Change, Contrast, Layout, Margin, Metric, Offer, Process, ReadyCheck, ServedBy, StopSignal,
};
use crate::requests::HttpRequest;

const HEAD: &str = "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n";

const STACK: &str = r#"
[stack.app]
process = { command = "app --bind $BIND", ready = "$BIND" }
target = "http://$BIND"
"#;

const VARIANTS: &str = r#"
[[variant]]
name = "tcp"
stack = "app"
vars = { BIND = "127.0.0.1:$PORT" }

[[variant]]
name = "unix"
stack = "app"
vars = { BIND = "unix:$SOCKET" }
"#;

/// A whole experiment: additional keys of `[experiment]`, then other tables.
fn text(experiment: &str, more: &str) -> String {
    format!("{HEAD}{experiment}{STACK}{VARIANTS}{more}")
}

fn plan(text: &str) -> Plan {
    match parse_plan(text, "folder/x.toml") {
        Ok(plan) => plan,
        Err(error) => panic!("{error}"),
    }
}

/// The message, the line and column, and the help.
fn refusal(text: &str) -> (String, usize, usize, String) {
    let error = parse_plan(text, "x.toml").expect_err(text);
    let (line, column) = error.place.expect("a place").line_and_column();
    (error.message, line, column, error.help.unwrap_or_default())
}

#[test]
fn a_stack_is_written_once_and_varied_by_variables() {
    let plan = plan(&text("", ""));
    let part = &plan.parts[0];
    assert_eq!((plan.parts.len(), part.name.as_str(), part.question.as_str()), (1, "x", "q"));
    assert_eq!(plan.files.as_deref(), Some(Path::new("folder")));
    let [tcp, unix] = part.variants.as_slice() else { panic!("two variants") };
    assert_eq!(tcp.target, "http://127.0.0.1:$PORT");
    assert_eq!(tcp.stack.processes[0].name, "app");
    assert_eq!(tcp.stack.processes[0].command, "app --bind 127.0.0.1:$PORT");
    assert_eq!(tcp.stack.processes[0].ready, [ReadyCheck::Port("127.0.0.1:$PORT".to_owned())]);
    assert_eq!(unix.target, "http://unix:$SOCKET");
    assert_eq!(unix.stack.processes[0].ready, [ReadyCheck::Socket("$SOCKET".to_owned())]);
    assert_eq!(part.contrasts, [Contrast { baseline: 0, variant: 1 }]);
    assert_eq!(part.offers, crate::compare::default_offers());
}

#[test]
fn a_stack_that_extends_another_comes_after_it() {
    let more = r#"
[stack.front]
extends = "app"
target = "http://127.0.0.1:$PORT2/"
served_by = { stub_status = "http://127.0.0.1:$PORT3/" }
needs = { nginx = "apt install nginx" }
files = { "nginx.conf" = "upstream $BIND; host $host" }
process = [
    { command = "nginx -c $DIR/nginx.conf", ready = "http://127.0.0.1:$PORT2/", ready_timeout = "5s", stop_signal = "QUIT", stop_timeout = 2 },
    { command = "/bin/app", env = { HOST = "$BIND" }, ready = ["file:$DIR/a", "unix:@a-$PORT"] },
]

[[variant]]
name = "front"
stack = "front"
vars = { BIND = "unix:$SOCKET" }
"#;
    let plan = plan(&text("", more));
    let front = &plan.parts[0].variants[2];
    let names: Vec<&str> = front.stack.processes.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["app", "nginx", "app-2"]);
    let [_, nginx, app] = front.stack.processes.as_slice() else { panic!("three processes") };
    assert_eq!(nginx.ready, [ReadyCheck::Http("http://127.0.0.1:$PORT2/".to_owned())]);
    assert_eq!(
        (nginx.ready_timeout, nginx.stop_timeout),
        (Nanos::from_secs(5), Nanos::from_secs(2))
    );
    assert_eq!(nginx.stop_signal, StopSignal::Quit);
    assert_eq!(app.env["HOST"], "unix:$SOCKET");
    assert_eq!(
        app.ready,
        [ReadyCheck::File("$DIR/a".to_owned()), ReadyCheck::Socket("@a-$PORT".to_owned())]
    );
    assert_eq!(front.stack.files[0].path, "nginx.conf");
    assert_eq!(front.stack.files[0].text, "upstream unix:$SOCKET; host $host");
    assert_eq!(front.stack.needs, [("nginx".to_owned(), "apt install nginx".to_owned())]);
    assert_eq!(front.served_by, Some(ServedBy::StubStatus("http://127.0.0.1:$PORT3/".to_owned())));
    assert_eq!(front.target, "http://127.0.0.1:$PORT2/");
}

#[test]
fn without_a_check_the_last_process_is_ready_when_the_target_accepts() {
    let ready = |target: &str, first: &str| {
        let more = format!(
            "[[variant]]\nname = \"c\"\ntarget = \"{target}\"\nprocess = [{{ command = \"a\"{first} }}, {{ command = \"b\" }}]\n"
        );
        let plan = plan(&text("", &more));
        let processes = plan.parts[0].variants[2].stack.processes.clone();
        (processes[0].ready.clone(), processes[1].ready.clone())
    };
    let port = vec![ReadyCheck::Port("127.0.0.1:$PORT".to_owned())];
    assert_eq!(ready("http://127.0.0.1:$PORT/a?b=:/", ""), (vec![], port.clone()));
    assert_eq!(ready("https://127.0.0.1:$PORT", ""), (vec![], port));
    let socket = vec![ReadyCheck::Socket("$SOCKET".to_owned())];
    assert_eq!(ready("http://unix:$SOCKET:/x", ""), (vec![], socket));
    let own = vec![ReadyCheck::File("/a".to_owned())];
    assert_eq!(ready("http://127.0.0.1:$PORT/", ", ready = \"file:/a\""), (own, vec![]));
}

#[test]
fn a_load_has_one_request_or_several_kinds() {
    let kinds = |target: &str, requests: &str| {
        let more = format!(
            "[[variant]]\nname = \"c\"\ntarget = \"{target}\"\nprocess = {{ command = \"a\" }}\nload = {{ headers = [\"A: 1\"], requests = '''\n{requests}''' }}\n"
        );
        parse_plan(&text("", &more), "x.toml")
            .map(|plan| plan.parts[0].variants[2].load.kinds.clone())
    };
    let lines = "{\"path\": \"/a\", \"weight\": 2}\n{\"path\": \"/b\", \"method\": \"PUT\"}\n";
    let found = kinds("http://127.0.0.1:$PORT/", lines).unwrap();
    let names: Vec<(&str, u32)> = found.iter().map(|kind| (&*kind.name, kind.weight)).collect();
    assert_eq!(names, [("GET /a", 2), ("PUT /b", 1)]);
    assert_eq!(found[1].requests[0].request.headers, [("A".to_owned(), "1".to_owned())]);
    let error = kinds("http://127.0.0.1:$PORT/x", lines).unwrap_err().to_string();
    assert!(error.contains("end this target with /"), "{error}");
    let error = kinds("http://127.0.0.1:$PORT/", "{\"path\": 1}").unwrap_err().to_string();
    assert!(error.contains("requests:1:1") && error.contains("not a request"), "{error}");
}

#[test]
fn a_container_is_a_process_that_looks_after_it() {
    let container = |keys: &str| {
        let more = format!(
            "[[variant]]\nname = \"c\"\ntarget = \"http://127.0.0.1:$PORT/\"\ncontainer = {{ command = \"app --all\", {keys} }}\n"
        );
        let plan = plan(&text("", &more));
        let stack = &plan.parts[0].variants[2].stack;
        assert!(stack.needs_engine && !plan.parts[0].variants[0].stack.needs_engine);
        stack.processes[0].clone()
    };
    let host = container(
        "publish = \"$PORT:8000\", volumes = [\"/a\", \"/b c\"], security_opt = \"x=y\", env = { X = \"1\" }",
    );
    assert_eq!(
        host.command,
        "$TACHOGRAPH container --network bridge --publish '$PORT:8000' --volume /a --volume '/b c' --security-opt 'x=y' --env X --adopted-file '$DIR/adopted-1' -- app --all"
    );
    assert_eq!((host.name.as_str(), host.ready_timeout), ("app", Process::default().ready_timeout));
    let adopted = || ReadyCheck::Adopted("$DIR/adopted-1".to_owned());
    // As for any stack without a check, its target has to accept connections.
    assert_eq!(host.ready, [adopted(), ReadyCheck::Port("127.0.0.1:$PORT".to_owned())]);
    // Images that must be pulled or built take longer.
    for (keys, option) in [
        ("image = \"python:3\"", "--image python:3"),
        ("build = \"/x/Dockerfile\"", "--build /x/Dockerfile"),
        ("image = \"dockerfile\", build = \"/x/Dockerfile\"", "--build /x/Dockerfile"),
        ("image = \"python:3\", build = \"/x/Dockerfile\"", "--image python:3"),
    ] {
        let made = container(keys);
        assert_eq!(
            made.command,
            format!(
                "$TACHOGRAPH container --network bridge {option} --adopted-file '$DIR/adopted-1' -- app --all"
            )
        );
        assert_eq!(made.ready_timeout, Nanos::from_secs(600), "{keys}");
    }
    let here = container("image = \"host\", build = \"/x/Dockerfile\", network = \"own\"");
    assert_eq!(
        here.command,
        "$TACHOGRAPH container --network 'own=$ADDRESS,$GATEWAY' --adopted-file '$DIR/adopted-1' -- app --all"
    );
    let asked =
        container("health = \"test -e /ready\", ready = [\"healthy\", \"127.0.0.1:$PORT\"]");
    assert_eq!(
        asked.command,
        "$TACHOGRAPH container --network bridge --health 'test -e /ready' --healthy-file '$DIR/healthy-1' --adopted-file '$DIR/adopted-1' -- app --all"
    );
    let file = ReadyCheck::File("$DIR/healthy-1".to_owned());
    assert_eq!(asked.ready, [file, ReadyCheck::Port("127.0.0.1:$PORT".to_owned()), adopted()]);
}

#[test]
fn parts_inherit_from_the_experiment_and_each_makes_several() {
    let experiment = "layout = \"same\"\noffers = [\"closed\"]\nbaseline = \"unix\"\n";
    let more = r#"
[load]
connections = 4
timeout = "2s"

[schedule]
precision = "2%"
window = "1s"

[[part]]
name = "plain"

[[part]]
name = "size-$SIZE-$WHERE"
question = "What of $SIZE?"
each = { SIZE = ["1", "2"], WHERE = ["free", "split"] }
variants = ["tcp"]
layout = "$WHERE"
offers = [{ open = "25%" }, { open = "2k/s", arrivals = "uniform" }]
baseline = "tcp"
primary = "p99"
load = { connections = "$SIZE" }
schedule = { window = "3s", margin = 0.02 }
published = { variant = "tcp", figure = "5 req/s", throughput = 5, source = "a book" }
"#;
    let plan = plan(&text(experiment, more));
    let names: Vec<&str> = plan.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["plain", "size-1-free", "size-1-split", "size-2-free", "size-2-split"]);
    let (plain, sized) = (&plan.parts[0], &plan.parts[3]);
    assert_eq!((plain.layout, plain.question.as_str()), (Layout::Same, "q"));
    assert_eq!(plain.contrasts, [Contrast { baseline: 1, variant: 0 }]);
    assert_eq!(plain.offers, [Offer::Closed]);
    assert_eq!(plain.variants[0].load.connections, 4);
    assert_eq!((plain.schedule.precision, plain.schedule.window), (0.02, Nanos::from_secs(1)));
    assert_eq!((sized.layout, sized.question.as_str()), (Layout::Free, "What of 2?"));
    assert_eq!((sized.variants.len(), sized.contrasts.len()), (1, 0));
    assert_eq!(sized.variants[0].load.connections, 2);
    assert_eq!(sized.variants[0].load.timeout, Nanos::from_secs(2));
    assert_eq!((sized.schedule.precision, sized.schedule.window), (0.02, Nanos::from_secs(3)));
    assert_eq!((sized.schedule.margin, sized.primary), (Some(Margin(0.02)), Metric::P99));
    assert_eq!(
        sized.offers,
        [
            Offer::OpenShare { share: 0.25, arrivals: Arrivals::Poisson },
            Offer::OpenRate { rate_per_s: 2000.0, arrivals: Arrivals::Uniform },
        ]
    );
    assert_eq!(sized.published[0].throughput_per_s, Some(5.0));
}

#[test]
fn a_published_figure_may_speak_of_one_part() {
    let more = r#"
[[part]]
name = "size-$SIZE"
each = { SIZE = ["1", "2"] }

[[published]]
part = "size-2"
figure = "5 req/s"
source = "a book"
"#;
    let plan = plan(&text("", more));
    assert_eq!(plan.parts.iter().map(|part| part.published.len()).collect::<Vec<_>>(), [0, 1]);
    let (message, _, _, help) = refusal(&text("", &more.replace("\"size-2\"", "\"size-3\"")));
    assert_eq!(
        (message.as_str(), help.as_str()),
        ("there is no part 'size-3'", "did you mean 'size-1'?")
    );
}

#[test]
fn a_part_says_what_it_changes() {
    let more = r#"
[[part]]
name = "before"

[[part]]
name = "with-$WHAT"
each = { WHAT = ["a", "b"] }
changes = [{ from = "before", what = "$WHAT is different" }]

[[part]]
name = "turned"
contrasts = ["tcp / unix"]
"#;
    let read = plan(&text("", more));
    let changes: Vec<_> = read.parts.iter().map(|part| part.changes.as_slice()).collect();
    let change =
        |what: &str| Change { from: "before".to_owned(), what: format!("{what} is different") };
    assert_eq!(changes, [&[][..], &[change("a")], &[change("b")], &[]]);
    let cases = [
        ("befor", "there is no other part 'befor'", "did you mean 'before'?"),
        ("with-a", "there is no other part 'with-a'", ""),
        ("turned", "'with-a' and 'turned' have no comparison in common", ""),
    ];
    for (from, message, help) in cases {
        let more = more.replace("from = \"before\"", &format!("from = \"{from}\""));
        let (got, line, column, helped) = refusal(&text("", &more));
        assert_eq!((got.as_str(), line, column), (message, 26, 11), "{from}");
        assert!(helped.contains(help), "{helped}");
    }
    let bare = more.replace(", what = \"$WHAT is different\"", "");
    assert_eq!(refusal(&text("", &bare)).0, "[[part.changes]] has no what");
}

#[test]
fn a_load_is_read_in_full() {
    let more = r#"
[load]
connections = 8
threads = 2
new_connection = true
method = "POST"
headers = ["X-One: 1", "Host: me"]
body = "text"
expect_status = 201
expect_body = "ok"
expect_length = 2
"#;
    let load = plan(&text("", more)).parts[0].variants[0].load.clone();
    assert_eq!((load.connections, load.threads, load.new_connection), (8, 2, true));
    let headers = [("X-One", "1"), ("Host", "me")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let request = HttpRequest {
        method: "POST".to_owned(),
        headers: headers.to_vec(),
        body: b"text".to_vec(),
    };
    assert_eq!(load.exchange, Exchange::Http(request));
    assert_eq!((load.expect.status, load.expect.length), (Some(201), Some(2)));
    assert_eq!(load.expect.body.as_deref(), Some(&b"ok"[..]));
}

#[test]
fn raw_exchanges_have_sizes() {
    let raw = r#"
variant = [{ name = "a", target = "unix:$SOCKET", process = { command = "a" } }]
"#;
    let of =
        |load: &str| plan(&format!("{raw}{HEAD}[load]\n{load}")).parts[0].variants[0].load.clone();
    assert_eq!(of("exchange = \"oneshot\"").exchange, Exchange::Oneshot);
    assert_eq!(
        of("exchange = \"echo\"\nsize = \"4KiB\"").exchange,
        Exchange::Echo { size: Bytes(4096) }
    );
    assert_eq!(of("exchange = \"bulk\"\nchunk = 9").exchange, Exchange::Bulk { chunk: Bytes(9) });
}

#[test]
fn contrasts_are_written_as_ratios() {
    let more = "[[variant]]\nname = \"a / b\"\nstack = \"app\"\nvars = { BIND = \"h:1\" }\n";
    let ratios = "contrasts = [\"unix / tcp\", \"a / b / unix\"]\n";
    assert_eq!(
        plan(&text(ratios, more)).parts[0].contrasts,
        [Contrast { baseline: 0, variant: 1 }, Contrast { baseline: 1, variant: 2 }]
    );
}

#[test]
fn an_unknown_key_is_shown_with_its_place() {
    let text = text("", "[load]\nconections = 4\n");
    insta::assert_snapshot!(parse_plan(&text, "x.toml").expect_err("a slip"), @r#"
    'conections' is not a key of [load]
      --> x.toml:20:1
       |
    20 | conections = 4
       | ^^^^^^^^^^
       |
       = help: did you mean 'connections'?
    "#);
}

#[test]
fn what_is_not_toml_is_shown_with_its_place() {
    insta::assert_snapshot!(parse_plan("[experiment\nname = 1\n", "x.toml").expect_err("no TOML"), @r"
    invalid TOML: unclosed table, expected `]`
     --> x.toml:1:12
      |
    1 | [experiment
      |            ^
    ");
}

#[test]
fn a_slip_in_a_variable_is_shown_inside_its_text() {
    let text = text("", "").replace("--bind $BIND", "--bind $BNID --port $PROT");
    insta::assert_snapshot!(parse_plan(&text, "x.toml").expect_err("a slip"), @r#"
    $BNID is not a variable
     --> x.toml:7:35
      |
    7 | process = { command = "app --bind $BNID --port $PROT", ready = "$BIND" }
      |                                   ^^^^^
      |
      = help: did you mean $BIND?
    "#);
}

mod lines;
mod matrices;
mod refusals;

proptest! {
    #[test]
    fn any_text_is_read_or_refused_but_never_panics(
        experiment in "(offers|layout|contrasts|baseline|python|primary)? ?=? ?[a-z0-9\"\\[\\]{}%=, /]{0,20}\n?",
        more in "(\\[\\[?(part|load|schedule|variant|stack\\.a|published)\\]?\\]\n([a-z_]{1,12} = (\"[$A-Za-z0-9 /:%]{0,9}\"|[0-9]{1,9}|true|\\[\\]|\\{\\})\n)?){0,5}"
    ) {
        let _ = parse_plan(&text(&experiment, &more), "x.toml").map_err(|error| error.to_string());
        let _ = parse_plan(&more, "x.toml").map_err(|error| error.to_string());
    }

    #[test]
    fn cutting_a_file_anywhere_is_an_error_or_a_plan(at in 0usize..2000) {
        let whole = include_str!("../../../../../experiments/raw-sockets.toml");
        let end = (0..=at.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
        let _ = parse_plan(&whole[..end], "x.toml").map_err(|error| error.to_string());
    }
}

fn toml_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of experiments");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths
}

fn read_file(path: &Path) -> SourceFile {
    SourceFile {
        path: path.display().to_string(),
        text: std::fs::read_to_string(path).expect("a text"),
    }
}

/// The files that an experiment includes from a folder.
fn included(main: &SourceFile, folder: &Path) -> Vec<SourceFile> {
    let patterns = includes(&main.text, &main.path).expect("what it includes");
    patterns
        .iter()
        .flat_map(|pattern| match pattern.strip_suffix("/*.toml") {
            Some(inner) => toml_files(&folder.join(inner)),
            None => vec![folder.join(pattern)],
        })
        .map(|path| read_file(&path))
        .collect()
}

#[test]
fn the_built_in_experiments_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let mut seen = 0;
    for path in toml_files(&folder) {
        let main = read_file(&path);
        if main.text.contains("\n[series]\n") {
            continue; // Its updates are read by the crate `accuracy`.
        }
        let plan = match parse_plan_files(&main, &included(&main, &folder)) {
            Ok(plan) => plan,
            Err(error) => panic!("{error}"),
        };
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert_eq!(plan.name, stem, "an experiment is named like its file");
        seen += 1;
    }
    assert!(seen >= 2, "no experiment was read");
}

#[test]
fn a_further_file_of_python_servers_is_a_further_contender() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let member = |name: &str, group: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\ngroups = [\"{group}\"]\ntarget = \"http://127.0.0.1:$PORT\"\nprocess = {{ command = \"x\" }}\n"
        )
    };
    let further = [("file-x", "of-2013"), ("direct-x", "of-today"), ("proxy-x", "behind-a-proxy")];
    let text = further.map(|(name, group)| member(name, group)).concat();
    for name in ["python-servers.toml", "python-servers-concurrent.toml"] {
        let main = read_file(&folder.join(name));
        let before = included(&main, &folder);
        let mut after = before.clone();
        after.push(SourceFile { path: "python-servers/x.toml".to_owned(), text: text.clone() });
        let before = parse_plan_files(&main, &before).expect("without it");
        let after = parse_plan_files(&main, &after).expect("with it");
        for (name, part) in further {
            let names = |plan: &Plan| {
                let part = plan.parts.iter().find(|known| known.name == part).expect(part);
                part.variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>()
            };
            let mut all = names(&before);
            all.push(name.to_owned());
            assert_eq!(names(&after), all);
        }
    }
}

#[test]
fn the_example_that_people_copy_can_be_read() {
    let readme = include_str!("../../../../../experiments/README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    assert_eq!(plan(example).parts[0].variants.len(), 2);
}

/// An experiment of one variant with these actions and this schedule.
fn with_actions(stack: &str, actions: &str, schedule: &str) -> String {
    format!(
        "{HEAD}offers = [{{ open = \"100/s\" }}]\n[schedule]\n{schedule}\n[[variant]]\nname = \"v\"\n\
         target = \"http://127.0.0.1:$PORT/\"\n{stack}\n{actions}\n"
    )
}

const APP: &str = "process = { name = \"app\", command = \"x\" }";

#[test]
fn actions_happen_at_given_moments_of_one_long_slice() {
    let text = with_actions(
        APP,
        "action = [\n{ name = \"up\", signal = \"SIGUSR2\", at = \"500ms\", every = \"2s\", times = 2, \
         then = { after = \"1s\", signal = \"QUIT\" } },\n{ command = \"echo c > $DIR/fifo\" } ]",
        "window = \"5s\"",
    );
    let part = plan(&text).parts.remove(0);
    let signal = |signal| Deed::Signal { signal, process: 0 };
    let ms = Nanos::from_millis;
    let steps = vec![
        ActionStep { after: ms(0), deed: signal("USR2") },
        ActionStep { after: ms(1000), deed: signal("QUIT") },
    ];
    let name = "up".to_owned();
    let [up, command] = part.variants[0].actions.as_slice() else { panic!("two actions") };
    assert_eq!(*up, Action { name, steps, at: ms(500), every: ms(2000), times: 2 });
    assert_eq!(up.last_step_at(), ms(3500));
    assert_eq!((command.name.as_str(), command.at), ("echo c > $DIR/fifo", ms(1000)));
    let schedule = &part.schedule;
    assert!(part.has_actions() && schedule.isolated && schedule.one_slice);
    assert_eq!(schedule.slice, schedule.window);
    assert_eq!(part.contrasts, [], "what actions cost is no ratio");
    assert_eq!(schedule.quickened().window, ms(5000), "the moments are given");
}

#[test]
fn actions_that_cannot_happen_are_refused_with_a_remedy() {
    let two =
        "process = [{ name = \"app\", command = \"x\" }, { name = \"nginx\", command = \"y\" }]";
    let image = "container = { command = \"x\", image = \"host\" }";
    let raise = "raise window in [schedule], or lower at, every or times";
    for (stack, action, message, help) in [
        (APP, "{ signal = \"HPU\" }", "there is no signal 'HPU'", "did you mean 'HUP'?"),
        (
            APP,
            "{ name = \"late\", signal = \"HUP\", at = \"1500ms\" }",
            "the action 'late' would happen at 1.50 s, but the measured time of a trial is 1.50 s",
            raise,
        ),
        (
            APP,
            "{ signal = \"HUP\", at = \"100ms\", every = \"1s\", times = 3 }",
            "the action 'SIGHUP' would happen at 2.10 s, but the measured time of a trial is 1.50 s",
            raise,
        ),
        (
            "",
            "{ signal = \"HUP\", at = 0 }",
            "there is no process to signal: the variant starts none",
            "give its stack a process, or use a command instead of a signal",
        ),
        (
            two,
            "{ signal = \"HUP\" }",
            "signal needs a process: the stack has several (app, nginx)",
            "",
        ),
        (
            two,
            "{ signal = \"HUP\", process = \"nginy\" }",
            "there is no process 'nginy' in the stack",
            "did you mean 'nginx'?",
        ),
        (
            image,
            "{ signal = \"HUP\" }",
            "a signal does not reach the processes in a container",
            "use a command, such as command = \"docker kill -s HUP NAME\"",
        ),
        (
            APP,
            "{ at = 1 }",
            "an action of [[variant]] needs either a signal or a command",
            "such as signal = \"HUP\"",
        ),
        (APP, "{ signal = \"HUP\", times = 2 }", "times needs every, such as every = \"2s\"", ""),
        (APP, "{ signal = \"HUP\", every = 2 }", "every needs times, such as times = 3", ""),
        (APP, "{ signal = \"HUP\", times = 0 }", "times must be from 1 to 1000, not 0", ""),
        (
            APP,
            "{ command = \"x\", process = \"app\" }",
            "process belongs to signal: a command has the pids in its environment",
            "",
        ),
    ] {
        let (found, .., advice) = refusal(&with_actions(stack, &format!("action = {action}"), ""));
        assert_eq!((found.as_str(), advice.as_str()), (message, help), "{action}");
    }
    for (schedule, message, help) in [
        (
            "slice = \"1s\"",
            "a part with actions has one slice per trial, as long as its window",
            "remove slice",
        ),
        ("isolated = false", "a part with actions loads one variant at a time", "remove isolated"),
    ] {
        let action = "action = { signal = \"HUP\", at = \"10ms\" }";
        let (found, line, column, advice) = refusal(&with_actions(APP, action, schedule));
        assert_eq!((found.as_str(), advice.as_str()), (message, help));
        assert_eq!((line, column), (7, schedule.find('=').unwrap() + 3));
    }
}

#[test]
fn a_load_may_call_a_method_by_grpc() {
    let calls = "[load]\ngrpc = \"a.B.C\"\nbody = '{\"n\": 1}'\nheaders = [\"x-a: 1\"]\n";
    let load = &plan(&text("", calls)).parts[0].variants[0].load;
    let method = Some("a.B/C".to_owned());
    assert_eq!(load.grpc, Some(crate::Calls { method, bodies: crate::CallBodies::Json }));
    assert_eq!((load.http, load.expect.status), (crate::HttpVersion::Http2, Some(200)));
    let Exchange::Http(request) = &load.exchange else { panic!("a request") };
    assert_eq!((request.method.as_str(), &request.body[..]), ("POST", &b"{\"n\": 1}"[..]));
    assert!(request.headers.contains(&("te".to_owned(), "trailers".to_owned())));
    for (more, words) in [
        ("http = \"1.1\"", "http has no meaning beside grpc"),
        ("method = \"GET\"", "method has no meaning beside grpc"),
        ("exchange = \"oneshot\"", "grpc belongs to exchange = \"http\""),
    ] {
        let text = text("", &format!("{calls}{more}\n"));
        let refused = parse_plan(&text, "x.toml").unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
