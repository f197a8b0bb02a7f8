//! The ledger's fourth column once more, from the database as it is now.

use std::collections::HashMap;

use ledger::{Ledger, Tolerance};
use record::{Block, Finding, Part, Run, Severity};
use series::{Accumulator, SECOND_US, SlotKey, Step};
use slots::{Selector, Store, StoreError};

use crate::recording::{identity, retention, total};
use crate::slices::Measure;

/// How far beyond the blocks of a part its slots are looked for first.
const MARGIN_US: i64 = 60 * SECOND_US;

/// Reads the series of a recorded run, puts what they add up to into its ledgers, and makes the
/// run invalid where that is no longer what was read when the trial ended.
///
/// A run whose series are not in the store loses the column.
///
/// # Errors
/// Those of the store.
pub fn reread_series(run: &mut Run, store: &mut dyn Store) -> Result<(), StoreError> {
    let Some(step) = retention().map(|retention| retention.step) else { return Ok(()) };
    let selector = Selector {
        measurement: Some(Measure::COMPLETED.measurement.to_owned()),
        field: Some(Measure::COMPLETED.field.to_owned()),
        tags: [("run".to_owned(), run.id.0.clone())].into(),
    };
    let ids: HashMap<_, _> =
        store.find(&selector)?.into_iter().map(|s| (s.identity, s.id)).collect();
    let shell = Run { parts: Vec::new(), ..run.clone() };
    for part in &mut run.parts {
        let names = part.clone();
        let of = |variant: u32, offer: &str| {
            let identity = identity(Measure::COMPLETED, &shell, &names, variant as usize, offer);
            ids.get(&identity).copied()
        };
        let mut rows = Rows::read(store, step, part, of)?;
        let mut findings = Vec::new();
        for block in &mut part.blocks {
            reread_block(block, &mut rows, of, &mut findings, &names)?;
        }
        for finding in findings {
            part.reasons.push(finding.sentence.clone());
            part.findings.push(finding);
        }
        add_up(part);
    }
    Ok(())
}

/// The slots of a part's series.
struct Rows<'s> {
    store: &'s mut dyn Store,
    step: Step,
    rows: HashMap<i64, Vec<(SlotKey, Accumulator)>>,
}

impl Rows<'_> {
    fn read<'s>(
        store: &'s mut dyn Store,
        step: Step,
        part: &Part,
        of: impl Fn(u32, &str) -> Option<i64>,
    ) -> Result<Rows<'s>, StoreError> {
        let trials = || part.blocks.iter().flat_map(|block| &block.trials);
        let mut ids: Vec<i64> = trials().filter_map(|t| of(t.variant, &t.offer)).collect();
        ids.sort_unstable();
        ids.dedup();
        let starts = trials().map(|trial| trial.started.as_microsecond());
        let ends = part.blocks.iter().map(|block| {
            block.started.as_microsecond().saturating_add((block.elapsed.0 / 1_000) as i64)
        });
        let last_us = starts.clone().chain(ends).max().unwrap_or(0);
        let first_us = starts.min().unwrap_or(0);
        let mut rows: HashMap<i64, Vec<_>> = HashMap::new();
        let (from_us, until_us) = (first_us - MARGIN_US, last_us + MARGIN_US);
        for (key, row) in store.slots(step, &ids, step.slot_of(from_us), until_us)? {
            rows.entry(key.series).or_default().push((key, row));
        }
        Ok(Rows { store, step, rows })
    }

    /// What a block added to a series.
    fn total(&mut self, id: i64, block: u32, completed: u64) -> Result<u64, StoreError> {
        let sum = |rows: &[(SlotKey, Accumulator)]| {
            let mine = rows.iter().filter(|(key, _)| i64::from(key.lane) == i64::from(block));
            total(mine.map(|(_, row)| row), completed)
        };
        let found = self.rows.get(&id).map_or(0, |rows| sum(rows));
        if found == completed {
            return Ok(found);
        }
        // Before anybody is accused: the clock may have been set while the run went on.
        let all = self.store.slots(self.step, &[id], i64::MIN, i64::MAX)?;
        let found = sum(&all);
        self.rows.insert(id, all);
        Ok(found)
    }
}

fn reread_block(
    block: &mut Block,
    rows: &mut Rows<'_>,
    of: impl Fn(u32, &str) -> Option<i64>,
    findings: &mut Vec<Finding>,
    part: &Part,
) -> Result<(), StoreError> {
    for trial in &mut block.trials {
        let completed = trial.ledger.counts.completed;
        let before = trial.ledger.series.unwrap_or(completed);
        trial.ledger.series = match of(trial.variant, &trial.offer) {
            Some(id) => Some(rows.total(id, block.index, completed)?),
            None => None,
        };
        let Some(now) = trial.ledger.series.filter(|now| *now != before) else { continue };
        let name = part.variants.get(trial.variant as usize).map_or("", |v| &v.name);
        let gaps = trial.ledger.audit(Tolerance { failed_share: 1.0 });
        let gap = gaps.iter().find(|gap| gap.check == "series");
        let what = gap.map_or_else(
            || format!("the recorded series adds up to {now}, which is right, but was {before}"),
            |gap| gap.sentence.clone(),
        );
        findings.push(Finding {
            check: "ledger".to_owned(),
            severity: Severity::Invalid,
            block: Some(block.index),
            variant: Some(trial.variant),
            value: now as f64 - completed as f64,
            limit: 0.0,
            sentence: format!(
                "{name}, block {}, {}: {what}; its slots were changed after they were recorded",
                block.index, trial.offer
            ),
        });
    }
    for life in &mut block.lives {
        let trials = block.trials.iter().filter(|trial| trial.variant == life.variant);
        life.ledger.series = trials
            .map(|trial| trial.ledger.series)
            .try_fold(0_u64, |sum, series| Some(sum.saturating_add(series?)));
    }
    Ok(())
}

/// The column of each variant: that of its lives, the calibration left out.
fn add_up(part: &mut Part) {
    for v in 0..part.variants.len() {
        let lives = part.measured_blocks().flat_map(|block| &block.lives);
        let ledgers: Vec<&Ledger> =
            lives.filter(|life| life.variant as usize == v).map(|life| &life.ledger).collect();
        if ledgers.is_empty() {
            continue;
        }
        let series =
            ledgers.iter().try_fold(0_u64, |sum, ledger| Some(sum.saturating_add(ledger.series?)));
        part.variants[v].ledger.series = series;
    }
}
