//! Exports of stores, read back with the parquet crate's own reader of rows.

#![allow(clippy::unwrap_used)] // A test that fails to set up has failed.

mod delta;
mod reading;
mod recorder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use export::{ExportError, ExportRequest, PartitionChange, Summary, export, partitions};
use reading::{Row, Totals, read_all};
use recorder::{DAY_US, HOUR_US, Recorder, at};
use series::{SECOND_US, Step};
use store::{Memory, Sqlite, Store};

/// An export of everything that had ended at a time.
fn request(sealed_us: i64) -> ExportRequest {
    ExportRequest { sealed_us, ..ExportRequest::default() }
}

fn run(store: &mut dyn Store, folder: &Path, request: &ExportRequest) -> Summary {
    export(store, folder, request, &mut |_| {}).unwrap()
}

/// The changes of an export, as `10s 2026-11-22`.
fn changes(store: &mut dyn Store, folder: &Path, request: &ExportRequest) -> Vec<String> {
    let mut changes = Vec::new();
    let mut each = |change: &PartitionChange| {
        changes.push(format!("{} {}", change.partition.step, change.partition.day));
    };
    export(store, folder, request, &mut each).unwrap();
    changes
}

/// Every file below a folder but the locks, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut self::files(&path));
        } else if path.extension().is_none_or(|extension| extension != "lock") {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// The exported files alone.
fn tables(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files(folder);
    files.retain(|path, _| path.extension().is_some_and(|extension| extension == "parquet"));
    files
}

fn totals(rows: &[Row]) -> Totals {
    let mut totals = Totals::new();
    for row in rows {
        totals.entry(row.key()).or_default().add(row);
    }
    totals
}

#[test]
fn what_is_read_back_is_what_the_store_has() {
    for (name, mut store) in [
        ("memory", Box::new(Memory::new()) as Box<dyn Store>),
        ("sqlite", Box::new(Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap())),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::new(&mut *store);
        recorder.history(2 * DAY_US, 7);
        let truth = recorder.truth(i64::MAX);
        let summary = run(&mut *store, folder.path(), &request(at("2027-01-01")));
        let rows = read_all(folder.path());
        assert_eq!(totals(&rows), truth, "{name}");
        assert_eq!((rows.len() as u64, summary.partial), (summary.slots, 0), "{name}");
        // Counts are exact at every step, so each step has the same.
        let counts = |step: &str| -> f64 {
            rows.iter().filter(|row| row.flow && row.step == step).map(|row| row.total).sum()
        };
        assert_eq!([counts("10s"), counts("1m")], [counts("1h"); 2], "{name}");
        assert!(counts("1h") > 1_000_000.0);
    }
}

#[test]
fn the_same_slots_give_the_same_bytes_and_are_not_written_twice() {
    let mut store = Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap();
    Recorder::new(&mut store).history(2 * DAY_US, 5);
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let request = request(at("2027-01-01"));
    let first = run(&mut store, folder.path(), &request);
    assert_eq!((first.written, first.unchanged), (6, 0));
    let before = files(folder.path());
    let second = run(&mut store, folder.path(), &request);
    assert_eq!((second.written, second.unchanged), (0, 6));
    assert_eq!(files(folder.path()), before);
    // Packed or not, with or without the notes, in another folder: the same files.
    store.seal(i64::MAX).unwrap();
    run(&mut store, other.path(), &request);
    let relative = |files: BTreeMap<PathBuf, Vec<u8>>, folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap().to_owned();
        files.into_iter().map(|(path, bytes)| (name(path), bytes)).collect()
    };
    let ours = relative(tables(folder.path()), folder.path());
    assert_eq!(ours, relative(tables(other.path()), other.path()));
    for path in before.keys().filter(|path| path.extension().is_some_and(|e| e == "json")) {
        std::fs::remove_file(path).unwrap();
    }
    let third = run(&mut store, folder.path(), &request);
    assert_eq!((third.written, third.unchanged), (0, 6));
    assert_eq!(relative(tables(folder.path()), folder.path()), ours);
}

#[test]
fn a_late_interval_rewrites_the_files_of_its_day_and_no_others() {
    let mut store = Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap();
    Recorder::new(&mut store).history(3 * DAY_US, 3);
    let folder = tempfile::tempdir().unwrap();
    let request = request(at("2027-01-01"));
    assert_eq!(changes(&mut store, folder.path(), &request).len(), 9);
    let mut recorder = Recorder::again(&mut store);
    recorder.count("requests", "late", at("2026-11-21") + 5 * HOUR_US, 600 * SECOND_US, 77);
    let truth = recorder.truth(i64::MAX);
    let changed = changes(&mut store, folder.path(), &request);
    assert_eq!(changed, ["10s 2026-11-21", "1m 2026-11-21", "1h 2026-11-21"]);
    assert_eq!(totals(&read_all(folder.path())), truth);
    // A retraction takes it back, and the files with it if nothing else is in them.
    let mut recorder = Recorder::again(&mut store);
    recorder.count("requests", "late", at("2026-11-21") + 5 * HOUR_US, 600 * SECOND_US, -77);
    let truth = recorder.truth(i64::MAX);
    assert_eq!(changes(&mut store, folder.path(), &request), changed);
    assert_eq!(totals(&read_all(folder.path())), truth);
}

#[test]
fn a_day_whose_slots_are_all_retracted_has_no_file() {
    let mut store = Memory::new();
    let mut recorder = Recorder::new(&mut store);
    recorder.count("requests", "a", at("2026-11-20"), 100 * SECOND_US, 5);
    recorder.count("requests", "a", at("2026-11-21"), 100 * SECOND_US, 5);
    let folder = tempfile::tempdir().unwrap();
    let request = request(at("2027-01-01"));
    run(&mut store, folder.path(), &request);
    assert_eq!(partitions(folder.path()).unwrap().len(), 6);
    let mut recorder = Recorder::again(&mut store);
    recorder.retract("requests", "a", at("2026-11-20"), 100 * SECOND_US, 5);
    let summary = run(&mut store, folder.path(), &request);
    assert_eq!((summary.removed, summary.unchanged), (3, 3));
    let days = partitions(folder.path()).unwrap();
    assert!(days.iter().all(|partition| partition.day == "2026-11-21"), "{days:?}");
    assert_eq!(days.len(), 3);
}

#[test]
fn slots_that_have_not_ended_long_enough_are_left_for_the_next_export() {
    let mut store = Memory::new();
    let mut recorder = Recorder::new(&mut store);
    recorder.count("requests", "a", at("2026-11-20") + 22 * HOUR_US, 4 * HOUR_US, 1_440);
    let folder = tempfile::tempdir().unwrap();
    let until_us = at("2026-11-20") + 23 * HOUR_US + 15 * SECOND_US;
    let part = recorder.truth(until_us);
    run(&mut store, folder.path(), &request(until_us));
    assert_eq!(totals(&read_all(folder.path())), part);
    // An export whose clock was set back takes nothing away.
    let before = tables(folder.path());
    run(&mut store, folder.path(), &request(until_us - HOUR_US));
    assert_eq!(tables(folder.path()), before);
    run(&mut store, folder.path(), &request(i64::MAX));
    let truth = Recorder::again(&mut store).truth(i64::MAX);
    assert_eq!(totals(&read_all(folder.path())), truth);
}

/// Ten seconds are kept for a day, in partitions of three hours.
#[test]
fn what_has_expired_stays_in_the_folder() {
    for mut store in [
        Box::new(Memory::new()) as Box<dyn Store>,
        Box::new(Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::with_age(&mut *store, Some(DAY_US));
        let step = Step::from_secs(10).unwrap();
        let only = |sealed_us| ExportRequest { steps: vec![step], ..request(sealed_us) };
        let start_us = at("2026-11-20");
        for name in ["requests", "logins"] {
            recorder.count(name, "a", start_us, 36 * HOUR_US, 1_000_000);
        }
        let memory_us = 36 * HOUR_US - 30 * SECOND_US;
        recorder.level("memory", "a", start_us + 30 * SECOND_US, memory_us, 10);
        let mut whole = recorder.truth(i64::MAX);
        whole.retain(|key, _| key.starts_with("10s "));
        // By 20:00, the day is exported up to 18:00.
        run(&mut *store, folder.path(), &only(start_us + 18 * HOUR_US));
        // At 12:00 on the next day, the first half of the day has expired.
        store.maintain(start_us + 36 * HOUR_US).unwrap();
        let left = Recorder::again(&mut *store).truth(i64::MAX);
        assert!(whole.keys().any(|key| left[key] != whole[key]));
        let summary = run(&mut *store, folder.path(), &only(start_us + 34 * HOUR_US));
        assert_eq!((summary.written, summary.partial), (2, 0));
        run(&mut *store, folder.path(), &only(start_us + 36 * HOUR_US));
        assert_eq!(totals(&read_all(folder.path())), whole);
        let bytes = tables(folder.path());
        // Nothing is written again.
        let again = run(&mut *store, folder.path(), &only(start_us + 36 * HOUR_US));
        assert_eq!((again.written, again.unchanged), (0, 2));
        // A late interval of the half that is left is added to what has expired.
        let mut recorder = Recorder::again(&mut *store);
        recorder.count("requests", "b", start_us + 20 * HOUR_US, HOUR_US, 50);
        let late = recorder.truth(i64::MAX);
        run(&mut *store, folder.path(), &only(start_us + 36 * HOUR_US));
        let mut expected = whole.clone();
        let is_late = |key: &str| key.starts_with("10s ") && key.contains("host=b");
        for (key, sums) in late.iter().filter(|(key, _)| is_late(key)) {
            expected.insert(key.clone(), sums.clone());
        }
        assert_eq!(totals(&read_all(folder.path())), expected);
        assert_ne!(tables(folder.path()), bytes);
        // Two weeks later nothing of these days is left in the store, and all of it in the folder.
        store.maintain(start_us + 14 * DAY_US).unwrap();
        let bytes = tables(folder.path());
        let gone = run(&mut *store, folder.path(), &only(start_us + 14 * DAY_US));
        assert_eq!(gone, Summary::default());
        assert_eq!(tables(folder.path()), bytes);
    }
}

#[test]
fn a_day_that_had_expired_in_part_before_its_first_export_is_counted() {
    let mut store = Memory::new();
    let mut recorder = Recorder::with_age(&mut store, Some(DAY_US));
    recorder.count("requests", "a", at("2026-11-20"), 36 * HOUR_US, 1_000_000);
    store.maintain(at("2026-11-21") + 12 * HOUR_US).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let step = Step::from_secs(10).unwrap();
    let request = ExportRequest { steps: vec![step], ..request(i64::MAX) };
    let summary = run(&mut store, folder.path(), &request);
    assert_eq!((summary.written, summary.partial), (2, 1));
}

#[test]
fn recorders_write_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let mut truths = BTreeMap::new();
    for seed in 0..3 {
        let mut store = Memory::new();
        Recorder::new(&mut store).history(DAY_US, seed);
        let file = format!("tachograph-{}.parquet", store.recorder().unwrap());
        truths.insert(file, Recorder::again(&mut store).truth(i64::MAX));
        let summary = run(&mut store, folder.path(), &request(i64::MAX));
        assert_eq!((summary.written, summary.unchanged), (3, 0));
        assert_eq!(run(&mut store, folder.path(), &request(i64::MAX)).unchanged, 3);
    }
    let rows = read_all(folder.path());
    for (file, truth) in &truths {
        let of_one: Vec<Row> = rows.iter().filter(|row| row.file == *file).cloned().collect();
        assert_eq!(totals(&of_one), *truth);
    }
    assert_eq!(tables(folder.path()).len(), 9);
    assert_eq!(partitions(folder.path()).unwrap().len(), 3);
}

/// The folder of their day comes and goes: each removes it when it is empty.
#[test]
fn recorders_that_take_a_day_back_do_not_disturb_each_other() {
    let (plain, table) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let export_all = || {
        let mut store = Memory::new();
        let day_us = at("2026-11-20");
        Recorder::new(&mut store).count("stays", "a", day_us - DAY_US, HOUR_US, 1);
        for _ in 0..12 {
            Recorder::again(&mut store).count("requests", "a", day_us, HOUR_US, 3);
            run(&mut store, plain.path(), &request(i64::MAX));
            delta::commit(&mut store, table.path());
            Recorder::again(&mut store).retract("requests", "a", day_us, HOUR_US, 3);
            run(&mut store, plain.path(), &request(i64::MAX));
            delta::commit(&mut store, table.path());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(export_all);
        }
    });
    // Three steps of the day before, and nothing else.
    assert_eq!((partitions(plain.path()).unwrap().len(), tables(plain.path()).len()), (3, 9));
}

#[test]
fn leftovers_of_this_recorder_are_removed_and_those_of_others_are_not() {
    let mut store = Memory::new();
    Recorder::new(&mut store).history(DAY_US, 1);
    let folder = tempfile::tempdir().unwrap();
    let id = store.recorder().unwrap();
    let day = folder.path().join("step=10s/day=2026-11-19");
    std::fs::create_dir_all(&day).unwrap();
    let ours = [".tachograph-{id}.parquet.part", "._tachograph-{id}.json.part"]
        .map(|name| day.join(name.replace("{id}", &id)));
    let theirs = day.join(".tachograph-another.parquet.part");
    ours.iter().for_each(|ours| std::fs::write(ours, "half").unwrap());
    std::fs::write(&theirs, "half").unwrap();
    run(&mut store, folder.path(), &request(i64::MAX));
    assert!(!ours.iter().any(|ours| ours.exists()) && theirs.exists());
    assert_eq!(partitions(folder.path()).unwrap().len(), 3);
}

#[test]
fn days_and_steps_are_chosen() {
    let mut store = Memory::new();
    Recorder::new(&mut store).history(4 * DAY_US, 2);
    let folder = tempfile::tempdir().unwrap();
    let day = |text| Some(export::Day::parse(text).unwrap());
    let mut some = ExportRequest {
        steps: vec![Step::from_secs(60).unwrap()],
        since: day("2026-11-21"),
        until: day("2026-11-22"),
        dry_run: true,
        ..request(i64::MAX)
    };
    let wanted = ["1m 2026-11-21", "1m 2026-11-22"];
    let missing = folder.path().join("new");
    assert_eq!(changes(&mut store, &missing, &some), wanted);
    assert!(!missing.exists(), "nothing is created");
    some.dry_run = false;
    assert_eq!(changes(&mut store, &missing, &some), wanted);
    assert_eq!(changes(&mut store, &missing, &some), [""; 0]);
}

#[test]
fn a_dry_run_names_no_day_without_slots() {
    let mut store = Memory::new();
    let mut recorder = Recorder::new(&mut store);
    for day in ["2026-11-20", "2026-11-24"] {
        recorder.count("requests", "a", at(day), HOUR_US, 3_600);
    }
    let folder = tempfile::tempdir().unwrap();
    let hourly = vec![Step::from_secs(3_600).unwrap()];
    let mut dry = ExportRequest { steps: hourly, dry_run: true, ..request(at("2027-01-01")) };
    let named = changes(&mut store, folder.path(), &dry);
    assert_eq!(named, ["1h 2026-11-20", "1h 2026-11-24"]);
    dry.dry_run = false;
    assert_eq!(changes(&mut store, folder.path(), &dry), named);
}

#[test]
fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Memory::new();
    let text = |result: Result<Summary, ExportError>| result.unwrap_err().to_string();
    let none = export(&mut store, folder.path(), &request(0), &mut |_| {});
    assert_eq!(text(none), "no series recorded in memory yet: import some, or start a run");
    Recorder::new(&mut store).history(DAY_US, 1);
    let seven = ExportRequest { steps: vec![Step::from_secs(7).unwrap()], ..request(0) };
    assert_eq!(
        text(export(&mut store, folder.path(), &seven, &mut |_| {})),
        "memory keeps no slots of 7s: use --step with one of 10s, 1m, 1h"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(
        text(export(&mut store, &file, &request(0), &mut |_| {})),
        format!(
            "{} is not a folder: name a folder for the export, which need not exist",
            file.display()
        )
    );
}

#[test]
fn two_exports_of_one_record_do_not_run_at_once() {
    let mut store = Memory::new();
    Recorder::new(&mut store).history(DAY_US, 1);
    let folder = tempfile::tempdir().unwrap();
    let name = format!(".tachograph-{}.lock", store.recorder().unwrap());
    let lock = std::fs::File::create(folder.path().join(name)).unwrap();
    lock.lock().unwrap();
    let error = export(&mut store, folder.path(), &request(0), &mut |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "another export of this record to {} is running: wait until it has ended",
            folder.path().display()
        )
    );
}

#[test]
fn a_folder_of_a_later_copy_of_the_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = recorder::temporary();
    let start_us = at("2026-11-20");
    let mut store = Sqlite::open(place.join("a.sqlite")).unwrap();
    let mut recorder = Recorder::with_age(&mut store, Some(DAY_US));
    recorder.count("requests", "a", start_us, 36 * HOUR_US, 1_000);
    store.recorder().unwrap();
    drop(store);
    std::fs::copy(place.join("a.sqlite"), place.join("older.sqlite")).unwrap();
    let mut store = Sqlite::open(place.join("a.sqlite")).unwrap();
    Recorder::again(&mut store).count("logins", "a", start_us, 36 * HOUR_US, 1_000);
    run(&mut store, folder.path(), &request(i64::MAX));
    let mut older = Sqlite::open(place.join("older.sqlite")).unwrap();
    older.maintain(start_us + 36 * HOUR_US).unwrap();
    let step = Step::from_secs(10).unwrap();
    let only = ExportRequest { steps: vec![step], ..request(i64::MAX) };
    let error = export(&mut older, folder.path(), &only, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "has slots of the series logins{host=a}, which the record does not have: the record was \
             replaced by an older copy; export to another folder"
        ),
        "{error}"
    );
}
