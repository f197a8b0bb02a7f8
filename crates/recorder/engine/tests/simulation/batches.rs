//! Messages of every protocol through the journal and the engine into a store, with kills between any
//! two calls, a store whose answers are lost, batches that it commits after their process is dead,
//! expiry, clocks that jump, and another daemon with a journal of its own that gets some of the
//! requests too.

mod end;
mod leniency;
mod messages;
mod model;
mod process;
pub(crate) mod script;
mod store;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::time::Duration;

use ::store::{Memory, Retention, Store as _, Writer};
use engine::clock::{Clock, Moment};
use engine::gather::Question;
use engine::journal::Follower;
use engine::{
    ArrivalTimes, Batches, Engine, EngineOptions, FrozenBatch, Journal, JournalError, LineCounts,
    Options, Record, Session, SessionError, session,
};
use series::{SECOND_US, Step};

pub(crate) use self::leniency::Leniency;
use self::messages::{Given, MARK_STEP_S, Sent};
use self::script::{Condition, Daemon, Event, What};
use self::store::Whole;
use super::counters::counters;
use super::disk::{self, Injected, SimulatedDisk};
use super::random::Random;

/// Size of a file of the journal: a few records.
const FILE_BYTES: u64 = 600;

/// Size of the journal beyond which senders wait.
const JOURNAL_MAX: u64 = 5_000;

/// What a journal may have beside that: the messages of an event, and records of batches.
const JOURNAL_SLACK: u64 = 4_000;

/// Memory of the head: a few messages. Some processes have so little that the recent points of a few
/// series in the store would fill it.
const HEAD_BYTES: usize = 3_000;
const LITTLE_HEAD_BYTES: usize = 100;

/// What a head may have beside that: the messages of a group, each of which may cover the time since
/// the last one in all its series, up to the heartbeat of 300 s, and windows.
const HEAD_SLACK: usize = 24_000;

/// The step of all series, and how long its slots are kept; coarser ones are kept for ever.
const STEP_S: i64 = 10;
const AGE_S: i64 = 4 * 3_600;

/// The length of its partitions, by which the store knows when they expire.
const PARTITION_US: i64 = AGE_S / 8 * SECOND_US;

/// How long the names of requests are remembered.
const REMEMBER_US: i64 = 86_400 * SECOND_US;

/// The right time at the beginning, in microseconds since the epoch.
const START_US: i64 = 1_000_000_000 * SECOND_US;

/// The clock is set right before it has been wrong for so long that expiry would believe it.
const WRONG_MAX_US: i64 = 3_000 * SECOND_US;

counters! {
    Seen {
        acknowledged: "acknowledged",
        batches: "batches",
        lost_answers: "lost answers",
        late_commits: "late commits",
        repetitions: "repetitions",
        overtaken: "overtaken batches",
        refused: "refused",
        jumps: "clock jumps",
        expiries: "expiries",
        forgotten: "forgotten requests",
        reads: "reads",
        ..injected: Injected,
    }
}

/// A batch on its way to the store.
struct Batch {
    claims: Vec<(Writer, u64)>,
    frozen: Box<FrozenBatch>,
}

/// What the store was asked for.
enum Asked {
    Series(Question),
    Key(Writer),
    /// The time by which slots expire, and that before which requests are forgotten.
    Maintain(i64, Option<i64>),
}

/// The arrival of a message.
struct Arrival {
    daemon: Daemon,
    /// The time that had passed.
    passed_us: i64,
    /// The time that was believed.
    arrival_us: i64,
}

/// A message in the journal that the engine has not answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    position: u64,
    /// The position of the first one of those with which it came.
    group: u64,
    given: Given,
    arrived: ArrivalTimes,
}

/// A process: its engine, and what its executor holds.
struct Process {
    engine: Engine<u64>,
    journal: Journal<SimulatedDisk>,
    follower: Option<Follower<SimulatedDisk>>,
    clock: Clock,
    /// Memory of its head.
    head_bytes: usize,
    /// When it began.
    begun_us: i64,
    /// The latest time that it may believe, by what expiry believed before.
    known_us: i64,
    /// Messages in the journal that the engine has not answered.
    waiting: VecDeque<Waiting>,
    /// Messages that were answered, and not as repetitions: each is counted in the end.
    answered: BTreeSet<u64>,
    asked: VecDeque<Asked>,
    sent: Option<Batch>,
    /// A record that is written after its batch.
    owed: Option<Batches>,
    /// The position up to which nothing is read, if the journal is believed.
    believed: u64,
    /// By how much the numbers of batches are wrong.
    ahead: u64,
    is_journal_failing: bool,
    hands_over: bool,
    /// Since when the head has been full.
    full_since_us: Option<i64>,
    /// Whether a successor has little to read.
    is_flushed: bool,
    stops: bool,
    /// Whether it cannot go on.
    is_over: bool,
}

/// What each daemon has of its own, besides its process.
struct Own {
    disk: SimulatedDisk,
    /// What the engine has counted of a message.
    counted: BTreeMap<u64, LineCounts>,
    /// A batch of a dead process that the store may still commit.
    late: Option<Batch>,
    /// Whether the next kill is a power cut.
    is_power_cut: bool,
}

struct World {
    random: Random,
    without: Option<Leniency>,
    /// Whose events happen, and what the other one has.
    daemon: Daemon,
    own: Own,
    other: Own,
    store: Memory,
    /// All messages that were sent, by their numbers.
    messages: BTreeMap<u64, Sent>,
    acknowledged: BTreeSet<u64>,
    /// Without an answer.
    unknown: BTreeSet<u64>,
    /// When messages with keys arrived.
    arrivals: BTreeMap<u64, Vec<Arrival>>,
    /// Messages with keys that may count again: they are old, or another process took them while its
    /// clock was far behind what this one believes, which it cannot know.
    forgettable: BTreeSet<u64>,
    next_writer: u128,
    /// Whether the store does all it is asked for.
    is_healthy: bool,
    passed_us: i64,
    /// By how much the clock is ahead, and since when it is wrong.
    ahead_us: i64,
    wrong_since_us: i64,
    /// When the last message arrived, and whether all arrived after those before them.
    arrived_us: i64,
    in_order: bool,
    /// Whether windows were cut in two, because they kept too much of the journal.
    is_cut: bool,
    /// Fine slots before this may have expired.
    expired_us: i64,
    /// The latest time that expiry believed.
    believed_us: i64,
    /// What readers have seen: the messages that the store had.
    read: Vec<BTreeSet<u64>>,
    seen: Seen,
    /// Whether the events, and what came of them, are written into the script.
    is_told: bool,
    script: Vec<String>,
}

/// Runs a seed.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(seed: u64, without: Option<Leniency>) -> Result<Seen, String> {
    play(&script::events(seed), without)
}

/// Runs a script; a second time, to tell it, if a law is broken.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn play(events: &[Event], without: Option<Leniency>) -> Result<Seen, String> {
    play_told(events, without, false).or_else(|_| play_told(events, without, true))
}

fn play_told(events: &[Event], without: Option<Leniency>, is_told: bool) -> Result<Seen, String> {
    let own = || Own {
        disk: SimulatedDisk::new(Random::new(0), None),
        counted: BTreeMap::new(),
        late: None,
        is_power_cut: false,
    };
    let mut store = Memory::new();
    let fine = Retention::from_secs(STEP_S, Some(AGE_S)).ok_or("a retention")?;
    let coarse = Retention::from_secs(MARK_STEP_S, None).ok_or("a retention")?;
    store.retain(&[fine, coarse]).map_err(text)?;
    let mut world = World {
        random: Random::new(0),
        without,
        daemon: Daemon::First,
        own: own(),
        other: own(),
        store,
        messages: BTreeMap::new(),
        acknowledged: BTreeSet::new(),
        unknown: BTreeSet::new(),
        arrivals: BTreeMap::new(),
        forgettable: BTreeSet::new(),
        next_writer: 1,
        is_healthy: false,
        passed_us: 0,
        ahead_us: 0,
        wrong_since_us: 0,
        arrived_us: i64::MIN,
        in_order: true,
        is_cut: false,
        expired_us: i64::MIN,
        believed_us: i64::MIN,
        read: Vec::new(),
        seen: Seen::default(),
        is_told,
        script: Vec::new(),
    };
    let result = world.live(events).and_then(|()| world.settle());
    let World { acknowledged, own, other, script, mut seen, .. } = world;
    (seen.acknowledged, seen.injected) = (acknowledged.len() as u64, own.disk.injected());
    seen.injected.add(&other.disk.injected());
    result.map(|()| seen).map_err(|law| format!("{}\n# {law}", script.join("\n")))
}

/// The shortest script that fails like a seed, with what came of its events.
pub(crate) fn shortest(seed: u64) -> String {
    let events = script::shrink(script::events(seed), |events| play(events, None).is_err());
    play(&events, None).err().unwrap_or_default()
}

impl World {
    /// Writes down what came of an event.
    fn note(&mut self, what: impl Display) {
        if self.is_told {
            let text = what.to_string();
            self.script.extend(text.lines().map(|line| format!("# {line}")));
        }
    }

    fn live(&mut self, events: &[Event]) -> Result<(), String> {
        let mut processes: [Option<Process>; 2] = [None, None];
        for event in events {
            if self.is_told {
                self.script.push(event.to_string());
            }
            self.turn_to(event.daemon);
            self.random = Random::new(event.number);
            self.own.disk.reseed(self.random.fork());
            let process = &mut processes[event.daemon as usize];
            if process.is_none() {
                *process = self.start()?;
            }
            self.happen(&event.what, process.as_mut())?;
            let is_over = process.as_ref().is_some_and(|process| process.is_over);
            if self.own.disk.is_dead() || is_over {
                self.kill(process.take());
            }
        }
        for (daemon, mut process) in Daemon::ALL.into_iter().zip(processes) {
            self.turn_to(daemon);
            if let Some(process) = &mut process
                && self.random.one_in(4)
            {
                self.stop_in_silence(process)?;
            }
            self.kill(process);
        }
        Ok(())
    }

    /// From now on this daemon's events happen.
    fn turn_to(&mut self, daemon: Daemon) {
        if self.daemon != daemon {
            self.daemon = daemon;
            std::mem::swap(&mut self.own, &mut self.other);
        }
    }

    fn happen(&mut self, what: &What, process: Option<&mut Process>) -> Result<(), String> {
        match (what, process) {
            (What::Disk(condition), _) => self.change_disk(*condition),
            (What::Clock(ahead_s), _) => self.set_clock(ahead_s * SECOND_US),
            (What::CommitLate, _) => self.commit_late()?,
            (What::Read, _) => self.read_store()?,
            (What::Pass(ms), None) => self.pass(*ms),
            (_, None) => {}
            (What::Pass(ms), Some(process)) => {
                self.pass(*ms);
                self.tick(process)?;
            }
            (What::Kill { calls, is_power_cut }, Some(_)) => {
                self.own.is_power_cut = *is_power_cut;
                self.own.disk.kill_after(*calls);
            }
            (What::Store(answer), Some(process)) => self.store_works(process, *answer)?,
            (What::NewFile, Some(process)) => _ = process.journal.start_file(),
            (What::HandOver, Some(process)) => self.hand_over(process)?,
            (What::Stop(rounds), Some(process)) => self.stop(process, *rounds)?,
            (What::Receive(messages), Some(process)) => self.receive(process, messages)?,
        }
        Ok(())
    }

    /// Ends a process. A store may commit its batch later, or never.
    fn kill(&mut self, process: Option<Process>) {
        self.note(if self.own.is_power_cut { "power cut" } else { "kill -9" });
        self.own.disk.restart(self.own.is_power_cut);
        let sent = process.and_then(|process| process.sent);
        // A later process has fenced an earlier batch off, or it was committed before.
        if let Some(sent) = sent
            && self.random.one_in(2)
        {
            self.own.late = Some(sent);
        }
    }

    fn change_disk(&mut self, condition: Condition) {
        let healthy = disk::Condition::default();
        self.own.disk.set(match condition {
            Condition::Healthy => healthy,
            Condition::Full(room) => {
                let capacity = Some(self.own.disk.used() + room as usize);
                disk::Condition { capacity, ..healthy }
            }
            Condition::ReadOnly => disk::Condition { read_only: true, ..healthy },
            Condition::Errors(error_each) => disk::Condition { error_each, ..healthy },
        });
    }

    fn set_clock(&mut self, ahead_us: i64) {
        if self.ahead_us == 0 {
            self.wrong_since_us = self.passed_us;
        }
        self.seen.jumps += u64::from(ahead_us != self.ahead_us);
        self.ahead_us = ahead_us;
    }

    /// The right time, in microseconds since the epoch.
    fn right_us(&self) -> i64 {
        START_US + self.passed_us
    }

    fn moment(&self) -> Moment {
        Moment { passed_us: self.passed_us, shown_us: self.right_us() + self.ahead_us }
    }

    /// Some time passes.
    fn pass(&mut self, ms: u64) {
        self.passed_us += ms as i64 * 1_000;
        if self.ahead_us != 0 && self.passed_us - self.wrong_since_us > WRONG_MAX_US {
            self.note("the clock is set right");
            self.ahead_us = 0;
        }
    }

    /// Starts a process, which reads what no batch has.
    fn start(&mut self) -> Result<Option<Process>, String> {
        let first = self.next_writer;
        self.next_writer += session::ATTEMPTS as u128;
        let writers = (first..self.next_writer).map(Writer);
        let before = (self.without == Some(Leniency::NoFence)).then(|| self.store.clone());
        let begun = session::begin(self.own.disk.clone(), FILE_BYTES, &mut self.store, writers);
        if let (Some(before), Ok(Session { batches, .. })) = (before, &begun) {
            // The claims of the predecessor are taken back.
            self.store = before;
            self.store.apply_all(&[batches.claim()], &mut Whole(None)).map_err(text)?;
        }
        let mut session = match begun {
            Ok(session) => session,
            Err(
                error @ (SessionError::OtherRecord
                | SessionError::Journal(
                    JournalError::Damaged { .. } | JournalError::Foreign(_),
                )),
            ) => return Err(format!("broken law: it starts again: {error}")),
            Err(error) => {
                self.note(format_args!("not started: {error}"));
                self.own.disk.restart(false);
                if self.random.one_in(2) {
                    self.own.disk.set(disk::Condition::default());
                }
                return Ok(None);
            }
        };
        if self.without == Some(Leniency::WindowsForgotten) {
            session.batches.windows = None;
        }
        let Session { journal, batches, .. } = &session;
        let (upto, first, last) = (batches.upto(), journal.first(), journal.last());
        let (mut waiting, mut believed) = (VecDeque::new(), 0);
        if let Some(rule @ (Leniency::FromTheStart | Leniency::BelievesTheJournal)) = self.without {
            let mut follower = Follower::new(self.own.disk.clone(), first - 1);
            while let Ok(Some((position, bytes))) = follower.next(last) {
                if rule == Leniency::FromTheStart && position <= upto {
                    let sent = self.messages.values().find(|sent| sent.record == bytes);
                    waiting.extend(sent.map(|sent| {
                        let Sent { given, arrived, .. } = *sent;
                        Waiting { position, group: position, given, arrived }
                    }));
                } else if rule == Leniency::BelievesTheJournal
                    && let Some(Record::Batch { upto, .. }) = Record::read(bytes)
                {
                    believed = believed.max(upto);
                }
            }
        }
        let mut clock = Clock::new(self.moment());
        let times = self.store.known_times().map_err(text)?;
        let known_us = match self.without {
            Some(Leniency::ExpiryAsRecorded) => times.newest_us.map(|us| us..=us),
            _ => times.expired_us,
        };
        if let Some(known_us) = known_us {
            clock.compare(self.moment(), &known_us);
        }
        let head_bytes = if self.random.one_in(4) { LITTLE_HEAD_BYTES } else { HEAD_BYTES };
        let options = Self::options(head_bytes)?;
        let engine = Engine::new(options, 0, &session, engine::Now::default());
        let mut process = Process {
            engine: engine.map_err(text)?,
            journal: session.journal,
            follower: None,
            clock,
            head_bytes,
            begun_us: self.passed_us,
            known_us: self.known_us(),
            waiting,
            answered: BTreeSet::new(),
            asked: VecDeque::new(),
            sent: None,
            owed: None,
            believed,
            ahead: 0,
            is_journal_failing: false,
            hands_over: false,
            full_since_us: None,
            is_flushed: false,
            stops: false,
            is_over: false,
        };
        self.note(format_args!("started after {upto}"));
        self.go_on(&mut process)?;
        Ok(Some(process))
    }

    fn options(head_bytes: usize) -> Result<EngineOptions, String> {
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        Ok(EngineOptions {
            journal_max: JOURNAL_MAX,
            write_each: Duration::from_secs(10),
            updates: Options { head_bytes, ..Options::new(step) },
        })
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
