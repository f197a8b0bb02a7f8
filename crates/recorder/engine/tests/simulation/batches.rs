//! Messages through the journal into a store, with kills between any two calls, a store whose answers
//! are lost, and batches that it commits after their process is dead.

use std::collections::{BTreeMap, BTreeSet};

use engine::journal::Follower;
use engine::{Format, JournalError, Record, Session, SessionError, session};
use series::{Interval, Kind, SlotKey, Spec, Step};
use store::{
    Applied, Changes, Identity, Memory, NewSeries, Request, Retention, SeriesLimit, Store,
    StoreError, Writer,
};

use super::disk::{Condition, Injected, SimulatedDisk};
use super::journal::law;
use super::random::Random;

/// Size of a file of the journal: a few records.
const FILE_BYTES: u64 = 400;

const STEP_S: i64 = 10;

/// A rule of batches that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// The store gets a batch before its record is in the journal.
    RecordAfterBatch,
    /// The journal is released before the store has the batch.
    ReleaseBeforeBatch,
    /// A batch is claimed in another transaction than that of its slots.
    ClaimOutside,
    /// A batch whose answer was lost is written again under the next number.
    NumberAgain,
    /// A batch claims a message that it does not contain.
    UptoTooFar,
    /// A new process reads the whole journal again.
    FromTheStart,
    /// A new process begins after the last batch record, whether or not the store has that batch.
    BelievesTheJournal,
    /// Messages are acknowledged before the journal has them.
    AnswersEarly,
    /// A new process does not claim the next number of its predecessor.
    NoFence,
    /// The names of requests are written after the transaction of their updates.
    KeysAfter,
    /// A new process does not ask the store for the names of requests.
    KeysInMemory,
}

impl Leniency {
    pub(crate) const ALL: [Leniency; 11] = [
        Leniency::RecordAfterBatch,
        Leniency::ReleaseBeforeBatch,
        Leniency::ClaimOutside,
        Leniency::NumberAgain,
        Leniency::UptoTooFar,
        Leniency::FromTheStart,
        Leniency::BelievesTheJournal,
        Leniency::AnswersEarly,
        Leniency::NoFence,
        Leniency::KeysAfter,
        Leniency::KeysInMemory,
    ];
}

/// What a run has seen.
pub(crate) struct Seen {
    pub(crate) acknowledged: usize,
    pub(crate) batches: u64,
    pub(crate) lost_answers: u64,
    pub(crate) late_commits: u64,
    pub(crate) repetitions: u64,
    pub(crate) injected: Injected,
}

/// A batch on its way to the store.
#[derive(Clone, Debug)]
struct Sent {
    claim: (Writer, u64),
    messages: Vec<u64>,
}

/// A process: its session, and what it has applied.
struct Process {
    session: Session<SimulatedDisk>,
    /// The position up to which everything is applied.
    applied: u64,
    /// Messages that no batch has.
    head: Vec<u64>,
    sent: Option<Sent>,
    /// The requests that it has applied.
    keys: BTreeSet<Writer>,
}

/// The name of the request of a message; the others have none.
fn key(message: u64) -> Option<Writer> {
    message.is_multiple_of(3).then_some(Writer(u128::from(message) << 64))
}

struct World {
    random: Random,
    without: Option<Leniency>,
    disk: SimulatedDisk,
    store: Memory,
    series: i64,
    acknowledged: BTreeSet<u64>,
    /// Without an answer.
    unknown: BTreeSet<u64>,
    next_message: u64,
    next_writer: u128,
    /// A batch of a dead process that the store may still commit.
    late: Option<Sent>,
    seen: Seen,
    script: Vec<String>,
}

/// Runs a seed.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(seed: u64, without: Option<Leniency>) -> Result<Seen, String> {
    let mut random = Random::new(seed);
    let disk = SimulatedDisk::new(random.fork(), None);
    let mut store = Memory::new();
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    let retention = Retention::from_secs(STEP_S, None).ok_or("a retention")?;
    store.retain(&[retention]).map_err(|error| error.to_string())?;
    let wanted = NewSeries::new(Identity::new("messages", []), Spec::new(Kind::Count, step));
    let made = store.series(&[wanted], &SeriesLimit::DEFAULT).map_err(|error| error.to_string())?;
    let series = made.first().and_then(|made| made.as_ref().ok()).ok_or("a series")?.id;
    let injected = Injected::default();
    let mut world = World {
        random,
        without,
        disk,
        store,
        series,
        acknowledged: BTreeSet::new(),
        unknown: BTreeSet::new(),
        next_message: 1,
        next_writer: 1,
        late: None,
        seen: Seen {
            acknowledged: 0,
            batches: 0,
            lost_answers: 0,
            late_commits: 0,
            repetitions: 0,
            injected,
        },
        script: Vec::new(),
    };
    let mut result = world.live();
    if result.is_ok() {
        result = world.settle();
    }
    let World { acknowledged, disk, script, mut seen, .. } = world;
    (seen.acknowledged, seen.injected) = (acknowledged.len(), disk.injected());
    result.map(|()| seen).map_err(|law| format!("{}\n{law}", script.join("\n")))
}

impl World {
    fn note(&mut self, event: impl Into<String>) {
        self.script.push(event.into());
    }

    fn live(&mut self) -> Result<(), String> {
        let mut process = None;
        for _ in 0..40 {
            let Some(alive) = &mut process else {
                self.change_disk();
                process = self.start()?;
                continue;
            };
            match self.random.below(20) {
                0 => self.change_disk(),
                1 => {
                    let calls = self.random.below(12);
                    self.note(format!("killed after {calls} calls"));
                    self.disk.kill_after(calls);
                }
                2 => self.disk.kill_after(0),
                3..=6 => self.begin_batch(alive)?,
                7..=11 => self.store_works(alive)?,
                12 => self.commit_late()?,
                13 => _ = alive.session.journal.start_file(),
                _ => self.receive(alive)?,
            }
            if self.disk.is_dead() {
                self.kill(process.take());
            }
        }
        self.kill(process);
        Ok(())
    }

    /// Ends a process. A store may commit its batch later, or never.
    fn kill(&mut self, process: Option<Process>) {
        let power_cut = self.random.one_in(2);
        self.note(if power_cut { "power cut" } else { "kill -9" });
        self.disk.restart(power_cut);
        let sent = process.and_then(|process| process.sent);
        // A later process has fenced an earlier batch off, or it was committed before.
        if let Some(sent) = sent
            && self.random.one_in(2)
        {
            self.late = Some(sent);
        }
    }

    fn change_disk(&mut self) {
        let used = self.disk.used();
        let random = &mut self.random;
        let room = random.below(500) as usize;
        let condition = match random.below(8) {
            0 => Condition { capacity: Some(used + room), ..Condition::default() },
            1 => Condition { read_only: true, ..Condition::default() },
            2 => Condition { error_each: 4 + random.below(20), ..Condition::default() },
            _ => Condition::default(),
        };
        self.note(format!("{condition:?}"));
        self.disk.set(condition);
    }

    /// Starts a process, which reads what no batch has.
    fn start(&mut self) -> Result<Option<Process>, String> {
        let first = self.next_writer;
        self.next_writer += session::ATTEMPTS as u128;
        let writers = (first..self.next_writer).map(Writer);
        let begun = match self.without {
            Some(Leniency::NoFence) => {
                // The claims of the predecessor are taken back.
                let before = self.store.clone();
                let begun = session::begin(self.disk.clone(), FILE_BYTES, &mut self.store, writers);
                if let Ok(Session { batches, .. }) = &begun {
                    self.store = before;
                    let claimed = self.store.apply_all(&[batches.claim()], &mut Nothing);
                    claimed.map_err(|error| error.to_string())?;
                }
                begun
            }
            _ => session::begin(self.disk.clone(), FILE_BYTES, &mut self.store, writers),
        };
        let session = match begun {
            Ok(session) => session,
            Err(
                error @ (SessionError::OtherRecord
                | SessionError::Journal(
                    JournalError::Damaged { .. } | JournalError::Foreign(_),
                )),
            ) => return Err(format!("broken law: it starts again: {error}")),
            Err(error) => {
                self.note(format!("not started: {error}"));
                self.disk.restart(false);
                return Ok(None);
            }
        };
        let mut after = session.batches.upto();
        if self.without == Some(Leniency::FromTheStart) {
            after = 0;
        }
        let after = after.max(session.journal.first() - 1);
        let (head, keys) = (Vec::new(), BTreeSet::new());
        let mut process = Process { session, applied: after, head, sent: None, keys };
        let mut follower = Follower::new(self.disk.clone(), after);
        let mut last_upto = 0;
        loop {
            match follower.next(process.session.journal.last()) {
                Ok(None) => break,
                Ok(Some((position, bytes))) => {
                    match Record::read(bytes) {
                        Some(Record::Lines { lines, .. }) => {
                            let message = lines.try_into().map(u64::from_le_bytes);
                            self.take(&mut process, message.map_err(|e| e.to_string())?)?;
                        }
                        Some(Record::Batch { upto, .. }) => last_upto = last_upto.max(upto),
                        _ => {}
                    }
                    process.applied = position;
                }
                Err(error) => {
                    self.note(format!("not read: {error}"));
                    self.disk.restart(false);
                    return Ok(None);
                }
            }
        }
        if self.without == Some(Leniency::BelievesTheJournal) && last_upto > after {
            process.head.clear();
        }
        self.note(format!("started after {after}: {:?}", process.head));
        Ok(Some(process))
    }

    /// Adds a message to the head, unless its request was applied before.
    fn take(&mut self, process: &mut Process, message: u64) -> Result<(), String> {
        if let Some(key) = key(message) {
            let is_asked = self.without != Some(Leniency::KeysInMemory);
            let is_stored = is_asked && self.store.has_request(key).map_err(text)?;
            if !process.keys.insert(key) || is_stored {
                self.seen.repetitions += 1;
                return Ok(());
            }
        }
        process.head.push(message);
        Ok(())
    }

    /// Messages arrive, some of them again.
    fn receive(&mut self, process: &mut Process) -> Result<(), String> {
        let journal = &mut process.session.journal;
        let mut messages = Vec::new();
        let mut bytes = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let mut message = self.random.below(self.next_message);
            if key(message).is_none() || message == 0 {
                message = self.next_message;
                self.next_message += 1;
            }
            let (key, lines) = (key(message), message.to_le_bytes());
            Record::Lines { format: Format::Graphite, arrival_us: 0, key, lines: &lines }
                .write(&mut bytes);
            journal.append(&bytes).map_err(|error| error.to_string())?;
            messages.push(message);
        }
        let committed = journal.commit();
        let is_torn = journal.is_torn();
        if self.without == Some(Leniency::AnswersEarly) {
            self.acknowledged.extend(&messages);
        }
        if self.disk.is_dead() || committed.is_err() && is_torn {
            self.note(format!("messages {messages:?}: no answer"));
            self.unknown.extend(messages);
            return Ok(());
        }
        self.note(format!("messages {messages:?}: {committed:?}"));
        if let Ok(last) = committed {
            process.applied = last;
            for message in messages {
                self.take(process, message)?;
                self.acknowledged.insert(message);
            }
        }
        Ok(())
    }

    fn begin_batch(&mut self, process: &mut Process) -> Result<(), String> {
        if process.sent.is_some() {
            return Ok(());
        }
        let mut upto = process.applied;
        if self.without == Some(Leniency::UptoTooFar) {
            upto += 1;
        }
        if self.without == Some(Leniency::RecordAfterBatch) {
            let claim = process.session.batches.next(upto, None).claim();
            let messages = std::mem::take(&mut process.head);
            let sent = Sent { claim, messages };
            self.apply(&sent)?;
            process.sent = Some(sent);
            _ = begin(&mut process.session, upto);
            return Ok(());
        }
        let begun = begin(&mut process.session, upto);
        let Session { journal, batches, .. } = &mut process.session;
        if self.without == Some(Leniency::ReleaseBeforeBatch) && begun.is_ok() {
            let _ = batches.release(journal);
        }
        self.note(format!("batch up to {upto}: {begun:?}"));
        if let Ok(claim) = begun
            && !self.disk.is_dead()
        {
            process.sent = Some(Sent { claim, messages: std::mem::take(&mut process.head) });
        }
        Ok(())
    }

    /// The store commits a batch, or is gone, or its answer is lost.
    fn store_works(&mut self, process: &mut Process) -> Result<(), String> {
        let Some(sent) = process.sent.clone() else { return Ok(()) };
        match self.random.below(4) {
            0 => self.note("the store is gone"),
            1 => {
                let applied = self.apply(&sent)?;
                self.note(format!("the answer is lost: {applied:?}"));
                self.seen.lost_answers += 1;
                if self.without == Some(Leniency::NumberAgain) {
                    let (writer, number) = sent.claim;
                    process.sent = Some(Sent { claim: (writer, number + 1), ..sent });
                }
            }
            _ => {
                let applied = self.apply(&sent)?;
                self.note(format!("batch {:?}: {applied:?}", sent.claim));
                self.seen.batches += 1;
                process.sent = None;
                let Session { journal, batches, .. } = &mut process.session;
                let _ = batches.release(journal);
            }
        }
        Ok(())
    }

    /// A batch of a dead process is committed, unless a later process has fenced it off.
    fn commit_late(&mut self) -> Result<(), String> {
        if let Some(late) = self.late.take() {
            let applied = self.apply(&late)?;
            self.seen.late_commits += u64::from(matches!(applied, Some(Applied::Now { .. })));
            self.note(format!("batch {:?} is committed late: {applied:?}", late.claim));
        }
        Ok(())
    }

    /// Writes a batch: each message is a count in a slot of its own.
    fn apply(&mut self, sent: &Sent) -> Result<Option<Applied>, String> {
        let mut changes = Changes::default();
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        for message in &sent.messages {
            let start_us = *message as i64 * step.us();
            let Ok(interval) = Interval::count(start_us, start_us + step.us(), 1) else { continue };
            for (slot_us, part) in interval.slots(step) {
                let key = SlotKey { slot_us, series: self.series, lane: 0 };
                changes.add(step, key, series::Delta::widen(part));
            }
        }
        let (writer, number) = sent.claim;
        let keys = sent.messages.iter().filter_map(|message| key(*message));
        let requests = keys.map(|key| Request { key, at_us: 0 }).collect();
        if self.without == Some(Leniency::KeysAfter) {
            let applied = self.store.apply(writer, number, &changes);
            if matches!(applied, Ok(Applied::Now { .. })) && !self.random.one_in(8) {
                let requests = Changes { requests, ..Changes::default() };
                self.store.apply_all(&[], &mut Whole(Some(requests))).map_err(text)?;
            }
            return Ok(applied.ok());
        }
        changes.requests = requests;
        if self.without == Some(Leniency::ClaimOutside) {
            let claimed = self.store.apply(writer, number, &Changes::default());
            if !matches!(claimed, Ok(Applied::Now { .. })) || self.random.one_in(8) {
                return Ok(claimed.ok());
            }
            return self.store.apply_all(&[], &mut Whole(Some(changes))).map(Some).map_err(text);
        }
        match self.store.apply(writer, number, &changes) {
            Ok(applied) => Ok(Some(applied)),
            // It was fenced off before its predecessor came.
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// On a healthy disk, everything is written; then the laws are checked.
    fn settle(&mut self) -> Result<(), String> {
        self.note("the end: a healthy disk");
        self.disk.set(Condition::default());
        if self.random.one_in(2) {
            self.commit_late()?;
        }
        let mut process = self.start()?.ok_or("broken law: it starts again")?;
        self.commit_late()?;
        self.begin_batch(&mut process)?;
        if let Some(sent) = process.sent.take() {
            self.apply(&sent)?;
            let Session { journal, batches, .. } = &mut process.session;
            batches.shorten(journal).map_err(|error| error.to_string())?;
            law(journal.size() <= FILE_BYTES, "a journal that the store has is short")?;
        }
        drop(process);
        let again = self.start()?.ok_or("broken law: it starts again")?;
        law(again.head.is_empty(), "nothing is left over")?;
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        let rows = self.store.slots(step, &[self.series], i64::MIN, i64::MAX).map_err(text)?;
        let counts: BTreeMap<u64, f64> = rows
            .iter()
            .map(|(key, row)| ((key.slot_us / step.us()) as u64, row.integral.as_f64()))
            .collect();
        for message in &self.acknowledged {
            let count = counts.get(message).copied().unwrap_or_default();
            law(count == 1.0, &format!("acknowledged counts once: {message} counts {count}"))?;
        }
        for (message, count) in &counts {
            let is_known = self.acknowledged.contains(message) || self.unknown.contains(message);
            law(is_known, &format!("what failed does not count: {message}"))?;
            law(*count == 1.0, &format!("nothing counts twice: {message} counts {count}"))?;
        }
        Ok(())
    }
}

/// Begins the next batch, as the engine does; its record is on disk then.
fn begin(session: &mut Session<SimulatedDisk>, upto: u64) -> Result<(Writer, u64), JournalError> {
    let next = session.batches.next(upto, None);
    next.note(&mut session.journal)?;
    session.batches = next;
    Ok(session.batches.claim())
}

fn text(error: StoreError) -> String {
    error.to_string()
}

/// An empty batch.
#[derive(Debug)]
struct Nothing;

impl store::Source for Nothing {
    fn restart(&mut self) {}

    fn next(&mut self) -> Option<std::borrow::Cow<'_, Changes>> {
        None
    }
}

/// A batch of one piece.
#[derive(Debug)]
struct Whole(Option<Changes>);

impl store::Source for Whole {
    fn restart(&mut self) {}

    fn next(&mut self) -> Option<std::borrow::Cow<'_, Changes>> {
        self.0.take().map(std::borrow::Cow::Owned)
    }
}
