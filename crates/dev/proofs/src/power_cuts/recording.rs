//! The lives of a daemon, recorded.

use std::fs;
use std::path::Path;
use std::thread;

use base::{Rng, Seed};
use rand::RngExt as _;

use super::disk::{Choices, Disk, State};
use super::senders::{AcknowledgedCounts, Addresses, Sender, senders};
use super::trace::{self, Call, Event};
use super::{JOURNAL, Omission, SMALL, command};
use crate::daemon::Daemon;

/// Lives that may follow until one of them shows all that a sync is needed for.
const FURTHER: usize = 20;

/// Syncs after one that is left out whose cuts are tried.
const NEAR: usize = 12;

/// Size of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Lives of the daemon, at least two.
    pub lives: usize,
    /// Counts of each of the four senders in a life.
    pub counts: usize,
}

/// The calls of the lives of a daemon.
#[derive(Debug)]
pub struct Recording {
    lives: Vec<Life>,
}

/// A life of the daemon, up to its end.
#[derive(Debug)]
struct Life {
    /// What it found; `None` if it was what the life before had left, durable or not.
    found: Option<State>,
    events: Vec<Event>,
    senders: Vec<Sender>,
    /// Number of counts that were acknowledged.
    acknowledged: usize,
}

impl Life {
    /// Whether two files of the journal are removed with nothing but a sync between.
    fn removes_files_together(&self) -> bool {
        let namings = self.events.iter().map(|event| &event.call).filter(|call| is_naming(call));
        let removals = namings.map(|call| matches!(call, Call::Remove(_)));
        removals.fold((false, false), |(found, last), now| (found || last && now, now)).0
    }
}

/// Whether a call changes the name of a file of the journal.
fn is_naming(call: &Call) -> bool {
    match call {
        Call::Rename { from: path, .. } | Call::Remove(path) => path.starts_with(JOURNAL),
        _ => false,
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Killed once the first file of the journal has its name, which is not durable.
    KilledAtOnce,
    /// Killed after a rename.
    Killed,
    /// By a power cut while the journal is written.
    Cut,
    /// In order, after a successor has taken over.
    InOrder,
}

impl Recording {
    /// Runs a daemon several times under load, and records its calls.
    ///
    /// # Errors
    /// What prevented it, in words; also if the calls do not lead to the files that are there.
    pub fn make(program: &Path, seed: Seed, size: Size) -> Result<Recording, String> {
        let mut random = seed.rng("power cuts");
        let (mut disk, mut found) = (Disk::new(&State::default()), Some(State::default()));
        let mut senders = senders();
        let mut lives: Vec<Life> = Vec::new();
        while lives.len() < size.lives || !lives.iter().any(Life::removes_files_together) {
            let life = lives.len();
            if life >= size.lives + FURTHER {
                return Err("no two files of the journal were released together".to_owned());
            }
            let (end, counts) = match life {
                0 => (End::KilledAtOnce, 0),
                _ => ([End::InOrder, End::Cut, End::Killed][life % 3], size.counts),
            };
            let mut events = record(program, &disk, &mut senders, counts, end == End::InOrder)?;
            events.truncate(length(&events, end, &mut random)?);
            let mut acknowledged = AcknowledgedCounts::default();
            for event in &events {
                acknowledged.see(&event.call);
                disk.apply(event)?;
            }
            let known = after(&senders, &acknowledged);
            let senders = std::mem::replace(&mut senders, known);
            let (found_then, acknowledged) = (found.take(), acknowledged.counts.iter().sum());
            lives.push(Life { found: found_then, events, senders, acknowledged });
            if end == End::Cut {
                let random = seed.derive("cut", life as u64).rng("choices");
                let state = disk.after_cut(&mut Choices::drawn(random));
                disk = Disk::new(&state);
                found = Some(state);
            } else {
                disk.end_life();
            }
        }
        Ok(Recording { lives })
    }

    /// Number of calls.
    pub(super) fn calls(&self) -> usize {
        self.lives.iter().map(|life| life.events.len()).sum()
    }

    /// Number of counts that were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.lives.iter().map(|life| life.acknowledged).sum()
    }

    /// Shows the disk at each cut, and what senders know then, until `at` returns false. With an
    /// omission, only the cuts near a sync that is left out.
    pub(super) fn cuts(
        &self,
        omission: Option<Omission>,
        mut at: impl FnMut(&Disk, &dyn Fn() -> Vec<Sender>) -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut disk = Disk::new(&State::default());
        for Life { found, events, senders, .. } in &self.lives {
            match found {
                Some(state) => disk = Disk::new(state),
                None => disk.end_life(),
            }
            let mut acknowledged = AcknowledgedCounts::default();
            let (mut naming, mut near) = (None, 0);
            for event in events {
                if let Call::Sync(path) = &event.call {
                    let kind = Omission::of(path, naming);
                    naming = naming.filter(|_| path != Path::new(JOURNAL));
                    if omission.is_some() && kind == omission {
                        near = NEAR;
                        continue;
                    }
                    let is_near = omission.is_none() || near > 0;
                    near = near.saturating_sub(1);
                    if is_near && !at(&disk, &|| after(senders, &acknowledged))? {
                        return Ok(());
                    }
                }
                if is_naming(&event.call) {
                    naming = Some(&event.call);
                }
                acknowledged.see(&event.call);
                disk.apply(event)?;
            }
            if !at(&disk, &|| after(senders, &acknowledged))? {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn after(senders: &[Sender], acknowledged: &AcknowledgedCounts) -> Vec<Sender> {
    senders.iter().zip(acknowledged.counts).map(|(sender, known)| sender.after(known)).collect()
}

/// The number of calls until a life ends.
fn length(events: &[Event], end: End, random: &mut Rng) -> Result<usize, String> {
    let is_end = |event: &&(usize, &Event)| match (&event.1.call, end) {
        (Call::Rename { from, .. }, End::Killed | End::KilledAtOnce) => from.starts_with(JOURNAL),
        // The sync itself is not reached.
        (Call::Sync(path), End::Cut) => Omission::of(path, None) == Some(Omission::Records),
        _ => false,
    };
    let events: Vec<(usize, &Event)> = (0..).zip(events).collect();
    let ends: Vec<usize> = events.iter().filter(is_end).map(|(number, _)| *number).collect();
    let nth = if end == End::KilledAtOnce { 0 } else { random.random_range(0..ends.len().max(1)) };
    match (ends.get(nth), end) {
        (_, End::InOrder) => Ok(events.len()),
        (Some(number), End::Cut) => Ok(*number),
        (Some(number), End::Killed | End::KilledAtOnce) => Ok(number + 1),
        (None, _) => Err(format!("no call to end a life at: {end:?}")),
    }
}

/// Runs a daemon on what is on the disk, under load, and returns its calls.
fn record(
    program: &Path,
    disk: &Disk,
    senders: &mut [Sender],
    counts: usize,
    is_replaced: bool,
) -> Result<Vec<Event>, String> {
    let words = |error: std::io::Error| error.to_string();
    let place = tempfile::tempdir().map_err(words)?;
    let (folder, trace) = (place.path().join("files"), place.path().join("trace"));
    fs::create_dir(&folder).map_err(words)?;
    // strace writes paths without links.
    let folder = folder.canonicalize().map_err(words)?;
    disk.seen().write(&folder).map_err(words)?;
    let mut daemon = Daemon::start(trace::traced(&command(program, &folder, SMALL), &trace), 3)?;
    let at = &Addresses::of(&daemon);
    thread::scope(|scope| {
        let senders: Vec<_> =
            senders.iter_mut().map(|sender| scope.spawn(move || sender.send(at, counts))).collect();
        let replaced = if is_replaced { daemon.replace() } else { Ok(()) };
        let sent = senders
            .into_iter()
            .map(|sender| sender.join().unwrap_or_else(|_| Err("a sender panicked".to_owned())));
        sent.chain([replaced]).collect::<Result<(), String>>()
    })?;
    // Until strace has written all.
    daemon.stop()?;
    let text = fs::read_to_string(trace).map_err(words)?;
    let events = trace::read(&text, &folder)?;
    let mut after = disk.clone();
    let mut acknowledged = AcknowledgedCounts::default();
    for event in &events {
        after.apply(event)?;
        acknowledged.see(&event.call);
    }
    if let Some(path) = after.seen().difference(&State::read(&folder).map_err(words)?) {
        return Err(format!("the recorded calls do not lead to {}", path.display()));
    }
    match senders.iter().map(Sender::sent).eq(acknowledged.counts) {
        true => Ok(events),
        false => Err(format!(
            "the senders have {} answers each, by the recorded calls {:?}",
            counts, acknowledged.counts
        )),
    }
}
