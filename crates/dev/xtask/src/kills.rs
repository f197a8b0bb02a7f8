//! `prove kills` and `prove container-kills`: kill −9 at random moments; nothing may remain.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::options::Options;
use crate::process::output;
use crate::{binary, say};

/// How long guards may take to stop stubborn stacks.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kills runs and looks for leftovers.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    Ok(kill_often(options, &AwkwardStack)? == 0)
}

/// Kills runs with containers and looks for leftovers, including at the engine.
pub(crate) fn prove_containers(options: Options) -> Result<bool, String> {
    let left = left_at_the_engine()?;
    match left.is_empty() {
        true => Ok(kill_often(options, &Containers)? == 0),
        false => Err(format!("the engine has containers or networks of ours already: {left:?}")),
    }
}

/// The run to kill.
trait Victim {
    /// The arguments of tachograph; additional files can be put into `folder`.
    fn arguments(&self, folder: &Path) -> Result<Vec<String>, String>;

    /// Leftovers other than processes and folders.
    fn left(&self) -> Result<Vec<String>, String>;
}

/// A comparison of a stack that ignores SIGTERM and one that forks a daemon.
struct AwkwardStack;

impl Victim for AwkwardStack {
    fn arguments(&self, _: &Path) -> Result<Vec<String>, String> {
        let server =
            format!("{} serve-fixture --listen tcp://127.0.0.1:$PORT", binary::path()?.display());
        let stubborn = format!("sh -c 'trap \"\" TERM; {server} & wait; wait'");
        let forks_away = format!("sh -c 'setsid sleep 500 & {server}'");
        let words = ["compare", "--quick", "--closed-only", "-n", "a", "-n", "b"];
        Ok(words.into_iter().map(str::to_owned).chain([stubborn, forks_away]).collect())
    }

    fn left(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// A run whose stacks are containers.
struct Containers;

impl Victim for Containers {
    fn arguments(&self, folder: &Path) -> Result<Vec<String>, String> {
        let tachograph = binary::path()?;
        let programs = tachograph.parent().unwrap_or(Path::new("/"));
        let container = format!(
            "{{ command = \"$TACHOGRAPH serve-fixture --listen $LISTEN\", read_only = [\"{}\"], \
             volumes = [\"$DIR\"], network = \"$NETWORK\", publish = \"$PORT:8000\", ready = \"http://$REACH/\" }}",
            programs.display()
        );
        let text = format!(
            "[experiment]\nname = \"containers\"\ntitle = \"Containers\"\nquestion = \"Which?\"\noffers = [\"closed\"]\n\
             [stack.app]\ntarget = \"http://$REACH/\"\ncontainer = {container}\n\
             [[part]]\nname = \"all\"\nquestion = \"Which?\"\n\
             [[part.variant]]\nname = \"$WAY\"\nstack = \"app\"\n[part.variant.each.WAY]\n\
             forwarded = {{ NETWORK = \"bridge\", LISTEN = \"tcp://0.0.0.0:8000\", REACH = \"127.0.0.1:$PORT\" }}\n\
             own = {{ NETWORK = \"own\", LISTEN = \"tcp://0.0.0.0:8000\", REACH = \"$ADDRESS:8000\" }}\n"
        );
        let file = folder.join("containers.toml");
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        Ok(["run", "--quick", &file.display().to_string()].map(str::to_owned).to_vec())
    }

    fn left(&self) -> Result<Vec<String>, String> {
        left_at_the_engine()
    }
}

/// Containers and networks with our label at the engine in `DOCKER_HOST`.
fn left_at_the_engine() -> Result<Vec<String>, String> {
    let host = std::env::var("DOCKER_HOST").unwrap_or("unix:///var/run/docker.sock".to_owned());
    let socket = host.strip_prefix("unix://").ok_or("DOCKER_HOST is no Unix socket")?;
    let label = "filters=%7B%22label%22%3A%5B%22tachograph.run-dir%22%5D%7D";
    let mut left = Vec::new();
    for path in ["containers/json?all=1&", "networks?"] {
        let mut curl = Command::new("curl");
        curl.args(["-fsS", "--max-time", "20", "--unix-socket", socket]);
        let list =
            output(curl.arg(format!("http://localhost/{path}{label}"))).map_err(|error| {
                format!("no engine answers: {error}; start this by scripts/with-docker.sh")
            })?;
        let list: Vec<serde_json::Value> =
            serde_json::from_str(&list).map_err(|error| error.to_string())?;
        left.extend(list.iter().map(|entry| format!("{path} {}", entry["Id"])));
    }
    Ok(left)
}

/// Kills a run as often as the options say; returns how many left something behind.
fn kill_often(options: Options, victim: &dyn Victim) -> Result<u32, String> {
    let mut rng = options.seed.rng("kills");
    let mut dirty = 0;
    for run in 1..=options.runs {
        let after = Duration::from_millis(rng.random_range(10..6000));
        // Every third one gets Ctrl-C, to test the orderly stop at random moments too.
        let signal = if run % 3 == 0 { Signal::INT } else { Signal::KILL };
        let left = kill_one(victim, after, signal, run)?;
        if !left.is_empty() {
            dirty += 1;
            say(&format!("run {run}, {signal:?} after {after:?}: left behind {}", left.join(", ")));
        }
    }
    say(&format!(
        "left something behind: {dirty} of {} runs killed at random moments",
        options.runs
    ));
    Ok(dirty)
}

/// Starts a run, kills it, and returns its leftovers.
fn kill_one(
    victim: &dyn Victim,
    after: Duration,
    signal: Signal,
    run: u32,
) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| error.to_string();
    let place = tempfile::Builder::new().prefix("tgk").tempdir_in("/tmp").map_err(wrong)?;
    let temp = place.path().join("t");
    std::fs::create_dir(&temp).map_err(wrong)?;
    let marker = format!("tachograph-proof-{}-{run}", std::process::id());
    let mut child = Command::new(binary::path()?)
        .args(victim.arguments(place.path())?)
        .env("TMPDIR", &temp)
        .env("TACHOGRAPH_RECORD", place.path().join("record.sqlite"))
        .env("TACHOGRAPH_TEST_MARKER", &marker)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(wrong)?;
    std::thread::sleep(after);
    kill_process(Pid::from_child(&child), signal).map_err(|error| error.to_string())?;
    child.wait().map_err(wrong)?;
    let began = Instant::now();
    loop {
        let mut left = left_behind(&temp, &marker);
        left.extend(victim.left()?);
        if left.is_empty() || began.elapsed() > PATIENCE {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Folders in `temp`, and processes with the marker in their environment.
pub(crate) fn left_behind(temp: &Path, marker: &str) -> Vec<String> {
    let folders = std::fs::read_dir(temp).into_iter().flatten().flatten();
    let mut left: Vec<String> = folders.map(|entry| entry.path().display().to_string()).collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in processes {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environ).contains(marker) {
            left.push(format!("process {}", entry.file_name().to_string_lossy()));
        }
    }
    left
}
