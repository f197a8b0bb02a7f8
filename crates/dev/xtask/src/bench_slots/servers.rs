//! Servers filled over a socket.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::ours::Database;
use super::points::Load;
use super::{FillCost, FillFailure, cpu, text};
use crate::process::{KilledOnDrop, comes_true, free_port, output};

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

/// A server that ends when it is dropped.
struct Server {
    process: KilledOnDrop,
    port: u16,
}

impl Server {
    fn start(
        program: &str,
        port: u16,
        ready: &str,
        command: &mut Command,
    ) -> Result<Server, FillFailure> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            return Err(FillFailure::missing(format!("apt-get install {program}")));
        };
        let server = Server { process: KilledOnDrop(child), port };
        let answers = || server.connect().and_then(|mut http| http.get(ready)).is_ok();
        match comes_true(PATIENCE, Duration::from_millis(50), answers) {
            true => Ok(server),
            false => Err(format!("{program} does not answer").into()),
        }
    }

    fn connect(&self) -> Result<Http, String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        Ok(Http { stream, port: self.port })
    }

    fn cpu_s(&self) -> f64 {
        cpu::server_s(self.process.0.id())
    }

    /// Stops the server in an orderly way, so that everything is on disk.
    fn stop(mut self) -> Result<(), String> {
        kill_process(Pid::from_child(&self.process.0), Signal::INT).map_err(|e| e.to_string())?;
        self.process.0.wait().map(drop).map_err(|e| e.to_string())
    }
}

/// A persistent connection.
struct Http {
    stream: TcpStream,
    port: u16,
}

impl Http {
    /// A counter of the server's own metrics.
    fn counter(mut self, name: &str) -> Result<u64, String> {
        let request = "GET /metrics HTTP/1.0\r\n\r\n";
        let mut answer = String::new();
        let sent = self.stream.write_all(request.as_bytes());
        sent.and_then(|()| self.stream.read_to_string(&mut answer)).map_err(|e| e.to_string())?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| format!("/metrics lacks {name}"))
    }

    fn get(&mut self, path: &str) -> Result<(), String> {
        self.send("GET", path, "")
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(), String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        let sent = self.stream.write_all(head.as_bytes());
        sent.and_then(|()| self.stream.write_all(body.as_bytes())).map_err(|e| e.to_string())?;
        let mut answer = String::new();
        let mut some = [0; 4_096];
        while !answer.contains("\r\n\r\n") {
            match self.stream.read(&mut some).map_err(|e| e.to_string())? {
                0 => return Err("the connection was closed".to_owned()),
                read => answer.push_str(&String::from_utf8_lossy(&some[..read])),
            }
        }
        match answer.get(9..12) {
            Some("204" | "200") => Ok(()),
            _ => Err(answer.lines().next().unwrap_or_default().to_owned()),
        }
    }
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
    let mut http = server.connect()?;
    let (began, before_s) = (Instant::now(), server.cpu_s());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let most = rest.len().min(BODY_BYTES);
        let end = rest.as_bytes()[..most].iter().rposition(|byte| *byte == b'\n');
        let (body, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        http.send("POST", path, body)?;
        rest = after;
    }
    Ok((began.elapsed().as_secs_f64(), server.cpu_s() - before_s))
}

fn victoria_at(data: &Path, options: &[&str]) -> Result<Server, FillFailure> {
    let port = free_port()?;
    let mut command = Command::new("victoria-metrics");
    command.arg(format!("-storageDataPath={}", data.display())).args(options);
    command.arg(format!("-httpListenAddr=127.0.0.1:{port}")).arg("-retentionPeriod=100y");
    Server::start("victoria-metrics", port, "/health", &mut command)
}

pub(super) fn victoria(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let data = folder.join("data");
    let server = victoria_at(&data, &[])?;
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
    let server = victoria_at(&data, &[&listen])?;
    let (began, before_s) = (Instant::now(), server.cpu_s());
    let mut stream = TcpStream::connect(("127.0.0.1", graphite))?;
    std::io::copy(&mut File::open(&lines)?, &mut stream)?;
    drop(stream);
    let count = "vm_rows_inserted_total{type=\"graphite\"}";
    let counts = || server.connect().and_then(|http| http.counter(count));
    let has_all = || counts().is_ok_and(|counted| counted >= points);
    if !comes_true(PATIENCE, Duration::from_millis(20), has_all) {
        return Err("it does not count all lines".into());
    }
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), server.cpu_s() - before_s);
    server.stop()?;
    Ok(FillCost::new(points, wall_s, cpu_s, cpu::bytes(&data)))
}

pub(super) fn influx(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    let load = load.at_most(POINTS_MAX);
    let (port, rpc) = (free_port()?, free_port()?);
    let data = folder.join("data");
    let server = Server::start(
        "influxdb",
        port,
        "/ping",
        Command::new("influxd")
            .args(["run", "-config", "/dev/null"])
            .env("INFLUXDB_META_DIR", folder.join("meta"))
            .env("INFLUXDB_DATA_DIR", &data)
            .env("INFLUXDB_DATA_WAL_DIR", data.join("wal"))
            .env("INFLUXDB_HTTP_BIND_ADDRESS", format!("127.0.0.1:{port}"))
            .env("INFLUXDB_BIND_ADDRESS", format!("127.0.0.1:{rpc}"))
            .env("INFLUXDB_HTTP_LOG_ENABLED", "false")
            .env("INFLUXDB_REPORTING_DISABLED", "true"),
    )?;
    server.connect()?.send("POST", "/query?q=CREATE%20DATABASE%20bench", "")?;
    let path = "/write?db=bench&precision=s";
    let (wall_s, cpu_s) = fill(&server, path, &load, folder, |text, series, points| {
        for (at_ms, value) in points {
            let _ = writeln!(text, "level,host={series} value={value} {}", at_ms / 1_000);
        }
    })?;
    server.stop()?;
    Ok(FillCost::new(load.points, wall_s, cpu_s, cpu::bytes(&data)))
}
