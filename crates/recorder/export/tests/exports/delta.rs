//! Exports to tables of Delta Lake, read by the log alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use export::{ExportError, Partition, Summary, export, export_delta};
use serde_json::{Value, json};
use store::{Memory, Sqlite, Store};

use crate::reading::{Totals, read};
use crate::recorder::{self, DAY_US, HOUR_US, Recorder, at};
use crate::{request, totals};

pub(crate) fn commit(store: &mut dyn Store, table: &Path) -> (Summary, Option<u64>) {
    export_delta(store, table, &request(at("2027-01-01")), &mut |_| {}).unwrap()
}

fn refusal(store: &mut dyn Store, table: &Path) -> String {
    let refused = export_delta(store, table, &request(at("2027-01-01")), &mut |_| {});
    refused.unwrap_err().to_string()
}

fn commit_path(table: &Path, version: u64) -> PathBuf {
    table.join(format!("_delta_log/{version:020}.json"))
}

/// The actions of a commit.
fn actions(table: &Path, version: u64) -> Vec<Value> {
    let text = std::fs::read_to_string(commit_path(table, version)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The files of a version, with the values of their partitions.
fn files(table: &Path, version: u64) -> BTreeMap<PathBuf, Partition> {
    let mut files = BTreeMap::new();
    for action in (0..=version).flat_map(|version| actions(table, version)) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        if let Value::Object(add) = &action["add"] {
            let path = table.join(text(&add["path"]));
            let of = &add["partitionValues"];
            let partition =
                Partition { step: text(&of["step"]), day: text(&of["day"]), path: path.clone() };
            assert_eq!(path.metadata().unwrap().len(), add["size"].as_u64().unwrap());
            assert!(files.insert(path, partition).is_none(), "it was there already");
        }
        if let Value::Object(remove) = &action["remove"] {
            files.remove(&table.join(text(&remove["path"]))).unwrap();
        }
    }
    files
}

/// What a version has.
fn read_version(table: &Path, version: u64) -> Totals {
    let mut rows = Vec::new();
    for (path, partition) in files(table, version) {
        let before = rows.len();
        read(&path, &partition, &mut rows);
        let rows = (rows.len() - before) as u64;
        let all = (0..=version).flat_map(|version| actions(table, version));
        let path = path.strip_prefix(table).unwrap().display().to_string();
        let add = all.map(|action| action["add"].clone()).find(|add| add["path"] == path).unwrap();
        let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
        assert_eq!(stats, json!({ "numRecords": rows }));
    }
    totals(&rows)
}

#[test]
fn every_version_stays_what_the_store_had() {
    let mut store = Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut recorder = Recorder::new(&mut store);
    recorder.history(6 * HOUR_US, 11);
    let mut truths = vec![recorder.truth(i64::MAX)];
    assert_eq!(commit(&mut store, table).1, Some(0));
    let day_us = at("2026-11-20");
    for round in 1..4 {
        // The first day, or both; and a series more.
        let mut recorder = Recorder::again(&mut store);
        recorder.count("late", "a", day_us + round * HOUR_US, HOUR_US, round);
        if round % 2 == 0 {
            recorder.count("requests", "a", day_us + DAY_US, HOUR_US, 7);
        }
        truths.push(recorder.truth(i64::MAX));
        let (summary, version) = commit(&mut store, table);
        assert_eq!(
            (summary.written, version),
            (if round % 2 == 0 { 6 } else { 3 }, Some(round as u64))
        );
        // Nothing has changed, so nothing is committed.
        assert_eq!(commit(&mut store, table).1, version);
    }
    for (version, truth) in truths.iter().enumerate() {
        assert_eq!(read_version(table, version as u64), *truth, "version {version}");
    }
    assert!(!commit_path(table, truths.len() as u64).exists());
}

#[test]
fn a_day_that_is_taken_back_leaves_the_table() {
    let mut store = Memory::new();
    let mut recorder = Recorder::new(&mut store);
    let day_us = at("2026-11-20");
    recorder.count("requests", "a", day_us, HOUR_US, 3);
    recorder.count("requests", "a", day_us + DAY_US, HOUR_US, 4);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(commit(&mut store, folder.path()).1, Some(0));
    Recorder::again(&mut store).retract("requests", "a", day_us, HOUR_US, 3);
    let truth = Recorder::again(&mut store).truth(i64::MAX);
    assert_eq!(commit(&mut store, folder.path()).1, Some(1));
    assert_eq!(read_version(folder.path(), 1), truth);
    assert_eq!((files(folder.path(), 0).len(), files(folder.path(), 1).len()), (6, 3));
}

#[test]
fn recorders_commit_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let export_all = |number: i64| {
        let mut store = Sqlite::open(recorder::temporary().join("a.sqlite")).unwrap();
        Recorder::new(&mut store).count("requests", "a", at("2026-11-20"), HOUR_US, 3_600 * number);
        for round in 0..6 {
            let from_us = at("2026-11-20") + round * HOUR_US;
            Recorder::again(&mut store).count("late", "a", from_us, HOUR_US, 60);
            commit(&mut store, table);
        }
        Recorder::again(&mut store).truth(i64::MAX)
    };
    let mut truth = Totals::new();
    std::thread::scope(|scope| {
        let exports: Vec<_> =
            (1..5).map(|number| scope.spawn(move || export_all(number))).collect();
        for export in exports {
            for (key, sums) in export.join().unwrap() {
                truth.entry(key).or_default().merge(&sums);
            }
        }
    });
    let last = 4 * 6 - 1;
    assert!(commit_path(table, last).exists() && !commit_path(table, last + 1).exists());
    assert_eq!(read_version(table, last), truth);
    let created = |version| actions(table, version).iter().any(|line| line["metaData"].is_object());
    assert!(created(0) && !(1..=last).any(created));
}

#[test]
fn what_was_replaced_long_ago_or_never_committed_is_removed() {
    let mut store = Memory::new();
    let day_us = at("2026-11-20");
    Recorder::new(&mut store).count("sold", "a", day_us, HOUR_US, 3);
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for round in 1..3 {
        commit(&mut store, table);
        Recorder::again(&mut store).count("sold", "a", day_us + round * HOUR_US, HOUR_US, 5);
    }
    commit(&mut store, table);
    let of_version = [0, 1, 2].map(|version| files(table, version).into_keys().collect::<Vec<_>>());
    // The first version's files were replaced eight days before.
    let text = std::fs::read_to_string(commit_path(table, 1)).unwrap();
    let mut aged = String::new();
    for mut action in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if let Some(Value::Number(at)) = action["remove"].get("deletionTimestamp").cloned() {
            action["remove"]["deletionTimestamp"] = json!(at.as_u64().unwrap() - 8 * 86_400_000);
        }
        action.as_object_mut().unwrap().retain(|_, of| !of.is_null());
        aged += &format!("{action}\n");
    }
    std::fs::write(commit_path(table, 1), aged).unwrap();
    // And an export was stopped before its commit.
    let stray = of_version[2][0].with_file_name(
        of_version[2][0].file_name().unwrap().to_str().unwrap().replace(".parquet", "0.parquet"),
    );
    std::fs::copy(&of_version[2][0], &stray).unwrap();
    commit(&mut store, table);
    assert!(of_version[0].iter().all(|path| !path.exists()));
    assert!(of_version[1].iter().chain(&of_version[2]).all(|path| path.exists()));
    assert!(!stray.exists());
}

#[test]
fn a_first_export_that_was_stopped_before_its_commit_is_not_taken_for_a_plain_one() {
    let mut store = Memory::new();
    Recorder::new(&mut store).count("sold", "a", at("2026-11-20"), HOUR_US, 3);
    let folder = tempfile::tempdir().unwrap();
    // The last of three steps cannot get its folder.
    let in_the_way = folder.path().join("step=1m");
    std::fs::write(&in_the_way, "").unwrap();
    let said = refusal(&mut store, folder.path());
    assert!(said.starts_with("cannot create "), "{said}");
    assert!(!commit_path(folder.path(), 0).exists() && folder.path().join("step=1h").exists());
    std::fs::remove_file(&in_the_way).unwrap();
    assert_eq!(commit(&mut store, folder.path()).1, Some(0));
    assert_eq!(files(folder.path(), 0).len(), 3);
}

#[test]
fn a_table_that_another_program_has_changed_is_not_continued() {
    let mut store = Memory::new();
    Recorder::new(&mut store).count("sold", "a", at("2026-11-20"), HOUR_US, 3);
    let mut after = |changes: &dyn Fn(&Path) -> Vec<Value>| {
        let folder = tempfile::tempdir().unwrap();
        commit(&mut store, folder.path());
        let text: String =
            changes(folder.path()).iter().map(|change| format!("{change}\n")).collect();
        std::fs::write(commit_path(folder.path(), 1), text).unwrap();
        let said = refusal(&mut store, folder.path());
        let place = format!("in {} at version 1 ", folder.path().display());
        assert!(said.contains(&place) && said.ends_with(": export to another folder"), "{said}");
        said
    };
    let said = after(&|table: &Path| {
        let first = files(table, 0).into_keys().next().unwrap();
        let path = first.strip_prefix(table).unwrap().display().to_string();
        vec![json!({ "remove": { "path": path, "dataChange": false } })]
    });
    assert!(said.contains("(another program has replaced files of this recorder)"), "{said}");
    let said = after(&|_: &Path| {
        vec![json!({ "protocol": { "minReaderVersion": 3, "minWriterVersion": 7 } })]
    });
    assert!(said.contains("(its protocol was raised)"), "{said}");
    let said = after(&|_: &Path| {
        let schema = json!({ "type": "struct", "fields": [] }).to_string();
        vec![json!({ "metaData": { "schemaString": schema, "partitionColumns": [] } })]
    });
    assert!(said.contains("(it has other columns)"), "{said}");
    let said = after(&|_: &Path| vec![json!([])]);
    assert!(said.contains("(invalid "), "{said}");
    let folder = tempfile::tempdir().unwrap();
    commit(&mut store, folder.path());
    std::fs::rename(commit_path(folder.path(), 0), commit_path(folder.path(), 9)).unwrap();
    let said = refusal(&mut store, folder.path());
    assert!(said.contains("at version 0 (its first commits are gone)"), "{said}");
    // What others add is theirs.
    let folder = tempfile::tempdir().unwrap();
    commit(&mut store, folder.path());
    let add = json!({ "add": { "path": "x.parquet", "dataChange": true } });
    std::fs::write(commit_path(folder.path(), 1), format!("{add}\n")).unwrap();
    assert_eq!(commit(&mut store, folder.path()).1, Some(1));
}

#[test]
fn plain_files_and_tables_are_not_mixed() {
    let mut store = Memory::new();
    Recorder::new(&mut store).count("sold", "a", at("2026-11-20"), HOUR_US, 3);
    let folder = tempfile::tempdir().unwrap();
    let (table, plain) = (folder.path().join("table"), folder.path().join("plain"));
    commit(&mut store, &table);
    let request = request(at("2027-01-01"));
    export(&mut store, &plain, &request, &mut |_| {}).unwrap();
    let said = refusal(&mut store, &plain);
    assert!(said.contains("has files of export --parquet"), "{said}");
    let refused = export(&mut store, &table, &request, &mut |_| {});
    assert!(matches!(refused, Err(ExportError::IsDelta(_))), "{refused:?}");
    let unreadable = export::partitions(&table).unwrap_err().to_string();
    assert!(unreadable.contains("it is a table of Delta Lake"), "{unreadable}");
}
