//! The journal alone, on a disk that fails in every way.

use std::collections::BTreeMap;
use std::fmt::Display;

use engine::journal::Follower;
use engine::{Journal, JournalError};

use super::counters::counters;
use super::disk::{Condition, Injected, Omission, SimulatedDisk};
use super::random::Random;

/// Size of a file: a few records.
const FILE_BYTES: u64 = 240;

/// A limit on the memory of a journal that a store has read: its last file, and one commit.
const SIZE_MAX: u64 = FILE_BYTES + 400;

type Records = Vec<(u64, Vec<u8>)>;

/// What senders and the store know.
struct World {
    random: Random,
    disk: SimulatedDisk,
    /// Acknowledged records by position.
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// Records whose senders have no answer, or a failure that may come back, with the position at
    /// which they did. They count from then on, and may vanish until the store has them.
    unknown: BTreeMap<Vec<u8>, Option<u64>>,
    /// The position up to which the store has everything.
    stored: u64,
    /// What happened, for a person.
    script: Vec<String>,
}

counters! {
    Seen {
        acknowledged: "acknowledged",
        ..injected: Injected,
    }
}

/// Runs events.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(events: &[u64], omission: Option<Omission>) -> Result<Seen, String> {
    let disk = SimulatedDisk::new(Random::new(0), omission);
    let mut world = World {
        random: Random::new(0),
        disk,
        acknowledged: BTreeMap::new(),
        unknown: BTreeMap::new(),
        stored: 0,
        script: Vec::new(),
    };
    let mut result = world.live(events);
    if result.is_ok() {
        world.note("the end: a healthy disk");
        world.disk.set(Condition::default());
        let power_cut = world.random.one_in(2);
        world.disk.restart(power_cut);
        result = world.open().map(|_| ());
    }
    let World { acknowledged, disk, script, .. } = world;
    let seen = Seen { acknowledged: acknowledged.len() as u64, injected: disk.injected() };
    result.map(|()| seen).map_err(|law| format!("{}\n{law}", script.join("\n")))
}

impl World {
    fn note(&mut self, event: impl Into<String>) {
        self.script.push(event.into());
    }

    fn live(&mut self, events: &[u64]) -> Result<(), String> {
        let mut journal = None;
        for number in events {
            self.random = Random::new(*number);
            self.disk.reseed(self.random.fork());
            let Some(open) = &mut journal else {
                self.change_disk();
                journal = self.open()?;
                continue;
            };
            match self.random.below(16) {
                0 => self.change_disk(),
                1 => {
                    self.note("a new file");
                    let _ = open.start_file();
                }
                2 | 3 => {
                    let last = open.last().max(self.stored);
                    self.stored += self.random.below(last.saturating_sub(self.stored) + 1);
                    self.note(format!("the store has everything up to {}", self.stored));
                    let released = open.release(self.stored);
                    let has_all = released.is_ok() && self.stored == last;
                    if has_all && open.start_file().is_ok() && open.release(self.stored).is_ok() {
                        law(open.size() <= SIZE_MAX, "a journal that the store has is short")?;
                    }
                }
                4 => {
                    let calls = self.random.below(12);
                    self.note(format!("killed after {calls} calls"));
                    self.disk.kill_after(calls);
                }
                5 => self.disk.kill_after(0),
                _ => self.write(open)?,
            }
            if self.disk.is_dead() {
                journal = None;
                let power_cut = self.random.one_in(2);
                self.note(if power_cut { "power cut" } else { "kill -9" });
                self.disk.restart(power_cut);
            }
        }
        Ok(())
    }

    fn change_disk(&mut self) {
        let random = &mut self.random;
        let condition = match random.below(5) {
            0 => Condition {
                capacity: Some(self.disk.used() + random.below(300) as usize),
                ..Condition::default()
            },
            1 => Condition { read_only: true, ..Condition::default() },
            2 => Condition { error_each: 2 + random.below(20), ..Condition::default() },
            _ => Condition::default(),
        };
        self.note(format!("{condition:?}"));
        self.disk.set(condition);
    }

    /// Appends some records, and commits them.
    fn write(&mut self, journal: &mut Journal<SimulatedDisk>) -> Result<(), String> {
        let mut records = Records::new();
        for _ in 0..1 + self.random.below(4) {
            let mut bytes = self.random.next().to_le_bytes().to_vec();
            bytes.resize(8 + self.random.below(60) as usize, bytes[0]);
            let position = journal.append(&bytes).map_err(|error| error.to_string())?;
            records.push((position, bytes));
        }
        let committed = journal.commit();
        let positions = records.iter().map(|(position, _)| *position);
        let positions: Vec<u64> = positions.collect();
        if self.disk.is_dead() {
            self.note(format!("write {positions:?}: no answer"));
            self.unknown.extend(records.into_iter().map(|(_, bytes)| (bytes, None)));
            return Ok(());
        }
        self.note(format!("write {positions:?}: {committed:?}"));
        match committed {
            Ok(last) => {
                law(Some(&last) == positions.last(), "a commit includes the last record")?;
                self.acknowledged.extend(records);
            }
            Err(_) if journal.is_torn() => {
                self.unknown.extend(records.into_iter().map(|(_, bytes)| (bytes, None)));
            }
            // Its senders may send it again: it must not come back.
            Err(_) => {}
        }
        Ok(())
    }

    /// Opens the journal, and compares what is there with what should be.
    fn open(&mut self) -> Result<Option<Journal<SimulatedDisk>>, String> {
        let mut found = Records::new();
        let opened = Journal::open(self.disk.clone(), FILE_BYTES, |position, bytes| {
            found.push((position, bytes.to_vec()));
        });
        let shown: Vec<u64> = found.iter().map(|(position, _)| *position).collect();
        let mut journal = match opened {
            Ok(journal) => {
                self.note(format!("opened: {shown:?}"));
                journal
            }
            Err(error @ (JournalError::Damaged { .. } | JournalError::Foreign(_))) => {
                return Err(format!("broken law: it starts again: {error}"));
            }
            Err(error) => {
                self.note(format!("not opened: {error}"));
                self.disk.restart(false);
                return Ok(None);
            }
        };
        if self.disk.is_dead() {
            return Ok(None);
        }
        // Some may be missing: those of records that an earlier process could not sync.
        law(shown.is_sorted_by(|before, after| before < after), "no position comes twice")?;
        let mut follower = Follower::new(self.disk.clone(), journal.first() - 1);
        let mut followed = Records::new();
        let end = loop {
            match follower.next(journal.last()) {
                Ok(Some((position, bytes))) => followed.push((position, bytes.to_vec())),
                end => break end.map(|_| ()),
            }
        };
        match end {
            Ok(()) => law(followed == found, "a journal is followed as it is opened")?,
            Err(JournalError::Io { .. }) => {}
            Err(error) => return Err(format!("broken law: a journal can be followed: {error}")),
        }
        let known: BTreeMap<u64, &Vec<u8>> = found.iter().map(|(at, bytes)| (*at, bytes)).collect();
        for (position, bytes) in self.acknowledged.range(self.stored + 1..) {
            let there = known.get(position) == Some(&bytes);
            law(there, format_args!("acknowledged is there: {position}"))?;
        }
        for (position, bytes) in &found {
            match self.acknowledged.get(position) {
                Some(known) => {
                    law(known == bytes, format_args!("{position} is what was acknowledged"))?
                }
                None => {
                    let unknown = self.unknown.get_mut(bytes);
                    let is_unknown =
                        unknown.is_some_and(|at| at.get_or_insert(*position) == position);
                    law(
                        is_unknown,
                        format_args!("a failed record does not come back: {position}"),
                    )?;
                }
            }
        }
        if journal.skip_to(self.stored).is_err() || self.disk.is_dead() {
            return Ok(None);
        }
        law(journal.last() >= self.stored, "no position is used twice")?;
        Ok(Some(journal))
    }
}

/// A disk without room for the header of a file, as on the day on which 420 acknowledged records were
/// lost: the records after the attempt went into the old file, beyond the position of the empty one.
pub(crate) fn full_at_a_new_file(room: usize) -> Result<(), String> {
    let disk = SimulatedDisk::new(Random::new(1), None);
    let mut wanted = Vec::new();
    let open = |wanted: &[Vec<u8>]| {
        let mut found = Vec::new();
        let journal = Journal::open(disk.clone(), FILE_BYTES, |_, bytes| {
            found.push(bytes.to_vec());
        });
        law(found == wanted, "every record is there")?;
        journal.map_err(|error| error.to_string())
    };
    let mut journal = open(&wanted)?;
    let write = |journal: &mut Journal<SimulatedDisk>, wanted: &mut Vec<Vec<u8>>| {
        let bytes = vec![wanted.len() as u8; 20];
        let done = journal.append(&bytes).and_then(|_| journal.commit());
        done.map(|_| wanted.push(bytes)).map_err(|error| error.to_string())
    };
    write(&mut journal, &mut wanted)?;
    disk.set(Condition { capacity: Some(disk.used() + room), ..Condition::default() });
    law(journal.start_file().is_err(), "there is no room")?;
    disk.set(Condition::default());
    for _ in 0..3 {
        for _ in 0..30 {
            write(&mut journal, &mut wanted)?;
        }
        disk.restart(false);
        journal = open(&wanted)?;
        journal.start_file().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A law holds.
pub(crate) fn law(holds: bool, words: impl Display) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("broken law: {words}")) }
}
