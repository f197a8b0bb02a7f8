//! Whole files: once, again, and a later copy.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io;

use formats::SeriesName;
use formats::files::Stretch;
use import::files::{Field, import};
use import::{Options, RefusedLine, Summary, Watch};
use series::{Kind, SECOND_US, Spec, Step};
use store::{Memory, Retention, Selector, Store};

const NOW_US: i64 = 1_767_225_600_000_000;

struct Watcher(Vec<String>);

impl Watch for Watcher {
    fn refused(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        let text = String::from_utf8_lossy(refused.line.bytes);
        self.0.push(format!("{} {}: {text}", refused.line.number, refused.reasons[0].name()));
        Ok(())
    }
}

fn step(seconds: i64) -> Step {
    Step::from_secs(seconds).unwrap()
}

fn stretch(start_s: i64, end_s: i64, value: f64) -> Stretch {
    let (start_us, end_us) = (start_s * SECOND_US, end_s * SECOND_US);
    Stretch { start_us, end_us, value, row_us: end_us - start_us }
}

fn field(kind: Kind, stretches: Vec<Stretch>) -> Field {
    let name = SeriesName::new("m", [], "value").unwrap();
    Field { name, spec: Spec::new(kind, step(300)), stretches, rrd: None }
}

fn run(store: &mut dyn Store, field: Field) -> (Summary, Vec<String>) {
    run_at(store, field, NOW_US)
}

fn run_at(store: &mut dyn Store, field: Field, now_us: i64) -> (Summary, Vec<String>) {
    let mut watch = Watcher(Vec::new());
    let summary = import(store, &[field], &Options::new(step(10)), now_us, &mut watch).unwrap();
    (summary, watch.0)
}

fn store() -> Memory {
    let mut store = Memory::new();
    store.retain(&Retention::usual()).unwrap();
    store
}

/// A store that keeps everything.
fn for_ever() -> Memory {
    let mut store = Memory::new();
    let steps = [10, 60, 3_600].map(|seconds| Retention::from_secs(seconds, None).unwrap());
    store.retain(&steps).unwrap();
    store
}

/// The number of slots of a step, and what they hold together.
fn slots(store: &mut dyn Store, seconds: i64) -> (usize, f64) {
    let id = store.find(&Selector::default()).unwrap()[0].id;
    let rows = store.slots(step(seconds), &[id], i64::MIN, i64::MAX).unwrap();
    (rows.len(), rows.iter().map(|(_, row)| row.integral.as_f64()).sum())
}

#[test]
fn rows_are_written_at_the_coarsest_step_that_holds_them_whole() {
    let mut store = store();
    let rows = vec![stretch(0, 7_200, 2.0), stretch(7_200, 7_500, 3.0)];
    let (summary, _) = run(&mut store, field(Kind::Level, rows));
    assert_eq!((summary.updates, summary.span_us), (2, Some((0, 7_500 * SECOND_US))));
    assert_eq!(slots(&mut store, 10).0, 0, "the file's step is 300 s");
    assert_eq!(slots(&mut store, 60), (5, 900.0), "hours are not cut into minutes");
    assert_eq!(slots(&mut store, 3_600), (3, 2.0 * 7_200.0 + 900.0));
}

#[test]
fn the_same_file_changes_nothing_and_a_later_copy_adds_what_is_newer() {
    let mut store = store();
    let first = vec![stretch(0, 300, 30.0), stretch(300, 600, 60.0)];
    run(&mut store, field(Kind::Count, first.clone()));
    let (again, _) = run(&mut store, field(Kind::Count, first));
    assert_eq!((again.known, again.updates), (2, 0));
    assert_eq!(slots(&mut store, 3_600).1, 90.0);
    // The later copy has dropped the first row, and completes another one.
    let later = vec![stretch(300, 600, 60.0), stretch(600, 900, 5.0)];
    let (summary, _) = run(&mut store, field(Kind::Count, later));
    assert_eq!((summary.known, summary.updates), (1, 1));
    assert_eq!(slots(&mut store, 3_600).1, 95.0);
}

#[test]
fn a_row_of_which_a_part_is_known_gives_the_rest() {
    let mut store = store();
    run(&mut store, field(Kind::Count, vec![stretch(0, 300, 30.0)]));
    let (summary, _) = run(&mut store, field(Kind::Count, vec![stretch(0, 600, 60.0)]));
    assert_eq!(summary.updates, 1);
    assert_eq!(slots(&mut store, 60), (10, 60.0));
}

#[test]
fn what_cannot_be_recorded_is_kept_aside() {
    let mut store = store();
    let rows = vec![stretch(0, 300, 1e201), stretch(300, 600, 1.0), stretch(1 << 40, 1 << 41, 1.0)];
    let (summary, kept) = run(&mut store, field(Kind::Level, rows));
    assert_eq!((summary.updates, summary.refused_lines), (1, 2));
    assert!(kept[0].starts_with("1 too_large: m,0.000000,300.000000,1000"), "{}", kept[0]);
    assert_eq!(kept[1], "3 future: m,1099511627776.000000,2199023255552.000000,1");
}

#[test]
fn a_slot_that_was_rewritten_and_a_gap_that_was_filled_are_taken_from_a_later_copy() {
    for kind in [Kind::Level, Kind::Count] {
        let mut store = for_ever();
        let copy = |values: &[(i64, f64)]| {
            let rows = values.iter().map(|(at, value)| stretch(at * 300, at * 300 + 300, *value));
            field(kind, rows.collect())
        };
        let scale = if kind == Kind::Level { 300.0 } else { 1.0 };
        run(&mut store, copy(&[(0, 1.0), (1, 2.0), (3, 4.0)]));
        let (later, _) = run(&mut store, copy(&[(0, 1.0), (1, 9.0), (2, 3.0), (3, 4.0), (4, 5.0)]));
        assert_eq!((later.known, later.updates), (2, 3), "{kind:?}");
        assert_eq!(slots(&mut store, 3_600).1, scale * 22.0);
        let id = store.find(&Selector::default()).unwrap()[0].id;
        for seconds in [60, 3_600] {
            let rows = store.slots(step(seconds), &[id], i64::MIN, i64::MAX).unwrap();
            let rows = rows.iter().map(|(_, row)| row);
            let max = rows.clone().map(|row| row.vmax).fold(0.0, f64::max);
            assert_eq!(max, if kind == Kind::Level { 9.0 } else { 0.03 }, "{kind:?} {seconds}");
            assert!(rows.clone().all(|row| !row.approximate));
            assert_eq!(rows.map(|row| row.covered_us).sum::<i64>(), 1_500 * SECOND_US);
        }
        // Back and forth, and the same again.
        for (n, (value, updates)) in
            [(2.0, 1), (9.0, 1), (2.0, 1), (2.0, 0)].into_iter().enumerate()
        {
            let now_us = NOW_US + 1 + n as i64;
            let (again, _) = run_at(&mut store, copy(&[(1, value), (4, 5.0)]), now_us);
            assert_eq!(
                (again.updates, slots(&mut store, 3_600).1),
                (updates, scale * (13.0 + value))
            );
        }
    }
}

#[test]
fn a_coarse_row_takes_nothing_from_the_fine_ones_before_it() {
    let mut store = for_ever();
    run(
        &mut store,
        field(
            Kind::Level,
            vec![stretch(0, 300, 1.0), stretch(300, 600, 3.0), stretch(600, 900, 5.0)],
        ),
    );
    let (later, _) =
        run(&mut store, field(Kind::Level, vec![stretch(0, 600, 2.5), stretch(600, 900, 5.0)]));
    assert_eq!((later.known, later.updates), (2, 0));
    assert_eq!(slots(&mut store, 3_600).1, 300.0 * 9.0);
}

#[test]
fn the_rest_of_a_coarse_row_replaced_the_finer_slot_before_it() {
    let mut store = for_ever();
    run(&mut store, field(Kind::Level, vec![stretch(0, 300, 1.0), stretch(300, 600, 3.0)]));
    // The later copy's fine archive begins at 300; 300 s of the coarse row remain before it.
    let rest = Stretch { row_us: 600 * SECOND_US, ..stretch(0, 300, 2.0) };
    let (later, _) = run(&mut store, field(Kind::Level, vec![rest, stretch(300, 600, 3.0)]));
    assert_eq!((later.known, later.updates), (2, 0));
    assert_eq!(slots(&mut store, 3_600).1, 300.0 * 4.0);
}

#[test]
fn rows_that_a_retention_no_longer_keeps_are_not_written_again() {
    let mut store = store();
    let old = || field(Kind::Level, vec![stretch(0, 300, 1.0), stretch(300, 600, 3.0)]);
    run(&mut store, old());
    store.maintain(NOW_US).unwrap();
    let newest = NOW_US / SECOND_US - 300;
    let newer = |value| field(Kind::Level, vec![stretch(newest, newest + 300, value)]);
    run(&mut store, newer(2.0));
    let (again, _) = run(&mut store, old());
    assert_eq!((again.known, again.updates, again.unstored.expired), (2, 0, 0));
}
