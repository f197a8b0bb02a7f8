//! `prove diff`: `tachograph diff` on a repository whose head is equal or 5% slower, beside a
//! neighbour that uses a third of a CPU.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::noise::{Kind, Neighbours};
use crate::options::Options;
use crate::process::output;
use crate::{binary, say};

/// False alarms and misses allowed in ten runs; Binomial(10, 0.05) exceeds 2 once in a hundred
/// times.
const WRONG_MAX_OF_10: f64 = 2.0;

/// CPU time per request of the base's server, and of a head that is 5% slower: the fixture adds a
/// few percent of its own to both.
const BASE_BURN: &str = "800us";
const SLOWER_BURN: &str = "843us";

const SERVER: &str = "exec \"$TACHOGRAPH\" serve-fixture --listen \"tcp://127.0.0.1:$1\" \
    --burn \"$(cat burn)\" --served-file \"$DIR/served\"\n";

/// A comparison's result.
struct Outcome {
    status: i32,
    verdict: String,
    ratio: String,
    low: f64,
    high: f64,
    seconds: f64,
}

/// Counts false alarms and misses of the default conditions.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    say("| head | run | verdict | status | throughput, head ÷ base | interval | seconds |");
    say("| --- | --: | --- | --: | --: | --- | --: |");
    let equal = series(&tachograph, options, "equal", BASE_BURN)?;
    let slower = series(&tachograph, options, "5% slower", SLOWER_BURN)?;
    say("\n| head | regression | no regression | undecided | other | median half-width |");
    say("| --- | --: | --: | --: | --: | --: |");
    say(&summary("equal", &equal));
    say(&summary("5% slower", &slower));
    let alarms = equal.iter().filter(|o| o.status != 0).count();
    let misses = slower.iter().filter(|o| o.verdict != "regression").count();
    let allowed = WRONG_MAX_OF_10 / 10.0 * f64::from(options.runs);
    say(&format!(
        "\nfalse alarms: {alarms} of {0}, misses: {misses} of {0}; allowed: {allowed:.0} each",
        options.runs
    ));
    Ok(alarms as f64 <= allowed && misses as f64 <= allowed)
}

fn series(
    tachograph: &Path,
    options: Options,
    head: &str,
    burn: &str,
) -> Result<Vec<Outcome>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    repository(folder.path(), burn)?;
    let mut outcomes = Vec::new();
    for run in 0..options.runs {
        let seed = options.seed.derive(head, u64::from(run)).0 >> 12;
        let kind = Kind::Bursts { cpu: None, duty: 0.33 };
        let _neighbour = Neighbours::start(&[kind], seed)?;
        let o = compare(tachograph, folder.path(), seed)?;
        say(&format!(
            "| {head} | {} | {} | {} | {} | {:.4}–{:.4} | {:.0} |",
            run + 1,
            o.verdict,
            o.status,
            o.ratio,
            o.low,
            o.high,
            o.seconds
        ));
        outcomes.push(o);
    }
    Ok(outcomes)
}

/// A repository with a base on `main` and a head on `change`.
fn repository(folder: &Path, burn: &str) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())
    };
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=proof", "-c", "user.email=proof@localhost"]);
        output(command.args(args).current_dir(folder)).map(drop)
    };
    git(&["init", "--quiet", "--initial-branch=main"])?;
    write(".gitignore", "record.sqlite*\nresult\n")?;
    write("serve.sh", SERVER)?;
    write("burn", BASE_BURN)?;
    git(&["add", "."])?;
    git(&["commit", "--quiet", "--message", "A server"])?;
    git(&["switch", "--quiet", "--create", "change"])?;
    write("burn", burn)?;
    write("README", "A change.\n")?;
    git(&["add", "."])?;
    git(&["commit", "--quiet", "--message", "A change"])
}

fn compare(tachograph: &Path, folder: &Path, seed: u64) -> Result<Outcome, String> {
    let began = std::time::Instant::now();
    let output = Command::new(tachograph)
        .args(["diff", "--quiet", "--max-time", "30s", "--served-by", "counter_file=$DIR/served"])
        .args(["--export-env", "result", "--seed", &seed.to_string(), "sh serve.sh $PORT"])
        .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(folder.join("result")).map_err(|e| e.to_string())?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    let number = |name: &str| value(name).parse().unwrap_or(f64::NAN);
    let verdict = value("verdict");
    if verdict == "not_measured" {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(Outcome {
        status: output.status.code().unwrap_or(-1),
        verdict,
        ratio: value("ratio"),
        low: number("low"),
        high: number("high"),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn summary(head: &str, outcomes: &[Outcome]) -> String {
    let count = |verdict: &str| outcomes.iter().filter(|o| o.verdict == verdict).count();
    let counts = ["regression", "no_regression", "undecided"].map(count);
    let other = outcomes.len() - counts.iter().sum::<usize>();
    let widths: Vec<f64> = outcomes.iter().map(|o| (o.high / o.low).sqrt() - 1.0).collect();
    let median = 100.0 * stats::median(&widths).unwrap_or(f64::NAN);
    let [regression, passed, undecided] = counts;
    format!("| {head} | {regression} | {passed} | {undecided} | {other} | {median:.2}% |")
}
