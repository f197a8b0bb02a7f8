//! The proof that a daemon which is killed or replaced at random moments keeps every acknowledged
//! StatsD count once, though its windows are in memory.
//!
//! Senders connect, send a few lines, close their side, and wait for the end of the other: then the
//! lines are acknowledged. Connection i of a life sends i, so the total tells which ones are in it.
//! The same series also receive counts in every life, a sampled count, whose fractions are carried
//! from window to window, and timings.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::Seed;
use rand::RngExt as _;
use rustix::process::Signal;
use series::Step;
use store::{Selector, Store};

use crate::daemon::{Daemon, over_tcp};

/// Number of senders.
const SENDERS: usize = 3;

/// The longest time until the next kill or restart.
const LIFE_MS: u64 = 500;

/// Length of a window in seconds, so that windows close all the time.
const STEP_S: i64 = 1;

/// The sample rate of a count, which makes 3⅓ of each.
const RATE: f64 = 0.3;

/// Result of the proof.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// Number of restarts by a successor.
    pub replaced: u64,
    /// Acknowledged connections.
    pub acknowledged: u64,
    /// Connections that were not acknowledged.
    pub unanswered: u64,
    /// Of these, connections in the store.
    pub stored: u64,
    /// Totals that are not those of the acknowledged connections, in words.
    pub wrong: Vec<String>,
}

impl Proof {
    /// Whether nothing that was acknowledged is missing, and nothing is doubled.
    pub fn holds(&self) -> bool {
        self.acknowledged > 0 && self.kills > 0 && self.replaced > 0 && self.wrong.is_empty()
    }
}

/// What a sender did in the life of a daemon.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Acknowledged connections: they sent 1, 2, 3 …
    acknowledged: u64,
    /// Whether the last one was not.
    unanswered: bool,
}

/// Kills a daemon `kills` times, and replaces it as often, in random order. `start` gets the
/// options of the sockets and the step.
///
/// # Errors
/// What prevented the proof, in words.
pub fn prove(
    place: &str,
    seed: Seed,
    kills: u64,
    start: impl Fn(&[&str]) -> Command,
) -> Result<Proof, String> {
    let mut random = seed.rng("statsd kills");
    let options = [
        &["--http", "127.0.0.1:0", "--no-pickle", "--step", "1s"][..],
        &["--graphite", "tcp://127.0.0.1:0", "--statsd", "tcp://127.0.0.1:0"],
    ]
    .concat();
    let mut proof = Proof { kills, ..Proof::default() };
    let mut lives = Vec::new();
    for life in 0..kills {
        let mut daemon = Daemon::start(start(&options), 3)?;
        let (graphite, at) = (daemon.at("tcp://", 1), daemon.at("tcp://", 2));
        let replacements: u32 = random.random_range(0..=2);
        let pauses: Vec<u64> =
            (0..=replacements).map(|_| random.random_range(0..LIFE_MS)).collect();
        let is_over = AtomicBool::new(false);
        let (done, senders) = thread::scope(|scope| {
            let (graphite, at, is_over) = (graphite.as_str(), at.as_str(), &is_over);
            // Windows are also closed, and written, after lines of other formats.
            scope.spawn(move || {
                let line = "kills.other.a 1 -1\nkills.other.b 2 -1\n";
                while !is_over.load(Ordering::Relaxed)
                    && matches!(over_tcp(graphite, line.as_bytes()), Ok(true))
                {}
            });
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| scope.spawn(move || send(at, sender, life, is_over)))
                .collect();
            let mut done = Ok(());
            for (place, pause) in pauses.iter().enumerate() {
                if place > 0 && done.is_ok() {
                    done = daemon.replace();
                }
                // The random moment of the next restart, or of the kill.
                thread::sleep(Duration::from_millis(*pause));
            }
            let killed = daemon.signal(Signal::KILL);
            is_over.store(true, Ordering::Relaxed);
            let senders: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
            (done.and(killed), senders)
        });
        done?;
        proof.replaced += u64::from(replacements);
        for sender in senders {
            lives.push((life, sender.map_err(|_| "a sender panicked")?));
        }
    }
    Daemon::start(start(&options), 3)?.stop()?;
    compare(place, &lives, &mut proof)?;
    Ok(proof)
}

/// Sends until a connection is not acknowledged.
fn send(at: &str, sender: usize, life: u64, is_over: &AtomicBool) -> Life {
    let mut sent = Life::default();
    loop {
        let value = sent.acknowledged + 1;
        let lines = format!(
            "kills.l{life}.s{sender}:{value}|c\nkills.all:1|c\nkills.sampled:1|c|@{RATE}\n\
             kills.timed:{value}:{value}|ms\nkills.gauge:+1|g\n"
        );
        match over_tcp(at, lines.as_bytes()) {
            Ok(true) => sent.acknowledged += 1,
            // While a successor starts, nothing is refused; so the daemon was killed.
            _ => {
                sent.unanswered = true;
                return sent;
            }
        }
        if is_over.load(Ordering::Relaxed) {
            return sent;
        }
    }
}

/// The total of a field of a measurement, and the time that it covers in units of the step.
pub(crate) fn total(
    store: &mut dyn Store,
    measurement: &str,
    field: &str,
) -> Result<(f64, f64), String> {
    let words = |error: store::StoreError| error.to_string();
    let step = Step::from_secs(STEP_S).ok_or("no step")?;
    let selector = Selector { measurement: Some(measurement.to_owned()), ..Selector::default() };
    let found = store.find(&selector).map_err(words)?;
    let of_field = found.iter().filter(|series| series.identity.field == field);
    let ids: Vec<i64> = of_field.map(|series| series.id).collect();
    let slots = store.slots(step, &ids, i64::MIN, i64::MAX).map_err(words)?;
    let covered_us: i64 = slots.iter().map(|(_, slot)| slot.covered_us).max().unwrap_or_default();
    let total = slots.iter().map(|(_, slot)| slot.integral.as_f64()).sum();
    Ok((total, covered_us as f64 / step.us() as f64))
}

fn compare(place: &str, lives: &[(u64, Life)], proof: &mut Proof) -> Result<(), String> {
    let words = |error: store::StoreError| error.to_string();
    let mut store = store::open_read_only(place).map_err(words)?;
    for (place, (life, sent)) in lives.iter().enumerate() {
        let Life { acknowledged, unanswered } = *sent;
        proof.acknowledged += acknowledged;
        proof.unanswered += u64::from(unanswered);
        let name = format!("kills.l{life}.s{}", place % SENDERS);
        let (found, _) = total(&mut *store, &name, "count")?;
        let sum = |n: u64| (n * (n + 1) / 2) as f64;
        if unanswered && found == sum(acknowledged + 1) {
            proof.stored += 1;
        } else if found != sum(acknowledged) {
            proof.wrong.push(format!("{name}: {found}, and not {}", sum(acknowledged)));
        }
    }
    // A connection is in the record as a whole, so from here on the number is known.
    let connections = (proof.acknowledged + proof.stored) as f64;
    let mut expect = |name: &str, field: &str, expected: f64, tolerance: f64| {
        let (found, covered) = total(&mut *store, name, field)?;
        if (found - expected).abs() > tolerance {
            proof.wrong.push(format!("{name}: {found}, and not {expected}"));
        }
        // A window that was written twice would cover its time twice.
        if covered > 1.0 {
            proof.wrong.push(format!("{name}: a slot is covered {covered} times"));
        }
        Ok::<(), String>(())
    };
    expect("kills.all", "count", connections, 0.0)?;
    expect("kills.sampled", "count", connections / RATE, 0.5)?;
    expect("kills.timed", "n", 2.0 * connections, 0.0)?;
    expect("kills.timed", "mean", 0.0, f64::INFINITY)?;
    let gauge = Selector { measurement: Some("kills.gauge".to_owned()), ..Selector::default() };
    let ids: Vec<i64> = store.find(&gauge).map_err(words)?.iter().map(|series| series.id).collect();
    let step = Step::from_secs(STEP_S).ok_or("no step")?;
    let slots = store.slots(step, &ids, i64::MIN, i64::MAX).map_err(words)?;
    let last = slots.iter().filter_map(|(_, slot)| slot.last()).max_by_key(|(at_us, _)| *at_us);
    let last = last.map_or(0.0, |(_, value)| value);
    if last != connections {
        proof.wrong.push(format!("kills.gauge: {last}, and not {connections}"));
    }
    Ok(())
}
