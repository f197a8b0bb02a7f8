//! wrk: a closed loop for whole seconds.

use super::Tool;
use crate::tools::load::Load;
use crate::tools::report::{Latency, Report, ToolOutput, failures, millis, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "wrk",
    source: "Debian package wrk",
    version: Some("-v"),
    uncertainty: "standard deviation",
    rate: "none: closed loop",
    arguments,
    script: None,
    then: None,
    read,
};

fn arguments(load: &Load) -> Option<String> {
    let Load { connections, threads, timeout_s, .. } = load;
    let seconds = load.seconds();
    let close = if load.new_connection { " -H Connection:close" } else { "" };
    (!load.unix && !load.protocol.is_http2()).then(|| {
        format!(
            "-t{threads} -c{connections} -d{seconds}s --timeout {timeout_s}s --latency{close} {}",
            load.url()
        )
    })
}

fn read(printed: &ToolOutput) -> Option<Report> {
    let requests = printed.text.lines().find(|line| line.contains(" requests in "))?;
    let completed = numbers(requests).next()? as u64;
    let refused = printed.number("Non-2xx or 3xx responses:").unwrap_or(0.0) as u64;
    let errors: Vec<u64> = printed
        .after("Socket errors:")
        .map(|line| numbers(line).map(|n| n as u64).collect())
        .unwrap_or_default();
    let error = |at: usize| errors.get(at).copied().unwrap_or(0);
    // The requests are responses; timeouts are among them (`response_complete` in wrk.c).
    let (connect, read, write, timeout) = (error(0), error(1), error(2), error(3));
    let mut latency = printed
        .text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("Latency  "))
        .map(|line| line.split_whitespace().map(millis).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter();
    let (mean, max) = (latency.next().flatten(), latency.nth(1).flatten());
    Some(Report {
        total: completed + connect + read + write,
        failed: refused + connect + read + write + timeout,
        failures: failures([
            ("non-2xx or 3xx", refused),
            ("connect", connect),
            ("read", read),
            ("write", write),
            ("timeout", timeout),
        ]),
        per_s: printed.number("Requests/sec:"),
        latency: Latency {
            mean,
            p50: printed.millis("50%"),
            p99: printed.millis("99%"),
            max,
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
    fn it_is_called_with_durations_only() {
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("-t1 -c10 -d3s --timeout 1s --latency {url}"),
                format!("-t1 -c10 -d1s --timeout 1s --latency {url}"),
                format!("-t1 -c10 -d10s --timeout 1s --latency {url}"),
                "–".to_owned(),
            ]
        );
        assert_eq!(
            tests::published(&TOOL),
            format!("-t4 -c20 -d5s --timeout 1s --latency -H Connection:close {url}")
        );
    }

    #[test]
    fn its_report_is_read() {
        let text = "Running 1s test @ http://127.0.0.1:18099/
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   658.24us    2.59ms  24.08ms   95.13%
    Req/Sec    69.23k    11.91k   80.67k    80.00%
  Latency Distribution
     50%   97.00us
     75%  108.00us
     90%  134.00us
     99%   15.22ms
  68797 requests in 1.01s, 8.46MB read
  Socket errors: connect 0, read 278, write 0, timeout 3
  Non-2xx or 3xx responses: 7
Requests/sec:  68345.24
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.per_s), (69_075, 288, Some(68_345.24)));
        assert_eq!(report.failures["read"], 278);
        assert_eq!(
            report.latency,
            Latency {
                mean: Some(0.65824),
                p50: Some(0.097),
                p99: Some(15.22),
                p99_9: None,
                max: Some(24.08)
            }
        );
    }
}
