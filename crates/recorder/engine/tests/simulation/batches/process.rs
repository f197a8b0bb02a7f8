//! A process: it tells the engine what happens, and does what the engine wants.

use std::collections::VecDeque;
use std::time::Duration;

use ::store::Writer;
use engine::journal::Follower;
use engine::{Effect, EngineError, Event, Figure, LineCounts, Message, Now, Record, Wants};
use series::SECOND_US;

use super::messages::Given;
use super::script::Answer;
use super::{
    Arrival, Asked, Batch, HEAD_SLACK, JOURNAL_MAX, JOURNAL_SLACK, Leniency, PARTITION_US, Process,
    REMEMBER_US, Waiting, World, text,
};
use crate::disk;
use crate::journal::law;

/// How far a clock that is not believed may move expiry: an hour, and a step of the clock.
const EARLY_MAX_US: i64 = 3_660 * SECOND_US;

/// How long a head may take more although it is full.
const FULL_MAX_US: i64 = SECOND_US;

/// By then, a handover has come to its last batch.
const LAST_BATCH_ROUNDS: u32 = 200;

/// By then, a process that is told to stop has ended: five minutes.
const SILENT_ROUNDS: u64 = 60;
const SILENT_ROUND_MS: u64 = 5_000;

/// What became of the message of an event.
#[derive(Default)]
pub(super) struct Done {
    is_again: bool,
    is_answered: bool,
    /// What its sender said that the time is.
    said_us: Option<i64>,
}

impl World {
    fn now(&mut self, process: &mut Process) -> Now {
        let at = self.moment();
        let expiry_us = match self.without {
            Some(Leniency::ExpiryAsShown) => Some(at.shown_us),
            _ => process.clock.expiry_us(at),
        };
        Now {
            passed: Duration::from_micros((self.passed_us - process.begun_us).unsigned_abs()),
            expiry_us,
            forget_us: process.clock.forget_us(at, REMEMBER_US),
            journal_bytes: process.journal.size(),
            is_journal_failing: process.is_journal_failing,
        }
    }

    /// Tells the engine of an event, and does what it wants.
    pub(super) fn tell(
        &mut self,
        process: &mut Process,
        event: Event<'_, u64>,
    ) -> Result<Done, String> {
        let now = self.now(process);
        let (mut done, mut effects) = (Done::default(), Vec::new());
        let bytes_before = process.engine.head_bytes();
        let adds = matches!(event, Event::Message(..) | Event::Record { .. });
        let number = match &event {
            Event::Message(_, number) => **number,
            _ => 0,
        };
        if let Err(error) = process.engine.step(event, now, &mut effects) {
            self.note(format_args!("ends: {error}"));
            let is_allowed = matches!(error, EngineError::Unwritten) && process.stops;
            law(is_allowed, format_args!("only a stop ends it: {error}"))?;
            process.is_over = true;
        }
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let event = self.carry_out(process, effect, number, &mut done)?;
            if self.own.disk.is_dead() {
                // It does not learn the results of its calls any more.
                return Ok(Done::default());
            }
            if let Some(event) = event {
                let mut more = Vec::new();
                process.engine.step(event, now, &mut more).map_err(text)?;
                effects.extend(more);
            }
        }
        let bytes = process.engine.head_bytes();
        let is_limited = bytes <= process.head_bytes + HEAD_SLACK;
        law(is_limited, format_args!("the head has a limit: {bytes} bytes"))?;
        let full_us = process.full_since_us.map_or(0, |since_us| self.passed_us - since_us);
        let is_open = !adds || bytes <= bytes_before || full_us <= FULL_MAX_US;
        law(is_open, format_args!("a full head takes nothing: {bytes} bytes after {full_us} us"))?;
        let since_us = process.full_since_us.unwrap_or(self.passed_us);
        // Without a journal no batch begins, but nothing new is acknowledged either.
        let is_full = bytes >= process.head_bytes && !process.is_journal_failing;
        process.full_since_us = is_full.then_some(since_us);
        Ok(done)
    }

    /// Does what the engine wants; returns what it is to be told at once. `number` is that of the
    /// message of the event.
    fn carry_out(
        &mut self,
        process: &mut Process,
        effect: Effect<u64>,
        number: u64,
        done: &mut Done,
    ) -> Result<Option<Event<'static, u64>>, String> {
        let journal = &mut process.journal;
        match effect {
            Effect::Again => done.is_again = true,
            Effect::Answer(_, counted) => {
                done.is_answered = true;
                if let Some(counted) = counted {
                    let is_heard = self.messages[&number].may_say(done.said_us);
                    law(is_heard, format_args!("senders are heard: {number} {:?}", done.said_us))?;
                    self.count(number, counted)?;
                }
            }
            Effect::Count(number, counted) => self.count(number, counted)?,
            Effect::Add(Figure::RequestsRepeated, count) => self.seen.repetitions += count,
            Effect::Flushed => process.is_flushed = true,
            Effect::Hear(said_us) => {
                done.said_us = Some(said_us);
                process.clock.hear(self.moment(), said_us);
            }
            // Only pieces have lines to keep.
            Effect::Add(..) | Effect::Trouble(_) | Effect::Refuse(_) => {}
            Effect::Maintain { now_us, forget_us } => {
                let is_safe = now_us <= self.latest_us(process);
                law(
                    is_safe,
                    format_args!("nothing expires early: {now_us} at {}", self.right_us()),
                )?;
                let forget_us = match self.without {
                    Some(Leniency::KeysForgottenEarly) => Some(now_us - REMEMBER_US),
                    Some(Leniency::KeysForEver) => None,
                    _ => forget_us,
                };
                process.asked.push_back(Asked::Maintain(now_us, forget_us));
            }
            Effect::AskSeries(question) => process.asked.push_back(Asked::Series(question)),
            Effect::AskKey(key) => process.asked.push_back(Asked::Key(key)),
            Effect::Weigh(from) => {
                let bytes = journal.size_from(from);
                self.is_cut |= bytes >= JOURNAL_MAX / 2;
                return Ok(Some(Event::Weighed(bytes)));
            }
            Effect::Note { batches, .. } if self.without == Some(Leniency::RecordAfterBatch) => {
                process.owed = Some(batches);
                let next = journal.last() + 1;
                return Ok(Some(Event::Noted(Some(next..=next))));
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
                self.note(format_args!("batch up to {}: {noted:?}", batches.upto()));
                let noted = noted.ok().map(|noted| match self.without {
                    Some(Leniency::LinesTakenForBatches) => 1..=*noted.end(),
                    _ => noted,
                });
                return Ok(Some(Event::Noted(noted)));
            }
            Effect::TryJournal(batches) => {
                let noted = batches.note(journal);
                process.is_journal_failing = noted.is_err();
                return Ok(Some(Event::Tried(noted.ok())));
            }
            Effect::StartFile => {
                let _ = journal.start_file();
                return Ok(Some(Event::FileStarted(journal.last())));
            }
            Effect::Write(frozen) => {
                let claims = frozen.claims().iter();
                let claims = claims.map(|(writer, number)| (*writer, number + process.ahead));
                let mut sent = Batch { claims: claims.collect(), frozen };
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

    /// The latest time that may be believed: about the right one, or what expiry believed before the
    /// process began. What is recorded does not count, because a wrong clock may have written it.
    fn latest_us(&self, process: &Process) -> i64 {
        let run_us = self.passed_us - process.begun_us;
        (self.right_us() + EARLY_MAX_US).max(process.known_us.saturating_add(run_us))
    }

    /// What a process may believe that begins now: a clock that is not far ahead of what expiry
    /// believed, which the store knows to a partition; otherwise no more than that.
    pub(super) fn known_us(&self) -> i64 {
        let until_us = self.believed_us.saturating_add(PARTITION_US + EARLY_MAX_US);
        let is_near = self.moment().shown_us <= until_us;
        if is_near { until_us } else { self.believed_us }
    }

    /// Sees which requests are old, and which ones look so, because another process took them while
    /// its clock was far behind what this one believes.
    pub(super) fn see_forgettable(&mut self, process: &Process) {
        let (latest_us, ago_us) = (self.latest_us(process), REMEMBER_US - EARLY_MAX_US);
        let old_us = self.passed_us - ago_us;
        let is_old = |arrived: &Arrival| {
            let looks_old = arrived.arrival_us < latest_us - REMEMBER_US;
            let is_own = arrived.daemon == self.daemon && arrived.passed_us > process.begun_us;
            arrived.passed_us < old_us || (looks_old && !is_own)
        };
        let old = self.arrivals.iter().filter(|(_, arrivals)| arrivals.iter().any(is_old));
        self.forgettable.extend(old.map(|(number, _)| *number));
    }

    /// Counts a message, once.
    fn count(&mut self, number: u64, counted: LineCounts) -> Result<(), String> {
        let counted = match self.without {
            Some(Leniency::RefusedUncounted) => {
                LineCounts { refused: formats::RefusalCounts::default(), ..counted }
            }
            _ => counted,
        };
        let before = self.own.counted.insert(number, counted);
        let is_once = before.is_none() || self.forgettable.contains(&number);
        law(is_once, format_args!("a message is counted once: {number}"))
    }

    /// Gives the engine what it wants, as far as it is there.
    pub(super) fn go_on(&mut self, process: &mut Process) -> Result<(), String> {
        let mut group_given = None;
        while !self.own.disk.is_dead() && !process.is_over {
            match process.engine.wants() {
                Wants::Record { after, upto } => self.read(process, after, upto)?,
                Wants::Message(_) => {
                    let Some(waits) = process.waiting.pop_front() else { return Ok(()) };
                    let Waiting { position, group, given, arrived } = waits;
                    // The daemon lets its engine look at the time before each group of messages.
                    if group_given.replace(group) != Some(group) {
                        process.waiting.push_front(waits);
                        self.tell(process, Event::Tick)?;
                        continue;
                    }
                    let far = u64::from(self.without == Some(Leniency::UptoTooFar));
                    let lines = self.messages[&given.number].lines.clone();
                    let message = Message {
                        position: position + far,
                        format: given.format.of_engine(),
                        arrived,
                        key: given.key(),
                        lines: &lines,
                    };
                    let done = self.tell(process, Event::Message(message, &given.number))?;
                    if done.is_again {
                        process.waiting.push_front(waits);
                    } else if done.is_answered {
                        self.acknowledged.insert(given.number);
                        if given.key().is_none() {
                            process.answered.insert(given.number);
                        }
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
        let mut follower = follower.unwrap_or_else(|| Follower::new(self.own.disk.clone(), after));
        match follower.next(upto) {
            Ok(Some((position, bytes))) => {
                let bytes = match position <= process.believed {
                    true => {
                        let mut skipped = Vec::new();
                        Record::Batch { writer: Writer(0), number: 0, upto: 0 }.write(&mut skipped);
                        skipped
                    }
                    false => self.as_read(process, bytes),
                };
                let done = self.tell(process, Event::Record { position, bytes: &bytes })?;
                if done.is_again {
                    follower.again();
                }
                process.follower = Some(follower);
            }
            read => {
                self.note(format_args!("not read: {read:?}"));
                process.is_over = true;
            }
        }
        Ok(())
    }

    /// A record, as a process reads it that leaves out a rule.
    fn as_read(&self, process: &mut Process, bytes: &[u8]) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        let Some(Record::Lines { format, arrived, key, lines }) = Record::read(bytes) else {
            return changed;
        };
        match self.without {
            Some(Leniency::ArrivalsAnew) => {
                let arrived = process.clock.arrived(self.moment());
                Record::Lines { format, arrived, key, lines }.write(&mut changed);
            }
            Some(Leniency::ChangesForgotten) => {
                let is_kept = |line: &&[u8]| !line.starts_with(b"gauge:");
                let kept: Vec<&[u8]> =
                    lines.split_inclusive(|byte| *byte == b'\n').filter(is_kept).collect();
                let lines = &kept.concat();
                Record::Lines { format, arrived, key, lines }.write(&mut changed);
            }
            _ => {}
        }
        changed
    }

    /// The engine looks at the time.
    pub(super) fn tick(&mut self, process: &mut Process) -> Result<(), String> {
        self.tell(process, Event::Tick)?;
        self.go_on(process)
    }

    /// A successor is to take over, or does not.
    pub(super) fn hand_over(&mut self, process: &mut Process) -> Result<(), String> {
        if let Wants::Message(_) = process.engine.wants() {
            process.hands_over = !process.hands_over;
            self.note(format_args!("hands over: {}", process.hands_over));
            process.is_flushed = false;
            let event = if process.hands_over { Event::HandOver } else { Event::KeepOn };
            self.tell(process, event)?;
        }
        self.pass(1_000);
        self.tick(process)?;
        if process.hands_over && self.random.one_in(4) {
            return self.see_last_batch(process);
        }
        Ok(())
    }

    /// On a disk and with a store that work, the last batch before a successor is written.
    fn see_last_batch(&mut self, process: &mut Process) -> Result<(), String> {
        self.own.disk.set(disk::Condition::default());
        for _ in 0..LAST_BATCH_ROUNDS {
            if process.is_flushed || process.is_over || self.own.disk.is_dead() {
                return Ok(());
            }
            self.pass(1_000);
            self.tick(process)?;
            self.store_works(process, Answer::Given)?;
        }
        law(false, "a handover comes to its last batch")
    }

    /// No more messages come: a while later, it has ended in order, or with an error.
    pub(super) fn stop(&mut self, process: &mut Process, rounds: u64) -> Result<(), String> {
        if process.waiting.is_empty() && matches!(process.engine.wants(), Wants::Message(_)) {
            process.stops = true;
            self.tell(process, Event::Stop)?;
        }
        for _ in 0..rounds {
            if !process.stops || self.own.disk.is_dead() || process.is_over {
                return Ok(());
            }
            if process.engine.wants() == Wants::Nothing {
                self.note("ended in order");
                // A successor of a handover reads the rest, and does not count it again.
                let is_counted = |number: &&u64| self.own.counted.contains_key(*number);
                let uncounted = process.answered.iter().find(|number| !is_counted(number));
                let all = process.hands_over || uncounted.is_none();
                law(all, format_args!("every message is counted: {uncounted:?}"))?;
                break;
            }
            let ms = 50 + self.random.below(6_000);
            self.pass(ms);
            self.tick(process)?;
            let answer = self.random_answer();
            self.store_works(process, answer)?;
        }
        process.is_over |= process.stops;
        Ok(())
    }

    /// The store is silent from now on. A process that is told to stop ends nevertheless.
    pub(super) fn stop_in_silence(&mut self, process: &mut Process) -> Result<(), String> {
        self.note("stops, and the store is silent");
        self.own.disk.set(disk::Condition::default());
        for _ in 0..SILENT_ROUNDS {
            if process.waiting.is_empty() && matches!(process.engine.wants(), Wants::Message(_)) {
                process.stops = true;
                self.tell(process, Event::Stop)?;
            }
            let is_over = process.is_over || process.engine.wants() == Wants::Nothing;
            if is_over || self.own.disk.is_dead() {
                return Ok(());
            }
            self.pass(SILENT_ROUND_MS);
            self.tick(process)?;
        }
        law(false, "a process that is told to stop ends, whatever the store does")
    }

    /// Messages arrive, some of them again.
    pub(super) fn receive(
        &mut self,
        process: &mut Process,
        messages: &[Given],
    ) -> Result<(), String> {
        let is_full = process.engine.is_full() || process.journal.size() >= JOURNAL_MAX;
        if is_full && self.without != Some(Leniency::NobodyWaits) {
            self.note("the senders wait");
            return self.go_on(process);
        }
        // The senders' clocks are right.
        let (arrived, right_us) = (process.clock.arrived(self.moment()), self.right_us());
        let arrival_us = arrived.at_us;
        let refuses_none = self.ahead_us != 0 || arrived.latest_us >= right_us;
        law(refuses_none, "a clock that is right makes no correct point one of the future")?;
        self.in_order &= arrival_us >= self.arrived_us;
        self.arrived_us = arrival_us;
        let journal = &mut process.journal;
        let mut waiting = Vec::new();
        for given in messages {
            let sent = given.send(right_us, arrived);
            let position = journal.append(&sent.record).map_err(text)?;
            let group = waiting.first().map_or(position, |first: &Waiting| first.group);
            waiting.push(Waiting { position, group, given: *given, arrived });
            self.messages.entry(given.number).or_insert(sent);
            if given.key().is_some() {
                let (daemon, passed_us) = (self.daemon, self.passed_us);
                let arrivals = self.arrivals.entry(given.number).or_default();
                arrivals.push(Arrival { daemon, passed_us, arrival_us });
            }
        }
        let committed = journal.commit();
        let (is_torn, bytes) = (journal.is_torn(), journal.size());
        self.note(format_args!("at {arrival_us}, {waiting:?}: {committed:?}"));
        let numbers = messages.iter().map(|given| given.number);
        if self.without == Some(Leniency::AnswersEarly) {
            self.acknowledged.extend(numbers.clone());
        }
        process.is_journal_failing = committed.is_err();
        if committed.is_ok() || self.own.disk.is_dead() || is_torn {
            // Those without an answer may count, or not.
            self.unknown.extend(numbers);
        }
        if committed.is_ok() && !self.own.disk.is_dead() {
            process.waiting.extend(waiting);
        }
        let has_room = bytes <= JOURNAL_MAX + JOURNAL_SLACK;
        law(has_room, format_args!("the journal has a limit: {bytes} bytes"))?;
        self.go_on(process)
    }
}
