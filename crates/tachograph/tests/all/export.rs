//! `tachograph export`: as documented, with bad input, and interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Place, TACHOGRAPH};

/// Minutes of four series, a point per minute.
fn import(place: &Place, from_s: u64, minutes: u64) {
    let line = |i: u64| format!("m.{} {} {}\n", i % 4, i % 977, from_s + i / 4 * 60);
    let text: String = (0..minutes * 4).map(line).collect();
    place.write("m.txt", &text);
    place
        .run(&["import", "m.txt", "-f", "graphite", "--step", "60s", "--heartbeat", "2m"])
        .status(0);
}

/// The start of 2015-05-04: the first point covers the minute before it.
const START_S: u64 = 1_430_697_660;

/// The content of all exported files, by their path in the folder; and the other files.
fn files(folder: &Path) -> (BTreeMap<PathBuf, Vec<u8>>, Vec<PathBuf>) {
    let (mut tables, mut others) = (BTreeMap::new(), Vec::new());
    let mut folders = vec![folder.to_owned()];
    while let Some(open) = folders.pop() {
        for entry in std::fs::read_dir(open).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                tables.insert(name, std::fs::read(&path).unwrap());
            } else {
                others.push(name);
            }
        }
    }
    (tables, others)
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_export_says_what_it_wrote_and_the_next_one_that_nothing_has_changed() {
    let place = Place::new();
    import(&place, START_S, 3 * 1_440);
    let first = place.run(&["export", "--parquet", "slots", "--dry-run", "--step", "1m"]);
    first.status(0);
    let days = ["2015-05-04", "2015-05-05", "2015-05-06"];
    let listed: String = days.iter().map(|day| format!("slots/step=1m/day={day}\n")).collect();
    assert_eq!((first.out.as_str(), first.err.as_str()), (listed.as_str(), ""));
    assert!(!place.path("slots").exists());
    let export = ["export", "--parquet", "slots", "--step", "1m", "--step", "1h"];
    let first = place.run(&export);
    first.status(0).prints("slots: wrote 6 files (17,568 slots, ");
    assert_eq!(first.err, "");
    assert_eq!(place.run(&export).status(0).out, "slots: 6 files unchanged\n");
    let (tables, _) = files(&place.path("slots"));
    assert_eq!(tables.len(), 6);
    let one = ["export", "--parquet", "one", "--since", "2015-05-05", "--until", "2015-05-05"];
    place.run(&one).status(0).prints("wrote 2 files");
    place.run(&one).status(0).prints("2 files unchanged");
}

#[test]
fn bad_input_is_one_sentence_with_what_to_do() {
    let place = Place::new();
    let refused = |args: &[&str], text: &str| {
        let ended = place.run(&[&["export"], args].concat());
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
        assert!(ended.err.contains(text), "'{text}' is not in {}", ended.err);
    };
    refused(&["--parquet", "slots"], "no record at ");
    assert!(!place.path("record.sqlite").exists() && !place.path("slots").exists());
    place.run(&["import", "-f", "graphite", "-"]).status(0);
    refused(&["--parquet", "slots"], "no series recorded in ");
    import(&place, START_S, 60);
    place.write("file", "");
    refused(&[], "error: name a folder: --parquet FOLDER for plain files, or --delta FOLDER");
    refused(&["--parquet", "slots", "--delta", "slots"], "cannot be used with");
    refused(
        &["--parquet", "file"],
        "error: file is not a folder: name a folder for the export, which need not exist\n",
    );
    refused(&["--parquet", "file/slots"], "cannot create file/slots (Not a directory");
    refused(
        &["--parquet", "slots", "--step", "7s"],
        "record.sqlite keeps no slots of 7s: use --step with one of 10s, 1m, 1h\n",
    );
    refused(
        &["--parquet", "slots", "--since", "May"],
        "'May' is not a day: write one as 2026-11-22",
    );
    refused(
        &["--parquet", "slots", "--since", "2015-05-05", "--until", "2015-05-04"],
        "error: --since is later than --until: exchange them\n",
    );
    assert!(!place.path("slots").exists());
}

#[test]
fn a_full_or_read_only_disk_is_reported_and_nothing_half_written_stays() {
    let place = Place::new();
    import(&place, START_S, 1_440);
    std::fs::create_dir(place.path("disk")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=16k none disk || exit 77
        "$1" export --parquet disk/slots; echo "full: $?"
        find disk -name "*.part" -o -name "*.parquet"
        mount -o remount,size=9m none disk
        "$1" export --parquet disk/slots; echo "then: $?"
        mount -o remount,ro none disk
        "$1" export --parquet disk/other; echo "read-only: $?"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", TACHOGRAPH]);
    command.current_dir(place.dir.path()).env("TACHOGRAPH_RECORD", place.path("record.sqlite"));
    let ended = place.finish(command);
    assert_ne!(ended.status, Some(77), "no disk of one's own can be made here: {}", ended.err);
    let (full, rest) = ended.out.split_once("full: 2\n").unwrap();
    assert_eq!(full, "", "{}", ended.err);
    assert!(rest.starts_with("disk/slots: wrote 2 files (5,856 slots, "), "{rest}");
    assert!(rest.ends_with("then: 0\nread-only: 2\n"), "{rest}");
    ended.says(
        "(No space left on device (os error 28)): free some space, and run the export again\n",
    );
    ended.says(
        "error: cannot create disk/other (Read-only file system (os error 30)): allow this user to \
         write there, or name another folder\n",
    );
}

#[test]
fn an_export_that_is_killed_leaves_old_files_or_new_ones_and_the_next_removes_the_rest() {
    let place = Place::new();
    import(&place, START_S, 3 * 1_440);
    let export = |folder: &str| {
        let mut command = place.command(&["export", "--parquet", folder]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    place.finish(export("old")).status(0);
    // Later lines that belong to each of these days.
    let line = |i: u64| format!("late.{} 5 {}\n", i % 20, START_S + i / 20 * 600);
    place.write("late.txt", &(0..3 * 144 * 20).map(line).collect::<String>());
    place
        .run(&["import", "late.txt", "-f", "graphite", "--step", "60s", "--heartbeat", "10m"])
        .status(0);
    copy(&place.path("old"), &place.path("new"));
    let began = Instant::now();
    place.finish(export("new")).status(0);
    let whole = began.elapsed();
    let (old, _) = files(&place.path("old"));
    let (new, others) = files(&place.path("new"));
    assert!(old.keys().eq(new.keys()) && old.iter().all(|(name, bytes)| new[name] != *bytes));
    let (mut interrupted, mut mixed) = (0, 0);
    for part in 1..=8 {
        copy(&place.path("old"), &place.path("now"));
        let mut child = export("now").spawn().unwrap();
        std::thread::sleep(whole * part / 9);
        interrupted += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let (now, _) = files(&place.path("now"));
        assert!(now.keys().eq(new.keys()));
        for (name, bytes) in &now {
            let is_whole = *bytes == old[name] || *bytes == new[name];
            assert!(is_whole, "{} after {part} ninths", name.display());
        }
        mixed += u32::from(now != old && now != new);
    }
    assert!(interrupted > 0);
    // All files are renamed within a millisecond or so, which a kill may hit.
    assert!(mixed <= 1, "{mixed} kills left some old and some new files");
    place.finish(export("now")).status(0);
    let (now, mut left) = files(&place.path("now"));
    let mut others = others;
    assert!(now == new, "the next export completes it");
    left.sort();
    others.sort();
    assert_eq!(left, others, "nothing is left of the exports that were killed");
}

/// The paths that a table of Delta Lake has in its last version, all of which exist; and that version.
fn delta_files(table: &Path) -> (BTreeSet<String>, u64) {
    let (mut paths, mut version) = (BTreeSet::new(), 0);
    let commit = |version: u64| table.join(format!("_delta_log/{version:020}.json"));
    while let Ok(text) = std::fs::read_to_string(commit(version)) {
        for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            if let Some(path) = line["add"]["path"].as_str() {
                paths.insert(path.to_owned());
            }
            if let Some(path) = line["remove"]["path"].as_str() {
                assert!(paths.remove(path));
            }
        }
        version += 1;
    }
    assert!(paths.iter().all(|path| table.join(path).exists()));
    (paths, version - 1)
}

#[test]
fn a_commit_that_is_killed_was_made_or_not() {
    let place = Place::new();
    import(&place, START_S, 3 * 1_440);
    let export = || {
        let mut command = place.command(&["export", "--delta", "table"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let began = Instant::now();
    place.finish(export()).status(0);
    let whole = began.elapsed();
    let (mut before, mut version) = delta_files(&place.path("table"));
    let mut interrupted = 0;
    for part in 1..=8 {
        let line = |i: u64| format!("late{part}.{} 5 {}\n", i % 5, START_S + i / 5 * 600);
        place.write("late.txt", &(0..3 * 144 * 5).map(line).collect::<String>());
        place.run(&["import", "late.txt", "-f", "graphite", "--step", "60s"]).status(0);
        let mut child = export().spawn().unwrap();
        std::thread::sleep(whole * part / 9);
        interrupted += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let (after, new) = delta_files(&place.path("table"));
        assert_eq!(after == before, new == version, "after {part} ninths");
        assert!(after.len() == 6 && new <= version + 1, "{new} after {version}: {after:?}");
        place.finish(export()).status(0).prints(&format!("; version {}\n", version + 1));
        let (complete, new) = delta_files(&place.path("table"));
        assert!(new == version + 1 && complete.is_disjoint(&before));
        (before, version) = (complete, new);
    }
    assert!(interrupted > 0);
    // Nothing is left of those that were killed: the files of all versions, and as they are now.
    let (tables, _) = files(&place.path("table"));
    assert_eq!(tables.len() as u64, 6 * (version + 1) + 6);
}

/// What a reader prints: `version`, and `sums` by step.
const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/delta.py");

#[test]
fn readers_of_a_delta_table_see_all_of_an_export_or_nothing_of_it() {
    let place = Place::new();
    import(&place, START_S, 3 * 1_440);
    let export = || place.run(&["export", "--delta", "table"]);
    export().status(0).prints("table: wrote 6 files (").prints("; version 0\n");
    let packages = ["deltalake==1.6.6", "arro3-core==0.9.1"].map(str::to_owned);
    let python = stage::python::ensure_env(&packages, None, &mut |_| ()).unwrap().join("python");
    let mut reader = Command::new(python);
    reader.arg(READER).arg(place.path("table")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = reader.spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    let mut read = vec![lines.next().unwrap().unwrap()];
    let rest = std::thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<String>>());
    for round in 1..=10 {
        // Series that are new, on each of the days.
        let line = |i: u64| format!("late{round}.{} 5 {}\n", i % 5, START_S + i / 5 * 600);
        place.write("late.txt", &(0..3 * 144 * 5).map(line).collect::<String>());
        place.run(&["import", "late.txt", "-f", "graphite", "--step", "60s"]).status(0);
        export().status(0).prints("wrote 6 files (").prints(&format!("; version {round}\n"));
    }
    drop(reader.stdin.take());
    read.extend(rest.join().unwrap());
    assert!(reader.wait().unwrap().success());
    let mut quiet: BTreeMap<u64, Value> = BTreeMap::new();
    let mut during: BTreeSet<(u64, String)> = BTreeSet::new();
    for line in read {
        let line: Value = serde_json::from_str(&line).unwrap();
        let version = line["version"].as_u64().unwrap();
        match line["during"] == true {
            true => drop(during.insert((version, line["sums"].to_string()))),
            false => drop(quiet.insert(version, line["sums"].clone())),
        }
    }
    assert!(quiet.len() > 3, "versions that were read: {:?}", quiet.keys());
    for (version, sums) in during {
        assert_eq!(sums, quiet[&version].to_string(), "version {version} while the table changed");
    }
    // The plain export has the same rows as the last version.
    place.run(&["export", "--parquet", "plain"]).status(0);
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    for partition in export::partitions(&place.path("plain")).unwrap() {
        let totals = export::totals(&partition.path).unwrap();
        *rows.entry(partition.step).or_default() += totals.rows;
    }
    let last: Vec<(Value, Value)> = quiet[&10]
        .as_array()
        .unwrap()
        .iter()
        .map(|sums| (sums[0].clone(), sums[1].clone()))
        .collect();
    let plain: Vec<(Value, Value)> =
        rows.into_iter().map(|(step, rows)| (json!(step), json!(rows))).collect();
    assert_eq!(last, plain);
}
