//! Crashes, full disks, and schemas from the future.

use postgres::{Client, NoTls};
use series::{Delta, Interval, Kind, Lane, Point, Reading, SECOND_US, SlotKey, Spec, Step};
use store::{
    BatchResult, Changes, Identity, KnownTimes, LaneChange, MaintenanceResult, NewSeries, Packing,
    Postgres, Retention, Series, SeriesLimit, Sqlite, Store, StoreError, Writer,
};
use throwaway::Throwaway;

use crate::place::{Place, server};

pub(crate) fn requests(store: &mut dyn Store) -> i64 {
    store.retain(&[Retention::from_secs(10, None).unwrap()]).unwrap();
    let spec = Spec::new(Kind::Count, Step::from_secs(10).unwrap());
    let wanted = NewSeries::new(Identity::new("requests", []), spec);
    store.series(&[wanted], &SeriesLimit::DEFAULT).unwrap()[0].as_ref().unwrap().id
}

pub(crate) fn count(series: i64, count: i64) -> Changes {
    let mut changes = Changes::default();
    let step = Step::from_secs(10).unwrap();
    for (slot_us, part) in Interval::count(0, 30 * SECOND_US, count).unwrap().slots(step) {
        changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
    }
    changes
}

pub(crate) fn total(store: &mut dyn Store, series: i64) -> f64 {
    let rows = store.slots(Step::from_secs(10).unwrap(), &[series], i64::MIN, i64::MAX).unwrap();
    rows.iter().map(|(_, row)| row.integral.as_f64()).sum()
}

#[test]
fn a_database_that_goes_away_and_comes_back_has_every_batch_once() {
    let mut server = Throwaway::start(&[]).unwrap();
    let url = server.database("gone").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    let series = requests(&mut store);
    let (mut seq, mut lost) = (0, 0);
    for crash in 0..3 {
        for _ in 0..5 {
            seq += 1;
            assert_eq!(
                store.apply(Writer(1), seq, &count(series, 3)).unwrap(),
                BatchResult::Now { expired: 0 }
            );
        }
        server.crash();
        seq += 1;
        let error = store.apply(Writer(1), seq, &count(series, 3)).unwrap_err();
        assert!(
            matches!(error, StoreError::Lost { .. } | StoreError::Unreachable { .. }),
            "{error}"
        );
        let error = store.last_batch(Writer(1)).unwrap_err().to_string();
        let place = format!("{}/gone", server.folder().display());
        assert!(error.starts_with(&format!("PostgreSQL at {place} does not answer (")), "{error}");
        assert!(
            error.ends_with("): start it, or set TACHOGRAPH_RECORD to another database or a file")
        );
        server.resume().unwrap();
        lost += u64::from(
            store.apply(Writer(1), seq, &count(series, 3)).unwrap() == BatchResult::Before,
        );
        assert_eq!(total(&mut store, series), 3.0 * seq as f64, "crash {crash}, {lost} were there");
    }
}

#[test]
fn writers_at_the_same_time_add_up_in_postgresql() {
    let url = server().database("together").unwrap();
    let series = requests(&mut Postgres::open(&url).unwrap());
    std::thread::scope(|scope| {
        for writer in 1..=4 {
            let url = &url;
            scope.spawn(move || {
                let mut store = Postgres::open(url).unwrap();
                for seq in 1..=25 {
                    store.apply(Writer(writer), seq, &count(series, 3)).unwrap();
                    // The same again, as after a lost acknowledgement.
                    assert_eq!(
                        store.apply(Writer(writer), seq, &count(series, 3)).unwrap(),
                        BatchResult::Before
                    );
                }
            });
        }
        // Adding retentions meanwhile does not disturb the writers.
        scope.spawn(|| {
            let mut store = Postgres::open(&url).unwrap();
            for step_s in [20, 30, 60] {
                store.retain(&[Retention::from_secs(step_s, None).unwrap()]).unwrap();
                store.maintain(0).unwrap();
            }
        });
    });
    assert_eq!(total(&mut Postgres::open(&url).unwrap(), series), 300.0);
}

#[test]
fn writers_who_pack_the_same_slots_at_the_same_moment_add_up_in_postgresql() {
    let url = server().database("packed_together").unwrap();
    let open = || Postgres::open(&url).unwrap().with_packing(Packing::ALWAYS);
    let series = requests(&mut open());
    std::thread::scope(|scope| {
        for writer in 1..=4 {
            scope.spawn(move || {
                let mut store = open();
                for seq in 1..=25 {
                    store.apply(Writer(writer), seq, &count(series, 3)).unwrap();
                }
            });
        }
    });
    assert_eq!(total(&mut open(), series), 300.0);
    open().seal(i64::MAX).unwrap();
    assert_eq!(total(&mut open(), series), 300.0);
}

#[test]
fn bounds_that_replace_others_while_these_are_being_packed_replace_them_in_postgresql() {
    let url = server().database("packed_meanwhile").unwrap();
    let open = || Postgres::open(&url).unwrap();
    let (mut store, mut sealing) = (open(), open());
    let (series, step) = (requests(&mut store), Step::from_secs(10).unwrap());
    let key = |lane, place: i64| SlotKey { slot_us: place * 10 * SECOND_US, series, lane };
    let mut apply = |seq, deltas: &[(SlotKey, Delta)]| {
        let mut changes = Changes::default();
        deltas.iter().for_each(|(key, delta)| changes.add(step, *key, *delta));
        store.apply(Writer(1), seq, &changes).unwrap()
    };
    let interval = Interval::count(0, 10 * SECOND_US, 10).unwrap();
    let (_, part) = interval.slots(step).next().unwrap();
    // One by one, so that they are rows; those of lane 1 are enough to be packed.
    let rows = [key(0, 0), key(1, 0), key(1, 1), key(1, 2), key(1, 3)];
    for (seq, key) in (1..).zip(rows) {
        apply(seq, &[(key, Delta::widen(part))]);
    }
    let mut other = Client::connect(&url, NoTls).unwrap();
    let mut locking = other.transaction().unwrap();
    locking.batch_execute("SELECT FROM slot_10s WHERE lane = 0 FOR UPDATE").unwrap();
    let mut waiting = Client::connect(&url, NoTls).unwrap();
    let mut waiting = || -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        waiting.query_one(sql, &[]).unwrap().get(0)
    };
    std::thread::scope(|scope| {
        // It waits after it has looked where its rows are, and before it replaces bounds.
        let replaced = Delta::replace_bounds(7.0, 8.0);
        let applied = scope
            .spawn(move || apply(6, &[(key(0, 0), Delta::widen(part)), (key(1, 0), replaced)]));
        while waiting() == 0 {}
        let sealed = scope.spawn(move || sealing.seal(i64::MAX).unwrap());
        while waiting() == 1 && !sealed.is_finished() {}
        drop(locking);
        assert!(matches!(applied.join().unwrap(), BatchResult::Now { .. }));
        assert_eq!(sealed.join().unwrap(), 4);
    });
    let found = open().slots(step, &[series], i64::MIN, i64::MAX).unwrap();
    let bounds = found.iter().find(|(found, _)| *found == key(1, 0)).unwrap().1;
    assert_eq!((bounds.min(), bounds.max()), (Some(7.0), Some(8.0)));
}

fn level(store: &mut dyn Store) -> Series {
    store.retain(&[Retention::from_secs(10, None).unwrap()]).unwrap();
    let spec = Spec::new(Kind::Gauge, Step::from_secs(10).unwrap());
    let wanted = NewSeries::new(Identity::new("level", []), spec);
    store.series(&[wanted], &SeriesLimit::DEFAULT).unwrap().remove(0).unwrap()
}

/// A batch with a point of the value 1, computed from a lane; and the lane after it.
fn point(series: &Series, lane: &Lane, second: i64) -> (Changes, Lane) {
    let mut changes = Changes::default();
    let mut change = LaneChange::of(lane.clone());
    let point = Point { at_us: second * SECOND_US, reading: Reading::Level(1.0) };
    let sink = |slot_us, delta| {
        changes.add(series.spec.step, SlotKey { slot_us, series: series.id, lane: 0 }, delta);
    };
    change.after.push(&series.spec, point, sink).unwrap();
    let after = change.after.clone();
    changes.lanes.insert((series.id, 0), change);
    (changes, after)
}

#[test]
fn a_batch_on_a_lane_that_another_writer_has_changed_is_refused_with_the_lane_as_it_is() {
    for mut place in [Place::memory(), Place::sqlite(), Place::postgres("stale")] {
        let store = place.store();
        let series = level(store);
        let (first, after_first) = point(&series, &Lane::default(), 1);
        store.apply(Writer(1), 1, &first).unwrap();
        let stale = |done: Result<BatchResult, StoreError>| match done {
            Err(StoreError::Stale { lanes }) => lanes,
            done => panic!("{done:?}"),
        };
        // Another new lane, and one that is a point ahead.
        let (second, after_second) = point(&series, &Lane::default(), 3);
        let now = vec![((series.id, 0), after_first.clone())];
        assert_eq!(stale(store.apply(Writer(2), 1, &second)), now);
        let (third, _) = point(&series, &after_second, 5);
        assert_eq!(stale(store.apply(Writer(2), 1, &third)), now);
        assert_eq!((store.last_batch(Writer(2)).unwrap(), total(store, series.id)), (0, 0.0));
        let (again, after_both) = point(&series, &after_first, 3);
        store.apply(Writer(2), 1, &again).unwrap();
        assert_eq!(store.apply(Writer(2), 1, &again).unwrap(), BatchResult::Before);
        assert_eq!(store.lane_states(&[(series.id, 0)]).unwrap(), [after_both]);
        assert_eq!(total(store, series.id), 2.0);
    }
}

#[test]
fn writers_of_one_lane_at_the_same_time_cover_every_second_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.sqlite").display().to_string();
    for place in [file, server().database("one_lane").unwrap()] {
        let series = level(&mut *store::open(&place).unwrap());
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (place, series) = (&place, &series);
                scope.spawn(move || {
                    let mut store = store::open(place).unwrap();
                    let mut known = Lane::default();
                    for seq in 1..=30 {
                        let second = seq as i64 * 3 + writer;
                        loop {
                            let (changes, after) = point(series, &known, second);
                            match store.apply(Writer(writer as u128), seq, &changes) {
                                Err(StoreError::Stale { mut lanes }) => known = lanes.remove(0).1,
                                done => {
                                    assert_eq!(done.unwrap(), BatchResult::Now { expired: 0 });
                                    known = after;
                                    break;
                                }
                            }
                        }
                    }
                });
            }
        });
        let mut store = store::open(&place).unwrap();
        let rows = store.slots(series.spec.step, &[series.id], i64::MIN, i64::MAX).unwrap();
        let known: i64 = rows.iter().map(|(_, row)| row.covered_us).sum();
        let points: i64 = rows.iter().map(|(_, row)| row.n).sum();
        let found = (total(&mut *store, series.id), known / SECOND_US, points);
        assert_eq!(found, (89.0, 89, 90), "{place}");
    }
}

#[test]
fn a_full_disk_refuses_the_batch_and_keeps_what_was_there() {
    let url = server().database("full_disk").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    let series = requests(&mut store);
    store.apply(Writer(1), 1, &count(series, 3)).unwrap();
    // PostgreSQL's error on a full disk, triggered on demand.
    let mut owner = Client::connect(&url, NoTls).unwrap();
    owner
        .batch_execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER full_disk BEFORE UPDATE ON slot_10s FOR EACH ROW EXECUTE FUNCTION full_disk()",
        )
        .unwrap();
    let error = store.apply(Writer(1), 2, &count(series, 3)).unwrap_err();
    let place = store.place();
    assert_eq!(
        error.to_string(),
        format!(
            "no space left for PostgreSQL at {place}: free some space on its disk, and send the \
             batch again"
        )
    );
    owner.batch_execute("DROP TRIGGER full_disk ON slot_10s").unwrap();
    assert_eq!(total(&mut store, series), 3.0);
    assert_eq!(
        store.apply(Writer(1), 2, &count(series, 3)).unwrap(),
        BatchResult::Now { expired: 0 }
    );
    assert_eq!(total(&mut store, series), 6.0);
}

#[test]
fn reading_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    assert!(Sqlite::open_read_only(&path).is_err());
    assert!(!path.exists());
    drop(archive::Store::open(&path).unwrap());
    assert_eq!(
        Sqlite::open_read_only(&path).unwrap_err().to_string(),
        format!("no series recorded in {} yet: import some, or start a run", path.display())
    );
    let series = requests(&mut Sqlite::open(&path).unwrap());
    let mut reader = Sqlite::open_read_only(&path).unwrap();
    assert_eq!(reader.find(&Default::default()).unwrap()[0].id, series);
    assert!(reader.apply(Writer(1), 1, &count(series, 1)).is_err());
    drop(archive::Store::open(&path).unwrap());

    let url = server().database("untouched").unwrap();
    let error = Postgres::open_read_only(&url).unwrap_err();
    assert!(matches!(error, StoreError::NoSeries(_)), "{error}");
    let error = Postgres::open(&server().url("missing")).unwrap_err().to_string();
    assert!(error.starts_with("no database at "), "{error}");
}

#[test]
fn a_reader_that_takes_long_does_not_stop_the_writers_for_long() {
    let url = server().database("slow").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    store.retain(&[Retention::from_secs(10, Some(60)).unwrap()]).unwrap();
    let series = requests(&mut store);
    store.retain(&[Retention::from_secs(10, Some(60)).unwrap()]).unwrap();
    store.apply(Writer(1), 1, &count(series, 3)).unwrap();
    let mut reader = Client::connect(&url, NoTls).unwrap();
    let mut reading = reader.transaction().unwrap();
    reading.query("SELECT * FROM every_10s", &[]).unwrap();
    // Tables are created, but not dropped, while somebody reads.
    let mut later = Changes::default();
    later.slots.extend(count(series, 3).slots);
    store.apply(Writer(1), 2, &later).unwrap();
    let error = store.maintain(100_000 * SECOND_US).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    drop(reading);
    assert!(store.maintain(100_000 * SECOND_US).unwrap().dropped > 0);
}

#[test]
fn each_expired_partition_is_dropped_in_a_transaction_of_its_own() {
    for mut place in [Place::sqlite(), Place::postgres("steps")] {
        let store = place.store();
        let short = [Retention::from_secs(10, Some(60)).unwrap()];
        store.retain(&short).unwrap();
        let series = requests(store);
        store.retain(&short).unwrap();
        let (step, day_us) = (Step::from_secs(10).unwrap(), 86_400 * SECOND_US);
        let mut changes = Changes::default();
        for day in 0..3 {
            let interval = Interval::count(day * day_us, day * day_us + SECOND_US, 1).unwrap();
            for (slot_us, part) in interval.slots(step) {
                changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
            }
        }
        store.apply(Writer(1), 1, &changes).unwrap();
        let mut left = Vec::new();
        loop {
            let done = store.maintain_while(10 * day_us, &mut || false).unwrap();
            if done.dropped == 0 {
                break;
            }
            assert_eq!((done.dropped, done.is_partial), (1, true));
            left.push(total(store, series));
        }
        assert_eq!(left, [2.0, 1.0, 0.0]);
    }
}

#[test]
fn an_abandoned_read_leaves_no_statement_behind() {
    let url = server().database("abandoned").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    let retention = Retention::from_secs(10, Some(60)).unwrap();
    store.retain(&[retention]).unwrap();
    let series = requests(&mut store);
    store.apply(Writer(1), 1, &count(series, 3)).unwrap();
    let mut reader = Postgres::open_read_only(&url).unwrap();
    let abandonment = reader.abandonment();
    let mut other = Client::connect(&url, NoTls).unwrap();
    let mut locking = other.transaction().unwrap();
    locking.batch_execute("LOCK TABLE slot_10s IN ACCESS EXCLUSIVE MODE").unwrap();
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'slot_10s'::regclass";
    std::thread::scope(|scope| {
        let read = scope.spawn(|| reader.slots(retention.step, &[series], i64::MIN, i64::MAX));
        while locking.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == 0 {}
        abandonment.tell();
        let read = read.join().unwrap();
        assert!(matches!(read, Err(StoreError::Abandoned)), "{read:?}");
        assert_eq!(locking.query_one(waiting, &[]).unwrap().get::<_, i64>(0), 0);
    });
    assert!(matches!(reader.retentions(), Err(StoreError::Abandoned)));
}

#[test]
fn one_process_at_a_time_does_the_upkeep_of_a_postgresql_database() {
    let url = server().database("upkeep").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    store.retain(&[Retention::from_secs(10, Some(60)).unwrap()]).unwrap();
    let series = requests(&mut store);
    store.retain(&[Retention::from_secs(10, Some(60)).unwrap()]).unwrap();
    store.apply(Writer(1), 1, &count(series, 3)).unwrap();
    let mut other = Client::connect(&url, NoTls).unwrap();
    let mut working = other.transaction().unwrap();
    let lock = "SELECT pg_advisory_xact_lock(1970301797, current_schema()::regnamespace::oid::int)";
    working.query_one(lock, &[]).unwrap();
    let elsewhere = MaintenanceResult { is_elsewhere: true, ..MaintenanceResult::default() };
    assert_eq!(store.maintain(100_000 * SECOND_US).unwrap(), elsewhere);
    // Writing goes on meanwhile.
    store.apply(Writer(1), 2, &count(series, 3)).unwrap();
    drop(working);
    let done = store.maintain(100_000 * SECOND_US).unwrap();
    assert!(done.dropped > 0 && !done.is_elsewhere, "{done:?}");
}

#[test]
fn on_a_clock_that_is_years_ahead_nothing_expires_however_often_it_is_asked_to() {
    for mut place in [Place::memory(), Place::sqlite(), Place::postgres("ahead")] {
        let store = place.store();
        let day_us = 86_400 * SECOND_US;
        let for_a_day = [Retention::from_secs(10, Some(86_400)).unwrap()];
        store.retain(&for_a_day).unwrap();
        let series = requests(store);
        store.retain(&for_a_day).unwrap();
        assert_eq!(store.known_times().unwrap(), KnownTimes::default());
        store.apply(Writer(1), 1, &count(series, 3)).unwrap();
        let times = store.known_times().unwrap();
        let recorded_us = times.recorded_us.unwrap();
        assert!((30 * SECOND_US..=day_us).contains(&recorded_us), "{recorded_us}");
        assert_eq!(times.expired_us, Some(day_us..=day_us), "nothing has expired");
        for _ in 0..20 {
            let believed_us = store::believed_us(store, 1_500 * day_us).unwrap();
            assert_eq!(store.maintain(believed_us).unwrap().dropped, 0);
        }
        let recorded = (store.known_times().unwrap().recorded_us, total(store, series));
        assert_eq!(recorded, (Some(recorded_us), 3.0));
    }
}

#[test]
fn what_a_wrong_clock_has_recorded_makes_nothing_expire() {
    for mut place in [Place::memory(), Place::sqlite(), Place::postgres("recorded")] {
        let store = place.store();
        let (hour_us, day_us) = (3_600 * SECOND_US, 86_400 * SECOND_US);
        let for_a_day = [Retention::from_secs(10, Some(86_400)).unwrap()];
        store.retain(&for_a_day).unwrap();
        let series = requests(store);
        store.retain(&for_a_day).unwrap();
        let step = Step::from_secs(10).unwrap();
        let mut number = 0;
        let mut record = |store: &mut dyn Store, from_us: i64| {
            number += 1;
            let mut changes = Changes::default();
            let interval = Interval::count(from_us, from_us + 10 * SECOND_US, 1).unwrap();
            for (slot_us, part) in interval.slots(step) {
                changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
            }
            store.apply(Writer(1), number, &changes).unwrap();
        };
        let maintain = |store: &mut dyn Store, clock_us: i64| {
            let believed_us = store::believed_us(store, clock_us).unwrap();
            store.maintain(believed_us).unwrap().dropped
        };
        let wrong_us = 1_500 * day_us;
        record(store, 0);
        assert_eq!(maintain(store, hour_us), 0);
        // A clock that is wrong for less than an hour records in two partitions at most.
        record(store, wrong_us);
        record(store, wrong_us + 3 * hour_us);
        for _ in 0..20 {
            assert_eq!(maintain(store, wrong_us + 4 * hour_us), 0);
        }
        assert_eq!(total(store, series), 3.0);
        let expired_us = store.known_times().unwrap().expired_us.unwrap();
        assert_eq!(expired_us, 3 * hour_us..=6 * hour_us, "it believed the end of the first one");
        // It goes on, and what is a day old expires.
        (1..=12).for_each(|each| record(store, each * 3 * hour_us));
        assert_eq!(maintain(store, 36 * hour_us), 4);
        assert_eq!(total(store, series), 11.0);
    }
}
