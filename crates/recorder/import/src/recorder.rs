//! The executor of the engine: it has the thread that writes to the store.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use engine::gather::{BOOK, Gatherer};
use engine::{
    Effect, Engine, EngineOptions, Event, Figure, Now, Piece, PlacedUpdate, Reply, UnstoredUpdates,
    Wants,
};
use formats::files::ResumedSource;
use formats::{Book, Malformed, Reason};
use series::rrd;
use series::{Accumulator, Kind, Step};
use store::{Changes, NewSeries, RrdChange, Series, Store, StoreError, Writer};

use crate::store_thread::{self, StoreThread};
use crate::{BackfillError, Options, Summary};

/// Gives pieces to the engine, and does what it wants. A separate thread writes to the store meanwhile.
pub(crate) struct Recorder<'s> {
    store_thread: StoreThread<'s>,
    engine: Engine<()>,
    options: Options,
    lane: i32,
    now_us: i64,
    begun: Instant,
    /// Whether a piece was written: then no later one can be known.
    wrote: bool,
    /// Whether the engine has whole pieces: false while the refused lines of one are being kept.
    whole: bool,
    unstored: UnstoredUpdates,
}

/// What became of an event.
#[derive(Debug, Default)]
struct EventOutcome {
    is_again: bool,
    refused: Vec<(usize, Reason)>,
}

impl Recorder<'_> {
    /// Runs `work` with a recorder.
    ///
    /// If `work` fails, whole pieces that the recorder accepted are still written, unless the store
    /// failed.
    pub(crate) fn run<T>(
        store: &mut dyn Store,
        options: Options,
        now_us: i64,
        work: impl FnOnce(&mut Recorder<'_>) -> Result<T, BackfillError>,
    ) -> Result<T, BackfillError> {
        if let Some(definition) = options.definition(Kind::Gauge) {
            definition.checked()?;
        }
        let lane = store.lanes(&[&options.lane])?.first().copied().unwrap_or(0);
        store_thread::with(store, |store_thread| {
            let engine = EngineOptions {
                journal_max: u64::MAX,
                write_each: options.written_each.unwrap_or(Duration::MAX),
                // A batch that is being written has the other half.
                updates: Options { head_bytes: options.head_bytes / 2, ..options.clone() },
            };
            let mut recorder = Recorder {
                store_thread,
                engine: Engine::of_pieces(engine, lane, Now::default()),
                options,
                lane,
                now_us,
                begun: Instant::now(),
                wrote: false,
                whole: true,
                unstored: UnstoredUpdates::default(),
            };
            let done = work(&mut recorder);
            match &done {
                // After something that the store did not accept, nothing later may be written.
                Ok(_) | Err(BackfillError::Store(_)) => {}
                // The first error is the one to report; the same import continues after what is
                // stored.
                Err(_) if recorder.whole => drop(recorder.settle()),
                Err(_) => {}
            }
            done
        })
    }

    /// Tells the engine of an event, and does what it wants.
    fn tell(&mut self, event: Event<'_, ()>) -> Result<EventOutcome, BackfillError> {
        let (mut done, mut effects) = (EventOutcome::default(), Vec::new());
        let now = Now { passed: self.begun.elapsed(), ..Now::default() };
        self.engine.step(event, now, &mut effects)?;
        for effect in effects {
            match effect {
                Effect::Again => done.is_again = true,
                Effect::Refuse(refused) => done.refused = refused,
                Effect::AskSeries(question) => {
                    self.store_thread.submit(move |store| Some(Reply::Found(question.ask(store))));
                }
                Effect::Write(mut frozen) => {
                    let now_us = self.now_us;
                    self.store_thread.submit(move |store| {
                        let written =
                            engine::write(store, &mut frozen, now_us, |store, claims, frozen| {
                                store::apply_ahead(store, claims, frozen)
                            });
                        Some(Reply::Written(written.map_err(|error| (error, frozen))))
                    });
                }
                Effect::Add(Figure::SlotsExpired, count) => self.unstored.expired += count,
                Effect::Add(Figure::PointsOvertaken, count) => self.unstored.overtaken += count,
                Effect::Add(Figure::UpdatesRepeated, count) => self.unstored.repeated += count,
                // There is no journal, and an error of the store ends the import.
                _ => {}
            }
        }
        Ok(done)
    }

    /// Tells the engine a reply of the store.
    fn reply(&mut self, reply: Reply) -> Result<(), BackfillError> {
        let other = match &reply {
            Reply::Found(Ok(found)) => found.of_other_mode.clone(),
            _ => None,
        };
        self.tell(Event::Store(reply))?;
        other.map_or(Ok(()), |series| {
            let (series, exists_in_rrd_mode) = (Box::new(series.identity), series.rrd.is_some());
            Err(BackfillError::OtherMode { series, exists_in_rrd_mode })
        })
    }

    /// Goes on until the engine takes a piece.
    fn wait(&mut self) -> Result<(), BackfillError> {
        while let Ok(reply) = self.store_thread.replies.try_recv() {
            self.reply(reply)?;
        }
        self.tell(Event::Tick)?;
        while let Wants::Reply(_) = self.engine.wants() {
            let reply = self.store_thread.wait();
            self.reply(reply)?;
            self.tell(Event::Tick)?;
        }
        Ok(())
    }

    /// Writes everything.
    fn settle(&mut self) -> Result<(), BackfillError> {
        self.tell(Event::Flush)?;
        self.wait()
    }

    /// Writes everything, and waits until it is stored; returns what was not.
    pub(crate) fn finish(&mut self) -> Result<UnstoredUpdates, BackfillError> {
        self.settle()?;
        Ok(std::mem::take(&mut self.unstored))
    }

    /// The slots of a series in the written lane, in order.
    pub(crate) fn slots(
        &mut self,
        step: Step,
        id: i64,
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(i64, Accumulator)>, BackfillError> {
        if self.gatherer().head.is_touched(id) {
            self.settle()?;
        }
        let rows =
            self.store_thread.call(move |store| store.slots(step, &[id], from_us, until_us))?;
        let of_lane = rows.into_iter().filter(|(key, _)| key.lane == self.lane);
        Ok(of_lane.map(|(key, slot)| (key.slot_us, slot)).collect())
    }

    /// End of the latest update in the lane of a series, in microseconds since the epoch.
    pub(crate) fn newest_us(&mut self, id: i64) -> Result<Option<i64>, BackfillError> {
        let retentions = self.store_thread.call(|store| store.retentions())?;
        let Some(coarsest) = retentions.into_iter().map(|retention| retention.step).max() else {
            return Ok(None);
        };
        let rows = self.slots(coarsest, id, i64::MIN, i64::MAX)?;
        Ok(rows.iter().filter_map(|(_, row)| Some(row.last()?.0)).max())
    }

    /// Brings a series in RRD mode up to the state of a file, unless it is already there or
    /// further.
    pub(crate) fn resume(
        &mut self,
        writer: Writer,
        id: i64,
        resumed: &ResumedSource,
    ) -> Result<(), BackfillError> {
        let before_us =
            self.store_thread.call(move |store| store.rrd(id))?.map(|rrd| rrd.last_us());
        if before_us.is_some_and(|before_us| before_us >= resumed.state.last_us()) {
            return Ok(());
        }
        let step_us = resumed.definition.step.us();
        let is_new = |row: &&rrd::Row| {
            let row_us = step_us * resumed.definition.archives[row.archive].steps;
            before_us.is_none_or(|before_us| row.end_us > before_us - before_us.rem_euclid(row_us))
        };
        let rows = resumed.rows.iter().filter(is_new).copied().collect();
        let change = RrdChange { series: id, state: resumed.state.clone(), rows };
        let changes = Changes { rrd: vec![change], ..Changes::default() };
        self.store_thread.call(move |store| store.apply(writer, 1, &changes))?;
        Ok(())
    }

    /// Whether the store has this writer's batch. Once a piece of the stream was written, the store
    /// has no later one, and is not asked.
    pub(crate) fn has(&mut self, writer: Writer) -> Result<bool, StoreError> {
        Ok(!self.wrote && self.store_thread.call(move |store| store.last_batch(writer))? > 0)
    }

    /// Whether this writer's batch was written before, or waits to be: for batches that are not
    /// pieces of one stream, of which a known one may follow a new one.
    pub(crate) fn knows(&mut self, writer: Writer) -> Result<bool, StoreError> {
        Ok(self.gatherer().head.has_claim(writer)
            || self.store_thread.call(move |store| store.last_batch(writer))? > 0)
    }

    /// The updates that would be refused, by the index of their line.
    pub(crate) fn judge(
        &mut self,
        book: &Book,
        updates: &[PlacedUpdate],
    ) -> Result<Vec<(usize, Reason)>, BackfillError> {
        self.find(book, updates.iter().map(|placed| (placed.series, placed.update.kind)))?;
        self.wait()?;
        Ok(self.tell(Event::Piece(Piece { writers: &[], updates }))?.refused)
    }

    /// Adds a piece as the one batch of each of these writers; returns what was written of it, and what
    /// was not of earlier ones. Before anything is written, `refuse` is called with the refused
    /// updates.
    pub(crate) fn write(
        &mut self,
        writers: &[Writer],
        book: &Book,
        updates: &[PlacedUpdate],
        mut refuse: impl FnMut(&[(usize, Reason)]) -> Result<(), BackfillError>,
    ) -> Result<Summary, BackfillError> {
        self.wrote = true;
        self.find(book, updates.iter().map(|placed| (placed.series, placed.update.kind)))?;
        let mut all_refused = HashSet::new();
        let mut is_again = true;
        while is_again {
            self.wait()?;
            let done = self.tell(Event::Piece(Piece { writers, updates }))?;
            self.whole = false;
            refuse(&done.refused)?;
            self.whole = true;
            all_refused.extend(done.refused.iter().map(|(place, _)| *place));
            is_again = done.is_again;
        }
        let unstored = std::mem::take(&mut self.unstored);
        let mut written = Summary { unstored, ..Summary::default() };
        for placed in updates {
            if all_refused.is_empty() || !all_refused.contains(&placed.place) {
                written.updates += 1;
                let (from_us, to_us) = placed.update.times_us();
                written.widen(from_us, to_us);
            }
        }
        Ok(written)
    }

    /// The series of a name, created like this if it does not exist.
    pub(crate) fn make(
        &mut self,
        number: formats::Series,
        wanted: NewSeries,
    ) -> Result<Result<Series, Reason>, BackfillError> {
        let question = self.gatherer().question(BOOK, vec![(number, wanted)]);
        let found = self.store_thread.call(move |store| question.ask(store))?;
        let made = found.made.first().map(|(_, made)| made.clone());
        let made = made.unwrap_or(Err(Malformed::TooManySeries.into()));
        self.reply(Reply::Found(Ok(found)))?;
        Ok(made)
    }

    /// Finds or creates these series.
    pub(crate) fn find(
        &mut self,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)>,
    ) -> Result<(), BackfillError> {
        let touched: Vec<_> = touched.collect();
        let is_interval = |(_, kind): &&_| matches!(kind, Kind::Count | Kind::Level);
        if self.options.rrd.is_some()
            && let Some((series, kind)) = touched.iter().find(is_interval)
        {
            let wanted = self.options.wanted(book.name(*series), *kind);
            return Err(BackfillError::Interval { series: Box::new(wanted.identity) });
        }
        while self.tell(Event::Find(book, &touched))?.is_again {
            self.wait()?;
        }
        Ok(())
    }

    /// Whether a series that was found accepts updates of a kind.
    pub(crate) fn takes(&self, series: formats::Series, kind: Kind) -> Result<(), Reason> {
        self.gatherer().takes(series, kind).map(|_| ())
    }

    fn gatherer(&self) -> &Gatherer {
        self.engine.gatherer()
    }
}
