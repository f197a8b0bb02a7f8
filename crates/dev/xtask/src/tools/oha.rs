//! oha: a closed loop, by number or by time, or a rate, with latency from the schedule on request.

use super::Tool;
use crate::tools::load::{Load, SHARED, SOCKET, Work};
use crate::tools::report::{Latency, Report, ToolOutput};

pub(crate) const TOOL: Tool = Tool {
    name: "oha",
    source: "crate oha",
    version: Some("--version"),
    uncertainty: "none",
    rate: "200/s, `--latency-correction`",
    arguments,
    script: None,
    then: None,
    read,
};

fn arguments(load: &Load) -> Option<String> {
    let work = match load.work {
        Work::Number { requests, .. } => format!("-n {requests}"),
        Work::Closed { seconds } => format!("-z {seconds}s"),
        Work::Rate { per_s, seconds } => {
            format!("-z {seconds}s -q {per_s} --latency-correction")
        }
    };
    let through = if load.unix { format!(" --unix-socket {SOCKET}") } else { String::new() };
    let (timeout, url) = (load.timeout_s, load.url());
    let shape = match (load.protocol.is_http2(), SHARED) {
        (false, _) => format!("-c {}", load.connections),
        (true, (connections, streams)) => format!("--http2 -c {connections} -p {streams}"),
    };
    let insecure = load.protocol.with_tls(" --insecure");
    Some(format!(
        "--no-tui --output-format json {shape}{insecure} -t {timeout}s {work}{through} {url}"
    ))
}

fn read(printed: &ToolOutput) -> Option<Report> {
    printed.json.as_ref()?.get("statusCodeDistribution")?;
    let statuses = printed.counts("/statusCodeDistribution");
    let mut failures = printed.counts("/errorDistribution");
    // Requests that were outstanding at the end of the duration.
    let unfinished = failures.remove("aborted due to deadline").unwrap_or(0);
    let responses: u64 = statuses.values().sum();
    let errors: u64 = failures.values().sum();
    let refused = statuses.into_iter().filter(|(status, _)| !status.starts_with('2'));
    failures.extend(refused);
    let millis = |pointer: &str| printed.value(pointer, 1e3);
    Some(Report {
        total: responses + errors,
        failed: failures.values().sum(),
        failures,
        unfinished,
        per_s: printed.value("/summary/requestsPerSec", 1.0),
        latency: Latency {
            mean: millis("/summary/average"),
            p50: millis("/latencyPercentiles/p50"),
            p99: millis("/latencyPercentiles/p99"),
            p99_9: millis("/latencyPercentiles/p99.9"),
            max: millis("/summary/slowest"),
        },
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn it_is_called_by_number_time_or_rate() {
        let (first, url) = ("--no-tui --output-format json -c 10 -t 1s", "http://127.0.0.1:80/");
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("{first} -z 3s {url}"),
                format!("{first} -n 2000 {url}"),
                format!("{first} -z 10s -q 200 --latency-correction {url}"),
                format!("{first} -n 2000 --unix-socket server.sock {url}"),
            ]
        );
    }

    #[test]
    fn its_report_is_read() {
        let json = r#"{"summary":{"successRate":0.99,"total":1.0,"slowest":0.0205,"fastest":0.0001,
            "average":0.0005,"requestsPerSec":2000.0},
            "latencyPercentiles":{"p50":0.0004,"p99":0.0032,"p99.9":0.02,"p99.99":null},
            "statusCodeDistribution":{"200":1977,"500":3},
            "errorDistribution":{"aborted due to deadline":10,"connection closed before message completed":20}}"#;
        let report = tests::read(&TOOL, "", json);
        assert_eq!((report.total, report.failed, report.unfinished), (2000, 23, 10));
        assert_eq!((report.per_s, report.failures["500"]), (Some(2000.0), 3));
        let Latency { mean, p50, p99, p99_9, max } = report.latency;
        assert_eq!([mean, p50, p99, p99_9, max], [0.5, 0.4, 3.2, 20.0, 20.5].map(Some));
    }
}
