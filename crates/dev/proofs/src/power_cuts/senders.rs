//! What is sent to the daemon, and what of it was acknowledged.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::trace::Call;
use crate::counts::{Count, Ledger, compare};
use crate::daemon::{Daemon, now_us, over_tcp};
use crate::restarts::ask;
use crate::statsd_kills::total;

/// Slots of a series, so that all are younger than a day.
const SLOTS: i64 = 6_000;

/// Pause before a request that was refused is sent again.
const PAUSE: Duration = Duration::from_millis(5);

/// Bytes that lengthen a request, so that the journal needs several files.
const FILLING: usize = 200;

/// How a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Influx lines over HTTP, with an `Idempotency-Key`.
    Keyed,
    /// Influx lines over HTTP.
    Plain,
    /// Graphite lines over TCP, acknowledged by the end of the connection.
    Graphite,
    /// StatsD lines over TCP, likewise.
    Statsd,
}

const WAYS: [Way; 4] = [Way::Keyed, Way::Plain, Way::Graphite, Way::Statsd];

impl Way {
    /// The measurement, by which a message is recognised.
    fn name(self) -> &'static str {
        match self {
            Way::Keyed => "cuts.keyed",
            Way::Plain => "cuts.plain",
            Way::Graphite => "cuts.graphite",
            Way::Statsd => "cuts.statsd",
        }
    }
}

/// The addresses of a daemon.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    http: String,
    graphite: String,
    statsd: String,
}

impl Addresses {
    pub(super) fn of(daemon: &Daemon) -> Addresses {
        let at = |nth| daemon.at("tcp://", nth);
        Addresses { http: at(0), graphite: at(1), statsd: at(2) }
    }
}

/// A StatsD count of one life of the daemon.
#[derive(Clone, Debug)]
struct Total {
    name: String,
    acknowledged: i64,
    unanswered: Option<i64>,
}

/// A sender. It sends one count after the other, each once the one before is acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    way: Way,
    /// The counts of earlier lives.
    ledger: Ledger,
    /// The same of StatsD.
    totals: Vec<Total>,
    /// The last acknowledged count, and the one that was not answered.
    last: Option<Count>,
    open: Option<Count>,
    /// The counts of this life.
    sent: Vec<Count>,
}

/// One sender for each way.
pub(super) fn senders() -> Vec<Sender> {
    // The slots end in the past, so that the last one can be read.
    let end_us = now_us() - 600_000_000;
    let sender = |way: Way| Sender {
        way,
        ledger: Ledger::new(way.name(), SLOTS, end_us),
        totals: Vec::new(),
        last: None,
        open: None,
        sent: Vec::new(),
    };
    WAYS.map(sender).to_vec()
}

impl Sender {
    /// Sends so many counts.
    ///
    /// # Errors
    /// What was not acknowledged, in words.
    pub(super) fn send(&mut self, at: &Addresses, counts: usize) -> Result<(), String> {
        for _ in 0..counts {
            let count = self.ledger.count();
            self.sent.push(count);
            let words = |error: io::Error| format!("{} is not answered: {error}", self.way.name());
            while !self.deliver(at, &count).map_err(words)? {
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Sends a count; false if it is to be sent again later.
    fn deliver(&self, at: &Addresses, count: &Count) -> io::Result<bool> {
        match self.way {
            Way::Graphite => over_tcp(&at.graphite, count.graphite(&self.ledger).as_bytes()),
            Way::Statsd => {
                let line = format!("{}:{}|c\n", self.total(), count.value());
                over_tcp(&at.statsd, line.as_bytes())
            }
            Way::Keyed | Way::Plain => {
                let answer = self.request(at, count)?;
                let is_refused = answer.starts_with("http/1.1 503 ");
                match answer.starts_with("http/1.1 204 ") || is_refused {
                    true => Ok(!is_refused),
                    false => Err(io::Error::other(answer)),
                }
            }
        }
    }

    /// The answer to a count over HTTP, in lower case.
    fn request(&self, at: &Addresses, count: &Count) -> io::Result<String> {
        let body = format!("{}# {}\n", count.influx(&self.ledger), "x".repeat(FILLING));
        let key = match self.way {
            Way::Keyed => format!("Idempotency-Key: {}\r\n", count.key()),
            _ => String::new(),
        };
        ask(&mut TcpStream::connect(&at.http)?, &key, &body)
    }

    /// The name of the StatsD count of this life.
    fn total(&self) -> String {
        format!("{}.l{}", self.way.name(), self.totals.len())
    }

    /// Number of counts that were sent in this life.
    pub(super) fn sent(&self) -> usize {
        self.sent.len()
    }

    /// The sender after this life, of which so many counts were acknowledged. The next one may have
    /// been received, those after it were not sent.
    pub(super) fn after(&self, acknowledged: usize) -> Sender {
        let mut after = self.clone();
        let sent = std::mem::take(&mut after.sent);
        let (known, rest) = sent.split_at(acknowledged.min(sent.len()));
        after.open = rest.first().copied();
        after.last = known.last().copied().or(self.last);
        if self.way == Way::Statsd {
            let acknowledged = known.iter().map(Count::value).sum();
            let unanswered = after.open.map(|count| count.value());
            after.totals.push(Total { name: self.total(), acknowledged, unanswered });
        } else {
            after.ledger.note_all(known, true);
            after.ledger.note_all(after.open.as_slice(), false);
        }
        after
    }

    /// Sends again what has a key: what was acknowledged is known as a repetition, and what was not
    /// answered counts once, whether or not it had been received.
    ///
    /// # Errors
    /// A wrong answer, or none, in words.
    pub(super) fn repeat(&mut self, at: &Addresses) -> Result<(), String> {
        if self.way != Way::Keyed {
            return Ok(());
        }
        for (count, is_known) in [(self.last, true), (self.open, false)] {
            let Some(count) = count else { continue };
            let answer = self.request(at, &count).map_err(|error| error.to_string())?;
            let is_repeated = answer.contains("\r\nidempotent-replayed: true\r\n");
            if !answer.starts_with("http/1.1 204 ") || is_known && !is_repeated {
                return Err(format!("a repeated request was answered: {answer}"));
            }
            self.ledger.note(&count, true);
        }
        Ok(())
    }

    /// Compares what was acknowledged with a record.
    ///
    /// # Errors
    /// What is missing or too much, in words.
    pub(super) fn compare(&self, place: &str) -> Result<(), String> {
        let tally = compare(place, [&self.ledger])?;
        if tally.wrong + tally.foreign > 0 {
            return Err(format!("{}: {tally:?}", self.way.name()));
        }
        let mut store = store::open_read_only(place).map_err(|error| error.to_string())?;
        for Total { name, acknowledged, unanswered } in &self.totals {
            // A journal so small cuts windows into parts, each of which covers the whole slot.
            let (found, _covered) = total(&mut *store, name, "count")?;
            let possible = [*acknowledged, acknowledged + unanswered.unwrap_or(0)];
            if !possible.iter().any(|sum| found == *sum as f64) {
                return Err(format!(
                    "{name}: {found}; acknowledged were {acknowledged}, not answered {unanswered:?}"
                ));
            }
        }
        Ok(())
    }
}

/// How many counts of each sender were acknowledged, by the calls of the daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct AcknowledgedCounts {
    /// What arrived on each connection and was not answered.
    open: HashMap<String, Vec<u8>>,
    pub(super) counts: [usize; WAYS.len()],
}

impl AcknowledgedCounts {
    pub(super) fn see(&mut self, call: &Call) {
        match call {
            Call::Accept(socket) => _ = self.open.remove(socket),
            Call::Receive(socket, bytes) => {
                self.open.entry(socket.clone()).or_default().extend(bytes);
            }
            Call::Answer(socket, answer) if answer.starts_with(b"HTTP/1.1 ") => {
                let message = self.open.remove(socket);
                if answer.starts_with(b"HTTP/1.1 204 ") {
                    self.count(message);
                }
            }
            Call::Close(socket) => {
                let message = self.open.remove(socket);
                self.count(message);
            }
            _ => {}
        }
    }

    fn count(&mut self, message: Option<Vec<u8>>) {
        let message = String::from_utf8_lossy(&message.unwrap_or_default()).into_owned();
        if let Some(way) = WAYS.iter().position(|way| message.contains(way.name())) {
            self.counts[way] += 1;
        }
    }
}
