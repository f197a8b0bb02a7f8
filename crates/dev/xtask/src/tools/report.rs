//! What a tool reports about its run.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a tool reports about its run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Requests with an outcome, failed ones among them.
    pub(crate) total: u64,
    /// Those that the tool reports as failed.
    pub(crate) failed: u64,
    /// The tool's own words for failures, with their counts.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Requests reported as begun but not ended.
    pub(crate) unfinished: u64,
    /// Requests reported as sent before the measurement.
    pub(crate) warmup: u64,
    /// Those of them that failed.
    #[serde(default)]
    pub(crate) warmup_failed: u64,
    /// Requests per second, where they are read.
    #[serde(skip)]
    pub(crate) per_s: Option<f64>,
    /// Latency in milliseconds; `None` where the tool prints none.
    pub(crate) latency: Latency,
}

/// Latency in milliseconds; `None` where the tool prints none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p99_9: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Latency {
    /// Mean, p50, p99, p99.9 and maximum of latencies in milliseconds; quantiles by nearest rank.
    pub(crate) fn of(mut latencies_ms: Vec<f64>) -> Latency {
        latencies_ms.sort_by(f64::total_cmp);
        let n = latencies_ms.len();
        let rank = |share: f64| {
            let rank = (share * n as f64).ceil() as usize;
            latencies_ms.get(rank.clamp(1, n.max(1)) - 1).copied()
        };
        Latency {
            mean: (n > 0).then(|| latencies_ms.iter().sum::<f64>() / n as f64),
            p50: rank(0.5),
            p99: rank(0.99),
            p99_9: rank(0.999),
            max: latencies_ms.last().copied(),
        }
    }
}

/// What a tool printed, and the JSON that it wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolOutput {
    pub(crate) text: String,
    pub(crate) json: Option<Value>,
}

impl ToolOutput {
    /// A tool's output, with the JSON of its file, or else that among what it printed.
    pub(crate) fn new(text: String, file: Option<&Path>) -> ToolOutput {
        let written = file.and_then(|file| std::fs::read_to_string(file).ok());
        let source = written.as_deref().unwrap_or(&text);
        let json = source.find('{').and_then(|first| {
            serde_json::Deserializer::from_str(&source[first..]).into_iter().next()?.ok()
        });
        ToolOutput { text, json }
    }

    /// The number that follows `label` on its line.
    pub(crate) fn number(&self, label: &str) -> Option<f64> {
        numbers(self.after(label)?).next()
    }

    /// What follows `label` on the first line that begins with it.
    pub(crate) fn after(&self, label: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.trim_start().strip_prefix(label))
    }

    /// The milliseconds that follow `label` on its line.
    pub(crate) fn millis(&self, label: &str) -> Option<f64> {
        millis(self.after(label)?.split_whitespace().next()?)
    }

    /// Numbers by name in an object of the JSON.
    pub(crate) fn counts(&self, pointer: &str) -> BTreeMap<String, u64> {
        let object = self.json.as_ref().and_then(|json| json.pointer(pointer)?.as_object());
        let entries = object.into_iter().flatten();
        entries.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
    }

    /// A number of the JSON, times `factor`, to six decimals.
    pub(crate) fn value(&self, pointer: &str, factor: f64) -> Option<f64> {
        let value = self.json.as_ref()?.pointer(pointer)?.as_f64()? * factor;
        Some((value * 1e6).round() / 1e6)
    }

    /// A count of the JSON.
    pub(crate) fn count(&self, pointer: &str) -> Option<u64> {
        self.json.as_ref()?.pointer(pointer)?.as_u64()
    }
}

/// The numbers in a line, in order.
pub(crate) fn numbers(line: &str) -> impl Iterator<Item = f64> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| word.parse().ok())
}

/// Milliseconds of a number with its unit, as wrk and h2load print it: `97.00us`, `1.2s`.
pub(crate) fn millis(word: &str) -> Option<f64> {
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = word.split_at(digits);
    let factor = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Failures with a count above zero.
pub(crate) fn failures<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(what, count)| (what.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let latency = Latency::of((1..=1000).rev().map(f64::from).collect());
        assert_eq!(
            latency,
            Latency {
                mean: Some(500.5),
                p50: Some(500.0),
                p99: Some(990.0),
                p99_9: Some(999.0),
                max: Some(1000.0),
            }
        );
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }

    #[test]
    fn json_is_read_from_a_file_or_from_among_other_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.json");
        let json = |text: &str, file: &Path| ToolOutput::new(text.to_owned(), Some(file)).json;
        assert_eq!(json("a warning\n{\"a\": 1}\nbye", &file).unwrap()["a"], 1);
        std::fs::write(&file, "{\"a\": 2}").unwrap();
        assert_eq!(json("{\"a\": 1}", &file).unwrap()["a"], 2);
        assert_eq!(json("no report", &folder.path().join("none")), None);
    }

    #[test]
    fn units_become_milliseconds() {
        assert_eq!(
            ["97.00us", "1.50ms", "1.2s", "5"].map(millis),
            [Some(0.097), Some(1.5), Some(1200.0), None]
        );
    }
}
