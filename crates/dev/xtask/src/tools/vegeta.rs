//! vegeta: a constant rate, or a closed loop with a limit on its workers.

use super::Tool;
use crate::tools::load::{Load, Protocol, SCRIPT, SOCKET, Work};
use crate::tools::report::{Latency, Report, ToolOutput};

/// Requests per second where a number of them is wanted: vegeta knows rates and durations only.
const RATE: u32 = 1000;

const RESULTS: &str = "results.bin";

pub(crate) const TOOL: Tool = Tool {
    name: "vegeta",
    source: "Go module github.com/tsenart/vegeta/v12",
    version: None,
    uncertainty: "none",
    rate: "200/s",
    arguments,
    script: Some(|load| format!("GET {}\n", load.url())),
    then: Some("report -type=json results.bin"),
    read,
};

fn arguments(load: &Load) -> Option<String> {
    let work = match load.work {
        Work::Number { requests, .. } => {
            format!("-rate {RATE}/s -duration {}ms", u64::from(requests) * 1000 / u64::from(RATE))
        }
        Work::Closed { seconds } => {
            format!("-rate 0 -max-workers {} -duration {seconds}s", load.connections)
        }
        Work::Rate { per_s, seconds } => format!("-rate {per_s}/s -duration {seconds}s"),
    };
    let through = if load.unix { format!(" -unix-socket {SOCKET}") } else { String::new() };
    let timeout = load.timeout_s;
    // With TLS it prefers HTTP/2.
    let version = match load.protocol {
        Protocol::Http => "",
        Protocol::Https => " -insecure -http2=false",
        Protocol::H2 => " -insecure",
        Protocol::H2c => " -h2c",
    };
    Some(format!(
        "attack -targets {SCRIPT} -output {RESULTS} -timeout {timeout}s {work}{through}{version}"
    ))
}

fn read(printed: &ToolOutput) -> Option<Report> {
    let total = printed.count("/requests")?;
    let mut failures = printed.counts("/status_codes");
    // Statuses below 400 are successes for vegeta; 0 stands for no response.
    failures.retain(|status, _| !status.starts_with(['2', '3']));
    if let Some(count) = failures.remove("0") {
        failures.insert("no status".to_owned(), count);
    }
    let millis = |pointer: &str| printed.value(pointer, 1e-6);
    Some(Report {
        total,
        failed: failures.values().sum(),
        failures,
        latency: Latency {
            mean: millis("/latencies/mean"),
            p50: millis("/latencies/50th"),
            p99: millis("/latencies/99th"),
            max: millis("/latencies/max"),
            ..Latency::default()
        },
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn it_is_called_with_rates_and_durations() {
        let first = "attack -targets script -output results.bin -timeout 1s";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("{first} -rate 0 -max-workers 10 -duration 3s"),
                format!("{first} -rate 1000/s -duration 2000ms"),
                format!("{first} -rate 200/s -duration 10s"),
                format!("{first} -rate 1000/s -duration 2000ms -unix-socket server.sock"),
            ]
        );
    }

    #[test]
    fn its_report_is_read() {
        let json = r#"{"latencies":{"total":1198575798,"mean":599287,"50th":174938,"90th":947155,
            "95th":3293667,"99th":7312931,"max":16938300,"min":29614},"requests":2000,
            "rate":1000.33,"success":0.998,"status_codes":{"0":1,"200":1996,"500":3},
            "errors":["Get \"http://127.0.0.1:18099/\": EOF"]}"#;
        let report = tests::read(&TOOL, "", json);
        assert_eq!((report.total, report.failed, report.failures["no status"]), (2000, 4, 1));
        let Latency { mean, p50, p99, max, .. } = report.latency;
        assert_eq!([mean, p50, p99, max], [0.599287, 0.174938, 7.312931, 16.9383].map(Some));
    }
}
