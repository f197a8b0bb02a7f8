//! The proof that a daemon which is killed at random moments keeps every acknowledged count once.
//!
//! Senders write counts over HTTP, each for a slot of its own, until the daemon is killed. A count
//! that was answered with 204 must be in its slot, exactly; the one that was not answered is there,
//! or not.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Seed;
use rand::RngExt as _;
use rustix::process::Signal;
use series::{SECOND_US, Step};
use store::Selector;

use crate::daemon::Daemon;
use crate::restarts::request;

/// Number of senders.
const SENDERS: usize = 4;

/// Slots of a series, so that all are younger than a day.
const SLOTS: i64 = 6_000;

/// Length of a slot in seconds.
const STEP_S: i64 = 10;

/// The longest time that a daemon lives.
const LIFE_MS: u64 = 400;

/// Result of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// Acknowledged counts.
    pub acknowledged: u64,
    /// Of these, counts that are missing or wrong.
    pub wrong: u64,
    /// Counts that were not answered.
    pub unanswered: u64,
    /// Of these, counts in the store.
    pub stored: u64,
    /// Slots that were never sent, and slots whose count is not the one sent.
    pub foreign: u64,
}

impl Proof {
    /// Whether nothing that was acknowledged is missing, and nothing is doubled.
    pub fn holds(&self) -> bool {
        self.acknowledged > 0 && self.wrong == 0 && self.foreign == 0
    }
}

/// A count, by the number of its series and its slot.
type Counts = BTreeMap<(usize, i64, i64), i64>;

#[derive(Debug, Default)]
struct Ledger {
    next: i64,
    acknowledged: Counts,
    unanswered: Counts,
}

/// Kills a daemon `kills` times. `start` gets the options of the sockets.
///
/// # Errors
/// What prevented the proof, in words.
pub fn prove(
    place: &str,
    seed: Seed,
    kills: u64,
    start: impl Fn(&[&str]) -> Command,
) -> Result<Proof, String> {
    let mut random = seed.rng("kills");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let start_s = (now.as_secs() as i64 - SLOTS * STEP_S - 600) / STEP_S * STEP_S;
    let mut ledgers: Vec<Ledger> = (0..SENDERS).map(|_| Ledger::default()).collect();
    let sockets = ["--http", "127.0.0.1:0", "--no-graphite", "--no-statsd", "--no-pickle"];
    for _ in 0..kills {
        let daemon = Daemon::start(start(&sockets), 1)?;
        let at = daemon.at("tcp://", 0);
        let life = Duration::from_millis(random.random_range(0..LIFE_MS));
        thread::scope(|scope| {
            for (sender, ledger) in ledgers.iter_mut().enumerate() {
                let at = at.as_str();
                scope.spawn(move || send(at, sender, start_s, ledger));
            }
            // The random moment of the kill.
            thread::sleep(life);
            daemon.signal(Signal::KILL)
        })?;
    }
    Daemon::start(start(&sockets), 1)?.stop()?;
    compare(place, &ledgers, kills)
}

/// Sends counts until one is not answered.
fn send(at: &str, sender: usize, start_s: i64, ledger: &mut Ledger) {
    let Ok(mut stream) = TcpStream::connect(at) else { return };
    loop {
        let number = ledger.next;
        ledger.next += 1;
        let (part, slot) = (number / SLOTS, number % SLOTS);
        let count = number % 997 + 1;
        let (from, to) = (start_s + slot * STEP_S, start_s + (slot + 1) * STEP_S);
        let line = format!(
            "kills,sender={sender},part={part} n={count}i,_start={from}000i,_end={to}000i\n"
        );
        let key = (sender, part, from * SECOND_US);
        match request(&mut stream, &line) {
            Ok((true, _)) => ledger.acknowledged.insert(key, count),
            _ => {
                ledger.unanswered.insert(key, count);
                return;
            }
        };
    }
}

fn compare(place: &str, ledgers: &[Ledger], kills: u64) -> Result<Proof, String> {
    let mut stored = Counts::new();
    let words = |error: store::StoreError| error.to_string();
    let mut store = store::open_read_only(place).map_err(words)?;
    let step = Step::from_secs(STEP_S).ok_or("no step")?;
    let selector = Selector { measurement: Some("kills".to_owned()), ..Selector::default() };
    for series in store.find(&selector).map_err(words)? {
        let number = |tag: &str| series.identity.tags.get(tag).and_then(|tag| tag.parse().ok());
        let (Some(sender), Some(part)) = (number("sender"), number("part")) else {
            return Err(format!("{} was never sent", series.identity));
        };
        let slots = store.slots(step, &[series.id], i64::MIN, i64::MAX).map_err(words)?;
        for (key, slot) in slots {
            let count = slot.integral.as_f64() as i64;
            stored.insert((sender as usize, part, key.slot_us), count);
        }
    }
    let mut proof = Proof { kills, ..Proof::default() };
    for ledger in ledgers {
        proof.acknowledged += ledger.acknowledged.len() as u64;
        proof.unanswered += ledger.unanswered.len() as u64;
        for (key, count) in &ledger.acknowledged {
            proof.wrong += u64::from(stored.remove(key) != Some(*count));
        }
        for (key, count) in &ledger.unanswered {
            match stored.remove(key) {
                None => {}
                Some(found) if found == *count => proof.stored += 1,
                Some(_) => proof.foreign += 1,
            }
        }
    }
    proof.foreign += stored.len() as u64;
    Ok(proof)
}
