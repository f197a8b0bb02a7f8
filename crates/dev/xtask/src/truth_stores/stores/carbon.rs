//! carbon-cache and go-carbon with whisper files: a line for each message.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::carbon::{carbon_config, go_carbon_config};
use crate::process::{comes_true, output};
use crate::server::Server;
use crate::truth_stores::history::{HOUR_S, SLOT_S};

pub(super) const CARBON: StoreKind = StoreKind {
    name: "Graphite, carbon-cache",
    protocol: "lines over TCP, a path for each sender; it adds up its counts of each slot, and sends the sum after every count",
    settings: "`retentions = 10s:2d,1h:60d`; `aggregationMethod = sum` for counts, `average` for rates; `xFilesFactor = 0`; `WHISPER_AUTOFLUSH = True`; no limits on updates and new files",
    query: "the sum of the archives of hours, as `whisper-fetch` shows them",
    install: "apt-get install graphite-carbon",
    times: Times::Message,
    // It does not say its version itself.
    version: || {
        version_of("dpkg-query", &["-W", "-f", "${Package} ${Version}\n", "graphite-carbon"])
    },
    open: |folder, quantity| Ok(Box::new(carbon_cache(folder, quantity)?)),
};

/// carbon-cache, not started.
pub(super) fn carbon_cache(folder: &Path, quantity: Quantity) -> Result<Carbon, String> {
    let config = |folder: &Path, port| carbon_config(folder, port) + "WHISPER_AUTOFLUSH = True\n";
    Carbon::open(folder, quantity, Signal::TERM, config, |folder, config| {
        // As in a folder that is empty after a power cut, such as /run.
        let _ = std::fs::remove_file(folder.join("pid"));
        let mut command = Command::new("carbon-cache");
        command.arg(format!("--config={}", config.display()));
        command.arg(format!("--pidfile={}", folder.join("pid").display()));
        command.arg(format!("--logdir={}", folder.display())).args(["--nodaemon", "start"]);
        command
    })
}

pub(super) const GO_CARBON: StoreKind = StoreKind {
    name: "Graphite, go-carbon",
    settings: "the same, but for the flush, which it does not know; `[dump] enabled = true`, and SIGUSR2 for an orderly stop",
    install: "go build of github.com/go-graphite/go-carbon",
    version: || version_of("go-carbon", &["-version"]),
    open: |folder, quantity| {
        // By this signal it writes what it holds to files, from which it restores it.
        let carbon = Carbon::open(folder, quantity, Signal::USR2, go_carbon_config, |_, config| {
            let mut command = Command::new("go-carbon");
            command.arg("-config").arg(config);
            command
        });
        Ok(Box::new(carbon?))
    },
    ..CARBON
};

/// Prints the slots of an archive: time and value.
const FETCH: &str = "
import sys, whisper
path, step, start, end = sys.argv[1], *map(int, sys.argv[2:5])
found = whisper.fetch(path, start - step, end - step, archiveToSelect=step)
(first, _, step), values = found or ((0, 0, step), [])
for place, value in enumerate(values):
    if value is not None:
        print(first + place * step, repr(value))
";

/// Pause between two looks at the files, how many of them must find no change, and timeout.
const LOOK: Duration = Duration::from_millis(300);
const ALIKE: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Carbon {
    pub(super) server: Server,
    stream: Option<TcpStream>,
    pub(super) data: PathBuf,
    quantity: Quantity,
    /// By series and sender.
    pub(super) files: BTreeMap<(usize, usize), PathBuf>,
}

impl Carbon {
    /// A server with its files of configuration; `command` gets their folder and the main one.
    fn open(
        folder: &Path,
        quantity: Quantity,
        stop_by: Signal,
        config: fn(&Path, u16) -> String,
        command: fn(&Path, &Path) -> Command,
    ) -> Result<Carbon, String> {
        let method = match quantity {
            Quantity::Count => "sum",
            Quantity::Rate => "average",
        };
        let (data, main) = (folder.join("data"), folder.join("carbon.conf"));
        let mut server = Server::new(None, {
            let (folder, main) = (folder.to_owned(), main.clone());
            move |_| command(&folder, &main)
        })?;
        server.stop_by = stop_by;
        let schema = format!("[all]\npattern = .*\nretentions = {SLOT_S}s:2d,1h:60d\n");
        let aggregation =
            format!("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = {method}\n");
        std::fs::create_dir(&data)
            .and_then(|()| std::fs::write(main, config(folder, server.port)))
            .and_then(|()| std::fs::write(folder.join("storage-schemas.conf"), schema))
            .and_then(|()| std::fs::write(folder.join("storage-aggregation.conf"), aggregation))
            .map_err(|error| error.to_string())?;
        Ok(Carbon { server, stream: None, data, quantity, files: BTreeMap::new() })
    }

    fn line(&mut self, message: &Message) -> String {
        let Message { series, slot_sum, .. } = *message;
        // A correction overwrites the slot.
        let sender = if message.corrects { 0 } else { message.sender };
        let file = self.data.join(name(series)).join(format!("s{sender}.wsp"));
        self.files.insert((series, sender), file);
        let value = match self.quantity {
            Quantity::Count => slot_sum as f64,
            Quantity::Rate => message.rate(),
        };
        format!("{}.s{sender} {value} {}\n", name(series), message.at_s())
    }

    /// The slots of the archives of a series, with the sums of their values.
    fn archive(&self, step_s: i64, asked: AskedTime) -> Result<Slots, String> {
        let AskedTime { series, from_s, to_s } = asked;
        let mut slots = BTreeMap::new();
        let files = self.files.iter().filter(|((of, _), file)| *of == series && file.exists());
        for (_, file) in files {
            let mut command = Command::new("/usr/bin/python3");
            command.args(["-c", FETCH]).arg(file);
            command.args([step_s, from_s, to_s].map(|number| number.to_string()));
            for line in output(&mut command)?.lines() {
                let (at_s, value) = line.split_once(' ').ok_or(line)?;
                let at_s: i64 = at_s.parse().map_err(|_| line)?;
                *slots.entry(at_s).or_insert(0.0) += value.parse::<f64>().map_err(|_| line)?;
            }
        }
        Ok(slots)
    }

    /// The factor that makes a slot's total of its value.
    fn times(&self, step_s: i64) -> f64 {
        match self.quantity {
            Quantity::Count => 1.0,
            Quantity::Rate => step_s as f64,
        }
    }
}

impl Store for Carbon {
    fn start(&mut self) -> Result<(), String> {
        self.server.start()?;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port));
        self.stream = Some(stream.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.stream = None;
        self.server.stop()
    }

    fn process(&self) -> Option<u32> {
        self.server.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        let line = self.line(message);
        let stream = self.stream.as_mut().ok_or("not connected")?;
        stream.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Reply::Unanswered)
    }

    fn cut(&mut self, message: &Message) -> Result<bool, String> {
        let line = self.line(message);
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port));
        connected
            .and_then(|mut stream| stream.write_all(&line.as_bytes()[..line.len() / 2]))
            .map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn finish(&mut self) -> Result<(), String> {
        // Nothing says when everything is in the files.
        let (mut before, mut alike) = (Vec::new(), 0);
        let is_settled = comes_true(PATIENCE, LOOK, || {
            let now: Vec<_> = self.files.values().map(|file| std::fs::read(file).ok()).collect();
            alike = if before == now { alike + 1 } else { 0 };
            before = now;
            alike == ALIKE
        });
        is_settled.then_some(()).ok_or_else(|| "its files change all the time".to_owned())
    }

    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        let slots = self.archive(SLOT_S, asked)?;
        let times = self.times(SLOT_S);
        Ok(slots.into_iter().map(|(slot_s, value)| (slot_s, value * times)).collect())
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        let step_s = if (asked.to_s - asked.from_s) % HOUR_S == 0 { HOUR_S } else { SLOT_S };
        let slots = self.archive(step_s, asked)?;
        Ok(slots.values().sum::<f64>() * self.times(step_s))
    }
}
