//! Running the tachograph beside this program and parsing its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The binary to test, in the same folder as this one.
pub(crate) fn path() -> Result<PathBuf, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = ours.with_file_name("tachograph");
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "{} is not there; build tachograph first, with the profile of this program",
            path.display()
        )),
    }
}

/// A comparison's result, from the JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: String,
    #[serde(deserialize_with = "number")]
    pub(crate) ratio: f64,
    #[serde(deserialize_with = "number")]
    pub(crate) low: f64,
    #[serde(deserialize_with = "number")]
    pub(crate) high: f64,
    pub(crate) blocks: u64,
    pub(crate) reasons: String,
}

/// A number; what is none is written as null.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Outcome {
    /// Verdict, ratio and interval, as cells of a table.
    pub(crate) fn cells(&self) -> String {
        let Outcome { verdict, ratio, low, high, .. } = self;
        format!("{verdict} | {ratio:.4} | {low:.4}–{high:.4}")
    }

    /// Half-width of the interval, as a share of the ratio.
    pub(crate) fn half_width(&self) -> f64 {
        ((self.high / self.low).sqrt() - 1.0).abs()
    }

    /// Whether the verdict is that the two differ.
    pub(crate) fn is_different(&self) -> bool {
        ["faster", "slower"].contains(&self.verdict.as_str())
    }

    /// Whether the interval holds a ratio that is known to a share of `off`.
    pub(crate) fn holds(&self, truth: f64, off: f64) -> bool {
        self.low * (1.0 - off) <= truth && truth <= self.high * (1.0 + off)
    }
}

/// An experiment with two fixtures, `a` and `b`, which differ in their flags.
pub(crate) struct TwoFixtures<'a> {
    pub(crate) primary: &'a str,
    /// As in the file: an array of TOML.
    pub(crate) offers: &'a str,
    pub(crate) connections: u32,
    /// The lines of the schedule.
    pub(crate) schedule: &'a str,
    pub(crate) flags: [&'a str; 2],
}

impl TwoFixtures<'_> {
    /// The experiment file.
    pub(crate) fn toml(&self) -> String {
        let TwoFixtures { primary, offers, connections, schedule, flags: [a, b] } = self;
        format!(
            r#"
[experiment]
name = "fixtures"
title = "two fixtures"
question = "Is a known difference found, and none where there is none?"
baseline = "a"
primary = "{primary}"
offers = {offers}

[load]
connections = {connections}

[schedule]
{schedule}

[stack.fixture]
target = "http://127.0.0.1:$PORT/"
served_by = {{ counter_file = "$DIR/served" }}
process.command = "$TACHOGRAPH serve-fixture --listen tcp://127.0.0.1:$PORT --served-file $DIR/served $FLAGS"
process.ready = "127.0.0.1:$PORT"

[[variant]]
name = "a"
stack = "fixture"
vars = {{ FLAGS = "{a}" }}

[[variant]]
name = "b"
stack = "fixture"
vars = {{ FLAGS = "{b}" }}
"#
        )
    }
}

/// Runs an experiment file quietly with its own record, optionally in a control group, and returns the
/// first comparison.
pub(crate) fn run_experiment(
    binary: &Path,
    folder: &Path,
    toml: &str,
    further: &[&str],
    group: Option<&Path>,
) -> Result<Outcome, String> {
    let file = folder.join("experiment.toml");
    std::fs::write(&file, toml).map_err(|error| error.to_string())?;
    let mut command = match group {
        None => Command::new(binary),
        Some(group) => {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
                .arg(group)
                .arg(binary);
            shell
        }
    };
    let output = command
        .args(["run", "--quiet", "--json"])
        .arg(&file)
        .args(further)
        .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&text)
        .map_err(|_| format!("no result: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    outcome(&json).ok_or_else(|| "the result holds no comparison".to_owned())
}

fn outcome(json: &Value) -> Option<Outcome> {
    let comparison = json["comparisons"].as_array()?.first()?;
    let end = |name: &str| comparison[name].as_f64().unwrap_or(f64::NAN);
    let reasons = json["reasons"].as_array()?.iter().filter_map(Value::as_str);
    Some(Outcome {
        verdict: comparison["verdict"].as_str()?.to_owned(),
        ratio: end("ratio"),
        low: end("low"),
        high: end("high"),
        blocks: comparison["blocks"].as_u64()?,
        reasons: reasons.collect::<Vec<_>>().join("; "),
    })
}
