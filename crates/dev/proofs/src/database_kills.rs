//! The proof that a daemon whose PostgreSQL server is killed at random moments goes on receiving,
//! and that everything it acknowledged is stored once.
//!
//! Senders write over HTTP, Graphite over TCP, and Graphite over a Unix socket, to series of which
//! new ones begin all the time. Over HTTP a count is acknowledged by its answer, over streams by
//! the end of the connection. The daemon is never restarted, so everything it was sent is
//! acknowledged in the end.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use base::{Bytes, Seed};
use rand::RngExt as _;
use throwaway::{NoServer, Throwaway};

use crate::counts::{Count, Ledger, Tally, compare};
use crate::daemon::{Daemon, now_us, over_tcp, over_unix};
use crate::restarts::request;

/// Slots of a series, so few that new series begin while the server is gone.
const SLOTS: i64 = 200;

/// Lines of a connection.
const LINES: usize = 10;

/// Pause of a sender between two sendings: a rate that the server can write beside its restarts.
const PACE: Duration = Duration::from_millis(2);

/// The longest time that the server lives, and stays away: it also lives long enough for batches.
const LIFE_MS: u64 = 1_500;
const AWAY_MS: u64 = 400;

/// The daemon's database.
const DATABASE: &str = "outages";

/// Result of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// What the store has.
    pub tally: Tally,
    /// Counts that were sent and acknowledged while the server was not running.
    pub without: u64,
    /// The sum of all counts, as SQL has it.
    pub sum: f64,
    /// The daemon's peak memory.
    pub peak: Bytes,
}

impl Proof {
    /// Whether everything was acknowledged and is stored once, also what was sent without a server.
    pub fn holds(&self) -> bool {
        let Tally { acknowledged, wrong, unanswered, foreign, sum, .. } = self.tally;
        let is_complete = acknowledged > 0 && wrong == 0 && unanswered == 0 && foreign == 0;
        is_complete && self.without > 0 && self.sum == sum as f64
    }
}

/// What all senders know.
#[derive(Debug, Default)]
struct SharedState {
    is_gone: AtomicBool,
    is_over: AtomicBool,
    without: AtomicU64,
}

/// A sender: sends these counts, and returns whether they were acknowledged.
type Send<'s> = Box<dyn FnMut(&[Count], &Ledger) -> bool + std::marker::Send + 's>;

/// Kills the server of a daemon's database `kills` times. `start` gets the database's URL, and the
/// options of the sockets.
///
/// # Errors
/// What prevented the proof, in words.
pub fn prove(
    folder: &Path,
    seed: Seed,
    kills: u64,
    start: impl FnOnce(&str, &[&str]) -> Command,
) -> Result<Proof, String> {
    let words = |error: NoServer| error.to_string();
    let mut server = Throwaway::start(&[]).map_err(words)?;
    let place = server.database(DATABASE).map_err(words)?;
    let mut random = seed.rng("database kills");
    let unix = folder.join("lines.sock");
    let address = format!("unix:{}", unix.display());
    let sockets = [
        &["--http", "127.0.0.1:0", "--no-statsd", "--no-pickle"][..],
        &["--graphite", "tcp://127.0.0.1:0", "--graphite", &address],
    ];
    let daemon = Daemon::start(start(&place, &sockets.concat()), 3)?;
    let (http, tcp) = (daemon.at("tcp://", 0), daemon.at("tcp://", 1));
    let ends: [(&str, usize, Send<'_>); 4] = [
        ("outage.http", 1, over_http(&http)),
        ("outage.more", 1, over_http(&http)),
        (
            "outage.tcp",
            LINES,
            Box::new(|counts, ledger| over_tcp(&tcp, &lines(counts, ledger)).unwrap_or(false)),
        ),
        (
            "outage.unix",
            LINES,
            Box::new(|counts, ledger| over_unix(&unix, &lines(counts, ledger)).unwrap_or(false)),
        ),
    ];
    let shared = SharedState::default();
    let (done, ledgers) = thread::scope(|scope| {
        let senders = ends.map(|(name, lines, send)| {
            let shared = &shared;
            scope.spawn(move || keep_sending(name, lines, send, shared))
        });
        let mut pause = |ms: u64| thread::sleep(Duration::from_millis(random.random_range(0..ms)));
        let mut kill = || {
            // The random moments of the kill and of the restart.
            pause(LIFE_MS);
            server.kill();
            shared.is_gone.store(true, Ordering::SeqCst);
            pause(AWAY_MS);
            shared.is_gone.store(false, Ordering::SeqCst);
            server.resume().map_err(words)
        };
        let done = (0..kills).try_for_each(|_| kill());
        shared.is_over.store(true, Ordering::SeqCst);
        (done, senders.map(|sender| sender.join()))
    });
    done?;
    let peak = daemon.peak_memory()?;
    daemon.stop()?;
    let ledgers: Result<Vec<Ledger>, _> = ledgers.into_iter().collect();
    let tally = compare(&place, &ledgers.map_err(|_| "a sender panicked")?)?;
    // Counts are totals, points are the latest values of their slots.
    let sum = server.number(
        DATABASE,
        "SELECT (SELECT coalesce(sum(total), 0) FROM every_10s \
         WHERE measurement IN ('outage.http', 'outage.more')) \
         + (SELECT coalesce(sum(last_val), 0) FROM stored_10s JOIN series s ON s.id = series \
         WHERE s.measurement IN ('outage.tcp', 'outage.unix') AND n > 0)",
    );
    let sum = sum.map_err(words)?;
    let without = shared.without.into_inner();
    Ok(Proof { kills, tally, without, sum, peak })
}

/// Sends counts until the last kill.
fn keep_sending(name: &str, lines: usize, mut send: Send<'_>, shared: &SharedState) -> Ledger {
    let mut ledger = Ledger::new(name, SLOTS, now_us() - 600_000_000);
    while !shared.is_over.load(Ordering::SeqCst) {
        let counts: Vec<Count> = (0..lines).map(|_| ledger.count()).collect();
        let was_gone = shared.is_gone.load(Ordering::SeqCst);
        let is_acknowledged = send(&counts, &ledger);
        ledger.note_all(&counts, is_acknowledged);
        if is_acknowledged && was_gone && shared.is_gone.load(Ordering::SeqCst) {
            shared.without.fetch_add(counts.len() as u64, Ordering::Relaxed);
        }
        thread::sleep(PACE);
    }
    ledger
}

fn over_http(at: &str) -> Send<'_> {
    let mut kept: Option<TcpStream> = None;
    Box::new(move |counts, ledger| {
        let body: String = counts.iter().map(|count| count.influx(ledger)).collect();
        let stream = kept.take().map_or_else(|| TcpStream::connect(at), Ok);
        let answer = stream.and_then(|mut stream| Ok((request(&mut stream, &body)?, stream)));
        let is_acknowledged = matches!(answer, Ok(((true, _), _)));
        kept = answer.ok().filter(|((_, stays), _)| *stays).map(|(_, stream)| stream);
        is_acknowledged
    })
}

/// The lines of Graphite plaintext.
fn lines(counts: &[Count], ledger: &Ledger) -> Vec<u8> {
    counts.iter().flat_map(|count| count.graphite(ledger).into_bytes()).collect()
}
