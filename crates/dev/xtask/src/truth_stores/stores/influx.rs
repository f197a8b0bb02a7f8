//! InfluxDB 1: a point for each message.

use serde_json::Value;

use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::http::{self, Request, escaped};
use crate::server::{Server, influxdb};
use crate::truth_stores::history::SLOT_S;

pub(super) const INFLUX: StoreKind = StoreKind {
    name: "InfluxDB 1",
    protocol: "a point for each message over HTTP, with the tag `sender`",
    settings: "the defaults (each write is synced: `wal-fsync-delay = \"0s\"`)",
    query: "`SELECT sum(value)`, of rates `SELECT integral(value)`",
    install: "apt-get install influxdb",
    times: Times::Message,
    version: || version_of("influxd", &["version"]),
    open: |folder, quantity| Ok(Box::new(Influx { server: influxdb(folder)?, quantity })),
};

struct Influx {
    server: Server,
    quantity: Quantity,
}

impl Influx {
    /// Makes the request of a message.
    fn request<T>(&self, message: &Message, send: fn(&Request<'_>, u16) -> T) -> T {
        let Message { series, sender, start_s, count, .. } = *message;
        let (value, at_s) = match self.quantity {
            Quantity::Count => (format!("{count}i"), message.at_s()),
            Quantity::Rate => (message.rate().to_string(), start_s),
        };
        let line = format!("{},sender={sender} value={value} {at_s}", name(series));
        let (target, body) = ("/write?db=truth&precision=s", line.as_bytes());
        send(&Request { method: "POST", target, headers: &[], body }, self.server.port)
    }

    /// The rows of a query's only series: times in seconds, and values.
    fn ask(&self, query: &str) -> Result<Vec<(i64, f64)>, String> {
        let target = format!("/query?db=truth&epoch=s&q={}", escaped(query));
        let answer = http::get(self.server.port, &target)?.success()?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        if let Some(error) = answer.pointer("/results/0/error") {
            return Err(error.to_string());
        }
        let rows = answer.pointer("/results/0/series/0/values").and_then(Value::as_array);
        let row = |row: &Value| Some((row.get(0)?.as_i64()?, row.get(1)?.as_f64()?));
        Ok(rows.into_iter().flatten().filter_map(row).collect())
    }

    /// The sum of counts, or the area below rates.
    fn aggregate(&self) -> &'static str {
        match self.quantity {
            Quantity::Count => "sum(value)",
            Quantity::Rate => "integral(value)",
        }
    }

    fn selected(&self, series: usize, from_s: i64, to_s: i64) -> String {
        format!(
            "SELECT {} FROM {} WHERE time >= {from_s}s AND time < {to_s}s",
            self.aggregate(),
            name(series)
        )
    }
}

impl Store for Influx {
    fn start(&mut self) -> Result<(), String> {
        self.server.start()?;
        let target = "/query?q=CREATE%20DATABASE%20truth";
        let create = Request { method: "POST", target, headers: &[], body: b"" };
        create.send(self.server.port)?.success().map(drop)
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
        Ok(())
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let query = format!("{} GROUP BY time({SLOT_S}s)", self.selected(series, from_s, to_s));
        Ok(self.ask(&query)?.into_iter().collect())
    }

    fn total(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<f64, String> {
        let rows = self.ask(&self.selected(series, from_s, to_s))?;
        Ok(rows.first().map_or(0.0, |(_, total)| *total))
    }
}
