//! Batches on their way to the store. Times are those since any instant.

use std::collections::HashSet;
use std::time::Duration;

use store::{StoreError, Writer};

use crate::alone::Alone;
use crate::answer::Message;
use crate::event::{Effect, EngineError, Figure, Now};
use crate::head::FrozenBatch;
use crate::intake::Intake;
use crate::options::EngineOptions;
use crate::session::Batches;
use crate::stored::StoredBatch;

/// How often the engine wants to be told that time passes, at least.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Time between two attempts to write to a store, or to a journal, that failed.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// Without a journal, a head with fewer updates is not written before its time, nor one with fewer of
/// each series: rarer batches give fewer and longer rows.
const ENOUGH: u64 = 200_000;
const ENOUGH_EACH: u64 = 100;

/// How long the store may leave a question or a batch without an answer until that is trouble. A
/// connection that is dead, or a lock, ends by itself in about this time.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a person is told then.
pub(crate) const SILENT: &str = "the record has not answered for 30 s: check for locks on it, a hung \
                                 process, or a machine that is gone";

/// What is in the head, and the batch before it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The batches with records in the journal. Without a journal, batches are those of their pieces.
    batches: Option<Batches>,
    batch: Batch,
    /// The updates of pieces that are in the head.
    pub(crate) updates: u64,
    /// The requests whose updates are in the head.
    keys: HashSet<Writer>,
    /// When the oldest message arrived that is in the head, in microseconds since the epoch.
    oldest_us: Option<i64>,
    /// When the last batch began.
    begun: Duration,
}

/// Where a batch is.
#[derive(Debug, Default)]
enum Batch {
    /// There is none.
    #[default]
    None,
    /// The size of the journal that open windows keep is asked for.
    Weighed,
    /// Its record is being written to the journal.
    Noted(Batches),
    /// The store has been given it.
    Sent(SentBatch),
}

/// What is known of a batch that the store has been given.
#[derive(Debug)]
struct SentBatch {
    /// The batches before it.
    before: Option<Batches>,
    /// The requests whose updates it has.
    keys: HashSet<Writer>,
    /// When its oldest message arrived, in microseconds since the epoch.
    oldest_us: Option<i64>,
    /// Series that were omitted because a slot of theirs would overflow.
    omitted: HashSet<i64>,
    progress: Progress,
    /// The batch, and when the store did not accept it, until it is given again.
    failed: Option<(Box<FrozenBatch>, Duration)>,
}

/// What the store has made of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its answer is due.
    Awaited,
    /// It has been silent for long.
    Silent,
    /// It has failed to write it.
    Failed,
}

impl Outgoing {
    pub(crate) fn new(batches: Option<Batches>, begun: Duration) -> Outgoing {
        let (batch, keys) = (Batch::None, HashSet::new());
        Outgoing { batches, batch, updates: 0, keys, oldest_us: None, begun }
    }

    /// The batches with records in the journal, if there is one.
    pub(crate) fn batches(&self) -> Option<&Batches> {
        self.batches.as_ref()
    }

    /// The position up to which the journal is in batches.
    pub(crate) fn upto(&self) -> u64 {
        self.batches.as_ref().map_or(0, Batches::upto)
    }

    /// Whether no batch is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.batch, Batch::None)
    }

    /// Whether the store does not accept the batch, or is silent about it.
    pub(crate) fn is_failing(&self) -> bool {
        self.sent().is_some_and(|sent| sent.progress != Progress::Awaited)
    }

    /// Whether the store has failed to write the batch.
    pub(crate) fn has_failed(&self) -> bool {
        self.sent().is_some_and(|sent| sent.progress == Progress::Failed)
    }

    /// The batch that the store has been given.
    fn sent(&self) -> Option<&SentBatch> {
        match &self.batch {
            Batch::None | Batch::Weighed | Batch::Noted(_) => None,
            Batch::Sent(sent) => Some(sent),
        }
    }

    /// When the oldest message arrived that is in the batch or in the head.
    pub(crate) fn oldest_us(&self) -> Option<i64> {
        self.sent().and_then(|sent| sent.oldest_us).or(self.oldest_us)
    }

    /// Whether the updates of a request are in the batch or in the head.
    pub(crate) fn has(&self, key: Writer) -> bool {
        self.keys.contains(&key) || self.sent().is_some_and(|sent| sent.keys.contains(&key))
    }

    /// The updates of a message are in the head.
    pub(crate) fn add(&mut self, message: Message<'_>) {
        self.keys.extend(message.key);
        self.oldest_us.get_or_insert(message.arrived.at_us);
    }

    /// Whether a batch is to begin.
    pub(crate) fn is_due(&self, intake: &Intake, options: &EngineOptions, now: Now) -> bool {
        let since = now.passed.saturating_sub(self.begun);
        let (bytes, room) = (intake.gatherer.bytes(), options.updates.head_bytes);
        let is_time = match self.batches {
            Some(_) => since >= options.write_each || bytes >= room / 2 && since >= TICK,
            None => {
                let each = intake.gatherer.head.touched() as u64 * ENOUGH_EACH;
                let is_enough = self.updates >= ENOUGH.max(each);
                since >= options.write_each || bytes >= room || is_enough
            }
        };
        // An empty batch lets go of the journal too.
        let is_pressed = now.journal_bytes >= options.journal_max / 2 && since >= RETRY;
        self.is_idle() && (!intake.is_empty() && is_time || is_pressed)
    }

    /// Begins a batch; returns from where on open windows need the journal, which is to be weighed.
    pub(crate) fn begin(&mut self, intake: &mut Intake, now: Now) -> Option<u64> {
        self.begun = now.passed;
        let first = intake.statsd.first()?;
        self.batch = Batch::Weighed;
        Some(first)
    }

    /// The batches with a new one up to a position, whose record is to be written. Without a journal
    /// the batch is written at once.
    pub(crate) fn note<S>(
        &mut self,
        upto: u64,
        windows: Option<Vec<u8>>,
        is_large: bool,
        intake: &mut Intake,
        effects: &mut Vec<Effect<S>>,
    ) {
        let Some(batches) = &self.batches else { return self.send(None, intake, effects) };
        let batches = batches.next(upto, windows);
        self.batch = Batch::Noted(batches.clone());
        effects.push(Effect::Note { batches, is_large });
    }

    /// Writes a batch whose record is on disk; false if there is none, or if it must wait, because the
    /// journal's disk is full.
    pub(crate) fn noted<S>(
        &mut self,
        is_noted: bool,
        intake: &mut Intake,
        effects: &mut Vec<Effect<S>>,
    ) -> bool {
        let Batch::Noted(batches) = std::mem::take(&mut self.batch) else { return false };
        if !is_noted {
            effects.push(Effect::Add(Figure::JournalErrors, 1));
            return false;
        }
        let (writer, number) = batches.claim();
        let before = self.batches.replace(batches);
        intake.gatherer.head.claim(writer, number);
        self.send(before, intake, effects);
        true
    }

    /// Gives the store what is in the head.
    fn send<S>(
        &mut self,
        before: Option<Batches>,
        intake: &mut Intake,
        effects: &mut Vec<Effect<S>>,
    ) {
        effects.push(Effect::Write(Box::new(intake.gatherer.freeze())));
        self.updates = 0;
        let (keys, oldest_us) = (std::mem::take(&mut self.keys), self.oldest_us.take());
        let omitted = HashSet::new();
        let (progress, failed) = (Progress::Awaited, None);
        self.batch = Batch::Sent(SentBatch { before, keys, oldest_us, omitted, progress, failed });
    }

    /// Tells of a batch about which the store has been silent for long. A source that can be read
    /// again waits for as long as it takes.
    pub(crate) fn notice_silence<S>(&mut self, passed: Duration, effects: &mut Vec<Effect<S>>) {
        if let Batch::Sent(sent) = &mut self.batch
            && self.batches.is_some()
            && sent.progress == Progress::Awaited
            && passed.saturating_sub(self.begun) >= SILENCE_MAX
        {
            sent.progress = Progress::Silent;
            effects.push(Effect::Trouble(Some(SILENT.to_owned())));
        }
    }

    /// Takes out the batch if it is to be written again by now.
    pub(crate) fn again(&mut self, passed: Duration) -> Option<Box<FrozenBatch>> {
        let Batch::Sent(sent) = &mut self.batch else { return None };
        let is_due = |failed: &mut (_, Duration)| passed >= failed.1 + RETRY;
        sent.failed.take_if(is_due).map(|(frozen, _)| frozen)
    }

    /// The store has answered. True if another daemon has one of the requests: then nothing of the
    /// batch, or of what came after it, is here any more.
    ///
    /// # Errors
    /// Without a journal, any error that is not that of a piece [alone](Alone).
    pub(crate) fn written<S>(
        &mut self,
        result: Result<StoredBatch, (StoreError, Box<FrozenBatch>)>,
        intake: &mut Intake,
        alone: &mut Alone,
        now: Now,
        effects: &mut Vec<Effect<S>>,
    ) -> Result<bool, EngineError> {
        let Batch::Sent(mut sent) = std::mem::take(&mut self.batch) else { return Ok(false) };
        let (error, mut frozen) = match result {
            Ok(stored) => {
                let unstored = intake.gatherer.stored(&stored);
                let omitted = sent.omitted.len() as u64;
                alone.written();
                effects.extend([
                    Effect::Add(Figure::Batches, 1),
                    Effect::Add(Figure::SeriesOmitted, omitted),
                    Effect::Add(Figure::SlotsExpired, unstored.expired),
                    Effect::Add(Figure::PointsOvertaken, unstored.overtaken),
                    Effect::Add(Figure::UpdatesRepeated, unstored.repeated),
                    Effect::Trouble(None),
                ]);
                effects.extend(self.batches.clone().map(Effect::Release));
                return Ok(false);
            }
            Err((error, frozen)) if self.batches.is_none() => {
                alone.failed(error, *frozen, &mut intake.gatherer)?;
                return Ok(false);
            }
            Err((StoreError::Overtaken, _)) => {
                // Its number is that of the next one.
                self.batches = sent.before;
                (self.keys, self.oldest_us) = (HashSet::new(), None);
                effects.push(Effect::Trouble(None));
                return Ok(true);
            }
            Err(failed) => failed,
        };
        if let StoreError::Overflow { slots } = &error {
            let before = sent.omitted.len();
            sent.omitted.extend(slots.iter().map(|(_, key)| key.series));
            if sent.omitted.len() > before {
                frozen.omit(&sent.omitted);
                self.batch = Batch::Sent(sent);
                effects.push(Effect::Write(frozen));
                return Ok(false);
            }
        }
        effects.push(Effect::Add(Figure::StoreErrors, 1));
        effects.push(Effect::Trouble(Some(error.to_string())));
        (sent.progress, sent.failed) = (Progress::Failed, Some((frozen, now.passed)));
        self.batch = Batch::Sent(sent);
        Ok(false)
    }
}
