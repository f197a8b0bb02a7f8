//! `bench-transports`: the same Graphite lines to `tachograph serve` over TCP, UDP and Unix sockets:
//! points per second, CPU time per point, and what was lost, counted at every stage.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::format_count;
use proofs::daemon::{Daemon, over_tcp, over_unix, points};
use rand::Rng as _;
use spec::Target;

use crate::options::Options;
use crate::process::children_cost;
use crate::{binary, say};

/// Points per trial, of so many series: so many slots of each.
const POINTS: u64 = 1_000_000;
const SERIES: u64 = 1_000;
const STEP_S: u64 = 10;

/// Lines per datagram: about 900 bytes, less than an Ethernet frame carries.
const LINES_PER_DATAGRAM: usize = 20;

/// Points per second of the paced sender.
const PACED_PER_S: f64 = 100_000.0;

/// Limit on the time until everything sent has been received or dropped.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the page is written.
const PAGE: &str = "target/bench-transports.md";

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    UnixStream,
    UnixDatagram,
    Udp,
    UdpPaced,
}

impl Way {
    const ALL: [Way; 5] = [Way::Tcp, Way::UnixStream, Way::UnixDatagram, Way::Udp, Way::UdpPaced];

    fn name(self) -> &'static str {
        match self {
            Way::Tcp => "TCP",
            Way::UnixStream => "Unix stream",
            Way::UnixDatagram => "Unix datagram",
            Way::Udp => "UDP",
            Way::UdpPaced => "UDP, 100,000 points/s",
        }
    }

    /// What the daemon is told to listen on.
    fn address(self, folder: &Path) -> String {
        let socket = folder.join("graphite.sock");
        match self {
            Way::Tcp => "tcp://127.0.0.1:0".to_owned(),
            Way::UnixStream => format!("unix:{}", socket.display()),
            Way::UnixDatagram => format!("unix-dgram:{}", socket.display()),
            Way::Udp | Way::UdpPaced => "udp://127.0.0.1:0".to_owned(),
        }
    }
}

/// One trial, in points.
#[derive(Clone, Copy, Debug)]
struct Trial {
    received: u64,
    dropped: u64,
    stored: u64,
    /// From the first line until all were received or dropped.
    receiving: Duration,
    /// The same until the daemon had written everything and ended.
    storing: Duration,
    /// CPU seconds of the daemon, from its start to its end.
    cpu_s: f64,
}

/// Sends the same points over every way in each round; `--runs` is the number of rounds.
pub(crate) fn run(options: Options) -> Result<bool, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    let slots = POINTS / SERIES;
    let from = (now.as_secs() - slots * STEP_S) / STEP_S * STEP_S;
    // Written before the clock starts, so that the sender costs little.
    let text = lines(slots, from);
    let mut trials: Vec<(Way, Vec<Trial>)> = Way::ALL.map(|way| (way, Vec::new())).into();
    let mut rng = options.seed.rng("order");
    let mut exact = true;
    for round in 1..=options.runs {
        let mut order = Way::ALL;
        for i in (1..order.len()).rev() {
            order.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
        }
        for way in order {
            let trial = one(way, &text)?;
            let adds_up =
                trial.received + trial.dropped == POINTS && trial.stored == trial.received;
            let lossless = way == Way::Udp || way == Way::UdpPaced || trial.dropped == 0;
            exact &= adds_up && lossless;
            say(&format!(
                "round {round}, {}: {} received, {} dropped, {} in SQLite, {:.2} s, {:.2} s, CPU {:.2} s{}",
                way.name(),
                format_count(trial.received),
                format_count(trial.dropped),
                format_count(trial.stored),
                trial.receiving.as_secs_f64(),
                trial.storing.as_secs_f64(),
                trial.cpu_s,
                if adds_up { "" } else { ": DOES NOT ADD UP" },
            ));
            let of_way = trials.iter_mut().find(|(known, _)| *known == way);
            of_way.into_iter().for_each(|(_, trials)| trials.push(trial));
        }
    }
    let page = page(&trials, options, exact)?;
    std::fs::write(PAGE, page).map_err(|error| format!("{PAGE}: {error}"))?;
    say(&format!("written to {PAGE}"));
    Ok(exact)
}

/// A fresh daemon with a fresh record, and all the lines.
fn one(way: Way, text: &str) -> Result<Trial, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let record = folder.path().join("record.sqlite").display().to_string();
    let mut command = Command::new(binary::path()?);
    command.args([
        "serve",
        "--http",
        "127.0.0.1:0",
        "--no-statsd",
        "--graphite",
        &way.address(folder.path()),
    ]);
    command.env("TACHOGRAPH_RECORD", &record);
    let cpu_before_s = children_cost()?.total_s();
    let daemon = Daemon::start(command, 2)?;
    // The address of HTTP comes first.
    let http = daemon.at("tcp://", 0);
    let at = match way {
        Way::Tcp => daemon.at("tcp://", 1),
        Way::UnixStream => daemon.at("unix:", 0),
        Way::UnixDatagram => daemon.at("unix-dgram:", 0),
        Way::Udp | Way::UdpPaced => daemon.at("udp://", 0),
    };
    let start = Instant::now();
    let send = |error: std::io::Error| format!("sending over {}: {error}", way.name());
    let datagrams = match way {
        Way::Tcp => over_tcp(&at, text.as_bytes()).map(|_| None).map_err(send)?,
        Way::UnixStream => {
            over_unix(Path::new(&at), text.as_bytes()).map(|_| None).map_err(send)?
        }
        Way::UnixDatagram => {
            let socket = UnixDatagram::unbound().map_err(send)?;
            socket.connect(&at).map_err(send)?;
            datagrams(text, None, |bytes| socket.send(bytes)).map_err(send)?
        }
        Way::Udp | Way::UdpPaced => {
            let socket = UdpSocket::bind("127.0.0.1:0").map_err(send)?;
            socket.connect(&at).map_err(send)?;
            let pace = (way == Way::UdpPaced).then_some(PACED_PER_S);
            datagrams(text, pace, |bytes| socket.send(bytes)).map_err(send)?
        }
    };
    let (received, dropped) = settle(&http, datagrams)?;
    let receiving = start.elapsed();
    daemon.stop()?;
    let storing = start.elapsed();
    let names: Vec<String> = (0..SERIES).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let stored: i64 = points(&record, &names).map_err(|e| e.to_string())?.iter().sum();
    Ok(Trial {
        received,
        dropped,
        stored: stored as u64,
        receiving,
        storing,
        cpu_s: children_cost()?.total_s() - cpu_before_s,
    })
}

/// Sends all lines in datagrams; returns their number.
fn datagrams(
    text: &str,
    points_per_s: Option<f64>,
    send: impl Fn(&[u8]) -> std::io::Result<usize>,
) -> std::io::Result<Option<u64>> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let start = Instant::now();
    let mut count = 0;
    for chunk in lines.chunks(LINES_PER_DATAGRAM) {
        if let Some(rate) = points_per_s {
            let due = Duration::from_secs_f64((count * LINES_PER_DATAGRAM as u64) as f64 / rate);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        send(chunk.concat().as_bytes())?;
        count += 1;
    }
    Ok(Some(count))
}

/// Waits until the daemon has counted every datagram as received or dropped, and every line;
/// returns the points received and dropped.
fn settle(http: &str, datagrams: Option<u64>) -> Result<(u64, u64), String> {
    let target =
        Target::parse(&format!("http://{http}/metrics")).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = stage::http::get(&target, PATIENCE).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let received = sum(&text, "tachograph_datagrams_total");
        let dropped = sum(&text, "tachograph_datagrams_dropped_total");
        let lines = sum(&text, "tachograph_lines_total");
        let per_datagram = LINES_PER_DATAGRAM as u64;
        let complete = match datagrams {
            Some(sent) => received + dropped == sent && lines == received * per_datagram,
            None => lines == POINTS,
        };
        if complete {
            return Ok((lines, dropped * per_datagram));
        }
        if Instant::now() > deadline {
            return Err(format!(
                "{datagrams:?} datagrams sent, {received} received, {dropped} dropped, {lines} lines"
            ));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The sum of a metric over its labels.
fn sum(text: &str, metric: &str) -> u64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        if !rest.starts_with([' ', '{']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.sum::<f64>() as u64
}

fn name(series: u64) -> String {
    format!("servers.web{}.cpu{}.used", series / 100, series % 100)
}

/// All series in the first slot, then in the next.
fn lines(slots: u64, from: u64) -> String {
    let mut text = String::new();
    for slot in 0..slots {
        for series in 0..SERIES {
            let value = (series * 7 + slot * 13) % 1_000;
            let at = from + slot * STEP_S;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}.{} {at}", name(series), value / 10, value % 10);
        }
    }
    text
}

/// A level with its interval, in thousands.
fn estimate(values: &[f64], digits: usize) -> String {
    match stats::level(values, 0.95) {
        Ok(e) if e.is_bounded() => {
            format!("{:.digits$} ({:.digits$}–{:.digits$})", e.value, e.low, e.high)
        }
        Ok(e) => format!("{:.digits$}", e.value),
        Err(_) => "–".to_owned(),
    }
}

fn page(trials: &[(Way, Vec<Trial>)], options: Options, exact: bool) -> Result<String, String> {
    let total = |trials: &[Trial], of: fn(&Trial) -> u64| trials.iter().map(of).sum::<u64>();
    let mut out = String::from(
        "# The recorder over TCP, UDP and Unix sockets\n\n\
         How many points per second does `tachograph serve` take over each transport, what does a \
         point cost, and what is lost?\n\n",
    );
    let n = options.runs;
    let _ = write!(
        out,
        "{} Graphite lines of {} series, slot after slot, from one sender to a fresh daemon with a \
         fresh SQLite record, {n} rounds in random order. Streams are written as fast as the daemon \
         reads; datagrams hold {LINES_PER_DATAGRAM} lines. A Unix datagram socket makes its sender \
         wait, UDP does not: what finds the receive buffer full is dropped by the kernel, and counted \
         there.\n\n",
        format_count(POINTS),
        format_count(SERIES),
    );
    out += "| transport | received, 1,000 points/s | in SQLite, 1,000 points/s | CPU per point, µs | sent | received | dropped by the kernel | in SQLite |\n";
    out += "| :-- | --: | --: | --: | --: | --: | --: | --: |\n";
    for (way, of_way) in trials {
        let rate = |of: &dyn Fn(&Trial) -> Duration, points: fn(&Trial) -> u64| -> Vec<f64> {
            of_way.iter().map(|t| points(t) as f64 / of(t).as_secs_f64() / 1e3).collect()
        };
        let cpu: Vec<f64> = of_way.iter().map(|t| t.cpu_s * 1e6 / t.stored.max(1) as f64).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            way.name(),
            estimate(&rate(&|t| t.receiving, |t| t.received), 0),
            estimate(&rate(&|t| t.storing, |t| t.stored), 0),
            estimate(&cpu, 2),
            format_count(POINTS * of_way.len() as u64),
            format_count(total(of_way, |t| t.received)),
            format_count(total(of_way, |t| t.dropped)),
            format_count(total(of_way, |t| t.stored)),
        );
    }
    let _ = write!(
        out,
        "\nRates and costs are geometric means over the rounds with 95% intervals. *Received* ends when \
         a stream is acknowledged (its points are in the journal on disk), or when every datagram has \
         been read or dropped; *in SQLite* ends when the daemon has been stopped and has written \
         everything. CPU time is the daemon's from its start to its end, by the points in SQLite. {}\n\n",
        match exact {
            true =>
                "In every trial, sent = received + dropped and received = in SQLite, to the point; \
                 only UDP dropped any.",
            false => "**INVALID: in at least one trial these counts did not add up.**",
        }
    );
    out += "The sender shares the machine's CPUs with the daemon, so rates are those of both together. \
            There are no published figures to compare with.\n\n";
    let facts = host::machine();
    let _ = writeln!(
        out,
        "Machine: {}, {} CPUs, Linux {}. Repeat it with `cargo run --release -p xtask -- \
         bench-transports --runs {n} --seed {}`.",
        facts.cpu_model,
        facts.cpus,
        facts.kernel.trim(),
        options.seed.0
    );
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_not_confused_with_another() {
        let text = "# TYPE tachograph_datagrams counter\ntachograph_datagrams_total{way=\"udp\"} 3\n\
                    tachograph_datagrams_total{way=\"unix\"} 4\ntachograph_datagrams_total_x 9\n\
                    tachograph_lines_total 5\n";
        assert_eq!(sum(text, "tachograph_datagrams_total"), 7);
        assert_eq!(sum(text, "tachograph_lines_total"), 5);
        assert_eq!(sum(text, "tachograph_other_total"), 0);
    }

    #[test]
    fn the_lines_are_as_many_as_the_points_and_fill_whole_datagrams() {
        assert_eq!(lines(3, 0).lines().count() as u64, 3 * SERIES);
        assert_eq!(POINTS % LINES_PER_DATAGRAM as u64, 0);
        assert_eq!(POINTS % SERIES, 0);
    }
}
