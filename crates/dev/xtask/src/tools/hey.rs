//! hey: a closed loop, by number or by time, with a limit on the rate of each worker; it verifies no
//! certificates, and speaks HTTP/2 only with TLS.

use super::Tool;
use crate::tools::load::{Load, Protocol, Work};
use crate::tools::report::{Latency, Report, ToolOutput, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "hey",
    source: "Go module github.com/rakyll/hey",
    version: None,
    uncertainty: "none",
    rate: "20/s per worker",
    arguments,
    script: None,
    then: None,
    read,
};

fn arguments(load: &Load) -> Option<String> {
    let connections = load.connections;
    let work = match load.work {
        Work::Number { requests, .. } => format!("-n {requests}"),
        Work::Closed { seconds } => format!("-z {seconds}s"),
        Work::Rate { per_s, seconds } => format!("-z {seconds}s -q {}", per_s / connections),
    };
    let version = if load.protocol == Protocol::H2 { " -h2" } else { "" };
    // It names the host with its port to TLS (SNI), which rustls refuses.
    let host = load.protocol.with_tls(" -host localhost");
    (!load.unix && load.protocol != Protocol::H2c).then(|| {
        format!("-c {connections}{version}{host} -t {} {work} {}", load.timeout_s, load.url())
    })
}

fn read(printed: &ToolOutput) -> Option<Report> {
    printed.after("Requests/sec:")?;
    let (mut total, mut failed) = (0, 0);
    let mut failures = std::collections::BTreeMap::new();
    // `[200]	1999 responses` by status, then `[20]	Get "…": EOF` by error.
    for line in printed.text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('[') else { continue };
        let Some((bracket, rest)) = rest.split_once(']') else { continue };
        let Ok(number) = bracket.parse::<u64>() else { continue };
        let (count, what) = match rest.trim().strip_suffix(" responses") {
            Some(count) => (count.parse::<u64>().ok()?, bracket.to_owned()),
            // The histogram's bars are not errors.
            None if rest.contains('|') => continue,
            None => (number, error(rest.trim())),
        };
        total += count;
        if !(what.starts_with('2') && what.len() == 3) {
            failed += count;
            *failures.entry(what).or_insert(0) += count;
        }
    }
    let seconds = |label: &str| printed.number(label).map(|s| s * 1e3);
    let quantile = |share: &str| {
        let line = printed.after(share)?;
        numbers(line.split_once("in ")?.1).next().map(|s| s * 1e3)
    };
    Some(Report {
        total,
        failed,
        failures,
        per_s: printed.number("Requests/sec:"),
        latency: Latency {
            mean: seconds("Average:"),
            p50: quantile("50%"),
            p99: quantile("99%"),
            max: seconds("Slowest:"),
            ..Latency::default()
        },
        ..Report::default()
    })
}

/// A Go error without its URL and addresses.
fn error(text: &str) -> String {
    text.rsplit(": ").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn it_is_called_by_number_time_or_rate() {
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("-c 10 -t 1 -z 3s {url}"),
                format!("-c 10 -t 1 -n 2000 {url}"),
                format!("-c 10 -t 1 -z 10s -q 20 {url}"),
                "–".to_owned(),
            ]
        );
    }

    #[test]
    fn its_report_is_read() {
        let text = "
Summary:
  Total:\t0.1056 secs
  Slowest:\t0.0265 secs
  Average:\t0.0005 secs
  Requests/sec:\t18944.5703

Response time histogram:
  0.000 [1]\t|
  0.003 [1979]\t|■■■

Latency distribution:
  50%% in 0.0003 secs
  99%% in 0.0032 secs

Status code distribution:
  [200]\t1977 responses
  [500]\t3 responses

Error distribution:
  [20]\tGet \"http://127.0.0.1:18099/\": EOF
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.per_s), (2000, 23, Some(18944.5703)));
        assert_eq!((report.failures["500"], report.failures["EOF"]), (3, 20));
        let Latency { mean, p50, p99, max, .. } = report.latency;
        assert_eq!((mean, p50, p99, max), (Some(0.5), Some(0.3), Some(3.2), Some(26.5)));
    }
}
