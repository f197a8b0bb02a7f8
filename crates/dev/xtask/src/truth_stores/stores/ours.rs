//! tachograph, with SQLite and with PostgreSQL, by HTTP and by datagrams.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use proofs::daemon::Daemon;
use throwaway::Throwaway;

use super::{
    AskedTime, DATAGRAM_PAUSE, Message, Quantity, Reply, Slots, Store, StoreKind, Times,
    around_now, name, version_of,
};
use crate::binary;
use crate::http::Request;
use crate::process::output;
use crate::server::tied;

pub(super) const SQLITE: StoreKind = StoreKind {
    name: "tachograph, SQLite",
    protocol: "Influx lines over HTTP; the interval as the fields `_start` and `_end`, an `Idempotency-Key` for each message",
    settings: "the defaults",
    query: "`SELECT sum(total) FROM every_1h`",
    install: "this repository",
    times: Times::Message,
    version,
    open: |folder, quantity| Ok(Box::new(Ours::new(folder, quantity, None))),
};

pub(super) const DATAGRAMS: StoreKind = StoreKind {
    name: "tachograph, datagrams",
    protocol: "a StatsD datagram for each message, which nothing acknowledges",
    query: "`SELECT sum(total) FROM every_10s`; its points have the time of their arrival, so the total of everything is compared",
    times: Times::Arrival,
    open: |folder, quantity| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let socket = socket.map_err(|error| error.to_string())?;
        Ok(Box::new(Datagrams { ours: Ours::new(folder, quantity, None), socket }))
    },
    ..SQLITE
};

pub(super) const POSTGRES: StoreKind = StoreKind {
    name: "tachograph, PostgreSQL",
    open: |folder, quantity| {
        let server = Throwaway::start_in(folder, &[]).map_err(|error| error.to_string())?;
        Ok(Box::new(Ours::new(folder, quantity, Some(server))))
    },
    ..SQLITE
};

fn version() -> Option<String> {
    version_of(&binary::path().ok()?.display().to_string(), &["--version"])
}

struct Ours {
    folder: PathBuf,
    quantity: Quantity,
    database: Option<Throwaway>,
    place: String,
    daemon: Option<Daemon>,
    port: u16,
}

impl Ours {
    fn new(folder: &Path, quantity: Quantity, database: Option<Throwaway>) -> Ours {
        let place = match &database {
            None => folder.join("record.sqlite").display().to_string(),
            Some(server) => server.url("postgres"),
        };
        Ours { folder: folder.to_owned(), quantity, database, place, daemon: None, port: 0 }
    }

    /// Starts it with these further options, unless it runs; messages are sent to its address of this
    /// kind.
    fn serve(&mut self, options: &[&str], kind: &str) -> Result<(), String> {
        if let Some(database) = &mut self.database
            && !database.has_guard()
        {
            database.resume().map_err(|error| error.to_string())?;
        }
        // A daemon that was killed is not asked: its successor finds the journal.
        if self.daemon.as_mut().is_some_and(Daemon::is_running) {
            return Ok(());
        }
        self.daemon = None;
        let mut command = Command::new(binary::path()?);
        command.args(["serve", "--http", "127.0.0.1:0", "--no-graphite", "--no-pickle"]);
        command.args(options).arg("--journal");
        command.arg(self.folder.join("journal")).env("TACHOGRAPH_RECORD", &self.place);
        let daemon = Daemon::start(tied(command), if kind == "tcp://" { 1 } else { 2 })?;
        let at = daemon.at(kind, 0);
        self.port = at.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or(at)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Makes the request of a message.
    fn request<T>(&self, message: &Message, send: fn(&Request<'_>, u16) -> T) -> T {
        let Message { id, series, sender, start_s, end_s, count, .. } = *message;
        let value = match self.quantity {
            Quantity::Count => format!("{count}i"),
            Quantity::Rate => message.rate().to_string(),
        };
        let line = format!(
            "{},sender={sender} value={value},_start={start_s}i,_end={end_s}i\n",
            name(series)
        );
        let (key, body) = (format!("Idempotency-Key: {id}"), line.as_bytes());
        let target = "/write?precision=s";
        send(&Request { method: "POST", target, headers: &[&key], body }, self.port)
    }

    /// The rows of a query, one line each.
    fn ask(&self, sql: &str) -> Result<String, String> {
        match self.database {
            None => output(Command::new("sqlite3").args(["-readonly", &self.place, sql])),
            Some(_) => output(Command::new("psql").args(["-XAtc", sql, &self.place])),
        }
    }

    /// A condition for this time.
    fn within(&self, from_s: i64, to_s: i64) -> String {
        match self.database {
            None => format!("slot_us >= {from_s}000000 AND slot_us < {to_s}000000"),
            Some(_) => format!("slot >= to_timestamp({from_s}) AND slot < to_timestamp({to_s})"),
        }
    }
}

impl Store for Ours {
    fn start(&mut self) -> Result<(), String> {
        self.serve(&["--no-statsd"], "tcp://")
    }

    fn stop(&mut self) -> Result<(), String> {
        self.daemon.take().map_or(Ok(()), Daemon::stop)
    }

    fn process(&self) -> Option<u32> {
        self.daemon.as_ref().map(|daemon| daemon.id().unsigned_abs())
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        self.request(message, |request, port| request.send(port)).map(Reply::of)
    }

    fn cut(&mut self, message: &Message) -> Result<bool, String> {
        self.request(message, |request, port| request.cut(port)).map(|()| true)
    }

    fn finish(&mut self) -> Result<(), String> {
        // It then writes everything to the record.
        self.stop()
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let slot_s = match self.database {
            None => "slot_us / 1000000",
            Some(_) => "extract(epoch FROM slot)::bigint",
        };
        let said = self.ask(&format!(
            "SELECT {slot_s}, sum(total) FROM every_10s WHERE measurement = '{}' AND {} GROUP BY 1",
            name(series),
            self.within(from_s, to_s)
        ))?;
        let row = |line: &str| {
            let (slot_s, total) = line.split_once('|')?;
            Some((slot_s.parse().ok()?, total.parse().ok()?))
        };
        said.lines().map(|line| row(line).ok_or_else(|| line.to_owned())).collect()
    }

    fn total(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<f64, String> {
        // The published updates are of less than an hour.
        let view = if (to_s - from_s) % 3_600 == 0 { "every_1h" } else { "every_10s" };
        let said = self.ask(&format!(
            "SELECT coalesce(sum(total), 0) FROM {view} WHERE measurement = '{}' AND {}",
            name(series),
            self.within(from_s, to_s)
        ))?;
        said.trim().parse().map_err(|_| said)
    }
}

/// The same with another listener.
struct Datagrams {
    ours: Ours,
    socket: UdpSocket,
}

impl Store for Datagrams {
    fn start(&mut self) -> Result<(), String> {
        self.ours.serve(&["--statsd", "udp://127.0.0.1:0"], "udp://")
    }

    fn stop(&mut self) -> Result<(), String> {
        self.ours.stop()
    }

    fn process(&self) -> Option<u32> {
        self.ours.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        // After a kill.
        self.start()?;
        let datagram = format!("{}:{}|c", name(message.series), message.count);
        let sent = self.socket.send_to(datagram.as_bytes(), (Ipv4Addr::LOCALHOST, self.ours.port));
        sent.map_err(|error| error.to_string())?;
        thread::sleep(DATAGRAM_PAUSE);
        Ok(Reply::Unanswered)
    }

    fn finish(&mut self) -> Result<(), String> {
        self.ours.finish()
    }

    /// Those of this trial.
    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        self.ours.slots(around_now(asked)?)
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        self.slots(asked).map(|slots| slots.values().sum())
    }
}
