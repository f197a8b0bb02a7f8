//! The page docs/truth.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::comparing;
use super::results::{Results, ScenarioResults};
use super::scenarios::{SCENARIOS, Scenario, TIMEOUT_S};
use super::tables::{self, TOLERANCE};
use crate::tools::load::CONNECTIONS;

/// The scenarios with faults in responses, and those with closed connections.
const FAULTS: [&str; 6] = ["status-500", "wrong-body", "truncated", "reset", "no-response", "late"];
const COUNTS: [&str; 2] = ["counts-time", "counts-number"];
const CLOSES: [&str; 2] = ["close-announced", "close-silent"];

/// The page of the results.
pub(super) fn page(results: &Results) -> String {
    let mut out = head();
    for (id, title, text, table) in [
        ("delay", "A constant delay", DELAY, tables::delay as Table),
        ("stall", "A stall", STALL, tables::stall),
    ] {
        if let Some(measured) = results.scenarios.get(id) {
            let _ = write!(out, "\n## {title}\n\n{}\n{text}\n{}", servers(&[id]), table(measured));
        }
    }
    for (ids, title, text) in [(COUNTS, "Counts", COUNTED), (CLOSES, "Closed connections", CLOSED)]
    {
        let columns = columns(results, &ids);
        if !columns.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{}\n{text}", servers(&ids));
        }
        for (title, measured) in columns {
            let _ = write!(out, "\n**{title}**\n\n{}", tables::counts(measured));
        }
    }
    out.push_str(&faults(results));
    PROTOCOLS.iter().for_each(|section| out.push_str(&section.page(results)));
    out.push_str(&comparing::section(results));
    let _ = write!(out, "\n## Tools\n\n{}", tables::tools(results));
    out.push_str(FORTIO);
    for missing in &results.missing {
        let _ = write!(
            out,
            "\n{} could not be installed here: `{}` ended with “{}”.\n",
            missing.tool, missing.command, missing.reason
        );
    }
    out.push_str(&circumstances(results));
    out.push_str(&commands(results));
    out
}

fn head() -> String {
    format!(
        "# What load generators report, and what is true\n\n\
         <!-- Made by `make truth` from docs/results/truth.json. Do not edit. -->\n\n\
         Each tool loads servers whose behaviour is known: a constant delay, a stall, exact counts, \
         and faults. The tables show what the tool reports beside what is true.\n\n\
         - The truth is the server's: the fixture of this repository counts every request and every \
         fault, and measures for every response the time from reading the request to sending the \
         response. Each run of a tool has a fresh server.\n\
         - The server has one CPU, the tool another. A closed loop has {CONNECTIONS} connections; a request has \
         a timeout of {TIMEOUT_S} s. The tools take turns in rounds of random, then mirrored order.\n\
         - Reported figures are those that the tool printed. Of times, the median round is shown; \
         counts that differ between rounds are listed, one line per round.\n\
         - **Bold**: a time more than {:.0}% from the truth, or a count that is not exactly the truth.\n\
         - Each tool has the options that its documentation recommends for the purpose (see [command lines](#command-lines)). \
         k6 checks status and body in its script; tachograph compares every response with the first ones. \
         wrk can check a body in a Lua script, which is not used here.\n",
        TOLERANCE * 100.0
    )
}

const DELAY: &str = "\
Closed loop for 3 s. Each cell has the reported time, and after “of” the server's own, which excludes \
the way over loopback. httpress measures no request: it prints connections × duration ÷ successes.
";

const STALL: &str = "\
Requests arrive at a constant rate of 200/s for 10 s, whether or not the server responds. The first \
row is computed: the time from the moment at which a request is due to its response, for each of the \
2,000 requests. Tools that measure from the moment of sending, or send nothing while all connections \
wait, do not see most of the requests that the stall delays (coordinated omission).

- wrk, ab, httpress and weighttp have no rate; their closed loop is shown for comparison. wrk adds computed latencies for \
the requests that its average rate would have sent during a long response (`stats_correct` in wrk.c).
- h2load and fortio measure from sending, and send the delayed requests at once after the stall. hey \
also measures from sending, and leaves them out.
- vegeta and k6 send every request when it is due, on further connections, and httperf each on a new one; \
oha and tachograph measure from the moment at which it is due. httperf's median is that of intervals of 1 ms.
";

const COUNTED: &str = "\
A request is *not accounted for* if the server received it and the tool neither counts it nor \
reports it as warm-up or unfinished; a negative number was reported, but never received. wrk knows \
no number of requests and runs for 1 s; vegeta sends at 1,000/s for the time that the number takes. \
httperf, httpress and weighttp know no durations; they get 1,500 requests for each second.

- ab does not report the requests that are outstanding when its time is over.
- tachograph sends three requests before the load to learn the response; its ledger does not contain them.
";

const CLOSED: &str = "\
The server responds correctly to every request that it receives. 2,000 requests; wrk runs for 1 s. A \
request that is sent while the server closes the connection never reaches it: some tools send it \
again on a new connection, others report it as failed.

- httperf opens no connection for requests that are left when one closes, so these are never sent, and \
does not heed `Connection: close`.
- Once all requests have begun, httpress ends connections on which nothing happened for four mean times, \
and reports their requests as failed (`shutdown_thread` in httpress.c).
";

const FORTIO: &str = "\
\nfortio: later versions need the module grol.io/grol, which cannot be downloaded from every module \
proxy (`go install fortio.org/fortio@v1.75.3` ended with “403 Forbidden” here).\n";

const FAULTY: &str = "\
2,000 requests, of which one in 100 fails; wrk runs for 1 s, and for 8 s where responses are late. \
Failures that the tool reports, of those that happened:
";

const FAULT_NOTES: &str = "\
- hey, vegeta, k6 and fortio send a request again on a new connection if a kept connection ends \
without a response, which HTTP allows for a GET (RFC 9112, section 9.3.1): the server received more \
requests than they report.
- h2load does not replace a connection that has ended; the requests that were left for it are \
reported as failed, but were never sent.
- hey does not report errors while it reads a body.
- httpress reads no status, so a response with any status is a success (`parse_headers` in httpress.c); \
[instruments.md](instruments.md) shows what that hid.
- httpress and weighttp have no timeout.
- wrk's time can end between a fault and its report.
";

fn faults(results: &Results) -> String {
    let columns = columns(results, &FAULTS);
    if columns.is_empty() {
        return String::new();
    }
    format!(
        "\n## Faults\n\n{}\n{FAULTY}\n{}\n{FAULT_NOTES}\nExit status:\n\n{}\n\
         <details><summary>The tools' own words for these failures (first round)</summary>\n\n{}\n</details>\n\n\
         <details><summary>Requests received by the server (first round)</summary>\n\n{}\n</details>\n",
        servers(&FAULTS),
        tables::faults(&columns),
        tables::endings(&columns),
        tables::words(&columns),
        tables::server(&columns),
    )
}

type Table = fn(&ScenarioResults) -> String;

/// The servers of a protocol.
struct ProtocolSection {
    title: &'static str,
    text: &'static str,
    /// Scenarios whose latencies are shown, and how.
    latencies: &'static [(&'static str, Table)],
    /// Scenarios whose counts are shown, and those whose faults are.
    counts: &'static [&'static str],
    faults: &'static [&'static str],
    notes: &'static str,
}

const PROTOCOLS: [ProtocolSection; 3] = [
    ProtocolSection {
        title: "HTTPS",
        text: HTTPS,
        latencies: &[("https-delay", tables::delay), ("https-stall", tables::stall)],
        counts: &[
            "https-counts",
            "https-close-announced",
            "https-close-silent",
            "https-close-unnoticed",
        ],
        faults: &[
            "https-status-500",
            "https-wrong-body",
            "https-truncated",
            "https-cut-off",
            "https-reset",
            "https-no-response",
        ],
        notes: HTTPS_NOTES,
    },
    ProtocolSection {
        title: "HTTP/2 without TLS",
        text: H2C,
        latencies: &[("h2c-delay", tables::delay)],
        counts: &["h2c-counts", "h2c-goaway", "h2c-close-silent"],
        faults: &["h2c-status-500", "h2c-wrong-body", "h2c-length", "h2c-reset", "h2c-trailers"],
        notes: H2C_NOTES,
    },
    ProtocolSection {
        title: "HTTP/2 with TLS",
        text: H2,
        latencies: &[("h2-delay", tables::delay), ("h2-stall", tables::stall)],
        counts: &["h2-counts", "h2-goaway", "h2-close-silent"],
        faults: &["h2-status-500", "h2-wrong-body", "h2-length", "h2-reset", "h2-trailers"],
        notes: H2_NOTES,
    },
];

impl ProtocolSection {
    fn page(&self, results: &Results) -> String {
        let counts = columns(results, self.counts);
        let faults = columns(results, self.faults);
        if counts.is_empty() && faults.is_empty() {
            return String::new();
        }
        let latencies: Vec<&str> = self.latencies.iter().map(|(id, _)| *id).collect();
        let servers = servers(&[latencies.as_slice(), self.counts, self.faults].concat());
        let mut out = format!("\n## {}\n\n{}\n{servers}", self.title, self.text);
        for (id, table) in self.latencies {
            for (title, measured) in columns(results, &[id]) {
                let _ = write!(out, "\n**{title}**\n\n{}", table(measured));
            }
        }
        for (title, measured) in &counts {
            let _ = write!(out, "\n**{title}**\n\n{}", tables::counts(measured));
        }
        if !faults.is_empty() {
            let _ = write!(
                out,
                "\nFailures that the tool reports, of those that happened; one response in 100 is at \
                 fault:\n\n{}\n<details><summary>The tools' own words for these failures (first \
                 round)</summary>\n\n{}\n</details>\n\n<details><summary>Requests received by the \
                 server (first round)</summary>\n\n{}\n</details>\n",
                tables::faults(&faults),
                tables::words(&faults),
                tables::server(&[counts, faults].concat()),
            );
        }
        if !self.notes.is_empty() {
            let _ = write!(out, "\n{}", self.notes);
        }
        out
    }
}

const HTTPS: &str = "\
The same servers with TLS 1.3, and the same loads and columns as above. No tool verifies the certificate, \
which the server signs itself. 2,000 requests where no table says otherwise; wrk runs for 1 s. httperf, \
httpress and weighttp are measured without TLS only.
";

const HTTPS_NOTES: &str = "\
- ab prints no report if the server resets a connection, and in most rounds none if it closes one \
without `Connection: close`; it waits for the response until its timeout.
- A truncated body is found by its length, with `close_notify` and without it. hey and fortio do not \
report it.
- hey, vegeta, k6 and fortio send a request again, and h2load does not replace a connection, as without \
TLS.
- hey has `-host` because it otherwise names the address and its port to the server (SNI), which rustls \
refuses.
- Of tachograph, the table has the failures of the load and of the requests before it, which it reports \
apart.
";

const H2C: &str = "\
Two connections of five streams (`-c2 -m5` of h2load) for h2load, oha and tachograph; the others decide \
themselves how many connections they open. wrk and ab do not speak HTTP/2, hey and k6 only with TLS. \
2,000 requests where no table says otherwise.
";

const H2C_NOTES: &str = "\
- After a GOAWAY, tachograph reports the requests that were on their way as `not processed before GOAWAY`, \
and oha as failed: the server did not process them. vegeta sends them again, which HTTP/2 allows \
(RFC 9113, section 8.7). fortio has one request at a time on each connection, so none is on its way. \
h2load opens no new connection, and reports the requests that were left as failed, though it never sent \
them.
- A malformed response is one failure for h2load and tachograph. vegeta ends the connection, and fails \
the requests beside it too. oha accepts the response; fortio reports neither it nor bodies that are too \
short or end in a reset.
";

const H2: &str = "\
The same servers with TLS, where the protocol is chosen by ALPN.
";

const H2_NOTES: &str = "\
- At the stall, h2load has 100/s on each of two connections.
- hey and vegeta send again what a GOAWAY leaves undone. k6 and fortio have one request at a time on \
each connection.
- hey does not report errors while it reads a body, as with HTTP/1.1; a malformed response fails its \
requests on the same connection, as vegeta's.
";

fn columns<'r>(results: &'r Results, ids: &[&str]) -> Vec<(&'static str, &'r ScenarioResults)> {
    let scenarios = ids.iter().filter_map(|id| Scenario::named(id));
    scenarios
        .filter_map(|scenario| Some((scenario.title, results.scenarios.get(scenario.id)?)))
        .collect()
}

/// What the servers do, as a list, or as a sentence if they do the same.
fn servers(ids: &[&str]) -> String {
    let scenarios: Vec<&Scenario> = ids.iter().filter_map(|id| Scenario::named(id)).collect();
    let different: BTreeSet<&str> = scenarios.iter().map(|scenario| scenario.server).collect();
    if different.len() == 1 {
        return scenarios
            .first()
            .map_or(String::new(), |one| format!("The server {}.\n", one.server));
    }
    let line =
        |scenario: &&Scenario| format!("- {}: the server {}.\n", scenario.title, scenario.server);
    scenarios.iter().map(line).collect()
}

/// Machine, dates and how to repeat it.
fn circumstances(results: &Results) -> String {
    let mut out = String::from("\n## Measured\n\n");
    let machines: BTreeSet<&str> =
        results.scenarios.values().map(|measured| measured.machine.as_str()).collect();
    for machine in machines {
        let _ = writeln!(out, "- {machine}");
    }
    let dates = results.scenarios.values().map(|measured| measured.date.as_str());
    if let (Some(first), Some(last)) = (dates.clone().min(), dates.max()) {
        let _ = writeln!(out, "- from {first} to {last}, `make truth`");
    }
    let rounds: BTreeSet<u32> =
        results.scenarios.values().map(|measured| measured.rounds).collect();
    let rounds: Vec<String> = rounds.iter().map(u32::to_string).collect();
    let _ = writeln!(out, "- rounds: {}", rounds.join(", "));
    for (note, ids) in notes(results) {
        let _ = writeln!(out, "- {}: {note}", ids.join(", "));
    }
    out.push_str(
        "\nThe numbers of every round are in [`results/truth.json`](results/truth.json). \
         `cargo run --profile dist -p xtask -- truth --only stall` measures one scenario again and keeps the others. \
         Delay and stall need an otherwise idle machine; counts and faults do not.\n",
    );
    out
}

/// Remarks on the circumstances, each with its scenarios.
fn notes(results: &Results) -> BTreeMap<String, Vec<&str>> {
    let mut notes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for scenario in &SCENARIOS {
        let Some(measured) = results.scenarios.get(scenario.id) else { continue };
        let mut later: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tool, when) in &measured.later {
            later.entry(when).or_default().push(tool);
        }
        let later =
            later.into_iter().map(|(when, tools)| format!("{} on {when}", tools.join(", ")));
        for note in measured.note.iter().cloned().chain(later) {
            notes.entry(note).or_default().push(scenario.id);
        }
    }
    notes
}

/// The command lines of the first round, by scenario.
fn commands(results: &Results) -> String {
    let mut out = String::from("\n## Command lines\n");
    for scenario in &SCENARIOS {
        let Some(measured) = results.scenarios.get(scenario.id) else { continue };
        let _ = write!(
            out,
            "\n<details><summary>{} ({})</summary>\n\n```\n",
            scenario.title, scenario.id
        );
        let first: Vec<_> = measured.runs.iter().filter(|run| run.round == 1).collect();
        for run in &first {
            let _ = writeln!(out, "{}", run.command);
        }
        out.push_str("```\n");
        for run in first.iter().filter(|run| run.script.is_some()) {
            let script = run.script.as_deref().unwrap_or_default().trim_end();
            let _ = write!(out, "\n`script` of {}:\n\n```\n{script}\n```\n", run.tool);
        }
        out.push_str("\n</details>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::installed::MissingTool;
    use crate::tools::load::Protocol;
    use crate::truth::results::{Run, Truth};

    #[test]
    fn the_page_has_every_scenario_and_says_what_is_missing() {
        let run = Run {
            round: 1,
            tool: "vegeta".to_owned(),
            command: "vegeta attack".to_owned(),
            script: Some("GET http://127.0.0.1/\n".to_owned()),
            end: "exit 0".to_owned(),
            report: None,
            said: Some("nothing".to_owned()),
            truth: Truth::default(),
        };
        let measured = ScenarioResults {
            date: "2026-01-02T03:04:05Z".to_owned(),
            machine: "a machine".to_owned(),
            note: Some("beside a build".to_owned()),
            later: BTreeMap::from([("ab".to_owned(), "a year later".to_owned())]),
            rounds: 3,
            seed: 1,
            runs: vec![run],
        };
        let mut results = Results {
            missing: vec![MissingTool {
                tool: "hey".to_owned(),
                command: "go install hey".to_owned(),
                reason: "no Go".to_owned(),
            }],
            ..Results::default()
        };
        assert!(!page(&results).contains("## Faults"));
        for scenario in &SCENARIOS {
            results.scenarios.insert(scenario.id.to_owned(), measured.clone());
        }
        let page = page(&results);
        for scenario in &SCENARIOS {
            assert!(page.contains(&format!("({})</summary>", scenario.id)), "{}", scenario.id);
        }
        // Every scenario of a protocol has its section.
        let shown =
            PROTOCOLS.iter().map(|one| one.latencies.len() + one.counts.len() + one.faults.len());
        let of_protocols = SCENARIOS.iter().filter(|one| one.protocol != Protocol::Http);
        assert_eq!(shown.sum::<usize>(), of_protocols.count());
        assert!(page.contains("- delay, stall, counts-time, counts-number, status-500,"));
        assert!(page.contains(", unix, https-delay, ") && page.contains(": beside a build\n"));
        assert!(page.contains("h2-trailers: ab on a year later\n"), "{page}");
        for heading in [
            "A constant delay",
            "A stall",
            "Counts",
            "Faults",
            "Closed connections",
            "HTTPS",
            "HTTP/2 without TLS",
            "HTTP/2 with TLS",
        ] {
            assert!(page.contains(&format!("\n## {heading}\n")), "{heading}");
        }
        assert!(
            page.contains("hey could not be installed here: `go install hey` ended with “no Go”.")
        );
        assert!(page.contains("- from 2026-01-02T03:04:05Z to 2026-01-02T03:04:05Z, `make truth`"));
        assert!(page.contains("`script` of vegeta:\n\n```\nGET http://127.0.0.1/\n```"));
    }

    #[test]
    fn servers_that_do_the_same_are_described_once() {
        assert_eq!(servers(&COUNTS), "The server responds at once.\n");
        assert_eq!(servers(&CLOSES).lines().count(), 2);
    }
}
