//! Servers filled over a socket.

use std::fmt::Write as _;
use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::ours::Database;
use super::points::Load;
use super::{FillCost, FillFailure, cpu, text};
use crate::http::{self, Request};
use crate::process::{comes_true, free_port, output};
use crate::server::{Server, influxdb, victoria_metrics};
use crate::tools::on_path;

/// Limit on points for the slower ones.
const POINTS_MAX: u64 = 2_000_000;

/// Bytes to send at once.
const BODY_BYTES: usize = 8 << 20;

/// Timeout of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// The raw points, in a table without an index.
pub(super) fn copy(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let load = load.at_most(POINTS_MAX);
    let database = Database::postgres(folder)?;
    let points = folder.join("points");
    load.write(&points, |text, series, points| {
        for (at_ms, value) in points {
            let _ = writeln!(text, "{series}\t{at_ms}\t{value}");
        }
    })?;
    let table = "CREATE TABLE point (series bigint NOT NULL, at_ms bigint NOT NULL, value double precision NOT NULL)";
    output(Command::new("psql").args(["-XAtqc", table, &database.place]))?;
    let copying = format!("\\copy point FROM '{}'", points.display());
    let cpu_s = || cpu::children_s() + database.cpu_s();
    let (began, before_s) = (Instant::now(), cpu_s());
    output(Command::new("psql").args(["-XAtqc", &copying, &database.place]))?;
    let (wall_s, used_s) = (began.elapsed().as_secs_f64(), cpu_s() - before_s);
    let bytes = database.bytes("relname = 'point'")?;
    Ok(FillCost::new(load.points, wall_s, used_s, bytes))
}

/// Starts a server whose program `install` installs.
fn start(mut server: Server, program: &str, install: &str) -> Result<Server, FillFailure> {
    if on_path(program).is_none() {
        return Err(FillFailure::missing(install));
    }
    server.start()?;
    Ok(server)
}

/// CPU time of a server so far.
fn cpu_s(server: &Server) -> f64 {
    server.process().map_or(0.0, cpu::server_s)
}

/// A counter of a server's own metrics.
fn counter(server: &Server, name: &str) -> Result<u64, String> {
    let metrics = http::get(server.port, "/metrics")?.success()?;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.ok_or_else(|| format!("/metrics lacks {name}"))
}

/// Sends lines in large bodies; returns time and CPU time. The lines are generated in advance.
fn fill(
    server: &Server,
    path: &str,
    load: &Load,
    folder: &Path,
    line: impl FnMut(&mut String, u64, &[(u64, f64)]),
) -> Result<(f64, f64), String> {
    let file = folder.join("lines");
    load.write(&file, line).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let (began, before_s) = (Instant::now(), cpu_s(server));
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let most = rest.len().min(BODY_BYTES);
        let end = rest.as_bytes()[..most].iter().rposition(|byte| *byte == b'\n');
        let (body, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        let request = Request { method: "POST", target: path, headers: &[], body: body.as_bytes() };
        request.send(server.port)?.success()?;
        rest = after;
    }
    Ok((began.elapsed().as_secs_f64(), cpu_s(server) - before_s))
}

fn victoria_at(data: &Path, options: &[String]) -> Result<Server, FillFailure> {
    let server = victoria_metrics(data, options)?;
    start(server, "victoria-metrics", "scripts/truth-tools.sh target/truth-tools")
}

pub(super) fn victoria(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let data = folder.join("data");
    let mut server = victoria_at(&data, &[])?;
    let (wall_s, cpu_s) = fill(&server, "/api/v1/import", load, folder, |text, series, points| {
        let values: Vec<String> = points.iter().map(|(_, value)| value.to_string()).collect();
        let times: Vec<String> = points.iter().map(|(at_ms, _)| at_ms.to_string()).collect();
        let (values, times) = (values.join(","), times.join(","));
        let _ = writeln!(
            text,
            "{{\"metric\":{{\"__name__\":\"level\",\"host\":\"{series}\"}},\"values\":[{values}],\"timestamps\":[{times}]}}"
        );
    })?;
    server.stop()?;
    Ok(FillCost::new(load.points, wall_s, cpu_s, cpu::bytes(&data)))
}

/// The lines that an import reads, in the order in which data arrives, until the server has counted
/// all of them.
pub(super) fn victoria_lines(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let (lines, points) = (folder.join("lines.txt"), load.each() * load.series);
    text::write(load, &lines, text::Order::Arrival, 0..load.each())?;
    let data = folder.join("data");
    let graphite = free_port()?;
    let listen = format!("-graphiteListenAddr=127.0.0.1:{graphite}");
    let mut server = victoria_at(&data, &[listen])?;
    let (began, before_s) = (Instant::now(), cpu_s(&server));
    let mut stream = TcpStream::connect(("127.0.0.1", graphite))?;
    std::io::copy(&mut File::open(&lines)?, &mut stream)?;
    drop(stream);
    let count = "vm_rows_inserted_total{type=\"graphite\"}";
    let has_all = || counter(&server, count).is_ok_and(|counted| counted >= points);
    if !comes_true(PATIENCE, Duration::from_millis(20), has_all) {
        return Err("it does not count all lines".into());
    }
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s(&server) - before_s);
    server.stop()?;
    Ok(FillCost::new(points, wall_s, cpu_s, cpu::bytes(&data)))
}

pub(super) fn influx(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let load = load.at_most(POINTS_MAX);
    let data = folder.join("data");
    let mut server = start(influxdb(folder)?, "influxd", "apt-get install influxdb")?;
    let target = "/query?q=CREATE%20DATABASE%20bench";
    let create = Request { method: "POST", target, headers: &[], body: b"" };
    create.send(server.port)?.success()?;
    let path = "/write?db=bench&precision=s";
    let (wall_s, cpu_s) = fill(&server, path, &load, folder, |text, series, points| {
        for (at_ms, value) in points {
            let _ = writeln!(text, "level,host={series} value={value} {}", at_ms / 1_000);
        }
    })?;
    server.stop()?;
    Ok(FillCost::new(load.points, wall_s, cpu_s, cpu::bytes(&data)))
}
