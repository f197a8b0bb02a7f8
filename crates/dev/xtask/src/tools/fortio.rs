//! fortio: a closed loop or a constant rate, by number or by time.

use super::Tool;
use crate::tools::load::{Load, OUT, SOCKET, Work};
use crate::tools::report::{Latency, Report, ToolOutput, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "fortio",
    source: "Go module fortio.org/fortio",
    version: None,
    uncertainty: "standard deviation",
    rate: "200/s, `-uniform`",
    arguments,
    script: None,
    then: None,
    read,
};

/// `-r` is the histogram's resolution, a millisecond by default; without `-allow-initial-errors`,
/// fortio ends if one of the first requests fails.
fn arguments(load: &Load) -> Option<String> {
    let work = match load.work {
        Work::Number { requests, .. } => format!("-qps 0 -n {requests}"),
        Work::Closed { seconds } => format!("-qps 0 -t {seconds}s"),
        Work::Rate { per_s, seconds } => format!("-qps {per_s} -uniform -t {seconds}s"),
    };
    let through = if load.unix { format!(" -unix-socket {SOCKET}") } else { String::new() };
    let (connections, timeout, url) = (load.connections, load.timeout_s, load.url());
    let insecure = load.protocol.with_tls(" -https-insecure");
    let version = if load.protocol.is_http2() { " -h2 -stdclient" } else { "" };
    Some(format!(
        "load -loglevel Error -allow-initial-errors -c {connections}{insecure}{version} \
         -timeout {timeout}s {work} -r 0.0001 -p 50,99,99.9 -json {OUT}{through} {url}"
    ))
}

fn read(printed: &ToolOutput) -> Option<Report> {
    printed.count("/DurationHistogram/Count")?;
    let mut failures = printed.counts("/RetCodes");
    let total = failures.values().sum();
    failures.retain(|status, _| !status.starts_with('2'));
    if let Some(count) = failures.remove("-1") {
        failures.insert("code -1".to_owned(), count);
    }
    // `All done 39709 calls (plus 10 warmup) 0.493 ms avg, …`; the JSON does not have it.
    let done = printed.after("All done ").map(numbers);
    let warmup = done.and_then(|mut numbers| numbers.nth(1)).unwrap_or(0.0) as u64;
    let at = |at: usize| printed.value(&format!("/DurationHistogram/Percentiles/{at}/Value"), 1e3);
    Some(Report {
        total,
        failed: failures.values().sum(),
        failures,
        warmup,
        latency: Latency {
            mean: printed.value("/DurationHistogram/Avg", 1e3),
            p50: at(0),
            p99: at(1),
            p99_9: at(2),
            max: printed.value("/DurationHistogram/Max", 1e3),
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
        let first = "load -loglevel Error -allow-initial-errors -c 10 -timeout 1s";
        let json = "-r 0.0001 -p 50,99,99.9 -json out.json";
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("{first} -qps 0 -t 3s {json} {url}"),
                format!("{first} -qps 0 -n 2000 {json} {url}"),
                format!("{first} -qps 200 -uniform -t 10s {json} {url}"),
                format!("{first} -qps 0 -n 2000 {json} -unix-socket server.sock {url}"),
            ]
        );
    }

    #[test]
    fn its_report_is_read() {
        let json = r#"{"DurationHistogram":{"Count":2000,"Min":0.000016,"Max":0.0119,"Avg":0.0005,
            "Percentiles":[{"Percentile":50,"Value":0.00055},{"Percentile":99,"Value":0.0065},
            {"Percentile":99.9,"Value":0.0098}]},"RetCodes":{"-1":20,"200":1977,"500":3}}"#;
        let text = "All done 2000 calls (plus 10 warmup) 0.493 ms avg, 19841.9 qps";
        let report = tests::read(&TOOL, text, json);
        assert_eq!((report.total, report.failed, report.warmup), (2000, 23, 10));
        assert_eq!((report.failures["code -1"], report.failures["500"]), (20, 3));
        let Latency { mean, p50, p99, p99_9, max } = report.latency;
        assert_eq!([mean, p50, p99, p99_9, max], [0.5, 0.55, 6.5, 9.8, 11.9].map(Some));
    }
}
