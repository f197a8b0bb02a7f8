//! Series and slots in PostgreSQL, 14 or later.

mod error;
mod link;
mod packed;
mod read;
mod schema;
mod types;
mod write;

use std::collections::BTreeSet;
use std::fmt;

use series::{Accumulator, Lane, SlotKey, Step, rrd};

use self::link::Link;
use crate::plan::{Kept, Plan};
use crate::store::SEALED_AFTER_US;
use crate::{
    Applied, Changes, Maintained, NewSeries, NotMade, Packing, Retention, Selector, Series,
    SeriesLimit, Store, StoreError, Writer,
};

/// How often a batch is planned anew because somebody changed the retentions meanwhile.
const PLANS_MAX: usize = 10;

/// A PostgreSQL database with series, in the first schema of the user's `search_path`.
///
/// Every call is one transaction that is on the server's disk when it returns,
/// unless the server itself runs with `fsync = off`. A connection that was lost
/// is made anew by the next call. Any number of processes may write at the same time.
pub struct Postgres {
    link: Link,
    packing: Packing,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("place", &self.link.place()).finish()
    }
}

/// How often something is tried that gave way to another writer.
const TRIES_MAX: usize = 5;

/// What became of an attempt to apply a batch.
enum Attempt {
    Done(Applied),
    /// The retentions were changed after the batch had been planned.
    PlanAnew,
}

impl Postgres {
    /// Connects to the database that a URL names, and brings it to the present schema.
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Unreachable`], [`StoreError::NotLetIn`],
    /// [`StoreError::NoDatabase`], [`StoreError::Denied`], and [`StoreError::Newer`]
    /// where a newer version made the schema.
    pub fn open(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres { link: Link::new(url)?, packing: Packing::USUAL };
        let found = store.link.transaction(schema::migrate)?;
        store.check_version(found)?;
        Ok(store)
    }

    /// Connects for reading only; changes nothing.
    ///
    /// # Errors
    /// Those of [`Postgres::open`], and [`StoreError::NoSeries`].
    pub fn open_read_only(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres { link: Link::new(url)?, packing: Packing::USUAL };
        let found = store.link.transaction(schema::version)?;
        store.check_version(found)?;
        if found == 0 { Err(StoreError::NoSeries(store.place())) } else { Ok(store) }
    }

    /// The same store, packing other slots than is usual.
    #[must_use]
    pub fn with_packing(self, packing: Packing) -> Postgres {
        Postgres { packing, ..self }
    }

    /// Packs the rows of a span, if its partition is still there.
    fn seal_span(&mut self, kept: &Kept, span_us: i64) -> Result<u64, StoreError> {
        let packing = self.packing;
        let step_us = kept.step().us();
        self.link.transaction(|session| {
            session.transaction.query_one(schema::WRITING, &[])?;
            if !schema::partitions(session, step_us)?.contains(&kept.partition_of(span_us)) {
                return Ok(0);
            }
            let (left, sealed) = packed::seal(session, kept, span_us, packing)?;
            write::add_unpacked(session, step_us, &left)?;
            Ok(sealed.saturating_sub(left.len() as u64))
        })
    }

    /// Does what may have to give way to another writer, some times over.
    fn insist<T>(
        &mut self,
        mut work: impl FnMut(&mut Postgres) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            match work(self) {
                Err(StoreError::Busy { .. }) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    fn check_version(&self, found: i64) -> Result<(), StoreError> {
        if found > schema::KNOWN {
            return Err(StoreError::Newer { place: self.place(), found, known: schema::KNOWN });
        }
        Ok(())
    }

    /// Makes the partitions that a plan needs, ahead of its transaction: nobody
    /// may write while a table is made.
    fn make_partitions(&mut self, plan: &Plan<'_>) -> Result<(), StoreError> {
        let wanted: Vec<(Kept, BTreeSet<i64>)> =
            plan.parts.iter().map(|part| (part.kept, part.partitions())).collect();
        let missing = self.link.transaction(|session| {
            let mut missing = false;
            for (kept, starts) in &wanted {
                missing |= !starts.is_subset(&schema::partitions(session, kept.step().us())?);
            }
            Ok(missing)
        })?;
        if missing {
            self.link.transaction(|session| schema::make_partitions(session, &wanted))?;
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<Attempt, StoreError> {
        let kept = self.link.transaction(schema::retentions)?;
        let plan = Plan::new(changes, &kept)?;
        self.make_partitions(&plan)?;
        let packing = self.packing;
        self.link.transaction(|session| {
            session.transaction.query_one(schema::WRITING, &[])?;
            if schema::retentions(session)? != kept {
                return Ok(Attempt::PlanAnew);
            }
            if !write::claim(session, writer, seq)? {
                return Ok(Attempt::Done(Applied::Before));
            }
            write::apply(session, &plan, changes, &kept, packing)?;
            Ok(Attempt::Done(Applied::Now { expired: plan.expired }))
        })
    }
}

impl Store for Postgres {
    fn place(&self) -> String {
        self.link.place().to_owned()
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

    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError> {
        self.link.transaction(|session| write::lanes(session, names))
    }

    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError> {
        self.link.transaction(|session| read::lane_states(session, lanes))
    }

    fn rrd(&mut self, series: i64) -> Result<Option<rrd::Rrd>, StoreError> {
        self.link.transaction(|session| read::rrd(session, series))
    }

    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError> {
        self.link.transaction(|session| read::last_batch(session, writer))
    }

    fn apply(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<Applied, StoreError> {
        for _ in 0..PLANS_MAX {
            let attempt = self.insist(|store| store.attempt(writer, seq, changes))?;
            if let Attempt::Done(applied) = attempt {
                return Ok(applied);
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

    fn seal(&mut self, until_us: i64) -> Result<u64, StoreError> {
        let mut sealed = 0;
        for kept in self.link.transaction(schema::retentions)? {
            let mut from_us = i64::MIN;
            while let Some(span_us) = self
                .link
                .transaction(|session| packed::next_with_rows(session, &kept, from_us, until_us))?
            {
                from_us = kept.span_end(span_us);
                if from_us > until_us {
                    break;
                }
                sealed += self.insist(|store| store.seal_span(&kept, span_us))?;
            }
        }
        Ok(sealed)
    }

    fn maintain(&mut self, now_us: i64) -> Result<Maintained, StoreError> {
        let maintained = self.link.transaction(|session| schema::maintain(session, now_us))?;
        let sealed = self.seal(now_us.saturating_sub(SEALED_AFTER_US))?;
        Ok(Maintained { sealed, ..maintained })
    }
}
