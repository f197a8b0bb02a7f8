//! Lines over TCP, in the order in which data arrives: to `tachograph serve`, until SQL sees them,
//! and to carbon-cache, until they are in its files.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proofs::daemon::Daemon;
use rustix::process::{Pid, Signal, kill_process};

use super::ours::{Make, TABLES};
use super::points::{Load, STEP_S};
use super::{FillCost, FillFailure, cpu, text};
use crate::binary;
use crate::carbon::{carbon_config, go_carbon_config};
use crate::process::{KilledOnDrop, comes_true, free_port, listens};

/// Limit on points for carbon-cache.
const POINTS_MAX: u64 = 2_000_000;

/// Timeout of a server, and how often to look at its files.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// Bytes before the points of a whisper file with one archive, and of a point.
const WHISPER_HEAD: u64 = 28;
const WHISPER_POINT: u64 = 12;

/// Slots of a file of carbon-cache.
const WHISPER_SLOTS: u64 = 17_280;

/// What a packed row of minutes covers. Lines are moved by multiples of it, so that every run has as
/// many packed rows and hours.
const SPAN_S: u64 = 180 * 60;

/// Sends a file over one connection, and stops the daemon, which writes everything to the record.
pub(super) fn serve(load: &Load, folder: &Path, make: Make) -> Result<FillCost, FillFailure> {
    let database = make(folder)?;
    let lines = recent_lines(load, folder)?;
    let mut command = Command::new(binary::path()?);
    command.args(["serve", "--http", "127.0.0.1:0", "--graphite", "tcp://127.0.0.1:0"]);
    command.args(["--no-statsd", "--no-pickle", "--journal"]).arg(folder.join("journal"));
    command.env("TACHOGRAPH_RECORD", &database.place);
    let cpu_s = || cpu::children_s() + database.cpu_s();
    let before_s = cpu_s();
    let daemon = Daemon::start(command, 2)?;
    let peak = cpu::peak_of(daemon.id().unsigned_abs());
    let at = daemon.at("tcp://", 1);
    let began = Instant::now();
    let mut stream = TcpStream::connect(at)?;
    std::io::copy(&mut File::open(&lines)?, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    let acknowledged_s = began.elapsed().as_secs_f64();
    daemon.stop()?;
    let wall_s = began.elapsed().as_secs_f64();
    let peak_mib = peak.join().ok().map(|kib| kib / 1_024);
    let cpu_s = cpu_s() - before_s;
    // In slots of 10 s: coarser ones would be there even if these had expired.
    let found = text::all_points(load, &database.place, STEP_S)?;
    let filled = FillCost::new(found, wall_s, cpu_s, database.bytes(TABLES)?);
    Ok(FillCost { acknowledged_s: Some(acknowledged_s), peak_mib, ..filled })
}

/// carbon-cache without its limits on updates and new files, with sparse files of two days.
pub(super) fn carbon(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    into_files(load, folder, "apt-get install graphite-carbon", |port| {
        let config = folder.join("carbon.conf");
        std::fs::write(&config, carbon_config(folder, port))?;
        let mut command = Command::new("carbon-cache");
        command.arg(format!("--config={}", config.display()));
        command.arg(format!("--pidfile={}", folder.join("pid").display()));
        command.arg(format!("--logdir={}", folder.display())).args(["--nodaemon", "start"]);
        Ok(command)
    })
}

/// go-carbon, the same.
pub(super) fn go_carbon(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    into_files(load, folder, "go install github.com/go-graphite/go-carbon@latest", |port| {
        let config = folder.join("go-carbon.conf");
        std::fs::write(&config, go_carbon_config(folder, port))?;
        let mut command = Command::new("go-carbon");
        command.arg("-config").arg(config);
        Ok(command)
    })
}

/// Sends a file to a server that writes whisper files, until all points are in them.
fn into_files(
    load: &Load,
    folder: &Path,
    missing: &str,
    command: impl FnOnce(u16) -> io::Result<Command>,
) -> Result<FillCost, FillFailure> {
    let load = load.at_most(POINTS_MAX);
    if load.each() > WHISPER_SLOTS {
        return Err(format!("its files have {WHISPER_SLOTS} slots").into());
    }
    let recent = recent_lines(&load, folder)?;
    let data = folder.join("data");
    std::fs::create_dir(&data)?;
    let port = free_port()?;
    let retention = WHISPER_SLOTS * STEP_S;
    let schema = format!("[all]\npattern = .*\nretentions = {STEP_S}s:{retention}s\n");
    std::fs::write(folder.join("storage-schemas.conf"), schema)?;
    let aggregation = "[all]\npattern = .*\naggregationMethod = average\n";
    std::fs::write(folder.join("storage-aggregation.conf"), aggregation)?;
    let mut command = command(port)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        return Err(FillFailure::missing(missing));
    };
    let mut server = KilledOnDrop(child);
    if !listens(port, PATIENCE) {
        return Err("it does not listen".into());
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let before_s = cpu::server_s(server.0.id());
    let began = Instant::now();
    std::io::copy(&mut File::open(&recent)?, &mut stream)?;
    drop(stream);
    let is_filled = |of| {
        let path = data.join(format!("{}.wsp", text::name(of).replace('.', "/")));
        comes_true(PATIENCE, LOOK, || has_point(&path, load.each() - 1))
    };
    if !(0..load.series).all(is_filled) {
        return Err("not all points are in its files".into());
    }
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), cpu::server_s(server.0.id()) - before_s);
    kill_process(Pid::from_child(&server.0), Signal::TERM)?;
    server.0.wait()?;
    // Its files are sparse and of fixed size, so their length says nothing.
    let bytes = load.points * WHISPER_POINT;
    Ok(FillCost::new(load.points, wall_s, cpu_s, bytes))
}

/// The lines of an import, the last one within [`SPAN_S`] of now: a daemon drops slots that are older
/// than it keeps them (10 s for a day), and whisper takes no older points.
fn recent_lines(load: &Load, folder: &Path) -> Result<PathBuf, FillFailure> {
    let (lines, recent) = (folder.join("lines.txt"), folder.join("recent.txt"));
    text::write(load, &lines, text::Order::Arrival, 0..load.each())?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?.as_secs();
    let last_s = load.at_ms(load.each() - 1) / 1_000;
    let shift_s = (now_s - last_s) / SPAN_S * SPAN_S;
    let mut to = BufWriter::with_capacity(1 << 20, File::create(&recent)?);
    for line in BufReader::new(File::open(&lines)?).lines() {
        let line = line?;
        let (rest, at) = line.rsplit_once(' ').ok_or("a line without a time")?;
        let at: u64 = at.parse().map_err(|_| "a line without a time")?;
        writeln!(to, "{rest} {}", at + shift_s)?;
    }
    to.flush()?;
    std::fs::remove_file(&lines)?;
    Ok(recent)
}

/// Whether the point at this place of a whisper file is there; its time is not 0 then.
fn has_point(path: &Path, place: u64) -> bool {
    let mut time = [0; 4];
    let read = File::open(path)
        .and_then(|file| file.read_exact_at(&mut time, WHISPER_HEAD + place * WHISPER_POINT));
    read.is_ok() && time != [0; 4]
}
