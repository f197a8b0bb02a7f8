//! Whole files: once, again, and a later copy.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io;

use ingest::SeriesName;
use ingest::files::Stretch;
use series::{Kind, SECOND_US, Spec, Step};
use slots::{Memory, Retention, Selector, Store};
use tachograph_backfill::files::{Field, import};
use tachograph_backfill::{Options, Refused, Summary, Watch};

const NOW_US: i64 = 1_767_225_600_000_000;

struct Watcher(Vec<String>);

impl Watch for Watcher {
    fn refused(&mut self, refused: Refused<'_>) -> io::Result<()> {
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
    let mut watch = Watcher(Vec::new());
    let summary = import(store, &[field], &Options::new(step(10)), NOW_US, &mut watch).unwrap();
    (summary, watch.0)
}

fn store() -> Memory {
    let mut store = Memory::new();
    store.retain(&Retention::usual()).unwrap();
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
    // The later copy has forgotten the first row, and has one row that was not whole before.
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
    let (summary, aside) = run(&mut store, field(Kind::Level, rows));
    assert_eq!((summary.updates, summary.refused_lines), (1, 2));
    assert!(aside[0].starts_with("1 too_large: m,0.000000,300.000000,1000"), "{}", aside[0]);
    assert_eq!(aside[1], "3 future: m,1099511627776.000000,2199023255552.000000,1");
}
