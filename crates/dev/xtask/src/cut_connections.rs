//! `prove cut-connections`: comparisons over ssh that are cut at random moments; nothing may remain
//! at either end.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};
use throwaway::Network;

use crate::kills::left_behind;
use crate::options::Options;
use crate::{binary, say};

/// What is promised: nothing is left this long after the cut.
const PROMISE: Duration = Duration::from_secs(10);

/// How long the proof waits before it calls something left.
const PATIENCE: Duration = Duration::from_secs(30);

/// The machine of the stacks, and that of a second client.
const MACHINES: [&str; 2] = ["stacks", "client"];

/// A way to cut a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    NearEnd,
    Ssh,
    Agent,
    Link,
}

const CUTS: [Cut; 4] = [Cut::NearEnd, Cut::Ssh, Cut::Agent, Cut::Link];

impl Cut {
    fn words(self) -> &'static str {
        match self {
            Cut::NearEnd => "kill -9 of tachograph here",
            Cut::Ssh => "kill -9 of its ssh",
            Cut::Agent => "kill -9 of tachograph there",
            Cut::Link => "ip link set down",
        }
    }
}

/// How long each end took to have nothing left.
struct CleanupTime {
    cut: Cut,
    near: Duration,
    far: Duration,
    left: Vec<String>,
}

/// Cuts comparisons and looks for leftovers.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    let network = Network::start(&MACHINES).map_err(|error| error.to_string())?;
    let mut rng = options.seed.rng("cut-connections");
    let mut seen = Vec::new();
    for run in 1..=options.runs {
        let cut = CUTS[run as usize % CUTS.len()];
        let machine = MACHINES[rng.random_range(0..MACHINES.len())];
        let after = Duration::from_millis(rng.random_range(50..8_000));
        let clean = cut_one(&network, cut, machine, after, run)?;
        let (near, far) = (clean.near.as_secs_f64(), clean.far.as_secs_f64());
        let left = match clean.left.is_empty() {
            true => "nothing left".to_owned(),
            false => format!("LEFT {}", clean.left.join(", ")),
        };
        say(&format!(
            "run {run}: {} ({machine}) after {:.2} s: clean here after {near:.2} s, there after \
                 {far:.2} s, {left}",
            clean.cut.words(),
            after.as_secs_f64()
        ));
        seen.push(clean);
    }
    Ok(report(&seen))
}

/// Starts a comparison, cuts it, and waits until nothing is left.
fn cut_one(
    network: &Network,
    cut: Cut,
    machine: &str,
    after: Duration,
    run: u32,
) -> Result<CleanupTime, String> {
    let wrong = |error: std::io::Error| error.to_string();
    let place = tempfile::Builder::new().prefix("tgk").tempdir_in("/tmp").map_err(wrong)?;
    let temp = place.path().join("t");
    std::fs::create_dir(&temp).map_err(wrong)?;
    let marker = format!("tachograph-proof-{}-{run}", std::process::id());
    let mut child = comparison(network, &temp, place.path(), &marker)?;
    std::thread::sleep(after);
    let came_to_an_end = child.try_wait().map_err(wrong)?;
    if let Some(status) = came_to_an_end {
        let said = std::fs::read_to_string(place.path().join("said")).unwrap_or_default();
        return Err(format!("the comparison ended by itself: {status}: {}", said.trim()));
    }
    let cut = do_cut(network, cut, machine, &child, &marker)?;
    let began = Instant::now();
    let (mut near, mut far) = (None, None);
    let left = loop {
        if near.is_none() {
            let ended = child.try_wait().map_err(wrong)?.is_some();
            if ended && left_behind(&temp, &marker).is_empty() {
                near = Some(began.elapsed());
            }
        }
        if far.is_none() && left_there(network).is_empty() {
            far = Some(began.elapsed());
        }
        if near.is_some() && far.is_some() {
            break Vec::new();
        }
        if began.elapsed() > PATIENCE {
            let mut left = left_behind(&temp, &marker);
            left.extend(left_there(network));
            break left;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if cut == Cut::Link {
        network.link(machine, true).map_err(|error| error.to_string())?;
    }
    // One that hangs would disturb the next run.
    let _ = child.kill();
    child.wait().map_err(wrong)?;
    let late = |clean: Option<Duration>| clean.unwrap_or(PATIENCE);
    Ok(CleanupTime { cut, near: late(near), far: late(far), left })
}

/// A comparison with stacks on one machine, and clients here and on another.
fn comparison(network: &Network, temp: &Path, place: &Path, marker: &str) -> Result<Child, String> {
    let tachograph = binary::path()?;
    let server = "$TACHOGRAPH serve-fixture --listen tcp://$HOST:$PORT";
    let said = std::fs::File::create(place.join("said")).map_err(|error| error.to_string())?;
    let mut command = network.near(&tachograph.display().to_string());
    command.args(["compare", "--quick", "--closed-only", "--on", MACHINES[0]]);
    command.args(["--from", MACHINES[1], "-n", "a", "-n", "b", server, server]);
    command.env("TMPDIR", temp).env("TACHOGRAPH_RECORD", place.join("record.sqlite"));
    command.env("TACHOGRAPH_LOCK_DIR", place.join("lock"));
    command.env("TACHOGRAPH_SSH", network.ssh("").map_err(|error| error.to_string())?);
    command.env("TACHOGRAPH_TEST_MARKER", marker);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    command.spawn().map_err(|error| error.to_string())
}

/// Cuts it, and returns how: before there is an ssh, or an agent, only the near end can be killed.
fn do_cut(
    network: &Network,
    cut: Cut,
    machine: &str,
    child: &Child,
    marker: &str,
) -> Result<Cut, String> {
    let wrong = |error: std::io::Error| error.to_string();
    let done = match cut {
        Cut::NearEnd => false,
        // It may have ended meanwhile.
        Cut::Ssh => ssh_of(marker, machine).map(|pid| kill_process(pid, Signal::KILL)).is_some(),
        Cut::Agent => {
            let mut pkill = network.on(machine, "pkill");
            let killed = pkill.args(["-9", "-f", "/tachograph agent"]).stdin(Stdio::null());
            killed.status().map_err(wrong)?.success()
        }
        Cut::Link => {
            network.link(machine, false).map_err(|error| error.to_string())?;
            true
        }
    };
    if done {
        return Ok(cut);
    }
    kill_process(Pid::from_child(child), Signal::KILL).map_err(|error| error.to_string())?;
    Ok(Cut::NearEnd)
}

/// The ssh process of a run that reaches a machine.
fn ssh_of(marker: &str, machine: &str) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.find(|pid: &i32| {
        let read = |name: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let line = read("cmdline");
        let words: Vec<&str> = line.split('\0').collect();
        words.first() == Some(&"ssh")
            && words.windows(2).any(|pair| pair == ["--", machine])
            && read("environ").contains(marker)
    });
    Pid::from_raw(pid?)
}

/// Processes, and files in the temporary folders, of the far machines.
fn left_there(network: &Network) -> Vec<String> {
    let mut left = Vec::new();
    for machine in MACHINES {
        let processes = network.left_at(machine);
        left.extend(processes.into_iter().map(|line| format!("{machine}: {line}")));
        let home = network.home(machine);
        let temp = home.with_file_name("tmp");
        for folder in [temp, home.join(".cache/tachograph/far")] {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path().display().to_string());
            // The locks' folder and the copied program stay.
            left.extend(paths.filter(|path| {
                path.contains("/incoming-") || path.contains("/tmp/tachograph-run")
            }));
        }
    }
    left
}

/// Prints the table; returns whether every cut kept the promise.
fn report(seen: &[CleanupTime]) -> bool {
    say("");
    say("| cut | runs | clean here after, median and longest | clean there after | left |");
    say("| --- | ---: | ---: | ---: | ---: |");
    for cut in CUTS {
        let of: Vec<&CleanupTime> = seen.iter().filter(|clean| clean.cut == cut).collect();
        if of.is_empty() {
            continue;
        }
        let times = |time: fn(&CleanupTime) -> Duration| {
            let mut all: Vec<f64> = of.iter().map(|clean| time(clean).as_secs_f64()).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.2} s, {:.2} s", all[all.len() / 2], all[all.len() - 1])
        };
        let left = of.iter().filter(|clean| !clean.left.is_empty()).count();
        say(&format!(
            "| {} | {} | {} | {} | {left} |",
            cut.words(),
            of.len(),
            times(|clean| clean.near),
            times(|clean| clean.far)
        ));
    }
    let late = seen.iter().filter(|clean| clean.near.max(clean.far) > PROMISE).count();
    let left = seen.iter().filter(|clean| !clean.left.is_empty()).count();
    say(&format!(
        "\nleft something behind: {left} of {} cut comparisons; later than {} s: {late}",
        seen.len(),
        PROMISE.as_secs()
    ));
    left == 0 && late == 0
}
