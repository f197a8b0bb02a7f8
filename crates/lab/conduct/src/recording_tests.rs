//! A trial in the record and its series beside it.

use base::{RunId, Seed};
use ledger::Counts;
use record::{Fact, Finding, Life, Machine, RunKind, RunState, Severity, Variant};
use store::{Selector, Store as _};

use super::*;
use crate::reread_series;
use crate::slice_updates::tests::{slice, trial as sample};

fn trial(variant: u32, slices: &[&[u64]]) -> (Trial, Vec<SliceSeen>) {
    // Each slice begins 300 ms after the previous one, so that slots are shared.
    let starts = (0..).map(|i| 1_795_000_000_900 + 300 * i + 100 * i64::from(variant));
    let seen = starts.zip(slices).map(|(start_ms, by_step)| slice(start_ms, by_step, 1)).collect();
    let completed = slices.iter().flat_map(|by_step| by_step.iter()).sum();
    let counts = Counts { completed, failed: slices.len() as u64, ..Counts::default() };
    let trial = Trial { completed_by_step: slices.concat(), ..sample(variant, counts) };
    (trial, seen)
}

fn run() -> Run {
    let variant = |name: &str| Variant { name: name.to_owned(), ..Variant::default() };
    let started = base::Timestamp::from_second(1_795_000_000).unwrap();
    Run {
        id: RunId::new(started, 7),
        kind: RunKind::Compare,
        state: RunState::Running,
        name: "mine".to_owned(),
        title: String::new(),
        question: String::new(),
        started,
        finished: None,
        command_line: Vec::new(),
        version: String::new(),
        seed: Seed(1),
        plan: String::new(),
        machine: Machine::default(),
        error: None,
        parts: vec![Part {
            name: "p".to_owned(),
            variants: vec![variant("tcp"), variant("unix")],
            ..Part::default()
        }],
    }
}

/// Records a run of two blocks of two variants.
fn recorded(path: &Path) -> Run {
    recorded_blocks(path, &[(1, 1), (2, 1)])
}

/// Records these blocks, each with so many trials of each variant.
fn recorded_blocks(path: &Path, blocks: &[(u32, usize)]) -> Run {
    let mut recording = Recording::open(path).unwrap();
    let mut run = run();
    recording.begin(&run).unwrap();
    for (index, trials) in blocks.iter().copied() {
        let mut block = Block::new(index, run.started, record::BlockState::Complete);
        for variant in [0, 1].into_iter().flat_map(|variant| std::iter::repeat_n(variant, trials)) {
            let (mut trial, seen) = trial(variant, &[&[3, 0, 5], &[7, u64::from(index), 1]]);
            let total = recording.trial(&run, 0, index, &trial, &seen).unwrap();
            assert_eq!(total, Some(16 + u64::from(index)), "of this trial alone");
            trial.ledger.series = total;
            block.lives.push(Life { variant, ledger: trial.ledger.clone() });
            block.trials.push(trial);
        }
        recording.block(&run, 0, &block).unwrap();
        run.parts[0].blocks.push(block);
    }
    recording.finish(&run).unwrap();
    run
}

fn reread(path: &Path) -> Run {
    let mut run = archive::Store::open_read_only(path).unwrap().load("last").unwrap();
    reread_series(&mut run, &mut Sqlite::open_read_only(path).unwrap()).unwrap();
    run
}

#[test]
fn a_run_is_in_the_series_with_every_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    recorded(&path);
    let mut store = Sqlite::open_read_only(&path).unwrap();
    let selector = Selector {
        measurement: Some("requests".to_owned()),
        tags: [("variant".to_owned(), "tcp".to_owned())].into(),
        ..Selector::default()
    };
    let found = store.find(&selector).unwrap();
    let names: Vec<String> = found.iter().map(|series| series.identity.to_string()).collect();
    let tags = "experiment=mine,offer=closed,part=p,run=20261118-110640-7000,variant=tcp";
    assert_eq!(
        names,
        [format!("requests:completed{{{tags}}}"), format!("requests:failed{{{tags}}}")]
    );
    let step = retention().unwrap().step;
    let total = |store: &mut Sqlite, id| -> f64 {
        let rows = store.slots(step, &[id], i64::MIN, i64::MAX).unwrap();
        rows.iter().map(|(_, row)| row.integral.as_f64()).sum()
    };
    assert_eq!(total(&mut store, found[0].id), 17.0 + 18.0);
    assert_eq!(total(&mut store, found[1].id), 4.0);
    let levels = store.find(&Selector { field: Some("p99_ns".to_owned()), ..selector.clone() });
    assert!(levels.unwrap().is_empty(), "times are no requests");
    let times = Selector { measurement: Some("service_time".to_owned()), ..selector };
    let times = store.find(&times).unwrap();
    assert_eq!(times.len(), 3);
    let rows = store.slots(step, &[times[2].id], i64::MIN, i64::MAX).unwrap();
    assert!(rows.iter().all(|(_, row)| row.rate(step, 1.0) == Some(9e6)));
}

#[test]
fn the_slots_of_a_variant_that_was_calibrated_twice_seemed_to_have_been_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let before = recorded_blocks(&path, &[(0, 2), (1, 1)]);
    let sound = reread(&path);
    assert_eq!(sound.parts[0].findings, []);
    let series = |run: &Run| -> Vec<Option<u64>> {
        let trials = run.parts[0].blocks.iter().flat_map(|block| &block.trials);
        trials.map(|trial| trial.ledger.series).collect()
    };
    assert_eq!(series(&sound), series(&before));
}

#[test]
fn a_slot_that_was_changed_by_hand_makes_the_run_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let before = recorded(&path);
    let sound = reread(&path);
    assert_eq!(sound.parts[0].findings, []);
    assert_eq!(sound.parts[0].blocks, before.parts[0].blocks);
    assert_eq!(sound.parts[0].variants[1].ledger.series, Some(17 + 18));

    let db = recordfile::open(&path).unwrap();
    let table: String = db
        .query_row(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'slot\\_1s\\_%' ESCAPE '\\'",
            (),
            |row| row.get(0),
        )
        .unwrap();
    let changed = db
        .execute(
            &format!(
                "UPDATE {table} SET integral = integral + 1 WHERE (slot_us, series, lane) =
                 (SELECT slot_us, series, lane FROM {table} JOIN series ON id = series
                  WHERE measurement = 'requests' AND field = 'completed' AND lane = 2
                    AND tags LIKE '%unix%' LIMIT 1)"
            ),
            (),
        )
        .unwrap();
    assert_eq!(changed, 1);
    let part = reread(&path).parts.remove(0);
    let fact = Fact::SeriesChanged { offer: Offer::Closed, before: 18, now: 19, completed: 18 };
    let (severity, block, variant) = (Severity::Invalid, Some(2), Some(1));
    assert_eq!(part.findings, [Finding { severity, block, variant, fact }]);
    assert_eq!(part.blocks[1].trials[1].ledger.series, Some(19));
    assert_eq!(part.blocks[1].lives[1].ledger.series, Some(19));
    assert_eq!(part.variants[1].ledger.series, Some(17 + 19));
    assert_eq!(part.variants[0].ledger.series, Some(17 + 18));
}

#[test]
fn a_run_whose_series_are_gone_has_no_fourth_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let mut run = recorded(&path);
    reread_series(&mut run, &mut store::Memory::new()).unwrap();
    assert_eq!(run.parts[0].variants[0].ledger.series, None);
    assert_eq!(run.parts[0].findings, []);
}

#[test]
fn a_trial_that_cannot_be_written_leaves_no_series_either() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let run = recorded(&path);
    let mut recording = Recording::open(&path).unwrap();
    recording.trials = 4;
    // The part is missing, so the trial's foreign key is violated on commit.
    let (trial, seen) = trial(0, &[&[1_000]]);
    let mut other = run.clone();
    other.id = RunId::new(run.started, 9);
    assert!(recording.trial(&other, 0, 1, &trial, &seen).is_err());
    let mut store = Sqlite::open_read_only(&path).unwrap();
    let step = retention().unwrap().step;
    let all = store.find(&Selector::default()).unwrap();
    let ids: Vec<i64> = all.iter().map(|series| series.id).collect();
    let rows = store.slots(step, &ids, i64::MIN, i64::MAX).unwrap();
    assert!(
        rows.iter().all(|(_, row)| row.integral.as_f64() < 1e9 && row.integral.as_f64() != 1_000.0)
    );
}

#[test]
fn a_count_that_was_made_a_fraction_is_no_longer_what_completed() {
    let row = |integral| Accumulator { integral, ..Accumulator::EMPTY };
    assert_eq!(total(&[row(Integral::Count(7)), row(Integral::Count(5))], 12), 12);
    assert_eq!(total(&[row(Integral::Area(11.7))], 12), 11);
    assert_eq!(total(&[row(Integral::Area(12.2))], 12), 13);
    assert_eq!(total(&[row(Integral::Count(-3))], 0), 0);
}
