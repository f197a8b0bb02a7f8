//! The end of a run: on a healthy disk everything is written, and the laws are checked.

use std::collections::BTreeMap;

use ::store::{Selector, Store as _};
use engine::{Event, Wants};
use series::Step;

use super::{FILE_BYTES, Process, STEP_S, World, is_windowed, law, text};
use crate::disk::Condition;

impl World {
    /// The store does all it is asked for, and time passes, until the engine wants this.
    fn settle_until(
        &mut self,
        process: &mut Process,
        is_wanted: impl Fn(Wants) -> bool,
    ) -> Result<(), String> {
        for _ in 0..10_000 {
            self.pass(process)?;
            law(!process.is_over, "the journal can be read")?;
            if is_wanted(process.engine.wants()) && process.waiting.is_empty() {
                return Ok(());
            }
            self.store_works(process)?;
        }
        Err("broken law: everything is written in the end".to_owned())
    }

    /// On a healthy disk, everything is written; then the laws are checked.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.note("the end: a healthy disk");
        self.disk.set(Condition::default());
        self.is_healthy = true;
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
        let is_short = process.journal.size() <= FILE_BYTES;
        law(is_short || self.has_windows, "a journal that the store has is short")?;
        drop(process);
        let mut again = self.start()?.ok_or("broken law: it starts again")?;
        self.settle_until(&mut again, |wants| matches!(wants, Wants::Message(_)))?;
        let is_empty = again.engine.head_bytes() == 0 && again.engine.oldest_us().is_none();
        law(is_empty, "nothing is left over")?;
        let step = Step::from_secs(STEP_S).ok_or("a step")?;
        let (mut counts, mut fractions) = (BTreeMap::<u64, f64>::new(), 0.0);
        let all = Selector { measurement: None, field: None, tags: BTreeMap::new() };
        for series in self.store.find(&all).map_err(text)? {
            let rows = self.store.slots(step, &[series.id], i64::MIN, i64::MAX).map_err(text)?;
            if series.identity.measurement == "fractions" {
                fractions = rows.iter().map(|(_, row)| row.integral.as_f64()).sum();
                continue;
            }
            for (key, row) in rows {
                let message = match series.identity.measurement.strip_prefix('s') {
                    Some(message) => message.parse().map_err(text)?,
                    None => (key.slot_us / step.us()) as u64,
                };
                *counts.entry(message).or_default() += row.integral.as_f64();
            }
        }
        if self.has_windows {
            let sum = |messages: usize| 2.5 * messages as f64;
            let is_windowed = |message: &&u64| is_windowed(**message);
            let least = sum(self.acknowledged.iter().filter(is_windowed).count());
            let most = sum(self.acknowledged.union(&self.unknown).filter(is_windowed).count());
            // An open window is rounded.
            let is_between = fractions > least - 1.0 && fractions < most + 1.0;
            law(is_between, &format!("fractions go on: {fractions} is in {least} to {most}"))?;
        }
        for message in &self.acknowledged {
            let count = counts.get(message).copied().unwrap_or_default();
            law(count == 1.0, &format!("acknowledged counts once: {message} counts {count}"))?;
        }
        for (message, count) in &counts {
            let is_known = self.acknowledged.contains(message) || self.unknown.contains(message);
            law(is_known, &format!("what failed does not count: {message}"))?;
            law(*count == 1.0, &format!("nothing counts twice: {message} counts {count}"))?;
        }
        Ok(())
    }
}
