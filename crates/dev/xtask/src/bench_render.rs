//! `bench-render`: `/render` of a day, from `tachograph serve` and from the real graphite-web.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use base::Seed;
use proofs::daemon::Daemon;
use proofs::render::{RequestTime, START_S, STEP_S, time_graphite_web};
use rand::RngExt as _;
use serde_json::{Value, json};

use crate::options::Options;
use crate::process::output;
use crate::{binary, say};

/// Number of series.
const SERIES: usize = 50;

/// Slots of each: a day.
const SLOTS: usize = 8_640;

/// Width of a picture in pixels.
const POINTS: &str = "1000";

/// Requests before the clock starts.
const WARM_UP: u32 = 3;

/// Times the same request, ours before and after graphite-web's; `--runs` is the number of requests.
pub(crate) fn run(options: Options) -> Result<(), String> {
    let series = series(options.seed);
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let record = folder.path().join("record.sqlite");
    import(&series, folder.path(), &record)?;
    let mut command = Command::new(binary::path()?);
    command.args(["serve", "--http", "127.0.0.1:0", "--no-graphite", "--no-statsd", "--no-pickle"]);
    command.env("TACHOGRAPH_RECORD", &record);
    let daemon = Daemon::start(command, 1)?;
    let at = daemon.at("tcp://", 0);
    // At the end of a slot, where both have the same slots.
    let (from, until) = (START_S - 1, START_S + SLOTS as i64 * STEP_S - 1);
    let query = |points: Option<&str>| {
        let mut query =
            json!({"target": "day.*", "from": from.to_string(), "until": until.to_string()});
        if let Some(points) = points {
            query["maxDataPoints"] = points.into();
        }
        query
    };
    for (what, points) in [("maxDataPoints=1000", Some(POINTS)), ("all slots", None)] {
        let before = ours(&at, &query(points), options.runs)?;
        let theirs = time_graphite_web(&series, &query(points), options.runs, &mut say)?;
        let after = ours(&at, &query(points), options.runs)?;
        for (who, timed) in [("ours", &before), ("graphite-web", &theirs), ("ours again", &after)] {
            let (median, least) = (median(timed), least(timed));
            let values = timed.values / SERIES as u64;
            say(&format!(
                "{what}, {who}: {:.1} ms (fastest {:.1} ms), {values} values per series",
                median * 1e3,
                least * 1e3
            ));
        }
        let ratio = 2.0 * median(&theirs) / (median(&before) + median(&after));
        say(&format!("{what}: graphite-web takes {ratio:.1} times as long"));
    }
    daemon.stop()
}

/// Levels with two decimals, one per slot.
fn series(seed: Seed) -> BTreeMap<String, Vec<f64>> {
    let mut rng = seed.rng("bench-render");
    let mut level = || f64::from(rng.random_range(0..100_000_u32)) / 100.0;
    (0..SERIES).map(|n| (format!("day.s{n}"), (0..SLOTS).map(|_| level()).collect())).collect()
}

fn import(series: &BTreeMap<String, Vec<f64>>, folder: &Path, record: &Path) -> Result<(), String> {
    let mut text = String::new();
    for slot in 0..SLOTS {
        for (name, values) in series {
            let at = START_S + slot as i64 * STEP_S;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {} {at}", values[slot]);
        }
    }
    let lines = folder.join("day.txt");
    std::fs::write(&lines, text).map_err(|e| e.to_string())?;
    let mut command = Command::new(binary::path()?);
    command.arg("import").arg(&lines).args(["--format", "graphite", "--record"]).arg(record);
    output(&mut command).map(drop)
}

fn ours(at: &str, query: &Value, repeats: u32) -> Result<RequestTime, String> {
    let query = query.as_object().into_iter().flatten();
    let query: Vec<String> =
        query.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or(""))).collect();
    let request = format!(
        "GET /render?{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        query.join("&")
    );
    let mut timed = RequestTime { seconds: Vec::new(), values: 0 };
    for n in 0..repeats + WARM_UP {
        let start = Instant::now();
        let mut answer = String::new();
        TcpStream::connect(at)
            .and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            })
            .map_err(|e| e.to_string())?;
        if n >= WARM_UP {
            timed.seconds.push(start.elapsed().as_secs_f64());
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let found: Value = serde_json::from_str(body).map_err(|e| format!("{e}: {answer:.300}"))?;
        let lengths = found.as_array().into_iter().flatten();
        timed.values = lengths
            .filter_map(|one| one["datapoints"].as_array())
            .map(|all| all.len() as u64)
            .sum();
    }
    Ok(timed)
}

fn median(timed: &RequestTime) -> f64 {
    stats::median(&timed.seconds).unwrap_or(f64::NAN)
}

fn least(timed: &RequestTime) -> f64 {
    timed.seconds.iter().copied().fold(f64::INFINITY, f64::min)
}
