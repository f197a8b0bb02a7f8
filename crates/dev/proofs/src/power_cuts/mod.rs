//! The proof that a power cut loses nothing that a daemon has acknowledged, on a disk that keeps only
//! what it must.
//!
//! The system calls of a daemon under load are recorded. At each moment they tell what was
//! acknowledged, because the answer is a call too, and which states of its files a power cut may
//! leave. A daemon is started on such states: what was acknowledged is in its record once, what
//! was not answered at most once.
//!
//! The cuts are those just before a sync ends. What may be left then includes what may be left at any
//! moment since the sync before, and no moment since then has more that is acknowledged.
//!
//! A recording has several lives of the daemon. One may begin where the one before was killed, so
//! that changes which are not durable are carried over, or on a state that a cut has left.
//!
//! Each kind of sync is needed: a recording [without](Recording::without) it has states that lose
//! something, or on which no daemon starts.

mod disk;
mod recording;
mod senders;
mod trace;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use base::Seed;
use rand::RngExt as _;

pub use recording::{Recording, Size};
pub use trace::is_available;

use crate::daemon::Daemon;
use disk::{Choices, Disk, State};
use senders::{Addresses, Sender};
use trace::Call;

/// Where the record and the journal are, in folders that the daemon creates.
const RECORD: &str = "data/record.sqlite";
const JOURNAL: &str = "log/journal";

/// Windows that close, batches, and files of the journal that are begun and released all the time.
const OPTIONS: &str = "serve --http 127.0.0.1:0 --graphite tcp://127.0.0.1:0 \
                       --statsd tcp://127.0.0.1:0 --no-pickle --step 1s --write-each 20ms";

/// The journal's limit while calls are recorded, and on a state, where a journal that a cut has left
/// full must not refuse what is repeated at once.
const SMALL: &str = "16KiB";
const ROOMY: &str = "1MiB";

/// Daemons that are started at once: they wait for the disk more than they compute.
const WORKERS: usize = 4;

/// States of a cut that are tried to find what a sync is needed for.
const TRIED: usize = 8;

/// The kinds of syncs that a daemon makes beside those of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// Of records, before they are acknowledged.
    Records,
    /// Of a file's header, before it gets its name.
    Header,
    /// Of the journal's folder, after a file got its name.
    Name,
    /// Of the journal's folder, after a file was removed.
    Removal,
    /// Of the journal's folder, when it is opened.
    Opening,
    /// Of the folders in which those of record and journal were created.
    Folders,
}

impl Omission {
    /// All of them.
    pub const ALL: [Omission; 6] = [
        Omission::Records,
        Omission::Header,
        Omission::Name,
        Omission::Removal,
        Omission::Opening,
        Omission::Folders,
    ];

    /// The kind of a sync, after the latest change of a name in the journal's folder that none has
    /// followed yet; `None` for those of SQLite.
    fn of(path: &Path, naming: Option<&Call>) -> Option<Omission> {
        let journal = Path::new(JOURNAL);
        if path == journal {
            return Some(match naming {
                Some(Call::Rename { .. }) => Omission::Name,
                Some(Call::Remove(_)) => Omission::Removal,
                _ => Omission::Opening,
            });
        }
        if path.starts_with(journal) {
            let is_journal = path.extension().is_some_and(|ending| ending == "journal");
            return Some(if is_journal { Omission::Records } else { Omission::Header });
        }
        journal.ancestors().any(|above| above == path).then_some(Omission::Folders)
    }
}

/// Result of the proof.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// Recorded calls.
    pub calls: usize,
    /// Counts that were acknowledged.
    pub acknowledged: usize,
    /// Moments before the end of a sync.
    pub cuts: usize,
    /// Of these, moments whose states were made.
    pub made: usize,
    /// Of these, moments of which every state was made.
    pub exhausted: usize,
    /// Daemons that were started on a state.
    pub states: usize,
    /// What was lost, doubled, or prevented the start, in words.
    pub wrong: Vec<String>,
}

impl Proof {
    /// Whether every daemon started, and nothing was lost or doubled.
    pub fn holds(&self) -> bool {
        self.states > 0 && self.acknowledged > 0 && self.wrong.is_empty()
    }
}

/// A state, and what was acknowledged before it.
struct Job {
    cut: usize,
    state: State,
    senders: Vec<Sender>,
}

impl Recording {
    /// Starts daemons on what at most `cuts` power cuts may leave: on all states of a cut, if there
    /// are at most `each`, otherwise on as many, drawn by the seed.
    ///
    /// # Errors
    /// What prevented it, in words.
    pub fn prove(
        &self,
        program: &Path,
        seed: Seed,
        cuts: usize,
        each: usize,
    ) -> Result<Proof, String> {
        let mut random = seed.rng("states");
        let (calls, acknowledged) = (self.calls(), self.acknowledged());
        let mut proof = Proof { calls, acknowledged, ..Proof::default() };
        self.cuts(None, |_, _| {
            proof.cuts += 1;
            Ok(true)
        })?;
        let mut chosen: BTreeSet<usize> = (0..proof.cuts).collect();
        while chosen.len() > cuts.max(1) {
            chosen.remove(&random.random_range(0..proof.cuts));
        }
        let mut cut = 0;
        let wrong = check_all(program, |check| {
            self.cuts(None, |disk, senders| {
                cut += 1;
                if !chosen.contains(&(cut - 1)) {
                    return Ok(true);
                }
                let mut states = states(disk, each + 1);
                if states.len() > each {
                    // Nothing survives in the first one.
                    states.truncate(1);
                    while states.len() < each {
                        let drawn = seed.derive("state", (cut * each + states.len()) as u64);
                        let mut choices = Choices::drawn(drawn.rng("choices"));
                        states.push(disk.after_cut(&mut choices));
                    }
                } else {
                    proof.exhausted += 1;
                }
                proof.made += 1;
                proof.states += states.len();
                let senders = senders();
                let mut states = states.into_iter();
                Ok(states.all(|state| check(Job { cut, state, senders: senders.clone() })))
            })
        })?;
        Ok(Proof { wrong, ..proof })
    }

    /// What goes wrong if a kind of sync is left out; `None` if nothing was found.
    ///
    /// # Errors
    /// What prevented it, in words.
    pub fn without(&self, program: &Path, omission: Omission) -> Result<Option<String>, String> {
        let mut cut = 0;
        let wrong = check_all(program, |check| {
            self.cuts(Some(omission), |disk, senders| {
                cut += 1;
                let senders = senders();
                let mut states = states(disk, TRIED).into_iter();
                Ok(states.all(|state| check(Job { cut, state, senders: senders.clone() })))
            })
        })?;
        Ok(wrong.into_iter().next())
    }
}

/// The first states that a cut may leave, at most so many.
fn states(disk: &Disk, most: usize) -> Vec<State> {
    let mut choices = Choices::first();
    let mut states = vec![disk.after_cut(&mut choices)];
    while states.len() < most && choices.advance() {
        states.push(disk.after_cut(&mut choices));
    }
    states
}

fn command(program: &Path, folder: &Path, journal_max: &str) -> Command {
    let mut command = Command::new(program);
    command.args(OPTIONS.split_whitespace()).args(["--journal-max", journal_max, "--journal"]);
    command.arg(folder.join(JOURNAL));
    command.env("TACHOGRAPH_RECORD", folder.join(RECORD));
    command
}

/// Starts daemons on states, several at once, until all are checked or, as `give` learns from the
/// returned value, one is wrong; returns what is wrong.
fn check_all(
    program: &Path,
    give: impl FnOnce(&dyn Fn(Job) -> bool) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let wrong = Mutex::new(Vec::new());
    let locked = || wrong.lock().unwrap_or_else(PoisonError::into_inner);
    let (to, jobs) = sync_channel::<Job>(WORKERS);
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { cut, state, senders }) = job else { return };
                    if let Err(why) = check(program, &state, senders) {
                        let sizes = state.files.iter().map(|(path, bytes)| {
                            format!("{} of {} bytes", path.display(), bytes.len())
                        });
                        let files = sizes.collect::<Vec<_>>().join(", ");
                        locked().push(format!("cut {cut}, {files}: {why}"));
                    }
                }
            });
        }
        let given = give(&|job| locked().is_empty() && to.send(job).is_ok());
        // The workers end after what was given.
        drop(to);
        given
    })?;
    Ok(wrong.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Starts a daemon on a state, repeats what has a key, stops it, and compares.
///
/// # Errors
/// What is wrong, in words.
fn check(program: &Path, state: &State, mut senders: Vec<Sender>) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(words)?;
    state.write(folder.path()).map_err(words)?;
    let daemon = Daemon::start(command(program, folder.path(), ROOMY), 3)?;
    let at = Addresses::of(&daemon);
    for sender in &mut senders {
        sender.repeat(&at)?;
    }
    daemon.stop()?;
    let place = folder.path().join(RECORD).display().to_string();
    senders.iter().try_for_each(|sender| sender.compare(&place))
}
