//! Series and slots in a SQLite file: the record's, with the runs.

mod error;
mod packed;
mod packed_table;
mod read;
mod requests;
mod rows;
mod scan;
mod schema;
mod write;

use std::path::{Path, PathBuf};

use recordfile::RecordError;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use series::{Accumulator, Lane, SlotKey, Step, rrd};

use crate::steps::{check_present, check_released};
use crate::store::{SEALED_AFTER_US, Source, WholeBatch};
use crate::{
    Abandonment, BatchResult, Changes, Digests, KnownTimes, MaintenanceResult, NewSeries, NotMade,
    Packing, Retention, Selector, Series, SeriesLimit, Store, StoreError, Take, Writer,
};

/// A SQLite file with series: the file of the runs, or a separate one.
///
/// Every call is one transaction that is on disk when it returns (write-ahead log,
/// `synchronous=FULL`). Several processes may write concurrently; they take turns.
#[derive(Debug)]
pub struct Sqlite {
    db: Connection,
    path: PathBuf,
    packing: Packing,
    /// Where the next part of the upkeep continues: a step, the start of a span, and the last series
    /// of it that is done.
    resume: Option<(i64, i64, i64)>,
    abandonment: Abandonment,
}

/// A read finds out after so many instructions of SQLite's machine, some tens of microseconds, that
/// it was abandoned.
const INSTRUCTIONS: i32 = 1_000;

impl Sqlite {
    /// Opens the file for writing; creates it and its parent folders if necessary.
    ///
    /// # Errors
    /// [`StoreError::Record`], also for series that a newer version wrote, and
    /// [`StoreError::Unreleased`]. The schema of runs in the same file does not matter.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        let path = path.as_ref().to_owned();
        let db = recordfile::open(&path)?;
        let mut store = Sqlite::new(db, path);
        store.check_version()?;
        store.db.set_prepared_statement_cache_capacity(256);
        schema::migrate(&mut store.db).map_err(|e| store.explain(e))?;
        Ok(store)
    }

    /// Opens an existing file read-only.
    ///
    /// # Errors
    /// Those of [`Sqlite::open`], [`StoreError::NoSeries`] if none was ever recorded, and
    /// [`StoreError::Older`] for series that must be migrated first.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        let path = path.as_ref().to_owned();
        let db = recordfile::open_read_only(&path)?;
        let mut store = Sqlite::new(db, path);
        let abandonment = store.abandonment();
        let handler = Some(move || abandonment.is_told());
        store.db.progress_handler(INSTRUCTIONS, handler).map_err(|e| store.explain(e))?;
        let found = store.check_version()?;
        check_present(found, schema::KNOWN, &store.path.display().to_string())?;
        Ok(store)
    }

    fn new(db: Connection, path: PathBuf) -> Sqlite {
        let abandonment = Abandonment::default();
        Sqlite { db, path, packing: Packing::USUAL, resume: None, abandonment }
    }

    /// The same store with another packing.
    #[must_use]
    pub fn with_packing(self, packing: Packing) -> Sqlite {
        Sqlite { packing, ..self }
    }

    fn check_version(&self) -> Result<i64, StoreError> {
        let found = schema::version(&self.db).map_err(|e| self.explain(e))?;
        if found > schema::KNOWN {
            let path = self.path.clone();
            return Err(
                RecordError::Newer { what: "series", path, found, known: schema::KNOWN }.into()
            );
        }
        check_released(found, schema::KNOWN, &self.path.display().to_string())?;
        Ok(found)
    }

    /// Seals the spans that are over, some series in a transaction, while `goes_on`; continues where
    /// the last part ended.
    fn seal_while(
        &mut self,
        until_us: i64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError> {
        let packing = self.packing;
        let mut done = MaintenanceResult::default();
        let mut resume = self.resume.take();
        for kept in self.read(schema::retentions)? {
            let step_us = kept.step().us();
            let (begin_us, mut done_series) = match resume {
                Some((at, ..)) if at != step_us => continue,
                Some((_, span_us, series)) => (span_us, Some((span_us, series))),
                None => (i64::MIN, None),
            };
            resume = None;
            for start_us in self.read(|db| schema::partitions(db, step_us))? {
                let end_us = start_us.saturating_add(kept.partition_us);
                let mut from_us = start_us.max(begin_us);
                while from_us < end_us
                    && let Some(span_us) =
                        self.read(|db| packed::next_with_rows(db, &kept, from_us))?
                {
                    from_us = kept.span_end(span_us);
                    if from_us > until_us {
                        break;
                    }
                    let known = done_series.take().filter(|(known_us, _)| *known_us == span_us);
                    let mut after = Some(known.map_or(0, |(_, series)| series));
                    while let Some(series) = after {
                        if !goes_on() {
                            self.resume = Some((step_us, span_us, series));
                            return Ok(MaintenanceResult { is_partial: true, ..done });
                        }
                        let sealed = self
                            .write(|tx| Ok(packed::seal(tx, &kept, span_us, series, packing)?))?;
                        done.sealed += sealed.slots;
                        after = sealed.until_series;
                    }
                }
            }
        }
        Ok(done)
    }

    /// Like [`Store::apply`], and writes in the same transaction what `also` writes to other tables
    /// of the same file: both or neither. For a batch that was applied before, `also` is not
    /// called.
    ///
    /// # Errors
    /// Those of [`Store::apply`], and [`StoreError::Record`] for errors of `also`.
    pub fn apply_with(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
        also: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<BatchResult, StoreError> {
        let packing = self.packing;
        self.write(|tx| {
            let mut whole = WholeBatch::new(changes);
            let applied = write::apply(tx, &[(writer, seq)], &mut whole, packing)?;
            if let BatchResult::Now { .. } = applied {
                also(tx)?;
            }
            Ok(applied)
        })
    }

    fn explain(&self, error: rusqlite::Error) -> StoreError {
        if self.abandonment.is_told() {
            return StoreError::Abandoned;
        }
        RecordError::from_sqlite(&self.path, error).into()
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.abandonment.is_told() {
            return Err(StoreError::Abandoned);
        }
        // One transaction, so that several tables are read consistently.
        let done = self.db.unchecked_transaction().and_then(|_one_moment| work(&self.db));
        done.map_err(|e| self.explain(e))
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFailure>,
    ) -> Result<T, StoreError> {
        let done = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(TransactionFailure::Sqlite)
            .and_then(|tx| {
                let done = work(&tx)?;
                tx.commit()?;
                Ok(done)
            });
        done.map_err(|failure| match failure {
            TransactionFailure::Sqlite(error) => self.explain(error),
            TransactionFailure::Store(error) => error,
        })
    }
}

/// Why a transaction was aborted.
enum TransactionFailure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for TransactionFailure {
    fn from(error: rusqlite::Error) -> TransactionFailure {
        TransactionFailure::Sqlite(error)
    }
}

impl From<StoreError> for TransactionFailure {
    fn from(error: StoreError) -> TransactionFailure {
        TransactionFailure::Store(error)
    }
}

impl Store for Sqlite {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn abandonment(&self) -> Abandonment {
        self.abandonment.clone()
    }

    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError> {
        let kept = self.read(schema::retentions)?;
        Ok(kept.into_iter().map(|kept| kept.retention).collect())
    }

    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError> {
        self.write(|tx| Ok(schema::retain(tx, retentions)?))
    }

    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError> {
        self.write(|tx| Ok(write::series(tx, wanted, limit)?))
    }

    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError> {
        self.read(|db| read::find(db, selector))
    }

    fn series_count(&mut self) -> Result<i64, StoreError> {
        self.read(read::series_count)
    }

    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError> {
        self.write(|tx| Ok(write::lanes(tx, names)?))
    }

    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError> {
        self.read(|db| read::lane_states(db, lanes))
    }

    fn rrd(&mut self, series: i64) -> Result<Option<rrd::Rrd>, StoreError> {
        self.read(|db| read::rrd(db, series))
    }

    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError> {
        self.read(|db| read::last_batch(db, writer))
    }

    fn has_request(&mut self, key: Writer) -> Result<bool, StoreError> {
        self.read(|db| requests::has(db, key))
    }

    fn forget_requests(&mut self, until_us: i64) -> Result<u64, StoreError> {
        self.write(|tx| Ok(requests::forget(tx, until_us)?))
    }

    fn known_times(&mut self) -> Result<KnownTimes, StoreError> {
        self.read(schema::known_times)
    }

    fn apply_all(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
    ) -> Result<BatchResult, StoreError> {
        let packing = self.packing;
        self.write(|tx| write::apply(tx, claims, source, packing))
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError> {
        self.read(|db| read::slots(db, step, series, from_us, until_us))
    }

    fn scan(
        &mut self,
        step: Step,
        from_us: i64,
        until_us: i64,
        take: &mut Take<'_>,
    ) -> Result<i64, StoreError> {
        self.read(|db| {
            let Some(kept) = schema::retention(db, step)? else { return Ok(i64::MIN) };
            scan::scan(db, &kept, from_us, until_us, take)?;
            Ok(kept.horizon_us)
        })
    }

    fn digests(&mut self, step: Step, from_us: i64, until_us: i64) -> Result<Digests, StoreError> {
        self.read(|db| match schema::retention(db, step)? {
            Some(kept) => scan::digests(db, &kept, from_us, until_us),
            None => Ok(Digests::default()),
        })
    }

    fn recorder(&mut self) -> Result<String, StoreError> {
        let sql = "SELECT id FROM recorder";
        self.read(|db| db.query_row(sql, [], |row| row.get(0)))
    }

    fn seal(&mut self, until_us: i64) -> Result<u64, StoreError> {
        self.resume = None;
        Ok(self.seal_while(until_us, &mut || true)?.sealed)
    }

    fn maintain_while(
        &mut self,
        now_us: i64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError> {
        let mut done = MaintenanceResult::default();
        if self.resume.is_none() {
            // Later parts of a round need not do it again.
            done.made = self.write(|tx| Ok(schema::advance(tx, now_us)?))?;
            while self.write(|tx| Ok(schema::expire(tx)?))? {
                done.dropped += 1;
                if !goes_on() {
                    return Ok(MaintenanceResult { is_partial: true, ..done });
                }
            }
        }
        let sealed = self.seal_while(now_us.saturating_sub(SEALED_AFTER_US), goes_on)?;
        Ok(MaintenanceResult { dropped: done.dropped, made: done.made, ..sealed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use series::{Delta, Interval, Kind, SECOND_US, Spec};

    #[test]
    fn an_abandoned_read_ends_and_none_follows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        Sqlite::open(&path).unwrap();
        let mut store = Sqlite::open_read_only(&path).unwrap();
        assert!(store.retentions().is_ok());
        let abandonment = store.abandonment();
        let (begun, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                waits.recv().unwrap();
                abandonment.tell();
            });
            let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                           SELECT count(*) FROM n";
            let read = store.read(|db| {
                begun.send(()).unwrap();
                db.query_row(endless, [], |row| row.get::<_, i64>(0))
            });
            assert!(matches!(read, Err(StoreError::Abandoned)), "{read:?}");
        });
        assert!(matches!(store.retentions(), Err(StoreError::Abandoned)));
    }

    #[test]
    fn a_slot_of_each_series_changes_as_many_pages_as_its_rows_take() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        let mut store = Sqlite::open(&path).unwrap().with_packing(Packing::NEVER);
        let retention = Retention::from_secs(10, None).unwrap();
        store.retain(&[retention]).unwrap();
        let spec = Spec::new(Kind::Count, retention.step);
        let wanted =
            |number| NewSeries::new(Identity::new(&format!("requests.{number}"), []), spec);
        let wanted: Vec<NewSeries> = (0..500).map(wanted).collect();
        let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
        let series: Vec<i64> = made.into_iter().map(|made| made.unwrap().id).collect();
        let batch = |slots: std::ops::Range<i64>| {
            let mut changes = Changes::default();
            let [from_us, until_us] = [slots.start, slots.end].map(|slot| slot * 10 * SECOND_US);
            let interval = Interval::count(from_us, until_us, 1_000_000).unwrap();
            for (slot_us, part) in interval.slots(retention.step) {
                for series in &series {
                    let key = SlotKey { slot_us, series: *series, lane: 0 };
                    changes.add(retention.step, key, Delta::widen(part));
                }
            }
            changes
        };
        // Half an hour of them: with an index by series, each of the 500 would have a page of it
        // nearly for itself.
        store.apply(Writer(1), 1, &batch(0..180)).unwrap();
        let pages = |store: &Sqlite, mode: &str| -> i64 {
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            store.db.query_row(&sql, [], |row| row.get(1)).unwrap()
        };
        pages(&store, "TRUNCATE");
        store.apply(Writer(1), 2, &batch(180..181)).unwrap();
        let written = pages(&store, "PASSIVE");
        assert!((3..=10).contains(&written), "500 rows, 80 bytes each: {written} pages of 16 KiB");
    }

    #[test]
    fn a_full_disk_refuses_the_batch_and_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        let mut store = Sqlite::open(&path).unwrap();
        let retention = Retention::from_secs(10, None).unwrap();
        store.retain(&[retention]).unwrap();
        let spec = Spec::new(Kind::Count, retention.step);
        let wanted = NewSeries::new(Identity::new("requests", []), spec);
        let series = store.series(&[wanted], &SeriesLimit::DEFAULT).unwrap();
        let series = series[0].as_ref().unwrap().id;
        let batch = |hours: i64| {
            let mut changes = Changes::default();
            let interval = Interval::count(0, hours * 3_600 * SECOND_US, 1_000_000).unwrap();
            for (slot_us, part) in interval.slots(retention.step) {
                let key = SlotKey { slot_us, series, lane: 0 };
                changes.add(retention.step, key, Delta::widen(part));
            }
            changes
        };
        store.apply(Writer(1), 1, &batch(1)).unwrap();
        let pages: i64 = store.db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        store.db.pragma_update(None, "max_page_count", pages + 2).unwrap();
        assert_eq!(
            store.apply(Writer(1), 2, &batch(1_000)).unwrap_err().to_string(),
            format!(
                "no space left for the record {}: free some space, or set TACHOGRAPH_RECORD to a \
                 file on another disk",
                path.display()
            )
        );
        assert_eq!(store.last_batch(Writer(1)).unwrap(), 1);
        assert_eq!(store.slots(retention.step, &[series], i64::MIN, i64::MAX).unwrap().len(), 360);
        store.db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        assert_eq!(store.apply(Writer(1), 2, &batch(2)).unwrap(), BatchResult::Now { expired: 0 });
    }
}
