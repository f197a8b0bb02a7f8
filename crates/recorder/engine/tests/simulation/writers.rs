//! Two processes that write points of the same series to the same lane, in any order of calls, with
//! kills and lost answers. Whatever happens, the sums are those of one writer that gets the batches in
//! the order in which the store has committed them.

use std::borrow::Cow;

use engine::{FrozenBatch, Head, Place};
use series::{Accumulator, Kind, Lane, Point, Reading, SECOND_US, SlotKey, Spec, Step};
use store::{
    BatchResult, Changes, Identity, LaneChange, Memory, NewSeries, Retention, SeriesLimit, Source,
    Store, StoreError, Writer,
};

use super::counters::counters;
use super::journal::law;
use super::random::Random;

const STEP_S: i64 = 10;

/// The writer of the model.
const MODEL: Writer = Writer(0);

/// A rule of lanes that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// A batch is written whatever has become of its lanes.
    NotCompared,
    /// The lanes are compared before the transaction that writes them.
    ComparedBefore,
    /// A batch is claimed although its lanes have changed.
    ClaimedBefore,
}

impl Leniency {
    pub(crate) const ALL: [Leniency; 3] =
        [Leniency::NotCompared, Leniency::ComparedBefore, Leniency::ClaimedBefore];
}

// Points are refused because another process has written later ones.
counters! {
    Seen {
        batches: "batches",
        stale: "stale lanes",
        lost_answers: "lost answers",
        kills: "kills",
        refused: "refused",
    }
}

/// A point, and the index of its series.
type Received = (usize, Point);

/// A batch on its way to the store.
struct Sent {
    frozen: FrozenBatch,
    points: Vec<Received>,
    is_compared: bool,
}

struct Process {
    name: char,
    head: Head,
    places: Vec<Place>,
    writer: Writer,
    /// The number of the last batch.
    number: u64,
    /// Accepted points that are in no batch.
    points: Vec<Received>,
    sent: Option<Sent>,
}

struct World {
    random: Random,
    without: Option<Leniency>,
    store: Memory,
    /// What one writer stores that gets the same batches.
    model: Memory,
    model_batches: u64,
    series: Vec<(i64, Spec)>,
    now_us: i64,
    last_writer: u128,
    /// Points that the model has refused.
    refused: u64,
    seen: Seen,
    script: Vec<String>,
}

/// Runs events.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(events: &[u64], without: Option<Leniency>) -> Result<Seen, String> {
    let (mut store, mut series) = (Memory::new(), Vec::new());
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    let retention = Retention::from_secs(STEP_S, None).ok_or("a retention")?;
    store.retain(&[retention]).map_err(text)?;
    for kind in [Kind::Gauge, Kind::Counter] {
        let spec = Spec { lateness_us: 60 * SECOND_US, ..Spec::new(kind, step) };
        let wanted = NewSeries::new(Identity::new(&format!("{kind:?}"), []), spec);
        let made = store.series(&[wanted], &SeriesLimit::DEFAULT).map_err(text)?;
        series.push((made.first().and_then(|made| made.as_ref().ok()).ok_or("a series")?.id, spec));
    }
    let mut world = World {
        random: Random::new(0),
        without,
        model: store.clone(),
        store,
        model_batches: 0,
        series,
        now_us: 0,
        last_writer: 0,
        refused: 0,
        seen: Seen::default(),
        script: Vec::new(),
    };
    let result = world.live(events);
    let World { script, seen, .. } = world;
    result.map(|()| seen).map_err(|law| format!("{}\n{law}", script.join("\n")))
}

impl World {
    fn note(&mut self, process: &Process, event: &str) {
        self.script.push(format!("{}: {event}", process.name));
    }

    fn live(&mut self, events: &[u64]) -> Result<(), String> {
        let mut processes = [self.start('a', &[])?, self.start('b', &[])?];
        for number in events {
            self.random = Random::new(*number);
            let process = &mut processes[self.random.below(2) as usize];
            match self.random.below(24) {
                0 => self.kill(process)?,
                1..=3 => self.begin_batch(process),
                4..=10 => self.store_works(process)?,
                _ => self.receive(process),
            }
        }
        for process in &mut processes {
            while process.sent.is_some() || !process.points.is_empty() {
                self.begin_batch(process);
                self.write(process)?;
            }
        }
        let (wanted, found) = (contents(&mut self.model, &self.series)?, self.contents()?);
        law(
            wanted == found,
            format_args!("sums are those of one writer: {found:?}, not {wanted:?}"),
        )?;
        let (seen, refused) = (&self.seen, self.refused);
        // A killed process no longer knows what its last batch has refused.
        let is_counted = seen.kills > 0 || seen.refused == refused;
        law(is_counted, format_args!("what is refused is counted: {} of {refused}", seen.refused))
    }

    fn contents(&mut self) -> Result<Contents, String> {
        contents(&mut self.store, &self.series)
    }

    /// Starts a process, which reads the lanes, and receives what its predecessor has not written.
    fn start(&mut self, name: char, points: &[Received]) -> Result<Process, String> {
        let mut head = Head::new(0);
        let (_, lanes) = self.contents()?;
        let open = |((id, spec), lane): (&(i64, Spec), _)| head.open(*id, spec, lane);
        let places = self.series.iter().zip(&lanes).map(open).collect();
        self.last_writer += 1;
        let writer = Writer(self.last_writer);
        let (sent, number) = (None, 0);
        let mut process = Process { name, head, places, writer, number, points: Vec::new(), sent };
        points.iter().for_each(|received| _ = take(&mut process, *received));
        Ok(process)
    }

    fn kill(&mut self, process: &mut Process) -> Result<(), String> {
        let is_written = self.store.last_batch(process.writer).map_err(text)? == process.number;
        let sent = process.sent.take().filter(|_| !is_written);
        let mut points = sent.map_or_else(Vec::new, |sent| sent.points);
        points.append(&mut process.points);
        self.seen.kills += 1;
        self.note(process, &format!("killed, reads {points:?}"));
        *process = self.start(process.name, &points)?;
        Ok(())
    }

    /// A point arrives.
    fn receive(&mut self, process: &mut Process) {
        self.now_us += self.random.below(12) as i64 * SECOND_US;
        let late_us = self.random.below(4) * self.random.below(30) * SECOND_US as u64;
        let (series, value) = (self.random.below(2) as usize, self.random.below(100));
        let reading = match series {
            0 => Reading::Level(value as f64),
            _ => Reading::Unsigned(value),
        };
        let point = Point { at_us: self.now_us - late_us as i64, reading };
        let is_taken = take(process, (series, point));
        self.note(process, &format!("series {series} {point:?}: {is_taken}"));
    }

    fn begin_batch(&mut self, process: &mut Process) {
        if process.sent.is_some() || process.points.is_empty() {
            return;
        }
        process.number += 1;
        process.head.claim(process.writer, process.number);
        let (frozen, points) = (process.head.freeze(), std::mem::take(&mut process.points));
        self.note(process, &format!("batch {} of {} points", process.number, points.len()));
        process.sent = Some(Sent { frozen, points, is_compared: false });
    }

    /// The store writes a batch, or is gone, or its answer is lost.
    fn store_works(&mut self, process: &mut Process) -> Result<(), String> {
        match self.random.below(6) {
            0 => Ok(()),
            1 => {
                let Some(mut sent) = process.sent.take() else { return Ok(()) };
                let applied = self.apply(process, &mut sent);
                self.note(process, &format!("the answer is lost: {applied:?}"));
                self.seen.lost_answers += 1;
                process.sent = Some(sent);
                Ok(())
            }
            _ => self.write(process),
        }
    }

    /// Writes the batch; if another process has changed its lanes, computes it again.
    fn write(&mut self, process: &mut Process) -> Result<(), String> {
        let Some(mut sent) = process.sent.take() else { return Ok(()) };
        let applied = self.apply(process, &mut sent);
        self.note(process, &format!("{applied:?}"));
        match applied {
            Ok(Some(_)) => {
                self.seen.batches += 1;
                self.seen.refused += sent.frozen.unstored().overtaken;
                for (id, lane) in sent.frozen.rebased() {
                    self.seen.refused += process.head.rebase(id, &lane).overtaken;
                }
                return Ok(());
            }
            Ok(None) => {}
            Err(StoreError::Stale { lanes }) => {
                self.seen.stale += 1;
                law(sent.frozen.rebase(&lanes), "a batch can be computed again")?;
            }
            Err(error) => return Err(error.to_string()),
        }
        process.sent = Some(sent);
        Ok(())
    }

    fn apply(
        &mut self,
        process: &Process,
        sent: &mut Sent,
    ) -> Result<Option<BatchResult>, StoreError> {
        let claim = (process.writer, process.number);
        let frozen = &mut sent.frozen;
        let applied = match self.without {
            None => self.store.apply_all(&[claim], frozen),
            Some(Leniency::ComparedBefore) if !sent.is_compared => {
                self.store.clone().apply_all(&[claim], frozen)?;
                sent.is_compared = true;
                return Ok(None);
            }
            Some(Leniency::NotCompared | Leniency::ComparedBefore) => {
                let mut now = Vec::new();
                for (id, _) in &self.series {
                    now.extend(self.store.lane_states(&[(*id, 0)])?.pop().map(|lane| (*id, lane)));
                }
                self.store.apply_all(&[claim], &mut Adapted { frozen, now })
            }
            Some(Leniency::ClaimedBefore) => {
                match self.store.apply(process.writer, process.number, &Changes::default())? {
                    BatchResult::Before => Ok(BatchResult::Before),
                    BatchResult::Now { .. } => self.store.apply_all(&[], frozen),
                }
            }
        }?;
        if applied != BatchResult::Before {
            self.commit(&sent.points)?;
        }
        Ok(Some(applied))
    }

    /// The model gets the points of a batch.
    fn commit(&mut self, points: &[Received]) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        for (series, point) in points {
            let (id, spec) = self.series[*series];
            let state = self.model.lane_states(&[(id, 0)])?.pop().unwrap_or_default();
            let change = changes.lanes.remove(&(id, 0)).unwrap_or_else(|| LaneChange::of(state));
            let LaneChange { before, mut after } = change;
            let sink = |slot_us, delta| {
                changes.add(spec.step, SlotKey { slot_us, series: id, lane: 0 }, delta);
            };
            self.refused += u64::from(after.push(&spec, *point, sink).is_err());
            changes.lanes.insert((id, 0), LaneChange { before, after });
        }
        self.model_batches += 1;
        self.model.apply(MODEL, self.model_batches, &changes).map(|_| ())
    }
}

/// A batch that fits the lanes as they are now, by their series.
#[derive(Debug)]
struct Adapted<'f> {
    frozen: &'f mut FrozenBatch,
    now: Vec<(i64, Lane)>,
}

impl Source for Adapted<'_> {
    fn restart(&mut self) {
        self.frozen.restart();
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        let mut piece = self.frozen.next()?.into_owned();
        for ((series, _), change) in &mut piece.lanes {
            let now = self.now.iter().find(|(id, _)| id == series);
            change.before = now.map(|(_, lane)| lane.clone()).unwrap_or_default();
        }
        Some(Cow::Owned(piece))
    }
}

/// Adds a point to the head; false if it is refused.
fn take(process: &mut Process, (series, point): Received) -> bool {
    let is_taken = process.head.point(process.places[series], point).is_ok();
    if is_taken {
        process.points.push((series, point));
    }
    is_taken
}

/// The slots and lanes of all series.
type Contents = (Vec<(SlotKey, Accumulator)>, Vec<Lane>);

fn contents(store: &mut Memory, series: &[(i64, Spec)]) -> Result<Contents, String> {
    let ids: Vec<i64> = series.iter().map(|(id, _)| *id).collect();
    let lanes: Vec<(i64, i32)> = ids.iter().map(|id| (*id, 0)).collect();
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    let slots = store.slots(step, &ids, i64::MIN, i64::MAX).map_err(text)?;
    Ok((slots, store.lane_states(&lanes).map_err(text)?))
}

fn text(error: StoreError) -> String {
    error.to_string()
}
