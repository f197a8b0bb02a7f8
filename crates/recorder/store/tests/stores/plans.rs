//! A view reads the slots of the series that are asked for, not those of all series.

use std::collections::BTreeMap;

use postgres::{Client, NoTls};
use rusqlite::types::Value;
use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{
    Changes, Identity, NewSeries, Packing, Postgres, Retention, SeriesLimit, Sqlite, Store, Writer,
};

use crate::place::server;

/// 2026-03-01T00:00:00Z.
const MIDNIGHT_US: i64 = 1_772_323_200 * SECOND_US;

const HOUR_US: i64 = 3_600 * SECOND_US;

/// Eight hours of some series in several partitions, packed and as rows; `shop.3` has two lanes.
fn record(store: &mut dyn Store, shops: usize) {
    // Slots of ten seconds that are kept for a day are partitioned by three hours.
    let retention = Retention::from_secs(10, Some(86_400)).unwrap();
    store.retain(&[retention]).unwrap();
    let step = Step::from_secs(10).unwrap();
    let wanted = (0..shops).map(|shop| {
        let identity = Identity::new(&format!("shop.{shop}"), [("name", &*format!("n{shop}"))]);
        NewSeries::new(identity, Spec::new(Kind::Count, step))
    });
    let wanted: Vec<NewSeries> = wanted.collect();
    let series = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    let mut changes = Changes::default();
    for (shop, series) in series.into_iter().enumerate() {
        let series = series.unwrap().id;
        let lanes = if shop == 3 { 0..2 } else { 0..1 };
        for (lane, hour) in lanes.flat_map(|lane| (0..8).map(move |hour| (lane, hour))) {
            // A gap of half an hour follows each, and then two slots that are not worth packing.
            let from_us = MIDNIGHT_US + hour * HOUR_US;
            for (from_us, us) in [(0, HOUR_US / 2), (HOUR_US * 5 / 6, 20 * SECOND_US)]
                .map(|(after_us, us)| (from_us + after_us, us))
            {
                let count = 1_000 * (hour + 1) + 7 * shop as i64 + i64::from(lane);
                for (slot_us, part) in
                    Interval::count(from_us, from_us + us, count).unwrap().slots(step)
                {
                    changes.add(step, SlotKey { slot_us, series, lane }, Delta::widen(part));
                }
            }
        }
    }
    store.apply(Writer(1), 1, &changes).unwrap();
}

/// Conditions as readers write them; the second is SQLite's, because its slots are numbers.
const CONDITIONS: [[&str; 2]; 4] = [
    ["measurement = 'shop.1'", "measurement = 'shop.1'"],
    ["measurement = 'shop.3'", "measurement = 'shop.3'"],
    ["series = 2", "series = 2"],
    [
        "tags->>'name' = 'n3' AND slot >= '2026-03-01 02:00Z' AND slot < '2026-03-01 04:00Z'",
        "tags->>'name' = 'n3' AND slot_us >= unixepoch('2026-03-01 02:00') * 1000000
         AND slot_us < unixepoch('2026-03-01 04:00') * 1000000",
    ],
];

fn sqlite_plan(db: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    statement.query_map([], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn sqlite_rows(db: &rusqlite::Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_condition_reads_only_the_slots_of_its_series_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let mut store = Sqlite::open(&path).unwrap().with_packing(Packing::USUAL);
    record(&mut store, 4);
    let db = rusqlite::Connection::open(&path).unwrap();
    // A copy of the whole view, to which no condition was applied.
    for view in ["every_10s", "every_10s_filled"] {
        db.execute_batch(&format!("CREATE TEMP TABLE all_of_{view} AS SELECT * FROM {view}"))
            .unwrap();
        let count = format!("SELECT count(*), sum(total) FROM all_of_{view}");
        let slots = if view == "every_10s" { 4 * 8 * 182 } else { 4 * (7 * 360 + 302) };
        let total = (0..5).map(|i| 2 * (36_000 + 8 * [0, 7, 14, 21, 22][i])).sum::<i64>();
        assert_eq!(sqlite_rows(&db, &count), [[Value::Integer(slots), Value::Real(total as f64)]]);
        for [_, condition] in CONDITIONS {
            let sql = format!("SELECT * FROM {view} WHERE {condition}");
            let plan = sqlite_plan(&db, &sql);
            let of =
                |table: &str| plan.iter().filter(|line| line.contains(table)).collect::<Vec<_>>();
            for (table, by) in
                [("packed_10s_", "(series=?"), ("slot_10s_", "(slot_us=? AND series=?)")]
            {
                // Three partitions, each read at least by the arm without and by that with lanes.
                let found = of(table);
                assert!(found.iter().filter(|line| line.contains(by)).count() >= 6, "{plan:#?}");
                for line in found.iter().filter(|line| !line.contains(by)) {
                    // The first time of a table's rows, or the next one.
                    let [first, next] = ["PRIMARY KEY", "PRIMARY KEY (slot_us>?)"];
                    assert!(line.ends_with(first) || line.ends_with(next), "{sql}: {line}");
                    assert!(line.starts_with("SEARCH slot_"), "{sql}: {line}");
                }
            }
            let known =
                format!("SELECT * FROM all_of_{view} WHERE {condition} ORDER BY series, slot_us");
            let rows = sqlite_rows(&db, &format!("{sql} ORDER BY series, slot_us"));
            assert!(!rows.is_empty(), "{sql}");
            assert_eq!(rows, sqlite_rows(&db, &known), "{sql}");
        }
    }
    let plan = sqlite_plan(&db, "SELECT * FROM stored_10s WHERE series = 2");
    let packed = plan.iter().filter(|line| line.contains("packed_10s_"));
    assert!(packed.clone().count() == 3 && packed.clone().all(|line| line.contains("(series=?")));
}

#[test]
fn a_condition_reads_only_the_slots_of_its_series_in_postgresql() {
    let url = server().database("plans").unwrap();
    let mut store = Postgres::open(&url).unwrap().with_packing(Packing::USUAL);
    // With fewer, reading those of all series at a time costs no more.
    record(&mut store, 40);
    let mut db = Client::connect(&url, NoTls).unwrap();
    // So few rows would be read as a whole; that they need not be is what the plan shows.
    db.batch_execute("SET enable_seqscan = off; SET jit = off; SET TIME ZONE 'UTC'; ANALYZE")
        .unwrap();
    let day = "'2026-03-01 00:00Z', '2026-03-02 00:00Z'";
    let views = ["every_10s", &format!("every_10s({day})"), &format!("every_10s_filled({day})")];
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for view in views {
        let texts = |db: &mut Client, sql: &str| -> Vec<String> {
            let rows = db.query(&format!("SELECT row_to_json(x)::text FROM ({sql}) AS x"), &[]);
            rows.unwrap().iter().map(|row| row.get(0)).collect()
        };
        db.batch_execute(&format!(
            "DROP TABLE IF EXISTS whole; CREATE TEMP TABLE whole AS SELECT * FROM {view}"
        ))
        .unwrap();
        for [condition, _] in CONDITIONS {
            let sql = format!("SELECT * FROM {view} WHERE {condition}");
            let plan = db.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            let lines = plan.windows(2).filter(|lines| {
                lines[0].contains("Scan")
                    && ["packed_10s_", "slot_10s_"].iter().any(|t| lines[0].contains(t))
            });
            let mut scans = 0;
            for lines in lines {
                if lines[0].contains("Index") {
                    scans += 1;
                    assert!(
                        lines[1].contains("Index Cond: ") && lines[1].contains("series = s.id")
                            || lines[1].contains("series = '2'"),
                        "{sql}\n{}",
                        plan.join("\n")
                    );
                } else {
                    assert!(lines[0].contains("Bitmap Heap Scan"), "{sql}\n{}", plan.join("\n"));
                }
            }
            assert!(scans >= 2, "{sql}\n{}", plan.join("\n"));
            let known = texts(
                &mut db,
                &format!("SELECT * FROM whole WHERE {condition} ORDER BY series, slot"),
            );
            let rows = texts(&mut db, &format!("{sql} ORDER BY series, slot"));
            assert!(!rows.is_empty(), "{sql}");
            assert_eq!(rows, known, "{sql}");
            if !view.contains("filled") {
                let first = found.entry(condition).or_insert_with(|| rows.clone());
                assert_eq!(rows, *first, "{view} where {condition}");
            }
        }
    }
    // Times that are given to the function bound the packed rows, too.
    let sql = "EXPLAIN SELECT * FROM every_10s('2026-03-01 02:00Z', '2026-03-01 02:30Z') WHERE series = 2";
    let plan: Vec<String> = db.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("(series = s.id) AND (span > ('2026-03-01 02:00:00+00'"), "{plan}");
}
