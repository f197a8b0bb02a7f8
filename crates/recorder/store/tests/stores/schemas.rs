//! Series of other schemas, and beside runs of other schemas.

use postgres::{Client, NoTls};
use recordfile::RecordError;
use store::{Postgres, Sqlite, Store, Writer};

use crate::failures::{count, requests, total};
use crate::place::server;

/// A table of runs that this version does not know.
const OTHER_RUNS: &str = "CREATE TABLE run (other TEXT);";

/// Records a count of 3.
fn record(store: &mut dyn Store) {
    let series = requests(store);
    store.apply(Writer(1), 1, &count(series, 3)).unwrap();
    assert_eq!(total(store, series), 3.0);
}

#[test]
fn series_are_used_beside_runs_of_any_version_and_leave_them_alone() {
    for (runs, version) in [("", 0), (OTHER_RUNS, 1), (OTHER_RUNS, 7)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        let db = recordfile::open(&path).unwrap();
        db.execute_batch(runs).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        let layout = || -> Vec<String> {
            let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name IN ('run', 'part')
                       AND sql IS NOT NULL";
            let mut rows = db.prepare(sql).unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let before = layout();
        record(&mut Sqlite::open(&path).unwrap());
        assert_eq!(Sqlite::open_read_only(&path).unwrap().series_count().unwrap(), 1);
        assert_eq!(layout(), before);
        let stamp: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(stamp, version);
        // A file without runs gets them beside its series.
        match archive::Store::open(&path) {
            Ok(store) => assert_eq!((store.list(1).unwrap().len(), version), (0, 0)),
            Err(RecordError::Older { found, .. } | RecordError::Newer { found, .. }) => {
                assert_eq!(found, version);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn runs_are_used_beside_series_of_any_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    record(&mut Sqlite::open(&path).unwrap());
    let db = recordfile::open(&path).unwrap();
    for version in [1, 5, 99] {
        db.execute("UPDATE slots_schema SET version = ?1", [version]).unwrap();
        drop(archive::Store::open(&path).unwrap());
        assert_eq!(archive::Store::open_read_only(&path).unwrap().list(1).unwrap().len(), 0);
    }
}

#[test]
fn series_of_unreleased_and_of_later_versions_are_refused_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    record(&mut Sqlite::open(&path).unwrap());
    let db = recordfile::open(&path).unwrap();
    let url = server().database("refused").unwrap();
    record(&mut Postgres::open(&url).unwrap());
    let mut owner = Client::connect(&url, NoTls).unwrap();
    for (version, words) in [
        (7_i64, "before its first release (schema 7; this version reads 8): import them again"),
        (9, "by a newer tachograph (schema 9; this version reads 8): update tachograph"),
    ] {
        db.execute("UPDATE slots_schema SET version = ?1", [version]).unwrap();
        owner.execute("UPDATE slots_schema SET version = $1", &[&version]).unwrap();
        for refused in [
            Sqlite::open(&path).map(drop),
            Sqlite::open_read_only(&path).map(drop),
            Postgres::open(&url).map(drop),
            Postgres::open_read_only(&url).map(drop),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
    db.execute("UPDATE slots_schema SET version = 8", []).unwrap();
    owner.execute("UPDATE slots_schema SET version = 8", &[]).unwrap();
    for store in
        [&mut Sqlite::open(&path).unwrap() as &mut dyn Store, &mut Postgres::open(&url).unwrap()]
    {
        let series = requests(store);
        assert_eq!(total(store, series), 3.0);
    }
}
