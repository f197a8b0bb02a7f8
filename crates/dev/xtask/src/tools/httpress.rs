//! httpress: a closed loop, by number. It reads no status: a response of any status is a success
//! (`parse_headers` in httpress.c).

use super::Tool;
use crate::tools::load::{Load, Protocol};
use crate::tools::report::{Latency, Report, ToolOutput, failures, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "httpress",
    source: "https://github.com/yarosla/httpress",
    version: Some("-v"),
    uncertainty: "none",
    rate: "none: closed loop",
    arguments,
    script: None,
    then: None,
    read,
};

/// It has no option for a timeout.
fn arguments(load: &Load) -> Option<String> {
    let Load { connections, threads, .. } = load;
    let keep = if load.new_connection { "" } else { "-k " };
    (!load.unix && load.protocol == Protocol::Http).then(|| {
        let (requests, url) = (load.requests(), load.url());
        format!("-q {keep}-t {threads} -c {connections} -n {requests} {url}")
    })
}

fn read(printed: &ToolOutput) -> Option<Report> {
    // connect, requests, success, fail
    let counts: Vec<u64> = numbers(printed.after("TOTALS:")?).map(|n| n as u64).collect();
    let [_, total, _, failed, ..] = *counts else { return None };
    // seconds, requests per second, kilobytes per second, mean time in milliseconds
    let timing: Vec<f64> = printed.after("TIMING:").map(numbers).into_iter().flatten().collect();
    Some(Report {
        total,
        failed,
        failures: failures([("fail", failed)]),
        per_s: timing.get(1).copied(),
        latency: Latency { mean: timing.get(3).copied(), ..Latency::default() },
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn it_is_called_by_number_only() {
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("-q -k -t 1 -c 10 -n 4500 {url}"),
                format!("-q -k -t 1 -c 10 -n 2000 {url}"),
                format!("-q -k -t 1 -c 10 -n 15000 {url}"),
                "–".to_owned(),
            ]
        );
        assert_eq!(tests::published(&TOOL), format!("-q -t 4 -c 20 -n 2000 {url}"));
    }

    #[test]
    fn its_report_is_read() {
        let text = "\
TOTALS:  29 connect, 2000 requests, 1981 success, 19 fail, 10 (10) real concurrency
TRAFFIC: 12 avg bytes, 94 avg overhead, 24000 bytes, 188000 overhead
TIMING:  0.118 seconds, 16901 rps, 1749 kbps, 0.6 ms avg req time
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.per_s), (2000, 19, Some(16_901.0)));
        assert_eq!(report.latency.mean, Some(0.6));
    }
}
