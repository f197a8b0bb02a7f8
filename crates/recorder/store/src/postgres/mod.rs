//! Series and slots in PostgreSQL, 14 or later.

mod copy;
mod error;
mod lanes;
mod link;
mod packed;
mod partition_locks;
mod read;
mod requests;
mod rows;
mod scan;
mod schema;
mod types;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use series::{Accumulator, Lane, SlotKey, Step, rrd};

use self::link::{PostgresConnection, TransactionFailure};
use self::packed::Way;
use crate::plan::{Plan, RetentionChanges};
use crate::steps::{check_present, check_released};
use crate::store::{SEALED_AFTER_US, Source};
use crate::stored_retention::StoredRetention;
use crate::{
    Abandonment, BatchResult, Digests, KnownTimes, MaintenanceResult, NewSeries, NotMade, Packing,
    Retention, Selector, Series, SeriesLimit, Store, StoreError, Take, Writer,
};

/// How often to restart a batch because partitions were missing: once to create them, and again if
/// the retentions were changed meanwhile.
const ATTEMPTS_MAX: usize = 10;

/// A PostgreSQL database with series, in the first schema of the user's `search_path`.
///
/// Every call is one transaction that is on the server's disk when it returns, unless the server
/// runs with `fsync = off`. After a lost connection the next call reconnects. Any number of
/// processes may write concurrently.
pub struct Postgres {
    link: PostgresConnection,
    packing: Packing,
    /// Number of replaced rows since the last vacuum, by table.
    replaced: BTreeMap<String, u64>,
    /// Where the next part of the upkeep continues: a step, and the start of a span.
    resume: Option<(i64, i64)>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("place", &self.link.place()).finish()
    }
}

/// Attempts of an operation that gives way to other writers.
const TRIES_MAX: usize = 5;

/// After this many replaced rows a table is vacuumed, so that new rows take their place: writing is
/// faster than PostgreSQL's own vacuum, once a minute.
const VACUUMED_AFTER: u64 = 10_000;

/// Whether other processes may do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concurrency {
    Alone,
    Shared,
}

/// Result of an attempt to apply a batch.
enum Attempt {
    Done(BatchResult),
    /// Partitions of these retentions are missing.
    Lacks(Vec<StoredRetention>),
}

impl Postgres {
    /// Connects to the database at a URL, and migrates it to the current schema.
    ///
    /// [`StoreError::Url`], [`StoreError::Unreachable`], [`StoreError::NotLetIn`],
    /// [`StoreError::NoDatabase`], [`StoreError::Denied`], [`StoreError::Newer`] if a newer version
    /// created the schema, and [`StoreError::Unreleased`].
    pub fn open(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres::new(url)?;
        let found = store.link.transaction(schema::migrate)?;
        store.check_version(found)?;
        Ok(store)
    }

    /// Connects read-only; changes nothing.
    ///
    /// # Errors
    /// Those of [`Postgres::open`], and [`StoreError::NoSeries`].
    pub fn open_read_only(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres::new(url)?;
        let found = store.link.transaction(schema::version)?;
        store.check_version(found)?;
        check_present(found, schema::KNOWN, &store.place())?;
        Ok(store)
    }

    fn new(url: &str) -> Result<Postgres, StoreError> {
        let (link, packing) = (PostgresConnection::new(url)?, Packing::USUAL);
        Ok(Postgres { link, packing, replaced: BTreeMap::new(), resume: None })
    }

    /// The same store with another packing.
    #[must_use]
    pub fn with_packing(self, packing: Packing) -> Postgres {
        Postgres { packing, ..self }
    }

    /// Does a part of the upkeep in a transaction; `None` if another process does it.
    fn upkeep<T>(
        &mut self,
        work: impl FnOnce(&mut link::OpenTransaction<'_>) -> Result<T, TransactionFailure>,
    ) -> Result<Option<T>, StoreError> {
        self.link.transaction(|session| match session.query_one_bool(schema::UPKEEP)? {
            true => work(session).map(Some),
            false => Ok(None),
        })
    }

    /// Packs the rows of a span, if its partition still exists; `None` if another process does the
    /// upkeep.
    fn seal_span(
        &mut self,
        kept: &StoredRetention,
        span_us: i64,
        way: Way,
        together: Concurrency,
    ) -> Result<Option<u64>, StoreError> {
        let writing = packed::PackedWriter::new(self.packing, way);
        let step_us = kept.step().us();
        self.link.transaction(|session| {
            if together == Concurrency::Alone && !session.query_one_bool(schema::UPKEEP)? {
                return Ok(None);
            }
            session.transaction.query_one(schema::WRITING, &[])?;
            if !schema::partitions(session, step_us)?.contains(&kept.partition_of(span_us)) {
                return Ok(Some(0));
            }
            session.query(partition_locks::ALONE, &[&partition_locks::part_of(kept, span_us)])?;
            let (left, sealed) = packed::seal(session, kept, span_us, writing)?;
            write::add_unpacked(session, step_us, &left)?;
            Ok(Some(sealed.saturating_sub(left.len() as u64)))
        })
    }

    /// Seals the spans that are over, one transaction each, while `goes_on`; continues where the
    /// last part ended.
    fn seal_while(
        &mut self,
        until_us: i64,
        together: Concurrency,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError> {
        let mut done = MaintenanceResult::default();
        let mut resume = self.resume.take();
        for kept in self.link.transaction(schema::retentions)? {
            let step_us = kept.step().us();
            let mut from_us = match resume {
                Some((at, _)) if at != step_us => continue,
                Some((_, span_us)) => span_us,
                None => i64::MIN,
            };
            resume = None;
            while let Some(span_us) = self
                .link
                .transaction(|session| packed::next_with_rows(session, &kept, from_us, until_us))?
            {
                from_us = kept.span_end(span_us);
                if from_us > until_us {
                    break;
                }
                if !goes_on() {
                    self.resume = Some((step_us, span_us));
                    return Ok(MaintenanceResult { is_partial: true, ..done });
                }
                let sealed =
                    self.retry(|store, way| store.seal_span(&kept, span_us, way, together))?;
                match sealed {
                    Some(sealed) => done.sealed += sealed,
                    None => return Ok(MaintenanceResult { is_elsewhere: true, ..done }),
                }
            }
        }
        Ok(done)
    }

    /// Vacuums the tables with many replaced rows.
    fn vacuum(&mut self) {
        for (table, rows) in &mut self.replaced {
            if *rows >= VACUUMED_AFTER {
                *rows = 0;
                // The batch is committed in any case; PostgreSQL will vacuum later too.
                let _ = self.link.vacuum(table);
            }
        }
    }

    /// Retries an operation that gives way to other writers; from the second attempt on in the mode
    /// that conflicts less often.
    fn retry<T>(
        &mut self,
        mut work: impl FnMut(&mut Postgres, Way) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (mut tries, mut way) = (1, Way::Copy);
        loop {
            match work(self, way) {
                Err(StoreError::Busy { .. }) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
            way = Way::Arrays;
        }
    }

    /// Whether there are tables of a step. A retention is never removed.
    fn is_retained(&mut self, step: Step) -> Result<bool, StoreError> {
        Ok(self.retentions()?.iter().any(|retention| retention.step == step))
    }

    fn check_version(&self, found: i64) -> Result<(), StoreError> {
        if found > schema::KNOWN {
            return Err(StoreError::Newer { place: self.place(), found, known: schema::KNOWN });
        }
        check_released(found, schema::KNOWN, &self.place())
    }

    /// Creates the partitions that a batch needs, before its transaction: nobody may write while a
    /// table is created.
    fn make_partitions(
        &mut self,
        kept: &[StoredRetention],
        source: &mut dyn Source,
    ) -> Result<(), StoreError> {
        let mut wanted: BTreeMap<i64, (StoredRetention, BTreeSet<i64>)> = BTreeMap::new();
        source.restart();
        while let Some(changes) = source.next() {
            for part in Plan::new(&changes, kept)?.parts {
                let of_step = wanted.entry(part.kept.step().us());
                of_step.or_insert((part.kept, BTreeSet::new())).1.extend(part.partitions());
            }
        }
        let wanted: Vec<(StoredRetention, BTreeSet<i64>)> = wanted.into_values().collect();
        self.link.transaction(|session| schema::make_partitions(session, &wanted))?;
        Ok(())
    }

    /// Applies a batch; returns the retentions that lack partitions for it, if any.
    fn attempt(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
        way: Way,
    ) -> Result<Attempt, StoreError> {
        let mut batch = write::InBatch::new(self.packing, way);
        let (mut lacking, mut replaced) = (None, BTreeMap::new());
        let done = self.link.transaction(|session| {
            session.transaction.query_one(schema::WRITING, &[])?;
            let kept = schema::retentions(session)?;
            let mut exist = HashMap::new();
            for kept in &kept {
                exist.insert(kept.step(), schema::partitions(session, kept.step().us())?);
            }
            if !write::claim_all(session, claims)? {
                return Ok(BatchResult::Before);
            }
            let mut expired = 0;
            source.restart();
            while let Some(changes) = source.next() {
                let plan = Plan::new(&changes, &kept)?;
                let lacks = |part: &RetentionChanges<'_>| {
                    let exist = exist.get(&part.kept.step());
                    exist.is_none_or(|exist| !part.partitions().is_subset(exist))
                };
                if plan.parts.iter().any(lacks) {
                    lacking = Some(kept);
                    return Err(TransactionFailure::GivenUp);
                }
                write::apply(session, &plan, &changes, &kept, &mut batch)?;
                expired += plan.expired;
            }
            replaced = batch.finish(session)?;
            Ok(BatchResult::Now { expired })
        });
        if let Some(kept) = lacking {
            return Ok(Attempt::Lacks(kept));
        }
        let done = done?;
        for (table, rows) in replaced {
            *self.replaced.entry(table).or_default() += rows;
        }
        Ok(Attempt::Done(done))
    }
}

impl Store for Postgres {
    fn place(&self) -> String {
        self.link.place().to_owned()
    }

    fn abandonment(&self) -> Abandonment {
        self.link.abandonment.clone()
    }

    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError> {
        let kept = self.link.transaction(schema::retentions)?;
        Ok(kept.into_iter().map(|kept| kept.retention).collect())
    }

    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError> {
        self.link.transaction(|session| schema::retain(session, retentions))
    }

    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError> {
        self.link.transaction(|session| write::series(session, wanted, limit))
    }

    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError> {
        self.link.transaction(|session| read::find(session, selector))
    }

    fn series_count(&mut self) -> Result<i64, StoreError> {
        self.link.transaction(|session| {
            let rows = session.query("SELECT count(*) FROM series", &[])?;
            rows.first().map_or(Ok(0), |row| Ok(row.try_get(0)?))
        })
    }

    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError> {
        self.link.transaction(|session| write::lanes(session, names))
    }

    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError> {
        self.link.transaction(|session| lanes::states(session, lanes))
    }

    fn rrd(&mut self, series: i64) -> Result<Option<rrd::Rrd>, StoreError> {
        self.link.transaction(|session| read::rrd(session, series))
    }

    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError> {
        self.link.transaction(|session| read::last_batch(session, writer))
    }

    fn has_request(&mut self, key: Writer) -> Result<bool, StoreError> {
        self.link.transaction(|session| requests::has(session, key))
    }

    fn forget_requests(&mut self, until_us: i64) -> Result<u64, StoreError> {
        self.link.transaction(|session| requests::forget(session, until_us))
    }

    fn known_times(&mut self) -> Result<KnownTimes, StoreError> {
        self.link.transaction(schema::known_times)
    }

    fn apply_all(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
    ) -> Result<BatchResult, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            match self.retry(|store, way| store.attempt(claims, source, way))? {
                Attempt::Done(applied) => {
                    self.vacuum();
                    return Ok(applied);
                }
                Attempt::Lacks(kept) => self.make_partitions(&kept, source)?,
            }
        }
        Err(StoreError::Busy { place: self.place() })
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError> {
        self.link.transaction(|session| read::slots(session, step, series, from_us, until_us))
    }

    fn scan(
        &mut self,
        step: Step,
        from_us: i64,
        until_us: i64,
        take: &mut Take<'_>,
    ) -> Result<i64, StoreError> {
        if !self.is_retained(step)? {
            return Ok(i64::MIN);
        }
        self.link.transaction(|session| scan::scan(session, step, from_us, until_us, take))
    }

    fn digests(&mut self, step: Step, from_us: i64, until_us: i64) -> Result<Digests, StoreError> {
        if !self.is_retained(step)? {
            return Ok(Digests::default());
        }
        self.link.transaction(|session| scan::digests(session, step, from_us, until_us))
    }

    fn recorder(&mut self) -> Result<String, StoreError> {
        let sql = "SELECT id::text FROM recorder";
        self.link.transaction(|session| Ok(session.transaction.query_one(sql, &[])?.try_get(0)?))
    }

    fn seal(&mut self, until_us: i64) -> Result<u64, StoreError> {
        self.resume = None;
        Ok(self.seal_while(until_us, Concurrency::Shared, &mut || true)?.sealed)
    }

    fn maintain_while(
        &mut self,
        now_us: i64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError> {
        let mut done = MaintenanceResult::default();
        if self.resume.is_none() {
            // Later parts of a round need not do it again.
            match self.upkeep(|session| schema::advance(session, now_us))? {
                Some(made) => done.made = made,
                None => return Ok(MaintenanceResult { is_elsewhere: true, ..done }),
            }
            while self.upkeep(schema::expire)? == Some(true) {
                done.dropped += 1;
                if !goes_on() {
                    return Ok(MaintenanceResult { is_partial: true, ..done });
                }
            }
            while self.upkeep(|session| requests::pack(session, now_us))? == Some(true) {
                if !goes_on() {
                    return Ok(MaintenanceResult { is_partial: true, ..done });
                }
            }
        }
        let until_us = now_us.saturating_sub(SEALED_AFTER_US);
        let sealed = self.seal_while(until_us, Concurrency::Alone, goes_on)?;
        Ok(MaintenanceResult { dropped: done.dropped, made: done.made, ..sealed })
    }
}
