//! QuestDB: a table for each series, with a row for each message.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::http::{self, Request, escaped};
use crate::process::{comes_true, free_port};
use crate::server::Server;
use crate::truth_stores::history::{SERIES, SLOT_S};

pub(super) const QUESTDB: StoreKind = StoreKind {
    name: "QuestDB",
    protocol: "Influx lines over HTTP, a row for each message (sender, end, count)",
    settings: "`DEDUP UPSERT KEYS(timestamp, sender)`, `cairo.commit.mode=sync`",
    query: "`SELECT sum(value)`",
    install: "mvn dependency:get -Dartifact=org.questdb:questdb:9.2.0",
    times: Times::Message,
    version: || version_of("questdb", &["--version"]),
    open: |folder, _: Quantity| Ok(Box::new(QuestDb { server: questdb(folder)? })),
};

/// How long it may take until a query finds what was acknowledged, and how often to look.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// Nothing is sent to its authors, and it listens on loopback only.
fn questdb(folder: &Path) -> Result<Server, String> {
    let (folder, pg) = (folder.join("data"), free_port()?);
    let config = folder.join("conf");
    std::fs::create_dir_all(&config).map_err(|error| error.to_string())?;
    Server::new(Some("/exec?query=select%201"), move |port| {
        let lines = format!(
            "http.bind.to=127.0.0.1:{port}\nhttp.min.enabled=false\npg.net.bind.to=127.0.0.1:{pg}\n\
             line.tcp.enabled=false\ntelemetry.enabled=false\ncairo.commit.mode=sync\n"
        );
        // If it cannot be written, the server does not get ready.
        let _ = std::fs::write(config.join("server.conf"), lines);
        let mut command = Command::new("questdb");
        // It unpacks a library at each start, and leaves it.
        let options = format!("-XX:-UsePerfData -Djava.io.tmpdir={}", folder.display());
        command.env("JAVA_TOOL_OPTIONS", options).arg("-d").arg(&folder);
        command
    })
}

struct QuestDb {
    server: Server,
}

impl QuestDb {
    /// Makes the request of a message.
    fn request<T>(&self, message: &Message, send: fn(&Request<'_>, u16) -> T) -> T {
        let Message { series, sender, count, .. } = *message;
        let line = format!("{},sender={sender} value={count}i {}\n", name(series), message.at_s());
        let (target, body) = ("/write?precision=s", line.as_bytes());
        send(&Request { method: "POST", target, headers: &[], body }, self.server.port)
    }

    /// The rows of a query, of whole numbers.
    fn ask(&self, query: &str) -> Result<Vec<Vec<i64>>, String> {
        let target = format!("/exec?query={}", escaped(query));
        let answer = http::get(self.server.port, &target)?.success()?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let rows = answer.get("dataset").and_then(Value::as_array);
        let row = |row: &Value| -> Option<Vec<i64>> {
            row.as_array()?.iter().map(Value::as_i64).collect()
        };
        rows.into_iter().flatten().map(|found| row(found).ok_or(found.to_string())).collect()
    }

    fn sum(&self, what: &str, AskedTime { series, from_s, to_s }: AskedTime) -> String {
        format!(
            "SELECT {what} FROM {} WHERE timestamp >= {from_s}000000 AND timestamp < {to_s}000000",
            name(series)
        )
    }
}

impl Store for QuestDb {
    fn start(&mut self) -> Result<(), String> {
        self.server.start()?;
        for series in 0..SERIES {
            self.ask(&format!(
                "CREATE TABLE IF NOT EXISTS {} (sender SYMBOL, value LONG, timestamp TIMESTAMP) \
                 TIMESTAMP(timestamp) PARTITION BY DAY WAL DEDUP UPSERT KEYS(timestamp, sender)",
                name(series)
            ))?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.server.stop()
    }

    fn process(&self) -> Option<u32> {
        self.server.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        self.request(message, |request, port| request.send(port)).map(Reply::of)
    }

    fn cut(&mut self, message: &Message) -> Result<bool, String> {
        self.request(message, |request, port| request.cut(port)).map(|()| true)
    }

    fn finish(&mut self) -> Result<(), String> {
        // What it took is in a journal first.
        let waiting = "SELECT coalesce(sum(sequencerTxn - writerTxn), 0) FROM wal_tables()";
        let mut said = Ok(Vec::new());
        let is_done = comes_true(PATIENCE, LOOK, || {
            said = self.ask(waiting);
            said.as_ref().is_ok_and(|rows| rows.first().is_some_and(|row| *row == [0]))
        });
        match is_done {
            true => Ok(()),
            false => Err(format!("it does not write its journal to its tables: {:?}", said?)),
        }
    }

    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        let slot = format!("(timestamp::long / {SLOT_S}000000) * {SLOT_S} AS slot, sum(value)");
        let rows = self.ask(&format!("{} GROUP BY slot", self.sum(&slot, asked)))?;
        rows.iter()
            .map(|row| match row[..] {
                [slot_s, total] => Ok((slot_s, total as f64)),
                _ => Err(format!("{row:?}")),
            })
            .collect()
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        let rows = self.ask(&self.sum("coalesce(sum(value), 0)", asked))?;
        match rows.first().map(Vec::as_slice) {
            Some([total]) => Ok(*total as f64),
            _ => Err(format!("{rows:?}")),
        }
    }
}
