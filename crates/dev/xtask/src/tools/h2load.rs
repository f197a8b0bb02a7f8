//! h2load: a closed loop, by number or by time, or at a rate for each connection; it verifies no
//! certificates.

use super::Tool;
use crate::tools::load::{Load, SHARED, SOCKET, Work};
use crate::tools::report::{Latency, Report, ToolOutput, failures, millis, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "h2load",
    source: "Debian package nghttp2-client",
    version: Some("--version"),
    uncertainty: "standard deviation",
    rate: "20/s per connection",
    arguments,
    script: None,
    then: None,
    read,
};

fn arguments(load: &Load) -> Option<String> {
    let (connections, shape) = match (load.protocol.is_http2(), SHARED) {
        (false, _) => (load.connections, format!("--h1 -t1 -c{}", load.connections)),
        (true, (connections, streams)) => (connections, format!("-t1 -c{connections} -m{streams}")),
    };
    let work = match load.work {
        Work::Number { requests, .. } => format!("-n {requests}"),
        Work::Closed { seconds } => format!("-D {seconds}"),
        Work::Rate { per_s, seconds } => format!("-D {seconds} --rps {}", per_s / connections),
    };
    let through = if load.unix { format!(" -B unix:{SOCKET}") } else { String::new() };
    let (timeout, url) = (load.timeout_s, load.url());
    Some(format!("{shape} -N {timeout} {work}{through} {url}"))
}

fn read(printed: &ToolOutput) -> Option<Report> {
    // total, started, done, succeeded, failed, errored, timeout
    let counts: Vec<u64> = numbers(printed.after("requests:")?).map(|n| n as u64).collect();
    let [_, started, done, succeeded, failed, errored, timeout] = *counts else { return None };
    // min, max, mean
    let times: Vec<Option<f64>> = printed
        .after("time for request:")
        .map(|line| line.split_whitespace().map(millis).collect())
        .unwrap_or_default();
    Some(Report {
        total: succeeded + failed,
        // Errored and timed out requests are among the failed.
        failed,
        failures: failures([
            ("failed", failed),
            ("of these errored", errored),
            ("of these timeout", timeout),
        ]),
        unfinished: started.saturating_sub(done + errored),
        per_s: printed
            .after("finished in")
            .and_then(|line| numbers(line.split(", ").nth(1)?).next()),
        latency: Latency {
            mean: times.get(2).copied().flatten(),
            max: times.get(1).copied().flatten(),
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
    fn it_is_called_by_number_time_or_rate() {
        let url = "http://127.0.0.1:80/";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("--h1 -t1 -c10 -N 1 -D 3 {url}"),
                format!("--h1 -t1 -c10 -N 1 -n 2000 {url}"),
                format!("--h1 -t1 -c10 -N 1 -D 10 --rps 20 {url}"),
                format!("--h1 -t1 -c10 -N 1 -n 2000 -B unix:server.sock {url}"),
            ]
        );
    }

    #[test]
    fn its_report_is_read() {
        let text = "finished in 15.76ms, 51446.33 req/s, 6.33MB/s
requests: 2000 total, 820 started, 811 done, 811 succeeded, 1189 failed, 1189 errored, 0 timeout
status codes: 811 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:       21us      1.23ms        99us       130us    96.92%
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.unfinished), (2000, 1189, 0));
        assert_eq!(report.per_s, Some(51_446.33));
        assert_eq!((report.latency.mean, report.latency.max), (Some(0.099), Some(1.23)));
        let text = "requests: 62446 total, 62456 started, 62446 done, 62446 succeeded, 0 failed, 0 errored, 0 timeout\n";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.unfinished), (62_446, 0, 10));
    }
}
