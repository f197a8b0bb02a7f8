//! Files that cannot be the record, and the messages about them.

#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod support;

use std::fs;
use std::path::Path;

use archive::{RecordError, Store};
use rusqlite::Connection;

fn refusal(path: &Path) -> String {
    Store::open(path).unwrap_err().to_string()
}

#[test]
fn a_folder_is_not_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    assert_eq!(
        refusal(folder.path()),
        format!(
            "the record {path} is a folder: set TACHOGRAPH_RECORD to a file, such as {path}/record.sqlite"
        )
    );
}

#[test]
fn another_kind_of_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "Dear diary, ".repeat(500);
    fs::write(&path, &text).unwrap();
    let wanted = format!(
        "{} is not a tachograph record: move it away, or set TACHOGRAPH_RECORD to another file",
        path.display()
    );
    assert_eq!(refusal(&path), wanted);
    assert_eq!(Store::open_read_only(&path).unwrap_err().to_string(), wanted);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photos.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE photo (id INTEGER)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(Store::open(&path), Err(RecordError::NotARecord(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_newer_record_is_left_to_a_newer_tachograph() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    drop(Store::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    assert_eq!(
        refusal(&path),
        format!(
            "the runs in {} were written by a newer tachograph (schema 7; this version reads 3): \
             update tachograph, or set TACHOGRAPH_RECORD to another file",
            path.display()
        )
    );
}

#[test]
fn a_record_from_before_the_first_release_is_refused_and_left_alone() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        drop(Store::open(&path).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        let before = fs::read(&path).unwrap();
        let wanted = format!(
            "the runs in {} were written by an older tachograph (schema {version}; this version \
             reads 3): set TACHOGRAPH_RECORD to another file for runs; series can still be written \
             and read here",
            path.display()
        );
        assert_eq!(refusal(&path), wanted);
        assert_eq!(Store::open_read_only(&path).unwrap_err().to_string(), wanted);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_damaged_record_says_how_to_save_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    drop(Store::open(&path).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..4096].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    assert_eq!(
        refusal(&path),
        format!(
            "the record {0} is damaged (database disk image is malformed): save what can be read with `sqlite3 {0} .recover`, move the file away, and run again",
            path.display()
        )
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(
        refusal(&file.join("below/record.sqlite")),
        format!(
            "the folder {}/below for the record cannot be created (Not a directory (os error \
             20)): set TACHOGRAPH_RECORD to a file elsewhere",
            file.display()
        )
    );
}

#[test]
fn reading_where_nothing_was_recorded_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let wanted = format!(
        "no runs recorded in {} yet: start one with `tachograph compare` or `tachograph run`",
        path.display()
    );
    assert_eq!(Store::open_read_only(&path).unwrap_err().to_string(), wanted);
    assert!(!path.exists());
    drop(Store::open(&path).unwrap());
    assert_eq!(Store::open_read_only(&path).unwrap().load("last").unwrap_err().to_string(), wanted);
}

#[test]
fn a_record_opened_for_reading_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let run = support::Draw::new(1).run();
    Store::open(&path).unwrap().begin(&run).unwrap();
    let mut read_only = Store::open_read_only(&path).unwrap();
    assert_eq!(
        read_only.delete("last").unwrap_err().to_string(),
        format!(
            "the record {} cannot be written: make the file and its folder writable, or set TACHOGRAPH_RECORD to a file elsewhere",
            path.display()
        )
    );
    assert_eq!(read_only.load("last").unwrap(), run);
}
