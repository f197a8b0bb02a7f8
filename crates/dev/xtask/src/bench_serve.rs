//! `bench-serve`: Graphite lines over TCP into the journal and into SQLite, slot after slot over all
//! series, as a person's senders send them.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use proofs::daemon::{Daemon, points};

use crate::options::Options;
use crate::{binary, say, task};

/// Number of series.
const SERIES: u64 = 10_000;

/// Number of connections, each with its part of the series.
const CONNECTIONS: u64 = 2;

/// Length of a slot in seconds.
const STEP_S: u64 = 10;

/// Sends one point per slot of every series; `--runs` is the number of slots.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    task("bench-serve", Options::parse(words, 300), measure)
}

fn measure(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let record = folder.path().join("record.sqlite");
    let place = record.display().to_string();
    let slots = u64::from(options.runs);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    let from = (now.as_secs() - slots * STEP_S) / STEP_S * STEP_S;
    // Written before the clock starts, so that the sender costs little.
    let texts: Vec<String> = (0..CONNECTIONS).map(|part| lines(part, slots, from)).collect();
    let mut command = Command::new(&tachograph);
    command.args(["serve", "--http", "127.0.0.1:0", "--graphite", "tcp://127.0.0.1:0"]);
    command.arg("--no-statsd");
    command.env("TACHOGRAPH_RECORD", &place);
    let daemon = Daemon::start(command, 2)?;
    let at = daemon.at("tcp://", 1);
    let start = Instant::now();
    let sent: Result<(), String> = std::thread::scope(|scope| {
        let at = at.as_str();
        let senders: Vec<_> =
            texts.iter().map(|text| scope.spawn(move || send(at, text))).collect();
        senders.into_iter().try_for_each(|sender| match sender.join() {
            Ok(sent) => sent.map_err(|e| e.to_string()),
            Err(_) => Err("a sender panicked".to_owned()),
        })
    });
    sent?;
    let journalled = start.elapsed();
    daemon.stop()?;
    let stored = start.elapsed();
    let sent = SERIES * slots;
    let names: Vec<String> = (0..SERIES).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found: i64 = points(&place, &names).map_err(|e| e.to_string())?.iter().sum();
    let size = std::fs::metadata(&record).map_err(|e| e.to_string())?.len();
    let rate = |elapsed: std::time::Duration| sent as f64 / elapsed.as_secs_f64();
    say(&format!("{SERIES} series, {slots} slots, {sent} points sent, {found} in SQLite"));
    say(&format!("acknowledged (in the journal): {:.0} points/s", rate(journalled)));
    say(&format!("in SQLite, daemon stopped:     {:.0} points/s", rate(stored)));
    say(&format!("{:.1} bytes per point in SQLite", size as f64 / sent as f64));
    Ok(found == sent as i64)
}

/// Sends lines, and waits until the daemon has acknowledged them by closing the connection.
fn send(at: &str, text: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

fn name(series: u64) -> String {
    format!("servers.web{}.cpu{}.used", series / 100, series % 100)
}

/// The lines of one connection: all its series in the first slot, then in the next.
fn lines(part: u64, slots: u64, from: u64) -> String {
    let mut text = String::new();
    for slot in 0..slots {
        for series in (part..SERIES).step_by(CONNECTIONS as usize) {
            let value = (series * 7 + slot * 13) % 1_000;
            let at = from + slot * STEP_S;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}.{} {at}", name(series), value / 10, value % 10);
        }
    }
    text
}
