//! RRDtool: a file for each sender of a series, written by `rrdtool -`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::pipe::{Lines, Pipe};
use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::server::Server;
use crate::truth_stores::history::SLOT_S;

pub(super) const FILES: StoreKind = StoreKind {
    name: "RRDtool",
    protocol: "`update` with the interval's end, a file for each sender",
    settings: "`DS:value:ABSOLUTE:600:U:U` for counts, `GAUGE` for rates; `RRA:AVERAGE:0.5:1` for two days, `RRA:AVERAGE:0.5:360` for a month",
    query: "`VDEF:total=all,TOTAL` of `rrdtool graph`, where `all` adds up the files by `ADDNAN`",
    install: "apt-get install rrdtool",
    times: Times::Message,
    version: || version_of("rrdtool", &["--version"]),
    open: |folder, quantity| Ok(Box::new(Files::new(folder, quantity))),
};

struct Files {
    folder: PathBuf,
    quantity: Quantity,
    running: Option<Pipe>,
    /// Series and senders that have a file, with the time up to which it was told.
    begun: BTreeMap<(usize, usize), i64>,
}

/// The heartbeat of the files.
const HEARTBEAT_S: i64 = 600;

/// `rrdtool -` answers each command with `OK` or `ERROR`.
fn last(line: &str) -> Option<Result<(), String>> {
    match line.strip_prefix("ERROR: ") {
        Some(error) => Some(Err(error.to_owned())),
        None => line.starts_with("OK").then_some(Ok(())),
    }
}

impl Files {
    fn new(folder: &Path, quantity: Quantity) -> Files {
        Files { folder: folder.to_owned(), quantity, running: None, begun: BTreeMap::new() }
    }

    fn ask(&mut self, command: &str) -> Result<Lines, String> {
        self.running.as_mut().ok_or("rrdtool does not run")?.ask(command)
    }

    /// Creates the file of a message's sender, unless it is there.
    fn create(&mut self, message: &Message) -> Result<(), String> {
        let Message { series, sender, start_s, .. } = *message;
        self.begun.entry((series, sender)).or_insert(start_s);
        if self.folder.join(file(series, sender)).exists() {
            return Ok(());
        }
        let kind = match self.quantity {
            Quantity::Count => "ABSOLUTE",
            Quantity::Rate => "GAUGE",
        };
        let created = self.ask(&format!(
            "create {} --start {start_s} --step {SLOT_S} DS:value:{kind}:{HEARTBEAT_S}:U:U \
             RRA:AVERAGE:0.5:1:17280 RRA:AVERAGE:0.5:360:720",
            file(series, sender)
        ))?;
        created.map(drop).map_err(|error| format!("rrdtool: {error}"))
    }

    /// A message as an update: the file, and the end of its interval with a value. A silence that is
    /// longer than the heartbeat would make the value unknown, so it is ended first.
    fn update(&self, message: &Message) -> String {
        let Message { series, sender, start_s, end_s, count, .. } = *message;
        let value = match self.quantity {
            Quantity::Count => count as f64,
            Quantity::Rate => message.rate(),
        };
        let unknown = match self.begun.get(&(series, sender)) {
            Some(until_s) if start_s - until_s > HEARTBEAT_S => format!(" {start_s}:U"),
            _ => String::new(),
        };
        format!("{}{unknown} {end_s}:{value}", file(series, sender))
    }

    /// Notes that an update was taken.
    fn taken(&mut self, message: &Message) -> Reply {
        self.begun.insert((message.series, message.sender), message.end_s);
        Reply::Acknowledged
    }

    /// The files of a series.
    fn files(&self, series: usize) -> Vec<String> {
        let begun = self.begun.keys().filter(|(begun, _)| *begun == series);
        begun.map(|(series, sender)| file(*series, *sender)).collect()
    }
}

fn file(series: usize, sender: usize) -> String {
    format!("{}-{sender}.rrd", name(series))
}

impl Store for Files {
    fn start(&mut self) -> Result<(), String> {
        if !self.running.as_mut().is_some_and(Pipe::is_running) {
            let mut command = Command::new("rrdtool");
            command.arg("-").current_dir(&self.folder).env("LC_ALL", "C").env("TZ", "UTC");
            self.running = Some(Pipe::start(command, last)?);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.running.take().map_or(Ok(()), Pipe::stop)
    }

    fn process(&self) -> Option<u32> {
        self.running.as_ref().map(Pipe::id)
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        self.create(message)?;
        let update = format!("update {}", self.update(message));
        Ok(match self.ask(&update)? {
            Ok(_) => self.taken(message),
            Err(why) => Reply::Refused(why),
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        // Nothing shows until an update crosses the end of a slot, so the hour's last one is closed by
        // the next update, which has no count.
        for (series, sender) in self.begun.clone().into_keys() {
            let file = file(series, sender);
            let last = self.ask(&format!("last {file}"))??;
            let last: i64 = last.first().and_then(|at| at.parse().ok()).ok_or("no last update")?;
            self.ask(&format!("update {file} {}:0", last + 1))??;
        }
        Ok(())
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let mut slots = BTreeMap::new();
        for file in self.files(series) {
            let rows = self.ask(&format!(
                "fetch {file} AVERAGE --resolution {SLOT_S} --start {from_s} --end {}",
                to_s - 1
            ))??;
            for (end_s, rate) in rows.iter().filter_map(|line| line.split_once(": ")) {
                // A row is labelled with the end of its slot.
                let slot_s = end_s.trim().parse::<i64>().map_err(|_| end_s)? - SLOT_S;
                let rate: f64 = rate.trim().parse().map_err(|_| rate)?;
                if !rate.is_nan() && (from_s..to_s).contains(&slot_s) {
                    *slots.entry(slot_s).or_insert(0.0) += rate * SLOT_S as f64;
                }
            }
        }
        Ok(slots)
    }

    fn total(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<f64, String> {
        let files = self.files(series);
        if files.is_empty() {
            return Ok(0.0);
        }
        // An end on the boundary of a slot would fetch the slot after it.
        let mut command = format!("graphv - --start {from_s} --end {}", to_s - 1);
        for (n, file) in files.iter().enumerate() {
            let _ = write!(command, " DEF:v{n}={file}:value:AVERAGE:step={SLOT_S}");
        }
        let names: Vec<String> = (0..files.len()).map(|n| format!("v{n}")).collect();
        let add = ",ADDNAN".repeat(files.len() - 1);
        let _ = write!(command, " CDEF:all={},0,+{add}", names.join(","));
        let said = self.ask(&format!("{command} VDEF:total=all,TOTAL PRINT:total:%.9lf"))??;
        let total = said.iter().find_map(|line| line.split_once("print[0] = "));
        let total = total.and_then(|(_, total)| total.trim().trim_matches('"').parse::<f64>().ok());
        // Of unknown slots only, the total is unknown.
        let total = total.map(|total| if total.is_nan() { 0.0 } else { total });
        total.ok_or_else(|| format!("rrdtool printed {said:?}"))
    }
}

pub(super) const CACHED: StoreKind = StoreKind {
    name: "RRDtool, rrdcached",
    protocol: "`UPDATE` over TCP with the interval's end, a file for each sender",
    settings: "`-j` for a journal, `-F` to flush at the end; files as above",
    install: "apt-get install rrdcached",
    version: || version_of("rrdcached", &["-V"]),
    open: |folder, quantity| {
        let journal = folder.join("journal");
        std::fs::create_dir(&journal).map_err(|error| error.to_string())?;
        let (base, journal) = (folder.to_owned(), journal.clone());
        let server = Server::new(None, move |port| {
            // As in a folder that is empty after a power cut, such as /run.
            let _ = std::fs::remove_file(base.join("pid"));
            let mut command = Command::new("rrdcached");
            command.args(["-g", "-F", "-l", &format!("127.0.0.1:{port}")]);
            command.arg("-b").arg(&base).arg("-j").arg(&journal).arg("-p").arg(base.join("pid"));
            command
        })?;
        Ok(Box::new(CachedFiles { server, stream: None, files: Files::new(folder, quantity) }))
    },
    ..FILES
};

/// The daemon in front of the files.
struct CachedFiles {
    server: Server,
    stream: Option<BufReader<TcpStream>>,
    files: Files,
}

impl Store for CachedFiles {
    fn start(&mut self) -> Result<(), String> {
        self.server.start()?;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port));
        self.stream = Some(BufReader::new(stream.map_err(|error| error.to_string())?));
        self.files.start()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.stream = None;
        self.server.stop()
    }

    fn process(&self) -> Option<u32> {
        self.server.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        self.files.create(message)?;
        let stream = self.stream.as_mut().ok_or("not connected")?;
        let update = format!("UPDATE {}\n", self.files.update(message));
        stream.get_mut().write_all(update.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        match stream.read_line(&mut answer).map_err(|error| error.to_string())? {
            0 => Err("rrdcached has ended".to_owned()),
            // rrdcached(1): a negative status is an error.
            _ if answer.starts_with('-') => Ok(Reply::Refused(answer.trim_end().to_owned())),
            _ => Ok(self.files.taken(message)),
        }
    }

    fn cut(&mut self, message: &Message) -> Result<bool, String> {
        self.files.create(message)?;
        let update = format!("UPDATE {}\n", self.files.update(message));
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port))
            .and_then(|mut stream| stream.write_all(&update.as_bytes()[..update.len() / 2]))
            .map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn finish(&mut self) -> Result<(), String> {
        // It then writes everything to the files.
        self.stop()?;
        self.files.finish()
    }

    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        self.files.slots(asked)
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        self.files.total(asked)
    }
}
