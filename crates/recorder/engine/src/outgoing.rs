//! Batches on their way to the store. Times are those since any instant.

use std::collections::HashSet;
use std::time::Duration;

use store::{StoreError, Writer};

use crate::answer::Message;
use crate::event::{Effect, EngineError, Figure, Now};
use crate::head::Frozen;
use crate::intake::Intake;
use crate::options::EngineOptions;
use crate::session::{Batches, WindowsRecord};
use crate::stored::Stored;

/// How often the engine wants to be told that time passes, at least.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Time between two attempts to write to a store, or to a journal, that failed.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// What is in the head, and the batch before it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The batches with records in the journal.
    batches: Batches,
    batch: Batch,
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
    Sent(Sent),
    /// The store did not accept it then.
    Failed(Sent, Box<Frozen>, Duration),
}

/// What is known of a batch that the store has been given.
#[derive(Debug)]
struct Sent {
    /// The requests whose updates it has.
    keys: HashSet<Writer>,
    /// When its oldest message arrived, in microseconds since the epoch.
    oldest_us: Option<i64>,
    /// Series that were omitted because a slot of theirs would overflow.
    omitted: HashSet<i64>,
    /// Whether the store has failed to write it.
    is_late: bool,
}

impl Outgoing {
    pub(crate) fn new(batches: Batches, begun: Duration) -> Outgoing {
        Outgoing { batches, batch: Batch::None, keys: HashSet::new(), oldest_us: None, begun }
    }

    /// The batches with records in the journal.
    pub(crate) fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Whether no batch is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.batch, Batch::None)
    }

    /// Whether the journal is to answer first.
    pub(crate) fn waits_for_journal(&self) -> bool {
        matches!(self.batch, Batch::Weighed | Batch::Noted(_))
    }

    /// Whether the store does not accept the batch.
    pub(crate) fn is_failing(&self) -> bool {
        match &self.batch {
            Batch::None | Batch::Weighed | Batch::Noted(_) => false,
            Batch::Sent(sent) => sent.is_late,
            Batch::Failed(..) => true,
        }
    }

    /// The batch that the store has been given.
    fn sent(&self) -> Option<&Sent> {
        match &self.batch {
            Batch::None | Batch::Weighed | Batch::Noted(_) => None,
            Batch::Sent(sent) | Batch::Failed(sent, ..) => Some(sent),
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
        self.oldest_us.get_or_insert(message.arrival_us);
    }

    /// Whether a batch is to begin.
    pub(crate) fn is_due(&self, intake: &Intake, options: &EngineOptions, now: Now) -> bool {
        let since = now.passed.saturating_sub(self.begun);
        let is_half_full = intake.gatherer.bytes() >= options.updates.head_bytes / 2;
        let is_time = since >= options.write_each || is_half_full && since >= TICK;
        // An empty batch lets go of the journal too.
        let is_pressed = now.journal_bytes >= options.journal_max / 2 && since >= RETRY;
        self.is_idle() && (!intake.is_empty() && is_time || is_pressed)
    }

    /// Begins a batch; returns from where on open windows need the journal, which is to be weighed.
    pub(crate) fn begin(&mut self, intake: &mut Intake, now: Now) -> Option<u64> {
        self.begun = now.passed;
        let first = intake.first_of_windows()?;
        self.batch = Batch::Weighed;
        Some(first)
    }

    /// The batches with a new one up to a position, whose record is to be written.
    pub(crate) fn note(&mut self, upto: u64, windows: Option<WindowsRecord>) -> Batches {
        let batches = self.batches.next(upto, windows);
        self.batch = Batch::Noted(batches.clone());
        batches
    }

    /// Writes a batch whose record is on disk; false if there is none, or if it must wait, because the
    /// journal's disk is full.
    pub(crate) fn noted<S>(
        &mut self,
        is_noted: bool,
        intake: &mut Intake,
        effects: &mut Vec<Effect<S>>,
    ) -> bool {
        let batches = match std::mem::take(&mut self.batch) {
            Batch::Noted(batches) => batches,
            other => {
                self.batch = other;
                return false;
            }
        };
        if !is_noted {
            effects.push(Effect::Add(Figure::JournalErrors, 1));
            return false;
        }
        let (writer, number) = batches.claim();
        self.batches = batches;
        intake.gatherer.head.claim(writer, number);
        effects.push(Effect::Write(Box::new(intake.gatherer.freeze())));
        let (keys, oldest_us) = (std::mem::take(&mut self.keys), self.oldest_us.take());
        self.batch = Batch::Sent(Sent { keys, oldest_us, omitted: HashSet::new(), is_late: false });
        true
    }

    /// Takes out the batch if it is to be written again by now.
    pub(crate) fn again(&mut self, passed: Duration) -> Option<Box<Frozen>> {
        match std::mem::take(&mut self.batch) {
            Batch::Failed(sent, frozen, failed) if passed >= failed + RETRY => {
                self.batch = Batch::Sent(Sent { is_late: true, ..sent });
                Some(frozen)
            }
            other => {
                self.batch = other;
                None
            }
        }
    }

    /// The store has answered.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`]: another daemon has one of the requests. After a new start they are
    /// told apart.
    pub(crate) fn written<S>(
        &mut self,
        result: Result<Stored, (StoreError, Box<Frozen>)>,
        intake: &mut Intake,
        now: Now,
        effects: &mut Vec<Effect<S>>,
    ) -> Result<(), EngineError> {
        let Batch::Sent(mut sent) = std::mem::take(&mut self.batch) else { return Ok(()) };
        let (error, mut frozen) = match result {
            Ok(stored) => {
                let unstored = intake.gatherer.stored(&stored);
                let omitted = sent.omitted.len() as u64;
                effects.extend([
                    Effect::Add(Figure::Batches, 1),
                    Effect::Add(Figure::SeriesOmitted, omitted),
                    Effect::Add(Figure::SlotsExpired, unstored.expired),
                    Effect::Add(Figure::PointsOvertaken, unstored.overtaken),
                    Effect::Add(Figure::UpdatesRepeated, unstored.repeated),
                    Effect::Trouble(None),
                    Effect::Release(self.batches.clone()),
                ]);
                return Ok(());
            }
            Err((error @ StoreError::Overtaken, _)) => return Err(error.into()),
            Err(failed) => failed,
        };
        if let StoreError::Overflow { slots } = &error {
            let before = sent.omitted.len();
            sent.omitted.extend(slots.iter().map(|(_, key)| key.series));
            if sent.omitted.len() > before {
                frozen.omit(&sent.omitted);
                self.batch = Batch::Sent(sent);
                effects.push(Effect::Write(frozen));
                return Ok(());
            }
        }
        effects.push(Effect::Add(Figure::StoreErrors, 1));
        effects.push(Effect::Trouble(Some(error.to_string())));
        self.batch = Batch::Failed(sent, frozen, now.passed);
        Ok(())
    }
}
