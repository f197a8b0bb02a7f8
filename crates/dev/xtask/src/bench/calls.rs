//! Command lines of the clients, and parsing of their output.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::clients::Client;
use super::lines::{Line, Transport, Work};

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
pub(super) struct Installed {
    pub(super) client: Client,
    pub(super) path: PathBuf,
    pub(super) version: String,
}

impl Client {
    fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Client::Wrk => &["-v"],
            Client::Ab => &["-V"],
            _ => &["--version"],
        }
    }

    /// Looks for the client: ours at `ours`, this program itself at `own`, the others on PATH.
    pub(super) fn find(self, ours: &Path, own: &Path) -> Option<Installed> {
        let path = match (self, self.program()) {
            (_, Some((name, _))) => on_path(name)?,
            (Client::Epoll | Client::Uring, _) => ours.to_owned(),
            _ => own.to_owned(),
        };
        let version = match self {
            Client::Blocking | Client::ReadLoop | Client::Bare => "of this project".to_owned(),
            Client::Hey => "version unknown".to_owned(),
            _ => version(&path, self.version_arguments()),
        };
        Some(Installed { client: self, path, version })
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
        let url = format!("http://127.0.0.1:{port}/");
        let connections = line.connections;
        let new = line.work == Work::NewConnection;
        let text = match self {
            Client::Epoll | Client::Uring => {
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
                text += if line.work == Work::Spinning { " --busy-poll" } else { "" };
                // A server that has just started makes every client late.
                text += if rate_per_s.is_some() { " --warmup 300ms" } else { "" };
                text += &rate_per_s.map(|rate| format!(" --rate {rate:.0}")).unwrap_or_default();
                text
            }
            Client::Wrk => {
                // wrk accepts whole seconds only.
                let close = if new { "-H CLOSE " } else { "" };
                format!("-t1 -c{connections} -d{}s {close}{url}", seconds.ceil())
            }
            Client::Ab => {
                // -t sets a limit of 50,000 requests, which a later -n overrides.
                let kept = if new { "" } else { "-k " };
                let most = (seconds.ceil() * 500_000.0) as u64;
                format!("-q {kept}-c {connections} -t {} -n {most} {url}", seconds.ceil())
            }
            Client::H2load => {
                let base = if unix { "-B unix:SOCKET ".to_owned() } else { String::new() };
                format!("--h1 -t 1 -c {connections} -D {} {base}{url}", seconds.ceil())
            }
            Client::Oha => {
                let through = if unix { "--unix-socket SOCKET ".to_owned() } else { String::new() };
                let closes = if new { "--disable-keepalive " } else { "" };
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
            Client::Blocking | Client::ReadLoop | Client::Bare => {
                let kind = match self {
                    Client::Blocking => "blocking",
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
        let outcome = match self {
            Client::Wrk => read_wrk(text),
            Client::Ab => read_ab(text),
            Client::H2load => read_h2load(text),
            Client::Hey => read_hey(text),
            Client::Epoll | Client::Uring if work == Work::Bulk => {
                json(text).as_ref().and_then(read_ours_in_bytes)
            }
            Client::Epoll | Client::Uring => json(text).as_ref().and_then(read_ours),
            Client::Oha => json(text).as_ref().and_then(read_oha),
            Client::Iperf3 => json(text).as_ref().and_then(read_iperf3),
            Client::Blocking | Client::ReadLoop | Client::Bare => {
                json(text).as_ref().and_then(read_own)
            }
        };
        outcome.ok_or_else(|| {
            let shown: String = text.trim().chars().take(300).collect();
            format!("{} printed no result: {shown}", self.name())
        })
    }
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The first line of a program's version output that contains a digit.
pub(crate) fn version(path: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(path).args(arguments).output() else {
        return "version unknown".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    let line = line.unwrap_or("version unknown");
    line.split(" Copyright").next().unwrap_or(line).trim().to_owned()
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
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

fn read_oha(json: &Value) -> Option<Outcome> {
    let count = |name: &str| -> Option<Vec<(String, u64)>> {
        json[name].as_object()?.iter().map(|(key, n)| Some((key.clone(), n.as_u64()?))).collect()
    };
    let statuses = count("statusCodeDistribution")?;
    let completed = statuses.iter().filter(|(status, _)| status == "200").map(|(_, n)| n).sum();
    let others: u64 = statuses.iter().filter(|(status, _)| status != "200").map(|(_, n)| n).sum();
    // oha counts outstanding requests at the end as errors.
    let errors = count("errorDistribution").unwrap_or_default();
    let errors = errors.iter().filter(|(what, _)| !what.contains("deadline")).map(|(_, n)| n);
    Some(Outcome {
        completed,
        rate_per_s: json["summary"]["requestsPerSec"].as_f64()?,
        failed: others + errors.sum::<u64>(),
        ..Outcome::default()
    })
}

fn read_iperf3(json: &Value) -> Option<Outcome> {
    let sum = &json["end"]["sum_received"];
    Some(Outcome {
        completed: sum["bytes"].as_u64()?,
        rate_per_s: sum["bits_per_second"].as_f64()? / 8.0,
        ..Outcome::default()
    })
}

fn read_wrk(text: &str) -> Option<Outcome> {
    let bad = number(text, "Non-2xx or 3xx responses:").unwrap_or(0.0);
    let line = text.lines().find(|line| line.trim_start().starts_with("Socket errors:"));
    let errors: f64 = line.into_iter().flat_map(numbers).sum();
    Some(Outcome {
        completed: numbers(text.lines().find(|line| line.contains(" requests in "))?).next()?
            as u64,
        rate_per_s: number(text, "Requests/sec:")?,
        failed: (bad + errors) as u64,
        ..Outcome::default()
    })
}

fn read_ab(text: &str) -> Option<Outcome> {
    Some(Outcome {
        completed: number(text, "Complete requests:")? as u64,
        rate_per_s: number(text, "Requests per second:")?,
        failed: number(text, "Failed requests:")? as u64
            + number(text, "Non-2xx responses:").unwrap_or(0.0) as u64,
        ..Outcome::default()
    })
}

fn read_h2load(text: &str) -> Option<Outcome> {
    let finished = text.lines().find(|line| line.starts_with("finished in"))?;
    let requests = text.lines().find(|line| line.starts_with("requests:"))?;
    // total, started, done, succeeded, failed, errored, timeout
    let counts: Vec<f64> = numbers(requests).collect();
    let succeeded = *counts.get(3)?;
    Some(Outcome {
        completed: succeeded as u64,
        rate_per_s: numbers(finished.split(", ").nth(1)?).next()?,
        failed: counts.get(4..7)?.iter().sum::<f64>() as u64,
        ..Outcome::default()
    })
}

fn read_hey(text: &str) -> Option<Outcome> {
    let statuses = text.lines().filter(|line| line.trim_end().ends_with(" responses"));
    let counts: Vec<(f64, f64)> = statuses
        .filter_map(|line| {
            let mut numbers = numbers(line);
            Some((numbers.next()?, numbers.next()?))
        })
        .collect();
    let of = |right: bool| {
        counts.iter().filter(|(s, _)| (*s == 200.0) == right).map(|(_, n)| *n as u64).sum()
    };
    Some(Outcome {
        completed: of(true),
        rate_per_s: number(text, "Requests/sec:")?,
        failed: of(false),
        ..Outcome::default()
    })
}

/// The number that follows `label` on its line.
fn number(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.trim_start().starts_with(label))?;
    numbers(line.trim_start().strip_prefix(label)?).next()
}

/// The numbers in a line, in order.
fn numbers(line: &str) -> impl Iterator<Item = f64> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| word.parse().ok())
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
    fn wrk_is_read() {
        let text = "Running 1s test @ http://127.0.0.1:8000/\n  1 threads and 64 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   330.25us   50.11us   1.62ms   86.12%\n  191022 requests in 1.10s, 22.59MB read\nRequests/sec: 173656.25\nTransfer/sec:     20.53MB\n";
        assert_eq!(Client::Wrk.read(Work::Kept, text), outcome(191_022, 173_656.25, 0));
        let failed = text.replace("Requests/sec", "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 7\nRequests/sec");
        assert_eq!(Client::Wrk.read(Work::Kept, &failed), outcome(191_022, 173_656.25, 17));
    }

    #[test]
    fn ab_is_read() {
        let text = "Concurrency Level:      64\nTime taken for tests:   2.000 seconds\nComplete requests:      420001\nFailed requests:        3\nKeep-Alive requests:    420001\nRequests per second:    210000.50 [#/sec] (mean)\n";
        assert_eq!(Client::Ab.read(Work::Kept, text), outcome(420_001, 210_000.5, 3));
    }

    #[test]
    fn h2load_is_read() {
        let text = "\nfinished in 1.00s, 172889.00 req/s, 20.44MB/s\nrequests: 172889 total, 172953 started, 172889 done, 172887 succeeded, 2 failed, 1 errored, 0 timeout\nstatus codes: 172889 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(Client::H2load.read(Work::Kept, text), outcome(172_887, 172_889.0, 3));
    }

    #[test]
    fn oha_is_read_and_its_deadline_is_no_error() {
        let text = r#"{"summary":{"requestsPerSec":121000.5},"statusCodeDistribution":{"200":120990,"503":4},"errorDistribution":{"aborted due to deadline":64,"connection closed":2}}"#;
        assert_eq!(Client::Oha.read(Work::Kept, text), outcome(120_990, 121_000.5, 6));
    }

    #[test]
    fn hey_is_read() {
        let text = "Summary:\n  Total:\t1.0006 secs\n  Requests/sec:\t40123.5\n\nStatus code distribution:\n  [200]\t40100 responses\n  [500]\t3 responses\n";
        assert_eq!(Client::Hey.read(Work::Kept, text), outcome(40_100, 40_123.5, 3));
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
