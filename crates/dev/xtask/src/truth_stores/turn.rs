//! A trial of a store.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Rng, Seed};
use rand::RngExt as _;
use rustix::process::Pid;

use super::clock;
use super::disk::Disk;
use super::history::{Message, SERIES, SLOT_S, total};
use super::processes;
use super::results::{Cell, Price};
use super::stores::{AskedTime, Reply, Store, StoreKind, Times, now_s};
use super::trials::{CUT_EVERY, Disturbance, PRICED, STEP_S, Trial};
use crate::process::output;

/// The longest time from a start to the next kill, and how long the messages of a disturbed trial take at least.
const KILL_EVERY: Duration = Duration::from_secs(2);
const DISTURBED: Duration = Duration::from_secs(20);

/// The longest time between two power cuts.
const CUT_POWER_EVERY: Duration = Duration::from_secs(5);

/// How often a message is sent until the store counts as failed, and the pause after each attempt.
const ATTEMPTS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(50);

/// How long the disk is full.
const FULL: Duration = Duration::from_secs(10);

/// Totals may differ by less than this: some split a count that lies in two slots into whole numbers.
const TOLERANCE: f64 = 1.0;

/// Makes the trial with a fresh store. What fails is part of the result.
pub(super) fn turn(
    kind: &StoreKind,
    trial: &Trial,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<Cell, String> {
    if let (Times::Reading(why), false) = (kind.times, trial.is_live) {
        return Ok(Cell { unconcerned: Some(why.to_owned()), ..Cell::default() });
    }
    let mut rng = seed.rng(trial.id);
    let mut script = trial.draw(now_s()?, &mut rng);
    if kind.times == Times::Arrival {
        script.asked_s = vec![(0, i64::MAX)];
    }
    let truth = all(&script.happened, &script.asked_s);
    let cell = Cell { messages: script.sent.len() as u64, truth, ..Cell::default() };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // It is unmounted after the store has ended.
    let mut disk = match disk(trial, folder.path()) {
        Ok(disk) => disk,
        Err(why) => return Ok(Cell { unconcerned: Some(why), ..cell }),
    };
    // PostgreSQL runs as a user of its own.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777))
        .map_err(|error| error.to_string())?;
    let opened = (kind.open)(folder.path(), trial.quantity);
    let mut store = match opened.and_then(|mut store| store.start().map(|()| store)) {
        Ok(store) => store,
        Err(why) => return Ok(Cell { failure: Some(why), ..cell }),
    };
    if trial.is_live && now_s()? >= script.sent.first().map_or(i64::MAX, |first| first.start_s) {
        return Ok(Cell { failure: Some("it was not ready in time".to_owned()), ..cell });
    }
    let before = price(folder.path())?;
    let answers = Answers::default();
    let (store_here, disk) = (store.as_mut(), disk.as_mut());
    let mut sender = Sender { store: store_here, trial, disk, rng, cell, answers, stop };
    let sent = sender.send_all(&script.sent);
    let Sender { mut cell, answers, .. } = sender;
    if stop.load(Ordering::Relaxed) {
        return Err("stopped".to_owned());
    }
    if cell.unconcerned.is_some() {
        return Ok(cell);
    }
    let mut taken = script.happened;
    taken.retain(|message| !answers.refused.contains(&message.id));
    cell.taken = all(&taken, &script.asked_s);
    let finished = sent.and_then(|()| store.finish());
    if trial.id == PRICED {
        let after = price(folder.path())?;
        cell.price =
            Some(Price { cpu_s: after.cpu_s - before.cpu_s, bytes: after.bytes - before.bytes });
    }
    let compared =
        finished.and_then(|()| compare(store.as_mut(), kind, &taken, &script.asked_s, &mut cell));
    // The folder is another one each time.
    let place = folder.path().display().to_string();
    cell.failure = compared.err().map(|why| why.replace(&place, "…"));
    Ok(cell)
}

/// The disk for all files of a store, if the trial takes one, or why there is none.
fn disk(trial: &Trial, folder: &Path) -> Result<Option<Disk>, String> {
    match trial.disturbance {
        Disturbance::FullDisk => Disk::small(folder).map(Some),
        Disturbance::PowerCuts => Disk::with_power(folder).map(Some),
        _ => Ok(None),
    }
}

/// What all stores have cost so far, and what is in the folder of this one.
fn price(folder: &Path) -> Result<Price, String> {
    // Files may vanish meanwhile.
    let listed =
        output(Command::new("sh").args(["-c", "du -s --block-size=1 \"$0\" || true"]).arg(folder))?;
    let bytes = listed.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
    let bytes = bytes.ok_or_else(|| format!("du: {listed}"))?;
    Ok(Price { cpu_s: processes::cpu()?.as_secs_f64(), bytes })
}

/// The total of all series in these times.
fn all(messages: &[Message], asked_s: &[(i64, i64)]) -> f64 {
    let of_series = |series| {
        asked_s
            .iter()
            .map(move |(from_s, to_s)| total(messages, series, *from_s, *to_s))
            .sum::<f64>()
    };
    (0..SERIES).map(of_series).sum()
}

/// What became of the messages.
#[derive(Default)]
struct Answers {
    acknowledged: BTreeSet<u32>,
    /// Never acknowledged.
    refused: BTreeSet<u32>,
}

impl Answers {
    fn add(&mut self, message: &Message, reply: &Reply) {
        match reply {
            Reply::Acknowledged => {
                self.acknowledged.insert(message.id);
                self.refused.remove(&message.id);
            }
            Reply::Refused(_) if !self.acknowledged.contains(&message.id) => {
                self.refused.insert(message.id);
            }
            _ => {}
        }
    }
}

/// Who tells a store what happened, and disturbs it meanwhile.
struct Sender<'t> {
    store: &'t mut dyn Store,
    trial: &'t Trial,
    disk: Option<&'t mut Disk>,
    rng: Rng,
    cell: Cell,
    answers: Answers,
    /// Set by a signal.
    stop: &'t AtomicBool,
}

impl Sender<'_> {
    fn send_all(&mut self, messages: &[Message]) -> Result<(), String> {
        let pause = match self.trial.disturbance {
            Disturbance::None | Disturbance::Cuts => Duration::ZERO,
            _ => DISTURBED / messages.len() as u32,
        };
        let every = match self.trial.disturbance {
            Disturbance::PowerCuts => CUT_POWER_EVERY,
            _ => KILL_EVERY,
        };
        let mut next_kill = Instant::now() + every.mul_f64(self.rng.random_range(0.5..1.0));
        for (place, message) in messages.iter().enumerate() {
            thread::sleep(pause);
            if self.trial.is_live {
                self.wait_until(message.end_s);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err("stopped".to_owned());
            }
            let mut killer = None;
            match (self.trial.disturbance, self.disk.as_deref_mut()) {
                (Disturbance::Cuts, _) if place % CUT_EVERY == CUT_EVERY / 2 => {
                    let is_cut = self.store.cut(message)?;
                    self.cell.unconcerned = (!is_cut).then(|| "its client has no connection, or one whose protocol knows where a message ends".to_owned());
                }
                (Disturbance::Restart, _) if place == messages.len() / 2 => {
                    self.store.stop()?;
                    self.store.start()?;
                }
                (Disturbance::ClockSteps, _) if place == messages.len() / 3 => {
                    clock::set_ahead(STEP_S)?;
                }
                (Disturbance::ClockSteps, _) if place == messages.len() * 2 / 3 => {
                    clock::set_ahead(0)?;
                }
                (Disturbance::Kills, _) if Instant::now() >= next_kill => {
                    killer = kill_soon(self.store, &mut self.rng);
                    self.cell.kills += 1;
                }
                (Disturbance::PowerCuts, Some(disk)) if place == messages.len() / 100 => {
                    disk.sync()?;
                }
                (Disturbance::PowerCuts, Some(disk)) if Instant::now() >= next_kill => {
                    let suspended = processes::suspend()?;
                    disk.cut_power(|| processes::kill(&suspended.all))?;
                    drop(suspended);
                    self.cell.kills += 1;
                    self.store.start()?;
                    next_kill = Instant::now() + every.mul_f64(self.rng.random_range(0.5..1.0));
                }
                (Disturbance::FullDisk, Some(disk)) if place == messages.len() / 4 => {
                    disk.fill(FULL)?;
                }
                _ => {}
            }
            let reply = self.send(message);
            if let Some(killer) = killer {
                let _ = killer.join();
                self.store.start()?;
                next_kill = Instant::now() + every.mul_f64(self.rng.random_range(0.5..1.0));
            }
            let reply = reply?;
            self.answers.add(message, &reply);
            self.cell.count(reply);
        }
        Ok(())
    }

    /// Waits until this time, in seconds since 1970, or until it is stopped.
    fn wait_until(&self, at_s: i64) {
        let at = UNIX_EPOCH + Duration::from_secs(at_s.unsigned_abs());
        while !self.stop.load(Ordering::Relaxed)
            && let Ok(wait) = at.duration_since(SystemTime::now())
        {
            thread::sleep(wait.min(Duration::from_millis(100)));
        }
    }

    /// Sends a message until there is an answer, also after a refusal while the disk is full. Only a
    /// store that is killed, or whose disk is full, may leave one without.
    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        let disturbance = self.trial.disturbance;
        let is_repeated = |sent: &Result<Reply, String>| {
            let is_refused = matches!(sent, Ok(Reply::Refused(_)));
            match disturbance {
                Disturbance::Kills | Disturbance::PowerCuts => sent.is_err(),
                Disturbance::FullDisk => sent.is_err() || is_refused,
                _ => false,
            }
        };
        let mut attempts = 0;
        let mut sent = self.store.send(message);
        while is_repeated(&sent) && attempts < ATTEMPTS && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
            attempts += 1;
            sent = self.store.start().and_then(|()| self.store.send(message));
        }
        match sent {
            Ok(Reply::Refused(why)) if attempts == ATTEMPTS => {
                Err(format!("it refused a message {ATTEMPTS} times: {why}"))
            }
            // It may have been taken before, which is why it is refused now.
            Ok(Reply::Refused(_)) if attempts > 0 => Ok(Reply::Unanswered),
            sent => sent,
        }
    }
}

/// Kills the store within a millisecond, while the next message is sent.
fn kill_soon(store: &dyn Store, rng: &mut Rng) -> Option<JoinHandle<()>> {
    let process = Pid::from_raw(store.process()?.cast_signed())?;
    let wait = Duration::from_micros(rng.random_range(0..1_000));
    Some(thread::spawn(move || {
        thread::sleep(wait);
        // One that does not end is noticed when it should start again.
        let _ = processes::kill_with_children(process);
    }))
}

impl Cell {
    fn count(&mut self, reply: Reply) {
        match reply {
            Reply::Acknowledged => *self.acknowledged.get_or_insert(0) += 1,
            Reply::Unanswered => {}
            Reply::Refused(why) => {
                self.refused += 1;
                self.refusal.get_or_insert(why);
            }
            Reply::Unsayable(why) => {
                self.unsayable.get_or_insert_with(|| why.to_owned());
            }
        }
    }
}

/// Compares totals and slots with those of the messages that the store took.
fn compare(
    store: &mut dyn Store,
    kind: &StoreKind,
    taken: &[Message],
    asked_s: &[(i64, i64)],
    cell: &mut Cell,
) -> Result<(), String> {
    for series in 0..SERIES {
        for &(from_s, to_s) in asked_s {
            let asked = AskedTime { series, from_s, to_s };
            let (reported, slots) = (store.total(asked)?, store.slots(asked)?);
            cell.reported += reported;
            cell.stored += slots.values().sum::<f64>();
            cell.totals += 1;
            let truth = total(taken, series, from_s, to_s);
            cell.wrong_totals += u64::from((reported - truth).abs() >= TOLERANCE);
            if kind.times == Times::Arrival {
                continue;
            }
            for slot_s in (from_s..to_s).step_by(SLOT_S as usize) {
                let truth = total(taken, series, slot_s, slot_s + SLOT_S);
                let found = slots.get(&slot_s).copied().unwrap_or(0.0);
                cell.slots += 1;
                cell.wrong_slots += u64::from((found - truth).abs() >= TOLERANCE);
            }
        }
    }
    Ok(())
}
