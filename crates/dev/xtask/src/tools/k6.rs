//! k6: a script with a closed loop, a number of iterations or a constant arrival rate.

use super::Tool;
use crate::tools::load::{Load, OUT, Protocol, SCRIPT, Work};
use crate::tools::report::{Latency, Report, ToolOutput, failures};

pub(crate) const TOOL: Tool = Tool {
    name: "k6",
    source: "Go module go.k6.io/k6",
    version: Some("version"),
    uncertainty: "none",
    rate: "200/s, `constant-arrival-rate`",
    arguments,
    script: Some(script),
    then: None,
    read,
};

fn arguments(load: &Load) -> Option<String> {
    // It speaks HTTP/2 only with TLS, if the server does.
    (!load.unix && load.protocol != Protocol::H2c)
        .then(|| format!("run --quiet --no-usage-report --summary-export {OUT} {SCRIPT}"))
}

/// Checks and thresholds are how k6 is told what a correct response is, and when to fail.
fn script(load: &Load) -> String {
    let connections = load.connections;
    let executor = match load.work {
        Work::Closed { seconds } => {
            format!("executor: 'constant-vus', vus: {connections}, duration: '{seconds}s'")
        }
        Work::Number { requests, .. } => format!(
            "executor: 'shared-iterations', vus: {connections}, iterations: {requests}, \
             maxDuration: '60s'"
        ),
        // As many virtual users as requests of two seconds, so that none is dropped.
        Work::Rate { per_s, seconds } => format!(
            "executor: 'constant-arrival-rate', rate: {per_s}, timeUnit: '1s', \
             duration: '{seconds}s', preAllocatedVUs: {}",
            2 * per_s
        ),
    };
    let (url, timeout) = (load.url(), load.timeout_s);
    let insecure = load.protocol.with_tls("\n  insecureSkipTLSVerify: true,");
    format!(
        "import http from 'k6/http';
import {{ check }} from 'k6';
export const options = {{
  scenarios: {{ load: {{ {executor} }} }},
  summaryTrendStats: ['avg', 'med', 'p(99)', 'p(99.9)', 'max'],
  thresholds: {{ checks: ['rate==1'], http_req_failed: ['rate==0'] }},{insecure}
}};
export default function () {{
  const response = http.get('{url}', {{ timeout: '{timeout}s' }});
  check(response, {{ 'status and body': (r) => r.status === 200 && r.body === 'Hello World!' }});
}}
"
    )
}

fn read(printed: &ToolOutput) -> Option<Report> {
    let metric = |name: &str| format!("/metrics/{name}");
    let count = |name: &str| printed.count(&metric(name)).unwrap_or(0);
    let total = printed.count(&metric("http_reqs/count"))?;
    // Of a rate, `passes` counts what is true: requests that failed, checks that held.
    let (refused, unchecked) = (count("http_req_failed/passes"), count("checks/fails"));
    let millis = |name: &str| printed.value(&metric(&format!("http_req_duration/{name}")), 1.0);
    Some(Report {
        total,
        // Every failed request also fails its check.
        failed: refused.max(unchecked),
        failures: failures([
            ("http_req_failed", refused),
            ("checks_failed", unchecked),
            ("dropped_iterations", count("dropped_iterations/count")),
        ]),
        latency: Latency {
            mean: millis("avg"),
            p50: millis("med"),
            p99: millis("p(99)"),
            p99_9: millis("p(99.9)"),
            max: millis("max"),
        },
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    #[test]
    fn its_script_has_an_executor_for_each_kind_of_work() {
        let script = |work| script(&tests::load(work));
        let closed = script(Work::Closed { seconds: 3 });
        assert!(closed.contains("load: { executor: 'constant-vus', vus: 10, duration: '3s' }"));
        assert!(closed.contains("http.get('http://127.0.0.1:80/', { timeout: '1s' })"));
        let number = script(Work::Number { requests: 2000, or_seconds: 1 });
        assert!(number.contains("executor: 'shared-iterations', vus: 10, iterations: 2000,"));
        let rate = script(Work::Rate { per_s: 200, seconds: 10 });
        assert!(rate.contains("rate: 200, timeUnit: '1s', duration: '10s', preAllocatedVUs: 400"));
        assert_eq!(tests::calls(&TOOL)[3], "–");
    }

    #[test]
    fn its_report_is_read() {
        let json = r#"{"metrics":{
            "checks":{"passes":1977,"fails":23,"thresholds":{"rate==1":true},"value":0.98},
            "http_req_failed":{"passes":3,"fails":1997,"value":0.001},
            "http_reqs":{"count":2000,"rate":6383.9},
            "http_req_duration":{"avg":1.45,"med":0.46,"p(99)":16.1,"p(99.9)":33.7,"max":35.33}}}"#;
        let report = tests::read(&TOOL, "", json);
        assert_eq!((report.total, report.failed), (2000, 23));
        assert_eq!(report.failures.len(), 2);
        let Latency { mean, p50, p99, p99_9, max } = report.latency;
        assert_eq!([mean, p50, p99, p99_9, max], [1.45, 0.46, 16.1, 33.7, 35.33].map(Some));
    }
}
