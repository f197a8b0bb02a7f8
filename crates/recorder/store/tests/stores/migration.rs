//! Data of an older version, migrated to the current schema.

use postgres::{Client, NoTls};
use recordfile::RecordError;
use series::{Delta, Interval, SECOND_US, SlotKey, Step};
use store::{
    Applied, Changes, Identity, Packing, Postgres, Selector, Series, Sqlite, Store, Writer,
};

use crate::place::server;

const MIDNIGHT_US: i64 = 1_767_225_600 * SECOND_US;

/// Slot, integral, covered, n, as stored by the older version.
fn slots(store: &mut dyn Store, step_s: i64, series: &Series) -> Vec<(i64, f64, i64, i64)> {
    let step = Step::from_secs(step_s).unwrap();
    let rows = store.slots(step, &[series.id], i64::MIN, i64::MAX).unwrap();
    let plain = rows.iter().map(|(key, row)| {
        let at_s = (key.slot_us - MIDNIGHT_US) / SECOND_US;
        (at_s, row.integral.as_f64(), row.covered_us / SECOND_US, row.n)
    });
    plain.collect()
}

fn check(store: &mut dyn Store) {
    let found = store.find(&Selector::default()).unwrap();
    let names: Vec<String> = found.iter().map(|series| series.identity.to_string()).collect();
    assert_eq!(names, ["shop.sold{customer=acme}", "shop.sold{customer=bolt}"]);
    let [acme, bolt] = &found[..] else { panic!("two series") };
    // The recent points were migrated.
    let lanes = store.lane_states(&[(acme.id, 0), (bolt.id, 0)]).unwrap();
    let remembered: Vec<_> =
        lanes.iter().map(|lane| (lane.remembered(), lane.has_forgotten())).collect();
    assert_eq!(remembered, [(2, true), (2, false)]);
    assert_eq!(lanes[0].newest().map(|point| point.at_us), Some(1_767_240_010_000_000));
    let fine = [(-10, 0.0, 0, 1), (0, 72.5, 10, 1), (30, 0.0, 0, 1), (14_400, 0.0, 0, 1)];
    let coarse = [(0, 24.0, 8, 2)];
    assert_eq!(slots(store, 10, acme), fine);
    assert_eq!(slots(store, 60, bolt), coarse);
    // All of it can be packed now, and stays the same.
    assert!(store.seal(i64::MAX).unwrap() > 0);
    assert_eq!(slots(store, 10, acme), fine);
    assert_eq!(slots(store, 60, bolt), coarse);
    let mut changes = Changes::default();
    let step = Step::from_secs(10).unwrap();
    let from_us = MIDNIGHT_US + 7 * SECOND_US;
    let interval = Interval::level(from_us, from_us + 3 * SECOND_US, 4.0).unwrap();
    for (slot_us, part) in interval.slots(step) {
        changes.add(step, SlotKey { slot_us, series: bolt.id, lane: 0 }, Delta::widen(part));
    }
    assert_eq!(store.apply(Writer(1), 1, &changes).unwrap(), Applied::Now { expired: 0 });
    assert_eq!(slots(store, 60, bolt), [(0, 36.0, 11, 3)]);
    let dropped = store.maintain(MIDNIGHT_US + 400 * 86_400 * SECOND_US).unwrap().dropped;
    assert_eq!(dropped, 5, "the partitions of both tables go together");
    assert_eq!(slots(store, 60, bolt), []);
    let known = store.find(&Selector { measurement: Some("x".to_owned()), ..Selector::default() });
    assert_eq!(known.unwrap(), []);
    assert_eq!(acme.identity, Identity::new("shop.sold", [("customer", "acme")]));
}

/// Records as each version wrote them; the last one is of this version.
const FILES: [&str; 4] = [
    include_str!("../schemas/1.sqlite.sql"),
    include_str!("../schemas/2.sqlite.sql"),
    include_str!("../schemas/3.sqlite.sql"),
    include_str!("../schemas/4.sqlite.sql"),
];

/// The runs of earlier versions, which stored sentences first, and then a column for each fact.
const RUNS_1: &str = include_str!("../schemas/runs-1.sqlite.sql");
const RUNS_2: &str = include_str!("../schemas/runs-2.sqlite.sql");

#[test]
fn files_of_earlier_schemas_are_brought_to_the_present_one() {
    for (number, tables) in (1..).zip(FILES) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        recordfile::open(&path).unwrap().execute_batch(tables).unwrap();
        let read = Sqlite::open_read_only(&path).map(|_| ());
        match number {
            4 => read.unwrap(),
            _ => assert_eq!(
                read.unwrap_err().to_string(),
                format!(
                    "the series at {} were written by an older tachograph (schema {number}; this \
                     version reads 4): run `tachograph maintain` once, which migrates them",
                    path.display()
                )
            ),
        }
        check(&mut Sqlite::open(&path).unwrap().with_packing(Packing::ALWAYS));
        check_version_4(rusqlite::Connection::open(&path).unwrap());
    }
}

#[test]
fn series_are_used_beside_runs_of_any_version_and_leave_them_alone() {
    let later = "CREATE TABLE run (later TEXT);";
    for (runs, version) in [("", 0), (RUNS_1, 1), (RUNS_2, 2), (later, 7)] {
        for tables in FILES {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("record.sqlite");
            let db = recordfile::open(&path).unwrap();
            db.execute_batch(tables).unwrap();
            db.execute_batch(runs).unwrap();
            db.pragma_update(None, "user_version", version).unwrap();
            let layout = || -> Vec<String> {
                let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name IN ('run', 'part')
                           AND sql IS NOT NULL";
                let mut rows = db.prepare(sql).unwrap();
                rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            };
            let before = layout();
            check(&mut Sqlite::open(&path).unwrap().with_packing(Packing::ALWAYS));
            assert_eq!(Sqlite::open_read_only(&path).unwrap().series_count().unwrap(), 2);
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
}

#[test]
fn runs_are_used_beside_series_of_any_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let db = recordfile::open(&path).unwrap();
    db.execute_batch(FILES[3]).unwrap();
    for version in [1, 4, 99] {
        db.execute("UPDATE slots_schema SET version = ?1", [version]).unwrap();
        drop(archive::Store::open(&path).unwrap());
        assert_eq!(archive::Store::open_read_only(&path).unwrap().list(1).unwrap().len(), 0);
    }
}

fn check_version_4(db: rusqlite::Connection) {
    let version: i64 =
        db.query_row("SELECT version FROM slots_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 4);
    let left: i64 = db
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name GLOB 'packed_1*_17672*'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0, "no packed table stays behind");
}

#[test]
fn a_database_of_schema_1_is_brought_to_the_present_one() {
    let url = server().database("schema_1").unwrap();
    let mut owner = Client::connect(&url, NoTls).unwrap();
    owner.batch_execute(include_str!("../schemas/1.postgresql.sql")).unwrap();
    check(&mut Postgres::open(&url).unwrap().with_packing(Packing::ALWAYS));
    let row = owner.query_one("SELECT version FROM public.slots_schema", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 5);
}
