//! However a run ends, no process, socket or folder remains.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    self, Place, TACHOGRAPH, UNHURRIED, eventually, marker, processes_with_environment, signal,
    wait,
};

/// How long a stack is waited for that ignores SIGTERM: seconds, where many are stopped.
const SHORT: &str = "1s";
/// Long enough for a second signal.
const LONG: &str = "30s";

/// Starts a comparison with awkward stacks: daemons, processes that ignore SIGTERM, and plain ones.
fn start(place: &Place, marker: &str, stop_timeout: &str) -> Child {
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
    let stack = |name: &str, command: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\ntarget = \"http://127.0.0.1:$PORT/\"\n\
             process = {{ command = '''{command}''', ready = \"127.0.0.1:$PORT\", \
             stop_timeout = \"{stop_timeout}\" }}\n"
        )
    };
    let text = format!(
        "[experiment]\nname = \"awkward\"\ntitle = \"Awkward\"\nquestion = \"Which?\"\n\
         offers = [\"closed\"]\n[schedule]\nwindow = \"300ms\"\nwarmup = \"100ms\"\n{}{}",
        stack("a", &format!("sh -c 'trap \"\" TERM; {server} & wait; wait'")),
        stack("b", &format!("sh -c 'setsid sleep 500 & {server}'")),
    );
    place.write("awkward.toml", &text);
    place
        .command(&["run", "./awkward.toml", "--quick"])
        .env("TACHOGRAPH_TEST_MARKER", marker)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until nothing of the run remains, for as long as guards may take to stop stubborn stacks.
#[track_caller]
fn nothing_is_left(place: &Place, marker: &str) {
    support::nothing_is_left(marker, Duration::from_secs(60), || place.leftovers());
}

/// The moment at which a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Nothing of it need exist yet.
    Start,
    /// A process of a stack is running, besides tachograph and the guards.
    FirstStack,
    /// The trials of the calibration are recorded.
    Calibrated,
    /// A trial of a measured block is recorded.
    Measured,
}

impl Moment {
    const ALL: [Moment; 4] =
        [Moment::Start, Moment::FirstStack, Moment::Calibrated, Moment::Measured];

    fn wait(self, place: &Place, marker: &str) {
        eventually(&format!("{self:?}"), || match self {
            Moment::Start => true,
            Moment::FirstStack => processes_with_environment(marker)
                .iter()
                .any(|pid| environment_has(*pid, "TACHOGRAPH_PROCESS=")),
            Moment::Calibrated => place.rows("trial") > 0,
            Moment::Measured => place.rows("trial WHERE block > 0") > 0,
        });
    }
}

fn environment_has(pid: u32, text: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| String::from_utf8_lossy(&environ).contains(text))
}

/// Whether a process runs this program with this first argument.
fn command_line_begins(pid: u32, program: &str, argument: &str) -> bool {
    let begin = format!("{program}\0{argument}\0");
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).starts_with(&begin))
}

#[test]
fn ctrl_c_and_sigterm_stop_clean_up_and_do_not_claim_success() {
    // Both signals at every moment would take twice as long and show nothing more. SIGTERM comes
    // first: before our handlers are installed, a SIGINT is lost if the process that started the
    // tests ignores it, as a shell does for background jobs.
    let signals = [Signal::TERM, Signal::INT].into_iter().cycle();
    for (moment, asked) in Moment::ALL.into_iter().zip(signals) {
        let place = Place::new();
        let marker = marker(&format!("{moment:?}"));
        let child = start(&place, &marker, SHORT);
        moment.wait(&place, &marker);
        signal(child.id(), asked);
        let ended = wait(child, Duration::from_secs(120));
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        // Before our handlers are installed, a signal has its default effect.
        if ended.status.is_some() || moment != Moment::Start {
            ended.status(2).says("stopped");
        }
        nothing_is_left(&place, &marker);
    }
}

#[test]
fn a_second_ctrl_c_was_ignored() {
    let place = Place::new();
    let marker = marker("second");
    let mut child = start(&place, &marker, LONG);
    // A shell that ignores SIGTERM has started its server, so an orderly end takes long.
    eventually("the server of the stubborn stack", || {
        let of_run = processes_with_environment(&marker);
        of_run.iter().any(|pid| command_line_begins(*pid, TACHOGRAPH, "serve-fixture"))
    });
    // A signal that comes at once belongs to the first one.
    eventually("its end", || {
        signal(child.id(), Signal::INT);
        child.try_wait().unwrap().is_some()
    });
    let ended = wait(child, Duration::from_secs(60));
    assert_eq!(ended.status, None, "it ends by the signal itself: {}", ended.err);
    nothing_is_left(&place, &marker);
}

#[test]
fn kill_9_leaves_nothing_behind() {
    for moment in Moment::ALL {
        let place = Place::new();
        let marker = marker(&format!("kill-{moment:?}"));
        let mut child = start(&place, &marker, SHORT);
        moment.wait(&place, &marker);
        signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        nothing_is_left(&place, &marker);
    }
}

#[test]
fn what_was_measured_before_a_kill_is_on_record() {
    let place = Place::new();
    let marker = marker("record");
    let mut child = start(&place, &marker, SHORT);
    // A finished block: while it is being written, one of its variants may be missing, or have its
    // warm-up only.
    let block = "trials WHERE block = 1 AND completed > 0 AND offer <> 'warm-up'";
    eventually("the first block of both variants", || {
        place.rows(&format!("(SELECT DISTINCT variant FROM {block})")) == 2
    });
    signal(child.id(), Signal::KILL);
    let measured = place.rows(block);
    child.wait().unwrap();
    nothing_is_left(&place, &marker);
    assert!(place.rows(block) >= measured, "what was there is gone");
    place.run(&["list"]).status(0).prints("cut off");
    let report = place.run(&["report", "last"]);
    report.prints("Cut off");
    let json = place.run(&["report", "last", "--json"]).json();
    for variant in json["variants"].as_array().unwrap() {
        let trials = variant["trials"].as_array().unwrap();
        let in_block = |trial: &&serde_json::Value| trial["block"] == 1;
        assert!(trials.iter().any(|trial| in_block(&trial)), "{variant:#}");
    }
}

#[test]
fn a_part_that_was_not_begun_was_missing_from_a_stopped_run() {
    let place = Place::new();
    let part = |name: &str| {
        format!(
            "[[part]]\nname = \"{name}\"\n[[part.variant]]\nname = \"a\"\nstack = \"server\"\n\
             [[part.variant]]\nname = \"b\"\nstack = \"server\"\n"
        )
    };
    let text = format!(
        "[experiment]\nname = \"two\"\ntitle = \"Two\"\nquestion = \"Which?\"\n\
         offers = [\"closed\"]\n[stack.server]\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         process = {{ command = \"$TACHOGRAPH serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}\", \
         ready = \"127.0.0.1:$PORT\" }}\n{}{}",
        part("first"),
        part("second")
    );
    place.write("two.toml", &text);
    let mut command = place.command(&["run", "./two.toml", "--quick", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a measured block", || place.rows("block where block > 0") > 0);
    signal(child.id(), Signal::INT);
    let ended = wait(child, Duration::from_secs(120));
    let json = ended.status(2).says("stopped before every comparison had its verdict").json();
    assert_eq!(json["verdict"], "incomplete");
    let parts = json["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(parts[1]["blocks"], 0);
    assert_eq!(json["reasons"][1], "second: too few blocks for a verdict (0 of 6)");
    place.run(&["report", "last"]).status(2).prints("second");
    place.run(&["report", "last", "--html", "r.html"]).status(2);
}
