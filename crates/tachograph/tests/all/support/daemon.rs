//! A running `tachograph serve` of a test, and what it and its record tell.

use std::process::Command;

use proofs::daemon::Daemon;

use crate::support::{Place, ask};

/// Starts a daemon that listens on so many addresses, of which the first is a free port for HTTP.
pub(crate) fn serve(place: &Place, args: &[&str], addresses: usize) -> Daemon {
    let args = [&["serve", "--http", "127.0.0.1:0"], args].concat();
    Daemon::start(place.command(&args), addresses).unwrap()
}

/// The whole answer to a request for a path.
pub(crate) fn get(daemon: &Daemon, path: &str) -> String {
    ask(&daemon.at("tcp://", 0), &format!("GET {path}"), "", "")
}

/// The value of a line of /metrics.
pub(crate) fn figure(daemon: &Daemon, name: &str) -> Option<f64> {
    let text = get(daemon, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

/// The total of each series, by measurement, field and tags, as the SQL view of slots of 10 s tells
/// it.
pub(crate) fn totals(place: &Place) -> Vec<String> {
    let script = "import sqlite3, sys\n\
        db = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
        rows = db.execute('select measurement, field, tags, sum(total) from every_10s '\n\
        '  group by 1, 2, 3 order by 1, 2, 3')\n\
        for name, field, tags, total in rows: print(name, field, tags, '%.17g' % total)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(place.path("record.sqlite"));
    let out = command.output().unwrap();
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}
