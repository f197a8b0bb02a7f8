//! The thread that tells the engine what happens, and does what it wants.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::journal::{FILE_BYTES, Follower};
use engine::{
    Effect, Engine, EngineError, Event, Folder, Journal, JournalError, LineCounts, Now,
    RefusedLines, Reply, Session, SessionError, Wants, session,
};
use store::{FORGOTTEN_MAX, Retention, Store, StoreError, Writer};

use super::journal::Group;
use super::state::HeldJournal;
use super::store_thread::Job;
use super::watchdog::Watchdog;
use super::{Answer, IngestOptions, Message, SharedJournal, State, keys, store_thread};
use crate::ServeError;
use crate::metrics::{ByWay, Metrics, Sender};

/// Time for a part of the upkeep: batches wait for no longer than this and one span.
const PART: Duration = Duration::from_millis(250);

/// Runs until the sender of groups is gone and everything is written.
pub(super) fn run(
    options: &IngestOptions,
    state: &State,
    metrics: &Metrics,
    groups: &Receiver<Group>,
    opened: &mpsc::Sender<SharedJournal>,
) -> Result<(), ServeError> {
    let mut store = store::open(&options.place)?;
    retain(&mut *store, options)?;
    let mut session = begin(&mut *store, &options.journal)?;
    state.set_missing(std::mem::take(&mut session.missing));
    if let Some(expired_us) = store.known_times()?.expired_us {
        state.compare_clock(&expired_us);
    }
    let lane = store.lanes(&[&options.engine.updates.lane])?.first().copied().unwrap_or(0);
    state.journal_bytes.store(session.journal.size(), Ordering::Relaxed);
    let engine = Engine::new(options.engine.clone(), lane, &session, Now::default());
    let engine = engine.map_err(|error| failed(error, options, state))?;
    let (replies, told) = channel();
    let keys = keys::start(&options.place, replies.clone())?;
    store_thread::with(store, replies, |store| {
        let mut executor = Executor {
            options,
            state,
            metrics,
            journal: Arc::new(Mutex::new(session.journal)),
            follower: None,
            store,
            keys,
            told,
            group: Group::default(),
            begun: Instant::now(),
            watchdog: Watchdog::new(),
            hands_over: false,
            opened: Some(opened),
            engine,
        };
        while executor.round(groups)? {}
        Ok(())
    })
}

/// Begins a session with a new, random writer.
fn begin(store: &mut dyn Store, folder: &Path) -> Result<Session<Folder>, ServeError> {
    let mut random = File::open("/dev/urandom").map_err(ServeError::System)?;
    let mut new_writer = || {
        let mut bytes = [0; 16];
        random.read_exact(&mut bytes).map(|()| Writer(u128::from_le_bytes(bytes)))
    };
    let mut writers = Vec::new();
    for _ in 0..session::ATTEMPTS {
        writers.push(new_writer().map_err(ServeError::System)?);
    }
    let disk = Folder::locked(folder);
    let disk = disk.map_err(|(path, cause)| JournalError::Open { path, cause })?;
    let disk = disk.ok_or_else(|| JournalError::Locked(folder.to_owned()))?;
    session::begin(disk, FILE_BYTES, store, writers).map_err(|error| match error {
        SessionError::Journal(error) => error.into(),
        SessionError::Store(error) => error.into(),
        SessionError::OtherRecord => {
            ServeError::OtherRecord { journal: folder.to_owned(), record: store.place() }
        }
    })
}

/// Ensures that the step has a retention; a new store gets the usual ones.
fn retain(store: &mut dyn Store, options: &IngestOptions) -> Result<(), StoreError> {
    let step = options.engine.updates.step;
    let known = store.retentions()?;
    let mut wanted = Vec::new();
    if known.is_empty() {
        let usual = Retention::usual();
        wanted.extend(usual.into_iter().filter(|usual| step.divides(usual.step)));
    }
    if !known.iter().chain(&wanted).any(|retention| retention.step == step) {
        wanted.push(Retention { step, age_us: None });
    }
    if wanted.is_empty() { Ok(()) } else { store.retain(&wanted) }
}

/// Why the engine cannot go on, for a person.
fn failed(error: EngineError, options: &IngestOptions, state: &State) -> ServeError {
    let journal = options.journal.clone();
    match error {
        EngineError::Store(error) => error.into(),
        EngineError::Record => ServeError::Record(journal),
        EngineError::Unwritten => {
            let error = state.trouble().unwrap_or_else(|| "it does not answer".to_owned());
            ServeError::Unwritten { journal, error }
        }
    }
}

/// Series of a batch from which on the memory that it took is worth to be given back.
const LARGE: usize = 50_000;

struct Executor<'a> {
    options: &'a IngestOptions,
    state: &'a State,
    metrics: &'a Metrics,
    engine: Engine<Sender>,
    journal: SharedJournal,
    /// Reads what waits in the journal.
    follower: Option<Follower<Folder>>,
    /// The thread that writes to the store, and the one that asks it for requests.
    store: mpsc::Sender<Job>,
    keys: mpsc::Sender<Writer>,
    told: Receiver<Option<Reply>>,
    /// Messages that the engine has not taken yet.
    group: Group,
    begun: Instant,
    watchdog: Watchdog,
    hands_over: bool,
    /// Who is told when senders can be heard.
    opened: Option<&'a mpsc::Sender<SharedJournal>>,
}

/// What became of the message of an event.
#[derive(Default)]
struct EventOutcome {
    is_again: bool,
    answer: Option<(RefusedLines, Option<LineCounts>)>,
}

impl Executor<'_> {
    /// Looks at the time and at the replies of the store, and does what the engine wants next; false
    /// at the end.
    fn round(&mut self, groups: &Receiver<Group>) -> Result<bool, ServeError> {
        let now = self.now();
        while let Ok(reply) = self.told.try_recv() {
            self.tell(Event::Store(reply.unwrap_or_else(|| gone())), now)?;
        }
        self.look_for_successor(now)?;
        self.tell(Event::Tick, now)?;
        self.watchdog.feed();
        self.show();
        loop {
            match self.engine.wants() {
                Wants::Record { after, upto } => self.read(after, upto, now)?,
                Wants::Reply(limit) => match self.told.recv_timeout(limit) {
                    Ok(reply) => {
                        self.tell(Event::Store(reply.unwrap_or_else(|| gone())), now)?;
                        return Ok(true);
                    }
                    Err(RecvTimeoutError::Timeout) => return Ok(true),
                    Err(RecvTimeoutError::Disconnected) => gone(),
                },
                Wants::Message(limit) => {
                    if let Some(opened) = self.opened.take() {
                        // If the receiver is gone, the daemon is already ending.
                        let _ = opened.send(self.journal.clone());
                    }
                    if self.group.messages.is_empty() {
                        match groups.recv_timeout(limit) {
                            Ok(group) => self.group = group,
                            Err(RecvTimeoutError::Timeout) => return Ok(true),
                            Err(RecvTimeoutError::Disconnected) => {
                                self.look_for_successor(now)?;
                                self.tell(Event::Stop, now)?;
                                return Ok(true);
                            }
                        }
                    }
                    self.give(now)?;
                    return Ok(true);
                }
                Wants::Nothing => return Ok(false),
            }
        }
    }

    /// Tells the engine if a successor is to take over, or is not any more.
    fn look_for_successor(&mut self, now: Now) -> Result<(), ServeError> {
        let hands_over = self.state.last_batch.load(Ordering::Relaxed);
        if hands_over != std::mem::replace(&mut self.hands_over, hands_over) {
            self.tell(if hands_over { Event::HandOver } else { Event::KeepOn }, now)?;
        }
        Ok(())
    }

    /// The world as it is now.
    fn now(&self) -> Now {
        Now {
            passed: self.begun.elapsed(),
            expiry_us: self.state.expiry_us(),
            forget_us: self.state.forget_us(self.options.remember),
            journal_bytes: self.state.journal_bytes.load(Ordering::Relaxed),
            is_journal_failing: self.state.has_journal_error(),
        }
    }

    /// Publishes the figures that change all the time.
    fn show(&mut self) {
        let state = self.state;
        state.oldest_us.store(self.engine.oldest_us().unwrap_or(0), Ordering::Relaxed);
        state.head_bytes.store(self.engine.head_bytes() as u64, Ordering::Relaxed);
        state.full.store(self.engine.is_full(), Ordering::Relaxed);
        if !self.engine.is_behind() {
            self.follower = None;
        }
    }

    /// Gives messages to the engine, as long as it takes them.
    fn give(&mut self, now: Now) -> Result<(), ServeError> {
        while !matches!(self.engine.wants(), Wants::Reply(_)) {
            let position = self.group.last + 1 - self.group.messages.len() as u64;
            let Some(message) = self.group.messages.pop_front() else { return Ok(()) };
            let Message { format, lines, arrived, key, sender, .. } = &message;
            let (format, arrived, key) = (*format, *arrived, *key);
            let given = engine::Message { position, format, arrived, key, lines };
            let EventOutcome { is_again, answer } =
                self.tell(Event::Message(given, sender), now)?;
            if is_again {
                self.group.messages.push_front(message);
            } else if let Some((refused, counted)) = answer {
                if let Some(counted) = counted {
                    self.count(sender, &counted);
                }
                // A sender that is gone does not wait for its answer.
                let _ = message.answer.map(|to| to.send(Answer::Written(refused)));
                drop(message.room);
            }
        }
        Ok(())
    }

    /// Reads the next record that waits in the journal.
    fn read(&mut self, after: u64, upto: u64, now: Now) -> Result<(), ServeError> {
        let follower = self.follower.take().filter(|follower| follower.after() == after);
        let new = || Follower::new(Folder::new(&self.options.journal), after);
        let mut follower = follower.unwrap_or_else(new);
        if let Some((position, bytes)) = follower.next(upto)? {
            let done = self.tell(Event::Record { position, bytes }, now)?;
            if done.is_again {
                follower.again();
            }
        }
        self.follower = Some(follower);
        Ok(())
    }

    /// Tells the engine of an event, and does what it wants.
    fn tell(&mut self, event: Event<'_, Sender>, now: Now) -> Result<EventOutcome, ServeError> {
        let (mut done, mut effects) = (EventOutcome::default(), Vec::new());
        let (options, state) = (self.options, self.state);
        let failed = |error| failed(error, options, state);
        self.engine.step(event, now, &mut effects).map_err(failed)?;
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            if let Some(event) = self.carry_out(effect, &mut done) {
                let mut more = Vec::new();
                self.engine.step(event, now, &mut more).map_err(failed)?;
                effects.extend(more);
            }
        }
        Ok(done)
    }

    /// Does what the engine wants; returns what it is to be told at once.
    fn carry_out(
        &self,
        effect: Effect<Sender>,
        done: &mut EventOutcome,
    ) -> Option<Event<'static, Sender>> {
        let (state, metrics) = (self.state, self.metrics);
        match effect {
            Effect::Again => done.is_again = true,
            Effect::Answer(refused, counted) => done.answer = Some((refused, counted)),
            Effect::Count(sender, counted) => self.count(&sender, &counted),
            Effect::Add(figure, count) => metrics.add(figure, count),
            Effect::Hear(said_us) => state.hear(said_us),
            Effect::AskSeries(question) => {
                self.work(move |store| Some(Reply::Found(question.ask(store))));
            }
            Effect::AskKey(key) => self.keys.send(key).unwrap_or_else(|_| gone()),
            Effect::Weigh(from) => return Some(Event::Weighed(self.journal().size_from(from))),
            Effect::Note { batches, is_large } => {
                let mut journal = self.journal();
                if is_large {
                    // Without a new file, the journal is released later.
                    let _ = journal.start_file();
                }
                let noted = batches.note(&mut journal);
                state.set_journal_error(noted.as_ref().err().map(ToString::to_string));
                return Some(Event::Noted(noted.ok()));
            }
            Effect::TryJournal(batches) => {
                let noted = batches.note(&mut self.journal());
                state.set_journal_error(noted.as_ref().err().map(ToString::to_string));
                return Some(Event::Tried(noted.ok()));
            }
            Effect::StartFile => {
                let mut journal = self.journal();
                // Without a new file the successor has more to read.
                let _ = journal.start_file();
                return Some(Event::FileStarted(journal.last()));
            }
            Effect::Write(mut frozen) => {
                let now_us = state.now_us();
                self.work(move |store| {
                    let written =
                        engine::write(store, &mut frozen, now_us, |store, claims, frozen| {
                            store::apply_ahead(store, claims, frozen)
                        });
                    let is_large = frozen.series() >= LARGE;
                    let written = written.map_err(|error| (error, frozen));
                    if is_large && written.is_ok() {
                        base::give_back_memory();
                    }
                    Some(Reply::Written(written))
                });
            }
            Effect::Release(batches) => {
                let mut journal = self.journal();
                // A file that cannot be deleted now is deleted with the next batch.
                if batches.release(&mut journal).is_err() {
                    metrics.journal_errors.inc();
                }
                state.journal_bytes.store(journal.size(), Ordering::Relaxed);
            }
            Effect::Shorten(mut batches) => {
                // If that fails, the next start reads more.
                if batches.shorten(&mut self.journal()).is_err() {
                    metrics.journal_errors.inc();
                }
            }
            Effect::Maintain { now_us, forget_us } => {
                let metrics = metrics.clone();
                self.work(move |store| {
                    let begun = Instant::now();
                    let mut goes_on = || begun.elapsed() < PART;
                    let mut forgets_more = forget_us.is_some();
                    while let Some(forget_us) = forget_us
                        && forgets_more
                        && goes_on()
                    {
                        let forgotten = store.forget_requests(forget_us);
                        metrics.forgotten(&forgotten);
                        forgets_more = forgotten.is_ok_and(|count| count >= FORGOTTEN_MAX);
                    }
                    let done = store.maintain_while(now_us, &mut goes_on);
                    metrics.upkeep(&done);
                    let is_partial = forgets_more || done.is_ok_and(|done| done.is_partial);
                    Some(Reply::Maintained(is_partial))
                });
            }
            Effect::Trouble(error) => state.set_store_error(error),
            Effect::Flushed => state.is_flushed.store(true, Ordering::Relaxed),
            // Messages are no pieces, whose refused lines are kept.
            Effect::Refuse(_) => {}
        }
        None
    }

    fn journal(&self) -> HeldJournal<'_, Journal> {
        self.state.hold(&self.journal)
    }

    /// Gives a job to the thread that writes to the store.
    fn work(&self, job: impl FnOnce(&mut dyn Store) -> Option<Reply> + Send + 'static) {
        self.store.send(Box::new(job)).unwrap_or_else(|_| gone());
    }

    /// Counts a message of a sender.
    fn count(&self, sender: &Sender, counted: &LineCounts) {
        for (reason, lines) in counted.refused.iter() {
            self.metrics.refuse(sender, reason.name(), lines);
        }
        self.metrics.lines.get_or_create(&ByWay { way: sender.way }).inc_by(counted.lines);
    }
}

/// A thread that uses the store ends before this one only if it panicked; then this one panics too.
fn gone() -> ! {
    panic!("a thread that uses the store has ended")
}
