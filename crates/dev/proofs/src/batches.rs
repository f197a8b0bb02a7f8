//! The proof that acknowledged data is stored exactly once: a program that writes batches is killed
//! at random moments, and the content of the store is compared with the batches.
//!
//! The content of batch number n of a writer depends only on the seed, the writer and n. So the
//! store must contain exactly what memory contains after the batches up to the writer's last one.
//! That must not be less than what was acknowledged, and may be one more: a batch that was
//! committed just before the kill.
//!
//! The program also seals spans, so that it is killed while slots are being packed, and late
//! batches write to packed ones. Every second writer uses the default packing, the others pack
//! every slot.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Seed;
use rand::RngExt as _;
use series::{Accumulator, Delta, Interval, Kind, Point, Reading, SECOND_US, SlotKey, Spec};

use store::{
    BatchResult, Changes, Identity, LaneChange, Memory, NewSeries, Packing, Postgres, Series,
    SeriesLimit, Sqlite, Store, StoreError, Writer, is_postgres, open,
};

use crate::counts::{differences, steps};

/// Number of writers, each with its own connection and thread.
pub const WRITERS: usize = 10;

/// 2026-01-01T00:00:00Z, the start of the batches.
const START_US: i64 = 1_767_225_600 * SECOND_US;

/// Time between batches: after some hundred batches a new partition is needed.
const BATCH_US: i64 = 30 * SECOND_US;

/// A writer seals after this many batches.
const SEALED_EACH: u64 = 4;

/// Factor on the number of kills until slots were sealed.
const PATIENCE: u64 = 10;

/// Initial maximum life of the program.
const LIFE_MAX_MS: u64 = 150;

/// Limit on the life of the program.
const LIFE_LIMIT_MS: u64 = 5_000;

/// Result of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// Acknowledged batches.
    pub acknowledged: u64,
    /// Batches in the store.
    pub applied: u64,
    /// Kills between a commit and its acknowledgement.
    pub unacknowledged: u64,
    /// Acknowledged batches missing in the store.
    pub lost: u64,
    /// Slots reported as sealed.
    pub sealed: u64,
    /// Slots compared, in all retentions.
    pub slots: u64,
    /// Slots that were wrong.
    pub wrong: u64,
}

impl Proof {
    /// Whether nothing was lost or wrong, and slots were sealed meanwhile.
    pub fn holds(&self) -> bool {
        self.lost == 0 && self.wrong == 0 && self.slots > 0 && self.sealed > 0
    }
}

fn writer(number: usize) -> Writer {
    Writer(0x7461_6368 + number as u128)
}

/// The series of all writers: a flow and a counter that they share, and a gauge and a level for
/// each.
fn series(store: &mut dyn Store) -> Result<Vec<Series>, StoreError> {
    let retentions = steps();
    store.retain(&retentions)?;
    let step = retentions.first().map(|r| r.step).ok_or(StoreError::NoRetention(0))?;
    let wanted = |name: &str, kind| {
        NewSeries::new(
            Identity::new(name, []),
            Spec { heartbeat_us: 60 * SECOND_US, ..Spec::new(kind, step) },
        )
    };
    let mut all = vec![wanted("flow", Kind::Count), wanted("counter", Kind::Counter)];
    for number in 0..WRITERS {
        all.push(wanted(&format!("gauge{number}"), Kind::Gauge));
        all.push(wanted(&format!("level{number}"), Kind::Level));
    }
    let made = store.series(&all, &SeriesLimit::DEFAULT)?;
    Ok(made.into_iter().flatten().collect())
}

/// Batch `seq` of a writer, given the state of the lanes in the store.
fn batch(
    store: &mut dyn Store,
    series: &[Series],
    seed: Seed,
    number: usize,
    seq: u64,
) -> Result<Changes, StoreError> {
    let mut rng = seed.derive("batch", (number as u64) << 40 | seq).rng("updates");
    let [flow, counter, own @ ..] = series else { return Ok(Changes::default()) };
    let (gauge, level) = (&own[2 * number], &own[2 * number + 1]);
    let lane = number as i32 + 1;
    let from_us = START_US + seq as i64 * BATCH_US;
    let mut changes = Changes::default();
    for _ in 0..rng.random_range(1..40) {
        // Up to half an hour back, so that slots of many batches are changed again.
        let start_us = from_us - rng.random_range(0..1_800 * SECOND_US);
        let end_us = start_us + rng.random_range(1..90 * SECOND_US);
        let interval = if rng.random_range(0..4) == 0 {
            (level, Interval::level(start_us, end_us, rng.random_range(0..1_000) as f64))
        } else {
            (flow, Interval::count(start_us, end_us, rng.random_range(-5..100)))
        };
        let (series, Ok(interval)) = interval else { continue };
        for (slot_us, part) in interval.slots(series.spec.step) {
            changes.add(series.spec.step, key(series, slot_us, lane), Delta::widen(part));
        }
    }
    for series in [counter, gauge] {
        let lane_now = store.lane_states(&[(series.id, lane)])?.pop().unwrap_or_default();
        let mut change = LaneChange::of(lane_now);
        for _ in 0..rng.random_range(1..4) {
            // Some of them late.
            let at_us = from_us - rng.random_range(0..60 * SECOND_US);
            let value = seq * 1_000 + rng.random_range(0..1_000);
            let reading = match series.spec.kind {
                Kind::Counter => Reading::Unsigned(value),
                _ => Reading::Level(value as f64),
            };
            // A refused point is refused in memory too.
            let _ = change.after.push(&series.spec, Point { at_us, reading }, |slot_us, delta| {
                changes.add(series.spec.step, key(series, slot_us, lane), delta);
            });
        }
        changes.lanes.insert((series.id, lane), change);
    }
    Ok(changes)
}

fn key(series: &Series, slot_us: i64, lane: i32) -> SlotKey {
    SlotKey { slot_us, series: series.id, lane }
}

/// The program until it is killed: each writer applies its batches after `acknowledged`, and prints
/// `writer number` to `out` after each, and `sealed slots` after sealing.
///
/// # Errors
/// Errors of a store, with the writer.
pub fn write(
    place: &str,
    seed: Seed,
    acknowledged: [u64; WRITERS],
    out: impl Write + Send,
) -> Result<(), String> {
    let out = std::sync::Mutex::new(out);
    std::thread::scope(|scope| {
        let writers: Vec<_> = acknowledged
            .into_iter()
            .enumerate()
            .map(|(number, last)| {
                let out = &out;
                scope.spawn(move || {
                    write_one(place, seed, number, last, |line| {
                        let mut out = out.lock().map_err(|e| e.to_string())?;
                        writeln!(out, "{line}")
                            .and_then(|()| out.flush())
                            .map_err(|e| e.to_string())
                    })
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(done) => done,
            Err(_) => Err("a writer panicked".to_owned()),
        })
    })
}

fn write_one(
    place: &str,
    seed: Seed,
    number: usize,
    acknowledged: u64,
    say: impl Fn(String) -> Result<(), String>,
) -> Result<(), String> {
    let wrong = |error: StoreError| format!("writer {number}: {error}");
    let packing = if number.is_multiple_of(2) { Packing::USUAL } else { Packing::ALWAYS };
    let mut store = open_with(place, packing).map_err(wrong)?;
    let series = series(&mut *store).map_err(wrong)?;
    for seq in acknowledged + 1..u64::MAX {
        let changes = batch(&mut *store, &series, seed, number, seq).map_err(wrong)?;
        store.apply(writer(number), seq, &changes).map_err(wrong)?;
        say(format!("{number} {seq}"))?;
        if seq % SEALED_EACH == 0 {
            let sealed = store.seal(START_US + seq as i64 * BATCH_US).map_err(wrong)?;
            say(format!("sealed {sealed}"))?;
        }
    }
    Ok(())
}

fn open_with(place: &str, packing: Packing) -> Result<Box<dyn Store>, StoreError> {
    Ok(if is_postgres(place) {
        Box::new(Postgres::open(place)?.with_packing(packing))
    } else {
        Box::new(Sqlite::open(place)?.with_packing(packing))
    })
}

/// Kills the program `kills` times, or more often until it has sealed something, and compares the
/// content of the store every 50 kills and at the end.
///
/// `program` starts the program, given what each writer had acknowledged.
///
/// # Errors
/// A program that ended by itself, with its output; a store that cannot be read.
pub fn prove(
    place: &str,
    seed: Seed,
    kills: u64,
    program: impl Fn([u64; WRITERS]) -> Command,
) -> Result<Proof, String> {
    let mut proof = Proof::default();
    let mut rng = seed.rng("kills");
    let mut acknowledged = [0; WRITERS];
    let mut life_max_ms = LIFE_MAX_MS;
    let mut replayed = Replay::new().map_err(|e| e.to_string())?;
    let mut store = open(place).map_err(|e| e.to_string())?;
    series(&mut *store).map_err(|e| e.to_string())?;
    while proof.kills < kills || (proof.sealed == 0 && proof.kills < kills * PATIENCE) {
        let life = Duration::from_millis(rng.random_range(1..life_max_ms));
        let before = acknowledged;
        proof.sealed += live_and_die(program(acknowledged), life, &mut acknowledged)?;
        if acknowledged == before {
            // A slow machine: such short lives prove nothing.
            life_max_ms = (life_max_ms + life_max_ms / 10).min(LIFE_LIMIT_MS);
        }
        proof.kills += 1;
        for (number, acknowledged) in acknowledged.iter_mut().enumerate() {
            let last = store.last_batch(writer(number)).map_err(|e| e.to_string())?;
            proof.lost += acknowledged.saturating_sub(last);
            // At most one: what was sent but not acknowledged is sent again.
            proof.unacknowledged += last.saturating_sub(*acknowledged);
        }
        if proof.kills % 50 == 0 || proof.kills >= kills {
            replayed.compare(&mut *store, seed, &mut proof).map_err(|e| e.to_string())?;
        }
    }
    proof.acknowledged = acknowledged.iter().sum();
    Ok(proof)
}

/// Starts the program, kills it, and reads all its acknowledgements; returns the number of sealed
/// slots.
fn live_and_die(
    mut command: Command,
    life: Duration,
    acknowledged: &mut [u64; WRITERS],
) -> Result<u64, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("the writing program: {e}"))?;
    std::thread::sleep(life);
    let ended = child.try_wait().map_err(|e| e.to_string())?;
    child.kill().map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if ended.is_some() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the writing program ended by itself: {said}"));
    }
    let mut sealed = 0;
    for line in BufReader::new(&output.stdout[..]).lines().map_while(Result::ok) {
        if let Some(slots) = line.strip_prefix("sealed ") {
            // A line that was cut by the kill is ignored.
            sealed += slots.parse().unwrap_or(0);
            continue;
        }
        let mut words = line.split(' ').map(str::parse::<u64>);
        if let (Some(Ok(number)), Some(Ok(seq))) = (words.next(), words.next())
            && let Some(last) = acknowledged.get_mut(number as usize)
        {
            *last = seq;
        }
    }
    Ok(sealed)
}

/// The same batches in memory.
struct Replay {
    memory: Memory,
    series: Vec<Series>,
    applied: [u64; WRITERS],
}

impl Replay {
    fn new() -> Result<Replay, StoreError> {
        let mut memory = Memory::new();
        let series = series(&mut memory)?;
        Ok(Replay { memory, series, applied: [0; WRITERS] })
    }

    /// Applies the batches in the store, and compares every slot of every retention.
    fn compare(
        &mut self,
        store: &mut dyn Store,
        seed: Seed,
        proof: &mut Proof,
    ) -> Result<(), StoreError> {
        let last_batches = |store: &mut dyn Store| -> Result<Vec<u64>, StoreError> {
            (0..WRITERS).map(|number| store.last_batch(writer(number))).collect()
        };
        // PostgreSQL may still commit what a killed program has asked for.
        let (last, found) = loop {
            let last = last_batches(store)?;
            let theirs: Vec<i64> = series(store)?.iter().map(|series| series.id).collect();
            let found = steps()
                .into_iter()
                .map(|retention| store.slots(retention.step, &theirs, i64::MIN, i64::MAX));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            if last == last_batches(store)? {
                break (last, found);
            }
        };
        for (number, last) in last.into_iter().enumerate() {
            for seq in self.applied[number] + 1..=last {
                let changes = batch(&mut self.memory, &self.series, seed, number, seq)?;
                let applied = self.memory.apply(writer(number), seq, &changes)?;
                debug_assert!(matches!(applied, BatchResult::Now { .. }));
            }
            self.applied[number] = last;
        }
        proof.applied = self.applied.iter().sum();
        let ours: Vec<i64> = self.series.iter().map(|series| series.id).collect();
        for (retention, found) in steps().into_iter().zip(found) {
            let wanted = self.memory.slots(retention.step, &ours, i64::MIN, i64::MAX)?;
            proof.slots += wanted.len() as u64;
            // The series have the same numbers in both, because they were created in the same order;
            // and every area is a sum of integers in the same order, because each writer has its own
            // levels.
            let [wanted, found] = [wanted, found].map(|slots| slots.into_iter().collect());
            proof.wrong += differences::<SlotKey, Accumulator>(&wanted, &found);
        }
        Ok(())
    }
}
