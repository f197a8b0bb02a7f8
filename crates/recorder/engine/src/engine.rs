//! The state machine: what is told becomes what is to be done.

use std::ops::RangeInclusive;
use std::time::Duration;

use formats::{Book, Series};
use series::Kind;
use store::{StoreError, Writer};

use crate::alone::Alone;
use crate::answer::{LineCounts, Message, RefusedLines};
use crate::behind::Behind;
use crate::disk::Disk;
use crate::event::{Effect, EngineError, Event, Figure, Now, Reply, Wants};
use crate::gather::{BOOK, Gatherer, Question};
use crate::intake::Intake;
use crate::options::EngineOptions;
use crate::outgoing::{Outgoing, RETRY, SILENCE_MAX, SILENT, TICK};
use crate::placed::Piece;
use crate::record::Record;
use crate::session::Session;
use crate::state::{Asking, Goal, LastBatch, Pace, Stop};
use crate::upkeep::Upkeep;

/// How long to wait for the numbers of new series, until senders are answered without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same while messages wait already.
const BRIEFLY: Duration = Duration::from_millis(100);

/// How long the head may be full, until messages wait in the journal instead of with their senders.
const FULL_MAX: Duration = Duration::from_secs(10);

/// How long a last batch may take at the end.
const LAST_BATCH: Duration = Duration::from_secs(60);

/// The way from messages in the journal to slots in the store. It reads no clock, no disk and no
/// store: an executor tells it what happens, and does what it wants.
///
/// ```text
///  Pace: Behind ⇄ AtOnce ⇄ Full   and   Goal: Follow ─→ Serve ⇄ HandOver ─→ Ended
///                                                         └──→ Stop ─────↗
/// ```
#[derive(Debug)]
pub struct Engine<S> {
    options: EngineOptions,
    pace: Pace<S>,
    goal: Goal,
    asking: Asking,
    intake: Intake,
    outgoing: Outgoing,
    alone: Alone,
    upkeep: Upkeep,
    /// The position of the last record that was applied.
    applied: u64,
    /// The positions of the last records of batches that were written, without lines between them.
    noted: RangeInclusive<u64>,
    /// The position of the last record that was there at the start.
    replayed: u64,
    /// The position up to which messages were counted before they were read again.
    counted: u64,
    /// When the journal was last tried.
    tried: Duration,
}

type Effects<S> = Vec<Effect<S>>;

impl<S: Clone + PartialEq> Engine<S> {
    /// The engine of a session that writes to a lane, by its number.
    ///
    /// # Errors
    /// [`EngineError::Record`].
    pub fn new(
        options: EngineOptions,
        lane: i32,
        session: &Session<impl Disk>,
        now: Now,
    ) -> Result<Engine<S>, EngineError> {
        let Session { journal, batches, .. } = session;
        let mut engine = Engine {
            pace: Pace::Behind(Behind::new(journal.last())),
            goal: Goal::Follow,
            outgoing: Outgoing::new(Some(batches.clone()), now.passed),
            replayed: journal.last(),
            ..Engine::of_pieces(options, lane, now)
        };
        engine.go_back(journal.first())?;
        Ok(engine)
    }

    /// The engine of a source that can be read again, whose pieces are written to a lane, by its
    /// number. Without a journal there is nothing to go back to: an error of the store ends it.
    pub fn of_pieces(options: EngineOptions, lane: i32, now: Now) -> Engine<S> {
        Engine {
            pace: Pace::AtOnce,
            goal: Goal::Serve,
            asking: Asking::Nothing,
            intake: Intake::new(options.updates.clone(), lane),
            outgoing: Outgoing::new(None, now.passed),
            alone: Alone::None,
            upkeep: Upkeep::Rests(Duration::ZERO),
            applied: 0,
            noted: 0..=0,
            replayed: 0,
            counted: 0,
            tried: now.passed,
            options,
        }
    }

    /// The head, and what is known about series.
    pub fn gatherer(&self) -> &Gatherer {
        &self.intake.gatherer
    }

    /// Whether messages must wait with their senders.
    pub fn is_full(&self) -> bool {
        self.pace.is_full()
    }

    /// Whether messages wait in the journal.
    pub fn is_behind(&self) -> bool {
        self.pace.is_behind()
    }

    /// When the oldest message arrived that the store does not have, in microseconds since the epoch.
    pub fn oldest_us(&self) -> Option<i64> {
        self.outgoing.oldest_us().or(self.pace.oldest_us())
    }

    /// Approximate memory of updates that wait to be written.
    pub fn head_bytes(&self) -> usize {
        self.intake.gatherer.bytes()
    }

    /// Whether no more is to be added before a batch. Without updates none begins, also if what is
    /// remembered of refused ones is large.
    fn is_head_full(&self) -> bool {
        self.head_bytes() >= self.options.updates.head_bytes && !self.intake.is_empty()
    }

    fn has_journal(&self) -> bool {
        self.outgoing.batches().is_some()
    }

    /// What comes next.
    pub fn wants(&self) -> Wants {
        let (after, pause) = (self.applied, Wants::Reply(TICK));
        match (&self.goal, &self.asking) {
            (Goal::Ended, _) => Wants::Nothing,
            (_, Asking::Asked(_)) => pause,
            (goal, asking) => {
                let hears = !matches!(self.pace, Pace::Full(_))
                    && matches!(goal, Goal::Serve | Goal::HandOver(_));
                let limit = match &self.pace {
                    Pace::Behind(behind)
                        if behind.upto > after && !asking.is_pending() && !self.is_head_full() =>
                    {
                        if !behind.is_ahead() {
                            return Wants::Record { after, upto: behind.upto };
                        }
                        Duration::ZERO
                    }
                    _ => TICK,
                };
                if hears { Wants::Message(limit) } else { Wants::Reply(limit) }
            }
        }
    }

    /// Does what follows from an event; `effects` gets what is to be done, in this order.
    ///
    /// # Errors
    /// [`EngineError`]: then it ends. What it has not written is in the journal.
    pub fn step(
        &mut self,
        event: Event<'_, S>,
        now: Now,
        effects: &mut Effects<S>,
    ) -> Result<(), EngineError> {
        match event {
            Event::Tick => self.tick(now, effects)?,
            Event::Message(message, sender) => self.message(message, sender, now, effects),
            Event::Record { position, bytes } => self.record(position, bytes, now, effects)?,
            Event::Find(book, series) => self.find(book, series, now, effects),
            Event::Piece(piece) => self.piece(piece, effects),
            Event::Flush => self.goal.flush(),
            Event::Store(Reply::Found(found)) => {
                let kept = found.map(|found| self.intake.gatherer.keep(found));
                self.answered(kept.map(|()| Asking::Nothing), now, effects)?;
            }
            Event::Store(Reply::Known(key, known)) => {
                self.answered(known.map(|is_known| Asking::Told(key, is_known)), now, effects)?;
            }
            Event::Store(Reply::Written(result)) => {
                let (intake, alone) = (&mut self.intake, &mut self.alone);
                if self.outgoing.written(result, intake, alone, now, effects)? {
                    self.overtaken(now)?;
                }
            }
            Event::Store(Reply::Maintained(is_partial)) => self.upkeep.ended(is_partial),
            Event::Weighed(bytes) => {
                // If open windows alone keep half of a full journal, they are cut, because their
                // lines are needed no more then.
                self.note(bytes >= self.options.journal_max / 2, now, effects);
            }
            Event::Noted(noted) => {
                let is_sent = self.outgoing.noted(noted.is_some(), &mut self.intake, effects);
                self.noted(noted);
                if is_sent
                    && !self.is_behind()
                    && let Goal::Stop(stop) = &mut self.goal
                {
                    *stop = Stop::Writing(now.passed + LAST_BATCH);
                }
            }
            Event::Tried(noted) => self.noted(noted),
            Event::FileStarted(upto) => {
                if let Goal::HandOver(batch @ LastBatch::Wanted) = &mut self.goal {
                    *batch = LastBatch::Upto(upto);
                    self.write_last(now, effects);
                }
            }
            Event::HandOver => self.goal.hand_over(),
            Event::KeepOn => self.goal.keep_on(),
            Event::Stop => match self.goal {
                // The successor reads the rest from the journal.
                Goal::HandOver(_) | Goal::Ended => self.end(),
                _ => self.drain_again(now),
            },
        }
        let refused = std::mem::take(&mut self.intake.statsd.refused);
        if refused > 0 {
            effects.push(Effect::Add(Figure::WindowsRefused, refused));
        }
        Ok(())
    }

    /// Goes back to what the store has, as far as the journal has records from `first` on. Of what
    /// is in batches, only the lines of open windows are read again.
    fn go_back(&mut self, first: u64) -> Result<(), EngineError> {
        let windows = self.outgoing.batches().and_then(|batches| batches.windows.as_deref());
        let from = self.intake.go_back(windows).ok_or(EngineError::Record)?;
        let upto = self.outgoing.upto();
        self.applied = from.max(first).saturating_sub(1).min(upto);
        self.resume();
        Ok(())
    }

    /// Continues the open windows, once everything is read again that the store has.
    fn resume(&mut self) {
        if self.has_resumed() {
            self.intake.statsd.resume(&mut self.intake.gatherer);
        }
    }

    /// Another daemon has written a request of the batch that was not written: what no batch has is
    /// read from the journal again, without that request.
    fn overtaken(&mut self, now: Now) -> Result<(), EngineError> {
        self.counted = self.counted.max(self.applied);
        self.pace.fall_behind(self.applied);
        if let Goal::Stop(_) = self.goal {
            self.drain_again(now);
        }
        if let Asking::Told(..) = self.asking {
            self.asking = Asking::Nothing;
        }
        self.go_back(0)
    }

    /// Looks at the time.
    fn tick(&mut self, now: Now, effects: &mut Effects<S>) -> Result<(), EngineError> {
        self.look_at_question(now, effects);
        self.outgoing.notice_silence(now.passed, effects);
        effects.extend(self.outgoing.again(now.passed).map(Effect::Write));
        self.keep_pace(now.passed);
        if now.is_journal_failing && now.passed.saturating_sub(self.tried) >= RETRY {
            self.tried = now.passed;
            effects.extend(self.outgoing.batches().cloned().map(Effect::TryJournal));
        }
        let is_troubled = self.outgoing.is_failing();
        match &self.goal {
            Goal::Follow => {
                if is_troubled || self.asking.is_late() {
                    self.goal = Goal::Serve;
                }
                self.write_due(now, effects);
            }
            Goal::Serve => {
                self.write_due(now, effects);
                self.maintain(now, effects);
            }
            Goal::Flush if !self.outgoing.is_idle() => {}
            Goal::Flush if self.intake.is_empty() => self.goal = Goal::Serve,
            Goal::Flush => self.begin(now, effects),
            Goal::HandOver(LastBatch::Wanted) if self.outgoing.is_idle() => {
                effects.push(Effect::StartFile);
            }
            Goal::HandOver(_) => {
                self.write_last(now, effects);
                self.maintain(now, effects);
            }
            Goal::Stop(Stop::Draining(..)) => self.drain(now, effects)?,
            Goal::Stop(Stop::Writing(_)) if self.outgoing.is_idle() => self.shorten(effects),
            // A store that fails now may be gone for long, and the journal has everything.
            Goal::Stop(Stop::Writing(until))
                if self.outgoing.has_failed() || is_troubled && now.passed > *until =>
            {
                return Err(EngineError::Unwritten);
            }
            Goal::Stop(Stop::Writing(_)) | Goal::Ended => {}
        }
        Ok(())
    }

    /// Decides whether messages wait from now on, and where.
    fn keep_pace(&mut self, passed: Duration) {
        let is_head_full = self.is_head_full() && !self.outgoing.is_idle();
        let is_failing = self.outgoing.is_failing();
        match &mut self.pace {
            Pace::Behind(behind) if behind.upto <= self.applied && !self.asking.is_pending() => {
                self.pace = Pace::AtOnce;
            }
            Pace::Behind(behind) => behind.bytes = 0,
            Pace::AtOnce | Pace::Full(_) => {}
        }
        match self.pace {
            Pace::AtOnce | Pace::Full(_) if !is_head_full => self.pace = Pace::AtOnce,
            Pace::AtOnce if !is_failing => self.pace = Pace::Full(passed),
            Pace::Full(_) if !self.has_journal() => {}
            Pace::Full(since) if !is_failing && passed.saturating_sub(since) < FULL_MAX => {}
            _ => self.pace.fall_behind(self.applied),
        }
    }

    /// Looks how long the store has been silent about a question.
    fn look_at_question(&mut self, now: Now, effects: &mut Effects<S>) {
        let patience = match self.goal {
            Goal::Serve | Goal::HandOver(_) | Goal::Stop(_) if self.is_behind() => BRIEFLY,
            _ => PATIENCE,
        };
        match self.asking {
            Asking::Asked(since)
                if self.has_journal() && now.passed.saturating_sub(since) > patience =>
            {
                self.asking = Asking::Overdue(since);
                self.pace.fall_behind(self.applied);
            }
            Asking::Overdue(since) if now.passed.saturating_sub(since) >= SILENCE_MAX => {
                effects.push(Effect::Trouble(Some(SILENT.to_owned())));
            }
            Asking::Failed(until) if now.passed >= until => self.asking = Asking::Nothing,
            _ => {}
        }
    }

    /// Asks for series of the book of a source, unless all are known.
    fn find(&mut self, book: &Book, series: &[(Series, Kind)], now: Now, effects: &mut Effects<S>) {
        let missing = self.intake.gatherer.missing(BOOK, book, series.iter().copied());
        if let Some(question) = missing {
            self.ask(question, now, effects);
            effects.push(Effect::Again);
        }
    }

    /// Adds a piece, or has everything written before it.
    fn piece(&mut self, piece: Piece<'_>, effects: &mut Effects<S>) {
        let is_settled = self.outgoing.is_idle() && self.intake.is_empty();
        let gatherer = &mut self.intake.gatherer;
        gatherer.select(BOOK);
        if piece.writers.is_empty() {
            effects.push(Effect::Refuse(gatherer.judge(piece.updates)));
        } else if self.alone.add(piece, gatherer, is_settled, effects) {
            self.outgoing.updates += piece.updates.len() as u64;
        } else {
            self.goal.flush();
            effects.push(Effect::Again);
        }
    }

    /// Applies a message, or leaves it in the journal.
    fn message(&mut self, message: Message<'_>, sender: &S, now: Now, effects: &mut Effects<S>) {
        if let Pace::Behind(behind) = &mut self.pace {
            behind.add(message.position, message.arrived.at_us, sender.clone());
            effects.push(Effect::Answer(self.intake.judge(message), None));
            return;
        }
        match self.apply(message, now, effects) {
            Some((refused, counted)) => {
                self.applied = message.position;
                effects.push(Effect::Answer(refused, counted));
            }
            None => effects.push(Effect::Again),
        }
    }

    /// Applies a record of the journal.
    fn record(
        &mut self,
        position: u64,
        bytes: &[u8],
        now: Now,
        effects: &mut Effects<S>,
    ) -> Result<(), EngineError> {
        let record = Record::read(bytes).ok_or(EngineError::Record)?;
        let message = match record {
            Record::Lines { format, arrived, key, lines } => {
                Some(Message { position, format, arrived, key, lines })
            }
            Record::Windows { .. } | Record::Batch { .. } => None,
        };
        let Pace::Behind(behind) = &mut self.pace else { return Ok(()) };
        match message {
            Some(message) if position <= self.outgoing.upto() => {
                if let Err(question) = self.intake.again(message) {
                    self.ask(question, now, effects);
                    effects.push(Effect::Again);
                    return Ok(());
                }
            }
            Some(message) => {
                behind.oldest_us = Some(message.arrived.at_us);
                let Some((_, counted)) = self.apply(message, now, effects) else {
                    effects.push(Effect::Again);
                    return Ok(());
                };
                self.count(position, counted, effects);
            }
            None => {}
        }
        self.applied = position;
        match &mut self.pace {
            Pace::Behind(behind) if position < behind.upto => behind.bytes += bytes.len(),
            _ => {
                self.pace = Pace::AtOnce;
                if let Goal::Follow = self.goal {
                    self.goal = Goal::Serve;
                }
            }
        }
        self.resume();
        Ok(())
    }

    /// Counts a message that was read from the journal, once.
    fn count(&mut self, position: u64, counted: Option<LineCounts>, effects: &mut Effects<S>) {
        if position <= self.counted {
            return;
        }
        if position <= self.replayed {
            effects.push(Effect::Add(Figure::JournalReplayed, 1));
        } else if let Pace::Behind(behind) = &mut self.pace {
            let sender = behind.sender(position).cloned();
            effects.extend(sender.zip(counted).map(|(s, counted)| Effect::Count(s, counted)));
        }
    }

    /// Applies a message; `None` if the store is to be asked first. Then nothing is applied.
    fn apply(
        &mut self,
        message: Message<'_>,
        now: Now,
        effects: &mut Effects<S>,
    ) -> Option<(RefusedLines, Option<LineCounts>)> {
        if self.asking.is_pending() {
            return None;
        }
        if let Some(key) = message.key {
            match self.is_repeated(key) {
                None => {
                    self.asking = Asking::Asked(now.passed);
                    effects.push(Effect::AskKey(key));
                    return None;
                }
                Some(true) => {
                    effects.push(Effect::Add(Figure::RequestsRepeated, 1));
                    let refused = self.intake.repeated(message);
                    return Some((RefusedLines { is_repeated: true, ..refused }, None));
                }
                Some(false) => {}
            }
        }
        let taken = match self.intake.take(message) {
            Ok(taken) => taken,
            Err(question) => {
                self.ask(question, now, effects);
                return None;
            }
        };
        if taken.is_in_head {
            self.outgoing.add(message);
        }
        effects.extend(taken.said_us.map(Effect::Hear));
        if taken.updates > 0 && message.position > self.counted {
            effects.push(Effect::Add(Figure::Updates, taken.updates));
        }
        if taken.repeated > 0 && message.position > self.counted {
            effects.push(Effect::Add(Figure::UpdatesRepeated, taken.repeated));
        }
        Some((taken.refused, Some(taken.counted)))
    }

    /// Whether a request was applied before; `None` if the store is to be asked.
    fn is_repeated(&mut self, key: Writer) -> Option<bool> {
        if self.outgoing.has(key) {
            return Some(true);
        }
        // An answer is not kept, because another process may write the request meanwhile.
        match std::mem::replace(&mut self.asking, Asking::Nothing) {
            Asking::Told(of, is_known) if of == key => Some(is_known),
            _ => None,
        }
    }

    fn ask(&mut self, question: Question, now: Now, effects: &mut Effects<S>) {
        self.asking = Asking::Asked(now.passed);
        effects.push(Effect::AskSeries(question));
    }

    /// The store has answered a question, or could not be asked.
    fn answered(
        &mut self,
        answer: Result<Asking, StoreError>,
        now: Now,
        effects: &mut Effects<S>,
    ) -> Result<(), EngineError> {
        match answer {
            Ok(asking) => {
                self.asking = asking;
                if self.outgoing.is_idle() {
                    effects.push(Effect::Trouble(None));
                }
            }
            Err(error) if !self.has_journal() => return Err(error.into()),
            Err(error) => {
                self.asking = Asking::Failed(now.passed + RETRY);
                effects.push(Effect::Add(Figure::StoreErrors, 1));
                effects.push(Effect::Trouble(Some(error.to_string())));
                self.pace.fall_behind(self.applied);
            }
        }
        Ok(())
    }

    /// Whether everything is read again that the store has.
    fn has_resumed(&self) -> bool {
        self.applied >= self.outgoing.upto()
    }

    /// Records of batches were written, without lines between them.
    fn noted(&mut self, noted: Option<RangeInclusive<u64>>) {
        let Some(noted) = noted else { return };
        let goes_on = *noted.start() == self.noted.end() + 1;
        let first = if goes_on { *self.noted.start() } else { *noted.start() };
        self.noted = first..=*noted.end();
    }

    /// The position up to which all lines are applied: only records of batches lie between that of
    /// the last lines and this one.
    fn applied_upto(&self) -> u64 {
        let is_next = self.noted.contains(&(self.applied + 1));
        if is_next { *self.noted.end() } else { self.applied }
    }

    /// Begins a batch that is due.
    fn write_due(&mut self, now: Now, effects: &mut Effects<S>) {
        if self.has_resumed() && self.outgoing.is_due(&self.intake, &self.options, now) {
            self.begin(now, effects);
        }
    }

    /// Begins the last batch before a successor takes over, once everything is applied that it is to
    /// contain. Before and after it, batches are written when they are due, because a successor may
    /// be slow.
    fn write_last(&mut self, now: Now, effects: &mut Effects<S>) {
        let can_begin = self.outgoing.is_idle() && self.has_resumed();
        let applied = self.applied_upto();
        let Goal::HandOver(batch) = &mut self.goal else { return };
        if let LastBatch::Upto(upto) = *batch
            && self.outgoing.is_idle()
            && self.outgoing.upto() >= upto
        {
            *batch = LastBatch::Written;
            effects.push(Effect::Flushed);
        }
        match *batch {
            LastBatch::Upto(upto) if can_begin && applied >= upto => self.begin(now, effects),
            _ => self.write_due(now, effects),
        }
    }

    /// Begins a batch, after it is known what open windows need of the journal.
    fn begin(&mut self, now: Now, effects: &mut Effects<S>) {
        match self.outgoing.begin(&mut self.intake, now) {
            Some(first) => effects.push(Effect::Weigh(first)),
            None => self.note(false, now, effects),
        }
    }

    /// Writes the record of a batch, with open windows that go on or are cut.
    fn note(&mut self, is_cut: bool, now: Now, effects: &mut Effects<S>) {
        self.applied = self.applied_upto();
        let windows = self.intake.give_windows(is_cut, self.applied);
        let is_large = now.journal_bytes >= self.options.journal_max / 2;
        self.outgoing.note(self.applied, windows, is_large, &mut self.intake, effects);
    }

    /// Begins a part of the upkeep, if it is due and no batch is being written.
    fn maintain(&mut self, now: Now, effects: &mut Effects<S>) {
        if !self.outgoing.is_idle() || self.is_full() || !self.upkeep.begin(now.passed) {
            return;
        }
        let Some(now_us) = now.expiry_us else { return self.upkeep.ended(false) };
        effects.push(Effect::Maintain { now_us, forget_us: now.forget_us });
    }

    /// Writes what remains.
    fn drain(&mut self, now: Now, effects: &mut Effects<S>) -> Result<(), EngineError> {
        let is_behind = self.is_behind();
        let Goal::Stop(Stop::Draining(until, applied)) = &mut self.goal else { return Ok(()) };
        if *applied != self.applied {
            // It is slow, but it answers.
            (*until, *applied) = (now.passed + LAST_BATCH, self.applied);
        }
        let is_stuck =
            now.is_journal_failing || self.outgoing.is_failing() || self.asking.is_pending();
        if is_stuck && now.passed > *until {
            return Err(EngineError::Unwritten);
        }
        if is_behind || !self.outgoing.is_idle() {
            self.write_due(now, effects);
        } else if self.intake.is_empty() {
            self.shorten(effects);
        } else {
            self.begin(now, effects);
        }
        Ok(())
    }

    /// From now on, what waits is applied and written.
    fn drain_again(&mut self, now: Now) {
        self.goal = Goal::Stop(Stop::Draining(now.passed + LAST_BATCH, self.applied));
    }

    /// Ends, because everything is written.
    fn shorten(&mut self, effects: &mut Effects<S>) {
        effects.extend(self.outgoing.batches().cloned().map(Effect::Shorten));
        self.end();
    }

    fn end(&mut self) {
        (self.pace, self.goal) = (Pace::AtOnce, Goal::Ended);
    }
}

#[cfg(test)]
mod tests {
    use series::Step;

    use super::*;
    use crate::behind::RUNS_MAX;
    use crate::options::Options;

    #[test]
    fn an_end_is_heard_although_as_many_senders_as_possible_wait_in_the_journal() {
        let options = EngineOptions {
            journal_max: u64::MAX,
            write_each: Duration::from_secs(5),
            updates: Options::new(Step::from_secs(10).unwrap()),
        };
        let mut engine = Engine::of_pieces(options, 0, Now::default());
        let mut behind = Behind::new(0);
        (1..=RUNS_MAX as u64).for_each(|position| behind.add(position, 1, position % 2));
        engine.pace = Pace::Behind(behind);
        engine.asking = Asking::Failed(Duration::MAX);
        assert!(engine.is_full(), "senders are to wait");
        assert_eq!(engine.wants(), Wants::Message(TICK), "the end comes in place of a message");
    }
}
