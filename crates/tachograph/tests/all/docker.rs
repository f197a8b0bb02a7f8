//! Containers of a real Docker Engine, which `scripts/with-docker.sh` starts for the test.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::support::{Ended, Place, TACHOGRAPH, nothing_is_left, wait};

const WITH_DOCKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-docker.sh");

/// The built-in server in a container, reached by a forwarded port, by its own address, by the
/// host's network and by a shared socket; and one with an image that is built here, whose own
/// health check decides when it is ready, beside one with a health check from the experiment.
const EXPERIMENT: &str = r#"
[experiment]
name = "containers"
title = "The built-in server in a container"
question = "Does each way work?"
offers = ["closed"]

[schedule]
pilot_blocks = 2
max_blocks = 2
slice = "100ms"
window = "1s"
warmup = "50ms"

[stack.app]
served_by = { counter_file = "$DIR/served" }
target = "http://$REACH/"
container = { command = "$TACHOGRAPH serve-fixture --listen $LISTEN --served-file $DIR/served --delay-every 1 --delay 5ms", volumes = ["$DIR"], read_only = ["PROGRAMS"], network = "$NETWORK", publish = "$PORT:8000", ready = "http://$REACH/" }

[[part]]
name = "all"
question = "Does each way work?"

[[part.variant]]
name = "$WAY"
stack = "app"

[part.variant.each.WAY]
forwarded = { NETWORK = "bridge", LISTEN = "tcp://0.0.0.0:8000", REACH = "127.0.0.1:$PORT" }
own-address = { NETWORK = "own", LISTEN = "tcp://0.0.0.0:8000", REACH = "$ADDRESS:8000" }
host-network = { NETWORK = "host", LISTEN = "tcp://127.0.0.1:$PORT", REACH = "127.0.0.1:$PORT" }
shared-socket = { NETWORK = "none", LISTEN = "unix:$SOCKET", REACH = "unix:$SOCKET:" }

[[part.variant]]
name = "asked"
served_by = { counter_file = "$DIR/served" }
target = "http://unix:$SOCKET:/"
container = { command = "$TACHOGRAPH serve-fixture --listen unix:$SOCKET --served-file $DIR/served --delay-every 1 --delay 5ms", volumes = "$DIR", read_only = "PROGRAMS", network = "none", health = "test -S $SOCKET", ready = "healthy" }

[[part.variant]]
name = "built"
served_by = { counter_file = "$DIR/served" }
target = "http://unix:$SOCKET:/"
container = { build = "IMAGE/Dockerfile", command = "/tachograph serve-fixture --listen unix:$SOCKET --served-file $DIR/served --delay-every 1 --delay 5ms", volumes = "$DIR", network = "none", ready = "healthy" }
"#;

/// An image with only tachograph and its shared libraries.
const DOCKERFILE: &str = r#"FROM scratch
COPY . /
HEALTHCHECK --interval=1s CMD ["/tachograph", "--version"]
"#;

/// Creates the folder of that image.
fn make_image(folder: &Path) {
    let script = r#"
        set -e
        mkdir -p "$1"; cd "$1"
        strip -o tachograph "$2"
        ldd "$2" | grep -o '/[^ ]*' | while read -r library; do cp --parents -L "$library" .; done
    "#;
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(folder).arg(TACHOGRAPH);
    assert!(command.status().unwrap().success());
    std::fs::write(folder.join("Dockerfile"), DOCKERFILE).unwrap();
}

/// A shell function that lists the engine's containers and networks with our label.
const LOOK: &str = r#"
look() {
  for list in 'containers/json?all=1&' 'networks?'; do
    curl -fsS --unix-socket "${DOCKER_HOST#unix://}" \
      "http://localhost/${list}filters=%7B%22label%22%3A%5B%22tachograph.run-dir%22%5D%7D"
  done
}
# Waits for something that must come, with patience for a busy machine.
eventually() { for _ in $(seq 1200); do "$@" && return; sleep 0.05; done; echo "this never came: $*" >&2; return 1; }
nothing() { [ "$(look | tr -d '[] \n')" = "" ]; }
# What cleans up after a killed run has finished.
cleaned() { ! pgrep -f "guard watch $TMPDIR/tg" >/dev/null; }
something() { look | grep tachograph.run-dir >/dev/null; }
begun() { ls "$TMPDIR"/tg-*/*/.members >/dev/null 2>&1; }
# What forwards a port belongs to the stack, so that its cost is counted with it.
listed() { for proxy in $(pgrep docker-proxy); do grep -qh "process $proxy " "$TMPDIR"/tg-*/*/.members && return; done; false; }
"#;

/// Whether an engine is available: one is started and ended to see it. CI must have one.
static ENGINE_CAN_BE_HAD: LazyLock<bool> = LazyLock::new(|| {
    let output = Command::new(WITH_DOCKER).arg("true").stdin(Stdio::null()).output().unwrap();
    let can = output.status.success();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(can || std::env::var_os("CI").is_none(), "{why}");
    if !can {
        #[allow(clippy::print_stderr, reason = "whoever runs the tests should know")]
        {
            eprintln!("NOT TESTED, containers: {why}");
        }
    }
    can
});

/// Runs a shell script with an engine, with `$TACHOGRAPH` and `$EXPERIMENT` set.
fn with_engine(place: &Place, marker: &str, script: &str) -> Ended {
    let programs = Path::new(TACHOGRAPH).parent().unwrap().display().to_string();
    let image = place.path("image");
    make_image(&image);
    let text = EXPERIMENT.replace("PROGRAMS", &programs);
    let text = text.replace("IMAGE", &image.display().to_string());
    let experiment = place.write("containers.toml", &text);
    let mut command = Command::new(WITH_DOCKER);
    command.args(["bash", "-c", &format!("{LOOK}{script}")]);
    let mut command = place.prepare(command);
    command
        .env("TACHOGRAPH", TACHOGRAPH)
        .env("EXPERIMENT", experiment)
        .env("MARKER", marker)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    wait(command.spawn().unwrap(), Duration::from_secs(240))
}

#[test]
fn every_way_into_a_container_is_measured_counted_and_cleared_away() {
    if !*ENGINE_CAN_BE_HAD {
        return;
    }
    let place = Place::new();
    let ended = with_engine(
        &place,
        "",
        r#"
        "$TACHOGRAPH" run "$EXPERIMENT" --why --quick --max-time 1s --quiet --json > run.json
        echo "status $?"
        "$TACHOGRAPH" report last --folded folded > /dev/null
        look
        "#,
    );
    let text = std::fs::read_to_string(place.path("run.json")).unwrap_or_default();
    let run: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}\n{}", ended.out, ended.err));
    let variants = run["variants"].as_array().unwrap();
    let names: Vec<&str> = variants.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let all = ["forwarded", "own-address", "host-network", "shared-socket", "asked", "built"];
    assert_eq!(names, all, "{text}");
    // Each was started twice, for the calibration and for a block.
    assert!(variants.iter().all(|one| one["trials"].as_array().is_some_and(|all| !all.is_empty())));
    for variant in variants {
        let ledger = &variant["ledger"];
        assert!(ledger["completed"].as_u64().unwrap() > 0, "{variant}");
        assert_eq!(ledger["failed"], 0, "{variant}");
        // The server-side count includes the probes, which the comparison subtracts.
        assert_eq!(ledger["completed"], ledger["served"], "{variant}");
        // Checks trials, because on a busy machine every block may be rejected.
        for trial in variant["trials"].as_array().unwrap() {
            assert!(trial["stack_cpu_ns"].as_u64().unwrap() > 0, "{trial}");
        }
    }
    // The processes of the containers were sampled, also the one that forwards a port.
    for (way, variant) in all.iter().zip(variants) {
        let folded = std::fs::read_to_string(place.path(&format!("folded/all-{way}.folded")));
        let folded = folded
            .unwrap_or_else(|error| panic!("{way}: {error}\n{}\n{}", variant["trials"], ended.err));
        let has = |program: &str| folded.lines().any(|line| line.starts_with(program));
        assert!(has("tachograph [process];"), "{way}: {folded}");
        assert!(*way != "forwarded" || has("docker-proxy [process];"), "{folded}");
    }
    ended.prints("[]\n[]\n");
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn nothing_of_a_killed_run_stays_at_the_engine() {
    if !*ENGINE_CAN_BE_HAD {
        return;
    }
    let place = Place::new();
    let marker = format!("tachograph-test-docker-{}", std::process::id());
    // Kills tachograph alone, then with its guards and its watch, whose work the next run does.
    let ended = with_engine(
        &place,
        &marker,
        r#"
        export TACHOGRAPH_TEST_MARKER=$MARKER
        for when in begun something listed; do
          "$TACHOGRAPH" run "$EXPERIMENT" --quiet >/dev/null 2>&1 & run=$!
          eventually $when && echo "killed when $when"
          kill -9 $run; wait $run 2>/dev/null
          eventually cleaned; look
        done
        "$TACHOGRAPH" run "$EXPERIMENT" --quiet >/dev/null 2>&1 & run=$!
        eventually something && echo "killed when something"
        guards=$(pgrep -P $run)
        kill -9 $run $guards $(for guard in $guards; do pgrep -P $guard; done)
        wait $run 2>/dev/null
        "$TACHOGRAPH" run "$EXPERIMENT" --quick --max-time 1s --quiet >/dev/null 2>&1
        eventually nothing; look
        "#,
    );
    assert_eq!(ended.out.matches("[]\n[]\n").count(), 4, "{}\n{}", ended.out, ended.err);
    assert!(!ended.err.contains("this never came"), "{}", ended.err);
    for (when, times) in [("begun", 1), ("something", 2), ("listed", 1)] {
        let line = format!("killed when {when}\n");
        assert_eq!(ended.out.matches(&line).count(), times, "{}", ended.out);
    }
    nothing_is_left(&marker, Duration::from_secs(60), || place.leftovers());
}
