//! httperf: new connections at a rate, and as many requests on each, one after another.

use super::Tool;
use crate::tools::load::{Load, Protocol, Work};
use crate::tools::report::{Latency, Report, ToolOutput, failures, numbers};

pub(crate) const TOOL: Tool = Tool {
    name: "httperf",
    source: "Debian package httperf",
    version: Some("--version"),
    uncertainty: "standard deviation",
    rate: "200/s, a connection for each request",
    arguments,
    script: None,
    then: None,
    read,
};

/// A closed loop is as many connections as soon as possible, each with its share of the requests; or,
/// without a rate, one connection after another.
fn arguments(load: &Load) -> Option<String> {
    let Load { port, connections, timeout_s, .. } = load;
    let requests = load.requests();
    let work = match (load.work, load.new_connection) {
        (Work::Rate { per_s, seconds }, _) => {
            format!("--rate {per_s} --num-conns {} --num-calls 1", per_s * seconds)
        }
        (_, false) => format!(
            "--rate 1000 --num-conns {connections} --num-calls {}",
            requests.div_ceil(*connections)
        ),
        (_, true) if *connections == 1 => format!("--num-conns {requests} --num-calls 1"),
        _ => return None,
    };
    (!load.unix && load.protocol == Protocol::Http).then(|| {
        format!("--hog --server 127.0.0.1 --port {port} --uri / --timeout {timeout_s} {work}")
    })
}

fn read(printed: &ToolOutput) -> Option<Report> {
    // connections, requests, replies
    let counts: Vec<u64> = numbers(printed.after("Total:")?).map(|n| n as u64).collect();
    let [_, requests, replies, ..] = *counts else { return None };
    // Each number after its name: 1xx=0 2xx=100 …
    let statuses: Vec<f64> =
        printed.after("Reply status:").map(numbers).into_iter().flatten().collect();
    let status = |class: usize| statuses.get(2 * class - 1).copied().unwrap_or(0.0) as u64;
    let (fours, fives) = (status(4), status(5));
    let errors = |name: &str| {
        let lines = printed.text.lines().filter_map(|line| line.strip_prefix("Errors: "));
        let mut words = lines.flat_map(str::split_whitespace);
        words.find(|word| *word == name);
        words.next().and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let failed = errors("total");
    let unanswered = requests.saturating_sub(replies);
    Some(Report {
        total: replies + failed,
        failed: failed + fours + fives,
        failures: failures([
            ("errors", failed),
            ("of these client-timo", errors("client-timo")),
            ("of these connreset", errors("connreset")),
            ("4xx", fours),
            ("5xx", fives),
        ]),
        unfinished: unanswered.saturating_sub(failed),
        per_s: printed.number("Request rate:"),
        latency: latency(printed),
        ..Report::default()
    })
}

/// With one request on each connection, the connections' times, of which there are more figures.
fn latency(printed: &ToolOutput) -> Latency {
    if printed.number("Connection length [replies/conn]:") == Some(1.0) {
        // min, avg, max, median
        let line = printed.after("Connection time [ms]: min");
        let times: Vec<f64> = line.map(numbers).into_iter().flatten().collect();
        let [mean, max, p50] = [1, 2, 3].map(|at| times.get(at).copied());
        return Latency { mean, p50, max, ..Latency::default() };
    }
    let parts = printed.after("Reply time [ms]: response").map(|line| numbers(line).sum());
    Latency { mean: parts, ..Latency::default() }
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    const CLOSED: &str = "\
Total: connections 10 requests 1996 replies 1990 test-duration 0.250 s

Connection rate: 40.0 conn/s (25.0 ms/conn, <=10 concurrent connections)
Connection time [ms]: min 170.8 avg 200.9 max 250.0 median 190.5 stddev 20.0
Connection time [ms]: connect 0.1
Connection length [replies/conn]: 199.000

Request rate: 7984.0 req/s (0.1 ms/req)
Reply time [ms]: response 5.1 transfer 0.1
Reply status: 1xx=0 2xx=1970 3xx=0 4xx=1 5xx=19

Errors: total 5 client-timo 2 socket-timo 0 connrefused 0 connreset 3
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";

    #[test]
    fn it_is_called_by_number_or_rate() {
        let first = "--hog --server 127.0.0.1 --port 80 --uri / --timeout 1";
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("{first} --rate 1000 --num-conns 10 --num-calls 450"),
                format!("{first} --rate 1000 --num-conns 10 --num-calls 200"),
                format!("{first} --rate 200 --num-conns 2000 --num-calls 1"),
                "–".to_owned(),
            ]
        );
        let number = Work::Number { requests: 2000, or_seconds: 5 };
        let one = Load { connections: 1, new_connection: true, ..tests::load(number) };
        let one = (TOOL.arguments)(&one);
        assert_eq!(one, Some(format!("{first} --num-conns 2000 --num-calls 1")));
    }

    #[test]
    fn its_report_is_read() {
        let report = tests::read(&TOOL, CLOSED, "");
        assert_eq!((report.total, report.failed, report.unfinished), (1995, 25, 1));
        assert_eq!(report.per_s, Some(7984.0));
        let failures = ["of these client-timo", "of these connreset", "4xx", "5xx"];
        assert_eq!(failures.map(|what| report.failures[what]), [2, 3, 1, 19]);
        assert_eq!(report.latency.mean.map(|ms| format!("{ms:.1}")), Some("5.2".to_owned()));
    }

    #[test]
    fn with_one_request_on_each_connection_its_time_is_the_latency() {
        let text = CLOSED.replace("199.000", "1.000");
        let Latency { mean, p50, max, .. } = tests::read(&TOOL, &text, "").latency;
        assert_eq!((mean, p50, max), (Some(200.9), Some(190.5), Some(250.0)));
    }
}
