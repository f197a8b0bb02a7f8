//! Command lines of the clients, and parsing of their output.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::clients::Client;
use super::lines::{Line, Transport, Work};
use crate::tools::report::ToolOutput;
use crate::tools::{Tool, on_path, version};

/// The server's addresses.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) port: u16,
    /// For a client with its own server.
    pub(super) other_port: u16,
    pub(super) socket: PathBuf,
}

/// Results reported by a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Requests (or bytes) completed.
    pub(super) completed: u64,
    /// Those per second.
    pub(super) rate_per_s: f64,
    /// Failed requests.
    pub(super) failed: u64,
    /// The 99th percentile of sent − scheduled.
    pub(super) lateness_p99_ns: Option<u64>,
    /// The I/O backend that ours used.
    pub(super) engine: Option<String>,
}

/// An installed client.
#[derive(Clone, Debug)]
pub(super) struct InstalledClient {
    pub(super) client: Client,
    pub(super) path: PathBuf,
    pub(super) version: String,
}

impl Client {
    /// Looks for the client: ours at `ours`, this program itself at `own`, the others on PATH.
    pub(super) fn find(self, ours: &Path, own: &Path) -> Option<InstalledClient> {
        let (path, version) = match (self, self.tool()) {
            _ if self.engine().is_some() => (ours.to_owned(), version(ours, &["--version"])),
            (_, Some(tool)) => {
                let path = on_path(tool.name)?;
                let known = tool.version.map(|argument| version(&path, &[argument]));
                (path, known.unwrap_or_else(|| "version unknown".to_owned()))
            }
            (Client::Iperf3, _) => {
                let path = on_path("iperf3")?;
                let version = version(&path, &["--version"]);
                (path, version)
            }
            _ => (own.to_owned(), "of this project".to_owned()),
        };
        Some(InstalledClient { client: self, path, version })
    }

    /// The arguments for the line's load; `None` if the client does not support it.
    pub(super) fn arguments(
        self,
        line: &Line,
        place: &Place,
        seconds: f64,
        rate_per_s: Option<f64>,
    ) -> Vec<String> {
        let Place { port, other_port, socket } = place;
        let unix = line.transport == Transport::Unix;
        let scheme = if line.tls { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{port}/");
        let connections = line.connections;
        let new = line.work == Work::NewConnection;
        let text = match self {
            Client::Epoll | Client::Uring | Client::Resumed => {
                let mut text = match (line.work == Work::Bulk, unix) {
                    (true, true) => "load unix:SOCKET --exchange bulk --size 64KiB".to_owned(),
                    (true, false) => {
                        format!("load tcp://127.0.0.1:{port} --exchange bulk --size 64KiB")
                    }
                    (false, true) => "load http://unix:SOCKET:/".to_owned(),
                    (false, false) => format!("load {url}"),
                };
                text += &format!(
                    " --connections {connections} --duration {}ms --json --seed 1",
                    (seconds * 1e3).round()
                );
                text += &format!(" --engine {}", self.engine().unwrap_or("auto"));
                text += if new { " --new-connection" } else { "" };
                text += if line.tls { " --insecure" } else { "" };
                text += if self == Client::Resumed { " --tls-resumption" } else { "" };
                if line.threads > 1 {
                    text += &format!(" --threads {}", line.threads);
                }
                if line.streams > 0 {
                    text += &format!(" --http2 --streams {}", line.streams);
                }
                text += if line.work == Work::Spinning { " --busy-poll" } else { "" };
                // A server that has just started makes every client late.
                text += if rate_per_s.is_some() { " --warmup 300ms" } else { "" };
                text += &rate_per_s.map(|rate| format!(" --rate {rate:.0}")).unwrap_or_default();
                text
            }
            Client::Wrk => {
                // wrk accepts whole seconds only.
                let close = if new { "-H CLOSE " } else { "" };
                format!("-t{} -c{connections} -d{}s {close}{url}", line.threads, seconds.ceil())
            }
            Client::Ab => {
                // -t sets a limit of 50,000 requests, which a later -n overrides.
                let kept = if new { "" } else { "-k " };
                let most = (seconds.ceil() * 500_000.0) as u64;
                format!("-q {kept}-c {connections} -t {} -n {most} {url}", seconds.ceil())
            }
            Client::H2load => {
                let base = if unix { "-B unix:SOCKET ".to_owned() } else { String::new() };
                let version = match line.streams {
                    0 => "--h1".to_owned(),
                    streams => format!("-m {streams}"),
                };
                let (threads, seconds) = (line.threads, seconds.ceil());
                format!("{version} -t {threads} -c {connections} -D {seconds} {base}{url}")
            }
            Client::Oha => {
                let through = if unix { "--unix-socket SOCKET ".to_owned() } else { String::new() };
                let mut closes = if new { "--disable-keepalive " } else { "" }.to_owned();
                closes += if line.tls { "--insecure " } else { "" };
                format!(
                    "--no-tui --output-format json -c {connections} -z {}ms {through}{closes}{url}",
                    (seconds * 1e3).round()
                )
            }
            Client::Hey => {
                let closes = if new { "-disable-keepalive " } else { "" };
                format!("-cpus 1 -c {connections} -z {}ms {closes}{url}", (seconds * 1e3).round())
            }
            // The server sends, as ours does.
            Client::Iperf3 => {
                format!("-c 127.0.0.1 -p {other_port} -R -t {} --json", seconds.ceil())
            }
            Client::Blocking | Client::ReadLoop | Client::Bare | Client::Floor => {
                let kind = match self {
                    Client::Blocking => "blocking",
                    Client::Floor => "floor",
                    Client::ReadLoop => "read-loop",
                    _ => "bare",
                };
                let at =
                    if unix { "unix:SOCKET".to_owned() } else { format!("tcp://127.0.0.1:{port}") };
                format!("bench-client {kind} {at} {connections} {seconds}")
            }
        };
        // Inserted after splitting, because it contains spaces. wrk ignores a header without one.
        let socket = socket.display().to_string();
        text.split(' ')
            .map(|word| word.replace("SOCKET", &socket).replace("CLOSE", "Connection: close"))
            .collect()
    }

    /// Parses a client's output for this kind of load.
    pub(super) fn read(self, work: Work, text: &str) -> Result<Outcome, String> {
        let printed = ToolOutput::new(text.to_owned(), None);
        let json = printed.json.as_ref();
        let outcome = match (self, self.tool()) {
            (_, Some(tool)) => read_foreign(tool, &printed),
            (Client::Iperf3, _) => json.and_then(read_iperf3),
            _ if self.engine().is_some() && work == Work::Bulk => json.and_then(read_ours_in_bytes),
            _ if self.engine().is_some() => json.and_then(read_ours),
            _ => json.and_then(read_own),
        };
        outcome.ok_or_else(|| {
            let shown: String = text.trim().chars().take(300).collect();
            format!("{} printed no result: {shown}", self.name())
        })
    }
}

fn read_foreign(tool: &Tool, printed: &ToolOutput) -> Option<Outcome> {
    let report = (tool.read)(printed)?;
    Some(Outcome {
        completed: report.total - report.failed,
        rate_per_s: report.per_s?,
        failed: report.failed,
        ..Outcome::default()
    })
}

fn read_ours(json: &Value) -> Option<Outcome> {
    let ledger = &json["ledger"];
    Some(Outcome {
        completed: ledger["completed"].as_u64()?,
        rate_per_s: json["throughput_per_s"].as_f64()?,
        failed: ledger["failed"].as_u64()?,
        lateness_p99_ns: json["lateness_ns"]["p99"].as_u64(),
        engine: json["client"]["engine"].as_str().map(str::to_owned),
    })
}

fn read_ours_in_bytes(json: &Value) -> Option<Outcome> {
    let rate_per_s = json["bytes_per_s"].as_f64()?;
    let seconds = json["duration_ns"].as_u64()? as f64 / 1e9;
    let completed = (rate_per_s * seconds).round() as u64;
    Some(Outcome { completed, rate_per_s, ..read_ours(json)? })
}

fn read_own(json: &Value) -> Option<Outcome> {
    let completed = json["completed"].as_u64()?;
    let rate_per_s = completed as f64 / json["seconds"].as_f64().filter(|s| *s > 0.0)?;
    Some(Outcome { completed, rate_per_s, ..Outcome::default() })
}

fn read_iperf3(json: &Value) -> Option<Outcome> {
    let sum = &json["end"]["sum_received"];
    Some(Outcome {
        completed: sum["bytes"].as_u64()?,
        rate_per_s: sum["bits_per_second"].as_f64()? / 8.0,
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::lines::LINES;

    fn outcome(completed: u64, rate_per_s: f64, failed: u64) -> Result<Outcome, String> {
        Ok(Outcome { completed, rate_per_s, failed, ..Outcome::default() })
    }

    #[test]
    fn clients_are_called_with_the_lines_load() {
        let place = Place { port: 80, other_port: 81, socket: "/a b/s".into() };
        let call = |client: Client, id: &str| {
            let line = LINES.iter().find(|line| line.id == id).unwrap();
            client.arguments(line, &place, 1.0, None).join("|")
        };
        for (client, id, words) in [
            (Client::Wrk, "tcp-64", "-t1|-c64|-d1s|http://127.0.0.1:80/"),
            (Client::Wrk, "new-tcp", "-t1|-c16|-d1s|-H|Connection: close|http://127.0.0.1:80/"),
            (Client::Ab, "tcp-64", "-q|-k|-c|64|-t|1|-n|500000|http://127.0.0.1:80/"),
            (Client::H2load, "unix-64", "--h1|-t|1|-c|64|-D|1|-B|unix:/a b/s|http://127.0.0.1:80/"),
            (
                Client::Oha,
                "new-unix",
                "--no-tui|--output-format|json|-c|16|-z|1000ms|--unix-socket|/a b/s|--disable-keepalive|http://127.0.0.1:80/",
            ),
            (Client::Wrk, "https-new", "-t1|-c16|-d1s|-H|Connection: close|https://127.0.0.1:80/"),
            (Client::H2load, "h2-16", "-m|16|-t|1|-c|16|-D|1|https://127.0.0.1:80/"),
            (
                Client::Oha,
                "https-64",
                "--no-tui|--output-format|json|-c|64|-z|1000ms|--insecure|https://127.0.0.1:80/",
            ),
            (
                Client::Resumed,
                "https-new",
                "load|https://127.0.0.1:80/|--connections|16|--duration|1000ms|--json|--seed|1|--engine|epoll|--new-connection|--insecure|--tls-resumption",
            ),
            (
                Client::Epoll,
                "h2c-16",
                "load|http://127.0.0.1:80/|--connections|16|--duration|1000ms|--json|--seed|1|--engine|epoll|--http2|--streams|16",
            ),
            (Client::Wrk, "threads-4", "-t4|-c64|-d1s|http://127.0.0.1:80/"),
            (Client::H2load, "threads-4", "--h1|-t|4|-c|64|-D|1|http://127.0.0.1:80/"),
            (
                Client::Epoll,
                "threads-4",
                "load|http://127.0.0.1:80/|--connections|64|--duration|1000ms|--json|--seed|1|--engine|epoll|--threads|4",
            ),
            (Client::Floor, "floor-unix-64", "bench-client|floor|unix:/a b/s|64|1"),
            (Client::Hey, "two-cpus-tcp", "-cpus|1|-c|1|-z|1000ms|http://127.0.0.1:80/"),
            (Client::Iperf3, "bulk-tcp", "-c|127.0.0.1|-p|81|-R|-t|1|--json"),
            (Client::Blocking, "same-cpu-unix", "bench-client|blocking|unix:/a b/s|1|1"),
            (
                Client::Epoll,
                "unix-64",
                "load|http://unix:/a b/s:/|--connections|64|--duration|1000ms|--json|--seed|1|--engine|epoll",
            ),
            (
                Client::Uring,
                "two-cpus-tcp",
                "load|http://127.0.0.1:80/|--connections|1|--duration|1000ms|--json|--seed|1|--engine|io-uring|--busy-poll",
            ),
            (
                Client::Epoll,
                "bulk-tcp",
                "load|tcp://127.0.0.1:80|--exchange|bulk|--size|64KiB|--connections|1|--duration|1000ms|--json|--seed|1|--engine|epoll",
            ),
        ] {
            assert_eq!(call(client, id), words);
        }
    }

    #[test]
    fn another_tool_is_read_with_its_failures() {
        let text = "  191022 requests in 1.10s, 22.59MB read\n  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 7\nRequests/sec: 173656.25\n";
        assert_eq!(Client::Wrk.read(Work::Kept, text), outcome(191_011, 173_656.25, 17));
    }

    #[test]
    fn iperf3_is_read_in_bytes() {
        let text = r#"{"end":{"sum_received":{"bytes":4000000000,"bits_per_second":32e9}}}"#;
        assert_eq!(Client::Iperf3.read(Work::Kept, text), outcome(4_000_000_000, 4e9, 0));
    }

    #[test]
    fn ours_is_read_with_its_lateness_and_engine() {
        let text = r#"{"load":"64 connections, open loop at 1000/s","throughput_per_s":1000.5,"bytes_per_s":9.0,"duration_ns":2000000000,"ledger":{"completed":1001,"failed":0},"lateness_ns":{"p99":41000},"client":{"engine":"epoll"}}"#;
        let seen = Client::Epoll.read(Work::Kept, text).unwrap();
        assert_eq!((seen.completed, seen.rate_per_s), (1001, 1000.5));
        let bulk = Client::Epoll.read(Work::Bulk, text).unwrap();
        assert_eq!((bulk.completed, bulk.rate_per_s), (18, 9.0));
        assert_eq!((seen.lateness_p99_ns, seen.engine.as_deref()), (Some(41_000), Some("epoll")));
    }

    #[test]
    fn what_is_no_result_is_shown() {
        assert_eq!(
            Client::Wrk.read(Work::Kept, "unable to connect\n"),
            Err("wrk printed no result: unable to connect".to_owned())
        );
    }
}
