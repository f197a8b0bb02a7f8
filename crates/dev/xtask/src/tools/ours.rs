//! `tachograph load`: a closed loop or a constant rate, by number or by time.

use super::Tool;
use crate::tools::load::{Load, OUT, SHARED, SOCKET, Work};
use crate::tools::report::{Latency, Report, ToolOutput};

pub(crate) const TOOL: Tool = Tool {
    name: "tachograph",
    source: "this repository",
    version: Some("--version"),
    uncertainty: "none (`compare` and `run`: 95% interval)",
    rate: "200/s, `--arrivals uniform`",
    arguments,
    script: None,
    then: None,
    read,
};

/// An open loop opens the connections that it needs.
fn arguments(load: &Load) -> Option<String> {
    let (connections, version) = match (load.protocol.is_http2(), SHARED) {
        (false, _) => (load.connections, version(load)),
        (true, (connections, streams)) => (connections, format!("--http2 --streams {streams} ")),
    };
    let work = match load.work {
        Work::Number { requests, .. } => {
            format!("{version}--connections {connections} --requests {requests}")
        }
        Work::Closed { seconds } => {
            format!("{version}--connections {connections} --duration {seconds}s")
        }
        Work::Rate { per_s, seconds } => {
            format!("{version}--rate {per_s} --arrivals uniform --duration {seconds}s")
        }
    };
    let through = if load.unix { format!(" --unix-socket {SOCKET}") } else { String::new() };
    let (timeout, url) = (load.timeout_s, load.url());
    let insecure = load.protocol.with_tls(" --insecure");
    Some(format!("load {work}{insecure} --timeout {timeout}s --export-json {OUT}{through} {url}"))
}

/// Options of HTTP/1.1 that not every load has.
fn version(load: &Load) -> String {
    let threads = match load.threads {
        1 => String::new(),
        threads => format!("--threads {threads} "),
    };
    if load.new_connection { threads + "--new-connection " } else { threads }
}

fn read(printed: &ToolOutput) -> Option<Report> {
    let ledger = |column: &str| printed.count(&format!("/ledger/{column}"));
    let (completed, failed) = (ledger("completed")?, ledger("failed")?);
    let millis = |name: &str| printed.value(&format!("/latency_ns/{name}"), 1e-6);
    Some(Report {
        total: completed + failed,
        failed,
        failures: printed.counts("/errors"),
        unfinished: ledger("in_flight")?,
        warmup: printed.count("/warm_up/sent").unwrap_or(0),
        warmup_failed: printed.count("/warm_up/failed").unwrap_or(0),
        latency: Latency {
            mean: millis("mean"),
            p50: millis("p50"),
            p99: millis("p99"),
            p99_9: millis("p99_9"),
            max: millis("max"),
        },
        per_s: printed.value("/throughput_per_s", 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn it_is_called_by_number_time_or_rate() {
        let (last, url) = ("--timeout 1s --export-json out.json", "http://127.0.0.1:80/");
        assert_eq!(
            tests::calls(&TOOL),
            [
                format!("load --connections 10 --duration 3s {last} {url}"),
                format!("load --connections 10 --requests 2000 {last} {url}"),
                format!("load --rate 200 --arrivals uniform --duration 10s {last} {url}"),
                format!(
                    "load --connections 10 --requests 2000 {last} \
                     --unix-socket server.sock {url}"
                ),
            ]
        );
        assert_eq!(
            tests::published(&TOOL),
            format!(
                "load --threads 4 --new-connection --connections 20 --requests 2000 {last} {url}"
            )
        );
    }

    #[test]
    fn its_report_is_read() {
        let json = r#"{"ledger":{"completed":1980,"failed":20,"in_flight":1,"sent":2001},
            "throughput_per_s":19800.5,"warm_up":{"sent":30,"failed":1},"errors":{"closed before a response":20},
            "latency_ns":{"max":338431,"mean":134768,"p50":122175,"p99":215935,"p99_9":336895}}"#;
        let report = tests::read(&TOOL, "", json);
        assert_eq!((report.total, report.failed, report.unfinished), (2000, 20, 1));
        assert_eq!((report.warmup, report.warmup_failed), (30, 1));
        assert_eq!(report.per_s, Some(19_800.5));
        assert_eq!(report.failures["closed before a response"], 20);
        let Latency { mean, p50, p99, p99_9, max } = report.latency;
        assert_eq!(
            [mean, p50, p99, p99_9, max],
            [0.134768, 0.122175, 0.215935, 0.336895, 0.338431].map(Some)
        );
    }
}
