//! Reads the ledger's fourth column again from the database.

use std::collections::{BTreeMap, HashMap};

use ledger::Ledger;
use record::{Block, Fact, Finding, Offer, Part, Run, Severity, Trial};
use series::{Accumulator, SECOND_US, SlotKey, Step};
use stats::Verdict;
use store::{Selector, Store, StoreError};

use crate::recording::{identity, retention, total};
use crate::slice_updates::Measure;

/// Margin around the blocks of a part within which its slots are looked for first.
const MARGIN_US: i64 = 60 * SECOND_US;

/// Reads the series of a recorded run, puts their totals into its ledgers, and marks the run as
/// invalid if a total has changed since the end of its trial.
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
        let of = |variant: u32, offer: Offer| {
            let identity = identity(Measure::COMPLETED, &shell, &names, variant as usize, offer);
            ids.get(&identity).copied()
        };
        let mut rows = PartRows::read(store, step, part, of)?;
        let mut findings = Vec::new();
        for block in &mut part.blocks {
            reread_block(block, &mut rows, of, &mut findings)?;
        }
        part.findings.extend(findings);
        forbid(part);
        add_up(part);
    }
    Ok(())
}

/// The slots of a part's series.
struct PartRows<'s> {
    store: &'s mut dyn Store,
    step: Step,
    rows: HashMap<i64, Vec<(SlotKey, Accumulator)>>,
}

impl PartRows<'_> {
    fn read<'s>(
        store: &'s mut dyn Store,
        step: Step,
        part: &Part,
        of: impl Fn(u32, Offer) -> Option<i64>,
    ) -> Result<PartRows<'s>, StoreError> {
        let trials = || part.blocks.iter().flat_map(|block| &block.trials);
        let mut ids: Vec<i64> = trials().filter_map(|t| of(t.variant, t.offer)).collect();
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
        Ok(PartRows { store, step, rows })
    }

    /// The total that a block added to a series.
    fn total(&mut self, id: i64, block: u32, completed: u64) -> Result<u64, StoreError> {
        let sum = |rows: &[(SlotKey, Accumulator)]| {
            let mine = rows.iter().filter(|(key, _)| i64::from(key.lane) == i64::from(block));
            total(mine.map(|(_, row)| row), completed)
        };
        let found = self.rows.get(&id).map_or(0, |rows| sum(rows));
        if found == completed {
            return Ok(found);
        }
        // Before reporting a change, read everything: the clock may have been set during the run.
        let all = self.store.slots(self.step, &[id], i64::MIN, i64::MAX)?;
        let found = sum(&all);
        self.rows.insert(id, all);
        Ok(found)
    }
}

fn reread_block(
    block: &mut Block,
    rows: &mut PartRows<'_>,
    of: impl Fn(u32, Offer) -> Option<i64>,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    // A variant that was calibrated twice has two trials in one series.
    let mut all: BTreeMap<(u32, Offer), Vec<&mut Trial>> = BTreeMap::new();
    for trial in &mut block.trials {
        all.entry((trial.variant, trial.offer)).or_default().push(trial);
    }
    for ((variant, offer), mut trials) in all {
        let completed = trials.iter().map(|trial| trial.ledger.counts.completed).sum();
        let Some(id) = of(variant, offer) else {
            trials.iter_mut().for_each(|trial| trial.ledger.series = None);
            continue;
        };
        let now = rows.total(id, block.index, completed)?;
        let recorded = |ledger: &Ledger| ledger.series.unwrap_or(ledger.counts.completed);
        let before = trials.iter().map(|trial| recorded(&trial.ledger)).sum();
        // A change is shown in the last trial.
        let mut left = now;
        if let Some((last, others)) = trials.split_last_mut() {
            for trial in others {
                let mine = recorded(&trial.ledger).min(left);
                trial.ledger.series = Some(mine);
                left -= mine;
            }
            last.ledger.series = Some(left);
        }
        if now != before {
            findings.push(Finding {
                severity: Severity::Invalid,
                block: Some(block.index),
                variant: Some(variant),
                fact: Fact::SeriesChanged { offer, before, now, completed },
            });
        }
    }
    for life in &mut block.lives {
        let trials = block.trials.iter().filter(|trial| trial.variant == life.variant);
        life.ledger.series = trials
            .map(|trial| trial.ledger.series)
            .try_fold(0_u64, |sum, series| Some(sum.saturating_add(series?)));
    }
    Ok(())
}

/// Withdraws the verdicts on variants whose slots were changed.
fn forbid(part: &mut Part) {
    let changed: Vec<(u32, u32)> = part
        .findings
        .iter()
        .enumerate()
        .filter(|(_, f)| matches!(f.fact, Fact::SeriesChanged { .. }))
        .filter_map(|(index, f)| Some((index as u32, f.variant?)))
        .collect();
    for comparison in &mut part.comparisons {
        let sides = [comparison.baseline, comparison.variant];
        let mine = changed.iter().filter(|(_, variant)| sides.contains(variant));
        comparison.because.extend(mine.map(|(index, _)| *index));
        if !comparison.because.is_empty() {
            comparison.judgement.verdict = Verdict::Invalid;
        }
    }
}

/// The column of each variant: the sum over its lives, without the calibration.
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
