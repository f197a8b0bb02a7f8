//! weighttp: a closed loop, by number.

use super::Tool;
use crate::tools::load::{Load, Protocol};
use crate::tools::report::{Report, ToolOutput, failures, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "weighttp",
    source: "https://github.com/lighttpd/weighttp",
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
        format!("{keep}-t {threads} -c {connections} -n {requests} {url}")
    })
}

fn read(printed: &ToolOutput) -> Option<Report> {
    // total, started, done, succeeded, failed
    let counts: Vec<u64> = numbers(printed.after("requests:")?).map(|n| n as u64).collect();
    let [_, started, done, _, failed, ..] = *counts else { return None };
    // 2xx, 3xx, 4xx, 5xx
    let statuses: Vec<u64> = printed
        .after("status codes:")
        .map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    let status = |at: usize| statuses.get(at).copied().unwrap_or(0);
    Some(Report {
        total: done,
        failed,
        failures: failures([
            ("failed", failed),
            ("of these 4xx", status(2)),
            ("of these 5xx", status(3)),
        ]),
        unfinished: started.saturating_sub(done),
        // seconds, milliseconds, microseconds, requests per second
        per_s: printed.after("finished in").and_then(|line| numbers(line).nth(3)),
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
                format!("-k -t 1 -c 10 -n 4500 {url}"),
                format!("-k -t 1 -c 10 -n 2000 {url}"),
                format!("-k -t 1 -c 10 -n 15000 {url}"),
                "–".to_owned(),
            ]
        );
        assert_eq!(tests::published(&TOOL), format!("-t 4 -c 20 -n 2000 {url}"));
    }

    #[test]
    fn its_report_is_read() {
        let text = "\
finished in 0 sec, 118 millisec and 35 microsec, 16944 req/s, 1754 kbyte/s
requests: 2000 total, 2000 started, 2000 done, 1980 succeeded, 20 failed, 0 errored
status codes: 1980 2xx, 0 3xx, 0 4xx, 20 5xx
traffic: 212000 bytes total, 188000 bytes http, 24000 bytes data
";
        let report = tests::read(&TOOL, text, "");
        assert_eq!((report.total, report.failed, report.per_s), (2000, 20, Some(16_944.0)));
        assert_eq!(report.failures["of these 5xx"], 20);
    }
}
