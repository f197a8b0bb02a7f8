//! Two processes that receive the deltas of one stream: in order, repeated, overlapping, out of order;
//! with orderly stops, kills and lost answers. Whatever happens, the store has what a model has that
//! knows of each second whether it was counted.

use engine::{FrozenBatch, Head, Place, UnstoredUpdates};
use series::{Interval, Kind, SECOND_US, Spec, Step};
use store::{
    BatchResult, Identity, Memory, NewSeries, Retention, SeriesLimit, Store, StoreError, Writer,
};

use super::counters::counters;
use super::journal::law;
use super::random::Random;

/// The step of the series; deltas begin and end between slots too.
const STEP_S: i64 = 10;

/// The time of all deltas.
const SECONDS: usize = 400;

// Some deltas are known as repetitions, or refused, at once; of others another process tells later.
counters! {
    Seen {
        counted: "counted",
        repeated: "repeated",
        repeated_later: "repeated, told later",
        refused: "refused",
        refused_later: "refused, told later",
        lost_answers: "lost answers",
        kills: "kills",
        stops: "stops",
    }
}

/// A delta: its first second, the first one after it, and its count.
#[derive(Clone, Copy, Debug)]
struct Delta {
    from: usize,
    to: usize,
    count: i64,
}

/// A batch on its way to the store.
struct Sent {
    frozen: FrozenBatch,
    deltas: Vec<Delta>,
}

struct Process {
    name: char,
    head: Head,
    place: Place,
    writer: Writer,
    /// The number of the last batch.
    number: u64,
    /// Accepted deltas that are in no batch.
    deltas: Vec<Delta>,
    sent: Option<Sent>,
}

struct World {
    random: Random,
    /// Whether the time of deltas is counted once; otherwise they are intervals like others.
    is_stream: bool,
    store: Memory,
    series: i64,
    spec: Spec,
    last_writer: u128,
    /// Deltas that were sent, in their order.
    known: Vec<Delta>,
    /// The model: which seconds were counted, what was counted, and what was not.
    counted: [bool; SECONDS],
    total: i64,
    not_taken: u64,
    seen: Seen,
    script: Vec<String>,
}

/// Runs events.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(events: &[u64], is_stream: bool) -> Result<Seen, String> {
    let mut store = Memory::new();
    let step = Step::from_secs(STEP_S).ok_or("a step")?;
    store.retain(&[Retention::from_secs(STEP_S, None).ok_or("a retention")?]).map_err(text)?;
    let spec = Spec::new(Kind::Count, step);
    let wanted = NewSeries::new(Identity::new("deltas", []), spec);
    let made = store.series(&[wanted], &SeriesLimit::DEFAULT).map_err(text)?;
    let series = made.first().and_then(|made| made.as_ref().ok()).ok_or("a series")?.id;
    let mut world = World {
        random: Random::new(0),
        is_stream,
        store,
        series,
        spec,
        last_writer: 0,
        known: Vec::new(),
        counted: [false; SECONDS],
        total: 0,
        not_taken: 0,
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
                1 => {
                    self.finish(process)?;
                    self.seen.stops += 1;
                    self.note(process, "stopped and started");
                    *process = self.start(process.name, &[])?;
                }
                2..=5 => self.begin_batch(process),
                6..=11 => self.store_works(process)?,
                _ => {
                    let delta = self.draw();
                    self.known.push(delta);
                    self.receive(process, delta)?;
                }
            }
        }
        for process in &mut processes {
            self.finish(process)?;
        }
        let slots = self.store.slots(self.spec.step, &[self.series], i64::MIN, i64::MAX);
        let (mut total, mut covered_us) = (0.0, 0);
        for (_, slot) in slots.map_err(text)? {
            total += slot.integral.as_f64();
            covered_us += slot.covered_us;
        }
        let counted = self.counted.iter().filter(|is_counted| **is_counted).count() as i64;
        let (wanted, found) = ((self.total as f64, counted * SECOND_US), (total, covered_us));
        law(wanted == found, format_args!("each time is counted once: {found:?}, not {wanted:?}"))?;
        let told = self.seen.repeated_later + self.seen.refused_later;
        // A killed process no longer knows what its last batch has not taken.
        let is_told = self.seen.kills > 0 || told == self.not_taken;
        law(is_told, format_args!("what is not taken is counted: {told} of {}", self.not_taken))
    }

    /// A delta that follows the latest one, or is one of those before, or overlaps some of them.
    fn draw(&mut self) -> Delta {
        let count = self.random.below(1_000) as i64;
        let some = self.random.below(self.known.len() as u64) as usize;
        let (latest, some) = (self.known.last().copied(), self.known.get(some).copied());
        let length = 1 + self.random.below(15) as usize;
        let anywhere = self.random.below((SECONDS - length) as u64) as usize;
        let from = match (self.random.below(8), latest, some) {
            (0 | 1, _, Some(some)) => return some,
            (2, ..) => anywhere,
            (3, Some(latest), _) => latest.to + length,
            (_, Some(latest), _) => latest.to,
            _ => 0,
        };
        let from = if from + length > SECONDS { anywhere } else { from };
        Delta { from, to: from + length, count }
    }

    /// Starts a process, which reads the lane, and receives what its predecessor has not written.
    fn start(&mut self, name: char, deltas: &[Delta]) -> Result<Process, String> {
        let lanes = self.store.lane_states(&[(self.series, 0)]).map_err(text)?;
        let mut head = Head::new(0);
        let place =
            head.open(self.series, &self.spec, &lanes.into_iter().next().unwrap_or_default());
        self.last_writer += 1;
        let (writer, number, sent) = (Writer(self.last_writer), 0, None);
        let mut process = Process { name, head, place, writer, number, deltas: Vec::new(), sent };
        deltas.iter().try_for_each(|delta| self.receive(&mut process, *delta))?;
        Ok(process)
    }

    fn kill(&mut self, process: &mut Process) -> Result<(), String> {
        let is_written = self.store.last_batch(process.writer).map_err(text)? == process.number;
        let sent = process.sent.take().filter(|_| !is_written);
        let mut deltas = sent.map_or_else(Vec::new, |sent| sent.deltas);
        deltas.append(&mut process.deltas);
        self.seen.kills += 1;
        self.note(process, "killed");
        *process = self.start(process.name, &deltas)?;
        Ok(())
    }

    /// A delta arrives, or is read again from the journal.
    fn receive(&mut self, process: &mut Process, delta: Delta) -> Result<(), String> {
        let us = |second: usize| second as i64 * SECOND_US;
        let interval = Interval::count(us(delta.from), us(delta.to), delta.count);
        let interval = interval.map_err(|refusal| refusal.to_string())?;
        let taken = match self.is_stream {
            true => process.head.delta(process.place, interval),
            false => process.head.interval(process.place, interval).map(|()| true),
        };
        self.note(process, &format!("{delta:?}: {taken:?}"));
        match taken {
            Ok(true) => process.deltas.push(delta),
            Ok(false) => self.seen.repeated += 1,
            Err(_) => self.seen.refused += 1,
        }
        Ok(())
    }

    fn begin_batch(&mut self, process: &mut Process) {
        if process.sent.is_some() || process.deltas.is_empty() {
            return;
        }
        process.number += 1;
        process.head.claim(process.writer, process.number);
        let (frozen, deltas) = (process.head.freeze(), std::mem::take(&mut process.deltas));
        self.note(process, &format!("batch {} of {}", process.number, deltas.len()));
        process.sent = Some(Sent { frozen, deltas });
    }

    /// Writes everything.
    fn finish(&mut self, process: &mut Process) -> Result<(), String> {
        while process.sent.is_some() || !process.deltas.is_empty() {
            self.begin_batch(process);
            self.write(process)?;
        }
        Ok(())
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

    /// Writes the batch; if another process has changed its lane, computes it again.
    fn write(&mut self, process: &mut Process) -> Result<(), String> {
        let Some(mut sent) = process.sent.take() else { return Ok(()) };
        let applied = self.apply(process, &mut sent);
        self.note(process, &format!("{applied:?}"));
        match applied {
            Ok(_) => {
                self.tell(sent.frozen.unstored());
                for (id, lane) in sent.frozen.rebased() {
                    self.tell(process.head.rebase(id, &lane));
                }
                return Ok(());
            }
            Err(StoreError::Stale { lanes }) => {
                law(sent.frozen.rebase(&lanes), "a batch can be computed again")?;
            }
            Err(error) => return Err(text(error)),
        }
        process.sent = Some(sent);
        Ok(())
    }

    fn tell(&mut self, unstored: UnstoredUpdates) {
        self.seen.repeated_later += unstored.repeated;
        self.seen.refused_later += unstored.overtaken;
    }

    fn apply(&mut self, process: &Process, sent: &mut Sent) -> Result<BatchResult, StoreError> {
        let claim = (process.writer, process.number);
        let applied = self.store.apply_all(&[claim], &mut sent.frozen)?;
        if applied != BatchResult::Before {
            sent.deltas.iter().for_each(|delta| self.commit(*delta));
        }
        Ok(applied)
    }

    /// The model gets a delta of a batch.
    fn commit(&mut self, delta: Delta) {
        let seconds = &mut self.counted[delta.from..delta.to];
        if seconds.iter().any(|is_counted| *is_counted) {
            self.not_taken += 1;
            return;
        }
        seconds.fill(true);
        self.total += delta.count;
        self.seen.counted += 1;
    }
}

fn text(error: StoreError) -> String {
    error.to_string()
}
