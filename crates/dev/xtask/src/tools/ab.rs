//! ab: a closed loop, by number or by time.

use super::Tool;
use crate::tools::load::{Load, Work};
use crate::tools::report::{Latency, Report, ToolOutput, failures, numbers};

/// `-t` limits the number of requests to 50,000 unless `-n` follows.
const MANY: u32 = 10_000_000;

pub(crate) const TOOL: Tool = Tool {
    name: "ab",
    source: "Debian package apache2-utils",
    version: Some("-V"),
    uncertainty: "standard deviation",
    rate: "none: closed loop",
    arguments,
    script: None,
    then: None,
    read,
};

/// `-r` continues after socket errors, without which ab ends at the first.
fn arguments(load: &Load) -> Option<String> {
    let work = match load.work {
        Work::Number { requests, .. } => format!("-n {requests}"),
        Work::Closed { seconds } | Work::Rate { seconds, .. } => format!("-t {seconds} -n {MANY}"),
    };
    let Load { connections, timeout_s, .. } = load;
    let keep = if load.new_connection { "" } else { " -k" };
    (!load.unix && !load.protocol.is_http2())
        .then(|| format!("-q{keep} -r -s {timeout_s} -c {connections} {work} {}", load.url()))
}

fn read(printed: &ToolOutput) -> Option<Report> {
    let total = printed.number("Complete requests:")? as u64;
    let count = |label: &str| printed.number(label).unwrap_or(0.0) as u64;
    let (failed, refused) = (count("Failed requests:"), count("Non-2xx responses:"));
    // Connect, receive, length, exceptions; they may overlap.
    let kinds = printed.after("(Connect:").map(|line| numbers(line).map(|n| n as u64).collect());
    let kinds: Vec<u64> = kinds.unwrap_or_default();
    let kind = |at: usize| kinds.get(at).copied().unwrap_or(0);
    // min, mean, standard deviation, median, max
    let times: Vec<f64> = printed.after("Total:").map(numbers).into_iter().flatten().collect();
    Some(Report {
        total,
        // A page of an error is also a failure if its length is another.
        failed: failed.max(refused),
        failures: failures([
            ("failed", failed),
            ("of these connect", kind(0)),
            ("of these receive", kind(1)),
            ("of these length", kind(2)),
            ("of these exceptions", kind(3)),
            ("non-2xx", refused),
        ]),
        per_s: printed.number("Requests per second:"),
        latency: Latency {
            mean: times.get(1).copied(),
            p50: printed.number("50%"),
            p99: printed.number("99%"),
            max: times.get(4).copied(),
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
    fn it_is_called_by_number_or_time() {
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("-q -k -r -s 1 -c 10 -t 3 -n 10000000 {url}"),
                format!("-q -k -r -s 1 -c 10 -n 2000 {url}"),
                format!("-q -k -r -s 1 -c 10 -t 10 -n 10000000 {url}"),
                "–".to_owned(),
            ]
        );
        assert_eq!(tests::published(&TOOL), format!("-q -r -s 1 -c 20 -n 2000 {url}"));
    }

    #[test]
    fn its_report_is_read() {
        let text = "Complete requests:      2000
Failed requests:        20
   (Connect: 0, Receive: 1, Length: 19, Exceptions: 0)
Non-2xx responses:      5
Keep-Alive requests:    1980
Total transferred:      255420 bytes
Requests per second:    5273.83 [#/sec] (mean)

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.1      0       3
Total:          0    2   4.8      1      42

Percentage of the requests served within a certain time (ms)
  50%      1
  99%     24
 100%     42 (longest request)
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.per_s), (2000, 20, Some(5273.83)));
        assert_eq!(report.failures["of these length"], 19);
        let Latency { mean, p50, p99, max, .. } = report.latency;
        assert_eq!((mean, p50, p99, max), (Some(2.0), Some(1.0), Some(24.0), Some(42.0)));
    }
}
