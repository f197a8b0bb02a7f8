//! The proof that a daemon which is killed at random moments keeps every acknowledged count once.
//!
//! Senders write counts over HTTP, each for a slot of its own, until the daemon is killed. A count
//! that was answered with 204 must be in its slot, exactly; the one that was not answered is there,
//! or not.

use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use base::Seed;
use rand::RngExt as _;
use rustix::process::Signal;

use crate::counts::{Ledger, Tally, compare};
use crate::daemon::{Daemon, now_us};
use crate::restarts::request;

/// Number of senders.
const SENDERS: usize = 4;

/// Slots of a series, so that all are younger than a day.
const SLOTS: i64 = 6_000;

/// The longest time that a daemon lives.
const LIFE_MS: u64 = 400;

/// Result of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// What the store has.
    pub tally: Tally,
}

impl Proof {
    /// Whether nothing that was acknowledged is missing, and nothing is doubled.
    pub fn holds(&self) -> bool {
        let Tally { acknowledged, wrong, foreign, .. } = self.tally;
        acknowledged > 0 && wrong == 0 && foreign == 0
    }
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
    // The slots end in the past, so that the last one can be read.
    let end_us = now_us() - 600_000_000;
    let mut ledgers: Vec<Ledger> = (0..SENDERS)
        .map(|sender| Ledger::new(&format!("kills.s{sender}"), SLOTS, end_us))
        .collect();
    let sockets = ["--http", "127.0.0.1:0", "--no-graphite", "--no-statsd", "--no-pickle"];
    for _ in 0..kills {
        let daemon = Daemon::start(start(&sockets), 1)?;
        let at = daemon.at("tcp://", 0);
        let life = Duration::from_millis(random.random_range(0..LIFE_MS));
        thread::scope(|scope| {
            for ledger in &mut ledgers {
                let at = at.as_str();
                scope.spawn(move || send(at, ledger));
            }
            // The random moment of the kill.
            thread::sleep(life);
            daemon.signal(Signal::KILL)
        })?;
    }
    Daemon::start(start(&sockets), 1)?.stop()?;
    Ok(Proof { kills, tally: compare(place, &ledgers)? })
}

/// Sends counts until one is not answered.
fn send(at: &str, ledger: &mut Ledger) {
    let Ok(mut stream) = TcpStream::connect(at) else { return };
    loop {
        let count = ledger.count();
        let answer = request(&mut stream, &count.influx(ledger));
        let is_acknowledged = matches!(answer, Ok((true, _)));
        ledger.note(&count, is_acknowledged);
        if !is_acknowledged {
            return;
        }
    }
}
