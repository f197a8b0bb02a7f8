//! The names of requests.

use series::SECOND_US;
use store::{
    BatchResult, Changes, FORGOTTEN_MAX, Postgres, Request, Sqlite, Store, StoreError, Writer,
};

use crate::failures::{count, requests, total};
use crate::place::{Place, server};

const DAY_US: i64 = 86_400 * SECOND_US;

/// A batch of nothing but requests of a day.
fn of_day(day: i64, keys: impl IntoIterator<Item = u128>) -> Changes {
    let request = |key| Request { key: Writer(key), at_us: day * DAY_US };
    Changes { requests: keys.into_iter().map(request).collect(), ..Changes::default() }
}

#[test]
fn a_request_is_in_one_batch_until_it_is_forgotten() {
    for mut place in [Place::memory(), Place::sqlite(), Place::postgres("requests")] {
        let store = place.store();
        let series = requests(store);
        assert!(!store.has_request(Writer(5)).unwrap());
        assert_eq!(store.forget_requests(i64::MAX).unwrap(), 0);
        let batch = |keys: &[u128]| {
            let request = |key: &u128| Request { key: Writer(*key), at_us: *key as i64 * DAY_US };
            Changes { requests: keys.iter().map(request).collect(), ..count(series, 3) }
        };
        store.apply(Writer(1), 1, &batch(&[5, 9])).unwrap();
        assert_eq!(store.apply(Writer(1), 1, &batch(&[5, 9])).unwrap(), BatchResult::Before);
        let error = store.apply(Writer(1), 2, &batch(&[7, 9])).unwrap_err();
        assert!(matches!(error, StoreError::Overtaken), "{error}");
        let known =
            |store: &mut dyn Store| [5, 7, 9].map(|key| store.has_request(Writer(key)).unwrap());
        assert_eq!((known(store), total(store, series)), ([true, false, true], 3.0));
        store.apply(Writer(1), 2, &batch(&[7])).unwrap();
        assert_eq!(store.forget_requests(9 * DAY_US - 1).unwrap(), 2);
        assert_eq!(known(store), [false, false, true]);
        store.apply(Writer(1), 3, &batch(&[7])).unwrap();
        assert_eq!((known(store), total(store, series)), ([false, true, true], 9.0));
    }
}

#[test]
fn old_requests_are_forgotten_some_at_a_time() {
    for mut place in [Place::memory(), Place::sqlite(), Place::postgres("forgotten")] {
        let store = place.store();
        let most = u128::from(FORGOTTEN_MAX);
        store.apply(Writer(1), 1, &of_day(1, 0..most)).unwrap();
        store.apply(Writer(1), 2, &of_day(2, most..most + 3)).unwrap();
        store.apply(Writer(1), 3, &of_day(3, [most + 3])).unwrap();
        assert_eq!(store.forget_requests(2 * DAY_US - 1).unwrap(), 0, "it was the same day");
        let forgotten = [(); 3].map(|()| store.forget_requests(3 * DAY_US).unwrap());
        assert_eq!(forgotten, [FORGOTTEN_MAX, 3, 0]);
        assert!(store.has_request(Writer(most + 3)).unwrap());
        // In whatever order days come.
        store.apply(Writer(1), 4, &of_day(1, [5])).unwrap();
        let error = store.apply(Writer(1), 5, &of_day(2, [5])).unwrap_err();
        assert!(matches!(error, StoreError::Overtaken), "{error}");
    }
}

/// A number as random as that of a hash (SplitMix64).
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A key as random as a hash.
fn key(number: u64) -> u128 {
    u128::from(mixed(2 * number)) << 64 | u128::from(mixed(2 * number + 1))
}

#[test]
fn a_key_takes_at_most_24_bytes_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    let size = |batches: std::ops::Range<u64>| {
        let mut store = Sqlite::open(&path).unwrap();
        for batch in batches {
            let keys = (batch * 200..batch * 200 + 200).map(key);
            store.apply(Writer(1), batch, &of_day(20_000, keys)).unwrap();
        }
        drop(store);
        std::fs::metadata(&path).unwrap().len()
    };
    let before = size(1..2);
    let bytes = (size(2..502) - before) as f64 / 100_000.0;
    assert!(bytes <= 24.0, "{bytes}");
}

#[test]
fn packed_keys_of_postgresql_take_at_most_24_bytes_and_are_known() {
    const KEYS: u64 = 100_000;
    let url = server().database("packed_keys").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    let mut other = Postgres::open(&url).unwrap();
    store.apply(Writer(1), 1, &of_day(20_000, (0..KEYS).map(key))).unwrap();
    assert!(!other.maintain(20_000 * DAY_US).unwrap().is_partial);
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let mut ask = |sql: &str| client.query_one(sql, &[]).unwrap().get::<_, i64>(0);
    assert_eq!(ask("SELECT count(*) FROM request_key"), 0);
    let bytes = ask("SELECT pg_total_relation_size('request_block')") as f64 / KEYS as f64;
    assert!(bytes <= 24.0, "{bytes}");
    for number in (0..KEYS).step_by(999).chain([KEYS - 1]) {
        assert!(store.has_request(Writer(key(number))).unwrap(), "{number}");
    }
    assert!(!store.has_request(Writer(key(KEYS))).unwrap());
    // One that was packed after it was looked for is not added.
    let error = store.apply(Writer(1), 2, &of_day(20_000, [key(KEYS), key(7)])).unwrap_err();
    assert!(matches!(error, StoreError::Overtaken), "{error}");
    // Few wait for an hour.
    store.apply(Writer(1), 2, &of_day(20_000, [key(KEYS)])).unwrap();
    store.maintain(20_000 * DAY_US + 1).unwrap();
    assert_eq!(ask("SELECT count(*) FROM request_key"), 1);
    store.maintain(20_000 * DAY_US + 3_600 * SECOND_US).unwrap();
    assert_eq!(ask("SELECT count(*) FROM request_key"), 0);
    assert!(store.has_request(Writer(key(KEYS))).unwrap());
    let mut forgotten = 0;
    while let count @ 1.. = store.forget_requests(20_001 * DAY_US).unwrap() {
        forgotten += count;
    }
    assert_eq!(forgotten, KEYS + 1);
    assert!(!store.has_request(Writer(key(KEYS))).unwrap());
}

#[test]
fn a_key_that_was_packed_by_a_clock_in_the_past_is_not_added_again() {
    let url = server().database("packed_in_the_past").unwrap();
    let mut store = Postgres::open(&url).unwrap();
    let mut other = Postgres::open(&url).unwrap();
    assert!(!store.has_request(Writer(key(1))).unwrap());
    other.apply(Writer(2), 1, &of_day(20_000, [key(1)])).unwrap();
    // After an outage, upkeep believes the time before it for an hour.
    other.maintain(19_990 * DAY_US).unwrap();
    let error = store.apply(Writer(1), 1, &of_day(20_000, [key(1)])).unwrap_err();
    assert!(matches!(error, StoreError::Overtaken), "{error}");
}
