//! The stores, each by the protocol and with the settings that its documents recommend for counts.

mod carbon;
mod embedded;
mod influx;
mod ours;
mod pipe;
mod prometheus;
mod questdb;
mod rrdtool;
mod scraped;
mod statsd;
mod upsert;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::history::{HOUR_S, Message, Quantity};
use crate::http::Answer;

/// What a store answers to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Acknowledged,
    /// Its protocol has no answer.
    Unanswered,
    /// An error, in its words.
    Refused(String),
    /// Its protocol has no form for this, and why.
    Unsayable(&'static str),
}

impl Reply {
    /// What an answer by HTTP means.
    fn of(answer: Answer) -> Reply {
        answer.success().map_or_else(Reply::Refused, |_| Reply::Acknowledged)
    }
}

/// A time of a series, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedTime {
    pub(super) series: usize,
    pub(super) from_s: i64,
    pub(super) to_s: i64,
}

/// The totals of slots by their starts, in seconds since 1970.
pub(super) type Slots = BTreeMap<i64, f64>;

/// A store, and a client for it.
pub(super) trait Store {
    /// Starts it, or again after it has ended, and waits until it can be used. A store that runs is left
    /// as it is.
    fn start(&mut self) -> Result<(), String>;

    /// Stops it in an orderly way.
    fn stop(&mut self) -> Result<(), String>;

    /// The process to kill; `None` if it does not run.
    fn process(&self) -> Option<u32>;

    /// Sends a message, and waits for the answer.
    ///
    /// # Errors
    /// If there is no answer although there should be one.
    fn send(&mut self, message: &Message) -> Result<Reply, String>;

    /// Sends the first half of a message, and closes the connection. False if it has none.
    fn cut(&mut self, _message: &Message) -> Result<bool, String> {
        Ok(false)
    }

    /// Waits until everything that it took can be read.
    fn finish(&mut self) -> Result<(), String>;

    /// The total of each slot of a series in this time: of the points in it, where it keeps points.
    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String>;

    /// The total of a series in this time, by the query that its documents recommend.
    fn total(&mut self, asked: AskedTime) -> Result<f64, String>;
}

/// Makes a store, or says what it lacks.
type OpenStore = fn(&Path, Quantity) -> Result<Box<dyn Store>, String>;

/// A kind of store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreKind {
    pub(super) name: &'static str,
    /// How its client speaks, and how it is configured.
    pub(super) protocol: &'static str,
    pub(super) settings: &'static str,
    /// The query for a total.
    pub(super) query: &'static str,
    /// How to get it.
    pub(super) install: &'static str,
    /// What the times of its points are.
    pub(super) times: Times,
    /// Its version; `None` if it is not there.
    pub(super) version: fn() -> Option<String>,
    /// A fresh store, all of whose files are in an empty folder, not started.
    pub(super) open: OpenStore,
}

/// What the times of a store's points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// Those that messages have.
    Message,
    /// Those of their arrival, so the only total that can be known is that of everything.
    Arrival,
    /// Those at which it reads a counter, and why other trials than live ones cannot be made.
    Reading(&'static str),
}

/// All stores, in the order of the page.
pub(super) static STORES: [StoreKind; 16] = [
    ours::SQLITE,
    ours::POSTGRES,
    ours::DATAGRAMS,
    rrdtool::FILES,
    rrdtool::CACHED,
    carbon::CARBON,
    carbon::GO_CARBON,
    statsd::STATSD,
    influx::INFLUX,
    prometheus::PROMETHEUS,
    scraped::SCRAPED,
    prometheus::VICTORIA,
    questdb::QUESTDB,
    upsert::UPSERT,
    embedded::DUCKDB,
    embedded::CHDB,
];

/// The pause after each datagram: a socket holds only so many.
const DATAGRAM_PAUSE: Duration = Duration::from_micros(200);

/// This time, in seconds since 1970.
pub(super) fn now_s() -> Result<i64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    Ok(now.as_secs() as i64)
}

/// The hours around this time, in which everything of a trial has arrived.
fn around_now(asked: AskedTime) -> Result<AskedTime, String> {
    let now_s = now_s()?;
    Ok(AskedTime { from_s: now_s - HOUR_S, to_s: now_s + HOUR_S, ..asked })
}

/// The name of a series in every store.
fn name(series: usize) -> String {
    format!("orders{series}")
}

/// What a program prints first about its version, without words around it.
fn version_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}
