//! Calling `tachograph compare`, and reading its JSON.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zoo::{Behaviour, Subject};

use super::server::Program;
use crate::process;

/// Additional time for a comparison, and for one that was told to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// A comparison to make.
pub(crate) struct ComparisonPlan<'a> {
    pub(crate) tachograph: &'a Path,
    /// For its record and the servers' files.
    pub(crate) folder: &'a Path,
    /// Limit on its time.
    pub(crate) seconds: u32,
    /// Further options of `compare`.
    pub(crate) further: &'a [String],
    pub(crate) stop: &'a AtomicBool,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// The upper end of an interval that has none: JSON has no infinity.
    const UNBOUNDED: f64 = f64::MAX;

    /// Whether it has no upper end.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.high == Interval::UNBOUNDED
    }

    /// Reads `low` and `high`, times `factor`.
    fn read(json: &Value, factor: f64) -> Option<Interval> {
        let end = |name: &str| json[name].as_f64().map(|value| value * factor);
        let (low, high) = (end("low")?, end("high").unwrap_or(Interval::UNBOUNDED));
        (low > 0.0).then_some(Interval { low, high })
    }

    /// Whether it and a range have a value in common.
    pub(crate) fn meets(&self, other: Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Half its width as a share of its middle, on a logarithmic scale.
    pub(crate) fn half_width(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }
}

/// What `compare` said about one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    /// Answers per second of the closed loop.
    pub(crate) throughput_per_s: Option<Interval>,
    /// Rate of the open loop.
    pub(crate) rate_per_s: Option<f64>,
    /// 99th percentile of the open loop's latency.
    pub(crate) p99_s: Option<Interval>,
}

/// What `compare` said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompareResult {
    /// Of the throughput.
    pub(crate) verdict: String,
    pub(crate) blocks: u64,
    /// Throughput of the second ÷ the first.
    pub(crate) ratio: Option<Interval>,
    pub(crate) levels: [Level; 2],
    /// Checks with a warning.
    pub(crate) warnings: Vec<String>,
    /// Checks that forbade the verdict.
    pub(crate) forbidden_by: Vec<String>,
}

/// Two servers to compare.
pub(crate) struct Pair<'s> {
    pub(crate) names: [&'static str; 2],
    pub(crate) behaviours: [&'s Behaviour; 2],
    asyncio: bool,
}

impl<'s> Pair<'s> {
    /// An even server, and the subject.
    pub(super) fn even(subject: &'s Subject) -> Pair<'s> {
        let behaviours = [&subject.even, &subject.behaviour];
        Pair { names: ["even", "uneven"], behaviours, asyncio: subject.asyncio }
    }

    /// The subject, and the subject with 5% more of its trouble.
    pub(super) fn worse(subject: &'s Subject) -> Pair<'s> {
        let behaviours = [&subject.behaviour, &subject.worse];
        Pair { names: ["uneven", "worse"], behaviours, asyncio: subject.asyncio }
    }

    /// What the subject is compared with: `even` or `worse`.
    pub(super) fn against(&self) -> &'static str {
        if self.names.contains(&"even") { "even" } else { "worse" }
    }

    /// Throughput of the second ÷ the first.
    pub(super) fn true_ratio(&self) -> f64 {
        let [first, second] = self.behaviours.map(|one| one.throughput_per_s(Subject::CONNECTIONS));
        second / first
    }

    pub(super) fn compare(&self, asked: &ComparisonPlan) -> Result<CompareResult, String> {
        let [first, second] = self.names;
        let [a, b] = self.behaviours;
        compare(asked, [(first, a), (second, b)], self.asyncio)
    }
}

/// Compares two servers with the program's defaults.
pub(crate) fn compare(
    asked: &ComparisonPlan,
    servers: [(&str, &Behaviour); 2],
    asyncio: bool,
) -> Result<CompareResult, String> {
    let out = asked.folder.join("compare.json");
    let errors = asked.folder.join("compare.stderr");
    let _ = std::fs::remove_file(&out);
    let mut command = Command::new(asked.tachograph);
    command
        .args(["compare", "--quiet", "--connections", &Subject::CONNECTIONS.to_string()])
        .args(["--max-time", &format!("{}s", asked.seconds), "--export-json"])
        .arg(&out)
        .args(asked.further);
    for (name, _) in servers {
        command.args(["-n", name]);
    }
    for (name, behaviour) in servers {
        command.arg(Program::new(behaviour, asyncio, asked.folder, name)?.command());
    }
    let child = command
        // So that several comparisons of the proof can run at the same time.
        .env("TACHOGRAPH_LOCK_DIR", asked.folder.join("locks"))
        .env("TACHOGRAPH_RECORD", asked.folder.join("record.sqlite"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&errors).map_err(|error| error.to_string())?)
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", asked.tachograph.display()))?;
    attend(child, Duration::from_secs(asked.seconds.into()) + PATIENCE, asked.stop)?;
    let json = std::fs::read_to_string(&out).ok().and_then(|text| serde_json::from_str(&text).ok());
    json.as_ref().and_then(read).ok_or_else(|| {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        let lines: Vec<&str> =
            said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        format!("no result: {}", lines.join(" / "))
    })
}

/// Waits for a comparison. One that takes too long, or is not wanted any more, is told to stop as by
/// Ctrl-C, so that it cleans up; and killed if it does not, whereupon its guards clean up.
fn attend(mut child: Child, limit: Duration, stop: &AtomicBool) -> Result<(), String> {
    let ended = process::wait(&mut child, limit, stop);
    if let Ok(Some(_)) = ended {
        return Ok(());
    }
    // A terminal's Ctrl-C has reached it already; a second signal this soon counts as the same.
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    if process::wait(&mut child, PATIENCE, &AtomicBool::new(false))?.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended.and_then(|_| Err(format!("did not end within {} s", limit.as_secs())))
}

/// The part of the JSON that is compared with the truth.
fn read(json: &Value) -> Option<CompareResult> {
    let comparisons = json["comparisons"].as_array()?;
    let throughput = comparisons.iter().find(|one| one["metric"] == "throughput")?;
    let checks = |severity: &str| {
        let findings = json["validity"].as_array().into_iter().flatten();
        let found = findings.filter(|finding| finding["severity"] == severity);
        let mut names: Vec<String> =
            found.filter_map(|finding| finding["check"].as_str().map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let variants = json["variants"].as_array()?;
    let level = |variant: &Value| {
        let offers = variant["offers"].as_array();
        let open = offers.and_then(|all| all.iter().find(|offer| offer["offer"] == "open"));
        let figures = (variant["provisional"] != true).then_some(());
        // The latency of a server that cannot keep up depends on how long one looks.
        let unsustained = json["validity"].as_array().into_iter().flatten().any(|finding| {
            finding["check"] == "unsustained" && finding["variant"] == variant["name"]
        });
        Level {
            throughput_per_s: figures
                .and_then(|()| Interval::read(&variant["throughput_per_s"], 1.0)),
            rate_per_s: open.and_then(|open| open["offered_per_s"].as_f64()),
            p99_s: figures
                .filter(|()| !unsustained)
                .and_then(|()| Interval::read(&open?["p99_ns"], 1e-9)),
        }
    };
    Some(CompareResult {
        verdict: throughput["verdict"].as_str()?.to_owned(),
        blocks: throughput["blocks"].as_u64()?,
        ratio: Interval::read(throughput, 1.0),
        levels: [level(variants.first()?), level(variants.get(1)?)],
        warnings: checks("warning"),
        forbidden_by: checks("invalid"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_without_the_latency_of_a_rate_that_was_not_sustained() {
        let interval = |low: f64, high: f64| serde_json::json!({"low": low, "high": high});
        let variant = |name: &str, low: f64| {
            serde_json::json!({
                "name": name,
                "provisional": false,
                "throughput_per_s": interval(low, low + 10.0),
                "offers": [
                    {"offer": "closed", "p99_ns": interval(1e6, 2e6)},
                    {"offer": "open", "offered_per_s": 50.0, "p99_ns": {"low": 3e6, "high": null}},
                ],
            })
        };
        let json = serde_json::json!({
            "comparisons": [{
                "metric": "throughput", "verdict": "faster", "blocks": 7, "low": 1.5, "high": 1.7,
            }],
            "variants": [variant("a", 100.0), variant("b", 160.0)],
            "validity": [
                {"check": "unsustained", "severity": "warning", "variant": "a"},
                {"check": "edges", "severity": "warning", "variant": "b"},
                {"check": "edges", "severity": "warning", "variant": "a"},
                {"check": "not_served", "severity": "note", "variant": "b"},
            ],
        });
        let compared = read(&json).unwrap();
        assert_eq!((compared.verdict.as_str(), compared.blocks), ("faster", 7));
        assert_eq!(compared.ratio, Some(Interval { low: 1.5, high: 1.7 }));
        assert_eq!(compared.warnings, ["edges", "unsustained"]);
        assert_eq!(compared.forbidden_by, [""; 0]);
        let [a, b] = compared.levels;
        assert_eq!(a.throughput_per_s, Some(Interval { low: 100.0, high: 110.0 }));
        assert_eq!((a.rate_per_s, a.p99_s), (Some(50.0), None));
        let p99 = b.p99_s.unwrap();
        assert!(p99.low == 0.003 && p99.is_unbounded(), "{p99:?}");
    }
}
