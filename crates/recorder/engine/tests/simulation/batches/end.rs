//! Readers of the store, and the end of a run: on a healthy disk everything is written, and the laws
//! are checked.

use std::collections::{BTreeMap, BTreeSet};

use ::store::{Selector, Store as _};
use engine::{Event, Wants};
use series::{SECOND_US, Step};

use super::messages::{Format, MARK_STEP_S};
use super::model::{Model, Row, Rows, STEP_US, coarsened};
use super::script::{Answer, Daemon};
use super::{FILE_BYTES, Process, REMEMBER_US, STEP_S, World, text};
use crate::disk::Condition;
use crate::journal::law;

const DAY_US: i64 = 86_400 * SECOND_US;

/// The slots of a series at both steps.
#[derive(Default)]
struct Content {
    fine: Rows,
    coarse: Rows,
}

type Contents = BTreeMap<String, Content>;

impl World {
    fn contents(&mut self) -> Result<Contents, String> {
        let all = Selector { measurement: None, field: None, tags: BTreeMap::new() };
        let found = self.store.find(&all).map_err(text)?;
        let names: BTreeMap<i64, String> =
            found.iter().map(|series| (series.id, series.identity.to_string())).collect();
        let ids: Vec<i64> = names.keys().copied().collect();
        let mut contents = Contents::new();
        for step_s in [STEP_S, MARK_STEP_S] {
            let step = Step::from_secs(step_s).ok_or("a step")?;
            for (key, row) in self.store.slots(step, &ids, i64::MIN, i64::MAX).map_err(text)? {
                let content = contents.entry(names[&key.series].clone()).or_default();
                let rows = match step_s {
                    STEP_S => &mut content.fine,
                    _ => &mut content.coarse,
                };
                let integral = row.integral.as_f64();
                let row = Row { integral, covered_us: row.covered_us, n: Some(row.n) };
                rows.insert(key.slot_us, row);
            }
        }
        Ok(contents)
    }

    /// Reads all that is stored, whatever is being written.
    pub(super) fn read_store(&mut self) -> Result<(), String> {
        self.seen.reads += 1;
        let contents = self.contents()?;
        self.check_steps(&contents)?;
        let stored = self.stored(&contents)?;
        self.read.push(stored.into_keys().collect());
        Ok(())
    }

    /// Every resolution has the same sums, until its slots expire.
    fn check_steps(&self, contents: &Contents) -> Result<(), String> {
        for (name, Content { fine, coarse }) in contents {
            let sums = coarsened(fine, MARK_STEP_S * SECOND_US);
            for (slot_us, row) in coarse.range(self.expired_us..) {
                let sum = sums.get(slot_us).copied().unwrap_or(Row::NOTHING);
                let words = format!("all steps tell the same of {name} at {slot_us}");
                law(sum.is_like(row), format_args!("{words}: {sum:?}, {row:?}"))?;
            }
        }
        Ok(())
    }

    /// The messages that are stored, and how often: each once, and none that failed.
    fn stored(&self, contents: &Contents) -> Result<BTreeMap<u64, i64>, String> {
        let messages = self.messages.values().map(|sent| (sent.given.mark(), sent.given.number));
        let messages: BTreeMap<(&str, i64), u64> = messages.collect();
        let mut stored = BTreeMap::new();
        for (name, content) in contents.iter().filter(|(name, _)| name.starts_with("marks")) {
            for (slot_us, row) in &content.coarse {
                let Some(n) = row.n.filter(|n| *n != 0) else { continue };
                let number = messages.get(&(name.as_str(), *slot_us));
                let number = *number.ok_or("broken law: nothing is stored that was not sent")?;
                let is_known =
                    self.acknowledged.contains(&number) || self.unknown.contains(&number);
                law(is_known, format_args!("what failed does not count: {number}"))?;
                let is_once = n == 1 || self.forgettable.contains(&number);
                law(is_once, format_args!("nothing counts twice: {number} counts {n}"))?;
                stored.insert(number, n);
            }
        }
        Ok(stored)
    }

    /// The store does all it is asked for, and time passes, until the engine wants this.
    fn settle_until(
        &mut self,
        process: &mut Process,
        is_wanted: impl Fn(Wants) -> bool,
    ) -> Result<(), String> {
        for _ in 0..10_000 {
            let ms = 50 + self.random.below(6_000);
            self.pass(ms);
            self.tick(process)?;
            law(!process.is_over, "the journal can be read")?;
            if is_wanted(process.engine.wants()) && process.waiting.is_empty() {
                return Ok(());
            }
            self.store_works(process, Answer::Given)?;
        }
        Err("broken law: everything is written in the end".to_owned())
    }

    /// On a healthy disk, everything is written; then the laws are checked.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.is_healthy = true;
        // The first daemon comes last, because its figures are checked.
        for daemon in [Daemon::Rival, Daemon::First] {
            self.turn_to(daemon);
            if daemon == Daemon::First || self.own.disk.used() > 0 {
                self.settle_daemon()?;
            }
        }
        self.check()?;
        self.forget()
    }

    /// The names of requests are forgotten in the end, unless they arrived on a clock that was ahead.
    fn forget(&mut self) -> Result<(), String> {
        if self.arrivals.is_empty() {
            return Ok(());
        }
        let end_us = self.right_us();
        self.ahead_us = 0;
        let mut process = self.start()?.ok_or("broken law: it starts again")?;
        self.passed_us += REMEMBER_US + 2 * DAY_US;
        // A time that is far after the record's is not believed for an hour, and then not for keys
        // until they have been remembered for as long as they are to be.
        for pause_us in [0, 2 * 3_600 * SECOND_US, REMEMBER_US] {
            self.passed_us += pause_us;
            // Nothing is forgotten while a batch is written that windows have closed into.
            for _ in 0..3 {
                self.settle_until(&mut process, |wants| matches!(wants, Wants::Message(_)))?;
                self.store_works(&mut process, Answer::Given)?;
            }
        }
        for (number, arrivals) in &self.arrivals {
            let is_past = arrivals.iter().all(|arrived| arrived.arrival_us <= end_us);
            let key = self.messages[number].given.key().ok_or("a key")?;
            let is_known = self.store.has_request(key).map_err(text)?;
            law(!is_known || !is_past, format_args!("the name of {number} is forgotten"))?;
        }
        Ok(())
    }

    fn settle_daemon(&mut self) -> Result<(), String> {
        self.note("the end: a healthy disk");
        self.own.disk.set(Condition::default());
        if self.random.one_in(2) {
            self.commit_late()?;
        }
        let mut process = self.start()?.ok_or("broken law: it starts again")?;
        self.commit_late()?;
        self.settle_until(&mut process, |wants| matches!(wants, Wants::Message(_)))?;
        process.stops = true;
        self.tell(&mut process, Event::Stop)?;
        self.settle_until(&mut process, |wants| wants == Wants::Nothing)?;
        // Open windows need their messages.
        let has_windows = self.messages.values().any(|sent| sent.given.format == Format::Statsd);
        let is_short = process.journal.size() <= FILE_BYTES;
        law(is_short || has_windows, "a journal that the store has is short")?;
        drop(process);
        let mut again = self.start()?.ok_or("broken law: it starts again")?;
        self.settle_until(&mut again, |wants| matches!(wants, Wants::Message(_)))?;
        law(again.engine.oldest_us().is_none(), "nothing is left over")
    }

    /// What is stored is what the messages mean that are stored.
    fn check(&mut self) -> Result<(), String> {
        let contents = self.contents()?;
        self.check_steps(&contents)?;
        let stored = self.stored(&contents)?;
        for number in &self.acknowledged {
            let sent = &self.messages[number];
            // OTLP has no times before the epoch, so its mark is in the future of such a clock.
            let has_mark = sent.given.format != Format::Otlp || sent.arrived.at_us > 0;
            let is_there = stored.contains_key(number) || !has_mark;
            law(is_there, format_args!("what is acknowledged is there: {number}"))?;
        }
        self.check_reads(&stored.keys().copied().collect())?;
        let mut model = Model::default();
        for (number, n) in &stored {
            let sent = &self.messages[number];
            (1..*n).for_each(|_| _ = model.take(sent));
            let refused = model.take(sent);
            let Some(counted) = self.own.counted.get(number) else { continue };
            self.seen.refused += refused.total();
            let words = format!("what is refused is counted with its reason, of {number}");
            let is_same = counted.refused == refused;
            law(is_same, format_args!("{words}: {} and not {refused}", counted.refused))?;
            let lines = sent.said.len() as u64;
            law(counted.lines == lines, format_args!("every line of {number} is counted"))?;
        }
        for (name, rows) in model.rows(self.in_order, self.is_cut) {
            let none = Content::default();
            let content = contents.get(&name).unwrap_or(&none);
            let from_us = self.expired_us;
            compare(&name, &rows, &content.fine, from_us, self.is_cut)?;
            let coarse = coarsened(&rows, MARK_STEP_S * SECOND_US);
            compare(&name, &coarse, &content.coarse, i64::MIN, self.is_cut)?;
        }
        let sum = |name: &str| -> f64 {
            let rows = contents.get(name).into_iter().flat_map(|content| content.coarse.values());
            rows.map(|row| row.integral).sum()
        };
        let (hits, fractions) = (sum("hits:count"), sum("fractions:count"));
        law(hits == model.hits() as f64, format_args!("counts of windows are exact: {hits}"))?;
        // An open window is rounded.
        let is_near = (fractions - model.fractions).abs() <= 1.0;
        law(is_near, format_args!("fractions go on: {fractions} and not {}", model.fractions))
    }

    /// A reader sees everything up to some message, and nothing of later ones.
    fn check_reads(&self, stored: &BTreeSet<u64>) -> Result<(), String> {
        let is_keyed = |number: &u64| self.messages[number].given.format == Format::Keyed;
        for seen in &self.read {
            law(seen.is_subset(stored), "what was read stays")?;
            let Some(last) = seen.iter().rfind(|number| !is_keyed(number)) else { continue };
            let is_missing = |number: &&u64| !is_keyed(number) && !seen.contains(*number);
            let missing = stored.range(..last).find(is_missing);
            law(
                missing.is_none(),
                format_args!("a reader sees no gap: {missing:?} before {last}"),
            )?;
        }
        Ok(())
    }
}

/// Compares the slots of a series from a time on. Each part of a window that was cut covers all of
/// it, like the values of another sender.
fn compare(
    name: &str,
    wanted: &Rows,
    found: &Rows,
    from_us: i64,
    is_cut: bool,
) -> Result<(), String> {
    for slot_us in wanted.keys().chain(found.keys()).filter(|slot_us| **slot_us >= from_us) {
        let of = |rows: &Rows| rows.get(slot_us).copied().unwrap_or(Row::NOTHING);
        let (wanted, mut found) = (of(wanted), of(found));
        let is_window = wanted.n.is_none();
        let more_us = found.covered_us - wanted.covered_us;
        if is_cut && is_window && more_us > 0 && more_us % STEP_US == 0 {
            found.covered_us = wanted.covered_us;
        }
        let words = format!("{name} at {slot_us} is what it should be");
        law(wanted.is_like(&found), format_args!("{words}: {found:?} and not {wanted:?}"))?;
    }
    Ok(())
}
