//! An import, whose pieces are added to batches: the store is gone or its answers are lost, the import
//! is killed, and begins again from the first piece. Some counts are so large that slots would
//! overflow. Whatever happens, each line counts once, or is kept as refused.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use engine::gather::Question;
use engine::{
    Effect, Engine, EngineOptions, Event, FrozenBatch, Now, Options, Piece, PlacedUpdate, Reply,
    Wants,
};
use formats::{Book, Reason, Series, SeriesName, Update, UpdateContent};
use series::{
    Accumulator, Delta, Interval, Kind, Lane, Point, Reading, Refusal, SECOND_US, SlotKey, Spec,
    Step,
};
use store::{Changes, Memory, Retention, SeriesLimit, Store, StoreError, Writer};

use super::counters::counters;
use super::journal::law;
use super::random::Random;

const STEP_S: i64 = 10;

const LATENESS_US: i64 = 60 * SECOND_US;

const SERIES: [(&str, Kind); 3] = [("gauge", Kind::Gauge), ("a", Kind::Count), ("b", Kind::Count)];

/// A count of which two are too many for a slot.
const LARGE: i64 = (1 << 52) + 7;

/// Memory of the head, unless every piece is written separately: a few pieces.
const HEAD_BYTES: usize = 2_000;

/// A rule that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// A batch does not claim its pieces.
    Unclaimed,
    /// The store is not asked for the first pieces.
    NotAsked,
    /// An import begins where the one before it was.
    WhereItWas,
    /// Lines that are refused when a piece comes again are not kept.
    KeptOnce,
}

impl Leniency {
    pub(crate) const ALL: [Leniency; 4] =
        [Leniency::Unclaimed, Leniency::NotAsked, Leniency::WhereItWas, Leniency::KeptOnce];
}

counters! {
    Seen {
        batches: "batches",
        batches_of_many: "batches of several pieces",
        refused: "refused points",
        too_large: "lines that are too large",
        lost_answers: "lost answers",
        kills: "kills",
    }
}

enum Asked {
    Series(Question),
    Write(Box<FrozenBatch>),
}

struct Import {
    engine: Engine<()>,
    passed: Duration,
    /// The next piece.
    next: usize,
    has_written: bool,
    asked: VecDeque<Asked>,
}

struct World {
    random: Random,
    without: Option<Leniency>,
    options: EngineOptions,
    /// With the series, of which [`SERIES`] has names and kinds.
    empty: Memory,
    store: Memory,
    book: Book,
    /// The updates of each piece, with the indices of their lines.
    file: Vec<Vec<PlacedUpdate>>,
    now_us: i64,
    /// The lines that are refused, by piece and index.
    kept: BTreeMap<(usize, usize), Reason>,
    seen: Seen,
    script: Vec<String>,
}

/// Runs events.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(events: &[u64], without: Option<Leniency>) -> Result<Seen, String> {
    let mut store = Memory::new();
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    let retention = Retention::from_secs(STEP_S, None).ok_or("a retention")?;
    store.retain(&[retention]).map_err(text)?;
    let is_separate = events.first().is_some_and(|first| Random::new(*first).one_in(4));
    let head_bytes = if is_separate { 0 } else { HEAD_BYTES };
    let updates = Options { lateness_us: LATENESS_US, head_bytes, ..Options::new(step) };
    let mut book = Book::new(SERIES.len());
    for (field, kind) in SERIES {
        let name = SeriesName::new("m", [], field).ok().ok_or("a name")?;
        book.number(name.clone()).ok().ok_or("a number")?;
        let made = store.series(&[updates.wanted(&name, kind)], &SeriesLimit::DEFAULT);
        law(made.is_ok_and(|made| made[0].is_ok()), "a series is made")?;
    }
    let mut world = World {
        random: Random::new(0),
        without,
        options: EngineOptions {
            journal_max: u64::MAX,
            write_each: Duration::from_secs(5),
            updates,
        },
        empty: store.clone(),
        store,
        book,
        file: Vec::new(),
        now_us: 0,
        kept: BTreeMap::new(),
        seen: Seen::default(),
        script: Vec::new(),
    };
    let result = world.live(events);
    let World { script, seen, .. } = world;
    result.map(|()| seen).map_err(|law| format!("{}\n{law}", script.join("\n")))
}

impl World {
    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.script.push(what.to_string());
    }

    fn live(&mut self, events: &[u64]) -> Result<(), String> {
        let mut import = self.begin(0);
        for number in events {
            self.random = Random::new(*number);
            match self.random.below(24) {
                0 => self.kill(&mut import),
                1 => self.tell(&mut import, Event::Flush).map(|_| ())?,
                2..=3 => import.passed += Duration::from_millis(self.random.below(4_000)),
                4..=9 => self.store_works(&mut import, true)?,
                10..=15 => self.take(&mut import)?,
                _ => self.grow()?,
            }
        }
        for _ in 0..20 * events.len() + 100 {
            self.store_works(&mut import, false)?;
            self.take(&mut import)?;
            if import.next == self.file.len() {
                self.tell(&mut import, Event::Flush)?;
                self.tell(&mut import, Event::Tick)?;
                if !matches!(import.engine.wants(), Wants::Reply(_)) {
                    return self.check();
                }
            }
        }
        law(false, "an import ends")
    }

    fn begin(&self, next: usize) -> Import {
        let engine = Engine::of_pieces(self.options.clone(), 0, Now::default());
        let (passed, asked) = (Duration::ZERO, VecDeque::new());
        Import { engine, passed, next, has_written: false, asked }
    }

    fn kill(&mut self, import: &mut Import) {
        self.seen.kills += 1;
        self.note(format_args!("killed at piece {}", import.next));
        let is_lenient = self.without == Some(Leniency::WhereItWas);
        *import = self.begin(if is_lenient { import.next } else { 0 });
    }

    /// The file gets another piece.
    fn grow(&mut self) -> Result<(), String> {
        let mut piece = Vec::new();
        for place in 0..=self.random.below(4) as usize {
            self.now_us += self.random.below(8) as i64 * SECOND_US;
            let late_us = (self.random.below(4) * self.random.below(30)) as i64 * SECOND_US;
            let reading = Reading::Level(self.random.below(9) as f64);
            let point = Point { at_us: self.now_us - late_us, reading };
            let start_us = self.random.below(20) as i64 * SECOND_US;
            let mut count = || {
                let count =
                    if self.random.one_in(16) { LARGE } else { self.random.below(9) as i64 };
                let interval = Interval::count(start_us, start_us + 7 * SECOND_US, count);
                interval.map(UpdateContent::Interval).map_err(|error| error.to_string())
            };
            let (a, b) = (count()?, count()?);
            let line = match self.random.below(4) {
                0 | 1 => vec![(0, UpdateContent::Point(point))],
                2 => vec![(1, a)],
                _ => vec![(1, a), (2, b)],
            };
            for (series, what) in line {
                let update = Update { kind: SERIES[series as usize].1, what };
                piece.push(PlacedUpdate::new(place, Series(series), update));
            }
        }
        self.note(format_args!("piece {}: {piece:?}", self.file.len()));
        self.file.push(piece);
        Ok(())
    }

    /// Tells the engine of an event; returns whether it is to come again, and the lines that are
    /// refused. An error ends the import, and another begins.
    fn tell(
        &mut self,
        import: &mut Import,
        event: Event<'_, ()>,
    ) -> Result<(bool, Vec<(usize, Reason)>), String> {
        let (mut is_again, mut refused, mut effects) = (false, Vec::new(), Vec::new());
        let now = Now { passed: import.passed, ..Now::default() };
        if let Err(error) = import.engine.step(event, now, &mut effects) {
            self.note(format_args!("ends: {error}"));
            self.kill(import);
            return Ok((true, Vec::new()));
        }
        for effect in effects {
            match effect {
                Effect::Again => is_again = true,
                Effect::Refuse(lines) => refused = lines,
                Effect::AskSeries(question) => import.asked.push_back(Asked::Series(question)),
                Effect::Write(frozen) => import.asked.push_back(Asked::Write(frozen)),
                _ => {}
            }
        }
        Ok((is_again, refused))
    }

    /// The import goes on with its next piece, if the engine takes one.
    fn take(&mut self, import: &mut Import) -> Result<(), String> {
        self.tell(import, Event::Tick)?;
        let number = import.next;
        let Some(updates) = self.file.get(number).cloned() else { return Ok(()) };
        if matches!(import.engine.wants(), Wants::Reply(_)) {
            return Ok(());
        }
        let writer = Writer(number as u128 + 1);
        let asks = !import.has_written && self.without != Some(Leniency::NotAsked);
        if asks && self.store.last_batch(writer).map_err(text)? > 0 {
            import.next += 1;
            return Ok(());
        }
        import.has_written = true;
        let touched: Vec<_> = updates.iter().map(|line| (line.series, line.update.kind)).collect();
        let book = self.book.clone();
        if self.tell(import, Event::Find(&book, &touched))?.0 {
            return Ok(());
        }
        let piece = Piece { writers: &[writer], updates: &updates };
        let (is_again, refused) = self.tell(import, Event::Piece(piece))?;
        self.note(format_args!("piece {number}: again {is_again}, refused {refused:?}"));
        if !(is_again && self.without == Some(Leniency::KeptOnce)) {
            let places = refused.into_iter().map(|(place, reason)| ((number, place), reason));
            self.kept.extend(places);
        }
        import.next += usize::from(!is_again && import.next == number);
        Ok(())
    }

    /// The store does what it was asked for first; or it is gone, or its answer is lost.
    fn store_works(&mut self, import: &mut Import, may_fail: bool) -> Result<(), String> {
        let answer = if may_fail { self.random.below(6) } else { 6 };
        let reply = match import.asked.pop_front() {
            None => return Ok(()),
            Some(Asked::Series(_)) if answer == 0 => Reply::Found(Err(gone())),
            Some(Asked::Series(question)) => Reply::Found(question.ask(&mut self.store)),
            Some(Asked::Write(frozen)) if answer == 0 => Reply::Written(Err((gone(), frozen))),
            Some(Asked::Write(mut frozen)) => {
                let is_claimed = self.without != Some(Leniency::Unclaimed);
                let pieces = frozen.claims().len();
                let written =
                    engine::write(&mut self.store, &mut frozen, 0, |store, claims, all| {
                        store.apply_all(if is_claimed { claims } else { &[] }, all)
                    });
                self.note(format_args!("a batch of {pieces} pieces: {written:?}"));
                let written = match written {
                    Ok(_) if answer == 1 => {
                        self.seen.lost_answers += 1;
                        Err(gone())
                    }
                    written => written,
                };
                self.seen.batches += u64::from(written.is_ok());
                self.seen.batches_of_many += u64::from(written.is_ok() && pieces > 1);
                Reply::Written(written.map_err(|error| (error, frozen)))
            }
        };
        self.tell(import, Event::Store(reply)).map(|_| ())
    }

    /// The store has what the lines say that are not kept as refused, each once; and they are refused
    /// for what they are.
    fn check(&mut self) -> Result<(), String> {
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        let spec = Spec { lateness_us: LATENESS_US, ..Spec::new(Kind::Gauge, step) };
        let (mut lane, mut model) = (Lane::default(), Changes::default());
        for (number, piece) in self.file.iter().enumerate() {
            // What the slots of each series would have with all lines of the piece.
            let mut whole = model.clone();
            for placed in piece {
                if let UpdateContent::Interval(interval) = placed.update.what {
                    add(&mut whole, step, placed.series, interval);
                }
            }
            let full = match self.stored_with(&whole) {
                Err(StoreError::Overflow { slots }) => slots,
                _ => Vec::new(),
            };
            for line in piece.chunk_by(|a, b| a.place == b.place) {
                let reason = self.kept.get(&(number, line[0].place)).copied();
                let is_in = |series| full.iter().any(|(_, key)| key.series == number_of(series));
                let is_full = line.iter().any(|placed| is_in(placed.series));
                for placed in line {
                    match placed.update.what {
                        UpdateContent::Point(point) => {
                            let sink = |slot_us, delta| {
                                let series = number_of(placed.series);
                                model.add(step, SlotKey { slot_us, series, lane: 0 }, delta);
                            };
                            let taken = lane.push(&spec, point, sink).map_err(Reason::from);
                            self.seen.refused += u64::from(taken.is_err());
                            let is_right = taken.err() == reason;
                            law(is_right, format_args!("line {line:?} of {number}: {reason:?}"))?;
                        }
                        UpdateContent::Interval(interval) if reason.is_none() => {
                            add(&mut model, step, placed.series, interval);
                        }
                        UpdateContent::Interval(_) => {
                            self.seen.too_large += 1;
                            let is_right = is_full && reason == Some(Refusal::TooLarge.into());
                            law(is_right, format_args!("line {line:?} of {number}: {reason:?}"))?;
                        }
                    }
                }
            }
        }
        let found = slots(&mut self.store)?;
        let wanted = slots(&mut self.stored_with(&model).map_err(text)?)?;
        law(found == wanted, format_args!("each line counts once: {found:?}, not {wanted:?}"))
    }

    /// A store to which only these changes were written.
    fn stored_with(&self, changes: &Changes) -> Result<Memory, StoreError> {
        let mut store = self.empty.clone();
        store.apply(Writer(1), 1, changes)?;
        Ok(store)
    }
}

/// The number of a series in the store.
fn number_of(series: Series) -> i64 {
    i64::from(series.0) + 1
}

/// All slots of a store.
fn slots(store: &mut Memory) -> Result<Vec<(SlotKey, Accumulator)>, String> {
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    store.slots(step, &[1, 2, 3], i64::MIN, i64::MAX).map_err(text)
}

/// Adds an interval to the slots of a series.
fn add(changes: &mut Changes, step: Step, series: Series, interval: Interval) {
    let series = number_of(series);
    for (slot_us, slot) in interval.slots(step) {
        changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(slot));
    }
}

fn gone() -> StoreError {
    StoreError::Lost { place: "memory".to_owned() }
}

fn text(error: StoreError) -> String {
    error.to_string()
}
