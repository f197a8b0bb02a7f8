//! Messages through the journal and the engine into a store, with kills between any two calls, a
//! store whose answers are lost, and batches that it commits after their process is dead.

mod end;
mod store;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use ::store::{Memory, Retention, Store as _, StoreError, Writer};
use engine::gather::Question;
use engine::journal::Follower;
use engine::{
    Batches, Effect, Engine, EngineError, EngineOptions, Event, Figure, Format, Frozen, Journal,
    JournalError, Message, Now, Options, Record, Session, SessionError, Wants, session,
};
use formats::Precision;
use series::Step;

use self::store::Whole;
use super::disk::{Condition, Injected, SimulatedDisk};
use super::journal::law;
use super::random::Random;

/// Size of a file of the journal: a few records.
const FILE_BYTES: u64 = 400;

/// Size of the journal beyond which senders wait.
const JOURNAL_MAX: u64 = 2_000;

/// Memory of the head: a few messages.
const HEAD_BYTES: usize = 1_000;

const STEP_S: i64 = 10;

/// When the first message arrives, in microseconds since the epoch; those with a time count before
/// that.
const ARRIVAL_US: i64 = 1_000_000_000_000_000;

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
struct Sent {
    claims: Vec<(Writer, u64)>,
    frozen: Box<Frozen>,
}

/// What the store was asked for.
enum Asked {
    Series(Question),
    Key(Writer),
}

/// A message in the journal that the engine has not answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    position: u64,
    message: u64,
    arrival_us: i64,
}

/// A process: its engine, and what its executor holds.
struct Process {
    engine: Engine<()>,
    journal: Journal<SimulatedDisk>,
    follower: Option<Follower<SimulatedDisk>>,
    /// The position of the last message in the journal.
    lines: u64,
    /// Messages in the journal that the engine has not answered.
    waiting: VecDeque<Waiting>,
    asked: VecDeque<Asked>,
    sent: Option<Sent>,
    /// A record that is written after its batch.
    owed: Option<Batches>,
    /// The position up to which nothing is read, if the journal is believed.
    believed: u64,
    /// By how much the numbers of batches are wrong.
    ahead: u64,
    passed: Duration,
    is_journal_failing: bool,
    hands_over: bool,
    stops: bool,
    /// Whether it cannot go on.
    is_over: bool,
}

/// What became of the message of an event.
#[derive(Default)]
struct Done {
    is_again: bool,
    is_answered: bool,
}

/// The name of the request of a message; the others have none.
fn key(message: u64) -> Option<Writer> {
    message.is_multiple_of(3).then_some(Writer(u128::from(message) << 64))
}

/// Whether a message is of StatsD, if any are.
fn is_windowed(message: u64) -> bool {
    message % 3 == 1
}

/// A message and how it is read: a count in a slot of its own, or one in a window of StatsD, with
/// 2.5 more in a series of all.
fn lines(message: u64, has_windows: bool) -> (Format, String) {
    if has_windows && is_windowed(message) {
        return (Format::Statsd, format!("s{message}:1|c\nfractions:1|c|@0.4\n"));
    }
    let start_us = message as i64 * STEP_S * series::SECOND_US;
    let end_us = start_us + STEP_S * series::SECOND_US;
    let line = format!("messages value=1i,_start={start_us}i,_end={end_us}i {end_us}\n");
    (Format::Influx(Precision::Microseconds), line)
}

/// The message of a record, and when it arrived.
fn message(bytes: &[u8]) -> Option<(u64, i64)> {
    let Some(Record::Lines { lines, arrival_us, .. }) = Record::read(bytes) else { return None };
    let text = std::str::from_utf8(lines).ok()?;
    let message = match text.split_once("_start=") {
        Some((_, rest)) => {
            let start_us: i64 = rest.split_once('i')?.0.parse().ok()?;
            (start_us / (STEP_S * series::SECOND_US)) as u64
        }
        None => text.strip_prefix('s')?.split_once(':')?.0.parse().ok()?,
    };
    Some((message, arrival_us))
}

struct World {
    random: Random,
    without: Option<Leniency>,
    disk: SimulatedDisk,
    store: Memory,
    acknowledged: BTreeSet<u64>,
    /// Without an answer.
    unknown: BTreeSet<u64>,
    next_message: u64,
    next_writer: u128,
    /// A batch of a dead process that the store may still commit.
    late: Option<Sent>,
    /// Whether the store does all it is asked for.
    is_healthy: bool,
    /// Whether some messages are of StatsD.
    has_windows: bool,
    now_us: i64,
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
    let retention = Retention::from_secs(STEP_S, None).ok_or("a retention")?;
    store.retain(&[retention]).map_err(|error| error.to_string())?;
    let injected = Injected::default();
    let mut world = World {
        random,
        without,
        disk,
        store,
        acknowledged: BTreeSet::new(),
        unknown: BTreeSet::new(),
        next_message: 1,
        next_writer: 1,
        late: None,
        is_healthy: false,
        has_windows: seed % 2 == 1,
        now_us: ARRIVAL_US,
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
                3..=6 => self.pass(alive)?,
                7..=11 => self.store_works(alive)?,
                12 => self.commit_late()?,
                13 => _ = alive.journal.start_file(),
                14 => self.hand_over(alive)?,
                15 if self.random.one_in(4) => self.stop(alive)?,
                _ => self.receive(alive)?,
            }
            if self.disk.is_dead() || alive.is_over {
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
                    let claimed = self.store.apply_all(&[batches.claim()], &mut Whole(None));
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
        let Session { journal, batches, .. } = &session;
        let (upto, first, last) = (batches.upto(), journal.first(), journal.last());
        let (mut waiting, mut believed) = (VecDeque::new(), 0);
        if let Some(rule @ (Leniency::FromTheStart | Leniency::BelievesTheJournal)) = self.without {
            let mut follower = Follower::new(self.disk.clone(), first - 1);
            while let Ok(Some((position, bytes))) = follower.next(last) {
                if rule == Leniency::FromTheStart && position <= upto {
                    let waits = message(bytes);
                    waiting.extend(waits.map(|(message, arrival_us)| Waiting {
                        position,
                        message,
                        arrival_us,
                    }));
                } else if rule == Leniency::BelievesTheJournal
                    && let Some(Record::Batch { upto, .. }) = Record::read(bytes)
                {
                    believed = believed.max(upto);
                }
            }
        }
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        let options = EngineOptions {
            journal_max: JOURNAL_MAX,
            write_each: Duration::from_secs(10),
            remember: Duration::from_secs(86_400),
            updates: Options { head_bytes: HEAD_BYTES, ..Options::new(step) },
        };
        let engine = Engine::new(options, 0, &session, Now::default()).map_err(text)?;
        let mut process = Process {
            engine,
            journal: session.journal,
            follower: None,
            lines: last,
            waiting,
            asked: VecDeque::new(),
            sent: None,
            owed: None,
            believed,
            ahead: 0,
            passed: Duration::ZERO,
            is_journal_failing: false,
            hands_over: false,
            stops: false,
            is_over: false,
        };
        self.note(format!("started after {upto}"));
        self.go_on(&mut process)?;
        Ok(Some(process))
    }

    /// Tells the engine of an event, and does what it wants.
    fn tell(&mut self, process: &mut Process, event: Event<'_, ()>) -> Result<Done, String> {
        let now = Now {
            passed: process.passed,
            expiry_us: None,
            journal_bytes: process.journal.size(),
            is_journal_failing: process.is_journal_failing,
        };
        let (mut done, mut effects) = (Done::default(), Vec::new());
        if let Err(error) = process.engine.step(event, now, &mut effects) {
            self.note(format!("ends: {error}"));
            let is_allowed = match error {
                EngineError::Unwritten => process.stops,
                // It cannot start without the store.
                EngineError::Store(StoreError::Lost { .. }) => true,
                _ => false,
            };
            law(is_allowed, "only a stop, or a store that is gone at the start, ends it")?;
            process.is_over = true;
        }
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let event = self.carry_out(process, effect, &mut done)?;
            if self.disk.is_dead() {
                // It does not learn the results of its calls any more.
                return Ok(Done::default());
            }
            if let Some(event) = event {
                let mut more = Vec::new();
                process.engine.step(event, now, &mut more).map_err(text)?;
                effects.extend(more);
            }
        }
        Ok(done)
    }

    /// Does what the engine wants; returns what it is to be told at once.
    fn carry_out(
        &mut self,
        process: &mut Process,
        effect: Effect<()>,
        done: &mut Done,
    ) -> Result<Option<Event<'static, ()>>, String> {
        let journal = &mut process.journal;
        match effect {
            Effect::Again => done.is_again = true,
            Effect::Answer(..) => done.is_answered = true,
            Effect::Add(Figure::RequestsRepeated, count) => self.seen.repetitions += count,
            Effect::Add(..) | Effect::Count(..) | Effect::Trouble(_) | Effect::Flushed => {}
            Effect::Maintain { .. } => {
                return Err("broken law: nothing expires at an unknown time".to_owned());
            }
            Effect::AskSeries(question) => process.asked.push_back(Asked::Series(question)),
            Effect::AskKey(key) => process.asked.push_back(Asked::Key(key)),
            Effect::Weigh(from) => return Ok(Some(Event::Weighed(journal.size_from(from)))),
            Effect::Note { batches, .. } if self.without == Some(Leniency::RecordAfterBatch) => {
                process.owed = Some(batches);
                return Ok(Some(Event::Noted(true)));
            }
            Effect::Note { batches, is_large } => {
                if is_large {
                    let _ = journal.start_file();
                }
                let noted = batches.note(journal);
                if self.without == Some(Leniency::ReleaseBeforeBatch) && noted.is_ok() {
                    let _ = batches.release(journal);
                }
                process.is_journal_failing = noted.is_err();
                self.note(format!("batch up to {}: {noted:?}", batches.upto()));
                return Ok(Some(Event::Noted(noted.is_ok())));
            }
            Effect::TryJournal(batches) => {
                process.is_journal_failing = batches.note(journal).is_err();
            }
            Effect::StartFile => {
                let _ = journal.start_file();
                let (lines, upto) = (process.lines, journal.last());
                return Ok(Some(Event::FileStarted { lines, upto }));
            }
            Effect::Write(frozen) => {
                let claims = frozen.claims().iter();
                let claims = claims.map(|(writer, number)| (*writer, number + process.ahead));
                let mut sent = Sent { claims: claims.collect(), frozen };
                if let Some(owed) = process.owed.take() {
                    let _ = self.apply(&mut sent)?;
                    let _ = owed.note(journal);
                }
                process.sent = Some(sent);
            }
            Effect::Release(batches) => _ = batches.release(journal),
            Effect::Shorten(mut batches) => _ = batches.shorten(journal),
        }
        Ok(None)
    }

    /// Gives the engine what it wants, as far as it is there.
    fn go_on(&mut self, process: &mut Process) -> Result<(), String> {
        while !self.disk.is_dead() && !process.is_over {
            match process.engine.wants() {
                Wants::Record { after, upto } => self.read(process, after, upto)?,
                Wants::Message(_) => {
                    let Some(waits) = process.waiting.pop_front() else { return Ok(()) };
                    let Waiting { position, message, arrival_us } = waits;
                    let (format, lines) = lines(message, self.has_windows);
                    let far = u64::from(self.without == Some(Leniency::UptoTooFar));
                    let (key, lines) = (key(message), lines.as_bytes());
                    let position = position + far;
                    let given = Message { position, format, arrival_us, key, lines };
                    let done = self.tell(process, Event::Message(given, &()))?;
                    if done.is_again {
                        process.waiting.push_front(waits);
                    } else if done.is_answered {
                        self.acknowledged.insert(message);
                    }
                }
                Wants::Reply(_) | Wants::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads the next record that waits in the journal.
    fn read(&mut self, process: &mut Process, after: u64, upto: u64) -> Result<(), String> {
        let follower = process.follower.take().filter(|follower| follower.after() == after);
        let mut follower = follower.unwrap_or_else(|| Follower::new(self.disk.clone(), after));
        match follower.next(upto) {
            Ok(Some((position, bytes))) => {
                let mut skipped = Vec::new();
                Record::Batch { writer: Writer(0), number: 0, upto: 0 }.write(&mut skipped);
                let bytes = if position <= process.believed { &skipped[..] } else { bytes };
                if self.tell(process, Event::Record { position, bytes })?.is_again {
                    follower.again();
                }
                process.follower = Some(follower);
            }
            read => {
                self.note(format!("not read: {read:?}"));
                process.is_over = true;
            }
        }
        Ok(())
    }

    /// Some time passes.
    fn pass(&mut self, process: &mut Process) -> Result<(), String> {
        let passed = Duration::from_millis(50 + self.random.below(6_000));
        process.passed += passed;
        self.now_us += passed.as_micros() as i64;
        self.tell(process, Event::Tick)?;
        self.go_on(process)
    }

    /// A successor is to take over, or does not.
    fn hand_over(&mut self, process: &mut Process) -> Result<(), String> {
        if let Wants::Message(_) = process.engine.wants() {
            process.hands_over = !process.hands_over;
            self.note(format!("hands over: {}", process.hands_over));
            let event = if process.hands_over { Event::HandOver } else { Event::KeepOn };
            self.tell(process, event)?;
        }
        self.pass(process)
    }

    /// No more messages come: a while later, it has ended in order, or with an error.
    fn stop(&mut self, process: &mut Process) -> Result<(), String> {
        if process.waiting.is_empty() && matches!(process.engine.wants(), Wants::Message(_)) {
            process.stops = true;
            self.note("stops");
            self.tell(process, Event::Stop)?;
        }
        for _ in 0..self.random.below(30) {
            if !process.stops || self.disk.is_dead() || process.is_over {
                return Ok(());
            }
            if process.engine.wants() == Wants::Nothing {
                self.note("ended in order");
                break;
            }
            self.pass(process)?;
            self.store_works(process)?;
        }
        process.is_over |= process.stops;
        Ok(())
    }

    /// Messages arrive, some of them again.
    fn receive(&mut self, process: &mut Process) -> Result<(), String> {
        let journal = &mut process.journal;
        let (mut messages, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.random.below(3) {
            let mut message = self.random.below(self.next_message);
            if key(message).is_none() || message == 0 {
                message = self.next_message;
                self.next_message += 1;
            }
            let (format, lines) = lines(message, self.has_windows);
            let (key, lines, arrival_us) = (key(message), lines.as_bytes(), self.now_us);
            Record::Lines { format, arrival_us, key, lines }.write(&mut bytes);
            let position = journal.append(&bytes).map_err(text)?;
            messages.push(Waiting { position, message, arrival_us });
        }
        let committed = journal.commit();
        let is_torn = journal.is_torn();
        self.note(format!("messages {messages:?}: {committed:?}"));
        let each = messages.iter().map(|waits| waits.message);
        if self.without == Some(Leniency::AnswersEarly) {
            self.acknowledged.extend(each.clone());
        }
        process.is_journal_failing = committed.is_err();
        if committed.is_ok() || self.disk.is_dead() || is_torn {
            // Those without an answer may count, or not.
            self.unknown.extend(each);
        }
        if let (Ok(last), false) = (committed, self.disk.is_dead()) {
            process.lines = last;
            process.waiting.extend(messages);
        }
        self.go_on(process)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
